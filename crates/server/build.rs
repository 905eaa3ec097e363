//! Takes the pages of `docs/errors` into the library, so that an error can say what to do about it
//! in the words of the documentation, and `fencepost` needs no other file.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or_else(missing)?);
    let pages = here.join("../../docs/errors");
    println!("cargo::rerun-if-changed={}", pages.display());
    let mut table = String::from("&[\n");
    for (code, path) in listed(&pages)? {
        println!("cargo::rerun-if-changed={}", path.display());
        table.push_str(&format!("    ({code:?}, include_str!({:?})),\n", path.display()));
    }
    table.push_str("]\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or_else(missing)?);
    fs::write(out.join("error_pages.rs"), table)
}

/// Every page with its code, in order.
fn listed(folder: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let code = path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned);
        if let Some(code) = code.filter(|_| path.extension().is_some_and(|end| end == "md")) {
            found.push((code, fs::canonicalize(path)?));
        }
    }
    found.sort();
    Ok(found)
}

fn missing() -> io::Error {
    io::Error::other("cargo says neither where the crate is nor where to write")
}
