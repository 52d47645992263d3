//! A fast first walk for registers: `walk` limited to a few configurations, with one machine word for the open
//! operations.
//!
//! It follows the rules of `walk`. For each value it keeps the mask of the open operations that need it, so a step
//! costs a few instructions. Its answers are replayed or proven like all others. If none of its configurations can go
//! on, but it had to drop others before, it reports where that happened. If more than 64 operations are open at once,
//! or it takes more steps than such a history should need, it gives no answer.

use super::frontier::{Config, Frontier, Order, Slot, Wanted, pop};
use super::trail::{ABSORBED, ROOT, Trail};
use limits::{Limits, Stop};
use search::history::{Function, Op, Returns};
use search::{Dry, Finding};

/// Configurations that are kept at first; and where these ran dry, how many operations it goes back, and how many it
/// keeps then.
const NARROW: usize = 2;
const WIDER: [(usize, usize); 2] = [(CHECKPOINT_EVERY, 10), (4 * CHECKPOINT_EVERY, 40)];
/// Configurations that are found past one return to choose among, and those that are looked at, for each that is kept.
const FOUND: usize = 2;
const TRIED: usize = 8;
/// Operations between two checkpoints, and how many of these there are.
const CHECKPOINT_EVERY: usize = 16;
const CHECKPOINTS: usize = 5;
/// Steps for each operation, beyond which it gives up.
const STEPS_PER_OPERATION: u64 = 24;
const POLLED_EVERY: u64 = 4096;
/// Values are table places; beyond so many of them per operation the table is not worth having.
const VALUES_PER_OPERATION: usize = 16;
const VALUES_MIN: usize = 1 << 12;
/// Of so few values it is quicker to ask first which are wanted than to ask of each write.
const FEW_VALUES: usize = 16;

/// What a narrow walk came to.
#[derive(Debug)]
pub enum Outcome {
    Decided(Finding<u32>),
    /// It passed all that returned before; what it dropped might go on, or nothing does.
    RanDry(Dry),
    GaveUp,
}

/// Tables that one key after the other uses.
#[derive(Default)]
pub struct Narrow {
    frontier: Frontier,
    /// The first `held` of these, oldest first.
    checkpoints: [Frontier; CHECKPOINTS],
    held: usize,
    returns: Returns,
    /// Of each operation the place of its return among all, and the slot that it took.
    places: Vec<u32>,
    taken: Vec<u8>,
    trail: Trail,
    work: Vec<Config>,
    /// The marks of all that is in `work`.
    marks: u64,
    next: Vec<Config>,
    ranked: Vec<((u32, u32), Config)>,
    kept: usize,
    spent: u64,
    steps_max: u64,
}

impl Narrow {
    /// What a narrow walk finds out about `ops`, sorted by invocation; also the steps that it took.
    pub fn judge(&mut self, ops: &[Op], initial: u32, limits: Limits) -> (Result<Outcome, Stop>, u64) {
        let top = ops.iter().fold(initial, |top, op| top.max(op.a).max(op.b)) as usize;
        if top > (VALUES_PER_OPERATION * ops.len()).max(VALUES_MIN) {
            return (Ok(Outcome::GaveUp), 0);
        }
        self.sort(ops);
        self.frontier.reset(top + 1, initial);
        self.checkpoints[0].copy(&self.frontier);
        self.trail.clear();
        (self.held, self.kept, self.spent) = (1, NARROW, 0);
        self.steps_max = limits.steps.min(STEPS_PER_OPERATION * ops.len() as u64);
        let walked = self.walk(ops, limits);
        self.trail.let_go();
        (walked, self.spent)
    }

    /// Sort the returns. At one instant forced operations return before their observers.
    fn sort(&mut self, ops: &[Op]) {
        self.returns.sort(ops);
        let order = &mut self.returns.order;
        if ops.iter().any(|op| op.blame != op.id) {
            let forced_first = |&i: &u32| (ops[i as usize].returned, ops[i as usize].blame == ops[i as usize].id, i);
            order.sort_unstable_by_key(forced_first);
        }
        self.places.clear();
        self.places.resize(ops.len(), u32::MAX);
        for (place, &i) in (0..).zip(order.iter()) {
            self.places[i as usize] = place;
        }
        self.taken.resize(ops.len(), 0);
    }

    fn bytes(&self) -> usize {
        (1 + CHECKPOINTS) * self.frontier.wanted.capacity() * size_of::<Wanted>() + self.trail.bytes()
    }

    fn walk(&mut self, ops: &[Op], limits: Limits) -> Result<Outcome, Stop> {
        let every = CHECKPOINT_EVERY.max(self.frontier.wanted.len());
        let mut kept_at = every;
        let mut polled_at = 0;
        let mut wider = WIDER.iter();
        // Where it is narrow again.
        let mut passed_at = 0;
        limits.deadline.check()?;
        loop {
            let dry = loop {
                let next = ops.get(self.frontier.at);
                match self.returns.order.get(self.frontier.passed) {
                    Some(&i) if next.is_none_or(|op| ops[i as usize].returned < op.invoked) => {
                        self.frontier.passed += 1;
                        let slot = usize::from(self.taken[i as usize]);
                        if !self.complete(slot) {
                            break slot;
                        }
                    }
                    _ => {
                        if self.frontier.free == 0 && next.is_some() || self.spent > self.steps_max {
                            return Ok(Outcome::GaveUp);
                        }
                        let Some(op) = next else {
                            let order = self.trail.order(ops, self.frontier.live[0].trace);
                            return Ok(Outcome::Decided(Finding::Explained { order }));
                        };
                        if self.frontier.at >= passed_at {
                            (self.kept, wider) = (NARROW, WIDER.iter());
                        }
                        if self.frontier.at >= kept_at {
                            kept_at = self.frontier.at + every;
                            self.keep_checkpoint();
                        }
                        let at = self.frontier.at;
                        self.taken[at] = self.frontier.invoke(op, self.places[at], &mut self.trail) as u8;
                    }
                }
                self.frontier.now += 1;
                if self.spent - polled_at >= POLLED_EVERY {
                    polled_at = self.spent;
                    if self.bytes() > limits.memory_bytes {
                        return Ok(Outcome::GaveUp);
                    }
                    limits.deadline.check()?;
                }
            };
            if !self.frontier.narrowed {
                return Ok(Outcome::Decided(self.refuted(ops, dry)));
            }
            if self.spent > self.steps_max {
                return Ok(Outcome::GaveUp);
            }
            let Some(&(back, kept)) = wider.next() else {
                let failed = self.frontier.slots[dry].index;
                return Ok(Outcome::RanDry(Dry { failed, prefix: self.longest(ops) }));
            };
            self.kept = kept;
            passed_at = passed_at.max(self.frontier.at + 1);
            self.go_back(back);
            kept_at = self.frontier.at + every;
        }
    }

    fn keep_checkpoint(&mut self) {
        self.frontier.trail_length = self.trail.len();
        if self.held == CHECKPOINTS {
            self.checkpoints.rotate_left(1);
        } else {
            self.held += 1;
        }
        self.checkpoints[self.held - 1].copy(&self.frontier);
    }

    /// Go back to a checkpoint at least `operations` before, or to the oldest.
    fn go_back(&mut self, operations: usize) {
        let target = self.frontier.at.saturating_sub(operations);
        let place = self.checkpoints[..self.held].iter().rposition(|checkpoint| checkpoint.at <= target).unwrap_or(0);
        self.frontier.copy(&self.checkpoints[place]);
        self.held = place + 1;
        self.trail.truncate(self.frontier.trail_length);
    }

    /// Keep what can have the operation in `slot` in by now; false where nothing can.
    #[inline]
    fn complete(&mut self, slot: usize) -> bool {
        let bit = 1u64 << slot;
        let live = &mut self.frontier.live;
        self.spent += live.len() as u64;
        if live.iter().all(|config| config.used & bit != 0) {
            live.iter_mut().for_each(|config| config.used &= !bit);
        } else if !self.search(slot) {
            return false;
        }
        self.frontier.release(slot);
        true
    }

    fn search(&mut self, slot: usize) -> bool {
        let bit = 1u64 << slot;
        let done = self.frontier.slots[slot];
        let unknown = self.frontier.unknown;
        let order = Order { needed: self.frontier.needed, unknown };
        let (found, tried) = (FOUND * self.kept, TRIED * self.kept);
        self.next.clear();
        self.work.clear();
        self.marks = 0;
        for i in 0..self.frontier.live.len() {
            let mut config = self.frontier.live[i];
            if config.used & bit != 0 {
                config.used &= !bit;
                order.add(&mut self.next, config);
                continue;
            }
            self.work.push(config);
            self.marks |= order.mark(&config);
            if done.function == Function::Write && done.since < config.refreshed {
                config.trace = self.trail.push(config.trace, done.index | ABSORBED);
                order.add(&mut self.next, config);
            }
        }
        let mut at = 0;
        let mut begin = 0;
        let mut spare = u32::from(self.kept > NARROW);
        loop {
            while at < self.work.len() && self.next.len() < found && at <= tried && self.spent <= self.steps_max {
                self.expand(at, !unknown, bit, order);
                at += 1;
            }
            // Of unknown outcome no more are spent than it takes; where that ran dry, one more.
            if unknown == 0 || begin == at || at > tried || (!self.next.is_empty() && spare == 0) {
                break;
            }
            spare -= u32::from(!self.next.is_empty());
            for entry in begin..at {
                self.expand(entry, unknown, bit, order);
            }
            begin = at;
        }
        // What is of unknown outcome may go in at any time: not all of that is ever tried.
        self.frontier.narrowed |= at < self.work.len() || self.next.len() > self.kept || unknown != 0;
        if self.next.len() > self.kept {
            self.choose();
        }
        std::mem::swap(&mut self.frontier.live, &mut self.next);
        !self.frontier.live.is_empty()
    }

    /// Keep those with the fewest writes in, since a write may wait for whatever comes, and then those with the most of
    /// the rest in, which had to go in anyway; of equal ones the first.
    fn choose(&mut self) {
        let Frontier { writing, needed, .. } = self.frontier;
        self.ranked.clear();
        for (i, &config) in (0..).zip(&self.next) {
            let rank = 64 * (config.used & writing).count_ones() + 64 - (config.used & needed).count_ones();
            self.ranked.push(((rank, i), config));
        }
        self.ranked.sort_unstable_by_key(|&(rank, _)| rank);
        self.next.clear();
        self.next.extend(self.ranked.iter().take(self.kept).map(|&(_, config)| config));
    }

    #[inline]
    fn is_wanted(&self, value: u32, used: u64) -> bool {
        let wanted = &self.frontier.wanted[value as usize];
        (wanted.reads | wanted.swaps) & !used != 0
    }

    /// Each open operation `among` some that may go in next.
    // As a call of its own it takes a twentieth of the walk's time.
    #[inline(always)]
    fn expand(&mut self, at: usize, among: u64, goal: u64, order: Order) {
        self.spent += 1;
        let config = self.work[at];
        let out = !config.used & among;
        let mut swaps = self.frontier.wanted[config.state as usize].swaps & out;
        let mut writes = self.frontier.writing & out;
        if self.frontier.wanted.len() <= FEW_VALUES {
            writes &= goal | self.frontier.writes_wanted(config.used);
        }
        while swaps != 0 {
            let slot = pop(&mut swaps);
            if self.frontier.slots[slot].earlier & !config.used == 0 {
                self.grow(&config, slot, config.refreshed, goal, order);
            }
        }
        while writes != 0 {
            let slot = pop(&mut writes);
            let Slot { to, earlier, .. } = self.frontier.slots[slot];
            if earlier & !config.used == 0 && (goal >> slot & 1 == 1 || self.is_wanted(to, config.used)) {
                self.grow(&config, slot, self.frontier.now, goal, order);
            }
        }
    }

    #[inline]
    fn grow(&mut self, config: &Config, slot: usize, refreshed: u32, goal: u64, order: Order) {
        self.spent += 1;
        let bit = 1u64 << slot;
        let Slot { to: state, index, .. } = self.frontier.slots[slot];
        let mut reads = self.frontier.wanted[state as usize].reads & !config.used;
        let mut grown = Config {
            used: config.used | bit | reads,
            state,
            refreshed,
            cost: config.cost + u32::from(self.frontier.unknown & bit != 0),
            trace: config.trace,
        };
        let reached = grown.used & goal != 0;
        grown.used &= !goal;
        let mark = order.mark(&grown);
        let is_new = !reached && self.marks & mark == 0;
        let set = if reached { &mut self.next } else { &mut self.work };
        let Some(place) = (if is_new { Some(set.len()) } else { order.place(set, &grown) }) else { return };
        grown.trace = self.trail.push(grown.trace, index);
        while reads != 0 {
            grown.trace = self.trail.push(grown.trace, self.frontier.slots[pop(&mut reads)].index);
        }
        if !reached {
            self.marks |= mark;
            set.push(grown);
        } else if place == set.len() {
            set.push(grown);
        } else {
            set[place] = grown;
        }
    }

    /// A longest order up to a return that nothing passed: those that were tried are still at work.
    fn longest(&mut self, ops: &[Op]) -> Vec<u32> {
        // Of equally long ones the first found: it strayed least.
        let longest = self.work.iter().rev().max_by_key(|config| config.used.count_ones());
        self.trail.order(ops, longest.map_or(ROOT, |config| config.trace))
    }

    /// No configuration passes the return of the operation in `slot`.
    fn refuted(&mut self, ops: &[Op], slot: usize) -> Finding<u32> {
        let mut states: Vec<u32> = Vec::new();
        for config in &self.work {
            states.push(config.state);
            let mut writes = self.frontier.writing & !config.used;
            while writes != 0 {
                states.push(self.frontier.slots[pop(&mut writes)].to);
            }
        }
        states.sort_unstable();
        states.dedup();
        let Frontier { free, unknown, .. } = self.frontier;
        let mut left = !(free | unknown | 1 << slot);
        let mut open = Vec::new();
        while left != 0 {
            open.push(self.frontier.slots[pop(&mut left)].index);
        }
        open.sort_unstable();
        Finding::Refuted { failed: self.frontier.slots[slot].index, prefix: self.longest(ops), states, open }
    }
}
