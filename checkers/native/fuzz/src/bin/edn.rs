#![no_main]

#[path = "../edn.rs"]
mod edn;

libfuzzer_sys::fuzz_target!(|data: &[u8]| edn::try_one(data));
