//! Histories of registers to which transactions write unique values: what is certain of the order of versions.
//!
//! A version is a write, or nothing, which every key holds first. One version is known to precede another when
//!   - the first is nothing;
//!   - a transaction read it and then wrote the other (`wfr`);
//!   - a process met it in an earlier transaction than the other (`sequential`), or a transaction that met it was
//!     completed before one that met the other was invoked (`linearizable`): these two if the caller vouches for it.
//!
//! A key whose versions precede each other in a circle is a finding, and says nothing more about transactions.
//!
//! Source: Kingsbury & Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations" (VLDB 2020).

use super::anomaly::{Anomaly, Step};
use super::cycles::Cycle;
use super::graph::{Edges, Graph, Kind, Target};
use super::input::{FAIL, INFO, Input, NIL, NONE, OK, READ, WRITE, Writers};
use super::lists::pairs;
use super::weak::Observed;

/// Completions that one invocation is linked to, the latest ones; leaving the others out only infers less.
const LINKS_MAX: usize = 32;
/// Versions in a circle up to which a shortest one is looked for.
const CIRCLE_MAX: usize = 64;

#[derive(Clone, Copy)]
pub struct Assumed {
    pub wfr: bool,
    pub sequential: bool,
    pub linearizable: bool,
}

/// A read of an ok transaction that shows another's write, or nothing.
#[derive(Clone, Copy)]
struct Read {
    op: u32,
    version: u32,
}

/// One version before another, and the two micro-operations that show it; `NONE` when the first is nothing.
#[derive(Clone, Copy)]
struct Before {
    first: u32,
    second: u32,
    shown: [u32; 2],
}

/// What one transaction met of one key: the version it found and the one it left, with the micro-operations.
#[derive(Clone, Copy)]
struct Met {
    key: u32,
    transaction: u32,
    found: Read,
    left: Read,
}

pub struct Registers<'a> {
    input: &'a Input<'a>,
    writers: Writers,
    owner: Vec<u32>,
    is_final: Vec<bool>,
    pub happened: Vec<bool>,
    pub anomalies: Vec<Anomaly>,
    /// Versions that precede each other in a circle.
    pub circles: Vec<Cycle>,
    reads: Vec<Read>,
    /// Sorted by the two versions.
    order: Vec<Before>,
}

impl<'a> Registers<'a> {
    /// Fails on the two micro-operations that write one value to one key.
    pub fn new(input: &'a Input<'a>, by_invocation: &[u32], assumed: Assumed) -> Result<Self, (u32, u32)> {
        let mut registers = Self {
            input,
            writers: Writers::new(input)?,
            owner: input.owners(),
            is_final: input.finals(),
            happened: input.outcome.iter().map(|&outcome| outcome == OK).collect(),
            anomalies: Vec::new(),
            circles: Vec::new(),
            reads: Vec::new(),
            order: Vec::new(),
        };
        registers.read_within(assumed);
        if assumed.sequential || assumed.linearizable {
            registers.met_in_order(by_invocation, assumed);
        }
        registers.nothing_first();
        registers.order.sort_unstable_by_key(|before| (before.first, before.second));
        registers.order.dedup_by_key(|before| (before.first, before.second));
        registers.remove_circles();
        Ok(registers)
    }

    fn nothing(&self, key: usize) -> u32 {
        (self.input.kind.len() + key) as u32
    }

    pub fn is_write(&self, version: u32) -> bool {
        (version as usize) < self.input.kind.len()
    }

    /// Reads against their own transaction and against the outcome of what they read; reads followed by writes.
    fn read_within(&mut self, assumed: Assumed) {
        let input = self.input;
        let keys = input.keys();
        // Per key, of the transaction at hand: the last micro-operation on it, and its first read if no write precedes.
        let mut last = vec![(NONE, NONE); keys];
        let mut begun = vec![(NONE, Read { op: NONE, version: NONE }); keys];
        let mut updated = vec![NONE; input.kind.len() + keys];
        for t in (0..input.len()).filter(|&t| input.is_ok(t)) {
            for m in input.ops(t) {
                let key = input.key[m] as usize;
                let earlier = if last[key].0 == t as u32 { last[key].1 } else { NONE };
                if input.kind[m] == WRITE {
                    last[key] = (t as u32, m as u32);
                    let (reader, read) = begun[key];
                    if reader == t as u32 && self.is_final[m] {
                        self.write_after(t as u32, m as u32, read, &mut updated, assumed);
                    }
                } else if input.kind[m] == READ {
                    last[key] = (t as u32, m as u32);
                    let agrees = earlier == NONE || input.value[earlier as usize] == input.value[m];
                    if !agrees {
                        let rows = [t as u32, t as u32];
                        let value = input.value[m];
                        self.anomalies.push(Anomaly::new("internal", rows, [m as u32, earlier], key, value));
                    }
                    if (earlier == NONE || !agrees)
                        && let Some(read) = self.read(t as u32, m)
                    {
                        self.reads.push(read);
                        if earlier == NONE {
                            begun[key] = (t as u32, read);
                        }
                    }
                }
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

    /// Versions in the order in which one process met them, or transactions that were not concurrent.
    fn met_in_order(&mut self, by_invocation: &[u32], assumed: Assumed) {
        let mut met = self.met(by_invocation);
        if assumed.linearizable {
            met.sort_by_key(|met| met.key);
            for group in met.chunk_by(|a, b| a.key == b.key) {
                link(self.input, group, &mut self.order);
            }
        } else {
            let process = |met: &Met| (met.key, self.input.process[met.transaction as usize]);
            met.sort_by_key(process);
            for group in met.chunk_by(|a, b| process(a) == process(b)) {
                link(self.input, group, &mut self.order);
            }
        }
    }

    /// Per transaction and key, by invocation: what it found and what it left.
    fn met(&self, by_invocation: &[u32]) -> Vec<Met> {
        let input = self.input;
        let mut of_op = vec![NONE; input.kind.len()];
        for (place, read) in self.reads.iter().enumerate() {
            of_op[read.op as usize] = place as u32;
        }
        let mut met = Vec::with_capacity(input.kind.len());
        let mut begun = vec![(NONE, 0_usize); input.keys()];
        for &t in by_invocation.iter().filter(|&&t| self.happened[t as usize]) {
            for m in input.ops(t as usize) {
                let key = input.key[m] as usize;
                let version = if input.kind[m] == WRITE && self.is_final[m] {
                    m as u32
                } else if of_op[m] != NONE {
                    let version = self.reads[of_op[m] as usize].version;
                    let failed = self.is_write(version) && !self.happened[self.owner[version as usize] as usize];
                    if failed { NONE } else { version }
                } else {
                    NONE
                };
                if version == NONE {
                    continue;
                }
                let read = Read { op: m as u32, version };
                let (seen, place) = begun[key];
                if seen != t {
                    begun[key] = (t, met.len());
                    met.push(Met { key: key as u32, transaction: t, found: read, left: read });
                } else if input.kind[m] == WRITE {
                    met[place].left = read;
                }
            }
        }
        met
    }

    /// Nothing precedes every version; it is linked to those that nothing else precedes, and only where it was read.
    fn nothing_first(&mut self) {
        let input = self.input;
        let mut follows = vec![false; input.kind.len() + input.keys()];
        for before in &self.order {
            follows[before.second as usize] = true;
        }
        let mut read = vec![false; input.keys()];
        for found in self.reads.iter().filter(|read| !self.is_write(read.version)) {
            read[found.version as usize - input.kind.len()] = true;
        }
        for m in (0..input.kind.len()).filter(|&m| input.kind[m] == WRITE && self.is_final[m] && !follows[m]) {
            let key = input.key[m] as usize;
            if read[key] && self.happened[self.owner[m] as usize] {
                self.order.push(Before { first: self.nothing(key), second: m as u32, shown: [NONE; 2] });
            }
        }
    }

    /// Keys whose versions precede each other in a circle: a finding each, and nothing more is inferred from them.
    fn remove_circles(&mut self) {
        let edges: Vec<(u32, Target)> =
            self.order.iter().map(|before| (before.first, Target::new(before.second, Kind::Ww))).collect();
        let graph = Graph::new(self.input.kind.len() + self.input.keys(), &edges);
        let sorted = graph.order();
        if sorted.len() == graph.nodes() {
            return;
        }
        let mut open = vec![true; graph.nodes()];
        for node in sorted {
            open[node as usize] = false;
        }
        let mut circular = vec![false; self.input.keys()];
        for nodes in graph.components(|node| open[node as usize], |_, _| true) {
            circular[self.key_of(nodes[0])] = true;
            let circle = circle(&graph, &nodes, CIRCLE_MAX);
            let steps = (0..circle.len()).map(|place| {
                let (first, second) = (circle[place], circle[(place + 1) % circle.len()]);
                let mut step = Step::new(NONE, NONE, Kind::Ww);
                step.from_op = self.bearer(first);
                step.to_op = self.bearer(second);
                step.from = self.owner[step.from_op as usize];
                step.to = self.owner[step.to_op as usize];
                step.shown_by = self.shown(first, second).unwrap_or([NONE; 2]);
                step
            });
            let steps = steps.collect();
            self.circles.push(Cycle { name: "cyclic-versions", steps, shortest: nodes.len() <= CIRCLE_MAX });
        }
        let keys: Vec<usize> = self.order.iter().map(|before| self.key_of(before.second)).collect();
        let mut places = keys.iter();
        self.order.retain(|_| places.next().is_some_and(|&key| !circular[key]));
    }

    fn key_of(&self, version: u32) -> usize {
        let writes = self.input.kind.len();
        if self.is_write(version) { self.input.key[version as usize] as usize } else { version as usize - writes }
    }

    /// A micro-operation whose value is a version: the write, or a read of nothing.
    fn bearer(&self, version: u32) -> u32 {
        if self.is_write(version) {
            return version;
        }
        self.reads.iter().find(|read| read.version == version).map_or(NONE, |read| read.op)
    }

    /// What shows that one version precedes another, where that is known without a third.
    fn shown(&self, first: u32, second: u32) -> Option<[u32; 2]> {
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

    /// Reads that show another transaction's write, or nothing, by micro-operation.
    pub fn observed(&self) -> Vec<Observed> {
        let write = |version| if self.is_write(version) { version } else { NONE };
        self.reads.iter().map(|read| Observed { op: read.op, write: write(read.version) }).collect()
    }

    /// Reads that show another transaction's write, or nothing: (transaction, version).
    pub fn external(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
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

/// Links what transactions met of one key, in the order of invocation, where one was completed before the other.
///
/// Only completions that no later one already implies are linked: those since the latest invocation among the completed.
fn link(input: &Input<'_>, group: &[Met], order: &mut Vec<Before>) {
    let mut ends: Vec<(i64, u32)> = (0..group.len() as u32)
        .filter(|&place| input.is_ok(group[place as usize].transaction as usize))
        .map(|place| (input.completed[group[place as usize].transaction as usize], place))
        .collect();
    ends.sort_unstable();
    let (mut oldest, mut ended, mut latest) = (0, 0, i64::MIN);
    for met in group {
        let invoked = input.invoked[met.transaction as usize];
        while ended < ends.len() && ends[ended].0 < invoked {
            latest = latest.max(input.invoked[group[ends[ended].1 as usize].transaction as usize]);
            ended += 1;
        }
        while oldest < ended && ends[oldest].0 < latest {
            oldest += 1;
        }
        for &(_, place) in &ends[oldest.max(ended.saturating_sub(LINKS_MAX))..ended] {
            let before = group[place as usize].left;
            if before.version != met.found.version {
                let shown = [before.op, met.found.op];
                order.push(Before { first: before.version, second: met.found.version, shown });
            }
        }
    }
}

/// A circle within a component: a shortest one, or in one of more than `most` nodes a shortest one through its first.
pub fn circle(graph: &Graph, nodes: &[u32], most: usize) -> Vec<u32> {
    let mut best: Vec<u32> = Vec::new();
    let tried = if nodes.len() <= most { nodes.len() } else { 1 };
    let mut number: Vec<(u32, u32)> = nodes.iter().enumerate().map(|(place, &node)| (node, place as u32)).collect();
    number.sort_unstable();
    let place = |node: u32| number.binary_search_by_key(&node, |&(node, _)| node).ok().map(|at| number[at].1 as usize);
    for &begin in &nodes[..tried] {
        let mut before = vec![NONE; nodes.len()];
        let mut queue = vec![begin];
        let mut next = 0;
        'walk: while next < queue.len() {
            let node = queue[next];
            next += 1;
            for target in graph.from(node) {
                let to = target.node();
                let Some(at) = place(to) else { continue };
                if to == begin {
                    let mut path = vec![node];
                    while let Some(at) = place(path[path.len() - 1]).filter(|_| path[path.len() - 1] != begin) {
                        path.push(before[at]);
                    }
                    path.reverse();
                    if best.is_empty() || path.len() < best.len() {
                        best = path;
                    }
                    break 'walk;
                }
                if before[at] == NONE {
                    before[at] = node;
                    queue.push(to);
                }
            }
        }
    }
    best
}
