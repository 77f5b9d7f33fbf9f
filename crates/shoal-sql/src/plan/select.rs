//! Planning of one `SELECT`: a loop per source, each condition at the first loop that can tell.

use super::access::{
    EachValues, End, Equality, KeyExpr, Path, PathKind, Sources, Term, best, reads_of,
};
use super::explain::{is_own_tree, label};
use super::{
    AggregatePlan, Bound, EachCodes, EachScan, FunctionScan, GroupPlan, HashKey, HashScan,
    IndexScan, IndexedTable, Level, Load, Loads, NullKey, RowidRange, Scan, SelectPlan, SortKey,
    TableKey, TableScan, TakenScan, order, picking,
};
use crate::expr::{Code, Compiler, Reg};
use crate::functions::TableFunction;
use crate::resolve::tree::{Expr, Key, OrderKey, ROWID, Select, Source, SourceId, SourceKind};
use crate::schema::{IndexSource, Table};
use crate::value::{Affinity, Collation};

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
    on_codes: Vec<Code>,
    filter_codes: Vec<Code>,
    build_codes: Vec<Code>,
    /// The columns of the source that its conditions read.
    early: Vec<usize>,
}

/// The values of an `IN`, compiled, and the register each of them goes to.
struct CompiledEach {
    codes: EachCodes,
    affinity: Option<Affinity>,
    collation: Collation,
    reg: Reg,
}

/// The expressions of a path, compiled.
enum CompiledScan {
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
}

impl Compiler {
    /// Plans a select; also tells whether its rows come in the order asked for.
    pub(super) fn plan_select(
        &mut self,
        select: &Select,
        output: Reg,
        order_by: &[OrderKey],
    ) -> (SelectPlan, bool) {
        let sources = &select.sources;
        let terms = terms(select);
        let chosen = order::choose(sources, &terms);

        // A query's rows appear in its own registers; what reads them must know which.
        let mut queries: Vec<Option<super::QueryPlan>> = Vec::with_capacity(sources.len());
        for source in sources {
            queries.push(match &source.kind {
                SourceKind::Query(query) => {
                    let plan = self.plan_query(query);
                    for column in 0..plan.width {
                        self.columns.insert((source.id, column), plan.output + column);
                    }
                    Some(plan)
                }
                SourceKind::Table(_) | SourceKind::Taken(_) | SourceKind::Function { .. } => None,
            });
        }

        let mut placed = vec![false; terms.len()];
        let mut constant = Vec::new();
        for (index, term) in terms.iter().enumerate() {
            if term.reads == 0 && term.on.is_none() {
                placed[index] = true;
                constant.push(self.code(term.expr));
            }
        }
        let mut known: Sources = 0;
        let mut rows = 1.0;
        let mut drafts = Vec::with_capacity(sources.len());
        for &place in &chosen {
            let path = best(sources, &terms, place, known, rows);
            known |= 1 << place;
            rows *= path.rows;
            drafts.push(draft(sources, &terms, &mut placed, place, path, known));
        }
        for draft in &mut drafts {
            draft.query = queries[draft.place].take();
            self.compile_draft(draft, sources);
        }

        let group = self.plan_group(select, order_by);
        let windows = self.plan_windows(select, order_by);
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
        let late_rows = sources.iter().any(Source::keeps_right);
        let descending = match drafts.first() {
            Some(_) if late_rows => None,
            Some(first) if group.is_none() && windows.is_none() => {
                in_order(select, first, sources, order_by)
            }
            _ => None,
        };
        let mut levels = Vec::with_capacity(drafts.len());
        for (number, draft) in drafts.into_iter().enumerate() {
            let descending = number == 0 && descending == Some(true);
            levels.push(self.level(draft, sources, descending));
        }
        let distinct = select.distinct.clone();
        let mut plan =
            SelectPlan { constant, levels, group, windows, outputs, distinct, direct: None };
        plan.direct = crate::exec::direct::compile(&plan, self).map(Box::new);
        (plan, descending.is_some())
    }

    fn compile_draft(&mut self, draft: &mut Draft<'_>, sources: &[Source]) {
        let source = &sources[draft.place];
        let mut early = Vec::new();
        for expr in draft.on.iter().chain(&draft.filter) {
            expr.columns(&mut |of, column| {
                if of == source.id && !early.contains(&column) {
                    early.push(column);
                }
            });
        }
        draft.early = early;
        draft.each = draft.path.each.map(|each| CompiledEach {
            codes: match each.values {
                EachValues::List(list) => {
                    EachCodes::List(list.iter().map(|expr| self.code(expr)).collect())
                }
                EachValues::Query(query) => EachCodes::Query(self.query(query)),
            },
            affinity: each.affinity,
            collation: each.collation,
            reg: self.register(),
        });
        let each = draft.each.as_ref().map(|each| each.reg);
        let scan = match &draft.path.kind {
            PathKind::Full => CompiledScan::Full,
            PathKind::RowidEqual(key) => CompiledScan::RowidEqual(self.key_code(key, each)),
            PathKind::RowidRange { low, high } => {
                CompiledScan::RowidRange(self.bound(low.as_ref()), self.bound(high.as_ref()))
            }
            PathKind::Index { index, equal, low, high } => CompiledScan::Index {
                index: *index,
                equal: equal
                    .iter()
                    .map(|(key, affinity, null)| (self.key_code(key, each), *affinity, *null))
                    .collect(),
                low: self.bound(low.as_ref()),
                high: self.bound(high.as_ref()),
            },
            PathKind::Hash(keys) => {
                let inside = |expr: &Expr| only_reads(expr, source.id);
                let correlated = match &source.kind {
                    SourceKind::Query(query) => query.correlated,
                    SourceKind::Table(_) => false,
                    SourceKind::Taken(_) | SourceKind::Function { .. } => true,
                };
                let rebuild = correlated
                    || !draft.build.iter().all(|expr| inside(expr))
                    || !keys.iter().all(|key| inside(key.own));
                CompiledScan::Hash {
                    keys: keys.iter().map(|key| self.hash_key(key)).collect(),
                    rebuild,
                }
            }
        };
        draft.scan = Some(scan);
        if let SourceKind::Function { arguments, .. } = &source.kind {
            let arguments = arguments.iter();
            draft.arguments =
                arguments.map(|expr| expr.as_ref().map(|expr| self.code(expr))).collect();
        }
        draft.on_codes = draft.on.iter().map(|expr| self.code(expr)).collect();
        draft.filter_codes = draft.filter.iter().map(|expr| self.code(expr)).collect();
        draft.build_codes = draft.build.iter().map(|expr| self.code(expr)).collect();
    }

    fn key_code(&mut self, key: &KeyExpr<'_>, each: Option<Reg>) -> Code {
        match (key, each) {
            (KeyExpr::Expr(expr), _) => self.code(expr),
            (KeyExpr::Each, each) => Code { ops: Box::default(), result: each.unwrap_or_default() },
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
        }
    }

    fn plan_group(&mut self, select: &Select, order_by: &[OrderKey]) -> Option<GroupPlan> {
        let group_by = select.group_by.as_ref()?;
        let keys = group_by.iter().map(|(expr, collation)| (self.code(expr), *collation)).collect();
        let mut aggregates = Vec::with_capacity(select.aggregates.len());
        for (index, aggregate) in select.aggregates.iter().enumerate() {
            let first = self.register_range(aggregate.arguments.len());
            let arguments = aggregate
                .arguments
                .iter()
                .enumerate()
                .map(|(number, expr)| self.code_to(expr, first + number))
                .collect();
            let order = aggregate.order_by.iter().enumerate().filter_map(|(place, key)| {
                let Key::Expr(expr) = &key.key else { return None };
                let sort = SortKey {
                    reg: place,
                    descending: key.descending,
                    nulls_first: key.nulls_first,
                    collation: key.collation,
                };
                Some((self.code(expr), sort))
            });
            let order = order.collect();
            aggregates.push(AggregatePlan {
                order,
                function: aggregate.function,
                arguments,
                first,
                filter: aggregate.filter.as_ref().map(|filter| self.code(filter)),
                distinct: aggregate.distinct,
                collation: aggregate.collation,
                json: aggregate.json,
                result: self.aggregate(select.id, index),
            });
        }
        let having = select.having.as_ref().map(|having| self.code(having));
        // Whatever is read once the group is complete comes from one of its rows.
        let mut kept = Vec::new();
        let own = |source: SourceId| select.sources.iter().any(|known| known.id == source);
        {
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
        }
        Some(GroupPlan { keys, aggregates, kept, picks: picking(&select.aggregates), having })
    }

    /// The level as it runs, now that it is known which columns anything reads.
    fn level(&mut self, draft: Draft<'_>, sources: &[Source], descending: bool) -> Level {
        let source = &sources[draft.place];
        let path_label = label(source, &draft.path);
        let mut columns: Vec<(usize, Reg)> = self
            .columns
            .iter()
            .filter(|((of, _), _)| *of == source.id)
            .map(|((_, column), reg)| (*column, *reg))
            .collect();
        columns.sort_unstable();
        let registers: Vec<Reg> = columns.iter().map(|(_, reg)| *reg).collect();
        let compiled = draft.scan.unwrap_or(CompiledScan::Full);
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
                    (SourceKind::Function { function, .. }, _) => {
                        self.function_scan(*function, draft.arguments, columns.clone())
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
            (_, SourceKind::Function { function, .. }, _) => {
                (self.function_scan(*function, draft.arguments, columns), Loads::default())
            }
            (compiled, SourceKind::Table(table), _) => {
                let (early, late): (Vec<_>, Vec<_>) =
                    columns.iter().copied().partition(|(column, _)| draft.early.contains(column));
                self.scan(table, compiled, &early, &late, descending)
            }
        };
        let covering = match &scan {
            Scan::Index(scan) => scan.table.is_none() && !is_own_tree(source),
            _ => false,
        };
        let scan = match draft.each {
            Some(each) => Scan::Each(Box::new(EachScan {
                values: each.codes,
                affinity: each.affinity,
                collation: each.collation,
                reg: each.reg,
                inner: scan,
            })),
            None => scan,
        };
        let label = if covering {
            path_label.replace("USING INDEX", "USING COVERING INDEX")
        } else {
            path_label
        };
        Level {
            label,
            scan,
            on: draft.on_codes,
            keeps_left: source.keeps_left(),
            keeps_right: source.keeps_right(),
            filter: draft.filter_codes,
            late,
            registers,
        }
    }

    fn function_scan(
        &mut self,
        function: TableFunction,
        arguments: Vec<Option<Code>>,
        columns: Vec<(usize, Reg)>,
    ) -> Scan {
        self.needs_schema |= function.needs_schema();
        let visible = function.columns().len();
        Scan::Function(Box::new(FunctionScan { function, arguments, columns, visible }))
    }

    fn cursor(&mut self) -> usize {
        self.cursors += 1;
        self.cursors - 1
    }

    /// A scan of a table and what it reads of a row once the conditions hold.
    fn scan(
        &mut self,
        table: &Table,
        compiled: CompiledScan,
        early: &[(usize, Reg)],
        late: &[(usize, Reg)],
        descending: bool,
    ) -> (Scan, Loads) {
        let cursor = self.cursor();
        let range = match compiled {
            CompiledScan::Index { index: Some(number), equal, low, high } => {
                return self.index_scan(table, number, cursor, (equal, low, high), early, late);
            }
            CompiledScan::Index { index: None, equal, low, high } => {
                return primary_scan(table, cursor, (equal, low, high), early, late);
            }
            _ if table.without_rowid => {
                return primary_scan(table, cursor, (Vec::new(), None, None), early, late);
            }
            CompiledScan::RowidEqual(key) => RowidRange::Equal(key),
            CompiledScan::RowidRange(low, high) => RowidRange::Between { low, high },
            CompiledScan::Full | CompiledScan::Hash { .. } => {
                RowidRange::Between { low: None, high: None }
            }
        };
        let early = row_loads(table, early);
        let scan = TableScan { cursor, root: table.root, early, range, descending };
        (Scan::Table(scan), row_loads(table, late))
    }

    fn index_scan(
        &mut self,
        table: &Table,
        number: usize,
        cursor: usize,
        (equal, low, high): KeyCodes,
        early: &[(usize, Reg)],
        late: &[(usize, Reg)],
    ) -> (Scan, Loads) {
        let index = &table.indexes[number];
        let place = |column: usize| {
            index.columns.iter().position(|known| match known.source {
                IndexSource::Column(known) => {
                    known == column || (column == ROWID && table.rowid_alias == Some(known))
                }
                IndexSource::Rowid => column == ROWID,
                IndexSource::Expr(_) => false,
            })
        };
        let loads = |wanted: &[(usize, Reg)]| {
            let mut columns: Vec<Load> = wanted
                .iter()
                .filter_map(|&(column, reg)| Some(load(table, column, place(column)?, reg)))
                .collect();
            columns.sort_by_key(|load| load.place);
            Loads { columns, rowid: None }
        };
        let covered =
            |wanted: &[(usize, Reg)]| wanted.iter().all(|(column, _)| place(*column).is_some());
        let range_descending =
            index.columns.get(equal.len()).is_some_and(|column| column.descending);
        let mut scan = IndexScan {
            cursor,
            root: index.root,
            order: index.order(),
            equal,
            low,
            high,
            range_descending,
            early: loads(early),
            table: None,
        };
        if covered(early) && covered(late) {
            return (Scan::Index(scan), loads(late));
        }
        let missing: Vec<(usize, Reg)> =
            early.iter().copied().filter(|(column, _)| place(*column).is_none()).collect();
        let key = if table.without_rowid {
            let places = table.primary_key.iter().map(|part| place(part.column).unwrap_or(0));
            TableKey::Primary { places: places.collect(), order: table.primary_key_order() }
        } else {
            TableKey::Rowid { place: index.columns.len() - 1 }
        };
        scan.table = Some(IndexedTable {
            cursor: self.cursor(),
            root: table.root,
            early: row_loads(table, &missing),
            key,
        });
        (Scan::Index(scan), row_loads(table, late))
    }
}

type KeyCodes = (Vec<(Code, Option<Affinity>, NullKey)>, Option<Bound>, Option<Bound>);

/// A scan of a table without rowid, which is an index of its own.
fn primary_scan(
    table: &Table,
    cursor: usize,
    (equal, low, high): KeyCodes,
    early: &[(usize, Reg)],
    late: &[(usize, Reg)],
) -> (Scan, Loads) {
    let range_descending = table.primary_key.get(equal.len()).is_some_and(|part| part.descending);
    let scan = IndexScan {
        cursor,
        root: table.root,
        order: table.primary_key_order(),
        equal,
        low,
        high,
        range_descending,
        early: row_loads(table, early),
        table: None,
    };
    (Scan::Index(scan), row_loads(table, late))
}

fn load(table: &Table, column: usize, place: usize, reg: Reg) -> Load {
    let known = table.columns.get(column);
    Load {
        place,
        reg,
        real: known.is_some_and(|column| column.affinity == Affinity::Real),
        missing: known.map(|column| column.missing_value.clone()).unwrap_or_default(),
    }
}

/// Columns by their places in the table's own record.
fn row_loads(table: &Table, wanted: &[(usize, Reg)]) -> Loads {
    let mut loads = Loads::default();
    for &(column, reg) in wanted {
        if column == ROWID {
            loads.rowid = Some(reg);
        } else if let Some(place) = table.columns.get(column).and_then(|column| column.stored) {
            loads.columns.push(load(table, column, place, reg));
        }
    }
    // A record is read from its beginning to its end.
    loads.columns.sort_by_key(|load| load.place);
    loads
}

/// Whether an expression reads columns of one source alone and runs no query.
fn only_reads(expr: &Expr, source: SourceId) -> bool {
    let mut only = true;
    expr.columns(&mut |of, _| only &= of == source);
    only && !expr.runs_query()
}

/// The conditions of a select, `WHERE` and `ON` alike.
fn terms(select: &Select) -> Vec<Term<'_>> {
    let from = select.sources.iter().rposition(Source::keeps_right).unwrap_or(0);
    let term = |expr, on: Option<usize>| Term {
        expr,
        reads: reads_of(expr, &select.sources),
        on,
        from: on.unwrap_or(from),
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
        on_codes: Vec::new(),
        filter_codes: Vec::new(),
        build_codes: Vec::new(),
        early: Vec::new(),
    };
    for &used in &draft.path.used {
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

/// Whether the first loop alone gives the rows in the order asked for, and if so whether it must
/// run backwards.
fn in_order(
    select: &Select,
    first: &Draft<'_>,
    sources: &[Source],
    order_by: &[OrderKey],
) -> Option<bool> {
    let source = &sources[first.place];
    let SourceKind::Table(table) = &source.kind else { return None };
    if first.path.each.is_some() {
        return None;
    }
    let mut columns = Vec::with_capacity(order_by.len());
    for key in order_by {
        let expr = match &key.key {
            Key::Output(index) => &select.outputs[*index],
            Key::Expr(expr) => expr,
        };
        match expr {
            Expr::Column { source: of, column } if *of == source.id => columns.push(*column),
            _ => return None,
        }
    }
    let first_key = order_by.first()?;
    let (index, skip) = match &first.path.kind {
        PathKind::RowidRange { .. } => {
            return (columns == [ROWID]).then_some(first_key.descending);
        }
        PathKind::Full if !table.without_rowid => {
            return (columns == [ROWID]).then_some(first_key.descending);
        }
        PathKind::RowidEqual(_) => return (sources.len() == 1).then_some(false),
        PathKind::Full => (None, 0),
        PathKind::Index { index, equal, .. } => (*index, equal.len()),
        PathKind::Hash(_) => return None,
    };
    let key_column = |place: usize| match index {
        None => {
            let part = table.primary_key.get(place)?;
            Some((part.column, part.collation.as_ref().ok().copied()?, part.descending))
        }
        Some(number) => {
            let column = table.indexes[number].columns.get(place)?;
            let collation = column.collation.as_ref().ok().copied()?;
            let source = match column.source {
                IndexSource::Column(known) if table.rowid_alias == Some(known) => ROWID,
                IndexSource::Column(known) => known,
                IndexSource::Rowid => ROWID,
                IndexSource::Expr(_) => return None,
            };
            Some((source, collation, column.descending))
        }
    };
    for (place, (key, column)) in order_by.iter().zip(&columns).enumerate() {
        let (known, collation, descending) = key_column(skip + place)?;
        let same = known == *column
            && collation == key.collation
            && descending == key.descending
            && key.nulls_first != descending;
        if !same {
            return None;
        }
    }
    Some(false)
}
