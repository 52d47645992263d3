//! Judge one object by the cheapest method that is certain to be right for it, and believe none of them unchecked.

use crate::model::Model;
use crate::operation::Op;
use crate::reduce::reduce;
use crate::replay;
use crate::search::{self, Finding, Limits};

/// What became of one key; operations are named by their ids.
pub struct Judged<S> {
    pub operations: usize,
    pub steps: u64,
    /// Which method decided.
    pub method: &'static str,
    pub finding: Finding<S>,
}

/// The core failed us: a defect here, never a statement about the history.
#[derive(Debug)]
pub struct Defect(pub String);

/// Judge `all`, one object's operations by invocation.
pub fn judge_one(model: &impl Model<State = u32>, all: &[Op], limits: Limits) -> Result<Judged<u32>, Defect> {
    let mut ops = all.to_vec();
    reduce(&mut ops, model.initial());
    let (finding, steps) = search::judge(model, &ops, limits);
    confirm(model, &ops, &finding)?;
    Ok(Judged { operations: all.len(), steps, method: "search", finding: named(finding, &ops) })
}

/// Check a finding of the search on `ops` (which it names by index) by other means.
fn confirm(model: &impl Model<State = u32>, ops: &[Op], finding: &Finding<u32>) -> Result<(), Defect> {
    match finding {
        Finding::Explained { order } => match replay::refute(model, ops, order) {
            Some(fault) => Err(Defect(format!("the search's order does not replay: {fault}"))),
            None => Ok(()),
        },
        Finding::Refuted { .. } | Finding::Stopped(_) => Ok(()),
    }
}

/// The same finding, with operations named by their ids.
fn named(finding: Finding<u32>, ops: &[Op]) -> Finding<u32> {
    let ids = |list: Vec<u32>| list.into_iter().map(|i| ops[i as usize].id).collect();
    match finding {
        Finding::Explained { order } => Finding::Explained { order: ids(order) },
        Finding::Refuted { failed, prefix, states, open } => {
            Finding::Refuted { failed: ops[failed as usize].blame, prefix: ids(prefix), states, open: ids(open) }
        }
        Finding::Stopped(stop) => Finding::Stopped(stop),
    }
}
