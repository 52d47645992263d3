//! Whether a commit order keeps a level of weak isolation: confirmed before it is called a proof.

use super::input::NONE;
use super::weak::{Isolation, Level, Observed};

impl Isolation<'_> {
    /// Whether a commit order keeps the level: from the rows and the places in the order alone, without what was
    /// derived. None when the budget ended.
    pub fn confirm(&self, order: &[u32], level: Level, lists: bool) -> Option<bool> {
        let n = self.input.len();
        let mut at = vec![NONE; n];
        for (place, &t) in order.iter().enumerate() {
            at[t as usize] = place as u32;
        }
        let whole = (0..n).all(|t| (at[t] != NONE) == self.happened[t]);
        let sessions = (0..n).all(|t| self.before[t] == NONE || at[self.before[t] as usize] < at[t]);
        let after_writers = self.reads.iter().all(|&read| {
            read.write == NONE || at[self.writer(read) as usize] < at[self.owner[read.op as usize] as usize]
        });
        if !whole || !sessions || !after_writers || (lists && !super::replay::prefixes(self.input, order)) {
            return Some(false);
        }
        // A place plus one, so that nothing is 0.
        let written = |read: Observed| if read.write == NONE { 0 } else { at[self.writer(read) as usize] + 1 };
        match level {
            Level::Committed => Some(true),
            Level::View | Level::Atomic => {
                let reads = (0..n as u32).all(|t| {
                    self.reads_of(t).iter().all(|&read| {
                        let key = self.key(read.op);
                        self.reads_of(t)
                            .iter()
                            .filter(|other| other.write != NONE && (level == Level::Atomic || other.op < read.op))
                            .map(|&other| self.writer(other))
                            .all(|seen| at[seen as usize] < written(read) || self.write_of(seen, key).is_none())
                    })
                });
                Some(reads && (level == Level::View || self.own_process_seen(&at, written)))
            }
            Level::Causal => self.causes_seen(order, &at, written),
        }
    }

    fn own_process_seen(&self, at: &[u32], written: impl Fn(Observed) -> u32) -> bool {
        (0..self.input.len() as u32).all(|t| {
            self.reads_of(t).iter().all(|&read| {
                let mut earlier = self.before[t as usize];
                while earlier != NONE && self.write_of(earlier, self.key(read.op)).is_none() {
                    earlier = self.before[earlier as usize];
                }
                earlier == NONE || at[earlier as usize] < written(read)
            })
        })
    }

    /// Per key, along the order from its first write to its last read: the latest write that each transaction knows of.
    fn causes_seen(&self, order: &[u32], at: &[u32], written: impl Fn(Observed) -> u32) -> Option<bool> {
        let keys = self.input.keys();
        let (mut first, mut last) = (vec![NONE; keys], vec![0_u32; keys]);
        for (place, &t) in order.iter().enumerate() {
            for &(key, _) in self.writes_of(t) {
                first[key as usize] = first[key as usize].min(place as u32);
            }
            for read in self.reads_of(t) {
                last[self.key(read.op) as usize] = place as u32;
            }
        }
        let mut known = vec![0_u32; order.len()];
        for key in (0..keys).filter(|&key| first[key] < last[key]) {
            for place in first[key]..=last[key] {
                if !self.spend(1) {
                    return None;
                }
                let t = order[place as usize];
                let knows = |from: u32| {
                    let from = at[from as usize];
                    if from < first[key] {
                        return 0;
                    }
                    let wrote = self.write_of(order[from as usize], key as u32).is_some();
                    known[from as usize].max(if wrote { from + 1 } else { 0 })
                };
                let before = self.before[t as usize];
                let mut latest = if before == NONE { 0 } else { knows(before) };
                for &read in self.reads_of(t).iter().filter(|read| read.write != NONE) {
                    latest = latest.max(knows(self.writer(read)));
                }
                known[place as usize] = latest;
                let mut own = self.reads_of(t).iter().filter(|read| self.key(read.op) as usize == key);
                if own.any(|&read| written(read) < latest) {
                    return Some(false);
                }
            }
        }
        Some(true)
    }
}
