//! Properties as JSON: how the default layout keeps them.
//!
//! Integers, floats, strings, booleans and lists are JSON's own; a float always has a point or an
//! exponent. Other values are objects with one key: `{"$date": "1984-10-11"}`, `{"$float": "NaN"}`.

use std::fmt::Write;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::temporal::parse;
use crate::value::{Map, Value};

/// Properties as an object.
pub(crate) fn write(map: &Map) -> String {
    let mut text = String::from("{");
    for (at, (key, value)) in map.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        write_text(key, &mut text);
        text.push(':');
        write_value(value, &mut text);
    }
    text.push('}');
    text
}

/// One value as JSON: nodes, relationships and paths are objects, for programs that read results.
pub(crate) fn write_value(value: &Value, to: &mut String) {
    let tagged = |tag: &str, text: &str, to: &mut String| {
        let _ = write!(to, "{{\"{tag}\":");
        write_text(text, to);
        to.push('}');
    };
    let plain = |value: &Value| value.to_string().trim_matches('\'').to_owned();
    match value {
        Value::Null => to.push_str("null"),
        Value::Boolean(_) | Value::Integer(_) => {
            let _ = write!(to, "{value}");
        }
        Value::Float(number) if number.is_finite() => to.push_str(&value.to_string()),
        Value::Float(_) => tagged("$float", &value.to_string(), to),
        Value::Text(text) => write_text(text, to),
        Value::List(list) => {
            to.push('[');
            for (at, value) in list.iter().enumerate() {
                if at > 0 {
                    to.push(',');
                }
                write_value(value, to);
            }
            to.push(']');
        }
        Value::Map(map) => to.push_str(&write(map)),
        Value::WholeNode(node) => {
            let _ = write!(to, "{{\"id\":{},\"labels\":[", node.id);
            for (at, label) in node.labels.iter().enumerate() {
                if at > 0 {
                    to.push(',');
                }
                write_text(label, to);
            }
            let _ = write!(to, "],\"properties\":{}}}", write(&node.properties));
        }
        Value::WholeRelationship(one) => {
            let _ = write!(
                to,
                "{{\"id\":{},\"source\":{},\"target\":{},\"type\":",
                one.id, one.source, one.target
            );
            write_text(&one.kind, to);
            let _ = write!(to, ",\"properties\":{}}}", write(&one.properties));
        }
        Value::WholePath(path) => {
            let nodes = path.nodes.iter().map(|node| Value::WholeNode(node.clone())).collect();
            let relationships = path
                .relationships
                .iter()
                .map(|one| Value::WholeRelationship(one.clone()))
                .collect();
            to.push_str("{\"nodes\":");
            write_value(&Value::list(nodes), to);
            to.push_str(",\"relationships\":");
            write_value(&Value::list(relationships), to);
            to.push('}');
        }
        Value::Node(id) | Value::Relationship(id) => {
            let _ = write!(to, "{id}");
        }
        Value::Path(_) => to.push_str("null"),
        Value::Date(_) => tagged("$date", &plain(value), to),
        Value::LocalTime(_) => tagged("$localtime", &plain(value), to),
        Value::Time(_) => tagged("$time", &plain(value), to),
        Value::LocalDateTime(_) => tagged("$localdatetime", &plain(value), to),
        Value::DateTime(_) => tagged("$datetime", &plain(value), to),
        Value::Duration(_) => tagged("$duration", &plain(value), to),
    }
}

/// A text as JSON.
pub(crate) fn write_text(text: &str, to: &mut String) {
    to.push('"');
    for c in text.chars() {
        match c {
            '"' => to.push_str("\\\""),
            '\\' => to.push_str("\\\\"),
            '\n' => to.push_str("\\n"),
            '\r' => to.push_str("\\r"),
            '\t' => to.push_str("\\t"),
            c if c < ' ' => {
                let _ = write!(to, "\\u{:04x}", c as u32);
            }
            c => to.push(c),
        }
    }
    to.push('"');
}

/// Lists and objects within each other: no property has more than a list of tagged values.
const DEPTH_MAX: usize = 64;

/// Reads an object of properties.
pub(crate) fn read(text: &str) -> Result<Map> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(0)?;
    reader.space();
    match value {
        Value::Map(map) if reader.at == text.len() => Ok(Arc::unwrap_or_clone(map)),
        _ => Err(reader.wrong("an object")),
    }
}

/// The texts of an array that has nothing else; `None` for another value.
pub(crate) fn texts(text: &str) -> Option<Vec<String>> {
    let mut reader = Reader { text, at: 0 };
    let mut texts = Vec::new();
    reader.take("[").then_some(())?;
    while !reader.take("]") {
        if !texts.is_empty() {
            reader.take(",").then_some(())?;
        }
        reader.space();
        texts.push(reader.string().ok()?);
    }
    reader.space();
    (reader.at == text.len()).then_some(texts)
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl Reader<'_> {
    fn wrong(&self, wanted: &str) -> Error {
        Error::storage(format!("properties are not JSON: {wanted} is expected at byte {}", self.at))
    }

    fn space(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
    }

    fn take(&mut self, sign: &str) -> bool {
        self.space();
        let is = self.text[self.at..].starts_with(sign);
        if is {
            self.at += sign.len();
        }
        is
    }

    fn value(&mut self, depth: usize) -> Result<Value> {
        self.space();
        if depth > DEPTH_MAX {
            return Err(self.wrong("less nesting"));
        }
        for (word, value) in [
            ("null", Value::Null),
            ("true", Value::Boolean(true)),
            ("false", Value::Boolean(false)),
        ] {
            if self.take(word) {
                return Ok(value);
            }
        }
        if self.text[self.at..].starts_with('"') {
            return Ok(Value::text(&self.string()?));
        }
        if self.take("[") {
            let mut list = Vec::new();
            while !self.take("]") {
                if !list.is_empty() && !self.take(",") {
                    return Err(self.wrong("a comma"));
                }
                list.push(self.value(depth + 1)?);
            }
            return Ok(Value::list(list));
        }
        if self.take("{") {
            let mut map = Map::new();
            while !self.take("}") {
                if !map.is_empty() && !self.take(",") {
                    return Err(self.wrong("a comma"));
                }
                self.space();
                let key = self.string()?;
                if !self.take(":") {
                    return Err(self.wrong("a colon"));
                }
                map.insert(Arc::from(key), self.value(depth + 1)?);
            }
            return untagged(map);
        }
        let rest = &self.text[self.at..];
        let end = rest
            .find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'))
            .unwrap_or(rest.len());
        let number = &rest[..end];
        let value = match number.contains(['.', 'e', 'E']) {
            true => number.parse().map(Value::Float).ok(),
            false => number.parse().map(Value::Integer).ok(),
        };
        let value = value.ok_or_else(|| self.wrong("a value"))?;
        self.at += end;
        Ok(value)
    }

    fn string(&mut self) -> Result<String> {
        if !self.text[self.at..].starts_with('"') {
            return Err(self.wrong("a string"));
        }
        self.at += 1;
        let mut text = String::new();
        loop {
            let c = self.text[self.at..]
                .chars()
                .next()
                .ok_or_else(|| self.wrong("the end of a string"))?;
            self.at += c.len_utf8();
            match c {
                '"' => return Ok(text),
                '\\' => text.push(self.escape()?),
                c => text.push(c),
            }
        }
    }

    fn escape(&mut self) -> Result<char> {
        let c = self.text[self.at..].chars().next().ok_or_else(|| self.wrong("an escape"))?;
        self.at += c.len_utf8();
        Ok(match c {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'u' => {
                let first = self.unit()?;
                let code = match first {
                    0xd800..=0xdbff => {
                        if !self.text[self.at..].starts_with("\\u") {
                            return Err(self.wrong("the second half of a character"));
                        }
                        self.at += 2;
                        let second = self.unit()?;
                        0x10000 + ((first - 0xd800) << 10) + second.wrapping_sub(0xdc00).min(0x3ff)
                    }
                    unit => unit,
                };
                char::from_u32(code).ok_or_else(|| self.wrong("a character"))?
            }
            '"' | '\\' | '/' => c,
            _ => return Err(self.wrong("an escape")),
        })
    }

    fn unit(&mut self) -> Result<u32> {
        let unit =
            self.text.get(self.at..self.at + 4).and_then(|hex| u32::from_str_radix(hex, 16).ok());
        self.at += 4;
        unit.ok_or_else(|| Error::storage("properties are not JSON: \\u takes four digits"))
    }
}

/// The value of an object with one key that begins with a dollar sign.
fn untagged(map: Map) -> Result<Value> {
    let tagged = match (map.len(), map.iter().next()) {
        (1, Some((tag, Value::Text(text)))) => Some((tag.clone(), text.clone())),
        _ => None,
    };
    let Some((tag, text)) = tagged else { return Ok(Value::map(map)) };
    Ok(match &*tag {
        "$date" => Value::Date(parse::date(&text)?),
        "$localtime" => Value::LocalTime(parse::local_time(&text)?),
        "$time" => Value::Time(parse::time(&text)?),
        "$localdatetime" => Value::local_date_time(parse::local_date_time(&text)?),
        "$datetime" => Value::date_time(parse::date_time(&text)?),
        "$duration" => Value::duration(parse::duration(&text)?),
        "$float" => Value::Float(match &*text {
            "Infinity" => f64::INFINITY,
            "-Infinity" => f64::NEG_INFINITY,
            _ => f64::NAN,
        }),
        _ => Value::map(map),
    })
}

impl Value {
    /// The value as JSON, for programs that read results: nodes, relationships and paths are
    /// objects, temporal values `{"$date": "2026-01-31"}`.
    pub fn to_json(&self) -> String {
        let mut text = String::new();
        write_value(self, &mut text);
        text
    }
}
