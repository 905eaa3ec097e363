//! Turns the schemas into Rust, without a `protoc`.

use std::path::PathBuf;
use std::{env, fs, io};

use prost::Message as _;

const SCHEMAS: [&str; 2] = ["fencepost/v1/lock.proto", "fencepost/v1/cluster.proto"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(SCHEMAS, ["proto"])?;
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo names no OUT_DIR"))?;
    // For reflection: whoever asks the server what it speaks gets this.
    fs::write(PathBuf::from(out).join("fencepost.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().bytes(".").compile_fds(descriptors)?;
    Ok(())
}
