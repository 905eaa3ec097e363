//! What must hold for any bytes at all. Fuzzers and tests call these.

use crate::{framed, json_tcp, owners, ws};

/// Reads bytes as a message over WebSocket.
pub fn fuzz_ws(bytes: &[u8]) {
    ws::fuzz(bytes);
}

/// Reads bytes as a line of JSON over TCP.
pub fn fuzz_line(bytes: &[u8]) {
    json_tcp::fuzz(bytes);
}

/// Reads bytes as a lock command in text.
pub fn fuzz_text(bytes: &[u8]) {
    owners::fuzz(bytes);
}

/// Reads bytes as frames of a session without HTTP/2.
pub fn fuzz_frames(bytes: &[u8]) {
    framed::fuzz(bytes);
}
