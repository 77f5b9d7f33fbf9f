//! `INSERT` and `REPLACE`.

use std::sync::Arc;

use super::change::{Changer, Verdict};
use super::constraints::rowid_of;
use super::query::RowQuery;
use super::references::{Change, References};
use super::returning::Returning;
use super::row::{Row, RowEnv};
use super::target::writable;
use super::triggers::{Firing, Within, fire};
use super::upsert::{self, Upserts};
use super::{Context, Done, Failure};
use crate::Error;
use crate::error::NameKind;
use crate::parse::ast::{Insert, InsertSource, Name, SelectCore, TriggerEvent};
use crate::resolve::Around;
use crate::schema::{Schema, Table};
use crate::session::Counts;
use crate::value::Value;

/// A prepared `INSERT`.
#[derive(Debug)]
pub(crate) struct InsertPlan {
    inserter: Inserter,
    /// `None` for `DEFAULT VALUES`.
    source: Option<RowQuery>,
    /// What each value of the source is for.
    targets: Vec<Target>,
}

/// Where a value goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Column(usize),
    /// By one of its own names, not the alias.
    Rowid,
    /// To a column that was named before, the first value of which counts, or a rowid that is named
    /// again.
    Nowhere,
}

/// Prepares an `INSERT`.
///
/// # Errors
/// As [`super::prepare`].
pub(crate) fn prepare(
    within: &mut Within<'_>,
    insert: &Insert,
    around: Around<'_>,
) -> Result<InsertPlan, Error> {
    let schema = within.schema;
    let target = writable(schema, &insert.table, TriggerEvent::Insert, around)?;
    let table = Arc::clone(&target.table);
    let around = Around { with: insert.with.as_ref(), ..around };
    // Names before the source, widths after it: the order in which SQLite complains.
    let named = insert.columns.as_deref().map(|names| named_targets(&table, names)).transpose()?;
    let source = match &insert.source {
        InsertSource::DefaultValues => None,
        InsertSource::Select(select) => Some(RowQuery::compile(schema, select, around)?),
    };
    let width = source.as_ref().map(RowQuery::width);
    let targets = match named {
        Some(targets) => check_width(targets, width, insert)?,
        None => all_targets(&table, width, insert)?,
    };
    let is_view = target.view.is_some();
    if is_view && let Some(upsert) = insert.upserts.first() {
        return Err(Error::meaning("cannot UPSERT a view", upsert.offset));
    }
    let conflict = within.conflict.or(insert.conflict);
    let clauses = upsert::clauses(&table, &insert.upserts)?;
    let columns = insert.returning.as_deref();
    let mut changer = Changer::new(within, &target, conflict, &clauses)?;
    let single = !around.in_trigger
        && !target.triggers().list.iter().any(|it| it.definition.event == TriggerEvent::Insert)
        && !changer.replaces()
        && !clauses.iter().any(|clause| clause.updates)
        && is_one_row(&insert.source);
    let references = match is_view {
        true => References::default(),
        false => References::new(within, &table, Change::Insert { single })?,
    };
    changer.find_leaving(within, &target, true, &|_| true)?;
    let firing = within.firing(&target, TriggerEvent::Insert, &[], conflict)?;
    let inserter = Inserter {
        changer,
        is_view,
        references,
        upserts: Upserts::compile(within, &target, insert, around)?,
        returning: Returning::compile(within, &table, &insert.table, columns, around)?,
        firing,
    };
    Ok(InsertPlan { inserter, source, targets })
}

/// True for a source of one row, without a query.
fn is_one_row(source: &InsertSource) -> bool {
    match source {
        InsertSource::DefaultValues => true,
        InsertSource::Select(select) => {
            matches!(&select.first, SelectCore::Values(values) if values.rows.len() == 1)
                && select.compounds.is_empty()
        }
    }
}

/// Every column that takes a value, in order, for a source of so many.
fn all_targets(table: &Table, width: Option<usize>, insert: &Insert) -> Result<Vec<Target>, Error> {
    let columns = table.columns.iter().enumerate();
    let targets: Vec<Target> = columns
        .filter(|(_, column)| column.generated.is_none())
        .map(|(index, _)| Target::Column(index))
        .collect();
    match width {
        None => Ok(Vec::new()),
        Some(width) if width == targets.len() => Ok(targets),
        Some(width) => Err(Error::meaning(
            format!(
                "table {} has {} columns but {width} values were supplied",
                table.name,
                targets.len()
            ),
            insert.table.name.offset,
        )),
    }
}

/// The columns that a list names.
fn named_targets(table: &Table, names: &[Name]) -> Result<Vec<Target>, Error> {
    let mut targets = Vec::with_capacity(names.len());
    for name in names {
        let target = target(table, name)?;
        let is_rowid = match target {
            Target::Column(index) => table.rowid_alias == Some(index),
            Target::Rowid => true,
            Target::Nowhere => false,
        };
        let earlier = targets.iter_mut().find(|known| **known == target);
        match earlier {
            // Of a rowid the last value counts, by whichever of its names.
            Some(earlier) if is_rowid => {
                *earlier = Target::Nowhere;
                targets.push(target);
            }
            Some(_) => targets.push(Target::Nowhere),
            None => targets.push(target),
        }
    }
    Ok(targets)
}

fn check_width(
    targets: Vec<Target>,
    width: Option<usize>,
    insert: &Insert,
) -> Result<Vec<Target>, Error> {
    match width {
        Some(width) if width != targets.len() => {
            let message = format!("{width} values for {} columns", targets.len());
            Err(Error::meaning(message, insert.table.name.offset))
        }
        _ => Ok(targets),
    }
}

fn target(table: &Table, name: &Name) -> Result<Target, Error> {
    if let Some(index) = table.column_index(&name.text) {
        if table.columns[index].generated.is_some() {
            let message = format!("cannot INSERT into generated column \"{}\"", name.text);
            return Err(Error::meaning(message, name.offset));
        }
        return Ok(Target::Column(index));
    }
    if !table.without_rowid && is_rowid_name(name) {
        return Ok(table.rowid_alias.map_or(Target::Rowid, Target::Column));
    }
    Err(Error::Name {
        kind: NameKind::Column,
        message: format!("table {} has no column named {}", table.name, name.text),
        offset: Some(name.offset),
    })
}

/// Whether a name stands for the rowid where no column has it.
pub(crate) fn is_rowid_name(name: &Name) -> bool {
    ["rowid", "_rowid_", "oid"].iter().any(|rowid| name.is(rowid))
}

impl InsertPlan {
    /// The `RETURNING` clause.
    pub(crate) fn returning(&self) -> Option<&Returning> {
        self.inserter.returning.as_ref()
    }

    /// Inserts the source's rows.
    ///
    /// # Errors
    /// The first row that a constraint refuses.
    pub(crate) fn execute(&self, context: &mut Context<'_>) -> Result<Done, Failure> {
        let source = match &self.source {
            None => vec![Vec::new()],
            Some(query) => query.run(context)?,
        };
        let table = &self.inserter.changer.rows.table;
        // The counter is there from now on, even if no row comes.
        let (transaction, sequences) = (&*context.transaction, &mut context.state.sequences);
        sequences.of(transaction, context.schema, table)?;
        let mut done = Done::default();
        for values in source {
            let mut given = vec![None; table.columns.len()];
            let mut rowid = None;
            for (target, value) in self.targets.iter().zip(values) {
                match target {
                    Target::Column(index) => given[*index] = Some(value),
                    Target::Rowid => rowid = Some(value),
                    Target::Nowhere => {}
                }
            }
            let inserted = self.inserter.insert(context, given, rowid);
            match inserted.map_err(|failure| failure.after(done))? {
                Inserted::Row(rowid) => {
                    done.changes += 1;
                    if !table.without_rowid {
                        done.last_insert_rowid = Some(rowid);
                    }
                }
                Inserted::Updated => done.changes += 1,
                Inserted::Nothing => {}
            }
        }
        Ok(done)
    }
}

/// Puts single rows into a table.
#[derive(Debug)]
pub(crate) struct Inserter {
    pub(crate) changer: Changer,
    is_view: bool,
    pub(crate) references: References,
    firing: Firing,
    upserts: Upserts,
    returning: Option<Returning>,
}

/// What came of a row that was to be inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// It is there; its rowid, 0 in a table without.
    Row(i64),
    /// The row that was there was updated instead.
    Updated,
    /// It was left out.
    Nothing,
}

impl Inserter {
    /// Inserts rows that no statement gives, and runs no triggers.
    ///
    /// # Errors
    /// As [`Changer::plain`].
    pub(crate) fn plain(schema: &Schema, table: &Arc<Table>) -> Result<Inserter, Error> {
        Ok(Inserter {
            changer: Changer::plain(schema, table, None)?,
            is_view: false,
            references: References::default(),
            firing: Firing::default(),
            upserts: Upserts::default(),
            returning: None,
        })
    }

    /// Inserts one row of the values given, defaults for the others.
    ///
    /// # Errors
    /// The constraint that refuses the row.
    pub(crate) fn insert(
        &self,
        context: &mut Context<'_>,
        given: Vec<Option<Value>>,
        rowid: Option<Value>,
    ) -> Result<Inserted, Failure> {
        let changer = &self.changer;
        let table = &*changer.rows.table;
        let mut row = self.with_defaults(context, given)?;
        if self.is_view {
            let goes_on = fire(context, &self.firing.instead, None, Some(&row))?;
            if let Some(returning) = self.returning.as_ref().filter(|_| goes_on) {
                returning.give(context, &row)?;
            }
            return Ok(Inserted::Nothing);
        }
        let mut wanted = None;
        if !table.without_rowid {
            wanted = match (rowid, table.rowid_alias) {
                (Some(rowid), _) => rowid_of(&rowid)?,
                (None, Some(alias)) => rowid_of(&row.values[alias])?,
                (None, None) => None,
            };
        }
        if !self.firing.before.is_empty() {
            let mut shown = row.clone();
            // A rowid that is yet to be picked shows as -1.
            shown.take_rowid(table, wanted.unwrap_or(-1));
            changer.convert(context, &mut shown)?;
            if !fire(context, &self.firing.before, None, Some(&shown))? {
                return Ok(Inserted::Nothing);
            }
        }
        if !table.without_rowid {
            let rowid = self.pick_rowid(context, wanted)?;
            row.take_rowid(table, rowid);
        }
        changer.convert(context, &mut row)?;
        match changer.check(context, &mut row, None)? {
            Verdict::Store => {}
            Verdict::Skip => return Ok(Inserted::Nothing),
            Verdict::Update(clause, key) => {
                let returning = self.returning.as_ref();
                let updated = self.upserts.update(context, clause, &key, &row, returning)?;
                return Ok(if updated { Inserted::Updated } else { Inserted::Nothing });
            }
        }
        self.references.enter(context, &row)?;
        changer.rows.insert(context.transaction, &row, context.session)?;
        if !table.without_rowid && (self.returning.is_some() || !self.firing.after.is_empty()) {
            let session = context.session;
            session.set_counts(Counts {
                changes: session.changes(),
                total_changes: session.total_changes(),
                last_insert_rowid: row.rowid,
            });
        }
        if let Some(returning) = &self.returning {
            returning.give(context, &row)?;
        }
        fire(context, &self.firing.after, None, Some(&row)).map_err(|mut failure| {
            // The row was inserted, and its rowid counts even if it is taken back.
            failure.done.last_insert_rowid = Some(row.rowid).filter(|_| !table.without_rowid);
            failure
        })?;
        Ok(Inserted::Row(row.rowid))
    }

    fn with_defaults(
        &self,
        context: &Context<'_>,
        given: Vec<Option<Value>>,
    ) -> Result<Row, Error> {
        let env = RowEnv { transaction: context.transaction, session: context.session };
        let mut row = Row { rowid: 0, values: vec![Value::Null; given.len()] };
        for (index, value) in given.into_iter().enumerate() {
            row.values[index] = match (value, &self.changer.constraints.defaults[index]) {
                (Some(value), _) => value,
                (None, Some(default)) => row.eval(default, &env)?,
                (None, None) => Value::Null,
            };
        }
        Ok(row)
    }

    /// The rowid of a row that wants this one, or a new one.
    fn pick_rowid(&self, context: &mut Context<'_>, wanted: Option<i64>) -> Result<i64, Error> {
        let rows = &self.changer.rows;
        let (transaction, sequences) = (&*context.transaction, &mut context.state.sequences);
        let sequence = sequences.of(transaction, context.schema, &rows.table)?;
        let rowid = match (wanted, &sequence) {
            (Some(rowid), _) => rowid,
            (None, Some(sequence)) => sequence.next(transaction, &rows.table)?,
            (None, None) => rows.new_rowid(&RowEnv { transaction, session: context.session })?,
        };
        if let Some(sequence) = sequence {
            // Before the checks: a rowid picked for a row that is then left out counts, too.
            sequence.note(rowid);
        }
        Ok(rowid)
    }
}

impl Row {
    /// Gives the row a rowid, by its other name, too.
    fn take_rowid(&mut self, table: &Table, rowid: i64) {
        self.rowid = rowid;
        if let Some(alias) = table.rowid_alias {
            self.values[alias] = Value::Int(rowid);
        }
    }
}
