//! Columns of Arrow as the values SQL has.
//!
//! | of Arrow | in SQL |
//! | --- | --- |
//! | integers, booleans | integers; an unsigned one beyond 2^63 is an error |
//! | floats | reals |
//! | strings; dates, times, timestamps, decimals | texts, as SQLite's date functions read them |
//! | binary | blobs |
//! | lists, structs, maps | texts of JSON |

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, Float64Array, Int64Array, LargeBinaryArray, LargeStringArray, make_array,
};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType};
use shoal_sql::ValueRef;

/// A column of a batch, as SQL has its values.
#[derive(Clone, Debug)]
pub struct Cells(Column);

#[derive(Clone, Debug)]
enum Column {
    Null,
    Int(Int64Array),
    Real(Float64Array),
    Text(LargeStringArray),
    Blob(LargeBinaryArray),
}

impl Cells {
    /// The values of an array.
    ///
    /// # Errors
    /// A value that SQL cannot hold.
    pub fn new(array: &ArrayRef) -> Result<Cells, ArrowError> {
        cells(array).map(Cells)
    }

    /// The value of a row; NULL past the last one.
    pub fn value(&self, row: usize) -> ValueRef<'_> {
        let has = |array: &dyn Array| row < array.len() && array.is_valid(row);
        match &self.0 {
            Column::Int(array) if has(array) => ValueRef::Int(array.value(row)),
            Column::Real(array) if has(array) && array.value(row).is_nan() => ValueRef::Null,
            Column::Real(array) if has(array) => ValueRef::Real(array.value(row)),
            Column::Text(array) if has(array) => ValueRef::Text(array.value(row).as_bytes()),
            Column::Blob(array) if has(array) => ValueRef::Blob(array.value(row)),
            _ => ValueRef::Null,
        }
    }
}

/// The type that values of `kind` are converted to.
pub fn stored_type(kind: &DataType) -> DataType {
    match kind {
        kind if kind.is_integer() => DataType::Int64,
        DataType::Boolean => DataType::Int64,
        kind if kind.is_floating() => DataType::Float64,
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => DataType::LargeBinary,
        DataType::Null => DataType::Null,
        DataType::Dictionary(_, values) => stored_type(values),
        DataType::RunEndEncoded(_, values) => stored_type(values.data_type()),
        _ => DataType::LargeUtf8,
    }
}

fn cells(array: &ArrayRef) -> Result<Column, ArrowError> {
    let target = stored_type(array.data_type());
    let array = match array.data_type() {
        kind if is_nested(kind) => Arc::new(json_texts(array)?) as ArrayRef,
        // A value type of its own first: a dictionary of timestamps is written as timestamps are.
        DataType::Dictionary(_, values) => converted(array, values)?,
        DataType::RunEndEncoded(_, values) => converted(array, values.data_type())?,
        _ => Arc::clone(array),
    };
    let array = match array.data_type() {
        DataType::Timestamp(unit, Some(_)) => {
            // Instants are in UTC whatever the zone: without one, no table of zones is needed.
            let plain = DataType::Timestamp(*unit, None);
            make_array(array.to_data().into_builder().data_type(plain).build()?)
        }
        _ => array,
    };
    let array = converted(&array, &target)?;
    Ok(match target {
        DataType::Int64 => Column::Int(array.as_primitive::<Int64Type>().clone()),
        DataType::Float64 => Column::Real(array.as_primitive::<Float64Type>().clone()),
        DataType::LargeUtf8 => Column::Text(array.as_string::<i64>().clone()),
        DataType::LargeBinary => Column::Blob(array.as_binary::<i64>().clone()),
        _ => Column::Null,
    })
}

/// SQLite's own form of moments.
const MOMENT: &str = "%Y-%m-%d %H:%M:%S%.f";

fn format() -> FormatOptions<'static> {
    FormatOptions::new()
        .with_display_error(false)
        .with_datetime_format(Some(MOMENT))
        .with_timestamp_format(Some(MOMENT))
}

/// # Errors
/// A value that the other type cannot hold.
fn converted(array: &ArrayRef, target: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == target {
        return Ok(Arc::clone(array));
    }
    cast_with_options(array, target, &CastOptions { safe: false, format_options: format() })
}

fn is_nested(kind: &DataType) -> bool {
    match kind {
        DataType::Dictionary(_, values) => is_nested(values),
        DataType::RunEndEncoded(_, values) => is_nested(values.data_type()),
        kind => kind.is_nested(),
    }
}

/// Each value as a text of JSON.
fn json_texts(array: &ArrayRef) -> Result<LargeStringArray, ArrowError> {
    let texts = (0..array.len()).map(|row| {
        Ok(array.is_valid(row).then_some(json(array, row)?).map(|value| value.to_string()))
    });
    texts.collect()
}

/// A value with all it holds.
fn json(array: &ArrayRef, row: usize) -> Result<serde_json::Value, ArrowError> {
    use serde_json::Value;
    if array.is_null(row) {
        return Ok(Value::Null);
    }
    let list = |items: ArrayRef| {
        let items: Result<Vec<Value>, _> =
            (0..items.len()).map(|item| json(&items, item)).collect();
        items.map(Value::Array)
    };
    match array.data_type() {
        DataType::List(_) => list(array.as_list::<i32>().value(row)),
        DataType::LargeList(_) => list(array.as_list::<i64>().value(row)),
        DataType::FixedSizeList(..) => list(array.as_fixed_size_list().value(row)),
        DataType::Struct(fields) => {
            let members = fields.iter().zip(array.as_struct().columns());
            let members =
                members.map(|(field, column)| Ok((field.name().clone(), json(column, row)?)));
            members.collect::<Result<_, ArrowError>>().map(Value::Object)
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let (names, values) = (entries.column(0), entries.column(1));
            let names = ArrayFormatter::try_new(names, &FORMAT_OF_NAMES)?;
            let members = (0..entries.len())
                .map(|entry| Ok((names.value(entry).try_to_string()?, json(values, entry)?)));
            members.collect::<Result<_, ArrowError>>().map(Value::Object)
        }
        _ => Ok(match cells(&array.slice(row, 1))? {
            Column::Null => Value::Null,
            Column::Int(array) => array.value(0).into(),
            Column::Real(array) => array.value(0).into(),
            Column::Text(array) => array.value(0).into(),
            Column::Blob(array) => shoal_stdx::hex::encode(array.value(0)).into(),
        }),
    }
}

static FORMAT_OF_NAMES: FormatOptions<'static> = FormatOptions::new();
