//! Text as the bytes of a file in UTF-16, and back: for `CAST`, `hex` and `||` of such files.
//!
//! Text in memory is UTF-8 in any file; where SQLite shows the bytes of a text, or reads bytes as
//! text, the bytes are in the file's encoding. The resolver puts calls of these functions around
//! the operands; their names cannot be written in SQL.

use shoal_store::ByteOrder::{self, Big, Little};
use shoal_store::utf16::{decode, encode};

use super::{Arguments, ScalarFunction};
use crate::value::{Value, ValueRef, text_of};

pub(super) const FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction::new("utf-16le bytes", ONE, |values, _| Ok(bytes(values, Little))),
    ScalarFunction::new("utf-16be bytes", ONE, |values, _| Ok(bytes(values, Big))),
    ScalarFunction::new("utf-16le bytes of text", ONE, |values, _| Ok(text_bytes(values, Little))),
    ScalarFunction::new("utf-16be bytes of text", ONE, |values, _| Ok(text_bytes(values, Big))),
    ScalarFunction::new("utf-16le text", ONE, |values, _| Ok(text(values, Little))),
    ScalarFunction::new("utf-16be text", ONE, |values, _| Ok(text(values, Big))),
];

const ONE: Arguments = Arguments::exactly(1);

/// The value's text as a blob of UTF-16; blobs and NULL as they are.
fn bytes(values: &[Value], order: ByteOrder) -> Value {
    match values[0].as_ref() {
        ValueRef::Null => Value::Null,
        ValueRef::Blob(blob) => Value::Blob(blob.to_vec()),
        other => {
            let mut out = Vec::new();
            encode(&text_of(other).unwrap_or_default(), order, &mut out);
            Value::Blob(out)
        }
    }
}

/// A text as a blob of UTF-16; any other value unchanged.
fn text_bytes(values: &[Value], order: ByteOrder) -> Value {
    match &values[0] {
        Value::Text(_) => bytes(values, order),
        other => other.clone(),
    }
}

/// A blob of UTF-16 as text; any other value unchanged.
fn text(values: &[Value], order: ByteOrder) -> Value {
    match &values[0] {
        Value::Blob(blob) => {
            let mut out = Vec::new();
            decode(blob, order, &mut out);
            Value::Text(out)
        }
        other => other.clone(),
    }
}
