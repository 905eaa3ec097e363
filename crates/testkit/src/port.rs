//! A port for a process that a test starts and may start again.
//!
//! Guarantees: no port is handed out twice in one process, and none to two processes at once. A port from
//! the system (port 0) could be taken by another test while the first server on it is down.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::{Mutex, PoisonError};

/// Ports that the system does not give to outgoing connections.
const FIRST: u16 = 10_000;
const PER_PART: u16 = 20;
const PARTS: u16 = 1_000;

/// The parts of this process.
static PARTS_HELD: Mutex<Parts> = Mutex::new(Parts { held: Vec::new(), next: 0, left: 0 });

struct Parts {
    /// A name that only one process at a time can bind. It is free again when the process has ended.
    held: Vec<UnixListener>,
    /// The next port of the last part, and how many are left in it.
    next: u16,
    left: u16,
}

/// A free port of this machine's loopback address, for this process alone.
///
/// # Panics
///
/// If there is none left.
#[must_use]
pub fn free_port() -> u16 {
    let mut parts = PARTS_HELD.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if parts.left == 0 {
            let first = u16::try_from(std::process::id() % u32::from(PARTS)).expect("it is small");
            let part = (0..PARTS).map(|step| (first + step) % PARTS).find_map(claim);
            let (part, name) = part.expect("some part of the range is free");
            parts.held.push(name);
            parts.next = FIRST + part * PER_PART;
            parts.left = PER_PART;
        }
        let port = parts.next;
        parts.next += 1;
        parts.left -= 1;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Takes a part of the range, if no process has it.
fn claim(part: u16) -> Option<(u16, UnixListener)> {
    let name = SocketAddr::from_abstract_name(format!("fencepost-test-ports-{part}")).ok()?;
    Some((part, UnixListener::bind_addr(&name).ok()?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_port_is_handed_out_twice() {
        let threads: Vec<_> = (0..4)
            .map(|_| std::thread::spawn(|| (0..50).map(|_| free_port()).collect::<Vec<_>>()))
            .collect();
        let ports = threads.into_iter().flat_map(|thread| thread.join().expect("it ends"));
        assert_eq!(ports.collect::<BTreeSet<u16>>().len(), 200);
    }

    #[test]
    fn a_part_belongs_to_one_process() {
        let (part, _name) = (0..PARTS).find_map(claim).expect("some part is free");
        assert!(claim(part).is_none());
    }
}
