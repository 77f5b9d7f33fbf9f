//! Types of columns, chosen so that no value of SQL is lost, and builders of such columns.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{BinaryBuilder, Float64Builder, Int64Builder, StringBuilder};
use arrow_schema::DataType;
use shoal_sql::{Value, ValueRef, real_to_text};

/// The kinds of values seen in a column so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    integers: bool,
    /// Integers beyond 2^53, not exact as doubles.
    large: bool,
    reals: bool,
    texts: bool,
    /// Blobs, and texts outside UTF-8.
    bytes: bool,
}

/// Doubles have all integers up to there.
const EXACT: u64 = 1 << 53;

impl Seen {
    pub(super) fn value(&mut self, value: ValueRef<'_>) {
        match value {
            ValueRef::Null => {}
            ValueRef::Int(value) => {
                self.integers = true;
                self.large |= value.unsigned_abs() > EXACT;
            }
            ValueRef::Real(_) => self.reals = true,
            ValueRef::Text(text) if self.bytes || std::str::from_utf8(text).is_ok() => {
                self.texts = true;
            }
            ValueRef::Text(_) | ValueRef::Blob(_) => self.bytes = true,
        }
    }

    /// The narrowest type for all of them; texts where there is none but NULL.
    pub(super) fn kind(self) -> DataType {
        match self {
            Seen { bytes: true, .. } => DataType::Binary,
            Seen { texts: true, .. } => DataType::Utf8,
            Seen { reals: true, large: true, .. } => DataType::Utf8,
            Seen { reals: true, .. } => DataType::Float64,
            Seen { integers: true, .. } => DataType::Int64,
            _ => DataType::Utf8,
        }
    }
}

/// A column of the next batch.
pub(super) enum Builder {
    Int(Int64Builder),
    Real(Float64Builder),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
}

impl Builder {
    pub(super) fn new(kind: &DataType) -> Builder {
        match kind {
            DataType::Int64 => Builder::Int(Int64Builder::new()),
            DataType::Float64 => Builder::Real(Float64Builder::new()),
            DataType::Binary => Builder::Bytes(BinaryBuilder::new()),
            _ => Builder::Text(StringBuilder::new()),
        }
    }

    /// Appends a value; gives its bytes. `None` for a value that the first reading did not have.
    pub(super) fn push(&mut self, value: ValueRef<'_>) -> Option<usize> {
        match (&mut *self, value) {
            (Builder::Int(column), ValueRef::Int(value)) => column.append_value(value),
            (Builder::Int(column), ValueRef::Null) => column.append_null(),
            (Builder::Real(column), ValueRef::Real(value)) => column.append_value(value),
            (Builder::Real(column), ValueRef::Int(value)) if value.unsigned_abs() <= EXACT => {
                column.append_value(value as f64);
            }
            (Builder::Real(column), ValueRef::Null) => column.append_null(),
            (Builder::Text(column), ValueRef::Text(text)) => {
                column.append_value(std::str::from_utf8(text).ok()?);
                return Some(text.len());
            }
            (Builder::Text(column), ValueRef::Int(value)) => column.append_value(value.to_string()),
            (Builder::Text(column), ValueRef::Real(value)) => {
                column.append_value(real_to_text(value));
            }
            (Builder::Text(column), ValueRef::Null) => column.append_null(),
            (Builder::Bytes(column), ValueRef::Blob(bytes) | ValueRef::Text(bytes)) => {
                column.append_value(bytes);
                return Some(bytes.len());
            }
            (Builder::Bytes(column), ValueRef::Int(value)) => {
                column.append_value(value.to_string())
            }
            (Builder::Bytes(column), ValueRef::Real(value)) => {
                column.append_value(real_to_text(value));
            }
            (Builder::Bytes(column), ValueRef::Null) => column.append_null(),
            _ => return None,
        }
        Some(size_of::<Value>())
    }

    /// The batch's column; the builder is empty again.
    pub(super) fn finish(&mut self) -> ArrayRef {
        match self {
            Builder::Int(column) => Arc::new(column.finish()),
            Builder::Real(column) => Arc::new(column.finish()),
            Builder::Text(column) => Arc::new(column.finish()),
            Builder::Bytes(column) => Arc::new(column.finish()),
        }
    }
}
