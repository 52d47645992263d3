//! Vectors that grow under a budget: the usual doubling would overshoot it by up to its own size.

const SMALL_BYTES: usize = 1 << 20;

/// Add `item`; a large vector grows by an eighth.
#[inline]
pub fn push<T>(list: &mut Vec<T>, item: T) {
    if list.len() == list.capacity() {
        make_room(list);
    }
    list.push(item);
}

#[cold]
fn make_room<T>(list: &mut Vec<T>) {
    if list.len() * size_of::<T>() >= SMALL_BYTES {
        list.reserve_exact(list.len() / 8);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_large_list_grows_by_an_eighth() {
        let mut list: Vec<u64> = Vec::new();
        for i in 0..1_000_000 {
            super::push(&mut list, i);
            assert!(list.len() * 8 < super::SMALL_BYTES * 2 || list.capacity() <= list.len() + list.len() / 8);
        }
        assert!(list.into_iter().eq(0..1_000_000));
    }
}
