//! Writing one key, by whatever door.

use alloc::boxed::Box;

use crate::command::Mode;
use crate::event::{EventKind, KeyValue};
use crate::ids::{Key, LeaseId, LockName, LogTime, Revision, Seq, Value};
use crate::lock::Then;
use crate::mutant::Mutant;
use crate::record::{Contender, Record, Role, queue_form};
use crate::step::Step;

impl Step<'_> {
    /// Writes a key. The lease, if any, is alive. Answers with what stood there before.
    pub(crate) fn write(&mut self, key: Key, value: Value, lease: LeaseId) -> Option<KeyValue> {
        match self.state.keys.contains_key(&key) {
            true => Some(self.overwrite(&key, value, lease)),
            false => {
                self.create(key, value, lease);
                None
            }
        }
    }

    /// Makes a new key. A key of a queue's form gets its place in that queue: as a contender if
    /// it is attached to the very lease that it is named after, else as a foreign key.
    fn create(&mut self, key: Key, value: Value, lease: LeaseId) {
        let created = self.change();
        let queue = queue_form(&key);
        let role = match &queue {
            None => Role::Plain,
            Some((name, own))
                if *own == lease
                    && !self.joined_in_this_step(name, created)
                    && self.serves_others(lease) =>
            {
                Role::Contender(self.plain_contender())
            }
            Some(_) => Role::Foreign,
        };
        let record = self.new_record(value, lease, role);
        if let Some((name, _)) = queue {
            self.enter(name, &key, &record, Then::GoOn);
        }
        self.insert_record(key, record);
    }

    /// A record that comes into being with this step.
    pub(crate) fn new_record(&mut self, value: Value, lease: LeaseId, role: Role) -> Box<Record> {
        let created = self.change();
        let sub = self.state.next_sub;
        Box::new(Record { value, created, modified: created, version: 1, lease, sub, role })
    }

    pub(crate) fn insert_record(&mut self, key: Key, record: Box<Record>) {
        self.attach(&key, record.lease);
        self.insert_attached(key, record);
    }

    /// Makes a key whose lease knows it already.
    pub(crate) fn insert_attached(&mut self, key: Key, record: Box<Record>) {
        self.emit(EventKind::Put { kv: record.key_value(&key), prev: None });
        self.add_record_bytes(&key, &record);
        self.state.keys.insert(key, record);
    }

    /// A lease that was made for an owner and a lock stands in no other queue.
    fn serves_others(&self, lease: LeaseId) -> bool {
        self.state.leases.get(&lease).is_some_and(|lease| lease.sole_lock.is_none())
    }

    /// What an etcd client's transaction makes: exclusive, waiting as long as its lease lives.
    pub(crate) fn plain_contender(&self) -> Contender {
        Contender {
            mode: Mode::Exclusive,
            since: self.state.now,
            granted: Revision::NONE,
            seq: Seq::NONE,
            wait_until: LogTime::NEVER,
            metadata: Value::default(),
            extra: None,
        }
    }

    /// Two keys of one transaction have one `create_revision`. Only the first can be granted:
    /// two holders must never share a token.
    fn joined_in_this_step(&self, name: &LockName, created: Revision) -> bool {
        let Some(queue) = self.state.locks.get(name) else {
            return false;
        };
        self.state.keys[queue.last()].created == created
    }

    /// Writes a key that is there. Its place in a queue stays what it was, but a contender that
    /// is taken away from its lease can no longer be granted: it has become foreign.
    fn overwrite(&mut self, key: &Key, value: Value, lease: LeaseId) -> KeyValue {
        let revision = self.change();
        let mut record = self.state.keys.remove(key).expect("the caller has seen the key");
        self.take_record_bytes(key, &record);
        let prev = record.key_value(key);
        record.value = value;
        record.modified = revision;
        record.version += 1;
        if record.lease != lease {
            self.detach(key, record.lease);
            self.attach(key, lease);
            record.lease = lease;
        }
        let kv = record.key_value(key);
        self.emit(EventKind::Put { kv, prev: Some(Box::new(prev.clone())) });
        if record.lease != prev.lease && record.contender().is_some() {
            self.become_foreign(key, &mut record);
        } else if self.state.mutant(Mutant::PutMovesForward) && prev.lease != lease {
            self.move_forward(key, &mut record);
        }
        self.add_record_bytes(key, &record);
        self.state.keys.insert(key.clone(), record);
        prev
    }

    pub(crate) fn attach(&mut self, key: &Key, lease: LeaseId) {
        if let Some(lease) = self.state.leases.get_mut(&lease) {
            lease.keys.insert(key.clone());
        }
    }

    pub(crate) fn detach(&mut self, key: &Key, lease: LeaseId) {
        if let Some(lease) = self.state.leases.get_mut(&lease) {
            lease.keys.remove(key);
        }
    }
}
