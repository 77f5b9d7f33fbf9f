//! The cost model: the cost of a way to rows, and the number of rows conditions leave.
//!
//! Costs are in units of one row of a leaf stepped over, about 30 ns; they only rank the ways of
//! one query against each other. Numbers of rows come from `sqlite_stat1`, from a leaf of each
//! index ([`crate::schema::stats`]), and from a sample of the rows of every table of a join
//! ([`crate::schema::RowSample`]): conditions on one table are asked of the sampled rows together,
//! so columns depending on each other are not counted twice.

use super::access::{Term, table_rows};
use super::keyed::compared;
use crate::resolve::imply::{Class, classes};
use crate::resolve::tree::{Expr, ROWID, Source, SourceId, SourceKind};
use crate::schema::{IndexSource, RowSample, SampledRows, Table};
use crate::value::{CompareOp, InRule, Value, ValueRef, compare_by, is_in_values, text_of};

/// A page of a walk.
pub(super) const PAGE: f64 = 30.0;
/// An entry of an index.
pub(super) const ENTRY: f64 = 3.0;
/// An entry of a covering index gone through from end to end.
pub(super) const ENTRY_WALKED: f64 = 0.6;
/// A row found by its rowid, from an index's entry; and where those rowids ascend, as they do
/// among the entries of one key, so that most rows are near the one before.
pub(super) const LOOKUP: f64 = 16.0;
pub(super) const LOOKUP_NEAR: f64 = 6.0;
/// A row found from an index's entry whose neighbours name rows far away, many times over.
pub(super) const LOOKUP_FAR: f64 = 24.0;
/// A query run to list its values for the row around, and a value of the list.
pub(super) const LIST: f64 = 60.0;
pub(super) const LISTED: f64 = 4.0;
/// A key looked for in a key set.
pub(super) const KEY_ASKED: f64 = 1.5;
/// A value put into a set, and one looked for there.
pub(super) const SET_KEEP: f64 = 4.0;
pub(super) const SET_PROBE: f64 = 3.0;
/// A rowid sought, and one near the rowid sought before.
pub(super) const ROWID_SEEK: f64 = 10.0;
pub(super) const ROWID_NEAR: f64 = 3.0;
/// A key sought in an index.
pub(super) const SEEK: f64 = 15.0;
/// A key of several values sought again and again where the first is a constant: such keys lie
/// together.
pub(super) const SEEK_TOGETHER: f64 = 10.0;
/// A row kept in a hash table, beside finding it; a key looked up there, and a row found.
pub(super) const HASH_KEEP: f64 = 14.0;
pub(super) const HASH_PROBE: f64 = 14.0;
pub(super) const HASH_FOUND: f64 = 6.0;
/// A row whose rowid alone is kept by a plain key; a key looked up there, and a rowid found.
pub(super) const KEYED_KEEP: f64 = 2.0;
pub(super) const KEYED_PROBE: f64 = 3.0;
pub(super) const KEYED_FOUND: f64 = 1.0;
/// Making such a table at all: few rows are better looked up.
pub(super) const KEYED_SETUP: f64 = 8000.0;
/// Cost of rows kept for a query run for each row around, beside rows kept by a join.
pub(super) const CORRELATED: f64 = 2.0;
/// Additional cost of a row sought by a computed key, and so by way of registers.
pub(super) const COMPUTED: f64 = 200.0;
/// The share of rows in a range with one end, and with two, where nothing tells.
pub(super) const HALF_RANGE: f64 = 1.0 / 24.0;
pub(super) const RANGE: f64 = 1.0 / 64.0;
/// Finding a row's group by a hash.
pub(super) const HASHED: f64 = 3.0;

/// Fewest sampled rows meeting conditions together for their number to be believed.
const BELIEVED: usize = 6;

/// Cost of a row of a walk over its table.
pub(super) fn row_step(table: &Table) -> f64 {
    1.0 + PAGE * table.pages_per_row().unwrap_or(1.0 / 40.0)
}

/// Cost of a lookup beside one in a tree of thousands of pages: small trees stay in the
/// processor's caches.
pub(super) fn nearness(pages: Option<f64>) -> f64 {
    pages.map_or(1.0, |pages| (pages.max(2.0).log2() / 14.0).clamp(0.35, 1.0))
}

/// Shares of rows left by the conditions of a select.
#[derive(Default)]
pub(super) struct Estimates {
    /// For each term the sampled rows of its source meeting the term, where the sample can tell.
    told: Vec<Option<SampledRows>>,
    /// The class of equal columns of a term.
    class: Vec<Option<usize>>,
    /// For each class true where its columns are compared with a constant.
    fixed: Vec<bool>,
    /// For each class true where one of its equalities met leaves no other to be asked.
    transitive: Vec<bool>,
}

impl Estimates {
    /// Asks the samples of the tables. A table read alone has a sample where a query runs for its
    /// rows, or where a join took one before.
    pub(super) fn new(sources: &[Source], terms: &[Term<'_>], conditions: &[Expr]) -> Estimates {
        let classes = classes(conditions, sources);
        let is_sampled = |source: &Source| match &source.kind {
            SourceKind::Table(table) => table.row_sample().is_some(),
            _ => false,
        };
        if sources.len() < 2 && !sources.iter().any(is_sampled) {
            let told = vec![None; terms.len()];
            return Estimates { class: vec![None; terms.len()], told, ..Estimates::default() };
        }
        let told = terms.iter().map(|term| {
            let place = term.reads.trailing_zeros() as usize;
            let alone = term.reads.count_ones() == 1;
            let source = sources.get(place).filter(|_| alone)?;
            let SourceKind::Table(table) = &source.kind else { return None };
            ask(source.id, table, table.row_sample()?, term.expr)
        });
        let class_of = |term: &Term<'_>| {
            let in_class = |class: &Class| term.on.is_none() && class.has_equality(term.expr);
            classes.iter().position(in_class)
        };
        let is_fixed = |class: &Class| {
            terms.iter().any(|term| match term.expr {
                Expr::Compare(rule, left, right) if rule.op == CompareOp::Equal => {
                    let constant =
                        |expr: &Expr| matches!(expr, Expr::Const(_) | Expr::Parameter(_));
                    class.has(left) && constant(right) || class.has(right) && constant(left)
                }
                _ => false,
            })
        };
        Estimates {
            told: told.collect(),
            class: terms.iter().map(class_of).collect(),
            fixed: classes.iter().map(is_fixed).collect(),
            transitive: classes.iter().map(|class| class.is_transitive(conditions)).collect(),
        }
    }

    /// True where a sample told of any term.
    pub(super) fn have_samples(&self) -> bool {
        self.told.iter().any(Option::is_some)
    }

    /// The class of equal columns of a term.
    pub(super) fn class(&self, term: usize) -> Option<usize> {
        self.class.get(term).copied().flatten()
    }

    /// True where a row meeting one term of a class meets the others with the sources known.
    pub(super) fn is_transitive(&self, class: usize) -> bool {
        self.transitive[class]
    }

    /// The share of a source's rows meeting some terms together, where enough sampled rows do.
    pub(super) fn share_in_sample(&self, source: &Source, terms: &[usize]) -> Option<f64> {
        let SourceKind::Table(table) = &source.kind else { return None };
        let all = table.row_sample()?.len().max(1) as f64;
        let told = terms.iter().map(|&term| self.told.get(term).copied().flatten());
        let met = told.reduce(|met, one| Some(met?.and(one?))).flatten()?.count();
        (met >= BELIEVED).then(|| met as f64 / all)
    }

    /// The share of a source's rows left by some terms together, for each row of known sources.
    pub(super) fn share(
        &self,
        sources: &[Source],
        terms: &[Term<'_>],
        place: usize,
        asked: impl Iterator<Item = usize>,
    ) -> f64 {
        let sample = match &sources[place].kind {
            SourceKind::Table(table) => table.row_sample(),
            _ => None,
        };
        let mut share = 1.0;
        let mut apart = 1.0;
        let mut together: Option<SampledRows> = None;
        let mut equalities = Equalities::default();
        for number in asked {
            let term = &terms[number];
            if let (Some(rows), Some(sample)) = (self.told.get(number).copied().flatten(), sample) {
                let all = sample.len().max(1) as f64;
                let own = rows.count() as f64;
                let least = if sample.is_whole() { 0.5 } else { 0.3 };
                let by_keys = || sampled_share(term.expr, &sources[place]);
                apart *= match equal_share(term.expr, sources) {
                    _ if sample.is_whole() => own.max(least) / all,
                    // Of a column's many values the sample need not have this one.
                    Some(share) if own == 0.0 => {
                        by_keys().unwrap_or(share).min(least.max(1.0) / all)
                    }
                    _ => by_keys().unwrap_or(own.max(least) / all),
                };
                together = Some(together.map_or(rows, |before| before.and(rows)));
                continue;
            }
            let class = self.class(number);
            if class.is_some_and(|class| self.fixed[class]) {
                continue;
            }
            match term.expr {
                Expr::Compare(rule, left, right)
                    if rule.op == CompareOp::Equal && term.reads != 1 << place =>
                {
                    equalities.add(class, guess(term.expr, sources), [left, right]);
                }
                // The parts' conditions on one source alone are counted by themselves.
                other @ Expr::Or(..) if term.reads.count_ones() > 1 => {
                    share *= guess(other, sources).max(0.5);
                }
                other => share *= guess(other, sources),
            }
        }
        share *= equalities.share(sources, sources[place].id);
        if let (Some(rows), Some(sample)) = (together, sample) {
            let (count, all) = (rows.count(), sample.len().max(1) as f64);
            share *= match count {
                _ if sample.is_whole() => (count as f64).max(0.5) / all,
                count if count >= BELIEVED => count as f64 / all,
                count => apart.clamp(count as f64 / (2.0 * all), (count as f64 + 1.0) / all),
            };
        }
        share
    }
}

/// The equalities joining a source with the sources before.
#[derive(Default)]
struct Equalities<'e> {
    /// One for each class, and for each term of none: the share of rows left, and the expressions
    /// on both sides of its terms.
    found: Vec<(Option<usize>, f64, Vec<&'e Expr>)>,
}

impl<'e> Equalities<'e> {
    fn add(&mut self, class: Option<usize>, share: f64, sides: [&'e Expr; 2]) {
        match self.found.iter_mut().find(|(known, ..)| class.is_some() && *known == class) {
            Some((_, least, known)) => {
                *least = least.min(share);
                known.extend(sides);
            }
            None => self.found.push((class, share, sides.to_vec())),
        }
    }

    /// The share left by all. A key of another table with all columns compared is one row there:
    /// its columns are not counted apart.
    fn share(mut self, sources: &[Source], own: usize) -> f64 {
        if self.found.len() > 1 {
            for source in sources.iter().filter(|source| source.id != own) {
                let SourceKind::Table(table) = &source.kind else { continue };
                let is = |side: &Expr, wanted: usize| {
                    matches!(side, Expr::Column { source: of, column }
                        if *of == source.id && *column == wanted)
                };
                for key in unique_keys(table).filter(|key| key.len() > 1) {
                    let place = |column: &usize| {
                        self.found
                            .iter()
                            .position(|(.., sides)| sides.iter().any(|side| is(side, *column)))
                    };
                    let places: Option<Vec<usize>> = key.iter().map(place).collect();
                    let Some(places) = places else { continue };
                    let product: f64 = places.iter().map(|&place| self.found[place].1).product();
                    let least = 1.0 / table_rows(table);
                    if product < least
                        && let Some((first, rest)) = places.split_first()
                    {
                        self.found[*first].1 = least;
                        rest.iter().for_each(|&place| self.found[place].1 = 1.0);
                    }
                }
            }
        }
        self.found.iter().map(|(_, share, _)| share).product()
    }
}

/// The keys of a table no two rows have in common, each a list of columns.
fn unique_keys(table: &Table) -> impl Iterator<Item = Vec<usize>> {
    let own = table.primary_key.iter().map(|part| part.column).collect();
    let own = table.without_rowid.then_some(own);
    let indexes = table.indexes.iter().filter(|index| index.unique && !index.is_partial());
    let indexes = indexes.filter_map(|index| {
        let columns = index.columns.iter().take(index.key_columns);
        let column = |column: &crate::schema::IndexColumn| match column.source {
            IndexSource::Column(column) => Some(column),
            _ => None,
        };
        columns.map(column).collect()
    });
    own.into_iter().chain(indexes)
}

/// The share of a source's rows left by an equality or a comparison with a constant, by the samples
/// of an index beginning with the column.
fn sampled_share(expr: &Expr, source: &Source) -> Option<f64> {
    let SourceKind::Table(table) = &source.kind else { return None };
    let Expr::Compare(rule, left, right) = expr else { return None };
    let (column, value, op) = match (&**left, &**right) {
        (Expr::Column { column, .. }, Expr::Const(value)) => (column, value, rule.op),
        (Expr::Const(value), Expr::Column { column, .. }) => (column, value, rule.op.flipped()),
        _ => return None,
    };
    let value = compared(value, rule.affinity);
    let is_first = |index: &&crate::schema::Index| {
        let first = index.columns.first();
        !index.is_partial()
            && first.is_some_and(|first| {
                matches!(first.source, IndexSource::Column(known) if known == *column)
                    && first.collation.as_ref().ok() == Some(&rule.collation)
            })
    };
    let key = std::slice::from_ref(&value);
    let mut indexes = table.indexes.iter().filter(is_first);
    let (index, equal) = indexes.find_map(|index| Some((index, index.rows_equal(key)?)))?;
    match op {
        CompareOp::Equal => Some(equal / table_rows(table)),
        CompareOp::Less | CompareOp::LessEqual => index.share(None, Some(&value)),
        CompareOp::Greater | CompareOp::GreaterEqual => index.share(Some(&value), None),
        _ => None,
    }
}

/// The share of rows left by a condition on one table, where a sample of the table's rows tells.
pub(super) fn share_of_samples(condition: &Expr, sources: &[Source]) -> Option<f64> {
    sources.iter().find_map(|source| {
        let SourceKind::Table(table) = &source.kind else { return None };
        let sample = table.row_sample()?;
        let met = ask(source.id, table, sample, condition)?.count();
        let all = sample.len().max(1) as f64;
        Some(match met {
            _ if sample.is_whole() => (met as f64).max(0.5) / all,
            met if met >= BELIEVED => met as f64 / all,
            // Of a column's many values the sample need not have this one.
            met => guess(condition, sources).min((met as f64 + 1.0) / all),
        })
    })
}

/// The share of rows left by an equality with a constant, where the number of values is known.
fn equal_share(expr: &Expr, sources: &[Source]) -> Option<f64> {
    let Expr::Compare(rule, left, right) = expr else { return None };
    (rule.op == CompareOp::Equal).then_some(())?;
    let values = distinct(left, sources).or_else(|| distinct(right, sources))?;
    Some(1.0 / values.max(1.0))
}

/// The guessed share of rows left by a condition without help of a sample.
pub(super) fn guess(expr: &Expr, sources: &[Source]) -> f64 {
    match expr {
        Expr::Compare(rule, left, right) => match rule.op {
            // The value of a query over the rows of one key, mostly an extreme: some rows have it.
            CompareOp::Equal | CompareOp::Is
                if is_of_rows_around(left) || is_of_rows_around(right) =>
            {
                0.2
            }
            CompareOp::Equal | CompareOp::Is => {
                let values = [left, right].map(|side| distinct(side, sources));
                match values {
                    [None, None] => 0.1,
                    [left, right] => 1.0 / left.unwrap_or(1.0).max(right.unwrap_or(1.0)).max(1.0),
                }
            }
            CompareOp::NotEqual | CompareOp::IsNot => 0.9,
            _ => 0.33,
        },
        Expr::Between { not: false, .. } => 0.15,
        Expr::InList { expr, not: false, list, .. } => {
            let values = distinct(expr, sources).unwrap_or(10.0);
            (list.len() as f64 / values.max(1.0)).min(0.8)
        }
        Expr::InQuery { not: false, .. } | Expr::Exists(_) => 0.3,
        Expr::And(left, right) => guess(left, sources) * guess(right, sources),
        Expr::Or(left, right) => (guess(left, sources) + guess(right, sources)).min(0.9),
        _ => 0.5,
    }
}

/// True of a query run for each row around.
fn is_of_rows_around(expr: &Expr) -> bool {
    expr.query().is_some_and(|query| query.correlated)
}

/// About how many different values an expression has in the rows of its source.
pub(super) fn distinct(expr: &Expr, sources: &[Source]) -> Option<f64> {
    let Expr::Column { source, column } = expr else { return None };
    let source = sources.iter().find(|known| known.id == *source)?;
    let SourceKind::Table(table) = &source.kind else { return None };
    distinct_of(table, *column)
}

/// About how many different values a column has.
pub(super) fn distinct_of(table: &Table, column: usize) -> Option<f64> {
    let rows = table_rows(table);
    if column == ROWID {
        return Some(rows);
    }
    let of_key = |per_key: Option<f64>| Some(rows / per_key?.max(1.0));
    if table.without_rowid && table.primary_key.first().is_some_and(|part| part.column == column) {
        return of_key(table.rows_per_key(1));
    }
    let index = table.indexes.iter().filter(|index| !index.is_partial()).find(|index| {
        index.columns.first().is_some_and(
            |first| matches!(first.source, IndexSource::Column(known) if known == column),
        )
    });
    let known = index.and_then(|index| of_key(index.rows_per_key(1)));
    known.or_else(|| {
        let place = table.columns.get(column)?.stored?;
        table.row_sample()?.distinct(place, rows)
    })
}

/// The sampled rows meeting a condition on their table alone; `None` where the sample cannot tell.
fn ask(own: SourceId, table: &Table, sample: &RowSample, condition: &Expr) -> Option<SampledRows> {
    let mut rows = SampledRows::default();
    match condition {
        Expr::And(left, right) => {
            return Some(ask(own, table, sample, left)?.and(ask(own, table, sample, right)?));
        }
        Expr::Or(left, right) => {
            let (left, right) = (ask(own, table, sample, left)?, ask(own, table, sample, right)?);
            return Some(left.or(right));
        }
        _ => {}
    }
    if let Expr::Compare(rule, left, right) = condition
        && let (Some(left), Some(right)) = (stored(own, table, left), stored(own, table, right))
    {
        // An unknown value is behind the kept part of its record.
        let value = |value: Option<_>| value.unwrap_or(ValueRef::Null);
        let pairs = sample.column(left).zip(sample.column(right)).enumerate();
        for (row, (left, right)) in pairs {
            if compare_by(*rule, value(left), value(right)) == Some(true) {
                rows.insert(row);
            }
        }
        return Some(rows);
    }
    let holds = condition_of(condition)?;
    let (subject, test) = holds;
    let Expr::Column { source, column } = subject else { return None };
    if *source != own {
        return None;
    }
    if *column == ROWID {
        for (row, rowid) in sample.rowids().enumerate() {
            if test(ValueRef::Int(rowid))? {
                rows.insert(row);
            }
        }
        return Some(rows);
    }
    let place = table.columns.get(*column)?.stored?;
    for (row, value) in sample.column(place).enumerate() {
        // An unknown value is behind the kept part of its record.
        if test(value.unwrap_or(ValueRef::Null))? {
            rows.insert(row);
        }
    }
    Some(rows)
}

/// The place in its record of a column of the source.
fn stored(own: SourceId, table: &Table, expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Column { source, column } if *source == own && *column != ROWID => {
            table.columns.get(*column)?.stored
        }
        _ => None,
    }
}

/// A test of one value; `None` where the test cannot tell.
type ValueTest<'e> = Box<dyn Fn(ValueRef<'_>) -> Option<bool> + 'e>;

/// A condition as a test of one operand.
fn condition_of(condition: &Expr) -> Option<(&Expr, ValueTest<'_>)> {
    fn constant(expr: &Expr) -> Option<ValueRef<'_>> {
        match expr {
            Expr::Const(value) => Some(value.as_ref()),
            _ => None,
        }
    }
    Some(match condition {
        Expr::Compare(rule, left, right) => match (constant(left), constant(right)) {
            (None, Some(right)) => {
                (left, Box::new(move |value| Some(compare_by(*rule, value, right) == Some(true))))
            }
            (Some(left), None) => {
                (right, Box::new(move |value| Some(compare_by(*rule, left, value) == Some(true))))
            }
            _ => return None,
        },
        Expr::Between { expr, not, low, high } => {
            let ends = (constant(&low.1)?, constant(&high.1)?);
            let test = move |value: ValueRef<'_>| {
                let low = compare_by(low.0, value, ends.0);
                let high = compare_by(high.0, value, ends.1);
                let within = crate::value::and(low, high);
                Some(within.is_some_and(|within| within != *not))
            };
            (expr, Box::new(test))
        }
        Expr::IsNull { expr, not } => {
            (expr, Box::new(move |value| Some((value == ValueRef::Null) != *not)))
        }
        Expr::InList { expr, not, list, affinity, collation } => {
            let items: Vec<ValueRef<'_>> = list.iter().map(constant).collect::<Option<_>>()?;
            let rule = InRule { not: *not, affinity: *affinity, collation: *collation };
            let test = move |value: ValueRef<'_>| {
                let within = is_in_values(value, items.iter().copied(), rule);
                Some(within.is_some_and(|within| within != rule.not))
            };
            (expr, Box::new(test))
        }
        Expr::Not(inner) => {
            let (subject, test) = condition_of(inner)?;
            // NULL is neither.
            let test = move |value: ValueRef<'_>| match value {
                ValueRef::Null => Some(false),
                value => Some(!test(value)?),
            };
            (subject, Box::new(test))
        }
        Expr::Call { function, arguments, .. } => {
            let [Expr::Const(Value::Text(pattern)), subject] = arguments.as_slice() else {
                return None;
            };
            let language = function.pattern()?;
            let test = move |value: ValueRef<'_>| {
                Some(text_of(value).is_some_and(|text| language.matches(pattern, &text, None)))
            };
            (subject, Box::new(test))
        }
        _ => return None,
    })
}
