//! Histories of lists to which transactions append unique values: what the reads show without any search.
//!
//! A read of a list returns the whole past of its key. The longest read gives the order of versions, and every other
//! read must be a prefix of it. An append that nobody saw, in a transaction that happened, comes after everything that
//! was seen: it is in no list, and lists only grow. A transaction happened if it is ok, or if it is info and an ok read
//! shows one of its appends.
//!
//! Source: Kingsbury & Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations" (VLDB 2020).

use std::collections::HashMap;

use super::anomaly::Anomaly;
use super::input::{FAIL, INFO, Input, NONE, OK, Observed, READ, WRITE, Writers};

/// One read of an ok transaction that tells of others, or where its own appends stand.
pub struct Read {
    pub(super) op: u32,
    /// Length without the transaction's own appends at the end.
    pub(super) external: u32,
    /// The first read of its key in its transaction.
    pub(super) first: bool,
    pub(super) compatible: bool,
    /// Only what its transaction had read before, with its own appends since.
    pub(super) repeats: bool,
}

pub struct Lists<'a> {
    pub(super) input: &'a Input<'a>,
    writers: Writers,
    pub(super) owner: Vec<u32>,
    pub(super) is_final: Vec<bool>,
    pub happened: Vec<bool>,
    pub anomalies: Vec<Anomaly>,
    pub(super) reads: Vec<Read>,
    /// Per key: the longest list that an ok transaction read.
    pub(super) longest: Vec<u32>,
    /// Per key: where its versions begin in `versions`; one more than keys.
    pub(super) base: Vec<u32>,
    /// The append of each version, `NONE` where nobody made it.
    pub(super) versions: Vec<u32>,
    /// Per append: its place in the longest list of its key.
    pub(super) place: Vec<u32>,
    /// Per version: the next and the last one before, of a transaction that happened; places within the key.
    pub(super) next: Vec<u32>,
    pub(super) previous: Vec<u32>,
    /// Appends that their own transaction read before it made them, against what it had read first; and that read.
    early: HashMap<u32, u32>,
    /// Keys whose longest list holds a value twice: their versions are in no order.
    pub(super) ambiguous: Vec<bool>,
}

impl<'a> Lists<'a> {
    /// Fails on two transactions that append one value to one key.
    pub fn new(input: &'a Input<'a>) -> Result<Self, String> {
        let mut lists = Self {
            input,
            writers: Writers::new(input)?,
            owner: input.owners(),
            is_final: input.finals(),
            happened: input.outcome.iter().map(|&outcome| outcome == OK).collect(),
            anomalies: Vec::new(),
            reads: Vec::new(),
            longest: vec![NONE; input.keys()],
            base: Vec::new(),
            versions: Vec::new(),
            place: vec![NONE; input.kind.len()],
            next: Vec::new(),
            previous: Vec::new(),
            early: HashMap::new(),
            ambiguous: vec![false; input.keys()],
        };
        lists.read_within();
        lists.order_versions();
        lists.compare_reads();
        lists.appended_in_order();
        lists.link_versions();
        lists.updates();
        Ok(lists)
    }

    /// Reads against what their own transaction read and appended before.
    fn read_within(&mut self) {
        let input = self.input;
        let keys = input.keys();
        let (mut touched, mut read, mut append) = (vec![NONE; keys], vec![NONE; keys], vec![NONE; keys]);
        // Per append: the one before it in its transaction, to the same key and since the last read.
        let mut before = vec![NONE; input.kind.len()];
        for t in (0..input.len()).filter(|&t| input.is_ok(t)) {
            for m in input.ops(t) {
                let key = input.key[m] as usize;
                if touched[key] != t as u32 {
                    touched[key] = t as u32;
                    read[key] = NONE;
                    append[key] = NONE;
                }
                if input.kind[m] == WRITE {
                    before[m] = append[key];
                    append[key] = m as u32;
                    continue;
                }
                if input.kind[m] != READ {
                    continue;
                }
                let list = input.list(m);
                let (mut external, mut own, mut agrees) = (list.len(), append[key], true);
                while own != NONE && agrees {
                    agrees = external > 0 && list[external - 1] == input.value[own as usize];
                    if agrees {
                        external -= 1;
                        own = before[own as usize];
                    }
                }
                if !agrees {
                    external = list.len();
                }
                let earlier = read[key];
                let repeats = agrees && earlier != NONE && list[..external] == *input.list(earlier as usize);
                if !agrees || (earlier != NONE && !repeats) {
                    let than = if agrees { earlier } else { own };
                    let rows = [t as u32, t as u32];
                    self.anomalies.push(Anomaly::new("internal", rows, [m as u32, than], key, 0));
                    if earlier != NONE {
                        external = list.len();
                        self.shown_later(t, m);
                    }
                }
                // What it appended since stands in this list alone: that too is held against the longest.
                if !repeats || external < list.len() {
                    self.reads.push(Read {
                        op: m as u32,
                        external: external as u32,
                        first: earlier == NONE,
                        compatible: true,
                        repeats,
                    });
                }
                let longest = &mut self.longest[key];
                if *longest == NONE || list.len() > input.list(*longest as usize).len() {
                    *longest = m as u32;
                }
                read[key] = m as u32;
                append[key] = NONE;
            }
        }
    }

    /// What a read shows of its own transaction's later appends.
    fn shown_later(&mut self, t: usize, read: usize) {
        let input = self.input;
        for &value in input.list(read) {
            let append = self.writers.get(input, input.key[read] as usize, value);
            if append != NONE && append as usize > read && self.owner[append as usize] == t as u32 {
                self.early.entry(append).or_insert(read as u32);
            }
        }
    }

    /// The versions of each key by its longest list, with what is wrong in that list.
    fn order_versions(&mut self) {
        let input = self.input;
        for key in 0..input.keys() {
            self.base.push(self.versions.len() as u32);
            let op = self.longest[key];
            if op == NONE {
                continue;
            }
            for (place, &value) in input.list(op as usize).iter().enumerate() {
                let append = self.writers.get(input, key, value);
                self.versions.push(append);
                if append != NONE {
                    if self.place[append as usize] == NONE {
                        self.place[append as usize] = place as u32;
                    } else {
                        self.ambiguous[key] = true;
                    }
                }
                self.element(op, key, value, append);
            }
            if self.ambiguous[key] {
                self.duplicates(op, key);
            }
        }
        self.base.push(self.versions.len() as u32);
    }

    /// One element of a list that is looked at by itself: it may be nobody's or a failed transaction's.
    fn element(&mut self, op: u32, key: usize, value: i64, append: u32) {
        let reader = self.owner[op as usize];
        if append == NONE {
            self.anomalies.push(Anomaly::new("garbage-read", [reader, NONE], [op, NONE], key, value));
            return;
        }
        let writer = self.owner[append as usize];
        match self.input.outcome[writer as usize] {
            FAIL => self.anomalies.push(Anomaly::new("G1a", [reader, writer], [op, append], key, value)),
            INFO => self.happened[writer as usize] = true,
            _ => {}
        }
    }

    fn duplicates(&mut self, op: u32, key: usize) {
        let mut values = self.input.list(op as usize).to_vec();
        values.sort_unstable();
        let reader = self.owner[op as usize];
        let mut last = None;
        for pair in values.windows(2).filter(|pair| pair[0] == pair[1]) {
            if last != Some(pair[0]) {
                last = Some(pair[0]);
                self.anomalies.push(Anomaly::new("duplicate-elements", [reader, NONE], [op, NONE], key, pair[0]));
            }
        }
    }

    /// Every read against the longest of its key; those that are no prefix of it are looked at element by element.
    fn compare_reads(&mut self) {
        let input = self.input;
        for place in 0..self.reads.len() {
            let op = self.reads[place].op;
            let key = input.key[op as usize] as usize;
            let longest = self.longest[key];
            let list = input.list(op as usize);
            if op == longest || input.list(longest as usize)[..list.len()] == *list {
                continue;
            }
            self.reads[place].compatible = false;
            let rows = [self.owner[op as usize], self.owner[longest as usize]];
            self.anomalies.push(Anomaly::new("incompatible-order", rows, [op, longest], key, 0));
            let mut seen = list.to_vec();
            seen.sort_unstable();
            if seen.windows(2).any(|pair| pair[0] == pair[1]) {
                self.duplicates(op, key);
            }
            for &value in list {
                let append = self.writers.get(input, key, value);
                if append == NONE || self.place[append as usize] == NONE {
                    self.element(op, key, value, append);
                }
            }
        }
    }

    /// The appends of one transaction to one key, against the longest list: the earlier stands before the later.
    fn appended_in_order(&mut self) {
        let input = self.input;
        let mut earlier = vec![(NONE, NONE); input.keys()];
        for t in (0..input.len()).filter(|&t| self.happened[t]) {
            for m in input.ops(t).filter(|&m| input.kind[m] == WRITE) {
                let key = input.key[m] as usize;
                let (of, before) = std::mem::replace(&mut earlier[key], (t as u32, m as u32));
                if of != t as u32 || self.ambiguous[key] || self.place[m] == NONE {
                    continue;
                }
                // An append in no list has the highest place of all.
                if self.place[before as usize] > self.place[m] {
                    let (read, value) = (self.longest[key], input.value[m]);
                    let rows = [self.owner[read as usize], t as u32];
                    self.anomalies.push(Anomaly::new("incompatible-order", rows, [read, before], key, value));
                }
            }
        }
    }

    /// From each version to its neighbours that happened; a failed append among them was built upon.
    fn link_versions(&mut self) {
        let input = self.input;
        self.next = vec![NONE; self.versions.len()];
        self.previous = vec![NONE; self.versions.len()];
        for key in 0..input.keys() {
            let base = self.base[key] as usize;
            let versions = &self.versions[base..self.base[key + 1] as usize];
            let mut last = NONE;
            let mut failed = NONE;
            for (place, &append) in versions.iter().enumerate() {
                self.previous[base + place] = last;
                if append == NONE {
                    continue;
                }
                let writer = self.owner[append as usize];
                if self.happened[writer as usize] {
                    last = place as u32;
                    if failed != NONE {
                        let rows = [writer, self.owner[failed as usize]];
                        let value = input.value[failed as usize];
                        self.anomalies.push(Anomaly::new("dirty-update", rows, [append, failed], key, value));
                        failed = NONE;
                    }
                } else if input.outcome[writer as usize] == FAIL {
                    failed = append;
                }
            }
            let mut following = NONE;
            for (place, &append) in versions.iter().enumerate().rev() {
                self.next[base + place] = following;
                if append != NONE && self.happened[self.owner[append as usize] as usize] {
                    following = place as u32;
                }
            }
        }
    }

    /// Reads of what should not have been there yet, and reads upon which two transactions built.
    fn updates(&mut self) {
        let input = self.input;
        // Per key and length read: who read that much first and then appended.
        let mut updated = vec![NONE; self.versions.len() + input.keys()];
        let mut read = vec![(NONE, 0_usize, NONE); input.keys()];
        let mut next_read = 0;
        for t in (0..input.len()).filter(|&t| input.is_ok(t)) {
            for m in input.ops(t) {
                let key = input.key[m] as usize;
                if self.reads.get(next_read).is_some_and(|read| read.op == m as u32) {
                    let found = &self.reads[next_read];
                    next_read += 1;
                    if found.first {
                        let slot = self.base[key] as usize + key + found.external as usize;
                        let is_version = found.compatible && !self.ambiguous[key];
                        read[key] = (t as u32, if is_version { slot } else { usize::MAX }, m as u32);
                    }
                    let ended = found
                        .external
                        .checked_sub(1)
                        .filter(|_| !found.repeats)
                        .map(|last| (last, self.append_at(found, key, last)));
                    self.anomalies.extend(ended.and_then(|(last, append)| self.intermediate(m, last, append)));
                    continue;
                }
                let (reader, slot, op) = read[key];
                if input.kind[m] != WRITE || reader != t as u32 {
                    continue;
                }
                let shows = input.list(op as usize).get(self.place[m] as usize) == Some(&input.value[m]);
                if let Some(op) = if shows { Some(op) } else { self.early.get(&(m as u32)).copied() } {
                    let rows = [t as u32, t as u32];
                    let value = input.value[m];
                    self.anomalies.push(Anomaly::new("future-read", rows, [op, m as u32], key, value));
                }
                if slot == usize::MAX {
                    continue;
                }
                let earlier = updated[slot];
                if earlier == NONE {
                    updated[slot] = op;
                } else if earlier != op {
                    let rows = [t as u32, self.owner[earlier as usize]];
                    self.anomalies.push(Anomaly::new("lost-update", rows, [op, earlier], key, 0));
                }
                read[key].1 = usize::MAX;
            }
        }
    }

    /// The append of the element at `place` of a read.
    pub(super) fn append_at(&self, read: &Read, key: usize, place: u32) -> u32 {
        if read.compatible {
            self.versions[self.base[key] as usize + place as usize]
        } else {
            self.writers.get(self.input, key, self.input.list(read.op as usize)[place as usize])
        }
    }

    /// Whether a read that ends with `append` ends amid the appends of another transaction.
    fn intermediate(&self, op: usize, last: u32, append: u32) -> Option<Anomaly> {
        if append == NONE || self.is_final[append as usize] {
            return None;
        }
        let (reader, writer) = (self.owner[op], self.owner[append as usize]);
        let value = self.input.list(op)[last as usize];
        let key = self.input.key[op] as usize;
        (writer != reader && self.happened[writer as usize])
            .then(|| Anomaly::new("G1b", [reader, writer], [op as u32, append], key, value))
    }

    /// All reads of ok transactions that show another's append before their own, or nothing, repeated ones too.
    pub fn observed(&self) -> Vec<Observed> {
        let input = self.input;
        let mut found = Vec::with_capacity(self.reads.len());
        let mut appended = vec![(NONE, 0_usize); input.keys()];
        for t in (0..input.len()).filter(|&t| input.is_ok(t)) {
            for m in input.ops(t) {
                let key = input.key[m] as usize;
                let own = if appended[key].0 == t as u32 { appended[key].1 } else { 0 };
                if input.kind[m] == WRITE {
                    appended[key] = (t as u32, own + 1);
                } else if input.kind[m] == READ
                    && let Some(outside) = input.list(m).len().checked_sub(own)
                {
                    let last = outside.checked_sub(1).map(|last| input.list(m)[last]);
                    let write = last.map_or(NONE, |value| self.writers.get(input, key, value));
                    let others = write != NONE && self.owner[write as usize] != t as u32;
                    if others || last.is_none() {
                        found.push(Observed { op: m as u32, write });
                    }
                }
            }
        }
        found
    }
}
