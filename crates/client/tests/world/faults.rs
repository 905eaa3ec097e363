//! What goes wrong, and how it is put right.

use fastrand::Rng;

use super::network::ADDRESSES;
use super::{Event, MILLI, Micros, SECOND, World};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// Everything to and from this client is swallowed.
    CutOff(usize),
    /// This client's process stands still.
    Pause(usize),
    /// The service has no leader: it refuses everything.
    Leaderless,
    /// The machine of the member at this place is gone.
    Silent(usize),
}

/// Who leads, and where clients are told that it is.
pub(crate) fn draw_leader(rng: &mut Rng) -> (u64, String) {
    let member = rng.usize(0..ADDRESSES.len());
    (member as u64 + 1, ADDRESSES[member].to_owned())
}

impl World {
    pub(crate) fn fault(&mut self) {
        if !self.faults_on {
            return;
        }
        let client = self.rng.usize(0..self.clients.len());
        let length = self.rng.u64(50 * MILLI..6 * SECOND);
        match self.rng.u8(0..12) {
            0 | 1 => self.begin_fault(Fault::CutOff(client), length),
            2 | 3 => self.begin_fault(Fault::Pause(client), length),
            4 => self.begin_fault(Fault::Leaderless, length.min(2 * SECOND)),
            5 => {
                // The leader is gone: every stream breaks, and time stands still for a while.
                self.note(|| "leader change".to_owned());
                self.frozen_until = self.now + length.min(2 * SECOND);
                self.server.leader = Some(draw_leader(&mut self.rng));
                self.break_all();
            }
            6 => {
                self.note(|| "restart".to_owned());
                self.break_all();
            }
            10 => {
                // Leadership is handed over: nothing breaks, and clients may move.
                let leader = draw_leader(&mut self.rng);
                self.note(|| format!("{} leads", leader.1));
                self.server.leader = Some(leader);
            }
            11 => {
                let member = self.rng.usize(0..ADDRESSES.len());
                self.begin_fault(Fault::Silent(member), length);
            }
            7 => self.force(),
            8 => self.tamper(),
            _ => {
                let streams: Vec<u64> = self.network.streams.keys().copied().collect();
                if let Some(&stream) = self.rng.choice(&streams) {
                    self.note(|| format!("stream {stream} breaks"));
                    self.break_stream(stream);
                }
            }
        }
        let next = self.rng.u64(200 * MILLI..4 * SECOND);
        self.after(next, Event::Fault);
    }

    fn begin_fault(&mut self, fault: Fault, length: Micros) {
        self.note(|| format!("{fault:?} for {} ms", length / MILLI));
        match fault {
            Fault::CutOff(client) => self.clients[client].is_cut_off = true,
            Fault::Pause(client) => {
                let until = self.now + length;
                self.clients[client].paused_until = until;
            }
            Fault::Leaderless => self.server.is_leaderless = true,
            Fault::Silent(member) => {
                self.network.silent.insert(member);
            }
        }
        self.after(length, Event::Heal(fault));
    }

    pub(crate) fn heal(&mut self, fault: Fault) {
        match fault {
            Fault::CutOff(client) => self.clients[client].is_cut_off = false,
            Fault::Pause(_) => {}
            Fault::Leaderless => self.server.is_leaderless = false,
            Fault::Silent(member) => {
                self.network.silent.remove(&member);
            }
        }
    }

    fn break_all(&mut self) {
        for stream in self.network.streams.keys().copied().collect::<Vec<_>>() {
            self.break_stream(stream);
        }
    }

    /// An operator asks for a lock, and waits as long as the holder may believe.
    fn force(&mut self) {
        let held: Vec<(String, i64)> = self
            .server
            .claims
            .values()
            .filter(|claim| claim.is_granted && claim.names.len() == 1)
            .map(|claim| (claim.names[0].clone(), claim.token))
            .collect();
        let Some((name, token)) = self.rng.choice(&held).cloned() else { return };
        self.note(|| format!("an operator asks for {name} {token}"));
        self.server.force(&name, token, false, "maintenance");
    }

    /// Somebody deletes a holder's key: the promise does not cover this holder any more.
    fn tamper(&mut self) {
        let names: Vec<String> = self.server.queues.keys().cloned().collect();
        let Some(name) = self.rng.choice(&names).cloned() else { return };
        let first = self.server.queues[&name].first().copied();
        if let Some(claim) = first.and_then(|id| self.server.claims.get(&id)) {
            let (name, token) = (name.clone(), claim.token);
            self.check.tampered.insert(token);
            self.note(|| format!("somebody deletes the key of {name} {token}"));
        }
        self.server.delete_key_of(&name);
    }

    pub(crate) fn heal_all(&mut self) {
        self.note(|| "all is well from here on".to_owned());
        self.faults_on = false;
        self.frozen_until = self.frozen_until.min(self.now);
        self.server.is_leaderless = false;
        self.network.silent.clear();
        for client in &mut self.clients {
            client.is_cut_off = false;
            client.paused_until = 0;
        }
        for client in 0..self.clients.len() {
            self.at(self.now, Event::Wake(client));
        }
    }
}
