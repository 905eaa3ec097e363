//! Questions from somebody who need not be a member: to join, to form a cluster, to change who
//! belongs to it.

use super::frame::put_frame;
use super::{TEXT_BYTES_MAX, kind};
use crate::bytes::{Reader, put_text, put_u32, put_u64};
use crate::io::{Change, ChangeError, MemberId};
use crate::membership::{Member, Membership, decode_member, encode_member};

/// How many nodes a list may name. More voters than this make no cluster better.
const LISTED_MAX: u32 = 64;

/// A node of the list that a new cluster is formed from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// What it is called.
    pub name: String,
    /// Where others reach it.
    pub peer: String,
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Change the members.
    Change {
        /// The cluster that is meant; zero if the asker does not know it yet.
        cluster_id: u64,
        /// How.
        change: Change,
    },
    /// This node has an empty directory and wants to form a cluster with those on the list.
    Form {
        /// All that are to form it.
        list: Vec<Listed>,
        /// Who asks.
        member: Member,
    },
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// The members were changed. Also for a node that was among the founders, if the members have
    /// changed since: it begins with nothing, like one that joins.
    Changed {
        /// The cluster's incarnation.
        incarnation: u64,
        /// The members now.
        membership: Membership,
    },
    /// Ask there.
    Redirect(String),
    /// The members stay as they are.
    Unchanged(ChangeError),
    /// This node has an empty directory as well.
    Draft(Member),
    /// The cluster was founded with these members.
    Founded {
        /// The cluster's incarnation.
        incarnation: u64,
        /// The founding members.
        membership: Membership,
    },
}

impl Ask {
    /// Appends it as a frame.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_frame(kind::ASK, out, |out| match self {
            Ask::Change { cluster_id, change } => {
                out.push(0);
                put_u64(*cluster_id, out);
                put_change(change, out);
            }
            Ask::Form { list, member } => {
                out.push(1);
                put_u32(u32::try_from(list.len()).unwrap_or(u32::MAX), out);
                for Listed { name, peer } in list {
                    put_text(name, TEXT_BYTES_MAX, out);
                    put_text(peer, TEXT_BYTES_MAX, out);
                }
                encode_member(member, out);
            }
        });
    }

    /// Reads the body of a frame; nothing if it cannot be a question.
    #[must_use]
    pub fn read(body: &[u8]) -> Option<Ask> {
        let mut from = Reader::new(body);
        let ask = match from.u8()? {
            0 => Ask::Change { cluster_id: from.u64()?, change: change(&mut from)? },
            1 => {
                let len = from.u32().filter(|&len| len <= LISTED_MAX)?;
                let list: Option<Vec<Listed>> = (0..len).map(|_| listed(&mut from)).collect();
                Ask::Form { list: list?, member: decode_member(from.rest())? }
            }
            _ => return None,
        };
        from.is_empty().then_some(ask)
    }
}

impl Told {
    /// Appends it as a frame.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_frame(kind::TOLD, out, |out| match self {
            Told::Changed { incarnation, membership } => {
                out.push(0);
                put_u64(*incarnation, out);
                membership.encode(out);
            }
            Told::Redirect(address) => {
                out.push(1);
                put_text(address, TEXT_BYTES_MAX, out);
            }
            Told::Unchanged(why) => {
                out.push(2);
                put_change_error(why, out);
            }
            Told::Draft(member) => {
                out.push(3);
                encode_member(member, out);
            }
            Told::Founded { incarnation, membership } => {
                out.push(4);
                put_u64(*incarnation, out);
                membership.encode(out);
            }
        });
    }

    /// Reads the body of a frame; nothing if it cannot be an answer.
    #[must_use]
    pub fn read(body: &[u8]) -> Option<Told> {
        let mut from = Reader::new(body);
        let told = match from.u8()? {
            0 => {
                let incarnation = from.u64()?;
                Told::Changed { incarnation, membership: Membership::decode(from.rest())? }
            }
            1 => Told::Redirect(from.text(TEXT_BYTES_MAX)?),
            2 => Told::Unchanged(change_error(&mut from)?),
            3 => Told::Draft(decode_member(from.rest())?),
            4 => {
                let incarnation = from.u64()?;
                Told::Founded { incarnation, membership: Membership::decode(from.rest())? }
            }
            _ => return None,
        };
        from.is_empty().then_some(told)
    }
}

fn listed(from: &mut Reader<'_>) -> Option<Listed> {
    Some(Listed { name: from.text(TEXT_BYTES_MAX)?, peer: from.text(TEXT_BYTES_MAX)? })
}

fn put_change(change: &Change, out: &mut Vec<u8>) {
    match change {
        Change::Add(member) => {
            out.push(0);
            encode_member(member, out);
        }
        Change::Promote(id) => put_numbers(1, &[*id], out),
        Change::Remove(id) => put_numbers(2, &[*id], out),
        Change::Replace { old, new } => put_numbers(3, &[*old, *new], out),
    }
}

fn change(from: &mut Reader<'_>) -> Option<Change> {
    Some(match from.u8()? {
        0 => Change::Add(decode_member(from.rest())?),
        1 => Change::Promote(from.u64()?),
        2 => Change::Remove(from.u64()?),
        3 => Change::Replace { old: from.u64()?, new: from.u64()? },
        _ => return None,
    })
}

fn put_change_error(why: &ChangeError, out: &mut Vec<u8>) {
    match why {
        ChangeError::NotLeader { leader } => put_numbers(0, &[leader.unwrap_or(0)], out),
        ChangeError::Pending => out.push(1),
        ChangeError::UnknownMember(id) => put_numbers(2, &[*id], out),
        ChangeError::NameTaken(name) => {
            out.push(3);
            put_text(name, TEXT_BYTES_MAX, out);
        }
        ChangeError::WasRemoved(id) => put_numbers(4, &[*id], out),
        ChangeError::Malformed => out.push(5),
        ChangeError::NotCaughtUp { behind } => put_numbers(6, &[*behind], out),
        ChangeError::LastVoter => out.push(7),
        ChangeError::QuorumAtRisk => out.push(8),
        ChangeError::HandingOver => out.push(9),
        ChangeError::Indeterminate => out.push(10),
    }
}

fn change_error(from: &mut Reader<'_>) -> Option<ChangeError> {
    let member = |id: MemberId| Some(id).filter(|&id| id != 0);
    Some(match from.u8()? {
        0 => ChangeError::NotLeader { leader: member(from.u64()?) },
        1 => ChangeError::Pending,
        2 => ChangeError::UnknownMember(from.u64()?),
        3 => ChangeError::NameTaken(from.text(TEXT_BYTES_MAX)?),
        4 => ChangeError::WasRemoved(from.u64()?),
        5 => ChangeError::Malformed,
        6 => ChangeError::NotCaughtUp { behind: from.u64()? },
        7 => ChangeError::LastVoter,
        8 => ChangeError::QuorumAtRisk,
        9 => ChangeError::HandingOver,
        10 => ChangeError::Indeterminate,
        _ => return None,
    })
}

fn put_numbers(tag: u8, numbers: &[u64], out: &mut Vec<u8>) {
    out.push(tag);
    for number in numbers {
        put_u64(*number, out);
    }
}
