//! Version and build profile of this module.

use std::collections::BTreeMap;

use pyo3::prelude::*;

/// Version and build profile of this module.
#[pyfunction]
pub fn build_info() -> BTreeMap<&'static str, &'static str> {
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    BTreeMap::from([("version", env!("CARGO_PKG_VERSION")), ("profile", profile)])
}
