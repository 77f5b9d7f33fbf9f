//! Writes of a narrowed connection: the grants of a rule, the predicate for new rows, and errors
//! without hidden names and values.
//!
//! A query of the narrowed schema finds the rows to be changed: hidden rows are neither updated nor
//! deleted. New rows meet the predicate of the rule before any constraint. Clauses and tables with
//! a way around the query or the predicate are refused by name.

use std::sync::Arc;

use super::Context;
use super::constraints::{Constraints, Unique};
use super::insert::is_rowid_name;
use super::query::RowQuery;
use super::row::Row;
use super::target::Target;
use super::upsert::without_collation;
use crate::Error;
use crate::error::{ConstraintKind, NameKind};
use crate::parse::ast::{
    Conflict, Expr, ExprKind, Insert, Name, ResultColumn, TriggerEvent, Update, Upsert,
    UpsertAction,
};
use crate::resolve::{Around, GivenRow};
use crate::schema::{MAIN, NarrowedTable, Object, Schema, Table, Writable};
use crate::value::Value;

/// The bounds of a principal's changes of one table.
#[derive(Debug)]
pub(crate) struct NarrowedWrites {
    table: Arc<NarrowedTable>,
    /// Gives a row where a new row, at hand, meets the predicate.
    check: Option<RowQuery>,
    /// Constraints over visible columns alone: the kind, and the place or text in an error.
    told: Vec<(ConstraintKind, String)>,
    /// True where every column is visible as stored.
    tells_all: bool,
}

fn denied(message: String) -> Error {
    Error::Denied { message }
}

/// The refusal of changes of a table.
pub(crate) fn refused(table: &NarrowedTable, why: &str) -> Error {
    denied(format!("{} is not changed under rules: {why}", table.name()))
}

/// The fault of a table's own definitions, without their words where some are hidden.
pub(crate) fn of_definitions(target: &Target, error: Error) -> Error {
    match &target.narrowed {
        Some(table) if !table.shows_all() => refused(table, "its definitions cannot be used"),
        _ => error,
    }
}

/// Refuses an event without a grant, and tables whose changes have effects beyond the row.
///
/// # Errors
/// [`Error::Denied`].
pub(crate) fn refuse(
    schema: &Schema,
    table: &NarrowedTable,
    event: TriggerEvent,
) -> Result<(), Error> {
    let (is_granted, what) = match event {
        TriggerEvent::Insert => (table.inserts.is_some(), "INSERT into"),
        TriggerEvent::Update => (table.updates.is_some(), "UPDATE of"),
        TriggerEvent::Delete => (table.deletes, "DELETE from"),
    };
    if !is_granted {
        return Err(denied(format!("{what} {} is not granted", table.name())));
    }
    let base = &*table.table;
    if !base.triggers.list.is_empty() || base.triggers.damaged.is_some() {
        return Err(refused(table, "it has triggers, which run for no principal"));
    }
    let narrowing = schema.narrowing().expect("a narrowed table is in a narrowed schema");
    if narrowing.whole.shadow_owner(&base.name).is_some() {
        return Err(refused(table, "it is a part of a virtual table"));
    }
    if base.missing_index.is_some() {
        return Err(refused(table, "one of its indexes cannot be kept"));
    }
    let replaces = |column: &crate::schema::Column| {
        column.not_null_conflict.is_some_and(|conflict| conflict != Conflict::Abort)
    };
    if event != TriggerEvent::Delete && base.columns.iter().any(replaces) {
        return Err(refused(table, "its constraints replace or leave out rows"));
    }
    let is_child = event != TriggerEvent::Delete && !base.foreign_keys.is_empty();
    let is_parent = event != TriggerEvent::Insert
        && narrowing.whole.objects().iter().any(|object| {
            let Object::Table(child) = object else { return false };
            let mut keys = child.foreign_keys.iter();
            keys.any(|key| key.parent.eq_ignore_ascii_case(&base.name))
        });
    if is_child || is_parent {
        return Err(refused(table, "foreign keys would tell of rows in other tables"));
    }
    Ok(())
}

/// Refuses clauses of an `INSERT` with a look at other rows or a change of them, and values for
/// columns without a grant.
///
/// # Errors
/// [`Error::Denied`]; [`Error::Name`] for a hidden column.
pub(crate) fn check_insert(
    schema: &Schema,
    table: &NarrowedTable,
    insert: &Insert,
) -> Result<(), Error> {
    check_conflict("INSERT", insert.conflict)?;
    insert.upserts.iter().try_for_each(|upsert| check_upsert(schema, table, upsert))?;
    let Some(granted) = &table.inserts else { return Ok(()) };
    let Some(names) = &insert.columns else {
        if matches!(insert.source, crate::parse::ast::InsertSource::DefaultValues) {
            return Ok(());
        }
        // Without a list every visible column takes a value.
        for shown in &table.columns {
            let column = &table.table.columns[shown.column];
            let is_granted = granted.allows(Some(shown.column)) && shown.mask.is_none();
            if column.generated.is_none() && !column.hidden && !is_granted {
                return Err(ungranted("INSERT into", table, &column.name));
            }
        }
        return Ok(());
    };
    let unknown = |name: &Name| Error::Name {
        kind: NameKind::Column,
        message: format!("table {} has no column named {}", table.name(), name.text),
        offset: Some(name.offset),
    };
    names.iter().try_for_each(|name| check_column("INSERT into", table, granted, name, &unknown))
}

/// Refuses clauses of an `UPDATE` with a look at other rows or a change of them, and values for
/// columns without a grant.
///
/// # Errors
/// As [`check_insert`].
pub(crate) fn check_update(table: &NarrowedTable, update: &Update) -> Result<(), Error> {
    check_conflict("UPDATE", update.conflict)?;
    if update.at.is_some() {
        return Err(denied("AT is not for a narrowed connection".to_owned()));
    }
    check_sets(table, &update.sets)
}

/// Refuses values for columns without a grant to update them.
fn check_sets(table: &NarrowedTable, sets: &[(Vec<Name>, Expr)]) -> Result<(), Error> {
    let Some(granted) = &table.updates else { return Ok(()) };
    let unknown = |name: &Name| Error::no_such(NameKind::Column, &name.text, name.offset);
    let mut names = sets.iter().flat_map(|(names, _)| names);
    names.try_for_each(|name| check_column("UPDATE of", table, granted, name, &unknown))
}

/// Refuses an `ON CONFLICT` about anything but visible columns, and an update without a grant. Only
/// rows in sight are met by the clause ([`NarrowedWrites::is_visible`]).
fn check_upsert(schema: &Schema, table: &NarrowedTable, upsert: &Upsert) -> Result<(), Error> {
    if let Some((columns, filter)) = &upsert.target {
        if filter.is_some() {
            let message = "ON CONFLICT under rules names columns, without WHERE behind them";
            return Err(denied(message.to_owned()));
        }
        for term in columns {
            let ExprKind::Column { table: None, column, .. } = &without_collation(&term.expr).kind
            else {
                let message = "ON CONFLICT under rules names columns, and no expressions";
                return Err(denied(message.to_owned()));
            };
            let base = &*table.table;
            let is_rowid = table.shows_rowid
                && base.column_index(&column.text).is_none()
                && is_rowid_name(column);
            match table.visible_column(&column.text) {
                Some(known) if !table.shows(known) => {
                    return Err(denied(format!("ON CONFLICT of {} is masked", column.text)));
                }
                None if !is_rowid => {
                    return Err(Error::no_such(NameKind::Column, &column.text, column.offset));
                }
                _ => {}
            }
        }
    }
    match &upsert.action {
        UpsertAction::Nothing => Ok(()),
        UpsertAction::Update { sets, .. } => {
            refuse(schema, table, TriggerEvent::Update)?;
            check_sets(table, sets)
        }
    }
}

fn check_conflict(what: &str, conflict: Option<Conflict>) -> Result<(), Error> {
    let word = match conflict {
        None | Some(Conflict::Abort) => return Ok(()),
        Some(Conflict::Rollback) => "ROLLBACK",
        Some(Conflict::Fail) => "FAIL",
        Some(Conflict::Ignore) => "IGNORE",
        Some(Conflict::Replace) => "REPLACE",
    };
    Err(denied(format!("{what} OR {word} is not for a narrowed connection")))
}

fn ungranted(what: &str, table: &NarrowedTable, column: &str) -> Error {
    denied(format!("{what} {} is not granted for column {column}", table.name()))
}

/// Refuses a hidden column, in the words for a missing one, and a column without a grant.
fn check_column(
    what: &str,
    table: &NarrowedTable,
    granted: &Writable,
    name: &Name,
    unknown: &dyn Fn(&Name) -> Error,
) -> Result<(), Error> {
    let base = &*table.table;
    if let Some(column) = table.visible_column(&name.text) {
        return match granted.allows(Some(column)) {
            true => Ok(()),
            false => Err(ungranted(what, table, &base.columns[column].name)),
        };
    }
    let is_rowid =
        is_rowid_name(name) && table.shows_rowid && base.column_index(&name.text).is_none();
    match is_rowid {
        true if granted.allows(base.rowid_alias) => Ok(()),
        true => Err(ungranted(what, table, &name.text)),
        false => Err(unknown(name)),
    }
}

impl NarrowedWrites {
    /// Compiles the predicate of a table's rule over a row at hand.
    ///
    /// # Errors
    /// [`Error::Schema`] for a rule made for another schema.
    pub(super) fn new(
        schema: &Schema,
        table: &Arc<NarrowedTable>,
        constraints: &Constraints,
        around: Around<'_>,
    ) -> Result<NarrowedWrites, Error> {
        let one = || Expr { kind: ExprKind::Literal(Value::Int(1)), offset: 0 };
        let check = table
            .rows
            .as_deref()
            .map(|predicate| of_rule(schema, table, vec![one()], Some(predicate.clone()), around));
        let check = check.transpose()?;
        let told = told(table, constraints);
        let (table, tells_all) = (Arc::clone(table), table.shows_all());
        Ok(NarrowedWrites { table, check, told, tells_all })
    }

    /// True where the rowid is visible.
    pub(super) fn shows_rowid(&self) -> bool {
        self.table.shows_rowid
    }

    /// True for a row that meets the predicate.
    ///
    /// # Errors
    /// Those of reading the tables of the predicate.
    pub(super) fn is_visible(&self, context: &mut Context<'_>, row: &Row) -> Result<bool, Error> {
        let Some(check) = &self.check else { return Ok(true) };
        let mut parameters = context.parameters.to_vec();
        row.push_parameters(&mut parameters);
        Ok(check.first(context, &parameters)?.is_some())
    }

    /// Refuses a converted row outside the predicate.
    ///
    /// # Errors
    /// [`Error::Denied`].
    pub(super) fn check(&self, context: &mut Context<'_>, row: &Row) -> Result<(), Error> {
        match self.is_visible(context, row)? {
            true => Ok(()),
            false => Err(denied(format!(
                "the rule of {} does not grant a row of these values",
                self.table.name()
            ))),
        }
    }

    /// True for a key of all rows over columns visible as stored.
    pub(super) fn tells_key(&self, base: &Table, unique: Unique) -> bool {
        let is_partial = match unique {
            Unique::Key => false,
            Unique::Index(place) => base.indexes[place].is_partial(),
        };
        !is_partial && self.told.contains(&(unique.kind(base), unique.place(base)))
    }

    /// An error of storing a row, without hidden names and values.
    pub(super) fn veiled(&self, error: Error) -> Error {
        let is_told = match &error {
            Error::Constraint { constraint, place } => {
                self.told.iter().any(|(kind, told)| kind == constraint && told == place)
            }
            Error::Datatype { place, .. } => {
                let is = |(kind, told): &(ConstraintKind, String)| {
                    *kind == ConstraintKind::NotNull && told == place
                };
                self.told.iter().any(is)
            }
            // The rowid, of the statement's own values.
            Error::Runtime { message, .. } => self.tells_all || message == "datatype mismatch",
            Error::Denied { .. }
            | Error::Store(_)
            | Error::Limit { .. }
            | Error::Interrupted
            | Error::Misuse { .. } => true,
            _ => self.tells_all,
        };
        match is_told {
            true => error,
            false => refused(&self.table, "a constraint on columns that are not granted fails"),
        }
    }
}

/// A query of expressions of a rule over a row at hand: by the names of the whole schema.
fn of_rule(
    schema: &Schema,
    table: &NarrowedTable,
    exprs: Vec<Expr>,
    predicate: Option<Expr>,
    around: Around<'_>,
) -> Result<RowQuery, Error> {
    let narrowing = schema.narrowing().expect("a narrowed table is in a narrowed schema");
    let base = &*table.table;
    let row = GivenRow::new(base, &base.name, around.next);
    let within = Around {
        rows: std::slice::from_ref(&row),
        with: None,
        home: Some(MAIN),
        next: row.end(),
        principal: Some(&table.principal),
        finds_keys: false,
        ..around
    };
    let column = |expr| ResultColumn::Expr { expr, alias: None, text: String::new() };
    let exprs = exprs.into_iter().map(column).collect();
    RowQuery::of_exprs(&narrowing.whole, exprs, predicate, within)
        .map_err(|_| refused(table, "its rule does not fit the table as it is now"))
}

/// Rows as a principal sees them, for expressions of a statement over a row at hand: masks in the
/// place of values, NULLs in the place of hidden columns, whose names mean nothing.
#[derive(Debug)]
pub(crate) struct ShownRow {
    table: Arc<NarrowedTable>,
    /// Gives the masks' values, in the order of the visible columns.
    masks: Option<RowQuery>,
}

impl ShownRow {
    /// Compiles the masks of a table's rule.
    ///
    /// # Errors
    /// [`Error::Denied`] for a rule made for another schema.
    pub(super) fn new(
        schema: &Schema,
        table: &Arc<NarrowedTable>,
        around: Around<'_>,
    ) -> Result<ShownRow, Error> {
        let masks = table.columns.iter().filter_map(|shown| shown.mask.as_deref().cloned());
        let masks: Vec<Expr> = masks.collect();
        let masks = match masks.is_empty() {
            true => None,
            false => Some(of_rule(schema, table, masks, None, around)?),
        };
        Ok(ShownRow { table: Arc::clone(table), masks })
    }

    /// The row in sight.
    ///
    /// # Errors
    /// Errors of the masks.
    pub(super) fn of(&self, context: &mut Context<'_>, row: &Row) -> Result<Row, Error> {
        let mut masks = Vec::new();
        if let Some(query) = &self.masks {
            let mut parameters = context.parameters.to_vec();
            row.push_parameters(&mut parameters);
            masks = query.first(context, &parameters)?.unwrap_or_default();
        }
        let mut masks = masks.into_iter();
        let rowid = if self.table.shows_rowid { row.rowid } else { 0 };
        let mut shown = Row { rowid, values: vec![Value::Null; row.values.len()] };
        for known in &self.table.columns {
            let place = known.column;
            shown.values[place] = match &known.mask {
                None => row.values[place].clone(),
                Some(_) => {
                    let mask = masks.next().unwrap_or_default();
                    self.table.table.columns[place].affinity.apply(mask)
                }
            };
        }
        Ok(shown)
    }
}

/// The constraints over visible columns alone.
fn told(table: &NarrowedTable, constraints: &Constraints) -> Vec<(ConstraintKind, String)> {
    let base = &*table.table;
    let shows = |column: usize| match base.columns.get(column) {
        Some(_) => table.shows(column),
        // The rowid.
        None => table.shows_rowid,
    };
    let mut told = Vec::new();
    for (index, column) in base.columns.iter().enumerate() {
        if shows(index) {
            told.push((ConstraintKind::NotNull, format!("{}.{}", base.name, column.name)));
        }
    }
    for (label, reads) in constraints.checks() {
        if reads.iter().all(|column| shows(*column)) {
            told.push((ConstraintKind::Check, label.to_owned()));
        }
    }
    for unique in &constraints.unique {
        let is_shown = match unique {
            Unique::Key if base.without_rowid => {
                base.primary_key.iter().all(|part| shows(part.column))
            }
            Unique::Key => table.shows_rowid,
            Unique::Index(index) => {
                base.indexes[*index].key().all(|column| column.is_some_and(shows))
            }
        };
        if is_shown {
            told.push((unique.kind(base), unique.place(base)));
        }
    }
    told
}
