//! A small database to run hostile statements on, and the filter for statements without an end.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use shoal_sql::{Connection, Error, Statements, Value};
use shoal_store::Access;
use shoal_store::vfs::{FixedClock, MemVfs, SeededEntropy};

use crate::walk;

/// The script creating the small database.
pub const SETUP: &str = "
    CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c REAL, d BLOB);
    CREATE INDEX t_b ON t(b, c DESC);
    CREATE TABLE u(x, y TEXT NOT NULL COLLATE NOCASE, z INT DEFAULT 7, UNIQUE(y, x));
    CREATE TABLE e(a, b);
    INSERT INTO t(a, b, c, d) VALUES (1, 'one', 1.5, x'00ff'), (2, NULL, -0.0, NULL),
        (-9223372036854775808, '', 1e300, x''), (7, 'ONE', 3, 'text');
    INSERT INTO u(x, y) VALUES (1, 'b'), ('1', 'B'), (NULL, 'a'), (1.0, 'c');
";

/// Makes the database, as bytes.
fn template() -> &'static [u8] {
    static TEMPLATE: OnceLock<Vec<u8>> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let vfs = MemVfs::new();
        let mut connection = connect(&vfs, Access::Create).expect("a new database opens");
        for range in Statements::new(SETUP) {
            let mut statement = connection.prepare(&SETUP[range]).expect("the set-up is valid");
            connection.execute(&mut statement).expect("the set-up is valid");
        }
        vfs.get(Path::new(walk::DATABASE)).expect("it was written")
    })
}

/// A connection to the small database, and the files under the connection.
pub fn small() -> (MemVfs, Connection) {
    let vfs = MemVfs::new();
    vfs.put(Path::new(walk::DATABASE), template().to_vec());
    let connection = connect(&vfs, Access::ReadWrite).expect("the template opens");
    (vfs, connection)
}

/// A connection to a database given as bytes.
///
/// # Errors
/// When the image is no database, or its schema cannot be read.
pub fn open_image(image: Vec<u8>) -> Result<Connection, Error> {
    let vfs = MemVfs::new();
    vfs.put(Path::new(walk::DATABASE), image);
    connect(&vfs, Access::ReadOnly)
}

/// A connection to the file in `vfs`.
///
/// # Errors
/// When the file is no database, or its schema cannot be read.
pub fn connect(vfs: &MemVfs, access: Access) -> Result<Connection, Error> {
    let store = walk::open(vfs, access)?;
    let clock = Arc::new(FixedClock { unix_ms: 1_700_000_000_000 });
    Connection::open_with(store, clock, Arc::new(SeededEntropy::new(1)))
}

/// Prepares and runs one statement, every parameter bound, and reads its first rows.
///
/// # Errors
/// The reason to refuse the statement.
pub fn run(connection: &mut Connection, sql: &str) -> Result<(), Error> {
    let mut statement = connection.prepare(sql)?;
    for index in 1..=statement.parameter_count().min(100) {
        let value = [Value::Null, Value::Int(1), Value::text("one")][index % 3].clone();
        statement.bind(index, value)?;
    }
    let width = statement.column_count();
    assert_eq!(statement.column_names().len(), width);
    if width == 0 {
        connection.execute(&mut statement)?;
        return Ok(());
    }
    let mut rows = connection.query(&mut statement)?;
    for _ in 0..50 {
        let Some(row) = rows.next()? else { break };
        assert_eq!(row.len(), width);
        assert_eq!(row.values().count(), width);
    }
    Ok(())
}

/// True for a statement worth running. A statement joining much or making huge values on purpose
/// may take any time without being a finding.
pub fn is_cheap(sql: &str) -> bool {
    let sql = sql.to_ascii_lowercase();
    let sources = sql.matches(',').count() + sql.matches("join").count();
    let makes_large = ["blob(", "printf", "format", "recursive"];
    let digits = sql.as_bytes().windows(5).any(|digits| digits.iter().all(u8::is_ascii_digit));
    let scaled = sql.as_bytes().windows(2).any(|pair| pair[0].is_ascii_digit() && pair[1] == b'e');
    sources < 8 && !((digits || scaled) && makes_large.iter().any(|name| sql.contains(name)))
}
