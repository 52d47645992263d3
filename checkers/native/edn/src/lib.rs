//! Histories of other tools in EDN: bytes in, columns of events out.
//!
//! The steps are `source` (bytes with line and column), `token` (the text of one name or number), `reader` (forms) and
//! `events` (operations).

mod events;
mod form;
mod reader;
mod source;
mod token;

pub use events::{Events, read_events};
pub use form::Form;
pub use source::{Fault, Notation};
