//! The table to import into: an existing one, or one created from the input.

use std::collections::HashSet;

use shoal_sql::{Affinity, Connection, Error, Object};

use super::input::{Look, Source};
use super::types::Seen;
use super::{Columnar, Form, Job, Rows, Type, Types, csv, json};
use crate::failure::Failure;
use crate::query;
use crate::rows::literal::quoted;

/// A column to be filled.
pub(super) struct Column {
    pub(super) name: String,
    /// The number of the value in the input; `None` for NULL.
    pub(super) given: Option<usize>,
    pub(super) kind: Type,
    /// True where a text of another type is an error: the table was made for its input.
    pub(super) must_fit: bool,
    /// True where every text is stored unchanged, an empty one too.
    pub(super) as_it_stands: bool,
    pub(super) inferred: Inferred,
}

/// Where a column's type is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inferred {
    /// The table, or the user.
    Not,
    /// The values looked at.
    FromValues,
    /// No value was there to look at.
    FromNothing,
}

/// Where the rows go.
pub(super) struct Target {
    pub(super) columns: Vec<Column>,
    /// Values per row of the input.
    pub(super) given: usize,
    /// True where the first row of the input names columns.
    pub(super) header: bool,
    /// The definition of the table, where the import created one.
    pub(super) created: Option<String>,
    /// The INSERT adding a row, where a table writer cannot.
    pub(super) statement: Option<String>,
    /// True when types were inferred from the beginning of the input alone.
    pub(super) sampled: bool,
    /// For each value of a row, its column in the sheet.
    #[cfg(feature = "excel")]
    pub(super) places: Vec<u32>,
}

/// Finds the table of a job, or creates one. Returns true beside the table when types were inferred
/// from the beginning of the input alone.
pub(super) fn prepare(
    connection: &mut Connection,
    job: &Job<'_>,
    source: &Source,
    look: Look,
) -> Result<(Target, bool), Failure> {
    let failed = |error: Error| Failure::at(job.place, error);
    let schema = connection.schema().map_err(failed)?;
    let target = match schema.object(job.table) {
        None => create(connection, job, source, look)?,
        Some(Object::Table(table)) => {
            let stored = table.columns().iter().filter(|column| !column.is_generated());
            let names = stored.map(|column| {
                let kind = match column.affinity() {
                    Affinity::Integer | Affinity::Numeric => Type::Integer,
                    Affinity::Real => Type::Real,
                    _ => Type::Text,
                };
                (column.name().to_owned(), kind)
            });
            existing(connection, job, source, names.collect(), table.is_without_rowid())?
        }
        Some(Object::Virtual(table)) => {
            let name = table.name().to_owned();
            let sql = format!("PRAGMA table_info({})", quoted(&name));
            let columns = query::rows(connection, &sql, &[]).map_err(failed)?;
            if columns.is_empty() {
                let why = format_args!("the virtual table {name} cannot be opened");
                return Err(Failure::at(job.place, why));
            }
            let names: Vec<String> = columns.iter().map(|row| query::text(&row[1])).collect();
            // Its module takes values as they are: no affinity, and --types alone makes numbers.
            let kinds = chosen(job, &names, vec![Type::Any; names.len()])?;
            existing(connection, job, source, names.into_iter().zip(kinds).collect(), true)?
        }
        Some(object) => {
            let name = object.name();
            return Err(Failure::at(job.place, format_args!("not an ordinary table: {name}")));
        }
    };
    let sampled = target.sampled;
    Ok((target, sampled))
}

/// Creates the table with the names and types of the input's columns.
fn create(
    connection: &mut Connection,
    job: &Job<'_>,
    source: &Source,
    look: Look,
) -> Result<Target, Failure> {
    let sampled = source.is_sampled(Look::Whole);
    let mut unseen = Vec::new();
    #[cfg(feature = "excel")]
    let mut places = Vec::new();
    let (names, kinds, header) = match job.form {
        Form::Csv { delimiter, header, skip } => {
            let header = header.unwrap_or(true);
            let (names, seen) = look_at_csv(job, source, look, (delimiter, header, skip))?;
            unseen = seen.iter().map(|seen| seen.is_nothing()).collect();
            (names, seen.into_iter().map(Seen::of_texts).collect::<Vec<_>>(), header)
        }
        Form::Json => {
            let (names, seen) = look_at_json(job, source)?;
            (names, seen.into_iter().map(Seen::of_values).collect(), false)
        }
        Form::Columnar(kind) => {
            let columns = typed_columns(job, kind, source)?;
            let names: Vec<Vec<u8>> =
                columns.iter().map(|(name, _)| name.clone().into_bytes()).collect();
            let kinds = columns.into_iter().map(|(_, kind)| kind).collect();
            (header_names(job, &names)?, kinds, false)
        }
        #[cfg(feature = "excel")]
        Form::Sheet { number, header } => {
            let found = sheet_columns(job, source, (number, header))?;
            places = found.places;
            (found.names, found.kinds, header)
        }
    };
    let inferred = inferred(job, &names, &unseen);
    let kinds = chosen(job, &names, kinds)?;
    let definitions: Vec<String> = names
        .iter()
        .zip(&kinds)
        .map(|(name, kind)| match kind {
            Type::Any => quoted(name),
            kind => format!("{} {}", quoted(name), kind.name()),
        })
        .collect();
    let sql = format!("CREATE TABLE {}(\n{})", quoted(job.table), definitions.join(", "));
    query::run(connection, &sql).map_err(|error| Failure::at(job.place, error))?;
    let columns = names.into_iter().zip(kinds).zip(inferred).enumerate();
    let columns: Vec<Column> = columns
        .map(|(place, ((name, kind), inferred))| Column {
            name,
            given: Some(place),
            kind,
            must_fit: true,
            as_it_stands: job.lenient,
            inferred,
        })
        .collect();
    Ok(Target {
        given: columns.len(),
        columns,
        header,
        created: Some(sql),
        statement: None,
        sampled: sampled && job.types != Types::Text && !matches!(job.form, Form::Columnar(_)),
        #[cfg(feature = "excel")]
        places,
    })
}

/// Names and types of an input that knows them.
#[cfg(feature = "columnar")]
fn typed_columns(
    job: &Job<'_>,
    kind: Columnar,
    source: &Source,
) -> Result<Vec<(String, Type)>, Failure> {
    super::columnar::columns(job.place, kind, source)
}

#[cfg(not(feature = "columnar"))]
fn typed_columns(_: &Job<'_>, kind: Columnar, _: &Source) -> Result<Vec<(String, Type)>, Failure> {
    Err(super::without_columnar(kind))
}

/// The path of the workbook, whose reader seeks in the file.
#[cfg(feature = "excel")]
pub(super) fn workbook<'s>(
    job: &Job<'_>,
    source: &'s Source,
) -> Result<&'s std::path::Path, Failure> {
    let why = "a workbook is read from a file, not from a stream";
    source.path().ok_or_else(|| Failure::at(job.place, why))
}

/// The columns of a sheet, no name twice.
#[cfg(feature = "excel")]
fn sheet_columns(
    job: &Job<'_>,
    source: &Source,
    (number, header): (usize, bool),
) -> Result<super::workbook::Columns, Failure> {
    let path = workbook(job, source)?;
    let mut columns = super::workbook::columns(job.place, path, number, header)?;
    let names: Vec<Vec<u8>> = columns.names.drain(..).map(String::into_bytes).collect();
    columns.names = header_names(job, &names)?;
    Ok(columns)
}

/// Where each column's type is from; `unseen` has the columns without a value.
fn inferred(job: &Job<'_>, names: &[String], unseen: &[bool]) -> Vec<Inferred> {
    let of = |(place, name): (usize, &String)| match &job.types {
        Types::Text => Inferred::Not,
        Types::Inferred(said) if said.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) => {
            Inferred::Not
        }
        _ if unseen.get(place) == Some(&true) => Inferred::FromNothing,
        _ => Inferred::FromValues,
    };
    names.iter().enumerate().map(of).collect()
}

/// The inferred types, replaced by those chosen with `--types`.
fn chosen(job: &Job<'_>, names: &[String], inferred: Vec<Type>) -> Result<Vec<Type>, Failure> {
    let said = match &job.types {
        Types::Text => return Ok(vec![Type::Text; names.len()]),
        Types::Inferred(said) => said,
    };
    let mut kinds = inferred;
    for (name, kind) in said {
        let place = names.iter().position(|known| known.eq_ignore_ascii_case(name));
        let place = place.ok_or_else(|| {
            Failure::at(job.place, format_args!("--types names a column that is not there: {name}"))
        })?;
        kinds[place] = *kind;
    }
    Ok(kinds)
}

/// The names of CSV columns, and the kinds of values seen in each.
fn look_at_csv(
    job: &Job<'_>,
    source: &Source,
    look: Look,
    (delimiter, header, skip): (u8, bool, u64),
) -> Result<(Vec<String>, Vec<Seen>), Failure> {
    let input = source.sample(look)?;
    let mut rows = csv::CsvRows::open(job.place, input, delimiter, skip, None)?;
    let sampled = source.is_sampled(look);
    if !rows.next()? {
        return Err(Failure::at(job.place, "there is no row, and no table of that name"));
    }
    let first: Vec<Vec<u8>> = rows.record().iter().map(<[u8]>::to_vec).collect();
    let names = match header {
        true => header_names(job, &first)?,
        false => (1..=first.len()).map(|number| format!("column{number}")).collect(),
    };
    let mut seen = vec![Seen::default(); names.len()];
    if job.types == Types::Text {
        return Ok((names, seen));
    }
    let mut record: Vec<Vec<u8>> = if header { Vec::new() } else { first };
    loop {
        let line = rows.line();
        let more = match rows.next() {
            Ok(more) => more,
            // The sample may end anywhere; its last row is not looked at.
            Err(_) if sampled => return Ok((names, seen)),
            Err(failure) => return Err(failure),
        };
        if !more && sampled {
            return Ok((names, seen));
        }
        if !record.is_empty() && record.len() != names.len() && !job.lenient {
            return Err(Failure::at(
                job.place,
                format_args!(
                    "line {line}: {} values where there are {} columns",
                    record.len(),
                    names.len()
                ),
            ));
        }
        for (seen, text) in seen.iter_mut().zip(&record) {
            seen.text(text);
        }
        if !more {
            return Ok((names, seen));
        }
        copy(&mut record, rows.record());
    }
}

/// Copies a record, reusing the memory of the previous one.
fn copy(record: &mut Vec<Vec<u8>>, from: &::csv::ByteRecord) {
    record.resize_with(from.len(), Vec::new);
    for (cell, text) in record.iter_mut().zip(from) {
        cell.clear();
        cell.extend_from_slice(text);
    }
}

/// Names from the first row: an empty name gets its column's number, a repeated one a number too.
fn header_names(job: &Job<'_>, first: &[Vec<u8>]) -> Result<Vec<String>, Failure> {
    let mut taken = HashSet::new();
    let mut names = Vec::with_capacity(first.len());
    for (place, text) in first.iter().enumerate() {
        let name = std::str::from_utf8(text).map_err(|_| {
            let place = format_args!("line 1: the name of column {} is not UTF-8", place + 1);
            Failure::at(job.place, place)
        })?;
        let name = match name.trim() {
            "" => format!("column{}", place + 1),
            name => name.to_owned(),
        };
        let numbered = (2_u64..).map(|number| format!("{name}_{number}"));
        let free = std::iter::once(name.clone())
            .chain(numbered)
            .find(|name| taken.insert(name.to_ascii_lowercase()))
            .expect("numbers do not end");
        names.push(free);
    }
    Ok(names)
}

/// The members of all objects, in the order of first appearance, and the kinds of values seen.
fn look_at_json(job: &Job<'_>, source: &Source) -> Result<(Vec<String>, Vec<Seen>), Failure> {
    let mut objects = json::Objects::new(job.place, source.sample(Look::Whole)?);
    let mut places = std::collections::HashMap::new();
    let mut names: Vec<String> = Vec::new();
    let mut seen: Vec<Seen> = Vec::new();
    let mut any = false;
    loop {
        let more = objects.next(source.is_sampled(Look::Whole), |name, cell| {
            let place = *places.entry(name.to_ascii_lowercase()).or_insert_with(|| {
                names.push(name.to_owned());
                seen.push(Seen::default());
                names.len() - 1
            });
            match cell {
                json::Cell::Null => {}
                json::Cell::Int(value) => seen[place].int(value),
                json::Cell::Real(_) => seen[place].real(),
                json::Cell::Text(_) => seen[place].not_a_number(),
            }
            Ok(())
        })?;
        if !more {
            break;
        }
        any = true;
    }
    match (any, names.is_empty()) {
        (true, false) => Ok((names, seen)),
        (true, true) => Err(Failure::at(job.place, "the objects have no members")),
        (false, _) => Err(Failure::at(job.place, "there is no row, and no table of that name")),
    }
}

/// Matches values of the input to columns of an existing table.
fn existing(
    connection: &mut Connection,
    job: &Job<'_>,
    source: &Source,
    table: Vec<(String, Type)>,
    by_statement: bool,
) -> Result<Target, Failure> {
    let column = |(name, kind): (String, Type), given: Option<usize>| Column {
        name,
        given,
        kind,
        must_fit: false,
        as_it_stands: job.lenient,
        inferred: Inferred::Not,
    };
    let by_name = |names: &[String]| -> Result<Vec<Column>, Failure> {
        let columns = names.iter().enumerate().map(|(place, name)| {
            let known = table.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            let missing = format_args!("table {} has no column named {name}", job.table);
            let known = known.ok_or_else(|| Failure::at(job.place, missing))?;
            Ok(column(known.clone(), Some(place)))
        });
        columns.collect()
    };
    let by_header = |names: &[String]| {
        let hint = "--header no takes the columns in their order";
        by_name(names).map_err(|failure| failure.hint(hint))
    };
    // All columns of the table, the first `given` with values of the input.
    let by_order = |given: usize| -> Vec<Column> {
        let places = (0..given).map(Some).chain(std::iter::repeat(None));
        table.iter().cloned().zip(places).map(|(known, place)| column(known, place)).collect()
    };
    #[cfg(feature = "excel")]
    let mut places = Vec::new();
    let (columns, given, header) = match job.form {
        #[cfg(feature = "excel")]
        Form::Sheet { number, header } => {
            let found = sheet_columns(job, source, (number, header))?;
            places = found.places;
            let columns = match header {
                true => by_header(&found.names)?,
                false if places.len() > table.len() => {
                    let (found, wanted) = (places.len(), table.len());
                    let why =
                        format_args!("{found} columns where table {} has {wanted}", job.table);
                    return Err(Failure::at(job.place, why));
                }
                false => by_order(places.len()),
            };
            (columns, places.len(), header)
        }
        Form::Columnar(kind) => {
            let names = typed_columns(job, kind, source)?.into_iter().map(|(name, _)| name);
            let columns = by_name(&names.collect::<Vec<_>>())?;
            let given = columns.len();
            (columns, given, false)
        }
        Form::Csv { delimiter, header, skip } => {
            let header = header.unwrap_or(false);
            let input = source.sample(Look::Whole)?;
            let mut rows = csv::CsvRows::open(job.place, input, delimiter, skip, None)?;
            let first: Vec<Vec<u8>> = match header && rows.next()? {
                true => rows.record().iter().map(<[u8]>::to_vec).collect(),
                false => Vec::new(),
            };
            if header && !job.lenient {
                let names = header_names(job, &first)?;
                (by_header(&names)?, names.len(), true)
            } else {
                (by_order(table.len()), table.len(), header)
            }
        }
        Form::Json => (by_order(table.len()), table.len(), false),
    };
    let in_order = columns.len() == table.len()
        && columns.iter().zip(&table).all(|(column, (name, _))| column.name == *name);
    // A table writer knows no defaults: columns not named by the input need an INSERT.
    let by_writer = in_order
        && !by_statement
        && match connection.table_writer(job.table) {
            Ok(_) => true,
            Err(Error::Unsupported { .. }) => false,
            Err(error) => return Err(Failure::at(job.place, error)),
        };
    let statement = (!by_writer).then(|| {
        let names: Vec<String> = columns.iter().map(|column| quoted(&column.name)).collect();
        let places = vec!["?"; columns.len()].join(", ");
        format!("INSERT INTO {}({}) VALUES ({places})", quoted(job.table), names.join(", "))
    });
    Ok(Target {
        columns,
        given,
        header,
        created: None,
        statement,
        sampled: false,
        #[cfg(feature = "excel")]
        places,
    })
}
