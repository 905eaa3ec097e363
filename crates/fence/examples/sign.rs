//! Signs a token as the lock service does: `sign KEY_FILE CLUSTER LOCK TOKEN`.
//!
//! Prints the public keys on one line and the signed token on the next. The key file is made if
//! it is not there.

use std::env;
use std::error::Error;
use std::io::{self, Write as _};

use fencepost_fence::signed::{Clock as _, Grant, PublicKey, Signer, SystemClock};
use fencepost_fence::{Presented, Token};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [key_file, cluster, lock, token] = args.as_slice() else {
        return Err("usage: sign KEY_FILE CLUSTER LOCK TOKEN".into());
    };
    let token: Token = token.parse()?;
    let signer = Signer::open(key_file)?;
    let grant = Grant {
        cluster,
        incarnation: 0,
        lock,
        presented: Presented::exclusive(token),
        lease: "1",
        holder: "example",
        revision: token.get(),
        audience: &[],
        expires_at: None,
    };
    let signed = signer.sign(&grant, SystemClock::new().unix_seconds());
    writeln!(io::stdout(), "{}\n{signed}", PublicKey::set([signer.public()]))?;
    Ok(())
}
