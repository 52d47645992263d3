//! Histories of other tools in EDN: bytes in, columns of events out.
//!
//! Uses no other room.

mod events;
mod reader;

pub use events::{Events, read_events};
pub use reader::{Fault, Form};
