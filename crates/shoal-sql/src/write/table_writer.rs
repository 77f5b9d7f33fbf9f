//! Rows written without SQL text: the way that other crates take to a table.

use std::cmp::Ordering;
use std::sync::Arc;

use super::change::Verdict;
use super::constraints::rowid_of;
use super::insert::{Inserted, Inserter};
use super::plain::{COLUMNS_MAX, PlainTable};
use super::references::{Change, References, Violations};
use super::row::{Row, RowKey};
use super::rows::Rows;
use super::triggers::{Programs, Within};
use super::{Context, Failure, Running, State, undoing};
use crate::Error;
use crate::error::NameKind;
use crate::schema::{Column, Object, Table};
use crate::value::{Value, ValueRef};

/// Writes rows of one table, its constraints checked and its indexes kept right.
///
/// Every call happens as a whole or not at all. The rows become durable with the connection's
/// transaction.
pub struct TableWriter<'c> {
    running: Running<'c>,
    inserter: Inserter,
    /// The foreign keys touched by a replaced row, and by a deleted one.
    replacing: References,
    deleting: References,
    programs: Programs,
    /// The place of each column's value among a caller's; `None` for generated columns.
    places: Vec<Option<usize>>,
    /// How many values a row has.
    width: usize,
    /// The short way, for a table whose rows nothing else depends on.
    plain: Option<PlainTable>,
    state: State,
}

/// The parts of a writer used by one call.
struct Writing<'w> {
    inserter: &'w Inserter,
    replacing: &'w References,
    deleting: &'w References,
    places: &'w [Option<usize>],
}

impl<'c> TableWriter<'c> {
    /// Opens a table with rowids for writing.
    ///
    /// # Errors
    /// No such table; a view, a virtual table, a table without rowid or with triggers; a table
    /// whose indexes cannot be kept right.
    pub(crate) fn new(running: Running<'c>, name: &str) -> Result<TableWriter<'c>, Error> {
        let unsupported = |what: String| Err(Error::Unsupported { what, offset: None });
        let table = match running.schema.object(name) {
            None => {
                let message = format!("no such table: {name}");
                return Err(Error::Name { kind: NameKind::Table, message, offset: None });
            }
            Some(Object::Table(table)) => Arc::clone(table),
            Some(object) => return unsupported(format!("writing to {}", object.name())),
        };
        if table.without_rowid {
            return unsupported(format!("a writer of {}, which has no rowids", table.name));
        }
        if !table.triggers.list.is_empty() {
            return unsupported(format!("writing to table {}, which has triggers", table.name));
        }
        let mut inserter = Inserter::plain(running.schema, &table)?;
        let mut within = Within::new(running.schema, running.home, false, None);
        let mut references = |change| References::new(&mut within, &table, change);
        inserter.references = references(Change::Insert { single: true })?;
        let replacing = references(Change::Update(&|_| true))?;
        let deleting = references(Change::Delete)?;
        let programs = within.into_programs();
        let violations = Violations::of(*running.outstanding);
        let state = State { violations, ..State::default() };
        let mut count = 0;
        let place = |column: &Column| {
            let place = column.generated.is_none().then_some(count);
            count += usize::from(place.is_some());
            place
        };
        let places = table.columns.iter().map(place).collect();
        let is_alone = inserter.is_alone() && running.session.row_hooks().is_none();
        let plain = if is_alone { PlainTable::new(&inserter.changer) } else { None };
        let width = count;
        Ok(TableWriter {
            running,
            inserter,
            replacing,
            deleting,
            programs,
            places,
            width,
            plain,
            state,
        })
    }

    /// Does some work as a whole or not at all; `stores_whole` skips the savepoint: the work itself
    /// changes all or nothing.
    fn undoing<T>(
        &mut self,
        stores_whole: bool,
        work: impl FnOnce(&Writing<'_>, &mut Context<'_>) -> Result<T, Failure>,
    ) -> Result<T, Error> {
        let TableWriter { inserter, replacing, deleting, places, .. } = self;
        let writing = Writing { inserter, replacing, deleting, places };
        self.state.violations = Violations::of(*self.running.outstanding);
        let mut context = Context {
            home: self.running.home,
            main: self.running.main,
            transaction: &mut *self.running.transaction,
            others: &mut [],
            attached: self.running.attached,
            schema: self.running.schema,
            session: self.running.session,
            parameters: self.running.parameters,
            programs: &self.programs,
            keeper: None,
            state: &mut self.state,
        };
        let done = |context: &mut Context<'_>| {
            let done = work(&writing, context)?;
            context.state.violations.check_statement()?;
            context.store_sequences()?;
            Ok(done)
        };
        let done = match stores_whole {
            true => done(&mut context),
            false => undoing(&mut context, true, done),
        };
        if done.is_ok() {
            *self.running.outstanding = self.state.violations.outstanding;
        }
        done.map_err(|failure: Failure| failure.error)
    }

    /// The table.
    pub fn table(&self) -> &Table {
        &self.inserter.changer.rows.table
    }

    /// Inserts a row: one value per column, in the order of the definition, generated columns
    /// left out. NULL for the rowid's other name picks a new rowid.
    ///
    /// Gives the rowid. Cost: a descent of the table and of every index.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a wrong number of values; [`Error::Constraint`]; [`Error::Store`].
    pub fn insert(&mut self, values: &[ValueRef<'_>]) -> Result<i64, Error> {
        self.check_count(values)?;
        if let Some(rowid) = self.insert_plain(values)? {
            return Ok(rowid);
        }
        let stores_whole = self.inserter.stores_whole();
        let mut row = std::mem::take(&mut self.state.scratch.row);
        let inserted = self.undoing(stores_whole, |writing, context| {
            let given = |column: usize| writing.places[column].map(|place| values[place]);
            writing.inserter.make(context, &mut row, given)?;
            match writing.inserter.insert(context, &mut row, None)? {
                Inserted::Row(rowid) => Ok(rowid),
                Inserted::Updated | Inserted::Nothing => Ok(0),
            }
        });
        self.state.scratch.row = row;
        inserted
    }

    /// Inserts a row by the short way; `None` where it has to take the long one.
    #[inline]
    fn insert_plain(&mut self, values: &[ValueRef<'_>]) -> Result<Option<i64>, Error> {
        let Some(plain) = &self.plain else { return Ok(None) };
        let rowid = match plain.alias().map(|alias| values[alias]) {
            None | Some(ValueRef::Null) => None,
            Some(ValueRef::Int(rowid)) => Some(rowid),
            Some(_) => return Ok(None),
        };
        let mut row = [ValueRef::Null; COLUMNS_MAX];
        let row = &mut row[..plain.width()];
        row.copy_from_slice(values);
        plain.insert(self.running.transaction, rowid, row, &mut self.state.scratch.plain)
    }

    /// Replaces the row of that rowid; false when there is none. The values are as for
    /// [`TableWriter::insert`]; NULL for the rowid's other name keeps the rowid.
    ///
    /// # Errors
    /// As [`TableWriter::insert`].
    pub fn replace(&mut self, rowid: i64, values: &[ValueRef<'_>]) -> Result<bool, Error> {
        let given = self.given(values)?;
        self.undoing(false, |writing, context| {
            let changer = &writing.inserter.changer;
            let key = RowKey::Rowid(rowid);
            let Some(old) = changer.read(context, &key)? else { return Ok(false) };
            let mut new = changed(&changer.rows, &old, given)?;
            changer.convert(context, &mut new)?;
            let stored = changer.check(context, &mut new, Some(&key))? == Verdict::Store;
            if stored {
                writing.replacing.store(context, &changer.rows, &old, &new)?;
            }
            Ok(stored)
        })
    }

    /// Deletes the row of that rowid; false when there is none.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub fn delete(&mut self, rowid: i64) -> Result<bool, Error> {
        if let Some(plain) = self.plain.as_ref().filter(|_| self.deleting.is_empty()) {
            let records = &mut self.state.scratch.plain;
            if let Some(count) = plain.delete(self.running.transaction, rowid, records)? {
                return Ok(count > 0);
            }
        }
        self.undoing(false, |writing, context| {
            let changer = &writing.inserter.changer;
            let key = RowKey::Rowid(rowid);
            let Some(row) = changer.read(context, &key)? else { return Ok(false) };
            writing.deleting.leave(context, &row)?;
            changer.rows.delete(context.transaction, &row, context.session)?;
            writing.deleting.act(context, &row, None)?;
            Ok(true)
        })
    }

    /// The values by column; `None` for generated ones.
    fn given(&self, values: &[ValueRef<'_>]) -> Result<Vec<Option<Value>>, Error> {
        self.check_count(values)?;
        let value = |place: &Option<usize>| place.map(|place| Value::from(values[place]));
        Ok(self.places.iter().map(value).collect())
    }

    fn check_count(&self, values: &[ValueRef<'_>]) -> Result<(), Error> {
        match values.len().cmp(&self.width) {
            Ordering::Less => Err(Error::Misuse { what: "too few values for the table" }),
            Ordering::Equal => Ok(()),
            Ordering::Greater => Err(Error::Misuse { what: "too many values for the table" }),
        }
    }
}

impl std::fmt::Debug for TableWriter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableWriter")
            .field("table", &self.inserter.changer.rows.table.name)
            .finish_non_exhaustive()
    }
}

fn changed(rows: &Rows, old: &Row, given: Vec<Option<Value>>) -> Result<Row, Failure> {
    let mut new = old.clone();
    for (index, value) in given.into_iter().enumerate() {
        let Some(value) = value else { continue };
        if rows.table.rowid_alias == Some(index) {
            new.rowid = rowid_of(&value)?.unwrap_or(old.rowid);
            new.values[index] = Value::Int(new.rowid);
        } else {
            new.values[index] = value;
        }
    }
    Ok(new)
}
