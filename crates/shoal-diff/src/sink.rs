//! Takers of differences: the bytes of changesets, and counts.

use std::collections::BTreeMap;

use shoal_sql::Value;

use crate::Error;
use crate::changeset::{Change, Form, Op, Writer};
use crate::schema::SchemaChange;
use crate::shape::{Identity, Shape, whole};

/// A row in one file or both.
#[derive(Clone, Copy, Debug)]
pub struct RowDiff<'r> {
    /// The table.
    pub shape: &'r Shape,
    /// The operation to be done to the first file.
    pub op: Op,
    /// The rowid, of the row in the first file where there is one; `None` in tables without.
    pub rowid: Option<i64>,
    /// The row in the first file; empty for an insertion.
    pub old: &'r [Value],
    /// The row in the second file; empty for a deletion.
    pub new: &'r [Value],
}

impl RowDiff<'_> {
    /// True where NULL in the key leaves the rowid alone to name the row.
    pub fn is_by_rowid(&self) -> bool {
        let row = if self.op == Op::Insert { self.new } else { self.old };
        self.shape.identity == Identity::Rowid || self.shape.has_null_key(row)
    }
}

/// A taker of differences.
pub trait Sink {
    /// True where the differences become a script, run in their order: definitions are told of,
    /// triggers are away while rows change, and rows of a table with unique indexes come as
    /// deletions, updates, insertions.
    fn is_script(&self) -> bool {
        false
    }

    /// True where columns are told by their places in the whole table: a table of which rules hide
    /// a part is refused.
    fn is_by_place(&self) -> bool {
        false
    }

    /// True where tables present in one file alone, or defined differently, are told of.
    fn takes_definitions(&self) -> bool {
        true
    }

    /// Takes a change of the schema.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn schema(&mut self, change: &SchemaChange) -> Result<(), Error>;

    /// Takes a row.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn row(&mut self, row: &RowDiff<'_>) -> Result<(), Error>;
}

/// Makes a changeset or a patchset. Tables without a primary key are left out unless asked for,
/// and rows with NULL in their key always, as by SQLite's sessions.
#[derive(Debug)]
pub struct Changes {
    writer: Writer,
    with_rowids: bool,
    skipped: u64,
}

impl Changes {
    /// No changes so far. `with_rowids` takes tables without a primary key too: their rows are
    /// named by rowid, in a column `_rowid_`, understood by SQLite since 3.42.
    pub fn new(form: Form, with_rowids: bool) -> Changes {
        Changes { writer: Writer::new(form), with_rowids, skipped: 0 }
    }

    /// Rows left out: of tables without a primary key, and with NULL in the key.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// The bytes.
    pub fn finish(self) -> Vec<u8> {
        self.writer.finish()
    }
}

impl Sink for Changes {
    fn is_by_place(&self) -> bool {
        true
    }

    fn takes_definitions(&self) -> bool {
        false
    }

    fn schema(&mut self, _change: &SchemaChange) -> Result<(), Error> {
        Ok(())
    }

    fn row(&mut self, row: &RowDiff<'_>) -> Result<(), Error> {
        let unnamed = row.shape.identity == Identity::Rowid;
        if (unnamed && !self.with_rowids) || (!unnamed && row.is_by_rowid()) {
            self.skipped += 1;
            return Ok(());
        }
        push_row(&mut self.writer, row);
        Ok(())
    }
}

/// Writes a row's change.
pub(crate) fn push_row(writer: &mut Writer, row: &RowDiff<'_>) {
    let head = &row.shape.head;
    let (mut old, mut new) = (whole(row.old), whole(row.new));
    if row.op == Op::Update {
        for column in 0..old.len() {
            let same = row.old[column] == row.new[column];
            if same || head.is_key(column) {
                new[column] = None;
            }
            if same && !head.is_key(column) {
                old[column] = None;
            }
        }
    }
    let form = Form::Changeset;
    let (op, old, new) = (row.op, &old[..], &new[..]);
    writer.push(&Change { head, form, op, indirect: false, old, new });
}

/// Rows by operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows only in the second file.
    pub inserted: u64,
    /// Rows in both files with other values.
    pub updated: u64,
    /// Rows only in the first file.
    pub deleted: u64,
}

impl Counts {
    pub(crate) fn count(&mut self, op: Op) {
        match op {
            Op::Insert => self.inserted += 1,
            Op::Update => self.updated += 1,
            Op::Delete => self.deleted += 1,
        }
    }
}

/// Counts rows by table, and keeps the changes of the schema.
#[derive(Debug, Default)]
pub struct Summary {
    /// Tables with differing rows.
    pub tables: BTreeMap<String, Counts>,
    /// Changes of the schema.
    pub schema: Vec<SchemaChange>,
}

impl Sink for Summary {
    fn schema(&mut self, change: &SchemaChange) -> Result<(), Error> {
        self.schema.push(change.clone());
        Ok(())
    }

    fn row(&mut self, row: &RowDiff<'_>) -> Result<(), Error> {
        let table = &row.shape.head.table;
        if !self.tables.contains_key(table) {
            self.tables.insert(table.clone(), Counts::default());
        }
        self.tables.get_mut(table).expect("the table was just added").count(row.op);
        Ok(())
    }
}
