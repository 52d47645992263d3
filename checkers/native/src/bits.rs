//! Sets of small integers, as wide as a history needs: fixed arrays while they suffice, the heap beyond.

/// All sets of one search have the same number of words.
pub trait Bits: Clone + Eq {
    fn empty(words: usize) -> Self;
    fn words(&self) -> &[u64];
    fn words_mut(&mut self) -> &mut [u64];

    #[inline]
    fn contains(&self, i: usize) -> bool {
        self.words()[i / 64] >> (i % 64) & 1 == 1
    }

    #[inline]
    fn insert(&mut self, i: usize) {
        self.words_mut()[i / 64] |= 1 << (i % 64);
    }

    #[inline]
    fn remove(&mut self, i: usize) {
        self.words_mut()[i / 64] &= !(1 << (i % 64));
    }

    #[inline]
    fn is_subset(&self, other: &Self) -> bool {
        self.words().iter().zip(other.words()).all(|(a, b)| a & !b == 0)
    }

    /// The same members of `mask` are in both.
    #[inline]
    fn is_equal_within(&self, other: &Self, mask: &Self) -> bool {
        let pairs = self.words().iter().zip(other.words()).zip(mask.words());
        pairs.into_iter().all(|((a, b), mask)| (a ^ b) & mask == 0)
    }

    #[inline]
    fn count(&self) -> u32 {
        self.words().iter().map(|word| word.count_ones()).sum()
    }

    #[inline]
    fn count_in(&self, mask: &Self) -> u32 {
        self.words().iter().zip(mask.words()).map(|(a, b)| (a & b).count_ones()).sum()
    }
}

impl<const N: usize> Bits for [u64; N] {
    fn empty(words: usize) -> Self {
        assert!(words <= N, "{words} words do not fit {N}");
        [0; N]
    }

    #[inline]
    fn words(&self) -> &[u64] {
        self
    }

    #[inline]
    fn words_mut(&mut self) -> &mut [u64] {
        self
    }
}

impl Bits for Vec<u64> {
    fn empty(words: usize) -> Self {
        vec![0; words]
    }

    fn words(&self) -> &[u64] {
        self
    }

    fn words_mut(&mut self) -> &mut [u64] {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members<B: Bits>(words: usize) {
        let (mut a, mut b) = (B::empty(words), B::empty(words));
        let last = words * 64 - 1;
        a.insert(3);
        b.insert(3);
        b.insert(last);
        assert!(a != b && b.count() == 2 && b.count_in(&a) == 1);
        assert!(a.is_subset(&b) && !b.is_subset(&a) && a.is_equal_within(&b, &a) && !a.is_equal_within(&b, &b));
        b.remove(last);
        assert!(a == b && b.contains(3) && !b.contains(last));
    }

    #[test]
    fn widths_agree() {
        members::<[u64; 1]>(1);
        members::<[u64; 4]>(4);
        members::<Vec<u64>>(9);
    }
}
