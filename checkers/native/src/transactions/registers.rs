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

/// Versions that one is linked to, those that were met to the end last; leaving the others out only infers less.
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

/// A version that a transaction found or left, and the micro-operation.
#[derive(Clone, Copy)]
struct Met {
    key: u32,
    op: u32,
    version: u32,
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
    /// What single reads show; `infer` adds the order of versions. Fails on the two micro-operations that write one value
    /// to one key.
    pub fn new(input: &'a Input<'a>, assumed: Assumed) -> Result<Self, (u32, u32)> {
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
        Ok(registers)
    }

    /// Infer the order of versions, as far as it is certain.
    pub fn infer(&mut self, by_invocation: &[u32], assumed: Assumed) {
        if assumed.sequential || assumed.linearizable {
            self.met_in_order(by_invocation, assumed);
        }
        self.nothing_first();
        self.order.sort_unstable_by_key(|before| (before.first, before.second));
        self.order.dedup_by_key(|before| (before.first, before.second));
        self.remove_circles();
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
        if assumed.linearizable {
            self.met_in_time();
            return;
        }
        let mut met = Vec::with_capacity(self.input.kind.len());
        self.each_met(|t, read| met.push((read.key, self.input.process[t as usize], t, read)));
        let mut place = vec![0_u32; self.input.len()];
        for (at, &t) in by_invocation.iter().enumerate() {
            place[t as usize] = at as u32;
        }
        met.sort_by_key(|&(key, process, t, _)| (key, process, place[t as usize]));
        // One of unknown outcome precedes nothing, and hides nothing that its process met before.
        let mut last = None;
        for (key, process, t, second) in met {
            if let Some((other_key, other_process, s, first)) = last
                && (key, process) == (other_key, other_process)
                && s != t
            {
                let Met { op, version, .. } = first;
                if version != second.version {
                    self.order.push(Before { first: version, second: second.version, shown: [op, second.op] });
                }
            }
            if self.input.is_ok(t as usize) {
                last = Some((key, process, t, second));
            }
        }
    }

    /// What each transaction that happened found and left of each key, by transaction and micro-operation.
    fn each_met(&self, mut take: impl FnMut(u32, Met)) {
        let input = self.input;
        let mut read = self.reads.iter().peekable();
        for t in (0..input.len()).filter(|&t| self.happened[t]) {
            for m in input.ops(t) {
                while read.next_if(|read| (read.op as usize) < m).is_some() {}
                let version = if input.kind[m] == WRITE && self.is_final[m] {
                    m as u32
                } else if let Some(read) = read.next_if(|read| read.op as usize == m) {
                    let failed =
                        self.is_write(read.version) && !self.happened[self.owner[read.version as usize] as usize];
                    if failed {
                        continue;
                    }
                    read.version
                } else {
                    continue;
                };
                take(t as u32, Met { key: input.key[m] as u32, op: m as u32, version });
            }
        }
    }

    /// One version precedes another if a transaction that met it was completed before one that met the other was invoked:
    /// so if its first completion comes before the other's last invocation. Of each version the last few before it.
    fn met_in_time(&mut self) {
        let input = self.input;
        let versions = input.kind.len() + input.keys();
        // Per version: the first completion and the last invocation among those who met it, with their rows.
        let mut first_end = vec![(i64::MAX, NONE); versions];
        let mut last_begin = vec![(i64::MIN, NONE); versions];
        let mut of_key: Vec<(u32, u32)> = Vec::with_capacity(versions);
        self.each_met(|t, met| {
            let version = met.version as usize;
            if last_begin[version].1 == NONE {
                of_key.push((met.key, met.version));
            }
            last_begin[version] = last_begin[version].max((input.invoked[t as usize], met.op));
            if input.is_ok(t as usize) {
                first_end[version] = first_end[version].min((input.completed[t as usize], met.op));
            }
        });
        let mut starts = vec![0_u32; input.keys() + 1];
        for &(key, _) in &of_key {
            starts[key as usize + 1] += 1;
        }
        for key in 0..input.keys() {
            starts[key + 1] += starts[key];
        }
        let mut place = starts.clone();
        let mut grouped = vec![0_u32; of_key.len()];
        for &(key, version) in &of_key {
            grouped[place[key as usize] as usize] = version;
            place[key as usize] += 1;
        }
        let (mut ends, mut begins) = (Vec::new(), Vec::new());
        for key in 0..input.keys() {
            let versions = &grouped[starts[key] as usize..starts[key + 1] as usize];
            ends.clear();
            ends.extend(versions.iter().map(|&v| (first_end[v as usize].0, v)).filter(|&(end, _)| end != i64::MAX));
            ends.sort_unstable();
            begins.clear();
            begins.extend(versions.iter().map(|&v| (last_begin[v as usize].0, v)));
            begins.sort_unstable();
            // Of those that ended: the three that were met last.
            let mut latest = [(i64::MIN, NONE); 3];
            let mut ended = 0;
            for &(begin, second) in &begins {
                while ended < ends.len() && ends[ended].0 < begin {
                    let version = ends[ended].1;
                    let new = (last_begin[version as usize].0, version);
                    let at = latest.iter().position(|&other| other < new);
                    if let Some(at) = at {
                        latest[at..].rotate_right(1);
                        latest[at] = new;
                    }
                    ended += 1;
                }
                // A third version stands between the two if it began after the one and ended before the other.
                let mut others = latest.iter().filter(|&&(_, version)| version != second);
                let (after, third) = others.next().copied().unwrap_or((i64::MIN, NONE));
                let next = others.next().map_or(i64::MIN, |&(begin, _)| begin);
                let from = ends[..ended].partition_point(|&(end, _)| end < after);
                let mut link = |first: u32| {
                    let shown = [first_end[first as usize].1, last_begin[second as usize].1];
                    self.order.push(Before { first, second, shown });
                };
                if third != NONE && first_end[third as usize].0 < after && first_end[third as usize].0 >= next {
                    link(third);
                }
                let from = from.max(ended.saturating_sub(LINKS_MAX));
                ends[from..ended].iter().filter(|&&(_, first)| first != second).for_each(|&(_, first)| link(first));
            }
        }
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

    pub fn key_of(&self, version: u32) -> usize {
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

    /// All reads of ok transactions that show another's write, or nothing, repeated ones too.
    pub fn observed(&self) -> Vec<Observed> {
        let input = self.input;
        let mut found = Vec::with_capacity(self.reads.len());
        let mut wrote = vec![NONE; input.keys()];
        for t in (0..input.len()).filter(|&t| input.is_ok(t)) {
            for m in input.ops(t) {
                let key = input.key[m] as usize;
                if input.kind[m] == WRITE {
                    wrote[key] = t as u32;
                } else if input.kind[m] == READ && wrote[key] != t as u32 {
                    let nothing = input.value[m] == NIL;
                    let write = if nothing { NONE } else { self.writers.get(input, key, input.value[m]) };
                    let others = write != NONE && self.owner[write as usize] != t as u32;
                    if others || nothing {
                        found.push(Observed { op: m as u32, write });
                    }
                }
            }
        }
        found
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
