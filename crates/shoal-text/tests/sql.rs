//! Full text tables through SQL: the same statements in SQLite and in Shoal, on files that each
//! made, and that the other checks.

#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::sync::Arc;

use shoal_sql::Connection;
use shoal_store::{Access, Store};
use shoal_text::{TextModule, VocabularyModule};
use shoal_vfs::OsVfs;
use support::ask::{ask_ours, ask_sqlite};

fn ours(path: &Path) -> Connection {
    let store = Store::open(Arc::new(OsVfs::new()), path, Access::Create).unwrap();
    let mut connection = Connection::open(store).unwrap();
    connection.register_table_module(Arc::new(TextModule));
    connection.register_table_module(Arc::new(VocabularyModule));
    connection
}

/// Statements in their order; `!` before one whose words of refusal may differ.
const SCRIPT: &[&str] = &[
    "CREATE VIRTUAL TABLE mail USING fts5(sender, title, body, tokenize='porter unicode61')",
    "INSERT INTO mail VALUES ('ann', 'plans', 'Running to the café at noon.'), \
     ('bob', 're: plans', 'I ran yesterday. Runs are fun: let us run again.'), (NULL, 7, 2.5)",
    "INSERT INTO mail(rowid, title, body) VALUES (40, 'late', 'the quick brown fox')",
    "SELECT rowid, * FROM mail ORDER BY rowid",
    "SELECT rowid FROM mail WHERE mail MATCH 'run'",
    "SELECT rowid, rank FROM mail WHERE mail MATCH 'run OR fox' ORDER BY rank",
    "SELECT rowid, bm25(mail, 1, 5, 2) FROM mail('plan* OR title:late') ORDER BY rowid",
    "SELECT highlight(mail, 2, '<b>', '</b>') FROM mail WHERE body MATCH 'runs'",
    "SELECT snippet(mail, -1, '[', ']', '...', 4) FROM mail WHERE mail = 'run' ORDER BY rank",
    "SELECT rowid FROM mail WHERE mail MATCH 'plans' AND rank MATCH 'bm25(10, 2)' ORDER BY rank",
    "SELECT rowid FROM mail WHERE mail MATCH 'plans' AND rowid > 1",
    "SELECT rowid FROM mail WHERE rowid BETWEEN 2 AND 40 ORDER BY rowid DESC",
    "SELECT count(*) FROM mail WHERE title = 're: plans'",
    "SELECT rowid, highlight(mail, 1, '[', ']'), bm25(mail) FROM mail",
    "SELECT rowid, snippet(mail, 2, '[', ']', '...', 9) FROM mail WHERE rowid > 1 LIMIT 2",
    "CREATE VIRTUAL TABLE temp.scratch USING fts5(a)",
    "INSERT INTO temp.scratch(rowid, a) VALUES ('7', 'two words'), (8.0, 'words')",
    "!INSERT INTO temp.scratch(rowid, a) VALUES (8.5, 'no words')",
    "!INSERT INTO temp.scratch(rowid, a) VALUES ('9x', 'no words')",
    "UPDATE temp.scratch SET rowid = '9' WHERE rowid = 8",
    "SELECT rowid, * FROM temp.scratch('words') ORDER BY rowid",
    "SELECT count(*) FROM main.sqlite_schema WHERE name LIKE 'scratch%'",
    "SELECT m.rowid, n.rowid FROM mail m, mail n WHERE m.title MATCH 'plans' AND n.rowid = m.rowid + 1",
    "SELECT rowid FROM mail WHERE mail MATCH 'cafe' UNION ALL SELECT rowid FROM mail('fox')",
    "SELECT rowid FROM mail WHERE mail MATCH 'a AND'",
    "SELECT rowid FROM mail WHERE mail MATCH 'nosuch:x'",
    "SELECT rowid FROM mail WHERE mail MATCH NULL",
    "UPDATE mail SET body = 'nobody runs' WHERE rowid = 1",
    "UPDATE mail SET rowid = 100 WHERE rowid = 40",
    "DELETE FROM mail WHERE rowid = 3",
    "REPLACE INTO mail(rowid, title) VALUES (2, 'replaced')",
    "INSERT OR IGNORE INTO mail(rowid, title) VALUES (2, 'ignored')",
    "!INSERT INTO mail(rowid, title) VALUES (2, 'refused')",
    "SELECT rowid, * FROM mail ORDER BY rowid",
    "SELECT rowid FROM mail WHERE mail MATCH 'run OR replaced OR fox' ORDER BY rowid",
    "BEGIN",
    "INSERT INTO mail(title) VALUES ('first')",
    "SAVEPOINT s",
    "INSERT INTO mail(title) VALUES ('second'), ('third')",
    "SELECT rowid FROM mail('second')",
    "ROLLBACK TO s",
    "INSERT INTO mail(title) VALUES ('fourth')",
    "COMMIT",
    "SELECT rowid, title FROM mail('first OR second OR third OR fourth') ORDER BY rowid",
    "BEGIN",
    "DELETE FROM mail",
    "ROLLBACK",
    "SELECT count(*) FROM mail('fourth')",
    "INSERT INTO mail(mail, rank) VALUES ('pgsz', 64)",
    "INSERT INTO mail(mail, rank) VALUES ('rank', 'bm25(10.0, 1)')",
    "SELECT rowid, rank FROM mail('run') ORDER BY rank",
    "INSERT INTO mail(mail) VALUES ('optimize')",
    "INSERT INTO mail(mail) VALUES ('rebuild')",
    "INSERT INTO mail(mail) VALUES ('integrity-check')",
    "!INSERT INTO mail(mail) VALUES ('delete-all')",
    "!INSERT INTO mail(mail) VALUES ('nosuch')",
    "CREATE VIRTUAL TABLE terms USING fts5vocab(mail, col)",
    "SELECT * FROM terms",
    "SELECT * FROM terms WHERE term >= 'q' AND term < 's'",
    "CREATE VIRTUAL TABLE places USING fts5vocab(mail, instance)",
    "SELECT * FROM places WHERE term = 'run'",
    "CREATE VIRTUAL TABLE tri USING fts5(a, tokenize=trigram)",
    "INSERT INTO tri VALUES ('abcdefghij'), ('ABCxyz'), ('bcd')",
    "SELECT rowid FROM tri WHERE a LIKE '%bcd%' ORDER BY rowid",
    "SELECT rowid FROM tri WHERE a LIKE 'bc%' ORDER BY rowid",
    "SELECT rowid FROM tri WHERE a LIKE 'abc_e%' ORDER BY rowid",
    "SELECT rowid FROM tri WHERE tri MATCH 'efgh'",
    "CREATE TABLE notes(id INTEGER PRIMARY KEY, text, extra)",
    "CREATE VIRTUAL TABLE find USING fts5(text, content=notes, content_rowid=id, prefix='2')",
    "CREATE TRIGGER ai AFTER INSERT ON notes BEGIN \
       INSERT INTO find(rowid, text) VALUES (new.id, new.text); END",
    "CREATE TRIGGER ad AFTER DELETE ON notes BEGIN \
       INSERT INTO find(find, rowid, text) VALUES ('delete', old.id, old.text); END",
    "INSERT INTO notes(text) VALUES ('alpha beta'), ('beta gamma'), ('gamma delta')",
    "DELETE FROM notes WHERE id = 2",
    "SELECT rowid, text, highlight(find, 0, '<', '>') FROM find('ga* OR be*') ORDER BY rowid",
    "INSERT INTO find(find, rank) VALUES ('integrity-check', 1)",
    "CREATE VIRTUAL TABLE bare USING fts5(a, b, content='', contentless_delete=1)",
    "INSERT INTO bare(rowid, a, b) VALUES (1, 'x y', 'z'), (2, 'y', 'z z'), (3, 'w', 'y')",
    "DELETE FROM bare WHERE rowid = 2",
    "UPDATE bare SET a = 'new', b = 'y' WHERE rowid = 3",
    "REPLACE INTO bare(rowid, a, b) VALUES (1, 'y', 'again')",
    "SELECT rowid, a FROM bare('y') ORDER BY rowid",
    "!UPDATE bare SET a = 'half' WHERE rowid = 3",
    "CREATE VIRTUAL TABLE closed USING fts5(a, content='')",
    "INSERT INTO closed(rowid, a) VALUES (9, 'x')",
    "DELETE FROM closed WHERE rowid = 9",
    "INSERT INTO closed(closed, rowid, a) VALUES ('delete', 9, 'x')",
    "SELECT count(*) FROM closed('x')",
    "INSERT INTO closed(closed) VALUES ('delete-all')",
    "ALTER TABLE tri RENAME TO three",
    "SELECT rowid FROM three('ghij')",
    "DROP TABLE three",
    "SELECT name FROM sqlite_schema WHERE name LIKE 'tri%' OR name LIKE 'three%'",
    "CREATE VIRTUAL TABLE wrong USING fts5(rank)",
    "CREATE VIRTUAL TABLE wrong USING fts5(a, detail=some)",
    "PRAGMA integrity_check",
];

#[test]
fn the_same_statements_have_the_same_answers() {
    let place = tempfile::tempdir().unwrap();
    let (a, b) = (place.path().join("ours"), place.path().join("theirs"));
    let mut first = ours(&a);
    let second = rusqlite::Connection::open(&b).unwrap();
    for statement in SCRIPT {
        let (sql, compares_words) = match statement.strip_prefix('!') {
            Some(sql) => (sql, false),
            None => (*statement, true),
        };
        let (mine, theirs) = (ask_ours(&mut first, sql), ask_sqlite(&second, sql));
        if compares_words || mine.is_ok() || theirs.is_ok() {
            assert_eq!(mine, theirs, "{sql}");
        }
    }
    drop((first, second));
    // Each goes on in the file of the other.
    let (mut first, second) = (ours(&b), rusqlite::Connection::open(&a).unwrap());
    for sql in [
        "INSERT INTO mail(mail) VALUES ('integrity-check')",
        "INSERT INTO find(find, rank) VALUES ('integrity-check', 1)",
        "INSERT INTO bare(bare) VALUES ('integrity-check')",
        "INSERT INTO mail(title, body) VALUES ('other side', 'running still')",
        "DELETE FROM bare WHERE rowid = 1",
        "INSERT INTO notes(text) VALUES ('gamma again')",
        "SELECT rowid, rank FROM mail('run') ORDER BY rank",
        "SELECT rowid FROM bare('y')",
        "SELECT rowid FROM find('gamma')",
        "INSERT INTO mail(mail) VALUES ('integrity-check')",
        "INSERT INTO find(find, rank) VALUES ('integrity-check', 1)",
        "INSERT INTO bare(bare) VALUES ('integrity-check')",
        "PRAGMA integrity_check",
    ] {
        assert_eq!(ask_ours(&mut first, sql), ask_sqlite(&second, sql), "{sql}");
    }
    drop((first, second));
    let (mut first, second) = (ours(&a), rusqlite::Connection::open(&b).unwrap());
    for table in ["mail", "find", "bare"] {
        let sql = format!("INSERT INTO {table}({table}) VALUES ('integrity-check')");
        assert_eq!(ask_ours(&mut first, &sql), Ok(vec![]));
        assert_eq!(ask_sqlite(&second, &sql), Ok(vec![]));
    }
}
