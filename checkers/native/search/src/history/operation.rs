//! One operation for the search: integers only, with times as positions in one total order.

/// `returned` of an operation that never returned: it may take effect at any later point, or never.
pub const NEVER: i64 = i64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    Read,
    Write,
    CompareAndSet,
    /// A call of an object beyond registers: `a` is its number in the object's list of calls.
    Call,
}

/// A read returned `a`; a write sets `a`; a compare-and-set went from `a` to `b`.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// The caller's row, for answers.
    pub id: u32,
    /// The operation to name if no order passes this one; differs from `id` only after the reduction closed it.
    pub blame: u32,
    pub function: Function,
    pub a: u32,
    pub b: u32,
    pub invoked: i64,
    pub returned: i64,
}

/// One object's operations, ordered by invocation; it does not matter where they are stored.
pub trait Ops {
    fn length(&self) -> usize;
    fn at(&self, i: usize) -> Op;

    fn iter(&self) -> impl DoubleEndedIterator<Item = Op> {
        (0..self.length()).map(|i| self.at(i))
    }
}

impl Ops for [Op] {
    #[inline]
    fn length(&self) -> usize {
        self.len()
    }

    #[inline]
    fn at(&self, i: usize) -> Op {
        self[i]
    }
}

impl Op {
    /// Whether it may stay out of the order for ever.
    pub fn is_open_ended(&self) -> bool {
        self.returned == NEVER
    }

    /// The value of a register after it; None for a read.
    #[inline]
    pub fn made(&self) -> Option<u32> {
        match self.function {
            Function::Read | Function::Call => None,
            Function::Write => Some(self.a),
            Function::CompareAndSet => Some(self.b),
        }
    }

    /// The value that a register holds right after it: the value that it made or read.
    #[inline]
    pub fn left(&self) -> u32 {
        if self.function == Function::CompareAndSet { self.b } else { self.a }
    }

    /// The value that it finds in a register; None for a write.
    #[inline]
    pub fn observed(&self) -> Option<u32> {
        match self.function {
            Function::Write | Function::Call => None,
            Function::Read | Function::CompareAndSet => Some(self.a),
        }
    }

    /// Whether two operations that never return ask the same, so that they differ only in their invocations.
    pub fn asks_the_same(&self, other: &Op) -> bool {
        self.function == other.function && self.a == other.a && self.b == other.b
    }
}
