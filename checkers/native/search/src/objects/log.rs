//! An append-only log, whose offsets grow, with gaps.
//!
//! `APPEND` wrote at offset `args[0]`; `READ` returned the element of that offset; `PAST` found no element there yet.
//! Before the search it is already certain that no two appends have one offset and that reads return what was appended.
//! So the state is only the last offset.

use super::{Call, Object, Token};

pub const APPEND: u8 = 0;
pub const READ: u8 = 1;
pub const PAST: u8 = 2;

pub struct Log;

impl Object for Log {
    /// The last offset; -1 at first.
    type State = i64;

    fn initial(&self) -> i64 {
        -1
    }

    fn step(&self, &last: &i64, call: &Call) -> Option<i64> {
        let offset = call.args[0];
        match call.f {
            APPEND => (offset > last).then_some(offset),
            READ => (offset <= last).then_some(last),
            _ => (offset > last).then_some(last),
        }
    }

    fn show(&self, &last: &i64) -> Vec<i64> {
        vec![last]
    }

    /// A read passes beyond its offset even where the append went in nowhere: then that returned, or is closed by then,
    /// and passes in no order.
    fn is_complete(&self) -> bool {
        false
    }

    fn reads_only(&self, call: &Call) -> bool {
        call.f != APPEND
    }

    fn makes(&self, call: &Call) -> Vec<Token> {
        if call.f == APPEND { vec![(call.args[0], 0)] } else { Vec::new() }
    }

    fn observes(&self, call: &Call) -> Vec<Token> {
        if call.f == READ { vec![(call.args[0], 0)] } else { Vec::new() }
    }
}
