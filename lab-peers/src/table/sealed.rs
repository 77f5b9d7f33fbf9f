//! SQLite with sealed pages: SQLCipher, or the ciphers of SQLite3 Multiple Ciphers.
//!
//! Keys are raw, so that opening pays no derivation; the page cache is as large as Shoal's.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use shoal_lab::engine::table::{Access, Cell, TableSpec};
use shoal_lab::engine::{About, Guarantee, Miss, TableEngine};

use super::sqlite::{Db, Form, Row, Sqlite};

/// A cipher by its name in reports, and the statements that choose it with its key.
#[derive(Clone, Copy)]
pub(crate) struct Cipher {
    name: &'static str,
    keyed: &'static str,
    note: &'static str,
}

#[cfg(feature = "sqlcipher")]
pub(crate) const CIPHERS: [Cipher; 1] = [Cipher {
    name: "aes-cbc",
    keyed: "PRAGMA key = \"x'2dd29ca851e7b56e4697b0e1f08507293d761a05ce4d1b628663f411a8086d99'\"",
    note: "AES-256-CBC with HMAC-SHA-512, OpenSSL's",
}];

#[cfg(all(feature = "sqlite3mc", not(feature = "sqlcipher")))]
pub(crate) const CIPHERS: [Cipher; 3] = [
    Cipher {
        name: "chacha20",
        keyed: "PRAGMA cipher = 'chacha20'; \
                PRAGMA key = 'raw:2dd29ca851e7b56e4697b0e1f08507293d761a05ce4d1b628663f411a8086d99'",
        note: "ChaCha20-Poly1305, the default",
    },
    Cipher {
        name: "aegis",
        keyed: "PRAGMA cipher = 'aegis'; \
                PRAGMA key = 'raw:2dd29ca851e7b56e4697b0e1f08507293d761a05ce4d1b628663f411a8086d99'",
        note: "AEGIS-256",
    },
    Cipher {
        name: "aes-cbc",
        keyed: "PRAGMA cipher = 'aes256cbc'; PRAGMA key = 'a passphrase'",
        note: "AES-256-CBC without authentication",
    },
];

pub(crate) struct Sealed(pub(crate) Cipher);

const PLAIN: Sqlite = Sqlite(Form::Autocommit);

/// As many pages as Shoal keeps.
const CACHE: &str = "PRAGMA cache_size = 16384";

impl Sealed {
    /// The sealed copy of a plain file.
    fn copy(&self, path: &Path, scratch: &Path) -> Result<PathBuf, Miss> {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let kind = if cfg!(feature = "sqlcipher") { "sqlcipher" } else { "sqlite3mc" };
        let copy = scratch.join(format!("{stem}-{kind}-{}.db", self.0.name));
        if copy.exists() {
            return Ok(copy);
        }
        let part = copy.with_extension("part");
        let _ = std::fs::remove_file(&part);
        let sealed = if cfg!(feature = "sqlcipher") {
            self.exported(path, &part)
        } else {
            std::fs::copy(path, &part).map_err(Miss::failed)?;
            self.rekeyed(&part)
        };
        sealed.map_err(Miss::failed)?;
        std::fs::rename(&part, &copy).map_err(Miss::failed)?;
        Ok(copy)
    }

    fn exported(&self, path: &Path, part: &Path) -> rusqlite::Result<()> {
        let connection = Connection::open(part)?;
        connection.execute_batch(self.0.keyed)?;
        let attach = "ATTACH ?1 AS plain KEY ''";
        connection.execute(attach, [path.to_string_lossy()])?;
        connection.execute_batch("SELECT sqlcipher_export('main', 'plain')")
    }

    fn rekeyed(&self, part: &Path) -> rusqlite::Result<()> {
        let connection = Connection::open(part)?;
        connection.execute_batch(&self.0.keyed.replace("PRAGMA key", "PRAGMA rekey"))
    }

    fn connect(&self, path: &Path, access: Access) -> rusqlite::Result<Connection> {
        let connection = match access {
            Access::Read => Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?,
            Access::Write => Connection::open(path)?,
        };
        connection.execute_batch(self.0.keyed)?;
        connection.execute_batch(CACHE)?;
        if access == Access::Write {
            connection.pragma_update(None, "journal_mode", "delete")?;
            connection.pragma_update(None, "synchronous", "full")?;
        }
        Ok(connection)
    }
}

impl TableEngine for Sealed {
    type Db = Db;
    type Statement = usize;
    type Reader = usize;
    type Row<'a> = Row<'a>;

    fn about(&self) -> About {
        let about = About::peer(self.0.name, rusqlite::version(), self.0.note);
        about.c_heap().promising(Guarantee::Fresh)
    }

    fn open(&self, path: &Path, access: Access, scratch: &Path) -> Result<Db, Miss> {
        let path = match access {
            Access::Read => self.copy(path, scratch)?,
            Access::Write => path.to_owned(),
        };
        Ok(Db::new(self.connect(&path, access).map_err(Miss::failed)?, |_| Vec::new()))
    }

    fn reader(&self, db: &mut Db, table: &TableSpec, columns: &[usize]) -> Result<usize, Miss> {
        PLAIN.reader(db, table, columns)
    }

    #[inline]
    fn seek(
        &self,
        db: &mut Db,
        reader: &mut usize,
        rowid: i64,
        visit: impl FnMut(&Row<'_>),
    ) -> Result<(), Miss> {
        PLAIN.seek(db, reader, rowid, visit)
    }

    fn scan(
        &self,
        db: &mut Db,
        table: &TableSpec,
        columns: &[usize],
        visit: impl FnMut(&Row<'_>),
    ) -> Result<(), Miss> {
        PLAIN.scan(db, table, columns, visit)
    }

    fn create_table(&self, db: &mut Db, table: &TableSpec) -> Result<(), Miss> {
        PLAIN.create_table(db, table)
    }

    fn execute(&self, db: &mut Db, sql: &str) -> Result<(), Miss> {
        PLAIN.execute(db, sql)
    }

    fn insert(&self, db: &mut Db, table: &TableSpec, rows: &[Vec<Cell<'_>>]) -> Result<(), Miss> {
        PLAIN.insert(db, table, rows)
    }
}
