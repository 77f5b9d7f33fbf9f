//! Batches of rows, written as they come.

use std::io::Write;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{ArrowError, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use shoal_arrow::{BatchBuilder, Fit, Seen, distinct_names};

use super::Columnar;
use crate::failure::Failure;
use crate::query::{Reads, run};

/// Bytes of a row group of Parquet, held in memory until the group is written.
const GROUP_BYTES: usize = 64 << 20;

/// Writes the rows of a query.
///
/// # Errors
/// The query's; those of writing; rows that differ when they are read a second time, as those of
/// `random()` do.
pub(crate) fn export(
    connection: &mut dyn Reads,
    place: &str,
    sql: &str,
    kind: Columnar,
    out: &mut (impl Write + Send),
) -> Result<(), Failure> {
    let failed = |error: shoal_sql::Error| Failure::at(place, error);
    run(connection, "BEGIN").map_err(failed)?;
    let written = write(connection, place, sql, kind, out);
    let ended = run(connection, "ROLLBACK").map_err(failed);
    written.and(ended)
}

fn write(
    connection: &mut dyn Reads,
    place: &str,
    sql: &str,
    kind: Columnar,
    out: &mut (impl Write + Send),
) -> Result<(), Failure> {
    let failed = |error: shoal_sql::Error| Failure::at(place, error);
    let mut statement = connection.prepare(sql).map_err(failed)?;
    let names = distinct_names(statement.column_names());
    let mut seen = vec![Seen::default(); names.len()];
    let mut rows = connection.query(&mut statement).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        seen.iter_mut().zip(row.values()).for_each(|(seen, value)| seen.value(value));
    }
    drop(rows);
    let kinds = seen.iter().enumerate();
    let kinds = kinds.map(|(place, seen)| seen.kind(statement.column_declared_type(place)));
    let fields = names.into_iter().zip(kinds).map(|(name, kind)| Field::new(name, kind, true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let mut sink = Sink::open(kind, Arc::clone(&schema), out).map_err(unwritten)?;
    let fits: Vec<Fit> = seen.into_iter().map(Seen::fit).collect();
    let mut builder = BatchBuilder::new(schema, &fits);
    let mut rows = connection.query(&mut statement).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let changed = |_| Failure::at(place, "the rows differ from one reading to the next");
        if builder.push(&row).map_err(changed)? {
            sink.batch(builder.finish())?;
        }
    }
    if !builder.is_empty() {
        sink.batch(builder.finish())?;
    }
    sink.finish()
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
