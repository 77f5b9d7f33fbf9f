//! `INSERT` and `REPLACE`.

use std::sync::Arc;

use super::constraints::{Constraints, Verdict, rowid_of};
use super::query::RowQuery;
use super::row::Row;
use super::row_expr::RowEnv;
use super::rows::Rows;
use super::target::writable_table;
use super::{Context, Done, Failure, sequence};
use crate::Error;
use crate::error::NameKind;
use crate::parse::ast::{Conflict, Insert, InsertSource, Name};
use crate::schema::{Schema, Table};
use crate::value::Value;

/// A prepared `INSERT`.
#[derive(Debug)]
pub(crate) struct InsertPlan {
    rows: Rows,
    constraints: Constraints,
    /// `None` for `DEFAULT VALUES`.
    source: Option<RowQuery>,
    /// What each value of the source is for.
    targets: Vec<Target>,
    conflict: Option<Conflict>,
}

/// Where a value goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Column(usize),
    /// By one of its own names, not the alias.
    Rowid,
    /// To a column that was named before: the first value counts.
    Nowhere,
}

/// Prepares an `INSERT`.
///
/// # Errors
/// As [`super::prepare`].
pub(crate) fn prepare(schema: &Schema, insert: &Insert) -> Result<InsertPlan, Error> {
    if let Some(with) = &insert.with {
        return Err(Error::unsupported("WITH before INSERT", with.offset));
    }
    if let Some(offset) = insert.upsert {
        return Err(Error::unsupported("ON CONFLICT clause of INSERT", offset));
    }
    if insert.returning.is_some() {
        return Err(Error::unsupported("RETURNING", insert.offset));
    }
    let table = writable_table(schema, &insert.table)?;
    let source = match &insert.source {
        InsertSource::DefaultValues => None,
        InsertSource::Select(select) => Some(RowQuery::compile(schema, select)?),
    };
    let targets = targets(&table, insert, source.as_ref().map(RowQuery::width))?;
    Ok(InsertPlan {
        rows: Rows::new(schema, &table)?,
        constraints: Constraints::new(schema, &table)?,
        source,
        targets,
        conflict: insert.conflict,
    })
}

/// Matches the source's values with columns.
fn targets(table: &Table, insert: &Insert, width: Option<usize>) -> Result<Vec<Target>, Error> {
    let offset = insert.table.name.offset;
    let Some(names) = &insert.columns else {
        let columns = table.columns.iter().enumerate();
        let columns: Vec<Target> = columns
            .filter(|(_, column)| column.generated.is_none())
            .map(|(index, _)| Target::Column(index))
            .collect();
        return match width {
            None => Ok(Vec::new()),
            Some(width) if width == columns.len() => Ok(columns),
            Some(width) => Err(Error::meaning(
                format!(
                    "table {} has {} columns but {width} values were supplied",
                    table.name,
                    columns.len()
                ),
                offset,
            )),
        };
    };
    if let Some(width) = width
        && width != names.len()
    {
        let message = format!("{width} values for {} columns", names.len());
        return Err(Error::meaning(message, offset));
    }
    let mut targets = Vec::with_capacity(names.len());
    for name in names {
        let target = target(table, name)?;
        targets.push(if targets.contains(&target) { Target::Nowhere } else { target });
    }
    Ok(targets)
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
    /// Inserts the source's rows.
    ///
    /// # Errors
    /// The first row that a constraint refuses.
    pub(crate) fn execute(&self, context: &mut Context<'_>) -> Result<Done, Failure> {
        let source = match &self.source {
            None => vec![Vec::new()],
            Some(query) => query.run(context)?,
        };
        let inserter =
            Inserter { rows: &self.rows, constraints: &self.constraints, conflict: self.conflict };
        let mut done = Done::default();
        for values in source {
            let mut given = vec![None; self.rows.table.columns.len()];
            let mut rowid = None;
            for (target, value) in self.targets.iter().zip(values) {
                match target {
                    Target::Column(index) => given[*index] = Some(value),
                    Target::Rowid => rowid = Some(value),
                    Target::Nowhere => {}
                }
            }
            if let Some(rowid) = inserter.insert(context, given, rowid)? {
                done.changes += 1;
                if !self.rows.table.without_rowid {
                    done.last_insert_rowid = Some(rowid);
                }
            }
        }
        Ok(done)
    }
}

/// Puts single rows into a table.
pub(crate) struct Inserter<'a> {
    pub(crate) rows: &'a Rows,
    pub(crate) constraints: &'a Constraints,
    pub(crate) conflict: Option<Conflict>,
}

impl Inserter<'_> {
    /// Inserts one row of the values given, defaults for the others.
    ///
    /// Gives its rowid (0 in a table without), or `None` when it was left out.
    ///
    /// # Errors
    /// The constraint that refuses the row.
    pub(crate) fn insert(
        &self,
        context: &mut Context<'_>,
        given: Vec<Option<Value>>,
        rowid: Option<Value>,
    ) -> Result<Option<i64>, Failure> {
        let session = context.session;
        let env = RowEnv { transaction: context.transaction, session };
        let table = Arc::clone(&self.rows.table);
        let mut row = Row { rowid: 0, values: vec![Value::Null; table.columns.len()] };
        for (index, value) in given.into_iter().enumerate() {
            row.values[index] = match (value, &self.constraints.defaults[index]) {
                (Some(value), _) => value,
                (None, Some(default)) => default.eval(&row, &env)?,
                (None, None) => Value::Null,
            };
        }
        if !table.without_rowid {
            let wanted = match (rowid, table.rowid_alias) {
                (Some(rowid), _) => rowid_of(&rowid)?,
                (None, Some(alias)) => rowid_of(&row.values[alias])?,
                (None, None) => None,
            };
            row.rowid = match wanted {
                Some(rowid) => rowid,
                None if table.autoincrement => sequence::next(context, self.rows)?,
                None => self.rows.new_rowid(&env)?,
            };
            if let Some(alias) = table.rowid_alias {
                row.values[alias] = Value::Int(row.rowid);
            }
        }
        self.constraints.convert(self.rows, &mut row, &env)?;
        let verdict = self.constraints.check(
            self.rows,
            context.transaction,
            &mut row,
            None,
            self.conflict,
            session,
        )?;
        if verdict == Verdict::Skip {
            return Ok(None);
        }
        self.rows.insert(context.transaction, &row, session)?;
        if table.autoincrement {
            sequence::note(context, &table, row.rowid)?;
        }
        Ok(Some(row.rowid))
    }
}
