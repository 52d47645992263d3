//! Histories of registers to which transactions write unique values: what the reads show without any search.
//!
//! Single reads show some anomalies alone. The order of versions (`version_order`) adds the dependencies between the
//! transactions that wrote and read them.
//!
//! Source: Kingsbury & Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations" (VLDB 2020).

use super::anomaly::{Anomaly, Step};
use super::cycles::Cycle;
use super::graph::{Edges, Kind, Target};
use super::input::{FAIL, INFO, Input, NIL, NONE, OK, Observed, READ, WRITE, Writers, pairs};

/// What the order of a register's versions is inferred from.
#[derive(Clone, Copy)]
pub struct Assumed {
    /// A transaction's version follows the one that it read before.
    pub wfr: bool,
    /// Versions follow each other as the transactions of one process met them.
    pub sequential: bool,
    /// Versions follow each other as transactions met them of which one was completed before the other was invoked.
    pub linearizable: bool,
}

/// A read of an ok transaction that shows another's write, or nothing.
#[derive(Clone, Copy)]
pub struct Read {
    pub(super) op: u32,
    pub(super) version: u32,
}

/// What a transaction did to one key so far.
#[derive(Clone, Copy)]
struct OfKey {
    t: u32,
    last: u32,
    wrote: bool,
    shown: Option<Read>,
    begun: Option<Read>,
}

/// One version before another, and the two micro-operations that show it; `NONE` when the first is nothing.
#[derive(Clone, Copy)]
pub struct Before {
    pub(super) first: u32,
    pub(super) second: u32,
    pub(super) shown: [u32; 2],
}

pub struct Registers<'a> {
    pub(super) input: &'a Input<'a>,
    writers: Writers,
    pub(super) owner: Vec<u32>,
    pub(super) is_final: Vec<bool>,
    pub happened: Vec<bool>,
    pub anomalies: Vec<Anomaly>,
    /// Versions that precede each other in a circle.
    pub circles: Vec<Cycle>,
    pub(super) reads: Vec<Read>,
    /// All reads of ok transactions that show another's write, or nothing, repeated ones too.
    pub observed: Vec<Observed>,
    /// Sorted by the two versions.
    pub(super) order: Vec<Before>,
}

impl<'a> Registers<'a> {
    /// What single reads show; `infer` adds the order of versions. Fails on two transactions that write one value to one
    /// key.
    pub fn new(input: &'a Input<'a>, assumed: Assumed) -> Result<Self, String> {
        let mut registers = Self {
            input,
            writers: Writers::new(input)?,
            owner: input.owners(),
            is_final: input.finals(),
            happened: input.outcome.iter().map(|&outcome| outcome == OK).collect(),
            anomalies: Vec::new(),
            circles: Vec::new(),
            reads: Vec::new(),
            observed: Vec::new(),
            order: Vec::new(),
        };
        registers.read_within(assumed);
        Ok(registers)
    }

    pub(super) fn nothing(&self, key: usize) -> u32 {
        (self.input.kind.len() + key) as u32
    }

    pub fn is_write(&self, version: u32) -> bool {
        (version as usize) < self.input.kind.len()
    }

    /// Reads against their own transaction and against the outcome of what they read; reads followed by writes.
    fn read_within(&mut self, assumed: Assumed) {
        let input = self.input;
        let keys = input.keys();
        // Per key, of the transaction at hand: the last micro-operation on it, whether it wrote it, what its last read
        // showed, and its first read if no write precedes.
        let fresh = OfKey { t: NONE, last: NONE, wrote: false, shown: None, begun: None };
        let mut of_key = vec![fresh; keys];
        let mut updated = vec![NONE; input.kind.len() + keys];
        for t in (0..input.len()).filter(|&t| input.is_ok(t)) {
            for m in input.ops(t) {
                let key = input.key[m] as usize;
                let mut at = if of_key[key].t == t as u32 { of_key[key] } else { OfKey { t: t as u32, ..fresh } };
                if input.kind[m] == WRITE {
                    (at.last, at.wrote) = (m as u32, true);
                    if let Some(read) = at.begun.filter(|_| self.is_final[m]) {
                        self.write_after(t as u32, m as u32, read, &mut updated, assumed);
                    }
                } else if input.kind[m] == READ {
                    let earlier = std::mem::replace(&mut at.last, m as u32);
                    let agrees = earlier == NONE || input.value[earlier as usize] == input.value[m];
                    if !agrees {
                        let rows = [t as u32, t as u32];
                        let value = input.value[m];
                        self.anomalies.push(Anomaly::new("internal", rows, [m as u32, earlier], key, value));
                    }
                    if earlier == NONE || !agrees {
                        at.shown = self.read(t as u32, m);
                        self.reads.extend(at.shown);
                        if earlier == NONE {
                            at.begun = at.shown;
                        }
                    }
                    if let Some(read) = at.shown.filter(|_| !at.wrote) {
                        let write = if self.is_write(read.version) { read.version } else { NONE };
                        self.observed.push(Observed { op: m as u32, write });
                    }
                }
                of_key[key] = at;
            }
        }
    }

    /// What one read shows of others, with what is wrong about it; None where it shows nothing certain.
    fn read(&mut self, t: u32, m: usize) -> Option<Read> {
        let (key, value) = (self.input.key[m] as usize, self.input.value[m]);
        let op = m as u32;
        if value == NIL {
            return Some(Read { op, version: self.nothing(key) });
        }
        let write = self.writers.get(self.input, key, value);
        if write == NONE {
            self.anomalies.push(Anomaly::new("garbage-read", [t, NONE], [op, NONE], key, value));
            return None;
        }
        let writer = self.owner[write as usize];
        let mut tell = |name| self.anomalies.push(Anomaly::new(name, [t, writer], [op, write], key, value));
        if writer == t {
            if write > op {
                tell("future-read");
            }
            return None;
        }
        match self.input.outcome[writer as usize] {
            FAIL => tell("G1a"),
            INFO => self.happened[writer as usize] = true,
            _ => {}
        }
        if self.happened[writer as usize] && !self.is_final[write as usize] {
            tell("G1b");
        }
        Some(Read { op, version: write })
    }

    /// A transaction read a version and then wrote its own.
    fn write_after(&mut self, t: u32, m: u32, read: Read, updated: &mut [u32], assumed: Assumed) {
        let key = self.input.key[m as usize] as usize;
        let value = self.input.value[read.op as usize];
        let earlier = updated[read.version as usize];
        if earlier == NONE {
            updated[read.version as usize] = read.op;
        } else {
            let rows = [t, self.owner[earlier as usize]];
            self.anomalies.push(Anomaly::new("lost-update", rows, [read.op, earlier], key, value));
        }
        if self.is_write(read.version) && self.input.outcome[self.owner[read.version as usize] as usize] == FAIL {
            let rows = [t, self.owner[read.version as usize]];
            self.anomalies.push(Anomaly::new("dirty-update", rows, [read.op, read.version], key, value));
        } else if assumed.wfr || assumed.sequential || assumed.linearizable {
            self.order.push(Before { first: read.version, second: m, shown: [read.op, m] });
        }
    }

    pub fn key_of(&self, version: u32) -> usize {
        let writes = self.input.kind.len();
        if self.is_write(version) { self.input.key[version as usize] as usize } else { version as usize - writes }
    }

    /// What shows that one version precedes another, where that is known without a third.
    pub(super) fn shown(&self, first: u32, second: u32) -> Option<[u32; 2]> {
        let place = self.order.binary_search_by_key(&(first, second), |before| (before.first, before.second)).ok()?;
        Some(self.order[place].shown)
    }

    /// All dependencies that are certain, as few edges as keep every path.
    pub fn dependencies(&self, edges: &mut Edges) {
        for read in self.reads.iter().filter(|read| self.is_write(read.version)) {
            let writer = self.owner[read.version as usize];
            if self.happened[writer as usize] {
                edges.add(writer, self.owner[read.op as usize], Kind::Wr);
            }
        }
        let mut readers: Vec<(u32, u32)> =
            self.reads.iter().map(|read| (read.version, self.owner[read.op as usize])).collect();
        readers.sort_unstable();
        readers.dedup();
        let mut rest = readers.as_slice();
        for group in self.order.chunk_by(|a, b| a.first == b.first) {
            let version = group[0].first;
            rest = &rest[rest.partition_point(|&(other, _)| other < version)..];
            let until = rest.partition_point(|&(other, _)| other == version);
            let mut writers: Vec<u32> = group
                .iter()
                .filter(|before| self.is_write(before.second))
                .map(|before| self.owner[before.second as usize])
                .collect();
            writers.sort_unstable();
            writers.dedup();
            let these: Vec<u32> = rest[..until].iter().map(|&(_, t)| t).collect();
            edges.add_all(&these, &writers, Kind::Rw);
            if self.is_write(version) && self.happened[self.owner[version as usize] as usize] {
                edges.add_all(&[self.owner[version as usize]], &writers, Kind::Ww);
            }
        }
    }

    /// What shows that one transaction depends on another: found again from the rows of the two.
    pub fn show(&self, step: &mut Step) {
        let input = self.input;
        let (first, second) = match step.kind {
            Kind::Ww => (WRITE, WRITE),
            Kind::Wr => (WRITE, READ),
            Kind::Rw => (READ, WRITE),
            Kind::Process | Kind::Realtime | Kind::Pass => return,
        };
        for (a, b) in pairs(input, step.from as usize, step.to as usize, first, second) {
            let shown = if step.kind == Kind::Wr {
                (input.value[a] == input.value[b]).then_some([NONE; 2])
            } else if first == WRITE {
                self.shown(a as u32, b as u32)
            } else {
                self.shown(self.version(a), b as u32)
            };
            if let Some(shown) = shown {
                (step.from_op, step.to_op, step.shown_by) = (a as u32, b as u32, shown);
                return;
            }
        }
    }

    /// The version that a read shows.
    pub fn version(&self, m: usize) -> u32 {
        let (key, value) = (self.input.key[m] as usize, self.input.value[m]);
        if value == NIL { self.nothing(key) } else { self.writers.get(self.input, key, value) }
    }

    /// Who read from whom, as edges.
    pub fn read_from(&self) -> Vec<(u32, Target)> {
        let read = self.observed.iter().filter(|read| read.write != NONE);
        let edge = |read: &Observed| (self.owner[read.write as usize], self.owner[read.op as usize]);
        let happened = read.map(edge).filter(|&(writer, _)| self.happened[writer as usize]);
        happened.map(|(writer, reader)| (writer, Target::new(reader, Kind::Wr))).collect()
    }

    /// Reads that show another transaction's write, or nothing: (transaction, version).
    pub fn external(&self) -> impl Iterator<Item = (u32, u32)> + Clone + '_ {
        self.reads.iter().map(|read| (self.owner[read.op as usize], read.version))
    }

    /// The transaction that wrote a version other than nothing.
    pub fn writer(&self, version: u32) -> u32 {
        self.owner[version as usize]
    }

    /// Whether a micro-operation writes what its transaction leaves.
    pub fn leaves(&self, m: usize) -> bool {
        self.is_final[m]
    }
}
