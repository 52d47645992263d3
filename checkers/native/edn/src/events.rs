//! Read a history in EDN as columns, one row per event.
//!
//! Jepsen writes operations as maps, one after the other or in one vector. This file checks that the rows form a
//! history; the caller decides what a row means for a model.

use std::collections::{HashMap, HashSet};
use std::io::Read;

use super::form::{Form, shown};
use super::reader::Reader;
use super::source::{Fault, Notation, Place, Result, malformed};

/// In place of an id or a row that there is not.
pub const NONE: u32 = u32::MAX;
/// The process of the nemesis.
pub const NEMESIS: i64 = -1;

const TYPES: [&str; 4] = ["invoke", "ok", "fail", "info"];
const INVOKE: u8 = 0;
const INFO: u8 = 3;

/// Distinct forms, numbered in the order of their first appearance.
#[derive(Default)]
pub struct Forms {
    ids: HashMap<Form, u32>,
}

impl Forms {
    fn id(&mut self, form: Form) -> u32 {
        let next = self.ids.len() as u32;
        *self.ids.entry(form).or_insert(next)
    }

    pub fn into_order(self) -> Vec<Form> {
        let mut ordered: Vec<(Form, u32)> = self.ids.into_iter().collect();
        ordered.sort_unstable_by_key(|&(_, id)| id);
        ordered.into_iter().map(|(form, _)| form).collect()
    }
}

/// Row i is event i. `function`, `value`, `error`, `node` and `key` are ids in `forms`, NONE where the key is absent.
#[derive(Default)]
pub struct Events {
    pub line: Vec<u32>,
    pub column: Vec<u32>,
    /// Nanoseconds; -1 in a history that tells no times.
    pub time: Vec<i64>,
    pub kind: Vec<u8>,
    /// `NEMESIS` for whatever is no client.
    pub process: Vec<i64>,
    pub function: Vec<u32>,
    pub value: Vec<u32>,
    pub error: Vec<u32>,
    pub node: Vec<u32>,
    /// The key that an operation names apart from its value.
    pub key: Vec<u32>,
    /// Of a client's completion the row of its invocation, else NONE.
    pub invocation: Vec<u32>,
    pub forms: Forms,
}

/// What one operation's map says.
struct Row {
    place: Place,
    index: Option<i64>,
    time: Option<i64>,
    kind: u8,
    process: i64,
    function: Form,
    value: Option<Form>,
    error: Option<Form>,
    node: Option<Form>,
    key: Option<Form>,
}

/// What must agree from one row to the next.
#[derive(Default)]
struct Rules {
    first: Option<Place>,
    index: Option<i64>,
    time: Option<i64>,
    open: HashMap<i64, u32>,
    retired: HashSet<i64>,
}

/// Read to the end of the input.
pub fn read_events(input: impl Read, notation: Notation) -> Result<Events> {
    let mut reader = Reader::new(input, notation);
    let mut events = Events::default();
    let mut rules = Rules::default();
    let mut around: Option<(u8, Place)> = None;
    loop {
        reader.begin_operation();
        let place = reader.place_of_next()?;
        if let Some((close, opened)) = around {
            if reader.closes(close, opened)? {
                return match reader.next_byte()? {
                    None => Ok(events),
                    Some(_) => malformed(reader.place(), "something follows the history's end; expected nothing more"),
                };
            }
        }
        match reader.next_byte()? {
            None => return Ok(events),
            Some(open @ (b'[' | b'(')) if around.is_none() && events.line.is_empty() => {
                reader.step();
                around = Some((if open == b'[' { b']' } else { b')' }, place));
            }
            Some(b'#') => {
                let tag = reader.tag()?;
                let name = tag.rsplit(['.', '/']).next().unwrap_or_default();
                if name != "Op" || reader.next_byte()? != Some(b'{') {
                    return malformed(
                        place,
                        format!("expected an operation, {{...}} or #jepsen.history.Op{{...}}, found #{tag}"),
                    );
                }
                let row = operation(&mut reader, place)?;
                events.add(row, &mut rules)?;
            }
            Some(b'{') => {
                let row = operation(&mut reader, place)?;
                events.add(row, &mut rules)?;
            }
            Some(_) => {
                let found = reader.form()?;
                return malformed(place, format!("expected an operation, {{:type ...}}, found {}", shown(&found)));
            }
        }
    }
}

/// The keys that an operation is known by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    Index,
    Time,
    Type,
    Process,
    F,
    Value,
    Error,
    Node,
    Key,
    Other,
}

impl std::fmt::Display for Key {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = KEYS.iter().find(|(_, key)| key == self).map_or("here", |&(name, _)| name);
        out.write_str(name)
    }
}

const KEYS: [(&str, Key); 9] = [
    (":index", Key::Index),
    (":time", Key::Time),
    (":type", Key::Type),
    (":process", Key::Process),
    (":f", Key::F),
    (":value", Key::Value),
    (":error", Key::Error),
    (":node", Key::Node),
    (":key", Key::Key),
];

/// The key that begins at the next byte.
fn key<R: Read>(reader: &mut Reader<R>, place: Place) -> Result<Key> {
    if reader.next_byte()? == Some(b':') {
        return reader.token(|text| {
            let known = KEYS.iter().find(|(name, _)| *name == text).map(|&(_, key)| key);
            if known.is_none() && (text.len() < 2 || text.starts_with("::")) {
                return Err(format!("`{text}` is no keyword"));
            }
            Ok(known.unwrap_or(Key::Other))
        });
    }
    let found = reader.form()?;
    if let (true, Form::Text(name) | Form::Keyword(name)) = (reader.is_json(), &found) {
        return Ok(KEYS.iter().find(|(known, _)| known[1..] == **name).map_or(Key::Other, |&(_, key)| key));
    }
    malformed(place, format!("an operation's keys are keywords, as :type; found {}", shown(&found)))
}

/// The map that begins at the next byte.
fn operation<R: Read>(reader: &mut Reader<R>, place: Place) -> Result<Row> {
    let opened = reader.place();
    reader.step();
    let (mut index, mut time, mut kind, mut process) = (None, None, None, None);
    let (mut function, mut value, mut error, mut node, mut own_key) = (None, None, None, None, None);
    while !reader.closes(b'}', opened)? {
        let key_place = reader.place();
        let key = key(reader, key_place)?;
        if reader.closes(b'}', opened)? {
            return malformed(key_place, format!("the key {key} has no value"));
        }
        let at = reader.place();
        let found = reader.form()?;
        let twice = match key {
            Key::Index => index.replace(count(&found, "index", at)?).is_some(),
            Key::Time => time.replace(count(&found, "time", at)?).is_some(),
            Key::Type => kind.replace(type_of(&found, at)?).is_some(),
            Key::Process => process.replace(process_of(&found, at)?).is_some(),
            Key::F => function.replace(function_of(found, at)?).is_some(),
            Key::Value => value.replace(found).is_some(),
            Key::Error => error.replace(found).is_some(),
            Key::Node => node.replace(found).is_some(),
            Key::Key => own_key.replace(found).is_some(),
            Key::Other => false,
        };
        if twice {
            return malformed(key_place, format!("the key {key} stands twice in one operation"));
        }
    }
    let lacks = |name: &str| Fault::Malformed {
        place,
        message: format!("an operation without :{name}; expected :type, :process, :f and :value"),
    };
    Ok(Row {
        place,
        index,
        time,
        kind: kind.ok_or_else(|| lacks("type"))?,
        process: process.ok_or_else(|| lacks("process"))?,
        function: function.ok_or_else(|| lacks("f"))?,
        value,
        error: error.filter(|form| *form != Form::Nil),
        node: node.filter(|form| *form != Form::Nil),
        key: own_key.filter(|form| *form != Form::Nil),
    })
}

fn count(form: &Form, name: &str, at: Place) -> Result<i64> {
    match form {
        Form::Integer(value) if *value >= 0 => Ok(*value),
        other => malformed(at, format!(":{name} is {}; expected an integer from 0 to 2^63 - 1", shown(other))),
    }
}

fn type_of(form: &Form, at: Place) -> Result<u8> {
    let known = match form {
        Form::Keyword(name) | Form::Text(name) => TYPES.iter().position(|known| **known == **name),
        _ => None,
    };
    match known {
        Some(kind) => Ok(kind as u8),
        None => malformed(at, format!("unknown :type {}; expected :invoke, :ok, :fail or :info", shown(form))),
    }
}

fn process_of(form: &Form, at: Place) -> Result<i64> {
    match form {
        Form::Integer(number) if *number >= 0 => Ok(*number),
        Form::Keyword(name) | Form::Text(name) if **name == *"nemesis" => Ok(NEMESIS),
        other => malformed(at, format!(":process is {}; expected an integer from 0, or :nemesis", shown(other))),
    }
}

fn function_of(form: Form, at: Place) -> Result<Form> {
    match form {
        Form::Keyword(name) | Form::Text(name) => Ok(Form::Keyword(name)),
        other => malformed(at, format!(":f is {}; expected a keyword, as :read", shown(&other))),
    }
}

impl Events {
    fn add(&mut self, row: Row, rules: &mut Rules) -> Result<()> {
        let number = self.line.len();
        if number >= NONE as usize - 1 {
            return malformed(row.place, "more than 2^32 operations");
        }
        let place = row.place;
        let first = *rules.first.get_or_insert(place);
        if number > 0 {
            let all_or_none = |name: &str, here: bool, before: bool| {
                let (has, had) = if here { ("has", "had none") } else { ("lacks", "had one") };
                if here == before {
                    return Ok(());
                }
                malformed(
                    place,
                    format!("this operation {has} :{name}, the one of line {} {had}; expected all or none", first.line),
                )
            };
            all_or_none("index", row.index.is_some(), rules.index.is_some())?;
            all_or_none("time", row.time.is_some(), rules.time.is_some())?;
        }
        if let (Some(index), Some(before)) = (row.index, rules.index) {
            if index <= before {
                return malformed(place, format!(":index {index} after {before}; expected it to grow"));
            }
        }
        if let (Some(time), Some(before)) = (row.time, rules.time) {
            if time < before {
                return malformed(place, format!(":time {time} after {before}; expected it never to go backwards"));
            }
        }
        rules.index = row.index;
        rules.time = row.time;
        let function = self.forms.id(row.function);
        let invocation = self.turn(number as u32, row.process, row.kind, function, place, rules)?;
        self.line.push(place.line);
        self.column.push(place.column);
        self.time.push(row.time.unwrap_or(-1));
        self.kind.push(row.kind);
        self.process.push(row.process);
        self.function.push(function);
        let mut id = |form: Option<Form>| form.map_or(NONE, |form| self.forms.id(form));
        let (value, error, node, key) = (id(row.value), id(row.error), id(row.node), id(row.key));
        self.value.push(value);
        self.error.push(error);
        self.node.push(node);
        self.key.push(key);
        self.invocation.push(invocation);
        Ok(())
    }

    /// Hold the row against its process's turn: invocation, then at most one completion. The row of the invocation.
    fn turn(&self, number: u32, process: i64, kind: u8, function: u32, place: Place, rules: &mut Rules) -> Result<u32> {
        if process == NEMESIS {
            return Ok(NONE);
        }
        if kind == INVOKE {
            if rules.retired.contains(&process) {
                return malformed(
                    place,
                    format!("process {process} acts again after it ended :info; expected a new process"),
                );
            }
            return match rules.open.insert(process, number) {
                None => Ok(NONE),
                Some(before) => malformed(
                    place,
                    format!(
                        "process {process} invokes while its operation of line {} is open; expected that to complete first",
                        self.line[before as usize]
                    ),
                ),
            };
        }
        let word = TYPES[usize::from(kind)];
        let Some(invocation) = rules.open.remove(&process) else {
            return malformed(
                place,
                format!(
                    "process {process} completes with :{word} what is not open; expected an :invoke, and one completion of it"
                ),
            );
        };
        if self.function[invocation as usize] != function {
            let line = self.line[invocation as usize];
            return malformed(place, format!("process {process} completes another :f than it invoked in line {line}"));
        }
        if kind == INFO {
            rules.retired.insert(process);
        }
        Ok(invocation)
    }
}
