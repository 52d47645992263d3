//! Judge in linear time a register whose values are each made only once (Gibbons & Korach, 1997).
//!
//! An operation belongs to the value that it read or made. A successful compare-and-set directly follows the value that
//! it compared with, so both values belong to one *block*. The operations of a block stand together in every order.
//! Only two moments of a block matter: when its first operation returned (`since`), and when its last one was invoked
//! (`until`). The time between them is its *zone*: forward if `since` comes first, else backward.
//!
//! Block A must precede block B if A's `since` lies before B's `until`. So a pair of blocks that must each precede the
//! other refutes every order: two forward zones that overlap, or a backward zone inside a forward one. If there is no
//! such pair, sorting the zones by their ends gives an order.
//!
//! The blocks grow while the returns are processed in their order. Each growth is compared with what it newly covers.
//! Forward zones are disjoint until the first conflict, so all comparisons together are linear. The return at which a
//! conflict appears is the first one that no order can pass.
//!
//! An operation that has not returned counts from the first return of an operation that shows that it happened, because
//! that one observed a value that only it can have made. A compare-and-set of unknown outcome shows nothing until it is
//! itself shown to have happened. Operations that nothing shows may be left out of every order.
//!
//! Moments are numbers of returns: 0 is before everything, `i + 1` is the i-th return.

use search::history::{Function, Op, Ops, Returns};

pub const NONE: u32 = u32::MAX;

/// Values are table places; beyond so many of them per operation the table is not worth having.
const VALUES_PER_OPERATION: usize = 16;
const VALUES_MIN: usize = 1 << 16;

/// What is known of one value.
#[derive(Clone, Copy)]
pub struct Value {
    /// The operation that makes it.
    pub maker: u32,
    /// The first value of its block; NONE while nothing shows that it was made.
    pub head: u32,
    /// The return that first showed it.
    pub since: u32,
    /// Of a head: how many returns, and the beginning, lie before the last invocation in the block.
    pub until: u32,
    /// The value that a compare-and-set made of it, once that is shown.
    pub next: u32,
}

const UNKNOWN: Value = Value { maker: NONE, head: NONE, since: NONE, until: 0, next: NONE };

/// What is known of the beginning, or of one return.
#[derive(Clone, Copy)]
pub struct Moment {
    /// The head of the block whose first return it is.
    pub first_of: u32,
    /// The head of the block whose forward zone lies over it.
    pub covered_by: u32,
}

const NOTHING: Moment = Moment { first_of: NONE, covered_by: NONE };

/// Why no order passes a return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// `value` was seen, and nothing makes it.
    Unmade { value: u32 },
    /// `value` was seen before its maker was invoked.
    Early { value: u32 },
    /// Compare-and-sets each from the other's value, `value` among them.
    Circular { value: u32 },
    /// A second compare-and-set from `value`.
    Twice { value: u32 },
    /// A read of `value` invoked when it was known to be replaced.
    Replaced { value: u32 },
    /// The blocks of these heads must precede each other, now that one has grown.
    Pair { grown: u32, other: u32 },
}

/// Tables that one key after the other uses.
#[derive(Default)]
pub struct Zones {
    pub values: Vec<Value>,
    /// Of each value: the reads of it that returned. Apart, since an order is told by these alone.
    pub reads: Vec<u32>,
    pub moments: Vec<Moment>,
    pub returns: Returns,
    /// Values on the way from what was seen to what is known, the latest made first.
    pub path: Vec<u32>,
}

impl Zones {
    /// Prepare for `ops`, sorted by invocation. False when zones cannot judge them: a value has two makers (the
    /// initial one has one by itself), a compare-and-set changes nothing, or the values are numbered too sparsely.
    pub fn suit(&mut self, ops: &(impl Ops + ?Sized), initial: u32) -> bool {
        let top = ops.iter().fold(initial, |top, op| top.max(op.a).max(op.b)) as usize;
        if top >= self.values.len() {
            if top > (VALUES_PER_OPERATION * ops.length()).max(VALUES_MIN) {
                return false;
            }
            self.values.clear();
            self.values.resize(top + 1, UNKNOWN);
            self.reads.clear();
            self.reads.resize(top + 1, 0);
        } else {
            for op in ops.iter() {
                for value in [op.a, op.b] {
                    self.values[value as usize] = UNKNOWN;
                    self.reads[value as usize] = 0;
                }
            }
        }
        self.values[initial as usize] = Value { head: initial, since: 0, ..UNKNOWN };
        self.reads[initial as usize] = 0;
        // Reads and writes come in no order that a branch could be predicted by.
        for (i, op) in ops.iter().enumerate() {
            let left = op.left();
            let makes = op.function != Function::Read;
            let maker = &mut self.values[left as usize].maker;
            let again = (left == initial) | (*maker != NONE);
            let changes = (op.function == Function::Write) | (op.a != op.b);
            if makes & (again | !changes) {
                return false;
            }
            *maker = if makes { i as u32 } else { *maker };
        }
        true
    }

    /// Walk through the returns of `ops`, for which `suit` said true; the number of returns passed, and what no order
    /// passes then, if anything.
    pub fn walk(&mut self, ops: &(impl Ops + ?Sized), initial: u32) -> (usize, Option<Violation>) {
        self.returns.sort(ops);
        let returns = self.returns.order.len();
        self.moments.clear();
        self.moments.resize(returns + 1, NOTHING);
        self.moments[0].first_of = initial;
        for passed in 0..returns {
            if let Err(violation) = self.pass(ops, self.returns.order[passed], passed as u32 + 1) {
                return (passed, Some(violation));
            }
        }
        (returns, None)
    }

    /// The operation that returned at this moment; NONE at the beginning.
    pub fn returned_at(&self, moment: usize) -> u32 {
        moment.checked_sub(1).map_or(NONE, |number| self.returns.order[number])
    }

    /// How many returns, and the beginning, lie before an invocation.
    #[inline]
    pub fn invoked_after(&self, op: &Op) -> u32 {
        self.returns.before(op.invoked) + 1
    }

    #[inline]
    fn pass(&mut self, ops: &(impl Ops + ?Sized), index: u32, now: u32) -> Result<(), Violation> {
        let op = ops.at(index as usize);
        let value = op.left();
        let known = self.values[value as usize];
        let invoked = self.invoked_after(&op);
        if known.head == NONE {
            self.show(ops, value, invoked, op.returned, now)?;
        } else {
            // Neither is so of the one that made the value: what showed that returned after its invocation.
            if known.next != NONE && self.values[known.next as usize].since < invoked {
                return Err(Violation::Replaced { value });
            }
            if self.values[known.head as usize].until < invoked {
                self.grow(known.head, invoked)?;
            }
        }
        self.reads[value as usize] += u32::from(op.function == Function::Read);
        Ok(())
    }

    /// An operation that was invoked after `until` returns and returns `now` shows that `value` was made.
    fn show(&mut self, ops: &(impl Ops + ?Sized), value: u32, until: u32, at: i64, now: u32) -> Result<(), Violation> {
        self.path.clear();
        let mut until = until;
        let mut made = value;
        let before = loop {
            let maker = self.values[made as usize].maker;
            if maker == NONE {
                return Err(Violation::Unmade { value: made });
            }
            let op = ops.at(maker as usize);
            if op.invoked > at {
                return Err(Violation::Early { value: made });
            }
            if self.path.len() == ops.length() {
                return Err(Violation::Circular { value: made });
            }
            self.path.push(made);
            until = until.max(self.invoked_after(&op));
            if op.function == Function::Write {
                break None;
            }
            made = op.a;
            if self.values[made as usize].head != NONE {
                break Some(made);
            }
        };
        let head = match before {
            Some(before) => {
                let known = self.values[before as usize];
                if known.next != NONE {
                    return Err(Violation::Twice { value: before });
                }
                if self.values[known.head as usize].until < until {
                    self.grow(known.head, until)?;
                }
                known.head
            }
            None => {
                self.moments[now as usize].first_of = made;
                self.values[made as usize].until = until;
                made
            }
        };
        let mut last = before.unwrap_or(NONE);
        while let Some(made) = self.path.pop() {
            if last != NONE {
                self.values[last as usize].next = made;
            }
            let value = &mut self.values[made as usize];
            value.head = head;
            value.since = now;
            last = made;
        }
        Ok(())
    }

    /// The block of `head` had an operation invoked after `until` returns.
    fn grow(&mut self, head: u32, until: u32) -> Result<(), Violation> {
        let Value { since, until: before, .. } = self.values[head as usize];
        let newly = before.max(since) as usize..(until as usize).max(before.max(since) as usize);
        // The latest first: what was replaced last tells most.
        for moment in self.moments[newly.clone()].iter().rev() {
            let first = moment.first_of;
            let other = if moment.covered_by != NONE {
                moment.covered_by
            } else if first != NONE && self.values[first as usize].until > since {
                first
            } else {
                continue;
            };
            if other != head {
                return Err(Violation::Pair { grown: head, other });
            }
        }
        let around = self.moments[since as usize].covered_by;
        if around != NONE && around != head && self.values[around as usize].since < until {
            return Err(Violation::Pair { grown: head, other: around });
        }
        for moment in &mut self.moments[newly] {
            moment.covered_by = head;
        }
        self.values[head as usize].until = until;
        Ok(())
    }
}
