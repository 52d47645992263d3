//! The binding of the EDN reader: a Python `read` method in, columns and plain values out.

use std::collections::HashMap;
use std::io::Read;

use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::attend::safely;
use ::edn::{Events, Fault, Form, Notation, read_events};

/// A value of EDN for which Python has no type.
#[pyclass(frozen, get_all, module = "fencepost.checkers._core")]
pub struct Edn {
    kind: &'static str,
    text: String,
    items: Py<PyList>,
}

/// The events of a history as columns; row i is event i.
#[pyclass(frozen, get_all, module = "fencepost.checkers._core")]
pub struct EdnEvents {
    line: Py<PyArray1<u32>>,
    column: Py<PyArray1<u32>>,
    time: Py<PyArray1<i64>>,
    kind: Py<PyArray1<u8>>,
    process: Py<PyArray1<i64>>,
    function: Py<PyArray1<u32>>,
    value: Py<PyArray1<u32>>,
    error: Py<PyArray1<u32>>,
    node: Py<PyArray1<u32>>,
    key: Py<PyArray1<u32>>,
    invocation: Py<PyArray1<u32>>,
    forms: Py<PyList>,
}

/// A Python `read(size) -> bytes`; its exception is kept for the caller.
struct Stream {
    read: Py<PyAny>,
    raised: Option<PyErr>,
}

impl Read for &mut Stream {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let found = Python::attach(|py| {
            py.check_signals()?;
            let chunk = self.read.bind(py).call1((buffer.len(),))?;
            let bytes = chunk.cast::<PyBytes>()?.as_bytes();
            if bytes.len() > buffer.len() {
                return Err(PyValueError::new_err("read() gave more than was asked for"));
            }
            buffer[..bytes.len()].copy_from_slice(bytes);
            Ok(bytes.len())
        });
        found.map_err(|raised: PyErr| {
            self.raised = Some(raised);
            std::io::Error::other("the stream raised an exception")
        })
    }
}

/// Read a history in EDN from `read(size)`, or in JSON, of which the caller knows that it is.
#[pyfunction]
#[pyo3(signature = (read, *, json = false))]
pub fn read_edn(py: Python<'_>, read: Py<PyAny>, json: bool) -> PyResult<EdnEvents> {
    let notation = if json { Notation::Json } else { Notation::Edn };
    let mut stream = Stream { read, raised: None };
    match py.detach(|| safely(|| read_events(&mut stream, notation)))? {
        Ok(events) => columns(py, events),
        Err(Fault::Malformed { place, message }) => Err(PyValueError::new_err((place.line, place.column, message))),
        Err(Fault::Input(error)) => Err(stream.raised.take().unwrap_or_else(|| error.into())),
    }
}

fn columns(py: Python<'_>, events: Events) -> PyResult<EdnEvents> {
    let short = |column| PyArray1::from_vec(py, column).unbind();
    let forms = PyList::empty(py);
    let mut keywords = HashMap::new();
    for form in events.forms.into_order() {
        forms.append(value(py, form, &mut keywords)?)?;
    }
    Ok(EdnEvents {
        line: short(events.line),
        column: short(events.column),
        time: PyArray1::from_vec(py, events.time).unbind(),
        kind: PyArray1::from_vec(py, events.kind).unbind(),
        process: PyArray1::from_vec(py, events.process).unbind(),
        function: short(events.function),
        value: short(events.value),
        error: short(events.error),
        node: short(events.node),
        key: short(events.key),
        invocation: short(events.invocation),
        forms: forms.unbind(),
    })
}

/// The objects of keywords by their names: a history has a few, a million times.
type Keywords = HashMap<Box<str>, Py<PyAny>>;

fn value(py: Python<'_>, form: Form, keywords: &mut Keywords) -> PyResult<Py<PyAny>> {
    if let Form::Keyword(name) = &form {
        if let Some(known) = keywords.get(name) {
            return Ok(known.clone_ref(py));
        }
    }
    let (kind, text, items) = match form {
        Form::Nil => return Ok(py.None()),
        Form::Bool(truth) => return Ok(truth.into_pyobject(py)?.to_owned().into_any().unbind()),
        Form::Integer(number) => return Ok(number.into_pyobject(py)?.into_any().unbind()),
        Form::BigInteger(digits) => return Ok(py.get_type::<pyo3::types::PyInt>().call1((&*digits,))?.unbind()),
        Form::Float(bits) => return Ok(f64::from_bits(bits).into_pyobject(py)?.into_any().unbind()),
        Form::Text(text) => return Ok(text.into_pyobject(py)?.into_any().unbind()),
        Form::Vector(items) => return Ok(list(py, items, keywords)?.into_any()),
        Form::Ratio(text) => ("ratio", text.into(), Vec::new()),
        Form::Decimal(text) => ("decimal", text.into(), Vec::new()),
        Form::Character(character) => ("character", character.to_string(), Vec::new()),
        Form::Keyword(name) => ("keyword", name.into(), Vec::new()),
        Form::Symbol(name) => ("symbol", name.into(), Vec::new()),
        Form::List(items) => ("list", String::new(), items),
        Form::Set(items) => ("set", String::new(), items),
        Form::Map(entries) => ("map", String::new(), entries.into_iter().flat_map(|(k, v)| [k, v]).collect()),
        Form::Tagged(tag, inner) => ("tagged", tag.into(), vec![*inner]),
    };
    let items = list(py, items, keywords)?;
    let is_keyword = kind == "keyword";
    let made = Py::new(py, Edn { kind, text, items })?;
    if is_keyword {
        keywords.insert(made.get().text.as_str().into(), made.clone_ref(py).into_any());
    }
    Ok(made.into_any())
}

fn list(py: Python<'_>, items: Vec<Form>, keywords: &mut Keywords) -> PyResult<Py<PyList>> {
    let out = PyList::empty(py);
    for item in items {
        out.append(value(py, item, keywords)?)?;
    }
    Ok(out.unbind())
}
