//! One operation as the search sees it: integers only, times as places in one total order.

/// `returned` of an operation that never returned: it may take effect at any later point, or never.
pub const NEVER: i64 = i64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    Read,
    Write,
    CompareAndSet,
    /// Of an object beyond registers: `a` numbers a call of its own list.
    Call,
}

/// A read returned `a`; a write sets `a`; a compare-and-set went from `a` to `b`.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// The caller's row, for answers.
    pub id: u32,
    /// Whom to name when no order passes this operation; differs from `id` only after the reduction closed it.
    pub blame: u32,
    pub function: Function,
    pub a: u32,
    pub b: u32,
    pub invoked: i64,
    pub returned: i64,
}

/// One object's operations by invocation, wherever they are kept.
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

    /// The value that it leaves a register with; None for a read.
    #[inline]
    pub fn made(&self) -> Option<u32> {
        match self.function {
            Function::Read | Function::Call => None,
            Function::Write => Some(self.a),
            Function::CompareAndSet => Some(self.b),
        }
    }

    /// The value that a register holds right after it: the one that it made, or else read.
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

    /// Two open-ended operations that ask the same differ only in when they were invoked.
    pub fn asks_the_same(&self, other: &Op) -> bool {
        self.function == other.function && self.a == other.a && self.b == other.b
    }
}
