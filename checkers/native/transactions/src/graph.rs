//! Graphs of transactions: build them from a list of edges, sort them topologically if possible, and find their
//! components.
//!
//! Beside the transactions there are virtual nodes, each of which stands for many edges: a chain of barriers for real
//! time (three edges for each transaction instead of one for each pair), and two chains for "all of these before all of
//! those, but none before itself". A path enters virtual nodes by an edge of its kind and goes on by `Pass`.

use super::groups::Groups;
use super::input::NONE;

/// Why one transaction precedes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// It wrote a version that the other's follows.
    Ww,
    /// It wrote what the other read.
    Wr,
    /// It read a version that precedes one that the other wrote.
    Rw,
    /// One process made it, and then the other.
    Process,
    /// It was completed before the other was invoked.
    Realtime,
    /// Out of a virtual node.
    Pass,
}

const KINDS: [Kind; 6] = [Kind::Ww, Kind::Wr, Kind::Rw, Kind::Process, Kind::Realtime, Kind::Pass];
const SHIFT: u32 = 29;

/// An edge without its source: 29 bits of node, 3 of kind.
#[derive(Clone, Copy, Default)]
pub struct Target(u32);

impl Target {
    pub fn new(node: u32, kind: Kind) -> Self {
        debug_assert!(node < 1 << SHIFT);
        Self((kind as u32) << SHIFT | node)
    }

    pub fn node(self) -> u32 {
        self.0 & ((1 << SHIFT) - 1)
    }

    pub fn kind(self) -> Kind {
        KINDS[(self.0 >> SHIFT) as usize]
    }
}

/// Edges as they are found; nodes from `transactions` on are virtual.
pub struct Edges {
    pub nodes: u32,
    list: Vec<(u32, Target)>,
}

impl Edges {
    pub fn new(transactions: usize, expected: usize) -> Self {
        Self { nodes: transactions as u32, list: Vec::with_capacity(expected) }
    }

    /// A transaction does not precede itself: such an edge is left out.
    pub fn add(&mut self, from: u32, to: u32, kind: Kind) {
        if from != to {
            self.list.push((from, Target::new(to, kind)));
        }
    }

    pub fn virtual_node(&mut self) -> u32 {
        self.nodes += 1;
        self.nodes - 1
    }

    /// An edge of `kind` from each of `from` to each of `to`, but for one that is in both.
    ///
    /// Few pairs become edges of their own. Else the participants are put in a row; a chain runs up the row and one
    /// runs down it, and each enters both one place further on: it reaches everybody but itself.
    pub fn add_all(&mut self, from: &[u32], to: &[u32], kind: Kind) {
        if from.len() * to.len() <= 4 * (from.len() + to.len()) {
            for &a in from {
                for &b in to {
                    self.add(a, b, kind);
                }
            }
            return;
        }
        let mut row: Vec<u32> = from.iter().chain(to).copied().collect();
        row.sort_unstable();
        row.dedup();
        let (mut sources, mut sinks) = (from.to_vec(), to.to_vec());
        sources.sort_unstable();
        sinks.sort_unstable();
        for upwards in [true, false] {
            let mut previous = None;
            let places: Vec<u32> = if upwards { row.clone() } else { row.iter().rev().copied().collect() };
            for participant in places {
                // `previous` is entered by everybody before this place, so it may lead to this one.
                if let (Some(chain), true) = (previous, sinks.binary_search(&participant).is_ok()) {
                    self.list.push((chain, Target::new(participant, Kind::Pass)));
                }
                if sources.binary_search(&participant).is_ok() {
                    let next = self.virtual_node();
                    if let Some(chain) = previous {
                        self.list.push((chain, Target::new(next, Kind::Pass)));
                    }
                    self.list.push((participant, Target::new(next, kind)));
                    previous = Some(next);
                }
            }
        }
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// All edges in the order in which they were found.
    pub fn all(&self) -> impl Iterator<Item = (u32, Target)> + '_ {
        self.list.iter().copied()
    }

    /// All edges but those of readers before the writers that overwrote what they read: what any commit order keeps.
    pub fn certain(&self) -> Vec<(u32, Target)> {
        self.list.iter().filter(|(_, target)| target.kind() != Kind::Rw).copied().collect()
    }

    pub fn build(&self) -> Graph {
        Graph::new(self.nodes as usize, self.list.iter().copied())
    }
}

/// Edges by their source.
pub struct Graph(Groups<Target>);

impl Graph {
    pub fn new(nodes: usize, edges: impl Iterator<Item = (u32, Target)> + Clone) -> Self {
        Self(Groups::new(nodes, edges))
    }

    /// The same edges by their target, each leading to its source.
    pub fn backwards(nodes: usize, edges: impl Iterator<Item = (u32, Target)> + Clone) -> Self {
        Self::new(nodes, edges.map(|(from, target)| (target.node(), Target::new(from, target.kind()))))
    }

    pub fn edges(&self) -> usize {
        self.0.rows.len()
    }

    pub fn nodes(&self) -> usize {
        self.0.len()
    }

    pub fn from(&self, node: u32) -> &[Target] {
        self.0.of(node)
    }

    /// All nodes that are not on or behind a cycle, each after its predecessors (Kahn 1962); complete when acyclic.
    pub fn order(&self) -> Vec<u32> {
        self.order_of(|_| true)
    }

    /// The same, by some kinds of edges alone.
    pub fn order_of(&self, allowed: impl Fn(Kind) -> bool) -> Vec<u32> {
        let mut waiting = vec![0_u32; self.nodes()];
        for target in self.0.rows.iter().filter(|target| allowed(target.kind())) {
            waiting[target.node() as usize] += 1;
        }
        let mut order = Vec::with_capacity(self.nodes());
        order.extend((0..self.nodes() as u32).filter(|&node| waiting[node as usize] == 0));
        let mut next = 0;
        while next < order.len() {
            for target in self.from(order[next]).iter().filter(|target| allowed(target.kind())) {
                let left = &mut waiting[target.node() as usize];
                *left -= 1;
                if *left == 0 {
                    order.push(target.node());
                }
            }
            next += 1;
        }
        order
    }

    /// Of a graph of edges backwards: each of `due`, in turn, right after those that have to come before it and are not there
    /// yet. None where they form a circle.
    pub fn just_in_time(&self, due: impl Iterator<Item = u32>) -> Option<Vec<u32>> {
        #[derive(Clone, Copy, PartialEq)]
        enum State {
            New,
            Open,
            Done,
        }
        let mut state = vec![State::New; self.nodes()];
        let mut order = Vec::with_capacity(self.nodes());
        let mut walk: Vec<(u32, u32)> = Vec::new();
        for root in due {
            if state[root as usize] == State::New {
                walk.push((root, 0));
            }
            while let Some((node, edge)) = walk.last_mut() {
                state[*node as usize] = State::Open;
                let Some(target) = self.from(*node).get(*edge as usize) else {
                    state[*node as usize] = State::Done;
                    order.push(*node);
                    walk.pop();
                    continue;
                };
                *edge += 1;
                match state[target.node() as usize] {
                    State::New => walk.push((target.node(), 0)),
                    State::Open => return None,
                    State::Done => {}
                }
            }
        }
        Some(order)
    }

    /// The strongly connected components of more than one node (Tarjan 1972, without recursion), looking only at edges
    /// that `allowed` lets through and at nodes that `open` names. Nodes of each stand in the order of discovery.
    pub fn components(&self, open: impl Fn(u32) -> bool, allowed: impl Fn(u32, Target) -> bool) -> Vec<Vec<u32>> {
        const UNSEEN: u32 = 0;
        let mut index = vec![UNSEEN; self.nodes()];
        let mut low = vec![0_u32; self.nodes()];
        let mut done = vec![false; self.nodes()];
        let mut stack = Vec::new();
        let mut walk: Vec<(u32, u32)> = Vec::new();
        let mut found = Vec::new();
        let mut counter = 0;
        for root in 0..self.nodes() as u32 {
            if index[root as usize] != UNSEEN || !open(root) {
                continue;
            }
            walk.push((root, 0));
            while let Some((node, mut edge)) = walk.pop() {
                let at = node as usize;
                if edge == 0 {
                    counter += 1;
                    index[at] = counter;
                    low[at] = counter;
                    stack.push(node);
                }
                let targets = self.from(node);
                let mut entered = NONE;
                while entered == NONE && (edge as usize) < targets.len() {
                    let target = targets[edge as usize];
                    edge += 1;
                    let next = target.node();
                    if !open(next) || !allowed(node, target) {
                        continue;
                    }
                    if index[next as usize] == UNSEEN {
                        entered = next;
                    } else if !done[next as usize] {
                        low[at] = low[at].min(index[next as usize]);
                    }
                }
                if entered != NONE {
                    walk.extend([(node, edge), (entered, 0)]);
                    continue;
                }
                if low[at] == index[at] {
                    let from = stack.iter().rposition(|&other| other == node).unwrap_or(0);
                    let component = stack.split_off(from);
                    for &member in &component {
                        done[member as usize] = true;
                    }
                    if component.len() > 1 {
                        found.push(component);
                    }
                }
                if let Some(&(parent, _)) = walk.last() {
                    low[parent as usize] = low[parent as usize].min(low[at]);
                }
            }
        }
        found
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_before_all_but_none_before_itself() {
        for (from, to) in [(0..20, 10..40), (0..30, 0..30), (5..9, 0..60)] {
            let (from, to): (Vec<u32>, Vec<u32>) = (from.collect(), to.collect());
            let mut edges = Edges::new(60, 0);
            edges.add_all(&from, &to, Kind::Rw);
            assert!(edges.len() <= 6 * (from.len() + to.len()));
            let graph = edges.build();
            for source in 0..60 {
                let mut reached = Vec::new();
                let mut open: Vec<u32> = graph.from(source).iter().map(|target| target.node()).collect();
                while let Some(node) = open.pop() {
                    if node < 60 {
                        reached.push(node);
                    } else {
                        open.extend(graph.from(node).iter().map(|target| target.node()));
                    }
                }
                reached.sort_unstable();
                let wanted: Vec<u32> =
                    if from.contains(&source) { to.iter().copied().filter(|&b| b != source).collect() } else { vec![] };
                assert_eq!(reached, wanted);
            }
        }
    }

    #[test]
    fn components_and_order() {
        let edges = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5), (5, 4)];
        let list: Vec<_> = edges.iter().map(|&(a, b)| (a, Target::new(b, Kind::Ww))).collect();
        let graph = Graph::new(6, list.iter().copied());
        let mut found = graph.components(|_| true, |_, _| true);
        found.iter_mut().for_each(|component| component.sort_unstable());
        assert_eq!(found, [vec![4, 5], vec![0, 1, 2]]);
        assert!(graph.order().is_empty());
    }
}
