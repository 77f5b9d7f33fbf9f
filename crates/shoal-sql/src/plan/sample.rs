//! Which tables' sizes a query's plan depends on.

use crate::resolve::tree::{Body, Expr, Query, ROWID, Select, SourceKind};
use crate::schema::Txns;
use crate::value::CompareOp;

/// Looks into the trees of every table that could be read in more than one way.
pub(super) fn sample(query: &Query, txns: Txns<'_>) {
    sample_body(&query.body, (txns, false));
    query.walk(&mut |expr| {
        if let Some(query) = expr.query() {
            sample_body(&query.body, (txns, query.correlated));
        }
    });
}

/// `is_repeated` tells of a query run for each row around: its conditions decide between a search
/// for each row and one look at all rows.
fn sample_body(body: &Body, (txns, is_repeated): (Txns<'_>, bool)) {
    let how = (txns, is_repeated);
    match body {
        Body::Values(_) => {}
        Body::Select(select) => sample_select(select, how),
        Body::Compound { first, rest, .. } => {
            sample_body(first, how);
            rest.iter().for_each(|(_, body)| sample_body(body, how));
        }
        Body::Shared(shared) => sample_body(&shared.query.body, how),
        Body::Recursive(recursion) => {
            sample_body(&recursion.first, how);
            recursion.steps.iter().for_each(|body| sample_body(body, how));
        }
    }
}

fn sample_select(select: &Select, (txns, is_repeated): (Txns<'_>, bool)) {
    for source in &select.sources {
        match &source.kind {
            SourceKind::Query(query) => sample_body(&query.body, (txns, is_repeated)),
            SourceKind::Table(table) => {
                // The number of rows decides how often a query for each row runs.
                let alone = select.sources.len() == 1 && !runs_query(select) && !is_repeated;
                let one_row = alone && select.conjuncts.iter().any(is_rowid);
                if !(one_row || alone && table.indexes.is_empty())
                    && let Ok(txn) = txns.of(table.database)
                {
                    table.sample(txn);
                    if !alone {
                        table.sample_rows(txn);
                    }
                }
            }
            SourceKind::Taken(_) | SourceKind::Virtual(_) | SourceKind::Module { .. } => {}
        }
    }
}

/// True where an expression of a select runs a query for each of its rows.
fn runs_query(select: &Select) -> bool {
    let mut found = false;
    select.walk(&mut |expr| found |= expr.query().is_some_and(|query| query.correlated));
    found
}

/// True where a condition asks for one rowid, which no statistics could make cheaper.
fn is_rowid(condition: &Expr) -> bool {
    let rowid = |expr: &Expr| matches!(expr, Expr::Column { column: ROWID, .. });
    match condition {
        Expr::Compare(rule, left, right) => {
            rule.op == CompareOp::Equal && (rowid(left) || rowid(right))
        }
        _ => false,
    }
}
