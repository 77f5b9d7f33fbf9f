//! `RETURNING`: what a statement gives of each row that it changed.

use super::Context;
use super::query::RowQuery;
use super::row::Row;
use super::triggers::Within;
use crate::Error;
use crate::parse::ast::{Expr, ExprKind, Name, ObjectName, Quote, ResultColumn};
use crate::resolve::{Around, GivenRow};
use crate::schema::Table;

/// A compiled `RETURNING`.
#[derive(Debug)]
pub(crate) struct Returning {
    query: RowQuery,
}

impl Returning {
    /// Compiles the clause of a statement on `table`.
    ///
    /// # Errors
    /// What the expressions are refused for.
    pub(crate) fn compile(
        within: &Within<'_>,
        table: &Table,
        name: &ObjectName,
        columns: Option<&[ResultColumn]>,
        around: Around<'_>,
    ) -> Result<Option<Returning>, Error> {
        let Some(columns) = columns else { return Ok(None) };
        let mut exprs = Vec::with_capacity(columns.len());
        for column in columns {
            match column {
                ResultColumn::Expr { .. } => exprs.push(column.clone()),
                ResultColumn::Star { offset } => exprs.extend(all(table, *offset)),
                ResultColumn::TableStar(name) => {
                    let message = "RETURNING may not use \"TABLE.*\" wildcards";
                    return Err(Error::meaning(message, name.offset));
                }
            }
        }
        let row = GivenRow::new(table, &name.name.text, around.next);
        let around = Around { next: row.end(), rows: &[row], ..around };
        let query = RowQuery::of_exprs(within.schema, exprs, None, around)?;
        Ok(Some(Returning { query }))
    }

    /// The names of the columns.
    pub(crate) fn columns(&self) -> Vec<String> {
        self.query.columns().map(|(name, _)| name.to_owned()).collect()
    }

    /// Computes the clause for a row that was changed and keeps what it gives.
    ///
    /// # Errors
    /// What the expressions raise.
    pub(crate) fn give(&self, context: &mut Context<'_>, row: &Row) -> Result<(), Error> {
        let mut parameters = context.parameters.to_vec();
        row.push_parameters(&mut parameters);
        let rows = self.query.run_with(context, &parameters)?;
        context.state.returned.extend(rows);
        Ok(())
    }
}

/// The columns of a table, as `*` names them.
fn all(table: &Table, offset: usize) -> impl Iterator<Item = ResultColumn> {
    table.columns.iter().map(move |column| {
        let name = Name { text: column.name.clone(), offset, quote: Quote::Other };
        let kind = ExprKind::Column { database: None, table: None, column: name };
        ResultColumn::Expr { expr: Expr { kind, offset }, alias: None, text: String::new() }
    })
}
