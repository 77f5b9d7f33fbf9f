//! Rows of Parquet and Arrow IPC: columns of a batch, converted to the values SQL has.
//!
//! | of Arrow | in SQL |
//! | --- | --- |
//! | integers, booleans | integers; an unsigned one beyond 2^63 is an error |
//! | floats | reals |
//! | strings; dates, times, timestamps, decimals | texts, as SQLite's date functions read them |
//! | binary | blobs |
//! | lists, structs, maps | texts of JSON |

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, Float64Array, Int64Array, LargeBinaryArray, LargeStringArray, RecordBatch,
    make_array,
};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, DataType};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use shoal_sql::ValueRef;

use super::cells::NotThatType;
use super::input::{Look, Source};
use super::target::Column;
use super::{Columnar, Rows, Type};
use crate::failure::Failure;
use crate::progress::Bar;

/// Rows read at once.
const BATCH_ROWS: usize = 4096;

/// Names and types of the columns.
pub(super) fn columns(
    place: &str,
    kind: Columnar,
    source: &Source,
) -> Result<Vec<(String, Type)>, Failure> {
    let schema = guarded(place, || match (kind, source.path()) {
        (Columnar::Parquet, None) => Err(not_from_a_stream()),
        (Columnar::Parquet, Some(path)) => Ok(parquet(path)?.schema().clone()),
        (Columnar::Arrow, Some(path)) if is_arrow_file(path)? => {
            Ok(FileReader::try_new_buffered(File::open(path)?, None)?.schema())
        }
        (Columnar::Arrow, _) => {
            let sample = source.sample(Look::Whole).map_err(|failure| outside(&failure))?;
            Ok(StreamReader::try_new(sample, None)?.schema())
        }
    })?;
    let column =
        |field: &Arc<arrow_schema::Field>| (field.name().clone(), kind_of(field.data_type()));
    Ok(schema.fields().iter().map(column).collect())
}

/// Batches, and for each the bytes of the file that it stands for.
type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

/// The rows of batches, one after another.
pub(super) struct BatchRows<'b> {
    place: String,
    batches: Batches,
    cells: Vec<Cells>,
    rows: usize,
    /// The row in its batch, and the rows of batches before.
    row: Option<usize>,
    before: u64,
    bar: &'b Bar,
    /// Bytes that a row counts for, where the reader counts none itself.
    row_bytes: f64,
}

impl<'b> BatchRows<'b> {
    /// Opens the input a second time, for its rows.
    pub(super) fn open(
        place: &str,
        kind: Columnar,
        source: &mut Source,
        bar: &'b Bar,
    ) -> Result<BatchRows<'b>, Failure> {
        let path = source.path().map(std::path::Path::to_owned);
        let opened = guarded(place, || -> Result<(Batches, f64), ArrowError> {
            Ok(match (kind, &path) {
                (Columnar::Parquet, None) => return Err(not_from_a_stream()),
                (Columnar::Parquet, Some(path)) => {
                    let builder = parquet(path)?;
                    let rows = builder.metadata().file_metadata().num_rows().max(1);
                    let bytes = path.metadata()?.len() as f64 / rows as f64;
                    (Box::new(builder.with_batch_size(BATCH_ROWS).build()?), bytes)
                }
                (Columnar::Arrow, Some(path)) if is_arrow_file(path)? => {
                    (Box::new(FileReader::try_new_buffered(File::open(path)?, None)?), 0.0)
                }
                (Columnar::Arrow, _) => {
                    let input = source.rows(bar).map_err(|failure| outside(&failure))?;
                    (Box::new(StreamReader::try_new(input, None)?), 0.0)
                }
            })
        });
        let (batches, row_bytes) = opened?;
        let (place, cells) = (place.to_owned(), Vec::new());
        Ok(BatchRows { place, batches, cells, rows: 0, row: None, before: 0, bar, row_bytes })
    }

    /// Converts the next batch; false at the end.
    fn next_batch(&mut self) -> Result<bool, Failure> {
        let Self { place, batches, .. } = self;
        let read = guarded(place, || {
            let Some(batch) = batches.next().transpose()? else { return Ok(None) };
            let named = batch.schema();
            let columns = batch.columns().iter().zip(named.fields());
            let cells = columns.map(|(column, field)| {
                cells(column).map_err(|error| wrong(format!("column {}: {error}", field.name())))
            });
            Ok(Some((batch.num_rows(), cells.collect::<Result<Vec<_>, _>>()?)))
        });
        self.before += self.rows as u64;
        let Some((rows, cells)) = read? else { return Ok(false) };
        (self.rows, self.cells) = (rows, cells);
        self.bar.add((rows as f64 * self.row_bytes) as u64);
        Ok(true)
    }
}

impl Rows for BatchRows<'_> {
    fn next(&mut self) -> Result<bool, Failure> {
        let mut row = self.row.map_or(0, |row| row + 1);
        while row >= self.rows {
            if !self.next_batch()? {
                return Ok(false);
            }
            row = 0;
        }
        self.row = Some(row);
        Ok(true)
    }

    fn line(&self) -> u64 {
        self.before + self.row.map_or(0, |row| row as u64 + 1)
    }

    fn unit(&self) -> &'static str {
        "row"
    }

    fn length(&self) -> Option<usize> {
        None
    }

    fn cell(&self, column: usize, _: &Column) -> Result<ValueRef<'_>, NotThatType> {
        let (Some(cells), Some(row)) = (self.cells.get(column), self.row) else {
            return Ok(ValueRef::Null);
        };
        Ok(match cells {
            Cells::Int(array) if array.is_valid(row) => ValueRef::Int(array.value(row)),
            Cells::Real(array) if array.is_valid(row) => ValueRef::Real(array.value(row)),
            Cells::Text(array) if array.is_valid(row) => {
                ValueRef::Text(array.value(row).as_bytes())
            }
            Cells::Blob(array) if array.is_valid(row) => ValueRef::Blob(array.value(row)),
            _ => ValueRef::Null,
        })
    }
}

/// A column of a batch, as SQL has its values.
enum Cells {
    Null,
    Int(Int64Array),
    Real(Float64Array),
    Text(LargeStringArray),
    Blob(LargeBinaryArray),
}

/// The type of a column of the table made for values of `kind`.
fn kind_of(kind: &DataType) -> Type {
    match stored(kind) {
        DataType::Int64 => Type::Integer,
        DataType::Float64 => Type::Real,
        DataType::LargeUtf8 => Type::Text,
        _ => Type::Any,
    }
}

/// The type that values of `kind` are converted to.
fn stored(kind: &DataType) -> DataType {
    match kind {
        kind if kind.is_integer() => DataType::Int64,
        DataType::Boolean => DataType::Int64,
        kind if kind.is_floating() => DataType::Float64,
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => DataType::LargeBinary,
        DataType::Null => DataType::Null,
        DataType::Dictionary(_, values) => stored(values),
        DataType::RunEndEncoded(_, values) => stored(values.data_type()),
        _ => DataType::LargeUtf8,
    }
}

fn cells(array: &ArrayRef) -> Result<Cells, ArrowError> {
    let target = stored(array.data_type());
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
        DataType::Int64 => Cells::Int(array.as_primitive::<Int64Type>().clone()),
        DataType::Float64 => Cells::Real(array.as_primitive::<Float64Type>().clone()),
        DataType::LargeUtf8 => Cells::Text(array.as_string::<i64>().clone()),
        DataType::LargeBinary => Cells::Blob(array.as_binary::<i64>().clone()),
        _ => Cells::Null,
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
            Cells::Null => Value::Null,
            Cells::Int(array) => array.value(0).into(),
            Cells::Real(array) => array.value(0).into(),
            Cells::Text(array) => array.value(0).into(),
            Cells::Blob(array) => shoal_stdx::hex::encode(array.value(0)).into(),
        }),
    }
}

static FORMAT_OF_NAMES: FormatOptions<'static> = FormatOptions::new();

fn parquet(path: &std::path::Path) -> Result<ParquetRecordBatchReaderBuilder<File>, ArrowError> {
    Ok(ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?)
}

/// True for the form with a directory at its end; the other one is a stream of messages.
fn is_arrow_file(path: &std::path::Path) -> Result<bool, ArrowError> {
    use std::io::Read;
    let mut start = Vec::new();
    File::open(path)?.take(MAGIC.len() as u64).read_to_end(&mut start)?;
    Ok(start == MAGIC)
}

/// The first bytes of an Arrow file.
const MAGIC: &[u8] = b"ARROW1";

/// Runs a reader of the libraries, whose panics over damaged bytes become errors as well.
fn guarded<T>(place: &str, read: impl FnOnce() -> Result<T, ArrowError>) -> Result<T, Failure> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(read)) => Ok(read),
        Ok(Err(ArrowError::ExternalError(error))) => Err(Failure::at(place, error)),
        Ok(Err(error)) => Err(Failure::at(place, error)),
        Err(_) => Err(Failure::at(place, "the file is damaged: its reader gave up")),
    }
}

fn wrong(message: String) -> ArrowError {
    ArrowError::ExternalError(message.into())
}

fn outside(failure: &Failure) -> ArrowError {
    wrong(failure.sentence.clone())
}

fn not_from_a_stream() -> ArrowError {
    wrong("Parquet is read from a file, not from a stream: its directory is at the end".to_owned())
}
