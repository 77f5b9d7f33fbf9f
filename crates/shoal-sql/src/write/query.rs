//! The queries within statements that write: what to insert, which rows to change.

use std::sync::Arc;

use super::Context;
use crate::Error;
use crate::exec::for_each_row;
use crate::parse::ast;
use crate::plan::{self, Program};
use crate::schema::{Schema, Table};
use crate::value::{Affinity, Value};

/// A query that is run to its end before anything is written.
#[derive(Debug)]
pub(crate) struct RowQuery {
    program: Program,
}

impl RowQuery {
    /// Resolves and plans a query.
    ///
    /// # Errors
    /// What the resolver refuses.
    pub(crate) fn compile(schema: &Schema, select: &ast::Select) -> Result<RowQuery, Error> {
        Ok(RowQuery { program: plan::plan(schema, select, None)? })
    }

    /// A query over one table, as an `UPDATE` or `DELETE` names it: the columns of each row's key,
    /// then `exprs`.
    ///
    /// # Errors
    /// What the resolver refuses; a table whose columns take all the names of the rowid.
    pub(crate) fn over_table(
        schema: &Schema,
        table: &Arc<Table>,
        name: &ast::ObjectName,
        alias: Option<&ast::Name>,
        indexed: &ast::Indexed,
        exprs: Vec<ast::Expr>,
        filter: Option<ast::Expr>,
    ) -> Result<RowQuery, Error> {
        let offset = name.name.offset;
        let mut columns: Vec<String> = Vec::new();
        if table.without_rowid {
            let parts = table.primary_key.iter();
            columns.extend(parts.map(|part| table.columns[part.column].name.clone()));
        } else {
            let free = ["rowid", "_rowid_", "oid"].into_iter().find(|&name| {
                table.rowid_alias.is_some() && table.column_index(name) == table.rowid_alias
                    || table.column_index(name).is_none()
            });
            let alias = table.rowid_alias.map(|index| table.columns[index].name.clone());
            let Some(key) = alias.or(free.map(str::to_owned)) else {
                let what = format!("changing {}, whose columns hide the rowid", table.name);
                return Err(Error::unsupported(what, offset));
            };
            columns.push(key);
        }
        let qualifier = alias.unwrap_or(&name.name);
        let key = columns.into_iter().map(|text| ast::Expr {
            kind: ast::ExprKind::Column {
                database: None,
                table: Some(qualifier.clone()),
                column: ast::Name { text, offset, quote: ast::Quote::Other },
            },
            offset,
        });
        let column = |expr| ast::ResultColumn::Expr { expr, alias: None, text: String::new() };
        let select = ast::Select {
            with: None,
            first: ast::SelectCore::Select(Box::new(ast::SelectClauses {
                distinct: false,
                columns: key.chain(exprs).map(column).collect(),
                from: Some(ast::From {
                    first: ast::TableRef {
                        kind: ast::TableRefKind::Table {
                            name: name.clone(),
                            indexed: indexed.clone(),
                        },
                        alias: alias.cloned(),
                        offset,
                    },
                    joins: Vec::new(),
                }),
                filter,
                group_by: Vec::new(),
                having: None,
                windows: Vec::new(),
                offset,
            })),
            compounds: Vec::new(),
            order_by: Vec::new(),
            limit: None,
            offset: None,
        };
        RowQuery::compile(schema, &select)
    }

    /// How many values each row has.
    pub(crate) fn width(&self) -> usize {
        self.program.root.width
    }

    /// The name and affinity of each column.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (&str, Option<Affinity>)> {
        self.program.columns.iter().map(|column| (column.name.as_str(), column.affinity))
    }

    /// Runs the query.
    ///
    /// # Errors
    /// What its expressions raise; what is wrong with the file.
    pub(crate) fn run(&self, context: &Context<'_>) -> Result<Vec<Vec<Value>>, Error> {
        let mut rows = Vec::new();
        for_each_row(
            &self.program,
            (context.txns(), Some(context.schema)),
            context.session,
            context.parameters,
            |values| {
                rows.push(values.to_vec());
                Ok(())
            },
        )?;
        Ok(rows)
    }
}
