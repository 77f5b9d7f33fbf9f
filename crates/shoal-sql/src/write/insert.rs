//! `INSERT` and `REPLACE`.

use std::sync::Arc;

use super::bulk::{self, Bulk, OrderedRows};
use super::change::{Changer, Verdict};
use super::collected::Collected;
use super::constraints::rowid_of;
use super::narrowed;
use super::plain::{COLUMNS_MAX, NO_VALUES, PlainIndex, PlainTable};
use super::query::{Parts, RowQuery};
use super::references::{Change, References};
use super::returning::Returning;
use super::row::{Row, RowEnv};
use super::target::writable;
use super::triggers::{Firing, Within, fire};
use super::upsert::{self, Upserts};
use super::virtual_table::VirtualTarget;
use super::{Context, Done, Failure, RowsWritten};
use crate::Error;
use crate::error::NameKind;
use crate::exec::RowExpr;
use crate::parse::ast::{
    Conflict, Expr, ExprKind, Insert, InsertSource, Name, Select, SelectCore, TriggerEvent,
};
use crate::resolve::Around;
use crate::schema::{Schema, Table};
use crate::session::Counts;
use crate::value::{Value, ValueRef, assign};

/// A prepared `INSERT`.
#[derive(Debug)]
pub(crate) struct InsertPlan {
    inserter: Inserter,
    source: Source,
    /// The place in the source's rows of each column's value; the others take their defaults.
    pub(super) columns: Vec<Option<usize>>,
    /// The place of the rowid's value, unless a column is the rowid.
    pub(super) rowid: Option<usize>,
    /// The short way for rows of a query.
    plain: Option<PlainTable>,
}

/// Where rows come from.
#[derive(Debug)]
enum Source {
    /// `DEFAULT VALUES`: one row.
    Defaults,
    /// `VALUES` of constants and parameters.
    Rows(Vec<Vec<Given>>),
    Query(Box<RowQuery>),
}

/// A value known without running a query.
#[derive(Clone, Debug)]
pub(super) enum Given {
    Constant(Value),
    /// By number, from 1.
    Parameter(usize),
}

impl Given {
    /// A constant or a parameter; `None` for any other expression.
    pub(super) fn of(expr: &Expr) -> Option<Given> {
        match &expr.kind {
            ExprKind::Literal(value) => Some(Given::Constant(value.clone())),
            ExprKind::Parameter(number) => Some(Given::Parameter(*number)),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn value<'v>(&'v self, parameters: &'v [Value]) -> ValueRef<'v> {
        match self {
            Given::Constant(value) => value.as_ref(),
            Given::Parameter(number) => {
                parameters.get(number - 1).map_or(ValueRef::Null, Value::as_ref)
            }
        }
    }
}

/// The rows of a `VALUES` of constants and parameters alone.
fn given_rows(select: &Select) -> Option<Vec<Vec<Given>>> {
    let SelectCore::Values(values) = &select.first else { return None };
    let is_plain = select.with.is_none()
        && select.compounds.is_empty()
        && select.order_by.is_empty()
        && select.limit.is_none();
    let row = |row: &Vec<Expr>| row.iter().map(Given::of).collect();
    values
        .rows
        .iter()
        .filter(|_| is_plain)
        .map(row)
        .collect::<Option<Vec<_>>>()
        .filter(|rows| !rows.is_empty())
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
    let target = writable(within, &insert.table, TriggerEvent::Insert, around)?;
    let table = Arc::clone(&target.table);
    if let Some(narrowed) = &target.narrowed {
        narrowed::check_insert(schema, narrowed, insert)?;
    }
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
        None => {
            let shows = |column: usize| {
                target.narrowed.as_ref().is_none_or(|narrowed| narrowed.shows(column))
            };
            all_targets(&table, width, insert, shows)?
        }
    };
    let is_view = target.view.is_some();
    if target.virtual_table.is_some()
        && let Some(upsert) = insert.upserts.first()
    {
        let name = target.table.name();
        let what = format!("UPSERT not implemented for virtual table \"{name}\"");
        return Err(Error::meaning(what, upsert.offset));
    }
    if is_view && let Some(upsert) = insert.upserts.first() {
        return Err(Error::meaning("cannot UPSERT a view", upsert.offset));
    }
    let conflict = within.conflict.or(insert.conflict);
    let clauses = upsert::clauses(&table, &insert.upserts)?;
    let columns = insert.returning.as_deref();
    let mut changer = Changer::new(within, &target, conflict, &clauses)
        .map_err(|error| narrowed::of_definitions(&target, error))?;
    changer.narrow(schema, &target, TriggerEvent::Insert, around)?;
    let single = !around.in_trigger
        && !within.has_triggers(&target, TriggerEvent::Insert)
        && !changer.replaces()
        && !clauses.iter().any(|clause| clause.updates)
        && is_one_row(&insert.source);
    let references = match is_view || target.virtual_table.is_some() {
        true => References::default(),
        false => References::new(within, &table, Change::Insert { single })?,
    };
    changer.find_leaving(within, &target, true, &|_| true)?;
    let firing = within.firing(&target, TriggerEvent::Insert, &[], conflict)?;
    let named = |column: usize| targets.contains(&Target::Column(column));
    let named = (0..table.columns.len()).map(named).collect();
    let into = target.virtual_table.clone().map(|table| VirtualTarget { table, named, conflict });
    let inserter = Inserter {
        changer,
        is_view,
        into,
        references,
        upserts: Upserts::compile(within, &target, insert, around)?,
        returning: Returning::compile(within, &target, &insert.table, columns, around)?,
        firing,
    };
    let place = |wanted: Target| targets.iter().position(|target| *target == wanted);
    let columns = (0..table.columns.len()).map(|column| place(Target::Column(column)));
    let (columns, rowid) = (columns.collect(), place(Target::Rowid));
    let given = match &insert.source {
        InsertSource::DefaultValues => None,
        InsertSource::Select(select) => given_rows(select),
    };
    let source = match (given, source) {
        (_, None) => Source::Defaults,
        (Some(rows), _) => Source::Rows(rows),
        (None, Some(query)) => Source::Query(Box::new(query)),
    };
    let is_many = matches!(source, Source::Query(_)) && targets.len() <= COLUMNS_MAX;
    let mut defaults = inserter.changer.constraints.defaults.iter().flatten();
    let plain = (is_many
        && inserter.is_alone()
        && defaults.all(|default| matches!(default, RowExpr::Constant(_))))
    .then(|| PlainTable::for_bulk(&inserter.changer))
    .flatten();
    Ok(InsertPlan { inserter, source, columns, rowid, plain })
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
fn all_targets(
    table: &Table,
    width: Option<usize>,
    insert: &Insert,
    shows: impl Fn(usize) -> bool,
) -> Result<Vec<Target>, Error> {
    let columns = table.columns.iter().enumerate();
    let targets: Vec<Target> = columns
        .filter(|(index, column)| column.generated.is_none() && !column.hidden && shows(*index))
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

    /// The changer of the table's rows.
    pub(super) fn inserter(&self) -> &Inserter {
        &self.inserter
    }

    /// What is known of the rows before the statement runs.
    pub(super) fn rows_written(&self) -> RowsWritten<'_> {
        match &self.source {
            Source::Rows(_) if self.inserter.into.is_none() => RowsWritten::Given,
            _ => RowsWritten::Other,
        }
    }

    /// The values of a source of one row, constants and parameters.
    pub(super) fn only_row(&self) -> Option<&[Given]> {
        match &self.source {
            Source::Defaults => Some(&[]),
            Source::Rows(rows) => match rows.as_slice() {
                [row] => Some(row),
                _ => None,
            },
            Source::Query(_) => None,
        }
    }

    /// True when all of the statement happens or nothing does, without a savepoint: one row, stored
    /// as a whole, with nothing after.
    pub(crate) fn stores_whole(&self) -> bool {
        self.is_of_one_row() && self.inserter.stores_whole()
    }

    /// True when a failed statement leaves the file as it was, without a savepoint, and perhaps
    /// something in the memory of a virtual table's writer.
    pub(crate) fn leaves_file_whole(&self) -> bool {
        self.is_of_one_row() && self.inserter.leaves_file_whole()
    }

    fn is_of_one_row(&self) -> bool {
        match &self.source {
            Source::Defaults => true,
            Source::Rows(rows) => rows.len() == 1,
            Source::Query(_) => false,
        }
    }

    /// Inserts the source's rows.
    ///
    /// # Errors
    /// The first row that a constraint refuses.
    pub(crate) fn execute(&self, context: &mut Context<'_>) -> Result<Done, Failure> {
        let table = &self.inserter.changer.rows.table;
        let plain = self.plain.as_ref().filter(|_| context.session.row_hooks().is_none());
        let mut queried = match &self.source {
            Source::Query(query) => {
                // Nothing but rows and entries of the table is written with a plain row.
                let is_apart = plain.is_some() && query.is_apart_from(context.home, Some(table));
                Some(query.parts(context, is_apart)?)
            }
            Source::Defaults | Source::Rows(_) => None,
        };
        // The counter is there from now on, even if no row comes.
        let schema = context.own_schema();
        let (transaction, sequences) = (&*context.transaction, &mut context.state.sequences);
        sequences.of(transaction, schema, table)?;
        let mut done = Done::default();
        // Programs of triggers inserting rows have memory of their own.
        let mut row = std::mem::take(&mut context.state.scratch.row);
        let inserted = match &mut queried {
            Some(parts) => self.insert_parts(context, plain, &mut row, parts, &mut done),
            None => self.insert_each(context, &mut row, &mut done),
        };
        context.state.scratch.row = row;
        inserted.map(|()| done)
    }

    fn insert_each(
        &self,
        context: &mut Context<'_>,
        row: &mut Row,
        done: &mut Done,
    ) -> Result<(), Failure> {
        match &self.source {
            Source::Defaults => self.insert(context, row, done, |_| ValueRef::Null),
            Source::Rows(rows) => rows.iter().try_for_each(|values| {
                let parameters = context.parameters;
                self.insert(context, row, done, |place| values[place].value(parameters))
            }),
            Source::Query(_) => Err(Error::Misuse { what: "a query is run in parts" }.into()),
        }
    }

    /// Inserts the rows of a query; `plain` is the short way, where it is open.
    fn insert_parts(
        &self,
        context: &mut Context<'_>,
        plain: Option<&PlainTable>,
        row: &mut Row,
        parts: &mut Parts<'_>,
        done: &mut Done,
    ) -> Result<(), Failure> {
        let mut bulk = None;
        while let Some(queried) = parts.next(context)? {
            if let (None, Some(plain)) = (&bulk, plain)
                && queried.len() >= bulk::ROWS_MIN
            {
                bulk = Bulk::new(plain, context.transaction).map(|bulk| (plain, bulk));
            }
            match &mut bulk {
                Some((plain, bulk)) => {
                    self.insert_many(context, (plain, bulk), row, queried, done)?;
                }
                None => self.insert_rows(context, row, queried, done)?,
            }
        }
        match &mut bulk {
            Some((_, bulk)) => Ok(bulk.flush(context.transaction)?),
            None => Ok(()),
        }
    }

    /// Inserts rows of a query into a plain table; entries of indexes may wait.
    fn insert_many(
        &self,
        context: &mut Context<'_>,
        (plain, bulk): (&PlainTable, &mut Bulk<'_>),
        row: &mut Row,
        queried: Collected,
        done: &mut Done,
    ) -> Result<(), Failure> {
        if let Some((rows, columns, replaces)) = self.ordered(plain, &queried) {
            let sources = (columns.as_slice(), replaces);
            bulk.each_leaf(
                (context, &mut *done),
                rows.len(),
                |bulk, transaction, at| bulk.put(transaction, (&rows, at), sources),
                |context, done, at| {
                    let values: Vec<ValueRef<'_>> = rows.row(at).collect();
                    self.insert(context, row, done, |place| values[place])
                },
            )?;
            if plain.keyed().is_none() && rows.len() > 0 {
                done.last_insert_rowid = Some(rows.rowid(rows.len() - 1));
            }
            return Ok(());
        }
        if plain.keyed().is_some() {
            // Entries of a part before may wait, and rows are looked for in the indexes.
            bulk.flush(context.transaction)?;
            return self.insert_rows(context, row, queried, done);
        }
        let defaults = &self.inserter.changer.constraints.defaults;
        // Rows with others in their way go the general way, and in the end all others, too.
        let (mut plain_rows, mut others) = (0_u64, 0_u64);
        queried.take_each(|given| {
            let mut values = NO_VALUES;
            values.iter_mut().zip(given).for_each(|(place, value)| *place = value);
            if others < 8 || plain_rows > others {
                let mut stored = NO_VALUES;
                for ((place, default), stored) in self.columns.iter().zip(defaults).zip(&mut stored)
                {
                    *stored = match (place, default) {
                        (Some(place), _) => values[*place],
                        (None, Some(RowExpr::Constant(value))) => value.as_ref(),
                        (None, _) => ValueRef::Null,
                    };
                }
                let alias = plain.alias().map(|alias| stored[alias]);
                let rowid = match alias.or(self.rowid.map(|place| values[place])) {
                    None | Some(ValueRef::Null) => Some(None),
                    Some(ValueRef::Int(rowid)) => Some(Some(rowid)),
                    Some(_) => None,
                };
                if let Some(rowid) = rowid {
                    let records = &mut context.state.scratch.plain;
                    let stored = (rowid, &mut stored[..plain.width()]);
                    let transaction = &mut *context.transaction;
                    let among = Some(&mut *bulk);
                    if let Some(rowid) = plain.insert_among(transaction, stored, records, among)? {
                        plain_rows += 1;
                        done.changes += 1;
                        done.last_insert_rowid = Some(rowid);
                        return Ok(bulk.flush_many(context.transaction)?);
                    }
                }
            }
            others += 1;
            bulk.flush(context.transaction)?;
            self.insert(context, row, done, |place| values[place])
        })
    }

    /// The rows of a query in the order of the table, the places of the columns' values, and
    /// whether rows take the place of others; `None` where they are not put by their keys.
    fn ordered<'q>(
        &self,
        plain: &PlainTable,
        queried: &'q Collected,
    ) -> Option<(OrderedRows<'q>, Vec<usize>, bool)> {
        if plain.indexes().iter().any(PlainIndex::is_unique) {
            return None;
        }
        let resolution = self.inserter.changer.plain_resolution()?;
        let columns: Vec<usize> = self.columns.iter().copied().collect::<Option<_>>()?;
        let replaces = resolution == Conflict::Replace;
        let rows = match (plain.keyed(), plain.alias()) {
            (Some(keyed), _) if replaces || resolution == Conflict::Abort => {
                let key = keyed.places[..keyed.width].iter().map(|column| columns[*column]);
                OrderedRows::with_keys(keyed, queried, key.collect(), false)?
            }
            // Rows appended behind the last row, replacing none, are quicker one by one.
            (None, Some(alias)) if replaces => OrderedRows::with_rowids(queried, columns[alias])?,
            _ => return None,
        };
        Some((rows, columns, replaces))
    }

    /// Inserts the rows of a query one by one.
    fn insert_rows(
        &self,
        context: &mut Context<'_>,
        row: &mut Row,
        queried: Collected,
        done: &mut Done,
    ) -> Result<(), Failure> {
        queried.take_each(|values| {
            let values: Vec<ValueRef<'_>> = values.collect();
            self.insert(context, row, done, |place| values[place])
        })
    }

    /// Inserts a row, made in `row` of the values of the source.
    fn insert<'v>(
        &self,
        context: &mut Context<'_>,
        row: &mut Row,
        done: &mut Done,
        value: impl Fn(usize) -> ValueRef<'v>,
    ) -> Result<(), Failure> {
        let table = &self.inserter.changer.rows.table;
        let given = |column: usize| self.columns[column].map(&value);
        let rowid = self.rowid.map(|place| Value::from(value(place)));
        let made = self.inserter.make(context, row, given).map_err(Failure::from);
        let inserted = made.and_then(|()| self.inserter.insert(context, row, rowid));
        let inserted = inserted.map_err(|failure| self.inserter.changer.veiled(failure));
        match inserted.map_err(|failure| failure.after(*done))? {
            Inserted::Row(rowid) => {
                done.changes += 1;
                if !table.without_rowid && self.inserter.changer.shows_rowid() {
                    done.last_insert_rowid = Some(rowid);
                }
            }
            Inserted::Updated => done.changes += 1,
            Inserted::Nothing => {}
        }
        Ok(())
    }
}

/// Puts single rows into a table.
#[derive(Debug)]
pub(crate) struct Inserter {
    pub(crate) changer: Changer,
    is_view: bool,
    into: Option<VirtualTarget>,
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
            into: None,
            references: References::default(),
            firing: Firing::default(),
            upserts: Upserts::default(),
            returning: None,
        })
    }

    /// True when a row is stored as a whole or not at all, and nothing happens afterwards.
    pub(crate) fn stores_whole(&self) -> bool {
        self.changer.stores_whole()
            && !self.is_view
            && self.into.is_none()
            && self.firing.is_empty()
            && self.upserts.is_empty()
            && self.references.is_empty()
            && self.returning.is_none()
    }

    /// True when a row of a virtual table leaves the file as it was where it is refused, and
    /// nothing happens afterwards.
    pub(crate) fn leaves_file_whole(&self) -> bool {
        self.into.as_ref().is_some_and(VirtualTarget::inserts_whole)
            && !self.changer.is_kept
            && self.changer.narrowed.is_none()
            && self.firing.is_empty()
            && self.returning.is_none()
    }

    /// True where nothing but the row itself is to be written and told of.
    pub(super) fn is_alone(&self) -> bool {
        self.into.is_none()
            && !self.is_view
            && !self.changer.is_kept
            && self.changer.narrowed.is_none()
            && self.firing.is_empty()
            && self.references.is_empty()
            && self.returning.is_none()
    }

    /// Makes a row of the values given by column, defaults for the others.
    ///
    /// # Errors
    /// Errors of the defaults' expressions.
    pub(crate) fn make<'v>(
        &self,
        context: &Context<'_>,
        row: &mut Row,
        given: impl Fn(usize) -> Option<ValueRef<'v>>,
    ) -> Result<(), Error> {
        let defaults = &self.changer.constraints.defaults;
        row.rowid = 0;
        row.values.resize(defaults.len(), Value::Null);
        for (column, default) in defaults.iter().enumerate() {
            match (given(column), default) {
                (Some(value), _) => assign(&mut row.values[column], value),
                (None, Some(default)) => {
                    let env = RowEnv { transaction: context.transaction, session: context.session };
                    row.values[column] = row.eval(default, &env)?;
                }
                (None, None) => row.values[column] = Value::Null,
            }
        }
        Ok(())
    }

    /// Inserts a row made by [`Inserter::make`].
    ///
    /// # Errors
    /// The constraint that refuses the row.
    pub(crate) fn insert(
        &self,
        context: &mut Context<'_>,
        row: &mut Row,
        rowid: Option<Value>,
    ) -> Result<Inserted, Failure> {
        let changer = &self.changer;
        let table = &*changer.rows.table;
        if self.is_view {
            let goes_on = fire(context, &self.firing.instead, None, Some(row))?;
            if let Some(returning) = self.returning.as_ref().filter(|_| goes_on) {
                returning.give(context, row)?;
            }
            return Ok(Inserted::Nothing);
        }
        if let Some(into) = &self.into {
            let inserted = into.insert(context, row, rowid.as_ref())?;
            if let (Inserted::Row(_), Some(returning)) = (&inserted, &self.returning) {
                returning.give(context, row)?;
            }
            return Ok(inserted);
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
        let mut is_displacing = false;
        if changer.is_kept {
            // A key given as text is a name to the keeper, and '2026' is no number then.
            let named = row.values.first().filter(|key| matches!(key, Value::Text(_))).cloned();
            changer.convert(context, row)?;
            if let (Some(key), Some(named)) = (row.values.first_mut(), named) {
                *key = named;
            }
            let (keeper, reads) = context.keeper()?;
            is_displacing = !keeper.insert(&reads, &table.name, &mut row.values)?;
        }
        changer.convert(context, row)?;
        match changer.check(context, row, None)? {
            Verdict::Store if is_displacing => {
                let (keeper, reads) = context.keeper()?;
                keeper.update(&reads, &table.name, None, &mut row.values)?;
            }
            Verdict::Store => {}
            Verdict::Skip => return Ok(Inserted::Nothing),
            Verdict::Update(clause, key) => {
                let returning = self.returning.as_ref();
                let updated = self.upserts.update(context, clause, &key, row, returning)?;
                return Ok(if updated { Inserted::Updated } else { Inserted::Nothing });
            }
        }
        self.references.enter(context, row)?;
        let records = &mut context.state.scratch.records;
        changer.rows.insert(context.transaction, row, context.session, records)?;
        let is_read = self.returning.is_some() && changer.shows_rowid();
        if !table.without_rowid && (is_read || self.firing.fires_after()) {
            let session = context.session;
            session.set_counts(Counts {
                changes: session.changes(),
                total_changes: session.total_changes(),
                last_insert_rowid: row.rowid,
            });
        }
        let rowid = Some(row.rowid).filter(|_| !table.without_rowid);
        let inserted = |mut failure: Failure| {
            // The row was inserted, and its rowid counts even if it is taken back.
            failure.done.last_insert_rowid = rowid;
            failure.of_changed_row()
        };
        if fire(context, &self.firing.early, None, Some(row)).map_err(inserted)? {
            if let Some(returning) = &self.returning {
                returning.give(context, row)?;
            }
            fire(context, &self.firing.after, None, Some(row)).map_err(inserted)?;
        }
        Ok(Inserted::Row(row.rowid))
    }

    /// The rowid of a row that wants this one, or a new one.
    fn pick_rowid(&self, context: &mut Context<'_>, wanted: Option<i64>) -> Result<i64, Error> {
        let rows = &self.changer.rows;
        let schema = context.own_schema();
        let (transaction, sequences) = (&*context.transaction, &mut context.state.sequences);
        let sequence = sequences.of(transaction, schema, &rows.table)?;
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
