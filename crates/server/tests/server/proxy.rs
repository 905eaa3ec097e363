//! A wire between members that can be cut.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// Passes on what comes to one address to another.
pub(crate) struct Proxy {
    address: SocketAddr,
    target: SocketAddr,
    task: Option<JoinHandle<()>>,
}

impl Proxy {
    pub(crate) async fn start(target: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there are free ports");
        let address = listener.local_addr().expect("it is bound");
        let task = Some(tokio::spawn(forward(listener, target)));
        Proxy { address, target, task }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends all connections, and takes no more.
    pub(crate) async fn cut(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            drop(task.await);
        }
    }

    pub(crate) async fn mend(&mut self) {
        let listener = TcpListener::bind(self.address).await.expect("the port is its own");
        self.task = Some(tokio::spawn(forward(listener, self.target)));
    }
}

async fn forward(listener: TcpListener, target: SocketAddr) {
    // When this is dropped, so are all connections.
    let mut connections = JoinSet::new();
    loop {
        let Ok((mut from, _)) = listener.accept().await else { return };
        connections.spawn(async move {
            let Ok(mut to) = TcpStream::connect(target).await else { return };
            drop(tokio::io::copy_bidirectional(&mut from, &mut to).await);
        });
    }
}
