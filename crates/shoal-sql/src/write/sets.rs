//! The assignments of an `UPDATE` and of `ON CONFLICT ... DO UPDATE`.

use super::constraints::rowid_of;
use super::insert::is_rowid_name;
use super::row::Row;
use crate::Error;
use crate::error::NameKind;
use crate::parse::ast::{Expr, ExprKind, Name};
use crate::schema::Table;
use crate::value::Value;

/// The columns that are assigned to.
#[derive(Debug)]
pub(crate) struct Sets {
    targets: Vec<Target>,
    /// The names of the columns, for triggers that fire on some.
    pub(crate) names: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Column(usize),
    /// By one of its own names, not the alias.
    Rowid,
}

impl Sets {
    /// The targets of assignments, and the expression for each.
    ///
    /// # Errors
    /// Columns that do not exist or are generated; values of another number than columns.
    pub(crate) fn new(
        table: &Table,
        sets: &[(Vec<Name>, Expr)],
    ) -> Result<(Sets, Vec<Expr>), Error> {
        let mut targets: Vec<Target> = Vec::new();
        let mut exprs: Vec<Expr> = Vec::new();
        let mut given = Vec::new();
        for (names, expr) in sets {
            for (name, value) in assignments(names, expr)? {
                given.push(name.text.clone());
                let target = target(table, name)?;
                // The last of several assignments to one column counts.
                match targets.iter().position(|known| *known == target) {
                    Some(place) => exprs[place] = value,
                    None => {
                        targets.push(target);
                        exprs.push(value);
                    }
                }
            }
        }
        Ok((Sets { targets, names: given }, exprs))
    }

    /// The columns assigned to; `None` for the rowid.
    pub(crate) fn plain_columns(&self, table: &Table) -> Option<Vec<usize>> {
        let column = |target: &Target| match target {
            Target::Rowid => None,
            Target::Column(index) => Some(*index).filter(|it| table.rowid_alias != Some(*it)),
        };
        self.targets.iter().map(column).collect()
    }

    /// Whether the rowid or a part of the primary key is assigned to.
    pub(crate) fn changes_key(&self, table: &Table) -> bool {
        self.targets.iter().any(|target| match target {
            Target::Rowid => true,
            Target::Column(index) => {
                table.primary_key.iter().any(|part| part.column == *index)
                    || table.rowid_alias == Some(*index)
            }
        })
    }

    /// True where a row may get another place in its table.
    pub(crate) fn moves(&self, table: &Table) -> bool {
        match table.without_rowid {
            true => self.changes_key(table),
            false => self.targets.iter().any(|target| match target {
                Target::Rowid => true,
                Target::Column(index) => table.rowid_alias == Some(*index),
            }),
        }
    }

    /// True where a column's value may change: assigned to, or generated.
    pub(crate) fn changes(&self, table: &Table, column: usize) -> bool {
        table.columns[column].generated.is_some()
            || self.targets.iter().any(|target| match target {
                Target::Rowid => table.rowid_alias == Some(column),
                Target::Column(index) => *index == column,
            })
    }

    /// The columns assigned to, by number.
    pub(crate) fn columns(&self) -> impl Iterator<Item = usize> {
        self.targets.iter().filter_map(|target| match target {
            Target::Rowid => None,
            Target::Column(index) => Some(*index),
        })
    }

    /// The row with its new values, not yet converted.
    ///
    /// # Errors
    /// `datatype mismatch` for a rowid that is no integer.
    pub(crate) fn apply(
        &self,
        table: &Table,
        old: &Row,
        values: impl IntoIterator<Item = Value>,
    ) -> Result<Row, Error> {
        let mut new = old.clone();
        for (target, value) in self.targets.iter().zip(values) {
            let alias = match target {
                Target::Rowid => true,
                Target::Column(index) => table.rowid_alias == Some(*index),
            };
            if alias {
                // NULL is no rowid, and an update does not pick one.
                new.rowid = rowid_of(&value)?.ok_or_else(|| Error::runtime("datatype mismatch"))?;
                if let Some(index) = table.rowid_alias {
                    new.values[index] = Value::Int(new.rowid);
                }
            } else if let Target::Column(index) = target {
                new.values[*index] = value;
            }
        }
        Ok(new)
    }
}

/// One `SET` term as single assignments.
fn assignments<'a>(names: &'a [Name], expr: &'a Expr) -> Result<Vec<(&'a Name, Expr)>, Error> {
    if let [name] = names {
        return Ok(vec![(name, expr.clone())]);
    }
    let assigned = |count: usize| {
        let message = format!("{} columns assigned {count} values", names.len());
        Err(Error::meaning(message, expr.offset))
    };
    match &expr.kind {
        ExprKind::Row(values) if values.len() == names.len() => {
            Ok(names.iter().zip(values.iter().cloned()).collect())
        }
        ExprKind::Subquery(select) => {
            let part = |(column, name)| {
                let count = names.len();
                let kind = ExprKind::SubqueryColumn { select: select.clone(), column, count };
                (name, Expr { kind, offset: expr.offset })
            };
            Ok(names.iter().enumerate().map(part).collect())
        }
        ExprKind::Row(values) => assigned(values.len()),
        _ => assigned(1),
    }
}

fn target(table: &Table, name: &Name) -> Result<Target, Error> {
    if let Some(index) = table.column_index(&name.text) {
        if table.columns[index].generated.is_some() {
            let message = format!("cannot UPDATE generated column \"{}\"", name.text);
            return Err(Error::meaning(message, name.offset));
        }
        return Ok(Target::Column(index));
    }
    if !table.without_rowid && is_rowid_name(name) {
        return Ok(table.rowid_alias.map_or(Target::Rowid, Target::Column));
    }
    Err(Error::no_such(NameKind::Column, &name.text, name.offset))
}
