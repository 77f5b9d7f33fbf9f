//! `shoal import` and `shoal export`: rows survive the round trip; errors name their place and
//! leave the database as it was.

use std::io::Write;
use std::path::Path;

use crate::{copy, shoal, shoal_with, sqlite3};

fn put(dir: &Path, name: &str, text: &[u8]) {
    std::fs::write(dir.join(name), text).unwrap();
}

fn ask(dir: &Path, file: &str, sql: &str) -> String {
    shoal(dir, &["sql", file, "--format", "list", sql]).ok()
}

const PEOPLE: &[u8] = b"\xef\xbb\xbfid,name,zip,score,note\r\n1,Ann,02134,1.5,\"a \"\"b\"\"\"\r\n\
    2,\"Bo, jr\",10001,,\"two\r\nlines\"\r\n3,\xc3\x89ve,00501,-2,\r\n";

#[test]
fn csv_gets_the_types_that_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "people.csv", PEOPLE);
    let told = shoal(dir.path(), &["import", "people.csv", "p.db"]);
    assert!(told.stderr.contains("people: 3 rows"), "{}", told.stderr);
    assert_eq!(told.ok(), "");
    let sql = "SELECT sql FROM sqlite_schema";
    let table = "CREATE TABLE \"people\"(\n\"id\" INTEGER, \"name\" TEXT, \"zip\" TEXT, \
                 \"score\" REAL, \"note\" TEXT)\n";
    assert_eq!(ask(dir.path(), "p.db", sql), table);
    let sql = "SELECT id, name, zip, score, quote(note), typeof(score) FROM people";
    assert_eq!(
        ask(dir.path(), "p.db", sql),
        "1|Ann|02134|1.5|'a \"b\"'|real\n2|Bo, jr|10001||'two\r\nlines'|null\n\
         3|Éve|00501|-2.0|''|real\n"
    );
    if let Some(verdict) = sqlite3(dir.path(), &["p.db", "PRAGMA integrity_check"], b"") {
        assert_eq!(verdict.ok(), "ok\n");
    }
    // A second import adds rows, by the names of the columns.
    put(dir.path(), "more.csv", b"name,id\nDo,4\n");
    shoal(dir.path(), &["import", "more.csv", "p.db", "people"]).ok();
    assert_eq!(ask(dir.path(), "p.db", "SELECT * FROM people WHERE id = 4"), "4|Do|||\n");
}

/// Types are those of all values, also where a file's first megabyte says otherwise; the database
/// is as if the whole had been looked at first.
#[test]
fn values_far_behind_the_beginning_change_the_types() {
    let dir = tempfile::tempdir().unwrap();
    let mut text = b"whole,real,large,late,code\n".to_vec();
    for row in 0..60_000 {
        text.extend_from_slice(format!("{row},{row}.5,{row}.5,,{row:07}\n").as_bytes());
    }
    put(dir.path(), "plain.csv", &text);
    text.extend_from_slice(b"0.25,7,9007199254740993,12,x\n\"3\",2,2,,\"a\nb\"\n");
    put(dir.path(), "t.csv", &text);
    let sql = "SELECT sql FROM sqlite_schema";
    for (file, name, expect) in [
        ("plain.csv", "plain", "INTEGER, \"real\" REAL, \"large\" REAL, \"late\" TEXT"),
        ("t.csv", "t", "REAL, \"real\" REAL, \"large\" TEXT, \"late\" INTEGER"),
    ] {
        let told = shoal(dir.path(), &["import", file, "a.db"]);
        assert_eq!(told.ok(), "");
        let table = format!("CREATE TABLE \"{name}\"(\n\"whole\" {expect}, \"code\" TEXT)\n");
        assert!(ask(dir.path(), "a.db", sql).contains(&table), "{}", ask(dir.path(), "a.db", sql));
    }
    let sql =
        "SELECT count(*), sum(whole), max(real), max(large), max(late), sum(length(code)) FROM t";
    let sums = "60002|1799970003.25|59999.5|9999.5|12|420004\n";
    assert_eq!(ask(dir.path(), "a.db", sql), sums);
    let last = "SELECT rowid, whole, real, large, late, code FROM t WHERE rowid > 60000";
    let rows = "60001|0.25|7.0|9007199254740993|12|x\n60002|3.0|2.0|2||a\nb\n";
    assert_eq!(ask(dir.path(), "a.db", last), rows);
    // A type said by the user stays, and its fault is told with its line.
    let told = shoal(dir.path(), &["import", "t.csv", "a.db", "u", "--types", "whole=integer"]);
    assert!(told.stderr.contains("line 60002, column whole"), "{}", told.stderr);
    assert_eq!(ask(dir.path(), "a.db", "SELECT count(*) FROM sqlite_schema"), "2\n");
    if let Some(verdict) = sqlite3(dir.path(), &["a.db", "PRAGMA integrity_check"], b"") {
        assert_eq!(verdict.ok(), "ok\n");
    }
}

#[test]
fn every_option_of_import() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "a.txt", b"1;x\n2;y\n");
    let args = ["import", "a.txt", "a.db", "t", "--delimiter", ";", "--header", "no"];
    shoal(dir.path(), &args).ok();
    assert_eq!(ask(dir.path(), "a.db", "SELECT column1 + 1, column2 FROM t"), "2|x\n3|y\n");
    put(dir.path(), "b.tsv", b"n\tm\n1\t2\n");
    shoal(dir.path(), &["import", "b.tsv", "a.db", "--types", "n=text"]).ok();
    assert_eq!(ask(dir.path(), "a.db", "SELECT typeof(n), typeof(m) FROM b"), "text|integer\n");
    shoal(dir.path(), &["import", "b.tsv", "a.db", "--types", "text", "--table", "c"]).ok();
    assert_eq!(ask(dir.path(), "a.db", "SELECT typeof(n), typeof(m) FROM c"), "text|text\n");
    // Options stand before, between and behind the places.
    let between = ["import", "--header", "no", "b.tsv", "--types", "text", "a.db", "--table", "d"];
    shoal(dir.path(), &between).ok();
    assert_eq!(ask(dir.path(), "a.db", "SELECT column1, column2 FROM d"), "n|m\n1|2\n");
    let between = ["import", "b.tsv", "a.db", "--header", "no", "e"];
    shoal(dir.path(), &between).ok();
    assert_eq!(ask(dir.path(), "a.db", "SELECT count(*) FROM e"), "2\n");
    let alone = shoal(dir.path(), &["import", "b.tsv", "--header", "no"]);
    assert_eq!(alone.code, 2);
    assert!(alone.stderr.contains("b.tsv: which database gets the rows?"), "{alone:?}");
    let told = shoal_with(dir.path(), &["import", "-", "a.db", "s"], b"x,y\n1,2\n");
    assert_eq!(told.ok(), "");
    assert_eq!(ask(dir.path(), "a.db", "SELECT x + y FROM s"), "3\n");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(b"x\n5\n").unwrap();
    put(dir.path(), "z.csv.gz", &gzip.finish().unwrap());
    shoal(dir.path(), &["import", "z.csv.gz", "a.db"]).ok();
    assert_eq!(ask(dir.path(), "a.db", "SELECT x FROM z"), "5\n");
    // Missing and repeated names.
    put(dir.path(), "names.csv", b"a,,A,a\n1,2,3,4\n");
    shoal(dir.path(), &["import", "names.csv", "a.db"]).ok();
    let names = "SELECT group_concat(name) FROM pragma_table_info('names')";
    assert_eq!(ask(dir.path(), "a.db", names), "a,column2,A_2,a_3\n");
}

#[test]
fn json_in_lines_and_in_an_array() {
    let dir = tempfile::tempdir().unwrap();
    let lines = b"{\"a\":1,\"b\":\"x\"}\n{\"b\":\"y\",\"c\":[1,{\"d\":null}],\"a\":null}\n";
    put(dir.path(), "l.ndjson", lines);
    put(
        dir.path(),
        "l.json",
        b" [{\"a\":1,\"b\":\"x\"},\n{\"b\":\"y\",\"c\":[1,{\"d\":null}],\"a\":null}]",
    );
    let expect = "1|x|\n|y|[1,{\"d\":null}]\n";
    for (file, table) in [("l.ndjson", "one"), ("l.json", "two")] {
        shoal(dir.path(), &["import", file, "j.db", table]).ok();
        assert_eq!(ask(dir.path(), "j.db", &format!("SELECT a, b, c FROM {table}")), expect);
    }
    shoal_with(dir.path(), &["import", "-", "j.db", "three"], lines).ok();
    assert_eq!(ask(dir.path(), "j.db", "SELECT a, b, c FROM three"), expect);
    // Values keep their types where a column has several.
    put(dir.path(), "m.json", b"{\"v\":1}{\"v\":\"1\"}{\"v\":1.5}{\"v\":true}");
    shoal(dir.path(), &["import", "m.json", "j.db"]).ok();
    let types = "SELECT group_concat(typeof(v)) FROM m";
    assert_eq!(ask(dir.path(), "j.db", types), "integer,text,real,integer\n");
}

#[test]
fn an_error_names_its_place_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    let script = b"CREATE TABLE t(id INTEGER PRIMARY KEY, n INTEGER NOT NULL CHECK (n > 0));\
                   INSERT INTO t VALUES (7, 7);";
    shoal_with(path, &["sql", "e.db"], script).ok();
    let before = std::fs::read(path.join("e.db")).unwrap();
    let wrong = |text: &[u8], args: &[&str], expect: &str| {
        put(path, "w.csv", text);
        let mut all = vec!["import", "w.csv", "e.db"];
        all.extend(args);
        let error = shoal(path, &all).error();
        assert!(error.contains(expect), "{args:?}: {error}");
        assert_eq!(std::fs::read(path.join("e.db")).unwrap(), before, "{args:?}");
    };
    wrong(b"id,n\n1,2\n7,8\n", &["t"], "w.csv: line 3: UNIQUE constraint failed: t.id");
    wrong(b"id,n\n1,2\n8,-8\n", &["t"], "line 3: CHECK constraint failed");
    wrong(b"id,n\n1,2\n8,\n", &["t"], "line 3: NOT NULL constraint failed: t.n");
    wrong(b"id,m\n1,2\n", &["t"], "no column named m");
    wrong(b"a,b\n1,2\n3\n", &[], "line 3: 1 values where there are 2 columns");
    wrong(b"a,b\n1,2\n\"x\ny\",2,3\n", &[], "line 3: 3 values where there are 2 columns");
    wrong(b"a,b\n1,\xff\n", &[], "line 2, column b: not UTF-8");
    wrong(b"a\n1\nx\n", &["--types", "a=integer"], "line 3, column a: not of type INTEGER: \"x\"");
    wrong(b"a\n1\n", &["--types", "b=integer"], "--types names a column that is not there: b");
    wrong(b"", &[], "there is no row");
    wrong(b"\xff\xfea\0", &[], "UTF-16");
    wrong(b"{\"a\":1}\n{\"a\":", &["--format", "ndjson"], "line 2: an object that does not end");
    wrong(b"{\"a\":1}\n[1]", &["--format", "ndjson"], "line 2: a row is a JSON object");
    wrong(b"{\"z\":1}", &["t", "--format", "ndjson"], "no column for the member \"z\"");
    // A failed import into a new database leaves no file.
    shoal(path, &["import", "w.csv", "new.db", "--format", "csv", "--types", "q=text"]).error();
    assert!(!path.join("new.db").exists());
    assert!(shoal(path, &["import", "missing.csv", "e.db"]).error().contains("missing.csv"));
    assert_eq!(shoal_with(path, &["import", "-", "e.db"], b"a\n1\n").code, 2);
    // A failure keeps the batches committed before.
    put(path, "b.csv", b"id,n\n1,1\n2,2\n3,3\n4,0\n");
    shoal(path, &["import", "b.csv", "e.db", "t", "--batch", "2"]).error();
    assert_eq!(ask(path, "e.db", "SELECT group_concat(id) FROM t"), "1,2,7\n");
}

#[test]
fn defaults_and_tables_without_rowid() {
    let dir = tempfile::tempdir().unwrap();
    let script =
        b"CREATE TABLE d(a TEXT PRIMARY KEY, b DEFAULT 'none', c AS (a || b)) WITHOUT ROWID;";
    shoal_with(dir.path(), &["sql", "d.db"], script).ok();
    put(dir.path(), "d.csv", b"a\nx\ny\n");
    shoal(dir.path(), &["import", "d.csv", "d.db"]).ok();
    assert_eq!(ask(dir.path(), "d.db", "SELECT * FROM d"), "x|none|xnone\ny|none|ynone\n");
}

#[test]
fn what_is_exported_is_imported_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    copy(path, "sqlite/chinook.sqlite", "c.db");
    let sum = "SELECT count(*), sum(length(Name)), sum(Milliseconds), sum(UnitPrice) FROM Track";
    let expect = ask(path, "c.db", sum);
    for file in ["Track.csv", "Track.tsv", "Track.ndjson", "Track.json", "Track.csv.gz"] {
        shoal(path, &["export", "c.db", "Track", "-o", file]).ok();
        let table = format!("t{}", file.replace('.', "_"));
        shoal(path, &["import", file, "back.db", &table]).ok();
        assert_eq!(ask(path, "back.db", &sum.replace("Track", &table)), expect, "{file}");
    }
    let sql = shoal(path, &["export", "c.db", "Genre", "--format", "sql"]).ok();
    shoal_with(path, &["sql", "sql.db"], sql.as_bytes()).ok();
    assert_eq!(ask(path, "sql.db", "SELECT count(*) FROM Genre"), "25\n");
    let query = ["export", "c.db", "--query", "SELECT 1 AS a, 'x,\"y' AS b, NULL AS c"];
    assert_eq!(shoal(path, &query).ok(), "a,b,c\n1,\"x,\"\"y\",\n");
    // A failed export leaves the old file in place.
    put(path, "old.csv", b"old");
    shoal(path, &["export", "c.db", "nosuch", "-o", "old.csv"]).error();
    assert_eq!(std::fs::read(path.join("old.csv")).unwrap(), b"old");
    shoal(path, &["export", "c.db", "--query", "DELETE FROM Genre"]).error();
    let left = std::fs::read_dir(path).unwrap().filter_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        name.ends_with(".part").then_some(name)
    });
    assert_eq!(left.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn the_shell_imports_as_sqlite3_does() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    put(path, "i.csv", b"a,b,c\n1,\"x, y\",3\n2,\"q\"\"q\"\n3,\"multi\nline\",5,6\n007,,\n");
    let script = b".mode csv\n.import i.csv imp\n.schema imp\nSELECT * FROM imp;\n\
        CREATE TABLE e(x INT, y);\n.import --skip 1 i.csv e\nSELECT *, typeof(x) FROM e;\n\
        .mode list\n.import i.csv whole\nSELECT * FROM whole;\n\
        .import --csv \"|cat i.csv\" piped\nSELECT count(*) FROM piped;\n";
    let ours = shoal_with(path, &["sql", "ours.db"], script);
    assert!(ours.stderr.contains("i.csv:3: expected 3 columns but found 2"), "{}", ours.stderr);
    // After an import in csv mode rows end as the lines of the file did.
    assert!(ours.stdout.contains("2,\"q\"\"q\",\n"), "{}", ours.stdout);
    if let Some(theirs) = sqlite3(path, &["theirs.db"], script) {
        assert_eq!(ours.stdout, theirs.stdout);
    }
}

const MIXED: &str = "CREATE TABLE t(i, r, s, b, m, n, \"i\u{e9}\", big);
    INSERT INTO t VALUES(1, 1.5, 'a', x'00ff', 'text', NULL, 1, 9007199254740993),
                        (NULL, 2, '', NULL, 7, NULL, 2.5, 0.5), (-3, NULL, NULL, 'b', 0.5, NULL, NULL, NULL);";

#[cfg(feature = "columnar")]
#[test]
fn columns_keep_their_values() {
    let dir = tempfile::tempdir().unwrap();
    shoal(dir.path(), &["sql", "a.db", MIXED]).ok();
    let sql = "SELECT quote(i), quote(r), quote(s), quote(b), quote(m), n, quote(\"i\u{e9}\"), \
               quote(big) FROM t ORDER BY rowid";
    // A column of one type for all of its values: numbers beside texts are texts.
    let kept = "1|1.5|'a'|X'00FF'|'text'||1.0|'9007199254740993'\n\
                NULL|2.0|''|NULL|'7'||2.5|'0.5'\n\
                -3|NULL|NULL|X'62'|'0.5'||NULL|NULL\n";
    for name in ["t.parquet", "t.arrow", "t.arrows"] {
        shoal(dir.path(), &["export", "a.db", "t", "-o", name]).ok();
        let file = format!("{name}.db");
        shoal(dir.path(), &["import", name, &file]).ok();
        assert_eq!(ask(dir.path(), &file, sql), kept, "{name}");
        // Beside the rows of a table that is there; and what has no column is refused.
        shoal(dir.path(), &["import", name, &file]).ok();
        assert_eq!(ask(dir.path(), &file, "SELECT count(*), sum(i) FROM t"), "6|-4\n");
        shoal(dir.path(), &["sql", &file, "CREATE TABLE u(i)"]).ok();
        let told = shoal(dir.path(), &["import", name, &file, "u"]);
        assert!(told.stderr.contains("table u has no column named r"), "{}", told.stderr);
        assert_eq!(ask(dir.path(), &file, "SELECT count(*) FROM u"), "0\n");
    }
    // Streams on both sides, the form by the first bytes.
    let query = "SELECT 1 AS a, 2 AS a";
    shoal(dir.path(), &["export", "a.db", "--query", query, "-o", "s.arrows"]).ok();
    let stream = std::fs::read(dir.path().join("s.arrows")).unwrap();
    shoal_with(dir.path(), &["import", "-", "s.db", "s"], &stream).ok();
    assert_eq!(ask(dir.path(), "s.db", "SELECT a, a_2 FROM s"), "1|2\n");
    let parquet = std::fs::read(dir.path().join("t.parquet")).unwrap();
    let told = shoal_with(dir.path(), &["import", "-", "s.db", "p"], &parquet);
    assert!(told.stderr.contains("from a file, not from a stream"), "{}", told.stderr);
    // Many rows, in several batches; typed columns by --types.
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
        SELECT i, 'row ' || i AS s FROM n";
    shoal(dir.path(), &["export", "a.db", "--query", many, "-o", "n.parquet"]).ok();
    shoal(dir.path(), &["import", "n.parquet", "n.db", "--types", "i=text"]).ok();
    let sql = "SELECT count(*), sum(i), max(s), typeof(i) FROM n";
    assert_eq!(ask(dir.path(), "n.db", sql), "20000|200010000|row 9999|text\n");
    // Damaged bytes are an error with the file's name, and leave the database as it was.
    for (name, places) in [("n.parquet", 40), ("t.arrow", 40), ("t.arrows", 40)] {
        let whole = std::fs::read(dir.path().join(name)).unwrap();
        for place in 0..places {
            let mut bytes = whole.clone();
            let at = place * bytes.len() / places;
            bytes[at..].iter_mut().take(5).for_each(|byte| *byte ^= 0x5a);
            std::fs::write(dir.path().join(format!("bad-{name}")), bytes).unwrap();
            let told = shoal(dir.path(), &["import", &format!("bad-{name}"), "bad.db", "t"]);
            match told.code {
                0 => std::fs::remove_file(dir.path().join("bad.db")).unwrap(),
                1 => assert!(told.stderr.contains("error: bad-"), "{}", told.stderr),
                other => panic!("{name} at {at}: {other:?} {}", told.stderr),
            }
        }
        std::fs::write(dir.path().join(format!("cut-{name}")), &whole[..whole.len() / 2]).unwrap();
        let told = shoal(dir.path(), &["import", &format!("cut-{name}"), "cut.db", "t"]);
        assert_eq!(told.code, 1, "{name}: {}", told.stderr);
        assert!(!dir.path().join("cut.db").exists());
    }
}

#[cfg(feature = "columnar")]
#[test]
fn types_of_arrow_become_values_of_sql() {
    use std::sync::Arc;

    use arrow_array::builder::{Int32Builder, ListBuilder};
    use arrow_array::types::Int8Type;
    use arrow_array::{
        ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float32Array,
        RecordBatch, StructArray, TimestampMicrosecondArray, UInt64Array,
    };

    let dir = tempfile::tempdir().unwrap();
    let mut list = ListBuilder::new(Int32Builder::new());
    list.append_value([Some(1), None]);
    list.append_null();
    let moments = || TimestampMicrosecondArray::from(vec![Some(1_700_000_000_500_000), None]);
    let words: DictionaryArray<Int8Type> = [Some("x"), None].into_iter().collect();
    let inner: ArrayRef = Arc::new(Float32Array::from(vec![Some(0.5), None]));
    let field = Arc::new(arrow_schema::Field::new("f", arrow_schema::DataType::Float32, true));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("flag", Arc::new(BooleanArray::from(vec![Some(true), Some(false)]))),
        ("day", Arc::new(Date32Array::from(vec![Some(19_675), None]))),
        (
            "money",
            Arc::new(
                Decimal128Array::from(vec![Some(12_345), None])
                    .with_precision_and_scale(10, 2)
                    .unwrap(),
            ),
        ),
        ("at", Arc::new(moments())),
        ("instant", Arc::new(moments().with_timezone("Europe/Berlin"))),
        ("word", Arc::new(words)),
        ("list", Arc::new(list.finish())),
        ("one", Arc::new(StructArray::from(vec![(field, inner)]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let file = std::fs::File::create(dir.path().join("a.arrow")).unwrap();
    let mut writer = arrow_ipc::writer::FileWriter::try_new(file, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    shoal(dir.path(), &["import", "a.arrow", "a.db"]).ok();
    assert_eq!(
        ask(dir.path(), "a.db", "SELECT * FROM a"),
        "1|2023-11-14|123.45|2023-11-14 22:13:20.500|2023-11-14 22:13:20.500|x|[1,null]|{\"f\":0.5}\n\
         0|||||||{\"f\":null}\n"
    );
    let sql = "SELECT julianday(at) - julianday(day) BETWEEN 0 AND 1, typeof(flag) FROM a LIMIT 1";
    assert_eq!(ask(dir.path(), "a.db", sql), "1|integer\n");
    let large = RecordBatch::try_from_iter([(
        "n",
        Arc::new(UInt64Array::from(vec![1, u64::MAX])) as ArrayRef,
    )]);
    let large = large.unwrap();
    let file = std::fs::File::create(dir.path().join("u.arrows")).unwrap();
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(file, &large.schema()).unwrap();
    writer.write(&large).unwrap();
    writer.finish().unwrap();
    let told = shoal(dir.path(), &["import", "u.arrows", "u.db"]);
    assert!(told.stderr.contains("column n"), "{}", told.stderr);
    assert!(!dir.path().join("u.db").exists());
}

#[cfg(not(feature = "columnar"))]
#[test]
fn a_build_without_parquet_says_so() {
    let dir = tempfile::tempdir().unwrap();
    shoal(dir.path(), &["sql", "a.db", MIXED]).ok();
    put(dir.path(), "p.parquet", b"PAR1");
    for args in [
        &["import", "p.parquet", "p.db"][..],
        &["export", "a.db", "t", "-o", "t.parquet"],
        &["export", "a.db", "t", "--format", "arrow"],
    ] {
        let told = shoal(dir.path(), args);
        assert_eq!(told.code, 1, "{args:?}");
        assert!(told.stderr.contains("is not in this build"), "{}", told.stderr);
        assert!(told.stderr.contains("--features columnar"), "{}", told.stderr);
    }
    assert!(!dir.path().join("p.db").exists() && !dir.path().join("t.parquet").exists());
}

#[test]
fn folders_patterns_and_several_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    std::fs::create_dir(path.join("data")).unwrap();
    put(path, "data/people.csv", b"name,born\nAda,1815\nEmmy,1882\n");
    put(path, "data/place.tsv", b"name\tsize\nOslo\t7\n");
    put(path, "data/readme.txt", b"nothing to import\n");
    put(path, "log-1.ndjson", b"{\"at\": 1, \"what\": \"a\"}\n");
    put(path, "log-2.ndjson", b"{\"at\": 2, \"what\": \"b\"}\n{\"what\": \"c\", \"at\": 3}\n");
    let told = shoal(path, &["import", "data", "a.db"]);
    assert!(told.stderr.contains("people: 2 rows of data/people.csv"), "{told:?}");
    assert_eq!(ask(path, "a.db", "SELECT born FROM people ORDER BY 1"), "1815\n1882\n");
    assert_eq!(ask(path, "a.db", "SELECT name, size FROM place"), "Oslo|7\n");
    shoal(path, &["import", "log-?.ndjson", "a.db", "--into", "log"]).ok();
    assert_eq!(ask(path, "a.db", "SELECT group_concat(at || what) FROM log"), "1a,2b,3c\n");
    shoal(path, &["import", "*/p[a-f]*.csv", "b.db"]).ok();
    assert_eq!(ask(path, "b.db", "SELECT count(*) FROM people"), "2\n");
    // As a shell expands a pattern.
    shoal(path, &["import", "data/people.csv", "data/place.tsv", "log-1.ndjson", "c.db"]).ok();
    shoal(path, &["import", "log-2.ndjson", "data/place.tsv", "d.db"]).ok();
    let count = "SELECT count(*) FROM sqlite_schema";
    assert_eq!((ask(path, "c.db", count), ask(path, "d.db", count)), ("3\n".into(), "2\n".into()));

    // All files or none: the second one is bad, and a new database is gone again.
    put(path, "data/zoo.csv", b"a,b\n1\n");
    let error = shoal(path, &["import", "data", "new.db"]).error();
    assert!(error.contains("zoo.csv") && !path.join("new.db").exists(), "{error}");
    let error = shoal(path, &["import", "data/zoo.csv", "data/place.tsv", "a.db"]).error();
    assert!(error.contains("zoo.csv"), "{error}");
    assert_eq!(ask(path, "a.db", "SELECT count(*) FROM place"), "1\n");
    std::fs::create_dir(path.join("more")).unwrap();
    put(path, "more/people.csv", b"name,born\nLise,1878\n");
    for (args, words) in [
        (&["import", "data/people.csv", "more/people.csv", "e.db"][..], "are both named people"),
        (&["import", "nothing-*.csv", "e.db"], "nothing-*.csv: no file is named so"),
        (&["import", "data/people.csv", "e.db", "a", "--into", "b"], "named twice"),
        (&["import", "-", "data/people.csv", "more/people.csv", "e.db"], "read alone"),
    ] {
        let said = shoal(path, args);
        assert!(said.code != 0 && said.stderr.contains(words), "{args:?}: {said:?}");
        assert!(!path.join("e.db").exists(), "{args:?}");
    }
    let both = ["import", "data/people.csv", "more/people.csv", "e.db", "--into", "all"];
    shoal(path, &both).ok();
    assert_eq!(ask(path, "e.db", "SELECT sum(born) FROM \"all\""), "5575\n");
}

#[test]
fn tables_of_another_database() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    let source = rusqlite::Connection::open(path.join("s.db")).unwrap();
    source
        .execute_batch(
            "CREATE TABLE person (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, b BLOB);
             CREATE UNIQUE INDEX by_name ON person (name COLLATE NOCASE) WHERE id > 0;
             CREATE TABLE plain (\"a \"\"b\", rowid TEXT, up AS (upper(rowid)));
             CREATE TABLE kv (k TEXT, v, n INTEGER, PRIMARY KEY (n, k)) WITHOUT ROWID;
             CREATE VIEW seen AS SELECT * FROM person;
             CREATE TRIGGER t AFTER DELETE ON kv BEGIN DELETE FROM plain; END;
             CREATE VIRTUAL TABLE f USING fts5 (x);
             INSERT INTO person VALUES (3, 'Ada', x'00ff'), (9, 'Emmy', NULL);
             DELETE FROM person WHERE id = 9;
             INSERT INTO plain (_rowid_, \"a \"\"b\", rowid) VALUES (5, 1.5, 'x'), (70, 2, 'y');
             INSERT INTO kv VALUES ('k', 1, 2), ('l', 'two', 1);",
        )
        .unwrap();
    drop(source);
    let told = shoal(path, &["import", "s.db", "t.db"]);
    assert_eq!(told.code, 0, "{told:?}");
    for words in [
        "person: 1 rows of s.db",
        "kv: 2 rows of s.db",
        "left out: views seen",
        "left out: triggers t",
        "left out: virtual tables f",
    ] {
        assert!(told.stderr.contains(words), "{words}: {}", told.stderr);
    }
    // SQLite finds the same in both.
    let open = |file: &str| rusqlite::Connection::open(path.join(file)).unwrap();
    let (source, copy) = (open("s.db"), open("t.db"));
    for sql in [
        "SELECT group_concat(sql) FROM (SELECT sql FROM sqlite_schema WHERE type IN ('table', \
         'index') AND name IN ('person', 'plain', 'kv', 'by_name') ORDER BY name)",
        "SELECT group_concat(id || name || hex(b)) FROM person",
        "SELECT group_concat(_rowid_ || typeof(\"a \"\"b\") || rowid || up) FROM plain",
        "SELECT group_concat(k || typeof(v) || n) FROM kv",
        "SELECT group_concat(name || seq) FROM sqlite_sequence",
        "PRAGMA integrity_check",
    ] {
        let ask = |connection: &rusqlite::Connection| -> Option<String> {
            connection.query_row(sql, [], |row| row.get(0)).unwrap()
        };
        assert_eq!(ask(&source), ask(&copy), "{sql}");
    }
    drop((source, copy));
    // One table of it; a second time the table is there, and nothing changes.
    shoal(path, &["import", "s.db", "one.db", "KV"]).ok();
    assert_eq!(ask(path, "one.db", "SELECT name FROM sqlite_schema"), "kv\n");
    let error = shoal(path, &["import", "s.db", "one.db"]).error();
    assert!(error.contains("table kv is there already"), "{error}");
    assert_eq!(ask(path, "one.db", "SELECT name FROM sqlite_schema"), "kv\n");
    let error = shoal(path, &["import", "s.db", "one.db", "none"]).error();
    assert!(error.contains("no ordinary table is called none") && error.contains("plain"));
    let error = shoal(path, &["import", "s.db", "s.db"]).error();
    assert!(error.contains("into itself"), "{error}");
    put(path, "c.csv", b"a\n1\n");
    shoal(path, &["import", "c.csv", "s.db", "both.db"]).ok();
    assert_eq!(ask(path, "both.db", "SELECT count(*) FROM person, c"), "1\n");
}
