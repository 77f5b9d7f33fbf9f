//! Queries that outputs run: each is run for the rows given, and for no others.
//!
//! A view with an order or with outputs running queries is merged into the query around where each
//! output running a query is read once ([`merge_views`]): conditions, order and bounds then reach
//! the view's tables. Merged otherwise, every use would run the query again: the view stays, and
//! outputs read once move to the query around, behind its conditions. Unread outputs of a subquery
//! become NULL ([`drop_unread`]). The first rows of an order are found without their late outputs:
//! queries that are no sort keys run for rows within the bound ([`compute_late`]).

use rustc_hash::FxHashMap;

use super::collation::Coll;
use super::from::JOIN_MAX;
use super::merge::{MERGED_SIZE_MAX, is_json, plain_select};
use super::orders::{Above, above, is_count, only_query};
use super::tree::{
    Body, Expr, Key, OrderKey, OutputColumn, Query, Select, Source, SourceId, SourceKind,
};
use super::unnest::Free;
use crate::parse::ast::CompoundOp;
use crate::value::Value;

/// Merges views with an order or with outputs running queries, where each such output is read once.
pub(crate) fn merge_views(query: &mut Query) {
    each_query(query, &mut |query| {
        let Query { body, order_by, .. } = query;
        if let Body::Select(select) = body {
            while merge_view(select, order_by) {}
            raise_outputs(select, order_by);
            drop_order(select, order_by);
        }
    });
}

/// Makes unread outputs of subqueries in a `FROM` NULL, and leaves out the windows only unread
/// outputs used.
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

/// Moves late outputs behind `ORDER BY ... LIMIT`: outputs running queries, sort keys excepted.
pub(crate) fn compute_late(query: &mut Query, free: &mut Free) {
    each_query(query, &mut |query| {
        if let Some(late) = late_outputs(query) {
            let whole = std::mem::replace(query, empty());
            *query = computed_late(whole, &late, free);
        }
    });
}

/// Calls `change` for a query and the queries of its `FROM`s and parts, outer ones first.
pub(super) fn each_query(query: &mut Query, change: &mut dyn FnMut(&mut Query)) {
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

/// How often the expressions of a select and its order read each column of a source. A read within
/// a query of an expression, run for several rows perhaps, counts more than once.
struct Reads(FxHashMap<usize, usize>);

impl Reads {
    fn of(select: &Select, order_by: &[OrderKey], source: SourceId) -> Reads {
        let mut counts = FxHashMap::default();
        let mut count = |expr: &Expr| {
            if let Expr::Column { source: of, column } = expr
                && *of == source
            {
                *counts.entry(*column).or_default() += 1;
            }
        };
        let mut see = |expr: &Expr| {
            count(expr);
            if let Some(query) = expr.query() {
                query.walk(&mut count);
            }
        };
        select.walk(&mut see);
        order_by.iter().for_each(|key| key.walk(&mut see));
        Reads(counts)
    }

    /// True of a column read at most once, and by no query of an expression.
    fn is_single(&self, column: usize) -> bool {
        self.0.get(&column).is_none_or(|count| *count <= 1)
    }

    fn is_read(&self, column: usize) -> bool {
        self.0.contains_key(&column)
    }
}

/// The view a select reads alone: a plain select, with an order perhaps.
fn plain_view(select: &Select) -> Option<(SourceId, &Select, &[OrderKey])> {
    let (id, query) = only_query(select)?;
    let view = plain_select(query, true)?;
    // Groups and partitions are recognised in the outputs by the form of their keys.
    let is_flat = select.group_by.is_none() && select.window_calls.is_empty() || is_count(select);
    let fits = is_flat
        && view.sources.len() <= JOIN_MAX
        && !view.sources.iter().any(|source| source.guarded);
    fits.then_some((id, view, &query.order_by))
}

/// Merges a [`plain_view`] into the select reading the view; true where a view was merged.
fn merge_view(select: &mut Select, order_by: &mut Vec<OrderKey>) -> bool {
    let Some((source, view, below)) = plain_view(select) else { return false };
    let Some(above) = above(select, order_by, source, below) else { return false };
    let raised = match &above {
        Above::Order(keys) => keys,
        Above::Unseen => &*order_by,
    };
    let reads = Reads::of(select, raised, source);
    let merges = |(column, output): (usize, &Expr)| {
        let is_small = !output.runs_query() && output.size() <= MERGED_SIZE_MAX;
        !is_json(output) && (reads.is_single(column) || is_small && output.is_deterministic())
    };
    if !view.outputs.iter().enumerate().all(merges) {
        return false;
    }
    if let Above::Order(keys) = above {
        *order_by = keys;
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

/// Drops the order of the one query a select reads, where nobody sees the order.
fn drop_order(select: &mut Select, order_by: &[OrderKey]) {
    let Some((source, Query { order_by: below, limit: None, offset: None, .. })) =
        only_query(select)
    else {
        return;
    };
    let is_unseen = matches!(above(select, order_by, source, below), Some(Above::Unseen));
    if let ([Source { kind: SourceKind::Query(below), .. }], true) =
        (&mut *select.sources, is_unseen)
    {
        below.order_by.clear();
    }
}

/// Moves outputs running queries from a [`plain_view`] to the outputs of the select around, where
/// each is read once; the view gives the columns read by the moved outputs.
fn raise_outputs(select: &mut Select, order_by: &[OrderKey]) {
    let Some((source, view, [])) = plain_view(select) else { return };
    if !view.outputs.iter().any(Expr::runs_query) {
        return;
    }
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

/// True where the number of a body's rows does not depend on its outputs.
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

/// One flag for each output of a query with `ORDER BY ... LIMIT`: true for a late output, running
/// a query and no sort key. `None` for a query without late outputs.
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

/// Splits a query in two: the inner one finds the first rows, with the columns read by late
/// outputs; the outer one computes the late outputs.
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
    let first = Source::new(source, SourceKind::Query(Box::new(first)), "first".to_owned());
    let select = Select::of_sources(outer, vec![first], outputs.collect());
    let body = Body::Select(Box::new(select));
    let (order_by, limit, offset) = (Vec::new(), None, None);
    Query { body, columns, as_expression, order_by, limit, offset, correlated }
}

/// A column for a query around alone.
pub(super) fn unnamed() -> OutputColumn {
    OutputColumn {
        name: String::new(),
        inner_name: String::new(),
        written: None,
        affinity: None,
        collation: Coll::default(),
        classes: 0,
        declared_type: None,
    }
}

/// Stands for a query being rewritten.
pub(super) fn empty() -> Query {
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
