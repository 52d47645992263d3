//! What a walk does at a return: linearize open operations until the one that returns has taken effect.

use std::collections::HashMap;

use super::bits::Bits;
use super::configs::{Config, Order};
use super::groups::Group;
use super::model::Model;
use super::pending::Open;
use super::walk::Walk;
use limits::Stop;

/// What is to go in by an event: the operation in a slot, or one of a group.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    Slot(usize),
    Group(u32),
}

/// What can be done in one state: slots of reads, slots of operations that do not overwrite, and groups of those. The
/// last two are only known where somebody asked for them.
pub struct Moves<S, B> {
    state: S,
    reads: B,
    is_whole: bool,
    slots: B,
    groups: Vec<u32>,
}

impl<M: Model, B: Bits> Walk<'_, M, B> {
    /// Linearize open operations until the one that is the `goal` is in, from every configuration at work, in every order.
    ///
    /// By levels: first as far as it goes without spending one more that never returns, then with one more, and so on.
    pub(super) fn expand_all(&mut self, goal: Goal) -> Result<(), Stop> {
        let breadth = self.breadth;
        let mut level = 0;
        let mut enough_at = None;
        let mut begin = 0;
        let mut at = 0;
        loop {
            while at < self.work.entries.len() {
                if self.next.entries.len() >= breadth.configs || at > breadth.configs.saturating_mul(16) {
                    self.narrowed = true;
                    return Ok(());
                }
                self.expand(at, goal);
                at += 1;
                if self.trace.wants_collection() {
                    self.collect();
                }
                if self.steps - self.polled_at >= 256 {
                    self.poll()?;
                }
            }
            if self.groups.active.is_empty() || begin == at {
                return Ok(());
            }
            if enough_at.is_none() && !self.next.entries.is_empty() {
                enough_at = Some(level);
            }
            if enough_at.is_some_and(|enough: u32| level >= enough.saturating_add(breadth.spare)) {
                self.narrowed = true;
                return Ok(());
            }
            for entry in begin..at {
                self.spend(entry, goal);
                if self.steps - self.polled_at >= 256 {
                    self.poll()?;
                }
            }
            begin = at;
            level += 1;
        }
    }

    /// Each open operation that returns, and may go in next.
    fn expand(&mut self, at: usize, goal: Goal) {
        self.steps += 1;
        let config = self.work.entries[at].clone();
        let moves = self.all_moves_of(config.state);
        let slots = self.moves[moves].slots.clone();
        for slot in slots.difference(&config.used) {
            if self.pending.is_first(slot, &config.used) {
                let open = &self.pending.slots[slot];
                let index = open.index;
                let to = self.model.step(config.state, &open.op).expect("it is among the moves");
                self.grow(&config, Some((slot, index)), None, to, config.refreshed, goal);
            }
        }
        let overwriting = self.pending.overwriting.clone();
        for slot in overwriting.difference(&config.used) {
            if self.pending.is_first(slot, &config.used) {
                let Open { index, to, .. } = self.pending.slots[slot];
                if goal == Goal::Slot(slot) || self.is_wanted(to, &config) {
                    self.grow(&config, Some((slot, index)), None, to, self.at as u32, goal);
                }
            }
        }
    }

    /// One more of each group that never returns.
    fn spend(&mut self, at: usize, goal: Goal) {
        self.steps += 1;
        let config = self.work.entries[at].clone();
        let moves = self.all_moves_of(config.state);
        let groups = self.moves[moves].groups.clone();
        for group in groups {
            if self.is_left(group, config.spent) {
                let to = self.model.step(config.state, &self.groups.all[group as usize].op);
                self.grow(&config, None, Some(group), to.expect("it is among the moves"), config.refreshed, goal);
            }
        }
        for i in 0..self.groups.active.len() {
            let group = self.groups.active[i];
            let Group { overwrites, to, .. } = self.groups.all[group as usize];
            let due = |walk: &mut Self| goal == Goal::Group(group) || walk.is_wanted(to, &config);
            if overwrites && self.is_left(group, config.spent) && due(self) {
                self.grow(&config, None, Some(group), to, self.at as u32, goal);
            }
        }
    }

    #[inline]
    pub(super) fn is_left(&self, group: u32, spent: u32) -> bool {
        self.loose || self.spent.of(spent, group) < self.groups.all[group as usize].invoked
    }

    /// Whether an open operation that does not overwrite could follow `state`.
    fn is_wanted(&mut self, state: M::State, config: &Config<M::State, B>) -> bool {
        let moves = self.all_moves_of(state);
        let moves = &self.moves[moves];
        moves.reads.exceeds(&config.used)
            || moves.slots.exceeds(&config.used)
            || moves.groups.iter().any(|&group| self.is_left(group, config.spent))
    }

    fn grow(
        &mut self,
        config: &Config<M::State, B>,
        slot: Option<(usize, u32)>,
        group: Option<u32>,
        state: M::State,
        refreshed: u32,
        goal: Goal,
    ) {
        self.steps += 1;
        let mut grown = Config { state, refreshed, used: config.used.clone(), ..*config };
        if let Some((slot, _)) = slot {
            grown.used.insert(slot);
        }
        let moves = self.moves_of(state);
        grown.used.extend(&self.moves[moves].reads);
        if !self.loose {
            if let Some(group) = group {
                grown.cost += 1;
                grown.spent = self.spent.plus(config.spent, group);
                grown.trace = self.trace.push_group(config.trace, group, self.at as u32);
            } else if let Some((_, index)) = slot {
                grown.trace = self.trace.push(config.trace, index, self.at as u32);
            }
        }
        let order = Order { needed: &self.pending.needed, spent: &self.spent, fewest: self.breadth.fewest };
        match goal {
            Goal::Slot(slot) if grown.used.contains(slot) => {
                grown.used.remove(slot);
                self.next.add(grown, &order);
            }
            Goal::Group(due) if group == Some(due) => self.next.add(grown, &order),
            _ => self.work.add(grown, &order),
        }
    }

    /// Where the moves from `state` stand, until the next event.
    #[inline]
    fn moves_of(&mut self, state: M::State) -> usize {
        match self.moves[..self.moves_known].iter().position(|moves| moves.state == state) {
            Some(at) => at,
            None => self.find_moves(state),
        }
    }

    fn find_moves(&mut self, state: M::State) -> usize {
        const KEPT: usize = 64;
        let at = self.moves_known.min(KEPT - 1);
        self.moves_known = at + 1;
        if at == self.moves.len() {
            let none = B::empty(self.words);
            self.moves.push(Moves { state, reads: none.clone(), is_whole: false, slots: none, groups: Vec::new() });
        }
        let moves = &mut self.moves[at];
        let allowed = |slot: &usize| self.model.step(state, &self.pending.slots[*slot].op).is_some();
        let none = B::empty(self.words);
        moves.state = state;
        moves.is_whole = false;
        moves.reads = none.clone();
        self.pending.reads.difference(&none).filter(allowed).for_each(|slot| moves.reads.insert(slot));
        at
    }

    /// As `moves_of`, with what does not only read.
    fn all_moves_of(&mut self, state: M::State) -> usize {
        let at = self.moves_of(state);
        let moves = &mut self.moves[at];
        if moves.is_whole {
            return at;
        }
        let allowed = |slot: &usize| self.model.step(state, &self.pending.slots[*slot].op).is_some();
        let none = B::empty(self.words);
        moves.is_whole = true;
        moves.slots = none.clone();
        self.pending.others.difference(&none).filter(allowed).for_each(|slot| moves.slots.insert(slot));
        moves.groups.clear();
        for &group in &self.groups.active {
            let Group { op, overwrites, .. } = &self.groups.all[group as usize];
            if !overwrites && self.model.step(state, op).is_some() {
                moves.groups.push(group);
            }
        }
        at
    }

    pub(super) fn narrow(&mut self) {
        let breadth = self.breadth;
        if self.next.entries.len() <= breadth.configs {
            return;
        }
        // Those that spent fewest of what never returns can still do most; and of every state some are kept.
        self.next.entries.sort_by_key(|config| config.cost);
        let mut of_state: HashMap<M::State, usize> = HashMap::new();
        let rank = |config: &Config<M::State, B>| {
            let held = of_state.entry(config.state).or_default();
            *held += 1;
            *held
        };
        let ranks: Vec<usize> = self.next.entries.iter().map(rank).collect();
        let mut ranked: Vec<(usize, Config<M::State, B>)> =
            ranks.into_iter().zip(self.next.entries.drain(..)).collect();
        ranked.sort_by_key(|&(rank, _)| rank);
        self.next.clear();
        self.next.entries.extend(ranked.into_iter().map(|(_, config)| config).take(breadth.configs));
        self.narrowed = true;
    }
}
