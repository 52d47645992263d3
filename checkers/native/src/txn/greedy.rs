//! An order of transactions on registers, placed one after the other: whichever is due first among those that may follow.
//!
//! A transaction may follow when all that precede it are placed and it overwrites no version that somebody has yet to
//! read. When nothing may follow, some writer waits for a reader that itself must follow that writer: so the version
//! read was written too early. The writer is put before it for good, and the order is taken back to that point. That is
//! no complete search (the problem is NP-hard: Papadimitriou 1979): where no such pair is found, the order is given up.
//!
//! A transaction is due when the first of those that must follow it was completed.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use super::graph::{Graph, Kind, Target};
use super::input::{Input, WRITE};
use super::registers::Registers;

/// Nodes looked at to find out whether a writer must precede a reader.
const LOOK_MAX: usize = 4096;
/// Placements taken back, as a multiple of the nodes, before the order is given up.
const UNDO_MAX: usize = 8;

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
        if undone > UNDO_MAX * graph.nodes() {
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

    /// A blocked writer that a reader of the version it waits for must follow, and that version.
    fn conflict(&mut self) -> Option<(u32, u32)> {
        if self.backwards.is_none() {
            let mut edges = Vec::new();
            for node in 0..self.graph.nodes() as u32 {
                edges.extend(self.graph.from(node).iter().map(|to| (to.node(), Target::new(node, Kind::Pass))));
            }
            self.backwards = Some(Graph::new(self.graph.nodes(), &edges));
        }
        let backwards = self.backwards.as_ref()?;
        self.blocked.iter().find_map(|&(writer, key)| {
            let version = self.held[key];
            if !self.registers.is_write(version) {
                return None;
            }
            let from = self.readers.partition_point(|&(other, _)| other < version);
            let mut open: Vec<u32> = self.readers[from..]
                .iter()
                .take_while(|&&(other, _)| other == version)
                .map(|&(_, t)| t)
                .filter(|&t| t != writer && !self.is_placed[t as usize])
                .collect();
            let mut seen: BTreeSet<u32> = open.iter().copied().collect();
            while let Some(node) = open.pop() {
                if node == writer {
                    return Some((writer, version));
                }
                let learned = self.before.get(&node).into_iter().flatten().copied();
                for before in backwards.from(node).iter().map(|target| target.node()).chain(learned) {
                    if !self.is_placed[before as usize] && seen.len() < LOOK_MAX && seen.insert(before) {
                        open.push(before);
                    }
                }
            }
            None
        })
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
