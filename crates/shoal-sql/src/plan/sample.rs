//! Which tables' sizes a query's plan depends on.

use shoal_store::Transaction;

use crate::resolve::tree::{Body, CompareOp, Expr, Query, ROWID, Select, SourceKind};
use crate::schema::MAIN;

/// Looks into the trees of every table that could be read in more than one way.
pub(super) fn sample(query: &Query, txn: &Transaction) {
    sample_body(&query.body, txn);
    query.walk(&mut |expr| {
        if let Some(query) = expr.query() {
            sample_body(&query.body, txn);
        }
    });
}

fn sample_body(body: &Body, txn: &Transaction) {
    match body {
        Body::Values(_) => {}
        Body::Select(select) => sample_select(select, txn),
        Body::Compound { first, rest, .. } => {
            sample_body(first, txn);
            rest.iter().for_each(|(_, body)| sample_body(body, txn));
        }
        Body::Recursive(recursion) => {
            sample_body(&recursion.first, txn);
            recursion.steps.iter().for_each(|body| sample_body(body, txn));
        }
    }
}

fn sample_select(select: &Select, txn: &Transaction) {
    for source in &select.sources {
        match &source.kind {
            SourceKind::Query(query) => sample_body(&query.body, txn),
            SourceKind::Table(table) => {
                let alone = select.sources.len() == 1;
                let one_row = alone && select.conjuncts.iter().any(is_rowid);
                // The transaction is `main`'s.
                let here = table.database == MAIN;
                if here && !(one_row || alone && table.indexes.is_empty()) {
                    table.sample(txn);
                }
            }
            SourceKind::Taken(_) | SourceKind::Function { .. } => {}
        }
    }
}

/// Whether a condition asks for one rowid, which no statistics could make cheaper.
fn is_rowid(condition: &Expr) -> bool {
    let rowid = |expr: &Expr| matches!(expr, Expr::Column { column: ROWID, .. });
    match condition {
        Expr::Compare(rule, left, right) => {
            rule.op == CompareOp::Equal && (rowid(left) || rowid(right))
        }
        _ => false,
    }
}
