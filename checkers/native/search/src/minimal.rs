//! Make a window without an order as small as possible, by cuts that can never create a violation.
//!
//! A cut takes one of the operations that must take effect and releases it. A read is removed. A write that no
//! operation in the window saw is removed. Any other write may still take effect, as if its outcome were unknown
//! (`window` says why that is sound: whatever made an observed value stays). A write that was seen is never removed,
//! because its observer would then seem to have seen a value that nobody made.
//!
//! With fewer operations that must take effect, an order can only become possible. So a window without an order after a
//! cut had none before it. One pass over single operations is therefore enough: afterwards no further cut is possible.
//! Passes over halves, quarters and so on come first, for speed. If the budget does not suffice to judge a cut, it is
//! not made.

use super::model::Model;
use super::window::{BEGINNING, History, Window};
use crate::history::{NEVER, Op};
use limits::Limits;

/// By how many operations a window from the very beginning may be larger and still be the better one to show.
const WORTH_THE_BEGINNING: usize = 3;

/// A violation that can be checked by hand: indexes of operations that together have no order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// When it begins; `BEGINNING` where the register then holds its initial value, else it may hold anything made by
    /// then.
    pub since: i64,
    pub until: i64,
    pub must: Vec<u32>,
    /// May take effect or not: unknown outcome, or open at a border, or let go by a cut.
    pub may: Vec<u32>,
    /// Operations that certainly took effect before the return of another one that saw what only they made.
    pub shown: Vec<(u32, u32)>,
}

impl Proof {
    /// The same with other names for operations.
    pub fn named(self, name: impl Fn(u32) -> u32) -> Self {
        let names = |list: Vec<u32>| list.into_iter().map(&name).collect();
        let shown = self.shown.into_iter().map(|(op, by)| (name(op), name(by))).collect();
        Proof { must: names(self.must), may: names(self.may), shown, ..self }
    }
}

/// `window` as it is, with all that belongs to it.
pub fn proof<M: Model>(history: &History<'_, M>, ops: &[Op], window: &Window) -> Proof {
    let effects = history.effects(window.since, window.until);
    let may = history.optional(window, &effects);
    // Those that would be in the window, or be in it otherwise, if their times had not been tightened.
    let loose = History::plain(history.model, ops);
    let mut asked: Vec<u32> = window.must.clone();
    asked.extend(loose.optional(window, &loose.effects(window.since, window.until)));
    let mut shown = Vec::new();
    while let Some(i) = asked.pop() {
        let tightened = history.ops[i as usize].returned < ops[i as usize].returned;
        if let Some(by) = history.shown_by[i as usize].filter(|_| tightened)
            && !shown.contains(&(i, by))
        {
            shown.push((i, by));
            asked.push(by);
        }
    }
    shown.sort_unstable();
    Proof { since: window.since, until: window.until, must: window.must.clone(), may, shown }
}

/// The smallest violation within `window`, which has no order; also the steps that it took.
///
/// Better still is one that begins with the history and needs nothing but the operations that it names; it is taken if
/// it is hardly larger.
pub fn minimise<M: Model>(history: &History<'_, M>, ops: &[Op], window: &Window, limits: Limits) -> (Proof, u64) {
    let effects = history.effects(window.since, window.until);
    let (mut small, mut spent) = cut(history, window.clone(), effects, limits);
    let rest = Limits { steps: limits.steps.saturating_sub(spent), ..limits };
    let (begun, steps) = later(history, &small, rest);
    spent += steps;
    if let Some(begun) = begun {
        // What has become optional at its border may make more of it unneeded.
        let rest = Limits { steps: limits.steps.saturating_sub(spent), ..limits };
        let effects = history.effects(begun.since, begun.until);
        let (smaller, steps) = cut(history, begun, effects, rest);
        spent += steps;
        small = smaller;
    }
    let found = proof(history, ops, &small);
    if small.since == BEGINNING && found.shown.is_empty() {
        return (found, spent);
    }
    let plain = History::plain(history.model, ops);
    let rest = Limits { steps: limits.steps.saturating_sub(spent), ..limits };
    let (whole, steps) = from_the_beginning(&plain, &found, rest);
    spent += steps;
    let size = |proof: &Proof| proof.must.len() + proof.may.len();
    match whole.map(|window| proof(&plain, ops, &window)) {
        Some(whole) if size(&whole) <= size(&found) + WORTH_THE_BEGINNING => (whole, spent),
        _ => (found, spent),
    }
}

/// Let go of what is not needed, the earliest first: of reads, and then of the rest, much of which has to stay anyway
/// because somebody saw what it made.
fn cut<M: Model>(history: &History<'_, M>, window: Window, mut effects: Vec<u32>, limits: Limits) -> (Window, u64) {
    let mut kept = window;
    let mut spent = 0;
    for reads in [true, false] {
        let of_turn = |&i: &u32| history.model.reads_only(&history.ops[i as usize]) == reads;
        let mut turn: Vec<u32> = kept.must.iter().copied().filter(of_turn).collect();
        let mut length = turn.len().div_ceil(2);
        while length > 0 {
            let mut at = 0;
            while at < turn.len() && spent < limits.steps {
                let end = (at + length).min(turn.len());
                let mut fewer = kept.clone();
                fewer.must.retain(|i| turn[at..end].binary_search(i).is_err());
                let (fails, steps) = history.fails(&fewer, &effects, Limits { steps: limits.steps - spent, ..limits });
                spent += steps + effects.len() as u64;
                if fails == Ok(true) {
                    // What changes nothing for those that are left will never matter again.
                    let may = history.optional(&fewer, &effects);
                    effects.retain(|i| may.binary_search(i).is_ok() || fewer.must.binary_search(i).is_ok());
                    turn.drain(at..end);
                    kept = fewer;
                } else {
                    at = end;
                }
            }
            length = if length == 1 { 0 } else { length.div_ceil(2) };
        }
    }
    (kept, spent)
}

/// The window begun where the first operation that must go in was invoked, if it still has no order then: fewer could
/// take effect within it.
fn later<M: Model>(history: &History<'_, M>, window: &Window, limits: Limits) -> (Option<Window>, u64) {
    let first = window.must.iter().map(|&i| history.ops[i as usize].invoked).min();
    let Some(since) = first.filter(|&first| first > window.since && history.model.is_register()) else {
        return (None, 0);
    };
    let begun = Window { since, ..window.clone() };
    let effects = history.effects(since, window.until);
    let (fails, steps) = history.fails(&begun, &effects, limits);
    ((fails == Ok(true)).then_some(begun), steps)
}

/// A window from the beginning with what `found` holds, all that made a value seen there, and what showed them.
fn from_the_beginning<M: Model>(history: &History<'_, M>, found: &Proof, limits: Limits) -> (Option<Window>, u64) {
    let until = found.until;
    let effects = history.effects(BEGINNING, until);
    let mut must: Vec<u32> = found.must.iter().chain(&found.may).copied().collect();
    must.extend(found.shown.iter().flat_map(|&(op, by)| [op, by]));
    must.sort_unstable();
    must.dedup();
    let mut window = Window { since: BEGINNING, until, must };
    let may = history.optional(&window, &effects);
    if may.len() > found.must.len() + found.may.len() + WORTH_THE_BEGINNING {
        return (None, 0);
    }
    window.must.extend(&may);
    window.must.retain(|&i| history.ops[i as usize].returned != NEVER && history.ops[i as usize].returned <= until);
    window.must.sort_unstable();
    let mut few: Vec<u32> = window.must.iter().chain(&may).copied().collect();
    few.extend(found.must.iter().chain(&found.may).copied());
    few.extend(found.shown.iter().map(|&(op, _)| op));
    few.sort_unstable();
    few.dedup();
    few.retain(|i| effects.binary_search(i).is_ok());
    let (fails, steps) = history.fails(&window, &few, limits);
    if fails != Ok(true) {
        return (None, steps);
    }
    let rest = Limits { steps: limits.steps.saturating_sub(steps), ..limits };
    let (small, more) = cut(history, window, few, rest);
    (Some(small), steps + more)
}
