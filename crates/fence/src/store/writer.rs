//! The one thread that writes.
//!
//! Guarantees: writes are decided one after the other, and nobody hears of one before it is
//! durable: neither who asked for it, nor a reader, nor who was refused because of it. All that
//! waits is written with one sync.
//! Refuses: going on after the disk failed.

use std::io;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::{mpsc, oneshot};

use super::backend::FencedWriteError;
use super::book::Book;
use crate::journal::Journal;
use crate::rule::Repeats;
use crate::token::Presented;

/// Writes in one sync. More would make the first of them wait for no gain.
const BATCH_LEN_MAX: usize = 1_024;
/// Bytes in one sync.
const BATCH_BYTES_MAX: usize = 16 << 20;
/// The file is written anew when it is larger than this, and than a few times what is in it.
const FILE_BYTES_MIN: u64 = 64 << 20;
const FILE_GROWTH_MAX: u64 = 4;
/// What a line has beside the texts, at most, apart from the marks' lists.
const LINE_OVERHEAD: u64 = 200;

/// A write on its way to the disk.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) key: String,
    pub(super) client_id: String,
    pub(super) presented: Presented,
    pub(super) data: String,
    pub(super) answer: oneshot::Sender<Result<(), FencedWriteError>>,
}

/// What readers see: only what is durable.
pub(super) type View = Arc<RwLock<Book>>;

/// Decides and writes until nobody can ask any more, or the disk fails.
pub(super) struct Writer {
    pub(super) journal: Journal,
    /// Ahead of what readers see, by what is not durable yet. The contents are shared.
    pub(super) book: Book,
    pub(super) view: View,
    pub(super) jobs: mpsc::Receiver<Job>,
    pub(super) repeats: Repeats,
}

impl Writer {
    pub(super) fn run(mut self) -> io::Result<()> {
        while let Some(first) = self.jobs.blocking_recv() {
            let batch = self.gather(first);
            self.write(batch)?;
            self.shrink()?;
        }
        Ok(())
    }

    /// All that waits, within bounds.
    fn gather(&mut self, first: Job) -> Vec<Job> {
        let mut bytes = first.data.len();
        let mut batch = vec![first];
        while batch.len() < BATCH_LEN_MAX && bytes < BATCH_BYTES_MAX {
            let Ok(job) = self.jobs.try_recv() else { break };
            bytes += job.data.len();
            batch.push(job);
        }
        batch
    }

    fn write(&mut self, batch: Vec<Job>) -> io::Result<()> {
        let mut accepted = Vec::new();
        let mut lines = Vec::new();
        let mut answers = Vec::with_capacity(batch.len());
        for job in batch {
            let outcome =
                self.book.decide(&job.key, job.client_id, job.presented, job.data, self.repeats);
            answers.push((job.answer, outcome.as_ref().map(drop).map_err(Clone::clone)));
            if let Ok(entry) = outcome {
                let (key, entry): (Arc<str>, _) = (job.key.into(), Arc::new(entry));
                lines.push(entry.to_line(&key));
                self.book.put(key.clone(), entry.clone());
                accepted.push((key, entry));
            }
        }
        if !lines.is_empty() {
            // On failure the answers are dropped unsent: nobody can say what the disk holds.
            self.journal.append(&lines)?;
        }
        let mut view = self.view.write().unwrap_or_else(PoisonError::into_inner);
        for (key, entry) in accepted {
            view.put(key, entry);
        }
        drop(view);
        for (answer, outcome) in answers {
            // Who asked may be gone.
            let _ = answer.send(outcome);
        }
        Ok(())
    }

    /// Writes the file anew if most of it is history.
    fn shrink(&mut self) -> io::Result<()> {
        if self.journal.len() < FILE_BYTES_MIN {
            return Ok(());
        }
        let number = |size: usize| u64::try_from(size).expect("sizes fit into 64 bits");
        let live = number(self.book.bytes()) + number(self.book.len()) * LINE_OVERHEAD;
        if self.journal.len() > FILE_GROWTH_MAX * live.max(FILE_BYTES_MIN / FILE_GROWTH_MAX) {
            self.journal.rewrite(self.book.lines())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::Token;

    fn job(key: &str, number: u64) -> (Job, oneshot::Receiver<Result<(), FencedWriteError>>) {
        let (answer, answered) = oneshot::channel();
        let job = Job {
            key: key.to_owned(),
            client_id: "c".to_owned(),
            presented: Presented::exclusive(Token::new(number).unwrap()),
            data: format!("by {number}"),
            answer,
        };
        (job, answered)
    }

    fn writer(journal: Journal) -> (Writer, mpsc::Sender<Job>, View) {
        let view = View::default();
        let (jobs, waiting) = mpsc::channel(10);
        let writer = Writer {
            journal,
            book: Book::default(),
            view: view.clone(),
            jobs: waiting,
            repeats: Repeats::Accepted,
        };
        (writer, jobs, view)
    }

    #[test]
    fn one_batch_is_decided_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(&folder.path().join("f"), "t", |_| Ok(())).unwrap();
        let before = journal.len();
        let (writer, jobs, view) = writer(journal);
        let mut answers = Vec::new();
        for number in [10, 11, 10, 11] {
            let (job, answered) = job("k", number);
            jobs.try_send(job).unwrap();
            answers.push(answered);
        }
        drop(jobs);
        writer.run().unwrap();
        let outcomes: Vec<bool> =
            answers.into_iter().map(|each| each.blocking_recv().unwrap().is_ok()).collect();
        assert_eq!(outcomes, [true, true, false, true]);
        assert_eq!(view.read().unwrap().get("k").unwrap().data, "by 11");
        let text = std::fs::read_to_string(folder.path().join("f")).unwrap();
        let sizes: Vec<&str> =
            text.lines().skip(1).map(|line| line.split(' ').nth(1).unwrap()).collect();
        assert_eq!(sizes, [before.to_string().as_str(); 3], "all of them with one sync");
    }

    #[test]
    fn nobody_hears_of_what_is_not_durable() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(&folder.path().join("f"), "t", |_| Ok(())).unwrap();
        journal.break_down();
        let (writer, jobs, view) = writer(journal);
        let (first, first_answer) = job("k", 11);
        let (second, second_answer) = job("k", 10);
        jobs.try_send(first).unwrap();
        jobs.try_send(second).unwrap();
        writer.run().expect_err("the disk has failed");
        assert!(first_answer.blocking_recv().is_err(), "neither who asked");
        assert!(second_answer.blocking_recv().is_err(), "nor who would be refused because of it");
        assert!(view.read().unwrap().get("k").is_none(), "nor a reader");
    }
}
