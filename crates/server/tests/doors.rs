//! The doors for clients without leases: WebSocket, JSON over TCP, and text commands. Byte by byte,
//! on real sockets; nothing here sleeps, what is waited for is an answer.

#[path = "doors/browsers.rs"]
mod browsers;
#[path = "doors/cluster.rs"]
mod cluster;
#[path = "doors/corpus.rs"]
mod corpus;
#[path = "doors/holdings.rs"]
mod holdings;
#[path = "doors/json_tcp.rs"]
mod json_tcp;
#[path = "doors/json_tcp_rough.rs"]
mod json_tcp_rough;
#[path = "doors/one_queue.rs"]
mod one_queue;
#[path = "server/support.rs"]
#[expect(dead_code, reason = "shared with the tests of the native door")]
mod support;
#[path = "doors/talk.rs"]
mod talk;
#[path = "doors/text.rs"]
mod text;
#[path = "doors/websocket.rs"]
mod websocket;
#[path = "doors/websocket_rough.rs"]
mod websocket_rough;
