//! Histories of other tools in EDN: bytes in, columns of events out.
//!
//! From bytes to events: `source` (bytes, each with its place), `token` (the text of one name or number), `reader`
//! (forms), `events` (operations).
//!
//! Uses no other room.

mod events;
mod form;
mod reader;
mod source;
mod token;

pub use events::{Events, read_events};
pub use form::Form;
pub use source::Fault;
