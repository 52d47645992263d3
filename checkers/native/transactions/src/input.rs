//! Transactions as columns, and facts about them that histories of lists and of registers both need.

use std::collections::HashMap;

pub const OK: i64 = 0;
pub const FAIL: i64 = 1;
pub const INFO: i64 = 2;

pub const WRITE: i64 = 0;
pub const READ: i64 = 1;
pub const READ_UNKNOWN: i64 = 2;

/// What a read of a register that holds nothing returns.
pub const NIL: i64 = i64::MIN;

/// "No row", in every column of row numbers.
pub const NONE: u32 = u32::MAX;

/// Nodes of the graph are numbered in 29 bits; each transaction may need a few.
const ROWS_MAX: usize = 1 << 26;

/// Transactions as columns. One row for each, in any order; its micro-operations are the rows `first[t]` to `first[t + 1]`
/// of a second table; the list that micro-operation m read is the stretch `start[m]` to `start[m + 1]` of `elements`.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The logical process; it has one open transaction at a time.
    pub process: &'a [i64],
    /// 0 ok, 1 fail (never took effect), 2 info (may have).
    pub outcome: &'a [i64],
    /// The place of the invocation in one order of all events.
    pub invoked: &'a [i64],
    /// The place of the completion; looked at only if ok.
    pub completed: &'a [i64],
    /// The first micro-operation; one more than transactions.
    pub first: &'a [i64],
    /// 0 write or append, 1 read, 2 read that was never answered.
    pub kind: &'a [i64],
    /// From 0, below the number of micro-operations.
    pub key: &'a [i64],
    /// What was written; what a read of a register returned, the least integer for nothing; else 0.
    pub value: &'a [i64],
    /// Lists: where what was read begins; one more than micro-operations. Registers: empty.
    pub start: &'a [i64],
    /// The elements of all lists that were read.
    pub elements: &'a [i64],
}

impl Input<'_> {
    pub(crate) fn len(&self) -> usize {
        self.process.len()
    }

    /// The micro-operations of transaction `t`.
    pub(crate) fn ops(&self, t: usize) -> std::ops::Range<usize> {
        self.first[t] as usize..self.first[t + 1] as usize
    }

    /// The list that micro-operation `m` read.
    pub(crate) fn list(&self, m: usize) -> &[i64] {
        &self.elements[self.start[m] as usize..self.start[m + 1] as usize]
    }

    pub(crate) fn is_ok(&self, t: usize) -> bool {
        self.outcome[t] == OK
    }

    /// Every offset, code and length; `lists`: whether reads are of lists.
    pub(crate) fn validate(&self, lists: bool) -> Result<(), String> {
        let (n, m) = (self.process.len(), self.kind.len());
        if n > ROWS_MAX || m > ROWS_MAX {
            return Err(format!("{n} transactions with {m} micro-operations; at most {ROWS_MAX} of each"));
        }
        for (name, given) in [("outcome", self.outcome), ("invoked", self.invoked), ("completed", self.completed)] {
            if given.len() != n {
                return Err(format!("{name} has {} rows; process has {n}", given.len()));
            }
        }
        for (name, given) in [("key", self.key), ("value", self.value)] {
            if given.len() != m {
                return Err(format!("{name} has {} rows; kind has {m}", given.len()));
            }
        }
        offsets("first", self.first, n, m)?;
        if lists {
            offsets("start", self.start, m, self.elements.len())?;
        }
        for t in 0..n {
            if !(OK..=INFO).contains(&self.outcome[t]) {
                return Err(format!(
                    "transaction {t}: outcome is {}; expected 0 ok, 1 fail or 2 info",
                    self.outcome[t]
                ));
            }
            if self.is_ok(t) && self.completed[t] <= self.invoked[t] {
                return Err(format!(
                    "transaction {t}: completed at {}, not after it was invoked at {}",
                    self.completed[t], self.invoked[t]
                ));
            }
        }
        for op in 0..m {
            if !(WRITE..=READ_UNKNOWN).contains(&self.kind[op]) {
                return Err(format!(
                    "micro-operation {op}: kind is {}; expected 0 write, 1 read or 2 read of unknown answer",
                    self.kind[op]
                ));
            }
            if self.key[op] < 0 || self.key[op] >= m as i64 {
                return Err(format!("micro-operation {op}: key is {}; keys are numbered 0 to {}", self.key[op], m - 1));
            }
            if self.kind[op] == WRITE && self.value[op] == NIL {
                return Err(format!("micro-operation {op}: writes nothing; only a read may return that"));
            }
        }
        Ok(())
    }

    pub(crate) fn keys(&self) -> usize {
        self.key.iter().max().map_or(0, |&key| key as usize + 1)
    }

    /// The transaction of every micro-operation.
    pub(crate) fn owners(&self) -> Vec<u32> {
        let mut owners = vec![0; self.kind.len()];
        for t in 0..self.len() {
            owners[self.ops(t)].fill(t as u32);
        }
        owners
    }

    /// Which writes are the last to their key in their transaction.
    pub(crate) fn finals(&self) -> Vec<bool> {
        let mut finals = vec![false; self.kind.len()];
        let mut later = vec![NONE; self.keys()];
        for t in 0..self.len() {
            for m in self.ops(t).rev() {
                let key = self.key[m] as usize;
                if self.kind[m] == WRITE && later[key] != t as u32 {
                    later[key] = t as u32;
                    finals[m] = true;
                }
            }
        }
        finals
    }

    /// Transactions in the order of invocation.
    pub(crate) fn by_invocation(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        if !self.invoked.is_sorted() {
            order.sort_by_key(|&t| self.invoked[t as usize]);
        }
        order
    }

    /// Transactions that happened in the order of completion, those of unknown outcome last.
    pub(crate) fn by_completion(&self, happened: &[bool]) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.len() as u32).filter(|&t| happened[t as usize]).collect();
        let end = |t: u32| if self.is_ok(t as usize) { self.completed[t as usize] } else { i64::MAX };
        order.sort_unstable_by_key(|&t| (end(t), t));
        order
    }

    /// The transaction that the same process completed last before each one; a process has one open at a time.
    pub(crate) fn predecessors(&self, by_invocation: &[u32]) -> Result<Vec<u32>, String> {
        let mut before = vec![NONE; self.len()];
        let least = self.process.iter().copied().min().unwrap_or(0);
        let most = self.process.iter().copied().max().unwrap_or(0);
        let dense = most.checked_sub(least).is_some_and(|range| range < 4 * self.len() as i64 + 1024);
        let mut table = vec![NONE; if dense { (most - least) as usize + 1 } else { 0 }];
        let mut sparse: HashMap<i64, u32> = HashMap::new();
        for &t in by_invocation {
            let process = self.process[t as usize];
            let last =
                if dense { &mut table[(process - least) as usize] } else { sparse.entry(process).or_insert(NONE) };
            if *last != NONE && self.completed[*last as usize] > self.invoked[t as usize] {
                return Err(format!(
                    "process {process} has two open transactions: {t} was invoked before {} was completed",
                    *last
                ));
            }
            before[t as usize] = *last;
            if self.is_ok(t as usize) {
                *last = t;
            }
        }
        Ok(before)
    }
}

fn offsets(name: &str, given: &[i64], rows: usize, end: usize) -> Result<(), String> {
    let whole = given.len() == rows + 1 && given[0] == 0 && given[rows] == end as i64 && given.is_sorted();
    whole.then_some(()).ok_or_else(|| format!("{name} must have {} offsets, rising from 0 to {end}", rows + 1))
}

/// What an order or a schedule of transactions keeps beside what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// What was read, alone.
    Nothing,
    /// A transaction comes after the one before it of the same process; in a schedule, it starts after that one committed.
    Process,
    /// A transaction comes after all that were completed before it was invoked; in a schedule, it starts after they committed.
    Realtime,
}

/// What an ok transaction read of another: the write, or `NONE` when it read that nothing was written.
#[derive(Clone, Copy, Debug)]
pub struct Observed {
    pub op: u32,
    pub write: u32,
}

/// Pairs of micro-operations of two transactions on one key.
pub fn pairs<'a>(
    input: &'a Input<'a>,
    from: usize,
    to: usize,
    first: i64,
    second: i64,
) -> impl Iterator<Item = (usize, usize)> + 'a {
    input.ops(from).filter(move |&a| input.kind[a] == first).flat_map(move |a| {
        input.ops(to).filter(move |&b| input.kind[b] == second && input.key[b] == input.key[a]).map(move |b| (a, b))
    })
}

/// Who wrote each value of each key, where all are different.
pub enum Writers {
    /// Values of each key are close together: a table per key.
    Dense {
        base: Vec<u32>,
        least: Vec<i64>,
        table: Vec<u32>,
    },
    Hashed {
        mask: usize,
        slots: Vec<u32>,
    },
}

impl Writers {
    /// Fails on two transactions that write one value to one key.
    pub fn new(input: &Input<'_>) -> Result<Self, String> {
        let keys = input.keys();
        let (mut least, mut most) = (vec![i64::MAX; keys], vec![i64::MIN; keys]);
        let mut writes = 0_usize;
        for m in (0..input.kind.len()).filter(|&m| input.kind[m] == WRITE) {
            let (key, value) = (input.key[m] as usize, input.value[m]);
            least[key] = least[key].min(value);
            most[key] = most[key].max(value);
            writes += 1;
        }
        let mut base = vec![0_u32; keys + 1];
        let room = 4 * writes as u64 + 64;
        let mut total = 0_u64;
        for key in 0..keys {
            base[key] = total.min(room) as u32;
            if most[key] >= least[key] {
                total = total.saturating_add(most[key].abs_diff(least[key]).saturating_add(1));
            }
        }
        base[keys] = total.min(room) as u32;
        let mut writers = if total <= room {
            Self::Dense { base, least, table: vec![NONE; total as usize] }
        } else {
            let size = (2 * writes + 1).next_power_of_two();
            Self::Hashed { mask: size - 1, slots: vec![NONE; size] }
        };
        for m in (0..input.kind.len()).filter(|&m| input.kind[m] == WRITE) {
            if let Some(earlier) = writers.insert(input, m) {
                let owners = input.owners();
                return Err(format!(
                    "transactions {} and {} both write {} to key {}; every value may be written to a key once only",
                    owners[earlier as usize], owners[m], input.value[m], input.key[m]
                ));
            }
        }
        Ok(writers)
    }

    fn insert(&mut self, input: &Input<'_>, m: usize) -> Option<u32> {
        let (key, value) = (input.key[m], input.value[m]);
        let slot = match self {
            Self::Dense { base, least, table } => {
                let key = key as usize;
                &mut table[base[key] as usize + value.abs_diff(least[key]) as usize]
            }
            Self::Hashed { mask, slots } => {
                let place = find(input, *mask, slots, key, value);
                &mut slots[place]
            }
        };
        if *slot != NONE {
            return Some(*slot);
        }
        *slot = m as u32;
        None
    }

    /// The micro-operation that writes `value` to `key`, or `NONE`.
    pub fn get(&self, input: &Input<'_>, key: usize, value: i64) -> u32 {
        match self {
            Self::Dense { base, least, table } => {
                if value < least[key] {
                    return NONE;
                }
                let place = value.abs_diff(least[key]).saturating_add(u64::from(base[key]));
                if place < u64::from(base[key + 1]) { table[place as usize] } else { NONE }
            }
            Self::Hashed { mask, slots } => slots[find(input, *mask, slots, key as i64, value)],
        }
    }
}

fn find(input: &Input<'_>, mask: usize, slots: &[u32], key: i64, value: i64) -> usize {
    let mut hash = (value as u64 ^ (key as u64).rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    hash = (hash ^ (hash >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mut place = (hash ^ (hash >> 32)) as usize & mask;
    while slots[place] != NONE {
        let m = slots[place] as usize;
        if input.key[m] == key && input.value[m] == value {
            break;
        }
        place = (place + 1) & mask;
    }
    place
}
