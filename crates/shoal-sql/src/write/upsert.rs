//! `ON CONFLICT` clauses of an `INSERT`.

use super::change::{Changer, Clause, Updater};
use super::constraints::Unique;
use super::insert::is_rowid_name;
use super::narrowed::ShownRow;
use super::query::RowQuery;
use super::returning::Returning;
use super::row::{Row, RowKey};
use super::sets::Sets;
use super::target::{Target, authorize_update};
use super::triggers::Within;
use super::update::references_of;
use super::{Context, Failure};
use crate::Error;
use crate::error::NameKind;
use crate::parse::ast::{
    Conflict, Expr, ExprKind, Insert, OrderTerm, ResultColumn, TriggerEvent, Upsert, UpsertAction,
};
use crate::resolve::{Around, GivenRow, is_alike};
use crate::schema::{IndexSource, KeyPart, Table};
use crate::value::Collation;

/// The clauses of one `INSERT`, by number; `None` for those that do nothing.
#[derive(Debug, Default)]
pub(crate) struct Upserts(Vec<Option<Update>>);

impl Upserts {
    /// Whether there is no clause.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What `DO UPDATE` does.
#[derive(Debug)]
struct Update {
    updater: Updater,
    /// The new values, where the condition holds, over the row that is there and `excluded`.
    query: RowQuery,
    /// The form of both rows under rules.
    shown: Option<ShownRow>,
}

/// What the clauses are about.
///
/// # Errors
/// Columns that do not exist; a clause that no key answers to.
pub(crate) fn clauses(table: &Table, upserts: &[Upsert]) -> Result<Vec<Clause>, Error> {
    let clause = |(number, upsert): (usize, &Upsert)| {
        let updates = matches!(upsert.action, UpsertAction::Update { .. });
        let Some((columns, filter)) = &upsert.target else {
            return Ok(Clause { unique: None, updates });
        };
        let unique = unique(table, columns, filter.as_ref())?.ok_or_else(|| {
            let which = match upserts.len() {
                1 => String::new(),
                _ => format!("{} ", ordinal(number + 1)),
            };
            let message = format!(
                "{which}ON CONFLICT clause does not match any PRIMARY KEY or UNIQUE constraint"
            );
            Error::meaning(message, upsert.offset)
        })?;
        Ok(Clause { unique: Some(unique), updates })
    };
    upserts.iter().enumerate().map(clause).collect()
}

fn ordinal(number: usize) -> String {
    let suffix = match (number % 10, number % 100) {
        (1, rest) if rest != 11 => "st",
        (2, rest) if rest != 12 => "nd",
        (3, rest) if rest != 13 => "rd",
        _ => "th",
    };
    format!("{number}{suffix}")
}

/// The key that the columns of a clause are.
fn unique(
    table: &Table,
    columns: &[OrderTerm],
    filter: Option<&Expr>,
) -> Result<Option<Unique>, Error> {
    for term in columns {
        if let ExprKind::Column { table: None, column, .. } = &without_collation(&term.expr).kind
            && table.column_index(&column.text).is_none()
            && (table.without_rowid || !is_rowid_name(column))
        {
            return Err(Error::no_such(NameKind::Column, &column.text, column.offset));
        }
    }
    let column = |expr: &Expr| match &without_collation(expr).kind {
        ExprKind::Column { table: None, column, .. } => table
            .column_index(&column.text)
            .or_else(|| table.rowid_alias.filter(|_| is_rowid_name(column))),
        _ => None,
    };
    if table.without_rowid {
        let key = &table.primary_key;
        let has = |part: &KeyPart| {
            columns.iter().any(|term| {
                column(&term.expr) == Some(part.column)
                    && same_collation(&term.expr, &part.collation)
            })
        };
        if key.len() == columns.len() && key.iter().all(has) {
            return Ok(Some(Unique::Key));
        }
    } else if let [term] = columns {
        let names_rowid = match &without_collation(&term.expr).kind {
            ExprKind::Column { table: None, column, .. } => {
                table.column_index(&column.text).is_none()
            }
            _ => false,
        };
        let is_alias = table.rowid_alias.is_some() && column(&term.expr) == table.rowid_alias;
        if is_alias || names_rowid {
            return Ok(Some(Unique::Key));
        }
    }
    let found = table.indexes.iter().position(|index| {
        let matches_filter = match (&index.filter, filter) {
            (None, _) => true,
            (Some(own), Some(given)) => is_alike(own, given),
            (Some(_), None) => false,
        };
        index.unique
            && index.key_columns == columns.len()
            && matches_filter
            && index.columns[..index.key_columns].iter().all(|key| {
                columns.iter().any(|term| match &key.source {
                    _ if !same_collation(&term.expr, &key.collation) => false,
                    IndexSource::Column(own) => column(&term.expr) == Some(*own),
                    IndexSource::Rowid => false,
                    IndexSource::Expr(own) => {
                        is_alike(without_collation(own), without_collation(&term.expr))
                    }
                })
            })
    });
    Ok(found.map(Unique::Index))
}

/// Whether a key's collation is the one that a column of a clause names, if it names one.
fn same_collation(expr: &Expr, known: &Result<Collation, String>) -> bool {
    match (&expr.kind, known) {
        (ExprKind::Collate { collation, .. }, Ok(known)) => collation.is(known.name()),
        (ExprKind::Collate { collation, .. }, Err(known)) => collation.is(known),
        _ => true,
    }
}

/// An expression without `COLLATE` behind it.
pub(super) fn without_collation(expr: &Expr) -> &Expr {
    match &expr.kind {
        ExprKind::Collate { expr, .. } => without_collation(expr),
        _ => expr,
    }
}

impl Upserts {
    /// Compiles the clauses of an `INSERT`.
    ///
    /// # Errors
    /// What their expressions are refused for.
    pub(crate) fn compile(
        within: &mut Within<'_>,
        target: &Target,
        insert: &Insert,
        around: Around<'_>,
    ) -> Result<Upserts, Error> {
        let table = &*target.table;
        let name = insert.alias.as_ref().unwrap_or(&insert.table.name);
        let mut out = Vec::with_capacity(insert.upserts.len());
        for upsert in &insert.upserts {
            let UpsertAction::Update { sets, filter } = &upsert.action else {
                out.push(None);
                continue;
            };
            let given = |name: &str, first: usize| match &target.narrowed {
                None => GivenRow::new(table, name, first),
                Some(narrowed) => GivenRow::visible(narrowed, name, first),
            };
            let own = given(&name.text, around.next);
            let excluded = given("excluded", own.end()).by_name_only();
            let next = excluded.end();
            let mut rows = vec![own, excluded];
            rows.extend(around.rows.iter().cloned());
            let (sets, exprs) = Sets::new(table, sets)?;
            authorize_update(within, table, &sets.names)?;
            let column = |expr| ResultColumn::Expr { expr, alias: None, text: String::new() };
            let query = RowQuery::of_exprs(
                within.schema,
                exprs.into_iter().map(column).collect(),
                filter.clone(),
                Around { rows: &rows, next, ..around },
            )?;
            let conflict = Some(Conflict::Abort);
            let names: Vec<&str> = sets.names.iter().map(String::as_str).collect();
            let mut changer = Changer::new(within, target, conflict, &[])?;
            changer.narrow(within.schema, target, TriggerEvent::Update, around)?;
            let references = references_of(within, target, &sets)?;
            let moves = sets.moves(&target.table);
            let whole = moves || references.replaces_entries();
            let changes = |column: usize| whole || sets.changes(&target.table, column);
            changer.find_leaving(within, target, moves, &changes)?;
            let firing = within.firing(target, TriggerEvent::Update, &names, conflict)?;
            let updater = Updater { changer, sets, firing, references };
            let narrowed = target.narrowed.as_ref();
            let shown = narrowed.map(|narrowed| ShownRow::new(within.schema, narrowed, around));
            out.push(Some(Update { updater, query, shown: shown.transpose()? }));
        }
        Ok(Upserts(out))
    }

    /// Updates the row that stands in the way of a new one; false when it stays as it is.
    ///
    /// # Errors
    /// A constraint; what the expressions raise.
    pub(crate) fn update(
        &self,
        context: &mut Context<'_>,
        clause: usize,
        key: &RowKey,
        excluded: &Row,
        returning: Option<&Returning>,
    ) -> Result<bool, Failure> {
        let Some(Some(update)) = self.0.get(clause) else { return Ok(false) };
        let updater = &update.updater;
        let Some(old) = updater.changer.read(context, key)? else { return Ok(false) };
        let mut parameters = context.parameters.to_vec();
        for row in [&old, excluded] {
            match &update.shown {
                None => row.push_parameters(&mut parameters),
                Some(shown) => shown.of(context, row)?.push_parameters(&mut parameters),
            }
        }
        // The rows of triggers around come first, as parameters of the statement itself.
        let found = update.query.run_with(context, &parameters).map_err(Failure::in_sight)?.pop();
        let Some(values) = found else {
            return Ok(false);
        };
        let new = updater.changed(&old, values)?;
        Ok(updater.update(context, (key, None), old, new, returning)?.is_some())
    }
}
