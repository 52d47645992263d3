//! Judge objects one after the other under one budget.
//!
//! As with registers, the results depend only on counts, not on timing.

use super::table::Table;
use crate::closure::{Item, any_order};
use crate::history::{NEVER, Op};
use crate::{Finding, Model, judge, replay};
use limits::{Deadline, Defect, Limits, Stop, catch};

/// States that are shown of an object that was refuted.
const SHOWN_MAX: usize = 64;
/// How much more each object may ask each time that it did not suffice.
const ASKED_GROW: u64 = 4;

pub struct Spending {
    /// Questions to the caller, which cost most; of one object at first.
    pub asked: u64,
    pub asked_first: u64,
    pub steps: u64,
    pub memory_bytes: usize,
    pub deadline: Deadline,
}

/// What became of one object. Calls are named by their `id`; a refuted one's `states` are at most a few of all
/// `states_count`.
pub struct Judged {
    pub operations: usize,
    pub steps: u64,
    pub finding: Finding<u32>,
    pub states_count: usize,
}

impl Judged {
    fn stopped(steps: u64, stop: Stop) -> Self {
        Self { operations: 0, steps, finding: Finding::Stopped(stop), states_count: 0 }
    }
}

/// Judge each of `subhistories`, sorted by invocation, by what `ask` says of a state and a call.
///
/// Every one gets an equal share of the steps, and may ask little. Then those that ran out go on with a share of what
/// is left, until none is, or one is refuted: then the verdict stands, and the others are left as they are.
pub fn judge_objects(
    ask: impl Fn(u32, u32) -> Option<u32> + Sync,
    reads: &[bool],
    subhistories: &[Vec<Op>],
    budget: &Spending,
) -> Result<Vec<Judged>, Defect> {
    // The search and the table each get half.
    let table = Table::new(ask, reads, budget.memory_bytes / 2);
    let mut results: Vec<Judged> = subhistories.iter().map(|_| Judged::stopped(0, Stop::Steps)).collect();
    let mut waiting: Vec<usize> = (0..subhistories.len()).collect();
    let (mut steps, mut asked, mut most) = (budget.steps, budget.asked, budget.asked_first);
    loop {
        let share = steps / waiting.len().max(1) as u64;
        for &at in &waiting {
            let limits = Limits { steps: share, memory_bytes: budget.memory_bytes / 2, deadline: budget.deadline };
            let may = most.min(asked);
            table.allow(may);
            // One object's defect leaves the answers about the others.
            let judged = catch(|| judge_one(&table, &subhistories[at], limits))?
                .unwrap_or_else(|_| Judged::stopped(0, Stop::Contradicted));
            asked -= may - table.allow(0);
            steps = steps.saturating_sub(judged.steps);
            results[at] = judged;
            if most > budget.asked_first && matches!(results[at].finding, Finding::Refuted { .. }) {
                break;
            }
        }
        waiting.retain(|&at| matches!(results[at].finding, Finding::Stopped(Stop::Steps)));
        let refuted = results.iter().any(|judged| matches!(judged.finding, Finding::Refuted { .. }));
        if waiting.is_empty() || asked == 0 || most > budget.asked || refuted || steps / waiting.len() as u64 == 0 {
            return Ok(results);
        }
        most *= ASKED_GROW;
    }
}

fn judge_one<F: Fn(u32, u32) -> Option<u32> + Sync>(
    table: &Table<'_, F>,
    ops: &[Op],
    limits: Limits,
) -> Result<Judged, Defect> {
    let (finding, mut steps) = judge(table, ops, None, limits);
    if let Some(stop) = table.spent() {
        return Ok(Judged::stopped(steps, stop));
    }
    if let Finding::Refuted { failed, .. } = finding {
        let rest = Limits { steps: limits.steps.saturating_sub(steps), ..limits };
        let (confirmed, more) = confirm_refuted(table, ops, failed as usize, rest)?;
        steps += more;
        if let Err(stop) = confirmed {
            return Ok(Judged::stopped(steps, stop));
        }
    }
    let ids = |list: Vec<u32>| list.into_iter().map(|i| ops[i as usize].id).collect();
    let mut states_count = 0;
    let finding = match finding {
        Finding::Explained { order } => {
            if let Some(fault) = replay::refute(table, ops, &order) {
                return Err(Defect(format!("the search's order does not replay: {fault}")));
            }
            Finding::Explained { order: ids(order) }
        }
        Finding::Refuted { failed, prefix, mut states, open } => {
            states_count = states.len();
            states.truncate(SHOWN_MAX);
            Finding::Refuted { failed: ops[failed as usize].id, prefix: ids(prefix), states, open: ids(open) }
        }
        Finding::Stopped(stop) => Finding::Stopped(stop),
    };
    Ok(Judged { operations: ops.len(), steps, finding, states_count })
}

/// Confirm by a plain walk that no order passes the operation `failed`; also the steps that it took.
fn confirm_refuted<F: Fn(u32, u32) -> Option<u32> + Sync>(
    table: &Table<'_, F>,
    ops: &[Op],
    failed: usize,
    limits: Limits,
) -> Result<(Result<(), Stop>, u64), Defect> {
    let until = ops[failed].returned;
    if until == NEVER {
        return Err(Defect(format!("the search refutes operation {failed}, which never returned")));
    }
    let items: Vec<Item> = ops
        .iter()
        .filter(|op| op.invoked <= until)
        .map(|&op| match op.returned <= until {
            true => Item { op, must: true },
            false => Item { op: Op { returned: NEVER, ..op }, must: false },
        })
        .collect();
    let (found, steps) = any_order(table, &items, &[table.initial()], true, limits);
    let confirmed = match (table.spent(), found) {
        (Some(stop), _) | (None, Err(stop)) => Err(stop),
        (None, Ok(false)) => Ok(()),
        (None, Ok(true)) => {
            return Err(Defect(format!("the search refutes operation {failed}, and there is an order with it")));
        }
    };
    Ok((confirmed, steps))
}
