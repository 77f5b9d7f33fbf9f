//! `shoal`: documents in a database file.

use std::path::Path;
use std::sync::Arc;

use shoal::{Access, Database, Environment, OpenDocument};
use shoal_crdt::{CommitOptions, Document, ObjId, ObjType, ROOT};
use shoal_sql::{Connection, ValueRef};
use shoal_store::Store;
use shoal_store::vfs::OsVfs;

use crate::engine::db::{QUERY, Run, Typist, items, keystrokes};
use crate::engine::{About, DbEngine, Miss};

/// Shoal's database.
pub(super) struct Documents;

const NAME: &str = "d";

fn failed<T>(result: Result<T, impl std::fmt::Display>) -> Result<T, Miss> {
    result.map_err(Miss::failed)
}

/// A fresh file.
fn create(folder: &Path) -> Result<(std::path::PathBuf, Database), Miss> {
    let path = folder.join("shoal.db");
    for name in ["shoal.db", "shoal.db-wal", "shoal.db-shm", "shoal.db-journal"] {
        let _ = std::fs::remove_file(folder.join(name));
    }
    let database = failed(Database::open(Environment::os(), &path, Access::Create))?;
    Ok((path, database))
}

fn run(database: &mut Database, sql: &str) -> Result<(), Miss> {
    let connection = database.sql();
    let mut statement = failed(connection.prepare(sql))?;
    failed(connection.execute(&mut statement))?;
    Ok(())
}

/// The first value of a query.
fn ask<T>(
    database: &mut Database,
    sql: &str,
    take: impl FnOnce(ValueRef<'_>) -> Option<T>,
) -> Result<T, Miss> {
    let connection = database.sql();
    let mut statement = failed(connection.prepare(sql))?;
    let mut rows = failed(connection.query(&mut statement))?;
    let row = failed(rows.next())?.ok_or_else(|| Miss::Failed("no row".into()))?;
    take(row.get(0)).ok_or_else(|| Miss::Failed("another type".into()))
}

fn int(value: ValueRef<'_>) -> Option<u64> {
    match value {
        ValueRef::Int(value) => u64::try_from(value).ok(),
        _ => None,
    }
}

fn commit(document: &mut Document, work: impl FnOnce(&mut shoal_crdt::Transaction<'_>)) {
    let mut transaction = document.transaction();
    work(&mut transaction);
    transaction.commit(CommitOptions::default());
}

/// An empty text in a document.
fn text(document: &mut Document) -> Result<ObjId, Miss> {
    let mut transaction = document.transaction();
    let text = failed(transaction.put_object(&ROOT, "text", ObjType::Text))?;
    transaction.commit(CommitOptions::default());
    Ok(text)
}

/// A document typed character by character, a change each.
fn typed(document: &mut Document, count: usize) -> Result<(), Miss> {
    let text = text(document)?;
    for (place, letter) in keystrokes(count) {
        let mut transaction = document.transaction();
        failed(transaction.splice_text(&text, place, 0, letter.encode_utf8(&mut [0; 4])))?;
        transaction.commit(CommitOptions::default());
    }
    Ok(())
}

/// Stores a document, compacted.
fn store(database: &mut Database, document: &mut Document) -> Result<(), Miss> {
    run(database, "PRAGMA synchronous = OFF")?;
    failed(database.store(NAME, document))?;
    failed(database.compact(NAME))?;
    Ok(())
}

/// Documents of 100 items each, and their projection.
fn of_items(folder: &Path, documents: usize) -> Result<Database, Miss> {
    let (_, mut database) = create(folder)?;
    run(&mut database, "PRAGMA synchronous = OFF")?;
    run(&mut database, "BEGIN")?;
    for number in 0..documents {
        let json: serde_json::Value = failed(serde_json::from_str(&items(number)))?;
        let mut document = new_document();
        let mut transaction = document.transaction();
        failed(transaction.import_json(&json))?;
        transaction.commit(CommitOptions::default());
        failed(database.store(&format!("d/{number}"), &mut document))?;
    }
    run(&mut database, "COMMIT")?;
    let define = "CREATE PROJECTION p FROM DOCUMENTS ROWS '$.items[*]' \
                  COLUMNS (title TEXT, done BOOLEAN, n INTEGER)";
    failed(database.define(define))?;
    Ok(database)
}

fn new_document() -> Document {
    Document::new(Environment::os().new_actor())
}

struct Typing {
    database: Database,
    open: OpenDocument,
    /// Typed into in turn.
    texts: Vec<ObjId>,
    next: usize,
}

impl Typist for Typing {
    fn keystroke(&mut self) -> Result<(), Miss> {
        let text = &self.texts[self.next % self.texts.len()];
        self.next += 1;
        let end = failed(self.open.length(text))?;
        let mut transaction = self.open.transaction();
        failed(transaction.splice_text(text, end, 0, "x"))?;
        transaction.commit(CommitOptions::default());
        failed(self.database.commit(&mut self.open))?;
        Ok(())
    }

    fn stored(&mut self) -> Result<u64, Miss> {
        let documents = failed(self.database.documents())?;
        Ok(documents.first().map_or(0, |document| document.changes))
    }
}

impl DbEngine for Documents {
    fn about(&self) -> About {
        About::ours("shoal", "Database: documents in a SQLite file")
    }

    fn typist(&self, folder: &Path, bytes: usize, full: bool) -> Result<Box<dyn Typist>, Miss> {
        let (_, mut database) = create(folder)?;
        run(&mut database, "PRAGMA journal_mode = WAL")?;
        let mode = if full { "FULL" } else { "NORMAL" };
        run(&mut database, &format!("PRAGMA synchronous = {mode}"))?;
        let mut open = failed(database.open_or_create(NAME))?;
        let text = text(&mut open)?;
        commit(&mut open, |transaction| {
            let line = "a line of text with sixty-three characters and a line feed....\n";
            let whole = line.repeat(bytes.div_ceil(line.len()));
            let _ = transaction.splice_text(&text, 0, 0, &whole);
        });
        failed(database.commit(&mut open))?;
        Ok(Box::new(Typing { database, open, texts: vec![text], next: 0 }))
    }

    fn projected_typist(&self, folder: &Path) -> Result<Box<dyn Typist>, Miss> {
        let (_, mut database) = create(folder)?;
        run(&mut database, "PRAGMA journal_mode = WAL")?;
        run(&mut database, "PRAGMA synchronous = FULL")?;
        for name in ["p1", "p2", "p3"] {
            let define = format!(
                "CREATE PROJECTION {name} FROM DOCUMENTS ROWS '$.items[*]' \
                 COLUMNS (title TEXT, n INTEGER)"
            );
            failed(database.define(&define))?;
            run(&mut database, &format!("CREATE INDEX {name}_title ON {name}(title)"))?;
        }
        let mut open = failed(database.open_or_create(NAME))?;
        let mut texts = Vec::new();
        let mut transaction = open.transaction();
        let list = failed(transaction.put_object(&ROOT, "items", ObjType::List))?;
        for number in 0..1000_usize {
            let item = failed(transaction.insert_object(&list, number, ObjType::Map))?;
            let title = failed(transaction.put_object(&item, "title", ObjType::Text))?;
            failed(transaction.splice_text(&title, 0, 0, &format!("item {number}")))?;
            failed(transaction.put(&item, "n", number as i64))?;
            texts.push(title);
        }
        transaction.commit(CommitOptions::default());
        failed(database.commit(&mut open))?;
        Ok(Box::new(Typing { database, open, texts, next: 0 }))
    }

    fn open_and_read(&self, folder: &Path, count: usize) -> Result<Run<String>, Miss> {
        let (path, mut database) = create(folder)?;
        let mut document = new_document();
        typed(&mut document, count)?;
        store(&mut database, &mut document)?;
        drop(database);
        Ok(Box::new(move || {
            let mut database = failed(Database::open(Environment::os(), &path, Access::ReadOnly))?;
            let document = failed(database.open_document(NAME))?;
            let text = failed(document.get(&ROOT, "text"))?;
            let (_, text) = text.ok_or_else(|| Miss::Failed("no text".into()))?;
            failed(document.text(&text))
        }))
    }

    fn edit_and_close(&self, folder: &Path, changes: usize) -> Result<Run<bool>, Miss> {
        let (path, mut database) = create(folder)?;
        let mut document = new_document();
        let text = text(&mut document)?;
        for (place, letter) in keystrokes(changes) {
            let line = letter.to_string().repeat(100);
            commit(&mut document, |transaction| {
                let _ = transaction.splice_text(&text, place * 100, 0, &line);
            });
        }
        store(&mut database, &mut document)?;
        drop(database);
        let mut count = 0_i64;
        Ok(Box::new(move || {
            count += 1;
            let store = failed(Store::open(Arc::new(OsVfs::new()), &path, Access::ReadWrite))?;
            let mut connection = failed(Connection::open(store))?;
            let mut off = failed(connection.prepare("PRAGMA synchronous = OFF"))?;
            failed(connection.execute(&mut off))?;
            let mut database = Database::over_connection(Environment::os(), connection);
            let mut document = failed(database.open_document(NAME))?;
            let found = failed(document.get(&ROOT, "n"))?;
            let before = found.map(|(value, _)| {
                value == shoal_crdt::Value::Scalar(shoal_crdt::ScalarRef::Int(count - 1))
            });
            commit(&mut document, |transaction| {
                let _ = transaction.put(&ROOT, "n", count);
            });
            failed(database.close(document))?;
            // The edit before this one was found, but for the first, which had none.
            Ok(before.unwrap_or(count == 1))
        }))
    }

    fn as_of(&self, folder: &Path, count: usize, back: usize) -> Result<Run<String>, Miss> {
        let (_, mut database) = create(folder)?;
        let mut document = new_document();
        typed(&mut document, count)?;
        let change = document.changes().rev().nth(back);
        let heads = change.map(|change| change.hash().to_string()).unwrap_or_default();
        store(&mut database, &mut document)?;
        let sql = format!("SELECT json FROM documents AS OF '{heads}'");
        Ok(Box::new(move || {
            ask(&mut database, &sql, |value| match value {
                ValueRef::Text(json) => Some(String::from_utf8_lossy(json).into_owned()),
                _ => None,
            })
        }))
    }

    fn size(&self, folder: &Path, count: usize) -> Result<Run<u64>, Miss> {
        let mut document = new_document();
        typed(&mut document, count)?;
        let folder = folder.to_owned();
        Ok(Box::new(move || {
            let (path, mut database) = create(&folder)?;
            store(&mut database, &mut document)?;
            run(&mut database, "VACUUM")?;
            drop(database);
            Ok(failed(std::fs::metadata(path))?.len())
        }))
    }

    fn query(&self, folder: &Path, documents: usize, plain: bool) -> Result<Run<u64>, Miss> {
        let mut database = of_items(folder, documents)?;
        if plain {
            for sql in [
                "CREATE TABLE plain(_doc INTEGER NOT NULL, _id BLOB NOT NULL, title TEXT, \
                 done INTEGER, n INTEGER, PRIMARY KEY(_doc, _id)) WITHOUT ROWID",
                "INSERT INTO plain SELECT * FROM p",
            ] {
                run(&mut database, sql)?;
            }
        }
        let sql = if plain { QUERY.replace("FROM p", "FROM plain") } else { QUERY.to_owned() };
        Ok(Box::new(move || ask(&mut database, &sql, int)))
    }

    fn rebuild(&self, folder: &Path, documents: usize) -> Result<Run<u64>, Miss> {
        let mut database = of_items(folder, documents)?;
        Ok(Box::new(move || {
            failed(database.rebuild("p"))?;
            ask(&mut database, "SELECT count(*) FROM p", int)
        }))
    }
}
