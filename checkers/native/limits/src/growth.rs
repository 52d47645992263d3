//! Vectors that grow within a memory budget, and never hold more of it than was written to them.
//!
//! The usual doubling would exceed a budget by the vector's own size, and twice that while the old and the new vector
//! both exist. The allocator would also keep what is freed in between. So a large vector reserves its room up to the
//! end of the budget at once. That takes addresses, not memory: the system provides memory page by page, when it is
//! written to.

const SMALL_BYTES: usize = 1 << 18;
/// Above this size the usual allocator maps memory for one vector alone, and returns it as a whole.
const MAPPED_BYTES: usize = 1 << 26;

/// Add `item` to a vector that may take up to `most_bytes`.
#[inline]
pub fn push<T>(list: &mut Vec<T>, item: T, most_bytes: usize) {
    if list.len() == list.capacity() {
        make_room(list, most_bytes);
    }
    list.push(item);
}

/// Return the memory of a large vector.
pub fn let_go<T>(list: &mut Vec<T>) {
    if list.capacity() * size_of::<T>() > SMALL_BYTES {
        *list = Vec::new();
    }
}

#[cold]
fn make_room<T>(list: &mut Vec<T>, most_bytes: usize) {
    if list.len() * size_of::<T>() < SMALL_BYTES {
        return;
    }
    let all = most_bytes.max(MAPPED_BYTES) / size_of::<T>();
    if all <= list.len() || list.try_reserve_exact(all - list.len()).is_err() {
        list.reserve_exact(list.len() / 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_list_moves_once_within_its_budget_and_grows_by_an_eighth_beyond() {
        for (most_bytes, moves_max) in [(8_000_000, 1), (usize::MAX, 30)] {
            let (mut list, mut moves, mut before): (Vec<u64>, _, _) = (Vec::new(), 0, 0);
            for i in 0..1_000_000 {
                push(&mut list, i, most_bytes);
                if list.capacity() != before && list.len() * 8 > SMALL_BYTES {
                    moves += 1;
                    assert!(most_bytes != usize::MAX || list.capacity() <= list.len() + list.len() / 8);
                }
                before = list.capacity();
            }
            assert!(list.into_iter().eq(0..1_000_000) && (1..=moves_max).contains(&moves), "{moves}");
        }
    }
}
