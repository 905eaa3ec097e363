//! What is said while a lock is waited for: who holds it, and where in the queue one stands.

use std::convert::Infallible;
use std::io::{self, IsTerminal as _};
use std::time::Duration;

use fencepost_client::{Client, proto};
use indicatif::{ProgressBar, ProgressStyle};

use super::{identity, say};
use crate::blocked;
use crate::words::plain;

/// How often to look on a terminal, where one line is written over and over.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often otherwise, where every change is a line.
const LOOK_EVERY_PLAIN: Duration = Duration::from_secs(10);
/// A lock that is free is granted well before this, and nothing is said.
const FIRST_LOOK: Duration = Duration::from_millis(300);
const SPIN_EVERY: Duration = Duration::from_millis(120);

/// Looks at the lock and says what it sees, until dropped.
pub(crate) async fn show(client: &Client, name: &str) -> Infallible {
    let on_terminal = io::stderr().is_terminal();
    let mut bar = None;
    let mut told = String::new();
    let mut pause = FIRST_LOOK;
    loop {
        tokio::time::sleep(pause).await;
        pause = if on_terminal { LOOK_EVERY } else { LOOK_EVERY_PLAIN };
        // Waiting goes on whatever comes of looking.
        let Ok(lock) = client.get_lock(name).await else { continue };
        let Some(line) = line(&lock, client.name()) else { continue };
        if on_terminal {
            bar.get_or_insert_with(spinner).set_message(line);
        } else if line != told {
            say(&line);
            told = line;
        }
    }
}

fn spinner() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(SPIN_EVERY);
    // Whatever is written after the wait must find an empty line.
    bar.with_finish(indicatif::ProgressFinish::AndClear)
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
    }
}
