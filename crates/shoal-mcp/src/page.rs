//! Rows of a query as pages of bounded size, and the rest of a long answer behind a cursor.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::PoisonError;

use serde_json::{Map, Value as Json, json};
use shoal_sql::{Row, Statement, ValueRef};

use crate::cell::{self, Parameters};
use crate::desk::Work;
use crate::refusal::Refusal;
use crate::seen::Seen;

/// The part of an answer for one value at most.
const VALUE_SHARE: usize = 4;
/// Bytes of a value shown in any case.
const VALUE_MIN: usize = 64;
/// Bytes of a row beside its values, about: brackets, commas, numbers.
const ROW_BYTES: usize = 8;

/// A reading query with its parameters.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) sql: String,
    pub(crate) parameters: Parameters,
}

/// The rest of an answer.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    query: Query,
    /// Rows told so far.
    offset: u64,
    /// A digest of the last row told: with another one in its place the rows before have moved.
    last: u64,
}

impl Query {
    /// A query of this server's own.
    pub(crate) fn new(sql: impl Into<String>, values: Vec<shoal_sql::Value>) -> Query {
        Query { sql: sql.into(), parameters: Parameters::List(values) }
    }

    fn prepare(&self, work: &mut Work<'_>) -> Result<Statement, Refusal> {
        prepare(work, &self.sql, &self.parameters)
    }
}

/// Prepares a statement and gives its parameters their values.
///
/// # Errors
/// Refusals with the fault and a way on.
pub(crate) fn prepare(
    work: &mut Work<'_>,
    sql: &str,
    parameters: &Parameters,
) -> Result<Statement, Refusal> {
    // A cancellation between two statements stops neither of them by itself.
    work.stop.check()?;
    let prepared = work.seen.prepare(sql);
    let mut statement = prepared.map_err(|error| explained(work, &error, sql))?;
    parameters.bind(&mut statement)?;
    Ok(statement)
}

/// The refusal for the failure of a statement.
pub(crate) fn explained(work: &mut Work<'_>, error: &shoal_sql::Error, sql: &str) -> Refusal {
    if let Some(refusal) = work.desk.guard.refusal(error) {
        return Refusal(refusal);
    }
    Refusal::of_statement(error, sql, &mut work.seen)
}

/// The first page of a query.
///
/// # Errors
/// The query's.
pub(crate) fn first(
    work: &mut Work<'_>,
    query: Query,
    rows: Option<usize>,
) -> Result<Map<String, Json>, Refusal> {
    page(work, Rest { query, offset: 0, last: 0 }, rows)
}

/// The next page behind a cursor.
///
/// # Errors
/// A forgotten cursor; the query's.
pub(crate) fn next(
    work: &mut Work<'_>,
    cursor: &str,
    rows: Option<usize>,
) -> Result<Map<String, Json>, Refusal> {
    let mut cursors = work.desk.cursors.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(rest) = cursors.get(work.caller, cursor).cloned() else {
        return Err(Refusal::new("the cursor is not known, or not known any more")
            .hint("Make the call again that gave it; the server keeps the last 64 cursors"));
    };
    drop(cursors);
    page(work, rest, rows)
}

fn page(
    work: &mut Work<'_>,
    mut rest: Rest,
    rows: Option<usize>,
) -> Result<Map<String, Json>, Refusal> {
    let mut statement = rest.query.prepare(work)?;
    let (mut answer, told) = shown(work, &mut statement, &rest, rows)?;
    let mut notes = Vec::new();
    if told.is_cut {
        notes.push(CUT_NOTE.to_owned());
    }
    if told.has_moved {
        notes.push(MOVED_NOTE.to_owned());
    }
    if told.more {
        let first = rest.offset + 1;
        rest.offset += told.rows as u64;
        rest.last = told.last;
        let name = work.desk.new_name();
        answer.insert("next_cursor".to_owned(), json!(name));
        notes.push(format!(
            "Rows {first} to {}; there are more: call with this cursor, or narrow the question.",
            rest.offset
        ));
        work.desk.cursors.lock().unwrap_or_else(PoisonError::into_inner).put(
            work.caller,
            name,
            rest,
        );
    }
    note(&mut answer, &notes);
    Ok(answer)
}

/// The note on cut values.
const CUT_NOTE: &str =
    "Values that end in … are cut: substr(column, start, length) reads the rest.";

/// The note on rows in other places than before.
const MOVED_NOTE: &str = "The rows of the pages before have moved: somebody wrote to the file, or no \
                          ORDER BY keeps their order. Rows may be missing or told twice.";

/// Adds notes to an answer.
pub(crate) fn note(answer: &mut Map<String, Json>, notes: &[String]) {
    if !notes.is_empty() {
        answer.insert("note".to_owned(), json!(notes.join(" ")));
    }
}

/// The rows in an answer, beside the answer.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    rows: usize,
    /// True where rows were left out.
    more: bool,
    /// True where a value is cut.
    is_cut: bool,
    /// True where the last row of the page before is not in its place.
    has_moved: bool,
    /// A digest of the last row.
    last: u64,
}

/// Rows of a page without a number in its call.
const DEFAULT_ROWS: usize = 100;

/// Runs a statement, and tells its rows behind those told before: within the bounds of an answer,
/// and at least one.
fn shown(
    work: &mut Work<'_>,
    statement: &mut Statement,
    rest: &Rest,
    rows: Option<usize>,
) -> Result<(Map<String, Json>, Told), Refusal> {
    let limits = work.desk.limits;
    let most = rows.unwrap_or(DEFAULT_ROWS).clamp(1, limits.rows);
    let columns = statement.column_names().to_vec();
    let collected = collect(&mut work.seen, statement, rest, (most, limits.bytes));
    let (rows, told) = collected.map_err(|error| explained(work, &error, &rest.query.sql))?;
    let mut answer = Map::new();
    answer.insert("columns".to_owned(), json!(columns));
    answer.insert("rows".to_owned(), Json::Array(rows));
    Ok((answer, told))
}

/// The rows behind those told before, at most `most` of about `bytes` in all.
fn collect(
    seen: &mut Seen<'_>,
    statement: &mut Statement,
    rest: &Rest,
    (most, bytes): (usize, usize),
) -> Result<(Vec<Json>, Told), shoal_sql::Error> {
    let mut told = Told::default();
    let mut shown: Vec<Json> = Vec::new();
    let mut room = bytes;
    let mut rows = seen.query(statement)?;
    for place in 1..=rest.offset {
        let Some(row) = rows.next()? else {
            told.has_moved = true;
            return Ok((shown, told));
        };
        told.has_moved = place == rest.offset && digest(&row) != rest.last;
    }
    while let Some(row) = rows.next()? {
        if shown.len() >= most || room == 0 {
            told.more = true;
            break;
        }
        let mut used = ROW_BYTES;
        let mut cells = Vec::with_capacity(row.len());
        let mut is_row_cut = false;
        for value in row.values() {
            let longest = (bytes / VALUE_SHARE).min(room.saturating_sub(used)).max(VALUE_MIN);
            let (cell, is_cut) = cell::shown(value, longest);
            used += cell.as_str().map_or(ROW_BYTES, |text| text.len() + 3);
            is_row_cut |= is_cut;
            cells.push(cell);
        }
        // A row cut for want of room alone begins the next page whole.
        if used > room && !shown.is_empty() {
            told.more = true;
            break;
        }
        told.is_cut |= is_row_cut;
        told.last = digest(&row);
        room = room.saturating_sub(used);
        shown.push(Json::Array(cells));
    }
    told.rows = shown.len();
    Ok((shown, told))
}

/// A digest of a row, for this process alone.
fn digest(row: &Row<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for value in row.values() {
        match value {
            ValueRef::Null => hasher.write_u8(0),
            ValueRef::Int(number) => (1_u8, number).hash(&mut hasher),
            ValueRef::Real(number) => (2_u8, number.to_bits()).hash(&mut hasher),
            ValueRef::Text(text) => (3_u8, text).hash(&mut hasher),
            ValueRef::Blob(bytes) => (4_u8, bytes).hash(&mut hasher),
        }
    }
    hasher.finish()
}

/// A digest of rows in any order, for this process alone: their number, and a sum of digests.
pub(crate) type Digest = (u64, u64);

/// The digest of a query's rows. Every row is read.
///
/// # Errors
/// The query's.
pub(crate) fn digest_of(work: &mut Work<'_>, sql: &str) -> Result<Digest, Refusal> {
    let mut statement = prepare(work, sql, &Parameters::None)?;
    let summed = (|| {
        let mut rows = work.seen.query(&mut statement)?;
        let (mut count, mut sum) = (0, 0_u64);
        while let Some(row) = rows.next()? {
            count += 1;
            sum = sum.wrapping_add(digest(&row));
        }
        Ok((count, sum))
    })();
    summed.map_err(|error| explained(work, &error, sql))
}

/// Runs a writing statement: its rows, without a way to the ones beyond the bounds.
///
/// # Errors
/// The statement's.
pub(crate) fn written(
    work: &mut Work<'_>,
    statement: &mut Statement,
    sql: &str,
    rows: Option<usize>,
) -> Result<Map<String, Json>, Refusal> {
    let query = Query { sql: sql.to_owned(), parameters: Parameters::None };
    let (mut answer, told) = shown(work, statement, &Rest { query, offset: 0, last: 0 }, rows)?;
    let mut notes = Vec::new();
    if told.is_cut {
        notes.push(CUT_NOTE.to_owned());
    }
    if told.more {
        notes.push("More rows were written than are told here.".to_owned());
    }
    note(&mut answer, &notes);
    Ok(answer)
}

/// All rows of a small query of this server's own.
///
/// # Errors
/// The query's.
pub(crate) fn rows(
    work: &mut Work<'_>,
    sql: &str,
    values: &[shoal_sql::Value],
) -> Result<Vec<Vec<shoal_sql::Value>>, Refusal> {
    let mut statement = prepare(work, sql, &Parameters::List(values.to_vec()))?;
    let collected = (|| {
        let mut rows = work.seen.query(&mut statement)?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            all.push(row.values().map(shoal_sql::Value::from).collect());
        }
        Ok(all)
    })();
    collected.map_err(|error: shoal_sql::Error| explained(work, &error, sql))
}

/// The text of a value; empty for values of other types.
pub(crate) fn text(value: &shoal_sql::Value) -> String {
    match value {
        shoal_sql::Value::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    }
}
