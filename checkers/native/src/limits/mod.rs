//! Everything that may end the work early: a budget of steps, memory or time, an interrupt, or a defect of the core.
//!
//! Uses no other room.

mod budget;
mod defect;
pub(crate) mod growth;
pub(crate) mod interrupt;
mod stop;

pub use budget::Limits;
pub use defect::{Defect, catch};
pub use interrupt::Deadline;
pub use stop::Stop;
