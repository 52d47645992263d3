//! Transactions: which anomalies a history shows, or an order that explains all of it.

mod anomaly;
pub mod binding;
mod commit_order;
mod cycles;
mod graph;
mod greedy;
mod input;
mod lists;
mod parts;
pub mod parts_binding;
mod realtime;
mod registers;
mod replay;
mod saturation;
mod serial;
mod snapshot;
mod snapshot_lists;
mod weak;

pub use anomaly::{Anomaly, Step};
pub use cycles::Cycle;
pub use graph::Kind;
pub use input::{Input, NONE};
pub use registers::Assumed;
pub use snapshot::Kept;
pub use weak::{Level, Weak, WeakStep};

use cycles::Found;
use graph::Edges;
use lists::Lists;
use registers::Registers;
use serial::{Placed, Serial};
use snapshot_lists::Scheduled;
use weak::Isolation;

/// What the native core hands over. Rows are transactions and micro-operations of the input.
pub struct Report {
    pub anomalies: Vec<Anomaly>,
    pub cycles: Vec<Cycle>,
    /// Without any anomaly: an order in which the transactions, carried out one by one, return what they returned, real
    /// time kept; confirmed. None where no such order was found.
    pub order: Option<Vec<u32>>,
    /// Edges of the graph, virtual nodes' included; 0 where an order was found without one.
    pub edges: usize,
    /// Strongly connected components, and the number of transactions in the largest.
    pub components: usize,
    pub largest: usize,
    pub unfinished: Vec<&'static str>,
    pub spent: u64,
}

/// Why there is no report.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    /// The input means nothing.
    Malformed(String),
    /// A defect of this core; no statement about the history.
    Defect(&'static str),
}

/// Judge lists to which transactions append unique values.
///
/// `kept`: what orders of transactions keep; `budget`: steps for the search of shortest cycles.
pub fn check_lists(input: &Input<'_>, kept: Kept, budget: u64) -> Result<Report, Refused> {
    input.validate(true).map_err(Refused::Malformed)?;
    let by_invocation = input.by_invocation();
    let predecessors = input.predecessors(&by_invocation).map_err(Refused::Malformed)?;
    let lists = Lists::new(input).map_err(|ops| twice(input, ops))?;
    let mut edges = Edges::new(input.len(), 2 * input.kind.len() + 3 * input.len());
    lists.dependencies(&mut edges);
    keep(kept, &mut edges, input, &by_invocation, &predecessors, &lists.happened);
    let graph = edges.build();
    let sorted = graph.order();
    let mut report = Report::new(edges.len());
    if sorted.len() < graph.nodes() {
        let found = cycles::search(&graph, input, &predecessors, &sorted, kept, budget);
        report.take(found, |step| lists.show(step));
    } else if lists.anomalies.is_empty() {
        let order = replay::of(&sorted, &lists.happened);
        if !replay::lists(input, &order, &predecessors, kept) {
            return Err(Refused::Defect("an order of transactions without anomaly does not explain the reads"));
        }
        report.order = Some(order);
    }
    report.anomalies = lists.anomalies;
    Ok(report)
}

/// Judge registers to which transactions write unique values; `thorough`: whether an order is looked for that is not easily
/// found; the rest as `check_lists`.
pub fn check_registers(
    input: &Input<'_>,
    assumed: Assumed,
    kept: Kept,
    thorough: bool,
    budget: u64,
) -> Result<Report, Refused> {
    input.validate(false).map_err(Refused::Malformed)?;
    let by_invocation = input.by_invocation();
    let predecessors = input.predecessors(&by_invocation).map_err(Refused::Malformed)?;
    let mut registers = Registers::new(input, assumed).map_err(|ops| twice(input, ops))?;
    // An order leaves no room for any finding; most often there is one, and it costs less to find than to look for findings.
    if kept == Kept::Realtime
        && registers.anomalies.is_empty()
        && let Serial::Order(order) = serial::search(input, &registers, &by_invocation, Placed::Transactions, true)
    {
        let mut report = Report::new(0);
        report.order = Some(confirmed(input, order, &predecessors, kept)?);
        return Ok(report);
    }
    registers.infer(&by_invocation, assumed);
    let mut edges = Edges::new(input.len(), 2 * input.kind.len() + 3 * input.len());
    registers.dependencies(&mut edges);
    keep(kept, &mut edges, input, &by_invocation, &predecessors, &registers.happened);
    let graph = edges.build();
    let sorted = graph.order();
    let mut report = Report::new(edges.len());
    if sorted.len() < graph.nodes() {
        let found = cycles::search(&graph, input, &predecessors, &sorted, kept, budget);
        report.take(found, |step| registers.show(step));
    } else if thorough && registers.anomalies.is_empty() && registers.circles.is_empty() {
        let order = match kept {
            Kept::Realtime => match serial::search(input, &registers, &by_invocation, Placed::Transactions, false) {
                Serial::Order(order) => Some(order),
                Serial::Impossible => None,
                Serial::GivenUp => greedy::order(&graph, &sorted, input, &registers),
            },
            Kept::Nothing | Kept::Process => greedy::order(&graph, &sorted, input, &registers),
        };
        report.order = order.map(|order| confirmed(input, order, &predecessors, kept)).transpose()?;
    }
    report.cycles.append(&mut registers.circles);
    report.anomalies = registers.anomalies;
    Ok(report)
}

/// An order that was carried out on the rows alone and explains every read of registers.
fn confirmed(input: &Input<'_>, order: Vec<u32>, predecessors: &[u32], kept: Kept) -> Result<Vec<u32>, Refused> {
    if replay::registers(input, &order, predecessors, kept) {
        Ok(order)
    } else {
        Err(Refused::Defect("an order of transactions that was found does not explain the reads"))
    }
}

/// Edges of the order of each process, or of real time.
fn keep(
    kept: Kept,
    edges: &mut Edges,
    input: &Input<'_>,
    by_invocation: &[u32],
    predecessors: &[u32],
    happened: &[bool],
) {
    match kept {
        Kept::Nothing => {}
        Kept::Process => {
            for t in (0..input.len()).filter(|&t| happened[t] && predecessors[t] != NONE) {
                edges.add(predecessors[t], t as u32, Kind::Process);
            }
        }
        Kept::Realtime => realtime::add(edges, input, by_invocation, happened),
    }
}

/// What is asked of transactions that need not be serializable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A commit order that keeps a level of weak isolation, and the order of each process if `sessions`.
    Commits { level: Level, sessions: bool },
    /// Starts and commits under snapshot isolation.
    Snapshots(Kept),
}

/// Look for an order that shows what is asked, in a history without any anomaly that read committed forbids.
pub fn check_weak(input: &Input<'_>, are_lists: bool, asked: Asked, budget: u64) -> Result<Weak, Refused> {
    input.validate(are_lists).map_err(Refused::Malformed)?;
    let by_invocation = input.by_invocation();
    let predecessors = input.predecessors(&by_invocation).map_err(Refused::Malformed)?;
    let mut edges = Edges::new(input.len(), 2 * input.kind.len());
    let judge = |isolation: Isolation<'_>| match asked {
        Asked::Commits { level, .. } => isolation.solve(level, are_lists),
        Asked::Snapshots(kept) => isolation.schedule(kept, &predecessors),
    };
    let sessions = matches!(asked, Asked::Commits { sessions: true, .. }).then_some(predecessors.as_slice());
    let found = if are_lists {
        let lists = Lists::new(input).map_err(|ops| twice(input, ops))?;
        lists.dependencies(&mut edges);
        if let Asked::Snapshots(kept) = asked {
            let before = snapshot::happened_before(&predecessors, &lists.happened);
            return match snapshot_lists::schedule(input, &lists, &edges, &before, kept) {
                Scheduled::Schedule(found) if snapshot::replay(input, &found, &before, true, kept) => {
                    Ok(Weak::Order(found))
                }
                Scheduled::Schedule(_) if lists.anomalies.is_empty() => {
                    Err(Refused::Defect("a schedule of transactions that was found does not explain the reads"))
                }
                _ => Ok(Weak::Spent),
            };
        }
        let mut found = judge(Isolation::new(input, &lists.happened, lists.observed(), &edges, sessions, budget));
        explain(&mut found, |step| lists.show(step));
        found
    } else {
        let assumed = Assumed { wfr: true, sequential: false, linearizable: false };
        let mut registers = Registers::new(input, assumed).map_err(|ops| twice(input, ops))?;
        if let Asked::Snapshots(kept) = asked
            && let Serial::Order(schedule) =
                serial::search(input, &registers, &by_invocation, Placed::StartsAndCommits, kept != Kept::Nothing)
        {
            // It keeps real time, and with that whatever is asked.
            let before = snapshot::happened_before(&predecessors, &registers.happened);
            if snapshot::replay(input, &schedule, &before, false, kept) {
                return Ok(Weak::Order(schedule));
            }
            if registers.anomalies.is_empty() {
                return Err(Refused::Defect("a schedule of transactions that was found does not explain the reads"));
            }
        }
        registers.infer(&by_invocation, assumed);
        registers.dependencies(&mut edges);
        let mut found =
            judge(Isolation::new(input, &registers.happened, registers.observed(), &edges, sessions, budget));
        explain(&mut found, |step| registers.show(step));
        found
    };
    match found {
        Weak::Defect => Err(Refused::Defect("an order of commits, or the circle that forbids one, is not confirmed")),
        found => Ok(found),
    }
}

/// Name the rows that show the steps which came with the input.
fn explain(found: &mut Weak, show: impl Fn(&mut Step)) {
    if let Weak::Circle(steps) = found {
        steps.iter_mut().filter(|step| step.step.from_op == NONE).for_each(|step| show(&mut step.step));
    }
}

impl Report {
    fn new(edges: usize) -> Self {
        Self {
            anomalies: Vec::new(),
            cycles: Vec::new(),
            order: None,
            edges,
            components: 0,
            largest: 0,
            unfinished: Vec::new(),
            spent: 0,
        }
    }

    fn take(&mut self, found: Found, show: impl Fn(&mut Step)) {
        self.cycles = found.cycles;
        self.cycles.iter_mut().flat_map(|cycle| &mut cycle.steps).for_each(show);
        self.components = found.components;
        self.largest = found.largest;
        self.unfinished = found.unfinished;
        self.spent = found.spent;
    }
}

fn twice(input: &Input<'_>, (first, second): (u32, u32)) -> Refused {
    let owners = input.owners();
    Refused::Malformed(format!(
        "transactions {} and {} both write {} to key {}; every value may be written to a key once only",
        owners[first as usize], owners[second as usize], input.value[first as usize], input.key[first as usize]
    ))
}
