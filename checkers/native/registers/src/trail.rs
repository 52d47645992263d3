//! The paths of a narrow walk as a tree: each step names the operation that was added and the previous step.

use limits::growth;
use search::history::{Function, Op};

/// The step before every first step.
pub const ROOT: u32 = u32::MAX;
/// The operation went in just before the last write.
pub const ABSORBED: u32 = 1 << 31;

#[derive(Clone, Copy)]
struct Step {
    op: u32,
    parent: u32,
}

#[derive(Default)]
pub struct Trail {
    steps: Vec<Step>,
    later: Vec<u32>,
}

impl Trail {
    pub fn clear(&mut self) {
        self.steps.clear();
    }

    pub fn len(&self) -> usize {
        self.steps.len()
    }

    pub fn truncate(&mut self, length: usize) {
        self.steps.truncate(length);
    }

    /// Give back a large tree.
    pub fn let_go(&mut self) {
        growth::let_go(&mut self.steps);
    }

    pub fn bytes(&self) -> usize {
        self.steps.len() * size_of::<Step>()
    }

    /// Add a step by `op` after `parent`; its number.
    #[inline]
    pub fn push(&mut self, parent: u32, op: u32) -> u32 {
        growth::push(&mut self.steps, Step { op, parent }, 0);
        (self.steps.len() - 1) as u32
    }

    /// The operations of one way from the start to the step `leaf`, in order.
    pub fn order(&mut self, ops: &[Op], leaf: u32) -> Vec<u32> {
        let mut order = Vec::with_capacity(ops.len());
        self.later.clear();
        let mut at = leaf;
        while at != ROOT {
            let Step { op, parent } = self.steps[at as usize];
            at = parent;
            if op & ABSORBED != 0 {
                self.later.push(op & !ABSORBED);
                continue;
            }
            order.push(op);
            if !self.later.is_empty() && ops[op as usize].function == Function::Write {
                order.append(&mut self.later);
            }
        }
        order.reverse();
        order
    }
}
