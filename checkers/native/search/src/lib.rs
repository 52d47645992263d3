//! The search for an order of one object's operations, for any object: a model says what each operation does.
//!
//! `attempts` decides, depth first (`depth`) where no register is judged, then with ever wider walks (`walk`) and with
//! proofs from windows (`bracket`). Code that shares nothing with these checks every answer: `replay` an order, `window`
//! and `closure` a refutation. `minimal` makes a proof small.
//!
//! `history` holds the operations, as integers; `objects` are models whose states are numbered as they are met.

mod attempts;
mod bits;
mod bracket;
mod checkpoints;
pub mod closure;
mod configs;
mod depth;
mod events;
mod expansion;
mod groups;
pub mod history;
pub mod minimal;
mod mix;
mod model;
pub mod objects;
mod pending;
pub mod replay;
mod spent;
mod trace;
mod walk;
pub mod window;

pub use attempts::{Dry, Finding, judge};
pub use model::{CasRegister, Model};
