//! Just-in-time linearization of one object's operations (Lowe, "Testing for Linearizability", 2017).
//!
//! The walk goes through the events once. It holds every configuration (state, set of linearized open operations) that
//! the events so far allow, and linearizes further operations only when one of them returns, as few as possible. Memory
//! grows with the live configurations, not with the history. Shortcuts, each without loss:
//!   - An operation that only reads goes in as soon as the state allows it: it changes nothing, so it is never better
//!     to wait.
//!   - An open overwriting operation may go in unseen just before another overwriting one. That is kept as a
//!     possibility (`Config::refreshed`) instead of being tried out. One is linearized in its own right only when it
//!     is the one that returns or when an open operation that is not overwriting could follow it: else the next
//!     thing to go in is overwriting too, and takes it along.
//!   - Of equal open operations the first to return goes first. Those that never return are never forced, and only
//!     counted.
//!
//! Of two configurations one may stand for both (`Order::covers`); the other is dropped.
//!
//! A walk may be narrowed to some number of configurations and to those that spend few of the operations that never
//! return. Then reaching the end still proves that an order exists, and running dry proves nothing. It may also be
//! loosened: each operation that never returns may go in any number of times. Then running dry still proves that there
//! is no order, and reaching the end proves nothing.

use std::collections::HashMap;

use super::bits::Bits;
use super::configs::{Config, ConfigSet, Order};
use super::events::{Events, IDLE, is_return, operation};
use super::model::Model;
use super::spent::Spent;
use super::trace::Trace;
use crate::history::Op;
use crate::limits::{Limits, Stop};

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

/// An open operation in its slot.
#[derive(Clone, Copy)]
struct Open<S> {
    op: Op,
    index: u32,
    /// Number of the event that invoked it.
    since: u32,
    /// The state after it, if it overwrites.
    to: S,
}

/// Equal operations that never return, or one whose return is not waited for.
struct Group<S> {
    op: Op,
    overwrites: bool,
    to: S,
    invoked: u32,
}

/// What can be done in one state: slots of reads, slots of operations that do not overwrite, and groups of those.
struct Moves<S, B> {
    state: S,
    reads: B,
    slots: B,
    groups: Vec<u32>,
}

/// The open operations between two events.
#[derive(Clone)]
struct Pending<S, B> {
    slots: Vec<Open<S>>,
    reads: B,
    overwriting: B,
    others: B,
    /// Not overwriting: reads and others.
    needed: B,
    /// Of each slot, those of equal operations that return before.
    earlier: Vec<B>,
}

/// What is to go in by an event: the operation in a slot, or one of a group.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goal {
    Slot(usize),
    Group(u32),
}

struct Checkpoint<S, B> {
    at: usize,
    narrowed: bool,
    pending: Pending<S, B>,
    live: Vec<Config<S, B>>,
}

pub struct Walk<'a, M: Model, B: Bits> {
    model: &'a M,
    ops: &'a [Op],
    events: &'a Events,
    limits: Limits,
    words: usize,
    /// Events before this one have been passed.
    pub at: usize,
    pub steps: u64,
    /// Some configuration may have been dropped that no other stands for.
    pub narrowed: bool,
    polled_at: u64,
    /// Those that never return may go in any number of times.
    loose: bool,
    breadth: Breadth,
    /// The event where the walk began. Operations invoked before it, those below `first`, are not waited for.
    from: usize,
    first: u32,
    /// Those of them that return later: operation and group.
    waived: Vec<(u32, u32)>,
    pending: Pending<M::State, B>,
    groups: Vec<Group<M::State>>,
    active: Vec<u32>,
    moves: Vec<Moves<M::State, B>>,
    moves_known: usize,
    live: ConfigSet<M::State, B>,
    work: ConfigSet<M::State, B>,
    next: ConfigSet<M::State, B>,
    spent: Spent,
    trace: Trace,
    checkpoints: Vec<Checkpoint<M::State, B>>,
}

/// Events between two checkpoints.
const CHECKPOINT_EVERY: usize = 32;
const CHECKPOINTS_MAX: usize = 24;
/// Of these no checkpoints are made: there are too many configurations to keep.
const CHECKPOINT_CONFIGS_MAX: usize = 4096;

impl<'a, M: Model, B: Bits> Walk<'a, M, B> {
    pub fn new(model: &'a M, ops: &'a [Op], events: &'a Events, words: usize, limits: Limits) -> Self {
        let group = |&first: &u32| {
            let op = ops[first as usize];
            Group { op, overwrites: model.overwrites(&op), to: result(model, &op), invoked: 0 }
        };
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
            groups: events.groups.iter().map(group).collect(),
            active: Vec::new(),
            moves: Vec::new(),
            moves_known: 0,
            live: ConfigSet::new(true, limits.memory_bytes),
            work: ConfigSet::new(false, limits.memory_bytes),
            next: ConfigSet::new(true, limits.memory_bytes),
            spent: Spent::new(limits.memory_bytes),
            trace: Trace::new(limits.memory_bytes),
            checkpoints: Vec::new(),
        };
        walk.start(model.initial());
        walk
    }

    /// A loosened walk that begins at the event `from` in any of `states`: what was `open` then (operations in the order
    /// of invocation) may be in or not.
    #[allow(clippy::too_many_arguments)]
    pub fn loose(
        model: &'a M,
        ops: &'a [Op],
        events: &'a Events,
        words: usize,
        limits: Limits,
        from: usize,
        states: &[M::State],
        open: &[u32],
    ) -> Self {
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
                    walk.activate(events.place[i as usize]);
                }
            } else if !model.reads_only(&op) {
                let group = walk.groups.len() as u32;
                walk.groups.push(Group { op, overwrites: model.overwrites(&op), to: result(model, &op), invoked: 0 });
                walk.waived.push((i, group));
                walk.activate(group);
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
            let since = self.at - self.checkpoints.last().map_or(self.from, |checkpoint| checkpoint.at);
            if since >= CHECKPOINT_EVERY && !breadth.is_all() && self.live.entries.len() <= CHECKPOINT_CONFIGS_MAX {
                self.keep_checkpoint();
            }
        }
        Ok(None)
    }

    fn invoke(&mut self, index: u32) {
        let op = self.ops[index as usize];
        let place = self.events.place[index as usize];
        if op.is_open_ended() {
            if place != IDLE {
                self.activate(place);
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

    fn activate(&mut self, group: u32) {
        self.groups[group as usize].invoked += 1;
        if self.groups[group as usize].invoked == 1 {
            self.active.push(group);
        }
    }

    fn deactivate(&mut self, group: u32) {
        self.groups[group as usize].invoked -= 1;
        if self.groups[group as usize].invoked == 0 {
            self.active.retain(|&other| other != group);
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
        self.deactivate(group);
        let order = Order { needed: &self.pending.needed, spent: &self.spent, fewest: self.breadth.fewest };
        self.next.drop_covered(&order);
        std::mem::swap(&mut self.live, &mut self.next);
        Ok(())
    }

    /// Linearize open operations until the one that is the `goal` is in, from every configuration at work, in every order.
    ///
    /// By levels: first as far as it goes without spending one more that never returns, then with one more, and so on.
    fn expand_all(&mut self, goal: Goal) -> Result<(), Stop> {
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
            if self.active.is_empty() || begin == at {
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
        let moves = self.moves_of(config.state);
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
        let moves = self.moves_of(config.state);
        let groups = self.moves[moves].groups.clone();
        for group in groups {
            if self.is_left(group, config.spent) {
                let to = self.model.step(config.state, &self.groups[group as usize].op);
                self.grow(&config, None, Some(group), to.expect("it is among the moves"), config.refreshed, goal);
            }
        }
        for i in 0..self.active.len() {
            let group = self.active[i];
            let Group { overwrites, to, .. } = self.groups[group as usize];
            let due = |walk: &mut Self| goal == Goal::Group(group) || walk.is_wanted(to, &config);
            if overwrites && self.is_left(group, config.spent) && due(self) {
                self.grow(&config, None, Some(group), to, self.at as u32, goal);
            }
        }
    }

    #[inline]
    fn is_left(&self, group: u32, spent: u32) -> bool {
        self.loose || self.spent.of(spent, group) < self.groups[group as usize].invoked
    }

    /// Whether an open operation that does not overwrite could follow `state`.
    fn is_wanted(&mut self, state: M::State, config: &Config<M::State, B>) -> bool {
        let moves = self.moves_of(state);
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
            self.moves.push(Moves { state, reads: none.clone(), slots: none, groups: Vec::new() });
        }
        let moves = &mut self.moves[at];
        let allowed = |slot: &usize| self.model.step(state, &self.pending.slots[*slot].op).is_some();
        let none = B::empty(self.words);
        moves.state = state;
        moves.reads = none.clone();
        moves.slots = none.clone();
        self.pending.reads.difference(&none).filter(allowed).for_each(|slot| moves.reads.insert(slot));
        self.pending.others.difference(&none).filter(allowed).for_each(|slot| moves.slots.insert(slot));
        moves.groups.clear();
        for &group in &self.active {
            let Group { op, overwrites, .. } = &self.groups[group as usize];
            if !overwrites && self.model.step(state, op).is_some() {
                moves.groups.push(group);
            }
        }
        at
    }

    fn narrow(&mut self) {
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

    fn keep_checkpoint(&mut self) {
        self.checkpoints.push(Checkpoint {
            at: self.at,
            narrowed: self.narrowed,
            pending: self.pending.clone(),
            live: self.live.entries.clone(),
        });
        if self.checkpoints.len() > CHECKPOINTS_MAX {
            // The further back, the further apart.
            let place = |i: usize| self.checkpoints[i].at;
            let spread = |&i: &usize| (place(i + 1) - place(i - 1)) as f64 / (self.at - place(i - 1)) as f64;
            let least = (1..self.checkpoints.len() - 1).min_by(|a, b| spread(a).total_cmp(&spread(b)));
            least.into_iter().for_each(|i| drop(self.checkpoints.remove(i)));
        }
    }

    /// Go back to a checkpoint at least `events` before, or to the beginning.
    pub fn go_back(&mut self, events: usize) {
        let target = self.at.saturating_sub(events);
        while self.checkpoints.last().is_some_and(|checkpoint| checkpoint.at > target) {
            self.checkpoints.pop();
        }
        let before = self.at;
        match self.checkpoints.last() {
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
                self.deactivate(place);
            }
        }
    }

    /// Drop what no configuration came by.
    fn collect(&mut self) {
        let Walk { live, work, next, checkpoints, trace, spent, .. } = self;
        let mut moved = trace.unmarked();
        let kept = checkpoints.iter().flat_map(|checkpoint| &checkpoint.live);
        let all = live.entries.iter().chain(&work.entries).chain(&next.entries).chain(kept);
        all.for_each(|config| trace.mark(config.trace, &mut moved));
        trace.keep(&mut moved);
        let before = spent.begin_anew();
        let kept = checkpoints.iter_mut().flat_map(|checkpoint| &mut checkpoint.live);
        for config in live.entries.iter_mut().chain(&mut work.entries).chain(&mut next.entries).chain(kept) {
            config.trace = Trace::place(config.trace, &moved);
            config.spent = spent.number(before[config.spent as usize].clone());
        }
    }

    pub fn bytes(&self) -> usize {
        let kept = |checkpoint: &Checkpoint<M::State, B>| {
            let heap = checkpoint.live.first().map_or(0, |config| config.used.heap_bytes());
            checkpoint.live.len() * (size_of::<Config<M::State, B>>() + heap) + checkpoint.pending.bytes()
        };
        let groups = self.groups.capacity() * size_of::<Group<M::State>>() + 4 * self.active.capacity();
        let sets = self.live.bytes() + self.work.bytes() + self.next.bytes() + self.next.dropping_bytes();
        sets + groups + self.trace.bytes() + self.spent.bytes() + self.checkpoints.iter().map(kept).sum::<usize>()
    }

    fn poll(&mut self) -> Result<(), Stop> {
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
        if self.limits.deadline.has_passed() {
            return Err(Stop::Time);
        }
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
            let left = self.active.iter().filter(|&&group| self.is_left(group, config.spent));
            let left = left.map(|&group| &self.groups[group as usize]);
            states.extend(left.filter(|group| group.overwrites).map(|group| group.to));
        }
        states.sort_unstable();
        states.dedup();
        states
    }
}

/// The state after an operation that overwrites; of others any.
fn result<M: Model>(model: &M, op: &Op) -> M::State {
    model.step(model.initial(), op).unwrap_or_else(|| model.initial())
}

impl<S: Copy, B: Bits> Pending<S, B> {
    fn new(words: usize) -> Self {
        let none = B::empty(words);
        Pending {
            slots: Vec::new(),
            reads: none.clone(),
            overwriting: none.clone(),
            others: none.clone(),
            needed: none,
            earlier: Vec::new(),
        }
    }

    /// Compare the operation new in `slot` with the equal ones that are open: which returns first?
    fn rank(&mut self, slot: usize, overwrites: bool) {
        let open = self.slots[slot];
        let ends = |open: &Open<S>| (open.op.returned, open.op.blame == open.op.id, open.index);
        let alike = if overwrites { self.overwriting.clone() } else { self.others.clone() };
        let mut before = alike.clone();
        before.clear();
        for other in alike.difference(&before.clone()) {
            if self.slots[other].op.asks_the_same(&open.op) {
                if ends(&self.slots[other]) < ends(&open) {
                    before.insert(other);
                } else {
                    self.earlier[other].insert(slot);
                }
            }
        }
        self.earlier[slot] = before;
    }

    /// No equal operation that returns before is still out.
    #[inline]
    fn is_first(&self, slot: usize, used: &B) -> bool {
        !self.earlier[slot].exceeds(used)
    }

    fn free(&mut self, slot: usize) {
        if self.reads.contains(slot) {
            self.reads.remove(slot);
            self.needed.remove(slot);
            return;
        }
        let alike = if self.overwriting.contains(slot) { &mut self.overwriting } else { &mut self.others };
        alike.remove(slot);
        self.needed.remove(slot);
        for earlier in &mut self.earlier {
            earlier.remove(slot);
        }
    }

    fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Open<S>>()
            + self.earlier.capacity() * size_of::<B>()
            + self.earlier.first().map_or(0, |bits| bits.heap_bytes()) * (self.earlier.len() + 4)
    }
}
