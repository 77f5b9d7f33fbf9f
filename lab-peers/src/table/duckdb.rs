//! DuckDB through a process of Python's: only where `python3` has the module `duckdb`.
//!
//! Every query pays a round trip over a pipe, and its rows come as JSON. So only queries with few
//! rows are run, and lookups are not: their time would be the pipe's.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use shoal_lab::engine::table::{Access, Cell, Fields, TableSpec};
use shoal_lab::engine::{About, Guarantee, Miss, TableEngine};

pub(crate) struct DuckDb;

/// The process with its pipes.
pub(crate) struct Db {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// A row as JSON.
pub(crate) struct Row(Vec<Value>);

impl Fields for Row {
    fn cell(&self, index: usize) -> Cell<'_> {
        match self.0.get(index) {
            Some(Value::String(text)) => Cell::Text(text.as_bytes()),
            Some(Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
                (Some(value), _) => Cell::Int(value),
                (None, Some(value)) => Cell::Real(value),
                (None, None) => Cell::Null,
            },
            _ => Cell::Null,
        }
    }
}

impl Db {
    fn hear(&mut self) -> Result<Value, Miss> {
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(Miss::failed)?;
        serde_json::from_str(&line)
            .map_err(|_| Miss::NotRun("python3 with the module duckdb: not there".into()))
    }

    fn run(&mut self, sql: &str, parameters: &[Cell<'_>]) -> Result<Vec<Row>, Miss> {
        let parameters: Vec<Value> = parameters
            .iter()
            .map(|cell| match cell {
                Cell::Null | Cell::Blob(_) => Value::Null,
                Cell::Int(value) => json!(value),
                Cell::Real(value) => json!(value),
                Cell::Text(bytes) => json!(String::from_utf8_lossy(bytes)),
            })
            .collect();
        let request = json!({ "sql": sql, "parameters": parameters });
        writeln!(self.requests, "{request}").map_err(Miss::failed)?;
        let mut answer = self.hear()?;
        if let Some(error) = answer["error"].as_str() {
            return Err(Miss::NotRun(error.into()));
        }
        let Value::Array(rows) = answer["rows"].take() else {
            return Err(Miss::Failed("an answer without rows".into()));
        };
        Ok(rows
            .into_iter()
            .map(|row| Row(if let Value::Array(values) = row { values } else { Vec::new() }))
            .collect())
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        // The child may have ended by itself: an error to kill the process is no failure.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl TableEngine for DuckDb {
    type Db = Db;
    type Statement = String;
    type Reader = ();
    type Row<'a> = Row;

    fn about(&self) -> About {
        About::peer(
            "duckdb",
            "of python3",
            "columnar, one thread, in a process of Python's: every query pays a pipe's round trip, \
             so only its longer times mean something",
        )
        .in_other_process()
        .promising(Guarantee::Snapshot)
    }

    fn open(&self, path: &Path, access: Access, scratch: &Path) -> Result<Db, Miss> {
        if access == Access::Write {
            return Err(Miss::NotRun("writes over a pipe mean nothing".into()));
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut child = Command::new("python3")
            .args(["-c", include_str!("duckdb.py")])
            .arg(path)
            .arg(scratch.join(format!("{name}.duckdb")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| Miss::NotRun(format!("python3: {error}")))?;
        let requests = child.stdin.take().ok_or(Miss::Failed("no pipe".into()))?;
        let answers = child.stdout.take().ok_or(Miss::Failed("no pipe".into()))?;
        let mut db = Db { child, requests, answers: BufReader::new(answers) };
        db.hear()?;
        Ok(db)
    }

    fn opens_in_place(&self) -> bool {
        false
    }

    fn prepare(&self, _db: &mut Db, sql: &str) -> Result<String, Miss> {
        if sql.contains("sqlite_schema") {
            return Err(Miss::NotRun("its schema is in words of its own".into()));
        }
        Ok(sql.to_owned())
    }

    fn query(
        &self,
        db: &mut Db,
        statement: &mut String,
        parameters: &[Cell<'_>],
        visit: impl FnMut(&Row),
    ) -> Result<(), Miss> {
        db.run(statement, parameters)?.iter().for_each(visit);
        Ok(())
    }

    fn reader(&self, _db: &mut Db, _table: &TableSpec, _columns: &[usize]) -> Result<(), Miss> {
        Err(Miss::NotRun("lookups over a pipe mean nothing".into()))
    }

    fn seek(
        &self,
        _db: &mut Db,
        _reader: &mut (),
        _rowid: i64,
        _visit: impl FnMut(&Row),
    ) -> Result<(), Miss> {
        Err(Miss::NotRun("lookups over a pipe mean nothing".into()))
    }

    fn scan(
        &self,
        _db: &mut Db,
        _table: &TableSpec,
        _columns: &[usize],
        _visit: impl FnMut(&Row),
    ) -> Result<(), Miss> {
        Err(Miss::NotRun("scans over a pipe mean nothing".into()))
    }
}
