//! A serial order of transactions on registers that keeps real time, or a schedule of starts and commits, found just in time.
//!
//! Real time, or as much of it as is asked for, is walked through; a transaction is placed when it has to be: at its completion
//! at the latest. Since values are unique, a version is never overwritten while somebody has yet to read it; so what keys
//! hold, as far as anybody will look, follows from the set of transactions placed, and a set that led nowhere is not
//! tried again. Whoever writes nothing that others read is placed as soon as it may be: that never hinders anybody.
//!
//! Two versions of a key are told apart ahead of time: if somebody who met the one was completed before somebody who met
//! the other was invoked, the one is to be written, and read by all who read it, before the other is written.
//!
//! Snapshot isolation is the same with two nodes for each transaction, a start that reads and a commit that writes, and with
//! no two writers of a key started at a time (the first to commit would forbid the other).
//!
//! The open transactions at a time are no more than the clients, so what is tried stays small where histories are valid
//! (Lowe, "Testing for Linearizability", 2017, for single operations). The problem is NP-hard (Papadimitriou 1979): after
//! a number of placements it is given up.

use std::collections::HashSet;

use super::groups::Groups;
use super::input::{Input, NONE};
use super::registers::Registers;
use super::times::Times;
use crate::limits::interrupt;

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

/// What is placed whole.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    Transactions,
    /// Twice the transaction for its start, and one more for its commit.
    StartsAndCommits,
}

impl Placed {
    /// The node that reads, of a transaction.
    fn begin(self, t: u32) -> u32 {
        if self == Self::Transactions { t } else { 2 * t }
    }

    /// The node that writes.
    fn end(self, t: u32) -> u32 {
        if self == Self::Transactions { t } else { 2 * t + 1 }
    }

    fn transaction(self, node: u32) -> u32 {
        if self == Self::Transactions { node } else { node / 2 }
    }

    /// Whether a node is a start alone.
    fn is_start(self, node: u32) -> bool {
        self == Self::StartsAndCommits && node % 2 == 0
    }
}

impl Serial {
    pub fn order(self) -> Option<Vec<u32>> {
        match self {
            Self::Order(order) => Some(order),
            Self::Impossible | Self::GivenUp => None,
        }
    }
}

/// A node that may be placed from now on, or has to be placed by now.
#[derive(Clone, Copy)]
struct Event {
    t: u32,
    is_end: bool,
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
struct Version {
    key: u32,
    version: u32,
}

/// Nodes are transactions, or starts and commits.
struct Search<'a> {
    registers: &'a Registers<'a>,
    placed: Placed,
    /// Per transaction: the one that it has to follow.
    follows: &'a [u32],
    /// Per node: what it reads of others, and what it leaves.
    reads: Groups<Version>,
    writes: Groups<Version>,
    /// Per version: the nodes that read it; the first completion and the last invocation of all who met it.
    readers: Groups<u32>,
    first_end: Vec<i64>,
    last_begin: Vec<i64>,
    /// Per node: whether it may hinder others, since they read what it writes, or for a start, since it is to write; the first
    /// completion that it has to precede.
    hinders: Vec<bool>,
    due: Vec<i64>,
    events: Vec<Event>,

    is_invoked: Vec<bool>,
    is_placed: Vec<bool>,
    /// Invoked and not placed.
    open: Vec<u32>,
    order: Vec<u32>,
    held: Vec<u32>,
    /// Per key: the transaction that is started, not committed, and writes it.
    writing: Vec<u32>,
    /// Per version: reads of it that are not placed.
    unread: Vec<u32>,
    /// Per key, in the order of first completions: versions that are yet to be written or to be read. The last rows of
    /// `after` and `before`, one per key, stand for both ends.
    after: Vec<u32>,
    before: Vec<u32>,
    done: Vec<Done>,
    /// The set of transactions placed, in a number; and sets with the event that they were met at.
    placed_set: u64,
    tried: HashSet<u64>,
    placements: usize,
    /// Open nodes looked at since the budget was charged last.
    looked_at: u64,
    marks: Vec<u32>,
    mark: u32,
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

/// Beginnings and ends in order; what begins at the time of an end does not follow it.
fn events(times: &Times, happened: &[bool], placed: Placed) -> Vec<Event> {
    let begun = times.by_begin(happened);
    let mut ends: Vec<(i64, u32)> =
        begun.iter().map(|&t| (times.end[t as usize], t)).filter(|&(end, _)| end != i64::MAX).collect();
    ends.sort_unstable();
    let mut ended = ends.iter().peekable();
    let mut events = Vec::with_capacity(begun.len() + ends.len());
    for &t in &begun {
        while let Some(&(_, before)) = ended.next_if(|&&(end, _)| end < times.begin[t as usize]) {
            events.push(Event { t: placed.end(before), is_end: true });
        }
        events.push(Event { t: placed.begin(t), is_end: false });
        if placed == Placed::StartsAndCommits {
            events.push(Event { t: placed.end(t), is_end: false });
        }
    }
    events.extend(ended.map(|&(_, t)| Event { t: placed.end(t), is_end: true }));
    events
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

    /// Whether a transaction, placed next, reads what it read and overwrites nothing that others have yet to read.
    fn may_follow(&self, t: u32) -> bool {
        let reads = self.reads.of(t);
        self.in_turn(t)
            && reads.iter().all(|read| self.held[read.key as usize] == read.version)
            && self.writes.of(t).iter().all(|wrote| {
                let held = self.held[wrote.key as usize];
                let own = reads.iter().any(|read| read.key == wrote.key);
                self.unread[held as usize] <= u32::from(own) && self.earlier(wrote, t).is_none()
            })
    }

    /// The node of another transaction that one has to follow.
    fn followed(&self, node: u32) -> Option<u32> {
        let t = self.placed.transaction(node);
        let before = *self.follows.get(t as usize)?;
        (before != NONE && node == self.placed.begin(t)).then(|| self.placed.end(before))
    }

    /// Whether a node follows what it has to, a commit its start, and no writer of the same key is started.
    fn in_turn(&self, node: u32) -> bool {
        if self.followed(node).is_some_and(|before| !self.is_placed[before as usize]) {
            return false;
        }
        if self.placed == Placed::Transactions {
            return true;
        }
        if !self.placed.is_start(node) {
            return self.is_placed[node as usize - 1];
        }
        self.writes.of(node + 1).iter().all(|wrote| self.writing[wrote.key as usize] == NONE)
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

    fn writer(&self, version: u32) -> u32 {
        self.placed.end(self.registers.writer(version))
    }

    /// A version that has to be written, and read by all but `t`, before another of its key is written; the first of them.
    fn earlier(&self, wrote: &Version, t: u32) -> Option<u32> {
        let begin = self.last_begin[wrote.version as usize];
        let end = self.end(wrote.key);
        let mut version = self.after[end as usize];
        while version != end && self.first_end[version as usize] < begin {
            let is_own = version == wrote.version || self.left_to(version, t);
            if !is_own {
                return Some(version);
            }
            version = self.after[version as usize];
        }
        None
    }

    /// Whether a version is written, and only `t` has yet to read it.
    fn left_to(&self, version: u32, t: u32) -> bool {
        self.is_placed[self.writer(version) as usize]
            && self.unread[version as usize] == 1
            && self.reads.of(t).iter().any(|read| read.version == version)
    }

    fn end(&self, key: u32) -> u32 {
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

    /// Which transactions may be placed next so that `t` is placed before the event; none where that leads nowhere.
    fn candidates(&mut self, t: u32, event: usize) -> Vec<u32> {
        if !self.tried.insert(self.placed_set ^ number(!(event as u64))) {
            return Vec::new();
        }
        let needed = self.needed(t).unwrap_or_default();
        self.first_due(needed)
    }

    /// Those of some nodes that may follow, the first due first.
    fn first_due(&self, mut nodes: Vec<u32>) -> Vec<u32> {
        nodes.retain(|&node| self.may_follow(node));
        nodes.sort_unstable_by_key(|&node| (self.due[node as usize], node));
        nodes
    }

    /// What else may be placed first so that `t` is placed: who writes a key that one of those writes which have to be placed
    /// before `t`, and whatever has to be placed before that. Everybody else can as well come after `t`.
    fn others(&mut self, t: u32, known: &[u32]) -> Vec<u32> {
        let mut found = self.needed(t).unwrap_or_default();
        let mut next = 0;
        while next < found.len() {
            let keys: Vec<u32> = self.written(found[next]).iter().map(|wrote| wrote.key).collect();
            next += 1;
            self.looked_at += self.open.len() as u64;
            for at in 0..self.open.len() {
                let other = self.open[at];
                let shares = self.written(other).iter().any(|wrote| keys.contains(&wrote.key));
                if !shares || found.contains(&other) {
                    continue;
                }
                // Who has to follow `t` cannot come first.
                let needed = self.needed(other).filter(|needed| !needed.contains(&t)).unwrap_or_default();
                for node in needed {
                    if !found.contains(&node) {
                        found.push(node);
                    }
                }
            }
        }
        found.retain(|node| !known.contains(node));
        self.first_due(found)
    }

    /// What a node's transaction leaves.
    fn written(&self, node: u32) -> &[Version] {
        self.writes.of(self.placed.end(self.placed.transaction(node)))
    }

    /// The transactions that have to be placed before `t`, and itself; None where one of them cannot be.
    fn needed(&mut self, t: u32) -> Option<Vec<u32>> {
        self.mark += 1;
        self.marks[t as usize] = self.mark;
        let mut needed = vec![t];
        let mut next = 0;
        while next < needed.len() {
            let by = needed[next];
            let mut circular = false;
            let mut need = |search: &mut Self, other: u32| {
                circular |= other == t || !search.is_invoked[other as usize];
                if std::mem::replace(&mut search.marks[other as usize], search.mark) != search.mark {
                    needed.push(other);
                }
            };
            if let Some(before) = self.followed(by).filter(|&before| !self.is_placed[before as usize]) {
                need(self, before);
            }
            if self.placed.is_start(by) {
                for at in 0..self.writes.of(by + 1).len() {
                    let other = self.writing[self.writes.of(by + 1)[at].key as usize];
                    if other != NONE {
                        need(self, self.placed.end(other));
                    }
                }
            } else if self.placed == Placed::StartsAndCommits && !self.is_placed[by as usize - 1] {
                need(self, by - 1);
            }
            for at in 0..self.reads.of(by).len() {
                let read = self.reads.of(by)[at];
                if self.held[read.key as usize] != read.version {
                    need(self, self.writer(read.version));
                }
            }
            for at in 0..self.writes.of(by).len() {
                let wrote = self.writes.of(by)[at];
                let held = self.held[wrote.key as usize];
                self.need_readers(held, by, &mut need);
                let (begin, end) = (self.last_begin[wrote.version as usize], self.end(wrote.key));
                let mut version = self.after[end as usize];
                while version != end && self.first_end[version as usize] < begin {
                    if version != wrote.version {
                        let writer = self.writer(version);
                        if !self.is_placed[writer as usize] {
                            need(self, writer);
                        }
                        self.need_readers(version, by, &mut need);
                    }
                    version = self.after[version as usize];
                }
            }
            if circular {
                return None;
            }
            next += 1;
        }
        self.looked_at += needed.len() as u64;
        Some(needed)
    }

    /// All who have yet to read a version, but for one.
    fn need_readers(&mut self, version: u32, but: u32, need: &mut impl FnMut(&mut Self, u32)) {
        if self.unread[version as usize] == 0 {
            return;
        }
        for at in 0..self.readers.of(version).len() {
            let reader = self.readers.of(version)[at];
            if reader != but && !self.is_placed[reader as usize] {
                need(self, reader);
            }
        }
    }
}

/// A number that looks like chance (splitmix64).
fn number(of: u64) -> u64 {
    let mut mixed = of.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
