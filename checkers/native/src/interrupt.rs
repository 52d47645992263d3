//! When to give up: at a deadline, or when the caller was interrupted.
//!
//! Signals are only ever handled on the interpreter's main thread, so at most one run is interrupted at a time, and one
//! number is enough to tell all its threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

static RUNS: AtomicU64 = AtomicU64::new(1);
static INTERRUPTED: AtomicU64 = AtomicU64::new(0);

#[derive(Clone, Copy)]
pub struct Deadline {
    at: Instant,
    run: u64,
}

impl Deadline {
    /// Of a run of its own.
    pub fn new(at: Instant) -> Self {
        Deadline { at, run: RUNS.fetch_add(1, Ordering::Relaxed) }
    }

    pub fn interrupt(self) {
        INTERRUPTED.store(self.run, Ordering::Relaxed);
    }

    pub fn has_passed(self) -> bool {
        INTERRUPTED.load(Ordering::Relaxed) == self.run || Instant::now() > self.at
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn one_run_is_interrupted_and_no_other() {
        let later = Instant::now() + Duration::from_secs(3600);
        let (one, other) = (Deadline::new(later), Deadline::new(later));
        assert!(!one.has_passed() && !other.has_passed());
        one.interrupt();
        assert!(one.has_passed() && !other.has_passed());
        assert!(Deadline::new(Instant::now() - Duration::from_secs(1)).has_passed());
    }
}
