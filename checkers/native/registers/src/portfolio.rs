//! Judge one register by the cheapest method that is certain to be right for it, and check every answer.
//!
//! ```text
//! operations of one key
//!   |
//!   | is each value made only once?
//!   +-- yes --> zones    one pass, in linear time; always an answer
//!   no
//!   v
//! reduce    drop operations of unknown outcome that cannot matter
//!   v
//! narrow    a quick walk through the events that keeps 2 configurations; where they run dry it goes back and
//!   |       comes again with 10, then with 40
//!   +-- an order, or nothing was dropped and no order passes --> an answer
//!   ran dry, or gave up
//!   v
//! search    (`search::attempts`) where narrow ran dry: do the last 64 or 256 events prove that no order passes?
//!   |       else walks (`search::walk`) that go back ever further and keep ever more: 4, 16 ... 4096 configurations;
//!   |       last a walk that keeps all of them, and so decides
//!   v
//! an answer, or none: the budget is spent
//! ```
//!
//! A *configuration* is one way things may stand between two events: the value that the register holds, and which open
//! operations took effect already. Every answer is checked by code that shares nothing with what gave it. An order is
//! carried out (`replay`). A refutation by zones names a few operations; all orders of those are tried (`zone_proof`).
//! A refutation by narrow or search is repeated on a window of the history by a plain walk (`prove`), which then makes
//! it small for the reader.

use super::narrow::{Narrow, Outcome};
use super::proving::{Proofs, prove};
use super::reduce::reduce;
use super::zone_proof::Proof;
use super::zones::{NONE, Zones};
use super::{zone_evidence, zone_proof};
use limits::{Defect, Limits, Stop};
use search::history::{Op, Ops};
use search::{self, Finding, Model, replay};

/// A proof that rests on more operations is not cut down, but looked for anew.
const CLOSED_MAX: usize = 64;
const CLOSED_STEPS_MAX: u64 = 1_000_000;

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

/// Tables that one key after the other uses.
#[derive(Default)]
pub struct Scratch {
    zones: Zones,
    narrow: Narrow,
    ops: Vec<Op>,
}

/// Judge `all`, one object's operations by invocation.
pub fn judge_one(
    model: &impl Model<State = u32>,
    all: &(impl Ops + ?Sized),
    limits: Limits,
    scratch: &mut Scratch,
) -> Result<Judged<u32>, Defect> {
    if model.is_register() && scratch.zones.suit(all, model.initial()) {
        return judge_zones(model, all, limits, &mut scratch.zones);
    }
    let ops = &mut scratch.ops;
    ops.clear();
    ops.extend(all.iter());
    reduce(ops, model.initial());
    let (finding, steps) = narrow_or_search(model, ops, limits, &mut scratch.narrow);
    confirm(model, ops, &finding)?;
    let finding = with_ids(finding, &ops[..]);
    let mut judged =
        Judged { operations: all.length(), steps, method: "search", finding, proofs: None, is_unconfirmed: false };
    if let Finding::Refuted { failed, .. } = judged.finding {
        let rest = Limits { steps: limits.steps.saturating_sub(steps), ..limits };
        let (proofs, more) = prove(model, &all.iter().collect::<Vec<_>>(), failed, rest)?;
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

/// What a narrow walk finds out, or else the search.
fn narrow_or_search<M: Model<State = u32>>(
    model: &M,
    ops: &[Op],
    limits: Limits,
    narrow: &mut Narrow,
) -> (Finding<u32>, u64) {
    if !model.is_register() {
        return search::judge(model, ops, None, limits);
    }
    let limits = Limits { memory_bytes: limits.memory_bytes.saturating_sub(size_of_val(ops)), ..limits };
    let (outcome, steps) = narrow.judge(ops, model.initial(), limits);
    let dry = match outcome {
        Ok(Outcome::Decided(finding)) => return (finding, steps),
        Ok(Outcome::RanDry(dry)) => Some(dry),
        Ok(Outcome::GaveUp) => None,
        Err(stop) => return (Finding::Stopped(stop), steps),
    };
    let rest = Limits { steps: limits.steps.saturating_sub(steps), ..limits };
    let (finding, more) = search::judge(model, ops, dry, rest);
    (finding, steps + more)
}

/// Judge a register that `zones` is prepared for.
fn judge_zones(
    model: &impl Model<State = u32>,
    ops: &(impl Ops + ?Sized),
    limits: Limits,
    zones: &mut Zones,
) -> Result<Judged<u32>, Defect> {
    const METHOD: &str = "zones";
    // One for each invocation and each return.
    let steps = 2 * ops.length() as u64;
    if steps > limits.steps {
        return Ok(Judged::stopped(ops.length(), 0, METHOD, Stop::Steps));
    }
    let (passed, violation) = zones.walk(ops, model.initial());
    let order = zones.order(ops, passed);
    let judged = |finding, proofs| Judged {
        operations: ops.length(),
        steps,
        method: METHOD,
        finding: with_ids(finding, ops),
        proofs,
        is_unconfirmed: false,
    };
    let Some(violation) = violation else {
        if let Some(fault) = replay::refute(model, ops, &order) {
            return Err(Defect(format!("the order of the zones does not replay: {fault}")));
        }
        return Ok(judged(Finding::Explained { order }, None));
    };
    let proof = zone_evidence::proof(zones, ops, passed, violation);
    if let Some(fault) = zone_proof::refute(ops, model.initial(), &proof) {
        return Err(Defect(format!("{violation:?} is not confirmed by {proof:?}: {fault}")));
    }
    let failed = zones.returned_at(passed + 1);
    // Of a proof that rests on many operations a window may need but a few.
    let few = with_makers(zones, ops, &proof).unwrap_or_else(|| ops.iter().collect());
    let rest = Limits { steps: (limits.steps - steps).min(CLOSED_STEPS_MAX), ..limits };
    let proofs = prove(model, &few, ops.at(failed as usize).id, rest)?.0.ok();
    let left = zones.rest(ops, passed);
    let (open, states) = (zones.open(ops, passed, &left), zones.states(ops, passed, &left));
    let finding = Finding::Refuted { failed, prefix: order, states, open };
    Ok(judged(finding, proofs))
}

/// The operations of a proof with the makers of all that they saw, and so on: a history by itself. None if they are
/// many, which compare-and-sets in a row can be.
fn with_makers(zones: &Zones, ops: &(impl Ops + ?Sized), proof: &Proof) -> Option<Vec<Op>> {
    let mut few = proof.operations();
    let mut at = 0;
    while at < few.len() {
        if few.len() > CLOSED_MAX {
            return None;
        }
        let maker = ops.at(few[at] as usize).observed().map_or(NONE, |value| zones.values[value as usize].maker);
        if maker != NONE && !few.contains(&maker) {
            few.push(maker);
        }
        at += 1;
    }
    few.sort_unstable();
    Some(few.into_iter().map(|i| ops.at(i as usize)).collect())
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
fn with_ids(finding: Finding<u32>, ops: &(impl Ops + ?Sized)) -> Finding<u32> {
    let ids = |mut list: Vec<u32>| {
        list.iter_mut().for_each(|i| *i = ops.at(*i as usize).id);
        list
    };
    match finding {
        Finding::Explained { order } => Finding::Explained { order: ids(order) },
        Finding::Refuted { failed, prefix, states, open } => {
            Finding::Refuted { failed: ops.at(failed as usize).blame, prefix: ids(prefix), states, open: ids(open) }
        }
        Finding::Stopped(stop) => Finding::Stopped(stop),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use limits::Deadline;
    use search::history::{Function, NEVER};

    /// It says that it is a register, and allows nothing.
    struct Denial;

    impl Model for Denial {
        type State = u32;

        fn initial(&self) -> u32 {
            0
        }

        fn step(&self, _state: u32, _op: &Op) -> Option<u32> {
            None
        }

        fn reads_only(&self, _op: &Op) -> bool {
            false
        }

        fn overwrites(&self, _op: &Op) -> bool {
            false
        }

        fn made(&self, op: &Op) -> Option<u32> {
            op.made()
        }

        fn seen(&self, op: &Op) -> Option<u32> {
            op.observed()
        }

        fn is_register(&self) -> bool {
            true
        }
    }

    #[test]
    fn an_order_that_does_not_replay_is_a_defect_whatever_found_it() {
        let write = |id: u32, a, returned| Op {
            id,
            blame: id,
            function: Function::Write,
            a,
            b: 0,
            invoked: i64::from(id),
            returned,
        };
        let deadline = Deadline::new(Instant::now() + Duration::from_secs(60));
        let limits = Limits { steps: 1_000, memory_bytes: 1 << 20, deadline };
        for (second, finder) in [(2, "order of the zones"), (1, "search's order")] {
            let ops = [write(0, 1, 5), write(1, second, 6), write(2, 3, NEVER)];
            let Err(Defect(said)) = judge_one(&Denial, &ops[..], limits, &mut Scratch::default()) else {
                panic!("believed")
            };
            assert_eq!(said, format!("the {finder} does not replay: operation 0 cannot follow"));
        }
    }
}
