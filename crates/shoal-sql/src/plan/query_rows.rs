//! Estimated rows of subqueries in a `FROM` and an `IN`, before the subqueries are planned.

use super::access::{QUERY_ROWS, table_rows};
use super::cost::{distinct, guess, share_of_samples};
use super::restrict::prefix;
use crate::parse::ast::CompoundOp;
use crate::resolve::tree::{Body, Expr, Query, Recursion, Select, Source, SourceKind};
use crate::value::Value;

/// Estimated rows of a recursion without tables in its steps.
pub(super) const RECURSION_ROWS: f64 = 1000.0;
/// Estimated rows of a module's table function.
pub(super) const MODULE_ROWS: f64 = 25.0;
/// Estimated groups per row, where the number of the keys' values is unknown.
const GROUPED: f64 = 0.1;
/// Selectivity of a `HAVING`: mostly a few groups of interest.
const HAVING: f64 = 0.02;
/// Selectivity of a `LIKE` or `GLOB` with a constant prefix, and without one.
const BEGINNING: f64 = 0.02;
const MATCHING: f64 = 0.1;
/// A join is taken to give at most so many rows for each row of its largest source.
const JOINED_MAX: f64 = 10.0;

/// About how many rows a query gives: at least one.
pub(super) fn query_rows(query: &Query) -> f64 {
    let rows = body_rows(&query.body).max(1.0);
    match &query.limit {
        Some(Expr::Const(Value::Int(limit))) if *limit >= 0 => rows.min(*limit as f64),
        _ => rows,
    }
}

fn body_rows(body: &Body) -> f64 {
    match body {
        Body::Values(rows) => rows.len() as f64,
        Body::Recursive(recursion) => recursion_rows(recursion),
        Body::Shared(shared) => query_rows(&shared.query),
        Body::Compound { first, rest, .. } => {
            rest.iter().fold(body_rows(first), |rows, (op, body)| match op {
                CompoundOp::Union | CompoundOp::UnionAll => rows + body_rows(body),
                CompoundOp::Intersect => rows.min(body_rows(body)),
                CompoundOp::Except => rows,
            })
        }
        Body::Select(select) => select_rows(select),
    }
}

/// A walk through a table from its first rows on meets a small part of the table: of a tree of `n`
/// rows, about the root of `n` below each first row.
fn recursion_rows(recursion: &Recursion) -> f64 {
    let mut largest: Option<f64> = None;
    for step in &recursion.steps {
        let Body::Select(select) = step else { continue };
        for source in &select.sources {
            if let SourceKind::Table(table) = &source.kind {
                largest = Some(largest.unwrap_or(1.0).max(table_rows(table)));
            }
        }
    }
    match largest {
        Some(rows) => {
            let first = body_rows(&recursion.first).max(1.0);
            (first * rows.sqrt()).min(RECURSION_ROWS.max(first))
        }
        None => RECURSION_ROWS,
    }
}

/// About how many rows, or groups, a select gives before its bounds.
fn select_rows(select: &Select) -> f64 {
    let passing = if select.having.is_some() { HAVING } else { 1.0 };
    passing * found_rows(select)
}

/// About how many rows, or groups before their `HAVING`, a select finds.
pub(super) fn found_rows(select: &Select) -> f64 {
    let Select { sources, conjuncts, group_by, distinct: different, outputs, .. } = select;
    if group_by.as_ref().is_some_and(Vec::is_empty) {
        return 1.0;
    }
    let shares = |conditions: &[Expr]| -> f64 {
        conditions.iter().map(|condition| share(condition, sources)).product()
    };
    let (mut rows, mut largest) = (1.0, 1.0_f64);
    for source in sources {
        let own = source_rows(source);
        largest = largest.max(own);
        // Rows without a match stay.
        rows *= match &source.join {
            Some(join) => (own * shares(&join.on)).max(1.0),
            None => own,
        };
    }
    rows = (rows * shares(conjuncts)).min(JOINED_MAX * largest);
    let keys = match (group_by, different) {
        (Some(keys), _) => keys.iter().map(|(key, _)| key).collect::<Vec<_>>(),
        (None, Some(_)) => outputs.iter().collect(),
        (None, None) => return rows,
    };
    let values = keys.iter().map(|key| distinct(key, sources)).product::<Option<f64>>();
    match values {
        Some(values) => rows.min(values),
        None if group_by.is_some() => GROUPED * rows,
        None => rows,
    }
}

/// The share of rows left by a condition, by a sample or guessed.
pub(super) fn share(condition: &Expr, sources: &[Source]) -> f64 {
    if let Some(share) = share_of_samples(condition, sources) {
        return share;
    }
    match (prefix(condition), condition) {
        (Some(_), _) => BEGINNING,
        (None, Expr::Call { function, .. }) if function.pattern().is_some() => MATCHING,
        _ => guess(condition, sources),
    }
}

/// About how many rows a source has.
fn source_rows(source: &Source) -> f64 {
    match &source.kind {
        SourceKind::Table(table) => table.row_count().unwrap_or(QUERY_ROWS),
        SourceKind::Query(query) => query_rows(query),
        SourceKind::Taken(_) => 1.0,
        SourceKind::Module { .. } => MODULE_ROWS,
        SourceKind::Virtual(_) => QUERY_ROWS,
    }
}
