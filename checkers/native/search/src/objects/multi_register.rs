//! Several registers; a transaction that reads and writes them is one call.
//!
//! `args` holds micro-operations of three numbers: `READ`, `WRITE` or `ANY` (a read of unknown result), the register
//! (from 0), and the value (0 is the initial value of all registers).

use super::{Call, Object, Token};

pub const READ: i64 = 0;
pub const WRITE: i64 = 1;
pub const ANY: i64 = 2;

pub struct MultiRegister {
    pub registers: usize,
}

fn micros(call: &Call) -> impl DoubleEndedIterator<Item = (usize, i64, i64, i64)> + '_ {
    call.args.chunks_exact(3).enumerate().map(|(at, micro)| (at, micro[0], micro[1], micro[2]))
}

impl MultiRegister {
    /// As many registers as `calls` name.
    pub fn over(calls: &[Call]) -> Self {
        let named = calls.iter().flat_map(micros).map(|(_, _, register, _)| register as usize + 1);
        MultiRegister { registers: named.max().unwrap_or(0) }
    }
}

impl Object for MultiRegister {
    type State = Vec<i64>;

    fn initial(&self) -> Vec<i64> {
        vec![0; self.registers]
    }

    fn step(&self, held: &Vec<i64>, call: &Call) -> Option<Vec<i64>> {
        let mut after = held.clone();
        for (_, kind, register, value) in micros(call) {
            match kind {
                WRITE => after[register as usize] = value,
                READ if after[register as usize] != value => return None,
                _ => {}
            }
        }
        Some(after)
    }

    fn show(&self, held: &Vec<i64>) -> Vec<i64> {
        held.clone()
    }

    fn heap_bytes(&self, held: &Vec<i64>) -> usize {
        held.capacity() * 8
    }

    fn reads_only(&self, call: &Call) -> bool {
        micros(call).all(|(_, kind, _, _)| kind != WRITE)
    }

    /// The last write of each register.
    fn makes(&self, call: &Call) -> Vec<Token> {
        let is_last = |at: usize, register: i64| {
            micros(call).all(|(later, kind, other, _)| later <= at || kind != WRITE || other != register)
        };
        micros(call)
            .filter(|&(at, kind, register, _)| kind == WRITE && is_last(at, register))
            .map(|(_, _, register, value)| (register, value))
            .collect()
    }

    /// The reads that come before the transaction's own writes of their register, but for those of the initial value.
    fn observes(&self, call: &Call) -> Vec<Token> {
        let is_own = |at: usize, register: i64| {
            micros(call).any(|(earlier, kind, other, _)| earlier < at && kind == WRITE && other == register)
        };
        micros(call)
            .filter(|&(at, kind, register, _)| kind == READ && !is_own(at, register))
            .map(|(_, _, register, value)| (register, value))
            .collect()
    }
}
