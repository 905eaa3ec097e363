//! What Fencepost speaks on the wire.
//!
//! Owns: the schemas in `proto/`, and the code that is generated from them without a system
//! `protoc`. Refuses: any logic.

/// The native protocol: package `fencepost.v1`.
pub mod v1 {
    #![expect(clippy::all, missing_docs, unused_qualifications, reason = "generated")]
    tonic::include_proto!("fencepost.v1");
}

/// The schemas, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/fencepost.bin"));
