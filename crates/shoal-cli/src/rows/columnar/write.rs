//! Batches of rows, written as they come.

use std::collections::HashSet;
use std::io::Write;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{ArrowError, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use shoal_sql::{Connection, ValueRef};
use shoal_store::Mode;

use super::Columnar;
use super::types::{Builder, Seen};
use crate::failure::Failure;

/// Rows and bytes of a batch.
const BATCH_ROWS: usize = 8192;
const BATCH_BYTES: usize = 16 << 20;
/// Bytes of a row group of Parquet, held in memory until the group is written.
const GROUP_BYTES: usize = 64 << 20;

/// Writes the rows of a query.
///
/// # Errors
/// The query's; those of writing; rows that differ when they are read a second time, as those of
/// `random()` do.
pub(crate) fn export(
    connection: &mut Connection,
    place: &str,
    sql: &str,
    kind: Columnar,
    out: &mut (impl Write + Send),
) -> Result<(), Failure> {
    let failed = |error: shoal_sql::Error| Failure::at(place, error);
    connection.begin(Mode::Read).map_err(failed)?;
    let written = write(connection, place, sql, kind, out);
    let ended = connection.rollback().map_err(failed);
    written.and(ended)
}

fn write(
    connection: &mut Connection,
    place: &str,
    sql: &str,
    kind: Columnar,
    out: &mut (impl Write + Send),
) -> Result<(), Failure> {
    let failed = |error: shoal_sql::Error| Failure::at(place, error);
    let mut statement = connection.prepare(sql).map_err(failed)?;
    let names = different(statement.column_names());
    let mut seen = vec![Seen::default(); names.len()];
    let mut rows = connection.query(&mut statement).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        seen.iter_mut().zip(row.values()).for_each(|(seen, value)| seen.value(value));
    }
    drop(rows);
    let fields =
        names.into_iter().zip(seen).map(|(name, seen)| Field::new(name, seen.kind(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let mut sink = Sink::open(kind, Arc::clone(&schema), out).map_err(unwritten)?;
    let mut columns: Vec<Builder> =
        schema.fields().iter().map(|field| Builder::new(field.data_type())).collect();
    let mut rows = connection.query(&mut statement).map_err(failed)?;
    let (mut count, mut bytes) = (0, 0);
    let mut values: Vec<ValueRef<'_>>;
    while let Some(row) = rows.next().map_err(failed)? {
        values = row.values().collect();
        for (column, value) in columns.iter_mut().zip(&values) {
            let changed = || Failure::at(place, "the rows differ from one reading to the next");
            bytes += column.push(*value).ok_or_else(changed)?;
        }
        count += 1;
        if count == BATCH_ROWS || bytes >= BATCH_BYTES {
            sink.batch(batch(&schema, &mut columns)?)?;
            (count, bytes) = (0, 0);
        }
    }
    if count > 0 {
        sink.batch(batch(&schema, &mut columns)?)?;
    }
    sink.finish()
}

fn batch(schema: &Arc<Schema>, columns: &mut [Builder]) -> Result<RecordBatch, Failure> {
    let columns: Vec<ArrayRef> = columns.iter_mut().map(Builder::finish).collect();
    RecordBatch::try_new(Arc::clone(schema), columns).map_err(unwritten)
}

/// Where batches go.
enum Sink<'w, W: Write + Send> {
    Parquet(Box<ArrowWriter<&'w mut W>>),
    Arrow(Box<FileWriter<&'w mut W>>),
    Stream(Box<StreamWriter<&'w mut W>>),
}

impl<'w, W: Write + Send> Sink<'w, W> {
    fn open(kind: Columnar, schema: Arc<Schema>, out: &'w mut W) -> Result<Self, ArrowError> {
        Ok(match kind {
            Columnar::Parquet => {
                let settings =
                    WriterProperties::builder().set_compression(Compression::SNAPPY).build();
                Sink::Parquet(Box::new(ArrowWriter::try_new(out, schema, Some(settings))?))
            }
            Columnar::Arrow => Sink::Arrow(Box::new(FileWriter::try_new(out, &schema)?)),
            Columnar::ArrowStream => Sink::Stream(Box::new(StreamWriter::try_new(out, &schema)?)),
        })
    }

    fn batch(&mut self, batch: RecordBatch) -> Result<(), Failure> {
        match self {
            Sink::Parquet(writer) => {
                writer.write(&batch).map_err(|error| unwritten(error.into()))?;
                if writer.in_progress_size() > GROUP_BYTES {
                    writer.flush().map_err(|error| unwritten(error.into()))?;
                }
                Ok(())
            }
            Sink::Arrow(writer) => writer.write(&batch).map_err(unwritten),
            Sink::Stream(writer) => writer.write(&batch).map_err(unwritten),
        }
    }

    fn finish(self) -> Result<(), Failure> {
        match self {
            Sink::Parquet(writer) => {
                writer.close().map(drop).map_err(|error| unwritten(error.into()))
            }
            Sink::Arrow(mut writer) => writer.finish().map_err(unwritten),
            Sink::Stream(mut writer) => writer.finish().map_err(unwritten),
        }
    }
}

fn unwritten(error: ArrowError) -> Failure {
    match error {
        ArrowError::IoError(_, error) => Failure::from(error),
        other => Failure::new(other),
    }
}

/// Names that no two columns share: readers find columns by their names.
fn different(names: &[String]) -> Vec<String> {
    let mut taken = HashSet::new();
    let different = names.iter().map(|name| {
        let numbered = (2_u64..).map(|number| format!("{name}_{number}"));
        let mut candidates = std::iter::once(name.clone()).chain(numbered);
        candidates.find(|name| taken.insert(name.clone())).expect("numbers do not end")
    });
    different.collect()
}
