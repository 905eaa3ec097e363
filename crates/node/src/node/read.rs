//! Reads of the state as it is now: one round of the quorum for all that wait, no disk.

use super::Node;
use crate::io::{MemberId, Output, ProposeError, RequestId};
use crate::mutant::Mutant;

/// A question to the quorum that is not answered after so many ticks is asked again: the engine
/// drops it without a word until its leader has committed something in its term.
const ASK_AGAIN_TICKS: u64 = 10;

/// The reads of one node.
#[derive(Debug, Default)]
pub(super) struct Reads {
    /// Not asked for yet. They never join a question that is on its way: its answer may be older
    /// than they are.
    waiting: Vec<Read>,
    asked: Option<Asked>,
    /// Confirmed for an index that must be applied first.
    confirmed: Vec<(u64, Vec<Read>)>,
    last_context: u64,
}

/// What names a question: who asks, in which life, and which one. They grow, over all restarts, so
/// that an answer to an old question cannot pass for an answer to a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ReadContext {
    member: MemberId,
    boot: u64,
    count: u64,
}

impl ReadContext {
    fn encode(self) -> Vec<u8> {
        [self.member, self.boot, self.count].iter().flat_map(|part| part.to_be_bytes()).collect()
    }

    fn decode(bytes: &[u8]) -> Option<ReadContext> {
        let bytes: &[u8; 24] = bytes.try_into().ok()?;
        let (parts, _) = bytes.as_chunks::<8>();
        let [member, boot, count] = [0, 1, 2].map(|part| u64::from_be_bytes(parts[part]));
        Some(ReadContext { member, boot, count })
    }
}

/// One read, and when it came.
#[derive(Clone, Copy, Debug)]
struct Read {
    request: RequestId,
    tick: u64,
}

/// A question on its way, perhaps asked several times. Any answer will do: all were asked after
/// the reads came.
#[derive(Debug)]
struct Asked {
    contexts: Vec<Vec<u8>>,
    reads: Vec<Read>,
    tick: u64,
}

impl Reads {
    /// The quorum has confirmed that its leader leads, with this much committed.
    pub(super) fn confirm(&mut self, context: &[u8], index: u64) {
        let answered = |asked: &mut Asked| asked.contexts.iter().any(|one| one == context);
        if let Some(asked) = self.asked.take_if(answered) {
            self.confirmed.push((index, asked.reads));
        }
    }

    fn len(&self) -> usize {
        let asked = self.asked.as_ref().map_or(0, |asked| asked.reads.len());
        let confirmed: usize = self.confirmed.iter().map(|(_, reads)| reads.len()).sum();
        self.waiting.len() + asked + confirmed
    }

    /// Takes out all that came before this tick.
    fn take_older(&mut self, tick: u64) -> Vec<Read> {
        let asked = self.asked.iter_mut().map(|asked| &mut asked.reads);
        let confirmed = self.confirmed.iter_mut().map(|(_, reads)| reads);
        let groups = asked.chain(confirmed).chain([&mut self.waiting]);
        let old = groups.flat_map(|reads| reads.extract_if(.., |read| read.tick < tick));
        let old = old.collect();
        self.asked.take_if(|asked| asked.reads.is_empty());
        self.confirmed.retain(|(_, reads)| !reads.is_empty());
        old
    }
}

impl Node {
    pub(super) fn read(&mut self, request: RequestId, outputs: &mut Vec<Output>) {
        if self.reads.len() >= self.config.waiting_max {
            outputs.push(Output::ReadFailed(request, ProposeError::Overloaded));
            return;
        }
        if self.mutant(Mutant::ReadWithoutQuorum) {
            outputs.push(Output::ReadReady(request));
            return;
        }
        self.reads.waiting.push(Read { request, tick: self.ticks });
        self.ask();
    }

    /// Asks for all that wait, unless a question is on its way.
    fn ask(&mut self) {
        if self.reads.asked.is_some() || self.reads.waiting.is_empty() {
            return;
        }
        let reads = std::mem::take(&mut self.reads.waiting);
        let context = self.put_question();
        self.reads.asked = Some(Asked { contexts: vec![context], reads, tick: self.ticks });
    }

    fn put_question(&mut self) -> Vec<u8> {
        self.reads.last_context += 1;
        let (member, boot) = (self.config.id, self.config.boot);
        let context = ReadContext { member, boot, count: self.reads.last_context }.encode();
        self.raft.read_index(context.clone());
        context
    }

    /// Whether another member's question is a new one.
    ///
    /// The engine asks the quorum about all questions in the order in which they came, and takes
    /// an answer to one for an answer to all before it. A copy of an old question, behind a newer
    /// one, would let an old answer pass for an answer to the newer one: whoever leads no more
    /// could still serve a read.
    pub(super) fn is_new_question(&mut self, from: MemberId, context: &[u8]) -> bool {
        let Some(context) = ReadContext::decode(context) else { return false };
        let last = self.heard_questions.get(&from);
        if context.member != from || last.is_some_and(|&last| context <= last) {
            return false;
        }
        self.heard_questions.insert(from, context);
        true
    }

    /// Asks again what was not answered, and gives up what has waited for too long.
    pub(super) fn repeat_reads(&mut self, outputs: &mut Vec<Output>) {
        let ticks = self.ticks;
        let since = ticks.saturating_sub(self.config.patience_ticks());
        for read in self.reads.take_older(since) {
            outputs.push(Output::ReadFailed(read.request, ProposeError::NoLeader));
        }
        let old = |asked: &mut Asked| asked.tick + ASK_AGAIN_TICKS <= ticks;
        if let Some(mut asked) = self.reads.asked.take_if(old) {
            asked.contexts.push(self.put_question());
            asked.tick = ticks;
            self.reads.asked = Some(asked);
        }
    }

    /// Answers the reads whose index is applied.
    pub(super) fn serve_reads(&mut self, outputs: &mut Vec<Output>) {
        let applied = match self.mutant(Mutant::ReadBeforeApplied) {
            true => u64::MAX,
            false => self.machine.applied(),
        };
        let ready = self.reads.confirmed.extract_if(.., |(index, _)| *index <= applied);
        for read in ready.flat_map(|(_, reads)| reads) {
            outputs.push(Output::ReadReady(read.request));
        }
        self.ask();
    }
}
