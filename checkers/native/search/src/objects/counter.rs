//! A counter that begins at 0: `ADD` adds `args[0]`, which may be negative; `READ` returned `args[0]`.

use super::{Call, Object};

pub const ADD: u8 = 0;
pub const READ: u8 = 1;

pub struct Counter;

impl Object for Counter {
    type State = i64;

    fn initial(&self) -> i64 {
        0
    }

    fn step(&self, &sum: &i64, call: &Call) -> Option<i64> {
        match call.f {
            ADD => sum.checked_add(call.args[0]),
            _ => (sum == call.args[0]).then_some(sum),
        }
    }

    fn show(&self, &sum: &i64) -> Vec<i64> {
        vec![sum]
    }

    fn reads_only(&self, call: &Call) -> bool {
        call.f == READ || call.args[0] == 0
    }
}
