//! Check that one order of transactions explains a history, by carrying it out on the rows alone.
//!
//! It shares nothing with the search except the input, and confirms every order before it is called a proof.

use super::input::{FAIL, Input, Kept, NIL, NONE, READ, WRITE};

/// Each transaction at most once, all ok ones, no failed one, and what is to be kept; `before`: per transaction the one of
/// its process before it.
fn complete(input: &Input<'_>, order: &[u32], before: &[u32], kept: Kept) -> bool {
    let mut placed = vec![false; input.len()];
    let mut latest = i64::MIN;
    for &t in order {
        let t = t as usize;
        if placed[t] || input.outcome[t] == FAIL {
            return false;
        }
        placed[t] = true;
        let late = kept == Kept::Realtime && input.is_ok(t) && input.completed[t] < latest;
        let early = kept == Kept::Process && before[t] != NONE && !placed[before[t] as usize];
        if late || early {
            return false;
        }
        latest = latest.max(input.invoked[t]);
    }
    (0..input.len()).all(|t| placed[t] || !input.is_ok(t))
}

/// Lists: every read of an ok transaction returns exactly what was appended before it.
pub fn lists(input: &Input<'_>, order: &[u32], before: &[u32], kept: Kept) -> bool {
    let mut held: Vec<Vec<i64>> = vec![Vec::new(); input.keys()];
    complete(input, order, before, kept)
        && order.iter().all(|&t| {
            input.ops(t as usize).all(|m| {
                let list = &mut held[input.key[m] as usize];
                if input.kind[m] == WRITE {
                    list.push(input.value[m]);
                    return true;
                }
                input.kind[m] != READ || !input.is_ok(t as usize) || *list == input.list(m)
            })
        })
}

/// Lists in some commit order: what an ok transaction read is the beginning of what its key holds in the end, and ends with
/// what the transaction itself had appended.
pub fn prefixes(input: &Input<'_>, order: &[u32]) -> bool {
    let mut held: Vec<Vec<i64>> = vec![Vec::new(); input.keys()];
    for m in order.iter().flat_map(|&t| input.ops(t as usize)).filter(|&m| input.kind[m] == WRITE) {
        held[input.key[m] as usize].push(input.value[m]);
    }
    let is_prefix = |t: usize, m: usize| {
        let is_own = |&other: &usize| input.kind[other] == WRITE && input.key[other] == input.key[m];
        let own: Vec<i64> = (input.ops(t).start..m).filter(is_own).map(|other| input.value[other]).collect();
        held[input.key[m] as usize].starts_with(input.list(m)) && input.list(m).ends_with(&own)
    };
    order
        .iter()
        .map(|&t| t as usize)
        .filter(|&t| input.is_ok(t))
        .all(|t| input.ops(t).filter(|&m| input.kind[m] == READ).all(|m| is_prefix(t, m)))
}

/// Registers: every read of an ok transaction returns what was written last before it, or nothing.
pub fn registers(input: &Input<'_>, order: &[u32], before: &[u32], kept: Kept) -> bool {
    let mut held = vec![NIL; input.keys()];
    complete(input, order, before, kept)
        && order.iter().all(|&t| {
            input.ops(t as usize).all(|m| {
                let register = &mut held[input.key[m] as usize];
                if input.kind[m] == WRITE {
                    *register = input.value[m];
                    return true;
                }
                input.kind[m] != READ || !input.is_ok(t as usize) || *register == input.value[m]
            })
        })
}

/// The transactions of `nodes` that happened, in this order.
pub fn of(nodes: &[u32], happened: &[bool]) -> Vec<u32> {
    nodes.iter().copied().filter(|&node| happened.get(node as usize).copied().unwrap_or(false)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::{INFO, OK};

    /// Three transactions of one process that write 1 and 2 and read 2, one after the other.
    fn with_columns(outcome: [i64; 3], judge: impl Fn(&Input<'_>)) {
        judge(&Input {
            process: &[7, 7, 7],
            outcome: &outcome,
            invoked: &[0, 2, 4],
            completed: &[1, 3, 5],
            first: &[0, 1, 2, 3],
            kind: &[WRITE, WRITE, READ],
            key: &[0, 0, 0],
            value: &[1, 2, 2],
            start: &[0, 0, 0, 2],
            elements: &[1, 2],
        });
    }

    #[test]
    fn an_order_is_no_proof_against_real_time_or_the_order_of_a_process() {
        with_columns([OK; 3], |input| {
            let before = [NONE, 0, 1];
            for kept in [Kept::Nothing, Kept::Process, Kept::Realtime] {
                assert!(registers(input, &[0, 1, 2], &before, kept));
                assert!(lists(input, &[0, 1, 2], &before, kept));
            }
            // The values of registers allow the first to come last.
            assert!(registers(input, &[1, 2, 0], &before, Kept::Nothing));
            assert!(!registers(input, &[1, 2, 0], &before, Kept::Process));
            assert!(!registers(input, &[1, 2, 0], &before, Kept::Realtime));
            assert!(!lists(input, &[1, 2, 0], &before, Kept::Nothing));
        });
    }

    #[test]
    fn an_order_is_no_proof_that_lacks_or_repeats_a_transaction() {
        with_columns([OK; 3], |input| {
            for order in [&[0, 1][..], &[1, 2], &[0, 1, 1, 2], &[0, 1, 2, 2]] {
                assert!(!registers(input, order, &[NONE, 0, 1], Kept::Realtime));
                assert!(!lists(input, order, &[NONE, 0, 1], Kept::Realtime));
            }
        });
        with_columns([FAIL, OK, OK], |input| {
            assert!(registers(input, &[1, 2], &[NONE; 3], Kept::Realtime));
            assert!(!registers(input, &[0, 1, 2], &[NONE; 3], Kept::Realtime));
        });
        // What never ended may come late, or not at all.
        with_columns([INFO, OK, OK], |input| {
            assert!(registers(input, &[1, 2], &[NONE; 3], Kept::Realtime));
            assert!(registers(input, &[1, 2, 0], &[NONE; 3], Kept::Realtime));
            assert!(!registers(input, &[1, 0, 2], &[NONE; 3], Kept::Realtime));
        });
    }
}
