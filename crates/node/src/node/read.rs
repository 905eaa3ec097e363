//! Reads of the state as it is now: one round of the quorum for all that wait, no disk.

use super::Node;
use crate::io::{Output, RequestId};

/// A question to the quorum that is not answered after so many ticks is asked again: the engine
/// drops it without a word until its leader has committed something in its term.
const ASK_AGAIN_TICKS: u64 = 10;

/// The reads of one node.
#[derive(Debug, Default)]
pub(super) struct Reads {
    /// Not asked for yet. They never join a question that is on its way: its answer may be older
    /// than they are.
    waiting: Vec<RequestId>,
    asked: Option<Asked>,
    /// Confirmed for an index that must be applied first.
    confirmed: Vec<(u64, Vec<RequestId>)>,
    last_context: u64,
}

#[derive(Debug)]
struct Asked {
    context: u64,
    requests: Vec<RequestId>,
    tick: u64,
}

impl Reads {
    /// The quorum has confirmed that its leader leads, with this much committed.
    pub(super) fn confirm(&mut self, context: &[u8], index: u64) {
        let same = |asked: &Asked| asked.context.to_be_bytes() == *context;
        if let Some(asked) = self.asked.take_if(|asked| same(asked)) {
            self.confirmed.push((index, asked.requests));
        }
    }
}

impl Node {
    pub(super) fn read(&mut self, request: RequestId) {
        self.reads.waiting.push(request);
        self.ask();
    }

    /// Asks for all that wait, unless a question is on its way.
    fn ask(&mut self) {
        if self.reads.asked.is_some() || self.reads.waiting.is_empty() {
            return;
        }
        let requests = std::mem::take(&mut self.reads.waiting);
        self.ask_for(requests);
    }

    /// Every question has a context of its own, over all members and restarts: an answer to an
    /// old one must not pass for an answer to this.
    fn ask_for(&mut self, requests: Vec<RequestId>) {
        self.reads.last_context += 1;
        let context = self.config.id << 56 ^ self.config.boot << 32 ^ self.reads.last_context;
        self.reads.asked = Some(Asked { context, requests, tick: self.ticks });
        self.raft.read_index(context.to_be_bytes().to_vec());
    }

    pub(super) fn repeat_reads(&mut self) {
        let ticks = self.ticks;
        let old = |asked: &mut Asked| asked.tick + ASK_AGAIN_TICKS <= ticks;
        if let Some(mut asked) = self.reads.asked.take_if(old) {
            asked.requests.append(&mut self.reads.waiting);
            self.ask_for(asked.requests);
        }
    }

    /// Answers the reads whose index is applied.
    pub(super) fn serve_reads(&mut self, outputs: &mut Vec<Output>) {
        let applied = self.machine.applied();
        let ready = self.reads.confirmed.extract_if(.., |(index, _)| *index <= applied);
        for request in ready.flat_map(|(_, requests)| requests) {
            outputs.push(Output::ReadReady(request));
        }
        self.ask();
    }
}
