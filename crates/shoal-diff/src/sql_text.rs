//! Differences as SQL: a script to make the first file's content the second's.

use std::io::Write;

use shoal_sql::Value;

use crate::Error;
use crate::changeset::Op;
use crate::literal::{identifier, literal, quoted};
use crate::schema::SchemaChange;
use crate::shape::{Identity, Shape};
use crate::sink::{RowDiff, Sink};

/// Writes SQL, for Shoal and SQLite alike: one transaction, foreign keys off, triggers dropped
/// while rows change. Writes nothing when there is no difference.
#[derive(Debug)]
pub struct SqlText<W> {
    out: W,
    has_begun: bool,
}

impl<W: Write> SqlText<W> {
    /// A script into `out`.
    pub fn new(out: W) -> SqlText<W> {
        SqlText { out, has_begun: false }
    }

    /// Ends the script.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn finish(mut self) -> Result<W, Error> {
        if self.has_begun {
            self.out.write_all(b"COMMIT;\n")?;
        }
        Ok(self.out)
    }

    fn begin(&mut self) -> Result<(), Error> {
        if !self.has_begun {
            self.has_begun = true;
            self.out.write_all(b"PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n")?;
        }
        Ok(())
    }

    fn assignments(&mut self, row: &RowDiff<'_>) -> Result<(), Error> {
        let mut before = " SET ";
        for (column, name) in row.shape.columns.iter().enumerate() {
            if row.old[column] == row.new[column] || row.shape.head.is_key(column) {
                continue;
            }
            write!(self.out, "{before}{}=", quoted(name))?;
            literal(&mut self.out, &row.new[column].as_ref())?;
            before = ", ";
        }
        Ok(())
    }

    /// The condition true of the row in the first file alone.
    fn condition(&mut self, row: &RowDiff<'_>) -> Result<(), Error> {
        let shape = row.shape;
        if row.is_by_rowid() {
            let name = shape.rowid_name.unwrap_or("rowid");
            write!(self.out, " WHERE {name}={}", row.rowid.unwrap_or_default())?;
            return Ok(());
        }
        let mut before = " WHERE ";
        for column in shape.head.key_columns() {
            write!(self.out, "{before}{}=", quoted(&shape.columns[column]))?;
            literal(&mut self.out, &row.old[column].as_ref())?;
            before = " AND ";
        }
        Ok(())
    }

    fn insert(&mut self, shape: &Shape, row: &[Value]) -> Result<(), Error> {
        write!(self.out, "INSERT INTO {}", identifier(&shape.head.table))?;
        for (column, name) in shape.columns.iter().enumerate() {
            let before = if column == 0 { "(" } else { "," };
            match (shape.identity, column, shape.rowid_name) {
                (Identity::Rowid, 0, Some(rowid)) => write!(self.out, "{before}{rowid}")?,
                _ => write!(self.out, "{before}{}", quoted(name))?,
            }
        }
        self.out.write_all(b") VALUES")?;
        for (column, value) in row.iter().enumerate() {
            self.out.write_all(if column == 0 { b"(" } else { b"," })?;
            literal(&mut self.out, &value.as_ref())?;
        }
        self.out.write_all(b")")?;
        Ok(())
    }
}

impl<W: Write> Sink for SqlText<W> {
    fn is_script(&self) -> bool {
        true
    }

    fn schema(&mut self, change: &SchemaChange) -> Result<(), Error> {
        self.begin()?;
        match change {
            SchemaChange::Drop { kind, name } => {
                writeln!(self.out, "DROP {} {};", kind.to_ascii_uppercase(), identifier(name))?;
            }
            SchemaChange::Create { sql, .. } => writeln!(self.out, "{sql};")?,
            SchemaChange::Number { name, value } => writeln!(self.out, "PRAGMA {name}={value};")?,
            SchemaChange::Sequence { table, value } => {
                let mut name = Vec::new();
                literal(&mut name, &Value::text(table.as_str()).as_ref())?;
                self.out.write_all(b"DELETE FROM sqlite_sequence WHERE name=")?;
                self.out.write_all(&name)?;
                self.out.write_all(b";\n")?;
                if let Some(value) = value {
                    self.out.write_all(b"INSERT INTO sqlite_sequence(name,seq) VALUES(")?;
                    self.out.write_all(&name)?;
                    writeln!(self.out, ",{value});")?;
                }
            }
        }
        Ok(())
    }

    fn row(&mut self, row: &RowDiff<'_>) -> Result<(), Error> {
        self.begin()?;
        let table = identifier(&row.shape.head.table);
        match row.op {
            Op::Insert => self.insert(row.shape, row.new)?,
            Op::Delete => {
                write!(self.out, "DELETE FROM {table}")?;
                self.condition(row)?;
            }
            Op::Update => {
                write!(self.out, "UPDATE {table}")?;
                self.assignments(row)?;
                self.condition(row)?;
            }
        }
        self.out.write_all(b";\n")?;
        Ok(())
    }
}
