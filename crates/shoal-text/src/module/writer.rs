//! Changes of a full text table's rows, and its commands.

use std::borrow::Cow;

use shoal_sql::{
    ConstraintKind, Error, OnConflict, TableWrites, Value, ValueRef, VirtualRow, VirtualWriter,
};

use super::rows::WriteStore;
use super::{TextParts, TextTable, rowid_of, text_of, texts};
use crate::definition::Content;
use crate::index::Writer;
use crate::storage::Setting;

#[derive(Debug)]
pub(super) struct TextWriter {
    table: TextTable,
    /// None before the first change.
    writer: Option<Writer>,
    /// Moments taken before the first change.
    early: usize,
}

impl TextWriter {
    pub(super) fn new(table: TextTable) -> TextWriter {
        TextWriter { table, writer: None, early: 0 }
    }

    /// Works with the index; its writer is opened first.
    fn with<T>(
        &mut self,
        writes: &mut TableWrites<'_>,
        work: impl FnOnce(&mut Writer, &WriteStore<'_, '_, '_>) -> crate::error::Result<T>,
    ) -> Result<T, Error> {
        let TextParts { definition, shadows, .. } = &*self.table;
        let store = WriteStore::new(definition, shadows, writes);
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => {
                let mut writer = Writer::open(&store, definition)?;
                for _ in 0..self.early {
                    writer.savepoint();
                }
                none.insert(writer)
            }
        };
        Ok(work(writer, &store)?)
    }

    fn has_tombstones(&self) -> bool {
        self.table.definition.deletes_contentless
    }

    fn is_contentless(&self) -> bool {
        matches!(self.table.definition.content, Content::Nowhere | Content::Unindexed)
    }

    /// Removes a document from the index; its texts are read where there are some.
    fn forget(&mut self, rowid: i64, writes: &mut TableWrites<'_>) -> Result<bool, Error> {
        let definition = std::sync::Arc::clone(&self.table.definition);
        if self.has_tombstones() {
            return self.with(writes, |writer, store| {
                writer.delete_contentless(store, &definition, rowid)
            });
        }
        let mut values = Vec::new();
        self.with(writes, |writer, store| {
            if !store.values(rowid, &mut values)? {
                return Ok(false);
            }
            let texts = texts(&values);
            writer.delete(store, &definition, rowid, &slices(&texts)).map(|()| true)
        })
    }

    /// Stores a row's texts, where the table keeps them itself.
    fn store_texts(
        &self,
        rowid: i64,
        values: &[Value],
        writes: &mut TableWrites<'_>,
    ) -> Result<(), Error> {
        let Some(texts) = self.table.shadows.texts.as_ref().filter(|texts| texts.is_own) else {
            return Ok(());
        };
        let Some(table) = &texts.table else { return Ok(()) };
        let mut row = vec![ValueRef::Null];
        for (value, place) in values.iter().zip(&texts.places) {
            if place.is_some() {
                row.push(value_ref(value));
            }
        }
        writes.insert(table, rowid, &row)
    }

    fn remove_texts(&self, rowid: i64, writes: &mut TableWrites<'_>) -> Result<(), Error> {
        let texts = self.table.shadows.texts.as_ref().filter(|texts| texts.is_own);
        match texts.and_then(|texts| texts.table.as_ref()) {
            Some(table) => writes.delete(table, rowid).map(drop),
            None => Ok(()),
        }
    }

    /// True where the table has a row.
    fn has(&self, rowid: i64, writes: &mut TableWrites<'_>) -> Result<bool, Error> {
        let shadows = &self.table.shadows;
        let own = shadows.texts.as_ref().filter(|texts| texts.is_own);
        let table = own.and_then(|texts| texts.table.as_ref()).or(shadows.sizes.as_ref());
        match table {
            Some(table) => writes.reads().rows(table)?.seek(rowid),
            None => Ok(false),
        }
    }

    fn next_rowid(&self, writes: &mut TableWrites<'_>) -> Result<i64, Error> {
        let shadows = &self.table.shadows;
        let own = shadows.texts.as_ref().filter(|texts| texts.is_own);
        let table = own.and_then(|texts| texts.table.as_ref()).or(shadows.sizes.as_ref());
        match table {
            Some(table) => writes.new_rowid(table),
            None => Err(Error::of_function("datatype mismatch")),
        }
    }

    /// Indexes a row that the table does not have. A failure leaves the file as it was.
    fn add(
        &mut self,
        rowid: i64,
        values: &[Value],
        writes: &mut TableWrites<'_>,
    ) -> Result<(), Error> {
        // What is in memory is written before the row: taken back with it, as the statement takes
        // back the writer's memory.
        match self.with(writes, |writer, _| Ok(writer.must_flush(rowid)))? {
            true => writes.whole(|writes| self.add_row(rowid, values, writes)),
            false => self.add_row(rowid, values, writes),
        }
    }

    fn add_row(
        &mut self,
        rowid: i64,
        values: &[Value],
        writes: &mut TableWrites<'_>,
    ) -> Result<(), Error> {
        self.store_texts(rowid, values, writes)?;
        let definition = std::sync::Arc::clone(&self.table.definition);
        let texts = texts(values);
        let added = self.with(writes, |writer, store| {
            writer.insert(store, &definition, rowid, &slices(&texts))
        });
        if added.is_err() {
            // The first fault is told, whatever comes of the texts.
            self.remove_texts(rowid, writes).ok();
        }
        added
    }

    /// `INSERT INTO t(t, rank, ...) VALUES(command, ...)`.
    fn command(&mut self, row: &VirtualRow<'_>, writes: &mut TableWrites<'_>) -> Result<(), Error> {
        let definition = std::sync::Arc::clone(&self.table.definition);
        let count = definition.columns.len();
        let mut word = Vec::new();
        text_of(&row.values[count], &mut word);
        let word = String::from_utf8_lossy(&word).into_owned();
        if word.eq_ignore_ascii_case("delete") {
            if definition.content == Content::Own {
                return Err(Error::of_function(
                    "'delete' may only be used with a contentless or external content fts5 table",
                ));
            }
            if self.has_tombstones() {
                return Err(Error::of_function(
                    "'delete' may not be used with a contentless_delete=1 table",
                ));
            }
            let Some(Value::Int(rowid)) = row.rowid else { return Ok(()) };
            let texts = texts(&row.values[..count]);
            return self.with(writes, |writer, store| {
                writer.delete(store, &definition, *rowid, &slices(&texts))
            });
        }
        let value = match &row.values[count + 1] {
            Value::Int(number) => Some(Setting::Integer(*number)),
            Value::Text(bytes) => Some(Setting::Text(String::from_utf8_lossy(bytes).into_owned())),
            Value::Real(number) => Some(Setting::Text(shoal_sql::real_to_text(*number))),
            _ => None,
        };
        self.with(writes, |writer, store| writer.command(store, &definition, &word, value.as_ref()))
    }
}

fn value_ref(value: &Value) -> ValueRef<'_> {
    match value {
        Value::Null => ValueRef::Null,
        Value::Int(number) => ValueRef::Int(*number),
        Value::Real(number) => ValueRef::Real(*number),
        Value::Text(bytes) => ValueRef::Text(bytes),
        Value::Blob(bytes) => ValueRef::Blob(bytes),
    }
}

/// A rowid to be written.
fn new_rowid(value: &Value) -> Result<i64, Error> {
    rowid_of(value).ok_or_else(|| Error::of_function("datatype mismatch"))
}

fn slices<'t>(texts: &'t [Option<Cow<'_, [u8]>>]) -> Vec<Option<&'t [u8]>> {
    texts.iter().map(Option::as_deref).collect()
}

impl VirtualWriter for TextWriter {
    fn insert(&mut self, row: &VirtualRow<'_>, writes: &mut TableWrites<'_>) -> Result<i64, Error> {
        let count = self.table.definition.columns.len();
        if !matches!(row.values[count], Value::Null) {
            self.command(row, writes)?;
            return Ok(0);
        }
        let (rowid, is_given) = match row.rowid {
            None | Some(Value::Null) => (self.next_rowid(writes)?, false),
            Some(value) => (new_rowid(value)?, true),
        };
        let is_own = matches!(self.table.definition.content, Content::Own);
        if is_given && (is_own || self.has_tombstones()) && self.has(rowid, writes)? {
            if row.conflict != Some(OnConflict::Replace) {
                return Err(Error::Constraint {
                    constraint: ConstraintKind::PrimaryKey,
                    place: format!("{}.rowid", self.table.definition.name),
                });
            }
            self.delete(rowid, writes)?;
        }
        self.add(rowid, &row.values[..count], writes)?;
        Ok(rowid)
    }

    fn update(
        &mut self,
        rowid: i64,
        row: &VirtualRow<'_>,
        writes: &mut TableWrites<'_>,
    ) -> Result<(), Error> {
        let definition = std::sync::Arc::clone(&self.table.definition);
        let count = definition.columns.len();
        if self.is_contentless() && !self.has_tombstones() {
            return Err(Error::of_function(format!(
                "cannot UPDATE contentless fts5 table: {}",
                definition.name
            )));
        }
        if self.has_tombstones() {
            let named = &row.named[..count];
            let is_whole =
                definition.columns.iter().zip(named).all(|(c, is)| c.is_unindexed || *is);
            if !is_whole {
                let message = if named.contains(&true) {
                    "cannot UPDATE a subset of columns on fts5 contentless-delete table"
                } else {
                    "cannot UPDATE contentless fts5 table"
                };
                return Err(Error::of_function(format!("{message}: {}", definition.name)));
            }
        }
        let new = match row.rowid {
            Some(value) => new_rowid(value)?,
            None => rowid,
        };
        if new != rowid && self.has(new, writes)? {
            if row.conflict != Some(OnConflict::Replace) {
                return Err(Error::Constraint {
                    constraint: ConstraintKind::PrimaryKey,
                    place: format!("{}.rowid", definition.name),
                });
            }
            self.delete(new, writes)?;
        }
        self.delete(rowid, writes)?;
        self.add(new, &row.values[..count], writes)
    }

    fn delete(&mut self, rowid: i64, writes: &mut TableWrites<'_>) -> Result<(), Error> {
        if self.is_contentless() && !self.has_tombstones() {
            return Err(Error::of_function(format!(
                "cannot DELETE from contentless fts5 table: {}",
                self.table.definition.name
            )));
        }
        self.forget(rowid, writes)?;
        self.remove_texts(rowid, writes)
    }

    fn flush(&mut self, writes: &mut TableWrites<'_>) -> Result<(), Error> {
        if self.writer.is_none() {
            return Ok(());
        }
        self.with(writes, |writer, store| writer.flush(store))
    }

    fn savepoint(&mut self, _writes: &mut TableWrites<'_>) -> Result<usize, Error> {
        Ok(match &mut self.writer {
            Some(writer) => writer.savepoint(),
            None => {
                self.early += 1;
                self.early - 1
            }
        })
    }

    fn rollback_to(&mut self, moment: usize) {
        match &mut self.writer {
            Some(writer) => writer.rollback_to(moment),
            None => self.early = self.early.min(moment + 1),
        }
    }

    fn release(&mut self, moment: usize) {
        match &mut self.writer {
            Some(writer) => writer.release(moment),
            None => self.early = self.early.min(moment),
        }
    }
}
