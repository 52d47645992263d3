//! The binding of the checkers of transactions: columns in, one report out.
//!
//! A function has one parameter for each column, with the column's name in Python.

use std::collections::BTreeMap;
use std::convert::Infallible;

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::attend::{attend, raise_defect};
use ::transactions::{
    self, Anomaly, Asked, Assumed, Cycle, Failure, Input, Kept, Kind, Level, NONE, Report, Step, Weak, WeakStep,
};
use limits::Stop;
use limits::interrupt::within;

type Column<'py> = PyReadonlyArray1<'py, i64>;
type AnomalyRow = (&'static str, i64, i64, i64, i64, i64, i64);
type StepRow = (i64, i64, &'static str, i64, i64, i64, i64);
type WeakStepRow = (StepRow, i64, Vec<StepRow>);
type CycleRow = (&'static str, bool, Vec<StepRow>);

/// The columns of `transactions::Input`, in its order.
type Columns<'py> = [Column<'py>; 10];

fn input<'a>(columns: &'a Columns<'_>) -> PyResult<Input<'a>> {
    let [process, outcome, invoked, completed, first, kind, key, value, start, elements] =
        columns.each_ref().map(|column| column.as_slice());
    Ok(Input {
        process: process?,
        outcome: outcome?,
        invoked: invoked?,
        completed: completed?,
        first: first?,
        kind: kind?,
        key: key?,
        value: value?,
        start: start?,
        elements: elements?,
    })
}

/// The result for a history of transactions. Rows are rows of the columns; -1: none.
#[pyclass(frozen, get_all, module = "fencepost.checkers._core")]
pub struct TransactionReport {
    anomalies: Vec<AnomalyRow>,
    counts: Vec<(&'static str, usize)>,
    misses_own: bool,
    cycles: Vec<CycleRow>,
    order: Option<Order>,
    edges: usize,
    components: usize,
    largest: usize,
    unfinished: Vec<&'static str>,
    stop: Option<&'static str>,
    steps: u64,
}

impl TransactionReport {
    fn new(report: Report) -> Self {
        Self {
            anomalies: report.anomalies.shown.iter().map(anomaly).collect(),
            counts: report.anomalies.counts,
            misses_own: report.anomalies.miss_own,
            cycles: report.cycles.iter().map(cycle).collect(),
            order: report.order.map(Order),
            edges: report.edges,
            components: report.components,
            largest: report.largest,
            unfinished: report.unfinished,
            stop: report.stop.map(Stop::name),
            steps: report.spent,
        }
    }
}

/// Rows, in Python as an array.
#[derive(Clone)]
struct Order(Vec<u32>);

impl<'py> IntoPyObject<'py> for Order {
    type Target = PyArray1<u32>;
    type Output = Bound<'py, Self::Target>;
    type Error = Infallible;

    fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Infallible> {
        Ok(self.0.into_pyarray(py))
    }
}

fn row(number: u32) -> i64 {
    if number == NONE { -1 } else { i64::from(number) }
}

fn anomaly(found: &Anomaly) -> AnomalyRow {
    let ([shows, other], [op, than]) = (found.transactions, found.ops);
    (found.name, row(shows), row(other), row(op), row(than), row(found.key), found.value)
}

fn cycle(found: &Cycle) -> CycleRow {
    (found.name, found.shortest, found.steps.iter().map(step_row).collect())
}

fn step_row(step: &Step) -> StepRow {
    let kind = match step.kind {
        Kind::Ww => "ww",
        Kind::Wr => "wr",
        Kind::Rw => "rw",
        Kind::Process => "process",
        Kind::Realtime | Kind::Pass => "realtime",
    };
    let [first, second] = step.shown_by;
    (row(step.from), row(step.to), kind, row(step.from_op), row(step.to_op), row(first), row(second))
}

/// The result of a search for a commit order that keeps a level of weak isolation.
#[pyclass(frozen, get_all, module = "fencepost.checkers._core")]
pub struct WeakReport {
    anomalies: Vec<AnomalyRow>,
    counts: Vec<(&'static str, usize)>,
    misses_own: bool,
    order: Option<Order>,
    circle: Vec<WeakStepRow>,
    stop: Option<&'static str>,
}

/// Look for a commit order that keeps a level of weak isolation.
#[pyfunction]
#[pyo3(signature = (
    columns, *, lists, level, sessions, realtime, steps, wall_s=60.0
))]
#[allow(clippy::too_many_arguments)]
pub fn check_weak_isolation(
    py: Python<'_>,
    columns: Columns<'_>,
    lists: bool,
    level: &str,
    sessions: bool,
    realtime: bool,
    steps: u64,
    wall_s: f64,
) -> PyResult<WeakReport> {
    let input = input(&columns)?;
    let commits = |level| Asked::Commits { level, sessions };
    let asked = match level {
        "committed" => commits(Level::Committed),
        "view" => commits(Level::View),
        "atomic" => commits(Level::Atomic),
        "causal" => commits(Level::Causal),
        "snapshot" => Asked::Snapshots(kept(sessions, realtime)),
        _ => {
            let expected = "expected committed, view, atomic, causal or snapshot";
            return Err(PyValueError::new_err(format!("level is {level}; {expected}")));
        }
    };
    let report = judged(py, wall_s, || transactions::check_weak(&input, lists, asked, steps))?;
    let mut out = WeakReport {
        anomalies: report.anomalies.shown.iter().map(anomaly).collect(),
        counts: report.anomalies.counts,
        misses_own: report.anomalies.miss_own,
        order: None,
        circle: Vec::new(),
        stop: None,
    };
    let weak_step = |weak: &WeakStep| (step_row(&weak.step), row(weak.read), weak.path.iter().map(step_row).collect());
    match report.found {
        Weak::Order(order) => out.order = Some(Order(order)),
        Weak::Circle(steps) => out.circle = steps.iter().map(weak_step).collect(),
        Weak::NotFound(stop) => out.stop = stop.map(Stop::name),
        Weak::Defect => {}
    }
    Ok(out)
}

/// Count how often each rule about transactions could have fired, by what that takes.
#[pyfunction]
#[pyo3(signature = (columns, *, lists))]
pub fn transaction_chances(columns: Columns<'_>, lists: bool) -> PyResult<BTreeMap<&'static str, u64>> {
    let input = input(&columns)?;
    let c = transactions::chances(&input, lists).map_err(PyValueError::new_err)?;
    Ok(BTreeMap::from([
        ("read", c.read),
        ("tested", c.tested),
        ("read_by_writer", c.read_by_writer),
        ("read_with_more", c.read_with_more),
        ("read_with_read", c.read_with_read),
        ("read_again", c.read_again),
        ("read_of_failed", c.read_of_failed),
        ("update_of_failed", c.update_of_failed),
        ("read_of_twice_written", c.read_of_twice_written),
        ("read_of_own", c.read_of_own),
        ("read_before_own_write", c.read_before_own_write),
        ("updates", c.updates),
        ("overwritten", c.overwritten),
        ("overwritten_in_two_keys", c.overwritten_in_two_keys),
    ]))
}

/// Judge lists to which transactions append unique values.
#[pyfunction]
#[pyo3(signature = (columns, *, realtime, steps,
    sessions=false, realtime_cycles=true, wall_s=60.0))]
#[allow(clippy::too_many_arguments)]
pub fn check_list_append(
    py: Python<'_>,
    columns: Columns<'_>,
    realtime: bool,
    steps: u64,
    sessions: bool,
    realtime_cycles: bool,
    wall_s: f64,
) -> PyResult<TransactionReport> {
    let input = input(&columns)?;
    let kept = kept(sessions, realtime);
    let report = judged(py, wall_s, || transactions::check_lists(&input, kept, realtime_cycles, steps))?;
    Ok(TransactionReport::new(report))
}

/// Judge registers to which transactions write unique values.
#[pyfunction]
#[pyo3(signature = (
    columns, *, realtime, wfr, sequential, linearizable, steps,
    sessions=false, realtime_cycles=true, thorough=true, wall_s=60.0
))]
#[allow(clippy::too_many_arguments)]
pub fn check_rw_register(
    py: Python<'_>,
    columns: Columns<'_>,
    realtime: bool,
    wfr: bool,
    sequential: bool,
    linearizable: bool,
    steps: u64,
    sessions: bool,
    realtime_cycles: bool,
    thorough: bool,
    wall_s: f64,
) -> PyResult<TransactionReport> {
    let input = input(&columns)?;
    let assumed = Assumed { wfr, sequential, linearizable };
    let kept = kept(sessions, realtime);
    let report =
        judged(py, wall_s, || transactions::check_registers(&input, assumed, kept, realtime_cycles, thorough, steps))?;
    Ok(TransactionReport::new(report))
}

/// Real time holds the order of each process too.
fn kept(sessions: bool, realtime: bool) -> Kept {
    match (sessions, realtime) {
        (_, true) => Kept::Realtime,
        (true, false) => Kept::Process,
        (false, false) => Kept::Nothing,
    }
}

/// Run `judge` for at most `wall_s` seconds, with the interpreter's lock released and its signals handled.
fn judged<T: Send>(py: Python<'_>, wall_s: f64, judge: impl FnOnce() -> Result<T, Failure> + Send) -> PyResult<T> {
    attend(py, wall_s, true, |deadline| within(deadline, judge))?.map_err(raise)
}

fn raise(failure: Failure) -> PyErr {
    match failure {
        Failure::MalformedInput(why) => PyValueError::new_err(why),
        Failure::Defect(defect) => raise_defect(defect),
    }
}
