//! Everything that the checkers can see, told by the world as it happens.

use fencepost_core::{State, Token};
use fencepost_node::io::MemberId;
use fencepost_node::membership::Membership;
use fencepost_node::node::Node;

use crate::client::{Belief, CallNumber, CallResult, ClientNumber, Request};

/// Microseconds of true time since the run began. Nobody in the simulation can read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub u64);

/// Something that happened.
pub enum Seen<'a> {
    /// A member applied an entry. Told for each entry, in the member's own order.
    Applied {
        /// Who.
        member: MemberId,
        /// Where in the log.
        index: u64,
        /// In which term it was proposed.
        term: u64,
        /// The engine's number for its kind; zero for commands.
        kind: i32,
        /// Its bytes.
        data: &'a [u8],
    },
    /// A member has handled an input and stands at this index with this state. Told when the
    /// index has changed.
    Stands {
        /// Who.
        member: MemberId,
        /// How far it has applied.
        index: u64,
        /// Its state.
        state: &'a State,
        /// Who the members are, as it knows.
        membership: &'a Membership,
    },
    /// A member has replaced its state by a snapshot from another one. `Stands` follows.
    Installed {
        /// Who.
        member: MemberId,
        /// The last entry that the snapshot covers.
        index: u64,
    },
    /// A member was started, from what its disk had. `Stands` follows.
    Started {
        /// Who.
        member: MemberId,
        /// How far its snapshot goes.
        index: u64,
    },
    /// A member has become leader.
    Leads {
        /// Who.
        member: MemberId,
        /// In which term.
        term: u64,
        /// The node, for a look at its log.
        node: &'a Node,
    },
    /// A client has made a call. The same number may be sent several times over the network;
    /// this is told once.
    Called {
        /// Who.
        client: ClientNumber,
        /// Which call of its.
        call: CallNumber,
        /// What it asks for.
        request: &'a Request,
    },
    /// A copy of a call has reached a member that runs.
    Reached {
        /// Whose call.
        client: ClientNumber,
        /// Which call of its.
        call: CallNumber,
    },
    /// A client was told what came of a call. Told once for each call, if at all.
    Returned {
        /// Who.
        client: ClientNumber,
        /// Which call of its.
        call: CallNumber,
        /// What came of it.
        result: &'a CallResult,
    },
    /// A client believes something new about what it holds.
    Believes {
        /// Who.
        client: ClientNumber,
        /// What.
        belief: &'a Belief,
        /// The true time up to which a belief to hold lasts if nothing renews it.
        until: Time,
    },
    /// A client was answered for the first time by a cluster that was restored, and has acted on it.
    Entered {
        /// Who.
        client: ClientNumber,
    },
    /// A client's write has reached the fenced store.
    Wrote {
        /// Who.
        client: ClientNumber,
        /// Which lock guards it.
        lock: &'a str,
        /// With which token.
        token: Token,
        /// Whether the store took it.
        accepted: bool,
    },
    /// All members are gone, and the cluster goes on from a backup. The state is the restored one
    /// and stands at this index; applied entries go on behind it.
    Restored {
        /// The last entry that the backup covers.
        index: u64,
        /// The restored state.
        state: &'a State,
    },
    /// Faults have ended: from here on the cluster must heal.
    Healed,
    /// The run is over. All members that run, as they are.
    Over {
        /// All members that run.
        nodes: &'a [(MemberId, &'a Node)],
    },
}

/// Something that must never happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant: `I1` and so on.
    pub invariant: &'static str,
    /// What was seen.
    pub what: String,
}
