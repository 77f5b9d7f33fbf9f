//! Facts told by the form of an expression, before its names are resolved.

use crate::functions::{Function, lookup};
use crate::parse::ast::{self, BinaryOp, ExprKind, InSet, LikeOp, Quote};
use crate::value::Value;

/// True where two conditions cannot both hold, by the form of one of them.
pub(super) fn never_holds(left: &ast::Expr, right: &ast::Expr) -> bool {
    (never(left) || never(right)) && !calls(left) && !calls(right)
}

/// True where a condition cannot hold, by its form.
fn never(expr: &ast::Expr) -> bool {
    match &expr.kind {
        ExprKind::Literal(Value::Int(0)) => true,
        ExprKind::Binary(BinaryOp::And, left, right) => never_holds(left, right),
        ExprKind::In { not: false, set: InSet::List(list), .. } => list.is_empty(),
        _ => false,
    }
}

/// True where an expression calls a function anywhere, queries and tables within left aside.
fn calls(expr: &ast::Expr) -> bool {
    match &expr.kind {
        ExprKind::Literal(_)
        | ExprKind::Parameter(_)
        | ExprKind::Column { .. }
        | ExprKind::Exists(_)
        | ExprKind::Subquery(_)
        | ExprKind::SubqueryColumn { .. }
        | ExprKind::Raise { .. } => false,
        ExprKind::Unary(_, inner)
        | ExprKind::IsNull { expr: inner, .. }
        | ExprKind::Cast { expr: inner, .. }
        | ExprKind::Collate { expr: inner, .. } => calls(inner),
        ExprKind::Binary(BinaryOp::Arrow | BinaryOp::ArrowText, ..) => true,
        ExprKind::Binary(_, left, right) => calls(left) || calls(right),
        ExprKind::Between { expr, low, high, .. } => calls(expr) || calls(low) || calls(high),
        ExprKind::In { set: InSet::List(list), .. } if list.is_empty() => false,
        ExprKind::In { expr, set: InSet::List(list), .. } => calls(expr) || list.iter().any(calls),
        ExprKind::In { expr, set: InSet::Select(_) | InSet::Table { .. }, .. } => calls(expr),
        ExprKind::Row(parts) => parts.iter().any(calls),
        ExprKind::Case { base, branches, otherwise } => {
            base.iter().chain(otherwise).any(|expr| calls(expr))
                || branches.iter().any(|(when, then)| calls(when) || calls(then))
        }
        // Whatever else there is may call one.
        _ => true,
    }
}

/// True where an expression is constant by its form: made of literals and parameters, and of
/// functions with equal results for equal arguments.
pub(super) fn is_constant(expr: &ast::Expr) -> bool {
    is_constant_with(expr, true)
}

/// As [`is_constant`]; with `is` false an `IS` or `IS NOT` counts as not constant.
pub(super) fn is_constant_with(expr: &ast::Expr, is: bool) -> bool {
    let constant = |expr: &ast::Expr| is_constant_with(expr, is);
    match &expr.kind {
        ExprKind::Literal(_) | ExprKind::Parameter(_) | ExprKind::CurrentTime(_) => true,
        ExprKind::Column { database: None, table: None, column } => {
            column.quote == Quote::None && (column.is("true") || column.is("false"))
        }
        ExprKind::Unary(_, inner)
        | ExprKind::IsNull { expr: inner, .. }
        | ExprKind::Cast { expr: inner, .. }
        | ExprKind::Collate { expr: inner, .. } => constant(inner),
        ExprKind::Binary(BinaryOp::Is | BinaryOp::IsNot, _, right) if !is && !is_null(right) => {
            false
        }
        ExprKind::Binary(_, left, right) => constant(left) && constant(right),
        ExprKind::Between { expr, low, high, .. } => {
            constant(expr) && constant(low) && constant(high)
        }
        ExprKind::In { expr, set: InSet::List(list), .. } => {
            constant(expr) && list.iter().all(constant)
        }
        ExprKind::Like { op: LikeOp::Like | LikeOp::Glob, expr, pattern, escape, .. } => {
            constant(expr) && constant(pattern) && escape.iter().all(|expr| constant(expr))
        }
        ExprKind::Case { base, branches, otherwise } => {
            base.iter().chain(otherwise).all(|expr| constant(expr))
                && branches.iter().all(|(when, then)| constant(when) && constant(then))
        }
        ExprKind::Row(parts) => parts.iter().all(constant),
        ExprKind::Call(call) => {
            call.over.is_none() && is_repeatable(call) && call.arguments.iter().all(constant)
        }
        _ => false,
    }
}

fn is_null(expr: &ast::Expr) -> bool {
    matches!(expr.kind, ExprKind::Literal(Value::Null))
}

/// True where a call is of a function with equal results for equal arguments within a statement.
fn is_repeatable(call: &ast::Call) -> bool {
    let name = call.name.text.to_ascii_lowercase();
    let changing = ["random", "randomblob", "changes", "total_changes", "last_insert_rowid"];
    !changing.contains(&name.as_str())
        && matches!(lookup(&name, call.arguments.len()), Ok(Function::Scalar(_)))
}

/// True where two expressions are written alike, but for the case of names. Queries, windows and
/// aggregates with clauses of their own are never alike.
pub(crate) fn is_alike(a: &ast::Expr, b: &ast::Expr) -> bool {
    let lists = |a: &[ast::Expr], b: &[ast::Expr]| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_alike(a, b))
    };
    let name = |a: &Option<ast::Name>, b: &Option<ast::Name>| match (a, b) {
        (Some(a), Some(b)) => a.is(&b.text),
        (None, None) => true,
        _ => false,
    };
    match (&a.kind, &b.kind) {
        (ExprKind::Literal(a), ExprKind::Literal(b)) => a == b,
        (ExprKind::Parameter(a), ExprKind::Parameter(b)) => a == b,
        (
            ExprKind::Column { database, table, column },
            ExprKind::Column { database: other_database, table: other_table, column: other },
        ) => column.is(&other.text) && name(table, other_table) && name(database, other_database),
        (ExprKind::Unary(op, a), ExprKind::Unary(other, b)) => op == other && is_alike(a, b),
        (ExprKind::Binary(op, a, b), ExprKind::Binary(other, c, d)) => {
            op == other && is_alike(a, c) && is_alike(b, d)
        }
        (ExprKind::IsNull { expr: a, not }, ExprKind::IsNull { expr: b, not: other }) => {
            not == other && is_alike(a, b)
        }
        (ExprKind::Cast { expr: a, type_name }, ExprKind::Cast { expr: b, type_name: other }) => {
            type_name.eq_ignore_ascii_case(other) && is_alike(a, b)
        }
        (
            ExprKind::Collate { expr: a, collation },
            ExprKind::Collate { expr: b, collation: other },
        ) => collation.is(&other.text) && is_alike(a, b),
        (
            ExprKind::Case { base, branches, otherwise },
            ExprKind::Case { base: other_base, branches: others, otherwise: other },
        ) => {
            let both = |a: &Option<Box<ast::Expr>>, b: &Option<Box<ast::Expr>>| match (a, b) {
                (Some(a), Some(b)) => is_alike(a, b),
                (None, None) => true,
                _ => false,
            };
            both(base, other_base)
                && both(otherwise, other)
                && branches.len() == others.len()
                && branches
                    .iter()
                    .zip(others)
                    .all(|(a, b)| is_alike(&a.0, &b.0) && is_alike(&a.1, &b.1))
        }
        (ExprKind::Call(a), ExprKind::Call(b)) => {
            let plain = |call: &ast::Call| {
                call.order_by.is_empty() && call.filter.is_none() && call.over.is_none()
            };
            plain(a)
                && plain(b)
                && a.name.is(&b.name.text)
                && (a.distinct, a.star) == (b.distinct, b.star)
                && lists(&a.arguments, &b.arguments)
        }
        _ => false,
    }
}
