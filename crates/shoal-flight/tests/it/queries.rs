//! Answers beside SQL's own.

use shoal::Environment;
use shoal_flight::{Options, Types, serve};
use shoal_sql::Value;
use shoal_vault::{Cost, Keys, Secret};
use shoal_vfs::OsEntropy;

use crate::sample::{Sample, ask, by_sql, client, door, fetch, refusal, shown, values};

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_of_sql() {
    let sample = Sample::new();
    let server = sample.server().await;
    let mut client = client(&server).await;
    for (sql, columns) in [
        (
            "SELECT id, maker, name, price, photo FROM item ORDER BY id",
            "id: Int64, maker: Int64, name: Utf8, price: Float64, photo: Binary",
        ),
        ("SELECT n, s FROM big", "n: Int64, s: Utf8"),
        (
            "SELECT n % 7, count(*), max(s) FROM big GROUP BY 1",
            "n % 7: Int64, count(*): Int64, max(s): Utf8",
        ),
        ("SELECT avg(price) AS a, name || '!' AS b FROM item", "a: Float64, b: Utf8"),
        ("SELECT founded FROM maker ORDER BY id", "founded: Utf8"),
        (
            "VALUES (1, 'a', NULL, 2.5, x'00ff')",
            "column1: Int64, column2: Utf8, column3: Utf8, column4: Float64, column5: Binary",
        ),
        ("SELECT 1 AS a, 2 AS a, 3 AS a", "a: Int64, a_2: Int64, a_3: Int64"),
        ("SELECT * FROM maker WHERE 0", "id: Int64, name: Utf8, founded: Utf8"),
        ("SELECT n + 0 AS m FROM big WHERE n > 29000", "m: Int64"),
        ("SELECT b, sum(a) AS s FROM pair GROUP BY b", "b: Utf8, s: Int64"),
        ("SELECT name, twice FROM dear ORDER BY 1", "name: Utf8, twice: Float64"),
        ("SELECT title FROM note WHERE note MATCH 'engine'", "title: Utf8"),
        ("SELECT name, type FROM pragma_table_info('maker')", "name: Utf8, type: Utf8"),
        ("SELECT value AS v, key AS k FROM json_each('[1,2]')", "v: Int64, k: Int64"),
        ("SELECT \"a b\" FROM \"odd \"\"name\"", "a b: Utf8"),
        ("-- a remark\nSELECT 9223372036854775807 AS n;", "n: Int64"),
    ] {
        let (schema, rows) = ask(&mut client, sql).await.expect(sql);
        assert_eq!(shown(&schema), columns, "{sql}");
        assert_eq!(rows, by_sql(&sample.path(), sql), "{sql}");
    }
    server.stop().await;
}

/// A column of SQL may hold values of several types: each is found in the answer as the type of the
/// column writes it.
#[tokio::test(flavor = "multi_thread")]
async fn values_of_several_types_have_one_in_arrow() {
    let sample = Sample::new();
    let server = sample.server().await;
    let mut client = client(&server).await;
    let text = |text: &str| vec![Value::text(text)];
    for (sql, kind, rows) in [
        // Numbers beside texts.
        (
            "SELECT tag FROM item WHERE id < 3 ORDER BY id",
            "tag: Utf8",
            vec![text("plain"), text("7")],
        ),
        // An integer beside a real.
        (
            "SELECT sold FROM item WHERE id < 3 ORDER BY id",
            "sold: Float64",
            vec![vec![Value::Real(12.0)], vec![Value::Real(12.5)]],
        ),
        // An integer that no double holds, beside a real.
        (
            "SELECT id + 0 AS n FROM item WHERE id > 3 UNION ALL SELECT 0.5",
            "n: Utf8",
            vec![text("9007199254740993"), text("0.5")],
        ),
        ("SELECT n + 0 AS m FROM odd", "m: Int64", vec![vec![Value::Int(1)], vec![Value::Int(0)]]),
        ("SELECT NULL AS blank", "blank: Utf8", vec![vec![Value::Null]]),
    ] {
        let (schema, found) = ask(&mut client, sql).await.unwrap();
        assert_eq!(shown(&schema), kind, "{sql}");
        assert_eq!(found, rows, "{sql}");
    }
    // A text in a column declared INTEGER is an error that names the column.
    let why = refusal(&mut client, "SELECT n FROM odd").await;
    assert!(why.contains("column n is of Arrow's Int64 and a row has a text"), "{why}");
    // With types of values it is not.
    let options = Options { types: Types::Values, ..sample.options() };
    let lenient = serve(options, door()).await.unwrap();
    let mut client = crate::sample::client(&lenient).await;
    let (schema, rows) = ask(&mut client, "SELECT n FROM odd").await.unwrap();
    assert_eq!((shown(&schema).as_str(), rows), ("n: Utf8", vec![text("1"), text("two")]));
    lenient.stop().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_have_the_words_of_sql() {
    let sample = Sample::new();
    let server = sample.server().await;
    let mut client = client(&server).await;
    for (sql, words) in [
        ("SELEC 1", "near \"SELEC\": syntax error"),
        ("SELECT * FROM nowhere", "no such table: nowhere (at character 15: nowhere)"),
        ("SELECT nowhere FROM item", "no such column: nowhere"),
        ("SELECT 1; SELECT 2", ""),
        ("", ""),
        ("SELECT abs(-9223372036854775808)", "integer overflow"),
        ("INSERT INTO odd VALUES (3)", "INSERT into odd is refused: this server only reads"),
        ("DROP TABLE odd", "is refused: this server only reads"),
        ("PRAGMA user_version = 3", "PRAGMA user_version is refused with a value"),
        ("ATTACH '/etc/passwd' AS other", "ATTACH is refused: this server reaches one file"),
        ("BEGIN", "BEGIN is refused: every call is a transaction of its own"),
        ("VACUUM INTO 'copy.db'", "is refused"),
    ] {
        let said = refusal(&mut client, sql).await;
        assert!(said.contains(words), "{sql}: {said}");
    }
    let said = client.execute_update("DELETE FROM odd".to_owned(), None).await;
    let said = said.unwrap_err().to_string();
    assert!(said.contains("this server only reads: changes are made with shoal sql"), "{said}");
    let said = client.begin_transaction().await.unwrap_err().to_string();
    assert!(said.contains("there are no transactions"), "{said}");
    assert_eq!(by_sql(&sample.path(), "SELECT count(*) FROM odd"), [[Value::Int(2)]]);
    server.stop().await;
}

/// An answer is of one state of the file; the next answer sees commits of others.
#[tokio::test(flavor = "multi_thread")]
async fn commits_of_others_are_seen_and_never_half() {
    let sample = Sample::new();
    sample.write("PRAGMA journal_mode = wal");
    let server = sample.server().await;
    let mut client = client(&server).await;
    // Read while the types of its columns were found.
    let counted = client.execute("SELECT count(*) FROM odd".to_owned(), None).await.unwrap();
    assert_eq!(counted.total_records, 1);
    // Declared: read when it is fetched.
    let listed = client.execute("SELECT n FROM big".to_owned(), None).await.unwrap();
    assert_eq!(listed.total_records, -1);
    sample.write("DELETE FROM odd WHERE typeof(n) = 'text'");
    sample.write("DELETE FROM big WHERE n > 10");
    let (_, batches) = fetch(&mut client, counted.clone()).await.unwrap();
    assert_eq!(values(&batches), [[Value::Int(2)]]);
    // Its rows were kept for one fetch: another one reads anew.
    let (_, batches) = fetch(&mut client, counted).await.unwrap();
    assert_eq!(values(&batches), [[Value::Int(1)]]);
    let (_, batches) = fetch(&mut client, listed).await.unwrap();
    assert_eq!(values(&batches).len(), 10);
    // A value of a type that was not there when the types were found is an error.
    let sum = "SELECT tag + 0 AS t FROM item WHERE id = 2".to_owned();
    let info = client.execute(sum, None).await.unwrap();
    fetch(&mut client, info.clone()).await.unwrap();
    sample.write("UPDATE item SET tag = 2.5 WHERE id = 2");
    let why = fetch(&mut client, info).await.unwrap_err().to_string();
    assert!(why.contains("column t is of Arrow's Int64 and a row has a real"), "{why}");
    // A table of other columns than those told.
    let all = client.execute("SELECT * FROM odd".to_owned(), None).await.unwrap();
    sample.write("ALTER TABLE odd ADD COLUMN more TEXT");
    let ticket = all.endpoint[0].ticket.clone().unwrap();
    let why = client.do_get(ticket).await.expect_err("other columns").to_string();
    assert!(why.contains("the tables have changed"), "{why}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sealed_file_takes_its_key() {
    let environment = |key: &[u8]| {
        let keys = Keys::new(std::sync::Arc::new(OsEntropy)).with_key(Secret::new(key));
        keys.set_cost(Cost::least());
        Environment::os().with_codecs(std::sync::Arc::new(keys))
    };
    let right = environment(b"the key");
    let sample = Sample::made_in(&right);
    let bytes = std::fs::read(sample.path()).unwrap();
    assert!(!bytes.windows(9).any(|bytes| bytes == b"row 29999"), "the file is not sealed");
    let open = |environment| serve(Options::new(environment, sample.path()), door());
    let server = open(right).await.unwrap();
    let mut client = client(&server).await;
    let (_, rows) = ask(&mut client, "SELECT count(*) FROM big").await.unwrap();
    assert_eq!(rows, [[Value::Int(30_000)]]);
    server.stop().await;
    assert!(open(environment(b"another")).await.is_err());
    assert!(open(Environment::os()).await.is_err());
}

/// Two clients at once, each in the middle of its own answer.
#[tokio::test(flavor = "multi_thread")]
async fn clients_do_not_wait_for_each_other() {
    use futures_util::TryStreamExt;
    let sample = Sample::new();
    let server = sample.server().await;
    let (mut one, mut other) = (client(&server).await, client(&server).await);
    let sql = "SELECT a.n FROM big AS a, big AS b WHERE b.n <= 100";
    let info = one.execute(sql.to_owned(), None).await.unwrap();
    let mut first = one.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
    let begun = first.try_next().await.unwrap().expect("a batch").num_rows();
    assert!(begun > 0);
    // The first statement is stopped in its middle by a client that does not read on.
    let (_, rows) = ask(&mut other, "SELECT count(*) FROM item").await.unwrap();
    assert_eq!(rows, [[Value::Int(4)]]);
    let mut count = begun;
    while let Some(batch) = first.try_next().await.unwrap() {
        count += batch.num_rows();
    }
    assert_eq!(count, 3_000_000);
    server.stop().await;
}
