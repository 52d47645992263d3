//! Find the dependencies between transactions on lists: the edges, and the rows that show an edge.

use super::anomaly::Step;
use super::graph::{Edges, Kind};
use super::input::{NONE, READ, WRITE, pairs};
use super::lists::{Lists, Read};

/// How far an edge looks past a transaction's own appends for another's; a longer run of them is an anomaly by itself.
const OWN_MAX: usize = 64;

impl Lists<'_> {
    /// All dependencies, as few edges as keep every path.
    pub fn dependencies(&self, edges: &mut Edges) {
        let input = self.input;
        for key in (0..input.keys()).filter(|&key| !self.ambiguous[key]) {
            let versions = self.base[key] as usize..self.base[key + 1] as usize;
            for version in versions.clone() {
                let append = self.versions[version];
                let before = self.previous[version];
                if append != NONE && before != NONE && self.happened[self.owner[append as usize] as usize] {
                    let before = self.versions[versions.start + before as usize];
                    edges.add(self.owner[before as usize], self.owner[append as usize], Kind::Ww);
                }
            }
        }
        let mut full: Vec<(u32, u32)> = Vec::new();
        for read in self.reads.iter().filter(|read| !read.repeats) {
            let t = self.owner[read.op as usize];
            if let Some(append) = self.last_seen(read) {
                edges.add(self.owner[append as usize], t, Kind::Wr);
            }
            let key = input.key[read.op as usize] as usize;
            if read.compatible && !self.ambiguous[key] {
                match self.first_unseen(key, read.external as usize) {
                    Some(append) => edges.add(t, self.owner[append as usize], Kind::Rw),
                    None => full.push((key as u32, t)),
                }
            }
        }
        self.unseen(full, edges);
    }

    /// The last append in a read by another transaction that happened.
    fn last_seen(&self, read: &Read) -> Option<u32> {
        let key = self.input.key[read.op as usize] as usize;
        let t = self.owner[read.op as usize];
        (0..read.external).rev().take(OWN_MAX).find_map(|place| {
            let append = self.append_at(read, key, place);
            let writer = *self.owner.get(append as usize)?;
            (writer != t && self.happened[writer as usize]).then_some(append)
        })
    }

    /// The first append at or after `place` by a transaction that happened.
    fn first_unseen(&self, key: usize, place: usize) -> Option<u32> {
        let (base, end) = (self.base[key] as usize, self.base[key + 1] as usize);
        let append = *self.versions[base..end].get(place)?;
        if append != NONE && self.happened[self.owner[append as usize] as usize] {
            return Some(append);
        }
        let next = self.next[base + place];
        (next != NONE).then(|| self.versions[base + next as usize])
    }

    /// The last version of a key by a transaction that happened.
    fn last_version(&self, key: usize) -> Option<u32> {
        let (base, end) = (self.base[key] as usize, self.base[key + 1] as usize);
        let append = *self.versions[base..end].last()?;
        if append != NONE && self.happened[self.owner[append as usize] as usize] {
            return Some(append);
        }
        let before = self.previous[end - 1];
        (before != NONE).then(|| self.versions[base + before as usize])
    }

    /// Keys with the transactions that happened and appended to them what no read shows, in order.
    pub fn unseen_appends(&self) -> Vec<(u32, u32)> {
        let input = self.input;
        let mut unseen: Vec<(u32, u32)> = (0..input.kind.len())
            .filter(|&m| input.kind[m] == WRITE && self.place[m] == NONE && self.happened[self.owner[m] as usize])
            .map(|m| (input.key[m] as u32, self.owner[m]))
            .filter(|&(key, _)| !self.ambiguous[key as usize])
            .collect();
        unseen.sort_unstable();
        unseen.dedup();
        unseen
    }

    /// Appends that no read shows come after all that reads show, and after the reads that show it all.
    fn unseen(&self, mut full: Vec<(u32, u32)>, edges: &mut Edges) {
        let unseen = self.unseen_appends();
        full.sort_unstable();
        full.dedup();
        let mut readers = full.as_slice();
        for group in unseen.chunk_by(|a, b| a.0 == b.0) {
            let key = group[0].0;
            let appenders: Vec<u32> = group.iter().map(|&(_, t)| t).collect();
            readers = &readers[readers.partition_point(|&(other, _)| other < key)..];
            let until = readers.partition_point(|&(other, _)| other == key);
            let these: Vec<u32> = readers[..until].iter().map(|&(_, t)| t).collect();
            edges.add_all(&these, &appenders, Kind::Rw);
            if let Some(last) = self.last_version(key as usize) {
                edges.add_all(&[self.owner[last as usize]], &appenders, Kind::Ww);
            }
        }
    }

    /// What shows that one transaction depends on another: found again from the rows of the two.
    pub fn show(&self, step: &mut Step) {
        let input = self.input;
        let (from, to) = (step.from as usize, step.to as usize);
        match step.kind {
            Kind::Ww => {
                for (a, b) in pairs(input, from, to, WRITE, WRITE) {
                    let key = input.key[a] as usize;
                    let (first, second) = (self.place[a], self.place[b]);
                    let version = self.base[key] as usize;
                    let adjacent = second != NONE && self.previous[version + second as usize] == first;
                    let unseen = second == NONE && self.last_version(key) == Some(a as u32);
                    if first != NONE && !self.ambiguous[key] && (adjacent || unseen) {
                        (step.from_op, step.to_op, step.shown_by[0]) = (a as u32, b as u32, self.longest[key]);
                        return;
                    }
                }
            }
            Kind::Wr => {
                for (a, b) in pairs(input, from, to, WRITE, READ) {
                    if input.list(b).contains(&input.value[a]) {
                        (step.from_op, step.to_op) = (a as u32, b as u32);
                        return;
                    }
                }
            }
            Kind::Rw => {
                for (a, b) in pairs(input, from, to, READ, WRITE) {
                    if !input.list(a).contains(&input.value[b]) {
                        (step.from_op, step.to_op) = (a as u32, b as u32);
                        return;
                    }
                }
            }
            Kind::Process | Kind::Realtime | Kind::Pass => {}
        }
    }
}
