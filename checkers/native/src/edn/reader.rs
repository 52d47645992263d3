//! EDN read from a stream, form by form, with the line and the column of whatever is wrong.
//!
//! Only a token and the form being read are held. What two programs may print differently has one form here: sets and
//! maps are in order, `5N` is 5, `2/4` is 1/2. Format: github.com/edn-format/edn, and what Clojure's printer adds to it
//! (`0x1f`, `#:space{...}`, `##Inf`).

use std::io::Read;

/// Deeper nesting is refused, so that no input exhausts the stack.
pub const DEPTH_MAX: usize = 200;
/// Digits of an integer.
pub const DIGITS_MAX: usize = 4_000;
/// Bytes of one string, name or number.
pub const TOKEN_MAX: usize = 64 << 20;
/// Values within one operation.
pub const FORMS_MAX: usize = 10_000_000;

const CHUNK: usize = 1 << 20;

/// One value. Equal values are equal forms.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Form {
    Nil,
    Bool(bool),
    Integer(i64),
    /// Does not fit 64 bits; decimal digits, with `-` if negative.
    BigInteger(Box<str>),
    /// The bits of a double, those of -0.0 being those of 0.0.
    Float(u64),
    Ratio(Box<str>),
    Decimal(Box<str>),
    Text(Box<str>),
    Character(char),
    /// Without its colon.
    Keyword(Box<str>),
    Symbol(Box<str>),
    List(Vec<Form>),
    Vector(Vec<Form>),
    Set(Vec<Form>),
    Map(Vec<(Form, Form)>),
    Tagged(Box<str>, Box<Form>),
}

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

pub struct Reader<R> {
    input: R,
    chunk: Box<[u8]>,
    buffer: Vec<u8>,
    at: usize,
    ended: bool,
    line: u32,
    /// Characters of the line before `at`.
    column: u32,
    forms: usize,
    depth: usize,
}

fn ends_token(byte: u8) -> bool {
    matches!(byte, 0..=b' ' | b',' | b'"' | b';' | b'(' | b')' | b'[' | b']' | b'{' | b'}')
}

fn continues_character(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

impl<R: Read> Reader<R> {
    pub fn new(input: R) -> Self {
        let chunk = vec![0; CHUNK].into();
        Self { input, chunk, buffer: Vec::new(), at: 0, ended: false, line: 1, column: 0, forms: 0, depth: 0 }
    }

    /// Where the next byte stands.
    pub fn place(&self) -> Place {
        Place { line: self.line, column: self.column.saturating_add(1) }
    }

    /// The place of the next byte that means something.
    pub fn place_of_next(&mut self) -> Result<Place> {
        self.next_byte()?;
        Ok(self.place())
    }

    /// Step over a bracket.
    pub fn step(&mut self) {
        self.skip_byte();
    }

    /// What follows counts anew against `FORMS_MAX`.
    pub fn begin_operation(&mut self) {
        self.forms = 0;
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

    fn peek(&mut self) -> Result<Option<u8>> {
        if self.at == self.buffer.len() && !self.more()? {
            return Ok(None);
        }
        Ok(Some(self.buffer[self.at]))
    }

    fn peek_after(&mut self, distance: usize) -> Result<Option<u8>> {
        while self.at + distance >= self.buffer.len() {
            if !self.more()? {
                return Ok(None);
            }
        }
        Ok(Some(self.buffer[self.at + distance]))
    }

    /// Step over one byte that is ASCII and no line's end.
    fn skip_byte(&mut self) {
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

    /// The next byte that is no white space, comma or comment, left unread; None at the end.
    pub fn next_byte(&mut self) -> Result<Option<u8>> {
        loop {
            match self.peek()? {
                Some(b'\n') => {
                    self.at += 1;
                    self.line = self.line.saturating_add(1);
                    self.column = 0;
                }
                Some(b' ' | b',' | b'\t' | b'\r' | 0x0c) => self.skip_byte(),
                Some(b';') => self.skip_comment()?,
                Some(b'#') if self.peek_after(1)? == Some(b'_') => {
                    let place = self.place();
                    self.skip_byte();
                    self.skip_byte();
                    self.discard(place)?;
                }
                other => return Ok(other),
            }
        }
    }

    fn discard(&mut self, place: Place) -> Result<()> {
        // A chain of discards nests: `#_ #_ 1 2` drops both.
        self.forms += 1;
        if self.forms > FORMS_MAX {
            return malformed(place, format!("more than {FORMS_MAX} values are discarded here"));
        }
        let mut pending = 1usize;
        while pending > 0 {
            self.skip_blank()?;
            if self.peek()? == Some(b'#') && self.peek_after(1)? == Some(b'_') {
                self.skip_byte();
                self.skip_byte();
                pending += 1;
            } else if matches!(self.peek()?, None | Some(b')' | b']' | b'}')) {
                return malformed(place, "`#_` has no value to discard");
            } else {
                self.form()?;
                pending -= 1;
            }
        }
        Ok(())
    }

    fn skip_blank(&mut self) -> Result<()> {
        loop {
            match self.peek()? {
                Some(b'\n') => self.skip_text(1),
                Some(b' ' | b',' | b'\t' | b'\r' | 0x0c) => self.skip_byte(),
                Some(b';') => self.skip_comment()?,
                _ => return Ok(()),
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
        match self.peek()? {
            None => malformed(place, "the file ends where a value was expected: it is truncated"),
            Some(b'"') => self.string(),
            Some(b'\\') => self.character(),
            Some(b'[') => Ok(Form::Vector(self.collection(b']')?)),
            Some(b'(') => Ok(Form::List(self.collection(b')')?)),
            Some(b'{') => self.map(""),
            Some(b'#') => self.dispatched(),
            Some(close @ (b')' | b']' | b'}')) => {
                malformed(place, format!("`{}` closes nothing here; a value was expected", close as char))
            }
            Some(byte) if ends_token(byte) => malformed(place, format!("the byte 0x{byte:02x} begins no value")),
            Some(_) => self.token(atom),
        }
    }

    fn collection(&mut self, close: u8) -> Result<Vec<Form>> {
        let opened = self.place();
        self.skip_byte();
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
                self.skip_byte();
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
        self.skip_byte();
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
        match self.peek_after(1)? {
            Some(b'{') => {
                self.skip_byte();
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
        self.token(|text| {
            let name = text.get(1..).unwrap_or_default();
            if name.chars().next().is_some_and(char::is_alphabetic) {
                Ok(name.into())
            } else {
                Err(format!("`{text}` begins no value; expected a tag, a set or `#_`"))
            }
        })
    }

    fn string(&mut self) -> Result<Form> {
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
        Ok(Form::Text(found))
    }

    fn character(&mut self) -> Result<Form> {
        let place = self.place();
        // What follows may be a delimiter: `\(` is a character.
        let Some(first) = self.peek_after(1)? else {
            return malformed(place, "the file ends within a character: it is truncated");
        };
        if ends_token(first) {
            if first <= b' ' {
                return malformed(place, "`\\` before white space; expected a character, as `\\a` or `\\space`");
            }
            self.skip_byte();
            self.skip_byte();
            return Ok(Form::Character(first as char));
        }
        self.token(|text| {
            let name = text.get(1..).unwrap_or_default();
            let mut characters = name.chars();
            let (only, more) = (characters.next(), characters.next());
            let found = match (name, only, more) {
                (_, Some(only), None) => Some(only),
                ("newline", ..) => Some('\n'),
                ("return", ..) => Some('\r'),
                ("space", ..) => Some(' '),
                ("tab", ..) => Some('\t'),
                ("formfeed", ..) => Some('\u{c}'),
                ("backspace", ..) => Some('\u{8}'),
                (_, Some('u'), _) if name.len() == 5 => by_number(&name[1..], 16),
                (_, Some('o'), _) if name.len() <= 4 => by_number(&name[1..], 8),
                _ => None,
            };
            found.map(Form::Character).ok_or_else(|| format!("`{}` is no character", cut(text)))
        })
    }
}

fn by_number(digits: &str, radix: u32) -> Option<char> {
    digits
        .chars()
        .all(|digit| digit.is_digit(radix))
        .then(|| u32::from_str_radix(digits, radix).ok())?
        .and_then(char::from_u32)
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

fn unescaped(text: &str) -> std::result::Result<Box<str>, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        match rest.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some(itself @ ('\\' | '"')) => out.push(itself),
            Some('u') => {
                let mut unit = || -> Option<u32> {
                    let digits: String = rest.by_ref().take(4).collect();
                    (digits.len() == 4 && digits.chars().all(|digit| digit.is_ascii_hexdigit()))
                        .then(|| u32::from_str_radix(&digits, 16).ok())?
                };
                let wrong = || "expected four hexadecimal digits of a character after `\\u` in a string".to_string();
                let mut code = unit().ok_or_else(wrong)?;
                if (0xd800..0xdc00).contains(&code) {
                    // Java writes what lies beyond 16 bits as two halves.
                    let low = (rest.next() == Some('\\') && rest.next() == Some('u'))
                        .then(|| {
                            let digits: String = rest.by_ref().take(4).collect();
                            u32::from_str_radix(&digits, 16).ok().filter(|low| (0xdc00..0xe000).contains(low))
                        })
                        .flatten()
                        .ok_or_else(wrong)?;
                    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                }
                out.push(char::from_u32(code).ok_or_else(wrong)?);
            }
            other => {
                let shown = other.map(String::from).unwrap_or_default();
                return Err(format!("`\\{shown}` in a string; expected one of \\n \\t \\r \\b \\f \\\\ \\\" \\uXXXX"));
            }
        }
    }
    Ok(out.into())
}

/// A name or number.
fn atom(text: &str) -> std::result::Result<Form, String> {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    match bytes.first() {
        Some(b':') => {
            let name = &text[1..];
            if name.is_empty() || name.starts_with([':', '/']) {
                return Err(format!("`{}` is no keyword", cut(text)));
            }
            Ok(Form::Keyword(name.into()))
        }
        Some(b'0'..=b'9') => number(text),
        Some(b'+' | b'-') if digit(1) => number(text),
        _ => Ok(match text {
            "nil" => Form::Nil,
            "true" => Form::Bool(true),
            "false" => Form::Bool(false),
            _ => match text.chars().next() {
                Some('^' | '@' | '`' | '~' | '\'') => return Err(format!("`{}` begins no value of EDN", cut(text))),
                _ => Form::Symbol(text.into()),
            },
        }),
    }
}

fn number(text: &str) -> std::result::Result<Form, String> {
    let wrong = || format!("`{}` is no number", cut(text));
    let negative = text.starts_with('-');
    let plain = text.trim_start_matches(['+', '-']);
    if text.len() - plain.len() > 1 {
        return Err(wrong());
    }
    if let Some(digits) = plain.strip_prefix("0x").or_else(|| plain.strip_prefix("0X")) {
        let value = u64::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+')).ok_or_else(wrong)?;
        return integer(&value.to_string(), negative);
    }
    let digits = plain.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = plain.split_at(digits);
    if whole.len() > 1 && whole.starts_with('0') {
        return Err(format!("{}; an integer does not begin with 0", wrong()));
    }
    if digits > DIGITS_MAX {
        return Err(format!("an integer of {digits} digits; at most {DIGITS_MAX} are read"));
    }
    match rest {
        "" | "N" => integer(whole, negative),
        "M" => Ok(Form::Decimal(text.trim_start_matches('+').into())),
        _ if rest.starts_with('/') => ratio(whole, &rest[1..], negative).ok_or_else(wrong),
        _ => {
            let exact = rest.strip_suffix('M').unwrap_or(rest);
            let allowed = exact.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
            let value: f64 = format!("{whole}{exact}").parse().ok().filter(|_| allowed).ok_or_else(wrong)?;
            if exact.len() < rest.len() {
                return Ok(Form::Decimal(text.trim_start_matches('+').into()));
            }
            if value.is_infinite() {
                return Err(format!("{}: too large for a double", wrong()));
            }
            Ok(Form::Float(if value == 0.0 { 0 } else { (if negative { -value } else { value }).to_bits() }))
        }
    }
}

fn integer(digits: &str, negative: bool) -> std::result::Result<Form, String> {
    let signed = if negative { format!("-{digits}") } else { digits.to_string() };
    Ok(signed.parse().map_or_else(|_| Form::BigInteger(signed.into()), Form::Integer))
}

fn ratio(above: &str, below: &str, negative: bool) -> Option<Form> {
    if below.is_empty() || !below.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (above, below): (i64, i64) = (above.parse().ok()?, below.parse().ok()?);
    if below == 0 {
        return None;
    }
    let (mut one, mut other) = (above, below);
    while other != 0 {
        (one, other) = (other, one % other);
    }
    let sign = if negative { -1 } else { 1 };
    let (above, below) = (sign * above / one, below / one);
    Some(if below == 1 { Form::Integer(above) } else { Form::Ratio(format!("{above}/{below}").into()) })
}

fn cut(text: &str) -> String {
    if text.chars().count() > 40 { format!("{}...", text.chars().take(40).collect::<String>()) } else { text.into() }
}

/// The form in a message: scalars as EDN has them, others by their kind.
pub fn shown(form: &Form) -> String {
    match form {
        Form::Nil => "nil".into(),
        Form::Bool(value) => value.to_string(),
        Form::Integer(value) => value.to_string(),
        Form::Float(bits) => format!("{:?}", f64::from_bits(*bits)),
        Form::BigInteger(text) | Form::Ratio(text) | Form::Decimal(text) | Form::Symbol(text) => cut(text),
        Form::Text(text) => format!("{:?}", cut(text)),
        Form::Character(character) => format!("\\{character}"),
        Form::Keyword(name) => format!(":{}", cut(name)),
        Form::List(_) => "a list".into(),
        Form::Vector(_) => "a vector".into(),
        Form::Set(_) => "a set".into(),
        Form::Map(_) => "a map".into(),
        Form::Tagged(tag, _) => format!("a #{}", cut(tag)),
    }
}
