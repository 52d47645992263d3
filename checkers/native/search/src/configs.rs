//! The live configurations of a search: the object's state, and the open operations that have taken effect.

use std::hash::{Hash, Hasher};

use super::bits::Bits;
use super::mix::Mix;
use super::spent::Spent;
use limits::growth;

/// `used` are the slots of open operations that are linearized. Every open overwriting operation invoked before
/// `refreshed` (the number of the event at which the last overwriting one went in) may count as linearized just before
/// that one: so one configuration stands for many. `spent` names how many went in of those that never return, and
/// `cost` is their sum. Of two with equal state and `used`, the one with the greater `refreshed` stands for more, and
/// so does the one that spent less.
#[derive(Clone)]
pub struct Config<S, B> {
    pub state: S,
    pub used: B,
    pub refreshed: u32,
    pub spent: u32,
    pub cost: u32,
    pub trace: u32,
}

/// How two configurations are compared.
pub struct Order<'a, B> {
    /// Slots of operations that do not overwrite.
    pub needed: &'a B,
    pub spent: &'a Spent,
    /// Fewer spent counts as better, whatever they were: an under-approximation.
    pub fewest: bool,
}

impl<B: Bits> Order<'_, B> {
    /// Whatever completes `other` completes `held`: the same operations are in, but for some that overwrite. One that
    /// overwrites and is in `other` was open when `other` was refreshed, so `held`, refreshed no earlier, may count it
    /// as in. True without being sure (only where `fewest` is asked for) sets `lossy`.
    #[inline]
    fn covers<S: Eq>(&self, held: &Config<S, B>, other: &Config<S, B>, lossy: &mut bool) -> bool {
        held.state == other.state
            && held.refreshed >= other.refreshed
            && held.used.is_subset(&other.used)
            && held.used.is_equal_within(&other.used, self.needed)
            && self.spends_less(held, other, lossy)
    }

    #[inline]
    fn spends_less<S>(&self, held: &Config<S, B>, other: &Config<S, B>, lossy: &mut bool) -> bool {
        if held.spent == other.spent {
            return true;
        }
        if self.fewest && held.cost <= other.cost {
            *lossy = *lossy || !self.spent.is_within(held.spent, other.spent);
            return true;
        }
        self.spent.is_within(held.spent, other.spent)
    }
}

impl<S: Copy + Eq + Hash, B: Bits> Config<S, B> {
    fn hash(&self) -> usize {
        let mut hasher = Mix::default();
        self.state.hash(&mut hasher);
        for &word in self.used.words() {
            hasher.write_u64(word);
        }
        hasher.finish() as usize
    }
}

/// Up to this many are searched one by one, which is faster than a table and sees every covering pair.
const SCANNED: usize = 16;

/// What a configuration takes at most in the table.
const TABLED_BYTES: usize = 16;

/// A set without duplicates. With `replacing`, a better configuration takes the place of a worse one; without, it
/// is added behind it, so that a walk over the entries meets it.
pub struct ConfigSet<S, B> {
    pub entries: Vec<Config<S, B>>,
    /// One was dropped that another may not stand for.
    pub lossy: bool,
    table: Vec<u32>,
    replacing: bool,
    memory_bytes: usize,
    /// How many there were at once.
    most: usize,
}

impl<S: Copy + Eq + Hash, B: Bits> ConfigSet<S, B> {
    /// `memory_bytes`: what it may take at the very most.
    pub fn new(replacing: bool, memory_bytes: usize) -> Self {
        ConfigSet { entries: Vec::new(), lossy: false, table: Vec::new(), replacing, memory_bytes, most: 0 }
    }

    pub fn clear(&mut self) {
        self.entries.clear();
        self.table.clear();
        self.lossy = false;
    }

    pub fn bytes(&self) -> usize {
        let heap = self.entries.first().map_or(0, |c| c.used.heap_bytes());
        let each = size_of::<Config<S, B>>() + TABLED_BYTES;
        self.most * each + self.entries.len() * heap
    }

    #[inline]
    pub fn add(&mut self, config: Config<S, B>, order: &Order<'_, B>) {
        if self.entries.len() >= SCANNED {
            return self.add_hashed(config, order);
        }
        for held in &mut self.entries {
            if order.covers(held, &config, &mut self.lossy) {
                return;
            }
            if self.replacing && order.covers(&config, held, &mut self.lossy) {
                *held = config;
                return;
            }
        }
        self.push(config);
    }

    #[inline]
    fn push(&mut self, config: Config<S, B>) {
        growth::push(&mut self.entries, config, self.memory_bytes);
        self.most = self.most.max(self.entries.len());
    }

    fn add_hashed(&mut self, config: Config<S, B>, order: &Order<'_, B>) {
        if self.table.len() < 2 * (self.entries.len() + 1) {
            self.rebuild();
        }
        let mask = self.table.len() - 1;
        let mut place = config.hash() & mask;
        while self.table[place] != 0 {
            let held = &mut self.entries[self.table[place] as usize - 1];
            if held.state == config.state && held.used == config.used {
                if held.refreshed >= config.refreshed && order.spends_less(held, &config, &mut self.lossy) {
                    return;
                }
                let better = config.refreshed >= held.refreshed;
                if self.replacing && better && order.spends_less(&config, held, &mut self.lossy) {
                    *held = config;
                    return;
                }
            }
            place = (place + 1) & mask;
        }
        self.push(config);
        self.table[place] = self.entries.len() as u32;
    }

    fn rebuild(&mut self) {
        let size = (2 * (self.entries.len() + 2)).next_power_of_two();
        if size <= self.table.capacity() {
            self.table.clear();
            self.table.resize(size, 0);
        } else {
            // The old one is gone before the new one is there.
            self.table = Vec::new();
            self.table = vec![0; size];
        }
        for (i, config) in self.entries.iter().enumerate() {
            let mut place = config.hash() & (size - 1);
            while self.table[place] != 0 {
                place = (place + 1) & (size - 1);
            }
            self.table[place] = i as u32 + 1;
        }
    }

    /// What `drop_covered` takes at most, for a moment.
    pub fn dropping_bytes(&self) -> usize {
        const EACH: usize = size_of::<(u64, u32, usize)>() + size_of::<bool>() + size_of::<usize>();
        self.most * EACH
    }

    /// Drop configurations that another one covers. Only the nearest are compared: dropping fewer is always right.
    pub fn drop_covered(&mut self, order: &Order<'_, B>) {
        const COMPARED: usize = 64;
        let count = self.entries.len();
        if count <= SCANNED {
            return; // `add` has compared all pairs
        }
        // Group what differs in operations that are not needed only, those that used fewest first.
        let group = |c: &Config<S, B>| {
            let mut hasher = Mix::default();
            c.state.hash(&mut hasher);
            for (word, needed) in c.used.words().iter().zip(order.needed.words()) {
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
            if kept.iter().take(COMPARED).any(|&k| order.covers(&self.entries[k], candidate, &mut self.lossy)) {
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
