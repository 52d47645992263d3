//! Judge objects one after the other under one budget.
//!
//! As with registers, the results depend only on counts, not on timing.

use std::collections::HashMap;

use super::bank::{self, Bank};
use super::counter::Counter;
use super::foreign::Foreign;
use super::interned::Interned;
use super::log::Log;
use super::multi_register::MultiRegister;
use super::mutexes::{FencedMutex, Mutex, OwnerMutex, Semaphore};
use super::queue::Queue;
use super::reduce::reduce;
use super::set::Set;
use super::{Call, Object};
use crate::closure::{Item, any_order};
use crate::history::{Function, NEVER, Op};
use crate::{Finding, Model, judge, replay};
use limits::{Deadline, Defect, Limits, Stop, catch};

/// States that are shown of an object that was refuted.
const SHOWN_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Mutex,
    OwnerMutex,
    FencedMutex,
    Semaphore { permits: i64 },
    Counter,
    Set,
    Queue,
    Log,
    MultiRegister,
    Bank,
}

/// One object's calls, in the order of invocation; `rows` are the caller's.
#[derive(Default)]
pub struct Subhistory {
    pub calls: Vec<Call>,
    pub ops: Vec<Op>,
    numbers: HashMap<Call, u32>,
}

impl Subhistory {
    pub fn push(&mut self, row: u32, call: Call, invoked: i64, returned: i64) {
        let next = self.calls.len() as u32;
        let number = *self.numbers.entry(call).or_insert_with_key(|call| {
            self.calls.push(call.clone());
            next
        });
        let returned = if returned < 0 { NEVER } else { returned };
        self.ops.push(Op { id: row, blame: row, function: Function::Call, a: number, b: 0, invoked, returned });
    }

    pub fn sort(&mut self) {
        self.ops.sort_by_key(|op| op.invoked);
    }
}

pub struct Spending {
    pub steps: u64,
    pub memory_bytes: usize,
    pub deadline: Deadline,
}

/// What became of one object. Calls are named by their rows; a refuted one's `states` are in numbers, at most a few of
/// all `states_count`.
pub struct Judged {
    pub operations: usize,
    pub steps: u64,
    pub finding: Finding<Vec<i64>>,
    pub states_count: usize,
}

impl Judged {
    fn stopped(steps: u64, stop: Stop) -> Self {
        Self { operations: 0, steps, finding: Finding::Stopped(stop), states_count: 0 }
    }
}

/// Judge each of `subhistories`: every one gets an equal share of the steps, then those that ran out share what is left,
/// while that at least doubles their share.
pub fn judge_objects(kind: Kind, subhistories: &[Subhistory], budget: &Spending) -> Result<Vec<Judged>, Defect> {
    let mut results: Vec<Option<Judged>> = subhistories.iter().map(|_| None).collect();
    let mut waiting: Vec<usize> = (0..subhistories.len()).collect();
    let (mut remaining, mut share) = (budget.steps, 0);
    while !waiting.is_empty() && remaining / waiting.len() as u64 >= (2 * share).max(1) {
        share = remaining / waiting.len() as u64;
        // The search and the object's own tables each get half.
        let limits = Limits { steps: share, memory_bytes: budget.memory_bytes / 2, deadline: budget.deadline };
        for &at in &waiting {
            let subhistory = &subhistories[at];
            // One object's defect leaves the answers about the others.
            let judged = catch(|| judge_kind(kind, subhistory, limits))?
                .unwrap_or_else(|_| Judged::stopped(0, Stop::Contradicted));
            remaining = remaining.saturating_sub(judged.steps);
            results[at] = Some(judged);
        }
        let stopped =
            |judged: &Option<Judged>| matches!(judged, Some(Judged { finding: Finding::Stopped(Stop::Steps), .. }));
        waiting.retain(|&at| stopped(&results[at]));
    }
    let nothing = || Judged::stopped(0, Stop::Steps);
    Ok(results.into_iter().map(|result| result.unwrap_or_else(nothing)).collect())
}

/// Judge the calls of one object that the caller knows, as `Foreign` has it. All steps are spent on it at once.
pub fn judge_foreign(
    step: impl Fn(u32, u32) -> Option<u32> + Sync,
    subhistory: &Subhistory,
    budget: &Spending,
) -> Result<Judged, Defect> {
    let limits = Limits { steps: budget.steps, memory_bytes: budget.memory_bytes / 2, deadline: budget.deadline };
    judge_one(&Foreign(step), subhistory, limits)
}

fn judge_kind(kind: Kind, subhistory: &Subhistory, limits: Limits) -> Result<Judged, Defect> {
    match kind {
        Kind::Mutex => judge_one(&Mutex, subhistory, limits),
        Kind::OwnerMutex => judge_one(&OwnerMutex, subhistory, limits),
        Kind::FencedMutex => judge_one(&FencedMutex, subhistory, limits),
        Kind::Semaphore { permits } => judge_one(&Semaphore { permits }, subhistory, limits),
        Kind::Counter => judge_one(&Counter, subhistory, limits),
        Kind::Set => judge_one(&Set, subhistory, limits),
        Kind::Queue => judge_one(&Queue, subhistory, limits),
        Kind::Log => judge_one(&Log, subhistory, limits),
        Kind::MultiRegister => judge_one(&MultiRegister::over(&subhistory.calls), subhistory, limits),
        Kind::Bank => judge_one(&bank_of(subhistory), subhistory, limits),
    }
}

/// The balances at first are those of a read that returned before any transfer was invoked, else unknown.
fn bank_of(subhistory: &Subhistory) -> Bank {
    let is_read = |op: &&Op| subhistory.calls[op.a as usize].f == bank::READ;
    let first_transfer = subhistory.ops.iter().filter(|op| !is_read(op)).map(|op| op.invoked).min().unwrap_or(NEVER);
    let before = subhistory.ops.iter().filter(is_read).find(|op| op.returned < first_transfer);
    let accounts = subhistory.calls.iter().map(Bank::accounts_in).max().unwrap_or(0);
    Bank { accounts, opening: before.map(|op| subhistory.calls[op.a as usize].args.to_vec()) }
}

fn judge_one<O: Object>(object: &O, subhistory: &Subhistory, limits: Limits) -> Result<Judged, Defect> {
    let mut ops = subhistory.ops.clone();
    reduce(object, &subhistory.calls, &mut ops);
    let model = Interned::new(object, &subhistory.calls, limits.memory_bytes);
    let (finding, mut steps) = judge(&model, &ops, None, limits);
    let operations = subhistory.ops.len();
    let stopped = |steps, stop| Ok(Judged { operations, steps, finding: Finding::Stopped(stop), states_count: 0 });
    if model.is_exhausted() {
        return stopped(steps, Stop::Memory);
    }
    if let Finding::Refuted { failed, .. } = finding {
        let rest = Limits { steps: limits.steps.saturating_sub(steps), ..limits };
        let (confirmed, more) =
            confirm_refuted(object, &model, &subhistory.ops, &ops, ops[failed as usize].blame, rest)?;
        steps += more;
        if model.is_exhausted() {
            return stopped(steps, Stop::Memory);
        }
        if let Err(stop) = confirmed {
            return stopped(steps, stop);
        }
    }
    let ids = |list: Vec<u32>| list.into_iter().map(|i| ops[i as usize].id).collect();
    let mut states_count = 0;
    let finding = match finding {
        Finding::Explained { order } => {
            if let Some(fault) = replay::refute(&model, &ops[..], &order) {
                return Err(Defect(format!("the search's order does not replay: {fault}")));
            }
            Finding::Explained { order: ids(order) }
        }
        Finding::Refuted { failed, prefix, states, open } => {
            states_count = states.len();
            Finding::Refuted {
                failed: ops[failed as usize].blame,
                prefix: ids(prefix),
                states: states.into_iter().take(SHOWN_MAX).map(|state| model.show(state)).collect(),
                open: ids(open),
            }
        }
        Finding::Stopped(stop) => Finding::Stopped(stop),
    };
    Ok(Judged { operations, steps, finding, states_count })
}

/// Confirm by a plain walk that no order passes the operation whose id is `failed`; also the steps that it took.
///
/// First nothing is believed: the walk is over `all` operations. When half of what is left does not suffice, those of
/// unknown outcome are what `reduce` made of them.
fn confirm_refuted<O: Object>(
    object: &O,
    model: &Interned<'_, O>,
    all: &[Op],
    reduced: &[Op],
    failed: u32,
    limits: Limits,
) -> Result<(Result<(), Stop>, u64), Defect> {
    let mut spent = 0;
    let mut stopped = Stop::Steps;
    for (ops, steps) in [(all, limits.steps / 2), (reduced, limits.steps)] {
        if std::ptr::eq(ops, all) && !object.is_complete() {
            continue;
        }
        let place = ops.iter().position(|op| op.id == failed).filter(|&i| !ops[i].is_open_ended());
        let place =
            place.ok_or_else(|| Defect(format!("the search refutes operation {failed}, which never returned")))?;
        let rest = Limits { steps: steps.saturating_sub(spent), ..limits };
        let until = ops[place].returned;
        let items: Vec<Item> = ops
            .iter()
            .filter(|op| op.invoked <= until)
            .map(|&op| match op.returned <= until {
                true => Item { op, must: true },
                false => Item { op: Op { returned: NEVER, ..op }, must: false },
            })
            .collect();
        let (found, more) = any_order(model, &items, &[model.initial()], true, rest);
        spent += more;
        match found {
            _ if model.is_exhausted() => return Ok((Err(Stop::Memory), spent)),
            Ok(false) => return Ok((Ok(()), spent)),
            Ok(true) => {
                return Err(Defect(format!("the search refutes operation {failed}, and there is an order with it")));
            }
            Err(stop) => stopped = stop,
        }
    }
    Ok((Err(stopped), spent))
}
