//! Rows of Parquet and Arrow IPC: columns of a batch, converted to the values SQL has.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, DataType};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use shoal_arrow::{Cells, stored_type};
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
                Cells::new(column)
                    .map_err(|error| wrong(format!("column {}: {error}", field.name())))
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
        Ok(cells.value(row))
    }
}

/// The type of a column of the table made for values of `kind`.
fn kind_of(kind: &DataType) -> Type {
    match stored_type(kind) {
        DataType::Int64 => Type::Integer,
        DataType::Float64 => Type::Real,
        DataType::LargeUtf8 => Type::Text,
        _ => Type::Any,
    }
}

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
