//! Many callers of one client at once.

use fencepost_client::Client;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::support::grpc::Server;
use crate::{SOON, client};

const CALLERS: usize = 64;
const TURNS: usize = 5;

/// Everyone takes and gives back a lock of his own, several times.
async fn crowd(client: &Client) {
    let mut callers = JoinSet::new();
    for number in 0..CALLERS {
        let client = client.clone();
        callers.spawn(async move {
            for _ in 0..TURNS {
                let lock = client.lock(format!("own/{number}")).acquire();
                lock.await.expect("it is free").release().await.expect("the server answers");
            }
        });
    }
    timeout(SOON, callers.join_all()).await.expect("everyone is answered");
}

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("there is a runtime")
}

#[test]
fn a_crowd_is_answered_on_one_thread_and_on_many() {
    let server = Server::start();
    for runtime in [one_thread(), Runtime::new().expect("there is a runtime")] {
        runtime.block_on(async { crowd(&client(&server, "crowd").await).await });
    }
}

/// The runtime in which the client was made hands out its answers, if it can.
#[test]
fn a_crowd_is_answered_although_the_client_was_made_where_nothing_runs_any_more() {
    let server = Server::start();
    let first = one_thread();
    let client = first.block_on(client(&server, "crowd"));
    let second = one_thread();
    second.block_on(crowd(&client));
    drop(first);
    second.block_on(crowd(&client));
}
