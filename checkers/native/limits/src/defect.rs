//! A defect of this core, found by its own checks or as a panic. It says nothing about the history.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A defect of the core, with a description.
#[derive(Debug)]
pub struct Defect(pub String);

impl Defect {
    pub fn of_panic(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Self(format!("the search panicked: {}", text.unwrap_or("without a message")))
    }
}

/// Do `work`, and turn a panic into a defect. Values that `work` was changing must not be used afterwards.
pub fn catch<T>(work: impl FnOnce() -> T) -> Result<T, Defect> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| Defect::of_panic(&*panic))
}
