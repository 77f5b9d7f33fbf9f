//! Every b-tree of every database written by real programs, walked by our cursors and compared with
//! SQLite; and the corrupt databases, required to end in rows or an error.

use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, OpenFlags};
use shoal_store::vfs::OsVfs;
use shoal_store::{Access, Error, Mode, Pgno, Record, Store, Transaction, ValueRef};
use shoal_testkit::{corpus, databases};

struct Tree {
    kind: String,
    name: String,
    root: Pgno,
    sql: String,
}

fn open(path: &Path) -> Result<Store, Error> {
    Store::open(Arc::new(OsVfs::new()), path, Access::ReadOnly)
}

fn text(value: Option<ValueRef<'_>>) -> String {
    match value {
        Some(ValueRef::Text(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    }
}

/// The b-trees named by the schema.
fn trees(txn: &Transaction) -> Result<Vec<Tree>, Error> {
    let mut trees = Vec::new();
    let mut cursor = txn.table(Pgno::FIRST)?;
    let mut rows = 0;
    while cursor.next()? {
        rows += 1;
        assert!(rows < 100_000, "the schema goes in a circle");
        let record = Record::new(cursor.payload()?)?;
        if let Some(ValueRef::Int(root)) = record.column(3)?
            && let Some(root) = u32::try_from(root).ok().and_then(Pgno::new)
        {
            trees.push(Tree {
                kind: text(record.column(0)?),
                name: text(record.column(1)?),
                root,
                sql: text(record.column(4)?),
            });
        }
    }
    Ok(trees)
}

fn is_without_rowid(tree: &Tree) -> bool {
    let sql = tree.sql.to_ascii_uppercase();
    sql.split_whitespace().collect::<String>().ends_with("WITHOUTROWID")
}

#[test]
fn every_real_database_walks_as_sqlite_walks_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut trees_seen = 0;
    for path in databases() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let store = open(&path).unwrap();
        let txn = store.begin(Mode::Read).unwrap();
        // A copy: SQLite puts files beside a database in write-ahead log mode.
        let copy = folder.path().join(&name);
        std::fs::copy(&path, &copy).unwrap();
        let peer = Connection::open_with_flags(&copy, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
        for tree in trees(&txn).unwrap() {
            trees_seen += 1;
            let place = format!("{name}: {} {}", tree.kind, tree.name);
            let quoted = tree.name.replace('"', "\"\"");
            if tree.kind == "table" && !is_without_rowid(&tree) {
                let sql = format!("SELECT rowid FROM \"{quoted}\" ORDER BY rowid");
                let mut statement = peer.prepare(&sql).unwrap();
                let expect: Vec<i64> = statement
                    .query_map((), |row| row.get(0))
                    .unwrap()
                    .map(Result::unwrap)
                    .collect();
                check_table(&txn, tree.root, &expect, &place);
            } else {
                let table = if tree.kind == "table" {
                    quoted
                } else {
                    let sql = "SELECT tbl_name FROM sqlite_schema WHERE name = ?1";
                    peer.query_row(sql, [&tree.name], |row| row.get::<_, String>(0)).unwrap()
                };
                let sql = format!("SELECT count(*) FROM \"{table}\"");
                let rows: u32 = peer.query_row(&sql, (), |row| row.get(0)).unwrap();
                let rows = rows as usize;
                let entries = check_index(&txn, tree.root, &place);
                if tree.sql.to_ascii_uppercase().contains(" WHERE ") {
                    assert!(entries <= rows, "{place}");
                } else {
                    assert_eq!(entries, rows, "{place}");
                }
            }
        }
    }
    assert!(trees_seen > 100, "only {trees_seen} trees");
}

fn check_table(txn: &Transaction, root: Pgno, expect: &[i64], place: &str) {
    let mut cursor = txn.table(root).unwrap();
    let mut rowids = Vec::new();
    while cursor.next().unwrap() {
        rowids.push(cursor.rowid().unwrap());
        let payload = cursor.payload().unwrap();
        Record::new(payload).unwrap().values().try_for_each(|value| value.map(|_| ())).unwrap();
    }
    assert_eq!(rowids, expect, "{place}");
    assert!(!cursor.next().unwrap() && !cursor.is_valid());
    let mut back = Vec::new();
    while cursor.prev().unwrap() {
        back.push(cursor.rowid().unwrap());
    }
    back.reverse();
    assert_eq!(back, expect, "{place} backwards");
    for (index, &rowid) in expect.iter().enumerate().step_by(expect.len() / 50 + 1) {
        assert!(cursor.seek(rowid).unwrap(), "{place}: {rowid}");
        assert_eq!(cursor.rowid().unwrap(), rowid);
        assert_eq!(cursor.next().unwrap(), index + 1 < expect.len());
        if let Some(before) = rowid.checked_sub(1) {
            let exact = index > 0 && expect[index - 1] == before;
            assert_eq!(cursor.seek(before).unwrap(), exact, "{place}: {before}");
            assert_eq!(cursor.rowid().unwrap(), if exact { before } else { rowid });
        }
    }
    if let Some(after) = expect.last().and_then(|last| last.checked_add(1)) {
        assert!(!cursor.seek(after).unwrap() && !cursor.is_valid(), "{place}");
        assert!(cursor.prev().unwrap() && cursor.rowid().unwrap() == after - 1, "{place}");
    }
}

fn check_index(txn: &Transaction, root: Pgno, place: &str) -> usize {
    let mut cursor = txn.index(root).unwrap();
    let mut entries: Vec<Vec<u8>> = Vec::new();
    while cursor.next().unwrap() {
        let payload = cursor.payload().unwrap().to_vec();
        Record::new(&payload).unwrap().values().try_for_each(|value| value.map(|_| ())).unwrap();
        entries.push(payload);
    }
    let mut left = entries.len();
    while cursor.prev().unwrap() {
        left -= 1;
        assert_eq!(cursor.payload().unwrap(), entries[left], "{place} backwards");
    }
    assert_eq!(left, 0, "{place} backwards");
    entries.len()
}

#[test]
fn seeks_in_an_index_give_what_a_scan_gives() {
    use shoal_store::KeyOrder;
    let store = open(&shoal_testkit::testdata("sharc/idx.db")).unwrap();
    let txn = store.begin(Mode::Read).unwrap();
    let order = KeyOrder::binary();
    let mut checked = 0;
    for tree in trees(&txn).unwrap().iter().filter(|tree| tree.kind == "index") {
        let mut cursor = txn.index(tree.root).unwrap();
        let mut keys: Vec<Vec<u8>> = Vec::new();
        while cursor.next().unwrap() {
            keys.push(cursor.payload().unwrap().to_vec());
        }
        for (index, key) in keys.iter().enumerate().step_by(97) {
            let values: Vec<_> =
                Record::new(key).unwrap().values().collect::<Result<_, _>>().unwrap();
            assert!(cursor.seek(&values, &order).unwrap());
            assert_eq!(cursor.payload().unwrap(), key);
            assert!(cursor.seek(&values[..1], &order).unwrap());
            let first = keys.partition_point(|k| order.compare(k, &values[..1]).unwrap().is_lt());
            assert_eq!(cursor.payload().unwrap(), keys[first]);
            let end = keys.partition_point(|k| order.compare(k, &values[..1]).unwrap().is_le());
            assert_eq!(cursor.seek_after(&values[..1], &order).unwrap(), end < keys.len());
            assert!(cursor.prev().unwrap());
            assert_eq!(cursor.payload().unwrap(), keys[end - 1]);
            assert!(first <= index && index < end);
            checked += 1;
        }
        assert!(!cursor.seek(&[ValueRef::Blob(&[0xff; 9])], &order).unwrap());
        assert!(!cursor.is_valid());
    }
    assert!(checked > 100);
}

#[test]
fn corrupt_databases_end_in_rows_or_an_error() {
    let (mut walked, mut refused) = (0, 0);
    for path in corpus("corrupt") {
        match walk_all(&path) {
            Ok(_) => walked += 1,
            Err(error) => {
                refused += 1;
                assert!(
                    matches!(
                        error,
                        Error::Corrupt(_) | Error::NotADatabase { .. } | Error::Unsupported { .. }
                    ),
                    "{}: {error}",
                    path.display()
                );
            }
        }
    }
    assert!(walked > 0 && refused > 0, "{walked} walked, {refused} refused");
}

/// Walks every tree as far as possible; the first error otherwise.
fn walk_all(path: &Path) -> Result<usize, Error> {
    let store = open(path)?;
    let txn = store.begin(Mode::Read)?;
    let mut failure = None;
    let mut rows = 0;
    for tree in trees(&txn)? {
        let walked = match tree.kind.as_str() {
            "table" => walk_table(&txn, tree.root)
                .or_else(|error| walk_index(&txn, tree.root).map_err(|_| error)),
            _ => walk_index(&txn, tree.root),
        };
        match walked {
            Ok(count) => rows += count,
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    failure.map_or(Ok(rows), Err)
}

fn walk_table(txn: &Transaction, root: Pgno) -> Result<usize, Error> {
    let mut cursor = txn.table(root)?;
    let mut rows = 0;
    while cursor.next()? {
        cursor.rowid()?;
        Record::new(cursor.payload()?)?.values().try_for_each(|value| value.map(|_| ()))?;
        rows += 1;
    }
    while cursor.prev()? {}
    cursor.seek(rows)?;
    Ok(usize::try_from(rows).unwrap())
}

fn walk_index(txn: &Transaction, root: Pgno) -> Result<usize, Error> {
    let mut cursor = txn.index(root)?;
    let mut rows = 0;
    while cursor.next()? {
        Record::new(cursor.payload()?)?.values().try_for_each(|value| value.map(|_| ()))?;
        rows += 1;
    }
    while cursor.prev()? {}
    cursor.seek(&[ValueRef::Int(5)], &shoal_store::KeyOrder::binary())?;
    Ok(rows)
}

#[test]
fn each_thing_that_is_no_database_has_its_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(
        path("text"),
        "this is no database, and it is long enough to have a header ".repeat(3),
    )
    .unwrap();
    std::fs::write(path("short"), b"SQLite format 3\0").unwrap();
    std::fs::write(path("empty"), b"").unwrap();
    assert!(matches!(open(&path("text")), Err(Error::NotADatabase { .. })));
    assert!(matches!(open(&path("short")), Err(Error::NotADatabase { .. })));
    assert!(open(&path("none")).unwrap_err().to_string().starts_with("no such file: "));
    assert!(open(folder.path()).unwrap_err().to_string().starts_with("is a directory: "));
    let store = open(&path("empty")).unwrap();
    let txn = store.begin(Mode::Read).unwrap();
    assert_eq!(txn.page_count(), 0);
    assert!(!txn.table(Pgno::FIRST).unwrap().next().unwrap());
    let chinook = std::fs::read(shoal_testkit::testdata("sqlite/chinook.sqlite")).unwrap();
    std::fs::write(path("cut"), &chinook[..20_000]).unwrap();
    assert!(matches!(open(&path("cut")), Err(Error::Corrupt(_))));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4);
}
