//! Calls of clients, as they reach members, and their answers.

use std::sync::Arc;

use fencepost_node::io::{Answer, Input, MemberId, Proposal, ProposeError, RequestId};
use fencepost_node::machine::Order;

use super::World;
use super::happening::{Happening, ToClient};
use super::member::Asked;
use super::network::{End, Route};
use crate::client::{CallNumber, CallResult, ClientNumber, Request};
use crate::seen::Seen;

/// How many waiters a view lists.
const WAITERS_MAX: usize = 16;

impl World {
    /// A number for a request that no other has.
    pub(super) fn next_request(&mut self) -> RequestId {
        self.last_request += 1;
        RequestId { line: 0, number: self.last_request }
    }

    /// A call reaches a member that is awake.
    pub(super) fn asked(
        &mut self,
        id: MemberId,
        client: ClientNumber,
        call: CallNumber,
        asked: &Arc<Request>,
    ) {
        let request = self.next_request();
        let numbers = [id, u64::from(client.0), call.0, request.number];
        let what = format_args!("n{id} is asked by c{}: call {}, {asked:?}", client.0, call.0);
        self.trace.note(self.now, 40, &numbers, what);
        self.watch.tell(self.now, &Seen::Reached { client, call });
        let Some(process) = self.process(id) else { return };
        match &**asked {
            Request::Command(class, command) => {
                process.asked.insert(request, Asked::Command(client, call));
                let command = Order::from(command);
                let proposal = Proposal { request, class: *class, command };
                self.input(id, Input::Propose(proposal));
            }
            Request::Read(name) => {
                process.asked.insert(request, Asked::Read(client, call, name.clone()));
                self.input(id, Input::Read(request));
            }
            Request::ReadStale(name) => {
                let view = process.node.machine().state().lock(name, WAITERS_MAX);
                self.answer(id, client, call, CallResult::View(Box::new(view)));
            }
        }
    }

    /// A call reaches a member that does not run: the connection is refused.
    pub(super) fn refuse_call(&mut self, id: MemberId, client: ClientNumber, call: CallNumber) {
        if self.dice.clients.roll(2) == 0 {
            self.answer(id, client, call, CallResult::Failed(ProposeError::NoLeader));
        }
    }

    /// A node has an answer to a command, or none to a read.
    pub(super) fn replied(&mut self, id: MemberId, request: RequestId, answer: Answer) {
        let done = u64::from(answer.is_ok());
        let what = format_args!("n{id} answers {}: {answer:?}", request.number);
        self.trace.note(self.now, 41, &[id, request.number, done], what);
        let asked = self.process(id).and_then(|process| process.asked.remove(&request));
        if let Some(asked) = asked {
            let (client, call) = asked.whose();
            let result = answer.map_or_else(CallResult::Failed, CallResult::Done);
            self.answer(id, client, call, result);
        }
    }

    /// A node's state is fresh enough for a read.
    pub(super) fn read_ready(&mut self, id: MemberId, request: RequestId) {
        self.trace.note(
            self.now,
            42,
            &[id, request.number],
            format_args!("n{id} can read for {}", request.number),
        );
        let Some(process) = self.process(id) else { return };
        if let Some(Asked::Read(client, call, name)) = process.asked.remove(&request) {
            let view = process.node.machine().state().lock(&name, WAITERS_MAX);
            self.answer(id, client, call, CallResult::View(Box::new(view)));
        }
    }

    /// Sends an answer on its way. It may be lost, late, or come twice.
    pub(super) fn answer(
        &mut self,
        id: MemberId,
        client: ClientNumber,
        call: CallNumber,
        result: CallResult,
    ) {
        let link = (End::Member(id), End::Client(client.0));
        let incarnation =
            self.process(id).map(|process| process.node.machine().state().incarnation());
        let Route { first, copy } = self.network.route(self.now, link);
        if let Some(at) = copy {
            let answer = ToClient::Answer(call, incarnation, Box::new(result.clone()));
            self.agenda.plan(at, Happening::Client(client, answer));
        }
        if let Some(at) = first {
            let answer = ToClient::Answer(call, incarnation, Box::new(result));
            self.agenda.plan(at, Happening::Client(client, answer));
        }
    }
}
