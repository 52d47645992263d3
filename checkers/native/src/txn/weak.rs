//! Weak isolation: whether one commit order exists that keeps read committed, atomic reads or causality.
//!
//! A commit order holds, for every transaction that reads key x from T1, and every other writer T2 of x that it has to
//! have seen, that T2 comes before T1. Which it has to have seen is the level:
//!
//! | level | has seen |
//! | --- | --- |
//! | `View` | whatever it read from before, in its own order |
//! | `Atomic` | whatever it reads from at all, and, with sessions, what its process did before |
//! | `Causal` | whatever leads to it over any number of reads and, with sessions, steps of processes |
//!
//! None of this depends on the commit order itself, so one pass finds all that must hold, and an order exists exactly if
//! that has no circle (saturation). `Committed` asks for no more than that writers come before their readers.
//!
//! Levels up to `Atomic` cost O(m^1.5 log m) in micro-operations m, since of a reader and what it reads from the smaller
//! is gone through. `Causal` costs O(m k), k chains that cover the transactions: sessions, or fewer.
//!
//! Sources: Biswas & Enea, "On the Complexity of Checking Transactional Consistency" (OOPSLA 2019), for the axioms;
//! Moldrup & Pavlogiannis, "AWDIT: An Optimal Weak Database Isolation Tester" (PLDI 2025), for the costs.

use std::cell::Cell;

use super::anomaly::Step;
use super::graph::{Edges, Graph, Kind, Target};
use super::input::{Input, NONE, WRITE};
use super::snapshot::{Kept, replay, schedule};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Committed,
    View,
    Atomic,
    Causal,
}

/// What an ok transaction read of another: the write, or `NONE` when it read that nothing was written.
#[derive(Clone, Copy, Debug)]
pub struct Observed {
    pub op: u32,
    pub write: u32,
}

/// One step of a circle in what the commit order must hold. `path` leads from `from`, whose write was seen, to the
/// transaction of `read`, which nevertheless read the version that `to` wrote; empty where the step needs neither.
pub struct WeakStep {
    pub step: Step,
    pub read: u32,
    pub path: Vec<Step>,
}

pub enum Weak {
    /// A commit order, confirmed by `confirm`.
    Order(Vec<u32>),
    /// No commit order exists: a circle, or a single step to a read of nothing (`to` is `NONE`).
    Circle(Vec<WeakStep>),
    /// The budget ended.
    Spent,
    Defect,
}

/// Chains whose clocks are kept at a time.
const LANES: usize = 16;
/// Components up to which a shortest circle is looked for.
const CIRCLE_MAX: usize = 64;

#[derive(Clone, Copy)]
struct Derived {
    from: u32,
    to: u32,
    /// The write that was read, or `NONE`, and its key.
    version: u32,
    key: u32,
}

pub struct Isolation<'a> {
    input: &'a Input<'a>,
    happened: &'a [bool],
    owner: Vec<u32>,
    /// By micro-operation; those of transaction t at `read_start[t]..read_start[t + 1]`.
    reads: Vec<Observed>,
    read_start: Vec<u32>,
    /// (key, micro-operation) of the last writes of transactions that happened, sorted by transaction and key.
    writes: Vec<(u32, u32)>,
    write_start: Vec<u32>,
    /// Per transaction that happened: the one of its process before it; all `NONE` without sessions.
    before: Vec<u32>,
    /// Orders of versions that are certain, and writers before readers, as far as they came with the input.
    certain: Vec<(u32, Target)>,
    nodes: usize,
    left: Cell<u64>,
}

impl<'a> Isolation<'a> {
    /// `reads` by micro-operation; `edges`: the dependencies; `sessions`: per transaction the one of its process before it;
    /// `budget`: steps.
    pub fn new(
        input: &'a Input<'a>,
        happened: &'a [bool],
        reads: Vec<Observed>,
        edges: &Edges,
        sessions: Option<&[u32]>,
        budget: u64,
    ) -> Self {
        let owner = input.owners();
        let finals = input.finals();
        let n = input.len();
        let mut read_start = vec![0_u32; n + 1];
        for read in &reads {
            read_start[owner[read.op as usize] as usize + 1] += 1;
        }
        let mut writes = Vec::new();
        let mut write_start = Vec::with_capacity(n + 1);
        write_start.push(0);
        for t in 0..n {
            read_start[t + 1] += read_start[t];
            let begin = writes.len();
            if happened[t] {
                let own = input.ops(t).filter(|&m| input.kind[m] == WRITE && finals[m]);
                writes.extend(own.map(|m| (input.key[m] as u32, m as u32)));
                writes[begin..].sort_unstable();
            }
            write_start.push(writes.len() as u32);
        }
        let before = match sessions {
            Some(predecessors) => (0..n).map(|t| if happened[t] { predecessors[t] } else { NONE }).collect(),
            None => vec![NONE; n],
        };
        Self {
            input,
            happened,
            owner,
            reads,
            read_start,
            writes,
            write_start,
            before,
            certain: edges.certain(),
            nodes: edges.nodes as usize,
            left: Cell::new(budget),
        }
    }

    fn reads_of(&self, t: u32) -> &[Observed] {
        &self.reads[self.read_start[t as usize] as usize..self.read_start[t as usize + 1] as usize]
    }

    fn writes_of(&self, t: u32) -> &[(u32, u32)] {
        &self.writes[self.write_start[t as usize] as usize..self.write_start[t as usize + 1] as usize]
    }

    fn write_of(&self, t: u32, key: u32) -> Option<u32> {
        let writes = self.writes_of(t);
        writes.binary_search_by_key(&key, |&(key, _)| key).ok().map(|place| writes[place].1)
    }

    fn key(&self, op: u32) -> u32 {
        self.input.key[op as usize] as u32
    }

    /// The transaction that wrote what was read; `NONE` for nothing.
    fn writer(&self, read: Observed) -> u32 {
        if read.write == NONE { NONE } else { self.owner[read.write as usize] }
    }

    /// Find a commit order, or why there is none.
    pub fn solve(&self, level: Level, lists: bool) -> Weak {
        let mut edges = self.certain.clone();
        for t in (0..self.input.len() as u32).filter(|&t| self.before[t as usize] != NONE) {
            edges.push((self.before[t as usize], Target::new(t, Kind::Process)));
        }
        let graph = Graph::new(self.nodes, &edges);
        let sorted = graph.order();
        if sorted.len() < graph.nodes() {
            return self.circle(&graph, &sorted, &[], level);
        }
        let mut derived = Vec::new();
        match level {
            Level::Committed => {}
            Level::View => self.seen_before(&mut derived),
            Level::Atomic => self.seen_at_all(&mut derived),
            Level::Causal => {
                if !self.seen_causally(&sorted, &mut derived) {
                    return Weak::Spent;
                }
            }
        }
        if let Some(&nothing) = derived.iter().find(|derived| derived.to == NONE) {
            return match self.explain(nothing, level) {
                Some(step) => Weak::Circle(vec![step]),
                None => Weak::Defect,
            };
        }
        derived.sort_unstable_by_key(|edge| (edge.from, edge.to));
        derived.dedup_by_key(|edge| (edge.from, edge.to));
        edges.extend(derived.iter().map(|edge| (edge.from, Target::new(edge.to, Kind::Ww))));
        let graph = Graph::new(self.nodes, &edges);
        let sorted = graph.order();
        if sorted.len() < graph.nodes() {
            return self.circle(&graph, &sorted, &derived, level);
        }
        let order = super::replay::of(&sorted, self.happened);
        match self.confirm(&order, level, lists) {
            Some(true) => Weak::Order(order),
            Some(false) => Weak::Defect,
            None => Weak::Spent,
        }
    }

    /// A schedule of snapshot isolation, confirmed; `Spent` where none was found, which says nothing.
    pub fn schedule(self, are_lists: bool, kept: Kept, predecessors: &[u32]) -> Weak {
        let mut derived = Vec::new();
        self.seen_at_all(&mut derived);
        let mut edges = self.certain.clone();
        edges.extend(
            derived.iter().filter(|edge| edge.to != NONE).map(|edge| (edge.from, Target::new(edge.to, Kind::Ww))),
        );
        let graph = Graph::new(self.nodes, &edges);
        let before: Vec<u32> =
            (0..self.input.len()).map(|t| if self.happened[t] { predecessors[t] } else { NONE }).collect();
        match schedule(self.input, &graph, self.happened, &self.reads, &before, kept) {
            None => Weak::Spent,
            Some(found) if replay(self.input, &found, &before, are_lists, kept) => Weak::Order(found),
            Some(_) => Weak::Spent,
        }
    }

    fn spend(&self, steps: u64) -> bool {
        let left = self.left.get().saturating_sub(steps);
        self.left.set(left);
        left > 0
    }

    fn derive(&self, from: u32, read: Observed, derived: &mut Vec<Derived>) {
        let to = self.writer(read);
        if from != to {
            derived.push(Derived { from, to, version: read.write, key: self.key(read.op) });
        }
    }

    /// Reads in reverse: what was read from at this place, against the next read of each key after it.
    fn seen_before(&self, derived: &mut Vec<Derived>) {
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
    fn seen_at_all(&self, derived: &mut Vec<Derived>) {
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
    fn seen_causally(&self, sorted: &[u32], derived: &mut Vec<Derived>) -> bool {
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
        let mut clocks = vec![[0_u32; LANES]; n];
        for begin in (0..chains).step_by(LANES) {
            let cost = (n + self.reads.len() + keys.len()) as u64;
            if !self.spend(cost) {
                return false;
            }
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

    /// A circle of the graph, each step explained.
    fn circle(&self, graph: &Graph, sorted: &[u32], derived: &[Derived], level: Level) -> Weak {
        let mut open = vec![true; graph.nodes()];
        for &node in sorted {
            open[node as usize] = false;
        }
        let components = graph.components(|node| open[node as usize], |_, _| true);
        let Some(nodes) = components.iter().min_by_key(|nodes| nodes.len()) else { return Weak::Defect };
        let mut found = super::registers::circle(graph, nodes, CIRCLE_MAX);
        // Virtual nodes stand for edges from the transaction before to the one after.
        found.retain(|&node| (node as usize) < self.input.len());
        let steps: Option<Vec<WeakStep>> = (0..found.len())
            .map(|at| self.step(graph, found[at], found[(at + 1) % found.len()], derived, level))
            .collect();
        steps.map_or(Weak::Defect, Weak::Circle)
    }

    fn step(&self, graph: &Graph, from: u32, to: u32, derived: &[Derived], level: Level) -> Option<WeakStep> {
        if let Ok(place) = derived.binary_search_by_key(&(from, to), |edge| (edge.from, edge.to)) {
            return self.explain(derived[place], level);
        }
        if let Some(step) = self.read_step(from, to) {
            return Some(WeakStep { step, read: NONE, path: Vec::new() });
        }
        let direct = graph.from(from).iter().find(|target| target.node() == to).map(|target| target.kind());
        let kind = direct.unwrap_or(Kind::Ww);
        Some(WeakStep { step: Step::new(from, to, kind), read: NONE, path: Vec::new() })
    }

    /// One transaction read what the other wrote.
    fn read_step(&self, from: u32, to: u32) -> Option<Step> {
        let read = self.reads_of(to).iter().find(|&&read| self.writer(read) == from)?;
        let mut step = Step::new(from, to, Kind::Wr);
        (step.from_op, step.to_op) = (read.write, read.op);
        Some(step)
    }

    /// Why a transaction comes before another: who read from the other although it had to have seen the one.
    fn explain(&self, edge: Derived, level: Level) -> Option<WeakStep> {
        let mut step = Step::new(edge.from, edge.to, Kind::Ww);
        step.from_op = self.write_of(edge.from, edge.key)?;
        step.to_op = edge.version;
        let readers: Vec<Observed> = self
            .reads
            .iter()
            .filter(|read| read.write == edge.version && self.key(read.op) == edge.key)
            .copied()
            .collect();
        let (read, path) = match level {
            Level::Committed => return None,
            Level::View => readers.iter().find_map(|&read| {
                let reader = self.owner[read.op as usize];
                let mut earlier = self.reads_of(reader).iter().filter(|other| other.op < read.op);
                let via = earlier.find(|&&other| self.writer(other) == edge.from)?;
                let mut step = Step::new(edge.from, reader, Kind::Wr);
                (step.from_op, step.to_op) = (via.write, via.op);
                Some((read, vec![step]))
            })?,
            Level::Atomic => readers.iter().find_map(|&read| {
                let reader = self.owner[read.op as usize];
                if let Some(step) = self.read_step(edge.from, reader) {
                    return Some((read, vec![step]));
                }
                let mut earlier = self.before[reader as usize];
                while earlier != NONE && earlier != edge.from {
                    earlier = self.before[earlier as usize];
                }
                (earlier != NONE).then(|| (read, vec![Step::new(edge.from, reader, Kind::Process)]))
            })?,
            Level::Causal => self.path(edge.from, &readers)?,
        };
        Some(WeakStep { step, read: read.op, path })
    }

    /// A shortest way over reads and steps of processes from a transaction to one of some readers.
    fn path(&self, from: u32, readers: &[Observed]) -> Option<(Observed, Vec<Step>)> {
        let mut towards: Vec<Option<Step>> = vec![None; self.input.len()];
        let mut is_met = vec![false; self.input.len()];
        let mut queue = Vec::new();
        for read in readers {
            let reader = self.owner[read.op as usize];
            if !std::mem::replace(&mut is_met[reader as usize], true) {
                queue.push(reader);
            }
        }
        let mut next = 0;
        while next < queue.len() {
            let to = queue[next];
            next += 1;
            let process = Some(self.before[to as usize]).filter(|&before| before != NONE);
            let process = process.map(|before| Step::new(before, to, Kind::Process));
            let read = self.reads_of(to).iter().filter(|read| read.write != NONE).map(|&read| {
                let mut step = Step::new(self.writer(read), to, Kind::Wr);
                (step.from_op, step.to_op) = (read.write, read.op);
                step
            });
            for step in process.into_iter().chain(read) {
                let before = step.from;
                if before != from && std::mem::replace(&mut is_met[before as usize], true) {
                    continue;
                }
                towards[before as usize] = Some(step);
                if before != from {
                    queue.push(before);
                    continue;
                }
                let mut path = vec![];
                let mut at = from;
                while let Some(step) = towards[at as usize].take() {
                    at = step.to;
                    path.push(step);
                }
                let read = readers.iter().find(|read| self.owner[read.op as usize] == at)?;
                return Some((*read, path));
            }
        }
        None
    }

    /// Whether a commit order keeps the level: from the rows and the places in the order alone, without what was
    /// derived. None when the budget ended.
    fn confirm(&self, order: &[u32], level: Level, lists: bool) -> Option<bool> {
        let n = self.input.len();
        let mut at = vec![NONE; n];
        for (place, &t) in order.iter().enumerate() {
            at[t as usize] = place as u32;
        }
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
            Level::View | Level::Atomic => {
                let reads = (0..n as u32).all(|t| {
                    self.reads_of(t).iter().all(|&read| {
                        let key = self.key(read.op);
                        self.reads_of(t)
                            .iter()
                            .filter(|other| other.write != NONE && (level == Level::Atomic || other.op < read.op))
                            .map(|&other| self.writer(other))
                            .all(|seen| at[seen as usize] < written(read) || self.write_of(seen, key).is_none())
                    })
                });
                Some(reads && (level == Level::View || self.own_process_seen(&at, written)))
            }
            Level::Causal => self.causes_seen(order, &at, written),
        }
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

    /// Per key, along the order from its first write to its last read: the latest write that each transaction knows of.
    fn causes_seen(&self, order: &[u32], at: &[u32], written: impl Fn(Observed) -> u32) -> Option<bool> {
        let keys = self.input.keys();
        let (mut first, mut last) = (vec![NONE; keys], vec![0_u32; keys]);
        for (place, &t) in order.iter().enumerate() {
            for &(key, _) in self.writes_of(t) {
                first[key as usize] = first[key as usize].min(place as u32);
            }
            for read in self.reads_of(t) {
                last[self.key(read.op) as usize] = place as u32;
            }
        }
        let mut known = vec![0_u32; order.len()];
        for key in (0..keys).filter(|&key| first[key] < last[key]) {
            for place in first[key]..=last[key] {
                if !self.spend(1) {
                    return None;
                }
                let t = order[place as usize];
                let knows = |from: u32| {
                    let from = at[from as usize];
                    if from < first[key] {
                        return 0;
                    }
                    let wrote = self.write_of(order[from as usize], key as u32).is_some();
                    known[from as usize].max(if wrote { from + 1 } else { 0 })
                };
                let before = self.before[t as usize];
                let mut latest = if before == NONE { 0 } else { knows(before) };
                for &read in self.reads_of(t).iter().filter(|read| read.write != NONE) {
                    latest = latest.max(knows(self.writer(read)));
                }
                known[place as usize] = latest;
                let mut own = self.reads_of(t).iter().filter(|read| self.key(read.op) as usize == key);
                if own.any(|&read| written(read) < latest) {
                    return Some(false);
                }
            }
        }
        Some(true)
    }
}
