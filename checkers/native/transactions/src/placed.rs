//! The items of a serial order or a schedule: transactions, or starts and commits, each with the time at which it may
//! be placed.

use super::times::Times;

/// What is placed whole.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    Transactions,
    /// Twice the transaction for its start, and one more for its commit.
    StartsAndCommits,
}

impl Placed {
    /// The node that reads, of a transaction.
    pub fn begin(self, t: u32) -> u32 {
        if self == Self::Transactions { t } else { 2 * t }
    }

    /// The node that writes.
    pub fn end(self, t: u32) -> u32 {
        if self == Self::Transactions { t } else { 2 * t + 1 }
    }

    pub fn transaction(self, node: u32) -> u32 {
        if self == Self::Transactions { node } else { node / 2 }
    }

    /// Whether a node is a start alone.
    pub fn is_start(self, node: u32) -> bool {
        self == Self::StartsAndCommits && node % 2 == 0
    }
}

/// A node that may be placed from now on, or has to be placed by now.
#[derive(Clone, Copy)]
pub struct Event {
    pub t: u32,
    pub is_end: bool,
}

/// Beginnings and ends in order; what begins at the time of an end does not follow it.
pub fn events(times: &Times, happened: &[bool], placed: Placed) -> Vec<Event> {
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
