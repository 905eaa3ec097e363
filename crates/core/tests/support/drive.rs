//! Turns a symbolic history into log entries, with numbers that fit what has happened so far.

use fencepost_core::command::{
    Acquire, AcquireAs, AcquireMany, Caller, CallsAnswered, Cancel, CancelTarget, Command, Compact,
    Compare, CompareTarget, DeleteLock, DeleteRange, Disconnect, ForceRelease, LeaseGrant,
    LeaseRef, LeaseRenew, LeaseRevoke, Mode, NodeLost, Once, Op, PublishKey, Put, Relation,
    Release, ReleaseAs, ReleaseHeld, ReleaseMany, RenewAs, RenewHeld, Renewal, RevokeKey,
    RotateKey, Terms, Txn,
};
use fencepost_core::range::KeyRange;
use fencepost_core::{
    Action, Boot, CallId, ClientId, Entry, Epoch, Event, Key, LeaseId, Limits, LockName, LogTime,
    Millis, Namespace, NodeId, PublicKey, Revision, Seq, State, Token, Value,
};

use super::generate::{
    Asks, CLIENTS, Grants, History, Keys, Mark, NAMES, ODD_KEYS, Request, Step, Tokens,
};

/// Remembers what was sent and seen.
#[derive(Default)]
pub(crate) struct Driver {
    sent: Vec<Command>,
    /// The last number of each caller.
    numbers: Vec<(Caller, Epoch, u64)>,
    /// The places in queues that were ever seen, by their keys.
    places: Vec<(Key, Token)>,
    renewals: u64,
}

/// The key with which a lease stands in a lock's queue.
pub(crate) fn place(name: &str, lease: i64) -> Key {
    Key::from(format!("{name}/{lease:x}").as_str())
}

/// The limits of a history.
pub(crate) fn limits(due: u32, queue: u32) -> Limits {
    Limits { due_per_entry_max: due, queue_len_max: queue, ..Limits::default() }
}

/// Few members and few keys, so that they meet.
fn signing(verb: u8, node: u64, key: u8, after: u64) -> Action {
    let (node, key, after) = (NodeId(node), PublicKey([key; 32]), Millis(after));
    match verb {
        0 => Action::RotateKey(RotateKey { node, after }),
        1 => Action::RetireKeys(node),
        2 => Action::RevokeKey(RevokeKey { key }),
        3 => Action::PublishKey(PublishKey { node, key, after: Millis::ZERO }),
        _ => Action::PublishKey(PublishKey { node, key, after }),
    }
}

impl Driver {
    /// A state for a history to begin with.
    pub(crate) fn begin(history: &History) -> State {
        let mut state = State::new();
        if let Some((due, queue)) = history.limits {
            let action = Action::SetLimits(limits(due, queue).into());
            state.apply(Entry { at: LogTime(0), commands: vec![action.into()] });
        }
        state
    }

    /// The next entry, for a state that has applied all before it.
    pub(crate) fn entry(&mut self, step: &Step, state: &State) -> Entry {
        let at = LogTime(state.now().0.saturating_add_signed(step.after));
        let mut commands = Vec::new();
        for request in &step.requests {
            let command = match request {
                Request::Again { back } => self.sent.iter().rev().nth(*back).cloned(),
                _ => self.command(request, state),
            };
            commands.extend(command.clone());
            self.sent.extend(command);
        }
        Entry { at, commands }
    }

    /// Learns from what happened.
    pub(crate) fn note(&mut self, events: &[impl AsRef<Event>]) {
        for event in events {
            if let fencepost_core::event::EventKind::Put { kv, prev: None } = &event.as_ref().kind {
                self.places.push((kv.key.clone(), kv.create_revision.into()));
            }
        }
    }

    fn command(&mut self, request: &Request, state: &State) -> Option<Command> {
        if let Request::Bad(which) = request {
            return Some(bad(*which));
        }
        let action = self.action(request, state)?;
        let (by, mark) = match (request, &action) {
            (Request::Grant { client, mark, .. }, _) => (caller(*client)?, *mark),
            (Request::Revoke { mark, .. }, _) => (caller(1)?, *mark),
            (
                Request::AcquireAs { client, mark, .. } | Request::ReleaseAs { client, mark, .. },
                _,
            ) => (caller(*client)?, *mark),
            (Request::Acquire { lease, mark, .. }, _)
            | (Request::AcquireMany { lease, mark, .. }, _)
            | (Request::CancelSeq { lease, mark, .. }, _)
            | (Request::ReleaseMany { lease, mark, .. }, _) => {
                (Some(Caller::Lease(LeaseId(*lease))), *mark)
            }
            (Request::Release { mark, .. }, Action::Release(one)) => {
                (Some(Caller::Lease(one.lease.id)), *mark)
            }
            _ => (None, Mark::No),
        };
        let once = self.once(by, mark, state);
        Some(Command { once, ..Command::from(action) })
    }

    fn once(&mut self, by: Option<Caller>, mark: Mark, state: &State) -> Option<Once> {
        let Mark::Fresh(ack) = mark else { return None };
        let by = by?;
        // A number sent without an epoch could meet a later lease with the same id.
        if matches!(by, Caller::Lease(id) if state.lease(id).is_none()) {
            return None;
        }
        let last = self.number(&by, state);
        *last += 1;
        let seq = *last;
        let ack_upto = match ack {
            0 => 0,
            1 => seq,
            _ => seq.saturating_sub(1),
        };
        Some(Once { by, seq: Seq(seq), ack_upto: Seq(ack_upto) })
    }

    /// The last number of a caller. A lease that was granted anew counts from one again.
    fn number(&mut self, by: &Caller, state: &State) -> &mut u64 {
        let epoch = match by {
            Caller::Lease(id) => state.lease(*id).map_or(Epoch::ANY, |lease| lease.epoch),
            Caller::Client(_) => Epoch::ANY,
        };
        let known = self.numbers.iter().position(|one| one.0 == *by && one.1 == epoch);
        let at = known.unwrap_or_else(|| {
            self.numbers.push((by.clone(), epoch, 0));
            self.numbers.len() - 1
        });
        &mut self.numbers[at].2
    }

    fn token(&self, which: Tokens, name: usize, lease: i64) -> Token {
        let key = place(NAMES[name], lease);
        let mut seen = self.places.iter().rev().filter(|(one, _)| *one == key);
        let own = seen.next().map_or(Token(0), |&(_, token)| token);
        match which {
            Tokens::Own => own,
            Tokens::Old => seen.next().map_or(own, |&(_, token)| token),
            Tokens::Wrong => Token(own.0 + 1),
        }
    }

    /// A token of an owner's place, or one of another place that the owner may have had.
    fn owner_token(
        &self,
        which: Tokens,
        owner: &ClientId,
        lock: &LockName,
        state: &State,
    ) -> Token {
        let own = state.owned_place(owner, lock).map(|place| place.token).unwrap_or_default();
        match which {
            Tokens::Own => Some(own),
            Tokens::Old => self.places.iter().map(|&(_, token)| token).find(|&old| old < own),
            Tokens::Wrong => None,
        }
        .unwrap_or(Token(own.0 + 1))
    }

    fn action(&mut self, request: &Request, state: &State) -> Option<Action> {
        Some(match *request {
            Request::Grant { id, ttl, client, grace, .. } => Action::LeaseGrant(LeaseGrant {
                id: LeaseId(id),
                ttl: Millis(ttl),
                client: ClientId::from(CLIENTS[client]),
                address: ClientId::default(),
                revoke_on_disconnect: grace.map(Millis),
            }),
            Request::Renew { lease, grant } => {
                self.renewals += 1;
                let renewal = Renewal { lease: meant(lease, grant, state), number: self.renewals };
                Action::LeaseRenew(LeaseRenew { renewals: vec![renewal] })
            }
            Request::Revoke { lease, grant, .. } => {
                Action::LeaseRevoke(LeaseRevoke { lease: meant(lease, grant, state) })
            }
            Request::Disconnect { lease, grant } => {
                // Now the connection of the last renewal goes, now one that never renewed.
                let renewal = if self.renewals.is_multiple_of(2) { 0 } else { self.renewals };
                Action::Disconnect(Disconnect { lease: meant(lease, grant, state), renewal })
            }
            Request::Put { .. }
            | Request::Delete { .. }
            | Request::EtcdLock { .. }
            | Request::TwoPuts { .. } => key_action(request),
            Request::AcquireAs { name, client, ttl, wait, asks, .. } => {
                Action::AcquireAs(AcquireAs {
                    name: LockName::from(NAMES[name]),
                    client: ClientId::from(CLIENTS[client]),
                    ttl: Millis(ttl),
                    wait,
                    terms: terms(asks),
                })
            }
            Request::RenewAs { name, client, ttl, token } => {
                let (lock, owner) = (LockName::from(NAMES[name]), ClientId::from(CLIENTS[client]));
                let token = token.map(|which| self.owner_token(which, &owner, &lock, state));
                renew_as(lock, owner, Millis(ttl), token)
            }
            Request::ReleaseAs { name, client, token, .. } => {
                let (lock, owner) = (LockName::from(NAMES[name]), ClientId::from(CLIENTS[client]));
                let token = token.map(|which| self.owner_token(which, &owner, &lock, state));
                release_as(lock, owner, token)
            }
            Request::NodeLost { node, boot } => {
                Action::NodeLost(NodeLost { node: NodeId(node), boot: Boot(boot) })
            }
            Request::Signing { verb, node, key, after } => signing(verb, node, key, after),
            Request::Limits { due, queue } => Action::SetLimits(limits(due, queue).into()),
            Request::Compact { back } => {
                let revision = Revision(state.revision().0.saturating_sub(back));
                Action::Compact(Compact { revision })
            }
            Request::Bad(_) | Request::Again { .. } => return None,
            _ => return Some(self.lock_action(request, state)),
        })
    }

    fn lock_action(&mut self, request: &Request, state: &State) -> Action {
        match *request {
            Request::Acquire { name, lease, grant, mode, wait, asks, mark } => {
                Action::Acquire(Acquire {
                    name: LockName::from(NAMES[name]),
                    lease: marked(lease, grant, mark, state),
                    mode,
                    wait,
                    terms: terms(asks),
                })
            }
            Request::AcquireMany { names, lease, mode, wait, asks, .. } => {
                Action::AcquireMany(AcquireMany {
                    locks: chosen(names).map(|name| (name, mode)).collect(),
                    lease: meant(lease, Grants::Present, state),
                    wait,
                    terms: terms(asks),
                })
            }
            Request::CancelSeq { lease, back, .. } => {
                let last = *self.number(&Caller::Lease(LeaseId(lease)), state);
                // The cancellation itself takes the next number.
                let seq = Seq((last + 2).saturating_sub(back).max(1));
                let lease = meant(lease, Grants::Present, state);
                Action::Cancel(Cancel { lease, target: CancelTarget::Seq(seq) })
            }
            Request::CancelPlace { name, lease, token } => Action::Cancel(Cancel {
                lease: meant(lease, Grants::Any, state),
                target: CancelTarget::Contender(
                    LockName::from(NAMES[name]),
                    self.token(token, name, lease),
                ),
            }),
            Request::CancelCall { name, lease, call } => Action::Cancel(Cancel {
                lease: meant(lease, Grants::Any, state),
                target: CancelTarget::Call(LockName::from(NAMES[name]), call_id(call)),
            }),
            Request::Release { name, lease, grant, token, mark } => {
                let lease = holder(name, lease, state);
                Action::Release(Release {
                    name: LockName::from(NAMES[name]),
                    lease: marked(lease, grant, mark, state),
                    token: self.token(token, name, lease),
                })
            }
            Request::ReleaseMany { names, lease, token, .. } => {
                let first = names.trailing_zeros() as usize;
                Action::ReleaseMany(ReleaseMany {
                    names: chosen(names).collect(),
                    lease: meant(lease, Grants::Present, state),
                    token: self.token(token, first, lease),
                })
            }
            Request::Force { name, lease, token, now } => Action::ForceRelease(ForceRelease {
                name: LockName::from(NAMES[name]),
                token: self.token(token, name, holder(name, lease, state)),
                reason: ClientId::from("stuck"),
                now,
            }),
            Request::Answered { name, lease, call } => {
                let token = self.token(Tokens::Own, name, lease);
                let contenders = vec![(place(NAMES[name], lease), token, call_id(call))];
                Action::CallsAnswered(CallsAnswered { contenders })
            }
            Request::DeleteLock { name } => {
                Action::DeleteLock(DeleteLock { name: LockName::from(NAMES[name]) })
            }
            _ => Action::Skipped(1),
        }
    }
}

/// The locks whose bits are set.
fn chosen(names: u8) -> impl Iterator<Item = LockName> {
    let set = NAMES.into_iter().enumerate().filter(move |(at, _)| names >> at & 1 == 1);
    set.map(|(_, name)| LockName::from(name))
}

/// The lease that is meant: the one named, or that of the lock's first holder.
fn holder(name: usize, lease: i64, state: &State) -> i64 {
    if lease != 0 {
        return lease;
    }
    let lock = state.lock(&LockName::from(NAMES[name]), 0);
    lock.holders.first().map_or(1, |holder| holder.lease.0)
}

fn caller(client: usize) -> Option<Option<Caller>> {
    let name = ClientId::from(CLIENTS[client]);
    Some((!name.is_empty()).then_some(Caller::Client(name)))
}

fn meant(lease: i64, grant: Grants, state: &State) -> LeaseRef {
    let id = LeaseId(lease);
    let present = state.lease(id).map_or(Epoch::ANY, |lease| lease.epoch);
    let epoch = match grant {
        Grants::Any => Epoch::ANY,
        Grants::Present => present,
        Grants::Stale => Epoch(present.0.saturating_sub(1).max(1)),
    };
    LeaseRef { id, epoch }
}

/// Doors that know no epochs know no numbers either.
fn marked(lease: i64, grant: Grants, mark: Mark, state: &State) -> LeaseRef {
    match (mark, grant) {
        (Mark::Fresh(_), Grants::Any) => meant(lease, Grants::Present, state),
        _ => meant(lease, grant, state),
    }
}

fn call_id((node, boot): (u64, u64)) -> CallId {
    CallId { node: NodeId(node), boot: Boot(boot), number: 0 }
}

fn terms(asks: Asks) -> Terms {
    Terms {
        metadata: Value::from("m"),
        value: Value::from("v"),
        lock_delay: Millis(asks.delay),
        budget: Millis(asks.budget),
        hold_max: Millis(asks.hold_max),
        call: asks.call.map(call_id),
    }
}

fn key_of(key: Keys) -> Key {
    match key {
        Keys::Place(name, lease) => place(NAMES[name], lease),
        Keys::Odd(at) => Key::from(ODD_KEYS[at]),
    }
}

fn put(key: Key, lease: i64) -> Put {
    Put { key, lease: LeaseId(lease), ..Put::default() }
}

fn key_action(request: &Request) -> Action {
    match *request {
        Request::Put { key, lease, keep_value, keep_lease } => Action::Put(Put {
            value: Value::from(if keep_value { "" } else { "w" }),
            prev: true,
            ignore_value: keep_value,
            ignore_lease: keep_lease,
            ..put(key_of(key), lease)
        }),
        Request::Delete { key: Keys::Place(name, _), below: true } => {
            let prefix = format!("{}/", NAMES[name]);
            let range = KeyRange::prefix(prefix.as_bytes());
            Action::DeleteRange(DeleteRange { range, prev: true })
        }
        Request::Delete { key, .. } => {
            Action::DeleteRange(DeleteRange { range: KeyRange::One(key_of(key)), prev: false })
        }
        Request::EtcdLock { name, lease } => {
            let range = KeyRange::One(place(NAMES[name], lease));
            let compare = Compare {
                range: range.clone(),
                relation: Relation::Equal,
                target: CompareTarget::Create(Revision(0)),
            };
            Action::Txn(Box::new(Txn {
                compares: vec![compare],
                success: vec![Op::Put(put(place(NAMES[name], lease), lease))],
                failure: vec![Op::Range(range.into())],
            }))
        }
        Request::TwoPuts { name, leases: (one, two) } => {
            let two = if one == two { two + 1 } else { two };
            let puts = [one, two].map(|lease| Op::Put(put(place(NAMES[name], lease), lease)));
            Action::Txn(Box::new(Txn { success: puts.into(), ..Txn::default() }))
        }
        _ => Action::Skipped(2),
    }
}

fn renew_as(name: LockName, client: ClientId, ttl: Millis, token: Option<Token>) -> Action {
    match token {
        Some(token) => Action::RenewHeld(RenewHeld { name, client, ttl, token }),
        None => Action::RenewAs(RenewAs { name, client, ttl }),
    }
}

fn release_as(name: LockName, client: ClientId, token: Option<Token>) -> Action {
    match token {
        Some(token) => Action::ReleaseHeld(ReleaseHeld { name, client, token }),
        None => Action::ReleaseAs(ReleaseAs { name, client }),
    }
}

/// Requests that are refused whatever the state.
fn bad(which: u8) -> Command {
    let name = LockName::from("a");
    let client = ClientId::from("ann");
    let seq_zero = Once { by: Caller::Client(client.clone()), seq: Seq(0), ack_upto: Seq(0) };
    match which {
        0 => Action::Acquire(Acquire::default()).into(),
        1 => Action::LeaseGrant(LeaseGrant { ttl: Millis(1), client, ..LeaseGrant::default() })
            .into(),
        2 => {
            Command { once: Some(seq_zero), ..Action::ReleaseAs(ReleaseAs { name, client }).into() }
        }
        3 => Action::ForceRelease(ForceRelease { name, ..ForceRelease::default() }).into(),
        4 => Action::AcquireMany(AcquireMany {
            locks: vec![(name.clone(), Mode::Shared), (name, Mode::Shared)],
            ..AcquireMany::default()
        })
        .into(),
        _ => Command {
            namespace: Namespace::from("elsewhere"),
            ..Action::DeleteLock(DeleteLock { name }).into()
        },
    }
}
