//! What whoever serves clients holds of a node.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::board::{Board, Status};
use super::inbox::{Happening, Inbox, Lane};
use super::mail::{Delivery, Freshness, Line, Mailbox};
use super::notice::Observer;
use super::pile::{Pile, Taken};
use super::reads::Query;
use super::{edge, question};
use crate::io::{Answer, Change, ChangeError, Class, Input, MemberId, ProposeError, RequestId};
use crate::machine::Machine;
use crate::peer::{Ask, Told};
use crate::snapshot_store::SnapshotId;

/// A leader that is new hears from the others within this time, or not at all.
const NEW_LEADER: Duration = Duration::from_secs(3);

/// Redirects that are followed before giving up.
pub(super) const REDIRECTS_MAX: usize = 5;

/// The way to a node that runs. Cheap to copy.
#[derive(Clone)]
pub struct Handle {
    pub(super) inbox: Arc<Inbox>,
    pub(super) board: Arc<Board>,
    pub(super) lines: Arc<AtomicU64>,
    /// The node's directory, if it has a real one.
    pub(super) home: Option<Arc<PathBuf>>,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

impl Handle {
    /// Opens a way in whose answers go to this mailbox.
    #[must_use]
    pub fn line(&self, mailbox: Box<dyn Mailbox>) -> Line {
        let number = self.lines.fetch_add(1, Ordering::Relaxed);
        Line::open(number, Arc::clone(&self.inbox), mailbox)
    }

    /// A way in for somebody who waits for each answer.
    #[must_use]
    pub fn caller(&self) -> Caller {
        let answers = Arc::new(Pile::new(usize::MAX));
        let line = self.line(Box::new(Answers(Arc::clone(&answers))));
        Caller { line, answers }
    }

    /// Has what was brought worked off, unless somebody has done so.
    pub fn work(&self) {
        self.inbox.work();
    }

    /// Hears of everything from now on.
    pub fn observe(&self, observer: Box<dyn Observer>) {
        self.inbox.push_waiting(Lane::Control, Happening::Observe(observer));
    }

    /// The node's directory, if it has a real one.
    #[must_use]
    pub fn home(&self) -> Option<&Path> {
        self.home.as_ref().map(|home| home.as_path())
    }

    /// What the node is at.
    #[must_use]
    pub fn status(&self) -> Status {
        self.board.status()
    }

    /// What the node is at, for those who wait for it to change.
    #[must_use]
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// Has a command done, and waits for its outcome.
    ///
    /// # Errors
    ///
    /// See [`ProposeError`].
    pub fn propose_and_wait(&self, class: Class, command: Vec<u8>) -> Answer {
        self.caller().propose(class, command)
    }

    /// Puts a question to the state, and waits for the answer.
    ///
    /// # Errors
    ///
    /// See [`ProposeError`].
    pub fn read_and_wait<T: Send + 'static>(
        &self,
        freshness: Freshness,
        query: impl FnOnce(&Machine) -> T + Send + 'static,
    ) -> Result<T, ProposeError> {
        self.caller().read(freshness, query)
    }

    /// Changes the members, if this node leads, and waits for it.
    ///
    /// # Errors
    ///
    /// See [`ChangeError`].
    pub fn change(&self, change: Change) -> Result<(), ChangeError> {
        self.caller().change(change)
    }

    /// Changes the members, whoever leads. Tries again for `patience` while that can help.
    ///
    /// # Errors
    ///
    /// See [`ChangeError`].
    pub fn change_anywhere(&self, change: &Change, patience: Duration) -> Result<(), ChangeError> {
        const PAUSE: Duration = Duration::from_millis(50);
        let until = edge::now() + patience;
        loop {
            let result = self.try_anywhere(change);
            let passing = match result {
                Err(
                    ChangeError::NotLeader { .. }
                    | ChangeError::Pending
                    | ChangeError::HandingOver
                    | ChangeError::Indeterminate
                    | ChangeError::NotCaughtUp { .. },
                ) => true,
                Err(ChangeError::QuorumAtRisk) => self.board.role_age() < NEW_LEADER,
                _ => false,
            };
            if !passing || edge::now() >= until || self.board.status().ended.is_some() {
                return result;
            }
            edge::pause(edge::jittered(PAUSE));
        }
    }

    fn try_anywhere(&self, change: &Change) -> Result<(), ChangeError> {
        let leader = match self.change(change.clone()) {
            Err(ChangeError::NotLeader { leader: Some(leader) }) => leader,
            other => return other,
        };
        let status = self.board.status();
        let not_leader = || ChangeError::NotLeader { leader: Some(leader) };
        let member = status.members.members.get(&leader).ok_or_else(not_leader)?;
        let ask = Ask::Change { cluster_id: status.cluster_id, change: change.clone() };
        match question::ask(&member.peer, &ask) {
            Ok(Told::Changed { .. }) => Ok(()),
            Ok(Told::Unchanged(why)) => Err(why),
            Ok(_) => Err(not_leader()),
            // It may have been done before the connection broke.
            Err(_) => Err(ChangeError::Indeterminate),
        }
    }

    /// Hands leadership to a member, if this node leads.
    pub fn transfer_to(&self, member: MemberId) {
        let input = Input::TransferTo(member);
        self.inbox.push_waiting(Lane::Control, Happening::Input(input));
    }

    /// Makes a snapshot of the state as it is now, and waits for it.
    ///
    /// # Errors
    ///
    /// What is wrong.
    pub fn save(&self) -> Result<SnapshotId, String> {
        self.caller().save()
    }

    /// Tells the node to end, after it has handed leadership over. Does not wait for it.
    pub fn stop(&self) {
        self.inbox.push_waiting(Lane::Control, Happening::Stop);
    }
}

/// Somebody who waits for each answer before asking again.
pub struct Caller {
    line: Line,
    answers: Arc<Pile<(RequestId, Delivery)>>,
}

struct Answers(Arc<Pile<(RequestId, Delivery)>>);

impl Mailbox for Answers {
    fn deliver(&self, mut deliveries: Vec<(RequestId, Delivery)>) {
        self.0.push_all(&mut deliveries);
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Caller {
    /// Has a command done, and waits for its outcome.
    ///
    /// # Errors
    ///
    /// See [`ProposeError`].
    pub fn propose(&self, class: Class, command: Vec<u8>) -> Answer {
        let request = self.line.draw();
        self.line.propose(request, class, command)?;
        match self.wait(request) {
            Some(Delivery::Answer(answer)) => answer,
            _ => Err(ProposeError::Indeterminate),
        }
    }

    /// Puts a question to the state, and waits for the answer.
    ///
    /// # Errors
    ///
    /// See [`ProposeError`].
    pub fn read<T: Send + 'static>(
        &self,
        freshness: Freshness,
        query: impl FnOnce(&Machine) -> T + Send + 'static,
    ) -> Result<T, ProposeError> {
        self.ask(freshness, Query::once(query))
    }

    /// As [`Caller::read`], for a query whose answer is a `T`.
    ///
    /// # Errors
    ///
    /// See [`ProposeError`].
    pub fn ask<T: Send + 'static>(
        &self,
        freshness: Freshness,
        query: Query,
    ) -> Result<T, ProposeError> {
        let request = self.line.draw();
        self.line.read(request, freshness, query)?;
        match self.wait(request) {
            Some(Delivery::Found(found)) => {
                let found = found?.downcast::<T>();
                Ok(*found.expect("the query made it, and its type is known"))
            }
            _ => Err(ProposeError::NoLeader),
        }
    }

    /// Changes the members, if the node leads, and waits for it.
    ///
    /// # Errors
    ///
    /// See [`ChangeError`].
    pub fn change(&self, change: Change) -> Result<(), ChangeError> {
        let request = self.line.draw();
        self.line.change(request, change);
        match self.wait(request) {
            Some(Delivery::Changed(result)) => result,
            _ => Err(ChangeError::Indeterminate),
        }
    }

    /// Makes a snapshot of the state as it is now, and waits for it.
    ///
    /// # Errors
    ///
    /// What is wrong.
    pub fn save(&self) -> Result<SnapshotId, String> {
        let request = self.line.draw();
        self.line.save(request);
        match self.wait(request) {
            Some(Delivery::Saved(result)) => result,
            _ => Err("the node has ended".to_owned()),
        }
    }

    /// The answer to this request; nothing if the node has ended.
    fn wait(&self, request: RequestId) -> Option<Delivery> {
        let mut taken = Vec::new();
        while self.answers.take(&mut taken, None) == Taken::Some {
            for (answered, delivery) in taken.drain(..) {
                if answered == request {
                    return Some(delivery);
                }
            }
        }
        None
    }
}
