//! Queries that outputs run: each is run for the rows given, and for no others.
//!
//! A view with such outputs is a query of its own, as a merged one would run each of them for every
//! use. Where every use is the only one, the view is merged after all ([`merge_views`]): conditions
//! and order then reach its tables. Where some are used twice, the others are computed by the query
//! around, of the rows that meet its conditions. Of a query that stays, the outputs nobody reads
//! become NULL ([`drop_unread`]). Of the first rows of an order, outputs other than its keys are
//! computed behind the bound ([`compute_late`]).

use rustc_hash::FxHashMap;

use super::collation::Coll;
use super::from::JOIN_MAX;
use super::merge::{MERGED_SIZE_MAX, is_json};
use super::tree::{
    Body, Expr, IndexHint, Key, OrderKey, OutputColumn, Query, Select, Source, SourceId, SourceKind,
};
use super::unnest::Free;
use crate::parse::ast::CompoundOp;
use crate::value::Value;

/// Merges views whose outputs run queries, where each such output is read once.
pub(crate) fn merge_views(query: &mut Query) {
    each_query(query, &mut |query| {
        let Query { body, order_by, .. } = query;
        if let Body::Select(select) = body {
            while merge_view(select, order_by) {}
            raise_outputs(select, order_by);
        }
    });
}

/// Makes the outputs nobody reads of queries in a `FROM` NULL, and leaves out windows made for
/// those alone.
pub(crate) fn drop_unread(query: &mut Query) {
    each_query(query, &mut |query| {
        let Query { body, order_by, .. } = query;
        let Body::Select(select) = body else { return };
        let sources: Vec<SourceId> = select.sources.iter().map(|source| source.id).collect();
        for (place, source) in sources.into_iter().enumerate() {
            let SourceKind::Query(inner) = &select.sources[place].kind else { continue };
            if !inner.order_by.is_empty() || !drops(&inner.body) {
                continue;
            }
            let reads = Reads::of(select, order_by, source);
            let SourceKind::Query(inner) = &mut select.sources[place].kind else { continue };
            drop_outputs(&mut inner.body, &reads);
        }
    });
}

/// Computes outputs that run queries behind the bound of a query's first rows.
pub(crate) fn compute_late(query: &mut Query) {
    let mut free = Free::of(query);
    each_query(query, &mut |query| {
        if let Some(late) = late_outputs(query) {
            let whole = std::mem::replace(query, empty());
            *query = computed_late(whole, &late, &mut free);
        }
    });
}

/// Calls `change` for a query and the queries of its `FROM`s and parts, outer ones first.
fn each_query(query: &mut Query, change: &mut dyn FnMut(&mut Query)) {
    change(query);
    each_of_body(&mut query.body, change);
}

fn each_of_body(body: &mut Body, change: &mut dyn FnMut(&mut Query)) {
    match body {
        Body::Values(_) => {}
        Body::Select(select) => {
            for source in &mut select.sources {
                if let SourceKind::Query(query) = &mut source.kind {
                    each_query(query, change);
                }
            }
        }
        Body::Compound { first, rest, .. } => {
            each_of_body(first, change);
            rest.iter_mut().for_each(|(_, body)| each_of_body(body, change));
        }
        Body::Shared(shared) => each_query(&mut shared.query, change),
        Body::Recursive(recursion) => {
            each_of_body(&mut recursion.first, change);
            recursion.steps.iter_mut().for_each(|body| each_of_body(body, change));
        }
    }
}

/// How often each column of a source is read, by the expressions of a select and within the queries
/// of those.
struct Reads {
    counts: FxHashMap<usize, usize>,
    inside: FxHashMap<usize, usize>,
}

impl Reads {
    fn of(select: &Select, order_by: &[OrderKey], source: SourceId) -> Reads {
        let mut reads = Reads { counts: FxHashMap::default(), inside: FxHashMap::default() };
        let mut see = |expr: &Expr| {
            let count = |counts: &mut FxHashMap<usize, usize>, expr: &Expr| match expr {
                Expr::Column { source: of, column } if *of == source => {
                    *counts.entry(*column).or_default() += 1;
                }
                _ => {}
            };
            count(&mut reads.counts, expr);
            if let Some(query) = expr.query() {
                query.walk(&mut |part| count(&mut reads.inside, part));
            }
        };
        select.walk(&mut see);
        order_by.iter().for_each(|key| key.walk(&mut see));
        reads
    }

    /// True of a column read at most once, and by no query.
    fn is_single(&self, column: usize) -> bool {
        self.counts.get(&column).is_none_or(|count| *count <= 1)
            && !self.inside.contains_key(&column)
    }

    fn is_read(&self, column: usize) -> bool {
        self.counts.contains_key(&column)
    }
}

/// The view that is the one source of a select, where the view gives each row of its tables that
/// meets its conditions, and has outputs that run queries.
fn plain_view(select: &Select) -> Option<(SourceId, &Select)> {
    let [
        Source {
            id, kind: SourceKind::Query(query), join: None, guarded: false, index_hint, ..
        },
    ] = &*select.sources
    else {
        return None;
    };
    let is_bare = query.limit.is_none() && query.offset.is_none() && query.order_by.is_empty();
    let Body::Select(view) = &query.body else { return None };
    let is_plain = view.group_by.is_none()
        && view.distinct.is_none()
        && view.window_calls.is_empty()
        && !view.sources.is_empty()
        && view.sources.len() <= JOIN_MAX
        && !view.sources.iter().any(|source| source.guarded)
        && *index_hint == IndexHint::Any;
    // What a group or a partition is made of is compared with the outputs by form.
    let is_flat = select.group_by.is_none() && select.window_calls.is_empty();
    let fits = is_bare && is_plain && is_flat && view.outputs.iter().any(Expr::runs_query);
    fits.then_some((*id, &**view))
}

/// Merges the one source of a select, where it is such a view; true where one was merged.
fn merge_view(select: &mut Select, order_by: &mut [OrderKey]) -> bool {
    let Some((source, view)) = plain_view(select) else { return false };
    let reads = Reads::of(select, order_by, source);
    let merges = |(column, output): (usize, &Expr)| {
        let is_small = !output.runs_query() && output.size() <= MERGED_SIZE_MAX;
        !is_json(output) && (reads.is_single(column) || is_small && is_fixed(output))
    };
    if !view.outputs.iter().enumerate().all(merges) {
        return false;
    }
    let Some(Source { kind: SourceKind::Query(query), .. }) = select.sources.pop() else {
        unreachable!("the one source is a query");
    };
    let Body::Select(view) = query.body else { unreachable!("the query is a select") };
    let Select { sources, mut conjuncts, outputs, .. } = *view;
    let mut substitute = |expr: &mut Expr| match expr {
        Expr::Column { source: of, column } if *of == source => {
            if let Some(output) = outputs.get(*column) {
                *expr = output.clone();
            }
        }
        _ => {}
    };
    select.walk_mut(&mut substitute);
    order_by.iter_mut().for_each(|key| key.walk_mut(&mut substitute));
    conjuncts.append(&mut select.conjuncts);
    (select.sources, select.conjuncts) = (sources, conjuncts);
    true
}

/// Makes outputs of a select of the outputs of its view that run queries and are read there alone;
/// the view gives the columns they read.
fn raise_outputs(select: &mut Select, order_by: &[OrderKey]) {
    let Some((source, view)) = plain_view(select) else { return };
    let reads = Reads::of(select, order_by, source);
    let mut raised: FxHashMap<usize, Expr> = FxHashMap::default();
    for output in &select.outputs {
        output.walk(&mut |part| {
            let Expr::Column { source: of, column } = part else { return };
            let Some(output) = view.outputs.get(*column).filter(|_| *of == source) else { return };
            if reads.is_single(*column) && output.runs_query() && !is_json(output) {
                raised.insert(*column, output.clone());
            }
        });
    }
    let [Source { kind: SourceKind::Query(query), .. }] = &mut *select.sources else { return };
    let Query { body: Body::Select(view), columns, .. } = &mut **query else { return };
    let sources: Vec<SourceId> = view.sources.iter().map(|source| source.id).collect();
    for (column, expr) in &mut raised {
        view.outputs[*column] = Expr::Const(Value::Null);
        expr.walk_mut(&mut |part| {
            if !matches!(part, Expr::Column { source: of, .. } if sources.contains(of)) {
                return;
            }
            let known = view.outputs.iter().position(|output| output.is_same(part));
            let place = known.unwrap_or(view.outputs.len());
            let own = std::mem::replace(part, Expr::Column { source, column: place });
            if known.is_none() {
                view.outputs.push(own);
                columns.push(unnamed());
            }
        });
    }
    for output in &mut select.outputs {
        output.walk_mut(&mut |part| {
            if let Expr::Column { source: of, column } = part
                && *of == source
                && let Some(expr) = raised.remove(column)
            {
                *part = expr;
            }
        });
    }
}

/// True where an expression has the same value whenever evaluated for a row.
fn is_fixed(expr: &Expr) -> bool {
    let mut fixed = match expr {
        Expr::Call { function, .. } => function.deterministic,
        _ => true,
    };
    expr.parts(&mut |part| fixed &= is_fixed(part));
    fixed
}

/// True where an output may be left out without a change of the rows.
fn drops(body: &Body) -> bool {
    match body {
        Body::Select(select) => select.distinct.is_none(),
        Body::Compound { first, rest, .. } => {
            drops(first) && rest.iter().all(|(op, body)| *op == CompoundOp::UnionAll && drops(body))
        }
        Body::Values(_) | Body::Recursive(_) | Body::Shared(_) => false,
    }
}

fn drop_outputs(body: &mut Body, reads: &Reads) {
    match body {
        Body::Select(select) => {
            let outputs = select.outputs.iter_mut().enumerate();
            for (_, output) in outputs.filter(|(column, _)| !reads.is_read(*column)) {
                *output = Expr::Const(Value::Null);
            }
            let mut is_windowed = false;
            select.outputs.iter().for_each(|output| {
                output.walk(&mut |part| {
                    is_windowed |=
                        matches!(part, Expr::Window { select: of, .. } if *of == select.id);
                });
            });
            if !is_windowed {
                (select.windows, select.window_calls) = (Vec::new(), Vec::new());
            }
        }
        Body::Compound { first, rest, .. } => {
            drop_outputs(first, reads);
            rest.iter_mut().for_each(|(_, body)| drop_outputs(body, reads));
        }
        Body::Values(_) | Body::Recursive(_) | Body::Shared(_) => {}
    }
}

/// For each output of the first rows in an order: true where the output runs a query and is no key.
/// `None` for a query without such outputs.
fn late_outputs(query: &Query) -> Option<Vec<bool>> {
    let Body::Select(select) = &query.body else { return None };
    let is_ordered = !query.order_by.is_empty() && query.limit.is_some();
    let is_plain =
        select.group_by.is_none() && select.distinct.is_none() && select.window_calls.is_empty();
    if !is_ordered || !is_plain || select.sources.is_empty() {
        return None;
    }
    let is_key = |output: usize| {
        query.order_by.iter().any(|key| matches!(key.key, Key::Output(key) if key == output))
    };
    let outputs = select.outputs.iter().enumerate();
    let late: Vec<bool> =
        outputs.map(|(number, output)| output.runs_query() && !is_key(number)).collect();
    late.contains(&true).then_some(late)
}

/// A query of the first rows with the columns that its late outputs read, below a query that
/// computes the late outputs.
fn computed_late(query: Query, late: &[bool], free: &mut Free) -> Query {
    let Query { body, columns, as_expression, mut order_by, limit, offset, correlated } = query;
    let Body::Select(mut select) = body else { unreachable!("late outputs are of a select") };
    let (outer, source) = (free.select, free.source);
    (free.select, free.source) = (outer + 1, source + 1);
    let sources: Vec<SourceId> = select.sources.iter().map(|source| source.id).collect();
    let (mut inner_outputs, mut inner_columns) = (Vec::new(), Vec::new());
    let mut places = Vec::with_capacity(late.len());
    let mut late_exprs = Vec::new();
    for ((output, column), is_late) in select.outputs.drain(..).zip(&columns).zip(late) {
        match is_late {
            true => {
                places.push(None);
                late_exprs.push(output);
            }
            false => {
                places.push(Some(inner_outputs.len()));
                inner_outputs.push(output);
                inner_columns.push(column.clone());
            }
        }
    }
    let mut known: FxHashMap<(SourceId, usize), usize> = FxHashMap::default();
    for expr in &mut late_exprs {
        expr.walk_mut(&mut |part| {
            let Expr::Column { source: of, column } = part else { return };
            if !sources.contains(of) {
                return;
            }
            let place = *known.entry((*of, *column)).or_insert_with(|| {
                inner_outputs.push(Expr::Column { source: *of, column: *column });
                inner_columns.push(unnamed());
                inner_outputs.len() - 1
            });
            *part = Expr::Column { source, column: place };
        });
    }
    for key in &mut order_by {
        if let Key::Output(output) = &mut key.key {
            *output = places[*output].expect("a key is no late output");
        }
    }
    select.outputs = inner_outputs;
    let first = Query {
        body: Body::Select(select),
        columns: inner_columns,
        as_expression,
        order_by,
        limit,
        offset,
        correlated,
    };
    let mut late_exprs = late_exprs.into_iter();
    let outputs = places.into_iter().map(|place| match place {
        Some(column) => Expr::Column { source, column },
        None => late_exprs.next().expect("an output is late or has a place"),
    });
    let select = Select {
        id: outer,
        outputs: outputs.collect(),
        sources: vec![Source::new(source, SourceKind::Query(Box::new(first)), "first".to_owned())],
        conjuncts: Vec::new(),
        group_by: None,
        aggregates: Vec::new(),
        having: None,
        windows: Vec::new(),
        window_calls: Vec::new(),
        distinct: None,
    };
    let body = Body::Select(Box::new(select));
    let (order_by, limit, offset) = (Vec::new(), None, None);
    Query { body, columns, as_expression, order_by, limit, offset, correlated }
}

/// A column for a query around alone.
fn unnamed() -> OutputColumn {
    OutputColumn {
        name: String::new(),
        inner_name: String::new(),
        affinity: None,
        collation: Coll::default(),
        classes: 0,
        declared_type: None,
    }
}

/// Stands for a query being rewritten.
fn empty() -> Query {
    Query {
        body: Body::Values(Vec::new()),
        columns: Vec::new(),
        as_expression: (None, Coll::default()),
        order_by: Vec::new(),
        limit: None,
        offset: None,
        correlated: false,
    }
}
