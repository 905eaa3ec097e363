//! What is said while a lock is waited for: who holds it and where in the queue one stands, or why the
//! service refuses the request, which is repeated.

use std::convert::Infallible;
use std::io::{self, IsTerminal as _};
use std::time::Duration;

use fencepost_client::{Client, Error, proto};
use indicatif::ProgressBar;

use super::spinner::spinner;
use super::{identity, say};
use crate::blocked;
use crate::failure::explained;
use crate::words::plain;

/// How often to look on a terminal, where one line is written over and over.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often otherwise, where every change is a line.
const LOOK_EVERY_PLAIN: Duration = Duration::from_secs(10);
/// A lock that is free is granted well before this, and nothing is said.
const FIRST_LOOK: Duration = Duration::from_millis(300);

/// Looks at the lock and says what it sees, until dropped. `ttl` is that of the lock.
pub(crate) async fn show(client: &Client, name: &str, ttl: Duration) -> Infallible {
    let mut progress = Progress::new();
    let mut pause = FIRST_LOOK;
    let mut was_absent = false;
    loop {
        tokio::time::sleep(pause).await;
        pause = if progress.on_terminal { LOOK_EVERY } else { LOOK_EVERY_PLAIN };
        // Waiting goes on whatever comes of looking.
        let place = match client.get_lock(name).await {
            Ok(lock) => Place::of(&lock, client.name()),
            Err(error) => {
                progress.refused(name, &error);
                continue;
            }
        };
        let is_absent = matches!(place, Place::Nowhere);
        match place {
            Place::Holds => {}
            Place::Waits(line) => progress.waits(line),
            Place::Nowhere if was_absent => match refusal(client, ttl).await {
                Some(error) => progress.refused(name, &error),
                None if is_absent_now(client, name).await => progress.not_queued(name),
                None => {}
            },
            // The request may just be on its way.
            Place::Nowhere => pause = LOOK_EVERY,
        }
        was_absent = is_absent;
    }
}

/// Why the service takes no request for a lock. The client repeats a refused acquire without telling of
/// it, so a lease is asked for, with which each acquire begins.
async fn refusal(client: &Client, ttl: Duration) -> Option<Error> {
    match client.lease(ttl).without_keep_alive().await {
        Ok(lease) => {
            // Otherwise it ends when its TTL is over.
            let _ = lease.revoke().await;
            None
        }
        Err(error) => Some(error),
    }
}

/// Whether the client still has no place. Meanwhile the service may have taken its request.
async fn is_absent_now(client: &Client, name: &str) -> bool {
    let lock = client.get_lock(name).await;
    lock.is_ok_and(|lock| Place::of(&lock, client.name()) == Place::Nowhere)
}

/// What was said last; says what has changed.
struct Progress {
    on_terminal: bool,
    bar: Option<ProgressBar>,
    /// The last line about a wait in the queue.
    told: String,
    /// Why the service did not take the request, when that was told last; until it does.
    reason: Option<String>,
}

impl Progress {
    fn new() -> Progress {
        let on_terminal = io::stderr().is_terminal();
        Progress { on_terminal, bar: None, told: String::new(), reason: None }
    }

    /// The request stands in the queue.
    fn waits(&mut self, line: String) {
        self.reason = None;
        if self.on_terminal || line != self.told {
            self.tell(&line, "");
            self.told = line;
        }
    }

    /// The service refuses the request, or is out of reach.
    fn refused(&mut self, name: &str, error: &Error) {
        let reason = match error {
            Error::Rejected { retryable: false, .. } => return,
            Error::Rejected { code, .. } => code.as_str(),
            // No answer is no news about a refusal.
            _ if self.reason.is_some() => return,
            _ => "",
        };
        let (why, remedy) = explained(error);
        self.not_taken(name, reason, &why, &remedy);
    }

    fn not_queued(&mut self, name: &str) {
        let why = "the service has not put the request into the queue";
        self.not_taken(name, "not queued", why, "look with `fencepost show` who waits");
    }

    fn not_taken(&mut self, name: &str, reason: &str, why: &str, remedy: &str) {
        if self.reason.as_deref() == Some(reason) {
            return;
        }
        self.reason = Some(reason.to_owned());
        let line = format!("waiting for {}: {}; the request is repeated", plain(name), plain(why));
        self.tell(&line, remedy);
    }

    fn tell(&mut self, line: &str, remedy: &str) {
        match self.on_terminal {
            true => self.bar.get_or_insert_with(spinner).set_message(line.to_owned()),
            false if remedy.is_empty() => say(line),
            false => say(&format!("{line}\n{remedy}")),
        }
    }
}

/// Where a client stands.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    Holds,
    /// In the queue, and this is to be said.
    Waits(String),
    /// It neither holds the lock nor waits for it.
    Nowhere,
}

impl Place {
    fn of(lock: &proto::Lock, client: &str) -> Place {
        if lock.holders.iter().any(|holder| holder.client_id == client) {
            return Place::Holds;
        }
        line(lock, client).map_or(Place::Nowhere, Place::Waits)
    }
}

/// Nothing if this client does not wait.
fn line(lock: &proto::Lock, client: &str) -> Option<String> {
    let waiters = &lock.waiters;
    let place = waiters.iter().find(|waiter| waiter.client_id == client).map(|own| own.position);
    // Only so many are listed.
    if place.is_none() && lock.waiters_total <= u64::try_from(waiters.len()).unwrap_or(u64::MAX) {
        return None;
    }
    if let Some(key) = blocked::by(!lock.holders.is_empty(), &lock.foreign) {
        let (name, why, remedy) = (plain(&lock.name), blocked::why(key), blocked::remedy(key));
        return Some(format!("waiting for {name}: {why}; {remedy}"));
    }
    let shown = |holder: &proto::Holder| identity::shown(&holder.client_id, &holder.metadata);
    let holder = match &lock.holders[..] {
        [] => "free soon".to_owned(),
        [one] => format!("held by {}", shown(one)),
        [first, rest @ ..] => format!("held by {} and {} more", shown(first), rest.len()),
    };
    let (name, total) = (plain(&lock.name), lock.waiters_total);
    Some(match place {
        Some(place) => format!("waiting for {name}: {holder}; {place} of {total} in line"),
        None => format!("waiting for {name}: {holder}; {total} in line"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock() -> proto::Lock {
        let holder = proto::Holder { client_id: "a".to_owned(), ..Default::default() };
        let waiter = |position, client: &str| proto::Waiter {
            position,
            client_id: client.to_owned(),
            ..Default::default()
        };
        proto::Lock {
            name: "job".to_owned(),
            holders: vec![holder],
            waiters: vec![waiter(1, "b"), waiter(2, "c")],
            waiters_total: 2,
            ..Default::default()
        }
    }

    #[test]
    fn it_says_who_holds_and_where_one_stands() {
        let told = line(&lock(), "c");
        assert_eq!(told.as_deref(), Some("waiting for job: held by a; 2 of 2 in line"));
    }

    #[test]
    fn what_a_holder_says_of_itself_is_shown() {
        let mut lock = lock();
        lock.holders[0].metadata = b"alice@web1, pid 7\n".to_vec().into();
        let told = line(&lock, "c").expect("it waits");
        assert!(told.contains("held by a (alice@web1, pid 7\\n);"), "{told}");
    }

    #[test]
    fn a_plain_key_in_the_way_is_named_with_what_clears_it() {
        let mut lock = lock();
        lock.holders.clear();
        lock.foreign = vec!["job/1".to_owned()];
        let told = line(&lock, "c").expect("it waits");
        assert!(told.contains("the key job/1") && told.contains("kv del job/1"), "{told}");
        assert!(!told.contains("free soon") && !told.contains(" of "), "{told}");
    }

    #[test]
    fn who_does_not_wait_hears_nothing() {
        assert_eq!(line(&lock(), "a"), None);
        assert_eq!(Place::of(&lock(), "a"), Place::Holds);
        assert_eq!(Place::of(&lock(), "other"), Place::Nowhere);
    }

    #[test]
    fn refusal_is_told_once_until_its_reason_changes() {
        let mut progress =
            Progress { on_terminal: false, bar: None, told: String::new(), reason: None };
        let refused = |code: &str| Error::Rejected {
            code: code.to_owned(),
            message: "no".to_owned(),
            retryable: true,
        };
        let late = Error::Unavailable { message: "the answer did not come in time".to_owned() };
        let mut reasons = Vec::new();
        for error in [refused("disk_full"), late.clone(), refused("no_leader"), late] {
            progress.refused("job", &error);
            reasons.push(progress.reason.clone().unwrap_or_default());
        }
        assert_eq!(reasons, ["disk_full", "disk_full", "no_leader", "no_leader"]);
        progress.waits("waiting".to_owned());
        assert_eq!(progress.reason, None, "the next refusal is news");
    }
}
