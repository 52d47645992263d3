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

impl<S: Copy + Eq + Hash, B: Bits> Config<S, B> {
    /// Whatever completes `other` completes `self`: the same operations are in, but for some that are not `needed`.
    ///
    /// Needed are those that must go in and do not overwrite. One that never returns need not go in. One that overwrites
    /// and is in `other` was open when `other` was refreshed, so `self`, refreshed no earlier, may count it as in.
    #[inline]
    fn covers(&self, other: &Self, needed: &B) -> bool {
        self.state == other.state
            && self.refreshed >= other.refreshed
            && self.used.is_subset(&other.used)
            && self.used.is_equal_within(&other.used, needed)
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
    pub fn add(&mut self, config: Config<S, B>, needed: &B) {
        if self.entries.len() >= SCANNED {
            return self.add_hashed(config);
        }
        for held in &mut self.entries {
            if held.covers(&config, needed) {
                return;
            }
            if self.replacing && config.covers(held, needed) {
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
    pub fn drop_covered(&mut self, needed: &B) {
        const COMPARED: usize = 64;
        let count = self.entries.len();
        if count <= SCANNED {
            return; // `add` has compared all pairs
        }
        // Group what differs in operations that are not needed only, those that used fewest first.
        let group = |c: &Config<S, B>| {
            let mut hasher = Mix(0);
            c.state.hash(&mut hasher);
            for (word, needed) in c.used.words().iter().zip(needed.words()) {
                hasher.write_u64(word & needed);
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
            if kept.iter().take(COMPARED).any(|&k| self.entries[k].covers(candidate, needed)) {
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
