//! Find the shortest cycle of a class without real time.
//!
//! A breadth-first walk starts at every transaction that could be the cycle's first. It visits pairs of node and
//! `State`, never deeper than the best cycle so far. Later walks skip what an earlier walk has explored completely.

use super::cycle_classes::{Class, Order, STATES, State};
use super::cycles::{Core, Record};
use super::graph::Kind;
use super::input::NONE;
use limits::interrupt;

/// What the walks of classes that allow the same edges share: components by these edges, and marks.
pub struct Room {
    /// Per node; walks do not leave it.
    component: Vec<u32>,
    /// Nodes of components, where walks begin.
    anchors: Vec<u32>,
    /// Per node and state: the last walk that came there; and the number of walks.
    seen: Vec<u32>,
    turn: u32,
}

impl Room {
    pub fn new(core: &Core<'_>, class: Class, order: Order) -> Self {
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

impl Core<'_> {
    /// The shortest cycle without real time, as transactions with the kind of the edge that leaves each.
    pub(super) fn walk(&mut self, class: Class, order: Order, room: &mut Room) -> Option<Vec<(u32, Kind)>> {
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
                    self.left = interrupt::spend(self.left, targets.len() as u64 + 1);
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
}

/// The kind of the edge by which a walk entered the virtual nodes that it is in.
fn entered_by(records: &[Record], mut at: u32) -> Kind {
    while records[at as usize].kind == Kind::Pass && records[at as usize].before != NONE {
        at = records[at as usize].before;
    }
    records[at as usize].kind
}
