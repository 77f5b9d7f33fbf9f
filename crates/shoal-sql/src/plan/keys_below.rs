//! Whether the keys of a filtered table are asked of a subquery joined with it: where few are left.

use super::access::table_rows;
use super::query_rows::share;
use crate::resolve::keys_below::{Candidate, keys_below as rewrite};
use crate::resolve::tree::{Query, Source, SourceKind};
use crate::resolve::unnest::{Free, unnest};

/// Largest share of a table's rows left by the conditions. With half of the rows, a list of keys
/// costs more than the groups saved.
const LEFT_MAX: f64 = 0.2;
/// Fewest rows of the subquery's largest table: groups of fewer are made within a millisecond.
const ROWS_MIN: f64 = 1000.0;

/// Adds lists of a filtered table's keys to subqueries, where a list pays or is forced; true where
/// any list was added.
pub(super) fn keys_below(query: &mut Query, forced: Option<bool>) -> bool {
    if forced == Some(false) || !joins_queries(query) {
        return false;
    }
    let mut free = Free::of(query);
    let asked = rewrite(query, &mut free, &|candidate| forced == Some(true) || pays(candidate));
    if asked {
        unnest(query, &mut free);
    }
    asked
}

/// True where a select joins a subquery with another source.
fn joins_queries(query: &Query) -> bool {
    let mut found = false;
    let is_query = |source: &Source| matches!(source.kind, SourceKind::Query(_));
    query.each_select(&mut |select| {
        found |= select.sources.len() > 1 && select.sources.iter().any(is_query);
    });
    found
}

fn pays(candidate: &Candidate<'_>) -> bool {
    let Candidate { query, table, conditions, sources } = candidate;
    let mut rows: f64 = 0.0;
    query.each_table(&mut |table| rows = rows.max(table_rows(table)));
    let left: f64 = conditions.iter().map(|condition| share(condition, sources)).product();
    // The table is read once more for the list.
    left <= LEFT_MAX && rows >= ROWS_MIN.max(table_rows(table))
}
