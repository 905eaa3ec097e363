//! From the wish for a lock to its release: waiting, holding, giving back.
//!
//! Guarantees: a wait that is broken off leaves nothing in the queue, as far as the service can be
//! reached; a lock is given back only when nothing of the command runs any more.

use std::ffi::OsString;
use std::pin::pin;
use std::time::Duration;

use fencepost_client::{Client, Error, Guard, LockBuilder, Loss, Lost, Released};
use rustix::process::{Pid, WaitStatus};
use serde::Serialize;

use super::forward::Signals;
use super::supervise::{Ended, Order, Supervisor};
use super::timeline::{Moment, Timeline};
use super::{LOCK_LOST, OWN_FAILURE, SIGNAL_BASE, identity, progress, say, stdout};
use crate::blocked;
use crate::failure::{Failure, Told as _};
use crate::ids::LeaseId;
use crate::output::Output;
use crate::words::{length, plain};

/// How long the line of a holder without a command may still take when the lock has been given back.
const LINE_TIMEOUT: Duration = Duration::from_millis(100);

/// What is wanted.
pub(crate) struct Wish {
    pub(crate) name: String,
    pub(crate) timeline: Timeline,
    pub(crate) quiet: bool,
    /// The exit code if the lock is not to be had.
    pub(crate) conflict: u8,
    pub(crate) command: Vec<OsString>,
    pub(crate) output: Output,
}

/// What a holder without a command is told.
#[derive(Serialize)]
struct Document<'a> {
    name: &'a str,
    key: &'a str,
    token: i64,
    lease: LeaseId,
    signed_token: Option<&'a str>,
}

impl Wish {
    /// Waits, holds and gives back. The exit code.
    pub(crate) async fn fulfil(self, client: Client, lock: LockBuilder) -> anyhow::Result<u8> {
        let mut signals = Signals::listen()?;
        let outcome = self.with_lock(&client, lock, &mut signals).await;
        // What was given back or broken off is on its way; the service should hear of it.
        client.close().await;
        outcome
    }

    async fn with_lock(
        &self,
        client: &Client,
        lock: LockBuilder,
        signals: &mut Signals,
    ) -> anyhow::Result<u8> {
        let lock = lock.ttl(self.timeline.ttl()).safety_window(self.timeline.window());
        let guard = tokio::select! {
            acquired = lock.acquire() => match acquired {
                Ok(guard) => guard,
                Err(error) => return self.not_held(client, &error).await,
            },
            signal = signals.next() => return Ok(by_signal(signal.as_raw())),
            never = progress::show(client, &self.name, self.timeline.ttl()), if !self.quiet => match never {},
        };
        match self.command.is_empty() {
            true => self.hold(guard, signals).await,
            false => self.run(guard, signals).await,
        }
    }

    async fn not_held(&self, client: &Client, error: &Error) -> anyhow::Result<u8> {
        let is_recovering = matches!(error, Error::Rejected { code, .. } if code == "recovering");
        let is_conflict = is_recovering
            || matches!(error, Error::Timeout | Error::Denied { .. } | Error::Ended { .. });
        let doing = format!("get the lock {}", plain(&self.name));
        if !is_conflict {
            return Err(Failure::client(doing, error).into());
        }
        if !self.quiet {
            let failure = match error {
                _ if is_recovering => recovering(client, &doing).await,
                Error::Timeout | Error::Denied { .. } => self.in_the_way(client, &doing).await,
                _ => None,
            };
            crate::tell(&failure.unwrap_or_else(|| Failure::client(doing, error)).into());
        }
        Ok(self.conflict)
    }

    /// Who has the lock, as well as it can be said now. Nothing if that has changed meanwhile.
    async fn in_the_way(&self, client: &Client, doing: &str) -> Option<Failure> {
        let lock = client.get_lock(&self.name).await.ok()?;
        let what = format!("cannot {doing}");
        if let Some(key) = blocked::by(!lock.holders.is_empty(), &lock.foreign) {
            return Some(Failure::new(what, blocked::why(key), blocked::remedy(key)));
        }
        let holder = lock.holders.first()?;
        let why = format!("it is held by {}", identity::shown(&holder.client_id, &holder.metadata));
        Some(Failure::new(what, why, "wait for longer, or look with `fencepost show` who waits"))
    }

    /// Holds the lock until somebody wants the process to end.
    async fn hold(&self, guard: Guard, signals: &mut Signals) -> anyhow::Result<u8> {
        let (key, token) = (guard.key(), guard.token());
        let lease = LeaseId(guard.lease_id());
        let signed_token = self.signed_token(&guard);
        let document = Document { name: &self.name, key, token: token.get(), lease, signed_token };
        let line = self.output.rendered(&document, &format!("{key} {token}"))?;
        let mut line = pin!(stdout::write(line)?);
        let mut is_written = false;
        loop {
            tokio::select! {
                biased;
                written = &mut line, if !is_written => {
                    written?;
                    is_written = true;
                }
                _ = signals.next() => break,
                loss = guard.lost() => return Ok(self.lost(guard, loss).await),
            }
        }
        let released = guard.release().await;
        // Now it delays only the end of this process.
        if !is_written && tokio::time::timeout(LINE_TIMEOUT, line).await.is_err() {
            say("standard output was not read: the key and the token were not written");
        }
        match released.told(format!("release the lock {}", plain(&self.name)))? {
            Released::AfterLoss => {
                say(&format!("the lock {} had been lost before", plain(&self.name)));
                Ok(LOCK_LOST)
            }
            _ => Ok(0),
        }
    }

    /// The signed token. A server that cannot sign is no reason not to hold the lock: what needs
    /// the token refuses without it.
    fn signed_token<'a>(&self, guard: &'a Guard) -> Option<&'a str> {
        let signed = guard.signed_token();
        if signed.is_none() && !self.quiet {
            say("the server cannot sign tokens now: FENCEPOST_SIGNED_TOKEN is not set");
        }
        signed
    }

    /// Runs the command.
    async fn run(&self, guard: Guard, signals: &mut Signals) -> anyhow::Result<u8> {
        signals.listen_for_command()?;
        let signed_token = self.signed_token(&guard).map(str::to_owned);
        let order = Order {
            command: &self.command,
            env: vec![
                ("FENCEPOST_LOCK", Some(self.name.clone())),
                ("FENCEPOST_TOKEN", Some(guard.token().to_string())),
                ("FENCEPOST_LEASE", Some(LeaseId(guard.lease_id()).to_string())),
                ("FENCEPOST_SIGNED_TOKEN", signed_token),
            ],
            timeline: self.timeline,
        };
        let ended = match Supervisor::start(&guard, &order) {
            Ok(supervisor) => supervisor.run(signals).await,
            Err(error) => Err(error),
        };
        match ended {
            Ok(Ended::Itself(status)) => Ok(self.give_back(guard, exit_code(status)).await),
            Ok(Ended::Lost(loss)) => Ok(self.lost(guard, loss).await),
            Ok(Ended::Unkillable(left)) => Ok(self.leave(guard, &left)),
            Err(error) => {
                let why = format!("a helper process could not be started: {error}");
                let remedy = "look whether the system has room for more processes";
                Err(Failure::new("cannot run the command", why, remedy).into())
            }
        }
    }

    /// The command has ended by itself.
    async fn give_back(&self, guard: Guard, code: u8) -> u8 {
        let deadline = Moment::deadline(&guard);
        match guard.release().await {
            Ok(Released::AfterLoss) => {
                say(&format!(
                    "the lock {} had been lost before the command ended; somebody else may have had it",
                    plain(&self.name)
                ));
                LOCK_LOST
            }
            Ok(_) => code,
            Err(error) => {
                let left = deadline.since_boot().saturating_sub(Moment::now().since_boot());
                say(&format!(
                    "the lock {} could not be given back: {error}\n\
                     it will be free when its lease ends, about {} s from now",
                    plain(&self.name),
                    left.as_secs() + 1
                ));
                code
            }
        }
    }

    /// The lock was lost, and nothing of the command is left.
    async fn lost(&self, guard: Guard, loss: Loss) -> u8 {
        say(&Lost { name: plain(&self.name), loss }.to_string());
        // Nobody needs to wait for the lease to run out.
        let _ = guard.release().await;
        LOCK_LOST
    }

    /// These processes run on, whatever is done.
    fn leave(&self, guard: Guard, left: &[Pid]) -> u8 {
        let pids: Vec<String> = left.iter().map(|pid| pid.as_raw_pid().to_string()).collect();
        let name = plain(&self.name);
        say(&format!(
            "these processes cannot be ended: {}\n\
             the lock {name} is not given back; it passes on when its lease ends",
            pids.join(" ")
        ));
        // Dropping it would give the lock back while they run.
        std::mem::forget(guard);
        LOCK_LOST
    }
}

/// After a restore, locks are granted again at a moment of log time, which says nothing to people.
async fn recovering(client: &Client, doing: &str) -> Option<Failure> {
    let left = client.status().await.ok()?.grants_in_ms;
    let why = "the cluster was restored from a backup, and leases of before it may still be held";
    let remedy =
        format!("locks are granted again in {}; look with `fencepost status`", length(left));
    Some(Failure::new(format!("cannot {doing}"), why, remedy))
}

fn exit_code(status: WaitStatus) -> u8 {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(OWN_FAILURE),
        (None, Some(signal)) => by_signal(signal),
        (None, None) => OWN_FAILURE,
    }
}

/// As shells say it.
fn by_signal(signal: i32) -> u8 {
    u8::try_from(signal).map_or(OWN_FAILURE, |signal| signal.saturating_add(SIGNAL_BASE))
}

#[cfg(test)]
mod tests {
    use rustix::process::Signal;

    use super::*;

    #[test]
    fn a_signal_is_told_as_shells_do() {
        assert_eq!(by_signal(Signal::TERM.as_raw()), 143);
        assert_eq!(by_signal(Signal::KILL.as_raw()), 137);
    }
}
