//! Queries within the assignments of an `UPDATE`: one that depends on no row runs once, before the
//! first row changes; one that does runs for each row in its turn, as the rows before left the
//! tables. Several columns set by one query take them from one run.

use super::Context;
use super::query::RowQuery;
use crate::Error;
use crate::parse::ast::{self, BinaryOp, Expr, ExprKind};
use crate::resolve::tree::{self, Query};
use crate::resolve::{Around, Resolver};
use crate::schema::{Schema, Table};
use crate::value::Value;

/// Queries taken out of assignments, and the number of the parameter that each leaves in its place.
#[derive(Debug, Default)]
pub(crate) struct SetQueries {
    once: Vec<TakenQuery>,
    each: Vec<TakenQuery>,
}

/// A query of one row, or none, with the number of its columns.
#[derive(Debug)]
struct TakenQuery {
    query: RowQuery,
    width: usize,
}

/// The search for queries in assignments.
struct Search<'a> {
    schema: &'a Schema,
    target: &'a Table,
    around: Around<'a>,
    /// Parameters standing for the row to be changed.
    row: std::ops::Range<usize>,
    taken: Vec<Found>,
    /// True where a query, left in its place, sees rows changed before.
    sees_changes: bool,
}

struct Found {
    select: ast::Select,
    /// Where the query stands: the columns it sets at once share the place.
    offset: usize,
    width: usize,
    by_row: bool,
    first: usize,
}

/// The assignments of an `UPDATE` computed row by row.
#[derive(Debug)]
pub(crate) struct ByRow {
    queries: SetQueries,
    values: RowQuery,
}

impl ByRow {
    /// Prepares assignments for a row at hand, the first of `around`; `None` where they need not be
    /// computed row by row. `fires` tells of triggers or moving rows.
    ///
    /// # Errors
    /// Faults found by the resolver.
    pub(crate) fn compile(
        schema: &Schema,
        target: &Table,
        mut exprs: Vec<Expr>,
        around: Around<'_>,
        (row, fires): (std::ops::Range<usize>, bool),
    ) -> Result<Option<ByRow>, Error> {
        let (taken, sees_changes) = (Vec::new(), false);
        let mut search = Search { schema, target, around, row, taken, sees_changes };
        for expr in &mut exprs {
            search.take(expr, true)?;
        }
        let Search { mut taken, sees_changes, .. } = search;
        let is_several = taken.iter().any(|it| it.width > 1);
        let is_by_row = sees_changes || is_several || (fires && !taken.is_empty());
        if !is_by_row {
            return Ok(None);
        }
        // Queries run once come first, and so do their values.
        taken.sort_by_key(|it| it.by_row);
        let count: usize = taken.iter().map(|it| it.width).sum();
        let around = Around { next: around.next + count, ..around };
        let mut moved = Vec::new();
        let mut queries = SetQueries::default();
        let mut next = around.next - count;
        for found in taken {
            moved.push((found.first, next, found.width));
            next += found.width;
            let query = RowQuery::compile(schema, &found.select, around)?;
            let taken = TakenQuery { query, width: found.width };
            if found.by_row { &mut queries.each } else { &mut queries.once }.push(taken);
        }
        for expr in &mut exprs {
            renumber(expr, &moved);
        }
        let column = |expr| ast::ResultColumn::Expr { expr, alias: None, text: String::new() };
        let exprs = exprs.into_iter().map(column).collect();
        let values = RowQuery::of_exprs(schema, exprs, None, around)?;
        Ok(Some(ByRow { queries, values }))
    }

    /// The new values for a row, the last of `parameters`; `once` keeps what is computed for the
    /// first row.
    ///
    /// # Errors
    /// Errors of the expressions.
    pub(crate) fn values(
        &self,
        context: &mut Context<'_>,
        mut parameters: Vec<Value>,
        once: &mut Option<Vec<Value>>,
    ) -> Result<Vec<Value>, Error> {
        let mut run = |queries: &[TakenQuery], parameters: &[Value]| -> Result<Vec<Value>, Error> {
            let mut values = Vec::new();
            for taken in queries {
                let row = taken.query.first(context, parameters)?;
                values.extend(row.unwrap_or_else(|| vec![Value::Null; taken.width]));
            }
            Ok(values)
        };
        let once = match once {
            Some(once) => once,
            None => once.insert(run(&self.queries.once, &parameters)?),
        };
        let each = run(&self.queries.each, &parameters)?;
        parameters.extend(once.iter().cloned().chain(each));
        Ok(self.values.run_with(context, &parameters)?.pop().unwrap_or_default())
    }
}

impl Search<'_> {
    /// Takes queries out of an expression. `bare` is true where a value's own affinity and
    /// collation count for nothing: a parameter has none.
    fn take(&mut self, expr: &mut Expr, bare: bool) -> Result<(), Error> {
        let offset = expr.offset;
        let (select, column, width) = match &mut expr.kind {
            ExprKind::Subquery(select) => (select, 0, 1),
            ExprKind::SubqueryColumn { select, column, count } => (select, *column, *count),
            ExprKind::Exists(select) => {
                self.look_at(select)?;
                return Ok(());
            }
            ExprKind::In { expr, set, .. } => {
                match set {
                    ast::InSet::Select(select) => drop(self.look_at(select)?),
                    ast::InSet::List(list) => {
                        list.iter_mut().try_for_each(|expr| self.take(expr, false))?;
                    }
                    ast::InSet::Table { .. } => {}
                }
                return self.take(expr, false);
            }
            ExprKind::Unary(_, operand) => return self.take(operand, bare),
            ExprKind::Binary(op, left, right) => {
                let bare = bare && is_arithmetic(*op);
                self.take(left, bare)?;
                return self.take(right, bare);
            }
            ExprKind::Case { base, branches, otherwise } => {
                if let Some(base) = base {
                    self.take(base, false)?;
                }
                // A branch may not be reached: its query stays in its place.
                for (when, then) in branches {
                    self.take(when, false)?;
                    self.take(then, false)?;
                }
                if let Some(otherwise) = otherwise {
                    self.take(otherwise, false)?;
                }
                return Ok(());
            }
            ExprKind::Between { expr, low, high, .. } => {
                return [expr, low, high].into_iter().try_for_each(|expr| self.take(expr, false));
            }
            ExprKind::Like { expr, pattern, escape, .. } => {
                let parts = [Some(expr), Some(pattern), escape.as_mut()];
                return parts.into_iter().flatten().try_for_each(|expr| self.take(expr, false));
            }
            ExprKind::IsNull { expr, .. }
            | ExprKind::Cast { expr, .. }
            | ExprKind::Collate { expr, .. } => return self.take(expr, false),
            ExprKind::Call(call) => {
                return call.arguments.iter_mut().try_for_each(|expr| self.take(expr, false));
            }
            ExprKind::Row(parts) => {
                return parts.iter_mut().try_for_each(|expr| self.take(expr, false));
            }
            ExprKind::Literal(_)
            | ExprKind::CurrentTime(_)
            | ExprKind::Parameter(_)
            | ExprKind::Column { .. }
            | ExprKind::Raise { .. } => return Ok(()),
        };
        let known = self.taken.iter().find(|it| width > 1 && it.offset == offset);
        let first = match known {
            Some(known) => known.first,
            None => {
                let by_row = self.look_at(select)?;
                if width == 1 && (by_row || !bare) {
                    return Ok(());
                }
                let before: usize = self.taken.iter().map(|it| it.width).sum();
                let first = self.around.next + before;
                let select = (**select).clone();
                self.taken.push(Found { select, offset, width, by_row, first });
                first
            }
        };
        expr.kind = ExprKind::Parameter(first + column);
        Ok(())
    }

    /// True where a query depends on the row; notes one that reads the table to be changed, too.
    fn look_at(&mut self, select: &ast::Select) -> Result<bool, Error> {
        let query = Resolver::within(self.schema, self.around).query(select)?;
        let mut by_row = false;
        query.walk(&mut |expr| {
            by_row |= matches!(expr, tree::Expr::Parameter(it) if self.row.contains(it));
        });
        self.sees_changes |= by_row && reads(&query, self.target);
        Ok(by_row)
    }
}

/// True where a query reads a table.
fn reads(query: &Query, table: &Table) -> bool {
    let mut found = false;
    query.each_table(&mut |known| {
        found |= known.database == table.database && known.root == table.root;
    });
    found
}

fn is_arithmetic(op: BinaryOp) -> bool {
    matches!(
        op,
        BinaryOp::Add
            | BinaryOp::Subtract
            | BinaryOp::Multiply
            | BinaryOp::Divide
            | BinaryOp::Remainder
            | BinaryOp::BitAnd
            | BinaryOp::BitOr
            | BinaryOp::ShiftLeft
            | BinaryOp::ShiftRight
            | BinaryOp::Concat
    )
}

/// Gives the parameters of taken queries the numbers that they have after sorting; `moved` has the
/// first one before and after, and how many there are.
fn renumber(expr: &mut Expr, moved: &[(usize, usize, usize)]) {
    match &mut expr.kind {
        ExprKind::Parameter(number) => {
            let place =
                moved.iter().find(|(from, _, count)| (*from..from + count).contains(number));
            if let Some((from, to, _)) = place {
                *number = *number - from + to;
            }
        }
        // Parameters take the place of bare operands alone.
        ExprKind::Unary(_, operand) => renumber(operand, moved),
        ExprKind::Binary(_, left, right) => {
            renumber(left, moved);
            renumber(right, moved);
        }
        _ => {}
    }
}
