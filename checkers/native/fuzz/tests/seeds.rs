//! The fuzzer's seeds, each tried once: what they reached once stays right. `make fuzz` looks for more.

use std::fs;
use std::path::PathBuf;

use fencepost_fuzz::{edn, registers, transactions};

fn try_all(target: &str, try_one: fn(&[u8])) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let packed = fs::read(folder.join(format!("{target}.bin"))).expect("seeds are kept");
    let (mut rest, mut tried) = (packed.as_slice(), 0);
    while let Some((&length, more)) = rest.split_first() {
        let (seed, others) = more.split_at(usize::from(length));
        try_one(seed);
        (rest, tried) = (others, tried + 1);
    }
    assert!(tried > 100, "{tried} seeds of {target}");
}

#[test]
fn edn_is_read_or_refused() {
    try_all("edn", edn::try_one);
}

#[test]
fn registers_are_judged_as_every_order_tried_judges_them() {
    try_all("registers", registers::try_one);
}

#[test]
fn transactions_are_judged_or_refused() {
    try_all("transactions", transactions::try_one);
}
