//! Just-in-time linearization of one object's operations (Lowe, "Testing for Linearizability", 2017).
//!
//! The search walks the events once. It holds every configuration (state, set of linearized open operations) that the
//! events so far allow, and linearizes further operations only when one of them returns, as few as possible. Memory
//! grows with the live configurations, not with the history. Three shortcuts, each without loss:
//!   - An operation that only reads goes in as soon as the state allows it: it changes nothing, so it is never better
//!     to wait.
//!   - An open overwriting operation may go in unseen just before another overwriting one. That is kept as a
//!     possibility (`Config::refreshed`) instead of being tried out. One is linearized in its own right only when it
//!     is the one that returns or when an open operation that is not overwriting could follow it: else the next
//!     thing to go in is overwriting too, and takes it along.
//!   - Operations that never return are never forced, and of equal ones the first invoked goes first.
//!
//! Of two configurations one may stand for both (`Config::covers`); the other is dropped.
//!
//! A walk may be narrowed to some number of configurations. Then reaching the end still proves that an order exists,
//! and running dry proves nothing; so narrow walks come first, and the exact one decides.

use std::collections::HashMap;
use std::time::Instant;

use crate::bits::Bits;
use crate::configs::{Config, ConfigSet};
use crate::model::Model;
use crate::operation::Op;
use crate::trace::Trace;

/// Widths of the walks before the exact one.
const WIDTHS: [usize; 2] = [16, 256];

/// What one object's search may spend. `steps` are counted, so that the same input gives the same answer.
#[derive(Clone, Copy)]
pub struct Limits {
    pub steps: u64,
    pub memory_bytes: usize,
    pub deadline: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    Steps,
    Memory,
    Time,
}

#[derive(Debug)]
pub enum Finding<S> {
    /// One order that explains everything (indexes of operations).
    Explained {
        order: Vec<u32>,
    },
    /// No order passes `failed`. `prefix` is a longest order up to there, `states` what the object may hold then,
    /// `open` the operations that had not returned.
    Refuted {
        failed: u32,
        prefix: Vec<u32>,
        states: Vec<S>,
        open: Vec<u32>,
    },
    Stopped(Stop),
}

/// Judge `ops`, sorted by invocation; also the steps that it took.
pub fn judge<M: Model>(model: &M, ops: &[Op], limits: Limits) -> (Finding<M::State>, u64) {
    let events = events(ops);
    match widest(&events).div_ceil(64) {
        0 | 1 => judge_with::<M, [u64; 1]>(model, ops, &events, 1, limits),
        2 => judge_with::<M, [u64; 2]>(model, ops, &events, 2, limits),
        3..=8 => judge_with::<M, [u64; 8]>(model, ops, &events, 8, limits),
        words => judge_with::<M, Vec<u64>>(model, ops, &events, words, limits),
    }
}

fn judge_with<M: Model, B: Bits>(
    model: &M,
    ops: &[Op],
    events: &[Event],
    words: usize,
    limits: Limits,
) -> (Finding<M::State>, u64) {
    let mut spent = 0;
    for width in WIDTHS.into_iter().chain([usize::MAX]) {
        let mut walk =
            Walk::<M, B>::new(model, ops, words, width, Limits { steps: limits.steps.saturating_sub(spent), ..limits });
        let end = walk.run(events);
        spent += walk.steps;
        match end {
            Ok(Some(finding)) => return (finding, spent),
            Ok(None) => {}
            // A walk that was narrowed may exhaust the memory's share with its bookkeeping only; the exact one would too.
            Err(stop) => return (Finding::Stopped(stop), spent),
        }
    }
    unreachable!("the exact walk always decides")
}

/// An invocation or a return of `ops[op]`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at: i64,
    /// At one instant invocations come first (intervals are closed), then forced operations, then their observers.
    rank: u8,
    op: u32,
}

const INVOKED: u8 = 0;
const FORCED: u8 = 1;
const RETURNED: u8 = 2;

fn events(ops: &[Op]) -> Vec<Event> {
    let mut events = Vec::with_capacity(2 * ops.len());
    for (i, op) in ops.iter().enumerate() {
        events.push(Event { at: op.invoked, rank: INVOKED, op: i as u32 });
        if !op.is_open_ended() {
            let rank = if op.blame == op.id { RETURNED } else { FORCED };
            events.push(Event { at: op.returned, rank, op: i as u32 });
        }
    }
    events.sort_unstable();
    events
}

/// The most operations that are ever open at once.
fn widest(events: &[Event]) -> usize {
    let (mut open, mut most) = (0usize, 0);
    for event in events {
        if event.rank == INVOKED {
            open += 1;
            most = most.max(open);
        } else {
            open -= 1;
        }
    }
    most
}

const NO_TWIN: u32 = u32::MAX;

/// An open operation in its slot.
#[derive(Clone, Copy)]
struct Open {
    op: Op,
    index: u32,
    reads_only: bool,
    overwrites: bool,
    /// Number of the event that invoked it.
    since: u32,
    /// The slot of the equal open-ended operation invoked just before it.
    twin: u32,
}

struct Walk<'a, M: Model, B: Bits> {
    model: &'a M,
    ops: &'a [Op],
    width: usize,
    limits: Limits,
    steps: u64,
    polled_at: u64,
    narrowed: bool,
    slots: Vec<Open>,
    free: Vec<u32>,
    slot_of: Vec<u32>,
    /// Occupied slots, in the order of invocation.
    pending: Vec<u32>,
    open_ended: B,
    /// Slots of operations that return and do not overwrite.
    needed: B,
    live: ConfigSet<M::State, B>,
    work: ConfigSet<M::State, B>,
    next: ConfigSet<M::State, B>,
    trace: Trace,
}

impl<'a, M: Model, B: Bits> Walk<'a, M, B> {
    fn new(model: &'a M, ops: &'a [Op], words: usize, width: usize, limits: Limits) -> Self {
        let mut live = ConfigSet::new(true);
        let start = Config { state: model.initial(), used: B::empty(words), refreshed: 0, trace: Trace::START };
        live.add(start, &B::empty(words));
        Walk {
            model,
            ops,
            width,
            limits,
            steps: 0,
            polled_at: 0,
            narrowed: false,
            slots: Vec::new(),
            free: Vec::new(),
            slot_of: vec![0; ops.len()],
            pending: Vec::new(),
            open_ended: B::empty(words),
            needed: B::empty(words),
            live,
            work: ConfigSet::new(false),
            next: ConfigSet::new(true),
            trace: Trace::new(),
        }
    }

    /// None when a narrowed walk ran dry.
    fn run(&mut self, events: &[Event]) -> Result<Option<Finding<M::State>>, Stop> {
        for (number, event) in events.iter().enumerate() {
            if event.rank == INVOKED {
                self.invoke(event.op, number as u32);
                continue;
            }
            self.complete(self.slot_of[event.op as usize], number as u32)?;
            if self.live.entries.is_empty() {
                return Ok(if self.narrowed { None } else { Some(self.refuted(event.op)) });
            }
            if self.trace.wants_collection() {
                self.trace.collect(self.live.entries.iter_mut().map(|config| &mut config.trace));
            }
            self.poll()?;
        }
        let order = self.order(self.live.entries[0].trace);
        Ok(Some(Finding::Explained { order }))
    }

    fn invoke(&mut self, index: u32, number: u32) {
        let op = self.ops[index as usize];
        let same = |&&slot: &&u32| {
            let other = &self.slots[slot as usize].op;
            other.is_open_ended() && other.asks_the_same(&op)
        };
        let twin = if op.is_open_ended() { self.pending.iter().rfind(same).copied() } else { None };
        let open = Open {
            op,
            index,
            reads_only: self.model.reads_only(&op),
            overwrites: self.model.overwrites(&op),
            since: number,
            twin: twin.unwrap_or(NO_TWIN),
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = open;
                slot
            }
            None => {
                self.slots.push(open);
                self.slots.len() as u32 - 1
            }
        };
        self.slot_of[index as usize] = slot;
        self.pending.push(slot);
        if op.is_open_ended() {
            self.open_ended.insert(slot as usize);
        }
        if op.is_open_ended() || open.overwrites {
            self.needed.remove(slot as usize);
        } else {
            self.needed.insert(slot as usize);
        }
        if open.reads_only {
            for config in &mut self.live.entries {
                if self.model.step(config.state, &op).is_some() {
                    config.used.insert(slot as usize);
                    config.trace = self.trace.push(config.trace, index);
                }
            }
        }
    }

    /// Keep what can have the operation in `slot` linearized by now, and free the slot.
    fn complete(&mut self, slot: u32, number: u32) -> Result<(), Stop> {
        let done = self.slots[slot as usize];
        self.steps += self.live.entries.len() as u64;
        self.next.clear();
        self.work.clear();
        for config in self.live.entries.drain(..) {
            if config.used.contains(slot as usize) {
                let mut kept = config;
                kept.used.remove(slot as usize);
                self.next.add(kept, &self.needed);
                continue;
            }
            if done.overwrites && done.since < config.refreshed {
                let mut kept = config.clone();
                kept.trace = self.trace.push_absorbed(kept.trace, done.index);
                self.next.add(kept, &self.needed);
            }
            self.work.add(config, &self.needed);
        }
        self.expand_all(slot, number)?;
        self.next.drop_covered(&self.needed);
        self.narrow();
        if !self.next.entries.is_empty() {
            self.pending.retain(|&other| other != slot);
            self.free.push(slot);
        }
        std::mem::swap(&mut self.live, &mut self.next);
        Ok(())
    }

    /// Linearize open operations until the one in `goal` is in, from every configuration at work, in every order.
    fn expand_all(&mut self, goal: u32, number: u32) -> Result<(), Stop> {
        let mut at = 0;
        while at < self.work.entries.len() {
            let enough = self.next.entries.len() >= self.width.saturating_mul(4);
            if enough || self.work.entries.len() > self.width.saturating_mul(64) {
                self.narrowed = true;
                break;
            }
            let config = self.work.entries[at].clone();
            self.expand(&config, goal, number);
            self.steps += 1 + self.pending.len() as u64 / 16;
            at += 1;
            if self.steps - self.polled_at >= 256 {
                self.poll()?;
            }
        }
        Ok(())
    }

    fn expand(&mut self, config: &Config<M::State, B>, goal: u32, number: u32) {
        for place in 0..self.pending.len() {
            let slot = self.pending[place];
            let open = self.slots[slot as usize];
            // What only reads is in already wherever the state allows it.
            if open.reads_only || config.used.contains(slot as usize) {
                continue;
            }
            if open.twin != NO_TWIN && !config.used.contains(open.twin as usize) {
                continue;
            }
            let Some(state) = self.model.step(config.state, &open.op) else { continue };
            if open.overwrites && slot != goal && !self.is_wanted(state, config, slot) {
                continue;
            }
            let mut grown = config.clone();
            grown.state = state;
            grown.used.insert(slot as usize);
            grown.trace = self.trace.push(config.trace, open.index);
            if open.overwrites {
                grown.refreshed = number;
            }
            self.read_all(&mut grown);
            self.steps += 1;
            if grown.used.contains(goal as usize) {
                grown.used.remove(goal as usize);
                self.next.add(grown, &self.needed);
            } else {
                self.work.add(grown, &self.needed);
            }
        }
    }

    /// Whether an open operation that does not overwrite could follow `state`.
    fn is_wanted(&self, state: M::State, config: &Config<M::State, B>, but: u32) -> bool {
        self.pending.iter().any(|&slot| {
            let open = &self.slots[slot as usize];
            !open.overwrites
                && slot != but
                && !config.used.contains(slot as usize)
                && self.model.step(state, &open.op).is_some()
        })
    }

    fn read_all(&mut self, config: &mut Config<M::State, B>) {
        for &slot in &self.pending {
            let open = &self.slots[slot as usize];
            if open.reads_only
                && !config.used.contains(slot as usize)
                && self.model.step(config.state, &open.op).is_some()
            {
                config.used.insert(slot as usize);
                config.trace = self.trace.push(config.trace, open.index);
            }
        }
    }

    fn narrow(&mut self) {
        if self.next.entries.len() > self.width {
            // Those that spent fewest open-ended operations can still do most; and of every state some are kept.
            let open_ended = &self.open_ended;
            self.next.entries.sort_by_key(|config| config.used.count_in(open_ended));
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
            self.next.entries.extend(ranked.into_iter().map(|(_, config)| config));
            self.next.entries.truncate(self.width);
            self.narrowed = true;
        }
    }

    fn poll(&mut self) -> Result<(), Stop> {
        if self.steps > self.limits.steps {
            return Err(Stop::Steps);
        }
        if self.steps - self.polled_at < 256 {
            return Ok(());
        }
        self.polled_at = self.steps;
        let bytes = self.live.bytes() + self.work.bytes() + self.next.bytes() + self.trace.bytes();
        if bytes > self.limits.memory_bytes {
            return Err(Stop::Memory);
        }
        if Instant::now() > self.limits.deadline {
            return Err(Stop::Time);
        }
        Ok(())
    }

    fn order(&self, trace: u32) -> Vec<u32> {
        self.trace.order(trace, |op| self.model.overwrites(&self.ops[op as usize]))
    }

    /// Every configuration before the failed return, and all that were tried to pass it, are still at work.
    fn refuted(&self, failed: u32) -> Finding<M::State> {
        const LOOKED_AT: usize = 256;
        let longest = self.work.entries.iter().take(LOOKED_AT).max_by_key(|config| {
            // Of equally long ones the first found: it strayed least.
            (self.trace.length(config.trace), std::cmp::Reverse(config.trace))
        });
        let mut states: Vec<M::State> = Vec::new();
        for config in &self.work.entries {
            states.push(config.state);
            for &slot in &self.pending {
                let open = &self.slots[slot as usize];
                if open.overwrites && !config.used.contains(slot as usize) {
                    states.extend(self.model.step(config.state, &open.op));
                }
            }
        }
        states.sort_unstable();
        states.dedup();
        Finding::Refuted {
            failed,
            prefix: longest.map_or_else(Vec::new, |config| self.order(config.trace)),
            states,
            open: self.pending.iter().map(|&slot| self.slots[slot as usize].index).filter(|&i| i != failed).collect(),
        }
    }
}
