//! The invocations and returns of a history in one sequence, and the slot of each operation while it is open.
//!
//! An operation that returns has a slot, which another operation may use after it. Operations that never return are
//! grouped: equal ones differ only in their invocation, so only the number of a group that took effect matters.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::model::Model;
use crate::history::Op;

/// In no group: it never returns and only reads, so nobody ever needs it.
pub const IDLE: u32 = u32::MAX;

pub struct Events {
    /// Twice the operation's index, plus one where it returns.
    pub list: Vec<u32>,
    /// Of each operation: its slot if it returns, else its group.
    pub place: Vec<u32>,
    /// Of each group the first operation.
    pub groups: Vec<u32>,
    /// Slots in use at once, at most.
    pub widest: usize,
}

#[inline]
pub fn operation(event: u32) -> u32 {
    event >> 1
}

#[inline]
pub fn is_return(event: u32) -> bool {
    event & 1 == 1
}

/// At one instant invocations come first (intervals are closed), then forced operations, then their observers.
type Return = (i64, bool, u32);

/// More open operations than this are sorted at once instead of being kept in order.
const OPEN_MAX: usize = 128;

impl Events {
    /// `ops` are sorted by invocation.
    pub fn new<M: Model>(model: &M, ops: &[Op]) -> Self {
        let list = merged(ops).unwrap_or_else(|| sorted(ops));
        let mut place = vec![IDLE; ops.len()];
        let mut free: Vec<u32> = Vec::new();
        let mut widest = 0;
        let mut groups: Vec<u32> = Vec::new();
        let mut group_of: HashMap<(u8, u32, u32), Vec<u32>> = HashMap::new();
        for &event in &list {
            let i = operation(event) as usize;
            let op = &ops[i];
            if is_return(event) {
                free.push(place[i]);
            } else if !op.is_open_ended() {
                place[i] = free.pop().unwrap_or_else(|| {
                    widest += 1;
                    widest - 1
                });
            } else if !model.reads_only(op) {
                let alike = group_of.entry((op.function as u8, op.a, op.b)).or_default();
                let same = alike.iter().find(|&&group| ops[groups[group as usize] as usize].asks_the_same(op));
                place[i] = same.copied().unwrap_or_else(|| {
                    groups.push(i as u32);
                    alike.push(groups.len() as u32 - 1);
                    groups.len() as u32 - 1
                });
            }
        }
        Events { list, place, groups, widest: widest as usize }
    }

    /// The operations that were invoked before event number `at` and had not returned, in the order of invocation.
    pub fn open(&self, at: usize) -> Vec<u32> {
        let mut open = vec![false; self.place.len()];
        for &event in &self.list[..at] {
            open[operation(event) as usize] = !is_return(event);
        }
        (0..open.len() as u32).filter(|&i| open[i as usize]).collect()
    }

    pub fn bytes(&self) -> usize {
        4 * (self.list.capacity() + self.place.capacity() + self.groups.capacity())
    }
}

fn key(ops: &[Op], i: usize) -> Return {
    (ops[i].returned, ops[i].blame == ops[i].id, i as u32)
}

/// One walk, with the returns to come kept in order; None where too many are open at once.
fn merged(ops: &[Op]) -> Option<Vec<u32>> {
    let mut list = Vec::with_capacity(2 * ops.len());
    let mut open: Vec<Return> = Vec::with_capacity(OPEN_MAX);
    for (i, op) in ops.iter().enumerate() {
        while let Some(&(returned, _, at)) = open.last() {
            if returned >= op.invoked {
                break;
            }
            list.push(2 * at + 1);
            open.pop();
        }
        list.push(2 * i as u32);
        if !op.is_open_ended() {
            if open.len() == OPEN_MAX {
                return None;
            }
            let key = key(ops, i);
            let mut at = open.len();
            while at > 0 && open[at - 1] < key {
                at -= 1;
            }
            open.insert(at, key);
        }
    }
    list.extend(open.iter().rev().map(|&(_, _, at)| 2 * at + 1));
    Some(list)
}

fn sorted(ops: &[Op]) -> Vec<u32> {
    let mut returns: Vec<Return> = (0..ops.len()).filter(|&i| !ops[i].is_open_ended()).map(|i| key(ops, i)).collect();
    returns.sort_unstable_by_key(|&key| Reverse(key));
    let mut list = Vec::with_capacity(ops.len() + returns.len());
    for (i, op) in ops.iter().enumerate() {
        while returns.last().is_some_and(|&(returned, _, _)| returned < op.invoked) {
            list.extend(returns.pop().map(|(_, _, at)| 2 * at + 1));
        }
        list.push(2 * i as u32);
    }
    list.extend(returns.iter().rev().map(|&(_, _, at)| 2 * at + 1));
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Function, NEVER};

    #[test]
    fn merging_and_sorting_agree() {
        let op = |i: u32, invoked, returned| Op {
            id: i,
            blame: if i % 3 == 0 { i + 1 } else { i },
            function: Function::Write,
            a: i,
            b: 0,
            invoked,
            returned,
        };
        // Many returns at one instant, some of forced operations, and invocations at that instant too.
        let ops: Vec<Op> = (0..100)
            .map(|i| op(i, i64::from(i / 2), if i % 7 == 0 { NEVER } else { 10 * i64::from(i / 10) + 9 }))
            .collect();
        assert_eq!(merged(&ops).unwrap(), sorted(&ops));
        let crowd: Vec<Op> = (0..300).map(|i| op(i, i64::from(i), 1000 - i64::from(i))).collect();
        assert!(merged(&crowd).is_none());
        assert_eq!(sorted(&crowd)[300..302], [2 * 299 + 1, 2 * 298 + 1]);
    }
}
