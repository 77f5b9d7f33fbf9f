//! `VALUES`: rows of expressions. A row with an aggregate or a window function is a `SELECT`
//! without tables.

use super::Resolver;
use super::form::is_constant_with;
use super::scope::Clause;
use super::select::{ANY_CLASS, combined_affinity};
use super::tree::{Body, Expr, OutputColumn, Select};
use crate::Error;
use crate::parse::ast::{self, CompoundOp};

/// The rows needed of a `VALUES` used as a whole query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowsAsked {
    All,
    /// The first, of a query in the place of a value.
    First,
    /// No values are needed in an `EXISTS`. Also for the first part of a compound, where SQLite
    /// makes the rows parts of the compound.
    None,
}

/// The resolved rows of a `VALUES`.
#[derive(Default)]
struct Resolved {
    /// Runs of rows without aggregates, and rows with them.
    bodies: Vec<Body>,
    /// An aggregate SQLite refuses where the rows are no queries: its row and its name.
    aggregate: Option<(usize, String)>,
    has_windows: bool,
    /// The columns of each part of SQLite's compound of the rows: neighbouring constant rows are
    /// one subquery there, the first without an affinity.
    parts: Vec<Vec<OutputColumn>>,
    /// State of the last row: `may_begin` where it may begin such a subquery, `in_subquery` where
    /// it is in one; `has_subquery` once there was one.
    may_begin: bool,
    in_subquery: bool,
    has_subquery: bool,
}

impl<'a> Resolver<'a> {
    pub(super) fn values(
        &mut self,
        values: &'a ast::Values,
        asked: RowsAsked,
    ) -> Result<(Body, Vec<OutputColumn>), Error> {
        if let Some(scope) = self.scopes.last_mut() {
            scope.clause = if values.is_row { Clause::Constant } else { Clause::Result };
        }
        let width = values.rows.first().map_or(0, Vec::len);
        // Behind a `WITH` and in a view SQLite makes no subqueries of rows.
        let apart = values.rows.len() == 1 || values.behind_with || !self.views.is_empty();
        let mut resolved = Resolved::default();
        for (number, row) in values.rows.iter().enumerate() {
            let mut exprs = Vec::with_capacity(row.len());
            let mut columns = Vec::with_capacity(row.len());
            for (index, expr) in row.iter().enumerate() {
                let bound = self.bind(expr)?;
                let name = match number {
                    0 => format!("column{}", index + 1),
                    _ => String::new(),
                };
                columns.push(OutputColumn {
                    inner_name: name.clone(),
                    name,
                    written: None,
                    affinity: bound.affinity,
                    collation: bound.collation,
                    classes: bound.classes(),
                    declared_type: None,
                });
                exprs.push(bound.expr);
            }
            if exprs.len() != width {
                return Err(Error::meaning(
                    "all VALUES must have the same number of terms",
                    offset(row),
                ));
            }
            let constant = |is| !apart && row.iter().all(|expr| is_constant_with(expr, is));
            resolved.add_columns(columns, constant);
            self.add_row(exprs, number, &mut resolved);
        }
        // SQLite computes several rows as the expressions of one clause without aggregates, unless
        // a row needs a query of its own.
        let in_one = values.rows.len() > 1 && !resolved.has_windows && !resolved.has_subquery;
        if let Some((row, name)) = resolved.aggregate
            && in_one
            && (asked == RowsAsked::All || asked == RowsAsked::First && row == 0)
        {
            let message = format!("misuse of aggregate: {name}()");
            return Err(Error::meaning(message, offset(&values.rows[row])));
        }
        let mut parts = resolved.parts.into_iter();
        let mut columns = parts.next().unwrap_or_default();
        for part in parts {
            for (column, other) in columns.iter_mut().zip(&part) {
                column.affinity = combined_affinity(column, other);
                column.classes |= other.classes;
            }
        }
        if values.rows.len() > 1 {
            self.collations(&columns)?;
        }
        let mut bodies = resolved.bodies.into_iter();
        let first = bodies.next().unwrap_or_else(|| Body::Values(Vec::new()));
        let rest: Vec<_> = bodies.map(|body| (CompoundOp::UnionAll, body)).collect();
        if rest.is_empty() {
            return Ok((first, columns));
        }
        let collations = self.compound_collations(&columns, &rest)?;
        Ok((Body::Compound { first: Box::new(first), rest, collations }, columns))
    }

    /// Adds a row resolved in the innermost scope.
    fn add_row(&mut self, outputs: Vec<Expr>, number: usize, resolved: &mut Resolved) {
        let next = self.new_select();
        let Some(scope) = self.scopes.last_mut() else { return };
        if scope.aggregates.is_empty() && scope.window_calls.is_empty() {
            match resolved.bodies.last_mut() {
                Some(Body::Values(rows)) => rows.push(outputs),
                _ => resolved.bodies.push(Body::Values(vec![outputs])),
            }
            return;
        }
        let aggregates = std::mem::take(&mut scope.aggregates);
        if let (None, Some(first)) = (&resolved.aggregate, aggregates.first()) {
            resolved.aggregate = Some((number, first.function.shown_name().to_owned()));
        }
        resolved.has_windows |= !scope.window_calls.is_empty();
        resolved.bodies.push(Body::Select(Box::new(Select {
            id: std::mem::replace(&mut scope.select, next),
            sources: Vec::new(),
            conjuncts: Vec::new(),
            group_by: (!aggregates.is_empty()).then(Vec::new),
            aggregates,
            having: None,
            windows: std::mem::take(&mut scope.windows),
            window_calls: std::mem::take(&mut scope.window_calls),
            outputs,
            distinct: None,
        })));
    }
}

impl Resolved {
    /// Takes a row's columns. `constant` tells if the row is constant, with `IS` allowed or not.
    fn add_columns(&mut self, columns: Vec<OutputColumn>, constant: impl Fn(bool) -> bool) {
        self.in_subquery = (self.in_subquery || self.may_begin) && constant(false);
        if !self.in_subquery {
            let has_affinity = columns.iter().any(|column| column.affinity.is_some());
            self.may_begin = !has_affinity && constant(true);
            self.parts.push(columns);
            return;
        }
        // The classes of a subquery's columns are unknown.
        if let (true, Some(first)) = (self.may_begin, self.parts.last_mut()) {
            first.iter_mut().for_each(|column| column.classes = ANY_CLASS);
        }
        (self.may_begin, self.has_subquery) = (false, true);
    }
}

/// The offset of a row in the statement's text.
pub(super) fn offset(row: &[ast::Expr]) -> usize {
    row.first().map_or(0, |expr| expr.offset)
}
