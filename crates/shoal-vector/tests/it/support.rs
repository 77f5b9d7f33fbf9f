//! A database of ours and one of SQLite's with sqlite-vec: the same statements, answers compared.

use std::path::Path;
use std::sync::{Arc, Once};

use shoal_sql::{Connection, Error, Value, ValueRef};
use shoal_store::{Access, Store, vfs::OsVfs};

/// Repeatable numbers.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    /// A JSON array of numbers with one digit behind the point.
    pub(crate) fn floats(&mut self, length: usize) -> String {
        let numbers: Vec<String> = (0..length)
            .map(|_| format!("{:.1}", (self.next(2001) as f64 - 1000.0) / 10.0))
            .collect();
        format!("[{}]", numbers.join(","))
    }

    pub(crate) fn bytes(&mut self, length: usize) -> String {
        let numbers: Vec<String> =
            (0..length).map(|_| (self.next(256) as i64 - 128).to_string()).collect();
        format!("[{}]", numbers.join(","))
    }

    /// A blob in hexadecimal digits.
    pub(crate) fn bits(&mut self, bytes: usize) -> String {
        let digits: String = (0..bytes).map(|_| format!("{:02x}", self.next(256))).collect();
        format!("x'{digits}'")
    }
}

/// A connection of ours to a file.
pub(crate) fn shoal(path: &Path) -> Connection {
    let store = match path == Path::new(":memory:") {
        true => Store::memory(),
        false => Store::open(Arc::new(OsVfs), path, Access::Create).unwrap(),
    };
    let mut connection = Connection::open(store).unwrap();
    shoal_vector::register(&mut connection).unwrap();
    connection
}

/// A connection of SQLite's, with sqlite-vec.
pub(crate) fn sqlite(path: &Path) -> rusqlite::Connection {
    static LOADED: Once = Once::new();
    LOADED.call_once(|| {
        type Entry = unsafe extern "C" fn(
            *mut rusqlite::ffi::sqlite3,
            *mut *mut std::ffi::c_char,
            *const rusqlite::ffi::sqlite3_api_routines,
        ) -> std::ffi::c_int;
        // SAFETY: the entry point of an extension has this signature, which its binding leaves out.
        #[allow(unsafe_code)]
        unsafe {
            let entry = sqlite_vec::sqlite3_vec_init as *const ();
            rusqlite::ffi::sqlite3_auto_extension(Some(std::mem::transmute::<*const (), Entry>(
                entry,
            )));
        }
    });
    rusqlite::Connection::open(path).unwrap()
}

/// A value of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Null,
    Int(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
}

pub(crate) type Answer = Result<Vec<Vec<Cell>>, String>;

fn rows(connection: &mut Connection, sql: &str) -> Result<Vec<Vec<Cell>>, Error> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = connection.query(&mut statement)?;
    let mut out = Vec::new();
    while let Some(row) = rows.next()? {
        let cell = |column| match row.get(column) {
            ValueRef::Null => Cell::Null,
            ValueRef::Int(int) => Cell::Int(int),
            ValueRef::Real(real) => Cell::Real(real),
            ValueRef::Text(text) => Cell::Text(String::from_utf8_lossy(text).into_owned()),
            ValueRef::Blob(blob) => Cell::Blob(blob.to_vec()),
        };
        out.push((0..row.len()).map(cell).collect());
    }
    Ok(out)
}

/// Our answer to a statement.
pub(crate) fn ours(connection: &mut Connection, sql: &str) -> Answer {
    rows(connection, sql).map_err(|error| error.to_string())
}

/// Runs a statement of ours.
pub(crate) fn run(connection: &mut Connection, sql: &str, parameters: &[Value]) -> u64 {
    let mut statement = connection.prepare(sql).unwrap();
    for (place, value) in parameters.iter().enumerate() {
        statement.bind(place + 1, value.clone()).unwrap();
    }
    connection.execute(&mut statement).unwrap()
}

/// SQLite's answer.
pub(crate) fn theirs(connection: &rusqlite::Connection, sql: &str) -> Answer {
    let run = || {
        let mut statement = connection.prepare(sql)?;
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        let mut out = Vec::new();
        while let Some(row) = rows.next()? {
            let cell = |column| match row.get_ref(column).unwrap() {
                rusqlite::types::ValueRef::Null => Cell::Null,
                rusqlite::types::ValueRef::Integer(int) => Cell::Int(int),
                rusqlite::types::ValueRef::Real(real) => Cell::Real(real),
                rusqlite::types::ValueRef::Text(text) => {
                    Cell::Text(String::from_utf8_lossy(text).into_owned())
                }
                rusqlite::types::ValueRef::Blob(blob) => Cell::Blob(blob.to_vec()),
            };
            out.push((0..columns).map(cell).collect());
        }
        Ok(out)
    };
    run().map_err(|error: rusqlite::Error| match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message,
        rusqlite::Error::SqlInputError { msg, .. } => msg,
        other => other.to_string(),
    })
}

/// True for answers equal but for the last digits of reals.
pub(crate) fn alike(a: &[Vec<Cell>], b: &[Vec<Cell>]) -> bool {
    let same = |a: &Cell, b: &Cell| match (a, b) {
        (Cell::Real(a), Cell::Real(b)) => (a - b).abs() <= 1e-5 * (1.0 + a.abs().max(b.abs())),
        (a, b) => a == b,
    };
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .all(|(a, b)| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)))
}

/// Compares the answers of both.
pub(crate) fn same(shoal: &mut Connection, sqlite: &rusqlite::Connection, sql: &str) {
    match (ours(shoal, sql), theirs(sqlite, sql)) {
        (Ok(got), Ok(wanted)) => {
            assert!(alike(&got, &wanted), "{sql}\n got {got:?}\n not {wanted:?}");
        }
        (Err(_), Err(_)) => {}
        (got, wanted) => panic!("{sql}\n got {got:?}\n not {wanted:?}"),
    }
}
