//! Transactions on lists and on registers: the anomalies that a history shows, or an order that explains all of it.
//!
//! `judge` runs the steps: rows (`input`) become dependencies (`lists`, `registers`), dependencies become a `graph`,
//! and its `cycles` are anomalies. If there are none, the search for an order begins (`serial`, `greedy`; `snapshot`
//! and `weak` for weaker models), and `replay` carries the order out again.

mod anomaly;
mod candidates;
mod causality;
mod chances;
mod commit_order;
mod cycle_classes;
mod cycles;
mod graph;
mod greedy;
mod groups;
mod input;
mod judge;
mod list_dependencies;
mod lists;
mod placed;
mod plain_cycles;
mod realtime;
mod realtime_cycles;
mod registers;
mod replay;
mod saturation;
mod serial;
mod snapshot;
mod snapshot_lists;
mod times;
mod version_order;
mod weak;

pub use anomaly::{Anomalies, Anomaly, Step};
pub use chances::{Chances, chances};
pub use cycles::Cycle;
pub use graph::Kind;
pub use input::{Input, Kept, NONE};
pub use judge::{Asked, Failure, Report, WeakReport, check_lists, check_registers, check_weak};
pub use registers::Assumed;
pub use weak::{Level, Weak, WeakStep};
