//! An object that the caller knows: it numbers the calls and the states, and says what a call makes of a state.

use super::{Call, Object};

/// Of a call `f` is `READS` where it changes no state, and the only argument is the caller's number for it.
pub struct Foreign<F>(pub F);

pub const CHANGES: u8 = 0;
pub const READS: u8 = 1;

impl<F: Fn(u32, u32) -> Option<u32> + Sync> Object for Foreign<F> {
    type State = u32;

    fn initial(&self) -> u32 {
        0
    }

    fn step(&self, state: &u32, call: &Call) -> Option<u32> {
        (self.0)(*state, call.args[0] as u32)
    }

    fn show(&self, state: &u32) -> Vec<i64> {
        vec![i64::from(*state)]
    }

    fn reads_only(&self, call: &Call) -> bool {
        call.f == READS
    }
}
