//! Differences as JSON objects, one a line.

use std::io::Write;

use shoal_sql::{Value, ValueRef};
use shoal_stdx::hex;

use crate::Error;
use crate::changeset::{Change, Op};
use crate::schema::SchemaChange;
use crate::sink::{RowDiff, Sink};

/// Writes a JSON object a line. Rows: `op` (`insert`, `update`, `delete`), `table`, `key` (or
/// `rowid`), `old`, `new`; an update has the changed columns alone. Definitions: `create` with
/// `kind`, `name`, `sql`, `drop`, `set`, `sequence`. A blob is `{"blob": HEX}`, a text outside
/// UTF-8 `{"text": HEX}`, an infinite real a number too large for a double.
#[derive(Debug)]
pub struct JsonLines<W> {
    out: W,
}

impl<W: Write> JsonLines<W> {
    /// Lines into `out`.
    pub fn new(out: W) -> JsonLines<W> {
        JsonLines { out }
    }

    /// Writes a change of a changeset: columns are named by their number.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn change(&mut self, change: &Change<'_, '_>) -> Result<(), Error> {
        let op = change.op.word().to_ascii_lowercase();
        write!(self.out, "{{\"op\":\"{op}\",\"table\":")?;
        self.text(&change.head.table)?;
        if change.indirect {
            self.out.write_all(b",\"indirect\":true")?;
        }
        for (name, record) in [("old", change.old), ("new", change.new)] {
            let mut before = format!(",\"{name}\":{{");
            for (column, value) in record.iter().enumerate() {
                if let Some(value) = value {
                    write!(self.out, "{before}\"{column}\":")?;
                    self.value(*value)?;
                    ",".clone_into(&mut before);
                }
            }
            if before == "," {
                self.out.write_all(b"}")?;
            }
        }
        self.out.write_all(b"}\n")?;
        Ok(())
    }

    /// The output.
    pub fn finish(self) -> W {
        self.out
    }

    /// Writes the columns picked by `wanted` as an object.
    fn columns(
        &mut self,
        name: &str,
        row: &RowDiff<'_>,
        values: &[Value],
        wanted: impl Fn(usize) -> bool,
    ) -> Result<(), Error> {
        write!(self.out, ",\"{name}\":{{")?;
        let mut is_first = true;
        for (column, value) in values.iter().enumerate().filter(|(column, _)| wanted(*column)) {
            if !is_first {
                self.out.write_all(b",")?;
            }
            is_first = false;
            self.text(&row.shape.columns[column])?;
            self.out.write_all(b":")?;
            self.value(value.as_ref())?;
        }
        self.out.write_all(b"}")?;
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), Error> {
        serde_json::to_writer(&mut self.out, text).map_err(std::io::Error::from)?;
        Ok(())
    }

    fn value(&mut self, value: ValueRef<'_>) -> Result<(), Error> {
        match value {
            ValueRef::Null => self.out.write_all(b"null")?,
            ValueRef::Int(int) => write!(self.out, "{int}")?,
            ValueRef::Real(real) if real == f64::INFINITY => self.out.write_all(b"9e999")?,
            ValueRef::Real(real) if real == f64::NEG_INFINITY => self.out.write_all(b"-9e999")?,
            ValueRef::Real(real) => {
                serde_json::to_writer(&mut self.out, &real).map_err(std::io::Error::from)?;
            }
            ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => self.text(text)?,
                Err(_) => write!(self.out, "{{\"text\":\"{}\"}}", hex::encode(bytes))?,
            },
            ValueRef::Blob(bytes) => write!(self.out, "{{\"blob\":\"{}\"}}", hex::encode(bytes))?,
        }
        Ok(())
    }
}

impl<W: Write> Sink for JsonLines<W> {
    fn schema(&mut self, change: &SchemaChange) -> Result<(), Error> {
        match change {
            SchemaChange::Drop { kind, name } => {
                write!(self.out, "{{\"op\":\"drop\",\"kind\":\"{kind}\",\"name\":")?;
                self.text(name)?;
            }
            SchemaChange::Create { kind, name, sql } => {
                write!(self.out, "{{\"op\":\"create\",\"kind\":\"{kind}\",\"name\":")?;
                self.text(name)?;
                self.out.write_all(b",\"sql\":")?;
                self.text(sql)?;
            }
            SchemaChange::Number { name, value } => {
                write!(self.out, "{{\"op\":\"set\",\"name\":\"{name}\",\"value\":{value}")?;
            }
            SchemaChange::Sequence { table, value } => {
                self.out.write_all(b"{\"op\":\"sequence\",\"table\":")?;
                self.text(table)?;
                self.out.write_all(b",\"value\":")?;
                self.value(value.map_or(ValueRef::Null, ValueRef::Int))?;
            }
        }
        self.out.write_all(b"}\n")?;
        Ok(())
    }

    fn row(&mut self, row: &RowDiff<'_>) -> Result<(), Error> {
        let (op, keyed) = match row.op {
            Op::Insert => ("insert", row.new),
            Op::Update => ("update", row.old),
            Op::Delete => ("delete", row.old),
        };
        write!(self.out, "{{\"op\":\"{op}\",\"table\":")?;
        let head = &row.shape.head;
        self.text(&head.table)?;
        match row.rowid.filter(|_| row.is_by_rowid()) {
            Some(rowid) => write!(self.out, ",\"rowid\":{rowid}")?,
            None => self.columns("key", row, keyed, |column| head.is_key(column))?,
        }
        let has_named_rowid =
            row.shape.columns.first().is_some_and(|name| name != "_rowid_") || !row.is_by_rowid();
        let wanted = |column: usize| match row.op {
            Op::Update => row.old[column] != row.new[column],
            _ => has_named_rowid || column > 0,
        };
        if !row.old.is_empty() {
            self.columns("old", row, row.old, wanted)?;
        }
        if !row.new.is_empty() {
            self.columns("new", row, row.new, wanted)?;
        }
        self.out.write_all(b"}\n")?;
        Ok(())
    }
}
