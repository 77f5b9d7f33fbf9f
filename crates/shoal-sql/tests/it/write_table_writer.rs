//! Rows written without SQL text, against the same rows written with SQL.

use crate::write_support::{Random, contents_of, run_shoal, shoal};
use shoal_sql::{Connection, Error, ValueRef};
use shoal_store::Mode;
use shoal_store::vfs::SimVfs;

const SCHEMA: [&str; 2] = [
    "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, size REAL, twice AS (size * 2))",
    "CREATE INDEX ts ON t (size DESC, name)",
];

fn with_schema(vfs: &SimVfs) -> Connection {
    let mut connection = shoal(vfs);
    for sql in SCHEMA {
        run_shoal(&mut connection, sql).unwrap();
    }
    connection
}

#[test]
fn typed_and_written_rows_are_the_same() {
    let (typed_disk, written_disk) = (SimVfs::new(), SimVfs::new());
    let (mut typed, mut written) = (with_schema(&typed_disk), with_schema(&written_disk));
    typed.begin(Mode::Write).unwrap();
    run_shoal(&mut written, "BEGIN").unwrap();
    let mut random = Random::seeded(3);
    let mut writer = typed.table_writer("T").unwrap();
    for round in 0..2000i64 {
        let id = i64::try_from(random.below(300)).unwrap();
        let name = format!("name {}", random.below(500));
        let values = [ValueRef::Null, ValueRef::Text(name.as_bytes()), ValueRef::Int(round % 7)];
        let (outcome, sql) = match random.below(4) {
            0 => (writer.delete(id).map(|_| ()), format!("DELETE FROM t WHERE id = {id}")),
            1 => (
                writer.replace(id, &values).map(|_| ()),
                format!("UPDATE t SET name = '{name}', size = {} WHERE id = {id}", round % 7),
            ),
            _ => (
                writer.insert(&values).map(|_| ()),
                format!("INSERT INTO t VALUES (NULL, '{name}', {})", round % 7),
            ),
        };
        let expect = run_shoal(&mut written, &sql).map(|_| ());
        assert_eq!(outcome.map_err(|error| error.to_string()), expect, "{sql}");
    }
    drop(writer);
    typed.commit().unwrap();
    run_shoal(&mut written, "COMMIT").unwrap();
    assert_eq!(contents_of(&typed_disk.image()), contents_of(&written_disk.image()));
}

#[test]
fn what_a_writer_answers() {
    let mut connection = with_schema(&SimVfs::new());
    let outside = connection.table_writer("t").map(|_| ()).unwrap_err();
    assert!(matches!(outside, Error::Misuse { .. }));
    connection.begin(Mode::Write).unwrap();
    let missing = connection.table_writer("nosuch").map(|_| ()).unwrap_err();
    assert_eq!(missing.to_string(), "no such table: nosuch");

    let mut writer = connection.table_writer("t").unwrap();
    let name = ValueRef::Text(b"a");
    let null = ValueRef::Null;
    assert_eq!(writer.insert(&[null, name, null]).unwrap(), 1);
    assert_eq!(writer.insert(&[ValueRef::Int(9), ValueRef::Text(b"b"), null]).unwrap(), 9);
    let taken = writer.insert(&[null, name, null]).unwrap_err();
    assert_eq!(taken.to_string(), "UNIQUE constraint failed: t.name");
    let null_name = writer.insert(&[null, null, null]).unwrap_err();
    assert_eq!(null_name.to_string(), "NOT NULL constraint failed: t.name");
    assert!(matches!(writer.insert(&[null]), Err(Error::Misuse { .. })));
    assert!(matches!(writer.insert(&[null; 4]), Err(Error::Misuse { .. })));
    assert!(!writer.replace(5, &[null, name, null]).unwrap());
    assert!(writer.replace(9, &[null, ValueRef::Text(b"c"), null]).unwrap());
    assert!(!writer.delete(5).unwrap());
    assert!(writer.delete(1).unwrap());
    drop(writer);
    let rows = run_shoal(&mut connection, "SELECT id, name FROM t").unwrap();
    assert_eq!(rows, vec![vec![9.into(), "c".into()]]);
}

/// Rows pushed in the order of their rowids are the rows of an SQL insert, indexes and all.
#[test]
fn a_table_filled_in_order_is_the_one_inserted_into() {
    let schema = [
        "CREATE TABLE t (name TEXT NOT NULL, id INTEGER PRIMARY KEY, size REAL, some, UNIQUE (name))",
        "CREATE INDEX ts ON t (size DESC, name) WHERE size > 1",
        "CREATE INDEX tx ON t (some, name || size)",
    ];
    for encoding in ["UTF-8", "UTF-16le"] {
        let (filled_disk, written_disk) = (SimVfs::new(), SimVfs::new());
        let (mut filled, mut written) = (shoal(&filled_disk), shoal(&written_disk));
        for connection in [&mut filled, &mut written] {
            run_shoal(connection, &format!("PRAGMA encoding = '{encoding}'")).unwrap();
            for sql in schema {
                run_shoal(connection, sql).unwrap();
            }
        }
        filled.begin(Mode::Write).unwrap();
        run_shoal(&mut written, "BEGIN").unwrap();
        let mut random = Random::seeded(5);
        let mut loader = filled.bulk_loader("t").unwrap();
        let mut last = 0;
        for round in 0..3000_i64 {
            let name = format!("näme {}", random.below(1 << 30));
            let size = [ValueRef::Int(round % 7), ValueRef::Real(0.5), ValueRef::Null]
                [usize::try_from(round % 3).unwrap()];
            let long = "x".repeat(usize::try_from(random.below(40) * random.below(200)).unwrap());
            let some = if round % 5 == 0 { ValueRef::Text(long.as_bytes()) } else { size };
            let id = if round % 4 == 0 { Some(last + 1 + round % 100) } else { None };
            let given = id.map_or(ValueRef::Null, ValueRef::Int);
            let row = [ValueRef::Text(name.as_bytes()), given, size, some];
            last = loader.push(&row).unwrap();
            let show = |value: ValueRef<'_>| match value {
                ValueRef::Int(int) => int.to_string(),
                ValueRef::Real(real) => real.to_string(),
                ValueRef::Text(text) => format!("'{}'", std::str::from_utf8(text).unwrap()),
                _ => "NULL".to_owned(),
            };
            let row: Vec<String> = row.into_iter().map(show).collect();
            let sql = format!("INSERT INTO t VALUES ({})", row.join(", "));
            run_shoal(&mut written, &sql).unwrap();
            assert_eq!(written.last_insert_rowid(), last);
        }
        let again = loader.push(&[ValueRef::Text(b"a"), ValueRef::Int(last), ValueRef::Null]);
        assert!(matches!(again, Err(Error::Misuse { .. })));
        let text = ValueRef::Text(b"a");
        let late = loader.push(&[text, ValueRef::Int(last), ValueRef::Null, ValueRef::Null]);
        assert!(late.unwrap_err().to_string().contains("a row came before the last one"));
        let null = loader.push(&[ValueRef::Null; 4]).unwrap_err();
        assert_eq!(null.to_string(), "NOT NULL constraint failed: t.name");
        loader.finish().unwrap();
        filled.commit().unwrap();
        run_shoal(&mut written, "COMMIT").unwrap();
        assert_eq!(contents_of(&filled_disk.image()), contents_of(&written_disk.image()));
    }
}

#[test]
fn tables_that_cannot_be_filled() {
    let mut connection = with_schema(&SimVfs::new());
    run_shoal(&mut connection, "CREATE TABLE u (name TEXT UNIQUE)").unwrap();
    connection.begin(Mode::Write).unwrap();
    let generated = connection.bulk_loader("t").map(|_| ()).unwrap_err();
    assert!(matches!(generated, Error::Unsupported { .. }), "{generated}");
    let mut loader = connection.bulk_loader("u").unwrap();
    loader.push(&[ValueRef::Text(b"a")]).unwrap();
    loader.push(&[ValueRef::Text(b"a")]).unwrap();
    let twice = loader.finish().unwrap_err();
    assert_eq!(twice.to_string(), "UNIQUE constraint failed: u.name");
    connection.rollback().unwrap();
    let rows = run_shoal(&mut connection, "SELECT count(*) FROM u").unwrap();
    assert_eq!(rows, vec![vec![0.into()]]);
}
