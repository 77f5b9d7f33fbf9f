//! Values as text, in the notation of queries.

use std::fmt;

use super::{Map, Value, WholeNode, WholeRelationship};

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Boolean(truth) => write!(f, "{truth}"),
            Value::Integer(number) => write!(f, "{number}"),
            Value::Float(number) => f.write_str(&float_text(*number)),
            Value::Text(text) => quoted(f, text),
            Value::List(list) => {
                f.write_str("[")?;
                for (at, value) in list.iter().enumerate() {
                    write!(f, "{}{value}", if at > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
            Value::Map(map) => map_text(f, map),
            Value::Node(id) => write!(f, "(#{id})"),
            Value::Relationship(id) => write!(f, "[#{id}]"),
            Value::Path(path) => write!(f, "<path of {} relationships>", path.relationships.len()),
            Value::WholeNode(node) => node.fmt(f),
            Value::WholeRelationship(relationship) => relationship.fmt(f),
            Value::WholePath(path) => {
                write!(f, "<{}", path.nodes[0])?;
                for (relationship, pair) in path.relationships.iter().zip(path.nodes.windows(2)) {
                    match relationship.source == pair[0].id {
                        true => write!(f, "-{relationship}->{}", pair[1])?,
                        false => write!(f, "<-{relationship}-{}", pair[1])?,
                    }
                }
                f.write_str(">")
            }
            Value::Date(date) => write!(f, "'{date}'"),
            Value::LocalTime(time) => write!(f, "'{time}'"),
            Value::Time(time) => write!(f, "'{time}'"),
            Value::LocalDateTime(time) => write!(f, "'{time}'"),
            Value::DateTime(time) => write!(f, "'{time}'"),
            Value::Duration(duration) => write!(f, "'{duration}'"),
        }
    }
}

impl fmt::Display for WholeNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for label in &self.labels {
            write!(f, ":{label}")?;
        }
        if !self.properties.is_empty() {
            f.write_str(if self.labels.is_empty() { "" } else { " " })?;
            map_text(f, &self.properties)?;
        }
        f.write_str(")")
    }
}

impl fmt::Display for WholeRelationship {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[:{}", self.kind)?;
        if !self.properties.is_empty() {
            f.write_str(" ")?;
            map_text(f, &self.properties)?;
        }
        f.write_str("]")
    }
}

fn map_text(f: &mut fmt::Formatter<'_>, map: &Map) -> fmt::Result {
    f.write_str("{")?;
    for (at, (key, value)) in map.iter().enumerate() {
        write!(f, "{}{key}: {value}", if at > 0 { ", " } else { "" })?;
    }
    f.write_str("}")
}

fn quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str("'")?;
    for c in text.chars() {
        match c {
            '\'' => f.write_str("\\'")?,
            '\\' => f.write_str("\\\\")?,
            c => write!(f, "{c}")?,
        }
    }
    f.write_str("'")
}

/// A float with a point or an exponent, so that it is read as a float again.
pub(crate) fn float_text(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let size = number.abs();
    if size != 0.0 && !(1e-5..1e15).contains(&size) {
        return format!("{number:e}");
    }
    let text = format!("{number}");
    if text.contains('.') { text } else { format!("{text}.0") }
}
