//! The native core of the checkers. Rooms, and what each may use (`tests/rooms.rs` holds it):
//!
//! ```text
//! binding/ -> registers/ objects/ -> search/ -> history/ limits/
//!          -> transactions/                  ->          limits/
//!          -> edn/
//! ```

mod binding;
pub mod edn;
pub mod history;
pub mod limits;
pub mod objects;
pub mod registers;
pub mod search;
pub mod transactions;

use pyo3::prelude::*;

/// The native core: linearizability of registers and other objects, anomalies of transactions, and EDN.
#[pymodule(name = "_core")]
mod core {
    #[pymodule_export]
    use crate::binding::{
        Edn, EdnEvents, KeyResult, ObjectResult, Proof, TransactionReport, WeakReport, build_info, check_list_append,
        check_model, check_objects, check_registers, check_rw_register, check_weak_isolation, read_edn,
    };
}
