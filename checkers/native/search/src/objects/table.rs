//! What the caller said of states and calls, each asked for once.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Model;
use crate::history::Op;
use limits::Stop;

const REFUSED: u32 = u32::MAX;
/// What a transition costs, and the row of a state.
const TRANSITION: usize = 16;
const ROW: usize = 48;

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
    /// Of each state the calls that were asked about, in order, and what each makes of it. They stand together, since a
    /// search asks about all that can come next: to get each from a place of its own would cost most of its time.
    after: Vec<Vec<(u32, u32)>>,
    bytes: usize,
    /// How often it may be asked yet.
    left: u64,
    spent: Option<Stop>,
}

impl<'a, F: Fn(u32, u32) -> Option<u32>> Table<'a, F> {
    /// `reads`: of each call, whether it leaves every state as it is.
    pub fn new(ask: F, reads: &'a [bool], memory_bytes: usize) -> Self {
        let answers = Answers { after: Vec::new(), bytes: 0, left: 0, spent: None };
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
        let row = state as usize;
        if answers.after.len() <= row {
            answers.bytes += (row + 1 - answers.after.len()) * ROW;
            answers.after.resize_with(row + 1, Vec::new);
        }
        let row = &mut answers.after[row];
        let after = match row.binary_search_by_key(&op.a, |&(call, _)| call) {
            Ok(at) => row[at].1,
            Err(at) => {
                if answers.left == 0 || answers.bytes > self.memory_bytes {
                    answers.spent = Some(if answers.left == 0 { Stop::Steps } else { Stop::Memory });
                    return None;
                }
                answers.left -= 1;
                let after = (self.ask)(state, op.a).unwrap_or(REFUSED);
                row.insert(at, (op.a, after));
                answers.bytes += TRANSITION;
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
