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
    /// Its place among all returns; after all of them where it is of unknown outcome.
    pub place: u32,
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

/// A walk at one moment, between two events.
#[derive(Default)]
pub struct Frontier {
    /// Operations before this one are invoked.
    pub at: usize,
    /// Events before this one are passed.
    pub now: u32,
    /// Returns before this one are passed.
    pub passed: usize,
    pub wanted: Vec<Wanted>,
    pub slots: Vec<Slot>,
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
        self.live.clone_from(&other.live);
        let Frontier { at, now, passed, free, writing, needed, unknown, narrowed, trail_length, .. } = *other;
        (self.at, self.now, self.passed, self.free, self.trail_length) = (at, now, passed, free, trail_length);
        (self.writing, self.needed, self.unknown, self.narrowed) = (writing, needed, unknown, narrowed);
    }

    pub fn reset(&mut self, values: usize, initial: u32) {
        self.wanted.clear();
        self.wanted.resize(values, Wanted::default());
        self.slots.clear();
        self.live.clear();
        self.live.push(Config { used: 0, state: initial, refreshed: 0, cost: 0, trace: ROOT });
        (self.at, self.now, self.passed, self.trail_length, self.free) = (0, 0, 0, 0, !0);
        (self.writing, self.needed, self.unknown, self.narrowed) = (0, 0, 0, false);
    }

    /// Invoke `op`, whose return has this `place`; the slot that it takes.
    #[inline]
    pub fn invoke(&mut self, op: &Op, place: u32, trail: &mut Trail) -> usize {
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
                earlier = if alike == 0 { 0 } else { self.rank(alike, slot, place) };
            }
            Function::CompareAndSet => {
                let mut alike = 0;
                let mut swaps = self.wanted[from as usize].swaps;
                while swaps != 0 {
                    let other = pop(&mut swaps);
                    alike |= u64::from(self.slots[other].to == to) << other;
                }
                self.wanted[from as usize].swaps |= bit;
                earlier = if alike == 0 { 0 } else { self.rank(alike, slot, place) };
            }
        }
        let open = Slot { index, since: self.now, function: op.function, from, to, place, earlier };
        if slot < self.slots.len() {
            self.slots[slot] = open;
        } else {
            self.slots.push(open);
        }
        self.at += 1;
        if op.is_open_ended() {
            self.unknown |= bit;
        } else if op.function != Function::Write {
            self.needed |= bit;
        }
        slot
    }

    /// Which of the equal open operations return before the one new in `slot`; the others learn of it.
    fn rank(&mut self, mut alike: u64, slot: usize, place: u32) -> u64 {
        let mut earlier = 0;
        while alike != 0 {
            let other = pop(&mut alike);
            if self.slots[other].place <= place {
                earlier |= 1 << other;
            } else {
                self.slots[other].earlier |= 1 << slot;
            }
        }
        earlier
    }

    /// The open writes of values that an operation wants which is not in.
    #[inline]
    pub fn writes_wanted(&self, used: u64) -> u64 {
        let writes = |wanted: &Wanted| if (wanted.reads | wanted.swaps) & !used != 0 { wanted.writes } else { 0 };
        self.wanted.iter().fold(0, |all, wanted| all | writes(wanted))
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
    /// One bit, the same of all configurations that may cover each other.
    #[inline]
    pub fn mark(self, config: &Config) -> u64 {
        let same = config.used & self.needed ^ u64::from(config.state) << 32;
        1 << (same.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58)
    }

    /// Where `config` goes in a set: its end, or the place of one that it covers; None where one covers it.
    #[inline]
    pub fn place(self, set: &[Config], config: &Config) -> Option<usize> {
        for (i, held) in set.iter().enumerate() {
            let differ = (held.used ^ config.used) & !self.unknown;
            if held.state != config.state || differ & self.needed != 0 {
                continue;
            }
            if differ & held.used == 0 && held.refreshed >= config.refreshed && held.cost <= config.cost {
                return None;
            }
            if differ & config.used == 0 && config.refreshed >= held.refreshed && config.cost <= held.cost {
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
