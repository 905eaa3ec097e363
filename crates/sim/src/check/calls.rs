//! The calls of the clients: when each was made, and when each command was first sent.

use std::collections::BTreeMap;
use std::rc::Rc;

use fencepost_core::codec::encode_command;

use crate::client::{CallNumber, ClientNumber, Request};
use crate::seen::Time;

/// A command as it is sent: its bytes tell it from all others that are numbered.
pub(super) type Bytes = Rc<[u8]>;

/// What a call asks for.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    /// A command, and whether it is numbered, so that an answer may be that of an earlier call.
    Command(Bytes, bool),
    /// A lock as it is.
    Read,
    /// A lock as somebody knows it.
    ReadStale,
}

/// A call.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) at: Time,
    pub(super) asked: Asked,
}

/// All calls that have not returned, and the first sending of every command.
#[derive(Default)]
pub(super) struct Calls {
    open: BTreeMap<(ClientNumber, CallNumber), Call>,
    first_sent: BTreeMap<Bytes, Time>,
}

impl Calls {
    pub(super) fn called(
        &mut self,
        at: Time,
        client: ClientNumber,
        call: CallNumber,
        request: &Request,
    ) -> Asked {
        let asked = match request {
            Request::Command(_, command) => {
                let mut bytes = Vec::new();
                encode_command(command, &mut bytes);
                let bytes = Bytes::from(bytes);
                self.first_sent.entry(bytes.clone()).or_insert(at);
                Asked::Command(bytes, command.once.is_some())
            }
            Request::Read(_) => Asked::Read,
            Request::ReadStale(_) => Asked::ReadStale,
        };
        self.open.insert((client, call), Call { at, asked: asked.clone() });
        asked
    }

    /// Takes out a call that has returned.
    pub(super) fn returned(&mut self, client: ClientNumber, call: CallNumber) -> Option<Call> {
        self.open.remove(&(client, call))
    }

    /// When a command with these bytes was first sent.
    pub(super) fn first_sent(&self, bytes: &[u8]) -> Option<Time> {
        self.first_sent.get(bytes).copied()
    }

    /// The cluster goes on from a backup: answers of the lost one tell nothing about it.
    pub(super) fn restore(&mut self) {
        self.open.clear();
    }
}
