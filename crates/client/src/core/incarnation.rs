//! What a session does when its cluster was restored from a backup.
//!
//! Every restore draws a random incarnation. Leases of the one before mean nothing to the restored
//! cluster, so the session ends all of them as soon as it meets a member of another incarnation.
//!
//! Guarantees: no lease of one incarnation is renewed in another; a request that must not be sent
//! twice is not sent to two incarnations; a member that was left over from before the restore does
//! not end the leases of the restored cluster.
//!
//! Within one incarnation revisions only grow. If an answer that claims to be current has a lower
//! revision than the session had seen when it asked, the data of the cluster was set back to an older
//! copy. What the session holds may be held by another then, so it ends as well, and the answer is not
//! believed.

use fencepost_proto::v1 as pb;

use super::Session;

/// The code of an answer that is not believed.
const CODE_SET_BACK: &str = "cluster_set_back";

/// The incarnation that a session belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Incarnation {
    number: u64,
    /// The largest revision that was seen in it. A restored cluster starts above every revision of
    /// the one before, so the revisions of two incarnations tell which is the later.
    revision: i64,
}

impl Incarnation {
    /// None in a header that names no cluster: an incarnation is one of a cluster.
    fn of(header: &pb::Header) -> Option<Incarnation> {
        let pb::Header { incarnation: number, revision, .. } = *header;
        (header.cluster_id != 0).then_some(Incarnation { number, revision })
    }
}

impl Session {
    /// Refuses a member of an incarnation before the present one. A member that has not loaded its
    /// state yet cannot be told from such a one, so it is tried again like one that is down.
    pub(super) fn check_incarnation(
        &self,
        endpoint: &str,
        header: &pb::Header,
    ) -> Result<(), String> {
        let Some((found, own)) = Incarnation::of(header).zip(self.link.incarnation) else {
            return Ok(());
        };
        if found.number == own.number || found.revision > own.revision {
            return Ok(());
        }
        let (found, own) = (found.number, own.number);
        Err(format!(
            "{endpoint} is in incarnation {found} of the cluster, which is not later than {own}"
        ))
    }

    /// The incarnation and the highest revision that was seen in it; zeros if there was none.
    pub(super) fn seen(&self) -> (u64, i64) {
        self.link.incarnation.map_or((0, 0), |own| (own.number, own.revision))
    }

    /// An answer of the present member tells how far its incarnation has come.
    pub(super) fn note_revision(&mut self, revision: i64) {
        if let Some(own) = &mut self.link.incarnation {
            own.revision = own.revision.max(revision);
        }
    }

    /// Why an answer is not believed that was asked for at `asked`. Without an error it may be.
    pub(super) fn check_set_back(
        &self,
        asked: Option<Incarnation>,
        header: Option<&pb::Header>,
    ) -> Result<(), pb::Failure> {
        let (Some(asked), Some(own), Some(header)) = (asked, self.link.incarnation, header) else {
            return Ok(());
        };
        if asked.number != own.number || header.revision >= asked.revision {
            return Ok(());
        }
        let message = format!(
            "the answer is of revision {}, and this client has seen revision {} before: the data of \
             the cluster was set back",
            header.revision, asked.revision
        );
        let code = CODE_SET_BACK.to_owned();
        Err(pb::Failure { code, message, indeterminate: true, retryable: false })
    }

    /// The cluster has lost a part of what it had confirmed, perhaps also what this session holds.
    pub(super) fn cluster_was_set_back(&mut self, why: &str) {
        for no in self.leases.granted() {
            self.lease_is_gone(no);
        }
        self.leave_member(why);
    }

    /// Whether this member belongs to a later incarnation than the session.
    pub(super) fn is_restored(&self, header: Option<&pb::Header>) -> bool {
        let found = header.and_then(Incarnation::of);
        found.zip(self.link.incarnation).is_some_and(|(found, own)| found.number != own.number)
    }

    /// The session goes on with a member of this incarnation. If it is a later one, everything that
    /// the session holds has ended. Called before anything is sent to that member.
    pub(super) fn enter_incarnation(&mut self, header: Option<&pb::Header>) {
        let Some(found) = header.and_then(Incarnation::of) else { return };
        if !self.is_restored(header) {
            self.link.incarnation.get_or_insert(found);
            self.note_revision(found.revision);
            return;
        }
        self.link.incarnation = Some(found);
        for no in self.leases.granted() {
            self.lease_is_gone(no);
        }
    }
}
