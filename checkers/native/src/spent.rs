//! How many operations of each group that never returns went in: multisets of groups, each kept once.

use std::collections::HashMap;
use std::rc::Rc;

/// (group, number), by group; a group that is not there was not used.
type Counts = Rc<[(u32, u32)]>;

pub struct Spent {
    kept: Vec<Counts>,
    numbers: HashMap<Counts, u32>,
    bytes: usize,
}

impl Spent {
    /// Nothing was used.
    pub const NONE: u32 = 0;

    pub fn new() -> Self {
        let nothing: Counts = Rc::new([]);
        Spent { kept: vec![nothing.clone()], numbers: HashMap::from([(nothing, 0)]), bytes: 0 }
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
        self.number(counts.into())
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
        self.bytes
    }

    /// Keep only those that are named; they are renumbered in place.
    pub fn collect<'a>(&mut self, named: impl Iterator<Item = &'a mut u32>) {
        let before = std::mem::replace(self, Spent::new());
        for number in named {
            *number = self.number(before.kept[*number as usize].clone());
        }
    }

    fn number(&mut self, counts: Counts) -> u32 {
        if let Some(&number) = self.numbers.get(&counts) {
            return number;
        }
        let number = self.kept.len() as u32;
        // The list with its two counters, two pointers to it, and the table's share.
        self.bytes += counts.len() * 8 + 16 + 2 * 16 + 16;
        self.numbers.insert(counts.clone(), number);
        self.kept.push(counts);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multisets_are_kept_once_and_compared() {
        let mut spent = Spent::new();
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
        let (mut kept, mut none) = (aab, 0);
        spent.collect([&mut kept, &mut none].into_iter());
        assert_eq!((spent.of(kept, 7), spent.of(kept, 3), none), (2, 1, 0));
        assert_eq!(spent.kept.len(), 2);
    }
}
