//! Ways to find the rows of one source: what each could use, and about what it costs
//! ([`super::cost`]). Rows are counted by [`crate::schema::stats`], and guessed where nobody
//! looked.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::cost::{
    COMPUTED, CORRELATED, ENTRY, ENTRY_WALKED, Estimates, HASH_FOUND, HASH_KEEP, HASH_PROBE,
    KEY_ASKED, KEYED_FOUND, KEYED_KEEP, KEYED_PROBE, KEYED_SETUP, LOOKUP, LOOKUP_FAR, LOOKUP_NEAR,
    PAGE, RANGE, ROWID_NEAR, SEEK, distinct, distinct_of, nearness, row_step,
};
use super::keyed::{IndexTree, key_columns, row_key, rowid_path};
use super::query_rows::{MODULE_ROWS, query_rows};
use super::restrict::{Each, End, Prefix, Restriction, rejects_null, restrict, split};
use super::virtual_table::VirtualPath;
use super::{Learned, NullKey};
use crate::Error;
use crate::resolve::tree::{Expr, IndexHint, ROWID, Source, SourceId, SourceKind};
use crate::schema::{Index, IndexOrder, IndexSource, Table};
use crate::session::forced::{Forced, ForcedAccess, ForcedJoin};
use crate::value::{Affinity, Collation, CompareOp, Value};

/// How many rows a table is taken to have.
const TABLE_ROWS: f64 = 1_000_000.0;
/// Plans outlive what was counted for them, so that no table is taken to be smaller.
const TABLE_ROWS_MIN: f64 = 200.0;
/// How many rows a query is taken to give.
pub(super) const QUERY_ROWS: f64 = 10_000.0;

/// Fewest rows of the scan for each row of the table whose keys are gathered.
pub(super) const KEY_SET_ROWS_EACH: f64 = 3.0;

/// Largest share of rows expected to pass a key set.
pub(super) const KEY_SET_SHARE_MAX: f64 = 0.7;

/// Most tables in a row whose rowids name rows of the next.
const CHAIN_MAX: usize = 4;

/// The fewest rows that a way is guessed to find where it may find several.
pub(super) const SOME: f64 = 1.1;

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
    /// What it says as a range of texts.
    pub(super) prefix: Option<Box<Prefix<'e>>>,
}

/// A select as the search for its plan sees it.
pub(super) struct Frame<'e> {
    pub(super) sources: &'e [Source],
    pub(super) terms: &'e [Term<'e>],
    /// For each source the columns that anything reads.
    pub(super) needed: Vec<Vec<usize>>,
    pub(super) forced: Forced,
    /// About how often the select runs, where rows kept by one run serve the next: one within an
    /// expression depending on the rows around.
    pub(super) runs: f64,
    /// True where rows may be kept for all runs.
    pub(super) keeps_rows: bool,
    pub(super) estimates: Estimates,
    /// The ways found before: most orders of a join ask for the same ones.
    pub(super) known_paths: KnownPaths<'e>,
    /// The order asked of the rows of a virtual table read alone.
    pub(super) order: Vec<IndexOrder>,
    /// The error of a virtual table refusing conditions.
    pub(super) failed: RefCell<Option<Error>>,
    /// Sources, and how many times more of their joined rows there are than the estimates tell.
    pub(super) learned: Vec<(Sources, f64)>,
    /// Tables of the selects around, whose rows conditions may name.
    pub(super) around: Vec<(SourceId, Arc<Table>)>,
}

/// Ways by the place of their source, the sources before read by conditions, and whether
/// there is a source before at all.
pub(super) type KnownPaths<'e> = RefCell<FxHashMap<(usize, Sources, bool), Rc<[Path<'e>]>>>;

/// One way to find rows.
#[derive(Clone, Debug)]
pub(super) struct Path<'e> {
    pub(super) kind: PathKind<'e>,
    /// Paid once.
    pub(super) fixed: f64,
    /// Paid for every row of the sources before.
    pub(super) per_row: f64,
    /// Rows found for each of those.
    pub(super) rows: f64,
    /// The terms met by every row of the path for its equalities.
    pub(super) used: Vec<usize>,
    /// The terms met for the range of an index.
    pub(super) ranged: Vec<usize>,
    /// The share of rows with the equal columns that the range is counted to leave.
    pub(super) range_share: f64,
    /// The values that [`KeyExpr::Each`] stands for, one after the other.
    pub(super) each: Option<Each<'e>>,
    /// Set where the rowids left by the conditions on the table may be gathered first.
    pub(super) key_set: Option<KeySetCost>,
    /// A source naming the rows looked up in ascending order, where the source is read first, and
    /// the cost of each row then.
    pub(super) ascending: Option<(SourceId, f64)>,
}

/// The worth of gathering a table's rowids before a scan.
#[derive(Clone, Debug)]
pub(super) struct KeySetCost {
    /// The sources a scan of which is asked: the one whose column names the rowids, and those whose
    /// columns name rowids of that in turn.
    by: Vec<SourceId>,
    rows: f64,
    /// The share of rowids left.
    share: f64,
    /// The cost of gathering.
    gathering: f64,
}

/// What a key column must be equal to.
#[derive(Clone, Copy, Debug)]
pub(super) enum KeyExpr<'e> {
    Expr(&'e Expr),
    /// Each of the values of an `IN`.
    Each,
}

#[derive(Clone, Debug)]
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
    /// Rows that any of some ways finds, each once.
    Any {
        arms: Vec<Path<'e>>,
        /// True where the arms are the texts and the blobs that one pattern may match.
        prefix: bool,
    },
    /// Rows that all of some ways find. The rowids of each but the first ascend.
    All(Vec<Path<'e>>),
    /// The choice of a virtual table.
    Virtual(VirtualPath<'e>),
}

/// Two expressions that must be equal: one of the source's row, one of what is known before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Equality<'e> {
    pub(super) own: &'e Expr,
    pub(super) other: &'e Expr,
    pub(super) affinity: Option<Affinity>,
    pub(super) collation: Collation,
    /// True where equal keys only may be equal: the comparison is asked once more.
    pub(super) near: bool,
}

impl Equality<'_> {
    /// True where both sides are columns, and equal keys are equal.
    fn is_plain(&self) -> bool {
        let is_column = |expr: &Expr| matches!(expr, Expr::Column { .. });
        !self.near && is_column(self.own) && is_column(self.other)
    }

    /// The source's column, where its side is one.
    fn own_column(&self) -> Option<usize> {
        match self.own {
            Expr::Column { column, .. } => Some(*column),
            _ => None,
        }
    }
}

impl Path<'_> {
    /// The cost for so many rows of the sources before, of which `first` is read first.
    pub(super) fn cost(&self, outer_rows: f64, first: Option<SourceId>) -> f64 {
        // Less than one row is an estimate like others, and later sources cost something.
        let times = outer_rows.max(1.0);
        let is_asked = |set: &&KeySetCost| first.is_some_and(|first| set.by.contains(&first));
        let per_row = match self.ascending {
            Some((by, per_row)) if first == Some(by) => per_row,
            _ => self.per_row,
        };
        match self.key_set.as_ref().filter(is_asked) {
            Some(set) if times >= KEY_SET_ROWS_EACH * set.rows => {
                let asked = KEY_ASKED + set.share * per_row;
                self.fixed + (set.gathering + times * asked).min(times * per_row)
            }
            _ => self.fixed + times * per_row,
        }
    }

    /// True where it seeks what is neither a column nor known before.
    fn has_computed_key(&self) -> bool {
        let is_computed = |key: &KeyExpr<'_>| match key {
            KeyExpr::Expr(expr) => {
                !matches!(expr, Expr::Column { .. } | Expr::Const(_) | Expr::Parameter(_))
            }
            KeyExpr::Each => true,
        };
        match &self.kind {
            PathKind::RowidEqual(key) => is_computed(key),
            PathKind::Index { equal, .. } => equal.iter().any(|(key, ..)| is_computed(key)),
            PathKind::Any { .. } => true,
            PathKind::Full
            | PathKind::RowidRange { .. }
            | PathKind::Hash(_)
            | PathKind::All(_)
            | PathKind::Virtual(_) => false,
        }
    }
}

/// The best way to find rows of the source at `place` when those in `known` were read before, that
/// at `first` before the others, and gave about `outer_rows` combinations.
pub(super) fn best<'e>(
    frame: &Frame<'e>,
    place: usize,
    known: Sources,
    (outer_rows, first): (f64, Option<usize>),
) -> Path<'e> {
    let (paths, number) = frame.cheapest(place, known, (outer_rows, first));
    paths.get(number).cloned().unwrap_or_else(|| full_path(TABLE_ROWS))
}

pub(super) fn full_path<'e>(rows: f64) -> Path<'e> {
    Path {
        kind: PathKind::Full,
        fixed: 0.0,
        per_row: rows,
        rows,
        used: Vec::new(),
        ranged: Vec::new(),
        range_share: 1.0,
        each: None,
        key_set: None,
        ascending: None,
    }
}

/// The share of rows that a condition is guessed to leave.
fn selectivity(expr: &Expr) -> f64 {
    match expr {
        Expr::Compare(rule, ..) if rule.op == CompareOp::Equal => 0.1,
        Expr::Call { function, .. } if function.pattern().is_some() => 0.1,
        _ => 0.5,
    }
}

/// About how many rows a table has.
pub(super) fn table_rows(table: &Table) -> f64 {
    table.row_count().map_or(TABLE_ROWS, |rows| rows.max(TABLE_ROWS_MIN))
}

/// The lessons of earlier runs about these sources: sets of places, and how many times more rows
/// there are than estimated.
pub(super) fn learned(learned: &[Learned], sources: &[Source]) -> Vec<(Sources, f64)> {
    let of = |learned: &Learned| {
        let place = |id: &SourceId| sources.iter().position(|source| source.id == *id);
        let places = learned.sources.iter().map(|id| place(id).map(|place| 1 << place));
        let all = places.reduce(|all, one| Some(all? | one?)).flatten()?;
        Some((all, learned.factor))
    };
    learned.iter().filter_map(of).collect()
}

impl<'e> Frame<'e> {
    /// How many times more rows there are than estimated, by the lessons about sources all read in
    /// `after`, and not yet all in `before`.
    pub(super) fn learned(&self, before: Sources, after: Sources) -> f64 {
        let is_new = |set: Sources| set & !after == 0 && set & !before != 0;
        self.learned.iter().filter(|(set, _)| is_new(*set)).map(|(_, factor)| factor).product()
    }

    /// The ways to rows of the source at `place`, and the number of the best.
    pub(super) fn cheapest(
        &self,
        place: usize,
        known: Sources,
        (outer_rows, first): (f64, Option<usize>),
    ) -> (Rc<[Path<'e>]>, usize) {
        let paths = self.paths(place, known);
        let first = first.map(|first| self.sources[first].id);
        let cost = |path: &Path<'_>| path.cost(outer_rows, first);
        // Rows kept by a key are found in a time that does not grow with the table, where a walk
        // for each of several rows before would.
        let keyed =
            |path: &Path<'_>| matches!(&path.kind, PathKind::Hash(keys) if !keys.is_empty());
        let no_walk = outer_rows > 1.0 && paths.iter().any(keyed);
        let mut best: Option<usize> = None;
        // Of equal costs the first is taken.
        for (number, path) in paths.iter().enumerate() {
            let fits = !(no_walk && is_walk(&path.kind));
            if fits && best.is_none_or(|best| cost(path) < cost(&paths[best])) {
                best = Some(number);
            }
        }
        (paths, best.unwrap_or(usize::MAX))
    }

    /// Every way that could be the best to find rows of the source at `place`.
    pub(super) fn paths(&self, place: usize, known: Sources) -> Rc<[Path<'e>]> {
        let near = self.terms.iter().filter(|term| term.reads & 1 << place != 0);
        let near = near.fold(0, |near, term| near | term.reads);
        let key = (place, known & near, known == 0);
        if let Some(paths) = self.known_paths.borrow().get(&key) {
            return Rc::clone(paths);
        }
        let paths: Rc<[Path<'e>]> = self.find_paths(place, known).into();
        self.known_paths.borrow_mut().insert(key, Rc::clone(&paths));
        paths
    }

    fn find_paths(&self, place: usize, known: Sources) -> Vec<Path<'e>> {
        let source = &self.sources[place];
        let usable = |term: &Term<'_>| {
            let here = known | 1 << place;
            let own = match term.on {
                Some(on) => on == place,
                None => !source.keeps_left() && !source.keeps_right() && term.from <= place,
            };
            own && term.reads & 1 << place != 0 && term.reads & !here == 0
        };
        let usable: Vec<usize> =
            (0..self.terms.len()).filter(|&index| usable(&self.terms[index])).collect();
        let mut paths = match &source.kind {
            SourceKind::Table(table) if source.keeps_right() => {
                self.right_paths(table, &usable, place, known)
            }
            // What stays without a match is known once all rows were kept and marked.
            SourceKind::Query(query) if source.keeps_right() => {
                vec![self.hash_path(&usable, place, query_rows(query), 0.0)]
            }
            _ if source.keeps_right() => vec![self.hash_path(&usable, place, QUERY_ROWS, 0.0)],
            SourceKind::Table(table) => self.table_paths(table, &usable, place, known),
            // One row, or rows that the arguments make: there is nothing to look up.
            SourceKind::Taken(_) => vec![full_path(1.0)],
            SourceKind::Module { .. } => vec![full_path(MODULE_ROWS)],
            SourceKind::Virtual(source) => self.virtual_paths(source, &usable, place),
            SourceKind::Query(query) if known == 0 => vec![full_path(query_rows(query))],
            SourceKind::Query(query) => {
                vec![self.hash_path(&usable, place, query_rows(query), 0.0)]
            }
        };
        for path in &mut paths {
            self.use_classes(&usable, path);
            self.price_absent_keys(place, path);
        }
        if self.sources.len() > 1 || self.estimates.have_samples() {
            self.believe_samples(place, &mut paths);
            let rows = self.rows_found(&usable, place, &paths);
            for path in &mut paths {
                if let PathKind::Hash(keys) = &path.kind {
                    path.per_row = self.hash_costs(place, keys, rows.max(0.1)).1;
                }
                path.rows = rows;
            }
            self.spread(place, known, &mut paths);
            self.price_key_sets(place, &mut paths);
            self.price_ascending(&mut paths);
            self.keep_forced(known, &mut paths);
            return paths;
        }
        self.spread(place, known, &mut paths);
        self.keep_forced(known, &mut paths);
        for path in &mut paths {
            // One row for sure, or about one.
            let least = if path.rows > 1.0 { SOME } else { 1.0 };
            path.rows *= self.held_of(place, path);
            for &index in &usable {
                if !path.used.contains(&index) {
                    path.rows *= selectivity(self.terms[index].expr);
                }
            }
            path.rows = path.rows.max(least);
        }
        paths
    }

    /// Spreads the cost of keeping a table's rows over all runs: rows are kept once. An index needs
    /// no memory, and results of runs may be kept.
    fn spread(&self, place: usize, known: Sources, paths: &mut [Path<'e>]) {
        let source = &self.sources[place];
        let is_kept = known == 0 || matches!(source.kind, SourceKind::Table(_));
        if !is_kept || self.runs <= 1.0 || source.keeps_right() {
            return;
        }
        for path in paths.iter_mut().filter(|path| matches!(path.kind, PathKind::Hash(_))) {
            let each = CORRELATED * std::mem::take(&mut path.fixed) / self.runs;
            match known {
                0 => path.per_row += each,
                _ => path.fixed = each,
            }
        }
    }

    /// Notes lookups by rowids in ascending order: rowids named by the first column of the key of
    /// a source read first.
    fn price_ascending(&self, paths: &mut [Path<'e>]) {
        for path in paths {
            let PathKind::RowidEqual(KeyExpr::Expr(Expr::Column { source: by, column })) =
                &path.kind
            else {
                continue;
            };
            let source = self.sources.iter().find(|source| source.id == *by);
            let Some(SourceKind::Table(table)) = source.map(|source| &source.kind) else {
                continue;
            };
            let is_order = match table.without_rowid {
                true => table.primary_key.first().is_some_and(|part| part.column == *column),
                false => *column == ROWID,
            };
            if is_order {
                path.ascending = Some((*by, ROWID_NEAR.min(path.per_row)));
            }
        }
    }

    /// Notes of lookups by rowid what it is worth to gather the rowids left by conditions before.
    fn price_key_sets(&self, place: usize, paths: &mut [Path<'e>]) {
        let source = &self.sources[place];
        let SourceKind::Table(table) = &source.kind else { return };
        if source.keeps_left() || source.keeps_right() {
            return;
        }
        for path in paths {
            let PathKind::RowidEqual(KeyExpr::Expr(Expr::Column { source: by, .. })) = &path.kind
            else {
                continue;
            };
            let share = self.share_of_chain(place, 0);
            if share < KEY_SET_SHARE_MAX {
                let rows = table_rows(table);
                let gathering = rows * row_step(table);
                let mut by = vec![*by];
                let mut at = 0;
                while let Some(&named) = by.get(at) {
                    at += 1;
                    for (source, key) in self.rowid_joins() {
                        if key == named && !by.contains(&source) {
                            by.push(source);
                        }
                    }
                }
                path.key_set = Some(KeySetCost { by, rows, share, gathering });
            }
        }
    }

    /// The share of a table's rows left by its conditions, and by those of tables whose rows it
    /// names by rowid, in turn.
    fn share_of_chain(&self, place: usize, depth: usize) -> f64 {
        let own: Sources = 1 << place;
        let alone = (0..self.terms.len()).filter(|&term| {
            let term = &self.terms[term];
            term.reads == own && term.on.is_none() && !term.expr.runs_query()
        });
        let mut share = self.estimates.share(self.sources, self.terms, place, alone);
        if depth < self.sources.len().min(CHAIN_MAX) {
            for (source, key) in self.rowid_joins() {
                let named = self.sources.iter().position(|known| known.id == key);
                if let Some(named) = named.filter(|_| source == self.sources[place].id) {
                    share *= self.share_of_chain(named, depth + 1);
                }
            }
        }
        share
    }

    /// The equalities of a column with a rowid, by the sources of both.
    fn rowid_joins(&self) -> impl Iterator<Item = (SourceId, SourceId)> {
        self.terms.iter().filter(|term| term.on.is_none()).filter_map(|term| {
            let Expr::Compare(rule, left, right) = term.expr else { return None };
            match (&**left, &**right) {
                _ if rule.op != CompareOp::Equal => None,
                (Expr::Column { source, column }, Expr::Column { source: key, column: ROWID })
                | (Expr::Column { source: key, column: ROWID }, Expr::Column { source, column })
                    if *column != ROWID && source != key =>
                {
                    Some((*source, *key))
                }
                _ => None,
            }
        })
    }

    /// Makes a way sure of all equalities following from its own.
    fn use_classes(&self, usable: &[usize], path: &mut Path<'e>) {
        let class = |term: usize| {
            self.estimates.class(term).filter(|&class| self.estimates.is_transitive(class))
        };
        let classes: Vec<usize> = path.used.iter().filter_map(|&term| class(term)).collect();
        if classes.is_empty() {
            return;
        }
        for &term in usable {
            if !path.used.contains(&term) && class(term).is_some_and(|it| classes.contains(&it)) {
                path.used.push(term);
            }
        }
    }

    /// About how many rows of a source of a join meet all conditions, for each row of the sources
    /// before: the same by whichever way they are found. The way by the most equalities knows best.
    fn rows_found(&self, usable: &[usize], place: usize, paths: &[Path<'e>]) -> f64 {
        let share = |used: &[usize]| {
            let asked = usable.iter().copied().filter(|term| !used.contains(term));
            self.estimates.share(self.sources, self.terms, place, asked)
        };
        let by_key = |path: &&Path<'_>| match &path.kind {
            PathKind::RowidEqual(_) => true,
            PathKind::Index { equal, .. } => !equal.is_empty(),
            _ => false,
        };
        let keyed = paths.iter().filter(by_key).map(|path| {
            let equal = match &path.kind {
                PathKind::Index { equal, .. } => equal.len(),
                _ => 1,
            };
            let held = self.held_of(place, path);
            // Terms of the range are counted with the others.
            let rows = path.rows / path.range_share;
            (path.rows <= 1.0, equal, rows * held * share(&path.used))
        });
        // One row at most is more than any estimate; else more columns, then fewer rows.
        let best = keyed.max_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then(b.2.total_cmp(&a.2)));
        let rows = match (best, &self.sources[place].kind) {
            (Some((.., rows)), _) => rows,
            (None, SourceKind::Table(table)) => table_rows(table) * share(&[]),
            (None, SourceKind::Query(query)) => {
                let rows = query_rows(query);
                // Of a query's rows about one has a key of a row before.
                let is_keyed = paths.iter().any(|path| !path.used.is_empty());
                if is_keyed { 1.0 } else { rows * share(&[]) }
            }
            (None, SourceKind::Taken(_)) => share(&[]),
            (None, SourceKind::Module { .. }) => MODULE_ROWS * share(&[]),
            (None, SourceKind::Virtual(_)) => match paths.first() {
                Some(path) => path.rows * share(&path.used),
                None => QUERY_ROWS,
            },
        };
        rows.max(1e-6)
    }

    /// Takes the row counts of ways by constant keys from the sample, where the average of all keys
    /// is off by two times.
    fn believe_samples(&self, place: usize, paths: &mut [Path<'e>]) {
        let source = &self.sources[place];
        let SourceKind::Table(table) = &source.kind else { return };
        for path in paths {
            let is_average =
                matches!(&path.kind, PathKind::Index { equal, .. } if !equal.is_empty());
            if !is_average || path.rows <= 1.0 {
                continue;
            }
            let Some(share) = self.estimates.share_in_sample(source, &path.used) else { continue };
            let factor = table_rows(table) * share / path.rows;
            if !(0.5..=2.0).contains(&factor) {
                path.rows *= factor;
                path.per_row *= factor;
            }
        }
    }

    /// Lowers the cost of a way by an index for keys without rows.
    fn price_absent_keys(&self, place: usize, path: &mut Path<'e>) {
        let held = self.held_of(place, path);
        if held < 1.0 {
            path.per_row = SEEK + (path.per_row - SEEK).max(0.0) * held;
        }
    }

    /// The share of an index's lookups with a key in the index; 1 for other ways.
    fn held_of(&self, place: usize, path: &Path<'e>) -> f64 {
        match &path.kind {
            PathKind::Index { equal, .. }
                if !equal.is_empty() && path.each.is_none() && path.rows > 1.0 =>
            {
                self.share_of_keys(place, &path.used)
            }
            _ => 1.0,
        }
    }

    /// The share of keys looked up that are there at all, for an equality of one column with one of
    /// another table: of more different values some find nothing.
    fn share_of_keys(&self, place: usize, used: &[usize]) -> f64 {
        let own = self.sources[place].id;
        let [term] = used else { return 1.0 };
        let Expr::Compare(rule, left, right) = self.terms[*term].expr else { return 1.0 };
        let (own, other) = match (&**left, &**right) {
            _ if rule.op != CompareOp::Equal => return 1.0,
            (Expr::Column { source, .. }, Expr::Column { .. }) if *source == own => (left, right),
            (Expr::Column { .. }, Expr::Column { source, .. }) if *source == own => (right, left),
            _ => return 1.0,
        };
        match (distinct(own, self.sources), self.distinct(other)) {
            (Some(own), Some(other)) => (own / other.max(1.0)).min(1.0),
            _ => 1.0,
        }
    }

    /// About how many different values a column of a source has, or of a select around.
    fn distinct(&self, expr: &Expr) -> Option<f64> {
        distinct(expr, self.sources).or_else(|| {
            let Expr::Column { source, column } = expr else { return None };
            let (_, table) = self.around.iter().find(|(known, _)| known == source)?;
            distinct_of(table, *column)
        })
    }

    /// Leaves the ways that a test decided for, where there are any.
    fn keep_forced(&self, known: Sources, paths: &mut Vec<Path<'e>>) {
        let joins = known != 0;
        if joins && self.forced.join == Some(ForcedJoin::NestedLoop) {
            for path in &mut *paths {
                if let PathKind::Hash(keys) = &mut path.kind {
                    keys.clear();
                    path.used.clear();
                }
            }
        }
        let is_keyed = |path: &Path<'_>| match &path.kind {
            PathKind::Hash(keys) => !keys.is_empty(),
            _ => false,
        };
        // Rows of a table are kept in memory only where there is no walk over it.
        let walks = paths.iter().any(|path| is_whole(&path.kind));
        let is_loop = |path: &Path<'_>| match &path.kind {
            PathKind::Hash(keys) => keys.is_empty() && !walks,
            kind => is_whole(kind),
        };
        let fits = |path: &Path<'_>| match (self.forced.join.filter(|_| joins), self.forced.access)
        {
            (Some(ForcedJoin::Hash), _) => is_keyed(path),
            (Some(ForcedJoin::NestedLoop), _) => is_loop(path),
            (None, Some(ForcedAccess::Scan)) => is_loop(path) || is_keyed(path),
            (Some(ForcedJoin::Lookup), _) => !is_loop(path) && !is_keyed(path),
            (None, Some(ForcedAccess::Seek)) => !is_loop(path),
            (None, None) => true,
        };
        if paths.iter().any(fits) {
            paths.retain(fits);
        }
    }

    fn table_paths(
        &self,
        table: &'e Table,
        usable: &[usize],
        place: usize,
        known: Sources,
    ) -> Vec<Path<'e>> {
        let source = &self.sources[place];
        let rows = table_rows(table);
        let mut restrictions = Vec::new();
        for &term in usable {
            restrict(source, term, self.terms[term].expr, &mut restrictions);
        }
        let conditions: Vec<&'e Expr> = usable.iter().map(|&term| self.terms[term].expr).collect();
        let mut paths = vec![Path { per_row: rows * row_step(table), ..full_path(rows) }];
        self.keyed_paths(table, place, &restrictions, &conditions, &mut paths);
        let hint = matches!(source.index_hint, IndexHint::Only(_));
        if hint && paths.len() > 1 {
            return paths.split_off(1);
        }
        if !table.without_rowid && !hint {
            // Where it runs for every row of another source, what is known before does not pay.
            if known == 0 {
                paths.extend(self.intersection(table, &paths));
            }
            for &term in usable {
                let expr = self.terms[term].expr;
                paths.extend(self.union(table, place, expr, &restrictions, &conditions));
                if let Some(prefix) = &self.terms[term].prefix {
                    self.prefix_paths(table, place, prefix, &conditions, &mut paths);
                }
            }
        }
        let is_kept = match known {
            0 => self.keeps_rows && self.runs > 1.0 && !hint,
            _ => true,
        };
        if is_kept {
            let hash = self.hash_path(usable, place, rows, rows * row_step(table));
            // Rows kept without a key are no better than the table itself.
            if matches!(&hash.kind, PathKind::Hash(keys) if !keys.is_empty()) {
                paths.push(hash);
            }
        }
        paths
    }

    /// The ways to the rows of a table that stay without a match. A hash table knows which did; of
    /// the rows that others look up it is noted by their rowids, and all are gone through once
    /// more.
    fn right_paths(
        &self,
        table: &'e Table,
        usable: &[usize],
        place: usize,
        known: Sources,
    ) -> Vec<Path<'e>> {
        let rows = table_rows(table);
        let mut paths = vec![self.hash_path(usable, place, rows, rows * row_step(table))];
        if !table.without_rowid {
            let mut others = self.table_paths(table, usable, place, known);
            let whole = table_rows(table) * row_step(table);
            others.retain(|path| !is_walk(&path.kind) && !matches!(path.kind, PathKind::Hash(_)));
            for path in &mut others {
                path.fixed += whole;
                path.per_row += if path.has_computed_key() { COMPUTED } else { 0.0 };
            }
            paths.extend(others);
        }
        paths
    }

    /// The ways that go by a rowid or by one index.
    fn keyed_paths(
        &self,
        table: &'e Table,
        place: usize,
        restrictions: &[Restriction<'e>],
        conditions: &[&'e Expr],
        paths: &mut Vec<Path<'e>>,
    ) {
        let source = &self.sources[place];
        if table.without_rowid {
            let columns = key_columns(source, None);
            let tree = IndexTree {
                number: None,
                key_columns: columns.len(),
                columns,
                unique: true,
                row_key: row_key(table),
                rows: table_rows(table),
                rows_per_key: &|columns| table.rows_per_key(columns),
                rows_equal: &|key| table.rows_equal(key),
                share: &|low, high| table.share(low, high),
                step: 1.0,
                step_near: 1.0,
            };
            paths.extend(tree.path(source.id, restrictions));
        } else if !matches!(source.index_hint, IndexHint::Only(_)) {
            paths.extend(rowid_path(source.id, table, restrictions));
        }
        for (number, index) in table.indexes.iter().enumerate() {
            if !allowed(source, table, number, conditions) {
                continue;
            }
            let covering = self.covers(table, index, place);
            let rows = match index.is_partial() {
                true => index.entry_count().unwrap_or(table_rows(table) / 5.0).max(1.0),
                false => table_rows(table),
            };
            let is_repeated = self.sources.len() > 1 || self.runs > 1.0;
            let near = if is_repeated { nearness(table.page_count()) } else { 1.0 };
            let (step, step_near) = match (covering, index.clustered()) {
                (true, _) if is_repeated => (ENTRY, ENTRY),
                (true, _) => (ENTRY_WALKED, ENTRY_WALKED),
                (false, Some(clustered)) if is_repeated => {
                    let lookup = clustered * LOOKUP_NEAR + (1.0 - clustered) * LOOKUP_FAR;
                    (ENTRY + near * LOOKUP.max(lookup), ENTRY + near * lookup)
                }
                (false, _) => (ENTRY + near * LOOKUP, ENTRY + near * LOOKUP_NEAR),
            };
            let tree = IndexTree {
                number: Some(number),
                columns: key_columns(source, Some(number)),
                key_columns: index.key_columns,
                unique: index.unique,
                row_key: row_key(table),
                rows,
                rows_per_key: &|columns| index.rows_per_key(columns),
                rows_equal: &|key| index.rows_equal(key),
                share: &|low, high| index.share(low, high),
                step,
                step_near,
            };
            paths.extend(tree.path(source.id, restrictions));
            // All of its entries: fewer pages, another order, or a partial index' rows alone.
            // Where the table has no more pages, its rows come in SQLite's order.
            let is_narrower = index.pages_per_row().zip(table.pages_per_row());
            let is_narrower = is_narrower.is_some_and(|(entry, row)| entry < row);
            let pages = index.pages_per_row().unwrap_or(1.0 / 200.0);
            let step = match covering {
                true if is_narrower => ENTRY_WALKED + PAGE * pages,
                true => (ENTRY + PAGE * pages).max(row_step(table)),
                false => step + PAGE * pages,
            };
            paths.push(Path {
                kind: PathKind::Index {
                    index: Some(number),
                    equal: Vec::new(),
                    low: None,
                    high: None,
                },
                per_row: rows * step,
                ..full_path(rows)
            });
        }
    }

    /// True where an index has every column that anything reads of the source.
    fn covers(&self, table: &Table, index: &Index, place: usize) -> bool {
        self.needed[place].iter().all(|&wanted| {
            index.columns.iter().any(|column| match column.source {
                IndexSource::Column(known) => {
                    known == wanted || wanted == ROWID && table.rowid_alias == Some(known)
                }
                IndexSource::Rowid => wanted == ROWID,
                IndexSource::Expr(_) => false,
            })
        })
    }

    /// Rows that meet any part of an `OR`, where there is a way to those of each part.
    fn union(
        &self,
        table: &'e Table,
        place: usize,
        condition: &'e Expr,
        restrictions: &[Restriction<'e>],
        conditions: &[&'e Expr],
    ) -> Option<Path<'e>> {
        let Expr::Or(..) = condition else { return None };
        let mut parts = Vec::new();
        split(condition, true, &mut parts);
        let source = &self.sources[place];
        let mut arms = Vec::with_capacity(parts.len());
        for part in parts {
            let mut conditions = conditions.to_vec();
            let own = conditions.len();
            split(part, false, &mut conditions);
            let mut all = Vec::new();
            for &condition in &conditions[own..] {
                restrict(source, usize::MAX, condition, &mut all);
            }
            if all.is_empty() {
                return None;
            }
            all.extend(restrictions);
            let mut paths = Vec::new();
            self.keyed_paths(table, place, &all, &conditions, &mut paths);
            paths.retain(|path| !is_whole(&path.kind));
            let cheapest = paths.into_iter().min_by(|a, b| a.per_row.total_cmp(&b.per_row))?;
            arms.push(cheapest);
        }
        let rows = arms.iter().map(|arm| arm.rows).sum::<f64>();
        let per_row = arms.iter().map(|arm| arm.per_row + 5.0 * arm.rows).sum();
        let kind = PathKind::Any { arms, prefix: false };
        Some(Path { kind, per_row, ..full_path(rows) })
    }

    /// The ranges of indexes that hold what a pattern may match.
    fn prefix_paths(
        &self,
        table: &'e Table,
        place: usize,
        prefix: &'e Prefix<'e>,
        conditions: &[&'e Expr],
        paths: &mut Vec<Path<'e>>,
    ) {
        let source = &self.sources[place];
        for (number, index) in table.indexes.iter().enumerate() {
            let columns = key_columns(source, Some(number));
            let Some(first) = columns.first() else { continue };
            let fits = first.is(source.id, prefix.subject)
                && first.collation == Some(prefix.collation)
                && first.affinity == Affinity::Text
                && allowed(source, table, number, conditions);
            if !fits {
                continue;
            }
            let end = |value, inclusive| Some(End { value, inclusive, affinity: None });
            let rows = index.entry_count().unwrap_or_else(|| table_rows(table));
            let arm = |low, high, share: f64| {
                let rows = (rows * share).max(1.0);
                let kind = PathKind::Index { index: Some(number), equal: Vec::new(), low, high };
                Path { kind, per_row: SEEK + rows * (ENTRY + LOOKUP), ..full_path(rows) }
            };
            let arms = vec![
                arm(end(&prefix.low, true), end(&prefix.high, false), RANGE),
                arm(end(&prefix.blob, true), None, 0.0),
            ];
            let rows = arms.iter().map(|arm| arm.rows).sum();
            let per_row = arms.iter().map(|arm| arm.per_row).sum();
            let kind = PathKind::Any { arms, prefix: true };
            paths.push(Path { kind, per_row, ..full_path(rows) });
        }
    }

    /// The costs of keeping a row, and of a key looked up with the rows found for it, of which
    /// `found` have all keys.
    fn hash_costs(&self, place: usize, keys: &[Equality<'e>], found: f64) -> (f64, f64) {
        let source = &self.sources[place];
        let SourceKind::Table(table) = &source.kind else {
            return (HASH_KEEP, HASH_PROBE + found * HASH_FOUND);
        };
        let hashed = keys.iter().filter(|key| !key.near);
        // Conditions beside the keys are asked of every row with the keys.
        let different = hashed.clone().map(|key| {
            key.own_column().map_or(10.0, |column| distinct_of(table, column).unwrap_or(10.0))
        });
        let different = different.product::<f64>().min(table_rows(table));
        let found = found.max(self.kept_rows(place, table) / different);
        let is_kept_once = self.runs == 1.0 && !table.without_rowid && !source.keeps_right();
        let is_plain = hashed.clone().all(Equality::is_plain);
        let mut columns = hashed.filter_map(Equality::own_column).peekable();
        // A rowid is found without a table of rowids.
        if !is_kept_once || !is_plain || columns.peek().is_none_or(|column| *column == ROWID) {
            return (HASH_KEEP, HASH_PROBE + found * HASH_FOUND);
        }
        // Columns read by conditions on the table alone are not read again.
        let mut known: Vec<usize> = vec![ROWID];
        for term in self.alone(place) {
            self.terms[term].expr.columns(&mut |_, column| known.push(column));
        }
        if keys.len() == 1 {
            known.extend(columns);
        }
        let is_read = self.needed[place].iter().any(|column| !known.contains(column));
        let row = if is_read { nearness(table.page_count()) * LOOKUP_FAR } else { 0.0 };
        (KEYED_KEEP, KEYED_PROBE + found * (KEYED_FOUND + row))
    }

    /// About how many rows of a table meet the conditions on the table alone.
    fn kept_rows(&self, place: usize, table: &Table) -> f64 {
        match self.sources.len() {
            1 if !self.estimates.have_samples() => table_rows(table),
            _ => {
                let alone = self.alone(place);
                table_rows(table) * self.estimates.share(self.sources, self.terms, place, alone)
            }
        }
    }

    /// The conditions on a source alone. Conditions with queries, or on the row of a select around,
    /// are asked of the rows found.
    fn alone(&self, place: usize) -> impl Iterator<Item = usize> {
        let own: Sources = 1 << place;
        (0..self.terms.len()).filter(move |&term| {
            let term = &self.terms[term];
            let is_own = term.reads == own && !term.expr.runs_query();
            is_own && !reads_around(term.expr, self.sources)
        })
    }

    /// Rows kept in memory; `walk` is the cost of coming to them.
    fn hash_path(&self, usable: &[usize], place: usize, rows: f64, walk: f64) -> Path<'e> {
        let own: Sources = 1 << place;
        let mut classes = Vec::new();
        let mut keys = Vec::new();
        let mut used = Vec::new();
        for &index in usable {
            let term = &self.terms[index];
            // Both sides must be told apart by the sources they read.
            if let Expr::Compare(rule, left, right) = term.expr
                && rule.op == CompareOp::Equal
                && (term.reads != own || reads_around(term.expr, self.sources))
            {
                let sides = [(left, right), (right, left)];
                let split = sides.into_iter().find(|(mine, other)| {
                    reads_of(mine, self.sources) == own && reads_of(other, self.sources) & own == 0
                });
                if let Some((own, other)) = split {
                    if let Some(class) = self.estimates.class(index)
                        && self.estimates.is_transitive(class)
                    {
                        if classes.contains(&class) {
                            continue;
                        }
                        classes.push(class);
                    }
                    let (affinity, collation) = (rule.affinity, rule.collation);
                    let numbers = |expr: &Expr| may_be_number(expr, self.sources);
                    let near = affinity == Some(Affinity::Text) && numbers(own) && numbers(other);
                    keys.push(Equality { own, other, affinity, collation, near });
                    if !near {
                        used.push(index);
                    }
                }
            }
        }
        let found = if keys.is_empty() { rows } else { rows.min(10.0) };
        let (keep, per_row) = self.hash_costs(place, &keys, found);
        let alone = self.alone(place).filter(|term| usable.contains(term));
        let kept = match self.sources.len() {
            1 => rows,
            _ => rows * self.estimates.share(self.sources, self.terms, place, alone),
        };
        let setup = if keep < HASH_KEEP { KEYED_SETUP } else { 0.0 };
        let fixed = walk + setup + kept * keep;
        Path { fixed, per_row, used, kind: PathKind::Hash(keys), ..full_path(found) }
    }
}

/// True where an expression that is given the affinity `TEXT` may be a number before. A column of a
/// table holds none, where one of a query does if not all of its parts are text, or if a join
/// merged it.
pub(super) fn may_be_number(expr: &Expr, sources: &[Source]) -> bool {
    match expr {
        Expr::Const(value) => matches!(value, Value::Int(_) | Value::Real(_)),
        Expr::Cast { affinity, .. } | Expr::Stored { affinity, .. } => *affinity != Affinity::Text,
        Expr::Column { source, column } => {
            let source = sources.iter().find(|known| known.id == *source);
            match source.map(|source| &source.kind) {
                Some(SourceKind::Table(table)) => table
                    .columns
                    .get(*column)
                    .is_none_or(|column| column.affinity != Affinity::Text),
                _ => true,
            }
        }
        _ => true,
    }
}

/// True where a way comes to every row, or entry.
fn is_whole(kind: &PathKind<'_>) -> bool {
    match kind {
        PathKind::Full => true,
        PathKind::Index { equal, low, high, .. } => {
            equal.is_empty() && low.is_none() && high.is_none()
        }
        _ => false,
    }
}

/// True where a way comes to rows that it was given no key of.
fn is_walk(kind: &PathKind<'_>) -> bool {
    match kind {
        PathKind::Full | PathKind::RowidRange { .. } => true,
        PathKind::Index { equal, .. } => equal.is_empty(),
        PathKind::Any { arms, .. } => arms.iter().any(|arm| is_walk(&arm.kind)),
        PathKind::RowidEqual(_) | PathKind::Hash(_) | PathKind::All(_) | PathKind::Virtual(_) => {
            false
        }
    }
}

/// True where an index may be used for rows that meet the conditions.
fn allowed(source: &Source, table: &Table, number: usize, conditions: &[&Expr]) -> bool {
    let index = &table.indexes[number];
    let hinted = match &source.index_hint {
        IndexHint::Any => true,
        IndexHint::None => false,
        IndexHint::Only(name) => index.name.eq_ignore_ascii_case(name),
    };
    // The tree of a table without rowid is considered as the table itself.
    let own_tree = table.without_rowid && index.root == table.root;
    let meaning = source.indexed.get(number);
    let understood = meaning.is_none_or(|meaning| !meaning.unusable);
    if !hinted || own_tree || !understood || !index.has_known_order() {
        return false;
    }
    let filter = match meaning {
        Some(meaning) => meaning.filter.as_slice(),
        None if index.is_partial() => return false,
        None => &[],
    };
    filter.iter().all(|wanted| {
        conditions.iter().any(|condition| {
            condition.is_same(wanted)
                || matches!(wanted, Expr::IsNull { expr, not: true }
                    if rejects_null(condition, expr))
        })
    })
}

/// True where an expression reads a row of a select around, and runs no query for it.
fn reads_around(expr: &Expr, sources: &[Source]) -> bool {
    let mut around = false;
    expr.columns(&mut |source, _| around |= sources.iter().all(|known| known.id != source));
    around && !expr.runs_query()
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
