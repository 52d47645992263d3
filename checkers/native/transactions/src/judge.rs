//! Judge transactions: report the anomalies that a history shows, or an order that explains all of it.

use super::anomaly::{Anomalies, Anomaly, Step};
use super::cycles::{self, Cycle, Found};
use super::graph::{Edges, Graph, Kind, Target};
use super::input::{Input, Kept, NONE};
use super::lists::Lists;
use super::placed::Placed;
use super::registers::{Assumed, Registers};
use super::serial::Serial;
use super::snapshot;
use super::snapshot_lists::{self, Scheduled};
use super::times::{in_real_time, loosely};
use super::weak::{Isolation, Level, Weak};
use super::{greedy, realtime, replay};
use limits::{Defect, Stop, interrupt};

/// What a history shows. Rows are transactions and micro-operations of the input.
pub struct Report {
    /// All anomalies but cycles.
    pub anomalies: Anomalies,
    /// One of each class.
    pub cycles: Vec<Cycle>,
    /// Without any anomaly: an order in which the transactions, carried out one by one, return what they returned, real
    /// time kept; confirmed. None where no such order was found.
    pub order: Option<Vec<u32>>,
    /// Edges of the graph, virtual nodes' included; 0 where an order was found without one.
    pub edges: usize,
    /// Strongly connected components.
    pub components: usize,
    /// The number of transactions in the largest of them.
    pub largest: usize,
    /// Classes of cycles for which the budget ended the search.
    pub unfinished: Vec<&'static str>,
    /// What ended the search of cycles or of an order before its end, if anything of the budget did.
    pub stop: Option<Stop>,
    /// Steps spent on shortest cycles.
    pub spent: u64,
}

/// Why there is no report.
#[derive(Debug)]
pub enum Failure {
    /// The input means nothing.
    MalformedInput(String),
    /// An answer that the rows do not confirm: no fault of the input.
    Defect(Defect),
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self::MalformedInput(why)
    }
}

/// Judge lists to which transactions append unique values.
///
/// `kept`: what orders of transactions keep; `realtime`: whether cycles with real time are asked for; `budget`: steps for the
/// search of shortest cycles.
pub fn check_lists(input: &Input<'_>, kept: Kept, realtime: bool, budget: u64) -> Result<Report, Failure> {
    let (by_invocation, predecessors) = prepared(input, true)?;
    let lists = Lists::new(input)?;
    let edges = |kept| {
        let mut edges = Edges::new(input.len(), 2 * input.kind.len() + 3 * input.len());
        lists.dependencies(&mut edges);
        keep(kept, &mut edges, input, &by_invocation, &predecessors, &lists.happened);
        edges
    };
    let all = edges(kept);
    let graph = all.build();
    let sorted = graph.order();
    let mut report = Report::new(all.len());
    if sorted.len() < graph.nodes() {
        let found = searched(graph, sorted, input, &predecessors, kept, realtime, budget, edges);
        report.take(found, |step| lists.show(step));
    } else if lists.anomalies.is_empty() {
        let order = replay::of(&sorted, &lists.happened);
        if !replay::lists(input, &order, &predecessors, kept) {
            return Err(Failure::Defect(Defect(
                "an order of transactions without anomaly does not explain the reads".into(),
            )));
        }
        report.order = Some(order);
    }
    report.anomalies = Anomalies::new(&lists.anomalies, input, true);
    Ok(report)
}

/// The transactions by invocation, and of each the one of its process before it; of columns that mean something.
fn prepared(input: &Input<'_>, are_lists: bool) -> Result<(Vec<u32>, Vec<u32>), Failure> {
    input.validate(are_lists)?;
    let by_invocation = input.by_invocation();
    let predecessors = input.predecessors(&by_invocation)?;
    Ok((by_invocation, predecessors))
}

/// Judge registers to which transactions write unique values; `thorough`: whether an order is looked for that is not easily
/// found; the rest as `check_lists`.
pub fn check_registers(
    input: &Input<'_>,
    assumed: Assumed,
    kept: Kept,
    realtime: bool,
    thorough: bool,
    budget: u64,
) -> Result<Report, Failure> {
    let (by_invocation, predecessors) = prepared(input, false)?;
    let mut registers = Registers::new(input, assumed)?;
    // An order leaves no room for any finding; most often there is one, and it costs less to find than to look for findings.
    if kept == Kept::Realtime
        && registers.anomalies.is_empty()
        && let Serial::Order(order) = in_real_time(input, &registers, Placed::Transactions, true)
    {
        let mut report = Report::new(0);
        report.order = Some(confirmed(input, order, &predecessors, kept)?);
        return Ok(report);
    }
    registers.infer(&by_invocation, assumed);
    let edges = |kept| {
        let mut edges = Edges::new(input.len(), 2 * input.kind.len() + 3 * input.len());
        registers.dependencies(&mut edges);
        keep(kept, &mut edges, input, &by_invocation, &predecessors, &registers.happened);
        edges
    };
    let all = edges(kept);
    let graph = all.build();
    let sorted = graph.order();
    let mut report = Report::new(all.len());
    if sorted.len() < graph.nodes() {
        let found = searched(graph, sorted, input, &predecessors, kept, realtime, budget, edges);
        report.take(found, |step| registers.show(step));
    } else if thorough && registers.anomalies.is_empty() && registers.circles.is_empty() {
        let before = followed(kept, &predecessors, &registers);
        let greedily = || greedy::order(&graph, &sorted, input, &registers);
        let at_length = || in_real_time(input, &registers, Placed::Transactions, false);
        let order = if kept == Kept::Realtime {
            match at_length() {
                Serial::Order(order) => Some(order),
                Serial::Impossible => None,
                Serial::GivenUp => greedily(),
            }
        } else {
            loosely(input, &registers, &before, Placed::Transactions).or_else(greedily).or_else(|| at_length().order())
        };
        report.stop = if order.is_none() { interrupt::stop() } else { None };
        report.order = order.map(|order| confirmed(input, order, &predecessors, kept)).transpose()?;
    }
    report.cycles.append(&mut registers.circles);
    report.anomalies = Anomalies::new(&registers.anomalies, input, false);
    Ok(report)
}

/// Cycles of a graph that is not acyclic; unless those of `realtime` are asked for, of the graph without it.
///
/// Of sessions whose clocks differ, real time makes one large component of all.
#[allow(clippy::too_many_arguments)]
fn searched(
    graph: Graph,
    sorted: Vec<u32>,
    input: &Input<'_>,
    predecessors: &[u32],
    kept: Kept,
    realtime: bool,
    budget: u64,
    edges: impl Fn(Kept) -> Edges,
) -> Found {
    if realtime || kept != Kept::Realtime {
        return cycles::search(&graph, input, predecessors, &sorted, kept, budget);
    }
    let graph = edges(Kept::Process).build();
    let sorted = graph.order();
    cycles::search(&graph, input, predecessors, &sorted, Kept::Process, budget)
}

/// Per transaction: the one of its process that an order has to have before it; no row where none is kept.
fn followed(kept: Kept, predecessors: &[u32], registers: &Registers<'_>) -> Vec<u32> {
    if kept == Kept::Process { snapshot::happened_before(predecessors, &registers.happened) } else { Vec::new() }
}

/// An order that was carried out on the rows alone and explains every read of registers.
fn confirmed(input: &Input<'_>, order: Vec<u32>, predecessors: &[u32], kept: Kept) -> Result<Vec<u32>, Failure> {
    if replay::registers(input, &order, predecessors, kept) {
        Ok(order)
    } else {
        Err(Failure::Defect(Defect("an order of transactions that was found does not explain the reads".into())))
    }
}

/// Edges of the order of each process, or of real time.
pub(super) fn keep(
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
    /// A commit order that keeps a level of weak isolation.
    Commits {
        /// What a transaction must have seen.
        level: Level,
        /// Whether the order of each process is kept.
        sessions: bool,
    },
    /// Starts and commits under snapshot isolation.
    Snapshots(Kept),
}

/// What orders of versions weak models are judged by.
const ASSUMED: Assumed = Assumed { wfr: true, sequential: false, linearizable: false };

/// What a search for an order shows, and the anomalies that were met on the way: for commits all but cycles, else none.
pub struct WeakReport {
    /// An order, or why there is none.
    pub found: Weak,
    /// The first of each name, and how many there are.
    pub anomalies: Anomalies,
}

/// Look for an order that shows what is asked. Where the history has anomalies that every level forbids, none is looked
/// for.
pub fn check_weak(input: &Input<'_>, are_lists: bool, asked: Asked, budget: u64) -> Result<WeakReport, Failure> {
    let (by_invocation, predecessors) = prepared(input, are_lists)?;
    let mut anomalies = Anomalies::default();
    let found = match (asked, are_lists) {
        (Asked::Snapshots(kept), true) => snapshots_of_lists(input, &predecessors, kept)?,
        (Asked::Snapshots(kept), false) => snapshots_of_registers(input, &by_invocation, &predecessors, kept, budget)?,
        (Asked::Commits { level, sessions }, true) => {
            let lists = Lists::new(input)?;
            anomalies = Anomalies::new(&lists.anomalies, input, true);
            if anomalies.forbid(level) {
                return Ok(WeakReport { found: Weak::NotFound(None), anomalies });
            }
            let mut edges = Edges::new(input.len(), 2 * input.kind.len());
            lists.dependencies(&mut edges);
            let sessions = sessions.then_some(predecessors.as_slice());
            let (rows, observed) = ((lists.owner.as_slice(), lists.is_final.as_slice()), lists.observed());
            let certain = (edges.nodes, edges.certain());
            let mut isolation = Isolation::new(input, &lists.happened, rows, &observed, certain, sessions, budget);
            explained(isolation.solve(level, true), |step| lists.show(step))
        }
        (Asked::Commits { level, sessions }, false) => {
            // A version that follows the one which its transaction read adds nothing: its writer reads from the other's.
            let registers = Registers::new(input, ASSUMED)?;
            anomalies = Anomalies::new(&registers.anomalies, input, false);
            if anomalies.forbid(level) {
                return Ok(WeakReport { found: Weak::NotFound(None), anomalies });
            }
            let sessions = sessions.then_some(predecessors.as_slice());
            let certain = (input.len() as u32, registers.read_from());
            let mut isolation = isolation_of(input, &registers, certain, sessions, budget);
            explained(isolation.solve(level, false), |step| registers.show(step))
        }
    };
    match found {
        Weak::Defect => {
            Err(Failure::Defect(Defect("an order of commits, or the circle that forbids one, is not confirmed".into())))
        }
        found => Ok(WeakReport { found, anomalies }),
    }
}

fn isolation_of<'a>(
    input: &'a Input<'a>,
    registers: &'a Registers<'a>,
    certain: (u32, Vec<(u32, Target)>),
    sessions: Option<&[u32]>,
    budget: u64,
) -> Isolation<'a> {
    let rows = (registers.owner.as_slice(), registers.is_final.as_slice());
    Isolation::new(input, &registers.happened, rows, &registers.observed, certain, sessions, budget)
}

/// A schedule of lists, or that none was found.
fn snapshots_of_lists(input: &Input<'_>, predecessors: &[u32], kept: Kept) -> Result<Weak, Failure> {
    let lists = Lists::new(input)?;
    let before = snapshot::happened_before(predecessors, &lists.happened);
    match snapshot_lists::schedule(input, &lists, &before, kept) {
        Scheduled::Schedule(found) => scheduled(input, found, &before, true, kept, &lists.anomalies),
        Scheduled::Impossible => Ok(Weak::NotFound(None)),
        Scheduled::GivenUp => Ok(Weak::NotFound(interrupt::stop())),
    }
}

/// A schedule of registers, or that none was found: the likely ones first.
fn snapshots_of_registers(
    input: &Input<'_>,
    by_invocation: &[u32],
    predecessors: &[u32],
    kept: Kept,
    budget: u64,
) -> Result<Weak, Failure> {
    let mut registers = Registers::new(input, ASSUMED)?;
    let before = snapshot::happened_before(predecessors, &registers.happened);
    let in_real_time =
        |registers: &Registers<'_>, easy| match in_real_time(input, registers, Placed::StartsAndCommits, easy) {
            Serial::Order(found) => Some(found),
            Serial::Impossible | Serial::GivenUp => None,
        };
    if let Some(found) = in_real_time(&registers, true) {
        return scheduled(input, found, &before, false, kept, &registers.anomalies);
    }
    registers.infer(by_invocation, ASSUMED);
    let mut edges = Edges::new(input.len(), 2 * input.kind.len());
    registers.dependencies(&mut edges);
    let isolation = isolation_of(input, &registers, (edges.nodes, edges.certain()), None, budget);
    if let Some(found) = isolation.schedule(kept, &before) {
        return Ok(Weak::Order(found));
    }
    let follows = followed(kept, predecessors, &registers);
    let late = || loosely(input, &registers, &follows, Placed::StartsAndCommits);
    match in_real_time(&registers, false).or_else(|| if kept == Kept::Realtime { None } else { late() }) {
        Some(found) => scheduled(input, found, &before, false, kept, &registers.anomalies),
        None => Ok(Weak::NotFound(interrupt::stop())),
    }
}

/// A schedule that was carried out on the rows alone.
fn scheduled(
    input: &Input<'_>,
    found: Vec<u32>,
    before: &[u32],
    are_lists: bool,
    kept: Kept,
    anomalies: &[Anomaly],
) -> Result<Weak, Failure> {
    if snapshot::replay(input, &found, before, are_lists, kept) {
        Ok(Weak::Order(found))
    } else if anomalies.is_empty() {
        Err(Failure::Defect(Defect("a schedule of transactions that was found does not explain the reads".into())))
    } else {
        Ok(Weak::NotFound(None))
    }
}

/// With the rows named that show the steps which came with the input.
fn explained(mut found: Weak, show: impl Fn(&mut Step)) -> Weak {
    if let Weak::Circle(steps) = &mut found {
        steps.iter_mut().filter(|step| step.step.from_op == NONE).for_each(|step| show(&mut step.step));
    }
    found
}

impl Report {
    pub(super) fn new(edges: usize) -> Self {
        Self {
            anomalies: Anomalies::default(),
            cycles: Vec::new(),
            order: None,
            edges,
            components: 0,
            largest: 0,
            unfinished: Vec::new(),
            stop: None,
            spent: 0,
        }
    }

    pub(super) fn take(&mut self, found: Found, show: impl Fn(&mut Step)) {
        self.cycles = found.cycles;
        self.cycles.iter_mut().flat_map(|cycle| &mut cycle.steps).for_each(show);
        self.components = found.components;
        self.largest = found.largest;
        self.unfinished = found.unfinished;
        self.stop = found.stop;
        self.spent = found.spent;
    }
}
