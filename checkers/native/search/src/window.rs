//! Find a part of a history that has no order, whatever came before it. It proves that the search's `invalid` is right.
//!
//! A window lies between two moments, `since` and `until`. Some of its operations *must* take effect: any of those that
//! were invoked and returned in it. Others *may* take effect: all that could do so in the window and make a value that
//! one of its operations saw. At its start the register may hold any value that could have been made by then. The
//! window contains nothing else of the history.
//!
//! If the history has an order, every window of it has one. Give each operation of the order an instant between its
//! invocation and its return, and take those between `since` and `until`. They are a legal order from some state, and
//! contain all operations that must take effect. Now remove everything that is not in the window: reads, and writes of
//! values that no remaining operation saw. Each remaining operation still finds the value that it saw, because the last
//! write before it made that value and was not removed. So a window without an order refutes the history.
//!
//! The same holds if an operation that must take effect is only allowed to: that allows more orders, never fewer. For
//! the same reason, a window without an order still has none if more of its operations must take effect, or if it
//! grows.
//!
//! Times are tightened first, where that is certain (`settle`): if only one operation made a value, that operation took
//! effect before the first answer that shows the value.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::BuildHasherDefault;

use super::closure::{Item, any_order, is_coarse};
use super::mix::Mix;
use super::model::Model;
use crate::history::{NEVER, Op};
use limits::{Limits, Stop};

/// `since` of a window that begins with the history: the register then holds its initial value.
pub const BEGINNING: i64 = i64::MIN;
/// Operations of the first window, before the one that failed.
const FIRST: usize = 4;
/// Steps for one window, at first; a larger one may well be cheaper to refute than the one before.
const FIRST_STEPS: u64 = 20_000;

/// Indexes of operations; those that may go in follow from those that must (`History::items`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    pub since: i64,
    pub until: i64,
    pub must: Vec<u32>,
}

#[derive(Debug)]
pub enum Confirmation {
    /// The window has no order.
    Holds(Window),
    /// There is an order up to the return of the operation that is said to pass in none.
    Contradicted,
    Stopped(Stop),
}

/// Operations by invocation with their times tightened, and for each the one whose answer tightened it.
pub struct History<'a, M: Model> {
    pub model: &'a M,
    pub ops: Vec<Op>,
    pub shown_by: Vec<Option<u32>>,
}

impl<'a, M: Model> History<'a, M> {
    pub fn plain(model: &'a M, ops: &[Op]) -> Self {
        History { model, ops: ops.to_vec(), shown_by: vec![None; ops.len()] }
    }

    pub fn settled(model: &'a M, ops: &[Op]) -> Self {
        let mut history = Self::plain(model, ops);
        if model.is_register() {
            history.settle();
        }
        history
    }

    /// An operation that alone made a value, other than the initial one, took effect before anybody's answer that
    /// shows the value; and so before anything that was proven in this way to follow it.
    fn settle(&mut self) {
        let mut makers: HashMap<M::State, (u32, usize), BuildHasherDefault<Mix>> = HashMap::default();
        for (i, op) in self.ops.iter().enumerate() {
            if let Some(value) = self.model.made(op) {
                makers.entry(value).or_insert((0, i)).0 += 1;
            }
        }
        makers.remove(&self.model.initial());
        makers.retain(|_, &mut (count, _)| count == 1);
        let maker_of = |op: &Op| self.model.seen(op).and_then(|value| makers.get(&value)).map(|&(_, maker)| maker);
        // By time: what is taken out first is not shown any earlier.
        let shows = self.ops.iter().enumerate().filter(|(_, op)| op.returned != NEVER && maker_of(op).is_some());
        let mut known: BinaryHeap<Reverse<(i64, usize)>> = shows.map(|(i, op)| Reverse((op.returned, i))).collect();
        while let Some(Reverse((at, i))) = known.pop() {
            let op = self.ops[i];
            let Some(maker) = maker_of(&op).filter(|_| op.returned == at) else { continue };
            let made = &mut self.ops[maker];
            if maker != i && made.invoked <= at && at < made.returned {
                made.returned = at;
                self.shown_by[maker] = Some(i as u32);
                known.push(Reverse((at, maker)));
            }
        }
    }

    /// The window of all operations that were invoked from `since` on and returned by `until`.
    pub fn window(&self, since: i64, until: i64) -> Window {
        let inside = |op: &Op| op.invoked >= since && op.returned <= until;
        let must = (0..self.ops.len()).filter(|&i| inside(&self.ops[i])).map(|i| i as u32).collect();
        Window { since, until, must }
    }

    /// All that could take effect in a window and changes anything.
    pub fn effects(&self, since: i64, until: i64) -> Vec<u32> {
        let changes = |op: &Op| !self.model.reads_only(op) && op.invoked <= until && op.returned >= since;
        (0..self.ops.len()).filter(|&i| changes(&self.ops[i])).map(|i| i as u32).collect()
    }

    /// Those of `effects` that may go in: that made a value which one of the window saw, and so on from those.
    pub fn optional(&self, window: &Window, effects: &[u32]) -> Vec<u32> {
        let mut rest: Vec<u32> = effects.iter().copied().filter(|i| window.must.binary_search(i).is_err()).collect();
        if !self.model.is_register() {
            return rest;
        }
        let mut wanted = self.wanted(&window.must);
        let mut chosen = Vec::new();
        loop {
            let is_wanted = |&i: &u32| {
                self.model.made(&self.ops[i as usize]).is_some_and(|value| wanted.binary_search(&value).is_ok())
            };
            let (found, left): (Vec<u32>, Vec<u32>) = rest.into_iter().partition(is_wanted);
            if found.is_empty() {
                chosen.sort_unstable();
                return chosen;
            }
            wanted.extend(found.iter().filter_map(|&i| self.model.seen(&self.ops[i as usize])));
            wanted.sort_unstable();
            wanted.dedup();
            chosen.extend(found);
            rest = left;
        }
    }

    /// The values that these operations saw, in order.
    fn wanted(&self, ops: &[u32]) -> Vec<M::State> {
        let mut wanted: Vec<M::State> = ops.iter().filter_map(|&i| self.model.seen(&self.ops[i as usize])).collect();
        wanted.sort_unstable();
        wanted.dedup();
        wanted
    }

    /// What the plain walk is asked: those that must, those that may, and the states to start from.
    ///
    /// One that was invoked before the window may go in until it returned. One that was invoked in it counts as of
    /// unknown outcome from its invocation on.
    fn question(&self, window: &Window, effects: &[u32]) -> (Vec<Item>, Vec<M::State>) {
        let optional = self.optional(window, effects);
        let mut items: Vec<Item> = window.must.iter().map(|&i| Item { op: self.ops[i as usize], must: true }).collect();
        items.extend(optional.iter().map(|&i| {
            let op = self.ops[i as usize];
            let early = op.invoked < window.since && op.returned <= window.until;
            Item { op: if early { op } else { Op { returned: NEVER, ..op } }, must: false }
        }));
        let seen = self.wanted(&[&window.must[..], &optional].concat());
        (items, self.starts(window.since, &seen))
    }

    /// Of the values that the register may hold at `since`, those that somebody saw and one that nobody did.
    fn starts(&self, since: i64, seen: &[M::State]) -> Vec<M::State> {
        let mut starts = vec![self.model.initial()];
        if since == BEGINNING {
            return starts;
        }
        let mut made: Vec<M::State> =
            self.ops.iter().take_while(|op| op.invoked < since).filter_map(|op| self.model.made(op)).collect();
        made.append(&mut starts);
        made.sort_unstable();
        made.dedup();
        let mut other = None;
        made.retain(|value| {
            let is_seen = seen.binary_search(value).is_ok();
            if !is_seen {
                other = Some(*value);
            }
            is_seen
        });
        made.extend(other);
        made
    }

    /// Whether `window` has no order; also the steps. `effects` are those of its span, or more of them.
    pub fn fails(&self, window: &Window, effects: &[u32], limits: Limits) -> (Result<bool, Stop>, u64) {
        let (items, starts) = self.question(window, effects);
        let (coarse, mut spent) = any_order(self.model, &items, &starts, false, limits);
        if !is_coarse(&items) || coarse == Ok(false) {
            return (coarse.map(|found| !found), spent);
        }
        let rest = Limits { steps: limits.steps.saturating_sub(spent), ..limits };
        let (exact, steps) = any_order(self.model, &items, &starts, true, rest);
        spent += steps;
        (exact.map(|found| !found), spent)
    }
}

fn longer(length: usize) -> usize {
    length + length.div_ceil(2)
}

/// Look for a window without an order that ends at `until`, where operation `failed` returns.
///
/// It begins some operations before that one, and half as many more each time; a walk that takes too long is put off until
/// all lengths had their chance. Also the steps that it took.
pub fn confirm<M: Model>(history: &History<'_, M>, failed: u32, until: i64, limits: Limits) -> (Confirmation, u64) {
    let mut spent = 0;
    let mut shortest = if history.model.is_register() { FIRST } else { history.ops.len() };
    let mut share = FIRST_STEPS.min(limits.steps);
    loop {
        let mut length = shortest;
        let mut stopped = Stop::Steps;
        loop {
            let from = (failed as usize).saturating_sub(length);
            let since = if from == 0 { BEGINNING } else { history.ops[from].invoked };
            let window = history.window(since, until);
            let effects = history.effects(since, until);
            let rest = limits.steps.saturating_sub(spent);
            let (fails, steps) = history.fails(&window, &effects, Limits { steps: share.min(rest), ..limits });
            spent += steps + window.must.len() as u64;
            match fails {
                Ok(true) => return (Confirmation::Holds(window), spent),
                Ok(false) if from == 0 => return (Confirmation::Contradicted, spent),
                // What is shorter has an order too.
                Ok(false) => shortest = longer(length),
                Err(stop @ (Stop::Deadline | Stop::Interrupted)) => return (Confirmation::Stopped(stop), spent),
                Err(stop) => stopped = stop,
            }
            if from == 0 {
                break;
            }
            length = longer(length);
        }
        if spent >= limits.steps || stopped == Stop::Memory {
            return (Confirmation::Stopped(stopped), spent);
        }
        share *= 16;
    }
}
