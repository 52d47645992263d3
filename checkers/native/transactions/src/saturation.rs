//! The constraints that a commit order must keep, level by level; see `weak`.

use super::input::{NONE, Observed};
use super::weak::{Derived, Isolation};

impl Isolation<'_> {
    fn derive(&self, from: u32, read: Observed, derived: &mut Vec<Derived>) {
        let to = self.writer(read);
        if from != to {
            derived.push(Derived { from, to, version: read.write, key: self.key(read.op) });
        }
    }

    /// Reads in reverse: what was read from at this place, against the next read of each key after it.
    pub fn seen_before(&self, derived: &mut Vec<Derived>) {
        let none = (NONE, Observed { op: NONE, write: NONE });
        let mut next = vec![none; self.input.keys()];
        let mut first = vec![(NONE, NONE); self.input.len()];
        let mut later = Vec::new();
        for t in 0..self.input.len() as u32 {
            let reads = self.reads_of(t);
            for read in reads.iter().filter(|read| read.write != NONE) {
                let seen = &mut first[self.writer(*read) as usize];
                if seen.0 != t {
                    *seen = (t, read.op);
                }
            }
            later.clear();
            for &read in reads.iter().rev() {
                let from = self.writer(read);
                if from != NONE && first[from as usize] == (t, read.op) {
                    let writes = self.writes_of(from);
                    if writes.len() <= later.len() {
                        for &(key, _) in writes.iter().filter(|&&(key, _)| next[key as usize].0 == t) {
                            self.derive(from, next[key as usize].1, derived);
                        }
                    } else {
                        for &key in later.iter().filter(|&&key| self.write_of(from, key).is_some()) {
                            self.derive(from, next[key as usize].1, derived);
                        }
                    }
                }
                let key = self.key(read.op);
                if next[key as usize].0 != t {
                    later.push(key);
                } else if from != NONE {
                    // The first read from a transaction looks at each key's next read only: this one's may differ.
                    self.derive(from, next[key as usize].1, derived);
                }
                next[key as usize] = (t, read);
            }
        }
    }

    /// Reads against everything that their transaction reads from, and what its process wrote before.
    pub fn seen_at_all(&self, derived: &mut Vec<Derived>) {
        let n = self.input.len() as u32;
        let none = (NONE, Observed { op: NONE, write: NONE });
        let mut of_key = vec![none; self.input.keys()];
        let mut seen = vec![NONE; self.input.len()];
        for t in 0..n {
            let reads = self.reads_of(t);
            for read in reads {
                of_key[self.key(read.op) as usize] = (t, *read);
            }
            for &read in reads {
                let from = self.writer(read);
                if from == NONE || std::mem::replace(&mut seen[from as usize], t) == t {
                    continue;
                }
                if self.writes_of(from).len() <= reads.len() {
                    for &(key, _) in self.writes_of(from).iter().filter(|&&(key, _)| of_key[key as usize].0 == t) {
                        self.derive(from, of_key[key as usize].1, derived);
                    }
                } else {
                    for other in reads.iter().filter(|other| self.write_of(from, self.key(other.op)).is_some()) {
                        self.derive(from, *other, derived);
                    }
                }
            }
        }
        // Processes one after the other, each from its first transaction on.
        let mut after = vec![NONE; self.input.len()];
        for t in (0..n).filter(|&t| self.before[t as usize] != NONE) {
            after[self.before[t as usize] as usize] = t;
        }
        let mut wrote = vec![(NONE, NONE); self.input.keys()];
        for root in (0..n).filter(|&t| self.happened[t as usize] && self.before[t as usize] == NONE) {
            let mut t = root;
            while t != NONE {
                for &read in self.reads_of(t) {
                    let (process, last) = wrote[self.key(read.op) as usize];
                    if process == root {
                        self.derive(last, read, derived);
                    }
                }
                for &(key, _) in self.writes_of(t) {
                    wrote[key as usize] = (root, t);
                }
                t = after[t as usize];
            }
        }
    }
}
