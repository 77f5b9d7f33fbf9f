//! Conditions of a `WHERE` in the form plans look for: constants computed, factors common to all
//! parts of an `OR` taken out, and conditions of an `OR` on one source alone put apart.
//!
//! `(a = b AND c = 1) OR (a = b AND c = 2)` is `a = b AND (c = 1 OR c = 2)`: only the second form
//! names the equality of a lookup. The rules of three-valued logic allow the change, with NULLs as
//! well. Nothing able to fail moves, and no query: a common factor is asked of rows whose other
//! conditions would have been false before.

use super::from::split_and;
use super::tree::{Body, Expr, Query, Select, Source, SourceId, SourceKind};
use crate::functions::Scalar;
use crate::value::{ArithmeticOp, Value, arithmetic};

/// Largest size of a condition to take apart.
const SIZE_MAX: usize = 256;

/// Rewrites the conditions of a query, of all queries in its `FROM`s and within its expressions.
pub(crate) fn factor(query: &mut Query) {
    query.each_select_mut(&mut factor_select);
}

fn factor_select(select: &mut Select) {
    let mut found = Vec::with_capacity(select.conjuncts.len());
    for mut condition in std::mem::take(&mut select.conjuncts) {
        fold(&mut condition);
        match condition {
            Expr::Or(..) if condition.size() <= SIZE_MAX => {
                take_out(condition, &select.sources, &mut found);
            }
            other => found.push(other),
        }
    }
    select.conjuncts = found;
    for source in &mut select.sources {
        if let Some(join) = &mut source.join {
            join.on.iter_mut().for_each(fold);
        }
    }
}

/// Computes arithmetic of constants, and joins constant texts: neither fails.
fn fold(expr: &mut Expr) {
    expr.parts_mut(&mut fold);
    if let Expr::Arithmetic(op, left, right) = expr
        && let (Expr::Const(left), Expr::Const(right)) = (&**left, &**right)
        && [left, right].into_iter().all(|value| {
            is_number(value) || *op == ArithmeticOp::Concat && matches!(value, Value::Text(_))
        })
    {
        *expr = Expr::Const(arithmetic(*op, left.as_ref(), right.as_ref()));
    }
}

fn is_number(value: &Value) -> bool {
    matches!(value, Value::Int(_) | Value::Real(_))
}

/// Adds an `OR` to conditions: its common factors, the rest, and for each source the conditions of
/// every part on the source alone.
fn take_out(condition: Expr, sources: &[Source], out: &mut Vec<Expr>) {
    let mut parts = Vec::new();
    split_or(condition, &mut parts);
    let mut parts: Vec<Vec<Expr>> = parts
        .into_iter()
        .map(|part| {
            let mut factors = Vec::new();
            split_and(part, &mut factors);
            factors
        })
        .collect();
    let [first, rest @ ..] = &mut *parts else { return };
    let mut common = Vec::new();
    first.retain(|factor| {
        let place = |part: &Vec<Expr>| part.iter().position(|other| other.is_same(factor));
        let places: Option<Vec<usize>> = rest.iter().map(place).collect();
        match places.filter(|_| cannot_fail(factor)) {
            Some(places) => {
                for (part, place) in rest.iter_mut().zip(places) {
                    part.remove(place);
                }
                common.push(factor.clone());
                false
            }
            None => true,
        }
    });
    out.append(&mut common);
    // A part without other factors holds wherever the common ones do.
    if parts.iter().any(Vec::is_empty) {
        return;
    }
    if sources.len() > 1 {
        let alone = sources.iter().filter(|source| matches!(source.kind, SourceKind::Table(_)));
        out.extend(alone.filter_map(|source| of_source(&parts, source.id)));
    }
    out.extend(or_of(parts.into_iter().filter_map(and_of)));
}

/// The `OR` of the conditions of each part on one source alone; `None` where a part has none, or no
/// others.
fn of_source(parts: &[Vec<Expr>], source: SourceId) -> Option<Expr> {
    let mut is_whole = true;
    let mut found = Vec::with_capacity(parts.len());
    for part in parts {
        let mut own: Vec<Expr> = Vec::new();
        for factor in part {
            if factor.reads_only(&[source]) && cannot_fail(factor) {
                own.push(factor.clone());
            } else {
                is_whole = false;
            }
        }
        found.push(and_of(own)?);
    }
    if is_whole { None } else { or_of(found.into_iter()) }
}

/// True where an expression neither raises an error nor runs a query, whatever its row holds, and
/// has one value for a row within a statement.
pub(crate) fn cannot_fail(expr: &Expr) -> bool {
    let own = match expr {
        // `LIKE` refuses nothing but a very long pattern, and a pattern here is a constant.
        Expr::Call { function, .. } if never_fails(function) => true,
        Expr::Call { function, arguments, .. } => {
            function.name() == "like"
                && function.deterministic
                && matches!(arguments.first(), Some(Expr::Const(Value::Text(text)))
                    if text.len() < 1000)
        }
        Expr::Aggregate { .. } | Expr::Window { .. } => false,
        other => other.query().is_none(),
    };
    let mut safe = own;
    expr.parts(&mut |part| safe &= cannot_fail(part));
    safe
}

/// True for built-in functions with a value for any arguments, and the same one within a statement.
pub(super) fn never_fails(function: &Scalar) -> bool {
    const NAMES: [&str; 17] = [
        "date",
        "time",
        "datetime",
        "julianday",
        "unixepoch",
        "strftime",
        "lower",
        "upper",
        "trim",
        "ltrim",
        "rtrim",
        "length",
        "substr",
        "substring",
        "round",
        "typeof",
        "nullif",
    ];
    !function.is_own() && NAMES.contains(&function.name())
}

fn split_or(expr: Expr, out: &mut Vec<Expr>) {
    match expr {
        Expr::Or(left, right) => {
            split_or(*left, out);
            split_or(*right, out);
        }
        other => out.push(other),
    }
}

fn and_of(factors: Vec<Expr>) -> Option<Expr> {
    factors.into_iter().reduce(|left, right| Expr::And(Box::new(left), Box::new(right)))
}

fn or_of(parts: impl Iterator<Item = Expr>) -> Option<Expr> {
    parts.reduce(|left, right| Expr::Or(Box::new(left), Box::new(right)))
}

impl Query {
    /// Calls `change` for every select of the query: of its parts, of queries in its `FROM`s, and
    /// of queries within its expressions; inner ones first.
    pub(super) fn each_select_mut(&mut self, change: &mut dyn FnMut(&mut Select)) {
        self.body.each_select_mut(change);
        for key in &mut self.order_by {
            if let super::tree::Key::Expr(expr) = &mut key.key {
                each_query(expr, change);
            }
        }
    }
}

impl Body {
    fn each_select_mut(&mut self, change: &mut dyn FnMut(&mut Select)) {
        match self {
            Body::Values(rows) => {
                rows.iter_mut().flatten().for_each(|expr| each_query(expr, change));
            }
            Body::Select(select) => {
                for source in &mut select.sources {
                    match &mut source.kind {
                        SourceKind::Query(query) => query.each_select_mut(change),
                        SourceKind::Module { arguments, .. } => {
                            arguments.iter_mut().flatten().for_each(|it| each_query(it, change));
                        }
                        SourceKind::Virtual(source) => {
                            let arguments = source.arguments.iter_mut().flatten();
                            arguments.for_each(|it| each_query(it, change));
                        }
                        SourceKind::Table(_) | SourceKind::Taken(_) => {}
                    }
                    if let Some(join) = &mut source.join {
                        join.on.iter_mut().for_each(|expr| each_query(expr, change));
                    }
                }
                let having = select.having.iter_mut();
                let exprs = select.conjuncts.iter_mut().chain(&mut select.outputs).chain(having);
                exprs.for_each(|expr| each_query(expr, change));
                for aggregate in &mut select.aggregates {
                    let filter = aggregate.filter.iter_mut();
                    let exprs = aggregate.arguments.iter_mut().chain(filter);
                    exprs.for_each(|expr| each_query(expr, change));
                }
                change(select);
            }
            Body::Compound { first, rest, .. } => {
                first.each_select_mut(change);
                rest.iter_mut().for_each(|(_, body)| body.each_select_mut(change));
            }
            Body::Shared(shared) => shared.query.each_select_mut(change),
            Body::Recursive(recursion) => {
                recursion.first.each_select_mut(change);
                recursion.steps.iter_mut().for_each(|body| body.each_select_mut(change));
            }
        }
    }
}

/// Visits the selects of the queries within an expression.
fn each_query(expr: &mut Expr, change: &mut dyn FnMut(&mut Select)) {
    expr.parts_mut(&mut |part| each_query(part, change));
    if let Some(query) = expr.query_mut() {
        query.each_select_mut(change);
    }
}
