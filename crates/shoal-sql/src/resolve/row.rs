//! Row values: comparisons of several values at once, from left to right.

use super::Resolver;
use super::collation::compare_affinity;
use super::expr::{Bound, PLAIN_EQUAL, sub_select_columns};
use super::tree::Expr;
use super::values::RowsAsked;
use crate::Error;
use crate::parse::ast::{self, BinaryOp, ExprKind, InSet, SelectCore};
use crate::value::CompareOp;

/// True where an expression is a row of several values by its form.
pub(super) fn is_row(expr: &ast::Expr) -> bool {
    match &expr.kind {
        ExprKind::Row(_) => true,
        ExprKind::Subquery(select) => match &select.first {
            SelectCore::Select(clauses) => clauses.columns.len() > 1,
            SelectCore::Values(values) => values.rows.first().is_some_and(|row| row.len() > 1),
        },
        _ => false,
    }
}

impl<'a> Resolver<'a> {
    /// The values of a row, or of the first row of a query.
    fn row(&mut self, expr: &'a ast::Expr) -> Result<Vec<Bound>, Error> {
        match &expr.kind {
            ExprKind::Row(parts) => {
                let mut out = Vec::with_capacity(parts.len());
                for part in parts {
                    if is_row(part) {
                        return Err(Error::meaning("row value misused", part.offset));
                    }
                    out.push(self.bind(part)?);
                }
                Ok(out)
            }
            ExprKind::Subquery(select) => {
                let first = self.resolve_query(select, RowsAsked::First)?;
                let count = first.columns.len();
                let mut out = Vec::with_capacity(count);
                for column in 0..count {
                    let query = self.resolve_query(select, RowsAsked::First)?;
                    let affinity = query.columns[column].affinity;
                    let expr = Expr::ScalarColumn(Box::new(query), column);
                    out.push(Bound { affinity, ..Bound::plain(expr) });
                }
                Ok(out)
            }
            _ => Ok(vec![self.bind(expr)?]),
        }
    }

    pub(super) fn row_comparison(
        &mut self,
        op: BinaryOp,
        left: &'a ast::Expr,
        right: &'a ast::Expr,
        offset: usize,
    ) -> Result<Bound, Error> {
        let misused = || Error::meaning("row value misused", offset);
        let op = match op {
            BinaryOp::Equal => CompareOp::Equal,
            BinaryOp::NotEqual => CompareOp::NotEqual,
            BinaryOp::Less => CompareOp::Less,
            BinaryOp::LessEqual => CompareOp::LessEqual,
            BinaryOp::Greater => CompareOp::Greater,
            BinaryOp::GreaterEqual => CompareOp::GreaterEqual,
            BinaryOp::Is => CompareOp::Is,
            BinaryOp::IsNot => CompareOp::IsNot,
            _ => return Err(misused()),
        };
        let (left_row, right_row) = (self.row(left)?, self.row(right)?);
        if left_row.len() != right_row.len() {
            let (row, other) = (&left_row, &right_row);
            return Err(match (&left.kind, &right.kind) {
                (_, ExprKind::Subquery(_)) => {
                    sub_select_columns(other.len(), row.len(), right.offset)
                }
                (ExprKind::Subquery(_), _) => {
                    sub_select_columns(row.len(), other.len(), left.offset)
                }
                _ => misused(),
            });
        }
        self.compared(op, left_row, right_row)?.map(Bound::plain).ok_or_else(misused)
    }

    pub(super) fn row_case(
        &mut self,
        base: &'a ast::Expr,
        branches: &'a [(ast::Expr, ast::Expr)],
        otherwise: Option<&'a ast::Expr>,
    ) -> Result<Bound, Error> {
        let mut out = Vec::with_capacity(branches.len());
        let mut classes = 0;
        for (when, then) in branches {
            let condition = self.row_comparison(BinaryOp::Equal, base, when, base.offset)?;
            let then = self.bind(then)?;
            classes |= then.classes();
            out.push((PLAIN_EQUAL, condition.expr, then.expr));
        }
        let otherwise = otherwise.map(|expr| self.bind(expr)).transpose()?;
        classes |= otherwise.as_ref().map_or(0, Bound::classes);
        let otherwise = otherwise.map(|bound| Box::new(bound.expr));
        let expr = Expr::Case { base: None, branches: out, otherwise };
        Ok(Bound { classes: Some(classes), ..Bound::plain(expr) })
    }

    pub(super) fn row_in_set(
        &mut self,
        expr: &'a ast::Expr,
        not: bool,
        set: &'a InSet,
    ) -> Result<Bound, Error> {
        if let InSet::List(list) = set
            && let [only] = list.as_slice()
            && matches!(only.kind, ExprKind::Row(_))
        {
            if let (ExprKind::Row(left), ExprKind::Row(right)) = (&expr.kind, &only.kind)
                && left.len() != right.len()
            {
                return Err(wrong_width(right.len(), left.len(), only.offset));
            }
            let op = if not { BinaryOp::NotEqual } else { BinaryOp::Equal };
            return self.row_comparison(op, expr, only, expr.offset);
        }
        let row = self.row(expr)?;
        let query = match set {
            InSet::Select(select) => self.resolve_select(select)?,
            InSet::List(list)
                if let [ast::Expr { kind: ExprKind::Subquery(select), .. }] = list.as_slice() =>
            {
                self.resolve_select(select)?
            }
            InSet::List(list) => return self.row_in_list(expr, not, list),
            InSet::Table { name, arguments } => self.whole_table(name, arguments.as_deref())?,
        };
        if query.columns.len() != row.len() {
            return Err(sub_select_columns(query.columns.len(), row.len(), expr.offset));
        }
        let rules = row.iter().zip(&query.columns).map(|(left, right)| {
            let affinity = compare_affinity(left.affinity, right.affinity);
            let collation = self.known(left.collation.compare_with(right.collation))?;
            Ok((affinity, collation))
        });
        let rules = rules.collect::<Result<_, Error>>()?;
        let row = row.into_iter().map(|bound| bound.expr).collect();
        Ok(Bound::plain(Expr::RowInQuery { row, not, query: Box::new(query), rules }))
    }
}

impl<'a> Resolver<'a> {
    /// A comparison of rows as comparisons of their values; `None` for rows without any.
    fn compared(
        &self,
        op: CompareOp,
        left: Vec<Bound>,
        right: Vec<Bound>,
    ) -> Result<Option<Expr>, Error> {
        let mut pairs: Vec<(Bound, Bound)> = left.into_iter().zip(right).collect();
        let compare = |op, left: &Bound, right: &Bound| {
            let (a, b) = (Box::new(left.expr.clone()), Box::new(right.expr.clone()));
            Ok::<_, Error>(Expr::Compare(self.comparison(op, left, right)?, a, b))
        };
        let Some((last_left, last_right)) = pairs.pop() else { return Ok(None) };
        let mut out = compare(op, &last_left, &last_right)?;
        for (left, right) in pairs.iter().rev() {
            let (strict, all) = match op {
                CompareOp::Equal | CompareOp::Is => (None, true),
                CompareOp::NotEqual | CompareOp::IsNot => (None, false),
                CompareOp::Less | CompareOp::LessEqual => (Some(CompareOp::Less), false),
                CompareOp::Greater | CompareOp::GreaterEqual => (Some(CompareOp::Greater), false),
            };
            out = match strict {
                None if all => Expr::And(Box::new(compare(op, left, right)?), Box::new(out)),
                None => Expr::Or(Box::new(compare(op, left, right)?), Box::new(out)),
                Some(strict) => {
                    // The first values decide unless they are equal.
                    let equal = compare(CompareOp::Equal, left, right)?;
                    let rest = Expr::And(Box::new(equal), Box::new(out));
                    Expr::Or(Box::new(compare(strict, left, right)?), Box::new(rest))
                }
            };
        }
        Ok(Some(out))
    }

    /// `IN` of a row and a list of written rows.
    fn row_in_list(
        &mut self,
        expr: &'a ast::Expr,
        not: bool,
        list: &'a [ast::Expr],
    ) -> Result<Bound, Error> {
        let width = self.row(expr)?.len();
        let mut found: Option<Expr> = None;
        for item in list {
            let count = self.row(item)?.len();
            if count != width {
                return Err(wrong_width(count, width, item.offset));
            }
            let equal = self.row_comparison(BinaryOp::Equal, expr, item, expr.offset)?.expr;
            found = Some(match found {
                None => equal,
                Some(found) => Expr::Or(Box::new(found), Box::new(equal)),
            });
        }
        let found = found.unwrap_or(Expr::Const(crate::value::Value::Int(0)));
        Ok(Bound::plain(if not { Expr::Not(Box::new(found)) } else { found }))
    }
}

fn wrong_width(count: usize, width: usize, offset: usize) -> Error {
    let terms = if count == 1 { "term" } else { "terms" };
    Error::meaning(format!("IN(...) element has {count} {terms} - expected {width}"), offset)
}
