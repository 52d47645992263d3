//! What the caller said of states and calls, each asked for once.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Model;
use crate::history::Op;
use limits::Stop;

const REFUSED: u32 = u32::MAX;
/// What a transition costs.
const TRANSITION: usize = 24;

/// Objects of one kind, which begin in state 0: `op.a` numbers the call. `ask` returns the number of the state after a
/// call, or None where the state forbids it. When no more may be asked every further step is refused, and `spent` says
/// so: then what the search found means nothing.
pub struct Table<'a, F> {
    ask: F,
    reads: &'a [bool],
    memory_bytes: usize,
    answers: Mutex<Answers>,
}

struct Answers {
    after: HashMap<u64, u32, BuildHasherDefault<Spread>>,
    /// How often it may be asked yet.
    left: u64,
    spent: Option<Stop>,
}

impl<'a, F: Fn(u32, u32) -> Option<u32>> Table<'a, F> {
    /// `reads`: of each call, whether it leaves every state as it is.
    pub fn new(ask: F, reads: &'a [bool], memory_bytes: usize) -> Self {
        let answers = Answers { after: HashMap::default(), left: 0, spent: None };
        Table { ask, reads, memory_bytes, answers: Mutex::new(answers) }
    }

    /// Allow so many questions from now on; returns how many were left.
    pub fn allow(&self, asked: u64) -> u64 {
        let answers = &mut *self.answers();
        answers.spent = None;
        std::mem::replace(&mut answers.left, asked)
    }

    /// What ran out, if a step was refused for it.
    pub fn spent(&self) -> Option<Stop> {
        self.answers().spent
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: Fn(u32, u32) -> Option<u32> + Sync> Model for Table<'_, F> {
    type State = u32;

    fn initial(&self) -> u32 {
        0
    }

    fn step(&self, state: u32, op: &Op) -> Option<u32> {
        let answers = &mut *self.answers();
        let way = u64::from(state) << 32 | u64::from(op.a);
        let after = match answers.after.get(&way) {
            Some(&after) => after,
            None => {
                if answers.left == 0 || answers.after.len() * TRANSITION > self.memory_bytes {
                    answers.spent = Some(if answers.left == 0 { Stop::Steps } else { Stop::Memory });
                    return None;
                }
                answers.left -= 1;
                let after = (self.ask)(state, op.a).unwrap_or(REFUSED);
                answers.after.insert(way, after);
                after
            }
        };
        (after != REFUSED).then_some(after)
    }

    fn reads_only(&self, op: &Op) -> bool {
        self.reads[op.a as usize]
    }

    fn overwrites(&self, _op: &Op) -> bool {
        false
    }
}

/// Spreads the one number that a transition is known by over all bits.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}
