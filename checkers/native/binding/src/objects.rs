//! The binding of objects beyond registers: columns in, one result per object out.
//!
//! A function has one parameter for each column, with the column's name in Python.

use std::sync::{Mutex, PoisonError};

use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::attend::{attend, raise_defect};
use search::Finding;
use search::objects::judge::{Judged, Kind, Spending, Subhistory, judge_foreign, judge_objects};
use search::objects::{Call, bank, foreign, log, multi_register};

type Column<'py> = PyReadonlyArray1<'py, i64>;

/// The largest number of elements, registers or accounts, which are numbered densely; more are a mistake.
const NUMBERED_MAX: i64 = 1 << 30;

/// The result of the search for one object. It names calls by their rows.
#[pyclass(frozen, get_all, module = "fencepost.checkers._core")]
pub struct ObjectResult {
    key: i64,
    verdict: &'static str,
    reason: &'static str,
    stop: Option<&'static str>,
    operations: usize,
    steps: u64,
    order: Vec<u32>,
    failed: Option<u32>,
    open: Vec<u32>,
    states: Vec<Vec<i64>>,
    states_count: usize,
}

/// Judge objects of one kind, one per distinct `key`, under one budget.
#[pyfunction]
#[pyo3(signature = (kind, key, f, first, arguments, invoked, returned, *, permits=1, steps, memory_bytes, wall_s,
                    orders=false))]
#[allow(clippy::too_many_arguments)]
pub fn check_objects(
    py: Python<'_>,
    kind: &str,
    key: Column<'_>,
    f: Column<'_>,
    first: Column<'_>,
    arguments: Column<'_>,
    invoked: Column<'_>,
    returned: Column<'_>,
    permits: i64,
    steps: u64,
    memory_bytes: usize,
    wall_s: f64,
    orders: bool,
) -> PyResult<Vec<ObjectResult>> {
    let kind = kind_of(kind, permits).map_err(PyValueError::new_err)?;
    let columns = [&key, &f, &first, &arguments, &invoked, &returned];
    let [key, f, first, arguments, invoked, returned] = columns.map(|column| column.as_slice());
    let rows =
        Rows { kind, key: key?, f: f?, first: first?, arguments: arguments?, invoked: invoked?, returned: returned? };
    attend(py, wall_s, true, |deadline| {
        let budget = Spending { steps, memory_bytes, deadline };
        let (keys, subhistories) = rows.split().map_err(PyValueError::new_err)?;
        let judged = judge_objects(kind, &subhistories, &budget).map_err(raise_defect)?;
        Ok(keys.into_iter().zip(judged).map(|(key, judged)| result(key, judged, orders)).collect())
    })?
}

/// Judge one object by a caller's own `step(state, kind)`, which returns the next state's number, or None.
///
/// State 0 is the one at first. What `step` raises ends the search, and is raised.
#[pyfunction]
#[pyo3(signature = (kind, reads, invoked, returned, step, *, steps, memory_bytes, wall_s))]
#[allow(clippy::too_many_arguments)]
pub fn check_model(
    py: Python<'_>,
    kind: Column<'_>,
    reads: Column<'_>,
    invoked: Column<'_>,
    returned: Column<'_>,
    step: Py<PyAny>,
    steps: u64,
    memory_bytes: usize,
    wall_s: f64,
) -> PyResult<ObjectResult> {
    let [kind, reads, invoked, returned] = [&kind, &reads, &invoked, &returned].map(|column| column.as_slice());
    let (kind, reads, invoked, returned) = (kind?, reads?, invoked?, returned?);
    if [reads, invoked, returned].iter().any(|column| column.len() != kind.len()) || kind.len() >= 1 << 30 {
        return Err(PyValueError::new_err("the columns differ in length, or have more than 2^30 rows"));
    }
    let mut subhistory = Subhistory::default();
    for row in 0..kind.len() {
        let number = i64::from(u32::try_from(kind[row]).map_err(|error| PyValueError::new_err(error.to_string()))?);
        let f = if reads[row] == 0 { foreign::CHANGES } else { foreign::READS };
        subhistory.push(row as u32, Call { f, args: [number].into() }, invoked[row], returned[row]);
    }
    subhistory.sort();
    let raised = Mutex::new(None);
    let judged = attend(py, wall_s, true, |deadline| {
        let ask = |state, kind| {
            let answer = Python::attach(|py| step.call1(py, (state, kind))?.extract::<Option<u32>>(py));
            answer.unwrap_or_else(|error| {
                raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                deadline.interrupt();
                None
            })
        };
        judge_foreign(ask, &subhistory, &Spending { steps, memory_bytes, deadline })
    });
    match raised.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(result(0, judged?.map_err(raise_defect)?, true)),
    }
}

fn kind_of(name: &str, permits: i64) -> Result<Kind, String> {
    if permits < 1 {
        return Err(format!("permits is {permits}; expected 1 or more"));
    }
    Ok(match name {
        "mutex" => Kind::Mutex,
        "owner-mutex" => Kind::OwnerMutex,
        "fenced-mutex" => Kind::FencedMutex,
        "semaphore" => Kind::Semaphore { permits },
        "counter" => Kind::Counter,
        "set" => Kind::Set,
        "queue" => Kind::Queue,
        "log" => Kind::Log,
        "multi-register" => Kind::MultiRegister,
        "bank" => Kind::Bank,
        other => return Err(format!("unknown kind of object {other}")),
    })
}

struct Rows<'a> {
    kind: Kind,
    key: &'a [i64],
    f: &'a [i64],
    first: &'a [i64],
    arguments: &'a [i64],
    invoked: &'a [i64],
    returned: &'a [i64],
}

impl Rows<'_> {
    /// The distinct keys in ascending order, and the calls of each by invocation.
    fn split(&self) -> Result<(Vec<i64>, Vec<Subhistory>), String> {
        let n = self.key.len();
        if [self.f, self.invoked, self.returned].iter().any(|column| column.len() != n) || self.first.len() != n + 1 {
            return Err(format!("the columns differ in length: key has {n}; first has one more"));
        }
        u32::try_from(n).ok().filter(|&n| n < 1 << 30).ok_or("more than 2^30 rows")?;
        let mut keys = self.key.to_vec();
        keys.sort_unstable();
        keys.dedup();
        let mut subhistories: Vec<Subhistory> = keys.iter().map(|_| Subhistory::default()).collect();
        for row in 0..n {
            let place = keys.binary_search(&self.key[row]).map_err(|_| "a key vanished")?;
            let (invoked, returned) = (self.invoked[row], self.returned[row]);
            if returned >= 0 && returned < invoked {
                return Err(format!("row {row}: returned at {returned}, before it was invoked at {invoked}"));
            }
            subhistories[place].push(row as u32, self.call(row)?, invoked, returned);
        }
        for subhistory in &mut subhistories {
            subhistory.sort();
        }
        if self.kind == Kind::Bank {
            same_accounts(&subhistories)?;
        }
        Ok((keys, subhistories))
    }

    fn call(&self, row: usize) -> Result<Call, String> {
        let place = |at: usize| usize::try_from(self.first[at]).ok().filter(|&place| place <= self.arguments.len());
        let args = place(row)
            .zip(place(row + 1))
            .and_then(|(from, to)| self.arguments.get(from..to))
            .ok_or_else(|| format!("row {row}: first runs from {} to {}", self.first[row], self.first[row + 1]))?;
        let f = u8::try_from(self.f[row]).unwrap_or(u8::MAX);
        if !is_call(self.kind, f, args) {
            return Err(format!("row {row}: f {} with {args:?} is no call of this kind of object", self.f[row]));
        }
        Ok(Call { f, args: args.into() })
    }
}

/// Whether the object has a function `f` that takes `args`.
fn is_call(kind: Kind, f: u8, args: &[i64]) -> bool {
    let numbered = |numbers: &[i64]| numbers.iter().all(|number| (0..NUMBERED_MAX).contains(number));
    match (kind, f, args) {
        (Kind::Mutex, 0 | 1, []) | (Kind::Counter, 0 | 1, [_]) | (Kind::OwnerMutex, 0 | 1, [_]) => true,
        (Kind::FencedMutex, 0, [_, token]) => *token >= 0,
        (Kind::FencedMutex, 1, [_]) => true,
        (Kind::Semaphore { .. }, 0 | 1, [count]) => (0..=i64::from(i32::MAX)).contains(count),
        (Kind::Set, 0..=3, [_]) => numbered(args),
        (Kind::Set, 4, _) => {
            let mut sorted = args.to_vec();
            sorted.sort_unstable();
            numbered(args) && sorted.windows(2).all(|pair| pair[0] != pair[1])
        }
        (Kind::Queue, 0 | 1, [_]) | (Kind::Queue, 2 | 3, []) | (Kind::Queue, 4, [_, _, _]) => numbered(args),
        (Kind::Log, log::APPEND..=log::PAST, [offset]) => *offset >= 0,
        (Kind::MultiRegister, 0, _) => {
            let known = |micro: &[i64]| (multi_register::READ..=multi_register::ANY).contains(&micro[0]);
            args.len() % 3 == 0 && args.chunks_exact(3).all(|micro| known(micro) && numbered(&micro[1..2]))
        }
        (Kind::Bank, 0, [_, _, amount]) => numbered(&args[..2]) && *amount >= 0,
        (Kind::Bank, 1, _) => true,
        _ => false,
    }
}

/// Whether every read shows all accounts, and no transfer names another account.
fn same_accounts(subhistories: &[Subhistory]) -> Result<(), String> {
    for subhistory in subhistories {
        let reads = || subhistory.calls.iter().filter(|call| call.f == bank::READ);
        let accounts = reads().map(|call| call.args.len()).max().unwrap_or(0);
        let strange = reads().any(|call| call.args.len() != accounts)
            || (accounts > 0 && subhistory.calls.iter().any(|call| bank::Bank::accounts_in(call) > accounts));
        if strange {
            return Err(format!("a read does not tell all of {accounts} accounts, or a transfer names another"));
        }
    }
    Ok(())
}

fn result(key: i64, judged: Judged, orders: bool) -> ObjectResult {
    let mut out = ObjectResult {
        key,
        verdict: "valid",
        reason: "",
        stop: None,
        operations: judged.operations,
        steps: judged.steps,
        order: Vec::new(),
        failed: None,
        open: Vec::new(),
        states: Vec::new(),
        states_count: judged.states_count,
    };
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
            out.reason = stop.reason();
        }
    }
    out
}
