//! A quick first walk for registers: `walk` narrowed to a few configurations, with one machine word for what is open.
//!
//! It follows the same rules (see `walk`), and keeps for each value the mask of the open operations that want it, so that
//! a step costs a few instructions. What it finds is replayed or proven like any other finding. Where none of the
//! configurations that it kept goes on, though it had to drop others, it says where that was. Where more than 64
//! operations are open at once, or where it took more steps than such a history should, it has said nothing.

use crate::history::{Function, Op};
use crate::limits::{Limits, Stop, growth};
use crate::search::{Dry, Finding};

/// Configurations that are kept at first; and where these ran dry, how many operations it goes back, and how many it
/// keeps then.
const NARROW: usize = 3;
const WIDER: [(usize, usize); 2] = [(CHECKPOINT_EVERY, 32), (4 * CHECKPOINT_EVERY, 64)];
/// Configurations that are found past one return to choose among, and those that are looked at, for each that is kept.
const FOUND: usize = 2;
const TRIED: usize = 8;
/// Operations between two checkpoints, and how many of these there are.
const CHECKPOINT_EVERY: usize = 16;
const CHECKPOINTS: usize = 5;
/// Steps for each operation, beyond which it gives up.
const STEPS_PER_OPERATION: u64 = 64;
const POLLED_EVERY: u64 = 4096;
/// Values are table places; beyond so many of them per operation the table is not worth having.
const VALUES_PER_OPERATION: usize = 16;
const VALUES_MIN: usize = 1 << 12;

const ROOT: u32 = u32::MAX;
/// The operation went in just before the last write.
const ABSORBED: u32 = 1 << 31;

/// As in `configs`; those of unknown outcome that went in are among `used`, and `cost` is their number.
#[derive(Clone, Copy)]
struct Config {
    used: u64,
    state: u32,
    refreshed: u32,
    cost: u32,
    trace: u32,
}

/// An open operation.
#[derive(Clone, Copy)]
struct Slot {
    index: u32,
    /// Number of the event that invoked it.
    since: u32,
    function: Function,
    from: u32,
    to: u32,
    /// The slots of equal operations that return before.
    earlier: u64,
}

/// The open operations that want a value, and those that write it.
#[derive(Clone, Copy, Default)]
struct Wanted {
    reads: u64,
    swaps: u64,
    writes: u64,
}

#[derive(Clone, Copy)]
struct Step {
    op: u32,
    parent: u32,
}

/// At one instant forced operations return before their observers.
type Return = (i64, bool, u32, u32);

/// A walk at one moment.
#[derive(Default)]
struct Here {
    /// Operations before this one are invoked.
    at: usize,
    /// Events before this one are passed.
    now: u32,
    wanted: Vec<Wanted>,
    slots: Vec<Slot>,
    open: Vec<Return>,
    live: Vec<Config>,
    free: u64,
    writing: u64,
    /// Open and neither a write nor of unknown outcome.
    needed: u64,
    unknown: u64,
    /// Some configuration may have been dropped that no other stands for.
    narrowed: bool,
    /// How many steps of the trace there were.
    steps: usize,
}

/// What a narrow walk came to.
#[derive(Debug)]
pub enum Walked {
    Told(Finding<u32>),
    /// It passed all that returned before; what it dropped might go on, or nothing does.
    RanDry(Dry),
    GaveUp,
}

/// Tables that one key after the other uses.
#[derive(Default)]
pub struct Narrow {
    here: Here,
    /// The first `held` of these, oldest first.
    checkpoints: [Here; CHECKPOINTS],
    held: usize,
    steps: Vec<Step>,
    work: Vec<Config>,
    next: Vec<Config>,
    ranked: Vec<((u32, u32), Config)>,
    later: Vec<u32>,
    kept: usize,
    spent: u64,
    steps_max: u64,
}

/// The lowest member of a mask that is not empty, which is then removed.
#[inline]
fn pop(mask: &mut u64) -> usize {
    let lowest = mask.trailing_zeros() as usize;
    *mask &= *mask - 1;
    lowest
}

impl Here {
    /// Become like `other`, in the room that there is.
    fn copy(&mut self, other: &Here) {
        self.wanted.clone_from(&other.wanted);
        self.slots.clone_from(&other.slots);
        self.open.clone_from(&other.open);
        self.live.clone_from(&other.live);
        let Here { at, now, free, writing, needed, unknown, narrowed, steps, .. } = *other;
        (self.at, self.now, self.free, self.steps) = (at, now, free, steps);
        (self.writing, self.needed, self.unknown, self.narrowed) = (writing, needed, unknown, narrowed);
    }

    fn reset(&mut self, values: usize, initial: u32) {
        self.wanted.clear();
        self.wanted.resize(values, Wanted::default());
        self.slots.clear();
        self.open.clear();
        self.live.clear();
        self.live.push(Config { used: 0, state: initial, refreshed: 0, cost: 0, trace: ROOT });
        (self.at, self.now, self.steps, self.free) = (0, 0, 0, !0);
        (self.writing, self.needed, self.unknown, self.narrowed) = (0, 0, 0, false);
    }

    #[inline]
    fn invoke(&mut self, op: &Op, steps: &mut Vec<Step>) {
        let index = self.at as u32;
        let slot = pop(&mut self.free);
        let bit = 1 << slot;
        let (from, to) = match op.function {
            Function::Read | Function::Call => (op.a, op.a),
            Function::Write => (0, op.a),
            Function::CompareAndSet => (op.a, op.b),
        };
        let mut earlier = 0;
        match op.function {
            Function::Read | Function::Call => {
                self.wanted[from as usize].reads |= bit;
                for config in &mut self.live {
                    if config.state == from {
                        config.used |= bit;
                        config.trace = push(steps, config.trace, index);
                    }
                }
            }
            Function::Write => {
                let alike = self.wanted[to as usize].writes;
                self.wanted[to as usize].writes |= bit;
                self.writing |= bit;
                earlier = if alike == 0 { 0 } else { self.rank(alike, slot, op) };
            }
            Function::CompareAndSet => {
                let mut alike = 0;
                let mut swaps = self.wanted[from as usize].swaps;
                while swaps != 0 {
                    let other = pop(&mut swaps);
                    alike |= u64::from(self.slots[other].to == to) << other;
                }
                self.wanted[from as usize].swaps |= bit;
                earlier = if alike == 0 { 0 } else { self.rank(alike, slot, op) };
            }
        }
        let open = Slot { index, since: self.now, function: op.function, from, to, earlier };
        if slot < self.slots.len() {
            self.slots[slot] = open;
        } else {
            self.slots.push(open);
        }
        self.at += 1;
        if op.is_open_ended() {
            self.unknown |= bit;
            return;
        }
        if op.function != Function::Write {
            self.needed |= bit;
        }
        let key = (op.returned, op.blame == op.id, index, slot as u32);
        let mut at = self.open.len();
        while at > 0 && self.open[at - 1] < key {
            at -= 1;
        }
        self.open.insert(at, key);
    }

    /// Which of the equal open operations return before the one new in `slot`; the others learn of it.
    fn rank(&mut self, mut alike: u64, slot: usize, op: &Op) -> u64 {
        let known = alike & self.unknown;
        if op.is_open_ended() {
            return alike;
        }
        let mut earlier = 0;
        alike &= !known;
        let key = (op.returned, op.blame == op.id);
        while alike != 0 {
            let other = pop(&mut alike);
            let ends = self.open.iter().find(|open| open.3 as usize == other).map(|open| (open.0, open.1));
            if ends.is_some_and(|ends| ends <= key) {
                earlier |= 1 << other;
            } else {
                self.slots[other].earlier |= 1 << slot;
            }
        }
        let mut later = known;
        while later != 0 {
            self.slots[pop(&mut later)].earlier |= 1 << slot;
        }
        earlier
    }

    fn release(&mut self, slot: usize) {
        let bit = 1u64 << slot;
        let Slot { function, from, to, .. } = self.slots[slot];
        self.free |= bit;
        self.needed &= !bit;
        let mut alike = match function {
            Function::Read | Function::Call => {
                self.wanted[from as usize].reads &= !bit;
                return;
            }
            Function::Write => {
                self.writing &= !bit;
                let alike = &mut self.wanted[to as usize].writes;
                *alike &= !bit;
                *alike
            }
            Function::CompareAndSet => {
                let alike = &mut self.wanted[from as usize].swaps;
                *alike &= !bit;
                *alike
            }
        };
        while alike != 0 {
            self.slots[pop(&mut alike)].earlier &= !bit;
        }
    }
}

impl Narrow {
    /// What a narrow walk finds out about `ops`, sorted by invocation; also the steps that it took.
    pub fn judge(&mut self, ops: &[Op], initial: u32, limits: Limits) -> (Result<Walked, Stop>, u64) {
        let top = ops.iter().fold(initial, |top, op| top.max(op.a).max(op.b)) as usize;
        if top > (VALUES_PER_OPERATION * ops.len()).max(VALUES_MIN) {
            return (Ok(Walked::GaveUp), 0);
        }
        self.here.reset(top + 1, initial);
        self.checkpoints[0].copy(&self.here);
        self.steps.clear();
        (self.held, self.kept, self.spent) = (1, NARROW, 0);
        self.steps_max = limits.steps.min(STEPS_PER_OPERATION * ops.len() as u64);
        let walked = self.walk(ops, limits);
        growth::let_go(&mut self.steps);
        (walked, self.spent)
    }

    fn bytes(&self) -> usize {
        (1 + CHECKPOINTS) * self.here.wanted.capacity() * size_of::<Wanted>() + self.steps.len() * size_of::<Step>()
    }

    fn walk(&mut self, ops: &[Op], limits: Limits) -> Result<Walked, Stop> {
        let every = CHECKPOINT_EVERY.max(self.here.wanted.len());
        let mut kept_at = every;
        let mut polled_at = 0;
        let mut wider = WIDER.iter();
        // Where it is narrow again.
        let mut passed_at = 0;
        if limits.deadline.has_passed() {
            return Err(Stop::Time);
        }
        loop {
            let dry = loop {
                let next = ops.get(self.here.at);
                match self.here.open.last() {
                    Some(&(returned, _, _, slot)) if next.is_none_or(|op| returned < op.invoked) => {
                        self.here.open.pop();
                        if !self.complete(slot as usize) {
                            break slot as usize;
                        }
                    }
                    _ => {
                        if self.here.free == 0 && next.is_some() || self.spent > self.steps_max {
                            return Ok(Walked::GaveUp);
                        }
                        let Some(op) = next else {
                            let order = self.told(ops, self.here.live[0].trace);
                            return Ok(Walked::Told(Finding::Explained { order }));
                        };
                        if self.here.at >= passed_at {
                            (self.kept, wider) = (NARROW, WIDER.iter());
                        }
                        if self.here.at >= kept_at {
                            kept_at = self.here.at + every;
                            self.keep_checkpoint();
                        }
                        self.here.invoke(op, &mut self.steps);
                    }
                }
                self.here.now += 1;
                if self.spent - polled_at >= POLLED_EVERY {
                    polled_at = self.spent;
                    if self.bytes() > limits.memory_bytes {
                        return Ok(Walked::GaveUp);
                    }
                    if limits.deadline.has_passed() {
                        return Err(Stop::Time);
                    }
                }
            };
            if !self.here.narrowed {
                return Ok(Walked::Told(self.refuted(ops, dry)));
            }
            if self.spent > self.steps_max {
                return Ok(Walked::GaveUp);
            }
            let Some(&(back, kept)) = wider.next() else {
                let failed = self.here.slots[dry].index;
                return Ok(Walked::RanDry(Dry { failed, prefix: self.longest(ops) }));
            };
            self.kept = kept;
            passed_at = passed_at.max(self.here.at + 1);
            self.go_back(back);
            kept_at = self.here.at + every;
        }
    }

    fn keep_checkpoint(&mut self) {
        self.here.steps = self.steps.len();
        if self.held == CHECKPOINTS {
            self.checkpoints.rotate_left(1);
        } else {
            self.held += 1;
        }
        self.checkpoints[self.held - 1].copy(&self.here);
    }

    /// Go back to a checkpoint at least `operations` before, or to the oldest.
    fn go_back(&mut self, operations: usize) {
        let target = self.here.at.saturating_sub(operations);
        let place = self.checkpoints[..self.held].iter().rposition(|checkpoint| checkpoint.at <= target).unwrap_or(0);
        self.here.copy(&self.checkpoints[place]);
        self.held = place + 1;
        self.steps.truncate(self.here.steps);
    }

    /// Keep what can have the operation in `slot` in by now; false where nothing can.
    #[inline]
    fn complete(&mut self, slot: usize) -> bool {
        let bit = 1u64 << slot;
        let live = &mut self.here.live;
        self.spent += live.len() as u64;
        if live.iter().all(|config| config.used & bit != 0) {
            live.iter_mut().for_each(|config| config.used &= !bit);
        } else if !self.search(slot) {
            return false;
        }
        self.here.release(slot);
        true
    }

    fn search(&mut self, slot: usize) -> bool {
        let bit = 1u64 << slot;
        let done = self.here.slots[slot];
        let order = Order { needed: self.here.needed, unknown: self.here.unknown };
        let (found, tried) = (FOUND * self.kept, TRIED * self.kept);
        self.next.clear();
        self.work.clear();
        for i in 0..self.here.live.len() {
            let mut config = self.here.live[i];
            if config.used & bit != 0 {
                config.used &= !bit;
                order.add(&mut self.next, config);
                continue;
            }
            self.work.push(config);
            if done.function == Function::Write && done.since < config.refreshed {
                config.trace = push(&mut self.steps, config.trace, done.index | ABSORBED);
                order.add(&mut self.next, config);
            }
        }
        let mut at = 0;
        let mut begin = 0;
        let mut spare = u32::from(self.kept > NARROW);
        loop {
            while at < self.work.len() && self.next.len() < found && at <= tried && self.spent <= self.steps_max {
                self.expand(at, bit, order);
                at += 1;
            }
            // Of unknown outcome no more are spent than it takes; where that ran dry, one more.
            if self.here.unknown == 0 || begin == at || at > tried || (!self.next.is_empty() && spare == 0) {
                break;
            }
            spare -= u32::from(!self.next.is_empty());
            for entry in begin..at {
                self.spend(entry, bit, order);
            }
            begin = at;
        }
        // What is of unknown outcome may go in at any time: not all of that is ever tried.
        self.here.narrowed |= at < self.work.len() || self.next.len() > self.kept || self.here.unknown != 0;
        if self.next.len() > self.kept {
            self.choose();
        }
        std::mem::swap(&mut self.here.live, &mut self.next);
        !self.here.live.is_empty()
    }

    /// Keep those with the fewest writes in, since a write may wait for whatever comes, and then those with the most of
    /// the rest in, which had to go in anyway; of equal ones the first.
    fn choose(&mut self) {
        let Here { writing, needed, .. } = self.here;
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
        let wanted = &self.here.wanted[value as usize];
        (wanted.reads | wanted.swaps) & !used != 0
    }

    /// Each open operation that returns, and may go in next.
    #[inline]
    fn expand(&mut self, at: usize, goal: u64, order: Order) {
        self.spent += 1;
        let config = self.work[at];
        let out = !config.used & !self.here.unknown;
        self.take(&config, self.here.wanted[config.state as usize].swaps & out, self.here.writing & out, goal, order);
    }

    /// One more of those that never return.
    fn spend(&mut self, at: usize, goal: u64, order: Order) {
        self.spent += 1;
        let config = self.work[at];
        let out = !config.used & self.here.unknown;
        self.take(&config, self.here.wanted[config.state as usize].swaps & out, self.here.writing & out, goal, order);
    }

    #[inline]
    fn take(&mut self, config: &Config, mut swaps: u64, mut writes: u64, goal: u64, order: Order) {
        while swaps != 0 {
            let slot = pop(&mut swaps);
            if self.here.slots[slot].earlier & !config.used == 0 {
                self.grow(config, slot, config.refreshed, goal, order);
            }
        }
        while writes != 0 {
            let slot = pop(&mut writes);
            let Slot { to, earlier, .. } = self.here.slots[slot];
            if earlier & !config.used == 0 && (goal >> slot & 1 == 1 || self.is_wanted(to, config.used)) {
                self.grow(config, slot, self.here.now, goal, order);
            }
        }
    }

    #[inline]
    fn grow(&mut self, config: &Config, slot: usize, refreshed: u32, goal: u64, order: Order) {
        self.spent += 1;
        let bit = 1u64 << slot;
        let Slot { to: state, index, .. } = self.here.slots[slot];
        let mut reads = self.here.wanted[state as usize].reads & !config.used;
        let mut grown = Config {
            used: config.used | bit | reads,
            state,
            refreshed,
            cost: config.cost + u32::from(self.here.unknown & bit != 0),
            trace: config.trace,
        };
        let reached = grown.used & goal != 0;
        grown.used &= !goal;
        let set = if reached { &mut self.next } else { &mut self.work };
        let Some(place) = order.place(set, &grown) else { return };
        grown.trace = push(&mut self.steps, grown.trace, index);
        while reads != 0 {
            grown.trace = push(&mut self.steps, grown.trace, self.here.slots[pop(&mut reads)].index);
        }
        if !reached || place == set.len() {
            set.push(grown);
        } else {
            set[place] = grown;
        }
    }

    /// A longest order up to a return that nothing passed: those that were tried are still at work.
    fn longest(&mut self, ops: &[Op]) -> Vec<u32> {
        // Of equally long ones the first found: it strayed least.
        let longest = self.work.iter().rev().max_by_key(|config| config.used.count_ones());
        self.told(ops, longest.map_or(ROOT, |config| config.trace))
    }

    /// No configuration passes the return of the operation in `slot`.
    fn refuted(&mut self, ops: &[Op], slot: usize) -> Finding<u32> {
        let mut states: Vec<u32> = Vec::new();
        for config in &self.work {
            states.push(config.state);
            let mut writes = self.here.writing & !config.used;
            while writes != 0 {
                states.push(self.here.slots[pop(&mut writes)].to);
            }
        }
        states.sort_unstable();
        states.dedup();
        let mut open: Vec<u32> = self.here.open.iter().map(|open| open.2).collect();
        open.sort_unstable();
        Finding::Refuted { failed: self.here.slots[slot].index, prefix: self.longest(ops), states, open }
    }

    /// The operations of one way from the start to the step `leaf`, in order.
    fn told(&mut self, ops: &[Op], leaf: u32) -> Vec<u32> {
        let mut order = Vec::with_capacity(ops.len());
        self.later.clear();
        let mut at = leaf;
        while at != ROOT {
            let Step { op, parent } = self.steps[at as usize];
            at = parent;
            if op & ABSORBED != 0 {
                self.later.push(op & !ABSORBED);
                continue;
            }
            order.push(op);
            if !self.later.is_empty() && ops[op as usize].function == Function::Write {
                order.append(&mut self.later);
            }
        }
        order.reverse();
        order
    }
}

#[inline]
fn push(steps: &mut Vec<Step>, parent: u32, op: u32) -> u32 {
    growth::push(steps, Step { op, parent }, 0);
    (steps.len() - 1) as u32
}

/// How configurations are compared, as in `configs`; what was spent only by how many it were.
#[derive(Clone, Copy)]
struct Order {
    needed: u64,
    unknown: u64,
}

impl Order {
    #[inline]
    fn covers(self, held: &Config, other: &Config) -> bool {
        let differ = (held.used ^ other.used) & !self.unknown;
        held.state == other.state
            && held.refreshed >= other.refreshed
            && held.cost <= other.cost
            && differ & (held.used | self.needed) == 0
    }

    /// Where `config` goes in a set: its end, or the place of one that it covers; None where one covers it.
    #[inline]
    fn place(self, set: &[Config], config: &Config) -> Option<usize> {
        for (i, held) in set.iter().enumerate() {
            if self.covers(held, config) {
                return None;
            }
            if self.covers(config, held) {
                return Some(i);
            }
        }
        Some(set.len())
    }

    #[inline]
    fn add(self, set: &mut Vec<Config>, config: Config) {
        match self.place(set, &config) {
            Some(place) if place == set.len() => set.push(config),
            Some(place) => set[place] = config,
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::history::NEVER;
    use crate::limits::Deadline;
    use crate::search::{CasRegister, Finding, judge, replay};

    fn limits(steps: u64) -> Limits {
        Limits { steps, memory_bytes: 1 << 24, deadline: Deadline::new(Instant::now() + Duration::from_secs(60)) }
    }

    /// A few clients on one register of three values; each operation takes effect between its invocation and its return.
    fn history(mut seed: u64, length: usize, clients: usize, unknown: u64) -> Vec<Op> {
        let mut draw = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let mut ops: Vec<Op> = Vec::new();
        // Of each client the operation that is open, and whether it took effect.
        let mut open: Vec<Option<(Op, bool)>> = vec![None; clients];
        let (mut state, mut now, mut started) = (0, 0, 0);
        while started < length || open.iter().any(Option::is_some) {
            now += 1;
            let client = draw(clients as u64) as usize;
            match open[client].take() {
                None if started < length => {
                    started += 1;
                    let function = [Function::Read, Function::Write, Function::CompareAndSet][draw(3) as usize];
                    let (a, b) = (1 + draw(3) as u32, 1 + draw(3) as u32);
                    open[client] = Some((Op { id: 0, blame: 0, function, a, b, invoked: now, returned: NEVER }, false));
                }
                None => {}
                Some((mut op, false)) => match op.function {
                    Function::CompareAndSet if op.a != state => {}
                    function => {
                        match function {
                            Function::Read => op.a = state,
                            Function::Write => state = op.a,
                            _ => state = op.b,
                        }
                        open[client] = Some((op, true));
                    }
                },
                Some((mut op, true)) => {
                    if op.function == Function::Read || draw(100) >= unknown {
                        op.returned = now;
                    }
                    ops.push(op);
                }
            }
        }
        ops.sort_by_key(|op| op.invoked);
        (0..).zip(&mut ops).for_each(|(id, op)| (op.id, op.blame) = (id, id));
        ops
    }

    #[test]
    fn it_finds_orders_that_replay() {
        let mut narrow = Narrow::default();
        let mut found = 0;
        for seed in 0..100 {
            let ops = history(seed, 300, 3 + seed as usize % 6, seed % 3);
            let (walked, steps) = narrow.judge(&ops, 0, limits(1_000_000));
            match walked.expect("there is time") {
                Walked::Told(Finding::Explained { order }) => {
                    assert_eq!(replay::refute(&CasRegister, &ops[..], &order), None, "seed {seed}");
                    assert!(steps >= ops.len() as u64 / 2);
                    found += 1;
                }
                Walked::Told(_) => panic!("refuted, seed {seed}"),
                Walked::RanDry(_) | Walked::GaveUp => {}
            }
        }
        assert!(found >= 95, "{found} of 100");
    }

    #[test]
    fn it_refutes_what_the_search_refutes() {
        let mut narrow = Narrow::default();
        let (mut refuted, mut dry) = (0, 0);
        for seed in 0..200 {
            let mut ops = history(seed, 60, [4, 9][seed as usize % 2], seed % 3);
            let reads = ops.iter_mut().filter(|op| op.function == Function::Read);
            reads.skip(seed as usize % 5).step_by(7).for_each(|op| op.a = 1 + op.a % 3);
            let found = narrow.judge(&ops, 0, limits(1_000_000)).0.expect("there is time");
            let explains_what_returned = |failed: u32, prefix: &[u32]| {
                let before: Vec<Op> = ops.iter().map(|op| until(op, ops[failed as usize].returned)).collect();
                assert_eq!(replay::refute(&CasRegister, &before[..], prefix), None, "seed {seed}");
            };
            let searched = judge(&CasRegister, &ops, None, limits(10_000_000)).0;
            match &searched {
                Finding::Explained { order } => {
                    assert_eq!(replay::refute(&CasRegister, &ops[..], order), None, "seed {seed}");
                    // Nor is it believed that an operation is in the way where none is.
                    let failed = ops.iter().find(|op| !op.is_open_ended()).expect("most return").id;
                    let misled = judge(&CasRegister, &ops, Some(Dry { failed, prefix: vec![] }), limits(10_000_000)).0;
                    assert!(matches!(misled, Finding::Explained { .. }), "seed {seed}");
                }
                Finding::Refuted { failed, prefix, .. } => explains_what_returned(*failed, prefix),
                Finding::Stopped(stop) => panic!("{stop:?}, seed {seed}"),
            }
            match (&searched, found) {
                (
                    Finding::Refuted { failed, states, open, .. },
                    Walked::Told(Finding::Refuted { failed: ours, prefix, states: held, open: pending }),
                ) => {
                    assert_eq!((ours, &pending), (*failed, open), "seed {seed}");
                    assert!(held.iter().all(|state| states.contains(state)), "seed {seed}");
                    explains_what_returned(ours, &prefix);
                    refuted += 1;
                }
                (_, Walked::RanDry(Dry { failed, prefix })) => {
                    explains_what_returned(failed, &prefix);
                    let again = judge(&CasRegister, &ops, Some(Dry { failed, prefix }), limits(10_000_000)).0;
                    assert_eq!(failed_of(&again), failed_of(&searched), "seed {seed}");
                    dry += 1;
                }
                (Finding::Explained { .. }, Walked::Told(Finding::Explained { order })) => {
                    assert_eq!(replay::refute(&CasRegister, &ops[..], &order), None, "seed {seed}");
                }
                (_, found) => assert!(matches!(found, Walked::GaveUp), "seed {seed}"),
            }
        }
        assert!(refuted >= 100 && dry >= 10, "{refuted} and {dry} of 200");
    }

    fn failed_of(finding: &Finding<u32>) -> Option<u32> {
        if let Finding::Refuted { failed, .. } = finding { Some(*failed) } else { None }
    }

    /// The operation as it was just before a moment: what had not returned is open.
    fn until(op: &Op, moment: i64) -> Op {
        if op.returned < moment { *op } else { Op { returned: NEVER, ..*op } }
    }

    #[test]
    fn operations_that_touch_are_concurrent() {
        let op = |id: u32, function, a, invoked, returned| Op { id, blame: id, function, a, b: 0, invoked, returned };
        for (read_at, valid) in [(2, true), (3, false)] {
            let ops = [op(0, Function::Write, 1, 0, 2), op(1, Function::Read, 0, read_at, 4)];
            let (walked, _) = Narrow::default().judge(&ops, 0, limits(1000));
            assert_eq!(matches!(walked, Ok(Walked::Told(Finding::Explained { .. }))), valid);
            assert_eq!(matches!(walked, Ok(Walked::Told(Finding::Refuted { failed: 1, .. }))), !valid);
        }
    }

    #[test]
    fn it_gives_up_beyond_its_word_and_its_budget() {
        let mut narrow = Narrow::default();
        let write = |id: u32, returned| Op {
            id,
            blame: id,
            function: Function::Write,
            a: id,
            b: 0,
            invoked: i64::from(id),
            returned,
        };
        let crowd = |count: u32| (0..count).map(|id| write(id, 1000)).collect::<Vec<_>>();
        let gives_up = |walked: Result<Walked, Stop>| matches!(walked, Ok(Walked::GaveUp));
        assert!(matches!(narrow.judge(&crowd(64), 0, limits(1_000_000)).0, Ok(Walked::Told(_))));
        assert!(gives_up(narrow.judge(&crowd(65), 0, limits(1_000_000)).0));
        assert!(gives_up(narrow.judge(&crowd(64), 0, limits(10)).0));
        let late = Limits { deadline: Deadline::new(Instant::now() - Duration::from_secs(1)), ..limits(1000) };
        assert_eq!(narrow.judge(&crowd(3), 0, late).0.err(), Some(Stop::Time));
        let sparse = [write(u32::MAX, NEVER)];
        assert!(gives_up(narrow.judge(&sparse, 0, limits(1000)).0));
    }
}
