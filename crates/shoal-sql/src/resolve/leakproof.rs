//! Conditions that may be asked of hidden rows: none of them can fail, has an effect, or runs code
//! of the program's. A statement tells nothing of rows that only such conditions were asked of,
//! but for time.
//!
//! In a narrowed schema a table with a predicate becomes part of the query around, predicate and
//! all, only where every condition there is leakproof: the order of conditions then makes no
//! difference. Any other statement is resolved once more with such tables as queries of their own,
//! into which nothing moves but leakproof conditions.

use super::tree::{AUXILIARY, Body, Expr, Key, Query, ROWID, Select, Source, SourceKind};
use crate::functions::{Scalar, Shared};
use crate::parse::ast::CompoundOp;
use crate::value::{ArithmeticOp, Collation, Value};

/// The longest pattern of `LIKE` and `GLOB`: a much longer one is an error.
const PATTERN_MAX: usize = 1000;

/// Functions of values to a value no larger than their arguments, without errors.
const FUNCTIONS: &[&str] = &[
    "glob",
    "instr",
    "length",
    "like",
    "lower",
    "ltrim",
    "max",
    "min",
    "nullif",
    "octet_length",
    "rtrim",
    "sign",
    "substr",
    "substring",
    "trim",
    "typeof",
    "upper",
    // What is put around operands over files in UTF-16.
    "utf-16be bytes",
    "utf-16be bytes of text",
    "utf-16be text",
    "utf-16le bytes",
    "utf-16le bytes of text",
    "utf-16le text",
];

/// True for an expression that can be evaluated on any row without a trace.
pub(crate) fn is_leakproof(expr: &Expr) -> bool {
    let own = match expr {
        Expr::Const(_)
        | Expr::Parameter(_)
        | Expr::CurrentTime(_)
        | Expr::Plus(_)
        | Expr::Negate(_)
        | Expr::BitNot(_)
        | Expr::Not(_)
        | Expr::And(..)
        | Expr::Or(..)
        | Expr::IsNull { .. }
        | Expr::IsTruth { .. }
        | Expr::Cast { .. }
        | Expr::Stored { .. }
        | Expr::Coalesce(_) => true,
        // A column behind is the call of a virtual table's function.
        Expr::Column { column, .. } => *column == ROWID || *column < AUXILIARY,
        // Texts put together may be too long for a value.
        Expr::Arithmetic(op, ..) => *op != ArithmeticOp::Concat,
        Expr::Compare(rule, ..) => is_built_in(rule.collation),
        Expr::Between { low, high, .. } => {
            is_built_in(low.0.collation) && is_built_in(high.0.collation)
        }
        Expr::InList { collation, .. } => is_built_in(*collation),
        Expr::Case { branches, .. } => {
            branches.iter().all(|(rule, ..)| is_built_in(rule.collation))
        }
        Expr::Call { function, arguments, collation, .. } => {
            is_built_in(*collation) && is_safe_call(function, arguments)
        }
        Expr::InQuery { query, collation, .. } => is_built_in(*collation) && is_safe_query(query),
        Expr::RowInQuery { query, rules, .. } => {
            rules.iter().all(|(_, collation)| is_built_in(*collation)) && is_safe_query(query)
        }
        Expr::Exists(query) | Expr::Scalar(query) | Expr::ScalarColumn(query, _) => {
            is_safe_query(query)
        }
        // Sums may overflow.
        Expr::Aggregate { .. } | Expr::Window { .. } => false,
    };
    let mut safe = own;
    expr.parts(&mut |part| safe &= is_leakproof(part));
    safe
}

/// True for an expression that may take the place of a hidden column's value: besides what is
/// leakproof, texts may be put together.
pub(crate) fn is_mask(expr: &Expr) -> bool {
    match expr {
        Expr::Arithmetic(ArithmeticOp::Concat, left, right) => is_mask(left) && is_mask(right),
        Expr::Stored { expr, .. } => is_mask(expr),
        other => is_leakproof(other),
    }
}

fn is_built_in(collation: Collation) -> bool {
    !matches!(collation, Collation::Own(_))
}

fn is_safe_call(function: &Scalar, arguments: &[Expr]) -> bool {
    let name = function.name();
    if !matches!(function, Shared::BuiltIn(_)) || !FUNCTIONS.contains(&name) {
        return false;
    }
    if !matches!(name, "like" | "glob") {
        return true;
    }
    let text = |expr: &Expr, fits: &dyn Fn(&[u8]) -> bool| matches!(expr, Expr::Const(Value::Text(text)) if fits(text));
    match arguments {
        [pattern, _] => text(pattern, &|text| text.len() <= PATTERN_MAX),
        [pattern, _, escape] => {
            text(pattern, &|text| text.len() <= PATTERN_MAX)
                && text(escape, &|text| matches!(text, [1..=127]))
        }
        _ => false,
    }
}

/// True for a query within a condition that cannot fail: joins and filters of tables.
fn is_safe_query(query: &Query) -> bool {
    let is_count = |bound: &Option<Expr>| {
        bound.as_ref().is_none_or(|bound| matches!(bound, Expr::Const(Value::Int(_))))
    };
    let is_safe_key = |key: &Key| match key {
        Key::Output(_) => true,
        Key::Expr(expr) => is_leakproof(expr),
    };
    is_count(&query.limit)
        && is_count(&query.offset)
        && query.order_by.iter().all(|key| is_safe_key(&key.key) && is_built_in(key.collation))
        && is_safe_body(&query.body)
}

fn is_safe_body(body: &Body) -> bool {
    match body {
        Body::Values(rows) => rows.iter().flatten().all(is_leakproof),
        Body::Compound { first, rest, collations } => {
            let all = rest.iter().all(|(op, _)| *op == CompoundOp::UnionAll);
            (all || collations.iter().all(|collation| is_built_in(*collation)))
                && is_safe_body(first)
                && rest.iter().all(|(_, body)| is_safe_body(body))
        }
        Body::Shared(shared) => is_safe_query(&shared.query),
        Body::Recursive(_) => false,
        Body::Select(select) => {
            let collations = select.distinct.iter().flatten();
            let groups = select.group_by.iter().flatten();
            select.sources.iter().all(is_safe_source)
                && conditions(select).all(is_leakproof)
                && select.aggregates.is_empty()
                && select.windows.is_empty()
                && select.window_calls.is_empty()
                && select.having.iter().all(is_leakproof)
                && select.outputs.iter().all(is_leakproof)
                && collations.copied().all(is_built_in)
                && groups
                    .into_iter()
                    .all(|(expr, collation)| is_leakproof(expr) && is_built_in(*collation))
        }
    }
}

fn is_safe_source(source: &Source) -> bool {
    match &source.kind {
        SourceKind::Table(_) | SourceKind::Taken(_) => true,
        SourceKind::Query(query) => is_safe_query(query),
        SourceKind::Virtual(_) | SourceKind::Module { .. } => false,
    }
}

fn conditions(select: &Select) -> impl Iterator<Item = &Expr> {
    select.conjuncts.iter().chain(select.sources.iter().flat_map(Source::on))
}

/// True where no hidden row meets a condition or a source that could tell of it.
pub(crate) fn keeps_hidden(query: &Query) -> bool {
    let mut kept = true;
    query.each_select(&mut |select| {
        // A guarded virtual table is read by leakproof conditions alone.
        let is_safe = |source: &Source| source.guarded || is_safe_source(source);
        kept &= !select.sources.iter().any(|source| source.guarded)
            || select.sources.iter().all(is_safe) && conditions(select).all(is_leakproof);
    });
    kept
}
