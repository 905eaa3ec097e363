//! The inputs that become commands.

use fencepost_core::command::{
    Caller, CallsAnswered, Compact, DeleteLock, Disconnect, LeaseGrant, LeaseRenew, LeaseRevoke,
    NodeLost, Once, PublishKey, Renewal, RevokeKey, RotateKey,
};
use fencepost_core::{
    Action, Actor, ClientId, Command, LeaseId, Limits, Millis, Namespace, NodeId, PublicKey,
    Reason, Revision, Seq, State, text,
};

use super::lock_words;
use super::ops;
use super::words::{Parsed, Words, call_id, lease_id, lease_ref, number, small};

/// What an input asks for.
pub(crate) enum Verb {
    /// A command.
    Command(Command),
    /// A text that is no command, and the answer to it.
    Unreadable(Reason),
}

/// Reads an input. Nothing, if its first word is no command's.
pub(crate) fn parse(word: &str, rest: &str, state: &State) -> Parsed<Option<Verb>> {
    if word == "text" {
        return Ok(Some(match text::parse(rest) {
            Ok(action) => {
                let again = text::format(&action).map(|again| text::parse(&again));
                assert_eq!(again, Some(Ok(action.clone())), "the text form must be reversible");
                Verb::from(action)
            }
            Err(reason) => Verb::Unreadable(reason),
        }));
    }
    let mut words = Words::split(rest)?;
    let actor = Actor::from(words.text("actor").as_str());
    let namespace = Namespace::from(words.text("ns").as_str());
    let numbers = Numbers::take(&mut words)?;
    let Some((action, by)) = action(word, &mut words, state)? else { return Ok(None) };
    words.finish()?;
    let once = numbers.once(by)?;
    Ok(Some(Verb::Command(Command { actor, namespace, once, action })))
}

/// `seq=`, `ack=` and `by=`, which any command can have.
struct Numbers {
    seq: Option<u64>,
    ack: u64,
    by: Option<Caller>,
}

impl Numbers {
    fn take(words: &mut Words) -> Parsed<Numbers> {
        let seq = words.option("seq").map(|text| number(&text)).transpose()?;
        let ack = words.number("ack")?;
        let by = match words.option("by") {
            None => None,
            Some(text) => Some(match text.strip_prefix("lease:") {
                Some(id) => Caller::Lease(lease_id(id)?),
                None => Caller::Client(ClientId::from(text.as_str())),
            }),
        };
        Ok(Numbers { seq, ack, by })
    }

    fn once(self, usual: Option<Caller>) -> Parsed<Option<Once>> {
        let Some(seq) = self.seq else {
            let lonely = self.ack != 0 || self.by.is_some();
            return if lonely { Err("ack= and by= need seq=".into()) } else { Ok(None) };
        };
        let by = self.by.or(usual).ok_or("seq= needs by=")?;
        Ok(Some(Once { by, seq: Seq(seq), ack_upto: Seq(self.ack) }))
    }
}

/// An action, and whose numbers it is usually counted by.
pub(crate) type Counted = (Action, Option<Caller>);

fn action(word: &str, words: &mut Words, state: &State) -> Parsed<Option<Counted>> {
    if let Some(counted) = lock_words::parse(word, words)? {
        return Ok(Some(counted));
    }
    let action = match word {
        "lease" => return lease(words).map(Some),
        "renew" => renew(words)?,
        "revoke" => Action::LeaseRevoke(LeaseRevoke { lease: lease_ref(&words.next("a lease")?)? }),
        "disconnect" => {
            let lease = words.next("a lease")?;
            let (lease, count) = lease.split_once('#').unwrap_or((&lease, "0"));
            Action::Disconnect(Disconnect { lease: lease_ref(lease)?, renewal: number(count)? })
        }
        "put" => Action::Put(ops::put(words)?),
        "put-plain" => Action::PutPlain(ops::put(words)?),
        "del" => Action::DeleteRange(ops::delete(words)?),
        "txn" => Action::Txn(Box::new(ops::txn(words)?)),
        "compact" => {
            Action::Compact(Compact { revision: Revision(number(&words.next("a revision")?)?) })
        }
        "delete-lock" => {
            Action::DeleteLock(DeleteLock { name: words.next("a lock")?.as_str().into() })
        }
        "answered" => {
            let key = words.next("a key")?.as_str().into();
            let call = words.call()?.unwrap_or_default();
            let contenders = vec![(key, words.token()?, call)];
            Action::CallsAnswered(CallsAnswered { contenders })
        }
        "node-lost" => {
            let call = call_id(&words.next("a node and its boot")?)?;
            Action::NodeLost(NodeLost { node: call.node, boot: call.boot })
        }
        "limits" => Action::SetLimits(Box::new(limits(words, state.limits().clone())?)),
        "feature" => Action::RaiseFeatureLevel(small(&words.next("a level")?)?),
        "publish-key" => Action::PublishKey(PublishKey {
            node: node(words)?,
            key: public_key(words)?,
            after: words.span("after")?.unwrap_or_default(),
        }),
        "rotate-key" => Action::RotateKey(RotateKey {
            node: node(words)?,
            after: words.span("after")?.unwrap_or_default(),
        }),
        "retire-keys" => Action::RetireKeys(node(words)?),
        "revoke-key" => Action::RevokeKey(RevokeKey { key: public_key(words)? }),
        "skipped" => Action::Skipped(small(&words.next("a number")?)?),
        _ => return Ok(None),
    };
    Ok(Some((action, None)))
}

fn node(words: &mut Words) -> Parsed<NodeId> {
    number(&words.next("a member")?).map(NodeId)
}

/// A key that is one byte over and over.
fn public_key(words: &mut Words) -> Parsed<PublicKey> {
    let byte = number(&words.next("a key")?)?;
    let byte = u8::try_from(byte).map_err(|_| "a key is a number below 256")?;
    Ok(PublicKey([byte; 32]))
}

fn lease(words: &mut Words) -> Parsed<Counted> {
    let id = match words.next("a lease id, or auto")?.as_str() {
        "auto" => LeaseId::NONE,
        id => lease_id(id)?,
    };
    let client = ClientId::from(words.text("client").as_str());
    let action = Action::LeaseGrant(LeaseGrant {
        id,
        ttl: words.span("ttl")?.ok_or("ttl= is missing")?,
        client: client.clone(),
        address: words.text("address").as_str().into(),
        revoke_on_disconnect: words.span("on-disconnect")?,
    });
    Ok((action, Some(Caller::Client(client))))
}

/// Each lease may carry the number of this renewal: `7#3`, or `7@2#3` with its epoch.
fn renew(words: &mut Words) -> Parsed<Action> {
    let mut renewals = Vec::new();
    while let Some(word) = words.pop() {
        let (lease, count) = word.split_once('#').unwrap_or((&word, "0"));
        renewals.push(Renewal { lease: lease_ref(lease)?, number: number(count)? });
    }
    Ok(Action::LeaseRenew(LeaseRenew { renewals }))
}

fn limits(words: &mut Words, mut limits: Limits) -> Parsed<Limits> {
    if words.is_empty() {
        return Err("which limits?".into());
    }
    let spans: [(&str, &mut Millis); 7] = [
        ("ttl_min", &mut limits.ttl_min),
        ("ttl_max", &mut limits.ttl_max),
        ("span_max", &mut limits.span_max),
        ("floor_kept", &mut limits.floor_kept),
        ("client_kept", &mut limits.client_kept),
        ("orphan_grace", &mut limits.orphan_grace),
        ("signing_key_kept", &mut limits.signing_key_kept),
    ];
    for (name, limit) in spans {
        *limit = words.span(name)?.unwrap_or(*limit);
    }
    let counts: [(&str, &mut u32); 19] = [
        ("key_len_max", &mut limits.key_len_max),
        ("value_len_max", &mut limits.value_len_max),
        ("text_len_max", &mut limits.text_len_max),
        ("queue_len_max", &mut limits.queue_len_max),
        ("leases_max", &mut limits.leases_max),
        ("clients_max", &mut limits.clients_max),
        ("permits_max", &mut limits.permits_max),
        ("names_per_acquire_max", &mut limits.names_per_acquire_max),
        ("txn_ops_max", &mut limits.txn_ops_max),
        ("renewals_max", &mut limits.renewals_max),
        ("window_len_max", &mut limits.window_len_max),
        ("due_per_entry_max", &mut limits.due_per_entry_max),
        ("history_events_max", &mut limits.history_events_max),
        ("history_bytes_max", &mut limits.history_bytes_max),
        ("floor_tokens_max", &mut limits.floor_tokens_max),
        ("txn_depth_max", &mut limits.txn_depth_max),
        ("txn_tree_ops_max", &mut limits.txn_tree_ops_max),
        ("position_counted_max", &mut limits.position_counted_max),
        ("signing_keys_max", &mut limits.signing_keys_max),
    ];
    for (name, limit) in counts {
        if let Some(text) = words.option(name) {
            *limit = small(&text)?;
        }
    }
    Ok(limits)
}
