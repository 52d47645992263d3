//! Remove operations of unknown outcome that need no search, because other operations decide what happened to them.
//!
//! Two rules are repeated until neither applies. Both keep the answer exactly:
//!   - *unobserved*: no operation read or compared with the value. Remove the write (or compare-and-set) of unknown
//!     outcome that made it from any order: a plain write or nothing followed it, so the rest of the order still holds.
//!   - *forced*: an operation that returned observed the value, only one operation can have made it, and it is not the
//!     initial value. In every order the maker comes before the return of its first observer, so it returned by then.
//!
//! Reads of unknown outcome constrain nothing and are dropped.

use search::history::{Function, NEVER, Op};

/// Values are table places where they are numbered densely; else they are sorted.
const TABLE_PER_OPERATION: usize = 2;
const TABLE_MIN: usize = 64;

#[derive(Clone, Copy)]
struct Value {
    makers: u32,
    /// Somebody may need it.
    wanted: bool,
    /// The earliest return of an operation that observed it, and whom to blame if that cannot be.
    seen: i64,
    seen_by: u32,
}

pub fn reduce(ops: &mut Vec<Op>, initial: u32) {
    if !ops.iter().any(Op::is_open_ended) {
        return;
    }
    ops.retain(|op| !(op.is_open_ended() && op.function == Function::Read));
    let top = ops.iter().fold(initial, |top, op| top.max(op.a).max(op.b)) as usize;
    let is_dense = top < (TABLE_PER_OPERATION * ops.len()).max(TABLE_MIN);
    let mut values: Vec<u32> = Vec::new();
    if !is_dense {
        values.extend(ops.iter().flat_map(|op| [op.a, op.b]).chain([initial]));
        values.sort_unstable();
        values.dedup();
    }
    let count = if is_dense { top + 1 } else { values.len() };
    let place = |value: u32| match is_dense {
        true => value as usize,
        false => values.binary_search(&value).expect("every value was collected"),
    };
    loop {
        let facts = gather(ops, count, place, initial);
        let mut changed = false;
        for op in ops.iter_mut().filter(|op| op.is_open_ended()) {
            let value = facts[place(op.made().expect("reads are gone"))];
            if value.wanted && value.makers == 1 && value.seen != NEVER && value.seen > op.invoked {
                op.returned = value.seen;
                op.blame = value.seen_by;
                changed = true;
            }
        }
        let before = ops.len();
        ops.retain(|op| !(op.is_open_ended() && op.made().is_some_and(|value| !facts[place(value)].wanted)));
        if !changed && ops.len() == before {
            return;
        }
    }
}

fn gather(ops: &[Op], count: usize, place: impl Fn(u32) -> usize, initial: u32) -> Vec<Value> {
    let nothing = Value { makers: 0, wanted: false, seen: NEVER, seen_by: 0 };
    let mut facts = vec![nothing; count];
    facts[place(initial)].makers = 1;
    for op in ops {
        if let Some(value) = op.made() {
            facts[place(value)].makers += 1;
        }
        if let Some(value) = op.observed() {
            let fact = &mut facts[place(value)];
            fact.wanted = true;
            if op.returned < fact.seen {
                fact.seen = op.returned;
                fact.seen_by = op.blame;
            }
        }
    }
    facts
}
