//! The shortest cycle of each class of anomaly.
//!
//! | class | its cycle (ww, wr, rw as in `graph::Kind`) |
//! | --- | --- |
//! | G0 | ww only |
//! | G1c | ww and wr, at least one wr |
//! | G-single | exactly one rw |
//! | G-nonadjacent | at least two rw, no two of them next to each other |
//! | G2-item | at least two rw, two of them next to each other |
//!
//! Each also with process order and with real time, of which the cycle then has at least one step. A stretch of process
//! order or of real time counts as one step. Two ways to search:
//!   - Without real time: a breadth-first walk from every transaction that could be the cycle's first, over pairs of node
//!     and `State`, never deeper than the best so far; what such a walk has seen through is closed to later ones.
//!   - With real time: a cycle with several steps of it contains one with a single step (of two such steps, the later of
//!     the two completions also precedes the other's invocation or the other way round). So for each node the earliest
//!     completion that it leads to in 1, 2, 3, ... steps is kept until it lies before the node's own invocation.
//!
//! Walks of fewest steps may pass through one transaction twice only where a more serious cycle exists, which is found
//! under its own class; they are dropped. Steps are counted: past the budget a cycle may not be the shortest.
//!
//! Source: Adya, "Weak Consistency" (1999); Kingsbury & Alvaro (VLDB 2020), for the classes.

use super::anomaly::Step;
use super::graph::{Graph, Kind, Target};
use super::input::{Input, NONE};
use super::snapshot::Kept;
use crate::limits::interrupt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    G0,
    G1c,
    Single,
    Nonadjacent,
    G2Item,
}

pub const CLASSES: [Class; 5] = [Class::G0, Class::G1c, Class::Single, Class::Nonadjacent, Class::G2Item];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    None,
    Process,
    Realtime,
}

impl Class {
    pub fn name(self, order: Order) -> &'static str {
        match (self, order) {
            (Self::G0, Order::None) => "G0",
            (Self::G0, Order::Process) => "G0-process",
            (Self::G0, Order::Realtime) => "G0-realtime",
            (Self::G1c, Order::None) => "G1c",
            (Self::G1c, Order::Process) => "G1c-process",
            (Self::G1c, Order::Realtime) => "G1c-realtime",
            (Self::Single, Order::None) => "G-single",
            (Self::Single, Order::Process) => "G-single-process",
            (Self::Single, Order::Realtime) => "G-single-realtime",
            (Self::Nonadjacent, Order::None) => "G-nonadjacent",
            (Self::Nonadjacent, Order::Process) => "G-nonadjacent-process",
            (Self::Nonadjacent, Order::Realtime) => "G-nonadjacent-realtime",
            (Self::G2Item, Order::None) => "G2-item",
            (Self::G2Item, Order::Process) => "G2-item-process",
            (Self::G2Item, Order::Realtime) => "G2-item-realtime",
        }
    }

    fn has_rw(self) -> bool {
        !matches!(self, Self::G0 | Self::G1c)
    }

    /// Whether whatever forbids the other class forbids this one, too.
    fn is_worse(self, other: Self) -> bool {
        self.has_rw() == other.has_rw() && (self as u8) <= other as u8
    }

    fn allows(self, kind: Kind, order: Order) -> bool {
        (kind != Kind::Process || order == Order::Process) && self.step(State::default(), kind).is_some()
    }

    /// What a walk that has seen `state` has seen after one more edge; None where the class has no such cycle.
    fn step(self, state: State, kind: Kind) -> Option<State> {
        let mut next = state;
        match kind {
            Kind::Pass => return Some(state),
            Kind::Realtime => return None,
            Kind::Process => next.process = true,
            Kind::Ww => {}
            Kind::Wr if self == Self::G0 => return None,
            Kind::Wr => next.marked |= self == Self::G1c,
            Kind::Rw => match self {
                Self::G0 | Self::G1c => return None,
                Self::Single if state.rw == 1 => return None,
                Self::Nonadjacent if state.last_rw => return None,
                Self::G2Item => next.marked |= state.last_rw,
                Self::Single | Self::Nonadjacent => next.rw = (state.rw + 1).min(2),
            },
        }
        next.last_rw = kind == Kind::Rw && matches!(self, Self::Nonadjacent | Self::G2Item);
        Some(next)
    }

    /// Whether a path that began and ended beside a step of another kind makes the class.
    fn accepts(self, state: State) -> bool {
        match self {
            Self::G0 => true,
            Self::G1c | Self::G2Item => state.marked,
            Self::Single => state.rw == 1,
            Self::Nonadjacent => state.rw == 2,
        }
    }

    /// The kind of a cycle's first edge, if the walk is to begin with a telling one.
    fn first(self, order: Order) -> Kind {
        match (self, order) {
            (Self::G0, Order::Process) => Kind::Process,
            (Self::G0, _) => Kind::Ww,
            (Self::G1c, _) => Kind::Wr,
            _ => Kind::Rw,
        }
    }

    /// Whether a walk that began with `first` and came back by an edge of kind `last` makes the class.
    fn closes(self, state: State, last: Kind) -> bool {
        match self {
            Self::G0 | Self::G1c | Self::Single => true,
            Self::Nonadjacent => state.rw == 2 && last != Kind::Rw,
            Self::G2Item => last == Kind::Rw,
        }
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct State {
    /// 0, 1, or 2 for more.
    rw: u8,
    last_rw: bool,
    /// The wr of G1c; the adjacent pair of G2-item.
    marked: bool,
    process: bool,
}

const STATES: usize = 24;

impl State {
    fn code(self) -> usize {
        usize::from(self.rw)
            + 3 * usize::from(self.last_rw)
            + 6 * usize::from(self.marked)
            + 12 * usize::from(self.process)
    }

    fn of(code: usize) -> Self {
        Self { rw: (code % 3) as u8, last_rw: code / 3 % 2 == 1, marked: code / 6 % 2 == 1, process: code / 12 == 1 }
    }
}

pub struct Cycle {
    pub name: &'static str,
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
    pub spent: u64,
}

/// What the walks of classes that allow the same edges share: components by these edges, and marks.
struct Room {
    /// Per node; walks do not leave it.
    component: Vec<u32>,
    /// Nodes of components, where walks begin.
    anchors: Vec<u32>,
    /// Per node and state: the last walk that came there; and the number of walks.
    seen: Vec<u32>,
    turn: u32,
}

impl Room {
    fn new(core: &Core<'_>, class: Class, order: Order) -> Self {
        let allowed = |kind: Kind| class.allows(kind, order);
        let components = core.graph.components(|_| true, |_, target| allowed(target.kind()));
        let mut component = vec![NONE; core.graph.nodes()];
        for (place, nodes) in components.iter().enumerate() {
            for &node in nodes {
                component[node as usize] = place as u32;
            }
        }
        let mut anchors: Vec<u32> = components.into_iter().flatten().collect();
        anchors.reverse();
        anchors.retain(|&anchor| core.transaction[anchor as usize] != NONE);
        Self { component, anchors, seen: vec![0; core.graph.nodes() * STATES], turn: 0 }
    }
}

/// Nodes and edges of the components of the whole graph, numbered anew in the order of discovery.
struct Core<'a> {
    input: &'a Input<'a>,
    has_process_order: bool,
    /// The transaction of each node; `NONE` for virtual ones.
    transaction: Vec<u32>,
    graph: Graph,
    left: u64,
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
/// `kept`: whether the graph has edges of process order, or of real time.
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
        let graph = Graph::new(transaction.len(), &edges);
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
            None if !finished && !says_less => found.unfinished.push(name),
            None => {}
        }
    }

    fn spend(&mut self, steps: u64) -> bool {
        self.left = interrupt::spend(self.left, steps);
        self.left > 0
    }

    /// The shortest cycle without real time, as transactions with the kind of the edge that leaves each.
    fn walk(&mut self, class: Class, order: Order, room: &mut Room) -> Option<Vec<(u32, Kind)>> {
        let allowed = |kind: Kind| class.allows(kind, order);
        let Room { component, anchors, seen, turn } = room;
        let first = class.first(order);
        let mut records: Vec<Record> = Vec::new();
        let (mut layer, mut next): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
        let mut best: Option<Vec<(u32, Kind)>> = None;
        // Once all cycles through an edge (or, for G2-item, a pair of edges) at a node are known, it is closed.
        let mut closed = vec![false; self.graph.nodes()];
        for &anchor in anchors.iter() {
            *turn += 1;
            if self.left == 0 {
                return best;
            }
            records.clear();
            layer.clear();
            let begin = [Record { node: anchor, state: State::default(), kind: Kind::Pass, before: NONE }];
            records.extend(begin);
            layer.push(0);
            let limit = best.as_ref().map_or(usize::MAX, |cycle| cycle.len() - 1);
            let mut depth = 0;
            let mut end = None;
            'layers: while !layer.is_empty() && depth < limit {
                depth += 1;
                next.clear();
                let mut place = 0;
                while place < layer.len() {
                    let at = layer[place];
                    place += 1;
                    let Record { node, state, .. } = records[at as usize];
                    let targets = self.graph.from(node);
                    self.left = self.left.saturating_sub(targets.len() as u64 + 1);
                    if self.left == 0 {
                        return best;
                    }
                    for &target in targets {
                        let (to, kind) = (target.node(), target.kind());
                        if component[to as usize] != component[node as usize]
                            || !allowed(kind)
                            || at == 0 && kind != first
                        {
                            continue;
                        }
                        let shut = match class {
                            Class::G2Item => kind == Kind::Rw && state.last_rw,
                            Class::Single => false,
                            _ => kind == first,
                        };
                        if shut && closed[node as usize] {
                            continue;
                        }
                        let Some(after) = class.step(state, kind) else { continue };
                        if to == anchor {
                            let last = if kind == Kind::Pass { entered_by(&records, at) } else { kind };
                            if class.closes(after, last) && (order == Order::None || after.process) {
                                end = Some((at, kind));
                                break 'layers;
                            }
                            continue;
                        }
                        let slot = &mut seen[to as usize * STATES + after.code()];
                        if *slot == *turn {
                            continue;
                        }
                        // A virtual node on the way costs nothing: what it leads to belongs to this layer.
                        *slot = *turn;
                        records.push(Record { node: to, state: after, kind, before: at });
                        let list = if self.transaction[to as usize] == NONE { &mut layer } else { &mut next };
                        list.push(records.len() as u32 - 1);
                    }
                }
                std::mem::swap(&mut layer, &mut next);
            }
            closed[anchor as usize] = true;
            if let Some((at, kind)) = end {
                let cycle = self.trace(&records, at, kind);
                let least = cycle.len() <= 2;
                best = Some(cycle);
                if least {
                    break;
                }
            }
        }
        best
    }

    /// The transactions from a walk's begin to the record `at` and on by `kind`, each with the kind that leaves it.
    fn trace(&self, records: &[Record], mut at: u32, mut kind: Kind) -> Vec<(u32, Kind)> {
        let mut cycle = Vec::new();
        while at != NONE {
            let record = &records[at as usize];
            if self.transaction[record.node as usize] != NONE {
                cycle.push((record.node, kind));
                kind = record.kind;
            } else if record.kind != Kind::Pass {
                kind = record.kind;
            }
            at = record.before;
        }
        cycle.reverse();
        cycle
    }

    /// All edges but those of process order, turned round.
    fn backwards(&self) -> Graph {
        let mut backwards = Vec::new();
        for node in 0..self.graph.nodes() as u32 {
            for target in self.graph.from(node).iter().filter(|target| target.kind() != Kind::Process) {
                backwards.push((target.node(), Target::new(node, target.kind())));
            }
        }
        Graph::new(self.graph.nodes(), &backwards)
    }

    /// The shortest cycle with one step of real time.
    fn descend(&mut self, class: Class, backwards: &Graph) -> Option<Vec<(u32, Kind)>> {
        let members = || self.transaction.iter().filter(|&&t| t != NONE).map(|&t| t as usize);
        let latest = members().map(|t| self.input.invoked[t]).max()?;
        if !members().any(|t| self.input.is_ok(t) && self.input.completed[t] < latest) {
            return None;
        }
        // The first steps of all paths.
        if self.left < backwards.edges() as u64 {
            self.left = 0;
            return None;
        }
        // Per node and state that a path begins in: the earliest completion that it leads to.
        let mut earliest = vec![i64::MAX; self.graph.nodes() * STATES];
        let mut records: Vec<Record> = Vec::new();
        let mut ends: Vec<i64> = Vec::new();
        let mut layer: Vec<u32> = Vec::new();
        let states: Vec<State> = (0..STATES).map(State::of).filter(|state| !state.process).collect();
        for node in 0..self.graph.nodes() as u32 {
            let t = self.transaction[node as usize];
            if t == NONE || !self.input.is_ok(t as usize) {
                continue;
            }
            let end = self.input.completed[t as usize];
            for &state in states.iter().filter(|&&state| class.accepts(state)) {
                earliest[node as usize * STATES + state.code()] = end;
                records.push(Record { node, state, kind: Kind::Realtime, before: NONE });
                ends.push(end);
                layer.push(records.len() as u32 - 1);
            }
        }
        // For each state that an edge leads to, the states that it may come from.
        let kinds = [Kind::Ww, Kind::Wr, Kind::Rw, Kind::Pass];
        let mut sources = vec![Vec::new(); kinds.len() * STATES];
        for (place, &kind) in kinds.iter().enumerate() {
            for &state in &states {
                if let Some(after) = class.step(state, kind) {
                    sources[place * STATES + after.code()].push(state);
                }
            }
        }
        let mut next = Vec::new();
        while !layer.is_empty() {
            let mut place = 0;
            let mut closing = None;
            while place < layer.len() {
                let at = layer[place];
                place += 1;
                let Record { node, state, .. } = records[at as usize];
                let end = ends[at as usize];
                for &target in backwards.from(node) {
                    if !self.spend(1) {
                        return None;
                    }
                    let (from, kind) = (target.node(), target.kind());
                    let Some(index) = kinds.iter().position(|&other| other == kind) else { continue };
                    for &before in &sources[index * STATES + state.code()] {
                        let slot = &mut earliest[from as usize * STATES + before.code()];
                        if *slot <= end {
                            continue;
                        }
                        *slot = end;
                        records.push(Record { node: from, state: before, kind, before: at });
                        ends.push(end);
                        let record = records.len() as u32 - 1;
                        let t = self.transaction[from as usize];
                        // An edge into a virtual node costs one, an edge out of it nothing.
                        if kind == Kind::Pass {
                            layer.push(record)
                        } else {
                            next.push(record)
                        }
                        if closing.is_none()
                            && t != NONE
                            && before == State::default()
                            && end < self.input.invoked[t as usize]
                        {
                            closing = Some(record);
                        }
                    }
                }
            }
            if let Some(record) = closing {
                return Some(self.trace_forward(&records, record));
            }
            layer.clear();
            std::mem::swap(&mut layer, &mut next);
        }
        None
    }

    /// The transactions from a backward record to its end, each with the kind of the edge that leaves it.
    fn trace_forward(&self, records: &[Record], mut at: u32) -> Vec<(u32, Kind)> {
        let mut cycle = Vec::new();
        while at != NONE {
            let record = &records[at as usize];
            if self.transaction[record.node as usize] != NONE {
                cycle.push((record.node, record.kind));
            }
            at = record.before;
        }
        cycle
    }
}

#[derive(Clone, Copy)]
struct Record {
    node: u32,
    state: State,
    kind: Kind,
    before: u32,
}

/// The kind of the edge by which a walk entered the virtual nodes that it is in.
fn entered_by(records: &[Record], mut at: u32) -> Kind {
    while records[at as usize].kind == Kind::Pass && records[at as usize].before != NONE {
        at = records[at as usize].before;
    }
    records[at as usize].kind
}
