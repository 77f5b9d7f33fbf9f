//! `INSERT` and `REPLACE`.

use std::sync::Arc;

use super::constraints::{Constraints, Verdict, rowid_of};
use super::query::RowQuery;
use super::row::Row;
use super::row_expr::RowEnv;
use super::rows::Rows;
use super::sequence::Sequence;
use super::target::writable_table;
use super::{Context, Done, Failure};
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
    /// To a column that was named before, the first value of which counts, or a rowid that is named
    /// again.
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
    // Names before the source, widths after it: the order in which SQLite complains.
    let named = insert.columns.as_deref().map(|names| named_targets(&table, names)).transpose()?;
    let source = match &insert.source {
        InsertSource::DefaultValues => None,
        InsertSource::Select(select) => Some(RowQuery::compile(schema, select)?),
    };
    let width = source.as_ref().map(RowQuery::width);
    let targets = match named {
        Some(targets) => check_width(targets, width, insert)?,
        None => all_targets(&table, width, insert)?,
    };
    Ok(InsertPlan {
        rows: Rows::new(schema, &table)?,
        constraints: Constraints::new(schema, &table)?,
        source,
        targets,
        conflict: insert.conflict,
    })
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
        let mut sequence = Sequence::open(context.transaction, context.schema, &self.rows.table)?;
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
            let inserted = inserter.insert(context, given, rowid, sequence.as_mut());
            if let Some(rowid) = inserted.map_err(|failure| failure.after(done))? {
                done.changes += 1;
                if !self.rows.table.without_rowid {
                    done.last_insert_rowid = Some(rowid);
                }
            }
        }
        if let Some(sequence) = sequence {
            sequence.store(context.transaction)?;
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
    /// Gives its rowid (0 in a table without), or `None` when it was left out. `sequence` is that
    /// of an `AUTOINCREMENT` table, which the caller stores.
    ///
    /// # Errors
    /// The constraint that refuses the row.
    pub(crate) fn insert(
        &self,
        context: &mut Context<'_>,
        given: Vec<Option<Value>>,
        rowid: Option<Value>,
        sequence: Option<&mut Sequence>,
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
            row.rowid = match (wanted, &sequence) {
                (Some(rowid), _) => rowid,
                (None, Some(sequence)) => sequence.next(context.transaction, &table)?,
                (None, None) => self.rows.new_rowid(&env)?,
            };
            if let Some(sequence) = sequence {
                // Before the checks: a rowid picked for a row that is then left out counts, too.
                sequence.note(row.rowid);
            }
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
        Ok(Some(row.rowid))
    }
}
