//! Objects that the caller knows: it numbers the calls and the states, and says what a call makes of a state.
//!
//! `table` remembers what was answered, and is the model that the same search judges by; `judge` shares the budget.

pub mod judge;
pub mod table;
