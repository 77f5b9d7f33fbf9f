//! `query`: SQL.

use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use shoal::Database;
use shoal_sql::Statements;

use super::{Answer, Arguments, Kind, UnderRules, read};
use crate::cell::Parameters;
use crate::desk::Work;
use crate::page::{self, Query};
use crate::refusal::Refusal;
use crate::seen::Step;

/// Bytes of SQL in one call.
const SQL_MAX: usize = 1 << 20;

pub(super) const KIND: Kind = Kind {
    name: "query",
    title: "Run SQL",
    words: "Runs SQL (SQLite's dialect) and gives columns and rows. Values come from params, never \
            from text pasted into the SQL. A long answer comes in pages: call again with cursor \
            alone to go on. Prefer WHERE, aggregates and LIMIT to paging through everything. \
            Documents are rows of documents(name, heads, json); GRAPH_TABLE, fts5 MATCH, vec0 and \
            the JSON functions work. On a read-only server only SELECT, WITH, VALUES, EXPLAIN and \
            PRAGMAs that tell run; where writing is on, statements between semicolons are one \
            transaction.",
    arguments: || {
        json!({
            "type": "object",
            "properties": {
                "sql": {"type": "string", "description": "The statement"},
                "params": {
                    "type": ["array", "object"],
                    "description": "A list of values for ?1, ?2, or an object for :name. Lists and \
                                    objects among the values are given as JSON text"
                },
                "rows": {
                    "type": "integer", "minimum": 1,
                    "description": "Rows of a page at most; 100 unless told"
                },
                "cursor": {
                    "type": "string",
                    "description": "The next_cursor of an answer, to go on; without sql and params"
                }
            },
            "additionalProperties": false
        })
    },
    writes: false,
    under_rules: UnderRules::Narrowed(
        "Runs a query in SQL (SQLite's dialect) over the granted tables and gives columns and \
         rows. Values come from params, never from text pasted into the SQL. A long answer \
         comes in pages: call again with cursor alone to go on. Prefer WHERE, aggregates and \
         LIMIT to paging through everything. SELECT, WITH, VALUES and PRAGMA table_info run; \
         the JSON functions, documents and GRAPH_TABLE work, as far as they are granted. Where writing is on, INSERT, UPDATE and DELETE run as far as \
         rules grant; statements between semicolons are one transaction.",
    ),
    call,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    sql: Option<String>,
    params: Option<Json>,
    rows: Option<usize>,
    cursor: Option<String>,
}

fn call(work: &mut Work<'_>, arguments: Arguments) -> Result<Answer, Refusal> {
    let given: Given = read(KIND.name, arguments)?;
    if let Some(cursor) = &given.cursor {
        if given.sql.is_some() || given.params.is_some() {
            let why = "a cursor goes on with the query that gave it: leave sql and params out";
            return Err(Refusal::new(why));
        }
        return page::next(work, cursor, given.rows).map(Answer::Object);
    }
    let Some(sql) = given.sql else {
        return Err(Refusal::new("sql is missing, or the cursor of an answer to go on with"));
    };
    if sql.len() > SQL_MAX {
        return Err(Refusal::new(format!(
            "the SQL has {} bytes, more than the {SQL_MAX} of one call",
            sql.len()
        ))
        .hint("Give values as params, and many rows as one JSON list for json_each(?1)"));
    }
    let parameters = Parameters::read(given.params.as_ref())?;
    let statements: Vec<&str> = Statements::new(&sql).map(|range| &sql[range]).collect();
    match statements.as_slice() {
        [] => Err(Refusal::new("the SQL holds no statement")),
        [one] => run(work, one, parameters, given.rows).map(Answer::Object),
        several if !work.desk.is_writable => Err(Refusal::new(format!(
            "the SQL holds {} statements; a read-only call runs one",
            several.len()
        ))
        .hint("Call once for each, or join them by UNION ALL or WITH")),
        several => {
            if !matches!(parameters, Parameters::None) {
                let why = "params go with one statement, and the SQL holds several";
                return Err(Refusal::new(why));
            }
            all(work, several, given.rows).map(Answer::Object)
        }
    }
}

/// Runs one statement.
fn run(
    work: &mut Work<'_>,
    sql: &str,
    parameters: Parameters,
    rows: Option<usize>,
) -> Result<Map<String, Json>, Refusal> {
    if Database::is_definition(sql) {
        if !work.desk.is_writable {
            let what = "A definition of a projection or a property graph is refused";
            return Err(Refusal::new(format!("{what}: this server only reads")));
        }
        let guard = work.desk.guard.clone();
        let database = work.database("a definition")?;
        guard.own_work(|| database.define(sql))?;
        return Ok(Map::new());
    }
    let mut statement = page::prepare(work, sql, &parameters)?;
    if statement.is_read_only() && statement.column_count() > 0 {
        return page::first(work, Query { sql: sql.to_owned(), parameters }, rows);
    }
    if work.seen.is_narrowed() && statement.is_read_only() {
        return Err(Refusal::new(
            "the statement gives no rows, and every call is a query of its own",
        )
        .hint("Call with SELECT, WITH or VALUES"));
    }
    let (before, _) = work.seen.counts();
    let mut answer = Map::new();
    if statement.column_count() > 0 {
        answer = page::written(work, &mut statement, sql, rows)?;
    } else {
        let ran = work.seen.execute(&mut statement);
        ran.map_err(|error| page::explained(work, &error, sql))?;
    }
    if !statement.is_read_only() {
        let (changes, rowid) = work.seen.counts();
        answer.insert("changes".to_owned(), json!(changes - before));
        answer.insert("last_insert_rowid".to_owned(), json!(rowid));
    }
    Ok(answer)
}

/// Runs several statements in one transaction: the answer is the last one's, the changes are those
/// of all.
fn all(
    work: &mut Work<'_>,
    statements: &[&str],
    rows: Option<usize>,
) -> Result<Map<String, Json>, Refusal> {
    if let Some(definition) = statements.iter().find(|sql| Database::is_definition(sql)) {
        let words: String = definition.chars().take(40).collect();
        return Err(Refusal::new(format!("{words} … is a transaction of its own"))
            .hint("Call with this statement alone"));
    }
    let (before, _) = work.seen.counts();
    work.seen.transact(Step::Begin)?;
    let mut last = Map::new();
    for (place, sql) in statements.iter().enumerate() {
        let ran = work.stop.check().and_then(|()| run(work, sql, Parameters::None, rows));
        match ran {
            Ok(answer) => last = answer,
            Err(refusal) => {
                work.seen.transact(Step::Rollback)?;
                return Err(Refusal::new(format!(
                    "statement {} of {}, and nothing was changed: {}",
                    place + 1,
                    statements.len(),
                    refusal.0
                )));
            }
        }
    }
    work.seen.transact(Step::Commit)?;
    let changes = work.seen.counts().0 - before;
    // A page of the last statement is of the transaction, and cannot go on behind it.
    if last.remove("next_cursor").is_some() {
        page::note(
            &mut last,
            &["There are more rows: ask for them by a call of their own.".into()],
        );
    }
    last.insert("changes".to_owned(), json!(changes));
    Ok(last)
}
