//! Check that a commit order keeps a level of weak isolation, before it is called a proof.

use super::groups::Groups;
use super::input::{NONE, Observed};
use super::weak::{Derived, Isolation, Level};

impl Isolation<'_> {
    /// Whether a commit order keeps the level: from the rows and the places in the order alone, without what was
    /// derived. None when the budget ended. `missing`: the causality that the order lacks.
    pub fn confirm(&self, order: &[u32], level: Level, lists: bool, missing: &mut Vec<Derived>) -> Option<bool> {
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
            Level::Causal => self.causes_seen(order, &at, written, missing),
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
    fn causes_seen(
        &self,
        order: &[u32],
        at: &[u32],
        written: impl Fn(Observed) -> u32,
        missing: &mut Vec<Derived>,
    ) -> Option<bool> {
        let keys = self.input.keys();
        let each = || (0..order.len() as u32).map(|place| (place, order[place as usize]));
        let learns = Groups::new(
            order.len(),
            each().flat_map(|(place, t)| {
                let own = Some(self.before[t as usize]).filter(|&before| before != NONE);
                let read = self.reads_of(t).iter().map(|&read| self.writer(read)).filter(|&from| from != NONE);
                own.into_iter().chain(read).map(move |from| (place, at[from as usize]))
            }),
        );
        let writes = Groups::new(
            keys,
            each().flat_map(|(place, t)| self.writes_of(t).iter().map(move |&(key, _)| (key, place))),
        );
        let reads = Groups::new(
            keys,
            each().flat_map(|(place, t)| {
                let first = self.read_start[t as usize];
                (0..self.reads_of(t).len() as u32)
                    .map(move |read| (self.key(self.reads[(first + read) as usize].op), (place, first + read)))
            }),
        );
        // Of each place: the latest write that it knows of, its own too; a place plus one.
        let mut known = vec![0_u32; order.len()];
        for key in 0..keys as u32 {
            let (mut own, mut read) = (writes.of(key).iter().peekable(), reads.of(key).iter().peekable());
            let (Some(&&first), Some(&(last, _))) = (own.peek(), reads.of(key).last()) else { continue };
            for place in first..=last {
                let from = learns.of(place).iter().filter(|&&from| from >= first);
                let latest = from.map(|&from| known[from as usize]).max().unwrap_or(0);
                while let Some(&(_, read)) = read.next_if(|&&(at, _)| at <= place) {
                    let read = self.reads[read as usize];
                    if written(read) < latest {
                        let (from, to) = (order[latest as usize - 1], self.writer(read));
                        missing.push(Derived { from, to, version: read.write, key });
                    }
                }
                known[place as usize] = if own.next_if_eq(&&place).is_some() { place + 1 } else { latest };
            }
            if !self.spend(u64::from(last.saturating_sub(first)) + 1) {
                return None;
            }
        }
        Some(missing.is_empty())
    }
}
