//! Sets of small integers, as wide as a history needs: fixed arrays if they suffice, otherwise on the heap.

/// All sets of one search have the same number of words.
pub trait Bits: Clone + Eq {
    fn empty(words: usize) -> Self;
    fn words(&self) -> &[u64];
    fn words_mut(&mut self) -> &mut [u64];

    /// What one set holds outside of itself.
    fn heap_bytes(&self) -> usize;

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
    fn clear(&mut self) {
        self.words_mut().fill(0);
    }

    /// Whether a member of `self` is not in `other`.
    #[inline]
    fn exceeds(&self, other: &Self) -> bool {
        !self.is_subset(other)
    }

    /// Take in all of `other`.
    #[inline]
    fn extend(&mut self, other: &Self) {
        self.words_mut().iter_mut().zip(other.words()).for_each(|(a, b)| *a |= b);
    }

    /// The members of `self` that are not in `other`, in ascending order.
    #[inline]
    fn difference<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = usize> + 'a {
        self.words()
            .iter()
            .zip(other.words())
            .enumerate()
            .flat_map(|(at, (a, b))| Members { at: at * 64, rest: a & !b })
    }

    #[inline]
    fn count(&self) -> u32 {
        self.words().iter().map(|word| word.count_ones()).sum()
    }
}

struct Members {
    at: usize,
    rest: u64,
}

impl Iterator for Members {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.rest == 0 {
            return None;
        }
        let member = self.at + self.rest.trailing_zeros() as usize;
        self.rest &= self.rest - 1;
        Some(member)
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

    fn heap_bytes(&self) -> usize {
        0
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

    fn heap_bytes(&self) -> usize {
        size_of_val(self.as_slice()) + 16
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
        assert!(a != b && b.count() == 2);
        assert!(a.is_subset(&b) && !b.is_subset(&a) && a.is_equal_within(&b, &a) && !a.is_equal_within(&b, &b));
        assert!(b.exceeds(&a) && !a.exceeds(&b) && b.difference(&a).eq([last]) && a.difference(&b).next().is_none());
        a.extend(&b);
        assert!(a == b && a.difference(&B::empty(words)).eq([3, last]));
        a.remove(last);
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
