//! Convert the text of one name, number, character or string to its value.

use super::form::{Form, cut};

/// Digits of an integer.
pub const DIGITS_MAX: usize = 4_000;
/// The text of a string, its escapes resolved.
pub fn unescaped(text: &str) -> Result<Box<str>, String> {
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

/// The name behind the `#` of a tag.
pub fn tag(text: &str) -> Result<Box<str>, String> {
    let name = text.get(1..).unwrap_or_default();
    if name.chars().next().is_some_and(char::is_alphabetic) {
        Ok(name.into())
    } else {
        Err(format!("`{text}` begins no value; expected a tag, a set or `#_`"))
    }
}

/// A character, by its name or number.
pub fn character(text: &str) -> Result<Form, String> {
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
}

/// A name or number.
pub fn atom(text: &str) -> Result<Form, String> {
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

fn number(text: &str) -> Result<Form, String> {
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

fn integer(digits: &str, negative: bool) -> Result<Form, String> {
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

fn by_number(digits: &str, radix: u32) -> Option<char> {
    digits
        .chars()
        .all(|digit| digit.is_digit(radix))
        .then(|| u32::from_str_radix(digits, radix).ok())?
        .and_then(char::from_u32)
}
