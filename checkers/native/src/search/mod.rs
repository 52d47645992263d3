//! The search for an order of one object's operations, whatever the object: a model says what each operation does.
//!
//! `judge` decides (`attempts`), with ever wider walks (`walk`) and proofs from windows (`bracket`). What it says is
//! checked by means that share nothing with it: an order by `replay`, a refutation by `window` and `closure`; `minimal`
//! makes a proof small.
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
