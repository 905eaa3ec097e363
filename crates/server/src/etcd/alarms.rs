//! Alarm: that a key was refused for want of space, and notes of operators about members.
//!
//! The state raises `NOSPACE` when it refuses a key, and keeps it until it is disarmed. It refuses
//! nothing by itself: keys are written again as soon as there is space. An alarm that an operator
//! has raised is kept as a key until it is disarmed.

use fencepost_core::command::{Action, ChangeLimits, DeleteRange, Put};
use fencepost_core::range::{KeyRange, RangeQuery};
use fencepost_core::{Key, State};
use fencepost_proto::etcd::etcdserverpb as pb;
use fencepost_proto::etcd::etcdserverpb::alarm_request::AlarmAction;

use super::{EtcdDoor, header};
use crate::error::{Failure, Wrong};

/// Alarms stand before all keys that people choose.
const PREFIX: &str = "\0fencepost/alarm/";

fn key(member: u64, kind: pb::AlarmType) -> Key {
    Key::from(&*format!("{PREFIX}{member:016x}/{}", i32::from(kind)))
}

fn alarm_of(key: &[u8]) -> Option<pb::AlarmMember> {
    let text = std::str::from_utf8(key).ok()?.strip_prefix(PREFIX)?;
    let (member, kind) = text.split_once('/')?;
    let member_id = u64::from_str_radix(member, 16).ok()?;
    let alarm = pb::AlarmType::try_from(kind.parse::<i32>().ok()?).ok()?;
    Some(pb::AlarmMember { member_id, alarm: alarm.into() })
}

/// The alarms of a state. That it has no space is true of every member alike, so it is shown for
/// the one that answers.
fn all(state: &State, member_id: u64) -> Vec<pb::AlarmMember> {
    let query = RangeQuery::from(KeyRange::prefix(PREFIX.as_bytes()));
    let noted = state.range(&query);
    let noted = noted.kvs.iter().filter_map(|kv| alarm_of(&kv.key));
    let no_space = pb::AlarmMember { member_id, alarm: pb::AlarmType::Nospace.into() };
    let no_space = state.quota().no_space.then_some(no_space);
    no_space.into_iter().chain(noted.filter(|one| Some(*one) != no_space)).collect()
}

impl EtcdDoor {
    pub(super) async fn alarms(
        &self,
        request: &pb::AlarmRequest,
    ) -> Result<pb::AlarmResponse, Failure> {
        let unknown = |field| move |_| Failure::from(Wrong::Invalid(field, "is unknown"));
        let action = AlarmAction::try_from(request.action).map_err(unknown("action"))?;
        let kind = pb::AlarmType::try_from(request.alarm).map_err(unknown("alarm"))?;
        let key = key(request.member_id, kind);
        let alarm = pb::AlarmMember { member_id: request.member_id, alarm: request.alarm };
        if kind == pb::AlarmType::None && action != AlarmAction::Get {
            let header = Some(self.header_now());
            return Ok(pb::AlarmResponse { header, alarms: Vec::new() });
        }
        let (head, alarms) = match action {
            AlarmAction::Get => {
                let id = self.0.handle.status().id;
                self.0.ask(false, move |state| all(state, id)).await?
            }
            AlarmAction::Activate => {
                let put = Put { key, ..Put::default() };
                let (head, _) = self.0.act(Action::Put(put)).await?;
                (head, vec![alarm])
            }
            AlarmAction::Deactivate if self.clear_no_space(kind).await? => {
                let delete = DeleteRange { range: KeyRange::One(key), prev: false };
                let (head, _) = self.0.act(Action::DeleteRange(delete)).await?;
                (head, vec![alarm])
            }
            AlarmAction::Deactivate => {
                let range = KeyRange::One(key);
                let delete = DeleteRange { range, prev: false };
                let (head, outcome) = self.0.act(Action::DeleteRange(delete)).await?;
                let was_there = !matches!(outcome, fencepost_core::Outcome::Deleted(0, _));
                (head, if was_there { vec![alarm] } else { Vec::new() })
            }
        };
        Ok(pb::AlarmResponse { header: Some(header(head)), alarms })
    }

    /// Clears the state's own alarm. Says whether it was up.
    async fn clear_no_space(&self, kind: pb::AlarmType) -> Result<bool, Failure> {
        if kind != pb::AlarmType::Nospace {
            return Ok(false);
        }
        let (_, is_up) = self.0.ask(false, |state| state.quota().no_space).await?;
        if is_up {
            let change = ChangeLimits { clear_no_space: true, ..ChangeLimits::default() };
            self.0.act(Action::ChangeLimits(change)).await?;
        }
        Ok(is_up)
    }
}
