//! A bank: accounts whose balances never fall below 0.
//!
//! `TRANSFER` has the `args` source account, target account and amount; `READ` has all balances. If the initial
//! balances are unknown, the first read of an order defines them.

use super::{Call, Object};

pub const TRANSFER: u8 = 0;
pub const READ: u8 = 1;

pub struct Bank {
    pub accounts: usize,
    pub opening: Option<Vec<i64>>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Balances {
    Known(Vec<i64>),
    /// What each account changed by so far, and the lowest that this ever was.
    Changed(Vec<i64>, Vec<i64>),
}

fn moved(balances: &[i64], call: &Call) -> Option<Vec<i64>> {
    let (from, to, amount) = (call.args[0] as usize, call.args[1] as usize, call.args[2]);
    let mut after = balances.to_vec();
    after[from] = after[from].checked_sub(amount)?;
    after[to] = after[to].checked_add(amount)?;
    Some(after)
}

impl Object for Bank {
    type State = Balances;

    fn initial(&self) -> Balances {
        match &self.opening {
            Some(balances) => Balances::Known(balances.clone()),
            None => Balances::Changed(vec![0; self.accounts], vec![0; self.accounts]),
        }
    }

    fn step(&self, state: &Balances, call: &Call) -> Option<Balances> {
        match (state, call.f) {
            (Balances::Known(balances), TRANSFER) => {
                let after = moved(balances, call)?;
                // Between its two halves nobody looks: a transfer to oneself is held to the balance all the same.
                let enough = balances[call.args[0] as usize] >= call.args[2];
                (enough && after.iter().all(|&balance| balance >= 0)).then_some(Balances::Known(after))
            }
            (Balances::Known(balances), _) => (balances[..] == call.args[..]).then(|| state.clone()),
            (Balances::Changed(changes, lowest), TRANSFER) => {
                let after = moved(changes, call)?;
                let mut lowest = lowest.clone();
                let from = call.args[0] as usize;
                lowest[from] = lowest[from].min(changes[from].checked_sub(call.args[2])?);
                Some(Balances::Changed(after, lowest))
            }
            (Balances::Changed(changes, lowest), _) => {
                // An account began at what was read less its changes; it must have covered the lowest of them.
                let covered = |((&read, &change), &low): ((&i64, &i64), &i64)| {
                    read.checked_sub(change)
                        .and_then(|opening| opening.checked_add(low))
                        .is_some_and(|least| least >= 0)
                };
                call.args.iter().zip(changes).zip(lowest).all(covered).then(|| Balances::Known(call.args.to_vec()))
            }
        }
    }

    fn show(&self, state: &Balances) -> Vec<i64> {
        match state {
            Balances::Known(balances) => balances.clone(),
            Balances::Changed(..) => Vec::new(),
        }
    }

    fn heap_bytes(&self, state: &Balances) -> usize {
        match state {
            Balances::Known(balances) => balances.capacity() * 8,
            Balances::Changed(changes, lowest) => (changes.capacity() + lowest.capacity()) * 8,
        }
    }

    /// A read that tells the balances at first changes what is known.
    fn reads_only(&self, call: &Call) -> bool {
        call.f == READ && self.opening.is_some()
    }

    fn is_spare(&self, call: &Call) -> bool {
        call.f == READ
    }
}

impl Bank {
    /// How many accounts `call` shows that there are.
    pub fn accounts_in(call: &Call) -> usize {
        if call.f == READ { call.args.len() } else { call.args[0].max(call.args[1]) as usize + 1 }
    }
}
