//! `RETURNING`: what a statement gives of each row that it changed.

use super::Context;
use super::Failure;
use super::narrowed::ShownRow;
use super::query::RowQuery;
use super::row::Row;
use super::target::Target;
use super::triggers::Within;
use crate::Error;
use crate::parse::ast::{Expr, ExprKind, Name, ObjectName, Quote, ResultColumn};
use crate::resolve::{Around, GivenRow};
use crate::schema::Table;

/// A compiled `RETURNING`.
#[derive(Debug)]
pub(crate) struct Returning {
    query: RowQuery,
    /// The form of rows under rules.
    shown: Option<ShownRow>,
}

impl Returning {
    /// Compiles the clause of a statement on a table; under rules over the visible columns alone.
    ///
    /// # Errors
    /// What the expressions are refused for.
    pub(crate) fn compile(
        within: &Within<'_>,
        target: &Target,
        name: &ObjectName,
        columns: Option<&[ResultColumn]>,
        around: Around<'_>,
    ) -> Result<Option<Returning>, Error> {
        let Some(columns) = columns else { return Ok(None) };
        let table = &*target.table;
        let narrowed = target.narrowed.as_ref();
        let is_shown =
            |name: &str| narrowed.is_none_or(|narrowed| narrowed.visible_column(name).is_some());
        let mut exprs = Vec::with_capacity(columns.len());
        for column in columns {
            match column {
                ResultColumn::Expr { .. } => exprs.push(column.clone()),
                ResultColumn::Star { offset } => exprs.extend(all(table, *offset, &is_shown)),
                ResultColumn::TableStar(name) => {
                    let message = "RETURNING may not use \"TABLE.*\" wildcards";
                    return Err(Error::meaning(message, name.offset));
                }
            }
        }
        let shown = narrowed.map(|narrowed| ShownRow::new(within.schema, narrowed, around));
        let shown = shown.transpose()?;
        let row = match narrowed {
            None => GivenRow::new(table, &name.name.text, around.next),
            Some(narrowed) => GivenRow::visible(narrowed, &name.name.text, around.next),
        };
        let around = Around { next: row.end(), rows: &[row], ..around };
        let query = RowQuery::of_exprs(within.schema, exprs, None, around)?;
        Ok(Some(Returning { query, shown }))
    }

    /// The names of the columns.
    pub(crate) fn columns(&self) -> Vec<String> {
        self.query.columns().map(|(name, _)| name.to_owned()).collect()
    }

    /// Computes the clause for a row that was changed and keeps what it gives.
    ///
    /// # Errors
    /// What the expressions raise.
    pub(crate) fn give(&self, context: &mut Context<'_>, row: &Row) -> Result<(), Failure> {
        let mut parameters = context.parameters.to_vec();
        match &self.shown {
            None => row.push_parameters(&mut parameters),
            Some(shown) => shown.of(context, row)?.push_parameters(&mut parameters),
        }
        let rows = self.query.run_with(context, &parameters).map_err(Failure::in_sight)?;
        context.state.returned.extend(rows);
        Ok(())
    }
}

/// The columns of a table, as `*` names them.
fn all(
    table: &Table,
    offset: usize,
    is_shown: impl Fn(&str) -> bool,
) -> impl Iterator<Item = ResultColumn> {
    let columns = table.columns.iter().filter(move |column| is_shown(&column.name));
    columns.map(move |column| {
        let name = Name { text: column.name.clone(), offset, quote: Quote::Other };
        let kind = ExprKind::Column { database: None, table: None, column: name };
        ResultColumn::Expr { expr: Expr { kind, offset }, alias: None, text: String::new() }
    })
}
