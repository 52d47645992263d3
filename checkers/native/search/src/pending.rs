//! The open operations between two events: a slot for each that returns, sorted by what they do to the state.

use super::bits::Bits;
use crate::history::Op;

/// An open operation in its slot.
#[derive(Clone, Copy)]
pub struct Open<S> {
    pub op: Op,
    pub index: u32,
    /// Number of the event that invoked it.
    pub since: u32,
    /// The state after it, if it overwrites.
    pub to: S,
}

/// The open operations between two events.
#[derive(Clone)]
pub struct Pending<S, B> {
    pub slots: Vec<Open<S>>,
    pub reads: B,
    pub overwriting: B,
    pub others: B,
    /// Not overwriting: reads and others.
    pub needed: B,
    /// Of each slot, those of equal operations that return before.
    pub earlier: Vec<B>,
}

impl<S: Copy, B: Bits> Pending<S, B> {
    pub fn new(words: usize) -> Self {
        let none = B::empty(words);
        Pending {
            slots: Vec::new(),
            reads: none.clone(),
            overwriting: none.clone(),
            others: none.clone(),
            needed: none,
            earlier: Vec::new(),
        }
    }

    /// Compare the operation new in `slot` with the equal ones that are open: which returns first?
    pub fn rank(&mut self, slot: usize, overwrites: bool) {
        let open = self.slots[slot];
        let ends = |open: &Open<S>| (open.op.returned, open.op.blame == open.op.id, open.index);
        let alike = if overwrites { self.overwriting.clone() } else { self.others.clone() };
        let mut before = alike.clone();
        before.clear();
        for other in alike.difference(&before.clone()) {
            if self.slots[other].op.asks_the_same(&open.op) {
                if ends(&self.slots[other]) < ends(&open) {
                    before.insert(other);
                } else {
                    self.earlier[other].insert(slot);
                }
            }
        }
        self.earlier[slot] = before;
    }

    /// No equal operation that returns before is still out.
    #[inline]
    pub fn is_first(&self, slot: usize, used: &B) -> bool {
        !self.earlier[slot].exceeds(used)
    }

    pub fn free(&mut self, slot: usize) {
        if self.reads.contains(slot) {
            self.reads.remove(slot);
            self.needed.remove(slot);
            return;
        }
        let alike = if self.overwriting.contains(slot) { &mut self.overwriting } else { &mut self.others };
        alike.remove(slot);
        self.needed.remove(slot);
        for earlier in &mut self.earlier {
            earlier.remove(slot);
        }
    }

    pub fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Open<S>>()
            + self.earlier.capacity() * size_of::<B>()
            + self.earlier.first().map_or(0, |bits| bits.heap_bytes()) * (self.earlier.len() + 4)
    }
}
