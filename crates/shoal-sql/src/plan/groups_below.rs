//! Whether groups are made below a join: where that saves lookups.

use super::cost::distinct;
use super::query_rows::share;
use crate::resolve::group_below::{Candidate, group_below as rewrite};
use crate::resolve::tree::{Expr, Query, SourceKind};
use crate::resolve::unnest::Free;

/// Of fewer rows neither way takes long.
const ROWS_MIN: f64 = 1000.0;
/// A group has so many rows at least, on average; and a part of one, where groups are made in two
/// steps.
const PER_GROUP: f64 = 2.0;
const PER_PART: f64 = 8.0;
/// So many of the other tables' rows are left by their own conditions. Where fewer are, they find
/// their rows of the grouped table.
const LEFT_MIN: f64 = 0.5;

/// Makes groups of a query below its joins where that pays, or as forced.
pub(super) fn group_below(query: &mut Query, forced: Option<bool>) {
    if forced == Some(false) || !has_groups(query) {
        return;
    }
    let mut free = Free::of(query);
    rewrite(query, &mut free, &|candidate| forced == Some(true) || pays(candidate));
}

/// True where a select has groups of several tables' rows.
fn has_groups(query: &Query) -> bool {
    let mut found = false;
    query.each_select(&mut |select| {
        let is_grouped = select.group_by.as_ref().is_some_and(|keys| !keys.is_empty());
        found |= is_grouped && select.sources.len() > 1;
    });
    found
}

fn pays(candidate: &Candidate<'_>) -> bool {
    let sources = &candidate.select.sources;
    let left = |conditions: &[&Expr]| -> f64 {
        conditions.iter().map(|condition| share(condition, sources)).product()
    };
    let count = |kind: &SourceKind| match kind {
        SourceKind::Table(table) => table.row_count(),
        _ => None,
    };
    let Some(all) = count(&candidate.grouped.kind) else { return false };
    let rows = all * left(&candidate.of_grouped);
    let others = candidate.other.and_then(|other| count(&other.kind));
    let groups = match (distinct(candidate.key, sources), others) {
        (Some(values), Some(others)) => values.min(others),
        (Some(groups), None) | (None, Some(groups)) => groups,
        (None, None) => return false,
    };
    let per_group = if candidate.other.is_some() { PER_GROUP } else { PER_PART };
    rows >= ROWS_MIN && rows >= per_group * groups && left(&candidate.of_others) >= LEFT_MIN
}
