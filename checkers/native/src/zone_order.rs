//! What the blocks of a register allow: an order that explains them, and what the register may hold after it.

use crate::operation::{Function, NEVER, Op, Ops};
use crate::zones::{NONE, Zones};

impl Zones {
    /// An order (indexes) of what the first `passed` returns show to have happened. To be asked for once.
    ///
    /// Blocks go by where their zones begin, backward ones before the forward one that begins at the same moment; each
    /// block's values in turn, the maker and then the reads, as they were invoked.
    pub fn order(&mut self, ops: &(impl Ops + ?Sized), passed: usize) -> Vec<u32> {
        // Backward zones by the moment at which they begin, as lists of the moments at which they end.
        let mut table = std::mem::take(&mut self.table);
        table.clear();
        table.resize(2 * (passed + 1), NONE);
        let (ending, next) = table.split_at_mut(passed + 1);
        for (at, moment) in self.moments[..=passed].iter().enumerate() {
            if moment.first_of != NONE {
                let begins = self.values[moment.first_of as usize].until as usize;
                if begins <= at {
                    next[at] = std::mem::replace(&mut ending[begins], at as u32);
                }
            }
        }
        let mut order = vec![NONE; ops.length()];
        let mut length = 0;
        for (at, &end) in ending.iter().enumerate() {
            let mut end = end;
            while end != NONE {
                length = self.place(self.moments[end as usize].first_of, &mut order, length);
                end = next[end as usize];
            }
            let head = self.moments[at].first_of;
            if head != NONE && self.values[head as usize].until as usize > at {
                length = self.place(head, &mut order, length);
            }
        }
        order.truncate(length);
        self.table = table;
        let stop = self.stop(ops, passed);
        for (i, op) in ops.iter().enumerate() {
            if op.function == Function::Read && (op.returned, i as u32) < stop {
                let place = &mut self.values[op.a as usize].reads;
                order[*place as usize] = i as u32;
                *place += 1;
            }
        }
        order
    }

    /// Place the makers of a block from `length` on, with room for the reads; where it ends. From here on `reads` tells
    /// where the next one goes.
    #[inline]
    fn place(&mut self, head: u32, order: &mut [u32], mut length: usize) -> usize {
        let mut value = head;
        while value != NONE {
            let known = &mut self.values[value as usize];
            if known.maker != NONE {
                order[length] = known.maker;
                length += 1;
            }
            let first = length;
            length += known.reads as usize;
            known.reads = first as u32;
            value = known.next;
        }
        length
    }

    /// The first return that is not passed, as (moment, operation).
    fn stop(&self, ops: &(impl Ops + ?Sized), passed: usize) -> (i64, u32) {
        let next = self.moments.get(passed + 1).map(|moment| (ops.at(moment.op as usize).returned, moment.op));
        next.unwrap_or((NEVER, 0))
    }

    /// The operations that are invoked and have not returned before the return after `passed`, but for the one that
    /// returns then and those of unknown outcome that need not be thought of: seen by now, or by nobody at all.
    pub fn open(&self, ops: &[Op], passed: usize) -> Vec<u32> {
        let stop = self.stop(ops, passed);
        let mut seen = vec![false; self.values.len()];
        for value in ops.iter().filter_map(Op::observed) {
            seen[value as usize] = true;
        }
        let is_open = |&i: &u32| {
            let op = &ops[i as usize];
            let pending = op.invoked <= stop.0 && (op.returned, i) > stop;
            let matters = |value: u32| seen[value as usize] && self.values[value as usize].head == NONE;
            pending && (!op.is_open_ended() || op.made().is_some_and(matters))
        };
        (0..ops.len() as u32).filter(is_open).collect()
    }

    /// Every value that the register may hold after some order of the first `passed` returns.
    pub fn states(&self, ops: &[Op], passed: usize) -> Vec<u32> {
        let shown = self.moments[..=passed].iter().map(|moment| moment.first_of).filter(|&head| head != NONE);
        let (mut latest, mut second) = ((0, NONE), 0);
        for head in shown.clone() {
            let until = self.values[head as usize].until;
            if until >= latest.0 {
                second = latest.0;
                latest = (until, head);
            } else {
                second = second.max(until);
            }
        }
        // Last can be what need not precede any other.
        let others = |head: u32| if head == latest.1 { second } else { latest.0 };
        let last = shown.filter(|&head| self.values[head as usize].since >= others(head));
        let mut states: Vec<u32> = last.map(|head| self.tail(head)).collect();
        let stop = self.stop(ops, passed);
        let possible =
            |op: &&Op| op.invoked <= stop.0 && op.made().is_some_and(|value| self.values[value as usize].head == NONE);
        let mut optional: Vec<&Op> = ops.iter().filter(possible).collect();
        loop {
            let before = optional.len();
            optional.retain(|op| {
                let follows = op.observed().is_none_or(|value| states.contains(&value));
                if follows {
                    states.extend(op.made());
                }
                !follows
            });
            if optional.len() == before {
                break;
            }
        }
        states.sort_unstable();
        states.dedup();
        states
    }

    fn tail(&self, head: u32) -> u32 {
        let mut value = head;
        while self.values[value as usize].next != NONE {
            value = self.values[value as usize].next;
        }
        value
    }
}
