//! Alarm: notes of operators about members.
//!
//! A member that cannot go on stops, so this server raises no alarm itself. One that somebody has
//! raised is kept as a key, is listed until it is taken back, and refuses nothing.

use fencepost_core::command::{Action, DeleteRange, Put};
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

fn all(state: &State) -> Vec<pb::AlarmMember> {
    let query = RangeQuery::from(KeyRange::prefix(PREFIX.as_bytes()));
    state.range(&query).kvs.iter().filter_map(|kv| alarm_of(&kv.key)).collect()
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
            AlarmAction::Get => self.0.ask(false, all).await?,
            AlarmAction::Activate => {
                let put = Put { key, ..Put::default() };
                let (head, _) = self.0.act(Action::Put(put)).await?;
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
}
