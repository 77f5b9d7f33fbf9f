//! Full text tables through SQL: the same statements in SQLite and in Shoal, on files that each
//! made, and that the other checks.

use std::path::Path;
use std::sync::Arc;

use crate::support::ask::{ask_ours, ask_sqlite};
use shoal_sql::Connection;
use shoal_store::{Access, Store};
use shoal_text::{TextModule, VocabularyModule};
use shoal_vfs::OsVfs;

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

/// Rows over several segments, with deletions in the newer ones; details, small and large leaves.
const MANY: &[&str] = &[
    "CREATE TABLE numbers AS WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) \
     SELECT i FROM n",
    "INSERT INTO big(big, rank) VALUES ('pgsz', 200)",
    "INSERT INTO big(big, rank) VALUES ('automerge', 0)",
    "INSERT INTO big(rowid, a, b) SELECT i, 'all ' || CASE i % 3 WHEN 0 THEN 'three far' ELSE \
     'other' END || ' w' || i % 70, CASE i % 7 WHEN 0 THEN 'x x three all' WHEN 1 THEN \
     'all of y and far away from it z' ELSE 'b' || i END FROM numbers WHERE i % 2 = 0 ORDER BY i",
    "INSERT INTO big(rowid, a, b) SELECT i, 'all ' || i % 5, 'x y z all' FROM numbers \
     WHERE i % 2 = 1 AND i < 1200 ORDER BY i",
    "DELETE FROM big WHERE rowid % 11 = 0",
    "UPDATE big SET a = 'all three changed' WHERE rowid BETWEEN 900 AND 1300",
    "INSERT INTO big(rowid, a) VALUES (-5, 'all before'), (9223372036854775807, 'all last')",
];

const ASKED: &[&str] = &[
    "SELECT rowid FROM big('all')",
    "SELECT rowid, 'same', rowid FROM big('all') LIMIT 700 OFFSET 9",
    "SELECT rowid + 0, typeof(rowid) FROM big('three') LIMIT 40",
    "SELECT count(*) FROM big('all')",
    "SELECT count(*) FROM big",
    "SELECT rowid FROM big",
    "SELECT count(*), sum(rowid), max(rowid) FROM big('three') WHERE rowid < 3000",
    "SELECT count(*) FROM big('three') WHERE rowid > 700 AND rowid <= 1250",
    "SELECT rowid FROM big('three') WHERE rowid BETWEEN 700 AND 1250",
    "SELECT count(*) FROM big('three') WHERE 1 = 2",
    "SELECT 'x', count(*) FROM big('three') GROUP BY 1 HAVING count(*) > 3",
    "SELECT DISTINCT 1 FROM big('three')",
    "SELECT DISTINCT rowid % 4 FROM big('three') ORDER BY 1",
    "SELECT count(*) FROM big('three') WHERE random() IS NULL",
    "SELECT 7 FROM big('changed') LIMIT 3",
    "SELECT EXISTS(SELECT 1 FROM big('three')), (SELECT rowid FROM big('x') LIMIT 1 OFFSET 5)",
    "SELECT count(*) FROM numbers JOIN big('three') t ON t.rowid = numbers.i WHERE i > 40",
    "SELECT i, t.rowid FROM numbers LEFT JOIN big('b14') t ON t.rowid = i + 7 WHERE i < 9",
    "SELECT i, (SELECT count(*) FROM big('w' || i)) FROM numbers WHERE i < 75",
    "SELECT count(*) FROM big('all') a, big('changed') b WHERE b.rowid < 905",
    "SELECT rowid FROM big('changed') UNION SELECT rowid FROM big('y') ORDER BY 1",
    "SELECT rowid FROM big('th* AND x')",
    "SELECT rowid FROM big('th*')",
    "SELECT count(*) FROM big('all NOT three')",
    "SELECT count(*) FROM big('w1* OR y')",
    "!SELECT rowid FROM big('\"all three\"')",
    "!SELECT rowid FROM big('\"x x\" OR \"all of y\"')",
    "!SELECT rowid FROM big('NEAR(all z, 3)')",
    "!SELECT rowid FROM big('NEAR(x all three, 1)')",
    "!SELECT count(*) FROM big('NEAR(x x, 2)')",
    "!SELECT rowid FROM big('a: ^all')",
    "SELECT count(*) FROM big('b: all')",
    "SELECT rowid FROM big('x') ORDER BY rank LIMIT 5",
    "SELECT rowid, a FROM big('changed') WHERE rowid > 1290",
];

#[test]
fn rowids_and_counts_of_many_rows_are_those_of_sqlite() {
    for detail in ["full", "column", "none"] {
        let place = tempfile::tempdir().unwrap();
        let mut first = ours(&place.path().join("ours"));
        let second = rusqlite::Connection::open(place.path().join("theirs")).unwrap();
        let create = format!("CREATE VIRTUAL TABLE big USING fts5(a, b, detail={detail})");
        for sql in std::iter::once(create.as_str()).chain(MANY.iter().copied()) {
            assert_eq!(ask_ours(&mut first, sql), ask_sqlite(&second, sql), "{sql}");
        }
        // Alone, and within a transaction with rows still in memory.
        let begun = ["BEGIN", "INSERT INTO big(rowid, a) VALUES (3500, 'all three')"];
        for sql in ASKED.iter().chain(&begun).chain(ASKED) {
            let sql = match sql.strip_prefix('!') {
                Some(_) if detail != "full" => continue,
                Some(sql) => sql,
                None => sql,
            };
            assert_eq!(ask_ours(&mut first, sql), ask_sqlite(&second, sql), "{detail}: {sql}");
        }
    }
}

/// Statements of a row each within transactions: by rowid, most of them, which flush nothing.
#[test]
fn rows_changed_one_by_one_are_found_as_in_sqlite() {
    let place = tempfile::tempdir().unwrap();
    let (a, b) = (place.path().join("ours"), place.path().join("theirs"));
    let mut first = ours(&a);
    let second = rusqlite::Connection::open(&b).unwrap();
    let mut both = |sql: &str| {
        let (mine, theirs) = (ask_ours(&mut first, sql), ask_sqlite(&second, sql));
        if mine.is_ok() || theirs.is_ok() {
            assert_eq!(mine, theirs, "{sql}");
        }
    };
    both("CREATE VIRTUAL TABLE own USING fts5(a, b)");
    both("CREATE VIRTUAL TABLE bare USING fts5(a, b, content='', contentless_delete=1)");
    both("CREATE TABLE notes(id INTEGER PRIMARY KEY, a, b)");
    both("CREATE VIRTUAL TABLE apart USING fts5(a, b, content=notes, content_rowid=id)");
    both(
        "CREATE TRIGGER ai AFTER INSERT ON notes BEGIN \
         INSERT INTO apart(rowid, a, b) VALUES (new.id, new.a, new.b); END",
    );
    both(
        "CREATE TRIGGER ad AFTER DELETE ON notes BEGIN \
         INSERT INTO apart(apart, rowid, a, b) VALUES ('delete', old.id, old.a, old.b); END",
    );
    let mut seed = 7_u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for turn in 0..60 {
        both("BEGIN");
        let mut has_savepoint = false;
        for _ in 0..40 {
            let (row, word, other) = (random(60), random(9), random(9));
            let text = format!("w{word} all {}w{other}", if word == 3 { "Ünïted " } else { "" });
            for table in ["own", "bare", "notes"] {
                let key = if table == "notes" { "id" } else { "rowid" };
                both(&match word {
                    0 | 1 => format!("INSERT INTO {table}(a, b) VALUES ('{text}', 'new')"),
                    // SQLite takes a second row of a rowid into a table without texts.
                    2 if table == "bare" => {
                        format!("REPLACE INTO bare(rowid, a) VALUES ({row}, '{text}')")
                    }
                    2 => format!("INSERT INTO {table}({key}, a) VALUES ({row}, '{text}')"),
                    3 => format!("REPLACE INTO own(rowid, a, b) VALUES ({row}, '{text}', 'again')"),
                    4 | 5 if table == "own" => {
                        format!("UPDATE own SET a = '{text}' WHERE rowid = {row}")
                    }
                    4 | 5 if table == "bare" => {
                        format!("UPDATE bare SET a = '{text}', b = 'up' WHERE rowid = {row}")
                    }
                    4..=6 => format!("DELETE FROM {table} WHERE {key} = {row}"),
                    7 if table == "own" => {
                        format!("SELECT rowid, a, rank FROM own WHERE rowid BETWEEN {row} AND 70")
                    }
                    7 => format!("SELECT count(*) FROM {table} WHERE {key} > {row}"),
                    _ => "SELECT count(*) FROM own".to_owned(),
                });
            }
            if random(12) == 0 {
                both(if has_savepoint { "ROLLBACK TO s" } else { "SAVEPOINT s" });
                has_savepoint = true;
            }
            if random(25) == 0 {
                both(&format!("SELECT rowid FROM own('w{word} OR again') ORDER BY rowid"));
                both(&format!("SELECT rowid FROM bare('w{word} OR up') ORDER BY rowid"));
                both(&format!("SELECT rowid, a FROM apart('w{word}') ORDER BY rowid"));
            }
        }
        both(if turn % 5 == 4 { "ROLLBACK" } else { "COMMIT" });
        for table in ["own", "bare", "apart"] {
            both(&format!("INSERT INTO {table}({table}) VALUES ('integrity-check')"));
            both(&format!("SELECT rowid FROM {table}('w1 OR w2 OR w7') ORDER BY rowid"));
        }
    }
    both("INSERT INTO own(own) VALUES ('rebuild')");
    both("INSERT INTO apart(apart) VALUES ('rebuild')");
    both("SELECT rowid, rank FROM own('w1 OR united') ORDER BY rank, rowid");
    both("INSERT INTO apart(apart, rank) VALUES ('integrity-check', 1)");
    drop((first, second));
    let theirs = rusqlite::Connection::open(&a).unwrap();
    for table in ["own", "bare", "apart"] {
        let sql = format!("INSERT INTO {table}({table}) VALUES ('integrity-check')");
        assert_eq!(ask_sqlite(&theirs, &sql), Ok(vec![]), "{table}");
    }
}
