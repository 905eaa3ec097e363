//! A fenced data store: `store ADDRESS FILE [CLUSTER JWKS_FILE]`.
//!
//! With a cluster and a file of its keys, only signed tokens are accepted. Prints the address it
//! listens on, and serves until it is killed.

use std::env;
use std::error::Error;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use fencepost_fence::signed::{KeySource, Verifier};
use fencepost_fence::store::{Signatures, Store, StoreConfig};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("store: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let (address, file, keys) = match args.as_slice() {
        [address, file] => (address, file, None),
        [address, file, cluster, jwks] => (address, file, Some((cluster, jwks))),
        _ => return Err("usage: store ADDRESS FILE [CLUSTER JWKS_FILE]".into()),
    };
    let mut config = StoreConfig::new(file);
    if let Some((cluster, jwks)) = keys {
        let verifier = Verifier::new(cluster, KeySource::file(jwks)?);
        config.signatures = Signatures::Required(Arc::new(verifier));
    }
    let store = Store::open(&config)?;
    let listener = TcpListener::bind(address).await?;
    writeln!(io::stdout(), "listening on {}", listener.local_addr()?)?;
    Ok(store.serve_until(listener, std::future::pending()).await?)
}
