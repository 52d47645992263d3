//! The steps, memory and time that one search may use.

use super::interrupt::Deadline;

/// The budget of one object's search. `steps` are counted, so the same input gives the same answer.
#[derive(Clone, Copy)]
pub struct Limits {
    pub steps: u64,
    pub memory_bytes: usize,
    pub deadline: Deadline,
}
