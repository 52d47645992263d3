//! The binding of objects beyond registers: calls and a Python `step` in, one result per object out.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::attend::{attend, raise_defect};
use limits::Deadline;
use search::Finding;
use search::history::{Function, NEVER, Op};
use search::objects::judge::{Judged, Spending, judge_objects};
use search::objects::strings::{Asked, JudgedKey, StringOp, judge_strings};

/// The result of the search for one object. It names calls by their rows.
#[pyclass(frozen, get_all, module = "fencepost.checkers._core")]
pub struct ObjectResult {
    verdict: &'static str,
    reason: &'static str,
    stop: Option<&'static str>,
    operations: usize,
    steps: u64,
    order: Vec<u32>,
    failed: Option<u32>,
    open: Vec<u32>,
    states: Vec<Py<PyAny>>,
    states_count: usize,
}

/// Judge objects by a caller's own `step(state, f, value, result)`, under one budget.
///
/// A function has one parameter for each column, with the column's name in Python.
#[pyfunction]
#[pyo3(signature = (subject, kind, invoked, returned, calls, reads, step, initial, wrong, *, subjects, asked, asked_first, steps,
                    memory_bytes, wall_s))]
#[allow(clippy::too_many_arguments)]
pub fn check_model(
    py: Python<'_>,
    subject: Vec<i64>,
    kind: Vec<i64>,
    invoked: Vec<i64>,
    returned: Vec<i64>,
    calls: Vec<(Py<PyAny>, Py<PyAny>, Py<PyAny>)>,
    reads: Vec<bool>,
    step: Py<PyAny>,
    initial: Py<PyAny>,
    wrong: Option<Py<PyAny>>,
    subjects: usize,
    asked: u64,
    asked_first: u64,
    steps: u64,
    memory_bytes: usize,
    wall_s: f64,
) -> PyResult<Vec<ObjectResult>> {
    let lengths = [kind.len(), invoked.len(), returned.len()];
    let differ = lengths.iter().any(|&length| length != subject.len()) || reads.len() != calls.len();
    if differ || subject.len() >= 1 << 30 {
        return Err(PyValueError::new_err("the columns differ in length, or have more than 2^30 rows"));
    }
    let mut subhistories: Vec<Vec<Op>> = vec![Vec::new(); subjects];
    for row in 0..kind.len() {
        let place = |number: i64, among: usize| usize::try_from(number).ok().filter(|&place| place < among);
        let (Some(at), Some(call)) = (place(subject[row], subjects), place(kind[row], calls.len())) else {
            return Err(PyValueError::new_err(format!("row {row} names a subject or a call that there is not")));
        };
        let returned = if returned[row] < 0 { NEVER } else { returned[row] };
        let (id, invoked) = (row as u32, invoked[row]);
        subhistories[at].push(Op { id, blame: id, function: Function::Call, a: call as u32, b: 0, invoked, returned });
    }
    subhistories.iter_mut().for_each(|ops| ops.sort_by_key(|op| op.invoked));
    let numbers = PyDict::new(py);
    numbers.set_item(&initial, 0)?;
    let met = Met { states: vec![State::One(initial)], sets: HashMap::new(), numbers: numbers.unbind(), raised: None };
    let caller = Caller { calls, step, wrong, reads: &reads, met: Mutex::new(met) };
    let judged = attend(py, wall_s, true, |deadline| {
        let ask = |state, call| caller.ask(state, call, deadline);
        judge_objects(ask, &reads, &subhistories, &Spending { asked, asked_first, steps, memory_bytes, deadline })
    });
    let met = caller.met.into_inner().unwrap_or_else(PoisonError::into_inner);
    match met.raised {
        Some(error) => Err(error),
        None => {
            let judged = judged?.map_err(raise_defect)?.into_iter();
            Ok(judged.map(|judged| result(judged, |states| shown(py, &met.states, states))).collect())
        }
    }
}

/// Judge keys that hold strings under one budget: rows are function, string, invocation and return; None of a key of
/// which nothing is left to search.
#[pyfunction]
#[pyo3(signature = (keys, initial, *, asked, asked_first, steps, memory_bytes, wall_s))]
#[allow(clippy::too_many_arguments)]
pub fn check_strings(
    py: Python<'_>,
    keys: Vec<Vec<(String, String, i64, i64)>>,
    initial: String,
    asked: u64,
    asked_first: u64,
    steps: u64,
    memory_bytes: usize,
    wall_s: f64,
) -> PyResult<Vec<Option<ObjectResult>>> {
    let judged = attend(py, wall_s, true, |deadline| {
        let keys: Vec<Vec<StringOp>> = keys.iter().map(|rows| rows.iter().map(string_op).collect()).collect();
        judge_strings(&keys, &initial, &Spending { asked, asked_first, steps, memory_bytes, deadline })
    });
    let of_key = |key: JudgedKey| {
        let text = |state: Option<String>| Ok(state.into_pyobject(py)?.into_any().unbind());
        let states = key.states.into_iter().map(text).collect::<PyResult<_>>()?;
        Ok(result(key.judged, |_| states))
    };
    judged?.map_err(raise_defect)?.into_iter().map(|key| key.map(of_key).transpose()).collect()
}

/// One state of the caller's; or the numbers of several, where the object decides by itself which it is in.
enum State {
    One(Py<PyAny>),
    Several(Vec<u32>),
}

/// The states as they were met, and their numbers.
struct Met {
    states: Vec<State>,
    numbers: Py<PyDict>,
    sets: HashMap<Vec<u32>, u32>,
    raised: Option<PyErr>,
}

struct Caller<'a> {
    calls: Vec<(Py<PyAny>, Py<PyAny>, Py<PyAny>)>,
    step: Py<PyAny>,
    wrong: Option<Py<PyAny>>,
    reads: &'a [bool],
    met: Mutex<Met>,
}

impl Caller<'_> {
    /// The number of the state after a call. What the caller raises ends the search.
    fn ask(&self, state: u32, call: u32, deadline: Deadline) -> Option<u32> {
        let met = &mut *self.met.lock().unwrap_or_else(PoisonError::into_inner);
        Python::attach(|py| self.after(py, met, state, call)).unwrap_or_else(|error| {
            met.raised.get_or_insert(error);
            deadline.interrupt();
            None
        })
    }

    fn after(&self, py: Python<'_>, met: &mut Met, state: u32, call: u32) -> PyResult<Option<u32>> {
        let mut found = match &met.states[state as usize] {
            State::One(_) => self.each(py, met, state, call)?,
            State::Several(several) => {
                let mut found = Vec::new();
                for one in several.clone() {
                    found.extend(self.each(py, met, one, call)?);
                }
                found
            }
        };
        found.sort_unstable();
        found.dedup();
        if found.len() < 2 {
            return Ok(found.pop());
        }
        if let Some(&number) = met.sets.get(&found) {
            return Ok(Some(number));
        }
        let number = met.states.len() as u32;
        met.states.push(State::Several(found.clone()));
        met.sets.insert(found, number);
        Ok(Some(number))
    }

    /// The numbers of all states that a call may make of one.
    fn each(&self, py: Python<'_>, met: &mut Met, state: u32, call: u32) -> PyResult<Vec<u32>> {
        let State::One(before) = &met.states[state as usize] else { unreachable!("several are no member of others") };
        let (f, value, result) = &self.calls[call as usize];
        let after = self.step.bind(py).call1((before, f, value, result));
        let after = after.map_err(|error| self.fault(py, call, error.into_value(py).into_any()))?;
        if let Ok(list) = after.cast::<PyList>() {
            let some = list.iter().filter(|one| !one.is_none());
            return some.map(|one| self.number(py, met, call, &one)).collect();
        }
        if after.is_none() {
            return Ok(Vec::new());
        }
        let number = self.number(py, met, call, &after)?;
        if self.reads[call as usize] && number != state {
            let text = format!("reads names {}, and step() changed the state", f.bind(py));
            return Err(self.fault(py, call, text.into_pyobject(py)?.into_any().unbind()));
        }
        Ok(vec![number])
    }

    fn number(&self, py: Python<'_>, met: &mut Met, call: u32, state: &Bound<'_, PyAny>) -> PyResult<u32> {
        let numbers = met.numbers.bind(py);
        let known = numbers.get_item(state).map_err(|error| {
            let error = error.value(py);
            let what = "the hash of the state that step() returned raised";
            let kind = error.get_type().name().map_or_else(|_| String::new(), |name| name.to_string());
            let said: String = error.to_string().chars().take(200).collect();
            let text = PyTuple::new(py, [format!("{what} {kind}: {said}")]).and_then(|text| text.get_item(0));
            text.map_or_else(|error| error, |text| self.fault(py, call, text.unbind()))
        })?;
        if let Some(number) = known {
            return number.extract();
        }
        let number = met.states.len() as u32;
        numbers.set_item(state, number)?;
        met.states.push(State::One(state.clone().unbind()));
        Ok(number)
    }

    /// The exception that the caller makes of what its `step` did.
    fn fault(&self, py: Python<'_>, call: u32, what: Py<PyAny>) -> PyErr {
        match &self.wrong {
            Some(wrong) => wrong.bind(py).call1((call, what)).map_or_else(|error| error, PyErr::from_value),
            None => PyErr::from_value(what.into_bound(py)),
        }
    }
}

fn string_op((f, text, invoked, returned): &(String, String, i64, i64)) -> StringOp<'_> {
    let asked = match f.as_str() {
        "get" => Asked::Get,
        "put" => Asked::Put,
        _ => Asked::Append,
    };
    StringOp { asked, text, invoked: *invoked, returned: if *returned < 0 { NEVER } else { *returned } }
}

/// The states of these numbers, each of several by itself.
fn shown(py: Python<'_>, states: &[State], numbers: Vec<u32>) -> Vec<Py<PyAny>> {
    let one = |number: u32| match &states[number as usize] {
        State::One(state) => vec![state.clone_ref(py)],
        State::Several(several) => several
            .iter()
            .filter_map(|&one| match &states[one as usize] {
                State::One(state) => Some(state.clone_ref(py)),
                State::Several(_) => None,
            })
            .collect(),
    };
    numbers.into_iter().flat_map(one).collect()
}

fn result(judged: Judged, shown: impl FnOnce(Vec<u32>) -> Vec<Py<PyAny>>) -> ObjectResult {
    let mut out = ObjectResult {
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
        Finding::Explained { order } => out.order = order,
        Finding::Refuted { failed, prefix, states, open } => {
            out.verdict = "invalid";
            out.order = prefix;
            out.failed = Some(failed);
            out.states = shown(states);
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
