//! The queries of the corpora once more, with choices of the planner made in its place: a query has
//! one answer under every choice.
//!
//! Each query with an answer is asked again with some of the choices, each alone, on the tables
//! already there. `SHOAL_SQL_CHOICES=all` asks with every choice.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use shoal_sql::{Connection, Error, Forced, ForcedChoice, Limits, Value};

use super::sqltest::row_text;
use super::{rows_of, sql_words};

/// Number of choices each query is asked again with, unless all are asked for.
const CHOICES: usize = 2;
/// Time for an answer under a choice: nested loops of three large tables take hours.
const PATIENCE: Duration = Duration::from_secs(5);

/// The outcomes of one test's queries so far.
#[derive(Debug, Default)]
struct Tally {
    queries: usize,
    /// Equal answers; of them, answers with their rows in another order; and of these, answers to a
    /// query with an order, where rows equal by the order may change places.
    same: usize,
    reordered: usize,
    tied: usize,
    /// Answers SQL leaves open, by the reason.
    open: BTreeMap<&'static str, usize>,
    different: Vec<String>,
}

thread_local! {
    // A test runs on one thread.
    static TALLY: RefCell<Tally> = RefCell::default();
}

/// Asks again a query whose first answer was `expect`.
pub(crate) fn ask(connection: &mut Connection, sql: &str, expect: &[Vec<Value>]) {
    let first = sql_words(sql).next().unwrap_or_default();
    let is_query = matches!(first.as_str(), "select" | "values" | "with");
    // WITH may stand before a writing statement, whose rows differ the second time.
    if !is_query || !connection.prepare(sql).is_ok_and(|statement| statement.is_read_only()) {
        return;
    }
    let whole = std::env::var("SHOAL_SQL_CHOICES").is_ok_and(|which| which == "all");
    let count = if whole { ForcedChoice::ALL.len() } else { CHOICES };
    TALLY.with_borrow_mut(|tally| {
        for number in 0..count {
            let number = (tally.queries * CHOICES + number) % ForcedChoice::ALL.len();
            let choice = ForcedChoice::ALL[number];
            connection.force(Forced::from_iter([choice]));
            connection.set_limits(Limits { time: Some(PATIENCE), ..Limits::default() });
            let got = rows_of(connection, sql);
            connection.set_limits(Limits::default());
            tally.note(choice, sql, got, expect);
        }
        tally.queries += 1;
    });
    connection.force(Forced::default());
}

/// Prints the outcomes of a test's queries; a different answer fails.
pub(crate) fn finish(corpus: &str) {
    let tally = TALLY.take();
    let Tally { queries, same, reordered, tied, open, different } = &tally;
    println!(
        "{corpus}: {queries} queries asked again, {same} answers the same, {reordered} of them"
    );
    println!("  with their rows in another order, {tied} where the query asks for one;");
    println!("  open {open:?}; {} different", different.len());
    assert!(different.is_empty(), "{}:\n{}", different.len(), different.join("\n"));
    assert!(*same > *queries, "few answers: {same}");
}

impl Tally {
    fn note(
        &mut self,
        choice: ForcedChoice,
        sql: &str,
        got: Result<Vec<Vec<Value>>, Error>,
        expect: &[Vec<Value>],
    ) {
        let got = match got {
            Ok(got) => got,
            Err(Error::Limit { .. }) => {
                *self.open.entry("no room for what it keeps, or no time").or_default() += 1;
                return;
            }
            Err(error) => {
                self.different.push(format!("{choice:?}: {error}: {}", sql.trim()));
                return;
            }
        };
        let text = |rows: &[Vec<Value>]| -> Vec<(String, String)> {
            rows.iter().map(|row| row_text(row)).collect()
        };
        let (mut got, mut expect) = (text(&got), text(expect));
        if got == expect {
            self.same += 1;
            return;
        }
        got.sort();
        expect.sort();
        if got == expect || nearly(&got, &expect) {
            self.same += 1;
            self.reordered += 1;
            self.tied += usize::from(sql.to_ascii_lowercase().contains("order by"));
        } else if let Some(why) = open_because(sql) {
            *self.open.entry(why).or_default() += 1;
        } else {
            let rows = |rows: &[(String, String)]| {
                rows.iter().take(10).map(|(row, _)| row.clone()).collect::<Vec<_>>().join(" / ")
            };
            self.different.push(format!(
                "{choice:?}: {} rows: {}, not {}: {}: {}",
                got.len(),
                rows(&got),
                expect.len(),
                rows(&expect),
                sql.trim()
            ));
        }
    }
}

/// True where rows are equal but for the last digits of sums, affected by the order of the rows.
fn nearly(got: &[(String, String)], expect: &[(String, String)]) -> bool {
    let near = |a: &str, b: &str| {
        a == b
            || match (a.parse::<f64>(), b.parse::<f64>()) {
                (Ok(a), Ok(b)) => (a - b).abs() <= 1e-11 * a.abs().max(b.abs()),
                _ => false,
            }
    };
    got.len() == expect.len()
        && got.iter().zip(expect).all(|((got, _), (expect, _))| {
            got.split('|').count() == expect.split('|').count()
                && got.split('|').zip(expect.split('|')).all(|(a, b)| near(a, b))
        })
}

/// Why SQL leaves the answer to a query open, by its words.
fn open_because(sql: &str) -> Option<&'static str> {
    let words: Vec<String> = sql_words(sql).collect();
    let has = |wanted: &[&str]| words.iter().any(|word| wanted.contains(&word.as_str()));
    if has(&["limit"]) {
        return Some("which of several rows a LIMIT takes");
    }
    let lists = ["group_concat", "string_agg", "json_group_array", "json_group_object"];
    if has(&lists) {
        return Some("in which order an aggregate lists values");
    }
    if has(&["over"]) {
        return Some("which of several equal rows a window comes to first");
    }
    if has(&["random", "randomblob", "now", "current_timestamp", "current_time"]) {
        return Some("chance and time");
    }
    None
}
