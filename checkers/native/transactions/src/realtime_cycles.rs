//! Find the shortest cycle of a class with real time.
//!
//! A cycle with several steps of real time contains one with a single such step: of two such steps, one's completion
//! also precedes the other's invocation. So for each node the search keeps the earliest completion that it leads to in
//! 1, 2, 3, ... steps, until that lies before the node's own invocation.

use super::cycle_classes::{Class, STATES, State};
use super::cycles::{Core, Record};
use super::graph::{Graph, Kind, Target};
use super::input::NONE;

impl Core<'_> {
    /// All edges but those of process order, turned round.
    pub(super) fn backwards(&self) -> Graph {
        let mut backwards = Vec::new();
        for node in 0..self.graph.nodes() as u32 {
            for target in self.graph.from(node).iter().filter(|target| target.kind() != Kind::Process) {
                backwards.push((target.node(), Target::new(node, target.kind())));
            }
        }
        Graph::new(self.graph.nodes(), backwards.iter().copied())
    }

    /// The shortest cycle with one step of real time.
    pub(super) fn descend(&mut self, class: Class, backwards: &Graph) -> Option<Vec<(u32, Kind)>> {
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
