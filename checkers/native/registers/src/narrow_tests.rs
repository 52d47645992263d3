//! Compare the narrow walk with the search, which shares no code with it, and with its own budget.

use std::time::{Duration, Instant};

use super::narrow::{Narrow, Outcome};
use limits::{Deadline, Limits, Stop};
use search::history::{Function, NEVER, Op};
use search::{CasRegister, Dry, Finding, judge, replay};

fn limits(steps: u64) -> Limits {
    Limits { steps, memory_bytes: 1 << 24, deadline: Deadline::new(Instant::now() + Duration::from_secs(60)) }
}

/// A few clients on one register of three values; each operation takes effect between its invocation and its return.
fn history(mut seed: u64, length: usize, clients: usize, unknown: u64) -> Vec<Op> {
    let mut draw = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let mut ops: Vec<Op> = Vec::new();
    // Of each client the operation that is open, and whether it took effect.
    let mut open: Vec<Option<(Op, bool)>> = vec![None; clients];
    let (mut state, mut now, mut started) = (0, 0, 0);
    while started < length || open.iter().any(Option::is_some) {
        now += 1;
        let client = draw(clients as u64) as usize;
        match open[client].take() {
            None if started < length => {
                started += 1;
                let function = [Function::Read, Function::Write, Function::CompareAndSet][draw(3) as usize];
                let (a, b) = (1 + draw(3) as u32, 1 + draw(3) as u32);
                open[client] = Some((Op { id: 0, blame: 0, function, a, b, invoked: now, returned: NEVER }, false));
            }
            None => {}
            Some((mut op, false)) => match op.function {
                Function::CompareAndSet if op.a != state => {}
                function => {
                    match function {
                        Function::Read => op.a = state,
                        Function::Write => state = op.a,
                        _ => state = op.b,
                    }
                    open[client] = Some((op, true));
                }
            },
            Some((mut op, true)) => {
                if op.function == Function::Read || draw(100) >= unknown {
                    op.returned = now;
                }
                ops.push(op);
            }
        }
    }
    ops.sort_by_key(|op| op.invoked);
    (0..).zip(&mut ops).for_each(|(id, op)| (op.id, op.blame) = (id, id));
    ops
}

#[test]
fn it_finds_orders_that_replay() {
    let mut narrow = Narrow::default();
    let mut found = 0;
    for seed in 0..100 {
        let ops = history(seed, 300, 3 + seed as usize % 6, seed % 3);
        let (walked, steps) = narrow.judge(&ops, 0, limits(1_000_000));
        match walked.expect("there is time") {
            Outcome::Decided(Finding::Explained { order }) => {
                assert_eq!(replay::refute(&CasRegister, &ops[..], &order), None, "seed {seed}");
                assert!(steps >= ops.len() as u64 / 2);
                found += 1;
            }
            Outcome::Decided(_) => panic!("refuted, seed {seed}"),
            Outcome::RanDry(_) | Outcome::GaveUp => {}
        }
    }
    assert!(found >= 95, "{found} of 100");
}

#[test]
fn it_refutes_what_the_search_refutes() {
    let mut narrow = Narrow::default();
    let (mut refuted, mut dry) = (0, 0);
    for seed in 0..200 {
        let mut ops = history(seed, 60, [4, 9][seed as usize % 2], seed % 3);
        let reads = ops.iter_mut().filter(|op| op.function == Function::Read);
        reads.skip(seed as usize % 5).step_by(7).for_each(|op| op.a = 1 + op.a % 3);
        let found = narrow.judge(&ops, 0, limits(1_000_000)).0.expect("there is time");
        let explains_what_returned = |failed: u32, prefix: &[u32]| {
            let before: Vec<Op> = ops.iter().map(|op| until(op, ops[failed as usize].returned)).collect();
            assert_eq!(replay::refute(&CasRegister, &before[..], prefix), None, "seed {seed}");
        };
        let searched = judge(&CasRegister, &ops, None, limits(10_000_000)).0;
        match &searched {
            Finding::Explained { order } => {
                assert_eq!(replay::refute(&CasRegister, &ops[..], order), None, "seed {seed}");
                // Nor is it believed that an operation is in the way where none is.
                let failed = ops.iter().find(|op| !op.is_open_ended()).expect("most return").id;
                let misled = judge(&CasRegister, &ops, Some(Dry { failed, prefix: vec![] }), limits(10_000_000)).0;
                assert!(matches!(misled, Finding::Explained { .. }), "seed {seed}");
            }
            Finding::Refuted { failed, prefix, .. } => explains_what_returned(*failed, prefix),
            Finding::Stopped(stop) => panic!("{stop:?}, seed {seed}"),
        }
        match (&searched, found) {
            (
                Finding::Refuted { failed, states, open, .. },
                Outcome::Decided(Finding::Refuted { failed: ours, prefix, states: held, open: pending }),
            ) => {
                assert_eq!((ours, &pending), (*failed, open), "seed {seed}");
                assert!(held.iter().all(|state| states.contains(state)), "seed {seed}");
                explains_what_returned(ours, &prefix);
                refuted += 1;
            }
            (_, Outcome::RanDry(Dry { failed, prefix })) => {
                explains_what_returned(failed, &prefix);
                let again = judge(&CasRegister, &ops, Some(Dry { failed, prefix }), limits(10_000_000)).0;
                assert_eq!(failed_of(&again), failed_of(&searched), "seed {seed}");
                dry += 1;
            }
            (Finding::Explained { .. }, Outcome::Decided(Finding::Explained { order })) => {
                assert_eq!(replay::refute(&CasRegister, &ops[..], &order), None, "seed {seed}");
            }
            (_, found) => assert!(matches!(found, Outcome::GaveUp), "seed {seed}"),
        }
    }
    assert!(refuted >= 100 && dry >= 10, "{refuted} and {dry} of 200");
}

fn failed_of(finding: &Finding<u32>) -> Option<u32> {
    if let Finding::Refuted { failed, .. } = finding { Some(*failed) } else { None }
}

/// The operation as it was just before a moment: what had not returned is open.
fn until(op: &Op, moment: i64) -> Op {
    if op.returned < moment { *op } else { Op { returned: NEVER, ..*op } }
}

#[test]
fn operations_that_touch_are_concurrent() {
    let op = |id: u32, function, a, invoked, returned| Op { id, blame: id, function, a, b: 0, invoked, returned };
    for (read_at, valid) in [(2, true), (3, false)] {
        let ops = [op(0, Function::Write, 1, 0, 2), op(1, Function::Read, 0, read_at, 4)];
        let (walked, _) = Narrow::default().judge(&ops, 0, limits(1000));
        assert_eq!(matches!(walked, Ok(Outcome::Decided(Finding::Explained { .. }))), valid);
        assert_eq!(matches!(walked, Ok(Outcome::Decided(Finding::Refuted { failed: 1, .. }))), !valid);
    }
}

#[test]
fn it_gives_up_beyond_its_word_and_its_budget() {
    let mut narrow = Narrow::default();
    let write = |id: u32, returned| Op {
        id,
        blame: id,
        function: Function::Write,
        a: id,
        b: 0,
        invoked: i64::from(id),
        returned,
    };
    let crowd = |count: u32| (0..count).map(|id| write(id, 1000)).collect::<Vec<_>>();
    let gives_up = |walked: Result<Outcome, Stop>| matches!(walked, Ok(Outcome::GaveUp));
    assert!(matches!(narrow.judge(&crowd(64), 0, limits(1_000_000)).0, Ok(Outcome::Decided(_))));
    assert!(gives_up(narrow.judge(&crowd(65), 0, limits(1_000_000)).0));
    assert!(gives_up(narrow.judge(&crowd(64), 0, limits(10)).0));
    let late = Limits { deadline: Deadline::new(Instant::now() - Duration::from_secs(1)), ..limits(1000) };
    assert_eq!(narrow.judge(&crowd(3), 0, late).0.err(), Some(Stop::Deadline));
    let sparse = [write(u32::MAX, NEVER)];
    assert!(gives_up(narrow.judge(&sparse, 0, limits(1000)).0));
}
