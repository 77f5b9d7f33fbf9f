//! The order and the bounds of a subquery in a `FROM`.
//!
//! `SELECT * FROM (SELECT ... ORDER BY day) LIMIT 20` is what tools and frameworks make of a query
//! to see its first rows. Kept apart from the bound, the order would sort all rows; beside the
//! bound it is a top-N, or the order of an index. An order rises with a merged query ([`above`]);
//! a query which stays, with groups or windows, takes the bound instead ([`lower_bounds`]). A
//! query around with an order of its own, or a count, needs no order below. Each part of a `UNION
//! ALL` gives its own first rows to the order of them all ([`bound_parts`]).

use super::outputs::{each_query, empty, unnamed};
use super::tree::{
    Body, Expr, IndexHint, Key, OrderKey, Query, Select, Source, SourceId, SourceKind,
};
use super::unnest::Free;
use crate::parse::ast::CompoundOp;
use crate::value::{ArithmeticOp, Collation, CompareOp, Comparison, Value};

/// The fate of a subquery's order, the subquery being the only source of a select.
pub(super) enum Above {
    /// The order is the select's own.
    Order(Vec<OrderKey>),
    /// No row given depends on the order.
    Unseen,
}

/// What becomes of the order `below`, of the query `source`, in the select reading this query
/// alone, `order_by` being the order of the select. `None` where the order must stay.
pub(super) fn above(
    select: &Select,
    order_by: &[OrderKey],
    source: SourceId,
    below: &[OrderKey],
) -> Option<Above> {
    if below.is_empty() || is_count(select) {
        return Some(Above::Unseen);
    }
    if select.group_by.is_some() || !select.window_calls.is_empty() {
        return None;
    }
    if !order_by.is_empty() {
        return Some(Above::Unseen);
    }
    // A function of the program, or a random number, may tell the calls before its own.
    let is_fixed = select.outputs.iter().all(Expr::is_deterministic);
    if select.distinct.is_some() || !is_fixed {
        return None;
    }
    let keys = below.iter().map(|key| OrderKey { key: key_above(select, source, key), ..*key });
    Some(Above::Order(keys.collect()))
}

/// A sort key of the query `source` as one of the select around.
fn key_above(select: &Select, source: SourceId, key: &OrderKey) -> Key {
    let Key::Output(column) = key.key else { return key.key.clone() };
    let column = Expr::Column { source, column };
    match select.outputs.iter().position(|output| output.is_same(&column)) {
        Some(output) => Key::Output(output),
        None => Key::Expr(column),
    }
}

/// True where a select makes one row of counts, the same in any order of the rows counted.
pub(super) fn is_count(select: &Select) -> bool {
    // A column beside the aggregates is a certain row's.
    let reads_rows = |expr: &Expr| {
        let mut reads = false;
        expr.columns(&mut |_, _| reads = true);
        reads
    };
    select.group_by.as_ref().is_some_and(Vec::is_empty)
        && select.window_calls.is_empty()
        && select.aggregates.iter().all(|call| call.function.name() == "count")
        && !select.outputs.iter().chain(&select.having).any(reads_rows)
}

/// The query that a select reads alone, its rows coming to the select as they are.
pub(super) fn only_query(select: &Select) -> Option<(SourceId, &Query)> {
    match &*select.sources {
        [
            Source {
                id,
                kind: SourceKind::Query(query),
                join: None,
                guarded: false,
                index_hint: IndexHint::Any,
                ..
            },
        ] => Some((*id, query)),
        _ => None,
    }
}

/// True where a select gives one row for each row of its sources.
fn gives_each_row(select: &Select) -> bool {
    select.conjuncts.is_empty()
        && select.group_by.is_none()
        && select.distinct.is_none()
        && select.window_calls.is_empty()
}

/// Gives the bounds of each query giving every row of one subquery to the subquery.
pub(crate) fn lower_bounds(query: &mut Query) {
    each_query(query, &mut lower_bound);
}

fn lower_bound(query: &mut Query) {
    let Query { body: Body::Select(select), order_by, limit, offset, .. } = query else { return };
    let gives_each = limit.is_some() && order_by.is_empty() && gives_each_row(select);
    let takes = |below: &Query| {
        matches!(below.body, Body::Select(_) | Body::Compound { .. })
            && below.limit.is_none()
            && below.offset.is_none()
    };
    if !gives_each || !only_query(select).is_some_and(|(_, below)| takes(below)) {
        return;
    }
    if let [Source { kind: SourceKind::Query(below), .. }] = &mut *select.sources {
        (below.limit, below.offset) = (limit.take(), offset.take());
    }
}

/// Largest bound given to each part of a `UNION ALL`: a part sorts its rows once more.
const PART_ROWS_MAX: i64 = 10_000;

/// Gives each part of a `UNION ALL` with an order and a bound the same order and bound, also where
/// the order stands in the query around.
pub(crate) fn bound_parts(query: &mut Query, free: &mut Free) {
    each_query(query, &mut |query| {
        let Some(limit) = query.limit.as_ref().and_then(|limit| rows(limit, query.offset.as_ref()))
        else {
            return;
        };
        let Query { body, order_by, correlated, .. } = query;
        match body {
            Body::Compound { .. } => bound_each_part(body, order_by, &limit, (free, *correlated)),
            Body::Select(select) => {
                let Some(keys) = keys_of_parts(select, order_by) else { return };
                if let [Source { kind: SourceKind::Query(below), .. }] = &mut *select.sources {
                    bound_each_part(&mut below.body, &keys, &limit, (free, below.correlated));
                }
            }
            _ => {}
        }
    });
}

/// How many rows from the first one a query with bounds gives, `-1` for all of them: an expression
/// of parameters, perhaps. `None` for many rows.
fn rows(limit: &Expr, offset: Option<&Expr>) -> Option<Expr> {
    let is_known = |bound: &Expr| match bound {
        Expr::Const(Value::Int(count)) => (0..=PART_ROWS_MAX).contains(count),
        Expr::Parameter(_) => true,
        _ => false,
    };
    if !is_known(limit) || offset.is_some_and(|offset| !is_known(offset)) {
        return None;
    }
    let int = |value: i64| Expr::Const(Value::Int(value));
    let zero = int(0);
    let offset = offset.unwrap_or(&zero);
    if let (Expr::Const(Value::Int(limit)), Expr::Const(Value::Int(offset))) = (limit, offset) {
        return Some(int(limit + offset));
    }
    let rule = |op| Comparison { op, affinity: None, collation: Collation::Binary };
    let copied = |bound: &Expr| bound.copied().expect("a bound is a constant or a parameter");
    let at_most = |bound: &Expr, most: i64| {
        Expr::Compare(rule(CompareOp::LessEqual), Box::new(copied(bound)), Box::new(int(most)))
    };
    let when = |condition: Expr, then: Expr, otherwise: Expr| Expr::Case {
        base: None,
        branches: vec![(rule(CompareOp::Equal), condition, then)],
        otherwise: Some(Box::new(otherwise)),
    };
    let and = |left: Expr, right: Expr| Expr::And(Box::new(left), Box::new(right));
    let skipped = when(at_most(offset, 0), zero.clone(), copied(offset));
    let sum = Expr::Arithmetic(ArithmeticOp::Add, Box::new(copied(limit)), Box::new(skipped));
    let is_page = and(at_most(limit, PART_ROWS_MAX), at_most(offset, PART_ROWS_MAX));
    Some(when(at_most(limit, -1), int(-1), when(is_page, sum, int(-1))))
}

/// The order of a select as one of the `UNION ALL` which the select reads alone, giving each row.
fn keys_of_parts(select: &Select, order_by: &[OrderKey]) -> Option<Vec<OrderKey>> {
    let (source, below) = only_query(select)?;
    let is_whole = below.order_by.is_empty() && below.limit.is_none() && below.offset.is_none();
    if !gives_each_row(select) || !is_whole {
        return None;
    }
    let column = |key: &OrderKey| {
        let expr = match &key.key {
            Key::Output(output) => &select.outputs[*output],
            Key::Expr(expr) => expr,
        };
        match expr {
            Expr::Column { source: of, column } if *of == source => Some(*column),
            _ => None,
        }
    };
    let keys = order_by.iter().map(|key| Some(OrderKey { key: Key::Output(column(key)?), ..*key }));
    keys.collect()
}

/// Gives each select of a `UNION ALL` an order and a bound.
fn bound_each_part(
    body: &mut Body,
    order_by: &[OrderKey],
    limit: &Expr,
    (free, correlated): (&mut Free, bool),
) {
    let Body::Compound { first, rest, .. } = body else { return };
    let is_sorted = !order_by.is_empty()
        && order_by.iter().all(|key| matches!(key.key, Key::Output(_)))
        && rest.iter().all(|(op, _)| *op == CompoundOp::UnionAll);
    if !is_sorted {
        return;
    }
    for part in std::iter::once(&mut **first).chain(rest.iter_mut().map(|(_, part)| part)) {
        let Body::Select(select) = part else { continue };
        if select.sources.is_empty() {
            continue;
        }
        let (id, source) = (free.select, free.source);
        (free.select, free.source) = (id + 1, source + 1);
        let width = select.outputs.len();
        let outputs = (0..width).map(|column| Expr::Column { source, column }).collect();
        let bounded = Query {
            body: std::mem::replace(part, Body::Values(Vec::new())),
            columns: (0..width).map(|_| unnamed()).collect(),
            order_by: order_by.to_vec(),
            limit: Some(limit.clone()),
            correlated,
            ..empty()
        };
        let bounded = Source::new(source, SourceKind::Query(Box::new(bounded)), "first".to_owned());
        *part = Body::Select(Box::new(Select::of_sources(id, vec![bounded], outputs)));
    }
}
