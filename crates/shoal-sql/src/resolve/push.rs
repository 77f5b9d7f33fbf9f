//! Predicate pushdown: conditions on the rows of a subquery in a `FROM` move into the subquery, to
//! its tables. A view with `UNION`, `DISTINCT` or `GROUP BY` costs no more than the rows asked for.
//!
//! A condition moves only where the same rows meet the condition inside: it reads the subquery's
//! columns and nothing else of the select around, each column is an expression safe to evaluate
//! twice, and the subquery neither limits its rows nor looks at several of them at once. Groups and
//! partitions of windows are kept or dropped whole, by their keys.

use super::leakproof::is_leakproof;
use super::tree::{Body, Expr, Query, Select, Source, SourceId, SourceKind};
use crate::parse::ast::CompoundOp;
use crate::value::{Affinity, Collation, Comparison};

/// Largest size of a condition to move.
const SIZE_MAX: usize = 32;

/// Moves conditions of a query, and of all queries in its `FROM`s, as far down as they go.
pub(crate) fn push_down(query: &mut Query) {
    push_body(&mut query.body);
}

fn push_body(body: &mut Body) {
    match body {
        Body::Values(_) => {}
        Body::Select(select) => push_select(select),
        Body::Compound { first, rest, .. } => {
            push_body(first);
            rest.iter_mut().for_each(|(_, body)| push_body(body));
        }
        Body::Shared(shared) => push_body(&mut shared.query.body),
        Body::Recursive(recursion) => {
            push_body(&mut recursion.first);
            recursion.steps.iter_mut().for_each(push_body);
        }
    }
}

fn push_select(select: &mut Select) {
    let late_rows = select.sources.iter().any(Source::keeps_right);
    for source in &mut select.sources {
        let id = source.id;
        let SourceKind::Query(query) = &mut source.kind else { continue };
        let mut take = |conditions: &mut Vec<Expr>| {
            conditions.retain(|condition| {
                let fits = moves(condition, id) && takes(query, condition);
                if fits {
                    give(&mut query.body, condition, id);
                }
                !fits
            });
        };
        match &mut source.join {
            _ if late_rows => {}
            None => take(&mut select.conjuncts),
            // The condition of a left join's right side is applied before the join.
            Some(join) => take(&mut join.on),
        }
        push_body(&mut query.body);
    }
}

/// True where a condition reads one source alone and has the same value whenever evaluated.
fn moves(condition: &Expr, source: SourceId) -> bool {
    condition.reads_only(&[source]) && condition.size() <= SIZE_MAX && is_pure(condition)
}

/// True where an expression may be evaluated again for the same row with the same outcome, cheaply.
fn is_pure(expr: &Expr) -> bool {
    let own = match expr {
        Expr::Call { function, .. } => function.deterministic,
        Expr::Aggregate { .. } | Expr::Window { .. } => false,
        other => other.query().is_none(),
    };
    let mut pure = own;
    expr.parts(&mut |part| pure &= is_pure(part));
    pure
}

/// True where a query whose parts apply the condition gives the same rows as a filter above.
pub(super) fn takes(query: &Query, condition: &Expr) -> bool {
    query.limit.is_none() && query.offset.is_none() && body_takes(&query.body, condition)
}

fn body_takes(body: &Body, condition: &Expr) -> bool {
    match body {
        Body::Values(_) | Body::Recursive(_) | Body::Shared(_) => false,
        Body::Compound { first, rest, collations } => {
            let all = rest.iter().all(|(op, _)| *op == CompoundOp::UnionAll);
            (all || tells_alike(condition, collations))
                && body_takes(first, condition)
                && rest.iter().all(|(_, body)| body_takes(body, condition))
        }
        Body::Select(select) => {
            let distinct = select.distinct.as_ref();
            if distinct.is_some_and(|collations| !tells_alike(condition, collations))
                || !keeps_partitions(select, condition)
            {
                return false;
            }
            // Hidden rows are among those of the query's tables.
            let guarded = select.sources.iter().any(|source| source.guarded);
            let mut fits = !guarded || is_leakproof(condition);
            condition.columns(&mut |_, column| {
                fits &= select
                    .outputs
                    .get(column)
                    .is_some_and(|output| output.size() <= SIZE_MAX && is_pure(output))
                    && (!guarded || select.outputs.get(column).is_some_and(is_leakproof));
            });
            match &select.group_by {
                None => fits,
                // The rows of a group have its keys in common, to the byte.
                Some(keys) => {
                    condition.columns(&mut |_, column| {
                        fits &= select.outputs.get(column).is_some_and(|output| {
                            keys.iter().any(|(key, collation)| {
                                *collation == Collation::Binary && key.is_same(output)
                            })
                        });
                    });
                    fits && !keys.is_empty() && tells_alike(condition, &[])
                }
            }
        }
    }
}

/// True where a condition keeps or drops whole partitions of every window of a select.
fn keeps_partitions(select: &Select, condition: &Expr) -> bool {
    if select.window_calls.is_empty() {
        return true;
    }
    let mut keeps = !select.windows.is_empty() && tells_alike(condition, &[]);
    condition.columns(&mut |_, column| {
        let output = select.outputs.get(column);
        keeps &= select.windows.iter().all(|window| {
            window.partition_by.iter().any(|(key, collation)| {
                *collation == Collation::Binary && output.is_some_and(|output| key.is_same(output))
            })
        });
    });
    keeps
}

/// True where a condition holds for both or none of two rows equal under the collations.
/// Only 1 and 1.0 are equal and not the same where all are binary, and comparisons find them equal
/// unless they make them texts.
fn tells_alike(condition: &Expr, collations: &[Collation]) -> bool {
    let plain =
        |expr: &Expr| matches!(expr, Expr::Column { .. } | Expr::Const(_) | Expr::Parameter(_));
    let as_text = |affinity: &Option<Affinity>| *affinity == Some(Affinity::Text);
    let alike = match condition {
        Expr::Compare(rule, left, right) => !as_text(&rule.affinity) && plain(left) && plain(right),
        Expr::IsNull { expr, .. } => plain(expr),
        Expr::Between { expr, low, high, .. } => {
            let end =
                |(rule, value): &(Comparison, Box<Expr>)| !as_text(&rule.affinity) && plain(value);
            plain(expr) && end(low) && end(high)
        }
        Expr::InList { expr, list, affinity, .. } => {
            !as_text(affinity) && plain(expr) && list.iter().all(plain)
        }
        _ => false,
    };
    alike && collations.iter().all(|collation| *collation == Collation::Binary)
}

/// Adds the condition to every part of a body, over the expressions of the part's columns.
pub(super) fn give(body: &mut Body, condition: &Expr, source: SourceId) {
    match body {
        Body::Values(_) | Body::Recursive(_) | Body::Shared(_) => {}
        Body::Compound { first, rest, .. } => {
            give(first, condition, source);
            rest.iter_mut().for_each(|(_, body)| give(body, condition, source));
        }
        Body::Select(select) => {
            let mut own = condition.clone();
            substitute(&mut own, source, &select.outputs);
            super::from::split_and(own, &mut select.conjuncts);
        }
    }
}

fn substitute(expr: &mut Expr, source: SourceId, outputs: &[Expr]) {
    match expr {
        Expr::Column { source: of, column } if *of == source => {
            if let Some(output) = outputs.get(*column) {
                *expr = output.clone();
            }
        }
        other => other.parts_mut(&mut |part| substitute(part, source, outputs)),
    }
}
