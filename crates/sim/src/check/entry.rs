//! One entry of the log, looked at from all sides, when the first member has applied it.
//!
//! The commands of an entry ran one after the other, and their events lie in one list. A change of
//! keys has the revision that its command was answered with, so the events up to that revision
//! belong to that command or come before it. What log time ended by itself comes first of all.

use fencepost_core::codec::encode_command;
use fencepost_core::event::{Cause, Event, EventKind};
use fencepost_core::outcome::Outcome;
use fencepost_core::{Action, Command, LockName, Reply, Token};

use super::book::{Page, split_key};
use super::calls::Bytes;
use super::oracle::{Fresh, Step};
use super::{
    Check, Checks, i05_mutual_exclusion, i07_first_come, i08_no_ghost, i09_ends_by_log,
    i10_leases_last, i11_bounds, i12_grants_last, i13_renewals, i17_release, i18_waits_end,
    i29_dead_pass_on,
};
use crate::check::i06_tokens_grow::TokensGrow;
use crate::seen::Time;

/// Once in so many entries, all locks are looked at, not only those that were touched.
const LOOK_ROUND_EVERY: u64 = 64;

impl Checks {
    pub(super) fn entry(&mut self, at: Time, index: u64, fresh: &Fresh) -> Check {
        let now = self.oracle.state.now();
        let Fresh { entry, effects, before, .. } = fresh;
        self.book.touched.clear();
        let mut forced = Vec::new();
        let mut events = effects.events.iter().peekable();
        for (command, reply) in entry.commands.iter().zip(&effects.replies) {
            let bytes = encoded(command);
            let page = Page { at, now, action: Some(&command.action) };
            while let Some(event) = events.next_if(|event| event.revision <= reply.revision) {
                self.event(&page, event, Some(&bytes))?;
            }
            self.reply(&page, command, reply, &bytes, &mut forced)?;
        }
        let page = Page { at, now, action: None };
        for event in events {
            self.event(&page, event, None)?;
        }
        let step = Step {
            at,
            index,
            effects,
            before: *before,
            now,
            revision_before: fresh.revision_before,
            queue_len_max_before: fresh.queue_len_max_before,
            state: &self.oracle.state,
        };
        i10_leases_last::moved(self.rules, &step)?;
        TokensGrow::revisions(&step)?;
        i10_leases_last::deadlines(&mut self.book, &step)?;
        i11_bounds::hold(&self.book, &step)?;
        for (name, token) in forced {
            self.store.forced(&self.book, &step, &name, token)?;
        }
        let all = index.is_multiple_of(LOOK_ROUND_EVERY);
        let names: Vec<LockName> = match all {
            true => self.book.queues.keys().cloned().collect(),
            false => self.book.touched.clone(),
        };
        for name in &names {
            i12_grants_last::shown(&self.book, &step, name)?;
            i05_mutual_exclusion::together(&self.book, name)?;
            i18_waits_end::over(&self.book, &step, name)?;
            i29_dead_pass_on::nobody_waits_idly(&self.book, &step, name)?;
        }
        if all {
            self.book.forget_leases(now);
            self.in_time(at)?;
        }
        Ok(())
    }

    /// One event: judged with the book as it was before, then written down.
    fn event(&mut self, page: &Page<'_>, event: &Event, bytes: Option<&Bytes>) -> Check {
        let Some((name, _)) = split_key(event.key()) else { return Ok(()) };
        match &event.kind {
            EventKind::Granted(holding) => {
                i05_mutual_exclusion::granted(&self.book, &name, holding)?;
                i07_first_come::granted(&self.book, &name, holding)?;
                i08_no_ghost::granted(&self.book, page.now, &name, holding)?;
                self.tokens.granted(&self.book, &name, holding)?;
                self.book.note(page, event);
                self.histories.granted(&self.book, &self.calls, &name, holding);
                return Ok(());
            }
            EventKind::Deleted { prev, ended } => {
                i09_ends_by_log::ended(&self.book, page, &name, prev, ended.as_ref())?;
                let Some(place) = self.book.place(&name, &prev.key) else { return Ok(()) };
                let token = Token::from(prev.create_revision);
                let cause = ended.as_ref().map(|ended| ended.cause);
                if cause == Some(Cause::Expired)
                    && let Some(lease) = self.book.leases.get(&place.lease)
                {
                    i10_leases_last::expired(self.rules, lease, page.at)?;
                }
                match (cause, bytes) {
                    (Some(Cause::Released), Some(bytes)) => {
                        i17_release::ended(&self.book, page, &name, place)?;
                        self.histories.released(&self.calls, &name, token, page.at, bytes);
                    }
                    _ if place.holds => self.histories.ended(&name, token, page.at),
                    _ => {}
                }
            }
            EventKind::Lost(holding) => self.histories.ended(&name, holding.token, page.at),
            EventKind::Put { kv, prev: None } => {
                if let Some(bytes) = bytes {
                    self.histories.made(&name, Token::from(kv.create_revision), bytes);
                }
            }
            EventKind::Put { .. } | EventKind::ForceAsked { .. } | EventKind::OverBudget(_) => {}
        }
        self.book.note(page, event);
        Ok(())
    }

    /// One answer: judged with the book as it was before, then written down.
    fn reply(
        &mut self,
        page: &Page<'_>,
        command: &Command,
        reply: &Reply,
        bytes: &Bytes,
        forced: &mut Vec<(LockName, Token)>,
    ) -> Check {
        let (action, outcome) = (&command.action, &reply.outcome);
        self.arrivals.applied(bytes)?;
        self.completeness.applied(bytes, reply);
        let is_repeat = self.once.answered(command, outcome)?;
        i09_ends_by_log::renewed(&self.book, page.now, action, outcome)?;
        i13_renewals::answered(&self.book, page.now, action, outcome, is_repeat)?;
        i18_waits_end::answered(action, outcome)?;
        TokensGrow::answered(&self.book, outcome)?;
        if !is_repeat {
            i12_grants_last::answered(&self.book, outcome)?;
            i17_release::answered(&self.book, action, outcome)?;
            if let Action::ForceRelease(force) = action
                && matches!(outcome, Outcome::Released | Outcome::ReleasePending(_))
            {
                forced.push((force.name.clone(), force.token));
            }
        }
        let sent_at = self.calls.first_sent(bytes);
        self.book.note_reply(page, reply, is_repeat, sent_at);
        i10_leases_last::answered(&self.book, page.now, reply)
    }
}

fn encoded(command: &Command) -> Bytes {
    let mut bytes = Vec::new();
    encode_command(command, &mut bytes);
    Bytes::from(bytes)
}
