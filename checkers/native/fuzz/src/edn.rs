//! The EDN reader: whatever the bytes, a history or a place in the input; the same however the stream is cut.

use std::io::{self, Read};

use ::edn::{Notation, read_events};

/// Gives one byte at a time.
struct Drops<'a>(&'a [u8]);

impl Read for Drops<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Some((&first, rest)) = self.0.split_first() else { return Ok(0) };
        into[0] = first;
        self.0 = rest;
        Ok(1)
    }
}

pub fn try_one(data: &[u8]) {
    let (whole, drops) = (read_events(data, Notation::Edn), read_events(Drops(data), Notation::Edn));
    match (whole, drops) {
        (Ok(whole), Ok(drops)) => {
            assert_eq!((&whole.line, &whole.column), (&drops.line, &drops.column));
            assert_eq!((&whole.kind, &whole.process, &whole.value), (&drops.kind, &drops.process, &drops.value));
        }
        (Err(_), Err(_)) => {}
        (whole, drops) => panic!("whole: {}, byte by byte: {}", whole.is_ok(), drops.is_ok()),
    }
}
