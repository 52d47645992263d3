//! A key-value store of strings: `put` writes one, `append` adds to its end, `get` returns it.
//!
//! A few steps are spent on the object itself. Keys that these do not explain are searched by a shorter model, which
//! has the same orders. Where no value is the beginning of another one, a string is one chain of values, and the
//! strings that gets returned are nodes of a tree. Everything else that the key may hold is one state, *unread*:
//! appends stay there, no get sees it, a put leaves it. A node is visited once, unless its chain begins with a value
//! that several operations may have put. So most appends have one place:
//!
//! - If only this append can have made a node, it did: it replaces the node before by that node.
//! - If it can have made no node, nobody saw what it made: it writes *unread*, wherever it stands.
//! - Any other append leads from each node to the next one by its value, or to *unread*. A put does so from the root.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use super::judge::{Judged, Spending, judge_objects};
use super::string_places::{EMPTY, Made, Tree};
use crate::Finding;
use crate::history::{Function, NEVER, Op};
use limits::Defect;

/// Steps for each call on the object itself: to make the shorter model costs more than a short search.
const PLAIN_STEPS: u64 = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    Get,
    Put,
    Append,
}

/// One operation: what it writes, or the string that it returned.
#[derive(Clone, Copy)]
pub struct StringOp<'a> {
    pub asked: Asked,
    pub text: &'a str,
    pub invoked: i64,
    pub returned: i64,
}

/// What became of a key; `states` are what it may hold, None for a string that no get returned.
pub struct JudgedKey {
    pub judged: Judged,
    pub states: Vec<Option<String>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum State {
    /// Of the tree; the empty string is its root.
    Node(u32),
    /// So many bytes of the first result that begins with them.
    Beginning(u32, usize),
    /// The string at first, where no get can return it or what comes of it.
    Initial,
    Unread,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Call<'a> {
    /// None: what nobody can have made.
    Get(Option<State>),
    Swap(State, State),
    Write(State),
    Put(&'a str),
    Append(&'a str),
    Step(&'a str),
}

/// Judge each key of `keys`, whose operations are in the order of invocation; None of one of which nothing is left.
pub fn judge_strings<'a>(
    keys: &'a [Vec<StringOp<'a>>],
    initial: &'a str,
    budget: &Spending,
) -> Result<Vec<Option<JudgedKey>>, Defect> {
    let mut plain = Strings::new(initial, keys.iter().flatten());
    let every: Vec<Vec<Op>> = keys.iter().map(|key| plain.whole(key)).collect();
    let calls: usize = keys.iter().map(Vec::len).sum();
    let few = Spending { steps: budget.steps.min(PLAIN_STEPS * calls as u64), ..*budget };
    let mut found: Vec<Option<JudgedKey>> = plain.judge(&every, &few)?.into_iter().map(Some).collect();
    let is_explained = |key: &Option<JudgedKey>| {
        key.as_ref().is_some_and(|key| matches!(key.judged.finding, Finding::Explained { .. }))
    };
    let rest: Vec<usize> = (0..keys.len()).filter(|&at| !is_explained(&found[at])).collect();
    let has_tree = |at: &usize| initial.is_empty() && Tree::values(&keys[*at]).is_some();
    let of_trees: Vec<bool> = rest.iter().map(has_tree).collect();
    let whole = rest.iter().zip(&of_trees).filter(|&(_, is_tree)| !is_tree).flat_map(|(&at, _)| &keys[at]);
    let mut shorter = Strings::new(initial, whole);
    let ops = rest.iter().zip(&of_trees).map(|(&at, &is_tree)| match is_tree {
        true => shorter.shortened(&keys[at]),
        false => shorter.whole(&keys[at]),
    });
    let (some, every): (Vec<usize>, Vec<Vec<Op>>) = rest.iter().zip(ops).filter(|(_, ops)| !ops.is_empty()).unzip();
    rest.iter().for_each(|&at| found[at] = None);
    for (at, key) in some.into_iter().zip(shorter.judge(&every, budget)?) {
        found[at] = Some(key);
    }
    Ok(found)
}

/// The model: what calls do to states, both numbered as they are met.
struct Strings<'a> {
    initial: &'a str,
    /// In order, what gets of keys without a tree return.
    results: Vec<&'a str>,
    tree: Tree<'a>,
    calls: Met<Call<'a>>,
}

/// What was met, and the number of each.
struct Met<T> {
    every: Vec<T>,
    numbers: HashMap<T, u32>,
}

impl<T: Copy + Eq + Hash> Met<T> {
    fn new() -> Self {
        Met { every: Vec::new(), numbers: HashMap::new() }
    }

    fn number(&mut self, one: T) -> u32 {
        *self.numbers.entry(one).or_insert_with(|| {
            self.every.push(one);
            (self.every.len() - 1) as u32
        })
    }
}

impl<'a> Strings<'a> {
    /// `whole` are the operations whose strings are not taken for nodes.
    fn new<'b>(initial: &'a str, whole: impl Iterator<Item = &'b StringOp<'a>>) -> Self
    where
        'a: 'b,
    {
        let mut results: Vec<&str> = whole.filter(|op| op.asked == Asked::Get).map(|op| op.text).collect();
        results.sort_unstable();
        results.dedup();
        Strings { initial, results, tree: Tree::default(), calls: Met::new() }
    }

    /// The string, where a get can return it or what comes of it.
    fn seen(&self, text: &str) -> State {
        let first = self.results.partition_point(|&result| result < text);
        match self.results.get(first) {
            Some(result) if result.starts_with(text) => match text.len() {
                0 => State::Node(EMPTY),
                length => State::Beginning(first as u32, length),
            },
            _ => State::Unread,
        }
    }

    fn text(&self, state: State) -> Option<String> {
        match state {
            State::Node(node) => Some(self.tree.text(node)),
            State::Beginning(result, length) => Some(self.results[result as usize][..length].to_owned()),
            State::Initial => Some(self.initial.to_owned()),
            State::Unread => None,
        }
    }

    fn after(&self, state: State, call: Call<'_>) -> Option<State> {
        match call {
            Call::Get(seen) => (seen == Some(state)).then_some(state),
            Call::Swap(from, to) => (state == from).then_some(to),
            Call::Write(to) => Some(to),
            Call::Put(text) => Some(self.seen(text)),
            Call::Append(text) => Some(self.text(state).map_or(State::Unread, |before| self.seen(&(before + text)))),
            Call::Step(value) => Some(match state {
                State::Node(node) => self.tree.next(node, value).map_or(State::Unread, State::Node),
                _ => State::Unread,
            }),
        }
    }

    fn op(&mut self, id: usize, op: &StringOp<'_>, call: Call<'a>) -> Op {
        let (id, a) = (id as u32, self.calls.number(call));
        Op { id, blame: id, function: Function::Call, a, b: 0, invoked: op.invoked, returned: op.returned }
    }

    /// A key's operations as calls on the object itself.
    fn whole(&mut self, key: &[StringOp<'a>]) -> Vec<Op> {
        let call = |(id, op): (usize, &StringOp<'a>)| {
            let call = match op.asked {
                Asked::Get => Call::Get(Some(self.seen(op.text))),
                Asked::Put => Call::Put(op.text),
                Asked::Append => Call::Append(op.text),
            };
            self.op(id, op, call)
        };
        key.iter().enumerate().map(call).collect()
    }

    /// A key's operations as calls on the shorter model.
    fn shortened(&mut self, key: &[StringOp<'a>]) -> Vec<Op> {
        let grown = self.tree.grow(key);
        let mut ops = Vec::with_capacity(key.len());
        for (id, (op, made)) in key.iter().zip(grown).enumerate() {
            let call = match made {
                Made::Seen(node) => Call::Get(node.map(State::Node)),
                Made::Unknown => Call::Step(op.text),
                Made::Node(node) if op.asked == Asked::Append => {
                    Call::Swap(State::Node(self.tree.parent(node)), State::Node(node))
                }
                Made::Node(node) => Call::Write(State::Node(node)),
                Made::Unread if op.returned == NEVER => continue,
                Made::Unread => Call::Write(State::Unread),
            };
            ops.push(self.op(id, op, call));
        }
        ops
    }

    fn judge(&self, keys: &[Vec<Op>], budget: &Spending) -> Result<Vec<JudgedKey>, Defect> {
        let initial = match self.seen(self.initial) {
            State::Unread if self.initial.is_empty() => State::Node(EMPTY),
            State::Unread => State::Initial,
            seen => seen,
        };
        let mut met = Met::new();
        met.number(initial);
        let met = Mutex::new(met);
        let reads: Vec<bool> = self.calls.every.iter().map(|call| matches!(call, Call::Get(_))).collect();
        let ask = |state: u32, call: u32| {
            let met = &mut *met.lock().unwrap_or_else(PoisonError::into_inner);
            let after = self.after(met.every[state as usize], self.calls.every[call as usize]);
            after.map(|after| met.number(after))
        };
        let judged = judge_objects(ask, &reads, keys, budget)?;
        let met = met.into_inner().unwrap_or_else(PoisonError::into_inner);
        let shown = |judged: Judged| {
            let states = match &judged.finding {
                Finding::Refuted { states, .. } => states.as_slice(),
                _ => &[],
            };
            let states = states.iter().map(|&state| self.text(met.every[state as usize])).collect();
            JudgedKey { judged, states }
        };
        Ok(judged.into_iter().map(shown).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use limits::Deadline;

    /// Numbers from 0 to below `end`, the same of every seed.
    struct Dice(u64);

    impl Dice {
        fn roll(&mut self, end: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((self.0 >> 33) % end as u64) as usize
        }
    }

    /// What some clients asked of a store, in the order of invocation; one answer may be bent.
    fn key<'a>(dice: &mut Dice, texts: &'a [String]) -> Vec<StringOp<'a>> {
        let (clients, length, mut held) = (1 + dice.roll(4), 3 + dice.roll(8), String::new());
        let mut ops: Vec<StringOp> = Vec::new();
        let mut open: Vec<Option<(usize, bool)>> = vec![None; clients];
        for at in 0..20 * length as i64 {
            let client = dice.roll(clients);
            match &mut open[client] {
                None if ops.len() < length => {
                    let asked = [Asked::Get, Asked::Append, Asked::Append, Asked::Put][dice.roll(4)];
                    open[client] = Some((ops.len(), false));
                    ops.push(StringOp { asked, text: &texts[1 + dice.roll(3)], invoked: at, returned: NEVER });
                }
                Some((id, is_in)) if !*is_in => {
                    *is_in = true;
                    match ops[*id].asked {
                        Asked::Append => held += ops[*id].text,
                        Asked::Put => held = ops[*id].text.to_owned(),
                        Asked::Get => match texts.iter().find(|&text| *text == held) {
                            Some(text) => ops[*id].text = text,
                            None => ops[*id].returned = i64::MIN,
                        },
                    }
                }
                Some((id, _)) => {
                    let is_lost = ops[*id].returned == i64::MIN || dice.roll(8) == 0;
                    ops[*id].returned = if is_lost { NEVER } else { at };
                    open[client] = None;
                }
                None => {}
            }
        }
        ops.retain(|op| op.asked != Asked::Get || (0..NEVER).contains(&op.returned));
        ops.iter_mut().filter(|op| op.returned < 0).for_each(|op| op.returned = NEVER);
        let bent = dice.roll(ops.len().max(1));
        if let Some(op) = ops.get_mut(bent).filter(|op| op.asked == Asked::Get) {
            op.text = &texts[dice.roll(texts.len())];
        }
        ops
    }

    #[test]
    fn the_shorter_model_has_the_same_orders() {
        // Of up to four values, the shortest first.
        let mut texts = vec![String::new()];
        for at in 0..1 + 3 + 9 + 27 {
            let longer = ["a", "b", "cb"].map(|value| texts[at].clone() + value);
            texts.extend(longer);
        }
        let deadline = Deadline::new(Instant::now() + Duration::from_secs(60));
        let budget = Spending { asked: 1 << 20, asked_first: 1 << 20, steps: 1 << 20, memory_bytes: 1 << 26, deadline };
        let mut counts = [0; 2];
        for seed in 0..5_000 {
            let key = key(&mut Dice(seed), &texts);
            let mut whole = Strings::new("", key.iter());
            let mut shorter = Strings::new("", [].iter());
            let ops = (vec![whole.whole(&key)], vec![shorter.shortened(&key)]);
            let explains = |strings: &Strings, ops: &[Vec<Op>]| {
                let judged = strings.judge(ops, &budget).expect("nothing is wrong");
                matches!(judged[0].judged.finding, Finding::Explained { .. })
            };
            let expected = explains(&whole, &ops.0);
            assert_eq!(explains(&shorter, &ops.1), expected, "seed {seed}");
            counts[usize::from(expected)] += 1;
        }
        assert!(counts.iter().all(|&count| count > 500), "{counts:?}");
    }
}
