//! JSON: reading it, building it, changing it (json1.html).
//!
//! JSON is text and stays text where it is only read: an element is a subslice of the whole, so
//! numbers and strings come out as they were written. What is no strict JSON, the extensions of
//! JSON5 and the blobs of JSONB, is first brought into that form. SQLite marks the text that these
//! functions return as JSON; here the calls know which of their arguments such a function made
//! ([`Env::is_json`]).

mod binary;
mod edit;
mod node;
mod path;
mod table;
mod text;
mod valid;

use super::{Arguments, Env, ScalarFunction};
use crate::Error;
use crate::value::number::{IntEnd, integer_text_prefix, parse_real};
use crate::value::{Value, real_to_text, text_of, to_int, utf8};
use edit::Mode;
pub(super) use node::{Node, escaped};
use path::Lookup;
pub(crate) use table::{Walk, walk};
use text::{Kind, minified, unescape};

pub(super) const FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction::json("json", Arguments::exactly(1), json),
    ScalarFunction::new("jsonb", Arguments::exactly(1), |arguments, _| {
        Ok(argument(arguments)?.map_or(Value::Null, |node| result(&node, true)))
    }),
    ScalarFunction::new("json_valid", Arguments::between(1, 2), json_valid),
    ScalarFunction::new("json_type", Arguments::between(1, 2), json_type),
    ScalarFunction::new("json_array_length", Arguments::between(1, 2), json_array_length),
    ScalarFunction::new("json_extract", Arguments::at_least(0), json_extract),
    ScalarFunction::new("jsonb_extract", Arguments::at_least(0), jsonb_extract),
    // What an argument of another JSON function reads: strings stay JSON.
    ScalarFunction::json("json_extract element", Arguments::at_least(0), json_extract_element),
    ScalarFunction::json("->", Arguments::exactly(2), |arguments, _| arrow(arguments, json_text)),
    ScalarFunction::new("->>", Arguments::exactly(2), |arguments, _| arrow(arguments, sql_value)),
    ScalarFunction::new("json_error_position", Arguments::exactly(1), json_error_position),
    ScalarFunction::json("json_array", Arguments::at_least(0), |arguments, env| {
        Ok(result(&array(arguments, env)?, false))
    }),
    ScalarFunction::new("jsonb_array", Arguments::at_least(0), |arguments, env| {
        Ok(result(&array(arguments, env)?, true))
    }),
    ScalarFunction::json("json_object", Arguments::at_least(0), |arguments, env| {
        Ok(result(&object(arguments, env)?, false))
    }),
    ScalarFunction::new("jsonb_object", Arguments::at_least(0), |arguments, env| {
        Ok(result(&object(arguments, env)?, true))
    }),
    ScalarFunction::json("json_quote", Arguments::exactly(1), |arguments, env| {
        Ok(result(&sql_node(&arguments[0], env.is_json(0))?, false))
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

/// An element as a function's result: text, or the bytes of JSONB.
fn result(node: &Node, blob: bool) -> Value {
    if blob { Value::Blob(binary::encode(node)) } else { Value::Text(node.to_text()) }
}

/// The JSON in the first argument; `None` for NULL.
fn argument(arguments: &[Value]) -> Result<Option<Node>, Error> {
    let Some(text) = json_argument(arguments)? else { return Ok(None) };
    node::parse(&text).map(Some).map_err(|_| malformed())
}

fn malformed() -> Error {
    Error::runtime("malformed JSON")
}

/// A value of SQL as an element; text is JSON itself where a function made it.
pub(super) fn sql_node(value: &Value, json: bool) -> Result<Node, Error> {
    Ok(match value {
        Value::Null => Node::Null,
        Value::Int(int) => Node::Int(int.to_string().into_bytes()),
        Value::Real(real) if real.is_infinite() => {
            Node::Real(if *real > 0.0 { b"9.0e+999".to_vec() } else { b"-9.0e+999".to_vec() })
        }
        Value::Real(real) => Node::Real(real_to_text(*real).into_bytes()),
        Value::Text(text) if json => node::parse(text).map_err(|_| malformed())?,
        Value::Text(text) => Node::text(text),
        Value::Blob(blob) => {
            binary::decode(blob).ok_or_else(|| Error::runtime("JSON cannot hold BLOB values"))?
        }
    })
}

fn array(arguments: &[Value], env: &Env<'_>) -> Result<Node, Error> {
    let items = arguments.iter().enumerate();
    let items: Result<Vec<Node>, Error> =
        items.map(|(place, value)| sql_node(value, env.is_json(place))).collect();
    items.map(Node::Array)
}

fn object(arguments: &[Value], env: &Env<'_>) -> Result<Node, Error> {
    if !arguments.len().is_multiple_of(2) {
        return Err(Error::runtime("json_object() requires an even number of arguments"));
    }
    let mut members = Vec::with_capacity(arguments.len() / 2);
    for (place, pair) in arguments.chunks_exact(2).enumerate() {
        let Value::Text(label) = &pair[0] else {
            return Err(Error::runtime("json_object() labels must be TEXT"));
        };
        members.push((escaped(label), sql_node(&pair[1], env.is_json(2 * place + 1))?));
    }
    Ok(Node::Object(members))
}

/// What a group of values or of labels with values becomes.
pub(super) fn group(labels: Option<&[Vec<u8>]>, values: Vec<Node>, blob: bool) -> Value {
    let node = match labels {
        None => Node::Array(values),
        Some(labels) => Node::Object(labels.iter().cloned().zip(values).collect()),
    };
    result(&node, blob)
}

fn json_pretty(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    let Some(root) = argument(arguments)? else { return Ok(Value::Null) };
    let indent = match arguments.get(1) {
        None | Some(Value::Null) => b"    ".to_vec(),
        Some(value) => text_of(value.as_ref()).unwrap_or_default().into_owned(),
    };
    let mut out = Vec::new();
    root.write_pretty(&indent, 0, &mut out);
    Ok(Value::Text(out))
}

/// The place, in characters from 1, where a text stops being JSON; 0 when it is.
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
    Ok(match node::parse(text) {
        Ok(_) => Value::Int(0),
        Err(bad) => {
            let before = &text[..bad.pos.min(text.len())];
            let characters = before.iter().filter(|byte| **byte & 0xc0 != 0x80).count();
            Value::Int(i64::try_from(characters + 1).unwrap_or(i64::MAX))
        }
    })
}

fn jsonb_extract(arguments: &[Value], env: &Env<'_>) -> Result<Value, Error> {
    let found = json_extract_element(arguments, env)?;
    let Value::Text(text) = &found else { return Ok(found) };
    let node = node::parse(text).map_err(|_| malformed())?;
    Ok(match node {
        Node::Array(_) | Node::Object(_) => result(&node, true),
        _ => sql_value(text),
    })
}

/// `json_extract` whose result is JSON whatever it is; NULL where it finds nothing.
fn json_extract_element(arguments: &[Value], env: &Env<'_>) -> Result<Value, Error> {
    if arguments.len() != 2 {
        return json_extract(arguments, env);
    }
    let Some(text) = json_argument(arguments)? else { return Ok(Value::Null) };
    let Some(path) = path_text(&arguments[1]) else { return Ok(Value::Null) };
    let element = find(root(&text)?, &path)?;
    Ok(element.map_or(Value::Null, |element| match text::kind(element) {
        Kind::Text => json_text(element),
        _ => sql_value(element),
    }))
}

fn json(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    let Some(text) = json_argument(arguments)? else { return Ok(Value::Null) };
    Ok(json_text(root(&text)?))
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
            let strict = asks(1) && text::check(&text).is_some();
            (strict || asks(2) && node::parse(&text).is_ok()).into()
        }
    })
}

fn json_type(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    with_element(arguments, |element| {
        Value::from(match text::kind(element) {
            Kind::Null => "null",
            Kind::True => "true",
            Kind::False => "false",
            Kind::Integer => "integer",
            Kind::Real => "real",
            Kind::Text => "text",
            Kind::Array => "array",
            Kind::Object => "object",
        })
    })
}

fn json_array_length(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    with_element(arguments, |element| {
        let count =
            if text::kind(element) == Kind::Array { text::array_length(element) } else { 0 };
        Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
    })
}

fn json_extract(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    let Some((_, paths)) = arguments.split_first().filter(|(_, paths)| !paths.is_empty()) else {
        return Ok(Value::Null);
    };
    let Some(text) = json_argument(arguments)? else { return Ok(Value::Null) };
    let root = root(&text)?;
    let mut elements = Vec::with_capacity(paths.len());
    for path in paths {
        let Some(path) = path_text(path) else { return Ok(Value::Null) };
        elements.push(find(root, &path)?);
    }
    if let [element] = elements.as_slice() {
        return Ok(element.map_or(Value::Null, sql_value));
    }
    let mut array = vec![b'['];
    for (index, element) in elements.into_iter().enumerate() {
        if index > 0 {
            array.push(b',');
        }
        array.extend_from_slice(&element.map_or_else(|| b"null".to_vec(), minified));
    }
    array.push(b']');
    Ok(Value::Text(array))
}

/// `->` and `->>`, which also take a label or an array index in place of a path.
fn arrow(arguments: &[Value], result: fn(&[u8]) -> Value) -> Result<Value, Error> {
    let Some(text) = json_argument(arguments)? else { return Ok(Value::Null) };
    let root = root(&text)?;
    let Some(argument) = arguments.get(1) else { return Ok(Value::Null) };
    let Some(path) = path_text(argument) else { return Ok(Value::Null) };
    let plain = path.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let spelled = if path.starts_with(b"$") {
        path.clone()
    } else if matches!(argument, Value::Int(_)) {
        let from_end: &[u8] = if path.starts_with(b"-") { b"#" } else { b"" };
        [b"$[", from_end, &path, b"]"].concat()
    } else if plain {
        [b"$.", &path[..]].concat()
    } else if path.len() >= 3 && path.starts_with(b"[") && path.ends_with(b"]") {
        [b"$", &path[..]].concat()
    } else {
        [b"$.\"", &path[..], b"\""].concat()
    };
    match path::lookup(root, &spelled[1..]) {
        Lookup::Found(element) => Ok(result(element)),
        Lookup::Missing => Ok(Value::Null),
        Lookup::BadPath => Err(bad_path(&path)),
    }
}

/// The JSON in the first argument, as text; `None` for NULL.
fn json_argument(arguments: &[Value]) -> Result<Option<Vec<u8>>, Error> {
    match arguments.first() {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            if let Value::Blob(blob) = value
                && let Some(node) = binary::decode(blob)
            {
                return Ok(Some(node.to_text()));
            }
            let Some(text) = text_of(value.as_ref()) else { return Ok(None) };
            let text = utf8::to_nul(&text).to_vec();
            if text::check(&text).is_some() {
                return Ok(Some(text));
            }
            node::parse(&text).map(|node| Some(node.to_text())).map_err(|_| malformed())
        }
    }
}

fn path_text(path: &Value) -> Option<Vec<u8>> {
    text_of(path.as_ref()).map(|path| utf8::to_nul(&path).to_vec())
}

/// The whole of a checked text, without the white space around it.
fn root(text: &[u8]) -> Result<&[u8], Error> {
    text::check(text).ok_or_else(malformed)
}

fn find<'a>(root: &'a [u8], path: &[u8]) -> Result<Option<&'a [u8]>, Error> {
    let Some(steps) = path.strip_prefix(b"$") else { return Err(bad_path(path)) };
    match path::lookup(root, steps) {
        Lookup::Found(element) => Ok(Some(element)),
        Lookup::Missing => Ok(None),
        Lookup::BadPath => Err(bad_path(path)),
    }
}

/// Applies a function to the element that the second argument names, or to the whole.
fn with_element(arguments: &[Value], result: fn(&[u8]) -> Value) -> Result<Value, Error> {
    let Some(text) = json_argument(arguments)? else { return Ok(Value::Null) };
    let root = root(&text)?;
    let Some(path) = arguments.get(1) else { return Ok(result(root)) };
    let Some(path) = path_text(path) else { return Ok(Value::Null) };
    Ok(find(root, &path)?.map_or(Value::Null, result))
}

fn json_text(element: &[u8]) -> Value {
    Value::Text(minified(element))
}

/// Scalars as SQL's own values, arrays and objects as JSON text.
fn sql_value(element: &[u8]) -> Value {
    match text::kind(element) {
        Kind::Null => Value::Null,
        Kind::True => Value::Int(1),
        Kind::False => Value::Int(0),
        Kind::Integer => match integer_text_prefix(element) {
            (int, IntEnd::Whole) => Value::Int(int),
            _ => Value::real(parse_real(element).real),
        },
        Kind::Real => Value::real(parse_real(element).real),
        Kind::Text => Value::Text(unescape(&element[1..element.len() - 1])),
        Kind::Array | Kind::Object => json_text(element),
    }
}

fn bad_path(path: &[u8]) -> Error {
    let path = String::from_utf8_lossy(path).replace('\'', "''");
    Error::runtime(format!("bad JSON path: '{path}'"))
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
