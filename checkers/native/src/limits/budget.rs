//! What one search may spend.

use super::interrupt::Deadline;

/// What one object's search may spend. `steps` are counted, so that the same input gives the same answer.
#[derive(Clone, Copy)]
pub struct Limits {
    pub steps: u64,
    pub memory_bytes: usize,
    pub deadline: Deadline,
}
