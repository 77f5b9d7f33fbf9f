//! Queries over real data that nobody tuned anything for: joins of three to eight tables,
//! correlated subqueries, windows and recursions over Chinook, and over the history of Cargo's
//! repository. The queries are in two files beside this one.

use super::query::{self, Query};
use super::row;
use crate::dataset::history;
use crate::engine::{Miss, TableEngine};
use crate::workload::Bench;

const CHINOOK: &str = include_str!("real/chinook.sql");
const HISTORY: &str = include_str!("real/history.sql");

/// The beginning of the ids of rows on the history: choosing such a row makes the tables.
pub(crate) const HISTORY_PREFIX: &str = "table/history/";

pub(super) fn add<E: TableEngine>(bench: &mut Bench<E>) {
    for (name, sql) in queries(CHINOOK) {
        let text = format!("{sql} Over Chinook, prepared once, all read");
        bench.add(row(&format!("chinook/{name}"), "query", &text), move |engine, cx| {
            let query = Query::new(sql, width(sql));
            query::prepare(engine, cx, cx.corpus("sqlite/chinook.sqlite")?, &query, 1)
        });
    }
    for (name, sql) in queries(HISTORY) {
        let text = format!(
            "{sql} Over the commits and files of Cargo's repository (45,000 parents, 44,600 pairs \
             of files changed together, 3,200 files), without statistics, prepared once, all read"
        );
        bench.add(row(&format!("history/{name}"), "query", &text), move |engine, cx| {
            let query = Query::new(sql, width(sql));
            let path = history::path(&cx.cache);
            if !path.exists() {
                return Err(Miss::NotRun("the tables of the history were not made".into()));
            }
            query::prepare(engine, cx, path, &query, 1)
        });
    }
}

/// The queries of a file: a comment with the name, then the query on a line.
fn queries(file: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let parts = file.split("-- ").filter_map(|part| part.split_once('\n'));
    parts.map(|(name, sql)| (name.trim(), sql.trim()))
}

/// Columns of a query's result: the expressions of its outermost `SELECT`, or of the first `SELECT`
/// in parentheses of a `SELECT *`.
fn width(sql: &str) -> usize {
    let select = match sql.strip_prefix("WITH ") {
        Some(_) => outermost_select(sql),
        None => sql,
    };
    let Some(list) = select.trim_start().strip_prefix("SELECT ") else { return 0 };
    if let Some(rest) = list.strip_prefix("* FROM (") {
        return width(rest);
    }
    let list = list.strip_prefix("DISTINCT ").unwrap_or(list);
    let (mut depth, mut width) = (0_i32, 1);
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            b',' if depth == 0 => width += 1,
            b' ' if depth == 0 && list[at..].starts_with(" FROM ") => break,
            _ => {}
        }
    }
    width
}

/// A query behind its common tables.
fn outermost_select(sql: &str) -> &str {
    let mut depth = 0_i32;
    for (at, byte) in sql.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            b'S' if depth == 0 && sql[at..].starts_with("SELECT ") => return &sql[at..],
            _ => {}
        }
    }
    sql
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_of_a_result_are_counted() {
        for (sql, expect) in [
            ("SELECT count(*), max(a, b) FROM t", 2),
            ("SELECT DISTINCT a FROM t, u", 1),
            ("SELECT * FROM (SELECT a n, rank() OVER (PARTITION BY a, b) r FROM t) WHERE r = 1", 2),
            ("WITH RECURSIVE r(a, b) AS (SELECT 1, 2) SELECT a, b, (SELECT 1 FROM t) FROM r", 3),
        ] {
            assert_eq!(width(sql), expect, "{sql}");
        }
        assert_eq!((queries(CHINOOK).count(), queries(HISTORY).count()), (22, 19));
        assert!(queries(CHINOOK).chain(queries(HISTORY)).all(|(_, sql)| sql.ends_with(';')));
    }
}
