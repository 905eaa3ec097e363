//! Answers on their way to whoever waits, handed out together.
//!
//! Those who wait run on other threads. The first answer wakes one of them, which takes a while, and
//! by then the others are there too. One by one, each might wake a thread that has just gone to
//! sleep, and waking is dearer than everything else about an answer.

use super::reply::{Granted, To};
use crate::core::Released;

/// So many answers wait at most. Those who get them begin while the session is at work on the next.
const WAITING_MAX: usize = 32;

#[derive(Default)]
pub(super) struct Handouts(Vec<Handout>);

enum Handout {
    Acquired(To<Granted>, Granted),
    Released(To<Released>, Released),
}

impl Handouts {
    pub(super) fn acquired(&mut self, to: To<Granted>, granted: Granted) {
        self.add(Handout::Acquired(to, granted));
    }

    pub(super) fn released(&mut self, to: To<Released>, released: Released) {
        self.add(Handout::Released(to, released));
    }

    fn add(&mut self, handout: Handout) {
        self.0.push(handout);
        if self.0.len() >= WAITING_MAX {
            self.hand_out();
        }
    }

    pub(super) fn hand_out(&mut self) {
        for handout in self.0.drain(..) {
            match handout {
                // If nobody takes it, it gives itself back.
                Handout::Acquired(to, granted) => drop(to.send(Ok(granted))),
                Handout::Released(to, released) => drop(to.send(Ok(released))),
            }
        }
    }
}
