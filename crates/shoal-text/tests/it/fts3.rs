//! Tables of FTS3 and FTS4 written by SQLite at random: the same questions to both engines.
//!
//! `SHOAL_FTS_CASES=N` runs N tables of each kind.

use crate::support::ask::{ask_ours, ask_sqlite};
use crate::support::fts3::{TABLES, ours, query, write};
use crate::support::{self, Dice};
use shoal_sql::Connection;

fn cases(default: u64) -> u64 {
    std::env::var("SHOAL_FTS_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Refusals are compared as refusals: SQLite often has no words for them.
fn same(theirs: &rusqlite::Connection, ours: &mut Connection, sql: &str, what: &str) {
    // In files of UTF-16 the engine itself orders rows, and compares texts.
    let is_own = sql.starts_with("EXPLAIN") || sql.contains("docid = ");
    if is_own && what.starts_with("UTF-16") {
        return;
    }
    let (mut wanted, mut found) = (ask_sqlite(theirs, sql), ask_ours(ours, sql));
    if sql.starts_with("EXPLAIN") {
        // Numbers of a plan's nodes are each engine's own.
        for rows in [&mut wanted, &mut found].into_iter().flatten().flatten() {
            *rows = rows.rsplit('|').next().unwrap_or_default().to_owned();
        }
    }
    match (&wanted, &found) {
        (Ok(wanted), Ok(found)) => {
            let differing = found.iter().zip(wanted).find(|(found, wanted)| found != wanted);
            assert_eq!(differing.map(|(a, _)| a), differing.map(|(_, b)| b), "{what}: {sql}");
            assert_eq!(found.len(), wanted.len(), "{what}: {sql}");
        }
        (Err(wanted), Err(found)) => {
            let is_query = wanted.starts_with("malformed MATCH") || wanted.starts_with("FTS expr");
            if is_query {
                assert_eq!(found, wanted, "{what}: {sql}");
            }
        }
        _ => panic!("{what}: {sql}\nSQLite: {wanted:?}\nours: {found:?}"),
    }
}

#[test]
fn random_tables_answer_as_in_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    for case in 0..cases(2) {
        for (kind, options) in TABLES.iter().enumerate() {
            let seed = case * 100 + kind as u64;
            let mut dice = Dice::new(seed);
            let path = directory.path().join(format!("{seed}.db"));
            let theirs = rusqlite::Connection::open(&path).unwrap();
            write(&theirs, options, &mut dice);
            let mut ours = ours(&path);
            compare(&theirs, &mut ours, options, &format!("seed {seed}, {options}"), &mut dice);
        }
    }
}

#[test]
fn texts_in_utf16_answer_as_in_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    for (kind, options) in TABLES.iter().enumerate().step_by(3) {
        let mut dice = Dice::new(9000 + kind as u64);
        let path = directory.path().join(format!("{kind}.db"));
        let theirs = rusqlite::Connection::open(&path).unwrap();
        let encoding = *dice.of(&["UTF-16le", "UTF-16be"]);
        theirs.execute_batch(&format!("PRAGMA encoding = '{encoding}'")).unwrap();
        write(&theirs, options, &mut dice);
        let mut ours = ours(&path);
        if options.contains("languageid") {
            let asked = ask_ours(&mut ours, "SELECT docid FROM t WHERE t MATCH 'the' AND l = 1");
            let said = "fts4 tables with a languageid answer no MATCH in files of UTF-16";
            assert_eq!(asked, Err(said.to_owned()));
        } else {
            compare(&theirs, &mut ours, options, &format!("{encoding}, {options}"), &mut dice);
        }
        let check = "PRAGMA integrity_check";
        assert_eq!(ask_ours(&mut ours, check), Ok(vec!["'ok'".to_owned()]), "{options}");
    }
}

fn compare(
    theirs: &rusqlite::Connection,
    ours: &mut Connection,
    options: &str,
    what: &str,
    dice: &mut Dice,
) {
    let is_contentless = options.contains("content=''");
    let language = options.contains("languageid");
    let columns = if is_contentless { "docid, rowid" } else { "docid, t, *" };
    if !is_contentless {
        for order in ["", "ORDER BY docid DESC", "ORDER BY rowid"] {
            same(theirs, ours, &format!("SELECT docid, * FROM t {order}"), what);
        }
        same(theirs, ours, "SELECT rowid FROM t WHERE docid > 20 AND rowid <= 70", what);
        same(theirs, ours, "SELECT rowid FROM t WHERE docid < 0 ORDER BY docid DESC", what);
        for docid in ["'17'", "3.0", "' 5 '", "'x'", "NULL", "2.5", "x'31'", "-3"] {
            same(theirs, ours, &format!("SELECT a, docid FROM t WHERE docid = {docid}"), what);
        }
        // No docid, although the largest one is the nearest integer of 64 bits.
        for docid in ["9223372036854775808", "'9223372036854775808'", "-9.3e18", "char(11, 55)"] {
            same(theirs, ours, &format!("SELECT a, docid FROM t WHERE docid = {docid}"), what);
        }
        same(theirs, ours, "SELECT snippet(t), offsets(t), matchinfo(t) FROM t LIMIT 3", what);
        // SQLite asks for the language before the row, though external content may lack the row.
        if language {
            same(theirs, ours, "SELECT docid, l FROM t", what);
        }
    }
    for _ in 0..60 {
        let depth = dice.below(4);
        let text = query(dice, depth).replace('\'', "''");
        let field = *dice.of(&["t", "t", "t", "t", "a", "b"]);
        let spoken = match language {
            true => format!("AND l = {}", dice.below(3)),
            false => String::new(),
        };
        let found = format!("FROM t WHERE {field} MATCH '{text}' {spoken}");
        same(theirs, ours, &format!("SELECT {columns} {found}"), what);
        let order = *dice.of(&["", "ORDER BY docid", "ORDER BY docid DESC"]);
        let known = if options.starts_with("fts3") {
            "pcsxyb"
        } else if options.contains("matchinfo") {
            "pcnasxyb"
        } else {
            "pcnalsxyb"
        };
        same(theirs, ours, &format!("SELECT docid, matchinfo(t, '{known}') {found} {order}"), what);
        let bounds = "AND docid BETWEEN 10 AND 80";
        same(theirs, ours, &format!("SELECT docid, matchinfo(t) {found} {bounds} {order}"), what);
        let (column, tokens) = (dice.below(4) as i64 - 1, dice.below(30) as i64 - 10);
        let snippet = format!("snippet(t, '[', ']', '..', {column}, {tokens})");
        same(theirs, ours, &format!("SELECT docid, offsets(t), {snippet} {found} {order}"), what);
        let calls = "snippet(t), offsets(t), matchinfo(t, 'xs')";
        same(theirs, ours, &format!("SELECT {calls} {found} {order}"), what);
        same(theirs, ours, &format!("EXPLAIN QUERY PLAN SELECT {columns} {found} {order}"), what);
    }
}

#[test]
fn terms_and_whole_indexes_are_sqlites() {
    let directory = tempfile::tempdir().unwrap();
    for (kind, options) in TABLES.iter().enumerate() {
        let what = *options;
        let mut dice = Dice::new(7000 + kind as u64);
        let path = directory.path().join(format!("{kind}.db"));
        let theirs = rusqlite::Connection::open(&path).unwrap();
        write(&theirs, options, &mut dice);
        theirs.execute_batch("CREATE VIRTUAL TABLE terms USING fts4aux(t)").unwrap();
        let mut ours = ours(&path);
        // SQLite takes a table's prefix indexes for other languages.
        let has_prefixes = options.contains("prefix");
        for condition in [
            "",
            "WHERE term = 'the'",
            "WHERE term >= 'b' AND term < 'f' AND col = '*'",
            "WHERE term <= 'c' ORDER BY term",
            "WHERE languageid = 1",
            "WHERE term BETWEEN 'q' AND 'w3' AND languageid = 2",
            "WHERE documents > 5 ORDER BY term DESC, col",
        ] {
            // SQLite's check also takes descending doclists for ascending ones.
            let is_known = !has_prefixes || !condition.contains("languageid");
            if is_known && !options.contains("order=desc") {
                same(&theirs, &mut ours, &format!("SELECT * FROM terms {condition}"), what);
            }
        }
        let check = "PRAGMA integrity_check";
        assert_eq!(ask_sqlite(&theirs, check), Ok(vec!["'ok'".to_owned()]), "{what}");
        assert_eq!(ask_ours(&mut ours, check), Ok(vec!["'ok'".to_owned()]), "{what}");
        if options.contains("content=''") {
            continue;
        }
        let (table, column) = match options.contains("content=docs") {
            true => ("docs", "a"),
            false => ("t_content", "c0a"),
        };
        let damage = format!(
            "UPDATE {table} SET {column} = 'another text' \
             WHERE rowid = (SELECT max(rowid) FROM {table})"
        );
        theirs.execute(&damage, []).unwrap();
        for told in [ask_sqlite(&theirs, check), ask_ours(&mut ours, check)] {
            let told = told.unwrap().join(" ");
            assert!(told.contains("malformed inverted index for FTS"), "{what}: {told}");
        }
    }
}

#[test]
fn what_is_refused_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("refused.db");
    let theirs = rusqlite::Connection::open(&path).unwrap();
    let scalar = |context: &rusqlite::functions::Context<'_>| context.get::<String>(0);
    for name in ["zip", "unzip"] {
        let flags = rusqlite::functions::FunctionFlags::SQLITE_UTF8;
        theirs.create_scalar_function(name, 1, flags, scalar).unwrap();
    }
    theirs
        .execute_batch(
            "CREATE VIRTUAL TABLE packed USING fts4(a, compress=zip, uncompress=unzip);
             INSERT INTO packed VALUES ('one two');
             CREATE VIRTUAL TABLE bare USING fts4(a, content='');
             INSERT INTO bare(docid, a) VALUES (7, 'one two')",
        )
        .unwrap();
    let mut ours = ours(&path);
    let mut refusal = |sql: &str| ask_ours(&mut ours, sql).unwrap_err();
    assert_eq!(refusal("SELECT a FROM packed"), "no such function: unzip");
    let error = refusal("SELECT a FROM bare WHERE bare MATCH 'two'");
    assert_eq!(error, "the fts4 table bare keeps no texts (content=\"\"): it finds docids alone");
    let error = refusal("SELECT optimize(bare) FROM bare WHERE bare MATCH 'two'");
    assert_eq!(error, "optimize() writes the index of bare anew: fts4 tables are read-only");
    let error = refusal("SELECT matchinfo(bare, 'pq') FROM bare WHERE bare MATCH 'two'");
    assert_eq!(error, "unrecognized matchinfo request: q");
    let found = ask_ours(&mut ours, "SELECT docid FROM packed WHERE packed MATCH 'tw*'");
    assert_eq!(found, Ok(vec!["1".to_owned()]));
    // A function of the same name is used, as SQLite does.
    let flags = shoal_sql::FunctionFlags::DETERMINISTIC;
    let same = |arguments: &[shoal_sql::Value]| Ok(arguments[0].clone());
    ours.create_function("unzip", 1, flags, same).unwrap();
    let found =
        ask_ours(&mut ours, "SELECT a, snippet(packed) FROM packed WHERE packed MATCH 'two'");
    assert_eq!(found, Ok(vec!["'one two'|'one <b>two</b>'".to_owned()]));
}

#[test]
fn the_standard_syntax_is_a_program_s_choice() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("standard.db");
    let theirs = rusqlite::Connection::open(&path).unwrap();
    let make = "CREATE VIRTUAL TABLE t USING fts4(a);
        INSERT INTO t VALUES ('one two'), ('one not three'), ('two three')";
    theirs.execute_batch(make).unwrap();
    let store = shoal_store::Store::open(
        std::sync::Arc::new(shoal_vfs::OsVfs::new()),
        &path,
        shoal_store::Access::ReadOnly,
    );
    let mut ours = Connection::open(store.unwrap()).unwrap();
    let module = shoal_text::Fts3Module::fts4().with_syntax(shoal_text::Fts3Syntax::Standard);
    ours.register_table_module(std::sync::Arc::new(module));
    for (query, rows) in [
        ("one -two", vec!["2"]),
        ("one NOT three", vec!["2"]),
        ("one OR two three", vec!["2", "3"]),
    ] {
        let sql = format!("SELECT docid FROM t WHERE t MATCH '{query}'");
        let rows: Vec<String> = rows.into_iter().map(str::to_owned).collect();
        assert_eq!(ask_ours(&mut ours, &sql), Ok(rows), "{query}");
    }
}

/// A table of FTS4 as `sqlite3` dumps one: three segments, the last with a deleted row's terms.
const DUMP: &str = "PRAGMA writable_schema=ON;
INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql)VALUES('table','mail','mail',0,'CREATE VIRTUAL TABLE mail USING fts4(subject, body, tokenize=porter)');
CREATE TABLE IF NOT EXISTS 'mail_content'(docid INTEGER PRIMARY KEY, 'c0subject', 'c1body');
INSERT INTO mail_content VALUES(1,'Trains','Booked the night train to Oslo');
INSERT INTO mail_content VALUES(3,'Boat','A boat to Bergen');
CREATE TABLE IF NOT EXISTS 'mail_segments'(blockid INTEGER PRIMARY KEY, block BLOB);
CREATE TABLE IF NOT EXISTS 'mail_segdir'(level INTEGER,idx INTEGER,start_block INTEGER,leaves_end_block INTEGER,end_block INTEGER,root BLOB,PRIMARY KEY(level, idx));
INSERT INTO mail_segdir VALUES(0,0,0,0,'0 113',X'0004626f6f6b05010101020000046c61746505020101050000056e6967687405010101040000046f736c6f050101010700000272650302020000037468650a0101010300010101020001016f05010101060001047261696e0c010201010500010301010300000477657265050201010400');
INSERT INTO mail_segdir VALUES(0,1,0,0,'0 45',X'000161050301010200000662657267656e05030101050001036f6174060302010103000002746f050301010400');
INSERT INTO mail_segdir VALUES(0,2,0,0,'0 42',X'00046c61746502020000027265020200000374686502020001047261696e020200000477657265020200');
CREATE TABLE IF NOT EXISTS 'mail_docsize'(docid INTEGER PRIMARY KEY, size BLOB);
INSERT INTO mail_docsize VALUES(1,X'0106');
INSERT INTO mail_docsize VALUES(3,X'0104');
CREATE TABLE IF NOT EXISTS 'mail_stat'(id INTEGER PRIMARY KEY, value BLOB);
INSERT INTO mail_stat VALUES(0,X'02020a38');
PRAGMA writable_schema=OFF;
";

#[test]
fn a_dump_is_read_and_changes_are_refused_by_name() {
    let store = shoal_store::Store::memory();
    let mut ours = Connection::open(store).unwrap();
    support::fts3::register(&mut ours);
    let mut told = |sql: &str| ask_ours(&mut ours, sql);
    for range in shoal_sql::Statements::new(DUMP) {
        told(&DUMP[range]).unwrap();
    }
    let asked = "SELECT docid, snippet(mail), offsets(mail), matchinfo(mail, 'nl') FROM mail
        WHERE mail MATCH 'trains OR boat' ORDER BY docid DESC";
    let rows = [
        "3|'<b>Boat</b>'|'0 1 0 4 1 1 2 4'|020000000100000004000000".to_owned(),
        "1|'<b>Trains</b>'|'0 0 0 6 1 0 17 5'|020000000100000006000000".to_owned(),
    ];
    assert_eq!(told(asked), Ok(rows.to_vec()));
    assert_eq!(told("PRAGMA integrity_check"), Ok(vec!["'ok'".to_owned()]));
    for sql in [
        "INSERT INTO mail VALUES ('a', 'b')",
        "UPDATE mail SET body = 'c'",
        "DELETE FROM mail WHERE docid = 1",
        "INSERT INTO mail(mail) VALUES ('optimize')",
    ] {
        let said = "table mail may not be modified: fts4 tables are read-only";
        assert_eq!(told(sql), Err(said.to_owned()), "{sql}");
    }
    let said = "fts3 tables are read, not made, as x would be: USING fts5";
    assert_eq!(told("CREATE VIRTUAL TABLE x USING fts3(a)"), Err(said.to_owned()));
    let parts = told("DELETE FROM mail_segdir").unwrap_err();
    assert!(parts.contains("part of virtual table"), "{parts}");
    assert_eq!(told(asked), Ok(rows.to_vec()));
    told("ALTER TABLE mail RENAME TO post").unwrap();
    let found = told("SELECT docid FROM post WHERE post MATCH 'oslo'");
    assert_eq!(found, Ok(vec!["1".to_owned()]));
    told("DROP TABLE post").unwrap();
    assert_eq!(told("SELECT count(*) FROM sqlite_schema"), Ok(vec!["0".to_owned()]));
}
