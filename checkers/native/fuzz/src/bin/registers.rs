#![no_main]

#[path = "../registers.rs"]
mod registers;

libfuzzer_sys::fuzz_target!(|data: &[u8]| registers::try_one(data));
