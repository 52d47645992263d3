//! The bytes of a stream with line and column; it reads ahead only as far as one token needs.

use std::io::Read;

use super::token::unescaped;

/// Bytes of one string, name or number.
pub const TOKEN_MAX: usize = 64 << 20;
const CHUNK: usize = 1 << 20;

/// A place in the file, both counted from 1; the column in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub line: u32,
    pub column: u32,
}

#[derive(Debug)]
pub enum Fault {
    Malformed { place: Place, message: String },
    Input(std::io::Error),
}

pub type Result<T> = std::result::Result<T, Fault>;

pub fn malformed<T>(place: Place, message: impl Into<String>) -> Result<T> {
    Err(Fault::Malformed { place, message: message.into() })
}

/// Whether a name or number ends before this byte.
pub fn ends_token(byte: u8) -> bool {
    matches!(byte, 0..=b' ' | b',' | b'"' | b';' | b'(' | b')' | b'[' | b']' | b'{' | b'}')
}

fn continues_character(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// How values are written. JSON is taken for EDN whose colons mean nothing; that it is JSON was found out before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    Edn,
    Json,
}

pub struct Source<R> {
    input: R,
    pub notation: Notation,
    chunk: Box<[u8]>,
    buffer: Vec<u8>,
    at: usize,
    ended: bool,
    line: u32,
    /// Characters of the line before `at`.
    column: u32,
}

impl<R: Read> Source<R> {
    pub fn new(input: R, notation: Notation) -> Self {
        let chunk = vec![0; CHUNK].into();
        Self { input, notation, chunk, buffer: Vec::new(), at: 0, ended: false, line: 1, column: 0 }
    }

    /// Where the next byte stands.
    pub fn place(&self) -> Place {
        Place { line: self.line, column: self.column.saturating_add(1) }
    }

    /// Keep what is from `at` on and read more behind it; false at the end of the input.
    fn more(&mut self) -> Result<bool> {
        if self.ended {
            return Ok(false);
        }
        self.buffer.drain(..self.at);
        self.at = 0;
        let read = loop {
            match self.input.read(&mut self.chunk) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        let read = read.map_err(Fault::Input)?;
        self.buffer.extend_from_slice(&self.chunk[..read]);
        self.ended = read == 0;
        Ok(read > 0)
    }

    pub fn peek(&mut self) -> Result<Option<u8>> {
        if self.at == self.buffer.len() && !self.more()? {
            return Ok(None);
        }
        Ok(Some(self.buffer[self.at]))
    }

    pub fn peek_after(&mut self, distance: usize) -> Result<Option<u8>> {
        while self.at + distance >= self.buffer.len() {
            if !self.more()? {
                return Ok(None);
            }
        }
        Ok(Some(self.buffer[self.at + distance]))
    }

    /// Step over one byte that is ASCII and no line's end.
    pub fn skip_byte(&mut self) {
        self.at += 1;
        self.column = self.column.saturating_add(1);
    }

    /// Step over `length` bytes of valid text.
    fn skip_text(&mut self, length: usize) {
        for &byte in &self.buffer[self.at..self.at + length] {
            if byte == b'\n' {
                self.line = self.line.saturating_add(1);
                self.column = 0;
            } else if !continues_character(byte) {
                self.column = self.column.saturating_add(1);
            }
        }
        self.at += length;
    }

    /// Step over white space, commas and comments; the byte behind them, left unread.
    // Every value comes through here: as a call of its own it costs a twentieth of the reader's time.
    #[inline(always)]
    pub fn skip_blank(&mut self) -> Result<Option<u8>> {
        loop {
            match self.peek()? {
                Some(b'\n') => {
                    self.at += 1;
                    self.line = self.line.saturating_add(1);
                    self.column = 0;
                }
                Some(b' ' | b',' | b'\t' | b'\r' | 0x0c) => self.skip_byte(),
                Some(b':') if self.notation == Notation::Json => self.skip_byte(),
                Some(b';') => self.skip_comment()?,
                other => return Ok(other),
            }
        }
    }

    fn skip_comment(&mut self) -> Result<()> {
        loop {
            let rest = &self.buffer[self.at..];
            let end = rest.iter().position(|&byte| byte == b'\n');
            // Without a line's end in sight, the last character may be cut in two here.
            let begun = (rest.len().saturating_sub(3)..rest.len()).find(|&at| rest[at] >= 0xc0);
            let length = end.or(begun).unwrap_or(rest.len());
            self.text(length, self.place())?;
            self.skip_text(length);
            if end.is_some() || !self.more()? {
                let rest = self.buffer.len() - self.at;
                return if end.is_some() || rest == 0 { Ok(()) } else { self.text(rest, self.place()).map(|_| ()) };
            }
        }
    }

    /// The next `length` bytes as text.
    fn text(&self, length: usize, place: Place) -> Result<&str> {
        let bytes = &self.buffer[self.at..self.at + length];
        std::str::from_utf8(bytes).map_err(|error| {
            let good = &bytes[..error.valid_up_to()];
            let mut place = place;
            for &byte in good {
                if byte == b'\n' {
                    place = Place { line: place.line.saturating_add(1), column: 1 };
                } else if !continues_character(byte) {
                    place.column = place.column.saturating_add(1);
                }
            }
            let byte = bytes.get(good.len()).copied().unwrap_or_default();
            Fault::Malformed { place, message: format!("the byte 0x{byte:02x} is not UTF-8") }
        })
    }

    /// Bytes up to the end of the token that begins here.
    fn token_length(&mut self) -> Result<usize> {
        let mut length = 0;
        loop {
            let rest = &self.buffer[self.at + length..];
            if let Some(end) = rest.iter().position(|&byte| ends_token(byte)) {
                return Ok(length + end);
            }
            length += rest.len();
            if length > TOKEN_MAX {
                return malformed(self.place(), format!("a name or number of more than {TOKEN_MAX} bytes"));
            }
            if !self.more()? {
                return Ok(length);
            }
        }
    }

    /// The text of the token that begins here, by `read`; then the token is passed.
    pub fn token<T>(&mut self, read: impl FnOnce(&str) -> std::result::Result<T, String>) -> Result<T> {
        let place = self.place();
        let length = self.token_length()?;
        let text = self.text(length, place)?;
        let found = read(text).map_err(|message| Fault::Malformed { place, message })?;
        self.skip_text(length);
        Ok(found)
    }

    /// The text of the string that begins here, which is passed.
    pub fn string(&mut self) -> Result<Box<str>> {
        let opened = self.place();
        let mut length = 1;
        let mut escaped = false;
        loop {
            let rest = &self.buffer[self.at + length..];
            let mut end = None;
            let mut skip = false;
            for (offset, &byte) in rest.iter().enumerate() {
                if skip {
                    skip = false;
                } else if byte == b'\\' {
                    escaped = true;
                    skip = true;
                } else if byte == b'"' {
                    end = Some(offset);
                    break;
                }
            }
            if let Some(end) = end {
                length += end;
                break;
            }
            // A backslash at the buffer's end goes with what it escapes.
            length += rest.len() - usize::from(skip);
            if length > TOKEN_MAX {
                return malformed(opened, format!("a string of more than {TOKEN_MAX} bytes"));
            }
            if !self.more()? {
                return malformed(opened, "a string that is not closed: the file is truncated");
            }
        }
        let text = self.text(length, opened)?.get(1..).unwrap_or_default();
        let found = if escaped {
            unescaped(text).map_err(|message| Fault::Malformed { place: opened, message })?
        } else {
            text.into()
        };
        self.skip_text(length + 1);
        Ok(found)
    }
}
