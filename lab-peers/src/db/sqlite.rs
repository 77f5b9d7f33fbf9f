//! SQLite with tables kept by hand: the bytes of each keystroke in a plain table, rows updated by a
//! program's own statements, rows made from JSON by `json_each`.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, params};
use shoal_lab::engine::db::{QUERY, Run, Typist, items};
use shoal_lab::engine::{About, DbEngine, Miss};

pub(crate) struct ByHand;

fn failed<T>(result: Result<T, impl std::fmt::Display>) -> Result<T, Miss> {
    result.map_err(Miss::failed)
}

/// About the bytes of a change of one keystroke.
const CHANGE_BYTES: usize = 100;

/// A fresh file.
fn create(folder: &Path) -> Result<Connection, Miss> {
    let path: PathBuf = folder.join("sqlite.db");
    for name in ["sqlite.db", "sqlite.db-wal", "sqlite.db-shm", "sqlite.db-journal"] {
        let _ = std::fs::remove_file(folder.join(name));
    }
    failed(Connection::open(path))
}

/// A table of changes, in write-ahead log mode.
fn log(folder: &Path, full: bool) -> Result<Connection, Miss> {
    let sqlite = create(folder)?;
    let mode: String = failed(sqlite.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)))?;
    if mode != "wal" {
        return Err(Miss::Failed(format!("journal mode {mode}")));
    }
    let sync = if full { "FULL" } else { "NORMAL" };
    failed(sqlite.execute_batch(&format!(
        "PRAGMA synchronous = {sync}; CREATE TABLE log(id INTEGER PRIMARY KEY, bytes BLOB)"
    )))?;
    Ok(sqlite)
}

struct Typing {
    sqlite: Connection,
    /// How many tables have the rows of items, 0 for the changes alone.
    tables: usize,
    next: usize,
    titles: Vec<String>,
}

impl Typist for Typing {
    fn keystroke(&mut self) -> Result<(), Miss> {
        let insert = "INSERT INTO log(bytes) VALUES (?1)";
        if self.tables == 0 {
            let mut insert = failed(self.sqlite.prepare_cached(insert))?;
            failed(insert.execute([[7_u8; CHANGE_BYTES]]))?;
            return Ok(());
        }
        let item = self.next % self.titles.len();
        self.next += 1;
        self.titles[item].push('x');
        let transaction = failed(self.sqlite.transaction())?;
        failed(failed(transaction.prepare_cached(insert))?.execute([[7_u8; CHANGE_BYTES]]))?;
        for table in 1..=self.tables {
            let update = format!("UPDATE p{table} SET title = ?1 WHERE doc = 1 AND id = ?2");
            let mut update = failed(transaction.prepare_cached(&update))?;
            failed(update.execute(params![self.titles[item], id(item)]))?;
        }
        failed(transaction.commit())
    }

    fn stored(&mut self) -> Result<u64, Miss> {
        let count = self.sqlite.query_row("SELECT count(*) FROM log", [], |row| row.get(0));
        let count: i64 = failed(count)?;
        Ok(count.unsigned_abs())
    }
}

/// A key as long as that of a row of a projection: a counter and an actor.
fn id(item: usize) -> [u8; 24] {
    let mut id = [9; 24];
    id[..8].copy_from_slice(&(item as u64).to_be_bytes());
    id
}

/// The documents as JSON in a table, and an empty table for their rows.
fn of_items(folder: &Path, documents: usize) -> Result<Connection, Miss> {
    let mut sqlite = create(folder)?;
    failed(sqlite.execute_batch(
        "PRAGMA synchronous = OFF; CREATE TABLE doc(id INTEGER PRIMARY KEY, json TEXT); \
         CREATE TABLE p(doc INTEGER NOT NULL, id BLOB NOT NULL, title TEXT, done INTEGER, \
         n INTEGER, PRIMARY KEY(doc, id)) WITHOUT ROWID",
    ))?;
    let transaction = failed(sqlite.transaction())?;
    for number in 0..documents {
        let mut insert = failed(transaction.prepare_cached("INSERT INTO doc VALUES (?1, ?2)"))?;
        failed(insert.execute(params![number as i64, items(number)]))?;
    }
    failed(transaction.commit())?;
    Ok(sqlite)
}

/// Makes the rows anew.
fn rebuild(sqlite: &Connection) -> Result<u64, Miss> {
    failed(sqlite.execute_batch(
        "BEGIN; DELETE FROM p; INSERT INTO p SELECT doc.id, \
         CAST(printf('%08d', item.key) || 'sixteen bytes..' AS BLOB), item.value ->> 'title', \
         item.value ->> 'done', item.value ->> 'n' \
         FROM doc, json_each(doc.json, '$.items') item ORDER BY 1, 2; COMMIT",
    ))?;
    let count: i64 = failed(sqlite.query_row("SELECT count(*) FROM p", [], |row| row.get(0)))?;
    Ok(count.unsigned_abs())
}

impl DbEngine for ByHand {
    fn about(&self) -> About {
        About::peer("sqlite", rusqlite::version(), "tables kept by a program's own statements")
    }

    fn typist(&self, folder: &Path, _bytes: usize, full: bool) -> Result<Box<dyn Typist>, Miss> {
        let sqlite = log(folder, full)?;
        Ok(Box::new(Typing { sqlite, tables: 0, next: 0, titles: Vec::new() }))
    }

    fn projected_typist(&self, folder: &Path) -> Result<Box<dyn Typist>, Miss> {
        let mut sqlite = log(folder, true)?;
        let titles: Vec<String> = (0..1000).map(|number| format!("item {number}")).collect();
        let transaction = failed(sqlite.transaction())?;
        for table in 1..=3 {
            failed(transaction.execute_batch(&format!(
                "CREATE TABLE p{table}(doc INTEGER NOT NULL, id BLOB NOT NULL, title TEXT, \
                 n INTEGER, PRIMARY KEY(doc, id)) WITHOUT ROWID; \
                 CREATE INDEX p{table}_title ON p{table}(title)"
            )))?;
            for (item, title) in titles.iter().enumerate() {
                let sql = format!("INSERT INTO p{table} VALUES (1, ?1, ?2, ?3)");
                let mut insert = failed(transaction.prepare_cached(&sql))?;
                failed(insert.execute(params![id(item), title, item as i64]))?;
            }
        }
        failed(transaction.commit())?;
        Ok(Box::new(Typing { sqlite, tables: 3, next: 0, titles }))
    }

    fn rebuild(&self, folder: &Path, documents: usize) -> Result<Run<u64>, Miss> {
        let sqlite = of_items(folder, documents)?;
        Ok(Box::new(move || rebuild(&sqlite)))
    }

    fn query(&self, folder: &Path, documents: usize, _plain: bool) -> Result<Run<u64>, Miss> {
        let sqlite = of_items(folder, documents)?;
        rebuild(&sqlite)?;
        Ok(Box::new(move || {
            let mut statement = failed(sqlite.prepare_cached(QUERY))?;
            let sum: i64 = failed(statement.query_row([], |row| row.get(0)))?;
            Ok(sum.unsigned_abs())
        }))
    }
}
