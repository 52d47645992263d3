//! The operations of one object as integers: rows of columns, split by key, ordered by invocation and by return.

mod operation;
mod returns;
mod rows;

pub use operation::{Function, NEVER, Op, Ops};
pub use returns::Returns;
pub use rows::Rows;
