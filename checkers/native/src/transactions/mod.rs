//! Transactions on lists and on registers: the anomalies that a history shows, or an order that explains all of it.
//!
//! `judge` is the way through: rows of `input` become dependencies (`lists`, `registers`), these a `graph`, and its
//! `cycles` are the anomalies. Where there is none, an order is looked for (`serial`, `greedy`, `snapshot`, `weak`) and
//! carried out again (`replay`). `parts` does the first half for some keys at a time.
//!
//! Uses limits/.

mod anomaly;
mod commit_order;
mod cycles;
mod graph;
mod greedy;
mod groups;
mod input;
mod judge;
mod lists;
pub(crate) mod parts;
mod realtime;
mod registers;
mod replay;
mod saturation;
mod serial;
mod snapshot;
mod snapshot_lists;
mod times;
mod weak;

pub use anomaly::{Anomaly, Step};
pub use cycles::Cycle;
pub use graph::{Kind, kind_of};
pub use input::{Input, NONE};
pub use judge::{Asked, Refused, Report, check_lists, check_registers, check_weak};
pub use registers::Assumed;
pub use snapshot::Kept;
pub use weak::{Level, Weak, WeakStep};
