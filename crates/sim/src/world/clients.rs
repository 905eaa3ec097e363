//! The clients' seats in the world: their clocks, their links, and the member that each talks to.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use fencepost_node::io::{MemberId, ProposeError};

use super::World;
use super::clock::Clock;
use super::happening::{Happening, ToClient, ToMember};
use super::network::{End, Route};
use crate::bug::WorldBug;
use crate::client::{
    Belief, CallNumber, CallResult, Client, ClientAction, ClientEvent, ClientNumber, Request,
};
use crate::dice::Dice;
use crate::plan::{MS, SECOND, purpose};
use crate::seen::{Seen, Time};

/// One client's place in the world.
pub(crate) struct Seat {
    client: Client,
    clock: Clock,
    pub(crate) talks_to: MemberId,
    /// The calls that have not returned.
    open: BTreeMap<CallNumber, Open>,
    /// The highest number of a call so far.
    last_call: Option<CallNumber>,
    /// The latest incarnation of the cluster that has answered it.
    incarnation: u64,
    /// What came while it was paused; nothing if it is not.
    pub(crate) paused: Option<VecDeque<ToClient>>,
}

/// A call that has not returned.
struct Open {
    /// How often it was sent on its way, the network's copies included.
    copies: u32,
}

impl World {
    /// Seats all clients.
    pub(super) fn seat_clients(&mut self) {
        for number in 0..self.plan.workload.clients {
            let dice = Dice::new(self.plan.seed, purpose::EACH_CLIENT + u64::from(number));
            let rate = self.plan.clocks.rate(&mut self.dice.clocks);
            let shows = self.dice.clocks.roll(1_000 * SECOND);
            let talks_to = 1 + self.dice.clients.roll(self.plan.founders);
            self.seats.push(Seat {
                client: Client::new(ClientNumber(number), dice, &self.plan.workload),
                clock: Clock::showing(shows, 0, rate),
                talks_to,
                open: BTreeMap::new(),
                last_call: None,
                incarnation: 0,
                paused: None,
            });
            let first = self.dice.clients.roll(SECOND);
            self.plan_in(first, Happening::Client(ClientNumber(number), ToClient::Wake));
        }
    }

    fn seat(&mut self, client: ClientNumber) -> &mut Seat {
        &mut self.seats[client.0 as usize]
    }

    /// Something happens to a client.
    pub(super) fn reach_client(&mut self, client: ClientNumber, what: ToClient) {
        if self.rests {
            return;
        }
        if let Some(backlog) = &mut self.seat(client).paused {
            backlog.push_back(what);
            return;
        }
        let n = u64::from(client.0);
        let event = match what {
            ToClient::Wake => ClientEvent::Wake,
            ToClient::News(event) => {
                self.trace.note(
                    self.now,
                    50,
                    &[n, event.revision.0],
                    format_args!("c{n} hears {event:?}"),
                );
                ClientEvent::Notified(event)
            }
            ToClient::Written(lock, token, accepted) => ClientEvent::Written(lock, token, accepted),
            ToClient::Answer(call, incarnation, result) => {
                if !self.enter_incarnation(client, incarnation) {
                    return;
                }
                let Some(open) = self.seat(client).open.remove(&call) else { return };
                let result = settled(open.copies, *result);
                let what = format_args!("c{n} is told of call {}: {result:?}", call.0);
                self.trace.note(self.now, 51, &[n, call.0], what);
                self.watch.tell(self.now, &Seen::Returned { client, call, result: &result });
                ClientEvent::Answered(call, result)
            }
        };
        let now = self.now;
        let seat = self.seat(client);
        let actions = seat.client.handle(seat.clock.local(now), event);
        for action in actions {
            self.act(client, action);
        }
    }

    /// An answer says which incarnation of the cluster it comes from, unless there was no member to
    /// say so. Says whether the client takes it: one from before a restore that it knows of comes
    /// over a connection that it has given up.
    fn enter_incarnation(&mut self, client: ClientNumber, incarnation: Option<u64>) -> bool {
        let own = self.seat(client).incarnation;
        let Some(found) = incarnation.filter(|&found| found != own) else { return true };
        // Every other client uses an API that has no incarnations. Only the wait protects it.
        if client.0 % 2 == 1 {
            return true;
        }
        if found < own {
            return false;
        }
        let (now, ignores) = (self.now, self.has(WorldBug::IncarnationIgnored));
        let seat = self.seat(client);
        seat.incarnation = found;
        let actions = match ignores {
            true => Vec::new(),
            false => seat.client.handle(seat.clock.local(now), ClientEvent::Restored),
        };
        let is_awake = seat.client.is_awake();
        for action in actions {
            self.act(client, action);
        }
        if is_awake {
            self.watch.tell(now, &Seen::Entered { client });
        }
        true
    }

    /// A paused client goes on: everything that came meanwhile happens at once.
    pub(super) fn resume_client(&mut self, client: ClientNumber) {
        let backlog = self.seat(client).paused.take();
        for what in backlog.unwrap_or_default() {
            self.reach_client(client, what);
        }
    }

    fn act(&mut self, client: ClientNumber, action: ClientAction) {
        let (now, n) = (self.now, u64::from(client.0));
        match action {
            ClientAction::Call(call, request) => self.call(client, call, request),
            ClientAction::Reconnect => self.reconnect(client),
            ClientAction::GiveUp(call) => {
                self.trace.note(
                    now,
                    52,
                    &[n, call.0],
                    format_args!("c{n} gives up call {}", call.0),
                );
                if self.seat(client).open.remove(&call).is_some() {
                    let result = &CallResult::GaveUp;
                    self.watch.tell(now, &Seen::Returned { client, call, result });
                }
            }
            ClientAction::WakeAt(local) => {
                let at = self.seat(client).clock.when(local, now);
                self.agenda.plan(at, Happening::Client(client, ToClient::Wake));
            }
            ClientAction::Write(lock, token) => {
                self.trace.note(
                    now,
                    53,
                    &[n, token.0],
                    format_args!("c{n} writes under {lock} with {}", token.0),
                );
                let dice = &mut self.dice.clients;
                let takes = match dice.roll(10) {
                    0 => dice.roll(15 * SECOND),
                    1..4 => dice.roll(SECOND),
                    _ => dice.roll(20 * MS),
                };
                self.plan_in(takes, Happening::Write(client, lock, token));
            }
            ClientAction::Believe(belief) => self.believe(client, &belief),
        }
    }

    fn believe(&mut self, client: ClientNumber, belief: &Belief) {
        let now = self.now;
        let clock = self.seat(client).clock;
        let until = match belief {
            Belief::Holds { until, .. } => clock.when(*until, now),
            Belief::HoldsNot { .. } => now,
        };
        let n = u64::from(client.0);
        self.trace.note(now, 54, &[n, until], format_args!("c{n} believes {belief:?}"));
        self.watch.tell(now, &Seen::Believes { client, belief, until: Time(until) });
    }

    /// Sends a call on its way. It may be lost, late, or come twice.
    fn call(&mut self, client: ClientNumber, call: CallNumber, request: Request) {
        let now = self.now;
        let seat = self.seat(client);
        let is_new = seat.last_call.is_none_or(|last| call > last);
        if is_new {
            seat.last_call = Some(call);
            seat.open.insert(call, Open { copies: 0 });
        }
        let to = seat.talks_to;
        let n = u64::from(client.0);
        self.trace.note(
            now,
            55,
            &[n, call.0, to],
            format_args!("c{n} calls n{to}: call {}", call.0),
        );
        if is_new {
            self.watch.tell(now, &Seen::Called { client, call, request: &request });
        }
        let link = (End::Client(client.0), End::Member(to));
        let Route { first, copy } = self.network.route(now, link);
        let request = Arc::new(request);
        for at in [first, copy].into_iter().flatten() {
            if let Some(open) = self.seat(client).open.get_mut(&call) {
                open.copies += 1;
            }
            let asked = ToMember::Asked(client, call, Arc::clone(&request));
            self.agenda.plan(at, Happening::Member(to, asked));
        }
    }

    fn reconnect(&mut self, client: ClientNumber) {
        let present = self.seat(client).talks_to;
        let others: Vec<MemberId> =
            self.membership.1.members.keys().copied().filter(|&id| id != present).collect();
        if others.is_empty() {
            return;
        }
        let next = *self.dice.clients.pick(&others);
        let n = u64::from(client.0);
        self.trace.note(self.now, 56, &[n, next], format_args!("c{n} turns to n{next}"));
        self.seat(client).talks_to = next;
    }
}

/// A member's refusal says only that *this* copy of the call was not done. If there were others,
/// one of them may have been.
fn settled(copies: u32, result: CallResult) -> CallResult {
    match result {
        CallResult::Failed(_) if copies > 1 => CallResult::Failed(ProposeError::Indeterminate),
        result => result,
    }
}
