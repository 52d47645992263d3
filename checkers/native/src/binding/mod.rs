//! The border to Python: columns in, results out. No other room of the core knows Python.
//!
//! May use every other room.

mod attend;
mod build;
mod edn;
mod objects;
mod registers;
mod transactions;

pub use build::build_info;
pub use edn::{Edn, EdnEvents, read_edn};
pub use objects::{ObjectResult, check_model, check_objects};
pub use registers::{KeyResult, Proof, check_registers};
pub use transactions::{TransactionReport, WeakReport, check_list_append, check_rw_register, check_weak_isolation};
