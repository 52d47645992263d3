//! What the fuzzer tries, each as a function of bytes that panics where an answer is wrong.

pub mod edn;
pub mod registers;
pub mod transactions;
