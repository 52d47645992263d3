//! A queue, first in first out.
//!
//! `ENQUEUE` and `DEQUEUE` have the element as `args[0]`; `TAKE` is a dequeue of unknown result; `EMPTY` is a dequeue
//! that found nothing; `DRAIN` is one dequeue of a drain, whose `args` are the element, the drain's number and the
//! position in it.

use super::{Call, Object, Token};

pub const ENQUEUE: u8 = 0;
pub const DEQUEUE: u8 = 1;
pub const TAKE: u8 = 2;
pub const EMPTY: u8 = 3;
pub const DRAIN: u8 = 4;

pub struct Queue;

impl Object for Queue {
    /// What is in, the head first; and of each drain that began how many it took, by number.
    type State = (Vec<i32>, Vec<(i32, i32)>);

    fn initial(&self) -> Self::State {
        (Vec::new(), Vec::new())
    }

    fn step(&self, (held, drains): &Self::State, call: &Call) -> Option<Self::State> {
        let head = held.first();
        let is_head = || head.is_some_and(|&head| i64::from(head) == call.args[0]);
        match call.f {
            ENQUEUE => {
                let mut after = Vec::with_capacity(held.len() + 1);
                after.extend_from_slice(held);
                after.push(call.args[0] as i32);
                Some((after, drains.clone()))
            }
            DEQUEUE => is_head().then(|| (held[1..].to_vec(), drains.clone())),
            TAKE => Some((held.get(1..).unwrap_or_default().to_vec(), drains.clone())),
            EMPTY => head.is_none().then(|| (Vec::new(), drains.clone())),
            _ => {
                let (drain, place) = (call.args[1] as i32, call.args[2] as i32);
                let known = drains.binary_search_by_key(&drain, |&(number, _)| number);
                let taken = known.map_or(0, |at| drains[at].1);
                if taken != place || !is_head() {
                    return None;
                }
                let mut drains = drains.clone();
                match known {
                    Ok(at) => drains[at].1 += 1,
                    Err(at) => drains.insert(at, (drain, 1)),
                }
                Some((held[1..].to_vec(), drains))
            }
        }
    }

    fn show(&self, (held, _): &Self::State) -> Vec<i64> {
        held.iter().map(|&value| i64::from(value)).collect()
    }

    fn heap_bytes(&self, (held, drains): &Self::State) -> usize {
        held.capacity() * 4 + drains.capacity() * 8
    }

    fn reads_only(&self, call: &Call) -> bool {
        call.f == EMPTY
    }

    /// Without an element that nobody takes, or that a dequeue of unknown result took, what others found is the same.
    fn makes(&self, call: &Call) -> Vec<Token> {
        if call.f == ENQUEUE { vec![(call.args[0], 0)] } else { Vec::new() }
    }

    fn observes(&self, call: &Call) -> Vec<Token> {
        if matches!(call.f, DEQUEUE | DRAIN) { vec![(call.args[0], 0)] } else { Vec::new() }
    }
}
