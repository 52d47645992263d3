//! The strings that gets returned as a tree of values, and which operation made which node.

use std::collections::HashMap;

use super::strings::{Asked, StringOp};
use crate::history::NEVER;

/// The root: the empty string.
pub const EMPTY: u32 = 0;
/// Pairs of an append and a node with its value; where there are more, the search alone decides.
const PAIRS_MAX: usize = 10_000;

/// What one operation is to the tree.
#[derive(Clone, Copy, PartialEq)]
pub enum Made {
    /// It returned this node; None: what nobody can have made.
    Seen(Option<u32>),
    Node(u32),
    Unread,
    Unknown,
}

/// The nodes of all keys: each is the one before with one more value at its end.
pub struct Tree<'a> {
    came_from: Vec<(u32, &'a str)>,
    next: HashMap<(u32, &'a str), u32>,
}

impl Default for Tree<'_> {
    fn default() -> Self {
        Tree { came_from: vec![(EMPTY, "")], next: HashMap::new() }
    }
}

/// What one key says of a node.
struct Grown {
    node: u32,
    /// The place of the node before; None: the root.
    parent: Option<usize>,
    /// The place of its last value.
    value: usize,
    /// By when it was certainly made, and from when on it can have been.
    shown: i64,
    since: i64,
    /// It may be visited more than once.
    again: bool,
}

impl<'a> Tree<'a> {
    /// The values of a key in order; None where one is empty or the beginning of another one.
    pub fn values(key: &[StringOp<'a>]) -> Option<Vec<&'a str>> {
        let mut values: Vec<&str> = key.iter().filter(|op| op.asked != Asked::Get).map(|op| op.text).collect();
        values.sort_unstable();
        values.dedup();
        let stands_apart = |pair: &[&str]| !pair[1].starts_with(pair[0]);
        (values.first().is_none_or(|first| !first.is_empty()) && values.windows(2).all(stands_apart)).then_some(values)
    }

    pub fn next(&self, node: u32, value: &str) -> Option<u32> {
        self.next.get(&(node, value)).copied()
    }

    pub fn parent(&self, node: u32) -> u32 {
        self.came_from[node as usize].0
    }

    pub fn text(&self, mut node: u32) -> String {
        let mut values = Vec::new();
        while node != EMPTY {
            let (before, value) = self.came_from[node as usize];
            values.push(value);
            node = before;
        }
        values.into_iter().rev().collect()
    }

    /// What each operation of a key is to the tree, which has all the key's nodes from then on.
    pub fn grow(&mut self, key: &[StringOp<'a>]) -> Vec<Made> {
        let values = Self::values(key).expect("no value is the beginning of another one");
        let mut appended = vec![false; values.len()];
        let mut first: HashMap<&str, i64> = HashMap::new();
        for op in key {
            if op.asked == Asked::Get {
                first.entry(op.text).and_modify(|at| *at = op.returned.min(*at)).or_insert(op.returned);
            } else {
                appended[place(&values, op.text)] |= op.asked == Asked::Append;
            }
        }
        let (ends, mut nodes) = self.branches(&first, &values, &appended);
        let places = placed(key, &values, &mut nodes);
        let made = |(op, place): (&StringOp<'a>, Option<Option<usize>>)| match op.asked {
            Asked::Get => Made::Seen(ends[op.text]),
            Asked::Put => self.next(EMPTY, op.text).map_or(Made::Unread, Made::Node),
            Asked::Append => place.map_or(Made::Unknown, |at| at.map_or(Made::Unread, |at| Made::Node(nodes[at].node))),
        };
        key.iter().zip(places).map(made).collect()
    }

    /// The node of each result, and all nodes on the way to one; a node stands behind the one before it.
    fn branches(
        &mut self,
        first: &HashMap<&'a str, i64>,
        values: &[&'a str],
        appended: &[bool],
    ) -> (HashMap<&'a str, Option<u32>>, Vec<Grown>) {
        let mut nodes: Vec<Grown> = Vec::new();
        let mut places: HashMap<u32, usize> = HashMap::new();
        let mut ends = HashMap::from([("", Some(EMPTY))]);
        // In their order, so that a result comes behind its beginnings.
        let mut results: Vec<&str> = first.keys().copied().filter(|result| !result.is_empty()).collect();
        results.sort_unstable();
        let mut chains: Vec<(&str, Option<usize>)> = Vec::new();
        for result in results {
            while chains.last().is_some_and(|(before, _)| !result.starts_with(before)) {
                chains.pop();
            }
            let (before, mut last) = chains.last().copied().unwrap_or_default();
            let mut at = before.len();
            while at < result.len() {
                // What a string begins with is the greatest value that is not greater.
                let Some(value) = values.partition_point(|&value| value <= &result[at..]).checked_sub(1) else { break };
                if !result[at..].starts_with(values[value]) || (at > 0 && !appended[value]) {
                    break;
                }
                let before = last.map_or(EMPTY, |last: usize| nodes[last].node);
                let node = *self.next.entry((before, values[value])).or_insert_with(|| {
                    self.came_from.push((before, values[value]));
                    (self.came_from.len() - 1) as u32
                });
                let parent = last;
                last = Some(*places.entry(node).or_insert_with(|| {
                    nodes.push(Grown { node, parent, value, shown: NEVER, since: 0, again: false });
                    nodes.len() - 1
                }));
                at += values[value].len();
            }
            let end = last.filter(|_| at == result.len());
            ends.insert(result, end.map(|end| nodes[end].node));
            if let Some(end) = end {
                chains.push((result, last));
                nodes[end].shown = first[result];
            }
        }
        for at in (0..nodes.len()).rev() {
            if let Some(parent) = nodes[at].parent {
                nodes[parent].shown = nodes[parent].shown.min(nodes[at].shown);
            }
        }
        (ends, nodes)
    }
}

fn place(values: &[&str], value: &str) -> usize {
    values.binary_search(&value).expect("every value was collected")
}

/// What a key says of one value: the operations that wrote it, and the nodes that end with it.
#[derive(Clone, Default)]
struct Written {
    puts: usize,
    appends: Vec<usize>,
    begun: i64,
    nodes: Vec<usize>,
}

/// Of each append the node that it made, by its place, or that it left the key unread; of others that is not known.
fn placed(key: &[StringOp<'_>], values: &[&str], nodes: &mut [Grown]) -> Vec<Option<Option<usize>>> {
    let changes = || key.iter().enumerate().filter(|(_, op)| op.asked != Asked::Get);
    let until = changes().map(|(_, op)| op.returned).min().unwrap_or(NEVER);
    let mut written = vec![Written { begun: NEVER, ..Written::default() }; values.len()];
    for (id, op) in changes() {
        let of = &mut written[place(values, op.text)];
        of.begun = of.begun.min(op.invoked);
        match op.asked {
            Asked::Append => of.appends.push(id),
            _ => of.puts += 1,
        }
    }
    for at in 0..nodes.len() {
        let of = &mut written[nodes[at].value];
        of.nodes.push(at);
        (nodes[at].since, nodes[at].again) = match nodes[at].parent {
            Some(parent) => (nodes[parent].since.max(of.begun), nodes[parent].again),
            None => {
                let soon = of.appends.iter().filter(|&&id| key[id].invoked < until).count();
                (of.begun, of.puts + soon > 1)
            }
        };
    }
    let nodes = &*nodes;
    let fits = |id: usize, at: usize, latest: i64| {
        let Grown { parent, .. } = nodes[at];
        let (latest, since) = parent.map_or((until.min(latest), i64::MIN), |parent| (latest, nodes[parent].since));
        key[id].invoked < latest && key[id].returned > since
    };
    let mut places = vec![None; key.len()];
    for Written { puts, appends, nodes: there, .. } in written {
        if appends.len() * there.len() > PAIRS_MAX {
            continue;
        }
        let fitting = |&at: &usize| appends.iter().copied().filter(|&id| fits(id, at, nodes[at].shown)).collect();
        let makers: Vec<Vec<usize>> = there.iter().map(fitting).collect();
        let mut made = vec![false; there.len()];
        loop {
            let mut changed = false;
            for (i, &at) in there.iter().enumerate() {
                if made[i] || (puts > 0 && nodes[at].parent.is_none()) {
                    continue;
                }
                let mut free = makers[i].iter().filter(|&&id| places[id].is_none());
                if let (Some(&id), None) = (free.next(), free.next()) {
                    places[id] = Some(Some(at));
                    (made[i], changed) = (true, true);
                }
            }
            if !changed {
                break;
            }
        }
        for &id in &appends {
            let may_make = |(i, &at): (usize, &usize)| match nodes[at].again {
                true => fits(id, at, NEVER),
                false => !made[i] && makers[i].contains(&id),
            };
            if places[id].is_none() && !there.iter().enumerate().any(may_make) {
                places[id] = Some(None);
            }
        }
    }
    places
}
