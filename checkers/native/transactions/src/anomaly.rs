//! Anomalies of transactions other than cycles, and the evidence for one edge of a cycle.

use super::graph::Kind;
use super::input::{Input, NONE, WRITE};
use super::weak::Level;

/// A finding about few rows. Which of the fields are set depends on the name; `NONE` where one is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// Such as `G1a` or `lost-update`.
    pub name: &'static str,
    /// The transactions concerned, the one that shows the anomaly first.
    pub transactions: [u32; 2],
    /// The micro-operations concerned: a read that shows it, then what it is compared with.
    pub ops: [u32; 2],
    /// Where it shows.
    pub key: u32,
    /// The value that shows it.
    pub value: i64,
}

impl Anomaly {
    pub(crate) fn new(name: &'static str, transactions: [u32; 2], ops: [u32; 2], key: usize, value: i64) -> Self {
        Self { name, transactions, ops, key: key as u32, value }
    }
}

/// Anomalies of one name that are told; the others are counted.
const SHOWN_MAX: usize = 10;
/// What leaves nothing to look for: no order of commits returns these.
const FORBIDDEN: [&str; 7] =
    ["garbage-read", "duplicate-elements", "G1a", "G1b", "dirty-update", "future-read", "incompatible-order"];

/// All anomalies of a history that are no cycles: the first ones of each name, and how many there are.
#[derive(Clone, Debug, Default)]
pub struct Anomalies {
    /// The first ten of each name.
    pub shown: Vec<Anomaly>,
    /// By name, in the order in which they were met.
    pub counts: Vec<(&'static str, usize)>,
    /// Whether some transaction did not read what it had written itself.
    pub miss_own: bool,
}

impl Anomalies {
    pub(crate) fn new(found: &[Anomaly], input: &Input<'_>, are_lists: bool) -> Self {
        let mut all = Self::default();
        for anomaly in found {
            let place = all.counts.iter().position(|&(name, _)| name == anomaly.name).unwrap_or_else(|| {
                all.counts.push((anomaly.name, 0));
                all.counts.len() - 1
            });
            let count = &mut all.counts[place].1;
            *count += 1;
            if *count <= SHOWN_MAX {
                all.shown.push(anomaly.clone());
            }
            all.miss_own = all.miss_own || (anomaly.name == "internal" && misses_own(anomaly, input, are_lists));
        }
        all
    }

    /// Whether no order of commits can explain the history at this level.
    pub(crate) fn forbid(&self, level: Level) -> bool {
        let repeats = matches!(level, Level::Atomic | Level::Causal);
        let is_forbidden = |name| FORBIDDEN.contains(&name) || (repeats && name == "internal");
        self.miss_own || self.counts.iter().any(|&(name, _)| is_forbidden(name))
    }
}

/// Whether a read that contradicts its transaction lacks what that had written before; a list ends with it.
fn misses_own(anomaly: &Anomaly, input: &Input<'_>, are_lists: bool) -> bool {
    let op = anomaly.ops[0] as usize;
    let before = input.ops(anomaly.transactions[0] as usize).start..op;
    let own: Vec<i64> =
        before.filter(|&m| input.kind[m] == WRITE && input.key[m] == input.key[op]).map(|m| input.value[m]).collect();
    !(own.is_empty() || are_lists && input.list(op).ends_with(&own))
}

/// One step of a cycle: `from` precedes `to`. For dependencies, what shows it: the micro-operations of `from` and of
/// `to`, and `shown_by`: the rows that order the two versions where the two alone do not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The transaction before.
    pub from: u32,
    /// The one after.
    pub to: u32,
    /// Why the one precedes the other.
    pub kind: Kind,
    /// A micro-operation of `from`, or `NONE`.
    pub from_op: u32,
    /// One of `to`, or `NONE`.
    pub to_op: u32,
    /// Micro-operations of any transactions, or `NONE`.
    pub shown_by: [u32; 2],
}

impl Step {
    pub(crate) fn new(from: u32, to: u32, kind: Kind) -> Self {
        Self { from, to, kind, from_op: NONE, to_op: NONE, shown_by: [NONE; 2] }
    }
}
