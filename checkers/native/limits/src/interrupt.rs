//! Decide when to give up: at a deadline, or when the caller was interrupted.
//!
//! Python handles signals only on its main thread, so at most one run is interrupted at a time. One number is enough to
//! tell all threads of that run.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::stop::Stop;

/// How often to check for signals.
pub const LOOK_EVERY: Duration = Duration::from_millis(50);

static RUNS: AtomicU64 = AtomicU64::new(1);
static INTERRUPTED: AtomicU64 = AtomicU64::new(0);

/// Checks for signals; false if a handler raised.
pub type Look = fn() -> bool;

thread_local! {
    /// For a thread that works and handles signals itself: how it checks for them, and when it does so next.
    static ATTENDING: Cell<Option<(Look, Instant)>> = const { Cell::new(None) };
}

/// Do `work` on this thread, which checks for signals whenever it reads the time.
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

    /// Decide whether the work may go on, or what ends it. Reads the time, and sometimes checks for signals.
    pub fn check(self) -> Result<(), Stop> {
        let now = Instant::now();
        if let Some((look, next)) = ATTENDING.get()
            && now >= next
        {
            ATTENDING.set(Some((look, now + LOOK_EVERY)));
            if !look() {
                self.interrupt();
            }
        }
        if INTERRUPTED.load(Ordering::Relaxed) == self.run {
            Err(Stop::Interrupted)
        } else if now > self.at {
            Err(Stop::Deadline)
        } else {
            Ok(())
        }
    }
}

thread_local! {
    /// The deadline of this thread's work.
    static CURRENT: Cell<Option<Deadline>> = const { Cell::new(None) };
}

/// Do `work`, which may ask whether it must `stop`.
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

/// Return what ends the work of this thread now, if anything does. It reads the time, so do not call it at every step.
pub fn stop() -> Option<Stop> {
    CURRENT.get().and_then(|deadline| deadline.check().err())
}

/// Return what ended a search for which `spend` left no steps.
pub fn spent() -> Stop {
    stop().unwrap_or(Stop::Steps)
}

/// Return what remains of `left` after some steps: nothing if the time is over, which is checked now and then.
pub fn spend(left: u64, steps: u64) -> u64 {
    const ASK_EVERY: u64 = 4096;
    let after = left.saturating_sub(steps);
    if left / ASK_EVERY != after / ASK_EVERY && stop().is_some() { 0 } else { after }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_is_interrupted_and_no_other() {
        let later = Instant::now() + Duration::from_secs(3600);
        let (one, other) = (Deadline::new(later), Deadline::new(later));
        assert_eq!((one.check(), other.check()), (Ok(()), Ok(())));
        one.interrupt();
        assert_eq!((one.check(), other.check()), (Err(Stop::Interrupted), Ok(())));
        let past = Deadline::new(Instant::now() - Duration::from_secs(1));
        assert_eq!(past.check(), Err(Stop::Deadline));
    }

    #[test]
    fn nothing_is_left_when_the_time_is_over() {
        let past = Deadline::new(Instant::now() - Duration::from_secs(1));
        assert_eq!(spend(10_000, 5_000), 5_000, "nobody set a time");
        assert_eq!(within(past, || (spend(10_000, 5_000), spend(10_000, 10))), (0, 9_990));
        assert_eq!(within(past, || (stop(), spent())), (Some(Stop::Deadline), Stop::Deadline));
        assert_eq!((stop(), spent()), (None, Stop::Steps), "nobody set a time");
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
        attending(look, || while deadline.check().is_ok() {});
        assert_eq!(LOOKS.get(), 2);
        assert_eq!(deadline.check(), Err(Stop::Interrupted));
        assert_eq!(LOOKS.get(), 2, "it attends no longer");
    }
}
