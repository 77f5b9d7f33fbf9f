//! Which tables' sizes a query's plan depends on.

use crate::resolve::tree::{Body, Expr, Query, ROWID, Select, SourceKind};
use crate::schema::Txns;
use crate::value::CompareOp;

/// Looks into the trees of every table that could be read in more than one way.
pub(super) fn sample(query: &Query, txns: Txns<'_>) {
    sample_body(&query.body, txns);
    query.walk(&mut |expr| {
        if let Some(query) = expr.query() {
            sample_body(&query.body, txns);
        }
    });
}

fn sample_body(body: &Body, txns: Txns<'_>) {
    match body {
        Body::Values(_) => {}
        Body::Select(select) => sample_select(select, txns),
        Body::Compound { first, rest, .. } => {
            sample_body(first, txns);
            rest.iter().for_each(|(_, body)| sample_body(body, txns));
        }
        Body::Shared(shared) => sample_body(&shared.query.body, txns),
        Body::Recursive(recursion) => {
            sample_body(&recursion.first, txns);
            recursion.steps.iter().for_each(|body| sample_body(body, txns));
        }
    }
}

fn sample_select(select: &Select, txns: Txns<'_>) {
    for source in &select.sources {
        match &source.kind {
            SourceKind::Query(query) => sample_body(&query.body, txns),
            SourceKind::Table(table) => {
                // The number of rows decides how often a query for each row runs.
                let alone = select.sources.len() == 1 && !runs_query(select);
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
