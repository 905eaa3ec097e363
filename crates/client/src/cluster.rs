//! The cluster itself: members, leadership, backups.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use fencepost_proto::v1 as pb;
use fencepost_proto::v1::cluster_service_client::ClusterServiceClient;
use futures_core::Stream;
use tonic::Streaming;

use crate::client::Client;
use crate::error::Error;
use crate::shell::{ANSWER_LEN_MAX, from_status};

/// A member that is to be added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewMember {
    /// The number that its disk has drawn.
    pub id: u64,
    /// What people call it.
    pub name: String,
    /// Where other members reach it.
    pub peer_address: String,
    /// Where clients reach it.
    pub client_address: String,
}

impl Client {
    /// How the cluster is.
    ///
    /// # Errors
    ///
    /// If the service cannot be reached, or refuses.
    pub async fn status(&self) -> Result<pb::StatusResponse, Error> {
        let answer = self.shell().unary(true, |channel| async move {
            ClusterServiceClient::new(channel).status(pb::StatusRequest {}).await
        });
        answer.await
    }

    /// Who the members are.
    ///
    /// # Errors
    ///
    /// If the service cannot be reached, or refuses.
    pub async fn members(&self) -> Result<Vec<pb::Member>, Error> {
        let answer = self.shell().unary(true, |channel| async move {
            ClusterServiceClient::new(channel).members(pb::MembersRequest {}).await
        });
        Ok(answer.await?.members)
    }

    /// Adds a member that only follows until it is [promoted](Client::promote_member).
    ///
    /// # Errors
    ///
    /// [`Error::Rejected`] if it cannot be; [`Error::Indeterminate`] if there was no answer.
    pub async fn add_member(&self, member: NewMember) -> Result<(), Error> {
        let NewMember { id, name, peer_address, client_address } = member;
        let request = pb::AddMemberRequest { id, name, peer_address, client_address };
        let answer = self.shell().unary(false, move |channel| {
            let request = request.clone();
            async move { ClusterServiceClient::new(channel).add_member(request).await }
        });
        answer.await.map(drop)
    }

    /// Lets a member vote that has caught up.
    ///
    /// # Errors
    ///
    /// [`Error::Rejected`] if it cannot be; [`Error::Indeterminate`] if there was no answer.
    pub async fn promote_member(&self, id: u64) -> Result<(), Error> {
        let answer = self.shell().unary(false, move |channel| async move {
            ClusterServiceClient::new(channel).promote(pb::PromoteRequest { id }).await
        });
        answer.await.map(drop)
    }

    /// Takes a member out, for good.
    ///
    /// # Errors
    ///
    /// [`Error::Rejected`] if it cannot be; [`Error::Indeterminate`] if there was no answer.
    pub async fn remove_member(&self, id: u64) -> Result<(), Error> {
        let answer = self.shell().unary(false, move |channel| async move {
            ClusterServiceClient::new(channel).remove_member(pb::RemoveMemberRequest { id }).await
        });
        answer.await.map(drop)
    }

    /// Hands leadership to another member; without one, the leader chooses.
    ///
    /// # Errors
    ///
    /// [`Error::Rejected`] if it cannot be; [`Error::Indeterminate`] if there was no answer.
    pub async fn move_leader(&self, to: Option<u64>) -> Result<(), Error> {
        let to = to.unwrap_or(0);
        let answer = self.shell().unary(false, move |channel| async move {
            ClusterServiceClient::new(channel).move_leader(pb::MoveLeaderRequest { to }).await
        });
        answer.await.map(drop)
    }

    /// A backup of the state as it is now, in pieces.
    ///
    /// # Errors
    ///
    /// If the service cannot be reached, or refuses.
    pub async fn snapshot(&self) -> Result<Snapshot, Error> {
        self.snapshot_of(false).await
    }

    /// A backup of what the member that answers has applied, without asking the others. It works
    /// without a leader, and may lack what was confirmed last.
    ///
    /// # Errors
    ///
    /// If the service cannot be reached, or refuses.
    pub async fn snapshot_stale(&self) -> Result<Snapshot, Error> {
        self.snapshot_of(true).await
    }

    async fn snapshot_of(&self, stale: bool) -> Result<Snapshot, Error> {
        let stream = self.shell().unary(true, |channel| async move {
            let client = ClusterServiceClient::new(channel);
            let mut client = client.max_decoding_message_size(ANSWER_LEN_MAX);
            client.snapshot(pb::SnapshotRequest { stale }).await
        });
        Ok(Snapshot { stream: stream.await?, sum: 0, is_over: false })
    }
}

/// A backup on its way: a stream of pieces.
///
/// It is whole only if the stream ends without an error: the checksum comes with the last piece.
#[must_use = "a backup arrives only while it is polled"]
pub struct Snapshot {
    stream: Streaming<pb::SnapshotChunk>,
    sum: u32,
    is_over: bool,
}

impl Snapshot {
    /// The next piece; nothing after the last.
    pub async fn next(&mut self) -> Option<Result<Bytes, Error>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    fn take(&mut self, chunk: &pb::SnapshotChunk) -> Result<Bytes, Error> {
        self.sum = crc32c::crc32c_append(self.sum, &chunk.data);
        if chunk.is_last {
            self.is_over = true;
            if chunk.crc32c != self.sum {
                return Err(Error::Damaged { expected: chunk.crc32c, found: self.sum });
            }
        }
        Ok(chunk.data.clone())
    }
}

impl Stream for Snapshot {
    type Item = Result<Bytes, Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let snapshot = self.get_mut();
        if snapshot.is_over {
            return Poll::Ready(None);
        }
        let polled = std::task::ready!(Pin::new(&mut snapshot.stream).poll_next(context));
        let item = match polled {
            Some(Ok(chunk)) => snapshot.take(&chunk),
            Some(Err(status)) => Err(from_status(&status, true)),
            None => Err(Error::unavailable("the backup broke off before its end")),
        };
        snapshot.is_over |= item.is_err();
        Poll::Ready(Some(item))
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("sum", &self.sum).finish_non_exhaustive()
    }
}
