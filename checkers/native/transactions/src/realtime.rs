//! Real time as a chain of barriers: whatever was completed before a barrier precedes whatever was invoked after it.
//!
//! There is one barrier between each run of completions and the next invocation. So a path through the chain exists
//! exactly if one transaction was completed before the other was invoked, with at most three edges for each
//! transaction.

use super::graph::{Edges, Kind};
use super::input::Input;

/// Only `ok` transactions precede anything; those that did not happen, as far as anybody saw, are left out.
pub fn add(edges: &mut Edges, input: &Input<'_>, by_invocation: &[u32], happened: &[bool]) {
    add_between(edges, input, by_invocation, happened, |t| t, |t| t);
}

/// The same, from the node `end` of what was completed to the node `begin` of what was invoked after it.
pub fn add_between(
    edges: &mut Edges,
    input: &Input<'_>,
    by_invocation: &[u32],
    happened: &[bool],
    end: impl Fn(u32) -> u32,
    begin: impl Fn(u32) -> u32,
) {
    let mut ends: Vec<(i64, u32)> =
        by_invocation.iter().filter(|&&t| input.is_ok(t as usize)).map(|&t| (input.completed[t as usize], t)).collect();
    ends.sort_unstable();
    let mut ended = ends.iter().peekable();
    let mut barrier = None;
    for &t in by_invocation.iter().filter(|&&t| happened[t as usize]) {
        let mut next = None;
        while let Some(&(_, before)) = ended.next_if(|&&(completed, _)| completed < input.invoked[t as usize]) {
            let node = *next.get_or_insert_with(|| edges.virtual_node());
            edges.add(end(before), node, Kind::Realtime);
        }
        if let Some(node) = next {
            if let Some(previous) = barrier {
                edges.add(previous, node, Kind::Pass);
            }
            barrier = next;
        }
        if let Some(node) = barrier {
            edges.add(node, begin(t), Kind::Pass);
        }
    }
}
