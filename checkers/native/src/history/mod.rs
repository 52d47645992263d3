//! One object's operations as integers: rows of columns, split by key, in the order of invocation and of return.
//!
//! Uses no other room.

mod operation;
mod returns;
mod rows;

pub use operation::{Function, NEVER, Op, Ops};
pub use returns::Returns;
pub use rows::Rows;
