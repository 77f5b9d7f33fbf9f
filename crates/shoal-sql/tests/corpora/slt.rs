//! sqllogictest files: records of statements, run by SQLite, and queries with their results.

use std::path::Path;

use shoal_sql::{Error, Value};

use super::sqltest::peer_rows;
use super::{Counts, Outcome, md5, open, query};

pub(crate) fn run(path: &Path, name: &str, counts: &mut Counts) {
    let text = std::fs::read_to_string(path).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test.db");
    let peer = rusqlite::Connection::open(&file).unwrap();
    peer.execute_batch("pragma synchronous = off; pragma journal_mode = memory").unwrap();
    let mut ours = None;
    let mut number = 1;
    for record in text.split("\n\n") {
        let line = number;
        number += record.matches('\n').count() + 2;
        let mut lines = record.lines().skip_while(|line| line.is_empty() || line.starts_with('#'));
        let mut lines_here = lines.by_ref().peekable();
        let mut skip = false;
        while let Some(head) = lines_here.peek() {
            let mut words = head.split_whitespace();
            match words.next() {
                Some("skipif") => skip |= words.next() == Some("sqlite"),
                Some("onlyif") => skip |= words.next() != Some("sqlite"),
                Some(word) if word.starts_with('#') => {}
                _ => break,
            }
            lines_here.next();
        }
        let Some(head) = lines_here.next() else { continue };
        let head: Vec<&str> = head.split_whitespace().collect();
        match head.first() {
            Some(&"halt") if !skip => break,
            Some(&"statement") if !skip => {
                let sql: Vec<&str> = lines_here.collect();
                let result = peer.execute_batch(&sql.join("\n"));
                let expect = head.get(1) == Some(&"ok");
                assert_eq!(result.is_ok(), expect, "{name}:{line}: sqlite: {result:?}");
                counts.note(name, Outcome::Skipped("statements, run by SQLite".to_owned()));
            }
            Some(&"query") if skip => {
                let why = "queries for other databases".to_owned();
                counts.note(name, Outcome::Skipped(why));
            }
            Some(&"query") => {
                let body: Vec<&str> = lines_here.collect();
                let end = body.iter().position(|line| *line == "----").unwrap_or(body.len());
                let sql = body[..end].join("\n");
                let expect = body.get(end + 1..).unwrap_or_default();
                let connection = ours.get_or_insert_with(|| open(&file).unwrap());
                let outcome = match query(connection, &sql) {
                    Err(Error::Unsupported { what, .. }) => Outcome::Refused(what),
                    Err(_) if peer_rows(&peer, &sql).is_err() => Outcome::AsSqlite,
                    Err(error) => Outcome::Failed(format!("{error}: {sql}")),
                    Ok(rows) => {
                        let sort = head.get(2).copied().unwrap_or("nosort");
                        match compare(&rows, head[1], sort, expect) {
                            None => Outcome::Passed,
                            // The expected results are from SQLite of another time.
                            Some(_)
                                if peer_rows(&peer, &sql).is_ok_and(|theirs| theirs == rows) =>
                            {
                                Outcome::AsSqlite
                            }
                            Some(why) => Outcome::Failed(format!("{why}: {sql}")),
                        }
                    }
                };
                counts.note(&format!("{name}:{line}"), outcome);
            }
            _ => {}
        }
    }
}

fn compare(rows: &[Vec<Value>], types: &str, sort: &str, expect: &[&str]) -> Option<String> {
    let mut rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().zip(types.chars()).map(|(value, kind)| text(value, kind)).collect())
        .collect();
    if sort == "rowsort" {
        rows.sort();
    }
    let mut values: Vec<String> = rows.into_iter().flatten().collect();
    if sort == "valuesort" {
        values.sort();
    }
    let expect: Vec<&str> = expect.iter().copied().filter(|line| !line.is_empty()).collect();
    if let [only] = expect.as_slice()
        && only.contains(" values hashing to ")
    {
        let joined: String = values.iter().map(|value| format!("{value}\n")).collect();
        let got = format!("{} values hashing to {}", values.len(), md5::hex(joined.as_bytes()));
        return (got != *only).then(|| format!("{got}, not {only}"));
    }
    (values != expect).then(|| format!("{values:?}, not {expect:?}"))
}

fn text(value: &Value, kind: char) -> String {
    match (kind, value) {
        (_, Value::Null) => "NULL".to_owned(),
        ('I', Value::Int(int)) => int.to_string(),
        ('I', Value::Real(real)) => (*real as i64).to_string(),
        ('I', Value::Text(text)) => {
            let text = String::from_utf8_lossy(text);
            let end = text
                .char_indices()
                .find(|(at, char)| !(char.is_ascii_digit() || *at == 0 && *char == '-'))
                .map_or(text.len(), |(at, _)| at);
            text[..end].parse::<i64>().unwrap_or(0).to_string()
        }
        ('R', Value::Int(int)) => format!("{:.3}", *int as f64),
        ('R', Value::Real(real)) => format!("{real:.3}"),
        (_, Value::Int(int)) => int.to_string(),
        (_, Value::Real(real)) => shoal_sql::real_to_text_15(*real),
        (_, Value::Text(bytes) | Value::Blob(bytes)) => {
            let printed = String::from_utf8_lossy(bytes);
            let printable = |char: char| if (' '..='~').contains(&char) { char } else { '@' };
            match printed.chars().map(printable).collect::<String>() {
                empty if empty.is_empty() => "(empty)".to_owned(),
                other => other,
            }
        }
    }
}
