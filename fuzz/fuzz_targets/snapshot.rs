#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fencepost_core::codec::fuzz::fuzz_snapshot(bytes));
