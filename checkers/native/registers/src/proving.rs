//! Prove what the search refuted, by code that shares nothing with it, and make the proof small.

use limits::{Defect, Limits, Stop};
use search::Model;
use search::history::Op;
use search::minimal::{Proof, minimise, proof};
use search::window::{Confirmation, History, confirm};

const CUTTING_STEPS_MAX: u64 = 5_000_000;

/// Why a key is invalid, named by the ids of its operations.
pub struct Proofs {
    pub window: Proof,
    pub minimal: Proof,
    /// What it took to confirm the search's answer, and then to make the violation small.
    pub confirming_steps: u64,
    pub cutting_steps: u64,
}

/// Confirm that no order of `ops`, none of whose times were touched, passes the operation whose id is `failed`; also
/// the steps that it took.
///
/// What is left of the budget, but no more than a fixed number of steps, goes to making the violation small.
pub fn prove<M: Model>(
    model: &M,
    ops: &[Op],
    failed: u32,
    limits: Limits,
) -> Result<(Result<Proofs, Stop>, u64), Defect> {
    let place = ops.iter().position(|op| op.id == failed).filter(|&i| !ops[i].is_open_ended());
    let Some(place) = place else {
        return Err(Defect(format!("the search says that operation {failed} cannot return, which it never did")));
    };
    let history = History::settled(model, ops);
    let (confirmation, confirming_steps) = confirm(&history, place as u32, ops[place].returned, limits);
    let window = match confirmation {
        Confirmation::Holds(window) => window,
        Confirmation::Stopped(stop) => return Ok((Err(stop), confirming_steps)),
        Confirmation::Contradicted => {
            return Err(Defect(format!("the search refutes operation {failed}, and there is an order that passes it")));
        }
    };
    let rest = Limits { steps: limits.steps.saturating_sub(confirming_steps).min(CUTTING_STEPS_MAX), ..limits };
    let (minimal, cutting_steps) = minimise(&history, ops, &window, rest);
    let named = |proof: Proof| proof.named(|i| ops[i as usize].id);
    let proofs = Proofs {
        window: named(proof(&history, ops, &window)),
        minimal: named(minimal),
        confirming_steps,
        cutting_steps,
    };
    Ok((Ok(proofs), confirming_steps + cutting_steps))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use limits::Deadline;
    use search::CasRegister;
    use search::history::{Function, NEVER};

    fn op(id: u32, function: Function, a: u32, invoked: i64, returned: i64) -> Op {
        Op { id, blame: id, function, a, b: 0, invoked, returned }
    }

    fn limits(steps: u64) -> Limits {
        Limits { steps, memory_bytes: 1 << 20, deadline: Deadline::new(Instant::now() + Duration::from_secs(60)) }
    }

    fn stale() -> Vec<Op> {
        let read = |id, a, at| op(id, Function::Read, a, at, at + 1);
        let write = |id, a, at| op(id, Function::Write, a, at, at + 1);
        vec![write(10, 1, 0), read(11, 1, 2), write(12, 2, 4), read(13, 2, 6), read(14, 1, 8), read(15, 1, 10)]
    }

    #[test]
    fn a_refutation_is_confirmed_and_made_small() {
        let (proofs, _) = prove(&CasRegister, &stale(), 14, limits(100_000)).expect("it is right");
        let minimal = proofs.expect("the budget suffices").minimal;
        assert_eq!((minimal.must, minimal.may), (vec![10, 12, 14], vec![]));
    }

    #[test]
    fn a_wrong_answer_of_the_search_is_a_defect() {
        for (ops, failed) in [(stale()[..4].to_vec(), 13), (stale(), 13), (stale(), 11)] {
            let Err(Defect(said)) = prove(&CasRegister, &ops, failed, limits(100_000)) else { panic!("believed") };
            assert_eq!(said, format!("the search refutes operation {failed}, and there is an order that passes it"));
        }
        let open = [op(1, Function::Write, 1, 0, NEVER)];
        for failed in [1, 2] {
            assert!(prove(&CasRegister, &open, failed, limits(100_000)).is_err());
        }
    }

    #[test]
    fn what_the_budget_does_not_suffice_to_confirm_is_no_refutation() {
        let (proofs, _) = prove(&CasRegister, &stale(), 14, limits(1)).expect("nothing is wrong");
        assert_eq!(proofs.err(), Some(Stop::Steps));
    }
}
