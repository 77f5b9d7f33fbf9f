//! `UPDATE`.

use rustc_hash::{FxHashMap, FxHashSet};

use super::bulk::{self, Bulk, OrderedRows};
use super::change::{Changer, Updater};
use super::delete::{split_key, split_row};
use super::narrowed;
use super::plain::PlainTable;
use super::query::{Named, RowQuery};
use super::references::{Change, References};
use super::returning::Returning;
use super::row::{Row, RowKey};
use super::set_queries::ByRow;
use super::sets::Sets;
use super::target::{Target, authorize_update, is_view, writable};
use super::triggers::{Within, fire};
use super::virtual_table::VirtualTarget;
use super::{Context, Done, Failure, RowsWritten};
use crate::Error;
use crate::parse::ast::{From, ResultColumn, TableRef, TableRefKind, TriggerEvent, Update};
use crate::resolve::{Around, GivenRow};
use crate::value::Value;

/// A prepared `UPDATE`.
#[derive(Debug)]
pub(crate) struct UpdatePlan {
    into: Option<VirtualTarget>,
    pub(super) updater: Updater,
    pub(super) is_view: bool,
    /// The state that the writer saw, of which the new values are.
    at: Option<RowQuery>,
    /// The keys of the rows to change and their new values.
    query: RowQuery,
    /// Whether rows that are joined to a row may give it several values, the last of which count.
    joins: bool,
    /// The new values over the row as it is when its turn comes: where triggers or rows that take
    /// the place of others may have changed it.
    again: Option<RowQuery>,
    /// The new values, where they are computed for each row in its turn; the query has none then.
    by_row: Option<ByRow>,
    returning: Option<Returning>,
    /// The short way, for many rows alone of a table without rowid, and the columns set.
    plain: Option<(PlainTable, Vec<usize>)>,
}

/// Prepares an `UPDATE`.
///
/// # Errors
/// As [`super::prepare`].
pub(crate) fn prepare(
    within: &mut Within<'_>,
    update: &Update,
    around: Around<'_>,
) -> Result<UpdatePlan, Error> {
    let schema = within.schema;
    let target = writable(within, &update.table, TriggerEvent::Update, around)?;
    if let Some(narrowed) = &target.narrowed {
        narrowed::check_update(narrowed, update)?;
    }
    let around = Around { with: update.with.as_ref(), ..around };
    let name = update.alias.as_ref().unwrap_or(&update.table.name);
    if let Some(from) = &update.from
        && let Some(twice) = named_again(from, &name.text)
    {
        let message = format!("target object/alias may not appear in FROM clause: {twice}");
        return Err(Error::Meaning { message, offset: Some(update.offset) });
    }
    if let Some(value) = update.at.as_ref().filter(|_| !within.keeps(&target.table)) {
        let table = &target.table.name;
        let message = format!("{table} AT: only projections of documents are written at a state");
        return Err(Error::meaning(message, value.offset));
    }
    let (sets, exprs) = Sets::new(&target.table, &update.sets)?;
    authorize_update(within, &target.table, &sets.names)?;
    let conflict = within.conflict.or(update.conflict);
    let names: Vec<&str> = sets.names.iter().map(String::as_str).collect();
    let named = Named {
        name: &update.table,
        at: update.at.as_ref(),
        alias: update.alias.as_ref(),
        indexed: &update.indexed,
        from: update.from.as_ref(),
        filter: update.filter.as_ref(),
    };
    let at = match &update.at {
        None => None,
        Some(value) => {
            let text = String::new();
            let column = ResultColumn::Expr { expr: value.clone(), alias: None, text };
            Some(RowQuery::of_exprs(schema, vec![column], None, around)?)
        }
    };
    let mut query = RowQuery::over_table(schema, &target, named, exprs.clone(), around)?;
    let mut changer = Changer::new(within, &target, conflict, &[])
        .map_err(|error| narrowed::of_definitions(&target, error))?;
    changer.narrow(schema, &target, TriggerEvent::Update, around)?;
    let references = references_of(within, &target, &sets)?;
    let moves = sets.moves(&target.table);
    let whole = moves || references.replaces_entries();
    let changes = |column: usize| whole || sets.changes(&target.table, column);
    changer.find_leaving(within, &target, moves, &changes)?;
    let firing = within.firing(&target, TriggerEvent::Update, &names, conflict)?;
    if target.view.is_some() && firing.instead.is_empty() {
        return Err(is_view(&target.table.name, update.table.name.offset));
    }
    let moves = changer.replaces() && sets.changes_key(&target.table);
    // Expressions over a whole row would see hidden columns: of a narrowed table the query alone
    // has the new values.
    let reads_present =
        update.from.is_none() && at.is_none() && target.view.is_none() && target.narrowed.is_none();
    let changes_others = moves || !firing.is_empty();
    let (mut again, mut by_row) = (None, None);
    if reads_present {
        let own = GivenRow::new(&target.table, &name.text, around.next);
        let (numbers, next) = (around.next..own.end(), own.end());
        let mut rows = vec![own];
        rows.extend(around.rows.iter().cloned());
        let around = Around { rows: &rows, next, ..around };
        let how = (numbers, changes_others);
        if target.virtual_table.is_none() {
            by_row = ByRow::compile(schema, &target.table, exprs.clone(), around, how)?;
        }
        if by_row.is_none() && changes_others {
            let column = |expr| ResultColumn::Expr { expr, alias: None, text: String::new() };
            let exprs = exprs.into_iter().map(column).collect();
            again = Some(RowQuery::of_exprs(schema, exprs, None, around)?);
        }
    }
    if by_row.is_some() {
        query = RowQuery::over_table(schema, &target, named, Vec::new(), around)?;
    }
    let columns = update.returning.as_deref();
    if columns.is_some() && target.virtual_table.is_some() {
        let what = "UPDATE RETURNING is not available on virtual tables";
        return Err(Error::meaning(what, update.table.name.offset));
    }
    let named = (0..target.table.columns.len()).map(|column| sets.changes(&target.table, column));
    let named = named.collect();
    let into = target.virtual_table.clone().map(|table| VirtualTarget { table, named, conflict });
    let returning = Returning::compile(within, &target, &update.table, columns, around)?;
    let joins = update.from.is_some();
    let updater = Updater { changer, sets, firing, references };
    let is_view = target.view.is_some();
    let plain = None;
    let mut plan =
        UpdatePlan { into, updater, is_view, at, query, joins, again, by_row, returning, plain };
    let moves = target.table.without_rowid && plan.updater.sets.changes_key(&target.table);
    if plan.is_alone() && plan.again.is_none() && !moves {
        let table = PlainTable::for_bulk(&plan.updater.changer);
        plan.plain = table.zip(plan.updater.sets.plain_columns(&target.table));
    }
    Ok(plan)
}

/// The foreign keys touched by assignments.
///
/// # Errors
/// As [`References::new`].
pub(crate) fn references_of(
    within: &mut Within<'_>,
    target: &Target,
    sets: &Sets,
) -> Result<References, Error> {
    if target.view.is_some() || target.virtual_table.is_some() {
        return Ok(References::default());
    }
    let changes = |column: usize| sets.changes(&target.table, column);
    References::new(within, &target.table, Change::Update(&changes))
}

/// The table of a `FROM` that goes by a name.
fn named_again<'f>(from: &'f From, name: &str) -> Option<&'f str> {
    let is = |table: &'f TableRef| -> Option<&'f str> {
        let known = match (&table.alias, &table.kind) {
            (Some(alias), _) => Some(alias),
            (None, TableRefKind::Table { name, .. }) => Some(&name.name),
            _ => None,
        };
        known.filter(|known| known.is(name)).map(|known| known.text.as_str())
    };
    is(&from.first).or_else(|| from.joins.iter().find_map(|join| is(&join.table)))
}

impl UpdatePlan {
    /// What is known of the rows before the statement runs.
    pub(super) fn rows_written(&self) -> RowsWritten<'_> {
        match Some(&self.query) {
            Some(keys) if self.into.is_none() => RowsWritten::Found(keys.program()),
            _ => RowsWritten::Other,
        }
    }

    /// The `RETURNING` clause.
    pub(crate) fn returning(&self) -> Option<&Returning> {
        self.returning.as_ref()
    }

    /// True where nothing but the rows themselves is to be changed and told of.
    pub(super) fn is_alone(&self) -> bool {
        self.into.is_none()
            && self.at.is_none()
            && !self.is_view
            && !self.updater.changer.is_kept
            && self.updater.changer.narrowed.is_none()
            && self.updater.firing.is_empty()
            && self.updater.references.is_empty()
            && self.returning.is_none()
    }

    /// Changes the rows that meet the condition.
    ///
    /// # Errors
    /// The first row that a constraint refuses; what the expressions raise.
    pub(crate) fn execute(&self, context: &mut Context<'_>) -> Result<Done, Failure> {
        if self.is_view {
            return self.execute_on_view(context);
        }
        if let Some(into) = &self.into {
            return self.execute_on_virtual(context, into);
        }
        let table = &self.updater.changer.rows.table;
        let at = match &self.at {
            None => None,
            Some(at) => at.run(context)?.pop().and_then(|mut values| values.pop()),
        };
        let collected = self.query.collect(context)?;
        let plain = self
            .plain
            .as_ref()
            .filter(|_| context.session.row_hooks().is_none() && self.by_row.is_none());
        if let Some((plain, columns)) = plain.filter(|_| collected.len() >= bulk::ROWS_MIN)
            && !self.joins
            && let Some(bulk) = Bulk::new(plain, context.transaction)
            && let Some(rows) = OrderedRows::new(plain, &collected, false)
        {
            return self.update_many(context, bulk, (&rows, columns));
        }
        let plain = plain.filter(|(plain, _)| plain.keyed().is_none());
        let collected = collected.into_rows();
        let collected = collected.into_iter().map(|values| split_key(table, values));
        let mut collected: Vec<(RowKey, Vec<Value>)> = collected.collect();
        if self.joins {
            collected = last_of_each(collected);
        }
        if !table.without_rowid {
            // In the order of the table, whatever index found the rows: what `OR IGNORE` leaves
            // out then does not depend on the plan, and pages are changed one after the other.
            collected.sort_by_key(|(key, _)| match key {
                RowKey::Rowid(rowid) => *rowid,
                RowKey::Key(_) => 0,
            });
        }
        let mut done = Done::default();
        let mut once = None;
        // Where rows take the place of others, a row still to come may be gone or be another.
        let mut moved: FxHashSet<Vec<u8>> = FxHashSet::default();
        for (key, values) in collected {
            if let (Some((plain, columns)), RowKey::Rowid(rowid)) = (plain, &key) {
                let records = &mut context.state.scratch.plain;
                let sets = columns.iter().copied().zip(values.iter().map(Value::as_ref));
                if let Some(count) = plain.set(context.transaction, *rowid, sets, records)? {
                    done.changes += count;
                    continue;
                }
            }
            let Some(old) = self.updater.changer.read(context, &key)? else { continue };
            let changed = !self.updater.firing.is_empty()
                || (!moved.is_empty() && moved.contains(&key.encode()));
            let values = match &self.by_row {
                Some(by_row) => {
                    let mut parameters = context.parameters.to_vec();
                    old.push_parameters(&mut parameters);
                    let values = by_row.values(context, parameters, &mut once);
                    values.map_err(|error| Failure::from(error).after(done))?
                }
                None => values,
            };
            let row = (&key, old, at.as_ref());
            let stored = self.update(context, row, values, changed);
            let stored = stored.map_err(|failure| self.updater.changer.veiled(failure));
            if let Some(new) = stored.map_err(|failure| failure.after(done))? {
                done.changes += 1;
                if new != key {
                    moved.insert(new.encode());
                }
            }
        }
        Ok(done)
    }

    /// Changes rows leaf by leaf.
    fn update_many(
        &self,
        context: &mut Context<'_>,
        mut bulk: Bulk<'_>,
        (rows, columns): (&OrderedRows<'_>, &[usize]),
    ) -> Result<Done, Failure> {
        let table = &self.updater.changer.rows.table;
        let mut done = Done::default();
        bulk.each_leaf(
            (&mut *context, &mut done),
            rows.len(),
            |bulk, transaction, at| bulk.set(transaction, (rows, at), columns),
            |context, done, at| {
                let (key, values) = split_key(table, rows.row(at).map(Value::from).collect());
                let Some(old) = self.updater.changer.read(context, &key)? else { return Ok(()) };
                let stored = self.update(context, (&key, old, None), values, false);
                let stored = stored.map_err(|failure| self.updater.changer.veiled(failure));
                if stored.map_err(|failure| failure.after(*done))?.is_some() {
                    done.changes += 1;
                }
                Ok(())
            },
        )?;
        bulk.flush(context.transaction)?;
        Ok(done)
    }

    fn update(
        &self,
        context: &mut Context<'_>,
        (key, old, at): (&RowKey, Row, Option<&Value>),
        mut values: Vec<Value>,
        changed: bool,
    ) -> Result<Option<RowKey>, Failure> {
        if let Some(again) = self.again.as_ref().filter(|_| changed) {
            let mut parameters = context.parameters.to_vec();
            old.push_parameters(&mut parameters);
            values = again.run_with(context, &parameters)?.pop().unwrap_or_default();
        }
        let new = self.updater.changed(&old, values)?;
        self.updater.update(context, (key, at), old, new, self.returning.as_ref())
    }

    fn execute_on_virtual(
        &self,
        context: &mut Context<'_>,
        into: &VirtualTarget,
    ) -> Result<Done, Failure> {
        let table = &self.updater.changer.rows.table;
        let mut collected =
            self.query.run(context)?.into_iter().map(|values| split_key(table, values));
        let mut collected: Vec<(RowKey, Vec<Value>)> = collected.by_ref().collect();
        if self.joins {
            collected = last_of_each(collected);
        }
        let mut done = Done::default();
        for (key, values) in collected {
            let RowKey::Rowid(rowid) = key else { continue };
            let (mut old, values) = split_row(table, values);
            old.rowid = rowid;
            let new = self.updater.changed(&old, values)?;
            let changed = into.update(context, rowid, &new);
            done.changes += u64::from(changed.map_err(|failure| failure.after(done))?);
        }
        Ok(done)
    }

    fn execute_on_view(&self, context: &mut Context<'_>) -> Result<Done, Failure> {
        let view = &self.updater.changer.rows.table;
        for values in self.query.run(context)? {
            let (old, values) = split_row(view, values);
            let new = self.updater.changed(&old, values)?;
            if fire(context, &self.updater.firing.instead, Some(&old), Some(&new))?
                && let Some(returning) = &self.returning
            {
                returning.give(context, &new)?;
            }
        }
        Ok(Done::default())
    }
}

/// Every key once, with the last values that it came with.
fn last_of_each(rows: Vec<(RowKey, Vec<Value>)>) -> Vec<(RowKey, Vec<Value>)> {
    let mut places: FxHashMap<Vec<u8>, usize> = FxHashMap::default();
    let mut out: Vec<(RowKey, Vec<Value>)> = Vec::new();
    for (key, values) in rows {
        match places.entry(key.encode()) {
            std::collections::hash_map::Entry::Occupied(place) => out[*place.get()].1 = values,
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(out.len());
                out.push((key, values));
            }
        }
    }
    out
}
