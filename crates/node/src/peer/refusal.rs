//! Why a node does not talk to another. Three lines each: what, why, and what to do.

use super::frame::put_frame;
use super::{TEXT_BYTES_MAX, kind};
use crate::bytes::{Reader, put_text, put_u32, put_u64};
use crate::io::MemberId;

/// Why a node does not talk to another, as the one who was refused reads it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It could not be read.
    #[error(
        "the other node cannot read what this one says\n\
         the connection is damaged on its way, or one of the builds is at fault\n\
         look at what lies between the two; if nothing does, please report it"
    )]
    Malformed,
    /// No version is spoken by both.
    #[error(
        "the other node speaks the versions {lowest} to {highest} of the protocol, and this one \
         none of them\n\
         their builds are too far apart\n\
         upgrade the older build, one release at a time"
    )]
    Version {
        /// The oldest version that the other one speaks.
        lowest: u32,
        /// The newest.
        highest: u32,
    },
    /// It belongs to another cluster.
    #[error(
        "the other node belongs to cluster {here:016x}, this one to {asked:016x}\n\
         an address leads to the wrong node, or a directory came from another cluster\n\
         mend the address, or give the node an empty directory and let it join"
    )]
    OtherCluster {
        /// The cluster of the one who asked.
        asked: u64,
        /// The cluster of the one who answers.
        here: u64,
    },
    /// One of the two was restored from a backup.
    #[error(
        "the other node lives in incarnation {here} of the cluster, this one in {asked}\n\
         the cluster was restored from a backup, and one of the two is from before that\n\
         give the older one an empty directory and let it join"
    )]
    OtherIncarnation {
        /// The incarnation of the one who asked.
        asked: u64,
        /// The incarnation of the one who answers.
        here: u64,
    },
    /// Somebody else lives at this address.
    #[error(
        "member {asked:016x} was expected there, and {here:016x} ({name}) answers\n\
         the address was given to another member, or the member lost its directory\n\
         start the member with its directory, or remove it from the cluster"
    )]
    OtherMember {
        /// Who was wanted.
        asked: MemberId,
        /// Who is there.
        here: MemberId,
        /// What people call the one who is there.
        name: String,
    },
    /// The one who asks is not a member any more.
    #[error(
        "member {member:016x} was removed from the cluster\n\
         its number is never used again, because its votes are forgotten\n\
         give the node an empty directory and let it join"
    )]
    Removed {
        /// Who.
        member: MemberId,
    },
    /// The node is not part of a cluster yet.
    #[error(
        "the other node is not part of a cluster yet\n\
         it is starting, or it waits for others itself\n\
         wait for it, or look at what it says"
    )]
    NotReady,
    /// The name belongs to another disk.
    #[error(
        "{name} is already a member with another disk\n\
         a node that lost its directory has forgotten its votes, and must not pass for the old one\n\
         remove it, then let it join"
    )]
    NameTaken {
        /// Which name.
        name: String,
    },
    /// There is a cluster already, and the one who asks is not of it.
    #[error(
        "cluster {cluster_id:016x} exists already at {name}, and this node is not of it\n\
         a second cluster beside it would grant the same locks again\n\
         let this node join that cluster, or give it a list of its own"
    )]
    Exists {
        /// Which cluster.
        cluster_id: u64,
        /// A node of it.
        name: String,
    },
    /// The nodes were given different lists.
    #[error(
        "{name} was given another list of nodes than this one\n\
         every node must be given the same names and addresses\n\
         correct the list, and start the nodes again"
    )]
    ListsDiffer {
        /// Whose list is different.
        name: String,
    },
    /// Too many connections are open.
    #[error(
        "the other node has too many connections\n\
         something opens them without need\n\
         look at who connects to its peer address"
    )]
    Busy,
}

impl Refusal {
    /// Whether asking again can help.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, Refusal::NotReady | Refusal::Busy | Refusal::Malformed)
    }

    /// Appends it as a frame.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_frame(kind::REFUSED, out, |out| self.put_fields(out));
    }

    fn put_fields(&self, out: &mut Vec<u8>) {
        match self {
            Refusal::Malformed => out.push(0),
            Refusal::Version { lowest, highest } => {
                out.push(1);
                put_u32(*lowest, out);
                put_u32(*highest, out);
            }
            Refusal::OtherCluster { asked, here } => put_numbers(2, [*asked, *here], out),
            Refusal::OtherIncarnation { asked, here } => put_numbers(3, [*asked, *here], out),
            Refusal::OtherMember { asked, here, name } => {
                put_numbers(4, [*asked, *here], out);
                put_text(name, TEXT_BYTES_MAX, out);
            }
            Refusal::Removed { member } => put_numbers(5, [*member], out),
            Refusal::NotReady => out.push(6),
            Refusal::NameTaken { name } => {
                out.push(7);
                put_text(name, TEXT_BYTES_MAX, out);
            }
            Refusal::Exists { cluster_id, name } => {
                put_numbers(8, [*cluster_id], out);
                put_text(name, TEXT_BYTES_MAX, out);
            }
            Refusal::ListsDiffer { name } => {
                out.push(9);
                put_text(name, TEXT_BYTES_MAX, out);
            }
            Refusal::Busy => out.push(10),
        }
    }

    /// Reads the body of a frame; nothing if it cannot be a refusal.
    #[must_use]
    pub fn read(body: &[u8]) -> Option<Refusal> {
        let mut from = Reader::new(body);
        let refusal = match from.u8()? {
            0 => Refusal::Malformed,
            1 => Refusal::Version { lowest: from.u32()?, highest: from.u32()? },
            2 => Refusal::OtherCluster { asked: from.u64()?, here: from.u64()? },
            3 => Refusal::OtherIncarnation { asked: from.u64()?, here: from.u64()? },
            4 => {
                let (asked, here) = (from.u64()?, from.u64()?);
                Refusal::OtherMember { asked, here, name: name_from(&mut from)? }
            }
            5 => Refusal::Removed { member: from.u64()? },
            6 => Refusal::NotReady,
            7 => Refusal::NameTaken { name: name_from(&mut from)? },
            8 => Refusal::Exists { cluster_id: from.u64()?, name: name_from(&mut from)? },
            9 => Refusal::ListsDiffer { name: name_from(&mut from)? },
            10 => Refusal::Busy,
            _ => return None,
        };
        from.is_empty().then_some(refusal)
    }
}

/// A name that can stand in a line. Whoever sends a refusal decides what an operator reads.
fn name_from(from: &mut Reader<'_>) -> Option<String> {
    from.text(TEXT_BYTES_MAX).filter(|name| !name.contains(char::is_control))
}

fn put_numbers<const N: usize>(tag: u8, numbers: [u64; N], out: &mut Vec<u8>) {
    out.push(tag);
    for number in numbers {
        put_u64(number, out);
    }
}
