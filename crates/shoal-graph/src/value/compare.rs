//! Equality, comparison and order of values.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use super::{Map, Value};

/// The outcome of `<` and its kin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The values have this order.
    Ordered(Ordering),
    /// A NaN is neither smaller nor greater, and not equal.
    Unordered,
    /// Null: a value is missing, or the kinds have no order.
    Undecided,
}

impl Value {
    /// `=`: nothing where a null leaves it undecided.
    pub fn equals(&self, other: &Value) -> Option<bool> {
        use Value::*;
        Some(match (self, other) {
            (Null, _) | (_, Null) => return None,
            (List(a), List(b)) => return lists_equal(a, b),
            (Map(a), Map(b)) => return maps_equal(a, b),
            (Integer(a), Integer(b)) => a == b,
            (Float(a), Float(b)) => a == b,
            (Integer(a), Float(b)) | (Float(b), Integer(a)) => {
                integer_float(*a, *b) == Some(Ordering::Equal)
            }
            (Boolean(a), Boolean(b)) => a == b,
            (Text(a), Text(b)) => a == b,
            (a, b) if rank(a) == rank(b) => a.order(b) == Ordering::Equal,
            _ => false,
        })
    }

    /// The order in which `<` and `>` see two values.
    pub fn compare(&self, other: &Value) -> Comparison {
        use Value::*;
        let ordered = match (self, other) {
            (Integer(a), Integer(b)) => a.cmp(b),
            (Float(a), Float(b)) => return number_order(a.partial_cmp(b)),
            (Integer(a), Float(b)) => return number_order(integer_float(*a, *b)),
            (Float(a), Integer(b)) => {
                return number_order(integer_float(*b, *a).map(Ordering::reverse));
            }
            (Text(a), Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Boolean(a), Boolean(b)) => a.cmp(b),
            (Date(a), Date(b)) => a.cmp(b),
            (LocalTime(a), LocalTime(b)) => a.cmp(b),
            (Time(a), Time(b)) => a.cmp(b),
            (LocalDateTime(a), LocalDateTime(b)) => a.cmp(b),
            (DateTime(a), DateTime(b)) => a.cmp(b),
            (List(a), List(b)) => {
                for (a, b) in a.iter().zip(b.iter()) {
                    match a.compare(b) {
                        Comparison::Ordered(Ordering::Equal) => {}
                        Comparison::Unordered => return Comparison::Undecided,
                        found => return found,
                    }
                }
                a.len().cmp(&b.len())
            }
            _ => return Comparison::Undecided,
        };
        Comparison::Ordered(ordered)
    }

    /// The total order of `ORDER BY`, null last.
    pub fn order(&self, other: &Value) -> Ordering {
        use Value::*;
        match (self, other) {
            (Integer(a), Integer(b)) => a.cmp(b),
            (Float(a), Float(b)) => float_order(*a, *b),
            (Integer(a), Float(b)) => integer_float(*a, *b).unwrap_or(Ordering::Less),
            (Float(a), Integer(b)) => {
                integer_float(*b, *a).map_or(Ordering::Greater, Ordering::reverse)
            }
            (Text(a), Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Boolean(a), Boolean(b)) => a.cmp(b),
            (List(a), List(b)) => by_elements(a, b),
            (Map(a), Map(b)) => map_order(a, b),
            (Node(a), Node(b)) | (Relationship(a), Relationship(b)) => a.cmp(b),
            (WholeNode(a), WholeNode(b)) => a.id.cmp(&b.id),
            (WholeRelationship(a), WholeRelationship(b)) => a.id.cmp(&b.id),
            (Path(a), Path(b)) => {
                a.nodes.cmp(&b.nodes).then_with(|| a.relationships.cmp(&b.relationships))
            }
            (WholePath(a), WholePath(b)) => {
                let ids = |path: &super::WholePath| {
                    let relationships: Vec<i64> =
                        path.relationships.iter().map(|one| one.id).collect();
                    (path.nodes.iter().map(|node| node.id).collect::<Vec<i64>>(), relationships)
                };
                ids(a).cmp(&ids(b))
            }
            (Date(a), Date(b)) => a.cmp(b),
            (LocalTime(a), LocalTime(b)) => a.cmp(b),
            (Time(a), Time(b)) => a.cmp(b),
            (LocalDateTime(a), LocalDateTime(b)) => a.cmp(b),
            (DateTime(a), DateTime(b)) => a.cmp(b),
            (Duration(a), Duration(b)) => {
                let parts = |one: &crate::temporal::Duration| {
                    (one.months, one.days, one.seconds, one.nanos)
                };
                a.mean_nanos().cmp(&b.mean_nanos()).then_with(|| parts(a).cmp(&parts(b)))
            }
            (a, b) => rank(a).cmp(&rank(b)),
        }
    }
}

fn number_order(order: Option<Ordering>) -> Comparison {
    order.map_or(Comparison::Unordered, Comparison::Ordered)
}

/// An integer beside a float, exactly; nothing beside NaN.
fn integer_float(integer: i64, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    // 2^63 as a float is the first beyond the integers.
    if float >= 9_223_372_036_854_775_808.0 {
        return Some(Ordering::Less);
    }
    if float < -9_223_372_036_854_775_808.0 {
        return Some(Ordering::Greater);
    }
    let whole = float.trunc();
    Some(integer.cmp(&(whole as i64)).then_with(|| 0.0_f64.total_cmp(&(float - whole + 0.0))))
}

fn float_order(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (false, false) => a.partial_cmp(&b).expect("neither is NaN"),
        (a, b) => a.cmp(&b),
    }
}

fn lists_equal(a: &[Value], b: &[Value]) -> Option<bool> {
    if a.len() != b.len() {
        return Some(false);
    }
    all_equal(a.iter().zip(b.iter()))
}

fn maps_equal(a: &Map, b: &Map) -> Option<bool> {
    if a.len() != b.len() || !a.keys().eq(b.keys()) {
        return Some(false);
    }
    all_equal(a.values().zip(b.values()))
}

fn all_equal<'v>(pairs: impl Iterator<Item = (&'v Value, &'v Value)>) -> Option<bool> {
    let mut all = Some(true);
    for (a, b) in pairs {
        match a.equals(b) {
            Some(false) => return Some(false),
            None => all = None,
            Some(true) => {}
        }
    }
    all
}

fn by_elements(a: &[Value], b: &[Value]) -> Ordering {
    let first = a.iter().zip(b.iter()).map(|(a, b)| a.order(b)).find(|order| order.is_ne());
    first.unwrap_or_else(|| a.len().cmp(&b.len()))
}

fn map_order(a: &Map, b: &Map) -> Ordering {
    let first = a
        .iter()
        .zip(b.iter())
        .map(|((a_key, a), (b_key, b))| a_key.cmp(b_key).then_with(|| a.order(b)))
        .find(|order| order.is_ne());
    first.unwrap_or_else(|| a.len().cmp(&b.len()))
}

/// The place of a kind among kinds.
fn rank(value: &Value) -> u8 {
    match value {
        Value::Map(_) => 0,
        Value::Node(_) | Value::WholeNode(_) => 1,
        Value::Relationship(_) | Value::WholeRelationship(_) => 2,
        Value::List(_) => 3,
        Value::Path(_) | Value::WholePath(_) => 4,
        Value::DateTime(_) => 5,
        Value::LocalDateTime(_) => 6,
        Value::Date(_) => 7,
        Value::Time(_) => 8,
        Value::LocalTime(_) => 9,
        Value::Duration(_) => 10,
        Value::Text(_) => 11,
        Value::Boolean(_) => 12,
        Value::Integer(_) | Value::Float(_) => 13,
        Value::Null => 14,
    }
}

/// Values as the key of a group: equal where the order finds no difference.
#[derive(Clone, Debug)]
pub struct Key(pub Vec<Value>);

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        by_elements(&self.0, &other.0).is_eq()
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.iter().for_each(|value| hash(value, state));
    }
}

fn hash<H: Hasher>(value: &Value, state: &mut H) {
    rank(value).hash(state);
    match value {
        Value::Integer(number) => number.hash(state),
        // A float equal to an integer is hashed as that integer.
        Value::Float(number) if number.is_nan() => u64::MAX.hash(state),
        Value::Float(number) if number.trunc() == *number && number.abs() < 9.2e18 => {
            (*number as i64).hash(state);
        }
        Value::Float(number) => number.to_bits().hash(state),
        Value::Boolean(truth) => truth.hash(state),
        Value::Text(text) => text.hash(state),
        Value::List(list) => list.iter().for_each(|value| hash(value, state)),
        Value::Map(map) => map.iter().for_each(|(key, value)| {
            key.hash(state);
            hash(value, state);
        }),
        Value::Node(id) | Value::Relationship(id) => id.hash(state),
        Value::WholeNode(node) => node.id.hash(state),
        Value::WholeRelationship(one) => one.id.hash(state),
        Value::Path(path) => path.relationships.hash(state),
        Value::Date(date) => date.hash(state),
        Value::LocalTime(time) => time.hash(state),
        Value::LocalDateTime(time) => time.hash(state),
        Value::Time(time) => time.hash(state),
        Value::DateTime(time) => time.hash(state),
        Value::Duration(duration) => duration.hash(state),
        Value::WholePath(_) | Value::Null => {}
    }
}
