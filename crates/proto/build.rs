//! Turns the schemas into Rust, without a `protoc`.

use std::path::PathBuf;
use std::{env, fs, io};

use prost::Message as _;

/// The schemas of one protocol, and where they are written for reflection: whoever asks the server
/// what it speaks gets this.
const PROTOCOLS: [(&str, &[&str]); 2] = [
    ("fencepost.bin", &["fencepost/v1/lock.proto", "fencepost/v1/cluster.proto"]),
    ("etcd.bin", &["etcd/rpc.proto", "etcd/v3lock.proto", "etcd/v3election.proto"]),
];

/// Where the generated code finds how messages are written and read.
const CODEC: &str = "crate::codec::Codec";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo names no OUT_DIR"))?;
    let out = PathBuf::from(out);
    for (name, schemas) in PROTOCOLS {
        let descriptors = protox::compile(schemas, ["proto"])?;
        fs::write(out.join(name), descriptors.encode_to_vec())?;
        let config = tonic_prost_build::configure().bytes(".").codec_path(CODEC);
        config.compile_fds(descriptors)?;
    }
    Ok(())
}
