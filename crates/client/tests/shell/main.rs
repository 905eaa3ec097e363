//! The whole client against a server in this process, over a real connection.

#[path = "../support/mod.rs"]
mod support;

mod admin;
mod blocking;
mod connection;
mod crowds;
mod election;
mod leases;
mod locks;
mod losses;
mod watches;

use std::time::Duration;

use fencepost_client::Client;
use support::grpc::Server;

/// Long enough for a busy machine, short enough to notice.
const SOON: Duration = Duration::from_secs(20);

async fn client(server: &Server, name: &str) -> Client {
    Client::builder()
        .endpoints([server.endpoint()])
        .name(name)
        .connect()
        .await
        .expect("the server is there")
}
