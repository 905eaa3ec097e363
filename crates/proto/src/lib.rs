//! What Fencepost speaks on the wire.
//!
//! Owns: the schemas in `proto/`, and the code that is generated from them without a system
//! `protoc`; and how messages are cut from a stream. Refuses: any other logic.

pub mod codec;
pub mod framing;

/// The native protocol: package `fencepost.v1`.
pub mod v1 {
    #![expect(clippy::all, missing_docs, unused_qualifications, reason = "generated")]
    tonic::include_proto!("fencepost.v1");
}

/// What etcd's clients speak.
pub mod etcd {
    #![expect(clippy::all, missing_docs, unused_qualifications, reason = "generated")]

    pub mod mvccpb {
        tonic::include_proto!("mvccpb");
    }
    pub mod etcdserverpb {
        tonic::include_proto!("etcdserverpb");
    }
    pub mod v3lockpb {
        tonic::include_proto!("v3lockpb");
    }
    pub mod v3electionpb {
        tonic::include_proto!("v3electionpb");
    }
}

/// The schemas of the native protocol, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/fencepost.bin"));

/// The schemas of etcd's protocol, for reflection.
pub const ETCD_DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/etcd.bin"));
