//! How many files and connections this process may have open.
//!
//! Owns: the division of the descriptors among clients, other members and the files of the log.
//! Guarantees: with as many connections as it allows, there are descriptors left for the log and for
//! snapshots. Refuses: to serve clients with so few that nothing would be left.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More than a server ever uses. Some systems refuse to set what they call no limit.
const LIMIT_MAX: u64 = 1 << 20;

/// What ports, the log, snapshots that are made, sent and received, backups and small files take.
const STORAGE: u64 = 48;

/// What one core takes for a runtime that serves connections: its poll, its wake-up, and the like.
const PER_CORE: u64 = 4;

/// Connections of other members: at most so many, and at least so many. A member needs one or two.
const PEERS_MAX: u64 = 256;
const PEERS_MIN: u64 = 8;

/// What a connection of another member takes: it is read by one thread and closed by another.
const PER_PEER: u64 = 2;

/// With fewer connections a server is of no use.
const CLIENTS_MIN: u64 = 8;

/// Lets this process open as many files as it may: the soft limit becomes the hard one. The limit then.
pub fn raise_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.unwrap_or(LIMIT_MAX).min(LIMIT_MAX);
    if current.is_some_and(|current| current < wanted) {
        let raised = Rlimit { current: Some(wanted), maximum };
        // If the system refuses, the old limit counts.
        let _ = setrlimit(Resource::Nofile, raised);
    }
    limit()
}

/// How many files this process may have open.
pub fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(LIMIT_MAX).min(LIMIT_MAX)
}

/// How many connections of clients leave enough for all else; nothing if there are too few. To be asked
/// before anything is opened but the logs of the process.
pub fn client_connections() -> Option<usize> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    clients(limit(), open(), cores)
}

/// How many connections of other members there may be.
pub(super) fn peer_connections() -> usize {
    usize::try_from(peers(limit())).unwrap_or(usize::MAX)
}

fn peers(limit: u64) -> u64 {
    (limit / 8).clamp(PEERS_MIN, PEERS_MAX)
}

fn clients(limit: u64, open: u64, cores: u64) -> Option<usize> {
    let others = open + STORAGE + PER_CORE * cores + PER_PEER * peers(limit);
    let left = limit.checked_sub(others).filter(|&left| left >= CLIENTS_MIN)?;
    Some(usize::try_from(left).unwrap_or(usize::MAX))
}

/// How many are open now. Whoever has started this process may have left some open.
fn open() -> u64 {
    std::fs::read_dir("/dev/fd").map_or(STORAGE, |names| names.count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_the_log() {
        for limit in [128, 256, 1_024, 65_536, LIMIT_MAX] {
            for cores in [1, 2, 16] {
                let Some(clients) = clients(limit, 24, cores) else { continue };
                let used = clients as u64 + PER_PEER * peers(limit) + PER_CORE * cores + 24;
                assert!(used + STORAGE <= limit, "{limit}: {clients} clients");
            }
        }
        assert!(clients(1_024, 24, 2).is_some_and(|clients| clients > 512));
        assert_eq!(clients(64, 24, 2), None, "too few to serve a client");
    }
}
