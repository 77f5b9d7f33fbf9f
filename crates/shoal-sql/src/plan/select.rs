//! Planning of one `SELECT`: a loop per source, each condition at the first loop that can tell.

use std::cell::RefCell;
use std::sync::Arc;

use super::access::{
    Equality, Frame, KeyExpr, KnownPaths, Path, PathKind, Sources, Term, best, learned, reads_of,
};
use super::cost::Estimates;
use super::explain::{label, name};
use super::lower::{Asked, Circumstances, DistinctDraft, SelectDraft};
use super::node::Node;
use super::order::{
    Choice, brings_together, groups_in_order, skips_nulls, walk_in_order, wanted, windows_in_order,
};
use super::query_rows::query_rows;
use super::restrict::{EachValues, End, prefix, rejects_null};
use super::scan::for_each;
use super::virtual_table::{CompiledVirtual, order_of};
use super::{
    AggregatePlan, AggregateTest, Bound, EachCodes, GroupPlan, HashKey, HashScan, Level,
    LevelWords, Loads, NullKey, Scan, TakenScan, UnmatchedScan, order, picking,
};
use crate::keep::{SortKey, SortPlan};
use crate::plan::{Code, Compiler, Reg};
use crate::resolve::factor::cannot_fail;
use crate::resolve::tree::{
    Expr, IndexHint, Key, OrderKey, Query, ROWID, Select, Source, SourceId, SourceKind,
};
use crate::value::{Affinity, Collation, CompareOp, Value};

/// A level while it is being planned.
struct Draft<'e> {
    place: usize,
    path: Path<'e>,
    on: Vec<&'e Expr>,
    filter: Vec<&'e Expr>,
    /// Conditions on this source alone, which a hash's rows meet before they are kept.
    build: Vec<&'e Expr>,
    query: Option<super::QueryPlan>,
    scan: Option<CompiledScan>,
    each: Option<CompiledEach>,
    /// The arguments of a table-valued function.
    arguments: Vec<Option<Code>>,
    /// The way to the rows of a virtual table.
    found: Option<CompiledVirtual>,
    on_codes: Vec<Code>,
    filter_codes: Vec<Code>,
    build_codes: Vec<Code>,
    /// The columns of the source that its conditions read.
    early: Vec<usize>,
    /// Where its rowid goes, by which it is noted which of its rows found a match.
    rowid: Option<Reg>,
    /// About how many rows there are behind it.
    estimate: f64,
}

/// The conditions of a `HAVING` that compare one aggregate with a number; true where these are all
/// of it, and their aggregates counts, whose values are always known.
fn tests_of(having: &Expr, select: &Select) -> (Vec<AggregateTest>, bool) {
    let (mut tests, mut is_told) = (Vec::new(), true);
    let mut rest = vec![having];
    while let Some(expr) = rest.pop() {
        if let Expr::And(left, right) = expr {
            rest.extend([&**left, &**right]);
            continue;
        }
        let test = test_of(expr, select);
        is_told &= test.as_ref().is_some_and(|test| {
            let aggregate = &select.aggregates[test.aggregate];
            aggregate.function.counts()
        });
        tests.extend(test);
    }
    (tests, is_told)
}

fn test_of(expr: &Expr, select: &Select) -> Option<AggregateTest> {
    let Expr::Compare(rules, left, right) = expr else { return None };
    let (op, side, number) = match (&**left, &**right) {
        (side, Expr::Const(number)) => (rules.op, side, number),
        (Expr::Const(number), side) => (rules.op.flipped(), side, number),
        _ => return None,
    };
    let Expr::Aggregate { select: of, index } = *side else { return None };
    let takes_null = matches!(op, CompareOp::Is | CompareOp::IsNot);
    let is_number = matches!(number, Value::Int(_) | Value::Real(_));
    let converts = rules.affinity.is_some_and(|affinity| !affinity.is_numeric());
    let is_ordered = !select.aggregates[index].order_by.is_empty();
    let tells = of == select.id && is_number && !takes_null && !converts && !is_ordered;
    tells.then(|| AggregateTest { aggregate: index, op, number: number.clone() })
}

/// The values of an `IN`, compiled, and the register each of them goes to.
pub(super) struct CompiledEach {
    pub(super) codes: EachCodes,
    pub(super) affinity: Option<Affinity>,
    pub(super) collation: Collation,
    pub(super) reg: Reg,
}

/// The expressions of a path, compiled.
pub(super) enum CompiledScan {
    Full,
    RowidEqual(Code),
    RowidRange(Option<Bound>, Option<Bound>),
    Index {
        index: Option<usize>,
        equal: Vec<(Code, Option<Affinity>, NullKey)>,
        low: Option<Bound>,
        high: Option<Bound>,
    },
    Hash {
        keys: Vec<HashKey>,
        rebuild: bool,
    },
    Any(Vec<(CompiledScan, Option<CompiledEach>)>),
}

/// In which order and how many of a select's rows are asked for.
#[derive(Clone, Copy)]
pub(super) struct RowOrder<'o> {
    pub(super) order_by: &'o [OrderKey],
    /// About how many rows are taken, where that is known, and whether there is a limit.
    pub(super) limit: Option<f64>,
    pub(super) has_limit: bool,
    /// The output that rows are sorted by first, where about so many of them are wanted.
    pub(super) chooses: Option<usize>,
    /// What an expression asks of them, where bounds leave that as it is.
    pub(super) asked: Option<Asked>,
}

/// Whether the rows of a body come in the order asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sorted {
    No,
    All,
    /// In the order of so many first keys.
    Begins(usize),
}

impl Compiler {
    /// Plans a select of whose rows about `limit` are taken, those that are first by the output
    /// that `chooses` numbers; also tells whether they come in the order asked for.
    pub(super) fn plan_select(
        &mut self,
        select: &Select,
        output: Reg,
        order: RowOrder<'_>,
    ) -> (Node, Sorted) {
        let RowOrder { order_by, limit, chooses, has_limit, asked } = order;
        let sources = &select.sources;
        let terms = terms(select);
        let frame = self.frame(select, &terms, order_by, self.runs);
        let wanted = wanted(select, order_by, (limit, chooses.is_some()));
        // Rows are given as they are found.
        let is_streamed = wanted.is_none()
            && order_by.is_empty()
            && select.group_by.is_none()
            && select.window_calls.is_empty();
        let streamed = limit.filter(|_| is_streamed);
        let count = order::count(&frame, select);
        // Whatever tree is asked for, the number of rows is the same.
        let counts = count.is_some();
        let choice = count.unwrap_or_else(|| order::choose(&frame, wanted.as_ref(), streamed));
        let one_group = select.group_by.as_ref().is_some_and(Vec::is_empty);
        let ends_early = choice.descending.is_some() && one_group;
        let same = same_rows(select);
        // Whether rows that are the same come one after the other, and in the order asked for.
        let (mut ordered, mut groups_sorted) = (false, false);

        // A query's rows appear in its own registers; what reads them must know which.
        let mut queries: Vec<Option<super::QueryPlan>> = Vec::with_capacity(sources.len());
        for source in sources {
            queries.push(match &source.kind {
                SourceKind::Query(query) => {
                    let read = read_of_query(query, &choice, streamed);
                    let plan = self.plan_asked(query, None, read);
                    for column in 0..plan.width {
                        self.columns.insert((source.id, column), plan.output + column);
                    }
                    Some(plan)
                }
                SourceKind::Table(_)
                | SourceKind::Taken(_)
                | SourceKind::Virtual(_)
                | SourceKind::Module { .. } => None,
            });
        }

        let Choice { places, mut first, descending, begins, share } = choice;
        let mut placed = vec![false; terms.len()];
        let mut constant = Vec::new();
        for (index, term) in terms.iter().enumerate() {
            let is_fixed = sources.is_empty() || term.expr.is_deterministic();
            if term.reads == 0 && term.on.is_none() && is_fixed {
                placed[index] = true;
                constant.push(self.code(term.expr));
            }
        }
        let mut known: Sources = 0;
        let mut rows = share;
        let mut above_null = false;
        let mut drafts = Vec::with_capacity(sources.len());
        for &place in &places {
            let path = first.take().unwrap_or_else(|| {
                best(&frame, place, known, (rows, places.first().copied().filter(|_| known != 0)))
            });
            let source = &sources[place];
            self.no_solution |= !counts
                && matches!(source.index_hint, IndexHint::Only(_))
                && !source.keeps_right()
                && !matches!(path.kind, PathKind::Index { .. });
            above_null |= ends_early && known == 0 && skips_nulls(select, place, &path);
            if known == 0 && !same.is_empty() {
                ordered = brings_together(&frame, place, &path, &same);
                groups_sorted = ordered
                    && select.window_calls.is_empty()
                    && walk_in_order(&frame, place, &path, (select, order_by))
                        == Some(descending == Some(true));
            }
            rows *= path.rows * frame.learned(known, known | 1 << place);
            known |= 1 << place;
            let mut level = draft(sources, &terms, &mut placed, place, path, known);
            level.estimate = rows;
            drafts.push(level);
        }
        if let Some(error) = frame.failed.take() {
            self.refused.get_or_insert(error);
        }
        defer(&mut drafts, sources);
        let runs = self.runs;
        let around = self.around.len();
        self.around.extend(sources.iter().filter_map(|source| match &source.kind {
            SourceKind::Table(table) => Some((source.id, Arc::clone(table))),
            _ => None,
        }));
        let mut read: Sources = 0;
        for draft in &mut drafts {
            draft.query = queries[draft.place].take();
            self.runs = runs_within(runs, draft.estimate);
            read |= 1 << draft.place;
            self.compile_draft(draft, (sources, read), &frame.needed[draft.place]);
        }
        self.runs = runs_within(runs, rows);

        let mut group = self.plan_group(select, order_by);
        if let Some(group) = &mut group {
            group.ends_early = ends_early;
            group.ordered = ordered;
        }
        let distinct_group = match &select.distinct {
            Some(collations) if limit.is_none() && has_plain_outputs(select) => {
                Some(self.plan_distinct(select, order_by, collations, ordered))
            }
            _ => None,
        };
        let parts_in_order = descending.is_some() && begins == 0;
        let windows = self.plan_windows(select, order_by, parts_in_order);
        let mut outputs = Vec::with_capacity(select.outputs.len() + order_by.len());
        for (index, expr) in select.outputs.iter().enumerate() {
            outputs.push(self.code_to(expr, output + index));
        }
        let mut next = output + select.outputs.len();
        for key in order_by {
            if let Key::Expr(expr) = &key.key {
                outputs.push(self.code_to(expr, next));
                next += 1;
            }
        }
        self.runs = runs;
        self.around.truncate(around);
        let mut levels = Vec::with_capacity(drafts.len());
        for (number, draft) in drafts.into_iter().enumerate() {
            let descending = number == 0 && descending == Some(true);
            let mut level = self.level(draft, sources, descending, number == 0 && ends_early);
            if let (0, true, Scan::Index(scan)) = (number, above_null, &mut level.scan) {
                scan.above_null = true;
            }
            levels.push(level);
        }
        let sorted = match &select.group_by {
            _ if windows.is_some() => windows_in_order(select, order_by),
            None if begins > 0 => false,
            None => descending.is_some(),
            Some(_) if ordered => groups_sorted,
            Some(keys) => groups_in_order(select, keys, order_by),
        };
        let distinct = select.distinct.clone().map(|collations| {
            let ordered = ordered && select.group_by.is_none();
            DistinctDraft { collations, ordered }
        });
        let draft = SelectDraft { constant, levels, group, windows, outputs, distinct };
        let is_plain = sorted || order_by.is_empty();
        let circumstances = Circumstances {
            select,
            output,
            top_n: chooses.filter(|_| begins == 0),
            is_limited: limit.is_some(),
            streams: has_limit && (is_plain || begins > 0),
            distinct_group,
            asked: match asked {
                Some(Asked::First) if !is_plain => Some(Asked::FirstInOrder),
                asked => asked.filter(|_| is_plain),
            },
        };
        let sorted = match (sorted, begins) {
            (true, _) => Sorted::All,
            (false, 0) => Sorted::No,
            (false, keys) => Sorted::Begins(keys),
        };
        (self.lower_select(draft, circumstances), sorted)
    }

    /// A select as the search for its plan sees it; see [`Frame::runs`].
    pub(super) fn frame<'e>(
        &self,
        select: &'e Select,
        terms: &'e [Term<'e>],
        order_by: &[OrderKey],
        runs: f64,
    ) -> Frame<'e> {
        let sources = &select.sources;
        Frame {
            sources,
            terms,
            needed: needed(select, order_by),
            forced: self.forced,
            runs,
            keeps_rows: true,
            estimates: Estimates::new(sources, terms, &select.conjuncts),
            known_paths: KnownPaths::default(),
            order: order_of(select, order_by),
            failed: RefCell::default(),
            learned: learned(&self.learned, sources),
            around: self.around.clone(),
        }
    }

    fn compile_draft(
        &mut self,
        draft: &mut Draft<'_>,
        (sources, read): (&[Source], Sources),
        needed: &[usize],
    ) {
        let source = &sources[draft.place];
        let mut early = Vec::new();
        for expr in draft.on.iter().chain(&draft.filter) {
            expr.columns(&mut |of, column| {
                if of == source.id && !early.contains(&column) {
                    early.push(column);
                }
            });
        }
        if let SourceKind::Table(_) = source.kind
            && source.keeps_right()
            && !matches!(draft.path.kind, PathKind::Hash(_))
        {
            draft.rowid = Some(self.column(source.id, ROWID));
            if !early.contains(&ROWID) {
                early.push(ROWID);
            }
        }
        draft.early = early;
        let (scan, each) = self.compile_path(&draft.path, &draft.build, source);
        draft.each = each;
        draft.scan = Some(scan);
        if let SourceKind::Module { arguments, .. } = &source.kind {
            let arguments = arguments.iter();
            draft.arguments =
                arguments.map(|expr| expr.as_ref().map(|expr| self.code(expr))).collect();
        }
        if let SourceKind::Virtual(known) = &source.kind {
            draft.found = self.compile_virtual(known, &draft.path, (sources, read), needed);
        }
        draft.on_codes = draft.on.iter().map(|expr| self.code(expr)).collect();
        draft.filter_codes = draft.filter.iter().map(|expr| self.code(expr)).collect();
        draft.build_codes = draft.build.iter().map(|expr| self.code(expr)).collect();
    }

    /// Compiles the expressions of a way to rows; of a hash's rows those that meet `build` are
    /// kept.
    fn compile_path(
        &mut self,
        path: &Path<'_>,
        build: &[&Expr],
        source: &Source,
    ) -> (CompiledScan, Option<CompiledEach>) {
        let each = path.each.map(|each| CompiledEach {
            codes: match each.values {
                EachValues::List(list) => {
                    EachCodes::List(list.iter().map(|expr| self.code(expr)).collect())
                }
                EachValues::Query(query) => EachCodes::Query(self.listed_query(query)),
            },
            affinity: each.affinity,
            collation: each.collation,
            reg: self.register(),
        });
        let reg = each.as_ref().map(|each| each.reg);
        let scan = match &path.kind {
            PathKind::Full | PathKind::Virtual(_) => CompiledScan::Full,
            PathKind::RowidEqual(key) => CompiledScan::RowidEqual(self.key_code(key, reg)),
            PathKind::RowidRange { low, high } => {
                CompiledScan::RowidRange(self.bound(low.as_ref()), self.bound(high.as_ref()))
            }
            PathKind::Index { index, equal, low, high } => CompiledScan::Index {
                index: *index,
                equal: equal
                    .iter()
                    .map(|(key, affinity, null)| (self.key_code(key, reg), *affinity, *null))
                    .collect(),
                low: self.bound(low.as_ref()),
                high: self.bound(high.as_ref()),
            },
            PathKind::Hash(keys) => {
                let inside = |expr: &Expr| only_reads(expr, source.id);
                let correlated = match &source.kind {
                    SourceKind::Query(query) => query.correlated,
                    SourceKind::Table(_) => false,
                    SourceKind::Taken(_) | SourceKind::Module { .. } => true,
                    SourceKind::Virtual(source) => source.arguments.iter().any(Option::is_some),
                };
                let rebuild = correlated
                    || !build.iter().all(|expr| inside(expr))
                    || !keys.iter().all(|key| inside(key.own));
                CompiledScan::Hash {
                    keys: keys.iter().map(|key| self.hash_key(key)).collect(),
                    rebuild,
                }
            }
            PathKind::All(arms) => return self.compile_common(arms, source),
            PathKind::Any { arms, .. } => CompiledScan::Any(
                arms.iter().map(|arm| self.compile_path(arm, build, source)).collect(),
            ),
        };
        (scan, each)
    }

    /// The rows whose rowids several walks over indexes have in common.
    fn compile_common(
        &mut self,
        arms: &[Path<'_>],
        source: &Source,
    ) -> (CompiledScan, Option<CompiledEach>) {
        let reg = self.register();
        let arms = arms.iter().map(|arm| self.compile_path(arm, &[], source).0).collect();
        let codes = match &source.kind {
            SourceKind::Table(table) => EachCodes::Common(self.rowid_scans(table, arms, reg)),
            _ => EachCodes::List(Vec::new()),
        };
        let (affinity, collation) = (None, Collation::Binary);
        let rowid = Code::register(reg);
        (CompiledScan::RowidEqual(rowid), Some(CompiledEach { codes, affinity, collation, reg }))
    }

    fn key_code(&mut self, key: &KeyExpr<'_>, each: Option<Reg>) -> Code {
        match (key, each) {
            (KeyExpr::Expr(expr), _) => self.code(expr),
            (KeyExpr::Each, each) => Code::register(each.unwrap_or_default()),
        }
    }

    fn bound(&mut self, end: Option<&End<'_>>) -> Option<Bound> {
        end.map(|end| Bound {
            value: self.code(end.value),
            inclusive: end.inclusive,
            affinity: end.affinity,
        })
    }

    fn hash_key(&mut self, key: &Equality<'_>) -> HashKey {
        HashKey {
            build: self.code(key.own),
            probe: self.code(key.other),
            affinity: key.affinity,
            collation: key.collation,
            near: key.near,
        }
    }

    fn plan_group(&mut self, select: &Select, order_by: &[OrderKey]) -> Option<GroupPlan> {
        let group_by = select.group_by.as_ref()?;
        let keys: Vec<(Code, Collation)> =
            group_by.iter().map(|(expr, collation)| (self.code(expr), *collation)).collect();
        let mut aggregates = Vec::with_capacity(select.aggregates.len());
        for (index, aggregate) in select.aggregates.iter().enumerate() {
            let first = self.register_range(aggregate.arguments.len());
            let arguments = aggregate
                .arguments
                .iter()
                .enumerate()
                .map(|(number, expr)| self.code_to(expr, first + number))
                .collect();
            let mut order = Vec::with_capacity(aggregate.order_by.len());
            let mut sort = SortPlan { keys: Vec::new() };
            for key in &aggregate.order_by {
                let Key::Expr(expr) = &key.key else { continue };
                sort.keys.push(SortKey {
                    reg: aggregate.arguments.len() + order.len(),
                    descending: key.descending,
                    nulls_first: key.nulls_first,
                    collation: key.collation,
                });
                order.push(self.code(expr));
            }
            self.calls_own |= aggregate.function.is_own();
            aggregates.push(AggregatePlan {
                order,
                sort,
                function: aggregate.function.clone(),
                arguments,
                first,
                filter: aggregate.filter.as_ref().map(|filter| self.code(filter)),
                distinct: aggregate.distinct,
                collation: aggregate.collation,
                json: aggregate.json,
                result: self.aggregate(select.id, index),
            });
        }
        let (tests, is_told) = match &select.having {
            Some(having) => tests_of(having, select),
            None => (Vec::new(), true),
        };
        // A group of all rows is made without a store, and keeps its condition.
        let is_told = is_told && !keys.is_empty();
        let having = select.having.as_ref().filter(|_| !is_told).map(|having| self.code(having));
        let kept = self.kept_of_group(select, order_by);
        let picks = picking(&select.aggregates);
        Some(GroupPlan {
            keys,
            aggregates,
            kept,
            picks,
            having,
            tests,
            ends_early: false,
            ordered: false,
            distinct: false,
            measure: self.measure(),
        })
    }

    /// The rows of a `DISTINCT` as groups without aggregates.
    fn plan_distinct(
        &mut self,
        select: &Select,
        order_by: &[OrderKey],
        collations: &[Collation],
        ordered: bool,
    ) -> GroupPlan {
        let keys = select.outputs.iter().zip(collations);
        GroupPlan {
            keys: keys.map(|(expr, collation)| (self.code(expr), *collation)).collect(),
            aggregates: Vec::new(),
            kept: self.kept_of_group(select, order_by),
            picks: None,
            having: None,
            tests: Vec::new(),
            ends_early: false,
            ordered,
            distinct: true,
            measure: self.measure(),
        }
    }

    /// Where the values of one row are that a group keeps: whatever is read once the group is
    /// complete.
    fn kept_of_group(&mut self, select: &Select, order_by: &[OrderKey]) -> Vec<Reg> {
        let mut kept = Vec::new();
        let own = |source: SourceId| select.sources.iter().any(|known| known.id == source);
        let mut keep = |source: SourceId, column: usize| {
            if own(source) {
                let reg = self.column(source, column);
                if !kept.contains(&reg) {
                    kept.push(reg);
                }
            }
        };
        select.outputs.iter().for_each(|expr| expr.columns(&mut keep));
        if let Some(having) = &select.having {
            having.columns(&mut keep);
        }
        for key in order_by {
            if let Key::Expr(expr) = &key.key {
                expr.columns(&mut keep);
            }
        }
        select.walk_windows(&mut |expr| {
            if let Expr::Column { source, column } = expr {
                keep(*source, *column);
            }
        });
        kept
    }

    /// The level as it runs, now that it is known which columns anything reads.
    fn level(
        &mut self,
        mut draft: Draft<'_>,
        sources: &[Source],
        descending: bool,
        ends_early: bool,
    ) -> Level {
        let source = &sources[draft.place];
        let mut columns: Vec<(usize, Reg)> = self
            .columns
            .iter()
            .filter(|((of, _), _)| *of == source.id)
            .map(|((_, column), reg)| (*column, *reg))
            .collect();
        columns.sort_unstable();
        let registers: Vec<Reg> = columns.iter().map(|(_, reg)| *reg).collect();
        let compiled = draft.scan.unwrap_or(CompiledScan::Full);
        let mut unmatched = None;
        let (scan, late) = match (compiled, &source.kind, draft.query) {
            (CompiledScan::Hash { keys, rebuild }, kind, query) => {
                let scan = match (kind, query) {
                    (SourceKind::Table(table), _) => {
                        self.scan(table, CompiledScan::Full, &columns, &[], false).0
                    }
                    (SourceKind::Query(_), Some(plan)) => Scan::Query(Box::new(plan)),
                    (SourceKind::Query(_), None) => Scan::Nothing,
                    (SourceKind::Taken(slot), _) => {
                        Scan::Taken(TakenScan { slot: *slot, columns: columns.clone() })
                    }
                    (SourceKind::Module { module, .. }, _) => {
                        self.module_scan(module, draft.arguments, columns.clone())
                    }
                    (SourceKind::Virtual(source), _) => {
                        let (table, found) = (&source.table, draft.found);
                        self.virtual_scan(table, found, columns.clone(), Vec::new())
                    }
                };
                self.stores += 1;
                let hash = HashScan {
                    store: self.stores - 1,
                    source: scan,
                    filter: draft.build_codes,
                    keys,
                    row: registers.clone(),
                    rebuild,
                    marks: source.keeps_right(),
                };
                (Scan::Hash(Box::new(hash)), Loads::default())
            }
            (_, SourceKind::Query(_), Some(plan)) => {
                (Scan::Query(Box::new(plan)), Loads::default())
            }
            (_, SourceKind::Query(_), None) => (Scan::Nothing, Loads::default()),
            (_, SourceKind::Taken(slot), _) => {
                let scan = TakenScan { slot: *slot, columns };
                (Scan::Taken(scan), Loads::default())
            }
            (_, SourceKind::Module { module, .. }, _) => {
                (self.module_scan(module, draft.arguments, columns), Loads::default())
            }
            (_, SourceKind::Virtual(source), _) => {
                let (early, late): (Vec<_>, Vec<_>) =
                    columns.iter().copied().partition(|(column, _)| draft.early.contains(column));
                let mut scan = self.virtual_scan(&source.table, draft.found, early, late);
                if let Scan::Virtual(scan) = &mut scan
                    && scan.choice.limit.is_some()
                {
                    let others = !(1 << draft.place);
                    let codes = std::mem::take(&mut draft.filter_codes);
                    for (expr, code) in draft.filter.iter().zip(codes) {
                        match reads_of(expr, sources) & others == 0 {
                            true => scan.conditions.push(code),
                            false => draft.filter_codes.push(code),
                        }
                    }
                }
                (scan, Loads::default())
            }
            (compiled, SourceKind::Table(table), _) => {
                let (early, late): (Vec<_>, Vec<_>) =
                    columns.iter().copied().partition(|(column, _)| draft.early.contains(column));
                if let Some(rowid) = draft.rowid {
                    let (scan, late) = self.scan(table, CompiledScan::Full, &early, &late, false);
                    self.marks += 1;
                    let mark = self.marks - 1;
                    unmatched = Some(Box::new(UnmatchedScan { mark, rowid, scan, late }));
                }
                self.scan(table, compiled, &early, &late, descending)
            }
        };
        let covering = match &scan {
            Scan::Index(scan) => scan.table.is_none(),
            _ => false,
        };
        let scan = for_each(draft.each, scan);
        let words = self.in_words.then(|| {
            let (label, arms) = label(source, &draft.path, covering, ends_early);
            Box::new(LevelWords { name: name(source), label, arms })
        });
        Level {
            words,
            scan,
            rows: draft.path.rows,
            estimate: draft.estimate,
            anti: is_anti(source, &draft.filter),
            table_rows: match &source.kind {
                SourceKind::Table(table) => table.row_count(),
                _ => None,
            },
            measure: self.measure(),
            source: Some(source.id),
            on: draft.on_codes,
            keeps_left: source.keeps_left(),
            keeps_right: source.keeps_right(),
            unmatched,
            filter: draft.filter_codes,
            late,
            registers,
        }
    }
}

/// About how many rows of the only source, a query, are read until `limit` rows are found.
fn read_of_query(query: &Query, choice: &Choice<'_>, limit: Option<f64>) -> Option<f64> {
    let path = choice.first.as_ref().filter(|_| choice.places.len() == 1)?;
    let all = query_rows(query);
    Some((limit? * all / path.rows.max(1.0)).min(all))
}

/// True where a condition leaves the rows without a match alone: `u.x IS NULL` behind a left join
/// whose matches have no NULL there.
fn is_anti(source: &Source, filter: &[&Expr]) -> bool {
    let has_value = |expr: &Expr| match (expr, &source.kind) {
        (Expr::Column { source: of, column }, SourceKind::Table(table)) if *of == source.id => {
            let column = table.columns.get(*column);
            matches!(expr, Expr::Column { column: ROWID, .. })
                || column.is_some_and(|column| column.not_null && column.stored.is_some())
                || source.on().iter().any(|condition| rejects_null(condition, expr))
        }
        _ => false,
    };
    let is_missing = |condition: &&Expr| match condition {
        Expr::IsNull { expr, not: false } => has_value(expr),
        _ => false,
    };
    source.keeps_left() && !source.keeps_right() && filter.iter().any(is_missing)
}

/// By what rows of a select are the same: the keys of its groups, or the columns of its `DISTINCT`.
fn same_rows(select: &Select) -> Vec<(&Expr, Collation)> {
    match (&select.group_by, &select.distinct) {
        (Some(keys), _) => keys.iter().map(|(expr, collation)| (expr, *collation)).collect(),
        (None, Some(collations)) if select.window_calls.is_empty() => {
            select.outputs.iter().zip(collations.iter().copied()).collect()
        }
        _ => Vec::new(),
    }
}

/// True where the result has rows of the sources as they are, and nothing but their columns.
fn has_plain_outputs(select: &Select) -> bool {
    let own = |expr: &Expr| match expr {
        Expr::Column { source, .. } => select.sources.iter().any(|known| known.id == *source),
        _ => false,
    };
    select.group_by.is_none() && select.window_calls.is_empty() && select.outputs.iter().all(own)
}

/// True where an expression reads columns of one source alone, runs no query, and has one value for
/// one row: what is kept of it serves whoever asks.
fn only_reads(expr: &Expr, source: SourceId) -> bool {
    let mut only = true;
    expr.columns(&mut |of, _| only &= of == source);
    only && !expr.runs_query() && expr.is_deterministic()
}

/// The conditions of a select, `WHERE` and `ON` alike.
pub(super) fn terms(select: &Select) -> Vec<Term<'_>> {
    let from = select.sources.iter().rposition(Source::keeps_right).unwrap_or(0);
    let term = |expr, on: Option<usize>| Term {
        expr,
        reads: reads_of(expr, &select.sources),
        on,
        from: on.unwrap_or(from),
        prefix: prefix(expr).map(Box::new),
    };
    let mut out: Vec<Term<'_>> = select.conjuncts.iter().map(|expr| term(expr, None)).collect();
    for (place, source) in select.sources.iter().enumerate() {
        out.extend(source.on().iter().map(|expr| term(expr, Some(place))));
    }
    out
}

/// Gives a source the conditions that can be told once it is read.
fn draft<'e>(
    sources: &[Source],
    terms: &[Term<'e>],
    placed: &mut [bool],
    place: usize,
    path: Path<'e>,
    known: Sources,
) -> Draft<'e> {
    let keeps = sources[place].keeps_left() || sources[place].keeps_right();
    let hash = matches!(path.kind, PathKind::Hash(_));
    // Rows of an outermost table are kept for all runs of a query, rows that no run asks for
    // included: a condition that may fail is asked of the rows found.
    let outermost = known == 1 << place;
    let kept =
        |expr: &Expr| only_reads(expr, sources[place].id) && (!outermost || cannot_fail(expr));
    let mut draft = Draft {
        place,
        path,
        on: Vec::new(),
        filter: Vec::new(),
        build: Vec::new(),
        query: None,
        scan: None,
        each: None,
        arguments: Vec::new(),
        found: None,
        on_codes: Vec::new(),
        filter_codes: Vec::new(),
        build_codes: Vec::new(),
        early: Vec::new(),
        rowid: None,
        estimate: 0.0,
    };
    for &used in draft.path.used.iter().chain(&draft.path.ranged) {
        placed[used] = true;
    }
    for (index, term) in terms.iter().enumerate() {
        let mine = match term.on {
            Some(on) => on == place,
            None => term.reads & !known == 0 && term.from <= place,
        };
        if placed[index] || !mine {
            continue;
        }
        placed[index] = true;
        let alone = term.reads == 1 << place
            && (!hash || kept(term.expr))
            && (term.on.is_some() || !keeps)
            && !sources[place].keeps_right();
        if hash && alone {
            draft.build.push(term.expr);
        } else if term.on.is_some() {
            draft.on.push(term.expr);
        } else {
            draft.filter.push(term.expr);
        }
    }
    draft
}

/// Moves conditions running a query for each row behind the joins leaving fewer rows to ask.
fn defer(drafts: &mut [Draft<'_>], sources: &[Source]) {
    if drafts.len() < 2 || sources.iter().any(Source::keeps_right) {
        return;
    }
    let runs = |expr: &Expr| {
        let mut found = false;
        expr.walk(&mut |part| found |= part.query().is_some_and(|query| query.correlated));
        found
    };
    for number in 0..drafts.len() {
        let rest = drafts[number..].iter().enumerate();
        let fewest = rest.min_by(|a, b| a.1.estimate.total_cmp(&b.1.estimate));
        let to = number + fewest.map_or(0, |(behind, _)| behind);
        if drafts[to].estimate > DEFERRED * drafts[number].estimate {
            continue;
        }
        let filter = std::mem::take(&mut drafts[number].filter);
        let (deferred, kept): (Vec<&Expr>, Vec<&Expr>) =
            filter.into_iter().partition(|expr| runs(expr));
        drafts[number].filter = kept;
        drafts[to].filter.extend(deferred);
    }
}

/// Largest share of rows left by joins for a query to be asked behind them.
const DEFERRED: f64 = 0.7;

/// Estimated runs of a query run for each of some rows. Of rows left by conditions more were asked.
pub(super) fn runs_within(runs: f64, rows: f64) -> f64 {
    if runs > 0.0 { runs.max(1.0) * (2.0 * rows).max(1.0) } else { 0.0 }
}

/// For each source the columns that anything reads.
pub(super) fn needed(select: &Select, order_by: &[OrderKey]) -> Vec<Vec<usize>> {
    let sources = &select.sources;
    let mut needed: Vec<Vec<usize>> = vec![Vec::new(); sources.len()];
    let mut see = |expr: &Expr| {
        if let Expr::Column { source, column } = expr
            && let Some(place) = sources.iter().position(|known| known.id == *source)
            && !needed[place].contains(column)
        {
            needed[place].push(*column);
        }
    };
    select.walk(&mut see);
    order_by.iter().for_each(|key| key.walk(&mut see));
    needed
}
