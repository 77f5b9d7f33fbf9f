//! Values of queries, and how two of them compare.
//!
//! Three relations are kept apart. [`Value::equals`] is `=`: three-valued, null is equal to
//! nothing. [`Value::compare`] is `<`: undecided between kinds without an order. [`Value::order`]
//! serves `ORDER BY`, `DISTINCT` and groups: total, null is null and NaN is NaN.

mod compare;
mod text;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::temporal::{Date, DateTime, Duration, LocalDateTime, LocalTime, Time};

pub use compare::{Comparison, Key};

/// A map of values by key.
pub type Map = BTreeMap<Arc<str>, Value>;

/// One value.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// No value.
    #[default]
    Null,
    /// True or false.
    Boolean(bool),
    /// A signed 64-bit integer.
    Integer(i64),
    /// An IEEE 754 double.
    Float(f64),
    /// A text.
    Text(Arc<str>),
    /// Values in order.
    List(Arc<[Value]>),
    /// Values by key.
    Map(Arc<Map>),
    /// A node within a query, by its id.
    Node(i64),
    /// A relationship within a query, by its id.
    Relationship(i64),
    /// A path within a query.
    Path(Arc<Path>),
    /// A node of a result.
    WholeNode(Arc<WholeNode>),
    /// A relationship of a result.
    WholeRelationship(Arc<WholeRelationship>),
    /// A path of a result.
    WholePath(Arc<WholePath>),
    /// A date.
    Date(Date),
    /// A time of day without a zone.
    LocalTime(LocalTime),
    /// A time of day with an offset.
    Time(Time),
    /// A date and time without a zone.
    LocalDateTime(Arc<LocalDateTime>),
    /// A date and time in a zone.
    DateTime(Arc<DateTime>),
    /// A duration.
    Duration(Arc<Duration>),
}

/// Ids along a path: one node more than relationships.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The nodes.
    pub nodes: Vec<i64>,
    /// The relationships between them.
    pub relationships: Vec<i64>,
}

/// A node with its labels and properties.
#[derive(Clone, Debug, PartialEq)]
pub struct WholeNode {
    /// The id, unique among nodes of the graph.
    pub id: i64,
    /// Labels in ascending order.
    pub labels: Vec<Arc<str>>,
    /// Properties.
    pub properties: Map,
}

/// A relationship with its type and properties.
#[derive(Clone, Debug, PartialEq)]
pub struct WholeRelationship {
    /// The id, unique among relationships of the graph.
    pub id: i64,
    /// The node at the start.
    pub source: i64,
    /// The node at the end.
    pub target: i64,
    /// The type.
    pub kind: Arc<str>,
    /// Properties.
    pub properties: Map,
}

/// A path with its nodes and relationships.
#[derive(Clone, Debug, PartialEq)]
pub struct WholePath {
    /// The nodes.
    pub nodes: Vec<Arc<WholeNode>>,
    /// The relationships between them.
    pub relationships: Vec<Arc<WholeRelationship>>,
}

impl Value {
    /// A text.
    pub fn text(text: &str) -> Value {
        Value::Text(Arc::from(text))
    }

    /// A list.
    pub fn list(values: Vec<Value>) -> Value {
        Value::List(Arc::from(values))
    }

    /// A map.
    pub fn map(map: Map) -> Value {
        Value::Map(Arc::new(map))
    }

    pub(crate) fn local_date_time(value: LocalDateTime) -> Value {
        Value::LocalDateTime(Arc::new(value))
    }

    pub(crate) fn date_time(value: DateTime) -> Value {
        Value::DateTime(Arc::new(value))
    }

    pub(crate) fn duration(value: Duration) -> Value {
        Value::Duration(Arc::new(value))
    }

    /// True of null.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The kind of value, for messages.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Boolean(_) => "a boolean",
            Value::Integer(_) => "an integer",
            Value::Float(_) => "a float",
            Value::Text(_) => "a string",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
            Value::Node(_) | Value::WholeNode(_) => "a node",
            Value::Relationship(_) | Value::WholeRelationship(_) => "a relationship",
            Value::Path(_) | Value::WholePath(_) => "a path",
            Value::Date(_) => "a date",
            Value::LocalTime(_) => "a local time",
            Value::Time(_) => "a time",
            Value::LocalDateTime(_) => "a local date and time",
            Value::DateTime(_) => "a date and time",
            Value::Duration(_) => "a duration",
        }
    }

    /// Bytes that the value keeps beside its own 24, roughly: for budgets.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Value::Text(text) => text.len() + 16,
            Value::List(list) => {
                16 + list.iter().map(|value| 24 + value.heap_bytes()).sum::<usize>()
            }
            Value::Map(map) => {
                map.iter().map(|(key, value)| key.len() + 64 + value.heap_bytes()).sum()
            }
            Value::Path(path) => 64 + 8 * (path.nodes.len() + path.relationships.len()),
            Value::LocalDateTime(_) | Value::DateTime(_) | Value::Duration(_) => 64,
            _ => 0,
        }
    }
}
