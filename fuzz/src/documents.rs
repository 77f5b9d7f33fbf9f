//! A small file with documents and projections: any definitions and statements on it, and tables of
//! documents that a stranger wrote to.
//!
//! Also part of a test of `shoal` (`tests/any_documents.rs`).

use std::path::Path;
use std::sync::{Arc, OnceLock};

use shoal::{Access, Database, Document, Environment};
use shoal_crdt::{CommitOptions, ROOT, Scalar};
use shoal_sql::{Connection, Error, Statements, Value};
use shoal_store::Store;
use shoal_store::vfs::{FixedClock, MemVfs, SeededEntropy};

/// The name of the file.
const FILE: &str = "documents.db";

/// The definitions of the file's projections.
const DEFINITIONS: [&str; 2] = [
    "CREATE PROJECTION todo FROM DOCUMENTS WHERE name GLOB 'list/*' ROWS '$.items[*]' COLUMNS \
     (pos FOR ORDINALITY, title TEXT, votes COUNTER, tags JSON, n INTEGER PATH '$.more.n', \
     ASSERT (n < 5))",
    "CREATE PROJECTION setting FROM DOCUMENTS ROWS '$.settings.*' COLUMNS (v JSON PATH '$')",
];

fn environment(vfs: &MemVfs) -> Environment {
    let clock = FixedClock { unix_ms: 1_700_000_000_000 };
    Environment::new(Arc::new(vfs.clone()), Arc::new(clock), Arc::new(SeededEntropy::new(1)))
}

/// The file, as bytes.
fn template() -> &'static [u8] {
    static TEMPLATE: OnceLock<Vec<u8>> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let vfs = MemVfs::new();
        let mut database = open(&vfs).expect("a new file opens");
        run(database.sql(), "PRAGMA journal_mode = DELETE").expect("a mode of SQLite's");
        for definition in DEFINITIONS {
            database.define(definition).expect("the definitions are valid");
        }
        for name in ["list/a", "list/b", "gone"] {
            let mut document = Document::new(environment(&vfs).new_actor());
            let json = r#"{"items": [{"title": "one", "tags": ["x"]}, {"title": "two",
                "more": {"n": 7}}], "settings": {"a": 1, "b": {"c": null}}}"#;
            let json = serde_json::from_str(json).expect("JSON");
            for round in 0..3_i64 {
                let mut transaction = document.transaction();
                if round == 0 {
                    transaction.import_json(&json).expect("any JSON");
                }
                transaction.put(&ROOT, "votes", Scalar::Counter(round)).expect("a root");
                transaction.commit(CommitOptions::default());
                database.store(name, &mut document).expect("it is stored");
            }
        }
        database.remove("gone").expect("it is there");
        database.compact("list/b").expect("it is there");
        drop(database);
        vfs.get(Path::new(FILE)).expect("it was written")
    })
}

fn open(vfs: &MemVfs) -> Result<Database, shoal::Error> {
    Database::open(environment(vfs), Path::new(FILE), Access::Create)
}

fn small() -> MemVfs {
    let vfs = MemVfs::new();
    vfs.put(Path::new(FILE), template().to_vec());
    vfs
}

/// Runs a statement, its parameters NULL, and reads its first rows as text.
fn run(connection: &mut Connection, sql: &str) -> Result<Vec<String>, Error> {
    let mut statement = connection.prepare(sql)?;
    let mut all = Vec::new();
    let mut rows = connection.query(&mut statement)?;
    while all.len() < 500 {
        let Some(row) = rows.next()? else { break };
        let values: Vec<Value> = row.values().map(Value::from).collect();
        all.push(format!("{values:?}"));
    }
    Ok(all)
}

/// Runs any definitions and statements; afterwards the rows of each projection are those made anew,
/// and every document can be read.
pub fn any_statements(text: &str) {
    let vfs = small();
    let mut database = open(&vfs).expect("the template opens");
    for range in Statements::new(text) {
        let sql = &text[range];
        if Database::is_definition(sql) {
            let _ = database.define(sql);
        } else if is_harmless(sql) {
            let _ = run(database.sql(), sql);
        }
    }
    let _ = run(database.sql(), "ROLLBACK");
    let projections = database.projections().expect("the definitions are there");
    for (name, _) in projections {
        let quoted = name.replace('"', "\"\"");
        for suffix in ["", "_conflicts", "_misfits", "_violations"] {
            let rows = format!("SELECT * FROM \"{quoted}{suffix}\"");
            let Ok(kept) = run(database.sql(), &rows) else { continue };
            database.rebuild(&name).expect("a projection can be made anew");
            let made = run(database.sql(), &rows).expect("it is there");
            assert_eq!(kept, made, "{name}{suffix}");
        }
    }
    for document in database.documents().expect("the documents are there") {
        database.load(&document.name).expect("it is sound");
    }
}

/// True for statements worth running that are no tampering.
fn is_harmless(sql: &str) -> bool {
    let sql = sql.to_ascii_lowercase();
    let tampers =
        ["trigger", "pragma", "unique", "alter", "attach", "recursive", "blob(", "random"];
    let makes_much = sql.matches(',').count() + sql.matches("join").count() > 12
        || sql.as_bytes().windows(5).any(|digits| digits.iter().all(u8::is_ascii_digit));
    !makes_much && !tampers.iter().any(|word| sql.contains(word))
}

/// Lets a stranger run statements on the tables of documents, then asks Shoal everything: each
/// answer is a value or an error.
pub fn strangers(script: &str) {
    let vfs = small();
    let clock = Arc::new(FixedClock { unix_ms: 1_700_000_000_000 });
    let store = Store::open(Arc::new(vfs.clone()), Path::new(FILE), Access::ReadWrite);
    let store = store.expect("the template opens");
    let entropy = Arc::new(SeededEntropy::new(2));
    let mut connection = Connection::open_with(store, clock, entropy).expect("it is a database");
    for range in Statements::new(script) {
        let sql = script[range.clone()].to_ascii_lowercase();
        let digits = sql.as_bytes().windows(6).any(|digits| digits.iter().all(u8::is_ascii_digit));
        let is_endless = sql.contains("recursive") || (digits && sql.contains("blob("));
        if !is_endless && !sql.contains("attach") {
            let _ = run(&mut connection, &script[range]);
        }
    }
    let _ = run(&mut connection, "ROLLBACK");
    drop(connection);
    let Ok(mut database) = open(&vfs) else { return };
    let mut names: Vec<String> = ["list/a", "list/b", "new"].map(str::to_owned).into();
    names.extend(database.documents().unwrap_or_default().into_iter().map(|it| it.name).take(4));
    for sql in [
        "SELECT name, heads, json FROM documents",
        "SELECT * FROM todo AS OF 'abcd'",
        "SELECT * FROM todo FOR SYSTEM_TIME AS OF '2024-01-01'",
        "SELECT h.* FROM documents d, document_history(d.name) h",
        "UPDATE todo SET title = title || '!', votes = 3",
        "INSERT INTO todo(_doc, title) VALUES ('list/new', 'x'), (1, 'y')",
        "DELETE FROM setting",
    ] {
        let _ = run(database.sql(), sql);
    }
    let _ = database.settle();
    let _ = database.removed();
    for name in &names {
        if let Ok(mut document) = database.open_or_create(name) {
            let mut transaction = document.transaction();
            let _ = transaction.put(&ROOT, "edited", 1_i64);
            transaction.commit(CommitOptions::default());
            let _ = database.commit(&mut document);
            let _ = database.refresh(&mut document);
            let _ = database.close(document);
        }
        let _ = database.load(name);
        let _ = database.compact(name);
        let _ = database.copy(name, "copy");
        let _ = database.rename("copy", "renamed");
        let _ = database.remove("renamed");
    }
    for (name, _) in database.projections().unwrap_or_default() {
        let _ = database.rebuild(&name);
    }
    let _ = database.define("CREATE PROJECTION more FROM todo ROWS '$.parts[*]' COLUMNS (a TEXT)");
    let _ = database.define("DROP PROJECTION todo");
}
