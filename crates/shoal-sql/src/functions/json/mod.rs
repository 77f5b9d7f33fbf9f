//! Reading JSON: `json`, `json_extract`, `->`, `->>` and their like (json1.html).
//!
//! JSON is text and stays text: an element is a subslice of the whole, so numbers and strings come
//! out as they were written. Only JSON as in RFC 8259 is read; the extensions of JSON5 count as
//! malformed and blobs (which SQLite may take for JSONB) are refused. SQLite also marks the text
//! that these functions return as JSON; nothing here looks at that mark, which is why `json_quote`
//! and the functions that build JSON are refused.

mod path;
mod text;

use super::{Arguments, Env, ScalarFunction};
use crate::Error;
use crate::value::number::{IntEnd, integer_text_prefix, parse_real};
use crate::value::{Value, text_of, to_int, utf8};
use path::Lookup;
use text::{Kind, minified, unescape};

pub(super) const FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction::new("json", Arguments::exactly(1), json),
    ScalarFunction::new("json_valid", Arguments::between(1, 2), json_valid),
    ScalarFunction::new("json_type", Arguments::between(1, 2), json_type),
    ScalarFunction::new("json_array_length", Arguments::between(1, 2), json_array_length),
    ScalarFunction::new("json_extract", Arguments::at_least(1), json_extract),
    ScalarFunction::new("->", Arguments::exactly(2), |arguments, _| arrow(arguments, json_text)),
    ScalarFunction::new("->>", Arguments::exactly(2), |arguments, _| arrow(arguments, sql_value)),
];

fn json(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    let Some(text) = json_argument(arguments)? else { return Ok(Value::Null) };
    Ok(json_text(root(&text)?))
}

fn json_valid(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    match arguments.get(1).map(|flags| to_int(flags.as_ref())) {
        None | Some(1) => {}
        Some(2..=15) => return Err(unsupported("json_valid() with flags other than 1")),
        Some(_) => {
            let message = "FLAGS parameter to json_valid() must be between 1 and 15";
            return Err(Error::runtime(message));
        }
    }
    Ok(json_argument(arguments)?.map(|text| root(&text).is_ok()).into())
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
        Some(Value::Blob(_)) => Err(unsupported("JSON in a blob")),
        Some(value) => Ok(text_of(value.as_ref()).map(|text| text.into_owned())),
    }
}

fn path_text(path: &Value) -> Option<Vec<u8>> {
    text_of(path.as_ref()).map(|path| utf8::to_nul(&path).to_vec())
}

/// The whole of a checked text, without the white space around it.
fn root(text: &[u8]) -> Result<&[u8], Error> {
    text::check(text).ok_or_else(|| Error::runtime("malformed JSON"))
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

fn unsupported(what: &str) -> Error {
    Error::Unsupported { what: what.to_owned(), offset: None }
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
        for malformed in ["", "{", "[1,]", "01", "'a'", "{\"a\"}", "1 2", "\"\n\"", "nul"] {
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
