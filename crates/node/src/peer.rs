//! What members say to each other, as bytes. `docs/peer-protocol.md` describes them.
//!
//! Owns: the frames, the greeting with which every connection begins, and the questions that are
//! asked before somebody is a member. Guarantees: what was encoded is decoded to the same; whatever
//! the bytes are, decoding ends, does not panic, and sets no more memory aside than the frame has.
//! Refuses: sockets, which are the shell's.

mod ask;
mod frame;
mod greeting;
mod message;
mod refusal;

pub use ask::{Ask, Listed, Told};
pub use frame::{FRAME_BYTES_MAX, FrameBuffer, FrameError, HEADER_BYTES, put_frame};
pub use greeting::{Hello, PREAMBLE_BYTES, Preamble, Welcome};
pub use message::{decode_message, encode_message, lowest_version, weight};
pub use refusal::Refusal;

/// The oldest version of the protocol that this build speaks.
pub const VERSION_LOWEST: u32 = 1;
/// The newest.
pub const VERSION_HIGHEST: u32 = 2;

/// How long a name or an address may be.
const TEXT_BYTES_MAX: usize = 255;

/// What kind of frame it is. Numbers are never reused.
pub mod kind {
    /// Of the consensus engine.
    pub const RAFT: u8 = 1;
    /// A command for the leader.
    pub const FORWARD: u8 = 2;
    /// Its answer.
    pub const FORWARDED: u8 = 3;
    /// Asks for pieces of a snapshot.
    pub const SNAPSHOT_WANTED: u8 = 4;
    /// A piece of a snapshot.
    pub const SNAPSHOT_PIECE: u8 = 5;
    /// There is no such snapshot.
    pub const SNAPSHOT_GONE: u8 = 6;
    /// The receiver is no member any more.
    pub const YOU_WERE_REMOVED: u8 = 7;
    /// Asks whether it still is one.
    pub const AM_I_A_MEMBER: u8 = 8;
    /// The sender's process and log. Version 2.
    pub const INTRODUCTION: u8 = 9;
    /// The receiver runs from a copy of a data directory. Version 2.
    pub const COPIED_DIRECTORY: u8 = 10;
    /// A member wants to talk to another.
    pub const HELLO: u8 = 16;
    /// It may.
    pub const WELCOME: u8 = 17;
    /// It may not, or its question is not answered.
    pub const REFUSED: u8 = 18;
    /// A question from somebody who need not be a member.
    pub const ASK: u8 = 32;
    /// Its answer.
    pub const TOLD: u8 = 33;
}
