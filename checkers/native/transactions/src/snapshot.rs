//! Snapshot isolation: an order of starts and commits in which each transaction reads what was committed at its start,
//! and no transaction commits a key that another one committed in between.
//!
//! The versions of a key follow each other as their writers do in one order of commits. That order keeps everything
//! that is certain, and otherwise takes the commit that was due first. It gives these constraints: a version's writer
//! commits before its reader starts and before the next writer starts, and a reader starts before the next writer
//! commits (Cerone & Gotsman, "Analysing Snapshot Isolation", PODC 2016). If they form no circle, they give a schedule.
//! Only one order of commits is tried, so a schedule may be missed if the order of versions is uncertain.
//! `snapshot_lists` decides the question for lists.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::graph::{Edges, Graph, Kind};
use super::greedy::{Due, due};
use super::input::{FAIL, Input, Kept, NIL, NONE, Observed, READ, WRITE};
use super::realtime;

/// Starts and commits in turn: twice the transaction, and one more for the commit.
pub type Schedule = Vec<u32>;

/// A schedule for registers. `graph`: what any order of commits keeps; `before`: per transaction the one of its process before it.
pub fn schedule(
    input: &Input<'_>,
    graph: &Graph,
    happened: &[bool],
    reads: &[Observed],
    before: &[u32],
    kept: Kept,
) -> Option<Schedule> {
    let n = input.len();
    let place = commits(input, graph, happened)?;
    let owner = input.owners();
    let finals = input.finals();
    let mut versions: Vec<(u32, u32, u32)> = (0..input.kind.len())
        .filter(|&m| input.kind[m] == WRITE && finals[m] && happened[owner[m] as usize])
        .map(|m| (input.key[m] as u32, place[owner[m] as usize], owner[m]))
        .collect();
    versions.sort_unstable();
    let (start, commit) = (|t: u32| 2 * t, |t: u32| 2 * t + 1);
    let mut edges = Edges::new(2 * n, 4 * input.kind.len() + 6 * n);
    for t in (0..n as u32).filter(|&t| happened[t as usize]) {
        edges.add(start(t), commit(t), Kind::Pass);
        if kept == Kept::Process && before[t as usize] != NONE {
            edges.add(commit(before[t as usize]), start(t), Kind::Process);
        }
    }
    for pair in versions.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
        edges.add(commit(pair[0].2), start(pair[1].2), Kind::Ww);
    }
    for read in reads {
        let reader = owner[read.op as usize];
        let key = input.key[read.op as usize] as u32;
        let mut next = if read.write == NONE {
            versions.partition_point(|&(other, _, _)| other < key)
        } else {
            let writer = owner[read.write as usize];
            edges.add(commit(writer), start(reader), Kind::Wr);
            versions.partition_point(|version| *version <= (key, place[writer as usize], writer))
        };
        // What the reader itself wrote next is no hindrance; what follows that waits for it anyway.
        if versions.get(next).is_some_and(|&(_, _, writer)| writer == reader) {
            next += 1;
        }
        if let Some(&(other, _, writer)) = versions.get(next)
            && other == key
        {
            edges.add(start(reader), commit(writer), Kind::Rw);
        }
    }
    if kept == Kept::Realtime {
        realtime::add_between(&mut edges, input, &input.by_invocation(), happened, commit, start);
    }
    let graph = edges.build();
    let sorted = graph.order();
    let is_event = |&node: &u32| happened.get(node as usize / 2).copied().unwrap_or(false);
    (sorted.len() == graph.nodes()).then(|| sorted.into_iter().filter(is_event).collect())
}

/// The place of each transaction in one order of commits: of those that may follow, whichever is due first.
fn commits(input: &Input<'_>, graph: &Graph, happened: &[bool]) -> Option<Vec<u32>> {
    let sorted = graph.order();
    if sorted.len() < graph.nodes() {
        return None;
    }
    let due = due(graph, &sorted, input);
    let mut waiting = vec![0_u32; graph.nodes()];
    for target in sorted.iter().flat_map(|&node| graph.from(node)) {
        waiting[target.node() as usize] += 1;
    }
    let first = sorted.iter().filter(|&&node| waiting[node as usize] == 0);
    let mut ready: BinaryHeap<Reverse<(Due, u32)>> = first.map(|&node| Reverse((due[node as usize], node))).collect();
    let mut place = vec![NONE; input.len()];
    let mut next = 0;
    while let Some(Reverse((_, node))) = ready.pop() {
        if happened.get(node as usize).copied().unwrap_or(false) {
            place[node as usize] = next;
            next += 1;
        }
        for target in graph.from(node) {
            let left = &mut waiting[target.node() as usize];
            *left -= 1;
            if *left == 0 {
                ready.push(Reverse((due[target.node() as usize], target.node())));
            }
        }
    }
    Some(place)
}

/// Per transaction that happened: the one of its process before it.
pub fn happened_before(predecessors: &[u32], happened: &[bool]) -> Vec<u32> {
    predecessors.iter().zip(happened).map(|(&before, &happened)| if happened { before } else { NONE }).collect()
}

/// Whether a schedule explains a history under snapshot isolation: carried out event by event, on the rows alone.
pub fn replay(input: &Input<'_>, schedule: &[u32], before: &[u32], are_lists: bool, kept: Kept) -> bool {
    let n = input.len();
    let (mut started, mut committed) = (vec![NONE; n], vec![NONE; n]);
    let mut lists: Vec<Vec<i64>> = vec![Vec::new(); input.keys()];
    let mut registers = vec![NIL; input.keys()];
    let mut changed = vec![0_u32; input.keys()];
    let mut latest = i64::MIN;
    for (now, &event) in schedule.iter().enumerate() {
        let (t, now) = (event as usize / 2, now as u32 + 1);
        if event % 2 == 0 {
            let process = before[t] == NONE || committed[before[t] as usize] != NONE;
            if started[t] != NONE || input.outcome[t] == FAIL || (kept == Kept::Process && !process) {
                return false;
            }
            started[t] = now;
            latest = latest.max(input.invoked[t]);
            let seen = |m: usize| {
                if are_lists { reads_list(input, t, m, &lists) } else { reads_register(input, t, m, &registers) }
            };
            if input.is_ok(t) && !input.ops(t).filter(|&m| input.kind[m] == READ).all(seen) {
                return false;
            }
            continue;
        }
        let late = kept == Kept::Realtime && input.is_ok(t) && input.completed[t] < latest;
        if started[t] == NONE || committed[t] != NONE || late {
            return false;
        }
        committed[t] = now;
        let writes = || input.ops(t).filter(|&m| input.kind[m] == WRITE);
        if writes().any(|m| changed[input.key[m] as usize] > started[t]) {
            return false;
        }
        for m in writes() {
            let key = input.key[m] as usize;
            changed[key] = now;
            registers[key] = input.value[m];
            if are_lists {
                lists[key].push(input.value[m]);
            }
        }
    }
    (0..n).all(|t| committed[t] != NONE || (started[t] == NONE && !input.is_ok(t)))
}

/// The transaction's own writes to the key of micro-operation `m` before it.
fn own<'a>(input: &'a Input<'a>, t: usize, m: usize) -> impl Iterator<Item = i64> + 'a {
    let before = move |&other: &usize| other < m && input.kind[other] == WRITE && input.key[other] == input.key[m];
    input.ops(t).filter(before).map(|other| input.value[other])
}

fn reads_list(input: &Input<'_>, t: usize, m: usize, held: &[Vec<i64>]) -> bool {
    held[input.key[m] as usize].iter().copied().chain(own(input, t, m)).eq(input.list(m).iter().copied())
}

fn reads_register(input: &Input<'_>, t: usize, m: usize, held: &[i64]) -> bool {
    own(input, t, m).last().unwrap_or(held[input.key[m] as usize]) == input.value[m]
}
