#![no_main]

#[path = "../transactions.rs"]
mod transactions;

libfuzzer_sys::fuzz_target!(|data: &[u8]| transactions::try_one(data));
