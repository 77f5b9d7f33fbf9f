//! What a row must meet before it is stored, and what happens to those that do not.
//!
//! The order is SQLite's: types, NOT NULL, CHECK, then rowid or primary key, then the unique
//! indexes, the newest first and those that replace last.

use super::row::{Row, RowEnv};
use super::rows::Rows;
use super::{Done, Failure};
use crate::Error;
use crate::error::ConstraintKind;
use crate::exec::{Place, RowExpr};
use crate::parse::ast::{Conflict, Expr, ExprKind, Quote};
use crate::schema::{Column, IndexOrigin, Schema, Table};
use crate::value::{Affinity, Value, truth};

/// The constraints of one table.
#[derive(Debug)]
pub(crate) struct Constraints {
    checks: Vec<(String, RowExpr)>,
    /// Values for columns that are not given one, by column; `None` is NULL.
    pub(crate) defaults: Vec<Option<RowExpr>>,
    /// What no two rows may share, in the order it is checked.
    pub(crate) unique: Vec<Unique>,
}

/// A column's default, which depends on no row.
fn default(schema: &Schema, table: &Table, column: &Column, expr: &Expr) -> Result<RowExpr, Error> {
    if let ExprKind::Column { table: None, column: word, .. } = &expr.kind {
        // A bare word is no column here: a truth value or text.
        return Ok(RowExpr::Constant(match word.text.to_ascii_lowercase().as_str() {
            "true" if word.quote == Quote::None => Value::Int(1),
            "false" if word.quote == Quote::None => Value::Int(0),
            _ => Value::text(word.text.as_str()),
        }));
    }
    let not_constant = || {
        let message = format!("default value of column [{}] is not constant", column.name);
        Error::meaning(message, expr.offset)
    };
    let compiled =
        RowExpr::compile(schema, table, expr, Place::Default).map_err(|_| not_constant())?;
    if compiled.reads().is_empty() { Ok(compiled) } else { Err(not_constant()) }
}

impl Constraints {
    /// Compiles a table's constraints.
    ///
    /// # Errors
    /// What the expressions' names and functions are refused for.
    pub(crate) fn new(schema: &Schema, table: &Table) -> Result<Constraints, Error> {
        let checks = table.checks.iter().map(|check| {
            let expr = RowExpr::compile(schema, table, &check.expr, Place::Check)?;
            Ok((check.label.clone(), expr))
        });
        let defaults = table.columns.iter().map(|column| {
            column.default.as_ref().map(|expr| default(schema, table, column, expr)).transpose()
        });
        Ok(Constraints {
            checks: checks.collect::<Result<_, Error>>()?,
            defaults: defaults.collect::<Result<_, _>>()?,
            unique: unique_order(table),
        })
    }

    /// The `CHECK` constraints: names or texts, and the columns read.
    pub(crate) fn checks(&self) -> impl Iterator<Item = (&str, &[usize])> {
        self.checks.iter().map(|(label, check)| (label.as_str(), check.reads()))
    }

    /// True for a table with `CHECK` constraints.
    pub(crate) fn has_checks(&self) -> bool {
        !self.checks.is_empty()
    }

    /// Brings a row's values into the form the columns keep, and computes generated columns.
    ///
    /// # Errors
    /// What the generated columns' expressions raise.
    pub(crate) fn convert(
        &self,
        rows: &Rows,
        row: &mut Row,
        env: &RowEnv<'_>,
    ) -> Result<(), Error> {
        let table = &*rows.table;
        for (index, column) in table.columns.iter().enumerate() {
            if table.rowid_alias != Some(index) && !column.affinity.keeps(&row.values[index]) {
                let value = std::mem::take(&mut row.values[index]);
                row.values[index] = column.affinity.apply(value);
            }
        }
        rows.compute(row, env)
    }

    /// The name of a `CHECK` that a row does not meet.
    ///
    /// # Errors
    /// What the expressions raise.
    pub(crate) fn failed_check(&self, row: &Row, env: &RowEnv<'_>) -> Result<Option<&str>, Error> {
        for (label, check) in &self.checks {
            if truth(row.eval(check, env)?.as_ref()) == Some(false) {
                return Ok(Some(label));
            }
        }
        Ok(None)
    }

    /// Checks what a converted row must meet on its own; false when it is to be left out.
    /// `statement` is the statement's own `OR` clause, which goes before those of the constraints.
    ///
    /// # Errors
    /// The first constraint that failed and is to be obeyed.
    pub(crate) fn check_row(
        &self,
        rows: &Rows,
        row: &mut Row,
        statement: Option<Conflict>,
        env: &RowEnv<'_>,
    ) -> Result<bool, Failure> {
        if !self.check_not_null(rows, row, statement, env)? {
            return Ok(false);
        }
        if rows.table.strict {
            check_types(&rows.table, row)?;
        }
        for (label, check) in &self.checks {
            if truth(row.eval(check, env)?.as_ref()) != Some(false) {
                continue;
            }
            if statement == Some(Conflict::Ignore) {
                return Ok(false);
            }
            return Err(failure(ConstraintKind::Check, label.clone(), statement));
        }
        Ok(true)
    }

    fn check_not_null(
        &self,
        rows: &Rows,
        row: &mut Row,
        resolution: Option<Conflict>,
        env: &RowEnv<'_>,
    ) -> Result<bool, Failure> {
        let table = &*rows.table;
        for (index, column) in table.columns.iter().enumerate() {
            let alias = table.rowid_alias == Some(index);
            if !column.not_null || alias || !row.values[index].is_null() {
                continue;
            }
            let resolution = resolution.or(column.not_null_conflict).unwrap_or(Conflict::Abort);
            match (resolution, &self.defaults[index]) {
                (Conflict::Ignore, _) => return Ok(false),
                (Conflict::Replace, Some(default)) => {
                    let value = column.affinity.apply(row.eval(default, env)?);
                    if !value.is_null() {
                        row.values[index] = value;
                        rows.compute(row, env)?;
                        continue;
                    }
                }
                _ => {}
            }
            let place = format!("{}.{}", table.name, column.name);
            return Err(failure(ConstraintKind::NotNull, place, Some(resolution)));
        }
        Ok(true)
    }
}

/// Something that no two rows may share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unique {
    /// The rowid, or the primary key of a table without one.
    Key,
    Index(usize),
}

/// The order in which SQLite checks: a rowid first, then indexes from the newest to the oldest,
/// among them the primary key of a table without rowid, and last those that replace.
fn unique_order(table: &Table) -> Vec<Unique> {
    let number = |name: &str| -> Option<usize> {
        name.rsplit_once('_').and_then(|(_, number)| number.parse().ok())
    };
    let mut order = Vec::new();
    let mut automatic = Vec::new();
    for (place, index) in table.indexes.iter().enumerate() {
        // Created after the table, and so after all automatic ones.
        let mut age = place + table.indexes.len() + 2;
        if index.origin != IndexOrigin::Create {
            age = number(&index.name).unwrap_or(0);
            automatic.push(age);
        }
        if index.unique {
            order.push((index.conflict == Some(Conflict::Replace), age, Unique::Index(place)));
        }
    }
    if table.without_rowid {
        // The primary key has no index of its own but takes a number among them.
        let age = (1..).find(|age| !automatic.contains(age)).unwrap_or(0);
        order.push((table.key_conflict == Some(Conflict::Replace), age, Unique::Key));
    }
    order.sort_by_key(|&(replaces, age, _)| (replaces, std::cmp::Reverse(age)));
    let rowid = (!table.without_rowid).then_some(Unique::Key);
    rowid.into_iter().chain(order.into_iter().map(|(_, _, unique)| unique)).collect()
}

impl Unique {
    /// The kind of constraint that a second row with the same key breaks.
    pub(crate) fn kind(self, table: &Table) -> ConstraintKind {
        match self {
            Unique::Key if !table.without_rowid && table.rowid_alias.is_none() => {
                ConstraintKind::Rowid
            }
            Unique::Key => ConstraintKind::PrimaryKey,
            Unique::Index(index) => match table.indexes[index].origin {
                IndexOrigin::PrimaryKey => ConstraintKind::PrimaryKey,
                _ => ConstraintKind::Unique,
            },
        }
    }

    /// The columns, as SQLite names them in its message.
    pub(crate) fn place(self, table: &Table) -> String {
        let name = |column: usize| format!("{}.{}", table.name, table.columns[column].name);
        let columns: Option<Vec<String>> = match self {
            Unique::Key if table.without_rowid => {
                Some(table.primary_key.iter().map(|part| name(part.column)).collect())
            }
            Unique::Key => {
                Some(vec![table.rowid_alias.map_or_else(|| format!("{}.rowid", table.name), name)])
            }
            Unique::Index(index) => {
                table.indexes[index].key().map(|column| column.map(name)).collect()
            }
        };
        match (columns, self) {
            (None, Unique::Index(index)) => format!("index '{}'", table.indexes[index].name),
            (columns, _) => columns.unwrap_or_default().join(", "),
        }
    }
}

/// A failed constraint. `OR REPLACE` where nothing can be replaced stops the statement.
pub(crate) fn failure(
    constraint: ConstraintKind,
    place: String,
    resolution: Option<Conflict>,
) -> Failure {
    let resolution = match resolution {
        None | Some(Conflict::Replace) => Conflict::Abort,
        Some(resolution) => resolution,
    };
    let error = Error::Constraint { constraint, place };
    Failure { error, resolution, done: Done::default(), is_in_sight: false }
}

/// True when a strict table's row has values of its columns' types alone.
pub(crate) fn fits_types(table: &Table, row: &Row) -> bool {
    check_types(table, row).is_ok()
}

/// The types of a strict table's row.
fn check_types(table: &Table, row: &Row) -> Result<(), Failure> {
    for (index, column) in table.columns.iter().enumerate() {
        let value = &row.values[index];
        let is = |word: &str| column.declared_type.eq_ignore_ascii_case(word);
        let fits = match value {
            Value::Null => true,
            Value::Int(_) => !is("REAL") && !is("TEXT") && !is("BLOB"),
            Value::Real(_) => !is("INT") && !is("INTEGER") && !is("TEXT") && !is("BLOB"),
            Value::Text(_) => !is("INT") && !is("INTEGER") && !is("REAL") && !is("BLOB"),
            Value::Blob(_) => !is("INT") && !is("INTEGER") && !is("REAL") && !is("TEXT"),
        };
        if !fits && table.rowid_alias != Some(index) {
            let declared = column.declared_type.to_ascii_uppercase();
            let class = match value {
                Value::Int(_) => "INT".to_owned(),
                value => value.type_name().to_ascii_uppercase(),
            };
            let place = format!("{}.{}", table.name, column.name);
            return Err(Error::Datatype { class, declared, place }.into());
        }
    }
    Ok(())
}

/// The rowid that a value for it or its alias means; `None` for NULL, which asks for a new one.
///
/// # Errors
/// `datatype mismatch` for what is no integer.
pub(crate) fn rowid_of(value: &Value) -> Result<Option<i64>, Error> {
    match Affinity::Integer.apply(value.clone()) {
        Value::Null => Ok(None),
        Value::Int(rowid) => Ok(Some(rowid)),
        _ => Err(Error::runtime("datatype mismatch")),
    }
}
