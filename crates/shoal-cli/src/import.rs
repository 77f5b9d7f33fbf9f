//! Rows from CSV, JSON, Parquet, Arrow IPC and workbooks into a table: `shoal import`, and the
//! shell's `.import`.
//!
//! The types of a CSV file's columns are inferred from its first megabyte, and the file is read
//! once; a later value of another type sends the import back to the start, to infer from the whole
//! file. Other files are read twice, first for the types. A stream is read once, and its types are
//! inferred from its beginning. Little is held in memory: some rows, and of a stream its beginning.

mod cells;
#[cfg(feature = "columnar")]
mod columnar;
mod csv;
mod input;
mod json;
mod pieces;
pub(crate) mod places;
pub(crate) mod sqlite;
mod target;
mod types;
#[cfg(feature = "excel")]
pub(crate) mod workbook;

pub(crate) use input::Input;
pub(crate) use types::Type;

use shoal_sql::{Connection, Value, ValueRef};
use shoal_store::Mode;

use crate::failure::Failure;
use crate::out;
use crate::progress::Bar;
use crate::query;
use input::{Look, Source};
use target::{Column, Target};

/// One import: the input, the table, and how rows are read.
pub(crate) struct Job<'a> {
    /// The name of the input in errors.
    pub(crate) place: &'a str,
    pub(crate) form: Form,
    /// The table; a missing one is created.
    pub(crate) table: &'a str,
    pub(crate) types: Types,
    /// Rows of a transaction; `None` for one transaction.
    pub(crate) batch: Option<u64>,
    /// A row of another length is filled with NULL or cut, with a note, as in `sqlite3`.
    pub(crate) lenient: bool,
}

/// The forms of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Separated values, quoted by the rules of RFC 4180.
    Csv {
        delimiter: u8,
        /// True where the first row names the columns; `None` for a first row of names exactly when
        /// the table is missing.
        header: Option<bool>,
        /// Rows passed over at the beginning.
        skip: u64,
    },
    /// JSON objects: one a line, one after another, or in an array.
    Json,
    /// Columns with types of their own.
    Columnar(Columnar),
    /// A sheet of a workbook.
    #[cfg(feature = "excel")]
    Sheet {
        /// Its place in the workbook, from 0.
        number: usize,
        /// True where the first row with values names the columns.
        header: bool,
    },
}

/// The forms with columns beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Columnar {
    Parquet,
    /// Arrow IPC, as a file or as a stream.
    Arrow,
}

/// Refusal of a form left out of the build.
#[cfg(not(feature = "columnar"))]
pub(crate) fn without_columnar(form: Columnar) -> Failure {
    Failure::new(format_args!("{form:?} is not in this build of shoal"))
        .hint("CSV and NDJSON are in every build, Parquet and Arrow with --features columnar")
}

/// The types of the columns of a new table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Types {
    /// Types fitting all values seen; the columns listed get the type given here instead.
    Inferred(Vec<(String, Type)>),
    /// Texts all.
    Text,
}

/// The outcome of an import.
pub(crate) struct Done {
    /// Rows inserted.
    pub(crate) rows: u64,
    /// The definition of the table, where the import created one.
    pub(crate) created: Option<String>,
    /// True where the types were inferred from the beginning of the input alone.
    pub(crate) sampled: bool,
    /// Errors of formulas, stored as NULL.
    pub(crate) errors: u64,
}

/// Rows of one form: a cell for each column.
trait Rows {
    /// Reads the next row; false at the end.
    fn next(&mut self) -> Result<bool, Failure>;

    /// The place of the row: the line of its first byte, or its number; from 1.
    fn line(&self) -> u64;

    /// What [`Rows::line`] counts.
    fn unit(&self) -> &'static str {
        "line"
    }

    /// How many values the row has, where rows may have any number of them.
    fn length(&self) -> Option<usize>;

    /// Errors of formulas in the rows so far.
    fn errors(&self) -> u64 {
        0
    }

    /// The value for the column `target`, taken from value `column` of the row.
    fn cell(&self, column: usize, target: &Column) -> Result<ValueRef<'_>, cells::NotThatType>;
}

/// Imports `input`.
///
/// # Errors
/// A fault of the input, with line and column; a refusal by the table. The database is then as
/// before, or with a batch as after the last whole batch.
pub(crate) fn import(
    connection: &mut Connection,
    job: &Job<'_>,
    input: Input,
) -> Result<Done, Failure> {
    let bar = Bar::new(input.bytes());
    let mut source = Source::open(job.place, input)?;
    let failed = |error: shoal_sql::Error| Failure::at(job.place, error);
    let own = !connection.in_transaction();
    // A batch is committed as it is, so its types have to be known before.
    let may_rethink = source.is_file() && !job.lenient && job.batch.is_none();
    let mut look = if may_rethink { Look::Beginning } else { Look::Whole };
    let (end, undo) = (format!("RELEASE {SAVEPOINT}"), format!("ROLLBACK TO {SAVEPOINT}"));
    loop {
        match own {
            true => connection.begin(Mode::Write).map_err(failed)?,
            // Inside the user's transaction a savepoint limits the undoing to the import's own
            // changes.
            false => query::run(connection, &format!("SAVEPOINT {SAVEPOINT}")).map_err(failed)?,
        }
        let stopped = match run(connection, job, &mut source, &bar, (own, look)) {
            Ok(done) => {
                bar.clear();
                match own {
                    true => connection.commit().map_err(failed)?,
                    false => query::run(connection, &end).map_err(failed)?,
                }
                return Ok(done);
            }
            Err(stopped) => stopped,
        };
        // The user has to know the first failure; one of the undoing adds nothing.
        let undone = match own {
            true => connection.rollback(),
            false => query::run(connection, &undo).and_then(|()| query::run(connection, &end)),
        };
        match stopped {
            Stopped::Misfit => {
                undone.map_err(failed)?;
                look = Look::Whole;
            }
            Stopped::Failure(failure) => {
                bar.clear();
                return Err(failure);
            }
        }
    }
}

const SAVEPOINT: &str = "\"shoal import\"";

/// The way on from a value that the types inferred from a stream's beginning do not hold.
const SAMPLE_HINT: &str =
    "a file is read whole for its types, a stream is not; --types text takes all";

/// Why an import did not come to its end.
enum Stopped {
    /// A value is not of the type inferred from the beginning of the file.
    Misfit,
    Failure(Failure),
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Stopped {
        Stopped::Failure(failure)
    }
}

fn run(
    connection: &mut Connection,
    job: &Job<'_>,
    source: &mut Source,
    bar: &Bar,
    (own, look): (bool, Look),
) -> Result<Done, Stopped> {
    let is_csv = matches!(job.form, Form::Csv { .. });
    let look = if is_csv { look } else { Look::Whole };
    let (target, sampled) = target::prepare(connection, job, source, look)?;
    let mut done = Done { rows: 0, created: target.created.clone(), sampled, errors: 0 };
    let failed = |error: shoal_sql::Error| Failure::at(job.place, error);
    if let Form::Csv { delimiter, skip, .. } = job.form
        && target.created.is_some()
        && !job.lenient
        && job.batch.is_none()
    {
        let skip = skip + u64::from(target.header);
        let loader = connection.bulk_loader(job.table).map_err(failed)?;
        let (rows, rethinks) = (source.rows(bar)?, look == Look::Beginning);
        done.rows = pieces::load(job, (&target, rethinks), loader, rows, (delimiter, skip))?;
        return Ok(done);
    }
    let mut rows: Box<dyn Rows> = match job.form {
        Form::Csv { delimiter, skip, .. } => {
            let skip = skip + u64::from(target.header);
            let wanted = (!job.lenient).then_some(target.given);
            Box::new(csv::CsvRows::open(job.place, source.rows(bar)?, delimiter, skip, wanted)?)
        }
        Form::Json => {
            let names = target.columns.iter().map(|column| column.name.clone()).collect();
            Box::new(json::JsonRows::open(job.place, source.rows(bar)?, names))
        }
        #[cfg(feature = "columnar")]
        Form::Columnar(kind) => Box::new(columnar::BatchRows::open(job.place, kind, source, bar)?),
        #[cfg(not(feature = "columnar"))]
        Form::Columnar(kind) => return Err(without_columnar(kind).into()),
        #[cfg(feature = "excel")]
        Form::Sheet { number, header } => {
            let path = target::workbook(job, source)?;
            Box::new(workbook::SheetRows::open(job.place, path, (number, header), &target.places)?)
        }
    };
    loop {
        let more = insert(connection, job, &target, &mut *rows, &mut done)?;
        done.errors = rows.errors();
        if !more {
            return Ok(done);
        }
        if own {
            connection.commit().map_err(failed)?;
            connection.begin(Mode::Write).map_err(failed)?;
        }
    }
}

/// Inserts rows up to the end of a batch; false at the end of the input.
fn insert(
    connection: &mut Connection,
    job: &Job<'_>,
    target: &Target,
    rows: &mut dyn Rows,
    done: &mut Done,
) -> Result<bool, Failure> {
    let failed = |error: shoal_sql::Error| Failure::at(job.place, error);
    let at_row = |rows: &dyn Rows, error: shoal_sql::Error| {
        Failure::at(job.place, format_args!("{} {}: {error}", rows.unit(), rows.line()))
    };
    let limit = job.batch.unwrap_or(u64::MAX);
    let mut inserted = 0;
    match &target.statement {
        None => {
            let mut writer = connection.table_writer(job.table).map_err(failed)?;
            while inserted < limit {
                if !rows.next()? {
                    return Ok(false);
                }
                let values = values(job, target, rows)?;
                writer.insert(&values).map_err(|error| at_row(rows, error))?;
                done.rows += 1;
                inserted += 1;
            }
        }
        Some(sql) => {
            let mut statement = connection.prepare(sql).map_err(failed)?;
            while inserted < limit {
                if !rows.next()? {
                    return Ok(false);
                }
                for (place, value) in values(job, target, rows)?.iter().enumerate() {
                    statement.bind(place + 1, Value::from(*value)).map_err(failed)?;
                }
                connection.execute(&mut statement).map_err(|error| at_row(rows, error))?;
                done.rows += 1;
                inserted += 1;
            }
        }
    }
    Ok(true)
}

/// The values of a row, in the order of the table's columns.
fn values<'r>(
    job: &Job<'_>,
    target: &Target,
    rows: &'r dyn Rows,
) -> Result<Vec<ValueRef<'r>>, Failure> {
    if let Some(found) = rows.length().filter(|found| job.lenient && *found != target.given) {
        let (place, line, wanted) = (job.place, rows.line(), target.given);
        let done = if found < wanted { "filling the rest with NULL" } else { "extras ignored" };
        out::note(format_args!(
            "{place}:{line}: expected {wanted} columns but found {found} - {done}"
        ));
    }
    let mut values = Vec::with_capacity(target.columns.len());
    for column in &target.columns {
        let value = match column.given {
            None => Ok(ValueRef::Null),
            Some(given) => rows.cell(given, column),
        };
        values.push(value.map_err(|wrong| {
            let place =
                format_args!("{} {}, column {}: {wrong}", rows.unit(), rows.line(), column.name)
                    .to_string();
            match wrong.is_after_sample(target) {
                true => Failure::at(job.place, place).hint(SAMPLE_HINT),
                false => Failure::at(job.place, place),
            }
        })?);
    }
    Ok(values)
}
