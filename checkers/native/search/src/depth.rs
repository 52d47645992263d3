//! Find an order of an object's operations depth first, or find out that there is none.
//!
//! An operation goes in only when one of those that are open returns: that one first, then those that return soonest. An
//! operation that only reads goes in as soon as the state allows it, which closes no way. No configuration (event,
//! state, open operations that are in, how many went in of those that never return) is visited twice (Wing & Gong, 1993;
//! Lowe, 2017). Where few configurations lead to an order this asks the model seldom, since a way is followed only as
//! long as it goes on; where many do, `Walk` has them all at once.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use super::attempts::Finding;
use super::bits::Bits;
use super::events::{Events, IDLE, is_return, operation};
use super::mix::Mix;
use super::model::Model;
use super::spent::Spent;
use crate::history::Op;
use limits::{Limits, Stop};

/// More open operations over all returns than this are not listed.
const LISTED_MAX: usize = 4_000_000;

#[derive(Clone, PartialEq, Eq)]
struct Config<S, B> {
    at: u32,
    state: S,
    used: B,
    spent: u32,
}

impl<S: Hash + Eq, B: Bits> Hash for Config<S, B> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.state.hash(hasher);
        hasher.write_u32(self.at);
        self.used.words().iter().for_each(|&word| hasher.write_u64(word));
        hasher.write_u32(self.spent);
    }
}

/// One choice on the way: what was tried of it, and how long the order was before.
struct Frame<S, B> {
    config: Config<S, B>,
    tried: usize,
    length: usize,
}

struct Depth<'a, M: Model, B: Bits> {
    model: &'a M,
    ops: &'a [Op],
    events: &'a Events,
    limits: Limits,
    steps: u64,
    polled_at: u64,
    /// Of each event that is a return, the open operations: first those that return first. Those that only read apart.
    open: Vec<(Vec<u32>, Vec<u32>)>,
    /// Of each group that never returns, the events that invoke one.
    invoked: Vec<Vec<u32>>,
    visited: HashSet<Config<M::State, B>, BuildHasherDefault<Mix>>,
    spent: Spent,
    order: Vec<u32>,
    stack: Vec<Frame<M::State, B>>,
    /// The furthest event that could not be passed, an order up to it, and the states there.
    furthest: (u32, Vec<u32>, Vec<M::State>),
}

/// Judge `ops` within `limits`; None where too many are open. Also the steps that it took.
pub fn search<M: Model, B: Bits>(
    model: &M,
    ops: &[Op],
    events: &Events,
    words: usize,
    limits: Limits,
) -> (Result<Option<Finding<M::State>>, Stop>, u64) {
    let Some(open) = open(model, ops, events) else { return (Ok(None), 0) };
    let mut invoked = vec![Vec::new(); events.groups.len()];
    for (number, &event) in events.list.iter().enumerate() {
        let place = events.place[operation(event) as usize];
        if ops[operation(event) as usize].is_open_ended() && place != IDLE {
            invoked[place as usize].push(number as u32);
        }
    }
    let mut depth = Depth::<M, B> {
        model,
        ops,
        events,
        limits,
        steps: 0,
        polled_at: 0,
        open,
        invoked,
        visited: HashSet::default(),
        spent: Spent::new(limits.memory_bytes),
        order: Vec::new(),
        stack: Vec::new(),
        furthest: (0, Vec::new(), Vec::new()),
    };
    let finding = depth.run(words);
    (finding.map(Some), depth.steps)
}

/// What is open at each return; None where that is too much.
fn open<M: Model>(model: &M, ops: &[Op], events: &Events) -> Option<Vec<(Vec<u32>, Vec<u32>)>> {
    let mut open: Vec<u32> = Vec::new();
    let mut listed = 0;
    let mut found = Vec::with_capacity(events.list.len());
    // Events that return, by operation: what returns first is what a return names first.
    let mut returns = vec![u32::MAX; ops.len()];
    for (number, &event) in events.list.iter().enumerate() {
        if is_return(event) {
            returns[operation(event) as usize] = number as u32;
        }
    }
    for &event in &events.list {
        let i = operation(event);
        if !is_return(event) {
            if !ops[i as usize].is_open_ended() {
                let at = open.partition_point(|&other| returns[other as usize] < returns[i as usize]);
                open.insert(at, i);
            }
            found.push((Vec::new(), Vec::new()));
            continue;
        }
        listed += open.len();
        if listed > LISTED_MAX {
            return None;
        }
        found.push(open.iter().partition(|&&other| !model.reads_only(&ops[other as usize])));
        open.retain(|&other| other != i);
    }
    Some(found)
}

impl<M: Model, B: Bits> Depth<'_, M, B> {
    fn run(&mut self, words: usize) -> Result<Finding<M::State>, Stop> {
        let first = Config { at: 0, state: self.model.initial(), used: B::empty(words), spent: Spent::NONE };
        if self.visit(first) {
            return Ok(self.explained());
        }
        while let Some(frame) = self.stack.last_mut() {
            let (tried, config) = (frame.tried, frame.config.clone());
            frame.tried += 1;
            let length = frame.length;
            self.order.truncate(length);
            let slots = self.open[config.at as usize].0.len();
            if tried < slots {
                if self.take(config, tried) {
                    return Ok(self.explained());
                }
            } else if tried - slots < self.invoked.len() {
                if self.take_group(config, (tried - slots) as u32) {
                    return Ok(self.explained());
                }
            } else {
                self.stack.pop();
            }
            self.poll()?;
        }
        let (at, prefix, mut states) = std::mem::take(&mut self.furthest);
        states.sort_unstable();
        states.dedup();
        let failed = operation(self.events.list[at as usize]);
        let open = self.events.open(at as usize).into_iter().filter(|&i| i != failed).collect();
        Ok(Finding::Refuted { failed, prefix, states, open })
    }

    fn explained(&mut self) -> Finding<M::State> {
        Finding::Explained { order: std::mem::take(&mut self.order) }
    }

    /// Let the open operation of this place go in; whether that led to the end.
    fn take(&mut self, mut config: Config<M::State, B>, place: usize) -> bool {
        let open = &self.open[config.at as usize].0;
        let op = &self.ops[open[place] as usize];
        let slot = |i: u32| self.events.place[i as usize] as usize;
        // Of equal ones the first to return goes in first.
        let waits = |&i: &u32| !config.used.contains(slot(i)) && self.ops[i as usize].asks_the_same(op);
        if config.used.contains(slot(open[place])) || open[..place].iter().any(waits) {
            return false;
        }
        self.steps += 1;
        let Some(state) = self.model.step(config.state, op) else { return false };
        config.used.insert(slot(open[place]));
        self.order.push(open[place]);
        self.go_on(config, state)
    }

    /// Let one more of a group go in that never returns; whether that led to the end.
    fn take_group(&mut self, mut config: Config<M::State, B>, group: u32) -> bool {
        let invoked = &self.invoked[group as usize];
        let taken = self.spent.of(config.spent, group);
        if invoked.get(taken as usize).is_none_or(|&event| event >= config.at) {
            return false;
        }
        let i = operation(self.events.list[invoked[taken as usize] as usize]);
        self.steps += 1;
        let state = self.model.step(config.state, &self.ops[i as usize]);
        let Some(state) = state.filter(|&state| state != config.state) else { return false };
        config.spent = self.spent.plus(config.spent, group);
        self.order.push(i);
        self.go_on(config, state)
    }

    fn go_on(&mut self, mut config: Config<M::State, B>, state: M::State) -> bool {
        config.state = state;
        for place in 0..self.open[config.at as usize].1.len() {
            let read = self.open[config.at as usize].1[place];
            self.read(&mut config, read);
        }
        self.visit(config)
    }

    fn read(&mut self, config: &mut Config<M::State, B>, read: u32) {
        let slot = self.events.place[read as usize] as usize;
        self.steps += 1;
        if !config.used.contains(slot) && self.model.step(config.state, &self.ops[read as usize]).is_some() {
            config.used.insert(slot);
            self.order.push(read);
        }
    }

    /// Pass what can be passed; whether that is all. Otherwise choices begin here, unless they were made before.
    fn visit(&mut self, mut config: Config<M::State, B>) -> bool {
        let list = &self.events.list;
        while (config.at as usize) < list.len() {
            let event = list[config.at as usize];
            let i = operation(event);
            let op = &self.ops[i as usize];
            if is_return(event) {
                let slot = self.events.place[i as usize] as usize;
                if !config.used.contains(slot) {
                    break;
                }
                config.used.remove(slot);
            } else if !op.is_open_ended() && self.model.reads_only(op) {
                self.read(&mut config, i);
            }
            config.at += 1;
        }
        if config.at as usize == list.len() {
            return true;
        }
        if config.at > self.furthest.0 || self.visited.is_empty() {
            self.furthest = (config.at, self.order.clone(), Vec::new());
        }
        if config.at == self.furthest.0 {
            self.furthest.2.push(config.state);
        }
        if self.visited.insert(config.clone()) {
            self.stack.push(Frame { config, tried: 0, length: self.order.len() });
        }
        false
    }

    fn poll(&mut self) -> Result<(), Stop> {
        if self.steps > self.limits.steps {
            return Err(Stop::Steps);
        }
        if self.steps - self.polled_at < 256 {
            return Ok(());
        }
        self.polled_at = self.steps;
        let each = 2 * (size_of::<Config<M::State, B>>() + 8);
        if self.visited.len() * each + self.spent.bytes() > self.limits.memory_bytes {
            return Err(Stop::Memory);
        }
        self.limits.deadline.check()
    }
}
