//! The native core as a module of Python: columns in, results out. No other crate of the workspace knows Python.
//!
//! ```text
//! binding -> registers -> search -> limits
//!         -> transactions        -> limits
//!         -> edn
//! ```

mod attend;
mod build;
mod edn;
mod objects;
mod registers;
mod transactions;

use pyo3::prelude::*;

/// The native core: linearizability of registers and other objects, anomalies of transactions, and EDN.
#[pymodule(name = "_core")]
mod core {
    #[pymodule_export]
    use crate::build::build_info;
    #[pymodule_export]
    use crate::edn::{Edn, EdnEvents, read_edn};
    #[pymodule_export]
    use crate::objects::{ObjectResult, check_model, check_strings};
    #[pymodule_export]
    use crate::registers::{KeyResult, Proof, check_registers};
    #[pymodule_export]
    use crate::transactions::{
        TransactionReport, WeakReport, check_list_append, check_rw_register, check_weak_isolation, transaction_chances,
    };
}
