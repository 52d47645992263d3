//! How often each rule about transactions could have fired: counted by what was asked, whatever was answered.
//!
//! A rule is named for the anomaly that it finds. Its chances are the micro-operations by which a wrong answer would have
//! shown that anomaly: a dirty read needs a failed write of the key, a lost update two transactions that read the key
//! before they wrote it, a cycle with one anti-dependency a transaction that reads and depends on another one besides.
//! The conditions are necessary, not sufficient: whether transactions overlapped is not asked.

use super::input::{FAIL, Input, NONE, READ, WRITE};

/// How many micro-operations could have shown an anomaly, by what that takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chances {
    /// Reads of ok transactions.
    pub read: u64,
    /// Reads of keys that another transaction writes, which did not fail. The next three are tested reads, too.
    pub tested: u64,
    /// The reader writes as well.
    pub read_by_writer: u64,
    /// The reader reads or writes besides, or another transaction writes the key twice.
    pub read_with_more: u64,
    /// The reader reads something besides.
    pub read_with_read: u64,
    /// Reads of keys that are read twice, or that one transaction writes twice.
    pub read_again: u64,
    /// Reads of keys that a failed transaction writes; and that then (lists) anybody or (registers) the reader writes.
    pub read_of_failed: u64,
    /// See `read_of_failed`.
    pub update_of_failed: u64,
    /// Reads of keys that another transaction writes twice.
    pub read_of_twice_written: u64,
    /// Reads of keys that the reader had read or written before.
    pub read_of_own: u64,
    /// Reads of keys that the reader then writes; and that another transaction reads and then writes, too.
    pub read_before_own_write: u64,
    /// See `read_before_own_write`.
    pub updates: u64,
    /// Writes of keys that another transaction writes, whose order a read can show; where one of the writers writes
    /// once more, there or elsewhere.
    pub overwritten: u64,
    /// See `overwritten`.
    pub overwritten_in_two_keys: u64,
}

/// What all transactions do to one key: how many read it, write it, write it twice, and read it before they write it;
/// and whether a failed one writes it.
#[derive(Clone, Copy, Default)]
struct OfKey {
    reads: u32,
    writers: u32,
    twice: u32,
    updaters: u32,
    failed: bool,
}

/// What one transaction does to one key; `last_write` counts its micro-operations on the key.
#[derive(Clone, Copy)]
struct Pair {
    t: u32,
    reads: u32,
    writes: u32,
    /// The last micro-operation that writes the key, and how many of the key were looked at so far.
    last_write: usize,
    seen: u32,
}

struct Count<'a> {
    input: &'a Input<'a>,
    pairs: Vec<Pair>,
}

impl Count<'_> {
    fn writes(&self, t: usize, m: usize) -> bool {
        self.input.kind[m] == WRITE && self.input.outcome[t] != FAIL
    }

    fn reads(&self, t: usize, m: usize) -> bool {
        self.input.kind[m] == READ && self.input.is_ok(t)
    }

    /// Fill the pairs of a transaction; return how many of its micro-operations read and write.
    fn pair(&mut self, t: usize) -> (u32, u32) {
        let (mut reads, mut writes) = (0, 0);
        for m in self.input.ops(t) {
            let (is_read, is_write) = (self.reads(t, m), self.writes(t, m));
            let pair = &mut self.pairs[self.input.key[m] as usize];
            if pair.t != t as u32 {
                *pair = Pair { t: t as u32, reads: 0, writes: 0, last_write: 0, seen: 0 };
            }
            pair.reads += u32::from(is_read);
            pair.writes += u32::from(is_write);
            if is_write {
                pair.last_write = m;
            }
            reads += u32::from(is_read);
            writes += u32::from(is_write);
        }
        (reads, writes)
    }
}

/// Count the chances of a whole history. `lists`: whether its transactions append to lists.
///
/// Cost: linear in micro-operations. Fails on columns that mean nothing.
pub fn chances(input: &Input<'_>, lists: bool) -> Result<Chances, String> {
    input.validate(lists)?;
    let mut of_key = vec![OfKey::default(); input.keys()];
    let fresh = Pair { t: NONE, reads: 0, writes: 0, last_write: 0, seen: 0 };
    let mut count = Count { input, pairs: vec![fresh; input.keys()] };
    for t in 0..input.len() {
        count.pair(t);
        for m in input.ops(t) {
            let (is_read, key) = (count.reads(t, m), input.key[m] as usize);
            let (pair, all) = (&mut count.pairs[key], &mut of_key[key]);
            if pair.seen == 0 {
                pair.seen = 1;
                all.writers += u32::from(pair.writes > 0);
                all.twice += u32::from(pair.writes > 1);
            }
            if is_read && pair.writes > 0 && m < pair.last_write && pair.seen == 1 {
                pair.seen = 2;
                all.updaters += 1;
            }
            all.reads += u32::from(is_read);
            all.failed |= input.kind[m] == WRITE && input.outcome[t] == FAIL;
        }
    }
    let mut chances = Chances::default();
    let c = &mut chances;
    // Once more, since the pairs of one transaction are overwritten by the next.
    count.pairs.fill(fresh);
    for t in 0..input.len() {
        let (reads, writes) = count.pair(t);
        for m in input.ops(t) {
            let (is_read, is_write, key) = (count.reads(t, m), count.writes(t, m), input.key[m] as usize);
            let (pair, all) = (&mut count.pairs[key], &of_key[key]);
            let others = all.writers > u32::from(pair.writes > 0);
            let twice_elsewhere = all.twice > u32::from(pair.writes > 1);
            let (writes_there, reads_there) = (writes > pair.writes, reads > pair.reads);
            let add = |counter: &mut u64, yes: bool| *counter += u64::from(yes);
            if is_read {
                let by_writer = others && (pair.writes > 0 || writes_there);
                let with_read = others && (reads_there || pair.reads > 1);
                let updates = pair.writes > 0 && m < pair.last_write;
                c.read += 1;
                add(&mut c.tested, others);
                add(&mut c.read_by_writer, by_writer);
                add(&mut c.read_with_more, by_writer || with_read || (others && twice_elsewhere));
                add(&mut c.read_with_read, with_read);
                add(&mut c.read_again, all.reads > 1 || all.twice > 0);
                add(&mut c.read_of_failed, all.failed);
                add(&mut c.update_of_failed, all.failed && if lists { all.writers > 0 } else { updates });
                add(&mut c.read_of_twice_written, twice_elsewhere);
                add(&mut c.read_of_own, pair.seen > 0);
                add(&mut c.read_before_own_write, updates);
                add(&mut c.updates, updates && all.updaters > 1);
            } else if is_write {
                let overwritten = others && (!lists || all.reads > 0);
                add(&mut c.overwritten, overwritten);
                let twice = writes_there || pair.writes > 1 || twice_elsewhere;
                add(&mut c.overwritten_in_two_keys, overwritten && twice);
            }
            pair.seen += u32::from(is_read || is_write);
        }
    }
    Ok(chances)
}
