//! The search for an order of one object's operations, for any object: a model says what each operation does.
//!
//! `attempts` decides, with ever wider walks (`walk`) and with proofs from windows (`bracket`). Code that shares
//! nothing with these checks every answer: `replay` an order, `window` and `closure` a refutation. `minimal` makes a
//! proof small.
//!
//! Uses history/ and limits/.

mod attempts;
mod bits;
mod bracket;
mod checkpoints;
pub(crate) mod closure;
mod configs;
mod events;
mod expansion;
mod groups;
pub(crate) mod minimal;
mod mix;
mod model;
mod pending;
pub(crate) mod replay;
mod spent;
mod trace;
mod walk;
pub(crate) mod window;

pub use attempts::{Dry, Finding, judge};
pub use model::{CasRegister, Model};
