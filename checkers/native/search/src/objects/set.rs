//! A set of elements numbered from 0. The `args` of a call are its element; those of `READ` are all elements, each
//! once.

use super::{Call, Object, Token};

pub const ADD: u8 = 0;
pub const REMOVE: u8 = 1;
pub const CONTAINS: u8 = 2;
pub const LACKS: u8 = 3;
pub const READ: u8 = 4;

pub struct Set;

impl Set {
    fn has(words: &[u64], element: i64) -> bool {
        words.get(element as usize / 64).is_some_and(|word| word >> (element % 64) & 1 == 1)
    }
}

impl Object for Set {
    /// One bit an element, without empty words at the end.
    type State = Vec<u64>;

    fn initial(&self) -> Vec<u64> {
        Vec::new()
    }

    fn step(&self, words: &Vec<u64>, call: &Call) -> Option<Vec<u64>> {
        if call.f == READ {
            let size: u32 = words.iter().map(|word| word.count_ones()).sum();
            let same = size as usize == call.args.len() && call.args.iter().all(|&element| Self::has(words, element));
            return same.then(|| words.clone());
        }
        let element = call.args[0];
        let place = element as usize / 64;
        let mut after = words.clone();
        match call.f {
            ADD => {
                after.resize(after.len().max(place + 1), 0);
                after[place] |= 1 << (element % 64);
            }
            REMOVE => {
                if let Some(word) = after.get_mut(place) {
                    *word &= !(1 << (element % 64));
                }
                while after.last() == Some(&0) {
                    after.pop();
                }
            }
            f => return (Self::has(words, element) == (f == CONTAINS)).then_some(after),
        }
        Some(after)
    }

    fn show(&self, words: &Vec<u64>) -> Vec<i64> {
        (0..words.len() as i64 * 64).filter(|&element| Self::has(words, element)).collect()
    }

    fn heap_bytes(&self, words: &Vec<u64>) -> usize {
        words.capacity() * 8
    }

    fn reads_only(&self, call: &Call) -> bool {
        matches!(call.f, CONTAINS | LACKS | READ)
    }

    fn makes(&self, call: &Call) -> Vec<Token> {
        if call.f == ADD { vec![(call.args[0], 0)] } else { Vec::new() }
    }

    fn observes(&self, call: &Call) -> Vec<Token> {
        match call.f {
            CONTAINS | READ => call.args.iter().map(|&element| (element, 0)).collect(),
            _ => Vec::new(),
        }
    }
}
