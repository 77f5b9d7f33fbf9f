//! In which order a select's sources are read, and whether that gives its rows in the order that
//! is asked for.

use super::access::{Frame, KeyExpr, Path, PathKind, Sources, best, reads_of};
use super::keyed::key_columns;
use crate::resolve::tree::{Aggregate, Expr, Key, OrderKey, ROWID, Select, Source, SourceKind};
use crate::value::Collation;

/// More sources than this are ordered step by step instead of by trying every order.
const EXHAUSTIVE_MAX: usize = 8;

/// The order that rows are asked for in.
pub(super) struct Wanted<'e> {
    keys: Vec<WantedKey<'e>>,
    /// How many of them are taken.
    limit: Option<f64>,
}

/// One key of such an order.
struct WantedKey<'e> {
    expr: &'e Expr,
    descending: bool,
    nulls_first: bool,
    collation: Collation,
}

/// How a select's sources are read.
pub(super) struct Choice<'e> {
    /// Their places in the list.
    pub(super) places: Vec<usize>,
    /// The way to the rows of the first one, where the wanted order decided it.
    pub(super) first: Option<Path<'e>>,
    /// Whether the rows come in the wanted order, and if so whether the first source is read
    /// backwards for it.
    pub(super) descending: Option<bool>,
}

/// The tree of fewest pages, where all that is asked is how many rows a table has.
pub(super) fn count<'e>(frame: &Frame<'e>, select: &Select) -> Option<Choice<'e>> {
    let counts = |aggregate: &Aggregate| {
        aggregate.function.name() == "count"
            && aggregate.arguments.is_empty()
            && aggregate.filter.is_none()
    };
    let [Source { kind: SourceKind::Table(table), .. }] = frame.sources else { return None };
    let alone = frame.terms.is_empty()
        && frame.needed[0].is_empty()
        && select.group_by.as_ref().is_some_and(Vec::is_empty)
        && !select.aggregates.is_empty()
        && select.aggregates.iter().all(counts);
    if !alone {
        return None;
    }
    let pages = |path: &Path<'_>| match &path.kind {
        PathKind::Index { index: Some(number), .. } => table.indexes[*number].page_count(),
        _ => table.page_count(),
    };
    let paths = frame.paths(0, 0).into_iter();
    let mut paths: Vec<(f64, Path<'e>)> =
        paths.filter_map(|path| Some((pages(&path)?, path))).collect();
    // Of equal trees the table is taken.
    paths.sort_by(|a, b| a.0.total_cmp(&b.0));
    let first = paths.into_iter().next().map(|(_, path)| path);
    Some(Choice { places: vec![0], first, descending: None })
}

/// The cheapest order of reading, the sort that it leaves to do counted in.
pub(super) fn choose<'e>(frame: &Frame<'e>, wanted: Option<&Wanted<'e>>) -> Choice<'e> {
    let plain = order(frame, None);
    let unsorted = Choice { places: plain.order.clone(), first: None, descending: None };
    let Some(wanted) = wanted else { return unsorted };
    let Some(&first) = plain.order.first() else { return unsorted };
    let share = |rows: f64| wanted.limit.map_or(1.0, |limit| (limit / rows.max(1.0)).min(1.0));
    let path = best(frame, first, 0, 1.0);
    if let Some(descending) = in_order(frame, first, &path, wanted) {
        return Choice { descending: Some(descending), ..unsorted };
    }
    let rows = plain.rows.max(2.0);
    let sort = match wanted.limit {
        Some(limit) => rows * (1.0 + limit.clamp(2.0, rows).log2() / 4.0),
        None => rows * (2.0 + rows.log2()),
    };
    let mut cheapest = (plain.cost + sort, unsorted);
    for place in 0..frame.sources.len() {
        if required(frame.sources, place) != 0 {
            continue;
        }
        for path in frame.paths(place, 0) {
            let Some(descending) = in_order(frame, place, &path, wanted) else { continue };
            let sorted = order(frame, Some((place, &path)));
            let cost = sorted.cost * share(sorted.rows);
            if cost < cheapest.0 {
                let first = Some(path);
                let descending = Some(descending);
                cheapest = (cost, Choice { places: sorted.order, first, descending });
            }
        }
    }
    cheapest.1
}

/// The sources that must be read before the one at `place`: all before the right side of an outer
/// join or of `CROSS JOIN`, and all up to a join that keeps its right side's rows.
fn required(sources: &[Source], place: usize) -> Sources {
    let source = &sources[place];
    if source.join.is_some() || source.fixed {
        return (1 << place) - 1;
    }
    let mut required = match sources[..place].iter().rposition(Source::keeps_right) {
        Some(last) => (1 << (last + 1)) - 1,
        None => 0,
    };
    if let SourceKind::Function { arguments, .. } = &source.kind {
        for argument in arguments.iter().flatten() {
            required |= reads_of(argument, sources);
        }
    }
    required & !(1 << place)
}

#[derive(Clone, Default)]
struct Partial {
    cost: f64,
    rows: f64,
    order: Vec<usize>,
}

impl Partial {
    /// Nothing read yet, or the first source by a way that is given.
    fn start(first: Option<(usize, &Path<'_>)>) -> Partial {
        match first {
            None => Partial { cost: 0.0, rows: 1.0, order: Vec::new() },
            Some((place, path)) => {
                Partial { cost: path.fixed + path.per_row, rows: path.rows, order: vec![place] }
            }
        }
    }
}

fn order(frame: &Frame<'_>, first: Option<(usize, &Path<'_>)>) -> Partial {
    match frame.sources.len() {
        count if count <= EXHAUSTIVE_MAX => exhaustive(frame, first),
        _ => greedy(frame, first),
    }
}

/// The cheapest order, by dynamic programming over sets of sources.
fn exhaustive(frame: &Frame<'_>, first: Option<(usize, &Path<'_>)>) -> Partial {
    let sources = frame.sources;
    let full: usize = (1 << sources.len()) - 1;
    let start = first.map_or(0, |(place, _)| 1 << place);
    let mut cheapest: Vec<Option<Partial>> = vec![None; full + 1];
    cheapest[start] = Some(Partial::start(first));
    for known in start..full {
        let Some(partial) = cheapest[known].clone() else { continue };
        let set = known as Sources;
        for place in 0..sources.len() {
            if set & 1 << place != 0 || required(sources, place) & !set != 0 {
                continue;
            }
            let path = best(frame, place, set, partial.rows);
            let cost = partial.cost + path.fixed + partial.rows * path.per_row;
            let slot = &mut cheapest[known | 1 << place];
            // Of equal costs the one found first stays, which keeps the order written.
            if slot.as_ref().is_none_or(|other| cost < other.cost) {
                let mut order = partial.order.clone();
                order.push(place);
                *slot = Some(Partial { cost, rows: partial.rows * path.rows, order });
            }
        }
    }
    let written = || Partial { order: (0..sources.len()).collect(), ..Partial::default() };
    cheapest.swap_remove(full).unwrap_or_else(written)
}

/// The cheapest next source, again and again.
fn greedy(frame: &Frame<'_>, first: Option<(usize, &Path<'_>)>) -> Partial {
    let sources = frame.sources;
    let mut known: Sources = first.map_or(0, |(place, _)| 1 << place);
    let mut partial = Partial::start(first);
    while partial.order.len() < sources.len() {
        let next = (0..sources.len())
            .filter(|place| known & 1 << place == 0)
            .filter(|&place| required(sources, place) & !known == 0)
            .map(|place| {
                let path = best(frame, place, known, partial.rows);
                (place, path.fixed + partial.rows * path.per_row, path.rows)
            })
            .min_by(|a, b| a.1.total_cmp(&b.1));
        let Some((place, cost, found)) = next else { break };
        partial.cost += cost;
        partial.rows *= found;
        known |= 1 << place;
        partial.order.push(place);
    }
    partial
}

/// Whether a way to the rows of the first source gives them in the wanted order, and if so whether
/// it must run backwards.
fn in_order(frame: &Frame<'_>, place: usize, path: &Path<'_>, wanted: &Wanted<'_>) -> Option<bool> {
    let source = &frame.sources[place];
    let SourceKind::Table(table) = &source.kind else { return None };
    if path.each.is_some() || frame.sources.iter().any(Source::keeps_right) {
        return None;
    }
    let alone = frame.sources.len() == 1;
    let (index, equal) = match &path.kind {
        PathKind::Hash(_) | PathKind::Any { .. } => return None,
        PathKind::RowidEqual(_) => return alone.then_some(false),
        PathKind::Full | PathKind::RowidRange { .. } if !table.without_rowid => {
            let key = wanted.keys.first()?;
            let rowid = matches!(key.expr,
                Expr::Column { source: of, column: ROWID } if *of == source.id);
            // No two rows have one rowid, so what comes after it orders nothing.
            let unique = alone || wanted.keys.len() == 1;
            return (rowid && unique).then_some(key.descending);
        }
        PathKind::Full | PathKind::RowidRange { .. } => (None, &[][..]),
        PathKind::Index { index, equal, .. } => (*index, equal.as_slice()),
    };
    let columns = key_columns(source, index);
    let unique = match index {
        None => columns.len(),
        Some(number) => {
            let index = &table.indexes[number];
            let key = &columns[..index.key_columns];
            let one = index.unique && key.iter().all(|column| column.not_null);
            if one { index.key_columns } else { columns.len() }
        }
    };
    let mut next = equal.len();
    let mut backwards = None;
    for key in &wanted.keys {
        // What is equal in all rows orders nothing.
        let constant = columns[..equal.len()].iter().zip(equal).any(|(column, (value, ..))| {
            matches!(value, KeyExpr::Expr(_))
                && column.is(source.id, key.expr)
                && column.collation == Some(key.collation)
        });
        if constant {
            continue;
        }
        if next >= unique && alone {
            break;
        }
        let column = columns.get(next)?;
        let fits = column.is(source.id, key.expr)
            && column.collation == Some(key.collation)
            && key.nulls_first != key.descending;
        let turned = key.descending != column.descending;
        if !fits || backwards.is_some_and(|known| known != turned) {
            return None;
        }
        backwards = Some(turned);
        next += 1;
    }
    Some(backwards.unwrap_or(false))
}

/// The order that a select's rows are best read in.
pub(super) fn wanted<'e>(
    select: &'e Select,
    order_by: &'e [OrderKey],
    limit: Option<f64>,
) -> Option<Wanted<'e>> {
    if !select.window_calls.is_empty() {
        return None;
    }
    if select.group_by.is_some() {
        return end_of_order(select);
    }
    let keys = order_by.iter().map(|key| WantedKey {
        expr: match &key.key {
            Key::Output(index) => &select.outputs[*index],
            Key::Expr(expr) => expr,
        },
        descending: key.descending,
        nulls_first: key.nulls_first,
        collation: key.collation,
    });
    let keys: Vec<WantedKey<'e>> = keys.collect();
    (!keys.is_empty()).then_some(Wanted { keys, limit })
}

/// The order whose first row has all that is asked for: that of a `min` or `max` alone.
fn end_of_order(select: &Select) -> Option<Wanted<'_>> {
    let ([aggregate], Some([])) = (select.aggregates.as_slice(), select.group_by.as_deref()) else {
        return None;
    };
    let Aggregate { function, arguments, distinct: _, filter: None, order_by, collation, json: _ } =
        aggregate
    else {
        return None;
    };
    let ([expr], true) = (arguments.as_slice(), order_by.is_empty()) else { return None };
    let descending = match function.name() {
        "min" => false,
        "max" => true,
        _ => return None,
    };
    let key = WantedKey { expr, descending, nulls_first: !descending, collation: *collation };
    Some(Wanted { keys: vec![key], limit: Some(1.0) })
}

/// Whether groups, which are given out by their keys, come in the order asked for.
pub(super) fn groups_in_order(
    select: &Select,
    keys: &[(Expr, Collation)],
    order_by: &[OrderKey],
) -> bool {
    order_by.len() <= keys.len()
        && order_by.iter().zip(keys).all(|(wanted, (expr, collation))| {
            let of = match &wanted.key {
                Key::Output(index) => &select.outputs[*index],
                Key::Expr(expr) => expr,
            };
            of.is_same(expr)
                && wanted.collation == *collation
                && !wanted.descending
                && wanted.nulls_first
        })
}

/// Whether a walk over an index may leave out the entries before the first that is not NULL: where
/// the first key that the walk does not seek is what the `min` or `max` is taken of.
pub(super) fn skips_nulls(select: &Select, place: usize, path: &Path<'_>) -> bool {
    let source = &select.sources[place];
    let argument = select.aggregates.first().and_then(|aggregate| aggregate.arguments.first());
    match (&path.kind, argument) {
        (PathKind::Index { index, equal, .. }, Some(argument)) => {
            let columns = key_columns(source, *index);
            columns.get(equal.len()).is_some_and(|column| column.is(source.id, argument))
        }
        _ => false,
    }
}
