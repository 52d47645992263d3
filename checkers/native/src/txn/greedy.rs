//! An order of transactions on registers, placed one after the other: whichever is due first among those that may follow.
//!
//! A transaction may follow when all that precede it are placed and it overwrites no version that somebody has yet to
//! read. That is no complete search (the problem is NP-hard: Papadimitriou 1979): when nothing may follow, the order is
//! given up. A transaction is due when the first of those that must follow it was completed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::graph::Graph;
use super::input::{Input, WRITE};
use super::registers::Registers;

/// `sorted`: all nodes of `graph`, each after its predecessors. None where no order was found.
pub fn order(graph: &Graph, sorted: &[u32], input: &Input<'_>, registers: &Registers<'_>) -> Option<Vec<u32>> {
    let due = due(graph, sorted, input);
    let transactions = input.len();
    let mut waiting = vec![0_u32; graph.nodes()];
    for &node in sorted {
        for target in graph.from(node) {
            waiting[target.node() as usize] += 1;
        }
    }
    // Per version: who has yet to read it. Per key: the version that it holds, and who waits until it was read.
    let mut readers = vec![0_u32; input.kind.len() + input.keys()];
    for (_, version) in registers.external() {
        readers[version as usize] += 1;
    }
    let mut reads: Vec<(u32, u32)> = registers.external().collect();
    reads.sort_unstable();
    let mut held: Vec<u32> = (0..input.keys()).map(|key| (input.kind.len() + key) as u32).collect();
    let mut blocked: Vec<Vec<u32>> = vec![Vec::new(); input.keys()];
    let mut ready: BinaryHeap<Reverse<((i64, Reverse<u32>), u32)>> = BinaryHeap::new();
    ready.extend(
        sorted.iter().filter(|&&node| waiting[node as usize] == 0).map(|&node| Reverse((due[node as usize], node))),
    );
    let mut order = Vec::with_capacity(transactions);
    let mut placed = 0;
    while let Some(Reverse((_, node))) = ready.pop() {
        if (node as usize) < transactions && registers.happened[node as usize] {
            let from = reads.partition_point(|&(t, _)| t < node);
            let until = reads.partition_point(|&(t, _)| t <= node);
            let own = &reads[from..until];
            let blocking = input.ops(node as usize).find(|&m| {
                let holds = held[input.key[m] as usize];
                let mine = own.iter().filter(|&&(_, version)| version == holds).count() as u32;
                input.kind[m] == WRITE && readers[holds as usize] > mine
            });
            if let Some(m) = blocking {
                blocked[input.key[m] as usize].push(node);
                continue;
            }
            for &(_, version) in own {
                readers[version as usize] -= 1;
            }
            for m in input.ops(node as usize) {
                let key = input.key[m] as usize;
                if input.kind[m] == WRITE && registers.leaves(m) {
                    held[key] = m as u32;
                }
                if readers[held[key] as usize] == 0 {
                    ready.extend(blocked[key].drain(..).map(|other| Reverse((due[other as usize], other))));
                }
            }
            order.push(node);
        }
        placed += 1;
        for target in graph.from(node) {
            let left = &mut waiting[target.node() as usize];
            *left -= 1;
            if *left == 0 {
                ready.push(Reverse((due[target.node() as usize], target.node())));
            }
        }
    }
    (placed == graph.nodes()).then_some(order)
}

/// When each node is due: the earliest completion among itself and what follows, the one further from it first.
fn due(graph: &Graph, sorted: &[u32], input: &Input<'_>) -> Vec<(i64, Reverse<u32>)> {
    let mut due = vec![(i64::MAX, Reverse(0)); graph.nodes()];
    for &node in sorted.iter().rev() {
        let t = node as usize;
        let own = if t < input.len() && input.is_ok(t) { input.completed[t] } else { i64::MAX };
        due[t] = graph
            .from(node)
            .iter()
            .map(|target| due[target.node() as usize])
            .map(|(end, Reverse(far))| (end, Reverse(far + 1)))
            .chain([(own, Reverse(0))])
            .min()
            .unwrap_or((own, Reverse(0)));
    }
    due
}
