//! A client process: a session, a clock of its own, and workers that use locks.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use fencepost_client::core::{
    Config, HoldId, Input, LockSpec, Mode, Moment, OpId, Output, Session, Wait,
};

use super::network::ADDRESSES;
use super::{Event, MILLI, Micros, Options, SECOND, World};

pub(crate) struct Client {
    pub(crate) session: Session,
    /// The clock's rate in millionths, and what it showed at the beginning.
    pub(crate) rate: u64,
    offset: u64,
    pub(crate) is_cut_off: bool,
    pub(crate) paused_until: Micros,
    /// What happened while the process stood still.
    held_back: Vec<Input>,
    pub(crate) workers: Vec<Worker>,
    ops: u64,
    wake_at: Option<Micros>,
    /// Its workers begin nothing new.
    pub(crate) is_retired: bool,
}

#[derive(Default)]
pub(crate) struct Worker {
    pub(crate) doing: Doing,
}

#[derive(Default)]
pub(crate) enum Doing {
    #[default]
    Nothing,
    /// Waits for an acquire, and will give up at some time.
    Waiting(OpId),
    Working(HoldId, i64),
}

impl Client {
    pub(crate) fn new(at: usize, options: &Options, rng: &mut Rng) -> Client {
        let endpoints = ADDRESSES[..2].iter().map(|&one| one.to_owned()).collect();
        let client_id = format!("client-{at}");
        let seed = rng.u64(..);
        #[cfg_attr(not(feature = "mutants"), expect(unused_mut, reason = "for planted bugs"))]
        let mut session = Session::new(Config { client_id, endpoints, seed, ..Config::default() });
        #[cfg(feature = "mutants")]
        if let Some(mutant) = options.mutant {
            session.plant(mutant);
        }
        // The service's clock is never fast, and up to half a percent slow; so these differ from
        // it by less than one percent.
        let rate = match options.clocks_out_of_bounds {
            false => rng.u64(991_000..=1_009_000),
            true => rng.u64(700_000..=1_300_000),
        };
        Client {
            session,
            rate,
            offset: rng.u64(0..1_000 * SECOND),
            is_cut_off: false,
            paused_until: 0,
            held_back: Vec::new(),
            workers: (0..options.workers).map(|_| Worker::default()).collect(),
            ops: 0,
            wake_at: None,
            is_retired: false,
        }
    }

    /// What the clock shows at this true time.
    pub(crate) fn clock(&self, now: Micros) -> Moment {
        Moment::from_micros(self.offset + now * self.rate / 1_000_000)
    }

    /// The true time at which the clock shows this.
    pub(crate) fn true_time(&self, moment: Moment) -> Micros {
        (moment.micros().saturating_sub(self.offset)) * 1_000_000 / self.rate + 1
    }
}

impl World {
    pub(crate) fn wake(&mut self, client: usize) {
        let one = &mut self.clients[client];
        // One that was overtaken by an earlier one has nothing to do.
        if one.held_back.is_empty() && one.wake_at.is_some_and(|at| at > self.now) {
            return;
        }
        one.wake_at = None;
        self.input(client, Input::Tick);
    }

    /// Gives an input to a session, unless its process stands still.
    pub(crate) fn input(&mut self, client: usize, input: Input) {
        let paused_until = self.clients[client].paused_until;
        if self.now < paused_until {
            self.clients[client].held_back.push(input);
            self.at(paused_until, Event::Wake(client));
            return;
        }
        let mut inputs = std::mem::take(&mut self.clients[client].held_back);
        inputs.push(input);
        for input in inputs {
            self.input_now(client, input);
        }
        self.check_cutoffs(client);
        self.schedule_wake(client);
    }

    fn input_now(&mut self, client: usize, input: Input) {
        let one = &mut self.clients[client];
        let clock = one.clock(self.now);
        one.session.handle(clock, input);
        let outputs: Vec<Output> = one.session.outputs().collect();
        for output in outputs {
            self.output(client, output);
        }
    }

    fn schedule_wake(&mut self, client: usize) {
        let one = &self.clients[client];
        let Some(next) = one.session.next_wakeup() else { return };
        let at = one.true_time(next).max(self.now);
        if one.wake_at.is_none_or(|before| at < before || before < self.now) {
            self.clients[client].wake_at = Some(at);
            self.at(at, Event::Wake(client));
        }
    }

    fn output(&mut self, client: usize, output: Output) {
        match output {
            Output::Connect(link, address) => self.dial(client, link, &address),
            Output::Disconnect(link) => self.hang_up(client, link),
            Output::Send(link, frame) => self.send_to_server(client, link, *frame),
            Output::Connected(link, _) => self.check_moved(client, link),
            Output::Acquired(op, held) => {
                self.note(|| format!("c{client} {op:?} has {:?} {}", held.names, held.token));
                self.check_acquired(client, op, &held);
                match self.worker_of(client, op) {
                    Some(worker) => {
                        self.clients[client].workers[worker].doing =
                            Doing::Working(held.hold, held.token);
                        let length = self.rng.u64(MILLI..4 * SECOND);
                        self.after(length, Event::Work(client, worker));
                    }
                    // Its worker has just given up: the guard is dropped at once.
                    None => self.give_back(client, held.hold),
                }
            }
            Output::Failed(op, error) => {
                self.note(|| format!("c{client} {op:?} fails: {error}"));
                self.check_failed(client, op, &error);
                if let Some(worker) = self.worker_of(client, op) {
                    self.clients[client].workers[worker].doing = Doing::Nothing;
                    let pause = self.rng.u64(MILLI..SECOND);
                    self.after(pause, Event::Work(client, worker));
                }
            }
            Output::Extended(hold, validity) => self.check_extended(client, hold, validity),
            Output::Lost(hold, loss) => {
                self.note(|| format!("c{client} {hold:?} is lost: {loss:?}"));
                self.check.lost(client, hold);
            }
            _ => {}
        }
    }

    fn worker_of(&self, client: usize, op: OpId) -> Option<usize> {
        let waits = |worker: &Worker| matches!(worker.doing, Doing::Waiting(one) if one == op);
        self.clients[client].workers.iter().position(waits)
    }

    fn give_back(&mut self, client: usize, hold: HoldId) {
        self.check.gave_back(client, hold);
        self.input_now(client, Input::Release(hold, None));
    }

    /// The next thing that a worker does.
    pub(crate) fn work(&mut self, client: usize, worker: usize) {
        if self.now < self.clients[client].paused_until {
            let at = self.clients[client].paused_until;
            self.at(at, Event::Work(client, worker));
            return;
        }
        match std::mem::take(&mut self.clients[client].workers[worker].doing) {
            Doing::Nothing if self.clients[client].is_retired => {}
            Doing::Nothing => self.begin_acquire(client, worker),
            Doing::Waiting(op) => {
                self.note(|| format!("c{client} {op:?} is abandoned"));
                self.check.abandoned(client, op);
                self.input(client, Input::Abandon(op));
                self.after(MILLI, Event::Work(client, worker));
            }
            Doing::Working(hold, token) => {
                self.note(|| format!("c{client} {hold:?} {token} is given back"));
                self.check.gave_back(client, hold);
                self.clients[client].ops += 1;
                let op = OpId(self.clients[client].ops);
                let awaited = self.rng.bool().then_some(op);
                self.input(client, Input::Release(hold, awaited));
                let pause = self.rng.u64(0..200 * MILLI);
                self.after(pause, Event::Work(client, worker));
            }
        }
    }

    fn begin_acquire(&mut self, client: usize, worker: usize) {
        let spec = self.random_spec(client);
        self.clients[client].ops += 1;
        let op = OpId(self.clients[client].ops);
        let tag = format!("{client}:{}", op.0);
        let spec = LockSpec { metadata: tag.into(), ..spec };
        self.note(|| {
            format!("c{client} {op:?} wants {:?} {:?} {:?}", spec.names, spec.mode, spec.wait)
        });
        self.check.asked(client, op, &spec);
        self.clients[client].workers[worker].doing = Doing::Waiting(op);
        // One in eight gives up by itself; those that wait for ever always do, at last.
        let patience = match (spec.wait, self.rng.u8(0..8)) {
            (_, 0) => Some(self.rng.u64(MILLI..3 * SECOND)),
            (Wait::Forever, _) => Some(self.rng.u64(10 * SECOND..30 * SECOND)),
            _ => None,
        };
        self.input(client, Input::Acquire(op, Arc::new(spec)));
        if let Some(patience) = patience
            && self.worker_of(client, op).is_some()
        {
            self.after(patience, Event::Work(client, worker));
        }
    }

    fn random_spec(&mut self, _client: usize) -> LockSpec {
        let rng = &mut self.rng;
        let ttl = Duration::from_millis(*rng.choice(&[500, 1_000, 3_000]).expect("there is one"));
        let wait = match rng.u8(0..4) {
            0 => Wait::Try,
            1 => Wait::Forever,
            _ => Wait::AtMost(Duration::from_millis(rng.u64(10..4_000))),
        };
        let lock = rng.usize(0..self.options.locks);
        let mode = match (lock, rng.u8(0..3)) {
            // The second lock is also shared.
            (1, 0 | 1) => Mode::Shared,
            _ => Mode::Exclusive,
        };
        let all = mode == Mode::Exclusive && rng.u8(0..6) == 0;
        let names = match all {
            true => (0..self.options.locks).map(|lock| format!("lock-{lock}")).collect(),
            false => [format!("lock-{lock}")].into(),
        };
        LockSpec { names, mode, ttl, wait, ..LockSpec::default() }
    }
}
