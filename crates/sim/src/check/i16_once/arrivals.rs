//! How often a command has reached a member, against how often it was applied.
//!
//! A client may send a command several times, and the network may copy it; each copy that reaches
//! a member is put into the log once at most, however it is passed on between members. A copy whose
//! sender was told that it was not done is not in the log at all.

use std::collections::BTreeMap;

use crate::check::calls::{Asked, Bytes};
use crate::check::{Check, broken};
use crate::client::{CallNumber, CallResult, ClientNumber};
use fencepost_node::io::ProposeError;

/// One call.
struct Sent {
    bytes: Bytes,
    reached: u64,
    refused: bool,
}

/// One command, over all its calls.
#[derive(Default)]
struct Command {
    /// Copies that may have been put into the log.
    allowed: u64,
    applied: u64,
}

/// All calls and commands.
#[derive(Default)]
pub(in crate::check) struct Arrivals {
    calls: BTreeMap<(ClientNumber, CallNumber), Sent>,
    commands: BTreeMap<Bytes, Command>,
}

impl Arrivals {
    pub(in crate::check) fn called(
        &mut self,
        client: ClientNumber,
        call: CallNumber,
        asked: &Asked,
    ) {
        let Asked::Command(bytes, _) = asked else { return };
        self.commands.entry(bytes.clone()).or_default();
        let sent = Sent { bytes: bytes.clone(), reached: 0, refused: false };
        self.calls.insert((client, call), sent);
    }

    /// A copy of a call has reached a member.
    pub(in crate::check) fn reached(&mut self, client: ClientNumber, call: CallNumber) {
        let Some(sent) = self.calls.get_mut(&(client, call)) else { return };
        sent.reached += 1;
        if !sent.refused
            && let Some(command) = self.commands.get_mut(&sent.bytes)
        {
            command.allowed += 1;
        }
    }

    /// A client was told what came of a call. Most refusals are certain.
    pub(in crate::check) fn returned(
        &mut self,
        client: ClientNumber,
        call: CallNumber,
        result: &CallResult,
    ) -> Check {
        let CallResult::Failed(why) = result else { return Ok(()) };
        let Some(sent) = self.calls.get_mut(&(client, call)) else { return Ok(()) };
        if *why == ProposeError::Indeterminate || sent.refused {
            return Ok(());
        }
        sent.refused = true;
        let bytes = sent.bytes.clone();
        if let Some(command) = self.commands.get_mut(&bytes) {
            command.allowed -= sent.reached;
        }
        self.enough(&bytes)
    }

    /// The reference has applied a command.
    pub(in crate::check) fn applied(&mut self, bytes: &Bytes) -> Check {
        if let Some(command) = self.commands.get_mut(bytes) {
            command.applied += 1;
        }
        self.enough(bytes)
    }

    fn enough(&self, bytes: &Bytes) -> Check {
        let Some(command) = self.commands.get(bytes) else { return Ok(()) };
        let Command { allowed, applied } = *command;
        if applied <= allowed {
            return Ok(());
        }
        let command = fencepost_core::codec::decode_command(bytes);
        let what = format!("{allowed} copies may be in the log, {applied} are: {command:?}");
        Err(broken("I16", what))
    }
}
