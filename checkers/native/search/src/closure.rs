//! Decide whether any order explains a few operations: a plain walk that confirms what the search refuted.
//!
//! It keeps every configuration (state, and which open operations took effect) that the events so far allow. Only when
//! an operation returns, open operations take effect, in every possible order (Wing & Gong, 1993; Lowe, 2017). It uses
//! none of the search's shortcuts. Only operations of unknown outcome are simplified. Equal ones are counted, not
//! named: once both are invoked, either will do. A coarse walk does not even count them: each may take effect any
//! number of times. That allows more orders than exist, so if it finds none, that is a proof too, and a cheap one.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hash, Hasher};

use super::bits::Bits;
use super::mix::Mix;
use super::model::Model;
use crate::history::{NEVER, Op};
use limits::{Limits, Stop};

/// One operation of those to be explained. Must it go in, it does before it returns; may it, before that or never.
#[derive(Clone, Copy)]
pub struct Item {
    pub op: Op,
    pub must: bool,
}

/// Whether some order explains `items` from one of `starts`; also the steps that it took.
///
/// With `exact` false the answer may be `true` although there is none; never the other way round.
pub fn any_order<M: Model>(
    model: &M,
    items: &[Item],
    starts: &[M::State],
    exact: bool,
    limits: Limits,
) -> (Result<bool, Stop>, u64) {
    let events = events(items);
    match widest(&events, items) {
        0..=64 => any_order_with::<M, [u64; 1]>(model, items, &events, 1, starts, exact, limits),
        65..=256 => any_order_with::<M, [u64; 4]>(model, items, &events, 4, starts, exact, limits),
        open => any_order_with::<M, Vec<u64>>(model, items, &events, open.div_ceil(64), starts, exact, limits),
    }
}

/// Whether there is anything that `exact` makes a difference for.
pub fn is_coarse(items: &[Item]) -> bool {
    items.iter().any(|item| item.op.returned == NEVER)
}

fn any_order_with<M: Model, B: Bits>(
    model: &M,
    items: &[Item],
    events: &[Event],
    words: usize,
    starts: &[M::State],
    exact: bool,
    limits: Limits,
) -> (Result<bool, Stop>, u64) {
    let start = |&state| Config { state, placed: B::empty(words), used: 0 };
    let mut walk = Walk {
        model,
        limits,
        exact,
        slots: Vec::new(),
        occupied: Vec::new(),
        free: Vec::new(),
        slot_of: vec![0; items.len()],
        unknown: Vec::new(),
        uses: vec![Vec::new()],
        use_numbers: HashMap::default(),
        configs: starts.iter().map(start).collect(),
        steps: 0,
        polled_at: 0,
    };
    let answer = walk.run(items, events);
    (answer, walk.steps)
}

/// An invocation or a return of `items[item]`. At one instant invocations come first: intervals are closed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at: i64,
    returns: bool,
    item: u32,
}

fn events(items: &[Item]) -> Vec<Event> {
    let mut events = Vec::with_capacity(2 * items.len());
    for (i, item) in items.iter().enumerate() {
        events.push(Event { at: item.op.invoked, returns: false, item: i as u32 });
        if item.op.returned != NEVER {
            events.push(Event { at: item.op.returned, returns: true, item: i as u32 });
        }
    }
    events.sort_unstable();
    events
}

/// The most operations that return and are open at once.
fn widest(events: &[Event], items: &[Item]) -> usize {
    let (mut open, mut most) = (0usize, 0);
    for event in events {
        if event.returns {
            open -= 1;
        } else if items[event.item as usize].op.returned != NEVER {
            open += 1;
            most = most.max(open);
        }
    }
    most
}

/// `placed`: the slots of open operations that are in. `used`: how many of each kind of unknown outcome are in, where
/// that is counted, by its number in `Walk::uses`.
#[derive(Clone, PartialEq, Eq)]
struct Config<S, B> {
    state: S,
    placed: B,
    used: u32,
}

impl<S: Hash, B: Bits> Hash for Config<S, B>
where
    Config<S, B>: Eq,
{
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.state.hash(hasher);
        for &word in self.placed.words() {
            hasher.write_u64(word);
        }
        hasher.write_u32(self.used);
    }
}

type Configs<S, B> = HashSet<Config<S, B>, BuildHasherDefault<Mix>>;

struct Walk<'a, M: Model, B: Bits> {
    model: &'a M,
    limits: Limits,
    exact: bool,
    /// Open operations that return, each in a slot.
    slots: Vec<Op>,
    occupied: Vec<usize>,
    free: Vec<usize>,
    slot_of: Vec<usize>,
    /// Operations of unknown outcome that were invoked: one of each kind, and how many there are.
    unknown: Vec<(Op, u32)>,
    /// How many of each kind are in, as configurations have it, each once; the last count is never 0.
    uses: Vec<Vec<u32>>,
    use_numbers: HashMap<Vec<u32>, u32, BuildHasherDefault<Mix>>,
    configs: Vec<Config<M::State, B>>,
    steps: u64,
    polled_at: u64,
}

impl<M: Model, B: Bits> Walk<'_, M, B> {
    fn run(&mut self, items: &[Item], events: &[Event]) -> Result<bool, Stop> {
        for event in events {
            let place = event.item as usize;
            let item = &items[place];
            if event.returns {
                self.complete(self.slot_of[place], item.must)?;
                if self.configs.is_empty() {
                    return Ok(false);
                }
            } else if item.op.returned == NEVER {
                self.count(&item.op);
            } else {
                self.slot_of[place] = self.occupy(item.op);
            }
        }
        Ok(true)
    }

    fn count(&mut self, op: &Op) {
        match self.unknown.iter_mut().find(|(kind, _)| kind.asks_the_same(op)) {
            Some((_, count)) => *count += 1,
            None => self.unknown.push((*op, 1)),
        }
    }

    fn occupy(&mut self, op: Op) -> usize {
        let slot = self.free.pop().unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(op);
        } else {
            self.slots[slot] = op;
        }
        self.occupied.push(slot);
        slot
    }

    /// Go on with every configuration that the operation in `slot` is in, and, unless it must be, with the others too.
    fn complete(&mut self, slot: usize, must: bool) -> Result<(), Stop> {
        let mut next: Configs<M::State, B> = Configs::default();
        let mut met: Configs<M::State, B> = Configs::default();
        let mut waiting = std::mem::take(&mut self.configs);
        for config in &waiting {
            if !must && !config.placed.contains(slot) {
                next.insert(config.clone());
            }
        }
        while let Some(mut config) = waiting.pop() {
            if config.placed.contains(slot) {
                config.placed.remove(slot);
                next.insert(config);
                continue;
            }
            for place in 0..self.occupied.len() {
                let open = self.occupied[place];
                self.steps += 1;
                if !config.placed.contains(open)
                    && let Some(state) = self.model.step(config.state, &self.slots[open])
                {
                    let mut grown = Config { state, ..config.clone() };
                    grown.placed.insert(open);
                    if met.insert(grown.clone()) {
                        waiting.push(grown);
                    }
                }
            }
            for kind in 0..self.unknown.len() {
                self.steps += 1;
                if let Some(grown) = self.take(&config, kind)
                    && met.insert(grown.clone())
                {
                    waiting.push(grown);
                }
            }
            self.poll(met.len() + next.len())?;
        }
        self.configs = next.into_iter().collect();
        self.occupied.retain(|&other| other != slot);
        self.free.push(slot);
        Ok(())
    }

    /// The configuration after one more operation of that kind; None where it cannot go in, or changes nothing.
    fn take(&mut self, config: &Config<M::State, B>, kind: usize) -> Option<Config<M::State, B>> {
        let (op, count) = &self.unknown[kind];
        let state = self.model.step(config.state, op).filter(|&state| state != config.state)?;
        let mut grown = Config { state, ..config.clone() };
        if self.exact {
            let mut counts = self.uses[config.used as usize].clone();
            counts.resize(counts.len().max(kind + 1), 0);
            if counts[kind] == *count {
                return None;
            }
            counts[kind] += 1;
            grown.used = self.number(counts);
        }
        Some(grown)
    }

    fn number(&mut self, counts: Vec<u32>) -> u32 {
        if let Some(&number) = self.use_numbers.get(&counts) {
            return number;
        }
        let number = self.uses.len() as u32;
        self.uses.push(counts.clone());
        self.use_numbers.insert(counts, number);
        number
    }

    fn poll(&mut self, held: usize) -> Result<(), Stop> {
        if self.steps > self.limits.steps {
            return Err(Stop::Steps);
        }
        let counts = 2 * self.uses.len() * (size_of::<Vec<u32>>() + size_of::<u32>() * self.unknown.len());
        if 2 * held * size_of::<Config<M::State, B>>() + counts > self.limits.memory_bytes {
            return Err(Stop::Memory);
        }
        if self.steps - self.polled_at > 4096 {
            self.polled_at = self.steps;
            self.limits.deadline.check()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::CasRegister;
    use crate::history::Function;
    use limits::Deadline;

    fn has_order(ops: &[(Function, u32, i64, i64)]) -> bool {
        let item = |&(function, a, invoked, returned)| Item {
            op: Op { id: 0, blame: 0, function, a, b: 0, invoked, returned },
            must: returned != NEVER,
        };
        let items: Vec<Item> = ops.iter().map(item).collect();
        let deadline = Deadline::new(Instant::now() + Duration::from_secs(60));
        let limits = Limits { steps: 10_000, memory_bytes: 1 << 20, deadline };
        any_order(&CasRegister, &items, &[0], true, limits).0.expect("the budget suffices")
    }

    #[test]
    fn operations_that_touch_are_concurrent() {
        assert!(has_order(&[(Function::Write, 1, 0, 2), (Function::Read, 0, 2, 4)]));
        assert!(!has_order(&[(Function::Write, 1, 0, 2), (Function::Read, 0, 3, 4)]));
    }

    #[test]
    fn each_of_unknown_outcome_is_used_once() {
        let visit = |at| [(Function::Read, 9, at, at + 1), (Function::Write, 1, at + 2, at + 3)];
        for (lost, visits, explained) in [(1, 1, true), (1, 2, false), (2, 2, true), (2, 3, false)] {
            let mut ops = vec![(Function::Write, 9, 0, NEVER); lost];
            ops.extend((0..visits).flat_map(|i| visit(10 * (i + 1))));
            assert_eq!(has_order(&ops), explained);
        }
    }
}
