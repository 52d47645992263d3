//! Find a serial order of transactions on registers that keeps real time, or a schedule of starts and commits.
//!
//! The search follows real time, or the part of it that the model requires. It places a transaction as late as
//! possible: at the latest at its completion. Values are unique, so a version is never overwritten while somebody must
//! still read it. What the keys hold, as far as later reads matter, therefore depends only on the set of transactions
//! placed, and a set that led nowhere is not tried again. Transactions whose writes nobody reads come as early as
//! possible.
//!
//! Two versions of a key are ordered in advance if a transaction that met the first was completed before one that met
//! the second was invoked: the first is written, and read by all its readers, before the second is written.
//!
//! Snapshot isolation works in the same way, with two nodes for each transaction: a start that reads and a commit that
//! writes. No two writers of a key may be started at the same time, because the first commit would forbid the other.
//!
//! There are no more open transactions than clients, so valid histories need few attempts (Lowe, "Testing for
//! Linearizability", 2017). The problem is NP-hard (Papadimitriou 1979): it gives up after a number of placements.

use std::collections::HashSet;

use super::groups::Groups;
use super::input::{Input, NONE};
use super::placed::{Event, Placed, events};
use super::registers::Registers;
use super::times::Times;
use limits::interrupt;

/// Placements before the order is given up, beside one of each transaction: as a multiple of the transactions, and of at
/// least so many of them; and where it is first looked whether an order is easily found.
const TRIES: usize = 16;
const TRIES_LEAST: usize = 1_000_000;
const TRIES_EASY: usize = 20_000;
/// Open nodes looked at that cost as much as one placement: no matter where few are open at a time.
const LOOKS_PER_PLACEMENT: u64 = 512;

/// What the search for an order came to.
pub enum Serial {
    Order(Vec<u32>),
    /// Every order was tried that could explain the reads.
    Impossible,
    GivenUp,
}

impl Serial {
    pub fn order(self) -> Option<Vec<u32>> {
        match self {
            Self::Order(order) => Some(order),
            Self::Impossible | Self::GivenUp => None,
        }
    }
}

/// Where one of several transactions can be placed next.
struct Choice {
    event: usize,
    done: usize,
    candidates: Vec<u32>,
    next: usize,
    /// All are among the candidates that could make a difference, and not only those that have to be placed anyway.
    whole: bool,
}

/// What is taken back in reverse.
#[derive(Clone, Copy)]
enum Done {
    Invoked(u32),
    Placed(u32),
    /// A key held a version before.
    Held {
        key: u32,
        version: u32,
    },
    /// Nobody has to read a version any more.
    Closed(u32),
}

/// A key and one of its versions.
#[derive(Clone, Copy, Default)]
pub struct Version {
    pub(super) key: u32,
    pub(super) version: u32,
}

/// Nodes are transactions, or starts and commits.
pub struct Search<'a> {
    registers: &'a Registers<'a>,
    pub(super) placed: Placed,
    /// Per transaction: the one that it has to follow.
    pub(super) follows: &'a [u32],
    /// Per node: what it reads of others, and what it leaves.
    pub(super) reads: Groups<Version>,
    pub(super) writes: Groups<Version>,
    /// Per version: the nodes that read it; the first completion and the last invocation of all who met it.
    pub(super) readers: Groups<u32>,
    pub(super) first_end: Vec<i64>,
    pub(super) last_begin: Vec<i64>,
    /// Per node: whether it may hinder others, since they read what it writes, or for a start, since it is to write; the first
    /// completion that it has to precede.
    hinders: Vec<bool>,
    pub(super) due: Vec<i64>,
    events: Vec<Event>,

    pub(super) is_invoked: Vec<bool>,
    pub(super) is_placed: Vec<bool>,
    /// Invoked and not placed.
    pub(super) open: Vec<u32>,
    order: Vec<u32>,
    pub(super) held: Vec<u32>,
    /// Per key: the transaction that is started, not committed, and writes it.
    pub(super) writing: Vec<u32>,
    /// Per version: reads of it that are not placed.
    pub(super) unread: Vec<u32>,
    /// Per key, in the order of first completions: versions that are yet to be written or to be read. The last rows of
    /// `after` and `before`, one per key, stand for both ends.
    pub(super) after: Vec<u32>,
    before: Vec<u32>,
    done: Vec<Done>,
    /// The set of transactions placed, in a number; and sets with the event that they were met at.
    pub(super) placed_set: u64,
    pub(super) tried: HashSet<u64>,
    placements: usize,
    /// Open nodes looked at since the budget was charged last.
    pub(super) looked_at: u64,
    pub(super) marks: Vec<u32>,
    pub(super) mark: u32,
}

/// Look for an order that keeps `times`, of all transactions that happened; `before`: per transaction the one that it has to
/// follow, or `NONE`, or no row at all; `easy`: only where little has to be taken back.
pub fn search(
    input: &Input<'_>,
    registers: &Registers<'_>,
    times: &Times,
    before: &[u32],
    placed: Placed,
    easy: bool,
) -> Serial {
    let mut search = Search::new(input, registers, times, before, placed);
    let tries = if easy { TRIES_EASY } else { (TRIES * input.len()).max(TRIES_LEAST) };
    let placements_max = search.is_placed.len() + tries;
    let mut choices: Vec<Choice> = Vec::new();
    let mut event = 0;
    let mut left = (placements_max + 1) as u64;
    loop {
        let placements = search.placements;
        event = search.advance(event);
        let Some(&Event { t, .. }) = search.events.get(event) else { return Serial::Order(search.order) };
        let candidates = search.candidates(t, event);
        choices.push(Choice { event, done: search.done.len(), candidates, next: 0, whole: false });
        loop {
            let Some(choice) = choices.last_mut() else { return Serial::Impossible };
            event = choice.event;
            search.take_back(choice.done);
            if let Some(&candidate) = choice.candidates.get(choice.next) {
                choice.next += 1;
                search.place(candidate);
                break;
            }
            if std::mem::replace(&mut choice.whole, true) || choice.candidates.is_empty() {
                choices.pop();
            } else {
                let others = search.others(search.events[event].t, &choice.candidates);
                choice.candidates.extend(others);
            }
        }
        let looked_at = std::mem::take(&mut search.looked_at) / LOOKS_PER_PLACEMENT;
        left = interrupt::spend(left, (search.placements - placements) as u64 + looked_at);
        if left == 0 {
            return Serial::GivenUp;
        }
    }
}

impl<'a> Search<'a> {
    fn new(
        input: &'a Input<'a>,
        registers: &'a Registers<'a>,
        times: &Times,
        follows: &'a [u32],
        placed: Placed,
    ) -> Self {
        let n = input.len();
        let nodes = placed.begin(n as u32) as usize;
        let (keys, versions) = (input.keys(), input.kind.len() + input.keys());
        let happened = |t: u32| registers.happened[t as usize];
        let key = |version: u32| registers.key_of(version) as u32;
        let external = || registers.external().map(|(t, version)| (placed.begin(t), version));
        let reads =
            Groups::new(nodes, external().map(|(node, version)| (node, Version { key: key(version), version })));
        let readers = Groups::new(versions, external().map(|(node, version)| (version, node)));
        let left = (0..n as u32)
            .filter(|&t| happened(t))
            .flat_map(|t| input.ops(t as usize).map(move |m| (t, m)))
            .filter(|&(_, m)| registers.leaves(m));
        let writes = Groups::new(
            nodes,
            left.map(|(t, m)| (placed.end(t), Version { key: input.key[m] as u32, version: m as u32 })),
        );
        let mut first_end = vec![i64::MAX; versions];
        let mut last_begin = vec![i64::MIN; versions];
        for t in (0..n as u32).filter(|&t| happened(t)) {
            let (begin, end) = (times.begin[t as usize], times.end[t as usize]);
            for met in reads.of(placed.begin(t)).iter().chain(writes.of(placed.end(t))) {
                let version = met.version as usize;
                last_begin[version] = last_begin[version].max(begin);
                first_end[version] = first_end[version].min(end);
            }
        }
        let of_nodes = || (0..nodes as u32).map(|node| (node, writes.of(placed.end(placed.transaction(node)))));
        let hinders = of_nodes()
            .map(|(node, wrote)| {
                wrote.iter().any(|wrote| placed.is_start(node) || !readers.of(wrote.version).is_empty())
            })
            .collect();
        let due = of_nodes()
            .map(|(node, wrote)| {
                let own = times.end[placed.transaction(node) as usize];
                wrote.iter().map(|wrote| first_end[wrote.version as usize]).fold(own, i64::min)
            })
            .collect();
        let mut search = Self {
            registers,
            placed,
            hinders,
            due,
            follows,
            events: events(times, &registers.happened, placed),
            is_invoked: vec![false; nodes],
            is_placed: vec![false; nodes],
            open: Vec::new(),
            order: Vec::with_capacity(nodes),
            held: (0..keys).map(|key| (input.kind.len() + key) as u32).collect(),
            writing: vec![NONE; keys],
            unread: (0..versions as u32).map(|version| readers.of(version).len() as u32).collect(),
            after: vec![NONE; versions + keys],
            before: vec![NONE; versions + keys],
            done: Vec::with_capacity(4 * nodes),
            placed_set: 0,
            tried: HashSet::new(),
            placements: 0,
            looked_at: 0,
            marks: vec![0; nodes],
            mark: 0,
            reads,
            writes,
            readers,
            first_end,
            last_begin,
        };
        search.line_up(keys);
        search
    }

    /// Every version that happened into the row of its key.
    fn line_up(&mut self, keys: usize) {
        let ends = self.after.len() - keys;
        let mut last: Vec<u32> = (0..keys).map(|key| (ends + key) as u32).collect();
        let mut is_in = vec![false; ends];
        let mut rows = Vec::new();
        for event in self.events.iter().filter(|event| event.is_end) {
            let start = self.placed.begin(self.placed.transaction(event.t));
            rows.extend(self.writes.of(event.t).iter().chain(self.reads.of(start)).copied());
        }
        // Of unknown outcome, and read by nobody.
        rows.extend(self.writes.rows.iter().copied());
        for Version { key, version } in rows {
            let is_write = self.registers.is_write(version);
            if is_write && !std::mem::replace(&mut is_in[version as usize], true) {
                let previous = std::mem::replace(&mut last[key as usize], version);
                self.after[previous as usize] = version;
                self.before[version as usize] = previous;
            }
        }
        for (key, &last) in last.iter().enumerate() {
            self.after[last as usize] = (ends + key) as u32;
            self.before[ends + key] = last;
        }
    }

    /// Go on to the next completion of a transaction that is not placed, or to the end.
    fn advance(&mut self, mut event: usize) -> usize {
        while let Some(&Event { t, is_end }) = self.events.get(event) {
            if !is_end {
                self.is_invoked[t as usize] = true;
                self.open.push(t);
                self.done.push(Done::Invoked(t));
                if !self.hinders[t as usize] && self.may_follow(t) {
                    self.place(t);
                }
            } else if !self.is_placed[t as usize] {
                return event;
            }
            event += 1;
        }
        event
    }

    /// The keys that a transaction writes are its own from its start to its commit.
    fn write(&mut self, node: u32, is_begun: bool) {
        if self.placed == Placed::StartsAndCommits {
            let t = self.placed.transaction(node);
            for at in 0..self.writes.of(self.placed.end(t)).len() {
                let key = self.writes.of(self.placed.end(t))[at].key;
                self.writing[key as usize] = if is_begun == self.placed.is_start(node) { t } else { NONE };
            }
        }
    }

    pub(super) fn writer(&self, version: u32) -> u32 {
        self.placed.end(self.registers.writer(version))
    }

    pub(super) fn end(&self, key: u32) -> u32 {
        (self.after.len() - self.held.len()) as u32 + key
    }

    fn place(&mut self, t: u32) {
        let mut waiting = vec![t];
        while let Some(t) = waiting.pop() {
            self.place_one(t);
            self.looked_at += self.open.len() as u64;
            for at in 0..self.open.len() {
                let other = self.open[at];
                if !self.hinders[other as usize] && self.may_follow(other) {
                    waiting.push(other);
                    break;
                }
            }
        }
    }

    fn place_one(&mut self, t: u32) {
        self.placements += 1;
        self.is_placed[t as usize] = true;
        self.placed_set ^= number(u64::from(t));
        self.order.push(t);
        self.done.push(Done::Placed(t));
        self.write(t, true);
        if let Some(at) = self.open.iter().position(|&other| other == t) {
            self.open.swap_remove(at);
        }
        for at in 0..self.reads.of(t).len() {
            let read = self.reads.of(t)[at];
            self.unread[read.version as usize] -= 1;
            if self.unread[read.version as usize] == 0 && self.registers.is_write(read.version) {
                self.close(read.version);
            }
        }
        for at in 0..self.writes.of(t).len() {
            let Version { key, version } = self.writes.of(t)[at];
            self.done.push(Done::Held { key, version: self.held[key as usize] });
            self.held[key as usize] = version;
            if self.unread[version as usize] == 0 {
                self.close(version);
            }
        }
    }

    fn close(&mut self, version: u32) {
        let (before, after) = (self.before[version as usize], self.after[version as usize]);
        self.after[before as usize] = after;
        self.before[after as usize] = before;
        self.done.push(Done::Closed(version));
    }

    fn take_back(&mut self, done: usize) {
        while self.done.len() > done {
            match self.done.pop() {
                Some(Done::Invoked(t)) => {
                    self.is_invoked[t as usize] = false;
                    self.open.retain(|&other| other != t);
                }
                Some(Done::Placed(t)) => {
                    for at in 0..self.reads.of(t).len() {
                        self.unread[self.reads.of(t)[at].version as usize] += 1;
                    }
                    self.write(t, false);
                    self.is_placed[t as usize] = false;
                    self.placed_set ^= number(u64::from(t));
                    self.order.pop();
                    self.open.push(t);
                }
                Some(Done::Held { key, version }) => self.held[key as usize] = version,
                Some(Done::Closed(version)) => {
                    let (before, after) = (self.before[version as usize], self.after[version as usize]);
                    self.after[before as usize] = version;
                    self.before[after as usize] = version;
                }
                None => return,
            }
        }
    }
}

/// A number that looks like chance (splitmix64).
pub(super) fn number(of: u64) -> u64 {
    let mut mixed = of.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
