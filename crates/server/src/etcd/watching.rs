//! A reader of several watches, for streams that speak etcd's words.
//!
//! Guarantees: a revision is told whole; nothing is missed and nothing comes twice. A reader that is
//! slow is not cut off: it finds what it has missed in the history, and only what is gone there is
//! lost, which it is told.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;

use fencepost_core::history::Watch;
use fencepost_core::{Event, Revision};
use fencepost_node::shell::Freshness;

use crate::error::Failure;
use crate::house::House;
use crate::outbox::{Item, Outbox};
use crate::watch::{Buffered, Cursor, Live, Look, Said, look};

/// What a reader hears.
pub(super) enum News {
    /// Events of a watch, of whole revisions.
    Events(u64, Vec<Arc<Event>>),
    /// A watch must look at the history from here on.
    Behind(u64, Cursor),
    /// A watch has been told everything up to here.
    Progress(u64, Revision),
    /// All watches have.
    Mark(Revision),
}

/// A reader of several watches.
pub(super) struct Reader {
    house: Arc<House>,
    outbox: Arc<Outbox>,
    watches: HashMap<u64, Watched>,
}

struct Watched {
    watch: Watch,
    progress: bool,
    buffered: Arc<Buffered>,
}

impl Reader {
    pub(super) fn new(house: &Arc<House>) -> Reader {
        Reader { house: Arc::clone(house), outbox: Arc::default(), watches: HashMap::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.watches.len()
    }

    /// Adds a watch, which has not looked yet.
    pub(super) fn add(&mut self, watch: Watch, progress: bool) -> u64 {
        let number = self.house.draw_watch();
        self.house.metrics.watches.inc();
        self.watches.insert(number, Watched { watch, progress, buffered: Arc::default() });
        number
    }

    /// Adds a watch of what happens from now on.
    pub(super) async fn begin(&mut self, watch: Watch) -> Result<u64, Failure> {
        let number = self.add(watch, false);
        self.look(number, None).await?;
        Ok(number)
    }

    pub(super) fn end(&mut self, number: u64) {
        if self.watches.remove(&number).is_some() {
            self.house.fan_out.say(Said::End(number));
            self.house.metrics.watches.dec();
        }
    }

    /// A look at the history. The one that reaches the present lets the watch begin, on the node's
    /// loop, where nothing can happen in between.
    pub(super) async fn look(
        &self,
        number: u64,
        cursor: Option<Cursor>,
    ) -> Result<Option<Look>, Failure> {
        let Some(watched) = self.watches.get(&number) else { return Ok(None) };
        let (watch, progress) = (watched.watch.clone(), watched.progress);
        let buffered = Arc::clone(&watched.buffered);
        let outbox = Arc::clone(&self.outbox);
        let fan_out = Arc::clone(&self.house.fan_out);
        let look = move |machine: &fencepost_node::machine::Machine| {
            let found = look(machine.state(), &watch, cursor);
            if found.is_present && found.compacted.is_none() {
                let cursor = found.cursor;
                let live = Live { number, watch, cursor, progress, buffered, outbox };
                fan_out.say(Said::Begin(Box::new(live)));
            }
            found
        };
        self.house.calls.read(Freshness::Stale, look).await.map(Some)
    }

    /// Asks how far all watches are. The answer comes behind everything that they are told.
    pub(super) fn ask_progress(&self) {
        self.house.fan_out.say(Said::Mark(Arc::clone(&self.outbox)));
    }

    /// What happens next. Nothing, if the node has ended. May be dropped at any point.
    pub(super) async fn next(&mut self) -> Option<News> {
        loop {
            let item = poll_fn(|cx| self.outbox.poll_pop(cx)).await?;
            match item.ok()? {
                Item::Events(told) => {
                    for event in &told.events {
                        told.buffered.remove(event);
                    }
                    return Some(News::Events(told.watch, told.events));
                }
                Item::WatchCut(number, resume) => {
                    return Some(News::Behind(number, Cursor::before(resume)));
                }
                Item::WatchBehind(number, cursor) => return Some(News::Behind(number, cursor)),
                Item::Progress(number, revision) => return Some(News::Progress(number, revision)),
                Item::Mark(revision) => return Some(News::Mark(revision)),
                Item::Delivery(..)
                | Item::Verdict(..)
                | Item::Place(..)
                | Item::Signed(..)
                | Item::Response(_) => {}
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // The fan-out passes over what comes for a reader that is gone.
        self.outbox.finish(None);
        for number in std::mem::take(&mut self.watches).into_keys() {
            self.house.fan_out.say(Said::End(number));
            self.house.metrics.watches.dec();
        }
    }
}
