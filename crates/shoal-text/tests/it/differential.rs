//! Tables written by turns by SQLite and by us: each finds the other's whole, and the same rows,
//! ranks, highlights and snippets.
//!
//! `SHOAL_FTS_CASES=N` runs N cases of each kind of table; `SHOAL_FTS_SEED=N` begins with another.

use std::collections::BTreeMap;

use crate::support::{Dice, Shadow};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use shoal_text::{Content, Detail, Highlight, Query, Search, Setting, Snippet, Vocabulary};

const TABLES: &[&str] = &[
    "a, b",
    "a, b, prefix='1 3'",
    "a, b, detail=column",
    "a, b, detail=none, prefix=2",
    "a, b UNINDEXED, columnsize=0",
    "a, b, tokenize='porter unicode61 remove_diacritics 2'",
    "a, b, tokenize=trigram",
    "a, b, tokenize='trigram remove_diacritics 1', detail=column",
    "a, b, tokenize='trigram case_sensitive 1', detail=none",
    "a, b, tokenize='ascii tokenchars ''-_'''",
    "a, b, tokenize='unicode61 remove_diacritics 0 tokenchars ''-.'' separators ''x'''",
    "a, b, content=''",
    "a, b, content='', contentless_delete=1",
    "a, b, content=src, content_rowid=id",
];

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A table in SQLite that had all changes made by SQLite.
struct Reference {
    connection: Connection,
    is_external: bool,
    is_contentless: bool,
    has_tombstones: bool,
}

impl Reference {
    fn change(&self, sql: &str, rowid: i64, texts: &[String]) {
        let mut values = vec![Value::Integer(rowid)];
        values.extend(texts.iter().map(|text| Value::Text(text.clone())));
        self.connection.prepare_cached(sql).unwrap().execute(params_from_iter(values)).unwrap();
    }

    fn insert(&self, rowid: i64, texts: &[String]) {
        if self.is_external {
            self.change("INSERT INTO src(id, a, b) VALUES (?1, ?2, ?3)", rowid, texts);
        }
        self.change("INSERT INTO t(rowid, a, b) VALUES (?1, ?2, ?3)", rowid, texts);
    }

    fn delete(&self, rowid: i64, texts: &[String]) {
        if self.is_external || self.is_contentless && !self.has_tombstones {
            let sql = "INSERT INTO t(t, rowid, a, b) VALUES ('delete', ?1, ?2, ?3)";
            self.change(sql, rowid, texts);
        } else {
            self.change("DELETE FROM t WHERE rowid = ?1", rowid, &[]);
        }
        if self.is_external {
            self.change("DELETE FROM src WHERE id = ?1", rowid, &[]);
        }
    }
}

fn open(path: &std::path::Path, options: &str, settings: &[(&str, i64)]) -> Reference {
    let connection = Connection::open(path).unwrap();
    connection.set_prepared_statement_cache_capacity(100);
    let is_external = options.contains("content=src");
    connection.execute_batch("PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY").unwrap();
    if is_external {
        connection.execute_batch("CREATE TABLE src(id INTEGER PRIMARY KEY, a, b)").unwrap();
    }
    connection.execute_batch(&format!("CREATE VIRTUAL TABLE t USING fts5({options})")).unwrap();
    for (name, value) in settings {
        connection.execute("INSERT INTO t(t, rank) VALUES (?1, ?2)", (name, value)).unwrap();
    }
    Reference {
        connection,
        is_external,
        is_contentless: options.contains("content=''"),
        has_tombstones: options.contains("contentless_delete"),
    }
}

#[test]
fn either_goes_on_where_the_other_left_off() {
    let (cases, seed) = (number("SHOAL_FTS_CASES", 1), number("SHOAL_FTS_SEED", 1));
    let mut counts = Counts::default();
    for case in seed..seed + cases {
        for options in TABLES {
            run(options, case, &mut counts);
        }
    }
    println!("{counts:?}");
    assert!(counts.rows > 0 && counts.faults > 0 && counts.snippets > 0);
}

#[derive(Debug, Default)]
struct Counts {
    batches: usize,
    changes: usize,
    queries: usize,
    faults: usize,
    rows: usize,
    ranks: usize,
    snippets: usize,
}

fn run(options: &str, case: u64, counts: &mut Counts) {
    let mut dice = Dice::new(case * 1000 + options.len() as u64);
    let place = tempfile::tempdir().unwrap();
    let settings = [
        ("pgsz", *dice.of(&[32, 64, 128, 600, 4050])),
        ("automerge", *dice.of(&[0, 2, 4, 8])),
        ("crisismerge", *dice.of(&[4, 8, 16])),
        ("hashsize", *dice.of(&[300, 5000, 1_000_000])),
    ];
    let path = place.path().join("file");
    let theirs = open(&path, options, &settings);
    let reference = open(std::path::Path::new(":memory:"), options, &settings);
    let ours = Shadow::open(&path, options);
    let mut documents: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    for batch in 0..10 {
        let told = format!("case {case}, {options}, batch {batch}, {settings:?}");
        counts.batches += 1;
        let count = *dice.of(&[1, 5, 30, 60]);
        let is_ours = dice.below(3) > 0;
        let mut writer = is_ours.then(|| {
            ours.connection.execute_batch("BEGIN").unwrap();
            ours.writer()
        });
        if writer.is_none() {
            theirs.connection.execute_batch("BEGIN").unwrap();
        }
        for _ in 0..count {
            counts.changes += 1;
            if let Some(writer) = &mut writer
                && dice.below(12) == 0
            {
                undone(&ours, writer, &mut dice, &documents);
            }
            let known: Vec<i64> = documents.keys().copied().collect();
            let is_change = !known.is_empty() && dice.below(3) == 0;
            let mut rowid = known.last().map_or(1, |last| last + 1 + dice.below(40) as i64);
            if dice.below(15) == 0 {
                rowid = dice.below(1 << 20) as i64 - (1 << 19);
            }
            if is_change || documents.contains_key(&rowid) {
                if is_change {
                    rowid = *dice.of(&known);
                }
                let texts = documents.remove(&rowid).unwrap();
                reference.delete(rowid, &texts);
                match &mut writer {
                    Some(writer) => {
                        ours.delete(writer, rowid, &texts);
                        if theirs.is_external {
                            ours.connection
                                .execute("DELETE FROM src WHERE id = ?1", [rowid])
                                .unwrap();
                        }
                    }
                    None => theirs.delete(rowid, &texts),
                }
                if dice.below(2) == 0 {
                    continue;
                }
            }
            let length = *dice.of(&[0, 1, 5, 20, 200]);
            let second = dice.below(12);
            let texts = vec![dice.text(length), dice.text(second)];
            reference.insert(rowid, &texts);
            match &mut writer {
                Some(writer) => {
                    if theirs.is_external {
                        let sql = "INSERT INTO src VALUES (?1, ?2, ?3)";
                        let row = (rowid, &texts[0], &texts[1]);
                        ours.connection.execute(sql, row).unwrap();
                    }
                    ours.insert(writer, rowid, &texts);
                }
                None => theirs.insert(rowid, &texts),
            }
            documents.insert(rowid, texts);
        }
        if let Some(mut writer) = writer {
            if dice.below(4) == 0 {
                let (command, pages) =
                    *dice.of(&[("optimize", 0), ("merge", 3), ("merge", 500), ("merge", -2)]);
                let value = Setting::Integer(pages);
                writer.command(&ours, &ours.definition, command, Some(&value)).expect(&told);
            }
            writer.flush(&ours).expect(&told);
            ours.connection.execute_batch("COMMIT").unwrap();
        } else {
            theirs.connection.execute_batch("COMMIT").unwrap();
            if dice.below(4) == 0 {
                let pages = *dice.of(&[2, 10, -2]);
                let sql = "INSERT INTO t(t, rank) VALUES ('merge', ?1)";
                theirs.connection.execute(sql, [pages]).unwrap();
            }
        }
        for kind in ["instance", "row", "col"] {
            vocabulary(&ours, &theirs, kind, &told);
        }
        let check = "INSERT INTO t(t, rank) VALUES ('integrity-check', 1)";
        theirs.connection.execute(check, []).unwrap_or_else(|fault| panic!("{told}: {fault}"));
        let value = Setting::Integer(1);
        let mut checker = ours.writer();
        checker
            .command(&ours, &ours.definition, "integrity-check", Some(&value))
            .unwrap_or_else(|fault| panic!("{told}: {fault}"));
        for _ in 0..25 {
            let text = dice.query(3);
            compare(&ours, &reference, &text, &mut dice, counts, &told);
        }
    }
}

/// The terms of the file, asked of SQLite and of us.
fn vocabulary(ours: &Shadow, theirs: &Reference, kind: &str, told: &str) {
    let sql = format!(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.v_{kind} USING fts5vocab(main, t, {kind})"
    );
    theirs.connection.execute_batch(&sql).unwrap();
    let sql = format!("SELECT * FROM temp.v_{kind}");
    let mut statement = theirs.connection.prepare_cached(&sql).unwrap();
    let count = statement.column_count();
    let rows = statement.query_map([], |row| {
        (0..count).map(|at| row.get::<_, Value>(at)).collect::<rusqlite::Result<Vec<Value>>>()
    });
    let theirs: Vec<Vec<Value>> = rows.and_then(Iterator::collect).unwrap();
    let definition = &ours.definition;
    let name = |column: Option<usize>| {
        column.map_or(Value::Null, |at| Value::Text(definition.columns[at].name.clone()))
    };
    let rows = Vocabulary::named(kind).unwrap().rows(ours, definition, None, None).expect(told);
    let rows: Vec<Vec<Value>> = rows
        .into_iter()
        .map(|row| {
            let term = Value::Text(String::from_utf8(row.term).unwrap());
            let documents = Value::Integer(row.documents);
            let places = row.places.map_or(Value::Null, Value::Integer);
            match kind {
                "row" => vec![term, documents, places],
                "col" => vec![term, name(row.column), documents, places],
                _ => vec![term, documents, name(row.column), places],
            }
        })
        .collect();
    for (ours, theirs) in rows.iter().zip(&theirs) {
        assert_eq!(ours, theirs, "{told}, {kind}");
    }
    assert_eq!(rows.len(), theirs.len(), "{told}, {kind}");
}

/// Changes that are taken back, with the shadow tables.
fn undone(
    ours: &Shadow,
    writer: &mut shoal_text::Writer,
    dice: &mut Dice,
    documents: &BTreeMap<i64, Vec<String>>,
) {
    let moment = writer.savepoint();
    ours.connection.execute_batch("SAVEPOINT s").unwrap();
    let texts = vec![dice.text(30), dice.text(2)];
    let last = documents.keys().last().copied().unwrap_or(0);
    for at in 1..4 {
        ours.insert(writer, last + at, &texts);
    }
    if let Some((&rowid, texts)) = documents.iter().nth(dice.below(documents.len().max(1))) {
        ours.delete(writer, rowid, texts);
    }
    if dice.below(2) == 0 {
        writer.flush(ours).unwrap();
    }
    ours.connection.execute_batch("ROLLBACK TO s; RELEASE s").unwrap();
    writer.rollback_to(moment);
    if dice.below(2) == 0 {
        writer.release(moment);
    }
}

fn compare(
    ours: &Shadow,
    reference: &Reference,
    text: &str,
    dice: &mut Dice,
    counts: &mut Counts,
    told: &str,
) {
    counts.queries += 1;
    let told = format!("{told}, query {text}");
    let theirs: Result<Vec<(i64, f64)>, String> = reference
        .connection
        .prepare_cached("SELECT rowid, bm25(t, 2.5, 0.5) FROM t WHERE t MATCH ?1 ORDER BY rowid")
        .unwrap()
        .query_map([text], |row| Ok((row.get(0)?, row.get(1)?)))
        .and_then(Iterator::collect)
        .map_err(message);
    let query = match (Query::parse(&ours.definition, text, None), &theirs) {
        (Ok(query), Ok(_)) => query,
        (Err(ours), Err(theirs)) => {
            assert_eq!(&ours.to_string(), theirs, "{told}");
            counts.faults += 1;
            return;
        }
        (ours, theirs) => panic!("{told}: ours {ours:?}, theirs {theirs:?}"),
    };
    let theirs = theirs.unwrap();
    // In rows that one side of an OR finds, SQLite counts some places of other sides, and forgets
    // some: queries with groups below an OR, or NEAR beside an operator, are compared by rows
    // alone.
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let has_groups = has(&[" AND ", " NOT ", "NEAR(", "\" \"", "* \"", "^", ":"]);
    let counts_places =
        !(has(&[" OR "]) && has_groups || has(&["NEAR("]) && has(&[" AND ", " NOT "]));
    let definition = &ours.definition;
    let mut search = Search::open(ours, definition, &query).expect(&told);
    let mut rows = Vec::new();
    while let Some(row) = search.next(ours).expect(&told) {
        rows.push(row);
        let rank = search.bm25(ours, definition, &[2.5, 0.5]).expect(&told);
        let (rowid, wanted) = theirs[rows.len().min(theirs.len()) - 1];
        if rowid == row && counts_places {
            assert!((rank - wanted).abs() <= 1e-12 * wanted.abs(), "{told}: {rank} {wanted}");
            counts.ranks += 1;
        }
    }
    assert_eq!(rows, theirs.iter().map(|row| row.0).collect::<Vec<_>>(), "{told}");
    counts.rows += rows.len();
    if !counts_places {
        return;
    }
    if definition.has_sizes || definition.detail == Detail::Full {
        best(ours, reference, &query, text, dice, &told);
    }
    if definition.content != Content::Nowhere {
        marked(ours, reference, &query, text, dice, counts, &told);
    }
}

fn message(error: rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message,
        other => other.to_string(),
    }
}

fn best(
    ours: &Shadow,
    reference: &Reference,
    query: &Query,
    text: &str,
    dice: &mut Dice,
    told: &str,
) {
    let limit = 1 + dice.below(12);
    let sql = "SELECT rowid, rank FROM t WHERE t MATCH ?1 ORDER BY rank, rowid LIMIT ?2";
    let theirs: Vec<(i64, f64)> = reference
        .connection
        .prepare_cached(sql)
        .unwrap()
        .query_map((text, limit as i64), |row| Ok((row.get(0)?, row.get(1)?)))
        .and_then(Iterator::collect)
        .unwrap();
    let mut search = Search::open(ours, &ours.definition, query).unwrap();
    let best = search.best(ours, &ours.definition, &[], Some(limit)).unwrap();
    assert_eq!(best.len(), theirs.len(), "{told}");
    for ((rank, _), (_, wanted)) in best.iter().zip(&theirs) {
        assert!((rank - wanted).abs() <= 1e-12 * wanted.abs(), "{told}: {best:?} {theirs:?}");
    }
}

fn marked(
    ours: &Shadow,
    reference: &Reference,
    query: &Query,
    text: &str,
    dice: &mut Dice,
    counts: &mut Counts,
    told: &str,
) {
    let tokens = *dice.of(&[1, 3, 8, 20, 64]);
    let column = *dice.of(&[-1, 0, 1]);
    let sql = "SELECT rowid, highlight(t, 0, '<', '>'), snippet(t, ?2, '[', ']', '..', ?3)
               FROM t WHERE t MATCH ?1 ORDER BY rowid LIMIT 20";
    let theirs: Vec<(i64, String, String)> = reference
        .connection
        .prepare_cached(sql)
        .unwrap()
        .query_map((text, column, tokens), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .and_then(Iterator::collect)
        .expect(told);
    let mut search = Search::open(ours, &ours.definition, query).unwrap();
    for (rowid, highlight, snippet) in theirs {
        assert_eq!(search.next(ours).unwrap(), Some(rowid));
        let arguments = Highlight { column: 0, open: b"<", close: b">" };
        let marked = search.highlight(ours, &ours.definition, &arguments).unwrap().unwrap();
        assert_eq!(String::from_utf8(marked).unwrap(), highlight, "{told}");
        let (open, close, ellipsis) = (b"[".as_slice(), b"]".as_slice(), b"..".as_slice());
        let arguments = Snippet { column, open, close, ellipsis, tokens };
        let marked = search.snippet(ours, &ours.definition, &arguments).unwrap().unwrap();
        assert_eq!(String::from_utf8_lossy(&marked), snippet, "{told}, {column}, {tokens}");
        counts.snippets += 1;
    }
}
