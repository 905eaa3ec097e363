//! What happens, handed to those whom it concerns.

use fencepost_node::io::{Input, MemberId, Micros};

use super::World;
use super::happening::{Happening, ToMember};
use super::shown::Shown;
use super::start::TICK;

impl World {
    pub(super) fn happen(&mut self, what: Happening) {
        match what {
            Happening::Member(id, what) => self.reach_member(id, what),
            Happening::Client(client, what) => self.reach_client(client, what),
            Happening::Resume(id, life) => self.resume(id, life),
            Happening::ResumeClient(client) => self.resume_client(client),
            Happening::Start(id) => self.start(id),
            Happening::Retire(id) => self.switch_off(id),
            Happening::Write(client, lock, token) => self.write_arrives(client, lock, token),
            Happening::Cut(cut) => self.cut(&cut),
            Happening::Fault => self.do_harm(),
            Happening::Stale(step) => self.go_on_with_stale(step),
            Happening::Copied(step) => self.go_on_with_copied(step),
            Happening::Rebuild(id, is_old) => self.rebuild(id, is_old),
            Happening::Operate => self.operate(),
            Happening::Backup => self.make_backup(),
            Happening::Disaster => self.disaster(),
            Happening::Heal => self.heal(),
            Happening::Rest => self.rests = true,
        }
    }

    /// Something happens to the process of a member. If it is paused, it will find it later.
    pub(super) fn reach_member(&mut self, id: MemberId, what: ToMember) {
        let Some(member) = self.members.get_mut(&id) else { return };
        if let Some(pause) = &mut member.paused {
            pause.backlog.push_back(what);
            return;
        }
        let (runs, life) = (member.process.is_some(), member.life);
        match what {
            ToMember::Asked(client, call, _) if !runs => self.refuse_call(id, client, call),
            _ if !runs => {}
            ToMember::Hears(from, message) => {
                let what = format_args!("n{id} hears from n{from}: {}", Shown(&message));
                self.trace.note(self.now, 10, &[id, from], what);
                self.note_meeting(id, from, &message);
                let must_stop = self.must_stop(id, &message);
                self.input(id, Input::Peer(from, message));
                if must_stop && self.members[&id].life == life {
                    let what = format!("member {id} goes on although its disk is older");
                    self.watch.broken("stale-disk", what);
                }
            }
            ToMember::Asked(client, call, request) => self.asked(id, client, call, &request),
            ToMember::Tick(planned) if planned == life => self.tick(id),
            ToMember::Synced(planned) if planned == life => self.synced(id),
            ToMember::Kept(planned) if planned == life => self.kept(id),
            ToMember::Told(planned, input) if planned == life => self.input(id, input),
            ToMember::Tick(_) | ToMember::Synced(_) | ToMember::Kept(_) | ToMember::Told(..) => {}
        }
    }

    /// A member's timer goes off, and is wound up again.
    fn tick(&mut self, id: MemberId) {
        let member = &self.members[&id];
        let (life, clock) = (member.life, member.clock);
        let next = clock.when(Micros(clock.local(self.now).0 + TICK), self.now);
        self.agenda.plan(next, Happening::Member(id, ToMember::Tick(life)));
        self.input(id, Input::Tick);
    }
}
