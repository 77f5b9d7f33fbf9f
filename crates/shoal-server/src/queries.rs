//! The questions of the web page and of the API, answered from read-only connections: one with
//! everything, for admins and for documents, and narrowed ones for principals.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value as Json, json};
use shoal::{Access, Database, Document, Environment};
use shoal_crdt::{DocumentJson, SaveOptions};
use shoal_history::ChangeHash;
use shoal_sql::{Narrowed, Rows, ValueRef};

use crate::database_thread::{AnswerThread, Unanswered};
use crate::principals::{NotNarrowed, Principals};
use crate::rules::RuleFile;

/// Rows of one answer.
const ROWS_MAX: usize = 1000;
/// Changes in one history.
const HISTORY_MAX: usize = 1000;
/// Bytes of one value shown.
const VALUE_MAX: usize = 64 << 10;
/// Bytes of the values of one answer, about: behind them rows are left out.
const ANSWER_MAX: usize = 16 << 20;
/// Bytes of a value shown in any case.
const VALUE_MIN: usize = 64;
/// The longest run of one statement, and its memory.
const TIME_MAX: Duration = Duration::from_secs(10);
const MEMORY_MAX: u64 = 256 << 20;

/// Why a question has no answer.
#[derive(Debug)]
pub(crate) enum QueryError {
    /// Too many questions wait.
    Busy,
    /// There is no document of this name, or no state of these heads.
    Missing,
    /// No rule grants the principal anything.
    Nothing,
    /// The words of the failure.
    Failed(String),
}

/// What the thread has open.
struct Open {
    environment: Environment,
    path: PathBuf,
    database: Option<Database>,
    /// Without rules there is nothing for principals.
    principals: Option<Principals>,
}

/// A way to the answering thread.
#[derive(Clone)]
pub(crate) struct Queries {
    thread: AnswerThread<Open>,
}

impl Queries {
    /// Starts the thread. Without rules there is nothing for principals.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn start(
        environment: Environment,
        path: PathBuf,
        rules: Option<RuleFile>,
    ) -> std::io::Result<Self> {
        let open = move || {
            let (environment, path) = (environment.clone(), path.clone());
            let principals = rules
                .clone()
                .map(|rules| Principals::new(environment.clone(), path.clone(), rules, limits()));
            Ok(Open { environment, path, database: None, principals })
        };
        Ok(Self { thread: AnswerThread::start("queries", open)? })
    }

    /// Asks, and waits for the answer.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Database) -> Result<T, QueryError> + Send + 'static,
    ) -> Result<T, QueryError> {
        self.send(move |open| question(open.database()?)).await
    }

    /// Asks what a principal may read.
    pub(crate) async fn ask_as<T: Send + 'static>(
        &self,
        principal: String,
        question: impl FnOnce(&mut Narrowed) -> Result<T, QueryError> + Send + 'static,
    ) -> Result<T, QueryError> {
        self.send(move |open| question(open.narrowed(&principal)?)).await
    }

    async fn send<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Open) -> Result<T, QueryError> + Send + 'static,
    ) -> Result<T, QueryError> {
        self.thread.ask(question).await.unwrap_or_else(|unanswered| {
            Err(match unanswered {
                Unanswered::Busy => QueryError::Busy,
                Unanswered::Closed(_) | Unanswered::Panicked => closed(),
            })
        })
    }
}

impl Open {
    /// The database with everything.
    fn database(&mut self) -> Result<&mut Database, QueryError> {
        if self.database.is_none() {
            let opened = Database::open(self.environment.clone(), &self.path, Access::ReadOnly);
            let mut database = opened.map_err(|_| closed())?;
            database.sql().set_limits(limits());
            self.database = Some(database);
        }
        self.database.as_mut().ok_or_else(closed)
    }

    /// The database as a principal may read it, by the rules of now.
    fn narrowed(&mut self, principal: &str) -> Result<&mut Narrowed, QueryError> {
        let principals = self.principals.as_mut().ok_or(QueryError::Nothing)?;
        principals.narrowed(principal).map_err(|error| match error {
            NotNarrowed::Nothing => QueryError::Nothing,
            error => failed(error),
        })
    }
}

fn limits() -> shoal_sql::Limits {
    shoal_sql::Limits {
        time: Some(TIME_MAX),
        memory_bytes: Some(MEMORY_MAX),
        ..shoal_sql::Limits::default()
    }
}

fn closed() -> QueryError {
    QueryError::Failed("the database cannot be opened for reading".to_owned())
}

fn failed(error: impl std::fmt::Display) -> QueryError {
    QueryError::Failed(error.to_string())
}

fn load(database: &mut Database, name: &str) -> Result<Document, QueryError> {
    database.load(name).map_err(|error| match error {
        shoal::Error::NoDocument { .. } => QueryError::Missing,
        other => failed(other),
    })
}

/// The documents of the file.
pub(crate) fn documents(database: &mut Database) -> Result<Vec<Json>, QueryError> {
    let documents = database.documents().map_err(failed)?;
    let shown = documents.into_iter().map(|document| {
        json!({
            "name": document.name,
            "heads": hex(&document.heads),
            "changes": document.changes,
            "bytes": document.bytes,
        })
    });
    Ok(shown.collect())
}

/// A document as an Automerge file.
pub(crate) fn export(database: &mut Database, name: &str) -> Result<Vec<u8>, QueryError> {
    Ok(load(database, name)?.to_bytes(SaveOptions::default()))
}

fn hex(heads: &[ChangeHash]) -> Vec<String> {
    heads.iter().map(ToString::to_string).collect()
}

/// A document as JSON, at present or after the change of that place in its history.
pub(crate) fn document(
    database: &mut Database,
    name: &str,
    at: Option<usize>,
) -> Result<Json, QueryError> {
    let document = load(database, name)?;
    let count = document.changes().count();
    let document = match at {
        None => document,
        Some(at) => {
            let mut earlier = Document::new(document.actor().clone());
            let changes = document.changes().take(at.saturating_add(1)).cloned();
            earlier.apply_changes(changes).map_err(failed)?;
            earlier
        }
    };
    let value = serde_json::to_value(DocumentJson::new(&document)).map_err(failed)?;
    Ok(json!({
        "name": name,
        "heads": hex(&document.heads()),
        "changes": count,
        "value": value,
    }))
}

/// The last changes of a document, oldest first.
pub(crate) fn history(database: &mut Database, name: &str) -> Result<Json, QueryError> {
    let document = load(database, name)?;
    let count = document.changes().count();
    let first = count.saturating_sub(HISTORY_MAX);
    let changes: Vec<Json> = document
        .changes()
        .skip(first)
        .enumerate()
        .map(|(place, change)| {
            json!({
                "at": first + place,
                "hash": change.hash().to_string(),
                "actor": change.actor().to_string(),
                "seq": change.seq(),
                "time": change.time(),
                "ops": change.len(),
                "message": change.message(),
            })
        })
        .collect();
    Ok(json!({ "name": name, "count": count, "changes": changes }))
}

/// The tables and views in sight.
const TABLES: &str =
    "SELECT name, type FROM sqlite_schema WHERE type IN ('table', 'view') ORDER BY name";

/// The tables and views of the file.
pub(crate) fn tables(database: &mut Database) -> Result<Json, QueryError> {
    query(database, TABLES)
}

/// The tables and views of a principal.
pub(crate) fn tables_of(narrowed: &mut Narrowed) -> Result<Json, QueryError> {
    query_of(narrowed, TABLES)
}

/// Runs a reading statement.
pub(crate) fn query(database: &mut Database, sql: &str) -> Result<Json, QueryError> {
    check_reads(sql)?;
    let connection = database.sql();
    let mut statement = connection.prepare(sql).map_err(failed)?;
    let columns = statement.column_names().to_vec();
    let rows = connection.query(&mut statement).map_err(failed)?;
    shown(&columns, rows).map_err(failed)
}

/// Runs a reading statement of a principal.
pub(crate) fn query_of(narrowed: &mut Narrowed, sql: &str) -> Result<Json, QueryError> {
    // The words of faults of the file name the file, and pages of tables out of sight.
    let failed = |error| match error {
        shoal_sql::Error::Store(_) => QueryError::Failed("the file cannot be read".to_owned()),
        error => failed(error),
    };
    check_reads(sql)?;
    let mut statement = narrowed.prepare(sql).map_err(failed)?;
    let columns = statement.column_names().to_vec();
    let rows = narrowed.query(&mut statement).map_err(failed)?;
    shown(&columns, rows).map_err(failed)
}

fn check_reads(sql: &str) -> Result<(), QueryError> {
    let word: String = sql.trim_start().chars().take_while(char::is_ascii_alphabetic).collect();
    let reads = ["SELECT", "WITH", "VALUES", "EXPLAIN"];
    if !reads.iter().any(|read| word.eq_ignore_ascii_case(read)) {
        let why = "only statements that read: SELECT, WITH, VALUES, EXPLAIN";
        return Err(QueryError::Failed(why.to_owned()));
    }
    Ok(())
}

/// The rows of an answer, within its bounds.
fn shown(columns: &[String], mut rows: Rows<'_>) -> Result<Json, shoal_sql::Error> {
    let mut shown = Vec::new();
    let mut is_cut = false;
    let mut room = ANSWER_MAX;
    while let Some(row) = rows.next()? {
        if shown.len() >= ROWS_MAX || room == 0 {
            is_cut = true;
            break;
        }
        let values = row.values().map(|value| {
            let longest = room.clamp(VALUE_MIN, VALUE_MAX);
            is_cut |= matches!(value, ValueRef::Text(text) if text.len() > longest);
            let value = show(value, longest);
            room = room.saturating_sub(value.as_str().map_or(0, str::len) + size_of::<Json>());
            value
        });
        shown.push(values.collect::<Vec<Json>>());
    }
    Ok(json!({ "columns": columns, "rows": shown, "is_cut": is_cut }))
}

/// A value, of a text at most `longest` bytes.
fn show(value: ValueRef<'_>, longest: usize) -> Json {
    match value {
        ValueRef::Null => Json::Null,
        ValueRef::Int(number) => json!(number),
        ValueRef::Real(number) => json!(number),
        ValueRef::Text(text) => {
            let shown = &text[..text.len().min(longest)];
            let more = if shown.len() < text.len() { "..." } else { "" };
            json!(format!("{}{more}", String::from_utf8_lossy(shown)))
        }
        ValueRef::Blob(bytes) => {
            let shown = &bytes[..bytes.len().min(64)];
            let more = if shown.len() < bytes.len() { "..." } else { "" };
            json!(format!("x'{}{more}' ({} bytes)", shoal_stdx::hex::encode(shown), bytes.len()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thousand rows of many long texts are more memory than the statement may take itself.
    #[test]
    fn an_answer_is_bounded_however_wide_its_rows_are() {
        let mut database = Database::memory(Environment::os()).expect("memory is there");
        let wide = vec!["m"; 100].join(", ");
        let sql = format!(
            "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 1000) \
             SELECT {wide} FROM (SELECT x, printf('%.60000c', 'a') AS m FROM c)"
        );
        let answer = query(&mut database, &sql).expect("the statement reads");
        assert_eq!(answer["is_cut"], true);
        let rows = answer["rows"].as_array().expect("rows are a list");
        assert!((2..1000).contains(&rows.len()), "{} rows", rows.len());
        let bytes = answer["rows"].to_string().len();
        assert!(bytes < ANSWER_MAX + ANSWER_MAX / 4, "{bytes} bytes");
        let whole = query(&mut database, "VALUES (1, 'a'), (2, 'b')").expect("two rows");
        assert_eq!(whole["rows"], json!([[1, "a"], [2, "b"]]));
        assert_eq!(whole["is_cut"], false);
        let long = query(&mut database, "SELECT printf('%.70000c', 'a')").expect("one row");
        assert_eq!(long["is_cut"], true);
        assert!(long["rows"][0][0].as_str().is_some_and(|text| text.ends_with("a...")));
    }
}
