//! Answers on their way to whoever waits, handed out together.
//!
//! Those who wait run on other threads. If the first answer wakes one of them on another core, that takes a
//! while, and by then the others are there too. One by one, each might wake a thread that has just gone to
//! sleep, and waking is dearer than everything else about an answer. Where cores are shared a few answers
//! cannot be helped, and many are left to the [porter](super::porter).

use std::sync::Arc;

use super::porter::Post;
use super::reply::{Granted, To};
use crate::boot_time::BootTime;
use crate::core::Released;

/// So many answers wait at most. Those who get them begin while the session is at work on the next.
const WAITING_MAX: usize = 32;
/// So many are worth a porter.
const MANY: usize = 12;

/// Answers that wait.
pub(super) struct Handouts {
    waiting: Vec<Handout>,
    post: Arc<Post>,
}

/// An answer and whoever waits for it.
pub(super) enum Handout {
    Acquired(To<Granted>, Granted),
    Released(To<Released>, Released),
}

impl Handouts {
    pub(super) fn new(post: Arc<Post>) -> Handouts {
        Handouts { waiting: Vec::new(), post }
    }

    pub(super) fn acquired(&mut self, to: To<Granted>, granted: Granted) {
        self.add(Handout::Acquired(to, granted));
    }

    pub(super) fn released(&mut self, to: To<Released>, released: Released) {
        self.add(Handout::Released(to, released));
    }

    fn add(&mut self, handout: Handout) {
        self.waiting.push(handout);
        if self.waiting.len() >= WAITING_MAX {
            self.hand_out();
        }
    }

    pub(super) fn hand_out(&mut self) {
        let are_many = self.waiting.len() >= MANY;
        if !(are_many && self.post.leave(&mut self.waiting, BootTime::now())) {
            self.waiting.drain(..).for_each(Handout::hand_out);
        }
    }
}

impl Handout {
    pub(super) fn hand_out(self) {
        match self {
            // If nobody takes it, it gives itself back.
            Handout::Acquired(to, granted) => drop(to.send(Ok(granted))),
            Handout::Released(to, released) => drop(to.send(Ok(released))),
        }
    }
}
