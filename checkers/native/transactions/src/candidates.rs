//! The nodes that a serial order may place next: their predecessors are placed, and they overwrite nothing that another
//! node must still read.

use super::input::NONE;
use super::placed::Placed;
use super::serial::{Search, Version, number};

impl Search<'_> {
    /// Whether a transaction, placed next, reads what it read and overwrites nothing that others have yet to read.
    pub(super) fn may_follow(&self, t: u32) -> bool {
        let reads = self.reads.of(t);
        self.in_turn(t)
            && reads.iter().all(|read| self.held[read.key as usize] == read.version)
            && self.writes.of(t).iter().all(|wrote| {
                let held = self.held[wrote.key as usize];
                let own = reads.iter().any(|read| read.key == wrote.key);
                self.unread[held as usize] <= u32::from(own) && self.earlier(wrote, t).is_none()
            })
    }

    /// The node of another transaction that one has to follow.
    pub(super) fn followed(&self, node: u32) -> Option<u32> {
        let t = self.placed.transaction(node);
        let before = *self.follows.get(t as usize)?;
        (before != NONE && node == self.placed.begin(t)).then(|| self.placed.end(before))
    }

    /// Whether a node follows what it has to, a commit its start, and no writer of the same key is started.
    fn in_turn(&self, node: u32) -> bool {
        if self.followed(node).is_some_and(|before| !self.is_placed[before as usize]) {
            return false;
        }
        if self.placed == Placed::Transactions {
            return true;
        }
        if !self.placed.is_start(node) {
            return self.is_placed[node as usize - 1];
        }
        self.writes.of(node + 1).iter().all(|wrote| self.writing[wrote.key as usize] == NONE)
    }

    /// A version that has to be written, and read by all but `t`, before another of its key is written; the first of them.
    fn earlier(&self, wrote: &Version, t: u32) -> Option<u32> {
        let begin = self.last_begin[wrote.version as usize];
        let end = self.end(wrote.key);
        let mut version = self.after[end as usize];
        while version != end && self.first_end[version as usize] < begin {
            let is_own = version == wrote.version || self.left_to(version, t);
            if !is_own {
                return Some(version);
            }
            version = self.after[version as usize];
        }
        None
    }

    /// Whether a version is written, and only `t` has yet to read it.
    fn left_to(&self, version: u32, t: u32) -> bool {
        self.is_placed[self.writer(version) as usize]
            && self.unread[version as usize] == 1
            && self.reads.of(t).iter().any(|read| read.version == version)
    }

    /// Which transactions may be placed next so that `t` is placed before the event; none where that leads nowhere.
    pub(super) fn candidates(&mut self, t: u32, event: usize) -> Vec<u32> {
        if !self.tried.insert(self.placed_set ^ number(!(event as u64))) {
            return Vec::new();
        }
        let needed = self.needed(t).unwrap_or_default();
        self.first_due(needed)
    }

    /// Those of some nodes that may follow, the first due first.
    fn first_due(&self, mut nodes: Vec<u32>) -> Vec<u32> {
        nodes.retain(|&node| self.may_follow(node));
        nodes.sort_unstable_by_key(|&node| (self.due[node as usize], node));
        nodes
    }

    /// What else may be placed first so that `t` is placed: who writes a key that one of those writes which have to be placed
    /// before `t`, and whatever has to be placed before that. Everybody else can as well come after `t`.
    pub(super) fn others(&mut self, t: u32, known: &[u32]) -> Vec<u32> {
        let mut found = self.needed(t).unwrap_or_default();
        let mut next = 0;
        while next < found.len() {
            let keys: Vec<u32> = self.written(found[next]).iter().map(|wrote| wrote.key).collect();
            next += 1;
            self.looked_at += self.open.len() as u64;
            for at in 0..self.open.len() {
                let other = self.open[at];
                let shares = self.written(other).iter().any(|wrote| keys.contains(&wrote.key));
                if !shares || found.contains(&other) {
                    continue;
                }
                // Who has to follow `t` cannot come first.
                let needed = self.needed(other).filter(|needed| !needed.contains(&t)).unwrap_or_default();
                for node in needed {
                    if !found.contains(&node) {
                        found.push(node);
                    }
                }
            }
        }
        found.retain(|node| !known.contains(node));
        self.first_due(found)
    }

    /// What a node's transaction leaves.
    fn written(&self, node: u32) -> &[Version] {
        self.writes.of(self.placed.end(self.placed.transaction(node)))
    }

    /// The transactions that have to be placed before `t`, and itself; None where one of them cannot be.
    fn needed(&mut self, t: u32) -> Option<Vec<u32>> {
        self.mark += 1;
        self.marks[t as usize] = self.mark;
        let mut needed = vec![t];
        let mut next = 0;
        while next < needed.len() {
            let by = needed[next];
            let mut circular = false;
            let mut need = |search: &mut Self, other: u32| {
                circular |= other == t || !search.is_invoked[other as usize];
                if std::mem::replace(&mut search.marks[other as usize], search.mark) != search.mark {
                    needed.push(other);
                }
            };
            if let Some(before) = self.followed(by).filter(|&before| !self.is_placed[before as usize]) {
                need(self, before);
            }
            if self.placed.is_start(by) {
                for at in 0..self.writes.of(by + 1).len() {
                    let other = self.writing[self.writes.of(by + 1)[at].key as usize];
                    if other != NONE {
                        need(self, self.placed.end(other));
                    }
                }
            } else if self.placed == Placed::StartsAndCommits && !self.is_placed[by as usize - 1] {
                need(self, by - 1);
            }
            for at in 0..self.reads.of(by).len() {
                let read = self.reads.of(by)[at];
                if self.held[read.key as usize] != read.version {
                    need(self, self.writer(read.version));
                }
            }
            for at in 0..self.writes.of(by).len() {
                let wrote = self.writes.of(by)[at];
                let held = self.held[wrote.key as usize];
                self.need_readers(held, by, &mut need);
                let (begin, end) = (self.last_begin[wrote.version as usize], self.end(wrote.key));
                let mut version = self.after[end as usize];
                while version != end && self.first_end[version as usize] < begin {
                    if version != wrote.version {
                        let writer = self.writer(version);
                        if !self.is_placed[writer as usize] {
                            need(self, writer);
                        }
                        self.need_readers(version, by, &mut need);
                    }
                    version = self.after[version as usize];
                }
            }
            if circular {
                return None;
            }
            next += 1;
        }
        self.looked_at += needed.len() as u64;
        Some(needed)
    }

    /// All who have yet to read a version, but for one.
    fn need_readers(&mut self, version: u32, but: u32, need: &mut impl FnMut(&mut Self, u32)) {
        if self.unread[version as usize] == 0 {
            return;
        }
        for at in 0..self.readers.of(version).len() {
            let reader = self.readers.of(version)[at];
            if reader != but && !self.is_placed[reader as usize] {
                need(self, reader);
            }
        }
    }
}
