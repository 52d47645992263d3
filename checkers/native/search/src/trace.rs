//! How each live configuration came to be, as a tree of steps with shared beginnings.
//!
//! Operations that only read are not stored. They take effect as soon as the state allows it, so following the same
//! path again finds them. Whenever the tree has doubled, dead branches are dropped, so its size follows the live
//! configurations.

use super::events::{Events, is_return, operation};
use super::model::Model;
use crate::history::Op;
use limits::growth;

const ROOT: u32 = u32::MAX;
/// The operation went in just before the last overwriting one.
const ABSORBED: u32 = 1 << 31;
/// Not an operation but a group of them: the first that is not in yet.
const GROUP: u32 = 1 << 30;

#[derive(Clone, Copy)]
struct Node {
    /// Index of an operation or a group, and one of the bits above.
    step: u32,
    parent: u32,
    /// Number of the event at which it went in.
    at: u32,
}

pub struct Trace {
    nodes: Vec<Node>,
    collect_at: usize,
    memory_bytes: usize,
    /// How many steps there were at once.
    most: usize,
}

impl Trace {
    pub const START: u32 = ROOT;
    /// Tests are short, and are to collect too.
    const COLLECT_MIN: usize = if cfg!(test) { 1 << 6 } else { 1 << 16 };

    /// `memory_bytes`: what it may take at the very most.
    pub fn new(memory_bytes: usize) -> Self {
        Trace { nodes: Vec::new(), collect_at: Trace::COLLECT_MIN, memory_bytes, most: 0 }
    }

    #[inline]
    pub fn push(&mut self, parent: u32, op: u32, at: u32) -> u32 {
        growth::push(&mut self.nodes, Node { step: op, parent, at }, self.memory_bytes);
        (self.nodes.len() - 1) as u32
    }

    #[inline]
    pub fn push_absorbed(&mut self, parent: u32, op: u32, at: u32) -> u32 {
        self.push(parent, op | ABSORBED, at)
    }

    pub fn push_group(&mut self, parent: u32, group: u32, at: u32) -> u32 {
        self.push(parent, group | GROUP, at)
    }

    pub fn bytes(&self) -> usize {
        // While it is collected, each node's new place stands beside it.
        self.most.max(self.nodes.len()) * (size_of::<Node>() + size_of::<u32>())
    }

    pub fn wants_collection(&self) -> bool {
        self.nodes.len() >= self.collect_at
    }

    /// Begin to drop every step that no root leads back to: `mark` each root in what this returns, then `keep`.
    pub fn unmarked(&self) -> Vec<u32> {
        vec![ROOT; self.nodes.len()]
    }

    pub fn mark(&self, root: u32, moved: &mut [u32]) {
        let mut at = root;
        while at != ROOT && moved[at as usize] == ROOT {
            moved[at as usize] = 0;
            at = self.nodes[at as usize].parent;
        }
    }

    /// Drop what is not marked; `moved` tells then where each of the others is.
    pub fn keep(&mut self, moved: &mut [u32]) {
        self.most = self.most.max(self.nodes.len());
        let mut kept = 0;
        for i in 0..self.nodes.len() {
            if moved[i] != ROOT {
                let node = self.nodes[i];
                moved[i] = kept;
                let parent = Trace::place(node.parent, moved);
                self.nodes[kept as usize] = Node { parent, ..node };
                kept += 1;
            }
        }
        self.nodes.truncate(kept as usize);
        self.collect_at = (self.nodes.len() * 2).max(Trace::COLLECT_MIN);
    }

    pub fn place(root: u32, moved: &[u32]) -> u32 {
        if root == ROOT { ROOT } else { moved[root as usize] }
    }

    /// The operations of one way from the start through the events before number `until` to the step `leaf`, in order.
    pub fn order<M: Model>(&self, model: &M, ops: &[Op], events: &Events, leaf: u32, until: usize) -> Vec<u32> {
        let mut steps = Vec::new();
        let mut at = leaf;
        while at != ROOT {
            steps.push(self.nodes[at as usize]);
            at = self.nodes[at as usize].parent;
        }
        let mut way = Way::new(model, ops, events);
        for (number, &event) in events.list[..until].iter().enumerate() {
            if is_return(event) {
                while steps.last().is_some_and(|step| step.at as usize == number) {
                    steps.pop().into_iter().for_each(|step| way.take(step.step));
                }
            } else {
                way.invoke(operation(event));
            }
        }
        // What went in at the event `until` itself, which nothing has passed.
        steps.iter().rev().for_each(|step| way.take(step.step));
        way.order
    }
}

/// One way through the events.
struct Way<'a, M: Model> {
    model: &'a M,
    ops: &'a [Op],
    state: M::State,
    order: Vec<u32>,
    last_overwriting: usize,
    /// Reads that are invoked and not in yet.
    unread: Vec<u32>,
    /// Of each group the operations in the order of invocation, and how many are in.
    groups: Vec<(Vec<u32>, usize)>,
}

impl<'a, M: Model> Way<'a, M> {
    fn new(model: &'a M, ops: &'a [Op], events: &Events) -> Self {
        let mut groups = vec![(Vec::new(), 0); events.groups.len()];
        if !groups.is_empty() {
            for (i, op) in ops.iter().enumerate() {
                if op.is_open_ended() && (events.place[i] as usize) < groups.len() {
                    groups[events.place[i] as usize].0.push(i as u32);
                }
            }
        }
        let order = Vec::with_capacity(ops.len());
        Way { model, ops, state: model.initial(), order, last_overwriting: 0, unread: Vec::new(), groups }
    }

    fn invoke(&mut self, i: u32) {
        let op = &self.ops[i as usize];
        if self.model.reads_only(op) && !op.is_open_ended() {
            self.unread.push(i);
            self.read();
        }
    }

    fn read(&mut self) {
        let Way { model, ops, state, order, unread, .. } = self;
        unread.retain(|&i| {
            let allowed = model.step(*state, &ops[i as usize]).is_some();
            if allowed {
                order.push(i);
            }
            !allowed
        });
    }

    fn take(&mut self, step: u32) {
        if step & ABSORBED != 0 {
            self.order.insert(self.last_overwriting, step & !ABSORBED);
            self.last_overwriting += 1;
            return;
        }
        let i = if step & GROUP == 0 {
            step
        } else {
            let (members, taken) = &mut self.groups[(step & !GROUP) as usize];
            *taken += 1;
            members[*taken - 1]
        };
        let op = &self.ops[i as usize];
        self.state = self.model.step(self.state, op).expect("the walk took this step");
        if self.model.overwrites(op) {
            self.last_overwriting = self.order.len();
        }
        self.order.push(i);
        self.read();
    }
}
