//! Find an order of a register's blocks, and the values that the register may hold after it.

use std::ops::Range;

use super::zones::{NONE, Zones};
use search::history::{Function, NEVER, Op, Ops};

impl Zones {
    /// An order (indexes) of what the first `passed` returns show to have happened. To be asked for once.
    ///
    /// Blocks go by where their zones end, and a forward zone that ends where another one does goes first; each block's
    /// values in turn, the maker and then the reads, as they were invoked.
    pub fn order(&mut self, ops: &(impl Ops + ?Sized), passed: usize) -> Vec<u32> {
        let mut order = vec![0; ops.length() + 1];
        let mut length = 0;
        // The forward zone that has begun: there is at most one at a time.
        let (mut forward, mut ends) = (NONE, usize::MAX);
        for at in 0..=passed {
            if at == ends {
                length = self.place(forward, &mut order, length);
                ends = usize::MAX;
            }
            let head = self.moments[at].first_of;
            if head == NONE {
                continue;
            }
            let until = self.values[head as usize].until as usize;
            if until > at {
                (forward, ends) = (head, until);
            } else {
                length = self.place(head, &mut order, length);
            }
        }
        if ends != usize::MAX {
            length = self.place(forward, &mut order, length);
        }
        let stop = self.stop(ops, passed);
        // What is no read goes to a place that is cut off: no branch could be predicted here.
        for (i, op) in ops.iter().enumerate() {
            let is_read = (op.function == Function::Read) & ((op.returned, i as u32) < stop);
            let next = &mut self.reads[op.left() as usize];
            let place = if is_read { *next } else { length as u32 };
            order[place as usize] = i as u32;
            *next += u32::from(is_read);
        }
        order.truncate(length);
        order
    }

    /// Place the makers of a block from `length` on, with room for the reads; where it ends. From here on `reads` tells
    /// where the next one goes.
    #[inline]
    fn place(&mut self, head: u32, order: &mut [u32], mut length: usize) -> usize {
        let mut value = head;
        while value != NONE {
            let known = self.values[value as usize];
            if known.maker != NONE {
                order[length] = known.maker;
                length += 1;
            }
            let first = length;
            length += std::mem::replace(&mut self.reads[value as usize], first as u32) as usize;
            value = known.next;
        }
        length
    }

    /// The first return that is not passed, as (moment, operation).
    fn stop(&self, ops: &(impl Ops + ?Sized), passed: usize) -> (i64, u32) {
        let next = self.returns.order.get(passed);
        next.map_or((NEVER, 0), |&op| (ops.at(op as usize).returned, op))
    }

    /// The operations that had not returned when `passed` returns were passed.
    pub fn rest(&self, ops: &(impl Ops + ?Sized), passed: usize) -> Vec<u32> {
        let stop = self.stop(ops, passed);
        (0..ops.length() as u32).filter(|&i| (ops.at(i as usize).returned, i) >= stop).collect()
    }

    /// Those of the `rest` that are invoked before the return after `passed`, but for the one that returns then and
    /// those of unknown outcome that need not be thought of: seen by now, or by nobody at all.
    pub fn open(&self, ops: &(impl Ops + ?Sized), passed: usize, rest: &[u32]) -> Vec<u32> {
        let stop = self.stop(ops, passed);
        let mut seen = vec![false; self.values.len()];
        for value in rest.iter().filter_map(|&i| ops.at(i as usize).observed()) {
            seen[value as usize] = true;
        }
        let is_open = |&i: &u32| {
            let op = ops.at(i as usize);
            let pending = op.invoked <= stop.0 && i != stop.1;
            let matters = |value: u32| seen[value as usize] && self.values[value as usize].head == NONE;
            pending && (!op.is_open_ended() || op.made().is_some_and(matters))
        };
        rest.iter().copied().filter(is_open).collect()
    }

    /// Every value that the register may hold after some order of the first `passed` returns.
    pub fn states(&self, ops: &(impl Ops + ?Sized), passed: usize, rest: &[u32]) -> Vec<u32> {
        let (mut latest, mut second) = ((0, NONE), 0);
        // From the last moment back to where no block reaches that was not met.
        for (at, moment) in self.moments[..=passed].iter().enumerate().rev() {
            for head in [moment.covered_by, moment.first_of] {
                if head == NONE || head == latest.1 {
                    continue;
                }
                let until = self.values[head as usize].until;
                if until >= latest.0 {
                    second = latest.0;
                    latest = (until, head);
                } else {
                    second = second.max(until);
                }
            }
            if second as usize >= at {
                break;
            }
        }
        // Last can be what need not precede any other.
        let others = |head: u32| if head == latest.1 { second } else { latest.0 };
        let last = self.heads(second as usize..passed + 1);
        let last = last.filter(|&head| self.values[head as usize].since >= others(head));
        let mut states: Vec<u32> = last.map(|head| self.tail(head)).collect();
        let stop = self.stop(ops, passed);
        let possible =
            |op: &Op| op.invoked <= stop.0 && op.made().is_some_and(|value| self.values[value as usize].head == NONE);
        let mut optional: Vec<Op> = rest.iter().map(|&i| ops.at(i as usize)).filter(possible).collect();
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

    /// The heads of the blocks that these moments first showed.
    fn heads(&self, moments: Range<usize>) -> impl Iterator<Item = u32> {
        self.moments[moments].iter().map(|moment| moment.first_of).filter(|&head| head != NONE)
    }

    fn tail(&self, head: u32) -> u32 {
        let mut value = head;
        while self.values[value as usize].next != NONE {
            value = self.values[value as usize].next;
        }
        value
    }
}
