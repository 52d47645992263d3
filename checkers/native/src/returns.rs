//! The operations of one object by the moment of their return, in linear time wherever their times allow it.

use crate::operation::{NEVER, Ops};

/// Up to so many places per operation a table of all times is cheaper than sorting.
const TABLE_PER_OPERATION: usize = 16;
const EMPTY: u32 = u32::MAX;

/// Tell `each` the indexes of the operations that returned, by (return, index). `table` is scratch.
///
/// `ops` are sorted by invocation. Times are places in one order, so they are mostly dense, and mostly distinct.
pub fn by_return(ops: &(impl Ops + ?Sized), table: &mut Vec<u32>, each: impl FnMut(u32)) {
    let returned = ops.iter().filter(|op| op.returned != NEVER).map(|op| op.returned);
    let Some((first, last)) = returned.fold(None, |range, at| match range {
        None => Some((at, at)),
        Some((first, last)) => Some((at.min(first), at.max(last))),
    }) else {
        return;
    };
    let span = last.abs_diff(first);
    if span < (TABLE_PER_OPERATION * ops.length()) as u64 && by_table(ops, first, span as usize + 1, table) {
        table.iter().copied().filter(|&index| index != EMPTY).for_each(each);
        return;
    }
    table.clear();
    table.extend((0..ops.length() as u32).filter(|&i| ops.at(i as usize).returned != NEVER));
    table.sort_by_key(|&i| ops.at(i as usize).returned);
    table.iter().copied().for_each(each);
}

/// False when two return at one moment.
fn by_table(ops: &(impl Ops + ?Sized), first: i64, size: usize, table: &mut Vec<u32>) -> bool {
    table.clear();
    table.resize(size, EMPTY);
    for (i, op) in ops.iter().enumerate() {
        if op.returned != NEVER {
            let place = &mut table[(op.returned - first) as usize];
            if *place != EMPTY {
                return false;
            }
            *place = i as u32;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{Function, Op};

    fn sorted(returns: &[i64]) -> Vec<u32> {
        let op = |(i, &returned): (usize, &i64)| Op {
            id: i as u32,
            blame: i as u32,
            function: Function::Read,
            a: 0,
            b: 0,
            invoked: i64::MIN,
            returned,
        };
        let ops: Vec<Op> = returns.iter().enumerate().map(op).collect();
        let mut found = Vec::new();
        by_return(&ops[..], &mut vec![3, 4], |i| found.push(i));
        found
    }

    #[test]
    fn dense_sparse_and_equal_times() {
        assert_eq!(sorted(&[7, 3, NEVER, 5]), [1, 3, 0]);
        assert_eq!(sorted(&[i64::MAX - 1, 3, NEVER, i64::MIN]), [3, 1, 0]);
        assert_eq!(sorted(&[4, 4, 3, 4]), [2, 0, 1, 3]);
        assert_eq!(sorted(&[NEVER]), [] as [u32; 0]);
    }
}
