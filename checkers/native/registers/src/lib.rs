//! Registers, many keys under one budget: cheap methods that work only for registers, and then the general search.
//!
//! `keys` divides the budget; `portfolio` judges one key and tries the methods in their order.

mod frontier;
pub mod keys;
mod narrow;
#[cfg(test)]
mod narrow_tests;
mod portfolio;
mod proving;
mod reduce;
mod trail;
mod zone_evidence;
mod zone_order;
mod zone_proof;
mod zones;

pub use portfolio::{Judged, Scratch, judge_one};
pub use proving::Proofs;
