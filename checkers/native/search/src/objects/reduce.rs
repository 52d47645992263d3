//! Remove calls of unknown outcome that need no search, because other calls decide what happened to them.
//!
//! The rules are those of `registers::reduce`, by what an object promises: a call that the object does not need is
//! dropped; so is a call whose results nobody observed. If only one call can have made what a returned call observed,
//! it took effect before that return.

use std::collections::HashMap;

use super::{Call, Object, Token};
use crate::history::{NEVER, Op};

struct Fact {
    makers: u32,
    observed: bool,
    /// The earliest return of a call that observed it, and whom to blame if that cannot be.
    seen: i64,
    seen_by: u32,
}

pub fn reduce(object: &impl Object, calls: &[Call], ops: &mut Vec<Op>) {
    if !ops.iter().any(Op::is_open_ended) {
        return;
    }
    ops.retain(|op| !(op.is_open_ended() && object.is_spare(&calls[op.a as usize])));
    let makes: Vec<Vec<Token>> = calls.iter().map(|call| object.makes(call)).collect();
    let observes: Vec<Vec<Token>> = calls.iter().map(|call| object.observes(call)).collect();
    loop {
        let facts = gather(&makes, &observes, ops);
        let mut changed = false;
        for op in ops.iter_mut().filter(|op| op.is_open_ended()) {
            let alone = |token: &Token| facts.get(token).filter(|fact| fact.makers == 1 && fact.seen > op.invoked);
            let forced = makes[op.a as usize].iter().filter_map(alone).min_by_key(|fact| fact.seen);
            if let Some(fact) = forced.filter(|fact| fact.seen != NEVER) {
                op.returned = fact.seen;
                op.blame = fact.seen_by;
                changed = true;
            }
        }
        let before = ops.len();
        let is_seen = |token: &Token| facts.get(token).is_some_and(|fact| fact.observed);
        ops.retain(|op| {
            let made = &makes[op.a as usize];
            !op.is_open_ended() || made.is_empty() || made.iter().any(is_seen)
        });
        if !changed && ops.len() == before {
            return;
        }
    }
}

fn gather(makes: &[Vec<Token>], observes: &[Vec<Token>], ops: &[Op]) -> HashMap<Token, Fact> {
    let mut facts: HashMap<Token, Fact> = HashMap::new();
    let nothing = || Fact { makers: 0, observed: false, seen: NEVER, seen_by: 0 };
    for op in ops {
        for &token in &makes[op.a as usize] {
            facts.entry(token).or_insert_with(nothing).makers += 1;
        }
        for &token in &observes[op.a as usize] {
            let fact = facts.entry(token).or_insert_with(nothing);
            fact.observed = true;
            if op.returned < fact.seen {
                fact.seen = op.returned;
                fact.seen_by = op.blame;
            }
        }
    }
    facts
}
