//! The corpora of the fuzzers, run as tests. What a fuzzer finds is added there by hand.

use std::fs;
use std::path::Path;

use fencepost_server::fuzz;

fn run(folder: &str, least: usize, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(folder);
    let mut count = 0;
    for file in fs::read_dir(folder).expect("the corpus is there") {
        let bytes = fs::read(file.expect("it can be listed").path()).expect("it can be read");
        check(&bytes);
        // What is cut off, and what is damaged in one place.
        for end in 0..bytes.len() {
            check(&bytes[..end]);
            let mut damaged = bytes.clone();
            damaged[end] ^= 0x21;
            check(&damaged);
        }
        count += 1;
    }
    assert!(count >= least, "the corpus is not there");
}

#[test]
fn the_corpus_of_websocket_messages_passes() {
    run("ws", 8, fuzz::fuzz_ws);
}

#[test]
fn the_corpus_of_lines_passes() {
    run("line", 8, fuzz::fuzz_line);
}

#[test]
fn the_corpus_of_text_commands_passes() {
    run("text", 6, fuzz::fuzz_text);
}

#[test]
fn the_corpus_of_frames_passes() {
    run("frames", 8, fuzz::fuzz_frames);
}
