//! The constraints that a commit order must keep, level by level; see `weak`.

use super::input::{NONE, Observed};
use super::weak::{Derived, Isolation};

/// Chains whose clocks are kept at a time.
const LANES: usize = 16;

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

    /// Every version against the last write of its key, in each chain, that any of its readers has to have seen.
    ///
    /// Chains cover the transactions; of one chain each member has to have seen those before it. `sorted`: an order in
    /// which whatever leads to a transaction comes before it. False when the budget ended.
    pub fn seen_causally(&self, sorted: &[u32], derived: &mut Vec<Derived>) -> bool {
        let n = self.input.len();
        let (chain, place, chains) = self.chains(sorted);
        let mut versions: Vec<(u32, u32, u32)> =
            self.reads.iter().map(|read| (self.key(read.op), read.write, self.owner[read.op as usize])).collect();
        versions.sort_unstable();
        // Writers by key, chain and place in the chain.
        let mut writers: Vec<(u32, u32, u32, u32)> = Vec::with_capacity(self.writes.len());
        for t in 0..n as u32 {
            let (chain, place) = (chain[t as usize], place[t as usize]);
            writers.extend(self.writes_of(t).iter().map(|&(key, _)| (key, chain, place, t)));
        }
        writers.sort_unstable();
        let keys: Vec<(&[(u32, u32, u32)], &[(u32, u32, u32, u32)])> = {
            let mut rest = writers.as_slice();
            let group = |group: &'_ [(u32, u32, u32)]| group[0].0;
            let mut found = Vec::new();
            for readers in versions.chunk_by(|a, b| a.0 == b.0) {
                let key = group(readers);
                rest = &rest[rest.partition_point(|writer| writer.0 < key)..];
                let until = rest.partition_point(|writer| writer.0 == key);
                found.push((readers, &rest[..until]));
            }
            found
        };
        let cost = (n + self.reads.len() + keys.len()) as u64;
        if !self.spend(cost * chains.div_ceil(LANES) as u64) {
            return false;
        }
        let mut clocks = vec![[0_u32; LANES]; n];
        for begin in (0..chains).step_by(LANES) {
            let lane = |t: u32| (chain[t as usize] as usize).wrapping_sub(begin);
            for &t in sorted.iter().filter(|&&t| (t as usize) < n && self.happened[t as usize]) {
                let mut clock = [0_u32; LANES];
                let mut join = |from: u32| {
                    let other = &clocks[from as usize];
                    for (own, other) in clock.iter_mut().zip(other) {
                        *own = (*own).max(*other);
                    }
                    if let Some(own) = clock.get_mut(lane(from)) {
                        *own = (*own).max(place[from as usize] + 1);
                    }
                };
                if self.before[t as usize] != NONE {
                    join(self.before[t as usize]);
                }
                for &read in self.reads_of(t).iter().filter(|read| read.write != NONE) {
                    join(self.writer(read));
                }
                clocks[t as usize] = clock;
            }
            let within = |chain: u32| (begin..begin + LANES).contains(&(chain as usize));
            for &(readers, writers) in &keys {
                let from = writers.partition_point(|&(_, chain, _, _)| (chain as usize) < begin);
                let writers = &writers[from..];
                let writers = &writers[..writers.partition_point(|&(_, chain, _, _)| within(chain))];
                if writers.is_empty() {
                    continue;
                }
                for group in readers.chunk_by(|a, b| a.1 == b.1) {
                    let (key, version, _) = group[0];
                    let to = if version == NONE { NONE } else { self.owner[version as usize] };
                    let mut seen = [0_u32; LANES];
                    for &(_, _, reader) in group {
                        for (own, other) in seen.iter_mut().zip(&clocks[reader as usize]) {
                            *own = (*own).max(*other);
                        }
                    }
                    for of_chain in writers.chunk_by(|a, b| a.1 == b.1) {
                        let lane = of_chain[0].1 as usize - begin;
                        let known = if to == NONE { 0 } else { clocks[to as usize][lane] };
                        let count = of_chain.partition_point(|&(_, _, place, _)| place < seen[lane]);
                        if count > 0 && of_chain[count - 1].2 >= known && of_chain[count - 1].3 != to {
                            derived.push(Derived { from: of_chain[count - 1].3, to, version, key });
                        }
                    }
                    if !self.spend(writers.len() as u64) {
                        return false;
                    }
                }
            }
        }
        true
    }

    /// Chain of each transaction, its place there, and how many chains: each goes on from one that it must have seen.
    fn chains(&self, sorted: &[u32]) -> (Vec<u32>, Vec<u32>, usize) {
        let n = self.input.len();
        let (mut chain, mut place, mut chains) = (vec![NONE; n], vec![0_u32; n], 0);
        let mut is_last = vec![false; n];
        for &t in sorted.iter().filter(|&&t| (t as usize) < n && self.happened[t as usize]) {
            let read = self.reads_of(t).iter().map(|&read| self.writer(read)).filter(|&from| from != NONE);
            let own = Some(self.before[t as usize]).filter(|&from| from != NONE);
            let from = own.into_iter().chain(read).find(|&from| is_last[from as usize]);
            match from {
                Some(from) => {
                    is_last[from as usize] = false;
                    chain[t as usize] = chain[from as usize];
                    place[t as usize] = place[from as usize] + 1;
                }
                None => {
                    chain[t as usize] = chains;
                    chains += 1;
                }
            }
            is_last[t as usize] = true;
        }
        (chain, place, chains as usize)
    }
}
