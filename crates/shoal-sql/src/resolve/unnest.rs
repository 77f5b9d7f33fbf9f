//! Unnesting: `t.x IN (SELECT u.id FROM u WHERE ...)` becomes a join with `u` where `u.id` is the
//! rowid of `u`, each value once, and an index begins with `t.x`. A seek for each value of a list
//! is the plan of the `IN`; a join chooses among all orders, and goes by batches.

use super::from::JOIN_MAX;
use super::tree::{Body, Expr, Query, ROWID, Select, Source, SourceKind};
use crate::schema::IndexSource;
use crate::value::{Affinity, CompareOp, Comparison};

/// Makes joins of the `IN`s of a query, and of all queries in its `FROM`s.
pub(crate) fn unnest(query: &mut Query) {
    unnest_body(&mut query.body);
}

fn unnest_body(body: &mut Body) {
    match body {
        Body::Values(_) => {}
        Body::Select(select) => unnest_select(select),
        Body::Compound { first, rest, .. } => {
            unnest_body(first);
            rest.iter_mut().for_each(|(_, body)| unnest_body(body));
        }
        Body::Shared(shared) => unnest_body(&mut shared.query.body),
        Body::Recursive(recursion) => {
            unnest_body(&mut recursion.first);
            recursion.steps.iter_mut().for_each(unnest_body);
        }
    }
}

fn unnest_select(select: &mut Select) {
    for source in &mut select.sources {
        if let SourceKind::Query(query) = &mut source.kind {
            unnest_body(&mut query.body);
        }
    }
    // Rows without a match stay out of a `WHERE`'s reach.
    if select.sources.iter().any(|source| source.join.is_some()) {
        return;
    }
    let mut at = 0;
    while at < select.conjuncts.len() {
        match &mut select.conjuncts[at] {
            Expr::InQuery { expr, not: false, query, .. }
                if select.sources.len() < JOIN_MAX && is_sought(expr, &select.sources) =>
            {
                unnest_body(&mut query.body);
                if !gives_rowids(query) {
                    at += 1;
                    continue;
                }
            }
            _ => {
                at += 1;
                continue;
            }
        }
        let Expr::InQuery { expr, query, affinity, collation, .. } = select.conjuncts.remove(at)
        else {
            unreachable!("the condition is an IN of a query");
        };
        let Body::Select(mut inner) = query.body else {
            unreachable!("the query of an IN is a select");
        };
        let key = inner.outputs.swap_remove(0);
        let rule = Comparison { op: CompareOp::Equal, affinity, collation };
        select.conjuncts.insert(at, Expr::Compare(rule, expr, Box::new(key)));
        select.conjuncts.append(&mut inner.conjuncts);
        select.sources.append(&mut inner.sources);
    }
}

/// True for an integer column of one of the sources, first in one of its table's indexes.
fn is_sought(expr: &Expr, sources: &[Source]) -> bool {
    let Expr::Column { source, column } = expr else { return false };
    let source = sources.iter().find(|known| known.id == *source);
    let Some(SourceKind::Table(table)) = source.map(|source| &source.kind) else { return false };
    let is_integer = table.columns.get(*column).is_some_and(|it| it.affinity == Affinity::Integer);
    let mut indexes = table.indexes.iter();
    is_integer
        && indexes.any(|index| {
            let first = index.columns.first().map(|column| &column.source);
            index.filter.is_none() && matches!(first, Some(IndexSource::Column(of)) if of == column)
        })
}

/// True for an uncorrelated query of one table's rowids.
fn gives_rowids(query: &Query) -> bool {
    let is_whole = !query.correlated && query.limit.is_none() && query.offset.is_none();
    let Body::Select(select) = &query.body else { return false };
    let [Source { id, kind: SourceKind::Table(table), join: None, .. }] = &*select.sources else {
        return false;
    };
    let is_plain =
        select.group_by.is_none() && select.having.is_none() && select.window_calls.is_empty();
    let is_rowid =
        |expr: &Expr| matches!(expr, Expr::Column { source, column: ROWID } if source == id);
    is_whole
        && is_plain
        && !table.without_rowid
        && matches!(&*select.outputs, [key] if is_rowid(key))
}
