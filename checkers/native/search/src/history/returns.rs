//! Sort the returns of one object's operations, in linear time if their times are dense and distinct.

use super::operation::{NEVER, Ops};

/// Up to this many positions per operation, one bit for each is cheaper than sorting.
const PLACES_PER_OPERATION: usize = 16;
const BITS: usize = u32::BITS as usize;

/// Some positions, one bit each, and the number of returns before them.
#[derive(Clone, Copy, Default)]
struct Word {
    bits: u32,
    before: u32,
}

/// Operations by (return, index), and how many of them return before a moment. Times are places in one order, so they
/// are mostly dense, and mostly distinct.
#[derive(Default)]
pub struct Returns {
    /// The indexes of the operations that returned.
    pub order: Vec<u32>,
    /// For dense and distinct times: which are returns, from `first` on; the last word has none.
    words: Vec<Word>,
    first: i64,
    /// For other times: the times themselves.
    times: Vec<i64>,
}

impl Returns {
    /// Prepare for `ops`.
    pub fn sort(&mut self, ops: &(impl Ops + ?Sized)) {
        self.order.clear();
        self.words.clear();
        self.times.clear();
        if self.mark(ops) {
            self.order.resize(self.words.last().map_or(0, |word| word.before as usize), 0);
            for (i, op) in ops.iter().enumerate() {
                if op.returned != NEVER {
                    let number = self.before(op.returned);
                    self.order[number as usize] = i as u32;
                }
            }
        } else {
            self.order.extend((0..ops.length() as u32).filter(|&i| ops.at(i as usize).returned != NEVER));
            self.order.sort_by_key(|&i| ops.at(i as usize).returned);
            self.times.extend(self.order.iter().map(|&i| ops.at(i as usize).returned));
        }
    }

    /// Return how many operations return before `at`.
    #[inline]
    pub fn before(&self, at: i64) -> u32 {
        let Some(last) = self.words.len().checked_sub(1) else {
            return self.times.partition_point(|&returned| returned < at) as u32;
        };
        let place = at.saturating_sub(self.first).clamp(0, (last * BITS) as i64) as usize;
        let word = self.words[place / BITS];
        word.before + (word.bits & !(u32::MAX << (place % BITS))).count_ones()
    }

    /// Mark the returns. If two are at one moment, or they are far apart, mark nothing and return false.
    fn mark(&mut self, ops: &(impl Ops + ?Sized)) -> bool {
        let times = || ops.iter().map(|op| op.returned).filter(|&at| at != NEVER);
        let (first, last) = times().fold((NEVER, i64::MIN), |(first, last), at| (first.min(at), last.max(at)));
        if first > last || last.abs_diff(first) >= (PLACES_PER_OPERATION * ops.length()) as u64 {
            return false;
        }
        self.first = first;
        self.words.resize((last - first) as usize / BITS + 2, Word::default());
        let mut twice = 0;
        for at in times() {
            let place = (at - first) as usize;
            let word = &mut self.words[place / BITS];
            let bit = 1 << (place % BITS);
            twice |= word.bits & bit;
            word.bits |= bit;
        }
        if twice != 0 {
            self.words.clear();
            return false;
        }
        let mut before = 0;
        for word in &mut self.words {
            word.before = before;
            before += word.bits.count_ones();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Function, Op};

    fn sorted(returns: &[i64], asked: &[i64]) -> (Vec<u32>, Vec<u32>) {
        let op = |(i, &returned): (usize, &i64)| Op {
            id: i as u32,
            blame: i as u32,
            function: Function::Read,
            a: 0,
            b: 0,
            invoked: i64::MIN,
            returned,
        };
        let ops: Vec<Op> = returns.iter().enumerate().map(op).collect();
        let mut sorted = Returns::default();
        for _ in 0..2 {
            sorted.sort(&ops[..]);
        }
        let before = asked.iter().map(|&at| sorted.before(at)).collect();
        (sorted.order, before)
    }

    #[test]
    fn dense_sparse_and_equal_times() {
        let asked = [i64::MIN, 3, 4, 5, 6, 7, 8, 1000, NEVER];
        assert_eq!(sorted(&[7, 3, NEVER, 5], &asked), (vec![1, 3, 0], vec![0, 0, 1, 1, 2, 2, 3, 3, 3]));
        assert_eq!(sorted(&[36, 3, 35], &[34, 35, 36, 67, 68]), (vec![1, 2, 0], vec![1, 1, 2, 3, 3]));
        assert_eq!(sorted(&[34, 3], &[34, 35, 36]), (vec![1, 0], vec![1, 2, 2]));
        assert_eq!(
            sorted(&[i64::MAX - 1, 3, NEVER, i64::MIN], &[i64::MIN, 3, 4, NEVER]),
            (vec![3, 1, 0], vec![0, 1, 2, 3])
        );
        assert_eq!(sorted(&[4, 4, 3, 4], &[3, 4, 5]), (vec![2, 0, 1, 3], vec![0, 1, 4]));
        assert_eq!(sorted(&[NEVER], &[5]), (vec![], vec![0]));
    }
}
