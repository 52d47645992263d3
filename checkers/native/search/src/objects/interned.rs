//! Turn an object into a model for the search: number its states as they appear, and remember its transitions.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Call, Object};
use crate::Model;
use crate::history::Op;

const REFUSED: u32 = u32::MAX;
/// What a state costs beside its own heap: its place in the list and in the table.
const OVERHEAD: usize = 64;
const TRANSITION: usize = 24;

/// One judged object: `op.a` numbers a call of `calls`. When its tables outgrow `bytes_max` it refuses every further
/// step and says so by `is_exhausted`: then what the search found means nothing.
pub struct Interned<'a, O: Object> {
    object: &'a O,
    calls: &'a [Call],
    bytes_max: usize,
    table: Mutex<Table<O::State>>,
}

struct Table<S> {
    states: Vec<S>,
    numbers: HashMap<S, u32>,
    after: HashMap<u64, u32, BuildHasherDefault<Spread>>,
    bytes: usize,
    exhausted: bool,
}

impl<'a, O: Object> Interned<'a, O> {
    pub fn new(object: &'a O, calls: &'a [Call], bytes_max: usize) -> Self {
        let initial = object.initial();
        let table = Table {
            states: vec![initial.clone()],
            numbers: HashMap::from([(initial, 0)]),
            after: HashMap::default(),
            bytes: 0,
            exhausted: false,
        };
        Interned { object, calls, bytes_max, table: Mutex::new(table) }
    }

    /// Whether a step was refused for want of memory.
    pub fn is_exhausted(&self) -> bool {
        self.table().exhausted
    }

    /// The state of this number, for people.
    pub fn show(&self, state: u32) -> Vec<i64> {
        self.object.show(&self.table().states[state as usize])
    }

    fn table(&self) -> MutexGuard<'_, Table<O::State>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call(&self, op: &Op) -> &Call {
        &self.calls[op.a as usize]
    }
}

impl<O: Object> Model for Interned<'_, O> {
    type State = u32;

    fn initial(&self) -> u32 {
        0
    }

    fn step(&self, state: u32, op: &Op) -> Option<u32> {
        let table = &mut *self.table();
        let way = u64::from(state) << 32 | u64::from(op.a);
        if let Some(&after) = table.after.get(&way) {
            return (after != REFUSED).then_some(after);
        }
        if table.bytes > self.bytes_max || table.states.len() >= REFUSED as usize {
            table.exhausted = true;
            return None;
        }
        table.bytes += TRANSITION;
        let after = match self.object.step(&table.states[state as usize], self.call(op)) {
            None => REFUSED,
            Some(after) => match table.numbers.get(&after) {
                Some(&number) => number,
                None => {
                    let number = table.states.len() as u32;
                    table.bytes += 2 * (size_of::<O::State>() + self.object.heap_bytes(&after)) + OVERHEAD;
                    table.states.push(after.clone());
                    table.numbers.insert(after, number);
                    number
                }
            },
        };
        table.after.insert(way, after);
        (after != REFUSED).then_some(after)
    }

    fn reads_only(&self, op: &Op) -> bool {
        self.object.reads_only(self.call(op))
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
