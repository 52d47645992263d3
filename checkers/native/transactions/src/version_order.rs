//! Find the order of a register's versions, as far as it is certain.
//!
//! A version is a write, or "nothing", which every key holds first. One version precedes another with certainty if
//!   - the first is nothing;
//!   - a transaction read it and then wrote the other (`wfr`);
//!   - a process met it in an earlier transaction than the other (`sequential`), or a transaction that met it was
//!     completed before one that met the other was invoked (`linearizable`): these two if the caller vouches for it.
//!
//! If the versions of a key precede each other in a circle, that is a finding, and the key gives no dependencies.

use super::anomaly::Step;
use super::cycles::Cycle;
use super::graph::{Graph, Kind, Target, circle};
use super::input::{NONE, WRITE};
use super::registers::{Assumed, Before, Registers};

/// Versions that one is linked to, those that were met to the end last; leaving the others out only infers less.
const LINKS_MAX: usize = 32;
/// Versions in a circle up to which a shortest one is looked for.
const CIRCLE_MAX: usize = 64;

/// A version that a transaction found or left, and the micro-operation.
#[derive(Clone, Copy)]
struct Met {
    key: u32,
    op: u32,
    version: u32,
}

impl Registers<'_> {
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
        let graph = Graph::new(self.input.kind.len() + self.input.keys(), edges.iter().copied());
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

    /// A micro-operation whose value is a version: the write, or a read of nothing.
    fn bearer(&self, version: u32) -> u32 {
        if self.is_write(version) {
            return version;
        }
        self.reads.iter().find(|read| read.version == version).map_or(NONE, |read| read.op)
    }
}
