//! Ways that go by a key: the rowid, or the first columns of an index.

use super::NullKey;
use super::access::{KeyExpr, Path, PathKind, SOME, full_path, table_rows};
use super::cost::{HALF_RANGE, RANGE, ROWID_SEEK, SEEK, SEEK_TOGETHER, nearness};
use super::restrict::{Each, End, Range, Restriction, RestrictionOp, range};
use crate::resolve::tree::{Expr, ROWID, Source, SourceId, SourceKind};
use crate::schema::{IndexSource, Table};
use crate::value::{Affinity, Collation, Value};

/// A column of an index as the planner sees it.
pub(super) struct KeyColumn<'e> {
    /// The table's column, or the rowid.
    column: Option<usize>,
    /// What it holds where it is no column.
    expr: Option<&'e Expr>,
    pub(super) affinity: Affinity,
    pub(super) collation: Option<Collation>,
    pub(super) descending: bool,
    pub(super) not_null: bool,
}

impl KeyColumn<'_> {
    /// True where an expression over the source's row has the column's value.
    pub(super) fn is(&self, source: SourceId, expr: &Expr) -> bool {
        match (self.column, expr) {
            (Some(known), Expr::Column { source: of, column }) => *of == source && *column == known,
            (None, expr) => self.expr.is_some_and(|own| own.is_same(expr)),
            _ => false,
        }
    }
}

/// The columns telling a table's rows apart, and their collations.
pub(super) fn row_key(table: &Table) -> Vec<(usize, Option<Collation>)> {
    if !table.without_rowid {
        return vec![(ROWID, Some(Collation::Binary))];
    }
    let parts = table.primary_key.iter();
    parts.map(|part| (part.column, part.collation.as_ref().ok().copied())).collect()
}

/// The columns of an index, or of the tree of a table without rowid.
pub(super) fn key_columns<'e>(source: &'e Source, index: Option<usize>) -> Vec<KeyColumn<'e>> {
    let SourceKind::Table(table) = &source.kind else { return Vec::new() };
    let of_column = |column: usize, collation: Option<Collation>, descending| {
        let known = table.columns.get(column);
        KeyColumn {
            column: Some(column),
            expr: None,
            affinity: known.map_or(Affinity::Integer, |known| known.affinity),
            collation,
            descending,
            not_null: column == ROWID || known.is_some_and(|known| known.not_null),
        }
    };
    let Some(number) = index else {
        let parts = table.primary_key.iter();
        return parts
            .map(|part| {
                of_column(part.column, part.collation.as_ref().ok().copied(), part.descending)
            })
            .collect();
    };
    let meaning = source.indexed.get(number);
    let columns = table.indexes[number].columns.iter().enumerate();
    columns
        .map(|(place, column)| {
            let collation = column.collation.as_ref().ok().copied();
            let held = meaning.and_then(|meaning| meaning.columns.get(place)?.as_ref());
            match (&column.source, held) {
                (_, Some((expr, affinity))) => KeyColumn {
                    column: None,
                    expr: Some(expr),
                    affinity: affinity.unwrap_or(Affinity::Blob),
                    collation,
                    descending: column.descending,
                    not_null: false,
                },
                (IndexSource::Column(column_place), None) => {
                    let alias = table.rowid_alias == Some(*column_place);
                    let of = if alias { ROWID } else { *column_place };
                    of_column(of, collation, column.descending)
                }
                (IndexSource::Rowid, None) => of_column(ROWID, collation, column.descending),
                (IndexSource::Expr(_), None) => KeyColumn {
                    column: None,
                    expr: None,
                    affinity: Affinity::Blob,
                    collation: None,
                    descending: column.descending,
                    not_null: false,
                },
            }
        })
        .collect()
}

pub(super) fn rowid_path<'e>(
    source: SourceId,
    table: &Table,
    restrictions: &[Restriction<'e>],
) -> Option<Path<'e>> {
    let rowid = |restriction: &Restriction<'e>| {
        matches!(restriction.subject,
            Expr::Column { source: of, column: ROWID } if *of == source)
    };
    let equal = restrictions
        .iter()
        .find(|restriction| rowid(restriction) && restriction.op == RestrictionOp::Equal);
    if let Some(restriction) = equal {
        return Some(Path {
            kind: PathKind::RowidEqual(KeyExpr::Expr(restriction.value)),
            per_row: ROWID_SEEK * nearness(table.page_count()),
            used: vec![restriction.term],
            ..full_path(1.0)
        });
    }
    let each = restrictions
        .iter()
        .filter(|restriction| rowid(restriction))
        .find_map(|restriction| Some((restriction.each()?, restriction.term)));
    if let Some((each, term)) = each {
        return Some(Path {
            kind: PathKind::RowidEqual(KeyExpr::Each),
            per_row: each.values.cost() + ROWID_SEEK * each.values.count(),
            used: vec![term],
            each: Some(each),
            ..full_path(each.values.count())
        });
    }
    // The terms stay to be checked: a range is a cheap and safe superset.
    let Range { low, high, terms: _ } = range(restrictions, rowid);
    let guess = match (&low, &high) {
        (None, None) => return None,
        (Some(_), Some(_)) => RANGE,
        _ => 0.25,
    };
    let known = known_share(low, high, &|low, high| table.share(low, high));
    // A range is never worse than all rows.
    let rows = table_rows(table) * known.unwrap_or(guess).min(0.9);
    Some(Path {
        kind: PathKind::RowidRange { low, high },
        per_row: ROWID_SEEK + rows,
        ..full_path(rows)
    })
}

/// Tells which share of a tree's rows lies between two values.
type Share<'s> = &'s dyn Fn(Option<&Value>, Option<&Value>) -> Option<f64>;

/// The share of rows in a range whose ends are known.
pub(super) fn known_share(
    low: Option<End<'_>>,
    high: Option<End<'_>>,
    share: Share<'_>,
) -> Option<f64> {
    let value = |end: Option<End<'_>>| match end.map(|end| (end.value, end.affinity)) {
        None => Some(None),
        Some((Expr::Const(value), affinity)) => Some(Some(compared(value, affinity))),
        Some(_) => None,
    };
    let (low, high) = (value(low)?, value(high)?);
    share(low.as_ref(), high.as_ref())
}

/// A constant as a comparison with a column converts the constant.
pub(super) fn compared(value: &Value, affinity: Option<Affinity>) -> Value {
    match affinity {
        Some(affinity) => affinity.apply_for_comparison(value.clone()),
        None => value.clone(),
    }
}

/// An index, or the tree of a table without rowid, as a way to rows.
pub(super) struct IndexTree<'e, 's> {
    pub(super) number: Option<usize>,
    pub(super) columns: Vec<KeyColumn<'e>>,
    /// How many of the columns its definition names.
    pub(super) key_columns: usize,
    pub(super) unique: bool,
    /// The columns telling the table's rows apart, and their collations.
    pub(super) row_key: Vec<(usize, Option<Collation>)>,
    pub(super) rows: f64,
    pub(super) rows_per_key: &'s dyn Fn(usize) -> Option<f64>,
    /// How many rows have these first values of the key, where samples tell.
    pub(super) rows_equal: &'s dyn Fn(&[Value]) -> Option<f64>,
    /// Which share of the rows lies between two values of the first column.
    pub(super) share: Share<'s>,
    /// What a row costs that it finds, and one of those that have the whole key in common.
    pub(super) step: f64,
    pub(super) step_near: f64,
}

impl<'e> IndexTree<'e, '_> {
    /// How many rows have the constants of the key's first columns.
    fn rows_of(&self, equal: &[(KeyExpr<'e>, Option<Affinity>, NullKey)]) -> Option<f64> {
        let constant = |(key, affinity, _): &(KeyExpr<'e>, Option<Affinity>, NullKey)| {
            let KeyExpr::Expr(Expr::Const(value)) = key else { return None };
            Some(compared(value, *affinity))
        };
        let equal = equal.iter().take(self.key_columns);
        let key: Vec<Value> = equal.map(constant).collect::<Option<_>>()?;
        (self.rows_equal)(&key)
    }

    /// The way to the rows that meet the restrictions on the first columns; `None` without any.
    pub(super) fn path(
        &self,
        source: SourceId,
        restrictions: &[Restriction<'e>],
    ) -> Option<Path<'e>> {
        let fits = |restriction: &Restriction<'e>, key: &KeyColumn<'_>| {
            key.is(source, restriction.subject)
                && (restriction.op == RestrictionOp::IsNull
                    || (key.collation == Some(restriction.collation)
                        && affinity_fits(restriction.affinity, key.affinity)))
        };
        let mut equal = Vec::new();
        let mut used = Vec::new();
        let mut may_be_null = false;
        let mut each: Option<Each<'e>> = None;
        for key in &self.columns {
            let found = restrictions.iter().find(|restriction| {
                let equality = matches!(
                    restriction.op,
                    RestrictionOp::Equal | RestrictionOp::Is | RestrictionOp::IsNull
                );
                equality && fits(restriction, key)
            });
            // One `IN` may take the place of an equality: the keys are sought one after the other.
            let found = found.or_else(|| {
                let is_in = |restriction: &&Restriction<'e>| {
                    each.is_none() && restriction.op == RestrictionOp::In && fits(restriction, key)
                };
                restrictions.iter().find(is_in)
            });
            let Some(restriction) = found else { break };
            used.push(restriction.term);
            if let Some(values) = restriction.each() {
                each = Some(values);
                equal.push((KeyExpr::Each, None, NullKey::FindsNothing));
                continue;
            }
            let null = match restriction.op {
                RestrictionOp::IsNull | RestrictionOp::Is => NullKey::Finds,
                _ => NullKey::FindsNothing,
            };
            may_be_null |= null == NullKey::Finds;
            equal.push((KeyExpr::Expr(restriction.value), restriction.affinity, null));
        }
        let (low, high, ranged) = match self.columns.get(equal.len()) {
            Some(key) => {
                let Range { low, high, terms } = range(restrictions, |one| fits(one, key));
                (low, high, terms)
            }
            None => (None, None, Vec::new()),
        };
        if equal.is_empty() && low.is_none() && high.is_none() {
            return None;
        }
        let names_row = self.row_key.iter().all(|(column, collation)| {
            let mut known = self.columns.iter().take(equal.len());
            let is_alike = |key: &KeyColumn<'_>| *column == ROWID || key.collation == *collation;
            known.any(|key| key.column == Some(*column) && is_alike(key))
        });
        let names_row = names_row && !may_be_null;
        let is_key = self.unique && equal.len() >= self.key_columns && !may_be_null;
        let found_one = is_key || names_row;
        let mut rows = match equal.len() {
            0 => self.rows,
            _ if found_one => 1.0,
            count => match self
                .rows_of(&equal)
                .or_else(|| (self.rows_per_key)(count.min(self.key_columns)))
            {
                Some(rows) => rows,
                // Another equality leaves fewer rows, so a longer match of keys is preferred.
                None => self.rows.min(10.0 / count as f64 + 1.0),
            },
        };
        // One bound of another table's row says little; two are a window around the row.
        let is_column = |end: &End<'_>| matches!(end.value, Expr::Column { .. });
        let is_joined = low.is_some() != high.is_some() && low.iter().chain(&high).any(is_column);
        // The fewest rows that a range is guessed to leave.
        let (share, least) = match (&low, &high) {
            (None, None) => (1.0, 0.0),
            _ if is_joined => (1.0 / 3.0, 25.0),
            (Some(_), Some(_)) => (RANGE, 10.0),
            _ => (HALF_RANGE, 25.0),
        };
        rows = match (equal.is_empty(), known_share(low, high, self.share)) {
            (true, Some(known)) => rows * known,
            (true, None) => (rows * share).max(least),
            (false, _) => rows * share,
        };
        let (times, listed) =
            each.map_or((1.0, 0.0), |each| (each.values.count(), each.values.cost()));
        let rows = if found_one { 1.0 } else { rows.max(SOME) };
        let range_share = if equal.is_empty() || found_one || rows <= SOME { 1.0 } else { share };
        let whole = equal.len() >= self.key_columns && low.is_none() && high.is_none();
        let step = if whole { self.step_near } else { self.step };
        let seek = match equal.as_slice() {
            [(KeyExpr::Expr(Expr::Const(_) | Expr::Parameter(_)), ..), _, ..] => SEEK_TOGETHER,
            _ => SEEK,
        };
        Some(Path {
            kind: PathKind::Index { index: self.number, equal, low, high },
            per_row: listed + times * (seek + rows * step),
            used,
            ranged,
            range_share,
            each,
            ..full_path(times * rows)
        })
    }
}

/// True where a comparison under an affinity orders values as an index of such values does.
fn affinity_fits(compare: Option<Affinity>, held: Affinity) -> bool {
    match compare {
        None => true,
        Some(Affinity::Text) => held == Affinity::Text,
        Some(_) => held.is_numeric(),
    }
}
