//! `.sqltest` files: tests with their set-ups, and the rows or the error each expects.

use std::collections::BTreeMap;
use std::path::Path;

use shoal_sql::{Error, Statements, Value};

use super::{Counts, Outcome, open, query, reads};

/// A block of a file: `word name { body }`, and the lines with `@` before the block.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) marks: Vec<String>,
    pub(crate) head: String,
    pub(crate) body: String,
}

pub(crate) fn run(path: &Path, name: &str, counts: &mut Counts) {
    each(path, |file_marks, test, expects, setups| {
        let words: Vec<&str> = test.head.split_whitespace().collect();
        match words.as_slice() {
            ["test", head, ..] => {
                counts.note(&format!("{name} {head}"), one(file_marks, test, expects, setups));
            }
            ["matrix", head, ..] => {
                for (number, body) in combinations(test).into_iter().enumerate() {
                    let outcome = beside_sqlite(test, &body, setups);
                    counts.note(&format!("{name} {head} {}", number + 1), outcome);
                }
            }
            [other, ..] => {
                let why = format!("{other} of another kind than rows");
                counts.note(name, Outcome::Skipped(why));
            }
            [] => {}
        }
    });
}

/// Calls `then` with the marks of the file, each block but the set-ups, the block's expectations,
/// and the set-ups before.
pub(crate) fn each(
    path: &Path,
    mut then: impl FnMut(&[String], &Block, &[&Block], &BTreeMap<String, String>),
) {
    let text = std::fs::read_to_string(path).unwrap();
    let (file_marks, blocks) = blocks(&text);
    let mut setups = BTreeMap::new();
    let mut place = 0;
    while let Some(block) = blocks.get(place) {
        place += 1;
        let words: Vec<&str> = block.head.split_whitespace().collect();
        if let ["setup", name] = words.as_slice() {
            setups.insert((*name).to_owned(), block.body.clone());
            continue;
        }
        let mut expects = Vec::new();
        if words.first() == Some(&"test") {
            while blocks.get(place).is_some_and(|next| next.head.starts_with("expect")) {
                expects.push(&blocks[place]);
                place += 1;
            }
        }
        then(&file_marks, block, &expects, &setups);
    }
}

/// Splits a file into its own marks and its blocks.
fn blocks(text: &str) -> (Vec<String>, Vec<Block>) {
    let mut file_marks = Vec::new();
    let mut marks = Vec::new();
    let mut out: Vec<Block> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        if let Some(mark) = trimmed.strip_prefix('@') {
            let of_file = ["database", "skip-file", "requires-file"];
            match of_file.iter().any(|word| mark.starts_with(word)) {
                true => file_marks.push(mark.to_owned()),
                false => marks.push(mark.to_owned()),
            }
            continue;
        }
        let Some((head, inside)) = trimmed.split_once('{') else { continue };
        let mut body = String::new();
        if let Some((only, _)) = inside.rsplit_once('}') {
            body.push_str(only);
        } else {
            body.push_str(inside);
            for line in lines.by_ref() {
                if line.starts_with('}') {
                    break;
                }
                body.push_str(line);
                body.push('\n');
            }
        }
        let head = head.trim().to_owned();
        out.push(Block { marks: std::mem::take(&mut marks), head, body });
    }
    (file_marks, out)
}

/// The body of a family of tests with every combination of its variables' values.
fn combinations(block: &Block) -> Vec<String> {
    let mut bodies = vec![block.body.clone()];
    for mark in &block.marks {
        let Some((name, values)) = mark.strip_prefix("var ").and_then(|text| text.split_once('{'))
        else {
            continue;
        };
        let name = format!("${}", name.trim());
        let values: Vec<&str> = values.trim_end().trim_end_matches('}').split('|').collect();
        let with = |body: String| {
            let name = &name;
            values.iter().map(move |value| body.replace(name, value.trim())).collect::<Vec<_>>()
        };
        bodies = bodies.into_iter().flat_map(with).collect();
    }
    bodies
}

/// A query without rows in its file: SQLite is asked for them.
fn beside_sqlite(test: &Block, body: &str, setups: &BTreeMap<String, String>) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test.db");
    let peer = rusqlite::Connection::open(&file).unwrap();
    peer.execute_batch("pragma synchronous = off").unwrap();
    for mark in &test.marks {
        if let Some(name) = mark.strip_prefix("setup ") {
            peer.execute_batch(&setups[name.trim()]).unwrap();
        }
    }
    let mut connection = open(&file).unwrap();
    match (query(&mut connection, body), peer_rows(&peer, body)) {
        (Ok(ours), Ok(theirs)) if same_rows(&ours, &theirs, body) => Outcome::Passed,
        (Ok(ours), Ok(theirs)) => Outcome::Failed(format!("{ours:?}, not {theirs:?}: {body}")),
        (Err(Error::Unsupported { what, .. }), _) => Outcome::Refused(what),
        (Err(_), Err(_)) => Outcome::Passed,
        (Err(error), Ok(_)) => Outcome::Failed(format!("{error}: {body}")),
        (Ok(_), Err(error)) => Outcome::Failed(format!("no error, but {error}: {body}")),
    }
}

fn one(
    file_marks: &[String],
    test: &Block,
    expects: &[&Block],
    setups: &BTreeMap<String, String>,
) -> Outcome {
    let skip = |why: &str| Outcome::Skipped(why.to_owned());
    let setup = match setup_of(file_marks, test, setups) {
        Ok(setup) => setup,
        Err(why) => return skip(why),
    };
    let body = test.body.to_ascii_lowercase();
    let temporary = ["temp table", "temporary table", "temp view", "temp.", "'temp'"];
    let setup_text = setup.concat().to_ascii_lowercase();
    if temporary.iter().any(|word| body.contains(word) || setup_text.contains(word)) {
        return skip("temporary tables");
    }
    let remembered = ["last_insert_rowid", "changes()", "temp_store="];
    if remembered.iter().any(|word| body.contains(word)) {
        return skip("what the writing connection remembers");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test.db");
    let expect = match begin(file_marks, &file).and_then(|()| expected(expects)) {
        Ok(expect) => expect,
        Err(why) => return skip(why),
    };
    let expects_error = expect.head.contains("error");

    let peer = rusqlite::Connection::open(&file).unwrap();
    peer.execute_batch("pragma synchronous = off; pragma foreign_keys = off").unwrap();
    for setup in setup {
        if let Err(error) = peer.execute_batch(setup) {
            return skip(&format!("SQLite does not take the set-up: {}", kind(&error.to_string())));
        }
    }
    let statements: Vec<&str> =
        Statements::new(&test.body).map(|range| &test.body[range]).collect();
    let mut asked = 0;
    let mut lines = Vec::new();
    // True while SQLite gives the same answers to the statements.
    let mut same = true;
    for (number, sql) in statements.iter().enumerate() {
        let Some(reading) = reads(sql) else { continue };
        if !reading {
            if expects_error && number + 1 == statements.len() {
                return skip("an error of writing");
            }
            if attaches(sql) {
                return skip("several databases");
            }
            match peer_rows(&peer, sql) {
                // Rows of `RETURNING` are SQLite's; rows read afterwards are compared.
                Ok(rows) => lines.extend(rows.iter().map(|row| row_text(row))),
                Err(_) if expects_error => return skip("an error of writing"),
                Err(error) => {
                    return skip(&format!("SQLite does not write: {}", kind(&error.to_string())));
                }
            }
            continue;
        }
        if !peer.is_autocommit() {
            return skip("a query within a transaction that writes");
        }
        asked += 1;
        let mut connection = match open(&file) {
            Ok(connection) => connection,
            Err(error) => return Outcome::Failed(format!("opening: {error}")),
        };
        let theirs = peer_rows(&peer, sql);
        match query(&mut connection, sql) {
            Ok(rows) => {
                same &= theirs.is_ok_and(|theirs| same_rows(&rows, &theirs, sql));
                lines.extend(rows.iter().map(|row| row_text(row)));
            }
            Err(Error::Unsupported { what, .. }) => return Outcome::Refused(what),
            Err(error) if expects_error => return check_error(&error, expect, theirs.err()),
            Err(_) if theirs.is_err() => return Outcome::AsSqlite,
            Err(error) => {
                return Outcome::Failed(format!("{error}: {}", sql.trim()));
            }
        }
    }
    if asked == 0 {
        return skip("writes only, RETURNING among it");
    }
    match check_rows(lines, expect, &test.body) {
        Outcome::Failed(_) if same => Outcome::AsSqlite,
        Outcome::Passed if expects_error => {
            Outcome::Failed(format!("no error: {}", test.body.trim()))
        }
        outcome => outcome,
    }
}

/// The set-ups of a test, or the reason for skipping the test.
pub(crate) fn setup_of<'s>(
    file_marks: &[String],
    test: &Block,
    setups: &'s BTreeMap<String, String>,
) -> Result<Vec<&'s str>, &'static str> {
    let mut setup = Vec::new();
    for mark in file_marks.iter().chain(&test.marks) {
        let words: Vec<&str> = mark.split_whitespace().collect();
        match words.as_slice() {
            ["setup", name] => setup.push(setups[*name].as_str()),
            ["skip-if" | "skip-file-if", "sqlite", ..] => return Err("not meant for SQLite"),
            ["skip", ..] => return Err("skipped by its file"),
            ["backend", ..] => return Err("for one program's own interface"),
            ["var", ..] => return Err("a family of tests with variables"),
            _ => {}
        }
    }
    Ok(setup)
}

/// Makes the database at the start of a file of tests.
pub(crate) fn begin(file_marks: &[String], file: &Path) -> Result<(), &'static str> {
    let database = |mark: &String| mark.strip_prefix("database ").map(str::to_owned);
    let databases: Vec<String> = file_marks.iter().filter_map(database).collect();
    match databases.first().map(String::as_str) {
        Some(":memory:" | ":temp:") | None => Ok(()),
        Some(":default:") => {
            std::fs::copy(shoal_testkit::testdata("sqlite/testing-wal.db"), file).unwrap();
            Ok(())
        }
        Some(_) => Err("a database that is not at hand"),
    }
}

/// The result a test expects of SQL.
pub(crate) fn expected<'b>(expects: &[&'b Block]) -> Result<&'b Block, &'static str> {
    match expects.iter().find(|expect| !expect.head.contains('@')) {
        None => Err("no result given for SQL"),
        Some(expect) if expect.head.contains("pattern") => {
            Err("a regular expression as the result")
        }
        Some(expect) => Ok(expect),
    }
}

pub(crate) fn peer_rows(
    peer: &rusqlite::Connection,
    sql: &str,
) -> rusqlite::Result<Vec<Vec<Value>>> {
    let mut statement = peer.prepare(sql)?;
    let width = statement.column_count();
    let mut rows = statement.query([])?;
    let mut out = Vec::new();
    while let Some(row) = rows.next()? {
        let value = |index| {
            Ok(match row.get_ref(index)? {
                rusqlite::types::ValueRef::Null => Value::Null,
                rusqlite::types::ValueRef::Integer(int) => Value::Int(int),
                rusqlite::types::ValueRef::Real(real) => Value::Real(real),
                rusqlite::types::ValueRef::Text(text) => Value::Text(text.to_vec()),
                rusqlite::types::ValueRef::Blob(blob) => Value::Blob(blob.to_vec()),
            })
        };
        out.push((0..width).map(value).collect::<rusqlite::Result<_>>()?);
    }
    Ok(out)
}

/// True where the rows are the same, in any order if the statement asks for none.
pub(crate) fn same_rows(ours: &[Vec<Value>], theirs: &[Vec<Value>], sql: &str) -> bool {
    let ordered = sql.to_ascii_lowercase().contains("order by");
    let text = |rows: &[Vec<Value>]| {
        let mut rows: Vec<_> = rows.iter().map(|row| row_text(row)).collect();
        if !ordered {
            rows.sort();
        }
        rows
    };
    text(ours) == text(theirs)
}

pub(crate) fn attaches(sql: &str) -> bool {
    let first = super::sql_words(sql).next().unwrap_or_default();
    matches!(first.as_str(), "attach" | "detach")
}

/// A message without its names.
pub(crate) fn kind(message: &str) -> String {
    message.split([':', '"', '\'']).next().unwrap_or_default().trim().to_owned()
}

pub(crate) fn check_error(
    error: &Error,
    expect: &Block,
    theirs: Option<rusqlite::Error>,
) -> Outcome {
    let wanted = expect.body.trim().to_ascii_lowercase();
    let got = error.to_string().to_ascii_lowercase();
    // Some expectations list alternatives in parentheses.
    let either = wanted.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let any = either.is_some_and(|either| either.split('|').any(|wanted| got.contains(wanted)));
    if any || got.contains(&wanted) || wanted.contains(&got) {
        return Outcome::Passed;
    }
    if theirs.is_some_and(|theirs| theirs.to_string().to_ascii_lowercase().contains(&got)) {
        return Outcome::AsSqlite;
    }
    Outcome::Failed(format!("the error is worded otherwise: {error}, not {}", expect.body.trim()))
}

pub(crate) fn check_rows(lines: Vec<(String, String)>, expect: &Block, body: &str) -> Outcome {
    let clean = |line: &str| line.trim().to_owned();
    let mut wanted: Vec<String> = expect.body.lines().map(clean).collect();
    let (mut long, mut short): (Vec<String>, Vec<String>) = lines
        .iter()
        .map(|(long, short)| (long.as_str(), short.as_str()))
        .flat_map(|(long, short)| long.lines().zip(short.lines()))
        .map(|(long, short)| (clean(long), clean(short)))
        .unzip();
    let empty = |line: &String| !line.is_empty();
    for list in [&mut wanted, &mut long, &mut short] {
        list.retain(empty);
        if expect.head.contains("unordered") {
            list.sort();
        }
    }
    if wanted == long || wanted == short || nearly(&wanted, &long) {
        Outcome::Passed
    } else {
        Outcome::Failed(format!("{long:?}, not {wanted:?}: {}", body.trim()))
    }
}

/// True where lines are equal but for the last digits of reals, as not all digits are written.
fn nearly(wanted: &[String], got: &[String]) -> bool {
    let near = |(a, b): (&str, &str)| {
        a == b
            || match (a.parse::<f64>(), b.parse::<f64>()) {
                (Ok(a), Ok(b)) => (a - b).abs() <= 1e-11 * a.abs().max(b.abs()),
                _ => false,
            }
    };
    let line = |(a, b): (&String, &String)| {
        a.matches('|').count() == b.matches('|').count() && a.split('|').zip(b.split('|')).all(near)
    };
    wanted.len() == got.len() && wanted.iter().zip(got).all(line)
}

/// A row with bars between its values: reals with all their digits, and as older programs print.
pub(crate) fn row_text(row: &[Value]) -> (String, String) {
    let text = |real: fn(f64) -> String| {
        let values: Vec<String> = row
            .iter()
            .map(|value| match value {
                Value::Null => String::new(),
                Value::Int(int) => int.to_string(),
                Value::Real(number) => real(*number),
                Value::Text(bytes) | Value::Blob(bytes) => {
                    String::from_utf8_lossy(bytes).into_owned()
                }
            })
            .collect();
        values.join("|")
    };
    (text(shoal_sql::real_to_text), text(shoal_sql::real_to_text_15))
}
