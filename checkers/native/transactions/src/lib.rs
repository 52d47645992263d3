//! Transactions on lists and on registers: the anomalies that a history shows, or an order that explains all of it.
//!
//! `judge` runs the steps: rows (`input`) become dependencies (`lists`, `registers`), dependencies become a `graph`,
//! and its `cycles` are anomalies. If there are none, the search for an order begins (`serial`, `greedy`; `snapshot`
//! and `weak` for weaker models), and `replay` carries the order out again.

//!
//! Values are unique: no value is written to one key twice. So a read shows which transaction wrote what it returned.
//! Nothing here knows of Python or of fencepost.
//!
//! ```
//! use fencepost_transactions::{Input, Kept, check_lists};
//!
//! // T0 appends 1 to key 0; T1 reads [1] from it.
//! let input = Input {
//!     process: &[0, 1],
//!     outcome: &[0, 0],
//!     invoked: &[0, 2],
//!     completed: &[1, 3],
//!     first: &[0, 1, 2],
//!     kind: &[0, 1],
//!     key: &[0, 0],
//!     value: &[1, 0],
//!     start: &[0, 0, 1],
//!     elements: &[1],
//! };
//! let report = check_lists(&input, Kept::Realtime, true, 1_000_000).expect("the columns are sound");
//! assert_eq!(report.order, Some(vec![0, 1]));
//! ```

#![warn(missing_docs)]

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
