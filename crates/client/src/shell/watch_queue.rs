//! What a watch has to tell, until its reader takes it.
//!
//! A reader that falls behind stops the watch; nothing is lost, because the session goes on from the
//! last event that stands here. So the queue never holds much more than its bound.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use fencepost_proto::v1::Event;

use crate::error::Error;

/// How many events may wait for their reader.
const EVENTS_MAX: usize = 4_096;

#[derive(Default)]
pub(crate) struct WatchQueue(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    news: VecDeque<News>,
    reader: Option<Waker>,
    is_full: bool,
    is_over: bool,
}

/// One thing that a reader gets.
pub(crate) enum News {
    Started(i64),
    Event(Box<Event>),
    Ended(Error),
}

/// What a reader got, and whether the watch may go on because of it.
pub(crate) type Taken = (Option<News>, bool);

impl WatchQueue {
    /// Adds to the queue. Says whether it has just become full.
    pub(super) fn push(&self, news: impl IntoIterator<Item = News>) -> bool {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for one in news {
            queue.is_over |= matches!(one, News::Ended(_));
            queue.news.push_back(one);
        }
        if let Some(reader) = queue.reader.take() {
            reader.wake();
        }
        let fills = !queue.is_full && queue.news.len() >= EVENTS_MAX;
        queue.is_full |= fills;
        fills
    }

    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<Taken> {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match queue.news.pop_front() {
            Some(news) => {
                let empties = queue.is_full && queue.news.is_empty();
                queue.is_full &= !empties;
                Poll::Ready((Some(news), empties))
            }
            None if queue.is_over => Poll::Ready((None, false)),
            None => {
                queue.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
