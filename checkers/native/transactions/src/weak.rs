//! Weak isolation: decide whether one commit order keeps read committed, atomic reads or causality.
//!
//! Let a transaction read key x from T1, and let T2 be another writer of x that it must have seen. Then T2 comes before
//! T1 in the commit order. `Level` says which transactions it must have seen.
//!
//! This does not depend on the commit order itself. So one pass finds all constraints, and an order exists exactly if
//! they have no circle (saturation). `Committed` only requires that writers come before their readers. For `Causal`,
//! an order is tried before that pass. Where keys are short-lived, up to eight are, each of which also keeps the
//! constraints that the earlier ones broke.
//!
//! Levels up to `Atomic` cost O(m^1.5 log m) in micro-operations m, since only the smaller of a reader and the
//! transactions it reads from is searched. `Causal` costs O(m k), for k chains that cover the transactions: sessions,
//! or fewer.
//!
//! Sources: Biswas & Enea, "On the Complexity of Checking Transactional Consistency" (OOPSLA 2019), for the axioms;
//! Moldrup & Pavlogiannis, "AWDIT: An Optimal Weak Database Isolation Tester" (PLDI 2025), for the costs.

use std::cell::Cell;

use super::anomaly::Step;
use super::causality::Causes;
use super::graph::{self, Graph, Kind, Target};
use super::input::{Input, Kept, NONE, Observed, WRITE};
use super::snapshot::{Schedule, replay, schedule};
use limits::{Stop, interrupt};

/// A level of weak isolation, by what a transaction must have seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Nothing: writers only come before their readers.
    Committed,
    /// The transactions that it read from earlier, in its own order.
    View,
    /// All that it reads from and, with sessions, the earlier ones of its process.
    Atomic,
    /// All that lead to it by any number of reads and, with sessions, steps of processes.
    Causal,
}

/// One step of a circle in what the commit order must hold. `path` leads from `from`, whose write was seen, to the
/// transaction of `read`, which nevertheless read the version that `to` wrote; empty where the step needs neither.
pub struct WeakStep {
    /// The one transaction before the other.
    pub step: Step,
    /// The read that shows it.
    pub read: u32,
    /// By what the reader had to have seen the write.
    pub path: Vec<Step>,
}

/// What a search for a commit order, or for a schedule, came to.
pub enum Weak {
    /// A commit order, confirmed by `confirm`.
    Order(Vec<u32>),
    /// No commit order exists: a circle, or a single step to a read of nothing (`to` is `NONE`).
    Circle(Vec<WeakStep>),
    /// Neither, and what of the budget ended the search; None where that is only not thorough.
    NotFound(Option<Stop>),
    /// An answer that the rows do not confirm.
    Defect,
}

/// How often an order that lacks some causality is mended before all causality is found at once.
const MENDED_MAX: usize = 8;
/// Components up to which a shortest circle is looked for.
const CIRCLE_MAX: usize = 64;

#[derive(Clone, Copy)]
pub struct Derived {
    pub from: u32,
    pub to: u32,
    /// The write that was read, or `NONE`, and its key.
    pub version: u32,
    pub key: u32,
}

pub struct Isolation<'a> {
    pub input: &'a Input<'a>,
    pub happened: &'a [bool],
    pub owner: &'a [u32],
    /// By micro-operation; those of transaction t at `read_start[t]..read_start[t + 1]`.
    pub reads: &'a [Observed],
    pub read_start: Vec<u32>,
    /// (key, micro-operation) of the last writes of transactions that happened, sorted by transaction and key.
    pub writes: Vec<(u32, u32)>,
    write_start: Vec<u32>,
    /// Per transaction that happened: the one of its process before it; all `NONE` without sessions.
    pub before: Vec<u32>,
    /// Orders of versions that are certain, and writers before readers, as far as they came with the input.
    certain: Vec<(u32, Target)>,
    nodes: usize,
    left: Cell<u64>,
}

impl<'a> Isolation<'a> {
    /// `rows`: the transaction of each micro-operation, and whether it is the last write to its key there; `reads` by
    /// micro-operation; `certain`: what any commit order keeps, over `nodes`; `sessions`: per transaction the one of its
    /// process before it; `budget`: steps.
    pub fn new(
        input: &'a Input<'a>,
        happened: &'a [bool],
        (owner, is_final): (&'a [u32], &[bool]),
        reads: &'a [Observed],
        (nodes, certain): (u32, Vec<(u32, Target)>),
        sessions: Option<&[u32]>,
        budget: u64,
    ) -> Self {
        let n = input.len();
        let mut read_start = vec![0_u32; n + 1];
        for read in reads {
            read_start[owner[read.op as usize] as usize + 1] += 1;
        }
        let mut writes = Vec::with_capacity(input.kind.len() - reads.len());
        let mut write_start = Vec::with_capacity(n + 1);
        write_start.push(0);
        for t in 0..n {
            read_start[t + 1] += read_start[t];
            let begin = writes.len();
            if happened[t] {
                let own = input.ops(t).filter(|&m| input.kind[m] == WRITE && is_final[m]);
                writes.extend(own.map(|m| (input.key[m] as u32, m as u32)));
                writes[begin..].sort_unstable();
            }
            write_start.push(writes.len() as u32);
        }
        let before = match sessions {
            Some(predecessors) => (0..n).map(|t| if happened[t] { predecessors[t] } else { NONE }).collect(),
            None => vec![NONE; n],
        };
        let left = Cell::new(budget);
        let nodes = nodes as usize;
        Self { input, happened, owner, reads, read_start, writes, write_start, before, certain, nodes, left }
    }

    pub fn reads_of(&self, t: u32) -> &[Observed] {
        &self.reads[self.read_start[t as usize] as usize..self.read_start[t as usize + 1] as usize]
    }

    pub fn writes_of(&self, t: u32) -> &[(u32, u32)] {
        &self.writes[self.write_start[t as usize] as usize..self.write_start[t as usize + 1] as usize]
    }

    pub fn write_of(&self, t: u32, key: u32) -> Option<u32> {
        let writes = self.writes_of(t);
        writes.binary_search_by_key(&key, |&(key, _)| key).ok().map(|place| writes[place].1)
    }

    pub fn key(&self, op: u32) -> u32 {
        self.input.key[op as usize] as u32
    }

    /// The transaction that wrote what was read; `NONE` for nothing.
    pub fn writer(&self, read: Observed) -> u32 {
        if read.write == NONE { NONE } else { self.owner[read.write as usize] }
    }

    /// Find a commit order, or why there is none.
    pub fn solve(&mut self, level: Level, lists: bool) -> Weak {
        let mut certain = std::mem::take(&mut self.certain);
        for t in (0..self.input.len() as u32).filter(|&t| self.before[t as usize] != NONE) {
            certain.push((self.before[t as usize], Target::new(t, Kind::Process)));
        }
        let causal = level == Level::Causal;
        let due = if causal { self.input.by_completion(self.happened) } else { Vec::new() };
        let mut derived = Vec::new();
        match level {
            Level::Committed => {}
            Level::View => self.seen_before(&mut derived),
            Level::Atomic | Level::Causal => self.seen_at_all(&mut derived),
        }
        // Of causality, what an order lacks is mostly little: it is found by looking through the order, and mended.
        for round in 0.. {
            let edges = with(&certain, &derived);
            let order = if causal {
                Graph::backwards(self.nodes, edges).just_in_time(due.iter().copied())
            } else {
                Some(Graph::new(self.nodes, edges).order()).filter(|order| order.len() == self.nodes)
            };
            let Some(order) = order.filter(|_| derived.iter().all(|edge| edge.to != NONE)) else {
                return self.refute(&certain, derived, level);
            };
            let order = super::replay::of(&order, self.happened);
            let mut missing = Vec::new();
            match self.confirm(&order, level, lists, &mut missing) {
                Some(true) => return Weak::Order(order),
                None => return Weak::NotFound(Some(interrupt::spent())),
                Some(false) if missing.is_empty() || round > MENDED_MAX => return Weak::Defect,
                Some(false) if round < MENDED_MAX => derived.append(&mut missing),
                Some(false) => {
                    let at = self.places(&order);
                    if !self.seen_causally(&Causes::new(self, &order, &at), &mut derived) {
                        return Weak::NotFound(Some(interrupt::spent()));
                    }
                }
            }
        }
        Weak::Defect
    }

    /// Why no order exists of what is certain and what was derived.
    fn refute(&self, certain: &[(u32, Target)], mut derived: Vec<Derived>, level: Level) -> Weak {
        derived.sort_unstable_by_key(|edge| (edge.from, edge.to));
        derived.dedup_by_key(|edge| (edge.from, edge.to));
        let graph = Graph::new(self.nodes, certain.iter().copied());
        let sorted = graph.order();
        if sorted.len() < graph.nodes() {
            return self.circle(&graph, &sorted, &[], level);
        }
        if let Some(&nothing) = derived.iter().find(|derived| derived.to == NONE) {
            return self.explain(nothing, level).map_or(Weak::Defect, |step| Weak::Circle(vec![step]));
        }
        let graph = Graph::new(self.nodes, with(certain, &derived));
        self.circle(&graph, &graph.order(), &derived, level)
    }

    /// A schedule of snapshot isolation for registers, confirmed; None where none was found, which says nothing.
    pub fn schedule(self, kept: Kept, before: &[u32]) -> Option<Schedule> {
        let mut derived = Vec::new();
        self.seen_at_all(&mut derived);
        let graph = Graph::new(self.nodes, with(&self.certain, &derived));
        let found = schedule(self.input, &graph, self.happened, self.reads, before, kept)?;
        replay(self.input, &found, before, false, kept).then_some(found)
    }

    pub fn spend(&self, steps: u64) -> bool {
        let left = interrupt::spend(self.left.get(), steps);
        self.left.set(left);
        left > 0
    }

    /// A circle of the graph, each step explained.
    fn circle(&self, graph: &Graph, sorted: &[u32], derived: &[Derived], level: Level) -> Weak {
        let mut open = vec![true; graph.nodes()];
        for &node in sorted {
            open[node as usize] = false;
        }
        let components = graph.components(|node| open[node as usize], |_, _| true);
        let Some(nodes) = components.iter().min_by_key(|nodes| nodes.len()) else { return Weak::Defect };
        let mut found = graph::circle(graph, nodes, CIRCLE_MAX);
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
}

/// What is certain, and what was derived but of nothing.
fn with(certain: &[(u32, Target)], derived: &[Derived]) -> impl Iterator<Item = (u32, Target)> + Clone {
    let derived = derived.iter().filter(|edge| edge.to != NONE);
    certain.iter().copied().chain(derived.map(|edge| (edge.from, Target::new(edge.to, Kind::Ww))))
}
