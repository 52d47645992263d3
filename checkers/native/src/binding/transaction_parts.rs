//! The binding of histories that are judged in parts: columns in, results out.
//!
//! A function has one parameter for each column, with the column's name in Python.

use numpy::{PyArray1, ToPyArray};
use pyo3::prelude::*;

use super::attend::safely;
use super::transactions::{AnomalyRow, Column, CycleRow, anomaly, borrowed, cycle, judged, raise};
use crate::limits::Stop;
use crate::transactions::parts::{self, Core, Shown};
use crate::transactions::{Assumed, Failure, Input, Kind, kind_of};

type Rows<'py> = Bound<'py, PyArray1<u32>>;

/// The result for whole keys.
#[pyclass(frozen, module = "fencepost.checkers._core")]
pub struct TransactionPart {
    shown: Shown,
    circles: Vec<i64>,
}

#[pymethods]
impl TransactionPart {
    #[getter]
    fn anomalies(&self) -> Vec<AnomalyRow> {
        self.shown.anomalies.iter().map(anomaly).collect()
    }

    #[getter]
    fn circles(&self) -> Vec<i64> {
        self.circles.clone()
    }

    #[getter]
    fn observed<'py>(&self, py: Python<'py>) -> Rows<'py> {
        self.shown.observed.to_pyarray(py)
    }

    #[getter]
    fn edges<'py>(&self, py: Python<'py>) -> (Rows<'py>, Rows<'py>, Bound<'py, PyArray1<u8>>) {
        let edges = &self.shown.edges;
        let column = |of: fn(&(u32, u32, Kind)) -> u32| PyArray1::from_iter(py, edges.iter().map(of));
        let kinds = PyArray1::from_iter(py, edges.iter().map(|&(_, _, kind)| kind as u8));
        (column(|edge| edge.0), column(|edge| edge.1), kinds)
    }

    #[getter]
    fn moments<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        self.shown.moments.to_pyarray(py)
    }
}

/// The result for the edges that may close a cycle.
#[pyclass(frozen, module = "fencepost.checkers._core")]
pub struct TransactionCore {
    core: Core,
}

#[pymethods]
impl TransactionCore {
    #[getter]
    fn cycles(&self) -> Vec<CycleRow> {
        self.core.report.cycles.iter().map(cycle).collect()
    }

    #[getter]
    fn unfinished(&self) -> Vec<&'static str> {
        self.core.report.unfinished.clone()
    }

    #[getter]
    fn stop(&self) -> Option<&'static str> {
        self.core.report.stop.map(Stop::name)
    }

    #[getter]
    fn components(&self) -> usize {
        self.core.report.components
    }

    #[getter]
    fn largest(&self) -> usize {
        self.core.report.largest
    }

    #[getter]
    fn steps(&self) -> u64 {
        self.core.report.spent
    }

    #[getter]
    #[allow(clippy::type_complexity)]
    fn points<'py>(&self, py: Python<'py>) -> Option<(Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>)> {
        let points = self.core.points.as_ref()?;
        let times = PyArray1::from_iter(py, points.iter().map(|point| point.0));
        Some((times, PyArray1::from_iter(py, points.iter().map(|point| point.1))))
    }
}

/// Judge whole keys of a history.
#[pyfunction]
#[pyo3(signature = (
    process, outcome, invoked, completed, first, kind, key, value, start, elements, *, lists, wfr, sequential,
    linearizable
))]
#[allow(clippy::too_many_arguments)]
pub fn transaction_part(
    py: Python<'_>,
    process: Column<'_>,
    outcome: Column<'_>,
    invoked: Column<'_>,
    completed: Column<'_>,
    first: Column<'_>,
    kind: Column<'_>,
    key: Column<'_>,
    value: Column<'_>,
    start: Column<'_>,
    elements: Column<'_>,
    lists: bool,
    wfr: bool,
    sequential: bool,
    linearizable: bool,
) -> PyResult<TransactionPart> {
    let (start, elements) = (start.as_slice()?, elements.as_slice()?);
    let input = borrowed!(process, outcome, invoked, completed, first, kind, key, value; start, elements);
    let assumed = Assumed { wfr, sequential, linearizable };
    let judge = || if lists { parts::of_lists(&input) } else { parts::of_registers(&input, assumed) };
    let shown = py.detach(|| safely(judge))?.map_err(raise)?;
    let steps = shown.circles.iter().filter_map(|circle| circle.steps.first());
    let circles = steps.map(|step| input.key[step.from_op as usize]).collect();
    Ok(TransactionPart { shown, circles })
}

/// Judge transactions by real time and the edges between them.
#[pyfunction]
#[pyo3(signature = (
    process, outcome, invoked, completed, times, levels, sources, targets, kinds, *, nodes, steps,
    wall_s=60.0
))]
#[allow(clippy::too_many_arguments)]
pub fn judge_transaction_core(
    py: Python<'_>,
    process: Column<'_>,
    outcome: Column<'_>,
    invoked: Column<'_>,
    completed: Column<'_>,
    times: Column<'_>,
    levels: Column<'_>,
    sources: Column<'_>,
    targets: Column<'_>,
    kinds: Column<'_>,
    nodes: u32,
    steps: u64,
    wall_s: f64,
) -> PyResult<TransactionCore> {
    let process = process.as_slice()?;
    let first = vec![0; process.len() + 1];
    let input = Input {
        process,
        outcome: outcome.as_slice()?,
        invoked: invoked.as_slice()?,
        completed: completed.as_slice()?,
        first: &first,
        kind: &[],
        key: &[],
        value: &[],
        start: &[0],
        elements: &[],
    };
    let begin: Vec<(i64, i64)> = times.as_slice()?.iter().copied().zip(levels.as_slice()?.iter().copied()).collect();
    let (sources, targets, kinds) = (sources.as_slice()?, targets.as_slice()?, kinds.as_slice()?);
    if sources.len() != targets.len() || sources.len() != kinds.len() {
        return Err(raise(Failure::MalformedInput("the columns of edges differ in length".to_string())));
    }
    let edges = sources.iter().zip(targets).zip(kinds).map(|((&from, &to), &kind)| (from, to, kind_of(kind)));
    let core = judged(py, wall_s, || parts::judge_core(&input, &begin, nodes, edges, steps))?;
    Ok(TransactionCore { core })
}
