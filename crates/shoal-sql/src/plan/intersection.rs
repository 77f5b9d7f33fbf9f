//! Rows that several indexes find together: `a = 1 AND b = 2` with an index on each column.
//!
//! The first way gives rowids, the others are asked which of those they have, and what all have is
//! looked up in the table. SQLite takes one index and asks each of its rows for the rest; that is
//! what is done here, too, unless what is known of the indexes says that most of those rows would
//! be read in vain.

use super::access::{Frame, KeyExpr, Path, PathKind, SOME, full_path, table_rows};
use super::cost::{LOOKUP_NEAR, SEEK};
use super::keyed::known_share;
use crate::resolve::tree::Expr;
use crate::schema::Table;

/// An entry of which nothing but the rowid is read, and one of those that are put in order then.
const ROWID: f64 = 1.5;
const ROWID_SORTED: f64 = 6.0;
/// A rowid sought among the entries of one key.
const ENTRY_SEEK: f64 = 2.0 * SEEK;
/// A row found by its rowid on another page than the one before.
const LOOKUP_FAR: f64 = 30.0;

/// One of the ways that may find rows together.
struct Arm<'p, 'e> {
    path: &'p Path<'e>,
    /// True where all its entries have the same key, so that their rowids ascend.
    ascends: bool,
}

impl<'e> Frame<'e> {
    /// The rows that are found by more than one of the ways to a table's rows, where that is
    /// cheaper than to look up what the best of those finds.
    pub(super) fn intersection(&self, table: &'e Table, ways: &[Path<'e>]) -> Option<Path<'e>> {
        let mut arms: Vec<Arm<'_, 'e>> =
            ways.iter().filter_map(|path| Arm::new(table, path)).collect();
        arms.sort_by(|a, b| a.path.rows.total_cmp(&b.path.rows));
        let all = table_rows(table);
        let pages = table.page_count().unwrap_or(all / 40.0);
        // Rows that are few beside the pages lie on one each.
        let lookups = |rows: f64| {
            let far = (pages / rows.max(1.0)).min(1.0);
            rows * (LOOKUP_NEAR + far * (LOOKUP_FAR - LOOKUP_NEAR))
        };
        let mut arms = arms.into_iter();
        let first = arms.next()?;
        let mut found = first.path.rows;
        let mut walked = SEEK + found * if first.ascends { ROWID } else { ROWID_SORTED };
        let mut taken = vec![first];
        for arm in arms {
            let told =
                |term| taken.iter().any(|known: &Arm<'_, '_>| known.path.used.contains(term));
            if !arm.ascends || arm.path.used.iter().all(told) {
                continue;
            }
            // Where few rowids are asked for, each is sought.
            let asked = SEEK + (arm.path.rows * ROWID).min(found * ENTRY_SEEK);
            let left = found * (arm.path.rows / all).min(1.0);
            if asked < lookups(found) - lookups(left) {
                walked += asked;
                found = left;
                taken.push(arm);
            }
        }
        let [first, _, ..] = &*taken else { return None };
        let rows = found.max(SOME);
        let mut used: Vec<usize> =
            taken.iter().flat_map(|arm| arm.path.used.iter().copied()).collect();
        used.sort_unstable();
        used.dedup();
        // The first one alone would cost more than this, however little its rows are taken to cost.
        let per_row = (walked + lookups(rows)).min(0.9 * first.path.per_row);
        let arms = taken.iter().map(|arm| arm.path.clone()).collect();
        Some(Path { kind: PathKind::All(arms), per_row, used, ..full_path(rows) })
    }
}

impl<'p, 'e> Arm<'p, 'e> {
    /// A way by an index of which it is known how many rows it finds, by keys that stay the same.
    fn new(table: &Table, path: &'p Path<'e>) -> Option<Arm<'p, 'e>> {
        let PathKind::Index { index: Some(number), equal, low, high } = &path.kind else {
            return None;
        };
        let index = &table.indexes[*number];
        let is_known = match equal.len() {
            0 => known_share(*low, *high, &|low, high| index.share(low, high)).is_some(),
            columns => index.rows_per_key(columns).is_some(),
        };
        let stays =
            |key: &KeyExpr<'_>| matches!(key, KeyExpr::Expr(Expr::Const(_) | Expr::Parameter(_)));
        let mut in_range = [low, high].into_iter().flatten();
        let fits = is_known
            && equal.iter().all(|(key, ..)| stays(key))
            && in_range.all(|end| stays(&KeyExpr::Expr(end.value)));
        let ascends = equal.len() >= index.key_columns && low.is_none() && high.is_none();
        // All entries are no way to some of them.
        let fits = fits && !(equal.is_empty() && low.is_none() && high.is_none());
        fits.then_some(Arm { path, ascends })
    }
}
