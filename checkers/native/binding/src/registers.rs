//! The binding of registers: columns in, one result per key out.
//!
//! A function has one parameter for each column, with the column's name in Python.

use std::thread::available_parallelism;

use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::attend::{attend, raise_defect};
use ::registers::keys::{Budget, WORTH_THREADS, judge_keys};
use ::registers::{Judged, Proofs};
use search::history::Rows;
use search::window::BEGINNING;
use search::{CasRegister, Finding, minimal};

type Column<'py> = PyReadonlyArray1<'py, i64>;

/// Operations that no order explains, whatever came before them.
#[pyclass(frozen, get_all, module = "fencepost.checkers._core")]
#[derive(Clone)]
pub struct Proof {
    kind: &'static str,
    since: Option<i64>,
    until: i64,
    must: Vec<u32>,
    may: Vec<u32>,
    shown: Vec<(u32, u32)>,
    steps: u64,
}

/// The result of the search for one key. It names operations by their rows.
#[pyclass(frozen, get_all, module = "fencepost.checkers._core")]
pub struct KeyResult {
    key: i64,
    verdict: &'static str,
    reason: &'static str,
    stop: Option<&'static str>,
    method: &'static str,
    operations: usize,
    steps: u64,
    order: Vec<u32>,
    failed: Option<u32>,
    open: Vec<u32>,
    states: Vec<u32>,
    proof: Option<Proof>,
    minimal: Option<Proof>,
}

/// Judge registers, one per distinct `key`, under one budget.
#[pyfunction]
#[pyo3(signature = (key, f, a, b, invoked, returned, *, steps, memory_bytes, wall_s, threads=0, orders=false))]
#[allow(clippy::too_many_arguments)]
pub fn check_registers(
    py: Python<'_>,
    key: Column<'_>,
    f: Column<'_>,
    a: Column<'_>,
    b: Column<'_>,
    invoked: Column<'_>,
    returned: Column<'_>,
    steps: u64,
    memory_bytes: usize,
    wall_s: f64,
    threads: usize,
    orders: bool,
) -> PyResult<Vec<KeyResult>> {
    let columns = [&key, &f, &a, &b, &invoked, &returned];
    let [key, f, a, b, invoked, returned] = columns.map(|column| column.as_slice());
    let rows = Rows { key: key?, f: f?, a: a?, b: b?, invoked: invoked?, returned: returned? };
    let threads = match threads {
        // To ask how many there are takes longer than to judge so few.
        0 if rows.key.len() < WORTH_THREADS => 1,
        0 => available_parallelism().map_or(1, usize::from),
        given => given,
    };
    let alone = threads == 1 || rows.key.len() < WORTH_THREADS;
    attend(py, wall_s, alone, |deadline| {
        let budget = Budget { steps, memory_bytes, deadline, threads };
        let split = rows.split().map_err(PyValueError::new_err)?;
        let judged = judge_keys(&CasRegister, &split.each(), &budget).map_err(raise_defect)?;
        Ok(split.keys.into_iter().zip(judged).map(|(key, judged)| result(key, judged, orders)).collect())
    })?
}

fn proof_of(proof: minimal::Proof, steps: u64) -> Proof {
    let minimal::Proof { since, until, must, may, shown } = proof;
    Proof { kind: "window", since: (since != BEGINNING).then_some(since), until, must, may, shown, steps }
}

fn result(key: i64, judged: Judged<u32>, orders: bool) -> KeyResult {
    let mut out = KeyResult {
        key,
        verdict: "valid",
        reason: "",
        stop: None,
        method: judged.method,
        operations: judged.operations,
        steps: judged.steps,
        order: Vec::new(),
        failed: None,
        open: Vec::new(),
        states: Vec::new(),
        proof: None,
        minimal: None,
    };
    if let Some(Proofs { window, minimal, confirming_steps, cutting_steps }) = judged.proofs {
        out.proof = Some(proof_of(window, confirming_steps));
        out.minimal = Some(proof_of(minimal, cutting_steps));
    }
    match judged.finding {
        Finding::Explained { order } if orders => out.order = order,
        Finding::Explained { .. } => {}
        Finding::Refuted { failed, prefix, states, open } => {
            out.verdict = "invalid";
            out.order = prefix;
            out.failed = Some(failed);
            out.states = states;
            out.open = open;
        }
        Finding::Stopped(stop) => {
            out.verdict = "unknown";
            out.stop = Some(stop.name());
            out.reason = if judged.is_unconfirmed {
                "no order was found, but the refutation could not be confirmed within the budget"
            } else {
                stop.reason()
            };
        }
    }
    out
}
