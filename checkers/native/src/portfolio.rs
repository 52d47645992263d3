//! Judge one object by the cheapest method that is certain to be right for it, and believe none of them unchecked.

use crate::model::Model;
use crate::operation::Op;
use crate::proving::{Proofs, prove};
use crate::reduce::reduce;
use crate::replay;
use crate::search::{self, Finding, Limits, Stop};

/// What became of one key; operations are named by their ids.
pub struct Judged<S> {
    pub operations: usize,
    pub steps: u64,
    /// Which method decided.
    pub method: &'static str,
    pub finding: Finding<S>,
    /// Of what was refuted: a window without an order, and the smallest violation in it.
    pub proofs: Option<Proofs>,
    /// It was refuted, but the budget did not suffice to confirm that.
    pub is_unconfirmed: bool,
}

impl<S> Judged<S> {
    pub fn stopped(operations: usize, steps: u64, method: &'static str, stop: Stop) -> Self {
        let finding = Finding::Stopped(stop);
        Judged { operations, steps, method, finding, proofs: None, is_unconfirmed: false }
    }
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
    let finding = named(finding, &ops);
    let mut judged =
        Judged { operations: all.len(), steps, method: "search", finding, proofs: None, is_unconfirmed: false };
    if let Finding::Refuted { failed, .. } = judged.finding {
        let rest = Limits { steps: limits.steps.saturating_sub(steps), ..limits };
        let (proofs, more) = prove(model, all, failed, rest)?;
        judged.steps += more;
        match proofs {
            Ok(proofs) => judged.proofs = Some(proofs),
            Err(stop) => {
                judged.finding = Finding::Stopped(stop);
                judged.is_unconfirmed = true;
            }
        }
    }
    Ok(judged)
}

/// Check an order that the search found in `ops` (which it names by index); what it refuted is proven afterwards.
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
