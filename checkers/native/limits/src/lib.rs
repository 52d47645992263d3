//! Everything that may end the work early: a budget of steps, memory or time, an interrupt, or a defect of the core.

mod budget;
mod defect;
pub mod growth;
pub mod interrupt;
mod stop;

pub use budget::Limits;
pub use defect::{Defect, catch};
pub use interrupt::Deadline;
pub use stop::Stop;
