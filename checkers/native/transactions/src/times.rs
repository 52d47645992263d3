//! How far an order keeps real time, and the search for orders that keep less of it.
//!
//! Even if a model does not require real time, a store usually keeps it, except for replicas that are behind. So real
//! time is relaxed step by step. An order found in this way is confirmed like any other.

use super::input::{Input, WRITE};
use super::placed::Placed;
use super::registers::Registers;
use super::serial::{self, Serial};

/// From when on each transaction may be placed, and by when it has to be: those of unknown outcome at any later time.
pub struct Times {
    pub begin: Vec<i64>,
    pub end: Vec<i64>,
}

impl Times {
    /// Real time.
    pub fn new(input: &Input<'_>) -> Self {
        let end = |t| if input.is_ok(t) { input.completed[t] } else { i64::MAX };
        Self { begin: input.invoked.to_vec(), end: (0..input.len()).map(end).collect() }
    }

    /// Real time that is kept by so much only; whoever writes nothing may be placed from when on what it read is there.
    pub fn relaxed(input: &Input<'_>, registers: &Registers<'_>, by: i64) -> Self {
        let mut times = Self::new(input);
        times.begin.iter_mut().for_each(|begin| *begin = begin.saturating_sub(by));
        times.end.iter_mut().for_each(|end| *end = end.saturating_add(by));
        let writes = |t: usize| input.ops(t).any(|m| input.kind[m] == WRITE);
        let first = times.begin.iter().copied().min().unwrap_or(0);
        let mut there = vec![first; input.len()];
        for (t, version) in registers.external().filter(|&(_, version)| registers.is_write(version)) {
            let begin = times.begin[registers.writer(version) as usize];
            there[t as usize] = there[t as usize].max(begin);
        }
        for t in (0..input.len()).filter(|&t| !writes(t)) {
            times.begin[t] = times.begin[t].min(there[t]);
        }
        times
    }

    /// Transactions that happened, whoever may be placed first.
    pub fn by_begin(&self, happened: &[bool]) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.begin.len() as u32).filter(|&t| happened[t as usize]).collect();
        order.sort_by_key(|&t| self.begin[t as usize]);
        order
    }
}

/// The search of orders that keep real time, which keep everything else.
pub fn in_real_time(input: &Input<'_>, registers: &Registers<'_>, placed: Placed, easy: bool) -> Serial {
    serial::search(input, registers, &Times::new(input), &[], placed, easy)
}

/// By how many of the common lengths of a transaction real time is let off where it need not be kept, one after the other.
const LOOSENED: [i64; 4] = [0, 4, 16, 64];

/// An order where real time need not be kept: of a store that is behind at times, or not as often as it may be.
pub fn loosely(input: &Input<'_>, registers: &Registers<'_>, before: &[u32], placed: Placed) -> Option<Vec<u32>> {
    let mut lengths: Vec<i64> = (0..input.len())
        .filter(|&t| input.is_ok(t))
        .map(|t| input.completed[t].saturating_sub(input.invoked[t]))
        .collect();
    let middle = lengths.len() / 2;
    let common = if lengths.is_empty() { return None } else { *lengths.select_nth_unstable(middle).1 };
    LOOSENED.into_iter().find_map(|by| {
        let times = Times::relaxed(input, registers, by.saturating_mul(common));
        serial::search(input, registers, &times, before, placed, true).order()
    })
}
