//! A database behind a pipe, for measurements from other languages (`lab/graph/bench.py`).
//!
//! `ask FILE` reads a JSON object from each line of stdin and answers with one on stdout:
//!
//! - `{"define": "CREATE PROPERTY GRAPH ..."}`;
//! - `{"sql": "...", "each": [[1], [2]], "fresh": true, "rows": true}` runs a statement once for
//!   each list of parameters, or once. `fresh` prepares the statement within the time measured, and
//!   else the one of the last time is used again. `rows` gives the rows, and else their number;
//! - `{"sql": "INSERT ...", "load": "FILE"}` runs a statement once for each line of a file, fields
//!   between bars its parameters: numbers are integers, and the empty field a text.
//!
//! An answer is `{"ms": 1.5, "count": 10, "rows": [...]}` or `{"error": "..."}`. The time is
//! of the statement with every value of its rows looked at, in this process. Blobs are
//! `{"hex": "..."}` both ways.

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Instant;

use serde_json::{Value as Json, json};
use shoal::{Access, Database, Environment};
use shoal_sql::{Connection, Statement, Value, ValueRef};

type Answer = Result<Json, Box<dyn Error>>;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("ask FILE")?;
    let mut database = Database::open(Environment::os(), Path::new(&path), Access::Create)?;
    let mut prepared = HashMap::new();
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let answer = answer(&mut database, &mut prepared, &line?);
        let answer = answer.unwrap_or_else(|error| json!({ "error": error.to_string() }));
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

fn answer(
    database: &mut Database,
    prepared: &mut HashMap<String, Statement>,
    line: &str,
) -> Answer {
    let asked: Json = serde_json::from_str(line)?;
    if let Some(sql) = asked["define"].as_str() {
        database.define(sql)?;
        return Ok(json!({}));
    }
    let sql = asked["sql"].as_str().ok_or("a line has sql or define")?;
    if let Some(path) = asked["load"].as_str() {
        return load(database.sql(), sql, path);
    }
    let once = vec![json!([])];
    let each = asked["each"].as_array().unwrap_or(&once);
    let mut parameters = Vec::new();
    for list in each {
        let list = list.as_array().ok_or("parameters are lists")?;
        parameters.push(list.iter().map(value).collect::<Result<Vec<Value>, _>>()?);
    }
    let is_fresh = asked["fresh"].as_bool().unwrap_or(false);
    let keeps_rows = asked["rows"].as_bool().unwrap_or(false);
    let connection = database.sql();
    let statement = match prepared.remove(sql) {
        _ if is_fresh => None,
        Some(statement) => Some(statement),
        None => Some(connection.prepare(sql)?),
    };
    let begun = Instant::now();
    let mut statement = match statement {
        Some(statement) => statement,
        None => connection.prepare(sql)?,
    };
    let (mut rows, mut count) = (Vec::new(), 0_u64);
    for list in parameters {
        for (at, value) in list.into_iter().enumerate() {
            statement.bind(at + 1, value)?;
        }
        run(connection, &mut statement, &mut count, keeps_rows.then_some(&mut rows))?;
    }
    let ms = begun.elapsed().as_secs_f64() * 1000.0;
    prepared.insert(sql.to_owned(), statement);
    Ok(match keeps_rows {
        true => json!({ "ms": ms, "count": count, "rows": rows }),
        false => json!({ "ms": ms, "count": count }),
    })
}

fn load(connection: &mut Connection, sql: &str, path: &str) -> Answer {
    let begun = Instant::now();
    let mut statement = connection.prepare(sql)?;
    let mut lines = std::io::BufReader::new(std::fs::File::open(path)?);
    let (mut line, mut count) = (String::new(), 0_u64);
    while lines.read_line(&mut line)? > 0 {
        for (at, field) in line.trim_end_matches('\n').split('|').enumerate() {
            let number = field.parse().map(Value::Int);
            statement.bind(at + 1, number.unwrap_or_else(|_| Value::text(field)))?;
        }
        connection.execute(&mut statement)?;
        line.clear();
        count += 1;
    }
    Ok(json!({ "ms": begun.elapsed().as_secs_f64() * 1000.0, "count": count }))
}

fn run(
    connection: &mut Connection,
    statement: &mut Statement,
    count: &mut u64,
    mut kept: Option<&mut Vec<Json>>,
) -> Result<(), Box<dyn Error>> {
    if statement.column_count() == 0 {
        connection.execute(statement)?;
        return Ok(());
    }
    let mut rows = connection.query(statement)?;
    while let Some(row) = rows.next()? {
        *count += 1;
        match &mut kept {
            Some(kept) => kept.push((0..row.len()).map(|at| shown(row.get(at))).collect()),
            None => (0..row.len()).for_each(|at| {
                std::hint::black_box(row.get(at));
            }),
        }
    }
    Ok(())
}

fn value(json: &Json) -> Result<Value, Box<dyn Error>> {
    Ok(match json {
        Json::Null => Value::Null,
        Json::Number(number) => match number.as_i64() {
            Some(number) => Value::Int(number),
            None => Value::Real(number.as_f64().ok_or("a number is no number")?),
        },
        Json::String(text) => Value::text(text.as_str()),
        Json::Object(object) => {
            let hex = object.get("hex").and_then(Json::as_str).ok_or("an object is a hex")?;
            let bytes = hex
                .as_bytes()
                .as_chunks::<2>()
                .0
                .iter()
                .map(|two| Ok(u8::from_str_radix(std::str::from_utf8(two)?, 16)?));
            Value::Blob(bytes.collect::<Result<_, Box<dyn Error>>>()?)
        }
        _ => return Err("a parameter is a number, a text, a hex or null".into()),
    })
}

fn shown(value: ValueRef<'_>) -> Json {
    match value {
        ValueRef::Null => Json::Null,
        ValueRef::Int(number) => json!(number),
        ValueRef::Real(number) => json!(number),
        ValueRef::Text(bytes) => json!(String::from_utf8_lossy(bytes)),
        ValueRef::Blob(bytes) => {
            json!({ "hex": bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>() })
        }
    }
}
