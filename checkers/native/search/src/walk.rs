//! Just-in-time linearization of one object's operations (Lowe, "Testing for Linearizability", 2017).
//!
//! The walk goes through the events once. It keeps every configuration (state, set of linearized open operations) that
//! the events so far allow. It linearizes further operations only when one of them returns, and as few as possible. Its
//! memory grows with the live configurations, not with the history. It uses shortcuts that lose no order:
//!   - An operation that only reads takes effect as soon as the state allows it: it changes nothing, so waiting has no
//!     use.
//!   - An open overwriting operation may take effect unseen just before another overwriting one. The walk records that
//!     possibility (`Config::refreshed`) instead of trying it. It linearizes such an operation separately only if it is
//!     the one that returns, or if an open operation that does not overwrite could follow it. Otherwise the next
//!     operation overwrites too, and includes it.
//!   - Of equal open operations, the first to return takes effect first. Operations that never return are never forced;
//!     they are only counted.
//!
//! `expansion` does the work at a return. If one of two configurations can replace the other (`Order::covers`), the
//! other is dropped.
//!
//! A walk may be narrowed: to some number of configurations, and to those that use few of the operations that never
//! return. Then reaching the end still proves that an order exists, but running out of configurations proves nothing. A
//! walk may also be loosened: each operation that never returns may take effect any number of times. Then running out
//! still proves that there is no order, but reaching the end proves nothing.

use super::bits::Bits;
use super::checkpoints::{Checkpoint, Checkpoints};
use super::configs::{Config, ConfigSet, Order};
use super::events::{Events, IDLE, is_return, operation};
use super::expansion::{Goal, Moves};
use super::groups::Groups;
use super::model::{Model, result};
use super::pending::{Open, Pending};
use super::spent::Spent;
use super::trace::Trace;
use crate::history::Op;
use limits::{Limits, Stop};

/// How much of what is possible a walk keeps.
#[derive(Clone, Copy)]
pub struct Breadth {
    pub configs: usize,
    /// Of those that differ in what they spent of what never returns only one is kept, that which spent fewest.
    pub fewest: bool,
    /// How many more of those that never return are spent than are needed to pass an event.
    pub spare: u32,
}

impl Breadth {
    pub const ALL: Breadth = Breadth { configs: usize::MAX, fewest: false, spare: u32::MAX };

    fn is_all(self) -> bool {
        self.configs == usize::MAX
    }
}

/// Where a loosened walk begins: at an event, in any of some states.
pub struct Beginning<'a, S> {
    pub event: usize,
    pub states: &'a [S],
    /// The operations that were open then, in the order of invocation: each may be in or not.
    pub open: &'a [u32],
}

pub struct Walk<'a, M: Model, B: Bits> {
    pub(super) model: &'a M,
    ops: &'a [Op],
    events: &'a Events,
    limits: Limits,
    pub(super) words: usize,
    /// Events before this one have been passed.
    pub at: usize,
    pub steps: u64,
    /// Some configuration may have been dropped that no other stands for.
    pub narrowed: bool,
    pub(super) polled_at: u64,
    /// Those that never return may go in any number of times.
    pub(super) loose: bool,
    pub(super) breadth: Breadth,
    /// The event where the walk began. Operations invoked before it, those below `first`, are not waited for.
    from: usize,
    first: u32,
    /// Those of them that return later: operation and group.
    waived: Vec<(u32, u32)>,
    pub(super) pending: Pending<M::State, B>,
    pub(super) groups: Groups<M::State>,
    pub(super) moves: Vec<Moves<M::State, B>>,
    pub(super) moves_known: usize,
    pub(super) live: ConfigSet<M::State, B>,
    pub(super) work: ConfigSet<M::State, B>,
    pub(super) next: ConfigSet<M::State, B>,
    pub(super) spent: Spent,
    pub(super) trace: Trace,
    checkpoints: Checkpoints<M::State, B>,
}

impl<'a, M: Model, B: Bits> Walk<'a, M, B> {
    pub fn new(model: &'a M, ops: &'a [Op], events: &'a Events, words: usize, limits: Limits) -> Self {
        let mut groups = Groups::new(events.groups.len());
        for &first in &events.groups {
            groups.add(model, ops[first as usize]);
        }
        let mut walk = Walk {
            model,
            ops,
            events,
            limits,
            words,
            at: 0,
            steps: 0,
            narrowed: false,
            polled_at: 0,
            loose: false,
            breadth: Breadth::ALL,
            from: 0,
            first: 0,
            waived: Vec::new(),
            pending: Pending::new(words),
            groups,
            moves: Vec::new(),
            moves_known: 0,
            live: ConfigSet::new(true, limits.memory_bytes),
            work: ConfigSet::new(false, limits.memory_bytes),
            next: ConfigSet::new(true, limits.memory_bytes),
            spent: Spent::new(limits.memory_bytes),
            trace: Trace::new(limits.memory_bytes),
            checkpoints: Checkpoints::new(),
        };
        walk.start(model.initial());
        walk
    }

    pub fn loose(
        model: &'a M,
        ops: &'a [Op],
        events: &'a Events,
        words: usize,
        limits: Limits,
        beginning: &Beginning<'_, M::State>,
    ) -> Self {
        let &Beginning { event: from, states, open } = beginning;
        let mut walk = Walk::new(model, ops, events, words, limits);
        walk.loose = true;
        walk.from = from;
        walk.first = events.list[..from].iter().filter(|&&event| !is_return(event)).count() as u32;
        walk.at = from;
        walk.live.clear();
        states.iter().for_each(|&state| walk.start(state));
        for &i in open {
            let op = ops[i as usize];
            if op.is_open_ended() {
                if events.place[i as usize] != IDLE {
                    walk.groups.activate(events.place[i as usize]);
                }
            } else if !model.reads_only(&op) {
                let group = walk.groups.add(model, op);
                walk.waived.push((i, group));
                walk.groups.activate(group);
            }
        }
        walk
    }

    fn start(&mut self, state: M::State) {
        let used = B::empty(self.words);
        let start = Config { state, used, refreshed: 0, spent: Spent::NONE, cost: 0, trace: Trace::START };
        let order = Order { needed: &self.pending.needed, spent: &self.spent, fewest: false };
        self.live.add(start, &order);
    }

    /// Pass the events before number `until`; the number of the one that could not be passed, if any.
    pub fn run(&mut self, until: usize, breadth: Breadth) -> Result<Option<usize>, Stop> {
        self.breadth = breadth;
        while self.at < until {
            let event = self.events.list[self.at];
            if is_return(event) {
                self.complete(operation(event))?;
                if self.live.entries.is_empty() {
                    return Ok(Some(self.at));
                }
                self.poll()?;
            } else {
                self.invoke(operation(event));
            }
            self.at += 1;
            if !breadth.is_all() && self.checkpoints.is_due(self.at, self.from, self.live.entries.len()) {
                self.checkpoints.keep(Checkpoint {
                    at: self.at,
                    narrowed: self.narrowed,
                    pending: self.pending.clone(),
                    live: self.live.entries.clone(),
                });
            }
        }
        Ok(None)
    }

    fn invoke(&mut self, index: u32) {
        let op = self.ops[index as usize];
        let place = self.events.place[index as usize];
        if op.is_open_ended() {
            if place != IDLE {
                self.groups.activate(place);
            }
            return;
        }
        let slot = place as usize;
        let reads = self.model.reads_only(&op);
        let overwrites = !reads && self.model.overwrites(&op);
        let to = if overwrites { result(self.model, &op) } else { self.model.initial() };
        let open = Open { op, index, since: self.at as u32, to };
        let pending = &mut self.pending;
        while pending.slots.len() <= slot {
            pending.slots.push(open);
            pending.earlier.push(B::empty(self.words));
        }
        pending.slots[slot] = open;
        if reads {
            pending.reads.insert(slot);
            pending.needed.insert(slot);
            for config in &mut self.live.entries {
                if self.model.step(config.state, &op).is_some() {
                    config.used.insert(slot);
                }
            }
            return;
        }
        pending.rank(slot, overwrites);
        if overwrites {
            pending.overwriting.insert(slot);
        } else {
            pending.others.insert(slot);
            pending.needed.insert(slot);
        }
    }

    /// Keep what can have the operation linearized by now, and free its slot.
    fn complete(&mut self, index: u32) -> Result<(), Stop> {
        if index < self.first {
            return match self.waived.iter().find(|&&(waived, _)| waived == index) {
                Some(&(_, group)) => self.waive(group),
                None => Ok(()),
            };
        }
        let slot = self.events.place[index as usize] as usize;
        self.steps += self.live.entries.len() as u64;
        if let [only] = &mut self.live.entries[..]
            && only.used.contains(slot)
        {
            only.used.remove(slot);
            self.pending.free(slot);
            return Ok(());
        }
        let done = self.pending.slots[slot];
        let absorbs = self.pending.overwriting.contains(slot);
        self.next.clear();
        self.work.clear();
        self.moves_known = 0;
        let order = Order { needed: &self.pending.needed, spent: &self.spent, fewest: self.breadth.fewest };
        for mut config in self.live.entries.drain(..) {
            if config.used.contains(slot) {
                config.used.remove(slot);
                self.next.add(config, &order);
                continue;
            }
            if absorbs && done.since < config.refreshed {
                let mut kept = config.clone();
                if !self.loose {
                    kept.trace = self.trace.push_absorbed(kept.trace, done.index, self.at as u32);
                }
                self.next.add(kept, &order);
            }
            self.work.add(config, &order);
        }
        self.expand_all(Goal::Slot(slot))?;
        self.narrowed |= self.next.lossy || self.work.lossy;
        let order = Order { needed: &self.pending.needed, spent: &self.spent, fewest: self.breadth.fewest };
        self.next.drop_covered(&order);
        self.narrow();
        if !self.next.entries.is_empty() {
            self.pending.free(slot);
        }
        std::mem::swap(&mut self.live, &mut self.next);
        Ok(())
    }

    /// The last moment at which an operation of the window's beginning can go in, if it had not before the window.
    fn waive(&mut self, group: u32) -> Result<(), Stop> {
        self.steps += self.live.entries.len() as u64;
        self.next.clear();
        self.work.clear();
        self.moves_known = 0;
        let order = Order { needed: &self.pending.needed, spent: &self.spent, fewest: self.breadth.fewest };
        for config in self.live.entries.drain(..) {
            self.next.add(config.clone(), &order);
            self.work.add(config, &order);
        }
        self.expand_all(Goal::Group(group))?;
        self.groups.deactivate(group);
        let order = Order { needed: &self.pending.needed, spent: &self.spent, fewest: self.breadth.fewest };
        self.next.drop_covered(&order);
        std::mem::swap(&mut self.live, &mut self.next);
        Ok(())
    }

    /// Go back to a checkpoint at least `events` before, or to the beginning.
    pub fn go_back(&mut self, events: usize) {
        let before = self.at;
        match self.checkpoints.back_to(before.saturating_sub(events)) {
            Some(checkpoint) => {
                self.at = checkpoint.at;
                self.narrowed = checkpoint.narrowed;
                self.pending = checkpoint.pending.clone();
                self.live.clear();
                self.live.entries.extend_from_slice(&checkpoint.live);
            }
            None => {
                self.at = 0;
                self.narrowed = false;
                self.pending = Pending::new(self.words);
                self.live.clear();
                self.start(self.model.initial());
            }
        }
        for number in (self.at..before).rev() {
            let event = self.events.list[number];
            let place = self.events.place[operation(event) as usize];
            if self.ops[operation(event) as usize].is_open_ended() && place != IDLE {
                self.groups.deactivate(place);
            }
        }
    }

    /// Drop what no configuration came by.
    pub(super) fn collect(&mut self) {
        let Walk { live, work, next, checkpoints, trace, spent, .. } = self;
        let mut moved = trace.unmarked();
        let all = live.entries.iter().chain(&work.entries).chain(&next.entries).chain(checkpoints.configs());
        all.for_each(|config| trace.mark(config.trace, &mut moved));
        trace.keep(&mut moved);
        let before = spent.begin_anew();
        let entries = live.entries.iter_mut().chain(&mut work.entries).chain(&mut next.entries);
        for config in entries.chain(checkpoints.configs_mut()) {
            config.trace = Trace::place(config.trace, &moved);
            config.spent = spent.number(before[config.spent as usize].clone());
        }
    }

    pub fn bytes(&self) -> usize {
        let sets = self.live.bytes() + self.work.bytes() + self.next.bytes() + self.next.dropping_bytes();
        sets + self.groups.bytes() + self.trace.bytes() + self.spent.bytes() + self.checkpoints.bytes()
    }

    pub(super) fn poll(&mut self) -> Result<(), Stop> {
        if self.steps > self.limits.steps {
            return Err(Stop::Steps);
        }
        if self.steps - self.polled_at < 256 {
            return Ok(());
        }
        self.polled_at = self.steps;
        if self.bytes() > self.limits.memory_bytes {
            return Err(Stop::Memory);
        }
        self.limits.deadline.check()?;
        Ok(())
    }

    /// An order that explains what the walk has passed, by one configuration.
    pub fn explanation(&self) -> Vec<u32> {
        self.trace.order(self.model, self.ops, self.events, self.live.entries[0].trace, self.at)
    }

    /// Where the walk ran dry: a longest order up to there. Every configuration before the return that failed, and all
    /// that were tried to pass it, are still at work.
    pub fn prefix(&self) -> Vec<u32> {
        let length = |config: &&Config<M::State, B>| config.used.count() + config.cost;
        // Of equally long ones the first found: it strayed least.
        let longest = self.work.entries.iter().rev().max_by_key(length);
        longest
            .map_or_else(Vec::new, |config| self.trace.order(self.model, self.ops, self.events, config.trace, self.at))
    }

    /// Where the walk ran dry: what the object may hold then.
    pub fn states(&self) -> Vec<M::State> {
        let mut states: Vec<M::State> = Vec::new();
        for config in &self.work.entries {
            states.push(config.state);
            states.extend(self.pending.overwriting.difference(&config.used).map(|slot| self.pending.slots[slot].to));
            let left = self.groups.active.iter().filter(|&&group| self.is_left(group, config.spent));
            let left = left.map(|&group| &self.groups.all[group as usize]);
            states.extend(left.filter(|group| group.overwrites).map(|group| group.to));
        }
        states.sort_unstable();
        states.dedup();
        states
    }
}
