//! The live configurations of a search: what state the object may be in, and which open operations are already in.

use std::hash::{Hash, Hasher};

use crate::bits::Bits;

/// `used` are the slots of open operations that are linearized. Every open overwriting operation invoked before
/// `refreshed` (the number of the event at which the last overwriting one went in) may count as linearized just before
/// that one: so one configuration stands for many. Of two with equal state and `used`, the greater `refreshed` stands
/// for more.
#[derive(Clone)]
pub struct Config<S, B> {
    pub state: S,
    pub used: B,
    pub refreshed: u32,
    pub trace: u32,
}

/// What a configuration may lack and still stand for another one that has it, slot by slot.
pub struct Spare<B> {
    /// From which `refreshed` on: 0 for an operation that never returns, one more than the number of its invocation for
    /// one that overwrites, never for others.
    pub from: Vec<u32>,
    /// The slots of those others.
    pub never: B,
}

impl<B: Bits> Spare<B> {
    pub const NEVER: u32 = u32::MAX;

    pub fn new(words: usize) -> Self {
        Spare { from: Vec::new(), never: B::empty(words) }
    }

    pub fn set(&mut self, slot: usize, from: u32) {
        if self.from.len() <= slot {
            self.from.resize(slot + 1, Self::NEVER);
        }
        self.from[slot] = from;
        if from == Self::NEVER {
            self.never.insert(slot);
        } else {
            self.never.remove(slot);
        }
    }
}

impl<S: Copy + Eq + Hash, B: Bits> Config<S, B> {
    /// Whatever completes `other` completes `self`: the same operations are in, or fewer where the missing ones need
    /// not go in at all, or may count as in.
    #[inline]
    fn covers(&self, other: &Self, spare: &Spare<B>) -> bool {
        if self.state != other.state || self.refreshed < other.refreshed {
            return false;
        }
        self.used == other.used || self.covers_more(other, spare)
    }

    fn covers_more(&self, other: &Self, spare: &Spare<B>) -> bool {
        let words = self.used.words().iter().zip(other.used.words()).zip(spare.never.words());
        for (word, ((&mine, &theirs), &never)) in words.enumerate() {
            let mut missing = theirs & !mine;
            if mine & !theirs != 0 || missing & never != 0 {
                return false;
            }
            while missing != 0 {
                let slot = word * 64 + missing.trailing_zeros() as usize;
                if spare.from[slot] > self.refreshed {
                    return false;
                }
                missing &= missing - 1;
            }
        }
        true
    }

    fn hash(&self) -> usize {
        let mut hasher = Mix(0);
        self.state.hash(&mut hasher);
        for &word in self.used.words() {
            hasher.write_u64(word);
        }
        hasher.finish() as usize
    }
}

/// Up to this many are searched one by one, which is faster than a table and sees every covering pair.
const SCANNED: usize = 16;

/// A set without duplicates. With `replacing`, a better configuration takes the place of a worse one; without, it
/// is added behind it, so that a walk over the entries meets it.
pub struct ConfigSet<S, B> {
    pub entries: Vec<Config<S, B>>,
    table: Vec<u32>,
    replacing: bool,
}

impl<S: Copy + Eq + Hash, B: Bits> ConfigSet<S, B> {
    pub fn new(replacing: bool) -> Self {
        ConfigSet { entries: Vec::new(), table: Vec::new(), replacing }
    }

    pub fn clear(&mut self) {
        self.entries.clear();
        self.table.clear();
    }

    pub fn bytes(&self) -> usize {
        let heap = self.entries.first().map_or(0, |c| size_of_val(c.used.words()));
        self.entries.capacity() * size_of::<Config<S, B>>() + self.entries.len() * heap + self.table.capacity() * 4
    }

    #[inline]
    pub fn add(&mut self, config: Config<S, B>, spare: &Spare<B>) {
        if self.entries.len() >= SCANNED {
            return self.add_hashed(config);
        }
        for held in &mut self.entries {
            if held.covers(&config, spare) {
                return;
            }
            if self.replacing && config.covers(held, spare) {
                *held = config;
                return;
            }
        }
        self.entries.push(config);
    }

    fn add_hashed(&mut self, config: Config<S, B>) {
        if self.table.len() < 2 * (self.entries.len() + 1) {
            self.rebuild();
        }
        let mask = self.table.len() - 1;
        let mut place = config.hash() & mask;
        while self.table[place] != 0 {
            let held = &mut self.entries[self.table[place] as usize - 1];
            if held.state == config.state && held.used == config.used {
                if held.refreshed >= config.refreshed {
                    return;
                }
                if self.replacing {
                    *held = config;
                    return;
                }
            }
            place = (place + 1) & mask;
        }
        self.entries.push(config);
        self.table[place] = self.entries.len() as u32;
    }

    fn rebuild(&mut self) {
        let size = (4 * (self.entries.len() + 1)).next_power_of_two();
        self.table.clear();
        self.table.resize(size, 0);
        for (i, config) in self.entries.iter().enumerate() {
            let mut place = config.hash() & (size - 1);
            while self.table[place] != 0 {
                place = (place + 1) & (size - 1);
            }
            self.table[place] = i as u32 + 1;
        }
    }

    /// Drop configurations that another one covers. Only the nearest are compared: dropping fewer is always right.
    pub fn drop_covered(&mut self, spare: &Spare<B>) {
        const COMPARED: usize = 64;
        let count = self.entries.len();
        if count <= SCANNED {
            return; // `add` has compared all pairs
        }
        // Group what differs in spare operations only, those that used fewest first.
        let group = |c: &Config<S, B>| {
            let mut hasher = Mix(0);
            c.state.hash(&mut hasher);
            for (word, never) in c.used.words().iter().zip(spare.never.words()) {
                hasher.write_u64(word & never);
            }
            hasher.finish()
        };
        let mut ranked: Vec<(u64, u32, usize)> =
            (0..count).map(|i| (group(&self.entries[i]), self.entries[i].used.count(), i)).collect();
        ranked.sort_unstable();
        let mut dropped = vec![false; count];
        let mut kept: Vec<usize> = Vec::new();
        let mut current = None;
        for &(group, _, i) in &ranked {
            if current != Some(group) {
                current = Some(group);
                kept.clear();
            }
            let candidate = &self.entries[i];
            if kept.iter().take(COMPARED).any(|&k| self.entries[k].covers(candidate, spare)) {
                dropped[i] = true;
            } else {
                kept.push(i);
            }
        }
        let mut i = 0;
        self.entries.retain(|_| {
            i += 1;
            !dropped[i - 1]
        });
        self.table.clear();
    }
}

/// Multiply and rotate: the keys are small and not hostile, so speed matters more than quality.
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        let x = self.0 ^ (self.0 >> 32);
        x ^ (x >> 15)
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    #[inline]
    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(26) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}
