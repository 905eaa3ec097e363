//! The queries that the event loop answers, and how much of one iteration they may take.
//!
//! Owns: the queries that are due, those that are under way, and the budget of an iteration.
//! Guarantees: an iteration spends at most its budget and one step on queries; a query that fits is
//! answered in the iteration that it is due in; all others wait in their order, and those that take
//! many steps take turns. Refuses: more queries than its queues have room for.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;

use super::mail::{Delivery, Mail};
use crate::io::{ProposeError, RequestId};
use crate::machine::{Machine, STEP_UNITS, StepBudget};

/// Queries that may wait for their first step.
const WAITING_MAX: usize = 16_384;
/// Queries that may be under way.
const UNDER_WAY_MAX: usize = 64;
/// What a query costs at least: about a microsecond.
const QUERY_UNITS: u32 = 16;

/// What a query found. The caller knows its type.
pub type Found = Box<dyn Any + Send>;

/// A question that is answered at once.
type Ask = Box<dyn FnOnce(&Machine, &mut StepBudget) -> Found + Send>;

/// A question to the state. Runs on the event loop.
pub enum Query {
    /// Is answered at once, so it must be short. Spends what it costs.
    Once(Ask),
    /// Is answered in steps of bounded cost.
    Steps(Box<dyn Steps>),
}

/// A query that is answered in steps. Entries may be applied between two of them.
pub trait Steps: Send {
    /// Takes one step. The answer, if this was the last one.
    fn step(
        &mut self,
        machine: &Machine,
        budget: &mut StepBudget,
    ) -> Option<Result<Found, ProposeError>>;
}

impl Query {
    /// A question that costs no more than a look at one lock.
    pub fn once<T: Any + Send>(ask: impl FnOnce(&Machine) -> T + Send + 'static) -> Query {
        Query::measured(|machine, budget| {
            budget.spend(QUERY_UNITS);
            ask(machine)
        })
    }

    /// A question that spends what it costs.
    pub fn measured<T: Any + Send>(
        ask: impl FnOnce(&Machine, &mut StepBudget) -> T + Send + 'static,
    ) -> Query {
        Query::Once(Box::new(move |machine, budget| -> Found { Box::new(ask(machine, budget)) }))
    }
}

impl fmt::Debug for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Query::Once(_) => "Once",
            Query::Steps(_) => "Steps",
        })
    }
}

/// The queries of the event loop.
#[derive(Default)]
pub(super) struct Reads {
    /// What this iteration may still spend.
    budget: StepBudget,
    /// Those that are due and have not begun.
    waiting: VecDeque<(RequestId, Query)>,
    /// Those that have taken a step and need more.
    under_way: VecDeque<(RequestId, Box<dyn Steps>)>,
}

impl Reads {
    /// Whether something is left for the next iteration.
    pub(super) fn are_open(&self) -> bool {
        !self.waiting.is_empty() || !self.under_way.is_empty()
    }

    /// Begins an iteration with the queries that the last one had no budget for.
    pub(super) fn begin(&mut self, machine: &Machine, mail: &mut Mail) {
        self.budget = StepBudget::default();
        while !self.budget.is_spent() {
            let Some((request, query)) = self.waiting.pop_front() else { return };
            self.run(request, query, machine, mail);
        }
    }

    /// Answers a query that is due, or lets it wait.
    pub(super) fn ask(
        &mut self,
        request: RequestId,
        query: Query,
        machine: &Machine,
        mail: &mut Mail,
    ) {
        if self.waiting.is_empty() && !self.budget.is_spent() {
            self.run(request, query, machine, mail);
        } else if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back((request, query));
        } else {
            mail.put(request, Delivery::Found(Err(ProposeError::Overloaded)));
        }
    }

    fn run(&mut self, request: RequestId, query: Query, machine: &Machine, mail: &mut Mail) {
        let mut budget = StepBudget::default();
        let found = match query {
            Query::Once(ask) => Some(Ok(ask(machine, &mut budget))),
            Query::Steps(mut steps) => match steps.step(machine, &mut budget) {
                None if self.under_way.len() == UNDER_WAY_MAX => {
                    Some(Err(ProposeError::Overloaded))
                }
                None => {
                    self.under_way.push_back((request, steps));
                    None
                }
                found => found,
            },
        };
        self.budget.spend((STEP_UNITS - budget.left()).max(QUERY_UNITS));
        if let Some(found) = found {
            mail.put(request, Delivery::Found(found));
        }
    }

    /// Takes one step of the query that has waited longest for one. Whether there was any.
    pub(super) fn step(&mut self, machine: &Machine, mail: &mut Mail) -> bool {
        let Some((request, mut steps)) = self.under_way.pop_front() else { return false };
        match steps.step(machine, &mut StepBudget::default()) {
            Some(found) => mail.put(request, Delivery::Found(found)),
            None => self.under_way.push_back((request, steps)),
        }
        true
    }

    /// Drops the queries of a line that is closed.
    pub(super) fn close_line(&mut self, number: u64) {
        self.under_way.retain(|(request, _)| request.line != number);
    }
}

#[cfg(test)]
mod tests;
