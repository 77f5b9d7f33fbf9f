//! How many of a query's rows are read by what is around the query.

use super::tree::{Body, Expr, Key, Query, SourceKind};

/// The rows of a query that are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    /// All of them, in the order of the groups' keys where no order is asked for.
    InOrder,
    /// All of them, in any order.
    All,
    First,
}

/// Calls `see` for a query and for all queries in it, each before the ones in it; queries of
/// `EXISTS`, ending with their first row, are left out.
pub(super) fn each_query(query: &mut Query, see: &mut dyn FnMut(&mut Query, Read)) {
    of_sources(query, Read::InOrder, see);
    query.walk_mut(&mut |expr| match expr {
        Expr::InQuery { query, .. } | Expr::RowInQuery { query, .. } => {
            of_sources(query, Read::All, see);
        }
        Expr::Scalar(query) | Expr::ScalarColumn(query, _) => of_sources(query, Read::First, see),
        _ => {}
    });
}

/// The same, but for queries within expressions.
fn of_sources(query: &mut Query, read: Read, see: &mut dyn FnMut(&mut Query, Read)) {
    see(query, read);
    let is_first = is_limited(query, read) && passes_rows_on(query);
    in_body(&mut query.body, if is_first { Read::First } else { Read::InOrder }, see);
}

/// True where the rows of a query in the `FROM` are given as they are found.
fn passes_rows_on(query: &Query) -> bool {
    let Body::Select(select) = &query.body else { return false };
    select.sources.len() == 1
        && query.order_by.is_empty()
        && select.group_by.is_none()
        && select.window_calls.is_empty()
}

/// The same for the queries in a body; `read` are the rows read of those in the `FROM`.
fn in_body(body: &mut Body, read: Read, see: &mut dyn FnMut(&mut Query, Read)) {
    match body {
        Body::Values(_) => {}
        Body::Select(select) => {
            for source in &mut select.sources {
                if let SourceKind::Query(query) = &mut source.kind {
                    of_sources(query, read, see);
                }
            }
        }
        Body::Compound { first, rest, .. } => {
            in_body(first, Read::InOrder, see);
            rest.iter_mut().for_each(|(_, body)| in_body(body, Read::InOrder, see));
        }
        Body::Shared(shared) => of_sources(&mut shared.query, Read::InOrder, see),
        Body::Recursive(recursion) => in_body(&mut recursion.first, Read::InOrder, see),
    }
}

/// True where all rows of a select are found before the last of them is read: in the order of
/// anything but an aggregate the first groups may be all that is read.
pub(super) fn reads_all(query: &Query, read: Read) -> bool {
    !is_limited(query, read) || begins_with_aggregate(query)
}

fn is_limited(query: &Query, read: Read) -> bool {
    read == Read::First || query.limit.is_some() || query.offset.is_some()
}

fn begins_with_aggregate(query: &Query) -> bool {
    let Body::Select(select) = &query.body else { return false };
    let first = query.order_by.first().and_then(|key| match &key.key {
        Key::Output(output) => select.outputs.get(*output),
        Key::Expr(expr) => Some(expr),
    });
    let mut found = false;
    if let Some(expr) = first {
        expr.walk(&mut |part| {
            found |= matches!(part, Expr::Aggregate { select: of, .. } if *of == select.id);
        });
    }
    found
}
