//! Parts shared by the store's tests: databases made by SQLite, and SQLite's opinion of ours.

#![allow(clippy::unwrap_used, dead_code, unreachable_pub)]

pub mod codec;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use shoal_store::vfs::{SeededEntropy, Vfs};
use shoal_store::{
    Access, Error, KeyColumn, KeyOrder, Options, Pgno, Record, Store, Transaction, ValueRef,
};

/// The schema of the test databases: one table and its two indexes.
pub const SCHEMA: &str = "
    CREATE TABLE t(a, b);
    CREATE INDEX i ON t(a);
    CREATE INDEX j ON t(b DESC, a COLLATE NOCASE);";

/// The orders of the two indexes of [`SCHEMA`].
pub fn orders() -> [KeyOrder; 2] {
    use shoal_store::Collation::{Binary, NoCase};
    [
        KeyOrder::binary(),
        KeyOrder::new(vec![
            KeyColumn { collation: Binary, descending: true },
            KeyColumn { collation: NoCase, descending: false },
        ]),
    ]
}

/// An empty database with `schema`, made by SQLite; where the tests run with a codec, in its stored
/// form, with pages large enough.
pub fn database(page_size: u32, reserved: u8, schema: &str) -> Vec<u8> {
    match codec::wanted() {
        None => plain_database(page_size, reserved, schema),
        Some(codec) => {
            let reserved = reserved.max(codec.reserved());
            codec::stored(&*codec, &plain_database(page_size.max(1024), reserved, schema))
        }
    }
}

/// An empty database with `schema`, made by SQLite.
pub fn plain_database(page_size: u32, reserved: u8, schema: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let peer = Connection::open(&path).unwrap();
    peer.execute_batch(&format!(
        "PRAGMA synchronous = OFF; PRAGMA page_size = {page_size}; VACUUM;"
    ))
    .unwrap();
    drop(peer);
    // SQLite makes an empty page with its end reserved when asked for reserved bytes.
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[20] = reserved;
    let start = (page_size - u32::from(reserved)) % 65536;
    bytes[105..107].copy_from_slice(&(start as u16).to_be_bytes());
    std::fs::write(&path, bytes).unwrap();
    let peer = Connection::open(&path).unwrap();
    peer.execute_batch(&format!("PRAGMA synchronous = OFF; {schema}")).unwrap();
    drop(peer);
    std::fs::read(&path).unwrap()
}

/// Settings without waiting and with the same journal every time.
pub fn options(access: Access) -> Options {
    Options {
        busy_timeout: Duration::ZERO,
        entropy: Arc::new(SeededEntropy::new(7)),
        codec: codec::wanted(),
        ..Options::new(access)
    }
}

/// Opens `path` with [`options`].
pub fn open(vfs: &(impl Vfs + Clone + 'static), path: &Path, access: Access) -> Store {
    Store::open_with(Arc::new(vfs.clone()), path, options(access)).unwrap()
}

/// The root page of the schema entry `name`.
pub fn try_root(txn: &Transaction, name: &str) -> Result<Pgno, Error> {
    let mut cursor = txn.table(Pgno::FIRST)?;
    while cursor.next()? {
        let record = Record::new(cursor.payload()?)?;
        if record.column(1)? == Some(ValueRef::Text(name.as_bytes())) {
            let Some(ValueRef::Int(root)) = record.column(3)? else { panic!("no root") };
            return Ok(Pgno::new(u32::try_from(root).unwrap()).unwrap());
        }
    }
    panic!("no {name} in the schema");
}

/// As [`try_root`], where reading does not fail.
pub fn root(txn: &Transaction, name: &str) -> Pgno {
    try_root(txn, name).unwrap()
}

/// A record in the newest schema format.
pub fn record(values: &[ValueRef<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    shoal_store::encode_record(values, 4, &mut out);
    out
}

/// SQLite's answer about the database with these `bytes`: fails unless `PRAGMA integrity_check`
/// finds nothing, and returns the rows of `sql` as text.
pub fn ask_sqlite(bytes: &[u8], sql: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let plain = codec::wanted().map(|codec| codec::plain(&*codec, bytes));
    std::fs::write(&path, plain.as_deref().unwrap_or(bytes)).unwrap();
    ask_sqlite_at(&path, sql)
}

/// As [`ask_sqlite`], of the file at `path`.
pub fn ask_sqlite_at(path: &Path, sql: &str) -> Vec<String> {
    let peer = Connection::open(path).unwrap();
    peer.execute_batch("PRAGMA synchronous = OFF").unwrap();
    let found = texts(&peer, "PRAGMA integrity_check");
    assert_eq!(found, ["ok"]);
    texts(&peer, sql)
}

/// The first column of every row of `sql`, as text.
pub fn texts(peer: &Connection, sql: &str) -> Vec<String> {
    let mut statement = peer.prepare(sql).unwrap();
    let rows = statement.query_map((), |row| row.get::<_, String>(0)).unwrap();
    rows.map(Result::unwrap).collect()
}
