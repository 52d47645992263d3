//! What one search may spend, and which part of that ended it.

use super::interrupt::Deadline;

/// What one object's search may spend. `steps` are counted, so that the same input gives the same answer.
#[derive(Clone, Copy)]
pub struct Limits {
    pub steps: u64,
    pub memory_bytes: usize,
    pub deadline: Deadline,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    Steps,
    Memory,
    Time,
}

impl Stop {
    /// Why there is no answer.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Steps => "the budget of steps is spent",
            Self::Memory => "the memory budget is spent",
            Self::Time => "the time limit of the search has passed",
        }
    }
}
