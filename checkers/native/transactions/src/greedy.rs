//! Find an order of transactions on registers, by placing the one that is due first among those that may follow.
//!
//! A transaction may follow if all its predecessors are placed and it overwrites no version that a transaction must
//! still read. If none may follow, some writer waits for a reader that must itself follow that writer, so the version
//! that is to be read was written too early. The writer is then put before that version permanently, and the order is
//! taken back to that point. If several writers wait for each other's readers in a circle, this is done with one of
//! them.
//!
//! The search is not complete (the problem is NP-hard: Papadimitriou 1979). If no writer can be moved, or too much was
//! taken back, it gives up.
//!
//! A transaction is due when the first of its successors was completed.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use super::graph::{Graph, Kind, Target};
use super::input::{Input, WRITE};
use super::registers::Registers;
use limits::interrupt;

/// Nodes looked at to find out whether a writer must precede a reader.
const LOOK_MAX: usize = 4096;
/// Placements taken back, as a multiple of the nodes, before the order is given up.
const UNDO_MAX: usize = 4;

pub type Due = (i64, Reverse<u32>);

/// `sorted`: all nodes of `graph`, each after its predecessors. None where no order was found.
pub fn order(graph: &Graph, sorted: &[u32], input: &Input<'_>, registers: &Registers<'_>) -> Option<Vec<u32>> {
    let mut placing = Placing::new(graph, sorted, input, registers);
    let mut undone = 0;
    loop {
        placing.run();
        if placing.placed.len() == graph.nodes() {
            let happened = |&node: &u32| registers.happened.get(node as usize).copied().unwrap_or(false);
            return Some(placing.placed.into_iter().filter(happened).collect());
        }
        let (writer, version) = placing.conflict()?;
        let before = placing.placed.len();
        placing.put_before(writer, version);
        undone += before - placing.placed.len();
        if undone > UNDO_MAX * graph.nodes() || interrupt::stop().is_some() {
            return None;
        }
    }
}

struct Placing<'a> {
    graph: &'a Graph,
    input: &'a Input<'a>,
    registers: &'a Registers<'a>,
    due: Vec<Due>,
    /// Per node: its predecessors that are not placed.
    waiting: Vec<u32>,
    is_placed: Vec<bool>,
    placed: Vec<u32>,
    /// Per placed node: where it stands in `placed`.
    place: Vec<u32>,
    /// Nodes whose predecessors are placed, but for those in `blocked`.
    ready: BTreeSet<(Due, u32)>,
    /// Writers that wait for the version that their key holds to be read, with the key.
    blocked: Vec<(u32, usize)>,
    /// (transaction, version) and (version, transaction) of all reads, sorted.
    reads: Vec<(u32, u32)>,
    readers: Vec<(u32, u32)>,
    /// Per version: reads of it that are not placed. Per key: the version that it holds.
    unread: Vec<u32>,
    held: Vec<u32>,
    /// What keys held before each placed write, in order.
    overwritten: Vec<(usize, u32)>,
    /// Edges learned, both ways.
    after: HashMap<u32, Vec<u32>>,
    before: HashMap<u32, Vec<u32>>,
    backwards: Option<Graph>,
    /// Per node: the last walk that met it; and the number of walks.
    marks: Vec<u32>,
    mark: u32,
}

impl<'a> Placing<'a> {
    fn new(graph: &'a Graph, sorted: &[u32], input: &'a Input<'a>, registers: &'a Registers<'a>) -> Self {
        let due = due(graph, sorted, input);
        let mut waiting = vec![0_u32; graph.nodes()];
        for &node in sorted {
            for target in graph.from(node) {
                waiting[target.node() as usize] += 1;
            }
        }
        let mut reads: Vec<(u32, u32)> = registers.external().collect();
        reads.sort_unstable();
        let mut readers: Vec<(u32, u32)> = reads.iter().map(|&(t, version)| (version, t)).collect();
        readers.sort_unstable();
        let mut unread = vec![0; input.kind.len() + input.keys()];
        for &(_, version) in &reads {
            unread[version as usize] += 1;
        }
        let first = sorted.iter().filter(|&&node| waiting[node as usize] == 0);
        Self {
            graph,
            input,
            registers,
            ready: first.map(|&node| (due[node as usize], node)).collect(),
            due,
            waiting,
            is_placed: vec![false; graph.nodes()],
            place: vec![0; graph.nodes()],
            placed: Vec::with_capacity(graph.nodes()),
            blocked: Vec::new(),
            reads,
            readers,
            unread,
            held: (0..input.keys()).map(|key| (input.kind.len() + key) as u32).collect(),
            overwritten: Vec::new(),
            after: HashMap::new(),
            before: HashMap::new(),
            backwards: None,
            marks: vec![0; graph.nodes()],
            mark: 0,
        }
    }

    fn happened(&self, node: u32) -> bool {
        self.registers.happened.get(node as usize).copied().unwrap_or(false)
    }

    /// Places of a transaction's reads in `reads`.
    fn own(&self, t: u32) -> std::ops::Range<usize> {
        let from = self.reads.partition_point(|&(other, _)| other < t);
        from..from + self.reads[from..].partition_point(|&(other, _)| other == t)
    }

    /// The key of a version that somebody else has yet to read and that a transaction would overwrite.
    fn blocking(&self, t: u32) -> Option<usize> {
        let own = &self.reads[self.own(t)];
        let blocking = self.input.ops(t as usize).find(|&m| {
            let held = self.held[self.input.key[m] as usize];
            let mine = own.iter().filter(|&&(_, version)| version == held).count() as u32;
            self.input.kind[m] == WRITE && self.unread[held as usize] > mine
        })?;
        Some(self.input.key[blocking] as usize)
    }

    /// Place what may follow until nothing may.
    fn run(&mut self) {
        while let Some((_, node)) = self.ready.pop_first() {
            if self.happened(node) {
                if let Some(key) = self.blocking(node) {
                    self.blocked.push((node, key));
                    continue;
                }
                self.carry_out(node);
            }
            self.is_placed[node as usize] = true;
            self.place[node as usize] = self.placed.len() as u32;
            self.placed.push(node);
            let learned = self.after.get(&node).into_iter().flatten().copied();
            for next in self.graph.from(node).iter().map(|target| target.node()).chain(learned) {
                self.waiting[next as usize] -= 1;
                if self.waiting[next as usize] == 0 {
                    self.ready.insert((self.due[next as usize], next));
                }
            }
        }
    }

    fn carry_out(&mut self, t: u32) {
        for place in self.own(t) {
            self.unread[self.reads[place].1 as usize] -= 1;
        }
        for m in self.input.ops(t as usize).filter(|&m| self.registers.leaves(m)) {
            let key = self.input.key[m] as usize;
            self.overwritten.push((key, self.held[key]));
            self.held[key] = m as u32;
        }
        let (held, unread) = (&self.held, &self.unread);
        let mut freed = Vec::new();
        self.blocked.retain(|&(node, key)| {
            let wait = unread[held[key] as usize] > 1;
            if !wait {
                freed.push(node);
            }
            wait
        });
        self.ready.extend(freed.into_iter().map(|node| (self.due[node as usize], node)));
    }

    /// A blocked writer to be put before the version that it waits for, and that version.
    ///
    /// Each blocked writer waits for readers of a version, and these for other blocked writers. Where a reader waits for
    /// the writer that waits for it, the writer belongs before the version; in a longer circle one of them does, and the
    /// one is taken that takes back least.
    fn conflict(&mut self) -> Option<(u32, u32)> {
        if self.backwards.is_none() {
            let mut edges = Vec::new();
            for node in 0..self.graph.nodes() as u32 {
                edges.extend(self.graph.from(node).iter().map(|to| (to.node(), Target::new(node, Kind::Pass))));
            }
            self.backwards = Some(Graph::new(self.graph.nodes(), edges.iter().copied()));
        }
        let blocked = self.blocked.clone();
        let mut waits: Vec<Vec<usize>> = Vec::with_capacity(blocked.len());
        for &(writer, key) in &blocked {
            let version = self.held[key];
            let from = self.readers.partition_point(|&(other, _)| other < version);
            let readers = self.readers[from..].iter().take_while(|&&(other, _)| other == version).map(|&(_, t)| t);
            let open: Vec<u32> = readers.filter(|&t| t != writer && !self.is_placed[t as usize]).collect();
            let mark = self.mark_behind(open, |placing, node| !placing.is_placed[node as usize]);
            if self.marks[writer as usize] == mark {
                if self.registers.is_write(version) {
                    return Some((writer, version));
                }
                waits.push(Vec::new());
                continue;
            }
            waits.push((0..blocked.len()).filter(|&at| self.marks[blocked[at].0 as usize] == mark).collect());
        }
        // Of all who wait in a circle, the one whose version was written last.
        let mut best = None;
        for at in (0..blocked.len()).filter(|&at| leads_to_itself(&waits, at)) {
            let (writer, key) = blocked[at];
            let version = self.held[key];
            if !self.registers.is_write(version) {
                continue;
            }
            let early = self.registers.writer(version);
            let place = self.place[early as usize];
            let since =
                |placing: &Self, node: u32| !placing.is_placed[node as usize] || placing.place[node as usize] >= place;
            let mark = self.mark_behind(vec![writer], since);
            if self.marks[early as usize] != mark {
                best = best.max(Some((place, writer, version)));
            }
        }
        best.map(|(_, writer, version)| (writer, version))
    }

    /// Mark the nodes that some nodes must follow, and these, as far as `open` lets through and no more than `LOOK_MAX`;
    /// the mark.
    fn mark_behind(&mut self, mut waiting: Vec<u32>, open: impl Fn(&Self, u32) -> bool) -> u32 {
        self.mark += 1;
        let mark = self.mark;
        for &node in &waiting {
            self.marks[node as usize] = mark;
        }
        let mut seen = waiting.len();
        let Some(backwards) = self.backwards.take() else { return mark };
        while let Some(node) = waiting.pop() {
            let learned = self.before.get(&node).into_iter().flatten().copied();
            for before in backwards.from(node).iter().map(|target| target.node()).chain(learned) {
                if self.marks[before as usize] != mark && seen < LOOK_MAX && open(self, before) {
                    self.marks[before as usize] = mark;
                    seen += 1;
                    waiting.push(before);
                }
            }
        }
        self.backwards = Some(backwards);
        mark
    }

    /// Take the order back to before `version` was written, and have `writer` precede that for good.
    fn put_before(&mut self, writer: u32, version: u32) {
        let early = self.registers.writer(version);
        for (node, _) in std::mem::take(&mut self.blocked) {
            self.ready.insert((self.due[node as usize], node));
        }
        while self.is_placed[early as usize]
            && let Some(node) = self.placed.pop()
        {
            self.is_placed[node as usize] = false;
            let learned = self.after.get(&node).into_iter().flatten().copied();
            for next in self.graph.from(node).iter().map(|target| target.node()).chain(learned) {
                if self.waiting[next as usize] == 0 {
                    self.ready.remove(&(self.due[next as usize], next));
                }
                self.waiting[next as usize] += 1;
            }
            if self.happened(node) {
                for place in self.own(node) {
                    self.unread[self.reads[place].1 as usize] += 1;
                }
                for _ in self.input.ops(node as usize).filter(|&m| self.registers.leaves(m)) {
                    if let Some((key, held)) = self.overwritten.pop() {
                        self.held[key] = held;
                    }
                }
            }
            self.ready.insert((self.due[node as usize], node));
        }
        self.ready.remove(&(self.due[early as usize], early));
        self.waiting[early as usize] += 1;
        self.after.entry(writer).or_default().push(early);
        self.before.entry(early).or_default().push(writer);
    }
}

/// Whether who waits for whom leads from a place back to it.
fn leads_to_itself(waits: &[Vec<usize>], begin: usize) -> bool {
    let mut seen = vec![false; waits.len()];
    let mut open = waits[begin].clone();
    while let Some(at) = open.pop() {
        if at == begin {
            return true;
        }
        if !std::mem::replace(&mut seen[at], true) {
            open.extend(&waits[at]);
        }
    }
    false
}

/// When each node is due: the earliest completion among itself and what follows, the one further from it first.
pub fn due(graph: &Graph, sorted: &[u32], input: &Input<'_>) -> Vec<Due> {
    let mut due = vec![(i64::MAX, Reverse(0)); graph.nodes()];
    for &node in sorted.iter().rev() {
        let t = node as usize;
        let own = if t < input.len() && input.is_ok(t) { input.completed[t] } else { i64::MAX };
        due[t] = graph
            .from(node)
            .iter()
            .map(|target| due[target.node() as usize])
            .map(|(end, Reverse(far))| (end, Reverse(far + 1)))
            .chain([(own, Reverse(0))])
            .min()
            .unwrap_or((own, Reverse(0)));
    }
    due
}
