//! `shoal watch`: one line of JSON for each change of documents, tables and queries.

use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use shoal::{Access, ChangeHash, Database, Event, Topics};
use shoal_sql::Value;

use crate::args::WatchArgs;
use crate::failure::Failure;
use crate::{keys, open, out};

/// How long a watcher tries to begin while others write.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest wait between two looks at the clock.
const TURN: Duration = Duration::from_secs(3600);

pub(crate) fn run(args: &WatchArgs) -> Result<(), Failure> {
    if !open::exists(&args.file)? {
        return Err(Failure::at(args.file.display(), "no such file"));
    }
    let about = |error: shoal::Error| open::about(&args.file, &error);
    let mut topics = args.documents.iter().fold(Topics::default(), Topics::document);
    topics = args.tables.iter().fold(topics, Topics::table);
    topics = args.queries.iter().fold(topics, Topics::query);
    if args.documents.is_empty() && args.tables.is_empty() && args.queries.is_empty() {
        topics = topics.all_documents();
    }
    let start = Instant::now();
    let (mut database, mut watch) = loop {
        let opened = Database::open(keys::environment(), &args.file, Access::ReadOnly);
        let begun = opened.and_then(|mut database| {
            let watch = database.watch(topics.clone())?;
            Ok((database, watch))
        });
        match begun {
            Err(error) if error.is_busy() && start.elapsed() < PATIENCE => {}
            begun => break begun.map_err(about)?,
        }
    };
    let start = Instant::now();
    let mut printed = 0;
    loop {
        let left = match args.timeout {
            Some(seconds) => Duration::from_secs_f64(seconds).saturating_sub(start.elapsed()),
            None => TURN,
        };
        let events = database.wait(&mut watch, left).map_err(about)?;
        if events.is_empty() && args.timeout.is_some() {
            return Ok(());
        }
        let mut out = out::stdout();
        for event in events {
            writeln!(out, "{}", told(&event, &args.queries))?;
            printed += 1;
            if args.count.is_some_and(|count| printed >= count) {
                return Ok(out.flush()?);
            }
        }
        out.flush()?;
    }
}

fn told(event: &Event, queries: &[String]) -> Json {
    match event {
        Event::Document { name, before, heads } => {
            json!({"event": "document", "name": name, "before": hex(before), "heads": hex(heads)})
        }
        Event::Renamed { from, to } => json!({"event": "renamed", "name": to, "from": from}),
        Event::Removed { name } => json!({"event": "removed", "name": name}),
        Event::Table { name } => json!({"event": "table", "name": name}),
        Event::Query { index, columns, rows } => {
            let rows: Vec<Vec<Json>> =
                rows.iter().map(|row| row.iter().map(cell).collect()).collect();
            json!({"event": "query", "sql": queries[*index], "columns": columns, "rows": rows})
        }
        _ => json!({"event": "unknown"}),
    }
}

fn hex(heads: &[ChangeHash]) -> Vec<String> {
    heads.iter().map(ToString::to_string).collect()
}

/// A value of SQL as JSON: blobs in hexadecimal, texts with U+FFFD for what is not UTF-8.
fn cell(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Int(value) => json!(value),
        Value::Real(value) => json!(value),
        Value::Text(text) => json!(String::from_utf8_lossy(text)),
        Value::Blob(bytes) => json!(shoal_stdx::hex::encode(bytes)),
    }
}
