#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fencepost_server::fuzz::fuzz_frames(bytes));
