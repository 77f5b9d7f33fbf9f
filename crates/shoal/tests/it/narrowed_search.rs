//! `MATCH`, ranks, snippets and nearest neighbours under rules: the same answers and errors as from
//! a copy of the file without hidden rows and columns.

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use shoal::{Database, Environment};
use shoal_sql::{Connection, Entitlement, Error, Limits, Narrowed, TableRule, Value};

/// Rows of an answer, or the words of the error.
type Answer = Result<Vec<Vec<Value>>, String>;

fn memory(script: &str) -> Connection {
    let mut connection = Database::memory(Environment::os()).unwrap().into_sql();
    run(&mut connection, script).unwrap();
    connection
}

fn run(connection: &mut Connection, script: &str) -> Result<(), Error> {
    for range in shoal_sql::Statements::new(script) {
        let mut statement = connection.prepare(&script[range])?;
        connection.execute(&mut statement)?;
    }
    Ok(())
}

fn narrowed(script: &str, rules: impl IntoIterator<Item = TableRule>) -> Narrowed {
    let mut entitlement = Entitlement::new("ada");
    rules.into_iter().try_for_each(|rule| entitlement.allow(rule)).unwrap();
    memory(script).narrowed(entitlement).unwrap()
}

fn ask(connection: &mut Connection, sql: &str) -> Answer {
    let told = |error: Error| error.to_string();
    let mut statement = connection.prepare(sql).map_err(told)?;
    let mut rows = connection.query(&mut statement).map_err(told)?;
    let mut all = Vec::new();
    while let Some(row) = rows.next().map_err(told)? {
        all.push(row.values().map(Value::from).collect());
    }
    Ok(all)
}

fn ask_narrowed(connection: &mut Narrowed, sql: &str) -> Answer {
    let told = |error: Error| error.to_string();
    let mut statement = connection.prepare(sql).map_err(told)?;
    let mut rows = connection.query(&mut statement).map_err(told)?;
    let mut all = Vec::new();
    while let Some(row) = rows.next().map_err(told)? {
        all.push(row.values().map(Value::from).collect());
    }
    Ok(all)
}

/// A row of `note`, `t` and `v`.
#[derive(Clone, Debug)]
struct Row {
    is_visible: bool,
    title: String,
    body: String,
    /// A query of FTS5; those of hidden rows are malformed, and tell of the row by failing.
    word: String,
    place: [i8; 2],
    kind: u8,
}

fn words(most: usize) -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec!["ada", "beta", "gamma", "engine", "engines", "zeta", "a"]);
    prop::collection::vec(word, 0..most).prop_map(|words| words.join(" "))
}

fn row() -> impl Strategy<Value = Row> {
    let word = prop::sample::select(vec!["ada", "beta OR zeta", "engine*", "gam*", "nothing"]);
    let hidden = prop::sample::select(vec!["\"", "ada AND", "zz: ada", "(("]);
    (any::<bool>(), words(4), words(9), word, hidden, any::<[i8; 2]>(), 0..3_u8).prop_map(
        |(is_visible, title, body, word, hidden, place, kind)| {
            let word = if is_visible { word } else { hidden }.to_owned();
            Row { is_visible, title, body, word, place, kind }
        },
    )
}

/// The file with everything, and the one without what is hidden.
fn scripts(rows: &[Row], tokens: &str) -> [String; 2] {
    let mut whole = format!(
        "CREATE TABLE note(id INTEGER PRIMARY KEY, owner TEXT, title TEXT, word TEXT);
         CREATE VIRTUAL TABLE t USING fts5(secret, title, owner UNINDEXED, body{tokens});
         CREATE VIRTUAL TABLE v USING vec0(place float[2], owner text, kind integer partition key,
             bits bit[8], +hint text, chunk_size=8);
         CREATE VIRTUAL TABLE r USING rtree(id, low, high, +owner);"
    );
    let mut copy = format!(
        "CREATE TABLE note(id INTEGER PRIMARY KEY, title TEXT, word TEXT);
         CREATE VIRTUAL TABLE t USING fts5(title, body{tokens});
         CREATE VIRTUAL TABLE v USING vec0(place float[2], kind integer partition key, bits bit[8],
             chunk_size=8);
         CREATE VIRTUAL TABLE r USING rtree(id, low, high);"
    );
    for (place, row) in rows.iter().enumerate() {
        let Row { is_visible, title, body, word, place: [x, y], kind } = row;
        let (id, owner) = (place + 1, if *is_visible { "ada" } else { "bob" });
        let bits = *x as u8;
        whole += &format!(
            "INSERT INTO note VALUES ({id}, '{owner}', '{title}', '{word}');
             INSERT INTO t(rowid, secret, title, owner, body)
                 VALUES ({id}, 'ada ada {body}', '{title}', '{owner}', '{body}');
             INSERT INTO v(rowid, place, owner, kind, bits, hint) VALUES
                 ({id}, '[{x}, {y}]', '{owner}', {kind}, vec_bit(x'{bits:02x}'), 'SECRET');
             INSERT INTO r VALUES ({id}, {x}, {}, '{owner}');",
            i32::from(*x) + 3,
        );
        if *is_visible {
            copy += &format!(
                "INSERT INTO note VALUES ({id}, '{title}', '{word}');
                 INSERT INTO t(rowid, title, body) VALUES ({id}, '{title}', '{body}');
                 INSERT INTO v(rowid, place, kind, bits) VALUES
                     ({id}, '[{x}, {y}]', {kind}, vec_bit(x'{bits:02x}'));
                 INSERT INTO r VALUES ({id}, {x}, {});",
                i32::from(*x) + 3,
            );
        }
    }
    [whole, copy]
}

fn rules() -> [TableRule; 4] {
    let mine = "owner = :principal";
    [
        TableRule::of("note").columns(["id", "title", "word"]).rows(mine),
        TableRule::of("t").columns(["rowid", "title", "body"]).rows(mine),
        TableRule::of("v").columns(["rowid", "place", "kind", "bits"]).rows(mine),
        TableRule::of("r").columns(["id", "low", "high"]).rows(mine),
    ]
}

/// Queries; `W` stands for a query of FTS5, `V` for a vector.
const QUERIES: &[&str] = &[
    "SELECT rowid, * FROM t WHERE t MATCH W ORDER BY rowid",
    "SELECT rowid, bm25(t), rank FROM t WHERE t MATCH W ORDER BY rank, rowid",
    "SELECT rowid, bm25(t, 2.0, 0.5) FROM t WHERE t MATCH W ORDER BY 2, rowid LIMIT 3",
    "SELECT rowid, snippet(t, -1, '[', ']', '~', 3), highlight(t, 1, '<', '>') FROM t \
     WHERE t MATCH W ORDER BY rowid",
    "SELECT rowid, rank FROM t(W) ORDER BY rank, rowid",
    "SELECT count(*) FROM t WHERE t = W",
    "SELECT rowid FROM t WHERE body MATCH W AND title LIKE '%a%' ORDER BY rowid DESC",
    "SELECT rowid, rank FROM t ORDER BY rowid",
    "SELECT rowid, \"rank\" FROM t ORDER BY rowid",
    "SELECT rowid FROM t WHERE secret MATCH W",
    "SELECT rowid FROM t WHERE t MATCH 'secret: ada'",
    "SELECT secret FROM t WHERE t MATCH W",
    "SELECT owner FROM t WHERE t MATCH W",
    "SELECT owner, rank FROM t",
    "SELECT nosuch FROM t WHERE t MATCH W",
    "SELECT bm25(note) FROM note",
    "SELECT bm25(t) FROM note",
    "SELECT n.id, n.title, t.rank FROM note n JOIN t ON t.rowid = n.id WHERE t MATCH W \
     ORDER BY t.rank, n.id",
    "SELECT n.id, (SELECT count(*) FROM t WHERE t MATCH W AND t.rowid >= n.id) FROM note n \
     ORDER BY n.id",
    "SELECT id FROM note WHERE id IN (SELECT rowid FROM t WHERE t MATCH W) ORDER BY id",
    "SELECT n.id, t.rowid FROM note n, t WHERE t MATCH n.word ORDER BY 1, 2",
    "SELECT n.id FROM note n WHERE EXISTS (SELECT 1 FROM t WHERE t MATCH n.word) ORDER BY n.id",
    "SELECT n.id, (SELECT count(*) FROM t WHERE t MATCH n.word) FROM note n ORDER BY n.id",
    "SELECT a.rowid, b.rowid FROM t a JOIN t b ON a.rowid < b.rowid WHERE a.t MATCH W \
     AND b.t MATCH 'engine*' ORDER BY 1, 2",
    "WITH hit AS (SELECT rowid AS id, rank AS score FROM t WHERE t MATCH W) \
     SELECT note.title, hit.score FROM hit JOIN note USING (id) ORDER BY 2, 1",
    "SELECT rowid, distance FROM v WHERE place MATCH V AND k = 3",
    "SELECT rowid, distance, kind, hex(bits) FROM v WHERE place MATCH V AND k = 5 AND kind = 1",
    "SELECT rowid, distance FROM v WHERE place MATCH V ORDER BY distance LIMIT 2",
    "SELECT rowid, distance FROM v WHERE bits MATCH x'0f' AND k = 4",
    "SELECT rowid FROM v WHERE place MATCH V AND k = 3 AND owner = 'bob'",
    "SELECT hint FROM v WHERE place MATCH V AND k = 3",
    "SELECT distance FROM v ORDER BY 1",
    "SELECT count(*) FROM v WHERE place MATCH '[1, 2, 3]' AND k = 3",
    "SELECT n.title, v.distance FROM v JOIN note n ON n.id = v.rowid WHERE v.place MATCH V \
     AND v.k = 4 ORDER BY v.distance, n.id",
    "SELECT id, low FROM r WHERE low > -20 AND high < 60 ORDER BY id",
    "SELECT id FROM r WHERE id MATCH 'x'",
    "SELECT title FROM note WHERE title MATCH W",
];

#[test]
fn searches_answer_as_a_copy_without_what_is_hidden() {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(
        ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() },
        rng,
    );
    let queries = prop::sample::select(vec![
        "'ada'",
        "'engine'",
        "'engine*'",
        "'title: beta'",
        "'ada NOT gamma'",
        "'\"ada beta\"'",
        "'ada AND'",
        "'NEAR(ada engine, 2)'",
        "'zz: ada'",
        "'body: ada OR beta'",
    ]);
    let tokens = prop::sample::select(vec![
        "",
        ", tokenize='porter'",
        ", prefix='2'",
        ", detail=none",
        ", columnsize=0",
    ]);
    let case = (prop::collection::vec(row(), 0..14), tokens, queries, any::<[i8; 2]>());
    let answers = std::cell::Cell::new(0);
    runner
        .run(&case, |(rows, tokens, words, [x, y])| {
            let [whole, copy] = scripts(&rows, tokens);
            let mut narrowed = narrowed(&whole, rules());
            let mut copy = memory(&copy);
            for query in QUERIES {
                let sql = query.replace("W)", &format!("{words})"));
                let sql = sql.replace("MATCH W", &format!("MATCH {words}"));
                let sql = sql.replace("= W", &format!("= {words}"));
                let sql = sql.replace("MATCH V", &format!("MATCH '[{x}, {y}]'"));
                let (seen, wanted) = (ask_narrowed(&mut narrowed, &sql), ask(&mut copy, &sql));
                prop_assert_eq!(&seen, &wanted, "{}", sql);
                prop_assert!(!format!("{seen:?}").contains("SECRET"), "{}", sql);
                answers.set(answers.get() + seen.map_or(0, |rows| rows.len()));
            }
            Ok(())
        })
        .unwrap();
    assert!(answers.get() > 1000, "only {} rows of answers", answers.get());
}

const NOTES: &str = "
    CREATE TABLE note(id INTEGER PRIMARY KEY, owner TEXT);
    INSERT INTO note VALUES (1, 'ada'), (2, 'bob'), (3, 'ada');
    CREATE VIRTUAL TABLE t USING fts5(body, content='');
    INSERT INTO t(rowid, body) VALUES (1, 'one engine'), (2, 'two engines'), (3, 'engine');
    CREATE VIRTUAL TABLE own USING fts5(body);
    INSERT INTO own(rowid, body) VALUES (1, 'one engine'), (2, 'zz engine'), (3, 'engine engine');
    CREATE VIRTUAL TABLE keyed USING vec0(id text primary key, place float[1]);
    INSERT INTO keyed(id, place) VALUES ('a', '[1]'), ('zz', '[2]'), ('c', '[3]');";

#[test]
fn a_table_granted_as_a_whole_is_searched_itself() {
    let mut seen = narrowed(NOTES, [TableRule::of("t"), TableRule::of("own")]);
    let mut whole = memory(NOTES);
    for sql in [
        "SELECT rowid, rank FROM t WHERE t MATCH 'engine' ORDER BY rank",
        "SELECT rowid, bm25(own), highlight(own, 0, '[', ']') FROM own WHERE own MATCH 'engine'",
        "SELECT rowid FROM t('two')",
    ] {
        let answer = ask_narrowed(&mut seen, sql);
        assert_eq!(answer, ask(&mut whole, sql), "{sql}");
        assert!(!answer.unwrap().is_empty(), "{sql}");
    }
}

#[test]
fn what_cannot_be_searched_says_so() {
    let mine = "rowid IN (SELECT id FROM note WHERE owner = :principal)";
    let mut seen =
        narrowed(NOTES, [TableRule::of("t").rows(mine), TableRule::of("own").rows(mine)]);
    let error = ask_narrowed(&mut seen, "SELECT rowid FROM t WHERE t MATCH 'one'").unwrap_err();
    assert!(error.contains("t keeps no texts"), "{error}");
    let limits = Limits { memory_bytes: Some(8 << 10), ..Limits::default() };
    seen.set_limits(limits);
    let sql = "SELECT rowid FROM own WHERE own MATCH 'engine'";
    let error = ask_narrowed(&mut seen, sql).unwrap_err();
    assert!(error.contains("the visible rows of own need more"), "{error}");
    seen.set_limits(Limits::default());
    assert_eq!(ask_narrowed(&mut seen, sql).unwrap().len(), 2);
    // Without MATCH the rows are read where they are.
    seen.set_limits(limits);
    assert_eq!(ask_narrowed(&mut seen, "SELECT body FROM own").unwrap().len(), 2);
}

#[test]
fn rows_numbered_anew_have_no_rowids() {
    let rule = TableRule::of("keyed").rows("id <> 'zz'");
    let mut seen = narrowed(NOTES, [rule]);
    let sql = "SELECT id, distance FROM keyed WHERE place MATCH '[2]' AND k = 3 ORDER BY id";
    let (a, c) = (Value::text("a"), Value::text("c"));
    let one = Value::Real(1.0);
    assert_eq!(ask_narrowed(&mut seen, sql), Ok(vec![vec![a, one.clone()], vec![c, one]]));
    let sql = "SELECT rowid FROM keyed WHERE place MATCH '[2]' AND k = 3";
    assert_eq!(ask_narrowed(&mut seen, sql), Err("no such column: rowid".to_owned()));
}

#[test]
fn masks_are_searched_in_the_place_of_columns() {
    let rule = TableRule::of("own").mask("body", "substr(body, 1, 3)");
    let mut seen = narrowed(NOTES, [rule]);
    let mut found = |word: &str| {
        let sql = format!("SELECT rowid FROM own WHERE own MATCH '{word}' ORDER BY rowid");
        ask_narrowed(&mut seen, &sql).unwrap().len()
    };
    assert_eq!((found("engine"), found("eng"), found("one"), found("zz")), (0, 1, 1, 1));
}

#[test]
fn a_search_sees_the_state_of_its_statement() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.db");
    let open = || {
        let access = shoal::Access::Create;
        Database::open(Environment::os(), &path, access).unwrap().into_sql()
    };
    let mut owner = open();
    run(&mut owner, NOTES).unwrap();
    let mut entitlement = Entitlement::new("ada");
    let mine = "rowid IN (SELECT id FROM note WHERE owner = :principal)";
    entitlement.allow(TableRule::of("own").rows(mine)).unwrap();
    let task = TableRule::of("note").update(shoal_sql::WrittenColumns::Visible);
    entitlement.allow(task).unwrap();
    let mut seen = open().narrowed(entitlement).unwrap();
    let found = |seen: &mut Narrowed| {
        let sql = "SELECT rowid FROM own WHERE own MATCH 'engine' ORDER BY rowid";
        ask_narrowed(seen, sql).unwrap().into_iter().flatten().collect::<Vec<_>>()
    };
    let ints = |ints: &[i64]| ints.iter().map(|it| Value::Int(*it)).collect::<Vec<_>>();
    assert_eq!(found(&mut seen), ints(&[1, 3]));
    assert_eq!(found(&mut seen), ints(&[1, 3]));
    run(&mut owner, "UPDATE own SET body = 'a motor' WHERE rowid = 3").unwrap();
    assert_eq!(found(&mut seen), ints(&[1]));
    // A transaction's own changes move the predicate.
    for (sql, after) in [
        ("BEGIN IMMEDIATE", &[1_i64][..]),
        ("UPDATE note SET owner = 'ada' WHERE id = 2", &[1, 2]),
        ("ROLLBACK", &[1]),
    ] {
        let mut statement = seen.prepare(sql).unwrap();
        seen.execute(&mut statement).unwrap();
        assert_eq!(found(&mut seen), ints(after), "{sql}");
    }
}
