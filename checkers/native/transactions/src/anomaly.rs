//! Anomalies of transactions other than cycles, and the evidence for one edge of a cycle.

use super::graph::Kind;
use super::input::NONE;

/// A finding about few rows. Which of the fields are set depends on the name; `NONE` where one is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    pub name: &'static str,
    /// The transactions concerned, the one that shows the anomaly first.
    pub transactions: [u32; 2],
    /// The micro-operations concerned: a read that shows it, then what it is compared with.
    pub ops: [u32; 2],
    pub key: u32,
    pub value: i64,
}

impl Anomaly {
    pub fn new(name: &'static str, transactions: [u32; 2], ops: [u32; 2], key: usize, value: i64) -> Self {
        Self { name, transactions, ops, key: key as u32, value }
    }
}

/// One step of a cycle: `from` precedes `to`. For dependencies, what shows it: the micro-operations of `from` and of
/// `to`, and `shown_by`: the rows that order the two versions where the two alone do not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub from: u32,
    pub to: u32,
    pub kind: Kind,
    pub from_op: u32,
    pub to_op: u32,
    pub shown_by: [u32; 2],
}

impl Step {
    pub fn new(from: u32, to: u32, kind: Kind) -> Self {
        Self { from, to, kind, from_op: NONE, to_op: NONE, shown_by: [NONE; 2] }
    }
}
