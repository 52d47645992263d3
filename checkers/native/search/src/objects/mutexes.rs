//! Locks: a mutex that anyone may release, one that only its owner may release, one with fencing tokens, a semaphore.

use super::{Call, Object};

pub const ACQUIRE: u8 = 0;
pub const RELEASE: u8 = 1;

/// Held or free; a release is anyone's. `args` are empty.
pub struct Mutex;

impl Object for Mutex {
    type State = bool;

    fn initial(&self) -> bool {
        false
    }

    fn step(&self, &held: &bool, call: &Call) -> Option<bool> {
        (held == (call.f == RELEASE)).then_some(!held)
    }

    fn show(&self, &held: &bool) -> Vec<i64> {
        vec![i64::from(held)]
    }
}

/// Held by one process, which alone may release it. `args`: the process.
pub struct OwnerMutex;

impl Object for OwnerMutex {
    type State = Option<i64>;

    fn initial(&self) -> Option<i64> {
        None
    }

    fn step(&self, &holder: &Option<i64>, call: &Call) -> Option<Option<i64>> {
        let process = call.args[0];
        match call.f {
            ACQUIRE => holder.is_none().then_some(Some(process)),
            _ => (holder == Some(process)).then_some(None),
        }
    }

    fn show(&self, holder: &Option<i64>) -> Vec<i64> {
        holder.iter().copied().collect()
    }

    /// A process whose acquire has no answer never acts again: nobody but itself could release what it took, so the
    /// acquire is the last of any order that it stands in.
    fn is_spare(&self, call: &Call) -> bool {
        call.f == ACQUIRE
    }
}

/// As `OwnerMutex`, and each acquire returns a token greater than all before. `args`: the process, and an acquire's
/// token (from 0).
pub struct FencedMutex;

impl Object for FencedMutex {
    /// The holder, and the last token.
    type State = (Option<i64>, i64);

    fn initial(&self) -> Self::State {
        (None, -1)
    }

    fn step(&self, &(holder, last): &Self::State, call: &Call) -> Option<Self::State> {
        let process = call.args[0];
        match call.f {
            ACQUIRE => (holder.is_none() && call.args[1] > last).then_some((Some(process), call.args[1])),
            _ => (holder == Some(process)).then_some((None, last)),
        }
    }

    fn show(&self, &(holder, last): &Self::State) -> Vec<i64> {
        [last].into_iter().chain(holder).collect()
    }

    /// As with `OwnerMutex`.
    fn is_spare(&self, call: &Call) -> bool {
        call.f == ACQUIRE
    }
}

/// `permits` may be out at once, and never more come back than went. `args`: how many.
pub struct Semaphore {
    pub permits: i64,
}

impl Object for Semaphore {
    /// Permits that are out.
    type State = i64;

    fn initial(&self) -> i64 {
        0
    }

    fn step(&self, &out: &i64, call: &Call) -> Option<i64> {
        let count = call.args[0];
        let after = if call.f == ACQUIRE { out.checked_add(count)? } else { out - count };
        (0..=self.permits).contains(&after).then_some(after)
    }

    fn show(&self, &out: &i64) -> Vec<i64> {
        vec![out]
    }
}
