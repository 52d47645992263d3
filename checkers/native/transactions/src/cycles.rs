//! Find the shortest cycle of each class of anomaly (`cycle_classes`) in a graph of transactions.
//!
//! A run of process order or of real time counts as one step. There are two searches: without real time
//! (`plain_cycles`) and with it (`realtime_cycles`).
//!
//! A shortest walk can pass through one transaction twice only if a more serious cycle exists, which is found under its
//! own class. Such walks are dropped. Steps are counted; beyond the budget, a cycle may not be the shortest.

use super::anomaly::Step;
use super::cycle_classes::{CLASSES, Class, Order, State};
use super::graph::{Graph, Kind, Target};
use super::input::{Input, Kept, NONE};
use super::plain_cycles::Room;
use limits::{Stop, interrupt};

/// A circle of transactions, each of which precedes the next.
pub struct Cycle {
    /// Its class, such as `G1c` or `G-single-realtime`.
    pub name: &'static str,
    /// From the first transaction round to it.
    pub steps: Vec<Step>,
    /// No shorter one exists; false where the budget ended the search before that was certain.
    pub shortest: bool,
}

pub struct Found {
    pub components: usize,
    pub largest: usize,
    pub cycles: Vec<Cycle>,
    /// Classes whose search was ended by the budget before it found any cycle, but for those that rule out no model that is
    /// not ruled out anyway.
    pub unfinished: Vec<&'static str>,
    /// What ended the last of these.
    pub stop: Option<Stop>,
    pub spent: u64,
}

/// Nodes and edges of the components of the whole graph, numbered anew in the order of discovery.
pub struct Core<'a> {
    pub(super) input: &'a Input<'a>,
    has_process_order: bool,
    /// The transaction of each node; `NONE` for virtual ones.
    pub(super) transaction: Vec<u32>,
    pub(super) graph: Graph,
    pub(super) left: u64,
    budget: u64,
    /// Classes of which a cycle was found.
    met: Vec<(Class, Order)>,
}

/// Parts of the budget: one for each class; and of a class that rules out no model that another does not.
const SHARES: u64 = 15;
const SHARES_SMALL: u64 = 300;

/// Search `graph`, of which the first `input.len()` nodes are transactions, for every class of cycle.
///
/// `predecessors`: the transaction of the same process that was completed last before each; `acyclic`: nodes on no cycle;
/// `kept`: whether the graph has edges of process order, or of real time; without those, no cycle with real time is looked for.
pub fn search(
    graph: &Graph,
    input: &Input<'_>,
    predecessors: &[u32],
    acyclic: &[u32],
    kept: Kept,
    budget: u64,
) -> Found {
    let mut open = vec![true; graph.nodes()];
    for &node in acyclic {
        open[node as usize] = false;
    }
    let components = graph.components(|node| open[node as usize], |_, _| true);
    let transactions = input.len() as u32;
    let sizes = components.iter().map(|nodes| nodes.iter().filter(|&&node| node < transactions).count());
    let mut found = Found {
        components: components.len(),
        largest: sizes.max().unwrap_or(0),
        cycles: Vec::new(),
        unfinished: Vec::new(),
        stop: None,
        spent: 0,
    };
    let mut core = Core::new(graph, input, predecessors, &components, budget);
    // Real time implies the order of each process.
    let tame = match kept {
        _ if graph.order_of(|kind| kind != Kind::Rw).len() < graph.nodes() => None,
        Kept::Nothing => Some(Order::None),
        Kept::Process => Some(Order::Process),
        Kept::Realtime => Some(Order::Realtime),
    };
    let has_none = |class: Class, order: Order| !class.has_rw() && tame.is_some_and(|tame| order <= tame);
    for order in [Order::None, Order::Process] {
        if order == Order::Process && !core.has_process_order {
            continue;
        }
        let mut room: Option<Room> = None;
        for class in CLASSES.into_iter().filter(|&class| !has_none(class, order)) {
            // Classes with rw allow the same edges.
            let mut of_class = room.take().filter(|_| class > Class::Single);
            let room = room.insert(of_class.take().unwrap_or_else(|| Room::new(&core, class, order)));
            core.record(class, order, &mut found, |core| core.walk(class, order, room));
        }
    }
    if kept != Kept::Realtime {
        return found;
    }
    let backwards = core.backwards();
    for class in CLASSES.into_iter().filter(|&class| !has_none(class, Order::Realtime)) {
        core.record(class, Order::Realtime, &mut found, |core| core.descend(class, &backwards));
    }
    found
}

impl<'a> Core<'a> {
    fn new(graph: &Graph, input: &'a Input<'a>, predecessors: &[u32], components: &[Vec<u32>], budget: u64) -> Self {
        let transactions = input.len() as u32;
        let mut number = vec![NONE; graph.nodes()];
        let mut component = Vec::new();
        let mut transaction = Vec::new();
        for (place, nodes) in components.iter().enumerate() {
            for &node in nodes {
                number[node as usize] = transaction.len() as u32;
                transaction.push(if node < transactions { node } else { NONE });
                component.push(place as u32);
            }
        }
        let mut edges = Vec::new();
        for &node in components.iter().flatten() {
            let from = number[node as usize];
            for target in graph.from(node) {
                let to = number[target.node() as usize];
                if to != NONE && component[to as usize] == component[from as usize] && target.kind() != Kind::Realtime {
                    edges.push((from, Target::new(to, target.kind())));
                }
            }
        }
        // Process order as a chain beside the transactions: whoever enters it reaches all that follow in one step.
        let nodes = transaction.len();
        let mut chain = vec![NONE; nodes];
        for &node in components.iter().flatten().filter(|&&node| node < transactions) {
            let to = number[node as usize];
            let mut before = predecessors[node as usize];
            while before != NONE && number[before as usize] == NONE {
                before = predecessors[before as usize];
            }
            if before == NONE || component[number[before as usize] as usize] != component[to as usize] {
                continue;
            }
            for member in [number[before as usize], to] {
                if chain[member as usize] == NONE {
                    chain[member as usize] = transaction.len() as u32;
                    transaction.push(NONE);
                    component.push(component[to as usize]);
                }
            }
            let (entry, next) = (chain[number[before as usize] as usize], chain[to as usize]);
            edges.push((number[before as usize], Target::new(entry, Kind::Process)));
            edges.push((entry, Target::new(to, Kind::Pass)));
            edges.push((entry, Target::new(next, Kind::Pass)));
        }
        let has_process_order = transaction.len() > nodes;
        let graph = Graph::new(transaction.len(), edges.iter().copied());
        Self { input, has_process_order, transaction, graph, left: budget, budget, met: Vec::new() }
    }

    fn record(
        &mut self,
        class: Class,
        order: Order,
        found: &mut Found,
        search: impl FnOnce(&mut Self) -> Option<Vec<(u32, Kind)>>,
    ) {
        let name = class.name(order);
        // Each class has its share, so that a costly one leaves something to the others; a class that says no more than one
        // that was found has a small one.
        let says_less = |&(worse, of): &(Class, Order)| worse.is_worse(class) && of <= order;
        let says_less = self.met.iter().any(says_less);
        let share = self.budget / if says_less { SHARES_SMALL } else { SHARES };
        self.left = share;
        let cycle = search(self);
        let finished = self.left > 0;
        found.spent += share - self.left;
        match cycle {
            Some(walk) => {
                let mut met: Vec<u32> = walk.iter().map(|&(node, _)| node).collect();
                met.sort_unstable();
                if met.windows(2).all(|pair| pair[0] != pair[1]) {
                    let steps = (0..walk.len()).map(|place| {
                        let (from, kind) = walk[place];
                        let (to, _) = walk[(place + 1) % walk.len()];
                        Step::new(self.transaction[from as usize], self.transaction[to as usize], kind)
                    });
                    found.cycles.push(Cycle { name, steps: steps.collect(), shortest: finished });
                    self.met.push((class, order));
                }
            }
            None if !finished && !says_less => {
                found.unfinished.push(name);
                found.stop = Some(interrupt::spent());
            }
            None => {}
        }
    }

    pub(super) fn spend(&mut self, steps: u64) -> bool {
        self.left = interrupt::spend(self.left, steps);
        self.left > 0
    }
}

/// One step of a walk over pairs of node and `State`.
#[derive(Clone, Copy)]
pub struct Record {
    pub(super) node: u32,
    pub(super) state: State,
    pub(super) kind: Kind,
    pub(super) before: u32,
}
