//! How many operations of each group that never returns took effect: multisets of groups, each stored once.

use std::hash::Hasher;

use super::mix::Mix;
use limits::growth;

/// (group, number), by group; a group that is not there was not used.
type Counts = Box<[(u32, u32)]>;

pub struct Spent {
    kept: Vec<Counts>,
    /// By the hash of each, its place in `kept`; at least half of it is `FREE`.
    table: Vec<u32>,
    lists_bytes: usize,
    memory_bytes: usize,
}

const FREE: u32 = u32::MAX;
/// What a list takes in `kept`, and at most in the table; and what the allocator adds to it.
const KEPT_BYTES: usize = size_of::<Counts>() + 16;
const LIST_BYTES: usize = 16;

impl Spent {
    /// Nothing was used.
    pub const NONE: u32 = 0;

    /// `memory_bytes`: what it may take at the very most.
    pub fn new(memory_bytes: usize) -> Self {
        let mut spent = Spent { kept: Vec::new(), table: Vec::new(), lists_bytes: 0, memory_bytes };
        spent.number(Counts::default());
        spent
    }

    pub fn of(&self, spent: u32, group: u32) -> u32 {
        let counts = &self.kept[spent as usize];
        counts.binary_search_by_key(&group, |&(group, _)| group).map_or(0, |at| counts[at].1)
    }

    /// One more of `group`.
    pub fn plus(&mut self, spent: u32, group: u32) -> u32 {
        let mut counts = self.kept[spent as usize].to_vec();
        match counts.binary_search_by_key(&group, |&(group, _)| group) {
            Ok(at) => counts[at].1 += 1,
            Err(at) => counts.insert(at, (group, 1)),
        }
        self.number(counts.into_boxed_slice())
    }

    /// Whether `less` used no more of any group than `more`.
    pub fn is_within(&self, less: u32, more: u32) -> bool {
        if less == more || less == Spent::NONE {
            return true;
        }
        let (less, more) = (&self.kept[less as usize], &self.kept[more as usize]);
        if less.len() > more.len() {
            return false;
        }
        let mut rest = more.iter();
        less.iter().all(|&(group, count)| {
            rest.find(|&&(other, _)| other >= group).is_some_and(|&(other, most)| other == group && count <= most)
        })
    }

    pub fn bytes(&self) -> usize {
        self.lists_bytes + self.kept.len() * KEPT_BYTES
    }

    /// Begin to keep only those that are named: all that there were; `number` those again.
    pub fn begin_anew(&mut self) -> Vec<Counts> {
        let anew = Spent::new(self.memory_bytes);
        std::mem::replace(self, anew).kept
    }

    /// The number of a multiset, also of one that is there already.
    pub fn number(&mut self, counts: Counts) -> u32 {
        if self.table.len() < 2 * (self.kept.len() + 1) {
            self.rebuild();
        }
        let place = self.find(&counts);
        if self.table[place] == FREE {
            self.table[place] = self.kept.len() as u32;
            self.lists_bytes += LIST_BYTES + size_of_val(&*counts);
            growth::push(&mut self.kept, counts, self.memory_bytes);
        }
        self.table[place]
    }

    /// Its place in the table, or that where it belongs.
    fn find(&self, counts: &[(u32, u32)]) -> usize {
        let mut hasher = Mix::default();
        for &(group, count) in counts {
            hasher.write_u64(u64::from(group) << 32 | u64::from(count));
        }
        let mask = self.table.len() - 1;
        let mut place = hasher.finish() as usize & mask;
        while self.table[place] != FREE && *self.kept[self.table[place] as usize] != *counts {
            place = (place + 1) & mask;
        }
        place
    }

    fn rebuild(&mut self) {
        // The old one is gone before the new one is there.
        self.table = Vec::new();
        self.table = vec![FREE; (2 * (self.kept.len() + 2)).next_power_of_two()];
        for number in 0..self.kept.len() {
            let place = self.find(&self.kept[number]);
            self.table[place] = number as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multisets_are_kept_once_and_compared() {
        let mut spent = Spent::new(1 << 20);
        let a = spent.plus(Spent::NONE, 7);
        let b = spent.plus(Spent::NONE, 3);
        let ab = spent.plus(a, 3);
        assert_eq!(ab, spent.plus(b, 7));
        let aab = spent.plus(ab, 7);
        assert_eq!((spent.of(aab, 7), spent.of(aab, 3), spent.of(aab, 5)), (2, 1, 0));
        assert!(spent.is_within(a, ab) && spent.is_within(b, ab) && spent.is_within(ab, aab) && spent.is_within(0, a));
        assert!(
            !spent.is_within(ab, a) && !spent.is_within(a, b) && !spent.is_within(aab, ab) && !spent.is_within(a, 0)
        );
        let before = spent.begin_anew();
        let [kept, none, again] = [aab, 0, aab].map(|number| spent.number(before[number as usize].clone()));
        assert_eq!((spent.of(kept, 7), spent.of(kept, 3), none, again), (2, 1, 0, kept));
        assert_eq!(spent.kept.len(), 2);
    }
}
