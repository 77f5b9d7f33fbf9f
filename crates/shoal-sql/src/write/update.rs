//! `UPDATE`.

use rustc_hash::FxHashSet;

use super::constraints::{Constraints, Verdict, rowid_of};
use super::delete::split_key;
use super::insert::is_rowid_name;
use super::query::RowQuery;
use super::row::{Row, RowKey};
use super::row_expr::RowEnv;
use super::rows::Rows;
use super::target::writable_table;
use super::{Context, Done, Failure};
use crate::Error;
use crate::error::NameKind;
use crate::parse::ast::{Conflict, Expr, ExprKind, Name, Update};
use crate::schema::{Schema, Table};
use crate::value::Value;

/// A prepared `UPDATE`.
#[derive(Debug)]
pub(crate) struct UpdatePlan {
    rows: Rows,
    constraints: Constraints,
    /// The keys of the rows to change and their new values.
    query: RowQuery,
    targets: Vec<Target>,
    conflict: Option<Conflict>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Column(usize),
    /// By one of its own names, not the alias.
    Rowid,
}

/// Prepares an `UPDATE`.
///
/// # Errors
/// As [`super::prepare`].
pub(crate) fn prepare(schema: &Schema, update: &Update) -> Result<UpdatePlan, Error> {
    if let Some(with) = &update.with {
        return Err(Error::unsupported("WITH before UPDATE", with.offset));
    }
    if update.from.is_some() {
        return Err(Error::unsupported("UPDATE with FROM", update.offset));
    }
    if update.returning.is_some() {
        return Err(Error::unsupported("RETURNING", update.offset));
    }
    let table = writable_table(schema, &update.table)?;
    let mut targets: Vec<Target> = Vec::new();
    let mut exprs: Vec<Expr> = Vec::new();
    for (names, expr) in &update.sets {
        for (name, value) in assignments(names, expr)? {
            let target = target(&table, name)?;
            // The last of several assignments to one column counts.
            match targets.iter().position(|known| *known == target) {
                Some(place) => exprs[place] = value.clone(),
                None => {
                    targets.push(target);
                    exprs.push(value.clone());
                }
            }
        }
    }
    let query = RowQuery::over_table(
        schema,
        &table,
        &update.table,
        update.alias.as_ref(),
        &update.indexed,
        exprs,
        update.filter.clone(),
    )?;
    Ok(UpdatePlan {
        rows: Rows::new(schema, &table)?,
        constraints: Constraints::new(schema, &table)?,
        query,
        targets,
        conflict: update.conflict,
    })
}

/// One `SET` term as single assignments.
fn assignments<'a>(names: &'a [Name], expr: &'a Expr) -> Result<Vec<(&'a Name, &'a Expr)>, Error> {
    if let [name] = names {
        return Ok(vec![(name, expr)]);
    }
    match &expr.kind {
        ExprKind::Row(values) if values.len() == names.len() => {
            Ok(names.iter().zip(values).collect())
        }
        ExprKind::Subquery(_) => {
            Err(Error::unsupported("SET of several columns from a query", expr.offset))
        }
        ExprKind::Row(values) => {
            let message = format!("{} columns assigned {} values", names.len(), values.len());
            Err(Error::meaning(message, expr.offset))
        }
        _ => {
            let message = format!("{} columns assigned 1 values", names.len());
            Err(Error::meaning(message, expr.offset))
        }
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

impl UpdatePlan {
    /// Changes the rows that meet the condition.
    ///
    /// # Errors
    /// The first row that a constraint refuses; what the expressions raise.
    pub(crate) fn execute(&self, context: &mut Context<'_>) -> Result<Done, Failure> {
        let mut collected = self.query.run(context)?;
        if !self.rows.table.without_rowid {
            // In the order of the table, whatever index found the rows: what `OR IGNORE` leaves
            // out then does not depend on the plan, and pages are changed one after the other.
            collected.sort_by_key(|values| match values.first() {
                Some(Value::Int(rowid)) => *rowid,
                _ => 0,
            });
        }
        let session = context.session;
        let mut done = Done::default();
        // Where rows take the place of others, a row still to come may be gone or be another.
        let mut moved: FxHashSet<Vec<u8>> = FxHashSet::default();
        for values in collected {
            let (key, values) = split_key(&self.rows.table, values);
            if !moved.is_empty() && moved.contains(&key.encode()) {
                let what = "UPDATE OR REPLACE that moves a row onto one it also changes";
                let what = what.to_owned();
                return Err(Error::Unsupported { what, offset: None }.into());
            }
            let env = RowEnv { transaction: context.transaction, session };
            let Some(old) = self.rows.read(&key, &env)? else { continue };
            let stored =
                self.changed(&old, values).and_then(|new| self.store(context, &key, &old, new));
            if let Some(new) = stored.map_err(|failure| failure.after(done))? {
                done.changes += 1;
                if new != key {
                    moved.insert(new.encode());
                }
            }
        }
        Ok(done)
    }

    /// The row with its new values, not yet converted.
    fn changed(&self, old: &Row, values: Vec<Value>) -> Result<Row, Failure> {
        let table = &*self.rows.table;
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

    /// Stores the new row; gives its key, or `None` when it was left as it was.
    fn store(
        &self,
        context: &mut Context<'_>,
        key: &RowKey,
        old: &Row,
        mut new: Row,
    ) -> Result<Option<RowKey>, Failure> {
        let session = context.session;
        let env = RowEnv { transaction: context.transaction, session };
        self.constraints.convert(&self.rows, &mut new, &env)?;
        let verdict = self.constraints.check(
            &self.rows,
            context.transaction,
            &mut new,
            Some(key),
            self.conflict,
            session,
        )?;
        if verdict == Verdict::Skip {
            return Ok(None);
        }
        self.rows.replace(context.transaction, old, &new, session)?;
        Ok(Some(new.key(&self.rows.table)))
    }
}
