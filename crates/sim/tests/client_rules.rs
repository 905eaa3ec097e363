//! Clients against one state and a bad network: they get work done, and they never believe in more
//! than the state has promised them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fencepost_core::command::{Entry, Mode};
use fencepost_core::event::{Cause, Event, EventKind};
use fencepost_core::{LockName, LogTime, State, Token};
use fencepost_node::io::{Micros, ProposeError};
use fencepost_sim::client::{
    Belief, CallNumber, CallResult, Client, ClientAction, ClientEvent, ClientNumber, Request,
    WorkloadPlan,
};
use fencepost_sim::dice::Dice;

const SECOND: u64 = 1_000_000;

/// Something that will happen.
enum Coming {
    ToClient(usize, ClientEvent),
    ToServer(usize, CallNumber, Request),
}

/// One state that serves, and the clients around it. All clocks are the same here.
struct Bench {
    state: State,
    clients: Vec<Client>,
    coming: BTreeMap<(u64, u64), Coming>,
    count: u64,
    now: u64,
    dice: Dice,
    /// How many messages in a million are lost.
    loss: u32,
    calls: u64,
    beliefs: u64,
    writes: u64,
    releases: u64,
    /// Tokens that an operator took, or whose keys were removed as keys.
    taken: BTreeSet<Token>,
}

impl Bench {
    fn new(seed: u64, loss: u32) -> Bench {
        let plan = WorkloadPlan::draw(&mut Dice::new(seed, 1));
        let client = |number| {
            let dice = Dice::new(seed, 100 + u64::from(number));
            Client::new(ClientNumber(number), dice, &plan)
        };
        let clients: Vec<Client> = (0..plan.clients).map(client).collect();
        let mut bench = Bench {
            state: State::new(),
            clients,
            coming: BTreeMap::new(),
            count: 0,
            now: 0,
            dice: Dice::new(seed, 2),
            loss,
            calls: 0,
            beliefs: 0,
            writes: 0,
            releases: 0,
            taken: BTreeSet::new(),
        };
        for number in 0..bench.clients.len() {
            bench.plan(0, Coming::ToClient(number, ClientEvent::Wake));
        }
        bench
    }

    fn plan(&mut self, wait: u64, coming: Coming) {
        self.count += 1;
        self.coming.insert((self.now + wait, self.count), coming);
    }

    /// Sends over the network: lost, or late, or doubled.
    fn send(&mut self, make: impl Fn() -> Coming) {
        let copies = 1 + u64::from(self.dice.chance(50_000));
        for _ in 0..copies {
            if !self.dice.chance(self.loss) {
                let wait = self.dice.between(200, 30_000);
                self.plan(wait, make());
            }
        }
    }

    fn run(&mut self, until: u64) {
        while let Some((&(at, _), _)) = self.coming.first_key_value() {
            if at > until {
                return;
            }
            let (_, coming) = self.coming.pop_first().expect("it was just seen");
            self.now = at;
            match coming {
                Coming::ToClient(number, event) => {
                    let actions = self.clients[number].handle(Micros(at), event);
                    for action in actions {
                        self.act(number, action);
                    }
                }
                Coming::ToServer(number, call, request) => self.serve(number, call, &request),
            }
        }
    }

    fn act(&mut self, number: usize, action: ClientAction) {
        match action {
            ClientAction::Call(call, request) => {
                self.calls += 1;
                self.send(|| Coming::ToServer(number, call, request.clone()));
            }
            ClientAction::WakeAt(at) => {
                let wait = at.0.saturating_sub(self.now);
                self.plan(wait, Coming::ToClient(number, ClientEvent::Wake));
            }
            ClientAction::Write(..) => self.writes += 1,
            ClientAction::Believe(Belief::Holds { lock, token, until, exclusive }) => {
                self.beliefs += 1;
                self.is_promised(number, &lock, token, until, exclusive);
            }
            ClientAction::Believe(Belief::HoldsNot { .. }) => self.releases += 1,
            ClientAction::Reconnect | ClientAction::GiveUp(_) => {}
        }
    }

    /// The holder's lease must last longer than the client believes, in the state as it is. Only
    /// what was taken away as the operator's or as a key may be believed in a little longer.
    fn is_promised(
        &self,
        number: usize,
        lock: &LockName,
        token: Token,
        until: Micros,
        exclusive: bool,
    ) {
        let view = self.state.lock(lock, 0);
        let Some(holder) = view.holders.iter().find(|holder| holder.token == token) else {
            let over = self.taken.contains(&token) || until.0 <= self.now;
            assert!(over, "c{number} believes in {lock} {token:?}, held by {view:?}");
            return;
        };
        let ends = holder.forced_at.unwrap_or(holder.expires_at).min(holder.expires_at);
        assert!(ends.0 * 1_000 > until.0, "c{number} holds {lock} until {ends:?}, not {until:?}");
        assert_eq!(exclusive, holder.mode == Mode::Exclusive);
    }

    /// Tells a client of its grants, and notes what was taken away.
    fn tell(&mut self, event: &Arc<Event>) {
        match &event.kind {
            EventKind::Granted(holding) => {
                let is_its = |number: &usize| holding.client.as_str() == format!("c{number}");
                if let Some(whose) = (0..self.clients.len()).find(is_its) {
                    let notice = || ClientEvent::Notified(Arc::clone(event));
                    self.send(|| Coming::ToClient(whose, notice()));
                }
            }
            EventKind::Deleted { prev, ended: Some(ended) } => {
                if matches!(ended.cause, Cause::Forced | Cause::Deleted) {
                    self.taken.insert(Token::from(prev.create_revision));
                }
            }
            EventKind::Lost(holding) => drop(self.taken.insert(holding.token)),
            _ => {}
        }
    }

    fn serve(&mut self, number: usize, call: CallNumber, request: &Request) {
        let stamp = LogTime(self.now / 1_000);
        let result = match request {
            Request::Command(_, command) => {
                let commands = vec![command.clone()];
                let effects = self.state.apply(Entry { at: stamp, commands });
                for event in &effects.events {
                    self.tell(event);
                }
                CallResult::Done(effects.replies[0].clone())
            }
            Request::Read(name) | Request::ReadStale(name) => {
                self.state.apply(Entry { at: stamp, commands: vec![] });
                CallResult::View(Box::new(self.state.lock(name, 16)))
            }
        };
        let refused = CallResult::Failed(ProposeError::Indeterminate);
        let result = if self.dice.chance(self.loss / 4) { refused } else { result };
        self.send(|| Coming::ToClient(number, ClientEvent::Answered(call, result.clone())));
    }
}

#[test]
fn clients_believe_in_no_more_than_they_were_promised() {
    for seed in 0..60 {
        for loss in [0, 50_000, 250_000] {
            let mut bench = Bench::new(seed, loss);
            bench.run(30 * SECOND);
            assert!(bench.beliefs > 20, "seed {seed}: only {} beliefs", bench.beliefs);
            assert!(bench.releases > 10, "seed {seed}: only {} given up", bench.releases);
        }
    }
}

#[test]
fn clients_make_a_load_that_is_neither_idle_nor_a_flood() {
    let mut rates: Vec<u64> = (0..60)
        .map(|seed| {
            let mut bench = Bench::new(seed, 0);
            bench.run(30 * SECOND);
            bench.calls / 30
        })
        .collect();
    rates.sort_unstable();
    let (low, middle, high) = (rates[3], rates[30], rates[56]);
    assert!(low >= 20 && (50..200).contains(&middle) && high <= 300, "{low} {middle} {high}");
}

#[test]
fn exclusive_holders_write_to_the_store() {
    let writes: u64 = (0..10)
        .map(|seed| {
            let mut bench = Bench::new(seed, 0);
            bench.run(20 * SECOND);
            bench.writes
        })
        .sum();
    assert!(writes > 200, "only {writes}");
}

#[test]
fn a_client_that_hears_nothing_asks_on() {
    let mut bench = Bench::new(3, 1_000_000);
    bench.run(20 * SECOND);
    let before = bench.calls;
    assert!(before > 20, "only {before} calls");
    bench.loss = 0;
    bench.run(40 * SECOND);
    assert!(bench.beliefs > 5, "only {} beliefs", bench.beliefs);
}

#[test]
fn the_same_seed_does_the_same() {
    let run = || {
        let mut bench = Bench::new(11, 50_000);
        bench.run(20 * SECOND);
        (bench.calls, bench.beliefs, bench.writes, bench.state.hash())
    };
    assert_eq!(run(), run());
}
