//! `AUTOINCREMENT`: rowids that are never used twice, counted in `sqlite_sequence`.

use shoal_store::{Pgno, Record, Transaction, ValueRef, encode_record};

use super::schema_rows::is_name;
use crate::Error;
use crate::schema::{Schema, Table};
use crate::value::{Value, to_int};

/// The table's name and its definition.
pub(crate) const NAME: &str = "sqlite_sequence";
pub(crate) const DEFINITION: &str = "CREATE TABLE sqlite_sequence(name,seq)";

/// The largest rowid that a table has had. Kept here during a statement and stored at its end, as
/// SQLite does: a statement that fails leaves it as it was.
#[derive(Debug)]
pub(crate) struct Sequence {
    /// The number of the table's database.
    database: usize,
    root: Pgno,
    name: String,
    /// The row of `sqlite_sequence`, where there is one yet.
    rowid: Option<i64>,
    /// What the row says.
    stored: i64,
    largest: i64,
}

/// The counters of the tables that a statement and its triggers insert into.
#[derive(Debug, Default)]
pub(crate) struct Sequences(Vec<Sequence>);

impl Sequences {
    /// A table's counter, read when it is first asked for; `None` for a table without
    /// `AUTOINCREMENT`.
    ///
    /// # Errors
    /// [`Error::Store`]; [`Error::Schema`] without `sqlite_sequence`.
    pub(crate) fn of(
        &mut self,
        transaction: &Transaction,
        schema: &Schema,
        table: &Table,
    ) -> Result<Option<&mut Sequence>, Error> {
        if !table.autoincrement {
            return Ok(None);
        }
        let is = |it: &Sequence| it.database == table.database && it.name == table.name;
        let known = self.0.iter().position(is);
        let place = match known {
            Some(place) => place,
            None => {
                self.0.extend(Sequence::open(transaction, schema, table)?);
                self.0.len() - 1
            }
        };
        Ok(self.0.get_mut(place))
    }

    /// Takes the counters, to be stored.
    pub(crate) fn take(&mut self) -> Vec<Sequence> {
        std::mem::take(&mut self.0)
    }
}

impl Sequence {
    /// Reads a table's counter; `None` for a table without `AUTOINCREMENT`.
    ///
    /// # Errors
    /// [`Error::Store`]; [`Error::Schema`] without `sqlite_sequence`.
    fn open(
        transaction: &Transaction,
        schema: &Schema,
        table: &Table,
    ) -> Result<Option<Sequence>, Error> {
        if !table.autoincrement {
            return Ok(None);
        }
        let missing = || Error::Schema {
            object: NAME.to_owned(),
            why: "a table with AUTOINCREMENT needs it and it is missing".to_owned(),
        };
        let root = schema.table(NAME).ok_or_else(missing)?.root;
        let name = table.name.clone();
        let database = table.database;
        let mut sequence = Sequence { database, root, name, rowid: None, stored: 0, largest: 0 };
        let mut cursor = transaction.table(root)?;
        let mut more = cursor.first()?;
        while more {
            let rowid = cursor.rowid()?;
            let record = Record::new(cursor.payload()?).map_err(shoal_store::Error::from)?;
            let column = |index| record.column(index).map_err(shoal_store::Error::from);
            if is_name(column(0)?.as_ref(), &sequence.name) {
                sequence.rowid = Some(rowid);
                sequence.stored = column(1)?.map_or(0, to_int);
                sequence.largest = sequence.stored;
                break;
            }
            more = cursor.next()?;
        }
        Ok(Some(sequence))
    }

    /// A rowid above all that the table has or had.
    ///
    /// # Errors
    /// [`Error::Runtime`] `database or disk is full` after the largest rowid.
    pub(crate) fn next(&self, transaction: &Transaction, table: &Table) -> Result<i64, Error> {
        let mut cursor = transaction.table(table.root)?;
        let last = if cursor.last()? { cursor.rowid()? } else { 0 };
        last.max(self.largest)
            .max(0)
            .checked_add(1)
            .ok_or_else(|| Error::runtime("database or disk is full"))
    }

    /// The number of the table's database.
    pub(crate) fn database(&self) -> usize {
        self.database
    }

    /// Notes that a rowid was used.
    pub(crate) fn note(&mut self, used: i64) {
        self.largest = self.largest.max(used);
    }

    /// Stores the counter, unless it says as much already, in whatever words.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub(crate) fn store(&self, transaction: &mut Transaction) -> Result<(), Error> {
        let rowid = match self.rowid {
            Some(_) if self.largest == self.stored => return Ok(()),
            Some(rowid) => rowid,
            None => {
                let mut cursor = transaction.table(self.root)?;
                let last = if cursor.last()? { cursor.rowid()? } else { 0 };
                last.saturating_add(1)
            }
        };
        let name = Value::text(self.name.as_str());
        let mut record = Vec::new();
        let format = transaction.header().schema_format;
        encode_record(&[name.as_ref(), ValueRef::Int(self.largest)], format, &mut record);
        Ok(transaction.table_insert(self.root, rowid, &record)?)
    }
}
