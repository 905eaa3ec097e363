//! A real etcd, if there is one on this machine.

use std::process::{Child, Command, Stdio};

use fencepost_testkit::{free_port, skip};
use tempfile::TempDir;
use tonic::transport::Channel;

use crate::support::soon;

/// A real etcd with an empty data directory.
pub(crate) struct Etcd {
    process: Child,
    pub(crate) url: String,
    _folder: TempDir,
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

impl Etcd {
    /// Starts one; nothing, if there is none.
    pub(crate) async fn start() -> Option<Etcd> {
        let folder = TempDir::new().expect("there is room for a folder");
        let url = format!("http://127.0.0.1:{}", free_port());
        let peer = format!("http://127.0.0.1:{}", free_port());
        let mut command = Command::new("etcd");
        command.args(["--name", "peer", "--initial-cluster", &format!("peer={peer}")]);
        command.args(["--listen-client-urls", &url, "--advertise-client-urls", &url]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.arg("--data-dir").arg(folder.path());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(process) = command.spawn() else {
            skip("etcd is missing", "apt-get install etcd-server");
            return None;
        };
        let etcd = Etcd { process, url, _folder: folder };
        soon(etcd.answers()).await;
        Some(etcd)
    }

    /// Waits until it serves: a connection is refused until then.
    async fn answers(&self) {
        use fencepost_proto::etcd::etcdserverpb as pb;
        use fencepost_proto::etcd::etcdserverpb::kv_client::KvClient;
        loop {
            if let Ok(channel) = self.endpoint().connect().await {
                let key = bytes::Bytes::from_static(b"health");
                let range = pb::RangeRequest { key, ..Default::default() };
                if KvClient::new(channel).range(range).await.is_ok() {
                    return;
                }
            }
            tokio::task::yield_now().await;
        }
    }

    fn endpoint(&self) -> tonic::transport::Endpoint {
        Channel::from_shared(self.url.clone()).expect("it is an address")
    }

    pub(crate) async fn channel(&self) -> Channel {
        self.endpoint().connect().await.expect("it serves")
    }
}
