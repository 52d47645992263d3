//! What may end the work: a budget of steps, memory or time, an interrupt, or a defect of the core itself.
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
