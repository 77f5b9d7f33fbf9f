//! `DELETE`.

use std::sync::Arc;

use super::bulk::{self, Bulk, OrderedRows};
use super::change::Changer;
use super::narrowed;
use super::plain::PlainTable;
use super::query::{Named, RowQuery};
use super::references::{Change, References};
use super::returning::Returning;
use super::row::{Row, RowKey};
use super::rows;
use super::target::{Target, writable};
use super::triggers::{Firing, Within, fire};
use super::virtual_table::VirtualTarget;
use super::{Context, Done, Failure, RowsWritten};
use crate::Error;
use crate::keep::RowValues;
use crate::parse::ast::{Delete, Indexed, ObjectName, TriggerEvent};
use crate::resolve::Around;
use crate::schema::Table;
use crate::value::Value;

/// A prepared `DELETE`.
#[derive(Debug)]
pub(crate) struct DeletePlan {
    into: Option<VirtualTarget>,
    changer: Changer,
    is_view: bool,
    firing: Firing,
    references: References,
    returning: Option<Returning>,
    /// The keys of the rows to delete; `None` for all rows, whose pages are emptied.
    keys: Option<RowQuery>,
    /// The short way; for many rows alone of a table without rowid.
    plain: Option<PlainTable>,
}

/// Prepares a `DELETE`.
///
/// # Errors
/// As [`super::prepare`].
pub(crate) fn prepare(
    within: &mut Within<'_>,
    delete: &Delete,
    around: Around<'_>,
) -> Result<DeletePlan, Error> {
    let schema = within.schema;
    let target = writable(within, &delete.table, TriggerEvent::Delete, around)?;
    let around = Around { with: delete.with.as_ref(), ..around };
    let conflict = within.conflict;
    // Before the triggers, whose faults count only where nothing else is wrong.
    let references = match (&target.view, &target.virtual_table) {
        (Some(_), _) | (_, Some(_)) => References::default(),
        (None, None) => References::new(within, &target.table, Change::Delete)?,
    };
    let named = Named {
        name: &delete.table,
        at: None,
        alias: delete.alias.as_ref(),
        indexed: &delete.indexed,
        from: None,
        filter: delete.filter.as_ref(),
    };
    let find = || RowQuery::over_table(schema, &target, named, Vec::new(), around);
    let is_virtual = target.virtual_table.is_some();
    if is_virtual && delete.returning.is_some() {
        let what = "DELETE RETURNING is not available on virtual tables";
        return Err(Error::meaning(what, delete.table.name.offset));
    }
    let is_selective = delete.filter.is_some() || is_virtual || target.narrowed.is_some();
    let mut keys = is_selective.then(find).transpose()?;
    let firing = within.firing(&target, TriggerEvent::Delete, &[], conflict)?;
    let columns = delete.returning.as_deref();
    let returning = Returning::compile(within, &target, &delete.table, columns, around)?;
    let is_whole = delete.filter.is_none()
        && firing.is_empty()
        && returning.is_none()
        && references.is_empty();
    if keys.is_none() && !is_whole {
        keys = Some(find()?);
    }
    let mut changer = Changer::plain(schema, &target.table, None)
        .map_err(|error| narrowed::of_definitions(&target, error))?;
    changer.is_kept = within.keeps(&target.table);
    changer.narrow(schema, &target, TriggerEvent::Delete, around)?;
    let is_view = target.view.is_some();
    let into =
        target.virtual_table.map(|table| VirtualTarget { table, named: Vec::new(), conflict });
    let plain = None;
    let mut plan =
        DeletePlan { into, changer, is_view, firing, references, returning, keys, plain };
    if plan.is_alone() {
        plan.plain = PlainTable::for_bulk(&plan.changer);
    }
    Ok(plan)
}

/// The implicit `DELETE` of a `DROP TABLE`, for the sake of foreign keys: the table's own triggers
/// do not run. `None` where there are no such keys.
///
/// # Errors
/// As [`References::new`].
pub(crate) fn prepare_drop(
    within: &mut Within<'_>,
    table: &Arc<Table>,
    name: &ObjectName,
) -> Result<Option<DeletePlan>, Error> {
    let references = References::new(within, table, Change::Drop)?;
    if references.is_empty() {
        return Ok(None);
    }
    let table_alone = Arc::clone(table);
    let target = Target { table: table_alone, view: None, virtual_table: None, narrowed: None };
    let indexed = &Indexed::Any;
    let named = Named { name, at: None, alias: None, indexed, from: None, filter: None };
    let around = Around::statement(0);
    let keys = RowQuery::over_table(within.schema, &target, named, Vec::new(), around)?;
    Ok(Some(DeletePlan {
        into: None,
        changer: Changer::plain(within.schema, table, None)?,
        is_view: false,
        firing: Firing::default(),
        references,
        returning: None,
        keys: Some(keys),
        plain: None,
    }))
}

impl DeletePlan {
    /// What is known of the rows before the statement runs.
    pub(super) fn rows_written(&self) -> RowsWritten<'_> {
        match self.keys.as_ref() {
            Some(keys) if self.into.is_none() => RowsWritten::Found(keys.program()),
            _ => RowsWritten::Other,
        }
    }

    /// The changer of the rows.
    pub(super) fn changer(&self) -> &Changer {
        &self.changer
    }

    /// True where nothing but the rows themselves is to be removed and told of.
    pub(super) fn is_alone(&self) -> bool {
        self.into.is_none()
            && !self.is_view
            && !self.changer.is_kept
            && self.changer.narrowed.is_none()
            && self.firing.is_empty()
            && self.references.is_empty()
            && self.returning.is_none()
    }

    /// The foreign keys touched.
    pub(crate) fn references(&self) -> &References {
        &self.references
    }

    /// The `RETURNING` clause.
    pub(crate) fn returning(&self) -> Option<&Returning> {
        self.returning.as_ref()
    }

    /// Deletes the rows that meet the condition.
    ///
    /// # Errors
    /// What the condition raises; the store's.
    pub(crate) fn execute(&self, context: &mut Context<'_>) -> Result<Done, Failure> {
        let Some(keys) = &self.keys else {
            return Ok(Done { changes: self.delete_all(context)?, ..Done::default() });
        };
        let keys = keys.collect(context)?;
        let plain = self.plain.as_ref().filter(|_| context.session.row_hooks().is_none());
        if let Some(plain) = plain.filter(|_| keys.len() >= bulk::ROWS_MIN)
            && let Some(bulk) = Bulk::new(plain, context.transaction)
            && let Some(keys) = OrderedRows::new(plain, &keys, true)
        {
            return self.delete_many(context, bulk, &keys);
        }
        let plain = plain.filter(|plain| plain.keyed().is_none());
        let mut done = Done::default();
        keys.take_each(|values| self.delete_found(context, plain, values, &mut done))?;
        Ok(done)
    }

    /// Deletes rows leaf by leaf.
    fn delete_many(
        &self,
        context: &mut Context<'_>,
        mut bulk: Bulk<'_>,
        keys: &OrderedRows<'_>,
    ) -> Result<Done, Failure> {
        let mut done = Done::default();
        bulk.each_leaf(
            (&mut *context, &mut done),
            keys.len(),
            |bulk, transaction, at| bulk.remove(transaction, (keys, at)),
            |context, done, at| self.delete_found(context, None, keys.row(at), done),
        )?;
        bulk.flush(context.transaction)?;
        Ok(done)
    }

    /// Deletes one row found.
    fn delete_found(
        &self,
        context: &mut Context<'_>,
        plain: Option<&PlainTable>,
        values: RowValues<'_>,
        done: &mut Done,
    ) -> Result<(), Failure> {
        let values: Vec<Value> = values.map(Value::from).collect();
        if let (Some(plain), [Value::Int(rowid)]) = (plain, values.as_slice()) {
            let records = &mut context.state.scratch.plain;
            if let Some(count) = plain.delete(context.transaction, *rowid, records)? {
                done.changes += count;
                return Ok(());
            }
        }
        let deleted = if self.is_view {
            self.delete_of_view(context, Row { rowid: 0, values })
        } else {
            match (&self.into, split_key(&self.changer.rows.table, values).0) {
                (Some(table), RowKey::Rowid(rowid)) => table.delete(context, rowid),
                (_, key) => self.delete(context, &key),
            }
        };
        let deleted = deleted.map_err(|failure| self.changer.veiled(failure));
        if deleted.map_err(|failure| failure.after(*done))? {
            done.changes += 1;
        }
        Ok(())
    }

    /// Deletes every row, and gives how many there were. Pages are emptied as a whole unless the
    /// program is told of rows.
    fn delete_all(&self, context: &mut Context<'_>) -> Result<u64, Failure> {
        let table = &self.changer.rows.table;
        if context.session.row_hooks().is_none() && !self.changer.is_kept {
            return Ok(rows::clear(context.transaction, table)?);
        }
        let mut keys = Vec::new();
        Row::each(table, context.transaction, |row| {
            keys.push(row.key(table));
            Ok(())
        })?;
        for key in &keys {
            self.delete(context, key)?;
        }
        Ok(keys.len() as u64)
    }

    fn delete_of_view(&self, context: &mut Context<'_>, row: Row) -> Result<bool, Failure> {
        if fire(context, &self.firing.instead, Some(&row), None)?
            && let Some(returning) = &self.returning
        {
            returning.give(context, &row)?;
        }
        Ok(false)
    }

    fn delete(&self, context: &mut Context<'_>, key: &RowKey) -> Result<bool, Failure> {
        let Some(mut row) = self.changer.read(context, key)? else { return Ok(false) };
        if !self.firing.before.is_empty() {
            if !fire(context, &self.firing.before, Some(&row), None)? {
                return Ok(false);
            }
            // The programs may have deleted the row themselves.
            match self.changer.read(context, key)? {
                Some(current) => row = current,
                None => return Ok(false),
            }
        }
        self.references.leave(context, &row)?;
        if self.changer.is_kept {
            let (keeper, reads) = context.keeper()?;
            keeper.delete(&reads, &self.changer.rows.table.name, &row.values)?;
        }
        self.changer.rows.delete(context.transaction, &row, context.session)?;
        self.references.act(context, &row, None)?;
        let fired = fire(context, &self.firing.early, Some(&row), None);
        if fired.map_err(Failure::of_changed_row)? {
            if let Some(returning) = &self.returning {
                returning.give(context, &row)?;
            }
            let fired = fire(context, &self.firing.after, Some(&row), None);
            fired.map_err(Failure::of_changed_row)?;
        }
        Ok(true)
    }
}

/// A row of [`RowQuery::over_table`]: the key of the table's row, and the values after it.
pub(crate) fn split_key(table: &Table, mut values: Vec<Value>) -> (RowKey, Vec<Value>) {
    let width = if table.without_rowid { table.primary_key.len() } else { 1 };
    let rest = values.split_off(width.min(values.len()));
    let key = match values.first() {
        Some(Value::Int(rowid)) if !table.without_rowid => RowKey::Rowid(*rowid),
        _ => RowKey::Key(values),
    };
    (key, rest)
}

/// A row of a view, and the values after it.
pub(crate) fn split_row(target: &Table, mut values: Vec<Value>) -> (Row, Vec<Value>) {
    let rest = values.split_off(target.columns.len().min(values.len()));
    (Row { rowid: 0, values }, rest)
}
