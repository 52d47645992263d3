//! What each transaction must have seen under causal consistency, by clocks: how much of each chain it knows of.
//!
//! Chains cover the transactions; of one chain each member has to have seen those before it. There are no more chains
//! than processes. Clocks of a few chains are kept at a time, so the memory does not grow with the chains.
//!
//! Source: Moldrup & Pavlogiannis, "AWDIT: An Optimal Weak Database Isolation Tester" (PLDI 2025).

use std::cmp::Reverse;

use super::groups::Groups;
use super::input::NONE;
use super::weak::{Derived, Isolation};

/// Chains whose clocks are kept at a time.
const LANES: usize = 16;
/// How many members of each chain, its first ones, are known.
type Clock = [u32; LANES];

/// What leads to what, by places in an order in which whatever leads to a transaction comes before it.
pub struct Causes<'a> {
    order: &'a [u32],
    /// The place of each transaction.
    at: &'a [u32],
    /// Of each place: the places of the transaction of its process before it, and of those that it reads from.
    pub learns: Groups<u32>,
    /// Of each place: its chain, and its rank there.
    chain: Vec<(u32, u32)>,
    chains: usize,
}

/// A read: its key, the place of the version's writer plus one (0: nothing was read), the write, and the reader's place.
type Read = (u32, Reverse<u32>, u32, u32);
/// A write: its key, its chain, its rank there, and its place.
type Write = (u32, u32, u32, u32);

impl<'a> Causes<'a> {
    pub fn new(isolation: &Isolation<'_>, order: &'a [u32], at: &'a [u32]) -> Self {
        let learns = Groups::new(
            order.len(),
            (0..).zip(order).flat_map(|(place, &t)| {
                let own = Some(isolation.before[t as usize]).filter(|&before| before != NONE);
                let read =
                    isolation.reads_of(t).iter().map(|&read| isolation.writer(read)).filter(|&from| from != NONE);
                own.into_iter().chain(read).map(move |from| (place, at[from as usize]))
            }),
        );
        let mut chain: Vec<(u32, u32)> = Vec::with_capacity(order.len());
        let (mut is_last, mut chains) = (vec![true; order.len()], 0);
        for place in 0..order.len() as u32 {
            let from = learns.of(place).iter().find(|&&from| std::mem::take(&mut is_last[from as usize]));
            chain.push(from.map_or((chains, 0), |&from| (chain[from as usize].0, chain[from as usize].1 + 1)));
            chains += u32::from(from.is_none());
        }
        Self { order, at, learns, chain, chains: chains as usize }
    }

    /// Steps of looking through all chains once.
    pub fn steps(&self, isolation: &Isolation<'_>) -> u64 {
        self.steps_of_few(isolation) * self.chains.div_ceil(LANES) as u64
    }

    /// The same of `LANES` chains.
    fn steps_of_few(&self, isolation: &Isolation<'_>) -> u64 {
        (self.order.len() + self.learns.rows.len() + isolation.reads.len() + isolation.writes.len()) as u64
    }

    /// Reads of each key, those of its last writer in the order first; and writes of each key and chain.
    fn by_key(&self, isolation: &Isolation<'_>) -> (Vec<Read>, Vec<Write>) {
        let mut reads = Vec::with_capacity(isolation.reads.len());
        let mut writes = Vec::with_capacity(isolation.writes.len());
        for (place, (&t, &(chain, rank))) in (0..).zip(self.order.iter().zip(&self.chain)) {
            writes.extend(isolation.writes_of(t).iter().map(|&(key, _)| (key, chain, rank, place)));
            reads.extend(isolation.reads_of(t).iter().map(|&read| {
                let version = if read.write == NONE { 0 } else { self.at[isolation.writer(read) as usize] + 1 };
                (isolation.key(read.op), Reverse(version), read.write, place)
            }));
        }
        reads.sort_unstable();
        writes.sort_unstable();
        (reads, writes)
    }
}

impl Isolation<'_> {
    /// Whether an order places before each version all writes of its key that a reader of it has to have seen. If not,
    /// `derived` gets what every order must place so: the last such write of each chain, unless the version's writer has to
    /// have seen it too. False when the budget ended.
    pub fn seen_causally(&self, causes: &Causes<'_>, derived: &mut Vec<Derived>) -> bool {
        let (reads, writes) = causes.by_key(self);
        let (mut keys, mut rest): (Vec<(&[Read], &[Write])>, _) = (Vec::new(), writes.as_slice());
        for reads in reads.chunk_by(|a, b| a.0 == b.0) {
            rest = &rest[rest.partition_point(|write| write.0 < reads[0].0)..];
            let (writes, others) = rest.split_at(rest.partition_point(|write| write.0 == reads[0].0));
            keys.push((reads, writes));
            rest = others;
        }
        let mut few = Few { causes, begin: 0, clocks: vec![[0; LANES]; causes.order.len()], later: Vec::new() };
        let (given, mut is_kept) = (derived.len(), true);
        while few.begin < causes.chains {
            if !self.spend(causes.steps_of_few(self)) {
                return false;
            }
            few.look();
            keys.iter().for_each(|&(reads, writes)| few.derive(reads, writes, is_kept, derived));
            if is_kept && derived.len() > given {
                derived.truncate(given);
                (is_kept, few.begin) = (false, 0);
            } else {
                few.begin += LANES;
            }
        }
        true
    }
}

/// `LANES` chains, from `begin` on.
struct Few<'a> {
    causes: &'a Causes<'a>,
    begin: usize,
    /// What each place knows of, itself too.
    clocks: Vec<Clock>,
    /// Writes of a key: place, lane, rank.
    later: Vec<(u32, usize, u32)>,
}

impl Few<'_> {
    fn look(&mut self) {
        for (place, &(chain, rank)) in self.causes.chain.iter().enumerate() {
            let mut clock = [0; LANES];
            for &from in self.causes.learns.of(place as u32) {
                join(&mut clock, &self.clocks[from as usize]);
            }
            if let Some(own) = clock.get_mut((chain as usize).wrapping_sub(self.begin)) {
                *own = rank + 1;
            }
            self.clocks[place] = clock;
        }
    }

    /// The last write of a key, in each chain, that a reader of a version has to have seen and that the order places after
    /// the version (`is_late`), or that the version's writer need not have seen.
    fn derive(&mut self, reads: &[Read], writes: &[Write], is_late: bool, derived: &mut Vec<Derived>) {
        let from = writes.partition_point(|write| (write.1 as usize) < self.begin);
        let writes = &writes[from..];
        let writes = &writes[..writes.partition_point(|write| (write.1 as usize) < self.begin + LANES)];
        if writes.is_empty() {
            return;
        }
        self.later.clear();
        if is_late {
            self.later.extend(writes.iter().map(|&(_, chain, rank, place)| (place, chain as usize - self.begin, rank)));
            self.later.sort_unstable();
        }
        // Of each chain: the rank of the first write that counts; and the place of the first of all.
        let (mut first, mut nearest) = ([NONE; LANES], if is_late { NONE } else { 0 });
        for readers in reads.chunk_by(|a, b| (a.1, a.2) == (b.1, b.2)) {
            let (key, Reverse(version), write, _) = readers[0];
            let writer = version.checked_sub(1);
            while let Some(&(place, lane, rank)) = self.later.last().filter(|&&(place, _, _)| place >= version) {
                (first[lane], nearest) = (rank, place);
                self.later.pop();
            }
            if !is_late {
                first = writer.map_or([0; LANES], |writer| self.clocks[writer as usize]);
            }
            let counts = |seen: &Clock| seen.iter().zip(&first).any(|(seen, first)| seen > first);
            let knows = |reader: u32| reader > nearest && counts(&self.clocks[reader as usize]);
            if !readers.iter().any(|&(_, _, _, reader)| knows(reader)) {
                continue;
            }
            let mut seen = [0; LANES];
            readers.iter().for_each(|&(_, _, _, reader)| join(&mut seen, &self.before(reader)));
            for of_chain in writes.chunk_by(|a, b| a.1 == b.1) {
                let lane = of_chain[0].1 as usize - self.begin;
                let count = of_chain.partition_point(|&(_, _, rank, _)| rank < seen[lane]);
                if let Some(&(_, _, rank, place)) = of_chain[..count].last()
                    && rank >= first[lane]
                {
                    let to = writer.map_or(NONE, |writer| self.causes.order[writer as usize]);
                    derived.push(Derived { from: self.causes.order[place as usize], to, version: write, key });
                }
            }
        }
    }

    /// What a place knows of but for itself: nobody has to have seen what it writes after its reads.
    fn before(&self, place: u32) -> Clock {
        let (chain, rank) = self.causes.chain[place as usize];
        let mut clock = self.clocks[place as usize];
        if let Some(own) = clock.get_mut((chain as usize).wrapping_sub(self.begin)) {
            *own = rank;
        }
        clock
    }
}

#[inline]
fn join(clock: &mut Clock, other: &Clock) {
    for (own, other) in clock.iter_mut().zip(other) {
        *own = (*own).max(*other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::{Input, OK, Observed, READ, WRITE};

    /// Numbers that look random.
    struct Draw(u64);

    impl Draw {
        fn below(&mut self, end: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % end
        }
    }

    /// Transactions that each read a key, any earlier version of it or nothing, and then write a key; with a clock that the
    /// sessions share.
    struct History {
        ops: Vec<(i64, i64)>,
        reads: Vec<Observed>,
        before: Vec<u32>,
    }

    fn history(draw: &mut Draw, transactions: usize, sessions: usize, keys: usize) -> History {
        let (mut ops, mut reads, mut before) = (Vec::new(), Vec::new(), Vec::new());
        let (mut last, mut versions) = (vec![NONE; sessions], vec![vec![NONE]; keys]);
        for t in 0..transactions {
            let (session, read, written) = (draw.below(sessions), draw.below(keys), draw.below(keys));
            let near = versions[read].len().min(4);
            let write = versions[read][versions[read].len() - 1 - draw.below(near)];
            reads.push(Observed { op: ops.len() as u32, write });
            ops.extend([(READ, read as i64), (WRITE, written as i64)]);
            versions[written].push(ops.len() as u32 - 1);
            before.push(std::mem::replace(&mut last[session], t as u32));
        }
        History { ops, reads, before }
    }

    fn with<T>(history: &History, judge: impl FnOnce(&Isolation<'_>) -> T) -> T {
        let n = history.before.len();
        let (kind, key): (Vec<i64>, Vec<i64>) = history.ops.iter().copied().unzip();
        let columns: Vec<i64> = (0..=2 * n as i64).collect();
        let first: Vec<i64> = (0..=n as i64).map(|t| 2 * t).collect();
        let input = Input {
            process: &columns[..n],
            outcome: &vec![OK; n],
            invoked: &first[..n],
            completed: &columns[1..=n],
            first: &first,
            kind: &kind,
            key: &key,
            value: &columns[..2 * n],
            start: &[],
            elements: &[],
        };
        let (happened, owner) = (vec![true; n], input.owners());
        let rows = (owner.as_slice(), [true].repeat(2 * n));
        let certain = (n as u32, Vec::new());
        let sessions = Some(history.before.as_slice());
        judge(&Isolation::new(&input, &happened, (rows.0, &rows.1), &history.reads, certain, sessions, u64::MAX))
    }

    /// Of each transaction, whether each other one leads to it, by steps that all lead from lower numbers to higher ones.
    fn closure(n: usize, mut steps: Vec<(usize, usize)>) -> Vec<Vec<bool>> {
        let mut leads = vec![vec![false; n]; n];
        steps.sort_unstable_by_key(|&(from, to)| (to, from));
        for (from, to) in steps {
            leads[to][from] = true;
            for t in 0..n {
                leads[to][t] |= leads[from][t];
            }
        }
        leads
    }

    #[test]
    fn clocks_find_what_every_order_must_place_before_a_version() {
        let (mut kept, mut broken) = (0, 0);
        for seed in 0..400 {
            let mut draw = Draw(seed);
            let n = 1 + draw.below(60);
            let (sessions, keys) = (1 + draw.below(50), 1 + draw.below(8));
            let history = history(&mut draw, n, sessions, keys);
            let ops = &history.ops;
            let wrote = |key: i64| (0..n).filter(move |&t| ops[2 * t + 1].1 == key);
            let own = (0..n).filter(|&t| history.before[t] != NONE).map(|t| (history.before[t] as usize, t));
            let read = history.reads.iter().filter(|read| read.write != NONE);
            let steps = own.chain(read.map(|read| (read.write as usize / 2, read.op as usize / 2))).collect();
            let leads = closure(n, steps);
            // Writers that a reader has to have seen, and the writer of the version that it read, or `NONE`.
            let mut wanted: Vec<(u32, u32)> = Vec::new();
            for read in &history.reads {
                let (reader, to) = (read.op as usize / 2, if read.write == NONE { NONE } else { read.write / 2 });
                let seen = wrote(ops[read.op as usize].1).filter(|&from| leads[reader][from]);
                wanted.extend(seen.filter(|&from| from as u32 != to).map(|from| (from as u32, to)));
            }
            let is_kept = wanted.iter().all(|&(from, to)| to != NONE && from < to);
            let order: Vec<u32> = (0..n as u32).collect();
            let (by_clocks, by_key) = with(&history, |isolation| {
                let (causes, mut by_clocks, mut by_key) =
                    (Causes::new(isolation, &order, &order), Vec::new(), Vec::new());
                assert!(isolation.seen_causally(&causes, &mut by_clocks));
                let written = |read: Observed| if read.write == NONE { 0 } else { read.write / 2 + 1 };
                let spans = isolation.spans(&order);
                assert!(isolation.causes_by_key(&causes, &spans, &order, written, &mut by_key));
                (by_clocks, by_key)
            });
            assert_eq!((by_clocks.is_empty(), by_key.is_empty()), (is_kept, is_kept), "seed {seed}");
            if is_kept {
                kept += 1;
                continue;
            }
            broken += 1;
            assert!(by_clocks.iter().all(|edge| wanted.contains(&(edge.from, edge.to))), "seed {seed}");
            // The rest follows: the writer goes before one of its chain that is placed so, or the version's had to see it.
            for &(from, to) in &wanted {
                let follows = |edge: &&Derived| edge.from == from || leads[edge.from as usize][from as usize];
                let is_known = to != NONE && leads[to as usize][from as usize];
                assert!(
                    is_known || by_clocks.iter().filter(|edge| edge.to == to).any(|edge| follows(&edge)),
                    "seed {seed}"
                );
            }
        }
        assert!(kept > 40 && broken > 40, "{kept} kept, {broken} broken");
    }
}
