//! One text or blob as a stream of bytes: `sqlite3_blob_open` and its relatives.

use std::io::{self, Read, Seek, SeekFrom, Write};

use shoal_store::{FoundValue, Mode, Pgno, ValueBytes};

use super::{Connection, attached};
use crate::schema::{BESIDE, IndexSource, MAIN, Object, Snapshot, Table};
use crate::write;
use crate::{Error, NameKind};

impl Connection {
    /// Opens the text or blob in one column of row `rowid`, to be read, and with `writable`
    /// overwritten, in pieces. Its length stays: `zeroblob(n)` makes room for what comes. Nothing
    /// else of the row is read or written; CHECK constraints, triggers and hooks see nothing.
    ///
    /// Within an open transaction the blob is part of it. Otherwise it has its own, committed by
    /// [`Blob::close`] and taken back by a drop.
    ///
    /// ```
    /// # use std::io::{Read, Write};
    /// # use shoal_sql::Connection;
    /// # let mut connection = Connection::open(shoal_store::Store::memory())?;
    /// for sql in ["CREATE TABLE t (data)", "INSERT INTO t VALUES (zeroblob(10000000))"] {
    ///     let mut statement = connection.prepare(sql)?;
    ///     connection.execute(&mut statement)?;
    /// }
    /// let mut blob = connection.open_blob("main", "t", "data", 1, true)?;
    /// blob.write_at(9_000_000, b"hello")?;
    /// let mut start = [1; 16];
    /// blob.read_at(8_999_998, &mut start)?;
    /// assert_eq!(&start[..8], b"\0\0hello\0");
    /// blob.close()?;
    /// # Ok::<(), shoal_sql::Error>(())
    /// ```
    ///
    /// # Errors
    /// No such database, table, column or row; [`Error::Meaning`] for what has no such bytes (a
    /// number, NULL, a view, a table without rowid or with generated columns) and, to write, for a
    /// column of an index or a foreign key; the store's.
    pub fn open_blob(
        &mut self,
        database: &str,
        table: &str,
        column: &str,
        rowid: i64,
        writable: bool,
    ) -> Result<Blob<'_>, Error> {
        let own = !self.in_transaction();
        if own {
            self.begin(if writable { Mode::Write } else { Mode::Read })?;
        }
        let found = self.find_blob(database, table, column, writable).and_then(|place| {
            let value = self.value_of(&place, rowid)?;
            Ok((place, value))
        });
        match found {
            Ok((place, value)) => {
                Ok(Blob { connection: self, place, value, position: 0, writable, own })
            }
            Err(error) => {
                if own {
                    // The reason of the refusal is the one that the caller has to know.
                    let _ = self.rollback();
                }
                Err(error)
            }
        }
    }

    fn find_blob(
        &mut self,
        database: &str,
        name: &str,
        column: &str,
        writable: bool,
    ) -> Result<BlobPlace, Error> {
        let schema = self.schema()?;
        let no_such = |kind: NameKind, name: &str| Error::no_such(kind, name, 0).nowhere();
        let refused = |message: String| Error::Meaning { message, offset: None };
        let number =
            schema.database(database).ok_or_else(|| no_such(NameKind::Database, database))?;
        let found = schema.of_database(number).and_then(|schema| schema.object(name));
        let table = match found {
            None => return Err(no_such(NameKind::Table, &format!("{database}.{name}"))),
            Some(Object::Table(table)) => table,
            Some(Object::View(view)) => {
                return Err(refused(format!("cannot open view: {}", view.name)));
            }
            Some(Object::Virtual(known)) => {
                let name = known.name();
                return Err(refused(format!("cannot open virtual table: {name}")));
            }
            Some(Object::Narrowed(table)) => {
                return Err(refused(format!("cannot open narrowed table: {}", table.name())));
            }
            Some(Object::Damaged { name, why }) => {
                return Err(Error::Schema { object: name.clone(), why: why.clone() });
            }
        };
        if table.without_rowid {
            return Err(refused(format!("cannot open table without rowid: {}", table.name)));
        }
        if table.columns.iter().any(|column| column.is_generated()) {
            return Err(refused(format!(
                "cannot open table with generated columns: {}",
                table.name
            )));
        }
        let is = |known: &crate::Column| known.name().eq_ignore_ascii_case(column);
        let column = table.columns.iter().position(is).ok_or_else(|| Error::Name {
            kind: NameKind::Column,
            message: format!("no such column: \"{column}\""),
            offset: None,
        })?;
        if writable {
            if let Some(prefix) = self.reserved
                && table
                    .name
                    .get(..prefix.len())
                    .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
            {
                return Err(Error::Refused { table: table.name.clone(), offset: 0 });
            }
            if self.kept.keeper.is_some() && !table.triggers.list.is_empty() {
                let why = "cannot open a table with triggers for writing beside a keeper";
                return Err(refused(why.to_owned()));
            }
            let enforced = schema.flags().foreign_keys;
            if enforced && table.foreign_keys.iter().any(|key| key.columns.contains(&column)) {
                return Err(refused("cannot open foreign key column for writing".to_owned()));
            }
            if is_indexed(table, column) {
                return Err(refused("cannot open indexed column for writing".to_owned()));
            }
        }
        Ok(BlobPlace { database: number, root: table.root, column })
    }

    /// The bytes of a row.
    fn value_of(&self, place: &BlobPlace, rowid: i64) -> Result<ValueBytes, Error> {
        let snapshot = self.snapshot_of(place.database)?;
        let found = snapshot.get().find_value(place.root, rowid, place.column)?;
        let class = match found {
            Some(FoundValue::Bytes(value)) => return Ok(value),
            None => {
                let message = format!("no such rowid: {rowid}");
                return Err(Error::Meaning { message, offset: None });
            }
            Some(FoundValue::Int) => "integer",
            Some(FoundValue::Real) => "real",
            Some(FoundValue::Null) => "null",
        };
        let message = format!("cannot open value of type {class}");
        Err(Error::Meaning { message, offset: None })
    }

    fn snapshot_of(&self, database: usize) -> Result<Snapshot<'_>, Error> {
        let watch = &self.control.watch;
        match database {
            MAIN => attached::current(self.transaction.as_ref(), &self.store, watch),
            other => self
                .databases
                .snapshot(other - BESIDE, watch)?
                .ok_or(Error::Misuse { what: "a blob of a detached database was read" }),
        }
    }
}

/// True for a column with entries in an index.
fn is_indexed(table: &Table, column: usize) -> bool {
    table.indexes.iter().any(|index| {
        index.filter.is_some()
            || index.columns.iter().any(|part| match &part.source {
                IndexSource::Column(known) => *known == column,
                IndexSource::Rowid => false,
                // An expression may read any column.
                IndexSource::Expr(_) => true,
            })
    })
}

/// The column whose values a blob shows.
#[derive(Clone, Copy, Debug)]
struct BlobPlace {
    database: usize,
    root: Pgno,
    column: usize,
}

/// The bytes of one text or blob ([`Connection::open_blob`]): by place, or as a stream with a
/// position. Texts of files in UTF-16 are in the file's own encoding.
#[derive(Debug)]
pub struct Blob<'c> {
    connection: &'c mut Connection,
    place: BlobPlace,
    value: ValueBytes,
    position: u64,
    writable: bool,
    /// True for a blob with a transaction of its own.
    own: bool,
}

impl Blob<'_> {
    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.value.len()
    }

    /// True for an empty text or blob.
    pub fn is_empty(&self) -> bool {
        self.value.is_empty()
    }

    /// Fills `out` with the bytes from `offset` on.
    ///
    /// Cost: the pages the bytes lie on; the first time also the pages in front of them.
    ///
    /// # Errors
    /// [`Error::Store`] for bytes past the end, and for what is wrong with the file.
    pub fn read_at(&mut self, offset: usize, out: &mut [u8]) -> Result<(), Error> {
        let Blob { connection, place, value, .. } = self;
        let snapshot = connection.snapshot_of(place.database)?;
        Ok(snapshot.get().read_value(value, offset, out)?)
    }

    /// Overwrites the bytes from `offset` on.
    ///
    /// # Errors
    /// [`Error::Store`] for bytes past the end, for a blob opened to read, and for what is wrong
    /// with the file.
    pub fn write_at(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        let Blob { connection, place, value, writable, .. } = self;
        if !*writable {
            return Err(Error::Misuse { what: "a blob opened to read was written to" });
        }
        let written = connection.write((place.database, &[]), |_, transaction, _| {
            transaction.write_value(value, offset, bytes).map_err(write::Failure::from)
        });
        written.map_err(|failure| failure.error)
    }

    /// Moves to the same column of another row, at less cost than opening a blob again.
    ///
    /// # Errors
    /// As [`Connection::open_blob`]; the blob stays on its row then.
    pub fn reopen(&mut self, rowid: i64) -> Result<(), Error> {
        self.value = self.connection.value_of(&self.place, rowid)?;
        self.position = 0;
        Ok(())
    }

    /// Ends the blob; a transaction of its own is committed.
    ///
    /// # Errors
    /// Those of the commit.
    pub fn close(mut self) -> Result<(), Error> {
        match std::mem::take(&mut self.own) {
            true => self.connection.commit(),
            false => Ok(()),
        }
    }

    /// How many bytes of a piece of this length lie between the position and the end.
    fn piece(&self, length: usize) -> (usize, usize) {
        let at = usize::try_from(self.position).unwrap_or(usize::MAX).min(self.len());
        (at, length.min(self.len() - at))
    }
}

impl Drop for Blob<'_> {
    fn drop(&mut self) {
        if self.own {
            // Nobody listens: the transaction ends in any case.
            let _ = self.connection.rollback();
        }
    }
}

impl Read for Blob<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let (at, length) = self.piece(out.len());
        self.read_at(at, &mut out[..length]).map_err(io::Error::other)?;
        self.position += length as u64;
        Ok(length)
    }
}

impl Write for Blob<'_> {
    /// Writes as much as the value has room for; nothing behind its end.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (at, length) = self.piece(bytes.len());
        self.write_at(at, &bytes[..length]).map_err(io::Error::other)?;
        self.position += length as u64;
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Blob<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (from, by) = match to {
            SeekFrom::Start(at) => (at, 0),
            SeekFrom::End(by) => (self.len() as u64, by),
            SeekFrom::Current(by) => (self.position, by),
        };
        let before = || io::Error::new(io::ErrorKind::InvalidInput, "a place before the beginning");
        self.position = from.checked_add_signed(by).ok_or_else(before)?;
        Ok(self.position)
    }
}
