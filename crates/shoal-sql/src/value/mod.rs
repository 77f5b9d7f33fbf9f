//! Values: the five storage classes and everything SQL does to one or two of them.
//!
//! [`Value`] owns its bytes, [`ValueRef`] borrows them from a page or a parameter. Text is bytes,
//! nearly always UTF-8 but never assumed to be: a file's bytes come back unchanged. The rules are
//! SQLite's (datatype3.html): affinity, comparison across classes, conversion of text to numbers
//! and back. Nothing here knows tables, expressions or files.

mod affinity;
mod arithmetic;
mod cast;
mod compare;
mod digits;
mod extended;
pub(crate) mod number;
pub(crate) mod pattern;
mod real_text;
pub(crate) mod utf8;

use std::borrow::Cow;
use std::cmp::Ordering;

pub use shoal_store::{Collation, ValueRef};

pub use affinity::Affinity;
pub(crate) use arithmetic::{
    add, bit_and, bit_not, bit_or, concat, divide, multiply, negate, remainder, shift_left,
    shift_right, subtract,
};
pub(crate) use cast::cast;
pub(crate) use compare::{
    ArithmeticOp, CompareOp, Comparison, InRule, and, arithmetic, compare_by, holds, is_in_values,
    may_read_as_number,
};
pub(crate) use digits::{Digits, push_int};
pub(crate) use number::{TextNumber, integer_literal, real_to_int, to_int, to_real};
pub(crate) use pattern::{GLOB, LIKE, PATTERN_BYTES_MAX, Pattern, Pieces, like_escape};
use real_text::push_real;
pub(crate) use real_text::{Decimal, Keep, decode};
pub use real_text::{real_to_text, real_to_text_15};

/// One SQL value, the owner of its bytes.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// No value.
    #[default]
    Null,
    /// A signed 64-bit integer.
    Int(i64),
    /// An IEEE 754 double; never NaN (SQLite has NULL instead).
    Real(f64),
    /// Text: bytes, by convention but not always UTF-8.
    Text(Vec<u8>),
    /// Bytes.
    Blob(Vec<u8>),
}

impl Value {
    /// The order of `ORDER BY` without a collation: NULL, numbers by their size, texts and blobs by
    /// their bytes. Equal numbers may be of two types.
    pub fn compare(&self, other: &Value) -> Ordering {
        compare(self.as_ref(), other.as_ref(), Collation::Binary)
    }

    /// Text from a string.
    pub fn text(text: impl Into<String>) -> Value {
        Value::Text(text.into().into_bytes())
    }

    /// A real, or NULL where the number is not one.
    pub fn real(real: f64) -> Value {
        if real.is_nan() { Value::Null } else { Value::Real(real) }
    }

    /// The same value, borrowed.
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Value::Null => ValueRef::Null,
            Value::Int(int) => ValueRef::Int(*int),
            Value::Real(real) => ValueRef::Real(*real),
            Value::Text(bytes) => ValueRef::Text(bytes),
            Value::Blob(bytes) => ValueRef::Blob(bytes),
        }
    }

    /// True for NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The value as an integer, as `CAST` makes one: of a text the number at its begin, else 0.
    pub fn to_int(&self) -> i64 {
        to_int(self.as_ref())
    }

    /// The value as a real, as `CAST` makes one.
    pub fn to_real(&self) -> f64 {
        to_real(self.as_ref())
    }

    /// The name given by `typeof`: `null`, `integer`, `real`, `text` or `blob`.
    pub fn type_name(&self) -> &'static str {
        type_name(self.as_ref())
    }
}

/// Equal class and equal content: `1` and `1.0` differ here. SQL's own equality is
/// [`ValueRef::compare`].
impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        self.as_ref() == other.as_ref()
    }
}

impl From<ValueRef<'_>> for Value {
    fn from(value: ValueRef<'_>) -> Value {
        match value {
            ValueRef::Null => Value::Null,
            ValueRef::Int(int) => Value::Int(int),
            ValueRef::Real(real) => Value::Real(real),
            ValueRef::Text(bytes) => Value::Text(bytes.to_vec()),
            ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
        }
    }
}

impl From<i64> for Value {
    fn from(int: i64) -> Value {
        Value::Int(int)
    }
}

impl From<f64> for Value {
    fn from(real: f64) -> Value {
        Value::real(real)
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Value {
        Value::Int(i64::from(truth))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::text(text)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::text(text)
    }
}

impl From<Option<bool>> for Value {
    fn from(truth: Option<bool>) -> Value {
        truth.map_or(Value::Null, Value::from)
    }
}

/// Orders two values: NULL, then numbers compared exactly, then text by the collation, then blobs.
///
/// Two NULLs are equal here.
pub(crate) fn compare(left: ValueRef<'_>, right: ValueRef<'_>, collation: Collation) -> Ordering {
    left.compare(right, collation)
}

/// The name given by `typeof`: `null`, `integer`, `real`, `text` or `blob`.
pub(crate) fn type_name(value: ValueRef<'_>) -> &'static str {
    match value {
        ValueRef::Null => "null",
        ValueRef::Int(_) => "integer",
        ValueRef::Real(_) => "real",
        ValueRef::Text(_) => "text",
        ValueRef::Blob(_) => "blob",
    }
}

/// Copies `value` into `target`, reusing the buffer of a text or blob of the same class.
#[inline]
pub(crate) fn assign(target: &mut Value, value: ValueRef<'_>) {
    match (target, value) {
        (Value::Int(known), ValueRef::Int(int)) => *known = int,
        (Value::Real(known), ValueRef::Real(real)) => *known = real,
        (Value::Text(buffer), ValueRef::Text(bytes))
        | (Value::Blob(buffer), ValueRef::Blob(bytes)) => {
            buffer.clear();
            buffer.extend_from_slice(bytes);
        }
        (target, value) => *target = value.into(),
    }
}

/// The value as a condition: `None` for NULL, else whether its number is not zero.
///
/// Text and blobs count by their numeric prefix, so `'0.5x'` is true and `'abc'` false.
pub(crate) fn truth(value: ValueRef<'_>) -> Option<bool> {
    match value {
        ValueRef::Null => None,
        ValueRef::Int(int) => Some(int != 0),
        other => Some(to_real(other) != 0.0),
    }
}

/// Appends the bytes of [`text_of`]; none for NULL.
#[inline]
pub(crate) fn push_text(value: ValueRef<'_>, out: &mut Vec<u8>) {
    match value {
        ValueRef::Null => {}
        ValueRef::Int(int) => push_int(int, out),
        ValueRef::Real(real) => push_real(real, out),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => out.extend_from_slice(bytes),
    }
}

/// The bytes SQLite would show for the value as text: numbers printed, blobs read as text.
///
/// `None` for NULL. Cost: no allocation for text and blobs.
#[inline]
pub(crate) fn text_of(value: ValueRef<'_>) -> Option<Cow<'_, [u8]>> {
    match value {
        ValueRef::Null => None,
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(Cow::Borrowed(bytes)),
        number => Some(Cow::Owned(text_of_number(number))),
    }
}

#[inline(never)]
fn text_of_number(value: ValueRef<'_>) -> Vec<u8> {
    // The longest integer has 20 characters, a real 24.
    let mut text = Vec::with_capacity(24);
    push_text(value, &mut text);
    text
}
