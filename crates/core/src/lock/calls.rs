//! Contenders that must not outlive the call that made them.
//!
//! A unary call has no client that would come back for its lock. Its contender remembers the
//! member, and the boot of that member, that serves the call. When that boot is gone, another
//! member may take the call up for a while; then the contender ends, also if it was granted,
//! because nobody was told. What is granted at once is not bound: the answer to the acquire tells of
//! it, without a second entry of the log, and if that gets lost with its member, the lease decides.
//! It also remembers the call itself: a call that gives up ends only what
//! no other call has taken up since.

use crate::command::{CallsAnswered, NodeLost};
use crate::event::Cause;
use crate::ids::{Boot, CallId, Key, LogTime, NodeId, Token};
use crate::outcome::Outcome;
use crate::record::Contender;
use crate::state::State;
use crate::step::Step;
use crate::timer::Timer;

impl Step<'_> {
    /// Notes the call that a contender must not outlive. The call may be lost already.
    pub(crate) fn bind(&mut self, key: &Key, contender: &Contender) {
        let Some(CallId { node, boot, .. }) = contender.bound_to() else { return };
        self.state.calls.entry((node, boot)).or_default().insert(key.clone());
        self.look_for_orphans(node, boot);
    }

    /// What a lost boot asks for is looked for once more.
    fn look_for_orphans(&mut self, node: NodeId, boot: Boot) {
        let until = self.state.now.after(self.state.limits.orphan_grace);
        if let Some((lost, at)) = self.state.lost_nodes.get_mut(&node)
            && *lost >= boot
            && *at == LogTime::NEVER
        {
            *at = until;
            self.state.timers.arm(until, Timer::Orphans(node, *lost));
        }
    }

    /// Lets a contender that holds from its beginning live on its lease: the answer to the acquire
    /// tells of it. Its call may still take it back.
    pub(crate) fn tell_at_once(&mut self, contender: &mut Contender) {
        let Some(extra) = contender.extra.as_mut().filter(|extra| extra.bound) else { return };
        extra.bound = false;
        if let Some(CallId { node, boot, .. }) = extra.call {
            self.look_for_orphans(node, boot);
        }
    }

    /// The same for one that was granted after it had taken its place.
    pub(crate) fn unbind_granted(&mut self, key: &Key) {
        let Some((_, contender)) = self.state.contender_record(key) else { return };
        if !contender.holds() || contender.bound_to().is_none() {
            return;
        }
        let before = contender.clone();
        self.unbind(key, &before);
        let contender = self.state.keys.get_mut(key).and_then(|record| record.contender_mut());
        if let Some(extra) = contender.and_then(|contender| contender.extra.as_mut()) {
            extra.bound = false;
        }
    }

    pub(crate) fn calls_answered(&mut self, answered: &CallsAnswered) -> Outcome {
        let mut all_there = true;
        for (key, token, call) in &answered.contenders {
            all_there &= self.call_answered(key, *token, *call);
        }
        if all_there { Outcome::Done } else { Outcome::NotFound }
    }

    /// The contender lives on its lease from now on. The call that is answered may still take it
    /// back, if its answer reaches nobody; any other may not.
    fn call_answered(&mut self, key: &Key, token: Token, call: CallId) -> bool {
        let found = self.state.contender_record(key).filter(|(record, _)| record.token() == token);
        let Some((_, contender)) = found else { return false };
        if contender.call().is_some() {
            let before = contender.clone();
            self.unbind(key, &before);
            let contender = self.state.keys.get_mut(key).and_then(|record| record.contender_mut());
            if let Some(contender) = contender {
                let extra = contender.extra_mut();
                extra.bound = false;
                extra.call = extra.call.filter(|&last| last == call);
            }
        }
        true
    }

    pub(crate) fn node_lost(&mut self, lost: NodeLost) -> Outcome {
        let until = self.state.now.after(self.state.limits.orphan_grace);
        if let Some(&(boot, at)) = self.state.lost_nodes.get(&lost.node) {
            if boot >= lost.boot {
                return Outcome::Done;
            }
            self.state.timers.disarm(at, Timer::Orphans(lost.node, boot));
        }
        self.state.lost_nodes.insert(lost.node, (lost.boot, until));
        self.state.timers.arm(until, Timer::Orphans(lost.node, lost.boot));
        Outcome::Done
    }

    /// Ends one contender that nobody took up, and comes back for the next: a lost member may have
    /// had more calls than one entry may end. The boot stays known as lost afterwards, because a
    /// request of its own may still be on its way through the log.
    pub(crate) fn end_orphans(&mut self, node: NodeId, boot: Boot) {
        let gone = |state: &State| {
            let mut calls = state.calls.range((node, Boot(0))..=(node, boot));
            calls.next().and_then(|(_, keys)| keys.first().cloned())
        };
        if let Some(key) = gone(self.state) {
            self.remove_with_group(&key, Cause::Orphaned);
        }
        let now = self.state.now;
        let next = if gone(self.state).is_some() { now } else { LogTime::NEVER };
        self.state.lost_nodes.insert(node, (boot, next));
        self.state.timers.arm(next, Timer::Orphans(node, boot));
    }
}

impl State {
    /// The last boot of a member whose calls some contender is bound to.
    pub fn bound_boot(&self, node: NodeId) -> Option<Boot> {
        let mut calls = self.calls.range((node, Boot(0))..=(node, Boot(u64::MAX)));
        calls.next_back().map(|(&(_, boot), _)| boot)
    }

    /// The last boot of a member that is known to be lost. What is bound to one of its calls ends.
    pub fn lost_boot(&self, node: NodeId) -> Option<Boot> {
        self.lost_nodes.get(&node).map(|&(boot, _)| boot)
    }
}
