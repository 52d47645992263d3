//! The search for registers against a search that shares nothing with it: Wing & Gong, every order tried.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use ::registers::{Scratch, judge_one};
use limits::{Deadline, Limits};
use search::history::{Function, NEVER, Op};
use search::{CasRegister, Finding, Model};

const OPERATIONS_MAX: usize = 14;

/// Five processes by turns, a byte or two each: what stands in the first says who, and what it invokes or how it ends.
fn history(data: &[u8]) -> Vec<Op> {
    let Some((&mode, data)) = data.split_first() else { return Vec::new() };
    let unique = mode & 1 == 1;
    let domain = if unique { OPERATIONS_MAX as u32 + 1 } else { 2 + u32::from(mode >> 1 & 3) };
    let mut ops: Vec<Op> = Vec::new();
    let mut open: [Option<usize>; 5] = [None; 5];
    let mut bytes = data.iter().copied();
    let mut at = 0;
    while let Some(byte) = bytes.next() {
        at += 1;
        let process = usize::from(byte % 5);
        if let Some(i) = open[process].take() {
            // One in sixteen is never heard of again.
            if byte < 240 {
                ops[i].returned = at;
            }
            continue;
        }
        if ops.len() == OPERATIONS_MAX {
            continue;
        }
        let (more, fresh) = (u32::from(bytes.next().unwrap_or(0)), ops.len() as u32 + 1);
        let made = |value: u32| if unique { fresh } else { value % domain };
        let (function, a, b) = match byte / 5 % 3 {
            0 => (Function::Read, more % domain, 0),
            1 => (Function::Write, made(more), 0),
            _ => (Function::CompareAndSet, more % domain, made(more >> 4)),
        };
        let id = ops.len() as u32;
        open[process] = Some(ops.len());
        ops.push(Op { id, blame: id, function, a, b, invoked: at, returned: NEVER });
    }
    // What only read and never returned is left out by the caller.
    ops.retain(|op| op.returned != NEVER || op.function != Function::Read);
    ops
}

fn linearizable(ops: &[Op]) -> bool {
    let required = ops.iter().enumerate().filter(|(_, op)| !op.is_open_ended()).fold(0u32, |set, (i, _)| set | 1 << i);
    let mut seen = HashSet::from([(0u32, CasRegister.initial())]);
    let mut stack: Vec<(u32, u32)> = seen.iter().copied().collect();
    while let Some((placed, state)) = stack.pop() {
        if required & !placed == 0 {
            return true;
        }
        let absent = |i: &usize| placed >> i & 1 == 0;
        let horizon = (0..ops.len()).filter(absent).map(|i| ops[i].returned).min().unwrap_or(NEVER);
        for i in (0..ops.len()).filter(absent) {
            if ops[i].invoked <= horizon
                && let Some(after) = CasRegister.step(state, &ops[i])
                && seen.insert((placed | 1 << i, after))
            {
                stack.push((placed | 1 << i, after));
            }
        }
    }
    false
}

pub fn try_one(data: &[u8]) {
    let ops = history(data);
    let limits = Limits {
        steps: 10_000_000,
        memory_bytes: 1 << 30,
        deadline: Deadline::new(Instant::now() + Duration::from_secs(60)),
    };
    let judged = judge_one(&CasRegister, &ops[..], limits, &mut Scratch::default()).expect("no defect");
    let expected = linearizable(&ops);
    match judged.finding {
        Finding::Stopped(stop) => panic!("{stop:?} on {} operations", ops.len()),
        Finding::Explained { .. } => assert!(expected, "{ops:?}"),
        _ => assert!(!expected, "{ops:?}"),
    }
}
