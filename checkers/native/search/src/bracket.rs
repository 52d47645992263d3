//! Prove that no order passes an operation, from a window of the history that ends with it.
//!
//! The search of the window allows more than can happen: it begins with every state that the object may be in, each
//! operation open at that point may or may not have taken effect, and an operation that never returns may take effect
//! any number of times. If no order passes the operation even then, none passes it in the history. So the cost of the
//! proof depends on the window only, not on the length of the history or on its number of unknown outcomes. But the
//! proof cannot show that an operation of unknown outcome would be needed twice.

use super::bits::Bits;
use super::events::{Events, is_return, operation};
use super::model::Model;
use super::walk::{Beginning, Breadth, Walk};
use crate::history::Op;
use limits::{Limits, Stop};

/// What the window's search came to, and its steps.
pub struct Bracketed<S> {
    /// The event that no order passes, by its number, with every value that the object may hold there and perhaps more;
    /// None where none was found.
    pub failed: Result<Option<(usize, Vec<S>)>, Stop>,
    pub steps: u64,
}

/// Search the events `from..until`. None where the object is not a register.
pub fn search<M: Model, B: Bits>(
    model: &M,
    ops: &[Op],
    events: &Events,
    words: usize,
    (from, until): (usize, usize),
    limits: Limits,
) -> Option<Bracketed<M::State>> {
    // Of other objects an operation that may go in any number of times can lead to ever new states.
    if !model.is_register() {
        return None;
    }
    let open = events.open(from);
    let within = events.list[from..until].iter().filter(|&&event| !is_return(event)).map(|&event| operation(event));
    let concerned: Vec<u32> = open.iter().copied().chain(within).collect();
    let states = if from == 0 { vec![model.initial()] } else { stand_ins(model, ops, &concerned) };
    let beginning = Beginning { event: from, states: &states, open: &open };
    let mut walk = Walk::<M, B>::loose(model, ops, events, words, limits, &beginning);
    let failed = walk.run(until, Breadth::ALL).map(|failed| failed.map(|at| (at, walk.states())));
    Some(Bracketed { failed, steps: walk.steps })
}

/// A few values that stand for all: those that somebody looks for, and one that nobody does.
fn stand_ins<M: Model>(model: &M, ops: &[Op], concerned: &[u32]) -> Vec<M::State> {
    let mut values: Vec<M::State> = concerned.iter().filter_map(|&i| model.seen(&ops[i as usize])).collect();
    values.sort_unstable();
    values.dedup();
    let made = ops.iter().filter_map(|op| model.made(op)).chain([model.initial()]);
    let other = made.into_iter().find(|value| values.binary_search(value).is_err());
    values.extend(other);
    values
}
