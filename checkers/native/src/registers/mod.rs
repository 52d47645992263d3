//! Registers, many keys under one budget: the cheap methods that only registers allow, and the search behind them.
//!
//! `keys` deals out the budget; `portfolio` judges one key and says in which order the methods are tried.
//!
//! Uses search/, history/ and limits/.

mod frontier;
pub(crate) mod keys;
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
