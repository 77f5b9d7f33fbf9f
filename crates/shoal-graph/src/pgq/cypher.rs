//! `CYPHER ('query' [, parameters [, 'graph']])` in a `FROM`: the rows of a query of openCypher.
//!
//! The query is a literal, so that the names of its columns are known when the statement is
//! prepared; parameters are a JSON object, any expression of SQL. The clause stands for a call of
//! the table-valued function `cypher_rows`, each of whose rows is a JSON array.

use std::cell::RefCell;
use std::sync::Arc;

use shoal_sql::{
    Clause, ClausePlace, Connection, Error, ModuleContext, TableFunction, Value as Sql,
};

use super::elements::{DEFAULT_GRAPH, literal, quoted};
use super::known::Known;
use super::named::refused;
use super::words::{Kind, Words, at_place};
use crate::algorithms::{Algorithms, KeptSnapshots};
use crate::graph::Graph;
use crate::json;
use crate::query::{self, Environment};
use crate::value::{Map, Value};

/// Bytes that the rows of one call take at most, and the memory of its query.
const MEMORY_MAX: usize = 1 << 28;

/// The clause.
#[derive(Debug)]
pub(super) struct Cypher;

impl Clause for Cypher {
    fn word(&self) -> &str {
        "CYPHER"
    }

    fn is_for_narrowed(&self) -> bool {
        true
    }

    fn query(&self, place: ClausePlace<'_>, _: &mut Connection) -> Result<(String, usize), Error> {
        let text = place.inside;
        let mut words = Words::new(text, true)?;
        let query = words.peek();
        let Some(cypher) = query.literal() else {
            return Err(words.unexpected("a query of openCypher as a text in quotes"));
        };
        words.next();
        let parameters = match words.take_sign(",") {
            true => {
                let expression = words.expression(&[], true)?;
                let (first, last) = (expression[0], expression[expression.len() - 1]);
                text[first.start..last.end()].to_owned()
            }
            false => "NULL".to_owned(),
        };
        let graph = match words.take_sign(",") {
            true => {
                let word = words.next();
                let name = word.literal().or_else(|| word.name());
                name.ok_or_else(|| at_place("the name of a graph is expected", word.start))?
            }
            false => DEFAULT_GRAPH.to_owned(),
        };
        let close = words.peek();
        words.expect_sign(")")?;
        let columns = query::columns(&cypher, &Algorithms).map_err(|error| {
            // A place in the text between the quotes; doubled quotes before it are not counted.
            at_place(&error.to_string(), query.start + 1 + error.offset().unwrap_or(0))
        })?;
        if columns.is_empty() {
            return Err(at_place("a query without RETURN has no rows for SQL", query.start));
        }
        let shown: Vec<String> = columns
            .iter()
            .enumerate()
            .map(|(at, name)| format!("\"row\" ->> '$[{at}]' AS {}", quoted(name)))
            .collect();
        let sql = format!(
            "SELECT {} FROM cypher_rows({}, {parameters}, {})",
            shown.join(", "),
            literal(&cypher),
            literal(&graph)
        );
        Ok((sql, close.end()))
    }
}

impl super::words::Word<'_> {
    /// The text of a literal, quotes undone.
    fn literal(&self) -> Option<String> {
        let is_text = self.kind == Kind::Text && self.text.starts_with('\'');
        is_text.then(|| self.text[1..self.text.len() - 1].replace("''", "'"))
    }
}

/// The table-valued function `cypher_rows(query, parameters, graph)`.
pub(super) fn function(known: Arc<Known>) -> TableFunction {
    let arguments = ["query", "parameters", "graph"];
    TableFunction::new("cypher_rows", &["row"], &arguments, move |given, context| {
        let rows = rows(&known, given, context)?;
        Ok(rows.into_iter().map(|row| Ok::<_, Error>(vec![row.into()])))
    })
    .reads_databases()
    .for_narrowed()
}

fn rows(
    known: &Known,
    given: &[Option<Sql>],
    context: &ModuleContext<'_>,
) -> Result<Vec<String>, Error> {
    let text = |at: usize| match given.get(at) {
        Some(Some(Sql::Text(bytes))) => Ok(Some(String::from_utf8_lossy(bytes).into_owned())),
        Some(None | Some(Sql::Null)) | None => Ok(None),
        Some(Some(_)) => Err(refused("cypher_rows() takes texts")),
    };
    let Some(query) = text(0)? else {
        return Err(refused("cypher_rows() takes a query of openCypher first"));
    };
    let parameters = match text(1)? {
        Some(object) => json::read(&object).map_err(|error| {
            refused(format!("parameters of a query are a JSON object: {}", error.message()))
        })?,
        None => Map::new(),
    };
    let name = text(2)?.unwrap_or_else(|| DEFAULT_GRAPH.to_owned());
    let opened = known.open(&name, context)?;
    known.with_kept(&name, &opened, context, |kept| {
        run(opened.graph.graph(), &query, (&parameters, kept), context)
    })
}

fn run(
    graph: &dyn Graph,
    query: &str,
    (parameters, kept): (&Map, Option<KeptSnapshots<'_>>),
    context: &ModuleContext<'_>,
) -> Result<Vec<String>, Error> {
    let (mut now_ms, mut seed) = (0_i64, 0_i64);
    let sql = "SELECT CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER), random()";
    context.query(sql, &[], |row| {
        if let [Sql::Int(now), Sql::Int(random)] = row {
            (now_ms, seed) = (*now, *random);
        }
        Ok(())
    })?;
    let stopped = RefCell::new(None);
    let is_over = || match context.check() {
        Ok(()) => false,
        Err(error) => {
            stopped.borrow_mut().get_or_insert(error);
            true
        }
    };
    let environment = Environment {
        parameters,
        procedures: &Algorithms,
        now_nanos: i128::from(now_ms) * 1_000_000,
        seed: seed.cast_unsigned(),
        is_over: &is_over,
        memory_max: MEMORY_MAX,
    };
    let (mut rows, mut bytes) = (Vec::new(), 0_usize);
    let given = (&environment, kept);
    let result = query::run_with(graph, query, given, &mut |_| Ok(()), &mut |row| {
        let row = row_json(&row);
        bytes += row.len() + size_of::<String>();
        if bytes > MEMORY_MAX {
            let message =
                format!("the rows take over {} MiB: LIMIT makes them fewer", MEMORY_MAX >> 20);
            return Err(crate::Error::limit(message));
        }
        rows.push(row);
        Ok(true)
    });
    if let Some(error) = stopped.take() {
        return Err(error);
    }
    result.map(|()| rows).map_err(|error| refused(error.to_string()))
}

/// A row as a JSON array; dates, times and durations alone are texts.
fn row_json(row: &[Value]) -> String {
    let mut text = String::from("[");
    for (at, value) in row.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        match value {
            Value::Date(_)
            | Value::LocalTime(_)
            | Value::Time(_)
            | Value::LocalDateTime(_)
            | Value::DateTime(_)
            | Value::Duration(_) => {
                json::write_text(value.to_string().trim_matches('\''), &mut text);
            }
            value => json::write_value(value, &mut text),
        }
    }
    text.push(']');
    text
}
