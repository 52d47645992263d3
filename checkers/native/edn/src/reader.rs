//! Read EDN from a stream, form by form, and report errors with line and column.
//!
//! Only the current token and form are in memory. Programs may print one value in several ways; here each value has one
//! form: sets and maps are sorted, `5N` is 5, `2/4` is 1/2.
//!
//! Format: github.com/edn-format/edn, and the additions of Clojure's printer (`0x1f`, `#:space{...}`, `##Inf`).

use std::io::Read;

use super::form::{Form, shown};
use super::source::{Notation, Place, Result, Source, ends_token, malformed};
use super::token::{atom, character, tag};

/// Deeper nesting is refused, so that no input exhausts the stack.
pub const DEPTH_MAX: usize = 200;
/// Values within one operation.
pub const FORMS_MAX: usize = 10_000_000;

pub struct Reader<R> {
    source: Source<R>,
    forms: usize,
    depth: usize,
}

impl<R: Read> Reader<R> {
    pub fn new(input: R, notation: Notation) -> Self {
        Self { source: Source::new(input, notation), forms: 0, depth: 0 }
    }

    /// Where the next byte stands.
    pub fn place(&self) -> Place {
        self.source.place()
    }

    /// The place of the next byte that means something.
    pub fn place_of_next(&mut self) -> Result<Place> {
        self.next_byte()?;
        Ok(self.place())
    }

    /// Step over a bracket.
    pub fn step(&mut self) {
        self.source.skip_byte();
    }

    /// What follows counts anew against `FORMS_MAX`.
    pub fn begin_operation(&mut self) {
        self.forms = 0;
    }

    /// The next byte that is no white space, comma, comment or discarded form, left unread; None at the end.
    pub fn next_byte(&mut self) -> Result<Option<u8>> {
        loop {
            let next = self.source.skip_blank()?;
            if next != Some(b'#') || self.source.peek_after(1)? != Some(b'_') {
                return Ok(next);
            }
            let place = self.place();
            self.source.skip_byte();
            self.source.skip_byte();
            self.discard(place)?;
        }
    }

    /// The text of the token that begins here, by `read`; then the token is passed.
    pub fn token<T>(&mut self, read: impl FnOnce(&str) -> std::result::Result<T, String>) -> Result<T> {
        self.source.token(read)
    }

    fn discard(&mut self, place: Place) -> Result<()> {
        // A chain of discards nests: `#_ #_ 1 2` drops both.
        self.forms += 1;
        if self.forms > FORMS_MAX {
            return malformed(place, format!("more than {FORMS_MAX} values are discarded here"));
        }
        let mut pending = 1usize;
        while pending > 0 {
            let next = self.source.skip_blank()?;
            if next == Some(b'#') && self.source.peek_after(1)? == Some(b'_') {
                self.source.skip_byte();
                self.source.skip_byte();
                pending += 1;
            } else if matches!(next, None | Some(b')' | b']' | b'}')) {
                return malformed(place, "`#_` has no value to discard");
            } else {
                self.form()?;
                pending -= 1;
            }
        }
        Ok(())
    }

    /// The form that begins at the next byte.
    pub fn form(&mut self) -> Result<Form> {
        let place = self.place();
        if self.depth == DEPTH_MAX {
            return malformed(place, format!("nested deeper than {DEPTH_MAX}"));
        }
        self.depth += 1;
        let form = self.form_here(place);
        self.depth -= 1;
        form
    }

    fn form_here(&mut self, place: Place) -> Result<Form> {
        self.forms += 1;
        if self.forms > FORMS_MAX {
            return malformed(place, format!("more than {FORMS_MAX} values in one operation"));
        }
        match self.source.peek()? {
            None => malformed(place, "the file ends where a value was expected: it is truncated"),
            Some(b'"') => {
                let text = self.source.string()?;
                if self.is_json() && text.starts_with(':') { keyword(&text, place) } else { Ok(Form::Text(text)) }
            }
            Some(b'\\') => self.character(place),
            Some(b'[') => Ok(Form::Vector(self.collection(b']')?)),
            Some(b'(') => Ok(Form::List(self.collection(b')')?)),
            Some(b'{') => self.map(""),
            Some(b'#') => self.dispatched(),
            Some(close @ (b')' | b']' | b'}')) => {
                malformed(place, format!("`{}` closes nothing here; a value was expected", close as char))
            }
            Some(byte) if ends_token(byte) => malformed(place, format!("the byte 0x{byte:02x} begins no value")),
            Some(_) if self.is_json() => self.token(|text| if text == "null" { Ok(Form::Nil) } else { atom(text) }),
            Some(_) => self.token(atom),
        }
    }

    pub fn is_json(&self) -> bool {
        self.source.notation == Notation::Json
    }

    fn collection(&mut self, close: u8) -> Result<Vec<Form>> {
        let opened = self.place();
        self.source.skip_byte();
        let mut items = Vec::new();
        while !self.closes(close, opened)? {
            items.push(self.form()?);
        }
        Ok(items)
    }

    /// Whether `close` comes next, and past it if so. `opened` is where the bracket was opened.
    pub fn closes(&mut self, close: u8, opened: Place) -> Result<bool> {
        match self.next_byte()? {
            None => malformed(
                self.place(),
                format!(
                    "the file ends before the `{}` for line {}, column {}: it is truncated",
                    close as char, opened.line, opened.column
                ),
            ),
            Some(byte) if byte == close => {
                self.source.skip_byte();
                Ok(true)
            }
            Some(byte @ (b')' | b']' | b'}')) => malformed(
                self.place(),
                format!(
                    "`{}` where `{}` was expected, for line {}, column {}",
                    byte as char, close as char, opened.line, opened.column
                ),
            ),
            Some(_) => Ok(false),
        }
    }

    fn map(&mut self, space: &str) -> Result<Form> {
        let opened = self.place();
        self.source.skip_byte();
        let mut entries = Vec::new();
        while !self.closes(b'}', opened)? {
            let key = in_space(self.form()?, space);
            if self.closes(b'}', opened)? {
                return malformed(opened, format!("a map with a key and no value: {}", shown(&key)));
            }
            entries.push((key, self.form()?));
        }
        entries.sort_by(|one, other| one.0.cmp(&other.0));
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return malformed(opened, format!("a map with the key {} twice", shown(&pair[0].0)));
        }
        Ok(Form::Map(entries))
    }

    fn dispatched(&mut self) -> Result<Form> {
        let place = self.place();
        match self.source.peek_after(1)? {
            Some(b'{') => {
                self.source.skip_byte();
                let mut items = self.collection(b'}')?;
                items.sort();
                match items.windows(2).find(|pair| pair[0] == pair[1]) {
                    Some(pair) => malformed(place, format!("a set that holds {} twice", shown(&pair[0]))),
                    None => Ok(Form::Set(items)),
                }
            }
            Some(b'#') => self.token(|text| match text {
                "##Inf" => Ok(Form::Float(f64::INFINITY.to_bits())),
                "##-Inf" => Ok(Form::Float(f64::NEG_INFINITY.to_bits())),
                "##NaN" => Ok(Form::Float(f64::NAN.to_bits())),
                other => Err(format!("{other}: expected ##Inf, ##-Inf or ##NaN")),
            }),
            Some(b':') => {
                let space = self.token(|text| Ok(Box::<str>::from(text.get(2..).unwrap_or_default())))?;
                match self.next_byte()? {
                    Some(b'{') if !space.is_empty() => self.map(&space),
                    _ => malformed(place, "a namespace is followed by a map: #:space{...}"),
                }
            }
            _ => {
                let tag = self.tag()?;
                match self.next_byte()? {
                    None | Some(b')' | b']' | b'}') => malformed(place, format!("the tag #{tag} has no value")),
                    Some(_) => Ok(Form::Tagged(tag, Box::new(self.form()?))),
                }
            }
        }
    }

    /// The name behind the `#` that stands here.
    pub fn tag(&mut self) -> Result<Box<str>> {
        self.token(tag)
    }

    fn character(&mut self, place: Place) -> Result<Form> {
        // What follows may be a delimiter: `\(` is a character.
        let Some(first) = self.source.peek_after(1)? else {
            return malformed(place, "the file ends within a character: it is truncated");
        };
        if !ends_token(first) {
            return self.token(character);
        }
        if first <= b' ' {
            return malformed(place, "`\\` before white space; expected a character, as `\\a` or `\\space`");
        }
        self.source.skip_byte();
        self.source.skip_byte();
        Ok(Form::Character(first as char))
    }
}

/// The keyword that a text of JSON spells; a text with other characters behind its colon is refused.
fn keyword(text: &str, place: Place) -> Result<Form> {
    let name = &text[1..];
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.*+!?<>=$&%".contains(&byte));
    if is_plain && name.starts_with(|first: char| !first.is_ascii_digit()) {
        return Ok(Form::Keyword(name.into()));
    }
    malformed(place, "a text that begins like a keyword")
}

fn in_space(key: Form, space: &str) -> Form {
    match key {
        Form::Keyword(name) if !space.is_empty() => match name.split_once('/') {
            None => Form::Keyword(format!("{space}/{name}").into()),
            Some(("_", name)) => Form::Keyword(name.into()),
            Some(_) => Form::Keyword(name),
        },
        other => other,
    }
}
