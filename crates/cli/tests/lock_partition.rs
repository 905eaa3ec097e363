//! The wire between a command's supervisor and the servers is cut, and nothing of the command is left when
//! another one gets the lock. The cluster goes on, so the order of the two is what counts, and no clock.

mod lock_support;

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use lock_support::{Running, Server};

/// A wire to a server. Once it is cut, everything is swallowed on it and nothing ends.
struct Wire {
    address: SocketAddr,
    is_cut: Arc<AtomicBool>,
}

impl Wire {
    fn to(server: &Server) -> Wire {
        let target = server.endpoint().trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").expect("there are free ports");
        let address = listener.local_addr().expect("it is bound");
        let is_cut = Arc::<AtomicBool>::default();
        let cut = Arc::clone(&is_cut);
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let far = TcpStream::connect(&target).expect("the server listens");
                let ends = || (near.try_clone(), far.try_clone());
                let (Ok(near), Ok(far)) = ends() else { return };
                let (Ok(back), Ok(forth)) = ends() else { return };
                pass_on(near, far, &cut);
                pass_on(forth, back, &cut);
            }
        });
        Wire { address, is_cut }
    }

    fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, cut: &Arc<AtomicBool>) {
    let cut = Arc::clone(cut);
    thread::spawn(move || {
        let mut bytes = [0; 4 << 10];
        loop {
            match from.read(&mut bytes) {
                Ok(0) => return,
                Ok(_) if cut.load(Ordering::SeqCst) => {}
                // The other end may be gone by now.
                Ok(read) if to.write_all(&bytes[..read]).is_err() => return,
                Ok(_) => {}
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    });
}

/// A child and a grandchild that take no notice of TERM, and one that has left the group. All have a file open
/// that is locked until the last of them has ended.
const SCATTERED: &str = "trap '' TERM; exec 9> held; flock 9; setsid sleep 600 & \
                         sh -c 'sleep 600 & sleep 600' & echo up; wait";
/// What the next holder does first.
const LOOKS: &str = "flock -n held echo alone || echo together";

// Requirements: S2-006, S2-021.
#[test]
fn a_partition_ends_the_command_before_the_next_holds() {
    let server = Server::start();
    let wire = Wire::to(&server);
    let mut first = server.command(&["lock", "job", "--ttl", "3s", "--", "sh", "-c", SCATTERED]);
    first.env("FENCEPOST_ENDPOINTS", format!("http://{}", wire.address));
    let mut first = Running::start(first);
    assert_eq!(first.line(), "up");
    let next = server.run(&["lock", "job", "--", "sh", "-c", LOOKS]);
    next.told("waiting for job");
    wire.cut();
    assert_eq!(next.line(), "alone");
    assert_eq!(first.code(), 122);
    let told = first.rest_told().join("\n");
    assert!(told.contains("the lock job was lost: no renewal was confirmed in time"), "{told}");
}
