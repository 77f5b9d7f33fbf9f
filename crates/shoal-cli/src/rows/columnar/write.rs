//! Batches of rows, written as they come.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Stdout, Write};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use shoal_arrow::{BatchBuilder, Fit, Seen, distinct_names};
use shoal_sql::Statement;

use super::Columnar;
use crate::failure::Failure;
use crate::query::{Reads, run};

/// Bytes of a row group of Parquet, held in memory until the group is written.
const GROUP_BYTES: usize = 64 << 20;

/// Rows looked at for the types of columns, where the rows can be written anew.
const GUESS_ROWS: usize = 4096;

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
    out: &mut impl Output,
) -> Result<(), Failure> {
    let failed = |error: shoal_sql::Error| Failure::at(place, error);
    run(connection, "BEGIN").map_err(failed)?;
    let written = write(connection, place, sql, kind, out);
    let ended = run(connection, "ROLLBACK").map_err(failed);
    written.and(ended)
}

/// What is written into.
pub(crate) trait Output: Write + Send {
    /// True where all that was written can be taken back.
    const REWINDS: bool;

    /// Takes back all that was written.
    fn rewind(&mut self) -> io::Result<()>;
}

impl Output for BufWriter<File> {
    const REWINDS: bool = true;

    fn rewind(&mut self) -> io::Result<()> {
        self.seek(SeekFrom::Start(0))?;
        self.get_mut().set_len(0)
    }
}

impl Output for BufWriter<Stdout> {
    const REWINDS: bool = false;

    fn rewind(&mut self) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::NotSeekable))
    }
}

/// The types of the first rows are those of all in most tables. Where another value comes, the
/// rows are looked at to the end, and written anew: the file is the same either way.
fn write<O: Output>(
    connection: &mut dyn Reads,
    place: &str,
    sql: &str,
    kind: Columnar,
    out: &mut O,
) -> Result<(), Failure> {
    let failed = |error: shoal_sql::Error| Failure::at(place, error);
    let mut statement = connection.prepare(sql).map_err(failed)?;
    if O::REWINDS {
        let seen = look(connection, &mut statement, GUESS_ROWS).map_err(failed)?;
        if is_guess(&statement, &seen) {
            if fill((&mut *connection, place), &mut statement, &seen, kind, out)? {
                return Ok(());
            }
            out.rewind()?;
        }
    }
    let seen = look(connection, &mut statement, usize::MAX).map_err(failed)?;
    match fill((connection, place), &mut statement, &seen, kind, out)? {
        true => Ok(()),
        false => Err(Failure::at(place, "the rows differ from one reading to the next")),
    }
}

/// What so many rows, at most, have in each column.
fn look(
    connection: &mut dyn Reads,
    statement: &mut Statement,
    most: usize,
) -> Result<Vec<Seen>, shoal_sql::Error> {
    let mut seen = vec![Seen::default(); statement.column_count()];
    let mut rows = connection.query(statement)?;
    for _ in 0..most {
        let Some(row) = rows.next()? else { break };
        seen.iter_mut().zip(row.values()).for_each(|(seen, value)| seen.value(value));
    }
    Ok(seen)
}

/// True where the first rows tell the types of all, if all values fit: a column that is one of
/// reals by its declaration alone would take integers, too.
fn is_guess(statement: &Statement, seen: &[Seen]) -> bool {
    seen.iter().enumerate().all(|(place, seen)| {
        let declared = statement.column_declared_type(place);
        *seen != Seen::default() || seen.kind(declared) != DataType::Float64
    })
}

/// Writes the rows of a statement as columns of the types for what was seen; false where a value
/// does not fit.
fn fill(
    (connection, place): (&mut dyn Reads, &str),
    statement: &mut Statement,
    seen: &[Seen],
    kind: Columnar,
    out: &mut (impl Write + Send),
) -> Result<bool, Failure> {
    let failed = |error: shoal_sql::Error| Failure::at(place, error);
    let kinds = seen.iter().enumerate();
    let kinds = kinds.map(|(place, seen)| seen.kind(statement.column_declared_type(place)));
    let names = distinct_names(statement.column_names()).into_iter();
    let fields = names.zip(kinds).map(|(name, kind)| Field::new(name, kind, true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let mut sink = Sink::open(kind, Arc::clone(&schema), out).map_err(unwritten)?;
    let fits: Vec<Fit> = seen.iter().map(|seen| seen.fit()).collect();
    let mut builder = BatchBuilder::new(schema, &fits);
    let mut rows = connection.query(statement).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        match builder.push(&row) {
            Ok(true) => sink.batch(builder.finish())?,
            Ok(false) => {}
            Err(_) => return Ok(false),
        }
    }
    if !builder.is_empty() {
        sink.batch(builder.finish())?;
    }
    sink.finish().map(|()| true)
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
