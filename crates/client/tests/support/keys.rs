//! Keys, events and watches in the model.

use std::collections::BTreeMap;

use bytes::Bytes;
use fencepost_proto::v1 as pb;
use fencepost_proto::v1::event::Type;
use fencepost_proto::v1::session_response::Response;

use super::claims::key_of;
use super::store::{Store, refusal};

#[derive(Default)]
pub(crate) struct Keys {
    pub(crate) keys: BTreeMap<String, pb::KeyVal>,
    pub(crate) events: Vec<pb::Event>,
    pub(crate) compacted: i64,
    /// By stream and number on it: the request, and the request id it came with.
    pub(crate) watches: BTreeMap<(u64, i64), (u64, pb::WatchRequest)>,
}

fn matches(ask: &pb::WatchRequest, event: &pb::Event) -> bool {
    let key = event.kv.as_ref().map_or("", |kv| kv.key.as_str());
    let right_key = if ask.prefix { key.starts_with(&ask.key) } else { key == ask.key };
    let wanted = match event.r#type() {
        Type::Put => !ask.no_put,
        Type::Delete => !ask.no_delete,
        _ => ask.lock_events,
    };
    right_key && wanted
}

impl Store {
    fn happened(&mut self, mut event: pb::Event) {
        event.revision = self.revision;
        let last = self.keys.events.last();
        event.sub = match last {
            Some(last) if last.revision == self.revision => last.sub + 1,
            _ => 0,
        };
        self.keys.events.push(event.clone());
        let watching: Vec<(u64, i64, u64)> = self
            .keys
            .watches
            .iter()
            .filter(|(_, (_, ask))| matches(ask, &event))
            .map(|(&(stream, wire), &(request, _))| (stream, wire, request))
            .collect();
        for (stream, watch_id, request) in watching {
            let events = vec![event.clone()];
            let news = pb::WatchResponse { watch_id, events, ..Default::default() };
            self.send(stream, request, Response::Watch(news));
        }
    }

    /// At the present revision, which the caller has raised.
    pub(crate) fn write_key(&mut self, key: &str, value: Bytes, lease_id: i64) {
        let before = self.keys.keys.get(key).cloned();
        let kv = pb::KeyVal {
            key: key.to_owned(),
            value,
            create_revision: before.as_ref().map_or(self.revision, |kv| kv.create_revision),
            mod_revision: self.revision,
            version: before.as_ref().map_or(1, |kv| kv.version + 1),
            lease_id,
            raw_key: Bytes::new(),
        };
        self.keys.keys.insert(key.to_owned(), kv.clone());
        let event = pb::Event {
            r#type: Type::Put.into(),
            kv: Some(kv),
            prev_kv: before,
            ..Default::default()
        };
        self.happened(event);
    }

    pub(crate) fn erase_key(&mut self, key: &str, cause: &str) {
        let Some(before) = self.keys.keys.remove(key) else { return };
        let kv = pb::KeyVal { key: key.to_owned(), ..Default::default() };
        let event = pb::Event {
            r#type: Type::Delete.into(),
            kv: Some(kv),
            prev_kv: Some(before),
            cause: cause.to_owned(),
            ..Default::default()
        };
        self.happened(event);
    }

    pub(crate) fn lock_event(&mut self, kind: Type, name: &str, lease: i64, token: i64) {
        let kv = pb::KeyVal { key: key_of(name, lease), ..Default::default() };
        let client_id =
            self.leases.get(&lease).map_or_else(String::new, |lease| lease.client.clone());
        let event = pb::Event {
            r#type: kind.into(),
            kv: Some(kv),
            fencing_token: token,
            client_id,
            ..Default::default()
        };
        self.happened(event);
    }

    pub(crate) fn remove_keys_of(&mut self, lease: i64) -> u64 {
        let keys = self.keys.keys.iter().filter(|(_, kv)| kv.lease_id == lease);
        let keys: Vec<String> = keys.map(|(key, _)| key.clone()).collect();
        if !keys.is_empty() {
            self.revision += 1;
        }
        for key in &keys {
            self.erase_key(key, "expired");
        }
        keys.len() as u64
    }

    pub(crate) fn put(&mut self, ask: &pb::PutRequest) -> Result<Response, pb::Failure> {
        if ask.lease_id != 0 {
            self.live(ask.lease_id, 0)?;
        }
        let before = self.keys.keys.get(&ask.key).cloned();
        if ask.create_revision != 0
            && before.as_ref().map(|kv| kv.create_revision) != Some(ask.create_revision)
        {
            return Err(refusal("key_not_found"));
        }
        self.revision += 1;
        self.write_key(&ask.key, ask.value.clone(), ask.lease_id);
        let header = Some(self.header());
        Ok(Response::Put(pb::PutResponse { header, prev_kv: before.filter(|_| ask.prev_kv) }))
    }

    pub(crate) fn range(&self, ask: &pb::RangeRequest) -> Response {
        let right =
            |key: &&String| if ask.prefix { key.starts_with(&ask.key) } else { **key == ask.key };
        let found: Vec<pb::KeyVal> =
            self.keys.keys.keys().filter(right).map(|key| self.keys.keys[key].clone()).collect();
        let count = found.len() as u64;
        let found: Vec<pb::KeyVal> =
            found.into_iter().filter(|kv| kv.key.as_bytes() > &*ask.after).collect();
        let limit = if ask.limit == 0 { usize::MAX } else { ask.limit as usize };
        let more = found.len() > limit;
        let kvs = found.into_iter().take(limit).collect();
        Response::Range(pb::RangeResponse { header: Some(self.header()), kvs, more, count })
    }

    pub(crate) fn delete_range(&mut self, ask: &pb::DeleteRangeRequest) -> Response {
        let right =
            |key: &&String| if ask.prefix { key.starts_with(&ask.key) } else { **key == ask.key };
        let keys: Vec<String> = self.keys.keys.keys().filter(right).cloned().collect();
        let mut prev_kvs = Vec::new();
        if !keys.is_empty() {
            self.revision += 1;
        }
        for key in &keys {
            prev_kvs.extend(self.keys.keys.get(key).cloned());
            let own = |claim: &super::claims::Claim| {
                claim.names.iter().any(|name| key_of(name, claim.lease) == *key)
            };
            let claim = self.claims.iter().find(|(_, claim)| own(claim)).map(|(&id, _)| id);
            match claim {
                Some(id) => self.remove_claim(id, "deleted"),
                None => self.erase_key(key, "deleted"),
            }
        }
        self.settle();
        if !ask.prev_kv {
            prev_kvs.clear();
        }
        let header = Some(self.header());
        Response::Deleted(pb::DeleteRangeResponse {
            header,
            deleted: keys.len() as u64,
            prev_kvs,
            ..Default::default()
        })
    }

    pub(crate) fn compact(&mut self, revision: i64) {
        self.keys.compacted = revision;
        self.keys.events.retain(|event| event.revision >= revision);
    }

    pub(crate) fn watch(&mut self, stream: u64, request_id: u64, ask: pb::WatchRequest) {
        let watch_id = ask.watch_id;
        if ask.cancel {
            self.keys.watches.remove(&(stream, watch_id));
            let canceled = pb::WatchResponse { watch_id, canceled: true, ..Default::default() };
            self.send(stream, request_id, Response::Watch(canceled));
            return;
        }
        if self.refuses_watches > 0 {
            self.refuses_watches -= 1;
            let failure = pb::Failure { retryable: true, ..refusal("overloaded") };
            self.fail(stream, request_id, failure);
            return;
        }
        if ask.start_revision != 0 && ask.start_revision < self.keys.compacted {
            let compact_revision = self.keys.compacted;
            let news = pb::WatchResponse {
                watch_id,
                compact_revision,
                canceled: true,
                ..Default::default()
            };
            self.send(stream, request_id, Response::Watch(news));
            return;
        }
        let created = pb::WatchResponse { watch_id, created: true, ..Default::default() };
        self.send(stream, request_id, Response::Watch(created));
        let missed = |event: &&pb::Event| {
            ask.start_revision != 0 && event.revision >= ask.start_revision && matches(&ask, event)
        };
        let events: Vec<pb::Event> = self.keys.events.iter().filter(missed).cloned().collect();
        if !events.is_empty() {
            let news = pb::WatchResponse { watch_id, events, ..Default::default() };
            self.send(stream, request_id, Response::Watch(news));
        }
        self.keys.watches.insert((stream, watch_id), (request_id, ask));
    }
}
