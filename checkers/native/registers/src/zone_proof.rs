//! Confirm that a few operations refute a register, from these operations alone, without any result of `zones`.
//!
//! Take a legal order of all operations and remove some of them. The rest is still legal under two conditions: with
//! every operation that observed a value, all makers of that value stay, so it still finds the last value made before
//! it; and nothing makes the initial value. A compare-and-set may be replaced by the plain write of its value, which
//! requires less. In a chain of compare-and-sets, each of which takes the only value that the previous one makes, the
//! last may replace the whole chain as a compare-and-set from the first one's old value: nothing can have happened
//! between them.
//!
//! So if the remaining operations have no order, and are few enough to try all orders, the whole history has none.

use std::collections::HashSet;

use search::history::{Function, NEVER, Ops};

/// More is never needed: two blocks, each with its first maker, three steps and two reads.
const PIECES_MAX: usize = 16;

/// One operation that stays, by its index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// As it is.
    Whole(u32),
    /// As no more than the write of its value.
    Made(u32),
    /// Compare-and-sets, each from the value that the one before made, as one.
    Steps(Vec<u32>),
}

/// Operations that have no order.
#[derive(Clone, Debug)]
pub struct Proof {
    pub pieces: Vec<Piece>,
}

impl Proof {
    /// All operations that the proof speaks of, by index.
    pub fn operations(&self) -> Vec<u32> {
        let of = |piece: &Piece| match piece {
            Piece::Whole(op) | Piece::Made(op) => vec![*op],
            Piece::Steps(steps) => steps.clone(),
        };
        self.pieces.iter().flat_map(of).collect()
    }
}

/// What is left of an operation.
struct Left {
    op: u32,
    observed: Option<u32>,
    made: Option<u32>,
    invoked: i64,
    returned: i64,
}

/// What is wrong with `proof` as a refutation of `ops`, if anything.
pub fn refute(ops: &(impl Ops + ?Sized), initial: u32, proof: &Proof) -> Option<String> {
    let named = proof.operations();
    if proof.pieces.len() > PIECES_MAX {
        return Some(format!("{} pieces", proof.pieces.len()));
    }
    if named.iter().any(|&i| i as usize >= ops.length()) || named.iter().collect::<HashSet<_>>().len() < named.len() {
        return Some("an operation that is none, or stands twice".to_owned());
    }
    let left = match proof.pieces.iter().map(|piece| left_of(ops, piece)).collect::<Result<Vec<Left>, String>>() {
        Ok(left) => left,
        Err(fault) => return Some(fault),
    };
    // Every value that something left observes, with those left that make it; and those between steps.
    let mut makers: Vec<(u32, Vec<u32>)> = Vec::new();
    for value in left.iter().filter_map(|left| left.observed) {
        makers.push((value, left.iter().filter(|left| left.made == Some(value)).map(|left| left.op).collect()));
    }
    for piece in &proof.pieces {
        if let Piece::Steps(steps) = piece {
            makers.extend(steps[..steps.len() - 1].iter().map(|&step| (ops.at(step as usize).b, vec![step])));
        }
    }
    makers.sort_unstable();
    if let Some(fault) = stranger(ops, initial, &makers) {
        return Some(fault);
    }
    has_order(&left, initial).then(|| "what is left has an order".to_owned())
}

fn left_of(ops: &(impl Ops + ?Sized), piece: &Piece) -> Result<Left, String> {
    let whole = |i: u32| {
        let op = ops.at(i as usize);
        Left { op: i, observed: op.observed(), made: op.made(), invoked: op.invoked, returned: op.returned }
    };
    match piece {
        Piece::Whole(i) => Ok(whole(*i)),
        Piece::Made(i) if ops.at(*i as usize).function == Function::Read => Err("a read makes no value".to_owned()),
        Piece::Made(i) => Ok(Left { observed: None, ..whole(*i) }),
        Piece::Steps(steps) => {
            let step = |i: &u32| ops.at(*i as usize);
            let apart = steps.windows(2).any(|pair| step(&pair[0]).b != step(&pair[1]).a);
            let (Some(first), Some(&last)) = (steps.first(), steps.last()) else { return Err("no steps".to_owned()) };
            if apart || steps.iter().any(|i| step(i).function != Function::CompareAndSet) {
                return Err("steps that do not follow each other".to_owned());
            }
            Ok(Left { observed: Some(step(first).a), ..whole(last) })
        }
    }
}

/// A maker, among all operations, of a value that only others are said to make.
fn stranger(ops: &(impl Ops + ?Sized), initial: u32, makers: &[(u32, Vec<u32>)]) -> Option<String> {
    let mask = makers.iter().fold(0u64, |mask, (value, _)| mask | 1 << (value % 64));
    for (i, op) in ops.iter().enumerate() {
        let made = op.left();
        if mask >> (made % 64) & u64::from(op.function != Function::Read) == 0 {
            continue;
        }
        let known = makers[makers.partition_point(|(value, _)| *value < made)..].iter();
        let mut known = known.take_while(|(value, _)| *value == made);
        if known.any(|(value, known)| *value == initial || !known.contains(&(i as u32))) {
            return Some(format!("operation {} makes a value as well", op.id));
        }
    }
    None
}

/// Try all orders. What never returned may stay out.
fn has_order(left: &[Left], initial: u32) -> bool {
    let needed = (0..left.len()).filter(|&i| left[i].returned != NEVER).fold(0u32, |set, i| set | 1 << i);
    let mut tried = HashSet::new();
    let mut waiting = vec![(0u32, initial)];
    while let Some((placed, state)) = waiting.pop() {
        if placed & needed == needed {
            return true;
        }
        if !tried.insert((placed, state)) {
            continue;
        }
        let rest = (0..left.len()).filter(|&i| placed >> i & 1 == 0);
        let horizon = rest.clone().map(|i| left[i].returned).min().unwrap_or(NEVER);
        for i in rest {
            if left[i].invoked <= horizon && left[i].observed.is_none_or(|value| value == state) {
                waiting.push((placed | 1 << i, left[i].made.unwrap_or(state)));
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use Piece::{Made, Steps, Whole};
    use search::history::Op;

    fn op(id: u32, function: Function, (a, b): (u32, u32), invoked: i64, returned: i64) -> Op {
        Op { id, blame: id, function, a, b, invoked, returned }
    }

    fn said(ops: &[Op], pieces: Vec<Piece>) -> String {
        refute(ops, 0, &Proof { pieces }).unwrap_or_default()
    }

    #[test]
    fn a_proof_is_refused_for_what_is_wrong_with_it() {
        let write = |id, a, invoked, returned| op(id, Function::Write, (a, 0), invoked, returned);
        let read = |id, a, invoked, returned| op(id, Function::Read, (a, 0), invoked, returned);
        let ops = [write(10, 1, 0, 1), write(11, 2, 2, 3), write(12, 3, 3, 4), read(13, 1, 5, 6), read(14, 2, 5, 6)];
        assert_eq!(said(&ops, vec![Made(0), Made(1), Whole(3)]), "");
        assert_eq!(said(&ops, vec![Made(0), Whole(3)]), "what is left has an order");
        assert_eq!(said(&ops, vec![Made(1), Made(2), Whole(4)]), "what is left has an order", "they touch");
        assert_eq!(said(&ops, vec![Made(1), Whole(3)]), "operation 10 makes a value as well");
        assert_eq!(said(&ops, vec![Made(0), Made(1), Made(3)]), "a read makes no value");
        for pieces in [vec![Made(0), Made(0)], vec![Made(5)]] {
            assert_eq!(said(&ops, pieces), "an operation that is none, or stands twice");
        }
        let many: Vec<Op> = (0..17).map(|i| write(i, i + 1, 0, 1)).collect();
        assert_eq!(said(&many, (0..17).map(Made).collect()), "17 pieces");
        let again = [write(10, 1, 0, 1), read(11, 0, 2, 3), write(12, 0, 0, NEVER)];
        assert_eq!(said(&again, vec![Made(0), Whole(1), Made(2)]), "operation 12 makes a value as well");
    }

    #[test]
    fn steps_stand_for_one_only_if_nothing_comes_between() {
        let step = |id, a, b, invoked, returned| op(id, Function::CompareAndSet, (a, b), invoked, returned);
        let read = |a| op(20, Function::Read, (a, 0), 8, 9);
        let ops = [step(10, 0, 1, 0, 1), step(11, 1, 2, 2, 3), step(12, 2, 3, 4, 5), read(0)];
        assert_eq!(said(&ops, vec![Steps(vec![0, 1, 2]), Whole(3)]), "");
        let apart = "steps that do not follow each other";
        assert_eq!(said(&ops, vec![Steps(vec![0, 2]), Whole(3)]), apart);
        assert_eq!(said(&ops, vec![Steps(vec![0, 1, 3])]), apart);
        assert_eq!(said(&ops, vec![Steps(vec![])]), "no steps");
        let twice = [&ops[..], &[op(21, Function::Write, (2, 0), 6, 7)]].concat();
        assert_eq!(said(&twice, vec![Steps(vec![0, 1, 2]), Whole(3)]), "operation 21 makes a value as well");
    }
}
