//! Check that a commit order keeps a level of weak isolation, before it is called a proof.

use std::ops::Range;

use super::causality::Causes;
use super::groups::Groups;
use super::input::{NONE, Observed};
use super::weak::{Derived, Isolation, Level};

impl Isolation<'_> {
    /// Whether a commit order keeps the level: from the rows and the places in the order alone, without what was
    /// derived. None when the budget ended. `missing`: the causality that the order lacks.
    pub fn confirm(&self, order: &[u32], level: Level, lists: bool, missing: &mut Vec<Derived>) -> Option<bool> {
        let n = self.input.len();
        let at = self.places(order);
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
            Level::View => Some(self.reads_seen(&at, level, written)),
            Level::Atomic => Some(self.reads_seen(&at, level, written) && self.own_process_seen(&at, written)),
            Level::Causal => self.causes_seen(order, &at, written, missing),
        }
    }

    /// The place of each transaction in an order; `NONE` where it has none.
    pub fn places(&self, order: &[u32]) -> Vec<u32> {
        let mut at = vec![NONE; self.input.len()];
        for (place, &t) in (0..).zip(order) {
            at[t as usize] = place;
        }
        at
    }

    /// Whether nobody reads a version older than one of the same key by a transaction that it reads from (`View`: that it
    /// had read from before).
    fn reads_seen(&self, at: &[u32], level: Level, written: impl Fn(Observed) -> u32) -> bool {
        // Per key: the reader at hand, and the oldest version that it read, or will have read.
        let mut oldest = vec![(NONE, 0); self.input.keys()];
        (0..self.input.len() as u32).all(|t| {
            let reads = self.reads_of(t);
            let note = |oldest: &mut [(u32, u32)], read: Observed| {
                let (reader, version) = &mut oldest[self.key(read.op) as usize];
                *version = if *reader == t { written(read).min(*version) } else { written(read) };
                *reader = t;
            };
            if level == Level::Atomic {
                reads.iter().for_each(|&read| note(&mut oldest, read));
            }
            reads.iter().rev().all(|&read| {
                let seen = self.writer(read);
                let is_kept = |key: u32| oldest[key as usize].0 != t || at[seen as usize] < oldest[key as usize].1;
                let kept = seen == NONE
                    || if self.writes_of(seen).len() <= reads.len() {
                        self.writes_of(seen).iter().all(|&(key, _)| is_kept(key))
                    } else {
                        let mut keys = reads.iter().map(|other| self.key(other.op));
                        keys.all(|key| is_kept(key) || self.write_of(seen, key).is_none())
                    };
                if level == Level::View {
                    note(&mut oldest, read);
                }
                kept
            })
        })
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

    /// The latest write of a key that each transaction knows of, by clocks or key by key, whichever takes fewer steps.
    fn causes_seen(
        &self,
        order: &[u32],
        at: &[u32],
        written: impl Fn(Observed) -> u32,
        missing: &mut Vec<Derived>,
    ) -> Option<bool> {
        let causes = Causes::new(self, order, at);
        let spans = self.spans(order);
        let steps = spans.iter().map(|span| span.len() as u64).sum();
        let whole = if causes.steps(self) < steps {
            self.seen_causally(&causes, missing)
        } else {
            self.causes_by_key(&causes, &spans, order, written, missing)
        };
        whole.then_some(missing.is_empty())
    }

    /// Of each key, the places of the order from its first write to its last read.
    pub fn spans(&self, order: &[u32]) -> Vec<Range<u32>> {
        let mut spans = vec![Range { start: NONE, end: 0 }; self.input.keys()];
        for (place, &t) in order.iter().enumerate() {
            for &(key, _) in self.writes_of(t) {
                let start = &mut spans[key as usize].start;
                *start = (*start).min(place as u32);
            }
            for &read in self.reads_of(t) {
                spans[self.key(read.op) as usize].end = place as u32 + 1;
            }
        }
        spans
    }

    /// Per key, along its span: the latest write that each transaction knows of. False when the budget ended.
    pub fn causes_by_key(
        &self,
        causes: &Causes<'_>,
        spans: &[Range<u32>],
        order: &[u32],
        written: impl Fn(Observed) -> u32,
        missing: &mut Vec<Derived>,
    ) -> bool {
        let each = || (0..order.len() as u32).map(|place| (place, order[place as usize]));
        let writes = Groups::new(
            spans.len(),
            each().flat_map(|(place, t)| self.writes_of(t).iter().map(move |&(key, _)| (key, place))),
        );
        let reads = Groups::new(
            spans.len(),
            each().flat_map(|(place, t)| {
                let first = self.read_start[t as usize];
                (0..self.reads_of(t).len() as u32)
                    .map(move |read| (self.key(self.reads[(first + read) as usize].op), (place, first + read)))
            }),
        );
        // Of each place: the latest write that it knows of, its own too; a place plus one.
        let mut known = vec![0_u32; order.len()];
        for (key, span) in (0..).zip(spans) {
            let (mut own, mut read) = (writes.of(key).iter().peekable(), reads.of(key).iter().peekable());
            for place in span.clone() {
                let from = causes.learns.of(place).iter().filter(|&&from| from >= span.start);
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
            if !self.spend(span.len() as u64 + 1) {
                return false;
            }
        }
        true
    }
}
