//! When to give up: at a deadline, or when the caller was interrupted.
//!
//! Signals are only ever handled on the interpreter's main thread, so at most one run is interrupted at a time, and one
//! number is enough to tell all its threads.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// So often signals are looked for.
pub const LOOK_EVERY: Duration = Duration::from_millis(50);

static RUNS: AtomicU64 = AtomicU64::new(1);
static INTERRUPTED: AtomicU64 = AtomicU64::new(0);

/// Looks for signals; false where one was raised.
pub type Look = fn() -> bool;

thread_local! {
    /// Of a thread that works and attends to signals itself: how it looks for them, and when it does so next.
    static ATTENDING: Cell<Option<(Look, Instant)>> = const { Cell::new(None) };
}

/// What `work` returns, done on this thread, which looks for signals wherever it asks for the time.
pub fn attending<T>(look: Look, work: impl FnOnce() -> T) -> T {
    struct Restore;
    impl Drop for Restore {
        fn drop(&mut self) {
            ATTENDING.set(None);
        }
    }
    let _restore = Restore;
    ATTENDING.set(Some((look, Instant::now() + LOOK_EVERY)));
    work()
}

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
        let now = Instant::now();
        if let Some((look, next)) = ATTENDING.get()
            && now >= next
        {
            ATTENDING.set(Some((look, now + LOOK_EVERY)));
            if !look() {
                self.interrupt();
            }
        }
        INTERRUPTED.load(Ordering::Relaxed) == self.run || now > self.at
    }
}

thread_local! {
    /// By which the work of this thread is to end.
    static CURRENT: Cell<Option<Deadline>> = const { Cell::new(None) };
}

/// What `work` returns, which may ask whether its time `is_over`.
pub fn within<T>(deadline: Deadline, work: impl FnOnce() -> T) -> T {
    struct Restore(Option<Deadline>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0);
        }
    }
    let _restore = Restore(CURRENT.replace(Some(deadline)));
    work()
}

/// Whether the work of this thread is to be given up. It asks for the time, so not at every step.
pub fn is_over() -> bool {
    CURRENT.get().is_some_and(Deadline::has_passed)
}

/// What is left of `left` after some steps: nothing either when the time is over, for which it is asked now and then.
pub fn spend(left: u64, steps: u64) -> u64 {
    const ASK_EVERY: u64 = 4096;
    let after = left.saturating_sub(steps);
    if left / ASK_EVERY != after / ASK_EVERY && is_over() { 0 } else { after }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn nothing_is_left_when_the_time_is_over() {
        let past = Deadline::new(Instant::now() - Duration::from_secs(1));
        assert_eq!(spend(10_000, 5_000), 5_000, "nobody set a time");
        assert_eq!(within(past, || (spend(10_000, 5_000), spend(10_000, 10))), (0, 9_990));
        assert!(!is_over());
    }

    #[test]
    fn a_thread_that_attends_looks_now_and_then_and_is_interrupted() {
        thread_local! {
            static LOOKS: Cell<u32> = const { Cell::new(0) };
        }
        let look = || {
            LOOKS.set(LOOKS.get() + 1);
            LOOKS.get() < 2
        };
        let deadline = Deadline::new(Instant::now() + Duration::from_secs(3600));
        attending(look, || while !deadline.has_passed() {});
        assert_eq!(LOOKS.get(), 2);
        assert!(deadline.has_passed() && LOOKS.get() == 2, "it attends no longer");
    }
}
