//! JSON: reading it, building it, changing it (json1.html).
//!
//! Strict JSON is text and stays text where only read: an element is a subslice of the whole, and
//! numbers and strings come out as written. JSON5 and every change go through JSONB, read in place.
//! SQLite marks the text returned by these functions as JSON; here a call knows the arguments made
//! by such functions ([`Env::is_json`]).

mod binary;
mod edit;
mod group;
mod parse;
mod path;
mod table;
mod text;
mod valid;

use std::borrow::Cow;

use super::{Arguments, Env, ScalarFunction};
use crate::Error;
use crate::value::number::{IntEnd, integer_text_prefix, parse_real};
use crate::value::{Value, ValueRef, push_text, text_of, to_int, utf8};
use binary::push_quoted;
use edit::Mode;
pub(super) use group::JsonGroup;
use parse::parse;
use path::Fault;
pub(crate) use table::{Elements, Walk, elements};
use text::{Kind, minified, unescape};

pub(super) const FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction::json("json", Arguments::exactly(1), json),
    ScalarFunction::new("jsonb", Arguments::exactly(1), |arguments, _| {
        Ok(argument(arguments)?.map_or(Value::Null, |blob| Value::Blob(blob.into_owned())))
    }),
    ScalarFunction::new("json_valid", Arguments::between(1, 2), json_valid),
    ScalarFunction::new("json_type", Arguments::between(1, 2), json_type),
    ScalarFunction::new("json_array_length", Arguments::between(1, 2), json_array_length),
    ScalarFunction::new("json_extract", Arguments::at_least(0), json_extract),
    ScalarFunction::new("jsonb_extract", Arguments::at_least(0), jsonb_extract),
    // Called for an argument of another JSON function: strings stay JSON.
    ScalarFunction::json("json_extract element", Arguments::at_least(0), json_extract_element),
    ScalarFunction::json("->", Arguments::exactly(2), |arguments, _| {
        arrow(arguments, |element| element.json())
    }),
    ScalarFunction::new("->>", Arguments::exactly(2), |arguments, _| {
        arrow(arguments, |element| element.value())
    }),
    ScalarFunction::new("json_error_position", Arguments::exactly(1), json_error_position),
    ScalarFunction::json("json_array", Arguments::at_least(0), |arguments, env| {
        array(arguments, env, false)
    }),
    ScalarFunction::new("jsonb_array", Arguments::at_least(0), |arguments, env| {
        array(arguments, env, true)
    }),
    ScalarFunction::json("json_object", Arguments::at_least(0), |arguments, env| {
        object(arguments, env, false)
    }),
    ScalarFunction::new("jsonb_object", Arguments::at_least(0), |arguments, env| {
        object(arguments, env, true)
    }),
    ScalarFunction::json("json_quote", Arguments::exactly(1), |arguments, env| {
        let mut text = Vec::new();
        push_value(arguments[0].as_ref(), env.is_json(0), &mut text)?;
        Ok(Value::Text(text))
    }),
    ScalarFunction::new("json_pretty", Arguments::between(1, 2), json_pretty),
    ScalarFunction::json("json_insert", Arguments::at_least(0), |arguments, env| {
        edit::change("json_insert", Mode::Insert, false, arguments, env)
    }),
    ScalarFunction::new("jsonb_insert", Arguments::at_least(0), |arguments, env| {
        edit::change("json_insert", Mode::Insert, true, arguments, env)
    }),
    ScalarFunction::json("json_replace", Arguments::at_least(0), |arguments, env| {
        edit::change("json_replace", Mode::Replace, false, arguments, env)
    }),
    ScalarFunction::new("jsonb_replace", Arguments::at_least(0), |arguments, env| {
        edit::change("json_replace", Mode::Replace, true, arguments, env)
    }),
    ScalarFunction::json("json_set", Arguments::at_least(0), |arguments, env| {
        edit::change("json_set", Mode::Set, false, arguments, env)
    }),
    ScalarFunction::new("jsonb_set", Arguments::at_least(0), |arguments, env| {
        edit::change("json_set", Mode::Set, true, arguments, env)
    }),
    ScalarFunction::json("json_array_insert", Arguments::at_least(0), |arguments, env| {
        edit::change("json_array_insert", Mode::ArrayInsert, false, arguments, env)
    }),
    ScalarFunction::new("jsonb_array_insert", Arguments::at_least(0), |arguments, env| {
        edit::change("json_array_insert", Mode::ArrayInsert, true, arguments, env)
    }),
    ScalarFunction::json("json_remove", Arguments::at_least(0), |arguments, _| {
        edit::remove(false, arguments)
    }),
    ScalarFunction::new("jsonb_remove", Arguments::at_least(0), |arguments, _| {
        edit::remove(true, arguments)
    }),
    ScalarFunction::json("json_patch", Arguments::exactly(2), |arguments, _| {
        edit::patch(false, arguments)
    }),
    ScalarFunction::new("jsonb_patch", Arguments::exactly(2), |arguments, _| {
        edit::patch(true, arguments)
    }),
];

/// JSONB as a function's result: as a blob, or as text.
fn result(element: Vec<u8>, blob: bool) -> Result<Value, Error> {
    if blob { Ok(Value::Blob(element)) } else { binary::to_text(&element).map(Value::Text) }
}

/// The JSON in the first argument as JSONB; `None` for NULL.
fn argument(arguments: &[Value]) -> Result<Option<Cow<'_, [u8]>>, Error> {
    let Some(value) = arguments.first() else { return Ok(None) };
    if let Value::Blob(blob) = value
        && valid::looks_right(blob)
    {
        return Ok(Some(Cow::Borrowed(blob)));
    }
    let Some(text) = text_of(value.as_ref()) else { return Ok(None) };
    marked(utf8::to_nul(&text)).map(|blob| Some(Cow::Owned(blob)))
}

/// A text of JSON, as JSONB.
fn marked(text: &[u8]) -> Result<Vec<u8>, Error> {
    parse(text).map_err(|_| malformed())
}

fn malformed() -> Error {
    Error::runtime("malformed JSON")
}

fn no_blobs() -> Error {
    Error::runtime("JSON cannot hold BLOB values")
}

/// Appends a value of SQL as JSON text; a text made by a JSON function is JSON already.
fn push_value(value: ValueRef<'_>, json: bool, out: &mut Vec<u8>) -> Result<(), Error> {
    match value {
        ValueRef::Null => out.extend_from_slice(b"null"),
        ValueRef::Real(real) if real.is_infinite() => {
            out.extend_from_slice(if real > 0.0 { b"9.0e+999" } else { b"-9.0e+999" });
        }
        ValueRef::Int(_) | ValueRef::Real(_) => push_text(value, out),
        ValueRef::Text(text) if json => {
            out.extend_from_slice(&minified(text::check(text).ok_or_else(malformed)?));
        }
        ValueRef::Text(text) => push_quoted(text, out),
        ValueRef::Blob(blob) if valid::looks_right(blob) => {
            out.extend_from_slice(&binary::to_text(blob)?);
        }
        ValueRef::Blob(_) => return Err(no_blobs()),
    }
    Ok(())
}

/// A text of SQL as a string of JSON.
pub(super) fn quoted(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    push_quoted(text, &mut out);
    out
}

/// JSON text put together by a caller, or the JSONB of the text.
fn made(text: Vec<u8>, blob: bool) -> Result<Value, Error> {
    if blob { marked(&text).map(Value::Blob) } else { Ok(Value::Text(text)) }
}

fn array(arguments: &[Value], env: &Env<'_>, blob: bool) -> Result<Value, Error> {
    let mut text = Vec::with_capacity(16 * arguments.len() + 2);
    text.push(b'[');
    for (place, value) in arguments.iter().enumerate() {
        if place > 0 {
            text.push(b',');
        }
        push_value(value.as_ref(), env.is_json(place), &mut text)?;
    }
    text.push(b']');
    made(text, blob)
}

fn object(arguments: &[Value], env: &Env<'_>, blob: bool) -> Result<Value, Error> {
    if !arguments.len().is_multiple_of(2) {
        return Err(Error::runtime("json_object() requires an even number of arguments"));
    }
    let mut text = Vec::with_capacity(16 * arguments.len() + 2);
    text.push(b'{');
    for (place, pair) in arguments.chunks_exact(2).enumerate() {
        let Value::Text(label) = &pair[0] else {
            return Err(Error::runtime("json_object() labels must be TEXT"));
        };
        if place > 0 {
            text.push(b',');
        }
        push_quoted(label, &mut text);
        text.push(b':');
        push_value(pair[1].as_ref(), env.is_json(2 * place + 1), &mut text)?;
    }
    text.push(b'}');
    made(text, blob)
}

fn json_pretty(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    let Some(root) = argument(arguments)? else { return Ok(Value::Null) };
    let indent = match arguments.get(1) {
        None | Some(Value::Null) => b"    ".to_vec(),
        Some(value) => utf8::to_nul(&text_of(value.as_ref()).unwrap_or_default()).to_vec(),
    };
    binary::to_pretty(&root, &indent).map(Value::Text)
}

/// The place, in characters from 1, where a text stops being JSON; 0 for valid JSON.
fn json_error_position(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    let value = &arguments[0];
    if let Value::Blob(blob) = value
        && valid::looks_right(blob)
    {
        let place = valid::fault(blob).unwrap_or(0);
        return Ok(Value::Int(i64::try_from(place).unwrap_or(i64::MAX)));
    }
    let Some(text) = text_of(value.as_ref()) else { return Ok(Value::Null) };
    let text = utf8::to_nul(&text);
    Ok(match parse(text) {
        Ok(_) => Value::Int(0),
        Err(bad) => {
            let before = &text[..bad.pos.min(text.len())];
            let characters = before.iter().filter(|byte| **byte & 0xc0 != 0x80).count();
            Value::Int(i64::try_from(characters + 1).unwrap_or(i64::MAX))
        }
    })
}

fn jsonb_extract(arguments: &[Value], env: &Env<'_>) -> Result<Value, Error> {
    if arguments.len() != 2 {
        return match json_extract(arguments, env)? {
            Value::Text(text) => made(text, true),
            other => Ok(other),
        };
    }
    let Some(root) = argument(arguments)? else { return Ok(Value::Null) };
    let Some(path) = path_text(&arguments[1]) else { return Ok(Value::Null) };
    let Some(steps) = path.strip_prefix(b"$") else { return Err(bad_path(&path)) };
    match path::locate(&root, steps).map_err(|fault| fault.of(&path))? {
        Some(found) => binary::to_value(&root[found.at..], true),
        None => Ok(Value::Null),
    }
}

/// `json_extract` with a result in JSON, strings included; NULL where nothing is found.
fn json_extract_element(arguments: &[Value], env: &Env<'_>) -> Result<Value, Error> {
    if arguments.len() != 2 {
        return json_extract(arguments, env);
    }
    let Some(root) = document(arguments)? else { return Ok(Value::Null) };
    let Some(path) = path_text(&arguments[1]) else { return Ok(Value::Null) };
    match find(&root, &path)? {
        None => Ok(Value::Null),
        Some(element) if element.kind() == Kind::Text => element.json(),
        Some(element) => element.value(),
    }
}

fn json(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    match document(arguments)? {
        Some(root) => root.whole().json(),
        None => Ok(Value::Null),
    }
}

fn json_valid(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    let flags = match arguments.get(1) {
        None => 1,
        Some(flags) => to_int(flags.as_ref()),
    };
    if !(1..=15).contains(&flags) {
        let message = "FLAGS parameter to json_valid() must be between 1 and 15";
        return Err(Error::runtime(message));
    }
    let asks = |flag: i64| flags & flag != 0;
    Ok(match &arguments[0] {
        Value::Null => Value::Null,
        Value::Blob(blob) if valid::looks_right(blob) => {
            (asks(4) || asks(8) && valid::fault(blob).is_none()).into()
        }
        value => {
            let text = text_of(value.as_ref()).unwrap_or_default();
            let text = utf8::to_nul(&text);
            let strict = asks(1) && text::check(text).is_some();
            (strict || asks(2) && parse(text).is_ok()).into()
        }
    })
}

fn json_type(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    with_element(arguments, |element| Ok(element.kind().name().into()))
}

/// The name of a kind of JSONB.
fn kind_name(kind: u8) -> &'static str {
    Kind::of_jsonb(kind).name()
}

fn json_array_length(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    with_element(arguments, |element| {
        let count = match element {
            Element::Text(text) if text::kind(text) == Kind::Array => text::array_length(text),
            Element::Text(_) => 0,
            Element::Jsonb(bytes) => binary::array_length(bytes)?,
        };
        Ok(Value::Int(i64::try_from(count).unwrap_or(i64::MAX)))
    })
}

fn json_extract(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    let Some((_, paths)) = arguments.split_first().filter(|(_, paths)| !paths.is_empty()) else {
        return Ok(Value::Null);
    };
    let Some(root) = document(arguments)? else { return Ok(Value::Null) };
    if let [path] = paths {
        let Some(path) = path_text(path) else { return Ok(Value::Null) };
        return find(&root, &path)?.map_or(Ok(Value::Null), Element::value);
    }
    let mut elements = Vec::with_capacity(paths.len());
    for path in paths {
        let Some(path) = path_text(path) else { return Ok(Value::Null) };
        elements.push(find(&root, &path)?);
    }
    let mut array = vec![b'['];
    for (index, element) in elements.into_iter().enumerate() {
        if index > 0 {
            array.push(b',');
        }
        match element {
            Some(element) => array.extend_from_slice(&element.text()?),
            None => array.extend_from_slice(b"null"),
        }
    }
    array.push(b']');
    Ok(Value::Text(array))
}

/// `->` and `->>`, taking a path, a label or an array index.
fn arrow(
    arguments: &[Value],
    result: fn(Element<'_>) -> Result<Value, Error>,
) -> Result<Value, Error> {
    let Some(root) = document(arguments)? else { return Ok(Value::Null) };
    let Some(argument) = arguments.get(1) else { return Ok(Value::Null) };
    let Some(path) = path_text(argument) else { return Ok(Value::Null) };
    let plain = path.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let spelled = if path.starts_with(b"$") {
        Cow::Borrowed(&*path)
    } else if matches!(argument, Value::Int(_)) {
        let from_end: &[u8] = if path.starts_with(b"-") { b"#" } else { b"" };
        Cow::Owned([b"$[", from_end, &path, b"]"].concat())
    } else if plain {
        Cow::Owned([b"$.", &path[..]].concat())
    } else if path.len() >= 3 && path.starts_with(b"[") && path.ends_with(b"]") {
        Cow::Owned([b"$", &path[..]].concat())
    } else {
        Cow::Owned([b"$.\"", &path[..], b"\""].concat())
    };
    let found = root.lookup(&spelled[1..]).map_err(|fault| fault.of(&path))?;
    found.map_or(Ok(Value::Null), result)
}

/// A JSON document for reading.
enum Document<'a> {
    /// Strict JSON without white space around.
    Text(Cow<'a, [u8]>),
    Jsonb(Cow<'a, [u8]>),
}

/// An element for reading: of a checked text, or of JSONB with perhaps other bytes behind.
#[derive(Clone, Copy)]
enum Element<'a> {
    Text(&'a [u8]),
    Jsonb(&'a [u8]),
}

/// The JSON in the first argument; `None` for NULL.
fn document(arguments: &[Value]) -> Result<Option<Document<'_>>, Error> {
    let Some(value) = arguments.first() else { return Ok(None) };
    if !matches!(value, Value::Blob(blob) if valid::looks_right(blob)) {
        let root = match text_of(value.as_ref()) {
            None => return Ok(None),
            Some(Cow::Borrowed(text)) => text::check(utf8::to_nul(text)).map(Cow::Borrowed),
            Some(Cow::Owned(text)) => {
                text::check(utf8::to_nul(&text)).map(|root| Cow::Owned(root.to_vec()))
            }
        };
        if let Some(root) = root {
            return Ok(Some(Document::Text(root)));
        }
    }
    Ok(argument(arguments)?.map(Document::Jsonb))
}

impl Document<'_> {
    fn whole(&self) -> Element<'_> {
        match self {
            Document::Text(root) => Element::Text(root),
            Document::Jsonb(root) => Element::Jsonb(root),
        }
    }

    /// Follows the steps of a path, behind the `$`.
    fn lookup(&self, steps: &[u8]) -> Result<Option<Element<'_>>, Fault> {
        match self {
            Document::Text(root) => Ok(path::lookup(root, steps)?.map(Element::Text)),
            Document::Jsonb(root) => {
                Ok(path::locate(root, steps)?.map(|found| Element::Jsonb(&root[found.at..])))
            }
        }
    }
}

impl Element<'_> {
    fn kind(self) -> Kind {
        match self {
            Element::Text(text) => text::kind(text),
            Element::Jsonb(bytes) => Kind::of_jsonb(bytes.first().map_or(0, |first| first & 15)),
        }
    }

    /// As JSON text without white space.
    fn text(self) -> Result<Vec<u8>, Error> {
        match self {
            Element::Text(text) => Ok(minified(text)),
            Element::Jsonb(bytes) => binary::to_text(bytes),
        }
    }

    /// The element as a JSON value of SQL.
    fn json(self) -> Result<Value, Error> {
        self.text().map(Value::Text)
    }

    /// Scalars as SQL's own values, arrays and objects as JSON text.
    fn value(self) -> Result<Value, Error> {
        let text = match self {
            Element::Text(text) => text,
            Element::Jsonb(bytes) => return binary::to_value(bytes, false),
        };
        Ok(match text::kind(text) {
            Kind::Null => Value::Null,
            Kind::True => Value::Int(1),
            Kind::False => Value::Int(0),
            Kind::Integer => match integer_text_prefix(text) {
                (int, IntEnd::Whole) => Value::Int(int),
                _ => Value::real(parse_real(text).real),
            },
            Kind::Real => Value::real(parse_real(text).real),
            Kind::Text => Value::Text(unescape(&text[1..text.len() - 1])),
            Kind::Array | Kind::Object => Value::Text(minified(text)),
        })
    }
}

fn path_text(path: &Value) -> Option<Cow<'_, [u8]>> {
    Some(match text_of(path.as_ref())? {
        Cow::Borrowed(path) => Cow::Borrowed(utf8::to_nul(path)),
        // Text made of a number has no NUL.
        path => path,
    })
}

fn find<'a>(root: &'a Document<'_>, path: &[u8]) -> Result<Option<Element<'a>>, Error> {
    let Some(steps) = path.strip_prefix(b"$") else { return Err(bad_path(path)) };
    root.lookup(steps).map_err(|fault| fault.of(path))
}

/// Applies a function to the element named by the second argument, or to the whole.
fn with_element(
    arguments: &[Value],
    result: fn(Element<'_>) -> Result<Value, Error>,
) -> Result<Value, Error> {
    let Some(root) = document(arguments)? else { return Ok(Value::Null) };
    let Some(path) = arguments.get(1) else { return result(root.whole()) };
    let Some(path) = path_text(path) else { return Ok(Value::Null) };
    find(&root, &path)?.map_or(Ok(Value::Null), result)
}

fn bad_path(path: &[u8]) -> Error {
    path_error("bad JSON path", path)
}

fn path_error(what: &str, path: &[u8]) -> Error {
    let path = String::from_utf8_lossy(path).replace('\'', "''");
    Error::runtime(format!("{what}: '{path}'"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::call;
    use super::*;

    const DOCUMENT: &str =
        r#" {"a": [1, 2.50, "x\u00e9\n", null, true], "b.c": {"d": -0}, "a": 7, "\u0065": 1e2} "#;

    fn extract(path: &str) -> Value {
        call("json_extract", &[DOCUMENT.into(), path.into()]).unwrap()
    }

    #[test]
    fn elements() {
        assert_eq!(extract("$.a[0]"), Value::Int(1));
        assert_eq!(extract("$.a[1]"), Value::Real(2.5));
        assert_eq!(extract("$.a[2]"), "xé\n".into());
        assert_eq!(extract("$.a[#-1]"), Value::Int(1));
        assert_eq!(extract("$.a[#-2]"), Value::Null);
        assert_eq!(extract("$.a[9]"), Value::Null);
        assert_eq!(extract("$.\"b.c\""), r#"{"d":-0}"#.into());
        assert_eq!(extract("$.e"), Value::Real(100.0));
        let two = call("json_extract", &[DOCUMENT.into(), "$.a".into(), "$.x".into()]).unwrap();
        assert_eq!(two, r#"[[1,2.50,"x\u00e9\n",null,true],null]"#.into());
        assert_eq!(call("->", &[DOCUMENT.into(), "e".into()]).unwrap(), "1e2".into());
        assert_eq!(call("->>", &["[1,2]".into(), Value::Int(-1)]).unwrap(), Value::Int(2));
    }

    #[test]
    fn what_is_wrong_is_told() {
        let error = call("json_extract", &[DOCUMENT.into(), "$.a[".into()]).unwrap_err();
        assert_eq!(error.to_string(), "bad JSON path: '$.a['");
        for malformed in ["", "{", "[1,,]", "01", "{\"a\"}", "1 2", "nul", "+"] {
            let error = call("json", &[malformed.into()]).unwrap_err();
            assert_eq!(error.to_string(), "malformed JSON", "{malformed}");
            assert_eq!(call("json_valid", &[malformed.into()]).unwrap(), Value::Int(0));
        }
        assert_eq!(call("json", &[Value::Null]).unwrap(), Value::Null);
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth| "[".repeat(depth) + &"]".repeat(depth);
        assert!(call("json", &[nested(1000).into()]).is_ok());
        assert!(call("json", &[nested(1001).into()]).is_err());
        assert!(call("json", &["[".repeat(1_000_000).into()]).is_err());
    }
}
