//! The state of a narrow walk at one moment: the open operations, by slot and by value, and the live configurations.

use super::trail::{ROOT, Trail};
use search::history::{Function, Op};

/// As in `configs`; those of unknown outcome that went in are among `used`, and `cost` is their number.
#[derive(Clone, Copy)]
pub struct Config {
    pub used: u64,
    pub state: u32,
    pub refreshed: u32,
    pub cost: u32,
    pub trace: u32,
}

/// An open operation.
#[derive(Clone, Copy)]
pub struct Slot {
    pub index: u32,
    /// Number of the event that invoked it.
    pub since: u32,
    pub function: Function,
    pub from: u32,
    pub to: u32,
    /// The slots of equal operations that return before.
    pub earlier: u64,
}

/// The open operations that want a value, and those that write it.
#[derive(Clone, Copy, Default)]
pub struct Wanted {
    pub reads: u64,
    pub swaps: u64,
    pub writes: u64,
}

/// At one instant forced operations return before their observers.
pub type Return = (i64, bool, u32, u32);

/// A walk at one moment, between two events.
#[derive(Default)]
pub struct Frontier {
    /// Operations before this one are invoked.
    pub at: usize,
    /// Events before this one are passed.
    pub now: u32,
    pub wanted: Vec<Wanted>,
    pub slots: Vec<Slot>,
    pub open: Vec<Return>,
    pub live: Vec<Config>,
    pub free: u64,
    pub writing: u64,
    /// Open and neither a write nor of unknown outcome.
    pub needed: u64,
    pub unknown: u64,
    /// Some configuration may have been dropped that no other stands for.
    pub narrowed: bool,
    /// How many steps the trail had.
    pub trail_length: usize,
}

/// The lowest member of a mask that is not empty, which is then removed.
#[inline]
pub fn pop(mask: &mut u64) -> usize {
    let lowest = mask.trailing_zeros() as usize;
    *mask &= *mask - 1;
    lowest
}

impl Frontier {
    /// Become like `other`, in the room that there is.
    pub fn copy(&mut self, other: &Frontier) {
        self.wanted.clone_from(&other.wanted);
        self.slots.clone_from(&other.slots);
        self.open.clone_from(&other.open);
        self.live.clone_from(&other.live);
        let Frontier { at, now, free, writing, needed, unknown, narrowed, trail_length, .. } = *other;
        (self.at, self.now, self.free, self.trail_length) = (at, now, free, trail_length);
        (self.writing, self.needed, self.unknown, self.narrowed) = (writing, needed, unknown, narrowed);
    }

    pub fn reset(&mut self, values: usize, initial: u32) {
        self.wanted.clear();
        self.wanted.resize(values, Wanted::default());
        self.slots.clear();
        self.open.clear();
        self.live.clear();
        self.live.push(Config { used: 0, state: initial, refreshed: 0, cost: 0, trace: ROOT });
        (self.at, self.now, self.trail_length, self.free) = (0, 0, 0, !0);
        (self.writing, self.needed, self.unknown, self.narrowed) = (0, 0, 0, false);
    }

    #[inline]
    pub fn invoke(&mut self, op: &Op, trail: &mut Trail) {
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
                        config.trace = trail.push(config.trace, index);
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

    pub fn release(&mut self, slot: usize) {
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

/// How configurations are compared, as in `configs`; what was spent only by how many it were.
#[derive(Clone, Copy)]
pub struct Order {
    pub needed: u64,
    pub unknown: u64,
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
    pub fn place(self, set: &[Config], config: &Config) -> Option<usize> {
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
    pub fn add(self, set: &mut Vec<Config>, config: Config) {
        match self.place(set, &config) {
            Some(place) if place == set.len() => set.push(config),
            Some(place) => set[place] = config,
            None => {}
        }
    }
}
