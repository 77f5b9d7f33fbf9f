//! The database of the tests.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use shoal::{Access, Database, Document, Environment};
use shoal_crdt::{CommitOptions, ROOT};
use shoal_mcp::{AnswerLimits, Options};
use tempfile::TempDir;

/// A folder with `sample.db`, and what a server of it needs.
pub(crate) struct Sample {
    folder: TempDir,
}

const TABLES: &str = "
    CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT NOT NULL, born INTEGER);
    CREATE UNIQUE INDEX person_name ON person (name);
    CREATE TABLE knows (a INTEGER REFERENCES person (id), b INTEGER REFERENCES person (id),
                        since INTEGER, PRIMARY KEY (a, b)) WITHOUT ROWID;
    CREATE VIEW grown AS SELECT name FROM person WHERE born < 1900;
    CREATE TABLE big (n INTEGER PRIMARY KEY, s TEXT, data BLOB);
    CREATE VIRTUAL TABLE note USING fts5 (title, body);
    CREATE VIRTUAL TABLE near USING vec0 (place float[2], kind TEXT);
    CREATE TABLE \"odd \"\"name\" (\"a b\" TEXT DEFAULT 'x', up AS (upper(\"a b\")));
    INSERT INTO person VALUES (1, 'Ada', 1815), (2, 'Grace', 1906), (3, 'Emmy', 1882);
    INSERT INTO knows VALUES (1, 2, 1840), (2, 3, 1930);
    WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 20000)
    INSERT INTO big SELECT x, 'row ' || x, zeroblob(x % 3) FROM c;
    INSERT INTO note VALUES ('Engines', 'the analytical engine weaves patterns'),
                            ('Rings', 'ideals of rings, and a \"chain\" condition');
    INSERT INTO near (rowid, place, kind) VALUES (1, '[0, 0]', 'a'), (2, '[1, 0]', 'b'),
                                                 (3, '[5, 5]', 'c');
";

impl Sample {
    pub(crate) fn new() -> Sample {
        let sample = Sample { folder: tempfile::tempdir().unwrap() };
        let mut database =
            Database::open(Environment::os(), &sample.path(), Access::Create).unwrap();
        for range in shoal_sql::Statements::new(TABLES) {
            run(&mut database, &TABLES[range]);
        }
        let graph = "CREATE PROPERTY GRAPH people VERTEX TABLES (person) EDGE TABLES \
                     (knows SOURCE KEY (a) REFERENCES person (id) \
                      DESTINATION KEY (b) REFERENCES person (id))";
        assert!(database.define(graph).unwrap());
        let mut plan = Document::new(Environment::os().new_actor());
        edit(&mut plan, "title", "First");
        edit(&mut plan, "title", "Second");
        database.store("plan", &mut plan).unwrap();
        let mut long = Document::new(Environment::os().new_actor());
        let mut transaction = long.transaction();
        for n in 0..300 {
            let entry = json!({"text": "x".repeat(500), "n": n});
            transaction.put_json(&ROOT, format!("entry{n:03}").as_str(), &entry).unwrap();
        }
        transaction.commit(CommitOptions::default());
        database.store("long/one", &mut long).unwrap();
        sample
    }

    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("sample.db")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn options(&self) -> Options {
        Options {
            environment: Environment::os(),
            path: self.path(),
            is_writable: false,
            limits: AnswerLimits { time: Duration::from_secs(60), ..AnswerLimits::default() },
            rules: None,
        }
    }

    pub(crate) fn writable(&self) -> Options {
        Options { is_writable: true, ..self.options() }
    }

    /// The database beside the server, as another program has it.
    pub(crate) fn beside(&self) -> Database {
        Database::open(Environment::os(), &self.path(), Access::ReadWrite).unwrap()
    }
}

pub(crate) fn edit(document: &mut Document, key: &str, value: &str) {
    let mut transaction = document.transaction();
    transaction.put(&ROOT, key, value).unwrap();
    transaction.commit(CommitOptions::default().with_message(value));
}

pub(crate) fn run(database: &mut Database, sql: &str) {
    let mut statement = database.sql().prepare(sql).unwrap();
    database.sql().execute(&mut statement).unwrap();
}
