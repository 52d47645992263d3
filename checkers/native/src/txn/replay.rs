//! Whether one order of transactions explains a history: carried out one after the other, on the rows alone.
//!
//! This shares nothing with the search but the input; it confirms every order before it is called a proof.

use super::input::{FAIL, Input, NIL, READ, WRITE};

/// Each transaction at most once, all ok ones, no failed one, and real time kept if that is asked for.
fn complete(input: &Input<'_>, order: &[u32], realtime: bool) -> bool {
    let mut placed = vec![false; input.len()];
    let mut latest = i64::MIN;
    for &t in order {
        let t = t as usize;
        if placed[t] || input.outcome[t] == FAIL {
            return false;
        }
        placed[t] = true;
        if realtime && input.is_ok(t) && input.completed[t] < latest {
            return false;
        }
        latest = latest.max(input.invoked[t]);
    }
    (0..input.len()).all(|t| placed[t] || !input.is_ok(t))
}

/// Lists: every read of an ok transaction returns exactly what was appended before it.
pub fn lists(input: &Input<'_>, order: &[u32], realtime: bool) -> bool {
    let mut held: Vec<Vec<i64>> = vec![Vec::new(); input.keys()];
    complete(input, order, realtime)
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

/// Registers: every read of an ok transaction returns what was written last before it, or nothing.
pub fn registers(input: &Input<'_>, order: &[u32], realtime: bool) -> bool {
    let mut held = vec![NIL; input.keys()];
    complete(input, order, realtime)
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
