//! The operations that never return, grouped by what they ask: of equal ones only the number counts.

use super::model::{Model, result};
use crate::history::Op;

/// Equal operations that never return, or one whose return is not waited for.
pub struct Group<S> {
    pub op: Op,
    pub overwrites: bool,
    /// The state after it, if it overwrites.
    pub to: S,
    /// How many of them are invoked by now.
    pub invoked: u32,
}

pub struct Groups<S> {
    pub all: Vec<Group<S>>,
    /// Those with any that is invoked.
    pub active: Vec<u32>,
}

impl<S: Copy> Groups<S> {
    /// With room for so many.
    pub fn new(count: usize) -> Self {
        Groups { all: Vec::with_capacity(count), active: Vec::new() }
    }

    /// Add a group of which none is invoked; its number.
    pub fn add<M: Model<State = S>>(&mut self, model: &M, op: Op) -> u32 {
        self.all.push(Group { op, overwrites: model.overwrites(&op), to: result(model, &op), invoked: 0 });
        (self.all.len() - 1) as u32
    }

    pub fn activate(&mut self, group: u32) {
        self.all[group as usize].invoked += 1;
        if self.all[group as usize].invoked == 1 {
            self.active.push(group);
        }
    }

    pub fn deactivate(&mut self, group: u32) {
        self.all[group as usize].invoked -= 1;
        if self.all[group as usize].invoked == 0 {
            self.active.retain(|&other| other != group);
        }
    }

    pub fn bytes(&self) -> usize {
        self.all.capacity() * size_of::<Group<S>>() + 4 * self.active.capacity()
    }
}
