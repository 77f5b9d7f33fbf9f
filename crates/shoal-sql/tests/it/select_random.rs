//! Random queries over small random tables: joins, groups, distinct, order, indexes of all kinds.
//! Each is asked twice, with the planner's choices and with other choices made in its place.

use crate::common::{Scratch, check, ours, theirs};
use crate::generated::{KEYS_ONLY, header, names_rowid, query, value};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use shoal_sql::{Forced, ForcedChoice};

/// Tables `t0`, `t1` and `t2` with columns `a` to `d`, differing in types, keys and indexes.
fn schema() -> impl Strategy<Value = String> {
    let table = |number: usize| {
        let index = prop::sample::select(vec![
            "",
            "",
            "(b)",
            "(c)",
            "(b, c)",
            "(c desc, a)",
            "(b collate nocase)",
            "(d, a)",
            "(b desc)",
            "(c) where c is not null",
            "(length(c))",
            "(b) where a > 0 and b is not null",
            "(b + 1, c)",
            "(c collate nocase desc)",
            "(a, b, c, d)",
        ]);
        let rows = prop::collection::vec(prop::collection::vec(value(), 4), 0..14);
        (header(), index.clone(), index, rows).prop_map(move |(header, first, second, rows)| {
            let (columns, constraint, options) = header;
            let listed = columns.join(", ");
            let mut sql = format!("create table t{number}({listed}{constraint}){options};\n");
            for (place, index) in [first, second].into_iter().enumerate() {
                if !index.is_empty() {
                    sql += &format!("create index t{number}i{place} on t{number}{index};\n");
                }
            }
            for mut row in rows {
                if names_rowid(&columns) {
                    row[0] = format!("cast({} as integer)", row[0]);
                }
                sql += &format!("insert or ignore into t{number} values ({});\n", row.join(","));
            }
            sql
        })
    };
    let analyze = prop::sample::select(vec!["", "", "", "analyze;"]);
    (table(0), table(1), table(2), analyze).prop_map(|(a, b, c, analyze)| a + &b + &c + analyze)
}

/// Compares rows in their order; of values made equal by a collation or by a number's two forms,
/// any may stand for the others.
fn check_keys(
    connection: &mut shoal_sql::Connection,
    peer: &rusqlite::Connection,
    sql: &str,
) -> Result<(), String> {
    use shoal_sql::Value;
    let plain = |rows: Vec<Vec<Value>>| -> Vec<Vec<Value>> {
        let value = |value| match value {
            Value::Int(int) => Value::Real(int as f64),
            Value::Text(text) => {
                let text = String::from_utf8_lossy(&text).to_lowercase();
                Value::text(text.trim_end())
            }
            other => other,
        };
        rows.into_iter().map(|row| row.into_iter().map(value).collect()).collect()
    };
    match (ours(connection, sql), theirs(peer, sql)) {
        (Ok(got), Ok(expect)) => {
            let (got, expect) = (plain(got.rows), plain(expect.rows));
            if got == expect {
                return Ok(());
            }
            Err(format!("{sql}\nours: {got:?}\ntheirs: {expect:?}"))
        }
        (Err(_), Err(_)) => Ok(()),
        (Ok(got), Err(error)) => Err(format!("{sql}\nours: {:?}\ntheirs: {error}", got.rows)),
        (Err(error), Ok(_)) => Err(format!("{sql}\nours: {error:?}")),
    }
}

#[test]
fn random_queries() {
    let cases = std::env::var("SHOAL_SQL_CASES").ok().and_then(|text| text.parse().ok());
    let mut runner = TestRunner::new(ProptestConfig {
        cases: cases.unwrap_or(250),
        failure_persistence: None,
        max_shrink_iters: 4000,
        ..ProptestConfig::default()
    });
    let forced = prop::sample::select(ForcedChoice::ALL.to_vec());
    let forced = prop::collection::vec(forced, 1..5).prop_map(Forced::from_iter);
    let case = (schema(), prop::collection::vec((query(), forced), 8));
    runner
        .run(&case, |(schema, queries)| {
            let scratch = Scratch::new(&format!(
                "pragma synchronous = off; pragma journal_mode = memory; begin; {schema} commit;"
            ));
            let mut connection = scratch.ours();
            let peer = scratch.theirs();
            for (query, forced) in queries {
                for forced in [Forced::default(), forced] {
                    connection.force(forced);
                    match query.ends_with(KEYS_ONLY) {
                        true => check_keys(&mut connection, &peer, &query),
                        false => check(&mut connection, &peer, &query, &[]),
                    }
                    .map_err(|failure| TestCaseError::fail(format!("{forced:?}: {failure}")))?;
                }
            }
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
}
