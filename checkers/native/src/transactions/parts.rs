//! Judge a history in parts: what some of its keys show alone, and what the core of all their edges shows.
//!
//! Every anomaly that is found without a search concerns one key, and so does every dependency. One key alone cannot
//! show whether a transaction of unknown outcome happened, because another key may show it. So such a transaction is
//! assumed to have happened. If nobody saw it, it closes no cycle: edges lead to it, but none lead out of it. The
//! result names those that were seen in this part.

use super::anomaly::Anomaly;
use super::cycles::{self, Cycle};
use super::graph::{Edges, Graph, Kind};
use super::input::{INFO, Input, Kept};
use super::judge::{Failure, Report, keep, twice};
use super::lists::Lists;
use super::registers::{Assumed, Registers};

/// What whole keys show. Nodes from the transactions on are virtual, as in `graph`.
pub struct Shown {
    pub anomalies: Vec<Anomaly>,
    /// Versions that precede each other in a circle.
    pub circles: Vec<Cycle>,
    /// The transactions of unknown outcome of which somebody saw a write here.
    pub observed: Vec<u32>,
    pub edges: Vec<(u32, u32, Kind)>,
    /// A moment for each node: twice a transaction's invocation; for a virtual one, after all that lead to it.
    pub moments: Vec<i64>,
}

/// Lists, of whole keys; rows in the order of invocation.
pub fn of_lists(input: &Input<'_>) -> Result<Shown, Failure> {
    input.validate(true).map_err(Failure::MalformedInput)?;
    let mut lists = Lists::new(input).map_err(|ops| twice(input, ops))?;
    let observed = presume(input, &mut lists.happened);
    let mut edges = Edges::new(input.len(), 2 * input.kind.len());
    lists.dependencies(&mut edges);
    Ok(shown(input, lists.anomalies, Vec::new(), observed, &edges))
}

/// Registers, of whole keys; rows in the order of invocation.
pub fn of_registers(input: &Input<'_>, assumed: Assumed) -> Result<Shown, Failure> {
    input.validate(false).map_err(Failure::MalformedInput)?;
    let mut registers = Registers::new(input, assumed).map_err(|ops| twice(input, ops))?;
    let observed = presume(input, &mut registers.happened);
    registers.infer(&input.by_invocation(), assumed);
    let mut edges = Edges::new(input.len(), 2 * input.kind.len());
    registers.dependencies(&mut edges);
    Ok(shown(input, registers.anomalies, registers.circles, observed, &edges))
}

/// Have every transaction of unknown outcome happen; those that were known to.
fn presume(input: &Input<'_>, happened: &mut [bool]) -> Vec<u32> {
    let unknown = (0..input.len()).filter(|&t| input.outcome[t] == INFO);
    unknown.filter(|&t| std::mem::replace(&mut happened[t], true)).map(|t| t as u32).collect()
}

fn shown(input: &Input<'_>, anomalies: Vec<Anomaly>, circles: Vec<Cycle>, observed: Vec<u32>, edges: &Edges) -> Shown {
    let mut moments: Vec<i64> = input.invoked.iter().map(|&invoked| 2 * invoked).collect();
    moments.resize(edges.nodes as usize, i64::MIN);
    let edges: Vec<(u32, u32, Kind)> = edges.all().map(|(from, to)| (from, to.node(), to.kind())).collect();
    // What leads to a virtual node was added before anything that leads out of it.
    for &(from, to, _) in edges.iter().filter(|&&(_, to, _)| to as usize >= input.len()) {
        moments[to as usize] = moments[to as usize].max(moments[from as usize] | 1);
    }
    Shown { anomalies, circles, observed, edges, moments }
}

/// What the edges that may close a cycle come to.
pub struct Core {
    /// Its cycles, without the rows that show them.
    pub report: Report,
    /// Without a cycle, per transaction: the least point from its beginning on that is after those of all that lead to it.
    pub points: Option<Vec<(i64, i64)>>,
}

/// Judge transactions without micro-operations by the edges between them and real time.
///
/// `begin`: points of transactions, each a moment and a level, which is how far it stands behind others of that moment;
/// `nodes`: how many there are, virtual ones included. Fails on edges of other nodes.
pub fn judge_core(
    input: &Input<'_>,
    begin: &[(i64, i64)],
    nodes: u32,
    given: impl Iterator<Item = (i64, i64, Option<Kind>)>,
    budget: u64,
) -> Result<Core, Failure> {
    input.validate(true).map_err(Failure::MalformedInput)?;
    let by_invocation = input.by_invocation();
    let predecessors = input.predecessors(&by_invocation).map_err(Failure::MalformedInput)?;
    let mut edges = Edges::new(input.len(), 3 * input.len());
    while edges.nodes < nodes {
        edges.virtual_node();
    }
    if begin.len() != input.len() {
        return Err(Failure::MalformedInput(format!("{} points of {} transactions", begin.len(), input.len())));
    }
    let known = |node: i64| u32::try_from(node).ok().filter(|&node| node < nodes);
    for (from, to, kind) in given {
        let (Some(from), Some(to), Some(kind)) = (known(from), known(to), kind) else {
            return Err(Failure::MalformedInput(format!("no edge of a core: from {from} to {to}, of {nodes} nodes")));
        };
        edges.add(from, to, kind);
    }
    keep(Kept::Realtime, &mut edges, input, &by_invocation, &predecessors, &vec![true; input.len()]);
    let graph = edges.build();
    let sorted = graph.order();
    let mut report = Report::new(edges.len());
    if sorted.len() < graph.nodes() {
        report.take(cycles::search(&graph, input, &predecessors, &sorted, Kept::Realtime, budget), |_| ());
        return Ok(Core { report, points: None });
    }
    Ok(Core { report, points: Some(points(&graph, &sorted, begin)) })
}

fn points(graph: &Graph, sorted: &[u32], begin: &[(i64, i64)]) -> Vec<(i64, i64)> {
    let mut points = begin.to_vec();
    points.resize(graph.nodes(), (i64::MIN, 0));
    for &node in sorted {
        let (time, level) = points[node as usize];
        for target in graph.from(node) {
            let to = target.node() as usize;
            let step = i64::from(to < begin.len());
            points[to] = points[to].max((time, level + step));
        }
    }
    points.truncate(begin.len());
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transactions::input::{OK, READ, WRITE};

    #[test]
    fn points_follow_what_leads_to_them_and_a_circle_has_none() {
        let zeros = [0; 4];
        let input = Input {
            process: &[1, 2, 3],
            outcome: &[OK; 3],
            invoked: &[0, 5, 6],
            completed: &[9, 9, 9],
            first: &zeros,
            kind: &[],
            key: &[],
            value: &[],
            start: &[0],
            elements: &[],
        };
        let begin = [(0, 0), (5, 0), (6, 0)];
        let judge = |edges: &[(i64, i64, Kind)]| {
            judge_core(&input, &begin, 4, edges.iter().map(|&(from, to, kind)| (from, to, Some(kind))), 1000)
        };
        let core = judge(&[(2, 0, Kind::Ww), (0, 3, Kind::Rw), (3, 1, Kind::Pass)]).ok();
        assert_eq!(core.and_then(|core| core.points), Some(vec![(6, 1), (6, 2), (6, 0)]));
        let core = judge(&[(2, 0, Kind::Ww), (0, 3, Kind::Rw), (3, 2, Kind::Pass)]).ok();
        let names = core.map(|core| core.report.cycles.iter().map(|cycle| cycle.name).collect::<Vec<_>>());
        assert_eq!(names, Some(vec!["G-single"]));
        assert!(judge(&[(4, 0, Kind::Ww)]).is_err());
    }

    #[test]
    fn an_unknown_outcome_counts_as_happened_and_is_told() {
        // A reader saw 1; the append of 2, of unknown outcome, comes after all that was seen.
        let input = Input {
            process: &[1, 2, 3],
            outcome: &[INFO, INFO, OK],
            invoked: &[0, 1, 2],
            completed: &[-1, -1, 3],
            first: &[0, 1, 2, 3],
            kind: &[WRITE, WRITE, READ],
            key: &[0, 0, 0],
            value: &[1, 2, 0],
            start: &[0, 0, 0, 1],
            elements: &[1],
        };
        let found = of_lists(&input).ok().map(|shown| (shown.observed, shown.edges, shown.moments));
        let edges = vec![(0, 2, Kind::Wr), (2, 1, Kind::Rw), (0, 1, Kind::Ww)];
        assert_eq!(found, Some((vec![0], edges, vec![0, 2, 4])));
    }
}
