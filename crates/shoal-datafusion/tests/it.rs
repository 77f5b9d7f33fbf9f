//! Queries of DataFusion over Shoal's files: answers beside SQLite's, Shoal's own, and those of the
//! same rows in memory.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::TableProvider;
use datafusion::common::stats::Precision;
use datafusion::datasource::MemTable;
use datafusion::physical_plan::{displayable, execute_stream};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use futures_util::StreamExt as _;
use parquet::arrow::ArrowWriter;
use shoal::{Access, Database, Environment};
use shoal_arrow::Cells;
use shoal_datafusion::{Error, ShoalDatabase, Types};
use shoal_sql::{ValueRef, real_to_text};

/// A session in which names are as written.
fn session(partitions: usize) -> SessionContext {
    let config = SessionConfig::new()
        .with_target_partitions(partitions)
        .set_bool("datafusion.sql_parser.enable_ident_normalization", false);
    SessionContext::new_with_config(config)
}

fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Int(number) => number.to_string(),
        ValueRef::Real(number) => real_to_text(number),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        ValueRef::Blob(bytes) => format!("{bytes:?}"),
    }
}

type Answer = Vec<Vec<String>>;

fn rows_of(batches: &[RecordBatch]) -> Answer {
    let mut answer = Vec::new();
    for batch in batches {
        let cells: Vec<Cells> = batch.columns().iter().map(|it| Cells::new(it).unwrap()).collect();
        let row = |row| cells.iter().map(|cells| shown(cells.value(row))).collect();
        answer.extend((0..batch.num_rows()).map(row));
    }
    answer
}

async fn asked(context: &SessionContext, sql: &str) -> Answer {
    let frame = context.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let batches = frame.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows_of(&batches)
}

async fn plan(context: &SessionContext, sql: &str) -> String {
    let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    displayable(plan.as_ref()).indent(false).to_string()
}

fn of_sqlite(path: &Path, sql: &str) -> Answer {
    let connection = rusqlite::Connection::open(path).unwrap();
    let mut statement = connection.prepare(sql).unwrap();
    let width = statement.column_count();
    let row = |row: &rusqlite::Row<'_>| {
        (0..width)
            .map(|place| {
                use rusqlite::types::ValueRef as Theirs;
                Ok(match row.get_ref(place)? {
                    Theirs::Null => shown(ValueRef::Null),
                    Theirs::Integer(number) => shown(ValueRef::Int(number)),
                    Theirs::Real(number) => shown(ValueRef::Real(number)),
                    Theirs::Text(text) => shown(ValueRef::Text(text)),
                    Theirs::Blob(bytes) => shown(ValueRef::Blob(bytes)),
                })
            })
            .collect::<rusqlite::Result<Vec<String>>>()
    };
    statement.query_map([], row).unwrap().map(|row| row.unwrap()).collect()
}

fn of_shoal(path: &Path, sql: &str) -> Answer {
    let database = Database::open(Environment::os(), path, Access::ReadOnly).unwrap();
    let mut connection = database.into_sql();
    let mut statement = connection.prepare(sql).unwrap();
    let mut rows = connection.query(&mut statement).unwrap();
    let mut answer = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        answer.push(row.values().map(shown).collect());
    }
    answer
}

fn sample(folder: &Path, name: &str) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/sqlite").join(name);
    let path = folder.join(name);
    std::fs::copy(from, &path).unwrap();
    path
}

/// A database made by SQLite.
fn made(folder: &Path, name: &str, sql: &str) -> PathBuf {
    let path = folder.join(name);
    rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    path
}

#[tokio::test]
async fn answers_are_those_of_sqlite_and_of_shoal() {
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path(), "chinook.sqlite");
    let context = session(3);
    let database = ShoalDatabase::open(&path).unwrap();
    context.register_catalog("shop", Arc::new(database.catalog()));
    context.sql("SET datafusion.catalog.default_catalog = 'shop'").await.unwrap();
    context.sql("SET datafusion.catalog.default_schema = 'main'").await.unwrap();
    for sql in [
        "SELECT count(*) FROM Track",
        "SELECT \"Name\", \"Milliseconds\" FROM Track WHERE \"TrackId\" = 2107",
        "SELECT \"TrackId\", \"Composer\" FROM Track WHERE \"Milliseconds\" BETWEEN 200000 AND \
         210000 AND \"Composer\" IS NOT NULL ORDER BY \"TrackId\"",
        "SELECT a.\"Name\", count(*) AS n FROM Artist a JOIN Album b ON a.\"ArtistId\" = \
         b.\"ArtistId\" JOIN Track t ON t.\"AlbumId\" = b.\"AlbumId\" GROUP BY a.\"Name\" \
         ORDER BY n DESC, a.\"Name\" LIMIT 20",
        "SELECT g.\"Name\", min(t.\"Milliseconds\"), max(t.\"UnitPrice\") FROM Genre g LEFT JOIN \
         Track t ON t.\"GenreId\" = g.\"GenreId\" GROUP BY g.\"Name\" ORDER BY g.\"Name\"",
        "SELECT \"BillingCountry\", count(*) FROM Invoice WHERE \"Total\" > 5.0 OR \
         \"BillingCountry\" IN ('Canada', 'Norway') GROUP BY \"BillingCountry\" ORDER BY 1",
        "SELECT \"FirstName\" FROM Customer WHERE \"LastName\" < 'F' ORDER BY \"CustomerId\" \
         LIMIT 5",
        "SELECT \"FirstName\" FROM Employee WHERE \"ReportsTo\" IS NULL",
        "SELECT sum(\"Quantity\"), max(\"InvoiceDate\") FROM InvoiceLine l JOIN Invoice i ON \
         i.\"InvoiceId\" = l.\"InvoiceId\" WHERE i.\"InvoiceDate\" >= '2012-01-01'",
    ] {
        let found = asked(&context, sql).await;
        assert!(!found.is_empty(), "{sql}");
        assert_eq!(found, of_sqlite(&path, sql), "{sql}");
        assert_eq!(found, of_shoal(&path, sql), "{sql}");
    }
}

#[tokio::test]
async fn a_table_is_joined_with_parquet() {
    let folder = tempfile::tempdir().unwrap();
    let path = made(
        folder.path(),
        "a.db",
        "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT);
         WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
         INSERT INTO t SELECT i, 'name ' || i FROM n;
         CREATE TABLE visits (id INTEGER, at TEXT, cost REAL);
         INSERT INTO visits SELECT id % 7 * 100, 'day ' || (id % 3), id / 4.0 FROM t;",
    );
    let database = ShoalDatabase::open(&path).unwrap();
    let context = session(2);
    // As `shoal export` writes it: batches of the same builder, in Parquet with Snappy.
    context.register_table("v", Arc::new(database.table("visits").unwrap())).unwrap();
    let batches = context.sql("SELECT * FROM v").await.unwrap().collect().await.unwrap();
    let parquet = folder.path().join("visits.parquet");
    let file = std::fs::File::create(&parquet).unwrap();
    let mut writer = ArrowWriter::try_new(file, batches[0].schema(), None).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.close().unwrap();
    let place = parquet.to_str().unwrap();
    context.register_parquet("visits", place, ParquetReadOptions::default()).await.unwrap();
    context.register_table("t", Arc::new(database.table("T").unwrap())).unwrap();
    let sql = "SELECT t.name, v.at, count(*), sum(v.cost) FROM t JOIN visits v ON v.id = t.id \
               WHERE t.id < 600 GROUP BY t.name, v.at ORDER BY t.name, v.at";
    let found = asked(&context, sql).await;
    assert_eq!(found.len(), 15);
    assert_eq!(found, of_sqlite(&path, sql));
}

/// Random conditions give the rows that they give over the same batches in memory, where nothing
/// of a condition is SQL's.
#[tokio::test]
async fn conditions_in_the_file_keep_the_rows_of_conditions_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let utf8 =
        "CREATE TABLE t (id INTEGER PRIMARY KEY, i INT, r REAL, s TEXT COLLATE NOCASE, b BLOB, \
                any);
         CREATE INDEX t_i ON t (i); CREATE INDEX t_s ON t (s);
         INSERT INTO t (i, r, s, b, any) VALUES
           (0, 0.0, 'a', x'', 1), (1, -1.5, 'A', x'00', 'x'), (NULL, NULL, NULL, NULL, NULL),
           (-1, 1e300, 'b', x'ff', 2.5), (9007199254740993, 0.5, '', x'61', 'y'),
           (-9223372036854775808, -9e999, 'é', x'6162', 7), (2, 9e999, 'Z', x'6161', '1'),
           (1, 2.0, 'ab', x'61', 1), (3, 3.0, '0', x'30', '0');
         INSERT INTO t (i, r, s, b, any) SELECT i, r, s, b, any FROM t;";
    let utf16 = format!("PRAGMA encoding = 'UTF-16le'; {utf8}");
    let literals: [&[&str]; 4] = [
        &["0", "1", "-1", "2", "9007199254740993", "9007199254740992", "-9223372036854775808"],
        &["0.0", "0.5", "-1.5", "2.0", "1e300", "3.5"],
        &["'a'", "'A'", "''", "'é'", "'b'", "'0'", "'zz'"],
        &["'1'", "'x'", "'2.5'", "'0'"],
    ];
    let columns = ["i", "r", "s", "\"any\""];
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % below as u64).unwrap()
    };
    for (name, sql) in [("8.db", utf8), ("16.db", utf16.as_str())] {
        let path = made(folder.path(), name, sql);
        let table = Arc::new(ShoalDatabase::open(&path).unwrap().table("t").unwrap());
        let context = session(2);
        context.register_table("t", Arc::clone(&table) as Arc<dyn TableProvider>).unwrap();
        let all = context.sql("SELECT * FROM t").await.unwrap().collect().await.unwrap();
        let memory = MemTable::try_new(table.schema(), vec![all]).unwrap();
        context.register_table("m", Arc::new(memory)).unwrap();
        let mut pushed = 0;
        for _ in 0..120 {
            let mut test = || {
                let column = random(columns.len());
                let one = |random: &mut dyn FnMut(usize) -> usize| {
                    literals[column][random(literals[column].len())]
                };
                let name = columns[column];
                match random(6) {
                    0 => format!("{name} IS {}NULL", ["", "NOT "][random(2)]),
                    1 => format!(
                        "{name} {}IN ({}, {})",
                        ["", "NOT "][random(2)],
                        one(&mut random),
                        one(&mut random)
                    ),
                    2 => format!("{name} BETWEEN {} AND {}", one(&mut random), one(&mut random)),
                    place => {
                        let sign = ["=", "<>", "<", "<=", ">", ">="][random(6)];
                        let literal = one(&mut random);
                        match place {
                            3 => format!("{literal} {sign} {name}"),
                            _ => format!("{name} {sign} {literal}"),
                        }
                    }
                }
            };
            let (a, b, c) = (test(), test(), test());
            let condition = match random(4) {
                0 => a,
                1 => format!("{a} AND {b}"),
                2 => format!("({a} OR {b}) AND {c}"),
                _ => format!("({a} AND {b}) OR {c}"),
            };
            let query = |table: &str| {
                format!("SELECT id, i, r, s, \"any\" FROM {table} WHERE {condition} ORDER BY id")
            };
            let in_file = asked(&context, &query("t")).await;
            assert_eq!(in_file, asked(&context, &query("m")).await, "{name}: {condition}");
            pushed += usize::from(plan(&context, &query("t")).await.contains("where=["));
            let counted = format!("SELECT count(*) FROM t WHERE {condition}");
            let count = [[in_file.len().to_string()]];
            assert_eq!(asked(&context, &counted).await, count, "{name}: {condition}");
        }
        assert!(pushed > 50, "{name}: {pushed} conditions went down");
    }
}

#[tokio::test]
async fn a_scan_does_what_is_asked_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = made(
        folder.path(),
        "a.db",
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a INT, b TEXT, c BLOB);
         CREATE INDEX t_a ON t (a);
         WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
         INSERT INTO t SELECT i, i % 1000, 'b' || i, x'00' FROM n;
         CREATE VIEW v AS SELECT a, count(*) AS n, max(b) AS m FROM t GROUP BY a;
         CREATE TABLE w (k TEXT PRIMARY KEY, v) WITHOUT ROWID;
         INSERT INTO w VALUES ('x', 1.5), ('y', 2.5);
         CREATE TABLE small (a);
         INSERT INTO small VALUES (1), (2), (3);",
    );
    let context = session(4);
    let database = ShoalDatabase::open(&path).unwrap();
    for name in ["t", "v", "w", "small"] {
        context.register_table(name, Arc::new(database.table(name).unwrap())).unwrap();
    }
    // Columns, exact conditions and partitions are in the scan, and nothing filters above.
    let sql = "SELECT b FROM t WHERE id > 500 AND b <> 'b777'";
    let told = plan(&context, sql).await;
    let scan = "columns=[b], where=[\"id\" > ? AND \"b\" COLLATE BINARY <> ?], partitions=4";
    assert!(told.contains(scan) && !told.contains("FilterExec"), "{told}");
    assert_eq!(asked(&context, sql).await.len(), 99_499);
    let told = plan(&context, "SELECT b FROM t WHERE a = 7").await;
    assert!(told.contains("partitions=1"), "{told}");
    let told = plan(&context, "SELECT b FROM t LIMIT 3").await;
    assert!(told.contains("limit=3, partitions=1"), "{told}");
    assert_eq!(asked(&context, "SELECT b FROM t LIMIT 3").await.len(), 3);
    assert_eq!(asked(&context, "SELECT b FROM t WHERE a = 7 LIMIT 30").await.len(), 30);
    let many = "SELECT count(*) FROM (SELECT 1 FROM t LIMIT 20000)";
    assert_eq!(asked(&context, many).await, [["20000"]]);
    for sql in [
        "SELECT count(*), sum(a), min(b), max(id) FROM t",
        "SELECT count(*) FROM t WHERE a < 10",
        "SELECT n, count(*) FROM v GROUP BY n",
        "SELECT max(m) FROM v WHERE a >= 990",
        "SELECT k, v FROM w ORDER BY k",
        "SELECT count(*) FROM small, w",
    ] {
        let found = asked(&context, sql).await;
        let sqlite = of_sqlite(&path, sql);
        assert_eq!(found, sqlite, "{sql}");
    }
    // A small table's rows are counted, and the rowid's bounds are known.
    let table = database.table("t").unwrap();
    let scan = table.scan(&context.state(), Some(&vec![0]), &[], None).await.unwrap();
    let statistics = scan
        .statistics_from_inputs(&[], &datafusion::physical_plan::statistics::StatisticsArgs::new())
        .unwrap();
    assert_eq!(statistics.num_rows, Precision::Inexact(100_000));
    let bounds = &statistics.column_statistics[0];
    assert_eq!(bounds.max_value, Precision::Exact(100_000_i64.into()));
    let told = plan(&context, "SELECT count(*) FROM small").await;
    assert!(!told.contains("ShoalScan"), "{told}");
    assert_eq!(asked(&context, "SELECT count(*) FROM small").await, [["3"]]);
}

#[tokio::test]
async fn values_of_another_type_are_named_or_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = made(
        folder.path(),
        "a.db",
        "CREATE TABLE t (n INTEGER, s TEXT, \"any\", d DATE);
         INSERT INTO t VALUES (1, 'a', 1, '2026-01-01'), ('many', x'00', 'two', NULL);",
    );
    let database = ShoalDatabase::open(&path).unwrap();
    let context = session(1);
    context.register_table("t", Arc::new(database.table("t").unwrap())).unwrap();
    for (sql, why) in [
        ("SELECT n FROM t", "table t, rowid 2: column n is of Arrow's Int64 and a row has a text"),
        ("SELECT s FROM t", "table t, rowid 2: column s is of Arrow's Utf8 and a row has a blob"),
    ] {
        let error = context.sql(sql).await.unwrap().collect().await.unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    // Undeclared columns, and all of them when told so, take the types of their values.
    assert_eq!(
        asked(&context, "SELECT \"any\", d FROM t").await,
        [["1", "2026-01-01"], ["two", "NULL"]]
    );
    let of_values = database.with_types(Types::Values).table("t").unwrap();
    context.deregister_table("t").unwrap();
    context.register_table("t", Arc::new(of_values)).unwrap();
    assert_eq!(asked(&context, "SELECT n, s FROM t").await, [["1", "[97]"], ["many", "[0]"]]);
    assert_eq!(asked(&context, "SELECT s FROM t WHERE n = '1'").await, [["[97]"]]);
    let absent = ShoalDatabase::open(&path).unwrap().table("absent");
    assert!(matches!(absent, Err(Error::NoTable(name)) if name == "absent"));
}

#[tokio::test]
async fn a_catalog_follows_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = made(
        folder.path(),
        "a.db",
        "CREATE TABLE One (a INT); CREATE VIEW Two AS SELECT a FROM One;",
    );
    let context = session(1);
    let catalog = ShoalDatabase::open(&path).unwrap().catalog();
    context.register_catalog("f", Arc::new(catalog));
    let main = context.catalog("f").unwrap().schema("main").unwrap();
    assert_eq!(main.table_names(), ["One", "Two"]);
    assert_eq!(asked(&context, "SELECT a FROM f.main.one").await, Answer::new());
    let writer = rusqlite::Connection::open(&path).unwrap();
    writer
        .execute_batch(
            "INSERT INTO One VALUES (5); CREATE TABLE Three (x); INSERT INTO Three VALUES (1.5);
             ALTER TABLE One ADD COLUMN b DEFAULT 'new';",
        )
        .unwrap();
    assert_eq!(asked(&context, "SELECT * FROM f.main.one").await, [["5", "new"]]);
    assert_eq!(asked(&context, "SELECT * FROM f.main.TWO").await, [["5"]]);
    assert_eq!(asked(&context, "SELECT * FROM f.main.Three").await, [["1.5"]]);
    // A column without a type has the type of the values of now.
    writer.execute_batch("INSERT INTO Three VALUES ('text')").unwrap();
    assert_eq!(asked(&context, "SELECT * FROM f.main.Three").await, [["1.5"], ["text"]]);
    assert!(main.table_exist("three") && !main.table_exist("four"));
    assert!(context.sql("SELECT * FROM f.main.four").await.is_err());
}

/// A writer moves a hundred between two tables; every query sees the sum, in all of its tables and
/// partitions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_reads_one_state_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = made(
        folder.path(),
        "a.db",
        "PRAGMA journal_mode = wal;
         CREATE TABLE a (n INT); CREATE TABLE b (n INT);
         WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000)
         INSERT INTO a SELECT 1 FROM n;
         INSERT INTO b SELECT 1 FROM a;",
    );
    let ended = Arc::new(AtomicBool::new(false));
    let writing = std::thread::spawn({
        let (path, ended) = (path.clone(), Arc::clone(&ended));
        move || {
            let connection = rusqlite::Connection::open(path).unwrap();
            connection.busy_timeout(Duration::from_secs(10)).unwrap();
            let mut rounds = 0_u32;
            while !ended.load(Ordering::Relaxed) {
                let (from, to) = if rounds.is_multiple_of(2) { ("a", "b") } else { ("b", "a") };
                let sql = format!(
                    "BEGIN IMMEDIATE; UPDATE {from} SET n = n - 100 WHERE rowid = 29999;
                     UPDATE {to} SET n = n + 100 WHERE rowid = 3; COMMIT;"
                );
                connection.execute_batch(&sql).unwrap();
                rounds += 1;
            }
            rounds
        }
    });
    let context = session(3);
    context.register_catalog("f", Arc::new(ShoalDatabase::open(&path).unwrap().catalog()));
    let sql = "SELECT (SELECT sum(n) FROM f.main.a) + (SELECT sum(n) FROM f.main.b)";
    for _ in 0..25 {
        assert_eq!(asked(&context, sql).await, [["60000"]]);
    }
    ended.store(true, Ordering::Relaxed);
    assert!(writing.join().unwrap() > 5);
}

/// A stream dropped early ends its statements: with a rollback journal nobody could write else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_stream_lets_the_file_go() {
    let folder = tempfile::tempdir().unwrap();
    let path = made(
        folder.path(),
        "a.db",
        "CREATE TABLE t (n INTEGER PRIMARY KEY);
         WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
         INSERT INTO t SELECT i FROM n;",
    );
    let context = session(2);
    let database = ShoalDatabase::open(&path).unwrap();
    context.register_table("t", Arc::new(database.table("t").unwrap())).unwrap();
    let frame = context.sql("SELECT n FROM t WHERE n > 5").await.unwrap();
    let plan = frame.create_physical_plan().await.unwrap();
    let mut stream = execute_stream(plan, context.task_ctx()).unwrap();
    let first = stream.next().await;
    assert!(first.unwrap().unwrap().num_rows() > 0);
    drop(stream);
    let connection = rusqlite::Connection::open(&path).unwrap();
    let begun = Instant::now();
    connection.busy_timeout(Duration::from_secs(20)).unwrap();
    connection.execute_batch("DELETE FROM t").unwrap();
    assert!(begun.elapsed() < Duration::from_secs(20));
}
