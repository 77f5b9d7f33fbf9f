//! Ways to find the rows of one source: what each could use, and about what it costs.
//!
//! Costs are guesses in units of "one row stepped over", for tables of a fixed guessed size; they
//! only rank the ways of one query against each other.

use crate::resolve::tree::{
    CompareOp, Expr, IndexHint, Query, ROWID, Source, SourceId, SourceKind,
};
use crate::schema::{IndexSource, Table};
use crate::value::{Affinity, Collation};

use super::NullKey;

/// How many rows a table is taken to have.
const TABLE_ROWS: f64 = 1_000_000.0;
/// How many rows a query is taken to give.
const QUERY_ROWS: f64 = 10_000.0;

/// A set of a select's sources, by their places in its list.
pub(super) type Sources = u64;

/// A condition of a select and the sources it reads.
#[derive(Debug)]
pub(super) struct Term<'e> {
    pub(super) expr: &'e Expr,
    pub(super) reads: Sources,
    /// The outer join whose `ON` it belongs to, by its source's place.
    pub(super) on: Option<usize>,
    /// The first source at which it may be met: not before a join that keeps the rows of its right
    /// side, and so may leave every source before it without a row.
    pub(super) from: usize,
}

/// One way to find rows.
#[derive(Debug)]
pub(super) struct Path<'e> {
    pub(super) kind: PathKind<'e>,
    /// Paid once.
    pub(super) fixed: f64,
    /// Paid for every row of the sources before.
    pub(super) per_row: f64,
    /// Rows found for each of those.
    pub(super) rows: f64,
    /// The terms that the path makes sure of.
    pub(super) used: Vec<usize>,
    /// The values that [`KeyExpr::Each`] stands for, one after the other.
    pub(super) each: Option<Each<'e>>,
}

/// What a key column must be equal to.
#[derive(Clone, Copy, Debug)]
pub(super) enum KeyExpr<'e> {
    Expr(&'e Expr),
    /// Each of the values of an `IN`.
    Each,
}

/// The right side of an `IN`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Each<'e> {
    pub(super) values: EachValues<'e>,
    pub(super) affinity: Option<Affinity>,
    pub(super) collation: Collation,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum EachValues<'e> {
    List(&'e [Expr]),
    /// A query that depends on no row.
    Query(&'e Query),
}

impl EachValues<'_> {
    /// How many values there are taken to be.
    fn count(&self) -> f64 {
        match self {
            EachValues::List(list) => list.len() as f64,
            EachValues::Query(_) => 25.0,
        }
    }
}

#[derive(Debug)]
pub(super) enum PathKind<'e> {
    /// Every row.
    Full,
    RowidEqual(KeyExpr<'e>),
    RowidRange {
        low: Option<End<'e>>,
        high: Option<End<'e>>,
    },
    Index {
        /// `None` is the b-tree of a table without rowid.
        index: Option<usize>,
        equal: Vec<(KeyExpr<'e>, Option<Affinity>, NullKey)>,
        low: Option<End<'e>>,
        high: Option<End<'e>>,
    },
    /// The terms by which rows are hashed; none keeps the rows to be walked again.
    Hash(Vec<Equality<'e>>),
}

/// One end of a range.
#[derive(Clone, Copy, Debug)]
pub(super) struct End<'e> {
    pub(super) value: &'e Expr,
    pub(super) inclusive: bool,
    pub(super) affinity: Option<Affinity>,
}

/// Two expressions that must be equal: one of the source's row, one of what is known before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Equality<'e> {
    pub(super) own: &'e Expr,
    pub(super) other: &'e Expr,
    pub(super) affinity: Option<Affinity>,
    pub(super) collation: Collation,
}

/// What a term says about one column of the source.
#[derive(Clone, Copy, Debug)]
struct Restriction<'e> {
    term: usize,
    column: usize,
    op: RestrictionOp,
    value: &'e Expr,
    each: Option<EachValues<'e>>,
    affinity: Option<Affinity>,
    collation: Collation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RestrictionOp {
    Equal,
    IsNull,
    In,
    Low { inclusive: bool },
    High { inclusive: bool },
}

/// A column of an index as the planner sees it.
struct KeyColumn {
    column: Option<usize>,
    collation: Option<Collation>,
}

/// The best way to find rows of the source at `place` when those in `known` were read before and
/// gave about `outer_rows` combinations.
pub(super) fn best<'e>(
    sources: &'e [Source],
    terms: &[Term<'e>],
    place: usize,
    known: Sources,
    outer_rows: f64,
) -> Path<'e> {
    let source = &sources[place];
    let usable = |term: &Term<'_>| {
        let here = known | 1 << place;
        let own = match term.on {
            Some(on) => on == place,
            None => !source.keeps_left() && !source.keeps_right() && term.from <= place,
        };
        own && term.reads & 1 << place != 0 && term.reads & !here == 0
    };
    let usable: Vec<usize> = (0..terms.len()).filter(|&index| usable(&terms[index])).collect();
    let mut path = match &source.kind {
        // What stays without a match is known once all rows were kept and marked.
        _ if source.keeps_right() => hash_path(sources, terms, &usable, place, TABLE_ROWS),
        SourceKind::Table(table) => {
            table_path(sources, table, terms, &usable, place, known, outer_rows)
        }
        // One row, or rows that the arguments make: there is nothing to look up.
        SourceKind::Taken(_) => full_path(1.0),
        SourceKind::Function { .. } => full_path(25.0),
        SourceKind::Query(_) if known == 0 => Path {
            kind: PathKind::Full,
            fixed: 0.0,
            per_row: QUERY_ROWS,
            rows: QUERY_ROWS,
            used: Vec::new(),
            each: None,
        },
        SourceKind::Query(_) => hash_path(sources, terms, &usable, place, QUERY_ROWS),
    };
    for index in usable {
        if !path.used.contains(&index) {
            path.rows *= selectivity(terms[index].expr);
        }
    }
    path.rows = path.rows.max(1.0);
    path
}

fn full_path<'e>(rows: f64) -> Path<'e> {
    Path { kind: PathKind::Full, fixed: 0.0, per_row: rows, rows, used: Vec::new(), each: None }
}

/// The share of rows that a condition is guessed to leave.
fn selectivity(expr: &Expr) -> f64 {
    match expr {
        Expr::Compare(rule, ..) if rule.op == CompareOp::Equal => 0.1,
        _ => 0.5,
    }
}

fn table_path<'e>(
    sources: &'e [Source],
    table: &'e Table,
    terms: &[Term<'e>],
    usable: &[usize],
    place: usize,
    known: Sources,
    outer_rows: f64,
) -> Path<'e> {
    let source = &sources[place];
    let mut best = Path {
        kind: PathKind::Full,
        fixed: 0.0,
        per_row: TABLE_ROWS,
        rows: TABLE_ROWS,
        used: Vec::new(),
        each: None,
    };
    let mut consider = |path: Path<'e>| {
        let cost = |path: &Path<'_>| path.fixed + outer_rows * path.per_row;
        if cost(&path) < cost(&best) {
            best = path;
        }
    };
    let restrictions = restrictions(source.id, terms, usable);
    if table.without_rowid {
        let columns: Vec<KeyColumn> = table
            .primary_key
            .iter()
            .map(|part| KeyColumn {
                column: Some(part.column),
                collation: part.collation.as_ref().ok().copied(),
            })
            .collect();
        if let Some(path) = index_path(table, None, &columns, columns.len(), true, &restrictions) {
            consider(path);
        }
    } else if matches!(source.index_hint, IndexHint::Any | IndexHint::None)
        && let Some(path) = rowid_path(&restrictions)
    {
        consider(path);
    }
    for (number, index) in table.indexes.iter().enumerate() {
        let allowed = match &source.index_hint {
            IndexHint::Any => true,
            IndexHint::None => false,
            IndexHint::Only(name) => index.name.eq_ignore_ascii_case(name),
        };
        // The index that is the table itself was considered above.
        let own_tree = table.without_rowid && index.root == table.root;
        if !allowed || own_tree || index.is_partial() || !index.has_known_order() {
            continue;
        }
        let columns: Vec<KeyColumn> = index
            .columns
            .iter()
            .map(|column| KeyColumn {
                column: match column.source {
                    IndexSource::Column(column) if table.rowid_alias == Some(column) => Some(ROWID),
                    IndexSource::Column(column) => Some(column),
                    IndexSource::Rowid => Some(ROWID),
                    IndexSource::Expr(_) => None,
                },
                collation: column.collation.as_ref().ok().copied(),
            })
            .collect();
        let path = index_path(
            table,
            Some(number),
            &columns,
            index.key_columns,
            index.unique,
            &restrictions,
        );
        if let Some(path) = path {
            consider(path);
        }
    }
    if known != 0 {
        let hash = hash_path(sources, terms, usable, place, TABLE_ROWS);
        // Rows kept without a key are no better than the table itself.
        if matches!(&hash.kind, PathKind::Hash(keys) if !keys.is_empty()) {
            consider(hash);
        }
    }
    best
}

/// What the terms say about single columns of the source.
fn restrictions<'e>(
    source: SourceId,
    terms: &[Term<'e>],
    usable: &[usize],
) -> Vec<Restriction<'e>> {
    let mut out = Vec::new();
    let own = |expr: &Expr| match expr {
        Expr::Column { source: of, column } if *of == source => Some(*column),
        _ => None,
    };
    let free = |expr: &Expr| !reads(expr, source);
    for &term in usable {
        match terms[term].expr {
            Expr::Compare(rule, left, right) => {
                for (side, other, op) in [(left, right, rule.op), (right, left, rule.op.flipped())]
                {
                    let Some(column) = own(side).filter(|_| free(other)) else { continue };
                    let op = match op {
                        CompareOp::Equal => RestrictionOp::Equal,
                        CompareOp::Less => RestrictionOp::High { inclusive: false },
                        CompareOp::LessEqual => RestrictionOp::High { inclusive: true },
                        CompareOp::Greater => RestrictionOp::Low { inclusive: false },
                        CompareOp::GreaterEqual => RestrictionOp::Low { inclusive: true },
                        CompareOp::NotEqual | CompareOp::Is | CompareOp::IsNot => continue,
                    };
                    out.push(Restriction {
                        term,
                        column,
                        op,
                        value: other,
                        each: None,
                        affinity: rule.affinity,
                        collation: rule.collation,
                    });
                }
            }
            Expr::Between { expr, not: false, low, high } => {
                let Some(column) = own(expr) else { continue };
                let ends = [
                    (low, RestrictionOp::Low { inclusive: true }),
                    (high, RestrictionOp::High { inclusive: true }),
                ];
                for ((rule, value), op) in ends {
                    if free(value) {
                        out.push(Restriction {
                            term,
                            column,
                            op,
                            value,
                            each: None,
                            affinity: rule.affinity,
                            collation: rule.collation,
                        });
                    }
                }
            }
            Expr::IsNull { expr, not: false } => {
                if let Some(column) = own(expr) {
                    out.push(Restriction {
                        term,
                        column,
                        op: RestrictionOp::IsNull,
                        value: &NULL,
                        each: None,
                        affinity: None,
                        collation: Collation::Binary,
                    });
                }
            }
            Expr::InList { expr, not: false, list, affinity, collation } => {
                if let Some(column) = own(expr)
                    && list.iter().all(free)
                {
                    out.push(Restriction {
                        term,
                        column,
                        op: RestrictionOp::In,
                        value: &NULL,
                        each: Some(EachValues::List(list)),
                        affinity: *affinity,
                        collation: *collation,
                    });
                }
            }
            Expr::InQuery { expr, not: false, query, affinity, collation } => {
                if let Some(column) = own(expr)
                    && !query.correlated
                {
                    out.push(Restriction {
                        term,
                        column,
                        op: RestrictionOp::In,
                        value: &NULL,
                        each: Some(EachValues::Query(query)),
                        affinity: *affinity,
                        collation: *collation,
                    });
                }
            }
            _ => {}
        }
    }
    out
}

const NULL: Expr = Expr::Const(crate::value::Value::Null);

fn reads(expr: &Expr, source: SourceId) -> bool {
    let mut found = false;
    expr.columns(&mut |of, _| found |= of == source);
    found
}

impl<'e> Restriction<'e> {
    fn each(&self) -> Option<Each<'e>> {
        let (affinity, collation) = (self.affinity, self.collation);
        self.each.map(|values| Each { values, affinity, collation })
    }
}

fn end<'e>(restriction: &Restriction<'e>, inclusive: bool) -> End<'e> {
    End { value: restriction.value, inclusive, affinity: restriction.affinity }
}

/// The lower and upper end that the restrictions put on one column, and their terms.
fn ends<'e>(
    restrictions: &[Restriction<'e>],
    fits: impl Fn(&Restriction<'e>) -> bool,
) -> (Option<End<'e>>, Option<End<'e>>) {
    let mut low = None;
    let mut high = None;
    for restriction in restrictions.iter().filter(|restriction| fits(restriction)) {
        match restriction.op {
            RestrictionOp::Low { inclusive } if low.is_none() => {
                low = Some(end(restriction, inclusive));
            }
            RestrictionOp::High { inclusive } if high.is_none() => {
                high = Some(end(restriction, inclusive));
            }
            _ => {}
        }
    }
    (low, high)
}

fn rowid_path<'e>(restrictions: &[Restriction<'e>]) -> Option<Path<'e>> {
    let rowid = |restriction: &Restriction<'e>| restriction.column == ROWID;
    let equal = restrictions
        .iter()
        .find(|restriction| rowid(restriction) && restriction.op == RestrictionOp::Equal);
    if let Some(restriction) = equal {
        return Some(Path {
            kind: PathKind::RowidEqual(KeyExpr::Expr(restriction.value)),
            fixed: 0.0,
            per_row: 10.0,
            rows: 1.0,
            used: vec![restriction.term],
            each: None,
        });
    }
    let each = restrictions
        .iter()
        .filter(|restriction| rowid(restriction))
        .find_map(|restriction| Some((restriction.each()?, restriction.term)));
    if let Some((each, term)) = each {
        return Some(Path {
            kind: PathKind::RowidEqual(KeyExpr::Each),
            fixed: 0.0,
            per_row: 10.0 * each.values.count(),
            rows: each.values.count(),
            used: vec![term],
            each: Some(each),
        });
    }
    let (low, high) = ends(restrictions, rowid);
    let share = match (&low, &high) {
        (None, None) => return None,
        (Some(_), Some(_)) => 1.0 / 64.0,
        _ => 0.25,
    };
    let rows = TABLE_ROWS * share;
    // The terms stay to be checked: a range is a cheap and safe superset.
    Some(Path {
        kind: PathKind::RowidRange { low, high },
        fixed: 0.0,
        per_row: 10.0 + rows,
        rows,
        used: Vec::new(),
        each: None,
    })
}

fn index_path<'e>(
    table: &Table,
    index: Option<usize>,
    columns: &[KeyColumn],
    key_columns: usize,
    unique: bool,
    restrictions: &[Restriction<'e>],
) -> Option<Path<'e>> {
    let fits = |restriction: &Restriction<'e>, key: &KeyColumn| {
        let Some(column) = key.column else { return false };
        restriction.column == column
            && (restriction.op == RestrictionOp::IsNull
                || (key.collation == Some(restriction.collation)
                    && affinity_fits(restriction.affinity, column_affinity(table, column))))
    };
    let mut equal = Vec::new();
    let mut used = Vec::new();
    let mut may_be_null = false;
    let mut each: Option<Each<'e>> = None;
    for key in columns {
        let found = restrictions.iter().find(|restriction| {
            matches!(restriction.op, RestrictionOp::Equal | RestrictionOp::IsNull)
                && fits(restriction, key)
        });
        // One `IN` may take the place of an equality: the keys are sought one after the other.
        let found = found.or_else(|| {
            let is_in = |restriction: &&Restriction<'e>| {
                each.is_none() && restriction.op == RestrictionOp::In && fits(restriction, key)
            };
            restrictions.iter().find(is_in)
        });
        let Some(restriction) = found else { break };
        if let Some(values) = restriction.each() {
            each = Some(values);
            equal.push((KeyExpr::Each, None, NullKey::FindsNothing));
            used.push(restriction.term);
            continue;
        }
        let null = match restriction.op {
            RestrictionOp::IsNull => NullKey::Finds,
            _ => NullKey::FindsNothing,
        };
        may_be_null |= null == NullKey::Finds;
        equal.push((KeyExpr::Expr(restriction.value), restriction.affinity, null));
        used.push(restriction.term);
    }
    let (low, high) = match columns.get(equal.len()) {
        Some(key) => ends(restrictions, |restriction| fits(restriction, key)),
        None => (None, None),
    };
    if equal.is_empty() && low.is_none() && high.is_none() {
        return None;
    }
    let found_one = unique && equal.len() >= key_columns && !may_be_null;
    let mut rows = match equal.len() {
        0 => TABLE_ROWS,
        _ if found_one => 1.0,
        // Another equality leaves fewer rows, so a longer match of keys is preferred.
        count => 10.0 / count as f64 + 1.0,
    };
    rows *= match (&low, &high) {
        (None, None) => 1.0,
        (Some(_), Some(_)) => 1.0 / 64.0,
        _ => 0.25,
    };
    let times = each.map_or(1.0, |each| each.values.count());
    let rows = rows.max(1.0);
    let step = if index.is_some() { 3.0 } else { 1.0 };
    let lookup = if index.is_some() { 15.0 } else { 10.0 };
    Some(Path {
        kind: PathKind::Index { index, equal, low, high },
        fixed: 0.0,
        per_row: times * (lookup + rows * step),
        rows: times * rows,
        used,
        each,
    })
}

fn column_affinity(table: &Table, column: usize) -> Affinity {
    table.columns.get(column).map_or(Affinity::Integer, |column| column.affinity)
}

/// Whether a comparison under an affinity orders values as an index of a column does.
fn affinity_fits(compare: Option<Affinity>, column: Affinity) -> bool {
    match compare {
        None => true,
        Some(Affinity::Text) => column == Affinity::Text,
        Some(_) => column.is_numeric(),
    }
}

fn hash_path<'e>(
    sources: &[Source],
    terms: &[Term<'e>],
    usable: &[usize],
    place: usize,
    rows: f64,
) -> Path<'e> {
    let own: Sources = 1 << place;
    let mut keys = Vec::new();
    let mut used = Vec::new();
    for &index in usable {
        let term = &terms[index];
        // Both sides must be told apart by the sources they read.
        if let Expr::Compare(rule, left, right) = term.expr
            && rule.op == CompareOp::Equal
            && term.reads != own
        {
            let sides = [(left, right), (right, left)];
            let split = sides.into_iter().find(|(mine, other)| {
                reads_of(mine, sources) == own && reads_of(other, sources) & own == 0
            });
            if let Some((own, other)) = split {
                let (affinity, collation) = (rule.affinity, rule.collation);
                keys.push(Equality { own, other, affinity, collation });
                used.push(index);
            }
        }
    }
    let (per_row, found) = if keys.is_empty() { (rows, rows) } else { (42.0, 10.0) };
    let fixed = rows * 10.0;
    Path { kind: PathKind::Hash(keys), fixed, per_row, rows: found, used, each: None }
}

/// The sources of the list that an expression reads.
pub(super) fn reads_of(expr: &Expr, sources: &[Source]) -> Sources {
    let mut out = 0;
    expr.columns(&mut |source, _| {
        if let Some(place) = sources.iter().position(|known| known.id == source) {
            out |= 1 << place;
        }
    });
    out
}
