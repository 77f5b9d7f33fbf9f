//! The queries within statements that write: what to insert, which rows to change.

use shoal_store::Pgno;

use super::Context;
use super::collected::Collected;
use super::target::Target;
use crate::Error;
use crate::exec::{Batch, Run, for_each_row};
use crate::keep::row_size;
use crate::parse::ast;
use crate::plan::{self, Program};
use crate::resolve::{Around, key_name};
use crate::schema::{Schema, Table};
use crate::value::{Affinity, Value};

/// What an `UPDATE` or `DELETE` says of the rows it changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named<'a> {
    pub(crate) name: &'a ast::ObjectName,
    /// The version of the table that is read.
    pub(crate) at: Option<&'a ast::Expr>,
    pub(crate) alias: Option<&'a ast::Name>,
    pub(crate) indexed: &'a ast::Indexed,
    /// What an `UPDATE` joins to the table.
    pub(crate) from: Option<&'a ast::From>,
    pub(crate) filter: Option<&'a ast::Expr>,
}

impl Named<'_> {
    /// The query for these expressions of the rows.
    ///
    /// With `by_table` a whole table is read in its own order: by a narrower index, whose keys
    /// scatter the rows, each row to be changed would be searched far from the one before.
    pub(super) fn select(
        self,
        exprs: impl Iterator<Item = ast::Expr>,
        by_table: bool,
    ) -> ast::Select {
        let Named { name, at, alias, indexed, from, filter } = self;
        let offset = name.name.offset;
        let indexed = match indexed {
            ast::Indexed::Any if by_table && filter.is_none() && from.is_none() => {
                ast::Indexed::Not
            }
            indexed => indexed.clone(),
        };
        let name = name.clone();
        let kind = match at {
            None => ast::TableRefKind::Table { name, indexed },
            Some(value) => {
                let point = ast::PastPoint::Version;
                ast::TableRefKind::Past { name, point, value: vec![value.clone()] }
            }
        };
        let first = ast::TableRef { kind, alias: alias.cloned(), offset };
        let joins = from.map(joined).unwrap_or_default();
        let column = |expr| ast::ResultColumn::Expr { expr, alias: None, text: String::new() };
        let from = ast::From { first, joins };
        ast::Select::plain(exprs.map(column).collect(), Some(from), filter.cloned(), offset)
    }
}

/// A query that is run to its end before anything is written.
#[derive(Debug)]
pub(crate) struct RowQuery {
    program: Program,
}

impl RowQuery {
    /// The plan.
    pub(crate) fn program(&self) -> &Program {
        &self.program
    }

    /// Resolves and plans a query.
    ///
    /// # Errors
    /// What the resolver refuses.
    pub(crate) fn compile(
        schema: &Schema,
        select: &ast::Select,
        around: Around<'_>,
    ) -> Result<RowQuery, Error> {
        Ok(RowQuery { program: plan::plan_within(schema, select, around)? })
    }

    /// A query over rows at hand alone: `exprs` where `filter` holds.
    ///
    /// # Errors
    /// What the resolver refuses.
    pub(crate) fn of_exprs(
        schema: &Schema,
        exprs: Vec<ast::ResultColumn>,
        filter: Option<ast::Expr>,
        around: Around<'_>,
    ) -> Result<RowQuery, Error> {
        let around = Around { is_row: true, ..around };
        RowQuery::compile(schema, &ast::Select::plain(exprs, None, filter, 0), around)
    }

    /// A query over the table of an `UPDATE` or `DELETE`: the columns of each row's key, or all
    /// columns of a view, then `exprs`.
    ///
    /// # Errors
    /// What the resolver refuses; a table whose columns take all the names of the rowid.
    pub(crate) fn over_table(
        schema: &Schema,
        target: &Target,
        named: Named<'_>,
        exprs: Vec<ast::Expr>,
        around: Around<'_>,
    ) -> Result<RowQuery, Error> {
        let Named { name, alias, .. } = named;
        let offset = name.name.offset;
        let table = &target.table;
        let mut columns: Vec<String> = Vec::new();
        if target.narrowed.is_some() {
            let width = if table.without_rowid { table.primary_key.len() } else { 1 };
            columns.extend((0..width).map(key_name));
        } else if target.view.is_some() {
            columns.extend(table.columns.iter().map(|column| column.name.clone()));
        } else if table.without_rowid {
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
            if target.virtual_table.is_some() && !exprs.is_empty() {
                columns.extend(table.columns.iter().map(|column| column.name.clone()));
            }
        }
        let qualifier = alias.unwrap_or(&name.name);
        let key = columns.into_iter().map(|text| ast::Expr {
            kind: ast::ExprKind::Column {
                database: None,
                table: Some(qualifier.clone()),
                column: ast::Name { text, offset, quote: ast::Quote::Implied },
            },
            offset,
        });
        let is_stored = target.view.is_none() && target.virtual_table.is_none();
        let by_table = is_stored && target.narrowed.is_none();
        let select = named.select(key.chain(exprs), by_table);
        let around = Around { finds_keys: target.narrowed.is_some(), ..around };
        RowQuery::compile(schema, &select, around)
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
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Vec<Vec<Value>>, Error> {
        let parameters = context.parameters;
        self.run_with(context, parameters)
    }

    /// Runs the query and packs its rows.
    ///
    /// # Errors
    /// As [`RowQuery::run`].
    pub(crate) fn collect(&self, context: &mut Context<'_>) -> Result<Collected, Error> {
        if self.program.reads_pending {
            context.flush_writers()?;
        }
        let mut rows = Collected::default();
        let txns = (context.txns(), Some(context.schema));
        for_each_row(&self.program, txns, context.session, context.parameters, |values| {
            rows.push(values.iter().map(Value::as_ref));
            Ok(())
        })?;
        Ok(rows)
    }

    /// True where the query reads nothing of a table, of the schema, or of virtual tables: rows may
    /// be put into the table while the query is on its way.
    pub(crate) fn is_apart_from(&self, database: usize, table: Option<&Table>) -> bool {
        let Program { reads_virtual, needs_schema, trees, .. } = &self.program;
        let is_written = |tree: &(usize, Pgno)| {
            tree.1 == Pgno::FIRST
                || table.is_some_and(|table| {
                    let mut roots = table.indexes.iter().map(|index| index.root);
                    tree.0 == database && (tree.1 == table.root || roots.any(|root| root == tree.1))
                })
        };
        !reads_virtual && !needs_schema && !trees.iter().any(is_written)
    }

    /// Begins to collect the rows of the query: in parts, with writes of others between, or all
    /// at once.
    ///
    /// # Errors
    /// As [`RowQuery::run`].
    pub(crate) fn parts(
        &self,
        context: &mut Context<'_>,
        in_parts: bool,
    ) -> Result<Parts<'_>, Error> {
        let program = &self.program;
        Ok(Parts {
            program,
            run: in_parts.then(|| Run::new(program, context.parameters)),
            batch: Batch::new(program.root.width),
            bytes: PART_BYTES.0,
            all: if in_parts { None } else { Some(self.collect(context)?) },
        })
    }

    /// Runs the query with parameters of its own.
    ///
    /// # Errors
    /// As [`RowQuery::run`].
    pub(crate) fn run_with(
        &self,
        context: &mut Context<'_>,
        parameters: &[Value],
    ) -> Result<Vec<Vec<Value>>, Error> {
        if self.program.reads_pending {
            context.flush_writers()?;
        }
        self.rows(context, parameters)
    }

    /// Runs a query without virtual tables, with parameters of its own.
    ///
    /// # Errors
    /// As [`RowQuery::run`].
    pub(crate) fn rows(
        &self,
        context: &Context<'_>,
        parameters: &[Value],
    ) -> Result<Vec<Vec<Value>>, Error> {
        let mut rows = Vec::new();
        for_each_row(
            &self.program,
            (context.txns(), Some(context.schema)),
            context.session,
            parameters,
            |values| {
                rows.push(values.to_vec());
                Ok(())
            },
        )?;
        Ok(rows)
    }
}

impl RowQuery {
    /// The first row of the query with parameters of its own.
    ///
    /// # Errors
    /// As [`RowQuery::run`].
    pub(crate) fn first(
        &self,
        context: &mut Context<'_>,
        parameters: &[Value],
    ) -> Result<Option<Vec<Value>>, Error> {
        if self.program.reads_pending {
            context.flush_writers()?;
        }
        let mut first = None;
        let txns = (context.txns(), Some(context.schema));
        let run = for_each_row(&self.program, txns, context.session, parameters, |values| {
            first = Some(values.to_vec());
            Err(Error::Misuse { what: "no more rows are wanted" })
        });
        match first {
            Some(first) => Ok(Some(first)),
            None => run.map(|()| None),
        }
    }
}

/// The `FROM` of an `UPDATE` as joins behind its table. One with outer joins stays one thing, so
/// that the table is on no side of them.
fn joined(from: &ast::From) -> Vec<ast::Join> {
    let join = |table| ast::Join {
        kind: ast::JoinKind::Inner,
        natural: false,
        table,
        constraint: ast::JoinConstraint::None,
    };
    let is_inner =
        |join: &ast::Join| matches!(join.kind, ast::JoinKind::Inner | ast::JoinKind::Cross);
    let is_plain = from.joins.iter().all(|join| is_inner(join) && !join.natural);
    if !is_plain {
        let offset = from.first.offset;
        let kind = ast::TableRefKind::Joined(Box::new(from.clone()));
        return vec![join(ast::TableRef { kind, alias: None, offset })];
    }
    std::iter::once(join(from.first.clone())).chain(from.joins.iter().cloned()).collect()
}

/// The rows of a query on its way.
pub(crate) struct Parts<'q> {
    program: &'q Program,
    /// `None` once all rows were given.
    run: Option<Run>,
    batch: Batch,
    /// Bytes of the next part.
    bytes: usize,
    /// All rows, where they were collected at once.
    all: Option<Collected>,
}

/// Bytes of the first part, and of the largest: many rows for each leaf of the written table.
const PART_BYTES: (usize, usize) = (64 << 10, 8 << 20);

/// Rows taken from a run together.
const BATCH_ROWS: usize = 256;

impl Parts<'_> {
    /// The next rows; `None` behind the last ones.
    ///
    /// # Errors
    /// As [`RowQuery::run`].
    pub(crate) fn next(&mut self, context: &Context<'_>) -> Result<Option<Collected>, Error> {
        if let Some(all) = self.all.take() {
            return Ok(Some(all));
        }
        let Some(run) = &mut self.run else { return Ok(None) };
        let (mut rows, mut size, mut more) = (Collected::default(), 0, true);
        while more && size < self.bytes {
            self.batch.clear();
            let txns = context.txns();
            more = run.fill(self.program, txns, context.session, BATCH_ROWS, &mut self.batch)?;
            for row in 0..self.batch.len() {
                let values = (0..self.batch.width()).map(|column| self.batch.get(row, column));
                size += row_size(values.clone());
                rows.push(values);
            }
        }
        if !more {
            self.run = None;
        }
        self.bytes = (2 * self.bytes).min(PART_BYTES.1);
        Ok(Some(rows))
    }
}
