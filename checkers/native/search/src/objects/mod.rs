//! Objects whose calls and states are numbered as they are met, and what a call makes of a state.
//!
//! `table` remembers what was answered, and is the model that the same search judges by; `judge` shares the budget. The
//! caller says what a call does, but of a key-value store of strings, which `strings` knows.

pub mod judge;
mod string_places;
pub mod strings;
pub mod table;
