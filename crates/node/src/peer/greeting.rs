//! How a connection begins: who is there, and whom do you want to talk to?
//!
//! The preamble, [`Hello`] and the refusals keep their bytes for ever, because two builds must be
//! able to tell each other that they cannot talk. What a later version adds comes after the
//! welcome.

use super::frame::put_frame;
use super::{Refusal, TEXT_BYTES_MAX, VERSION_HIGHEST, VERSION_LOWEST, kind};
use crate::bytes::{Reader, put_text, put_u32, put_u64};
use crate::io::MemberId;

const MAGIC: [u8; 8] = *b"FPPEERS\0";

/// The bytes of a preamble.
pub const PREAMBLE_BYTES: usize = 16;

/// The first bytes of both sides: that this is Fencepost, and which versions are spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preamble {
    /// The oldest version.
    pub lowest: u32,
    /// The newest version.
    pub highest: u32,
}

impl Preamble {
    /// What this build says.
    pub const OURS: Preamble = Preamble { lowest: VERSION_LOWEST, highest: VERSION_HIGHEST };

    /// Appends its bytes.
    pub fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        put_u32(self.lowest, out);
        put_u32(self.highest, out);
    }

    /// Reads a preamble; nothing if it is another protocol's.
    #[must_use]
    pub fn read(bytes: &[u8; PREAMBLE_BYTES]) -> Option<Preamble> {
        let mut from = Reader::new(bytes);
        if from.array() != Some(MAGIC) {
            return None;
        }
        Some(Preamble { lowest: from.u32()?, highest: from.u32()? })
    }

    /// The newest version that both speak.
    ///
    /// # Errors
    ///
    /// [`Refusal::Version`] if there is none.
    pub fn agree(self, other: Preamble) -> Result<u32, Refusal> {
        let version = self.highest.min(other.highest);
        if version < self.lowest || version < other.lowest {
            return Err(Refusal::Version { lowest: self.lowest, highest: self.highest });
        }
        Ok(version)
    }
}

/// A member wants to talk to another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// The cluster of the one who asks.
    pub cluster_id: u64,
    /// How often that cluster was restored from a backup.
    pub incarnation: u64,
    /// Who asks.
    pub member: MemberId,
    /// What people call it.
    pub name: String,
    /// Where it is reached.
    pub peer: String,
    /// With whom it wants to talk.
    pub to: MemberId,
}

impl Hello {
    /// Appends it as a frame.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_frame(kind::HELLO, out, |out| {
            for number in [self.cluster_id, self.incarnation, self.member, self.to] {
                put_u64(number, out);
            }
            put_text(&self.name, TEXT_BYTES_MAX, out);
            put_text(&self.peer, TEXT_BYTES_MAX, out);
        });
    }

    /// Reads the body of a frame; nothing if it cannot be a hello.
    #[must_use]
    pub fn read(body: &[u8]) -> Option<Hello> {
        let mut from = Reader::new(body);
        let hello = Hello {
            cluster_id: from.u64()?,
            incarnation: from.u64()?,
            member: from.u64().filter(|&id| id != 0)?,
            to: from.u64()?,
            name: from.text(TEXT_BYTES_MAX)?,
            peer: from.text(TEXT_BYTES_MAX)?,
        };
        from.is_empty().then_some(hello)
    }
}

/// The answer to a hello that is accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Welcome {
    /// The version that both speak.
    pub version: u32,
    /// Who answers.
    pub member: MemberId,
}

impl Welcome {
    /// Appends it as a frame.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_frame(kind::WELCOME, out, |out| {
            put_u32(self.version, out);
            put_u64(self.member, out);
        });
    }

    /// Reads the body of a frame; nothing if it cannot be a welcome.
    #[must_use]
    pub fn read(body: &[u8]) -> Option<Welcome> {
        let mut from = Reader::new(body);
        let welcome = Welcome { version: from.u32()?, member: from.u64()? };
        from.is_empty().then_some(welcome)
    }
}
