//! Batches built of rows.

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, Float64Builder, Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, SchemaRef};
use shoal_sql::{Row, Value, ValueRef, real_to_text};

use crate::kind::{EXACT, Fit};

/// A value without a place in the type of its column.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {name} is of Arrow's {kind} and a row has {value}")]
pub struct Unfit {
    /// The number of the column, from 0.
    pub column: usize,
    /// The name of the column.
    pub name: String,
    /// The type of the column.
    pub kind: DataType,
    /// The kind of the value, in words.
    pub value: &'static str,
}

/// Rows on their way to a batch.
pub struct BatchBuilder {
    schema: SchemaRef,
    columns: Vec<Column>,
    rows: usize,
    bytes: usize,
}

impl BatchBuilder {
    /// Rows and bytes of a batch, about.
    pub const ROWS: usize = 8192;
    /// A batch with so many bytes is full, however few rows it has.
    pub const BYTES: usize = 16 << 20;

    /// Batches of a schema whose columns are of the types of [`Seen::kind`](crate::Seen::kind), and
    /// the way of values into each column.
    ///
    /// # Panics
    /// For a column of another type, and for other than one way a column.
    pub fn new(schema: SchemaRef, fits: &[Fit]) -> BatchBuilder {
        assert_eq!(schema.fields().len(), fits.len(), "each column has one way for its values");
        let columns = schema.fields().iter().zip(fits);
        let columns = columns.map(|(field, fit)| Column::new(field.data_type(), *fit)).collect();
        BatchBuilder { schema, columns, rows: 0, bytes: 0 }
    }

    /// The schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Takes a row; true once the batch is full. Columns of the row past those of the schema are
    /// left out.
    ///
    /// # Errors
    /// [`Unfit`], after which the batch is of no more use.
    #[inline]
    pub fn push(&mut self, row: &Row<'_>) -> Result<bool, Unfit> {
        self.push_by(|column| row.get(column))
    }

    /// As [`BatchBuilder::push`], with the values of the row by their columns.
    ///
    /// # Errors
    /// [`Unfit`], after which the batch is of no more use.
    #[inline]
    pub fn push_by<'v>(&mut self, value_of: impl Fn(usize) -> ValueRef<'v>) -> Result<bool, Unfit> {
        for (place, column) in self.columns.iter_mut().enumerate() {
            let value = value_of(place);
            match column.push(value) {
                Some(bytes) => self.bytes += bytes,
                None => return Err(self.unfit(place, value)),
            }
        }
        self.rows += 1;
        Ok(self.rows >= Self::ROWS || self.bytes >= Self::BYTES)
    }

    #[cold]
    fn unfit(&self, column: usize, value: ValueRef<'_>) -> Unfit {
        let field = self.schema.field(column);
        let value = match value {
            ValueRef::Null => "NULL",
            ValueRef::Int(number) if number.unsigned_abs() > EXACT => "an integer beyond 2^53",
            ValueRef::Int(_) => "an integer",
            ValueRef::Real(_) => "a real",
            ValueRef::Text(text) if std::str::from_utf8(text).is_err() => "a text outside UTF-8",
            ValueRef::Text(_) => "a text",
            ValueRef::Blob(_) => "a blob",
        };
        Unfit { column, name: field.name().clone(), kind: field.data_type().clone(), value }
    }

    /// True without a row.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The batch so far; the builder begins another.
    pub fn finish(&mut self) -> RecordBatch {
        let columns: Vec<ArrayRef> = self.columns.iter_mut().map(Column::finish).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        (self.rows, self.bytes) = (0, 0);
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .expect("columns are built by the types of the schema, one value a row")
    }
}

/// A column of the batch, and true where values may be converted.
enum Column {
    Int(Int64Builder),
    Real(Float64Builder),
    Text(StringBuilder, bool),
    Bytes(BinaryBuilder, bool),
}

impl Column {
    fn new(kind: &DataType, fit: Fit) -> Column {
        let converts = fit == Fit::Converted;
        match kind {
            DataType::Int64 => Column::Int(Int64Builder::new()),
            DataType::Float64 => Column::Real(Float64Builder::new()),
            DataType::Binary => Column::Bytes(BinaryBuilder::new(), converts),
            DataType::Utf8 => Column::Text(StringBuilder::new(), converts),
            other => panic!("batches have no columns of {other}"),
        }
    }

    /// Appends a value; gives its bytes. `None` for a value without a place here.
    #[inline]
    fn push(&mut self, value: ValueRef<'_>) -> Option<usize> {
        match (&mut *self, value) {
            (Column::Int(column), ValueRef::Int(value)) => column.append_value(value),
            (Column::Int(column), ValueRef::Null) => column.append_null(),
            (Column::Real(column), ValueRef::Real(value)) => column.append_value(value),
            (Column::Real(column), ValueRef::Int(value)) if value.unsigned_abs() <= EXACT => {
                column.append_value(value as f64);
            }
            (Column::Real(column), ValueRef::Null) => column.append_null(),
            (Column::Text(column, _), ValueRef::Text(text)) => {
                column.append_value(std::str::from_utf8(text).ok()?);
                return Some(text.len());
            }
            (Column::Text(column, _), ValueRef::Null) => column.append_null(),
            (Column::Text(column, true), ValueRef::Int(value)) => {
                column.append_value(value.to_string());
            }
            (Column::Text(column, true), ValueRef::Real(value)) => {
                column.append_value(real_to_text(value));
            }
            (Column::Bytes(column, _), ValueRef::Blob(bytes))
            | (Column::Bytes(column, true), ValueRef::Text(bytes)) => {
                column.append_value(bytes);
                return Some(bytes.len());
            }
            (Column::Bytes(column, _), ValueRef::Null) => column.append_null(),
            (Column::Bytes(column, true), ValueRef::Int(value)) => {
                column.append_value(value.to_string());
            }
            (Column::Bytes(column, true), ValueRef::Real(value)) => {
                column.append_value(real_to_text(value));
            }
            _ => return None,
        }
        Some(size_of::<Value>())
    }

    /// The batch's column; the builder is empty again.
    fn finish(&mut self) -> ArrayRef {
        match self {
            Column::Int(column) => Arc::new(column.finish()),
            Column::Real(column) => Arc::new(column.finish()),
            Column::Text(column, _) => Arc::new(column.finish()),
            Column::Bytes(column, _) => Arc::new(column.finish()),
        }
    }
}
