//! In which order a select's sources are read, and whether that gives its rows in the order that
//! is asked for.

use super::access::{Frame, KeyExpr, Path, PathKind, Sources, best, reads_of, table_rows};
use super::cost::{HASH_FOUND, HASHED};
use super::keyed::{KeyColumn, key_columns};
use super::query_rows::found_rows;
use crate::resolve::tree::{Aggregate, Expr, Key, OrderKey, ROWID, Select, Source, SourceKind};
use crate::value::Collation;

/// More sources than this are ordered step by step instead of by trying every order.
pub(super) const EXHAUSTIVE_MAX: usize = 10;
/// An order begun by a way is followed where at most this share of the rows is read.
const BEGUN_MAX: f64 = 0.3;
/// The share of groups taken to meet a `HAVING` where a `LIMIT` waits for them.
const HAVING: f64 = 0.2;

/// The order that rows are asked for in.
pub(super) struct Wanted<'e> {
    keys: Vec<WantedKey<'e>>,
    /// How many of them are taken.
    limit: Option<f64>,
    /// True where it is enough that rows which are equal by the keys come one after the other.
    together: bool,
    /// The number of groups, where the limit is one of groups.
    groups: Option<f64>,
    /// True where rows are given as they are found in whatever order, until the limit is met.
    streams: bool,
    /// True where rows in the order of the first keys alone are worth something: the first rows are
    /// known once the next key is behind them.
    may_begin: bool,
    /// True where all rows equal by the keys are read before the first of them is given.
    parts: bool,
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
    /// The way to the rows of the first one, where it was decided on: by the wanted order, or
    /// because there is no other.
    pub(super) first: Option<Path<'e>>,
    /// `Some` where the rows come in the wanted order: true where the first source is read
    /// backwards for the order.
    pub(super) descending: Option<bool>,
    /// Number of first keys in whose order the rows come, where not all do; 0 for none.
    pub(super) begins: usize,
    /// The share of the first source's rows read until enough rows are known.
    pub(super) share: f64,
}

/// The part of the wanted order served by a way.
#[derive(Clone, Copy)]
struct Served {
    descending: bool,
    /// Number of the wanted keys served.
    keys: usize,
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
    let paths = frame.paths(0, 0);
    let paths = paths.iter().cloned();
    let mut paths: Vec<(f64, Path<'e>)> =
        paths.filter_map(|path| Some((pages(&path)?, path))).collect();
    // Of equal trees the table is taken.
    paths.sort_by(|a, b| a.0.total_cmp(&b.0));
    let first = paths.into_iter().next().map(|(_, path)| path);
    Some(Choice { places: vec![0], first, descending: None, begins: 0, share: 1.0 })
}

/// The cheapest order of reading, the sort that it leaves to do counted in. Of rows asked for in no
/// order `limit` are read.
pub(super) fn choose<'e>(
    frame: &Frame<'e>,
    wanted: Option<&Wanted<'e>>,
    limit: Option<f64>,
) -> Choice<'e> {
    let alone = (frame.sources.len() == 1).then(|| best(frame, 0, 0, (1.0, None)));
    let plain = match &alone {
        Some(path) => Partial::start(Some((0, path)), 1.0),
        None => order(frame, None, 1.0),
    };
    let all_rows = plain.rows;
    let unsorted =
        Choice { places: plain.order, first: alone, descending: None, begins: 0, share: 1.0 };
    let is_join = frame.sources.len() > 1;
    let Some(wanted) = wanted else {
        let share = limit.map_or(1.0, |limit| (limit / all_rows.max(1.0)).min(1.0));
        return match is_join && share < 1.0 {
            true => Choice { places: order(frame, None, share).order, share, ..unsorted },
            false => unsorted,
        };
    };
    let Some(&first) = unsorted.places.first() else { return unsorted };
    let all = wanted.keys.len();
    // The share of the rows read until enough are known: rows equal by the keys served are read.
    let share = |keys: usize, path: &Path<'_>, place: usize| {
        let Some(limit) = wanted.limit else { return 1.0 };
        let wanted_rows = match keys == all && !wanted.parts {
            true => limit,
            false => limit + all_rows * first_key_share(frame, place, path).unwrap_or(1.0),
        };
        (wanted_rows / wanted.groups.unwrap_or(all_rows).max(1.0)).min(1.0)
    };
    let serves = |place: usize, path: &Path<'_>| {
        in_order(frame, place, path, wanted).or_else(|| {
            let together = wanted.together && brings_together(frame, place, path, &wanted.terms());
            together.then_some(Served { descending: false, keys: all })
        })
    };
    let path = unsorted.first.clone().unwrap_or_else(|| best(frame, first, 0, (1.0, None)));
    let mut begun = unsorted;
    if let Some(served) = serves(first, &path) {
        let descending = Some(served.descending);
        let share = share(served.keys, &path, first);
        let is_all = served.keys == all;
        // Rows nearly all equal by these keys are better sorted as they are found.
        if is_all || share < BEGUN_MAX {
            let begins = if is_all { 0 } else { served.keys };
            if is_join && share < 1.0 {
                begun.places = order(frame, Some((first, &path)), share).order;
            }
            if !is_all || share < 1.0 {
                begun.first.get_or_insert(path);
            }
            begun = Choice { descending, begins, share, ..begun };
        }
        if is_all {
            return begun;
        }
    }
    let streamed = wanted.limit.filter(|_| wanted.streams && is_join);
    let mut cheapest = if let Some(limit) = streamed {
        let share = (limit / wanted.groups.unwrap_or(all_rows).max(1.0)).min(1.0);
        let streamed = order(frame, None, share);
        let cost = streamed.cost + streamed.rows * HASHED;
        let places = streamed.order;
        (cost, Choice { places, first: None, descending: None, begins: 0, share })
    } else {
        let rows = all_rows.max(2.0);
        let sort = match wanted.limit {
            _ if wanted.together => rows * HASHED,
            Some(limit) => rows * (1.0 + limit.clamp(2.0, rows).log2() / 4.0),
            None => rows * (2.0 + rows.log2()),
        };
        (plain.cost + sort, begun)
    };
    for place in 0..frame.sources.len() {
        if required(frame.sources, place) != 0 {
            continue;
        }
        for path in frame.paths(place, 0).iter().cloned() {
            let Some(served) = serves(place, &path) else { continue };
            let share = share(served.keys, &path, place);
            let sorted = order(frame, Some((place, &path)), share);
            if sorted.cost < cheapest.0 {
                let (places, first) = (sorted.order, Some(path));
                let descending = Some(served.descending);
                let begins = if served.keys == all { 0 } else { served.keys };
                cheapest = (sorted.cost, Choice { places, first, descending, begins, share });
            }
        }
    }
    cheapest.1
}

/// The share of a table's rows with one value of the first sort key served by a way, where known.
fn first_key_share(frame: &Frame<'_>, place: usize, path: &Path<'_>) -> Option<f64> {
    let SourceKind::Table(table) = &frame.sources[place].kind else { return None };
    let (index, equal) = match &path.kind {
        PathKind::Full | PathKind::RowidRange { .. } => (None, 0),
        PathKind::Index { index, equal, .. } => (*index, equal.len()),
        _ => return None,
    };
    let per_key = |columns| match index {
        Some(number) => table.indexes.get(number)?.rows_per_key(columns),
        None if table.without_rowid => table.rows_per_key(columns),
        None => Some(1.0),
    };
    let equal_rows = if equal == 0 { table_rows(table) } else { per_key(equal)? };
    Some((per_key(equal + 1)? / equal_rows.max(1.0)).min(1.0))
}

/// The cost of a select's cheapest plan, and the number of its rows.
pub(super) fn cost(frame: &Frame<'_>) -> (f64, f64) {
    let plain = match frame.sources.len() {
        1 => Partial::start(Some((0, &best(frame, 0, 0, (1.0, None)))), 1.0),
        _ => order(frame, None, 1.0),
    };
    (plain.cost, plain.rows)
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
    let arguments = match &source.kind {
        SourceKind::Module { arguments, .. } => arguments.as_slice(),
        SourceKind::Virtual(source) => &source.arguments,
        _ => &[],
    };
    for argument in arguments.iter().flatten() {
        required |= reads_of(argument, sources);
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
    /// Nothing read yet, or a share of the first source's rows by a way that is given.
    fn start(first: Option<(usize, &Path<'_>)>, share: f64) -> Partial {
        match first {
            None => Partial { cost: 0.0, rows: 1.0, order: Vec::new() },
            Some((place, path)) => Partial {
                cost: path.fixed + share * path.per_row,
                rows: share * path.rows,
                order: vec![place],
            },
        }
    }
}

/// The cheapest order, with a share of the first source's rows read.
fn order(frame: &Frame<'_>, first: Option<(usize, &Path<'_>)>, share: f64) -> Partial {
    match frame.sources.len() {
        count if count <= EXHAUSTIVE_MAX => exhaustive(frame, first, share),
        _ => greedy(frame, first, share),
    }
}

/// The cheapest order, by dynamic programming over sets of sources.
fn exhaustive(frame: &Frame<'_>, first: Option<(usize, &Path<'_>)>, share: f64) -> Partial {
    let sources = frame.sources;
    let (cheapest, full) = (of_sets(frame, first, share), (1 << sources.len()) - 1);
    let start = first.map_or(0, |(place, _)| 1 << place);
    let written = || Partial { order: (0..sources.len()).collect(), ..Partial::default() };
    let Some(Step { cost, rows, .. }) = cheapest[full] else { return written() };
    let mut order = Vec::with_capacity(sources.len());
    let mut known = full;
    while known != start {
        let Some(step) = cheapest[known] else { return written() };
        order.push(step.last);
        known &= !(1 << step.last);
    }
    order.extend(first.map(|(place, _)| place));
    order.reverse();
    Partial { cost, rows, order }
}

/// For each set of sources the cheapest way to have read it, where there is one, with a share of
/// the first source's rows.
pub(super) fn of_sets(
    frame: &Frame<'_>,
    first: Option<(usize, &Path<'_>)>,
    share: f64,
) -> Vec<Option<Step>> {
    let sources = frame.sources;
    let full: usize = (1 << sources.len()) - 1;
    let start = first.map_or(0, |(place, _)| 1 << place);
    let required: Vec<Sources> = (0..sources.len()).map(|place| required(sources, place)).collect();
    let mut cheapest: Vec<Option<Step>> = vec![None; full + 1];
    let begun = Partial::start(first, share);
    let begun = Partial { rows: begun.rows * frame.learned(0, start as Sources), ..begun };
    let (cost, rows) = (begun.cost, begun.rows);
    let given = first.map(|(place, _)| place);
    cheapest[start] = Some(Step { cost, rows, last: usize::MAX, first: given });
    for known in start..full {
        let Some(before) = cheapest[known] else { continue };
        let set = known as Sources;
        for place in 0..sources.len() {
            if set & 1 << place != 0 || required[place] & !set != 0 {
                continue;
            }
            let first = before.first;
            let (paths, number) = frame.cheapest(place, set, (before.rows, first));
            let Some(path) = paths.get(number) else { continue };
            let by = first.map(|first| sources[first].id);
            let learned = frame.learned(set, set | 1 << place);
            let share = if known == 0 { share } else { 1.0 };
            let rows = before.rows * share * path.rows * learned;
            let more = rows - before.rows * share * path.rows;
            let cost = match known {
                0 => path.fixed + share * path.per_row,
                _ => before.cost + path.cost(before.rows, by),
            } + more * HASH_FOUND;
            let slot = &mut cheapest[known | 1 << place];
            // Of equal costs the one found first stays, which keeps the order written.
            if slot.is_none_or(|other| cost < other.cost) {
                let first = first.or(Some(place));
                *slot = Some(Step { cost, rows, last: place, first });
            }
        }
    }
    cheapest
}

/// The cheapest way to have read a set of sources, and the ones read last and first.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) cost: f64,
    pub(super) rows: f64,
    last: usize,
    first: Option<usize>,
}

/// The cheapest next source, again and again.
fn greedy(frame: &Frame<'_>, first: Option<(usize, &Path<'_>)>, share: f64) -> Partial {
    let sources = frame.sources;
    let mut known: Sources = first.map_or(0, |(place, _)| 1 << place);
    let mut partial = Partial::start(first, share);
    while partial.order.len() < sources.len() {
        let next = (0..sources.len())
            .filter(|place| known & 1 << place == 0)
            .filter(|&place| required(sources, place) & !known == 0)
            .map(|place| {
                let first = partial.order.first().copied();
                let path = best(frame, place, known, (partial.rows, first));
                let by = first.map(|first| sources[first].id);
                (place, path.cost(partial.rows, by), path.rows)
            })
            .min_by(|a, b| a.1.total_cmp(&b.1));
        let Some((place, cost, found)) = next else { break };
        partial.cost += cost;
        let share = if known == 0 { share } else { 1.0 };
        partial.rows *= share * found * frame.learned(known, known | 1 << place);
        known |= 1 << place;
        partial.order.push(place);
    }
    partial
}

/// The part of the wanted order served by a way to rows of the first source: all keys, or the first
/// ones where [`Wanted::may_begin`].
fn in_order(
    frame: &Frame<'_>,
    place: usize,
    path: &Path<'_>,
    wanted: &Wanted<'_>,
) -> Option<Served> {
    let source = &frame.sources[place];
    let whole = |descending| Some(Served { descending, keys: wanted.keys.len() });
    if let PathKind::Virtual(found) = &path.kind {
        let is_ordered = found.choice.is_ordered && !wanted.together;
        return if is_ordered { whole(false) } else { None };
    }
    let walk = Walk::of(frame, place, path)?;
    let Walk::Index { columns, equal, unique, .. } = &walk else {
        let Walk::Rowids { one_row } = walk else { return None };
        let alone = frame.sources.len() == 1;
        if one_row {
            return if alone { whole(false) } else { None };
        }
        let key = wanted.keys.first().filter(|key| is_rowid(source, key.expr))?;
        // No two rows have one rowid, so what comes after it orders nothing.
        return match alone || wanted.keys.len() == 1 {
            true => whole(key.descending),
            false => wanted.begins_with(1, key.descending),
        };
    };
    let mut next = *equal;
    let mut backwards = None;
    for (number, key) in wanted.keys.iter().enumerate() {
        // What is equal in all rows orders nothing.
        if walk.is_constant(source, key.expr, key.collation) {
            continue;
        }
        if next >= *unique {
            break;
        }
        let column = columns.get(next);
        let fits = column.is_some_and(|column| {
            column.is(source.id, key.expr)
                && column.collation == Some(key.collation)
                && key.nulls_first != key.descending
        });
        let turned = column.is_some_and(|column| key.descending != column.descending);
        if !fits || backwards.is_some_and(|known| known != turned) {
            return backwards.and_then(|backwards| wanted.begins_with(number, backwards));
        }
        backwards = Some(turned);
        next += 1;
    }
    whole(backwards.unwrap_or(false))
}

/// In what order a way gives the rows of the first source.
enum Walk<'e> {
    /// By their rowids, or a single row.
    Rowids { one_row: bool },
    /// By the columns of an index behind the first `equal`, which are the same in all rows. Those
    /// up to `unique` tell any two rows of the select apart.
    Index { columns: Vec<KeyColumn<'e>>, equal: usize, unique: usize, constant: Vec<bool> },
}

impl<'e> Walk<'e> {
    /// `None` where it is in no order that is known.
    fn of(frame: &Frame<'e>, place: usize, path: &Path<'_>) -> Option<Walk<'e>> {
        let source = &frame.sources[place];
        let SourceKind::Table(table) = &source.kind else { return None };
        if path.each.is_some() || frame.sources.iter().any(Source::keeps_right) {
            return None;
        }
        let (index, equal) = match &path.kind {
            PathKind::Hash(_) | PathKind::Any { .. } | PathKind::All(_) | PathKind::Virtual(_) => {
                return None;
            }
            PathKind::RowidEqual(_) => return Some(Walk::Rowids { one_row: true }),
            PathKind::Full | PathKind::RowidRange { .. } if !table.without_rowid => {
                return Some(Walk::Rowids { one_row: false });
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
        // Other sources give a row of this one several times.
        let unique = if frame.sources.len() == 1 { unique } else { usize::MAX };
        let constant = equal.iter().map(|(value, ..)| matches!(value, KeyExpr::Expr(_))).collect();
        Some(Walk::Index { columns, equal: equal.len(), unique, constant })
    }

    /// True where an expression has one value in all rows.
    fn is_constant(&self, source: &Source, expr: &Expr, collation: Collation) -> bool {
        let Walk::Index { columns, constant, .. } = self else { return false };
        columns.iter().zip(constant).any(|(column, constant)| {
            *constant && column.is(source.id, expr) && column.collation == Some(collation)
        })
    }
}

fn is_rowid(source: &Source, expr: &Expr) -> bool {
    matches!(expr, Expr::Column { source: of, column: ROWID } if *of == source.id)
}

/// True where a way to the rows of the first source gives those that are equal by all of the
/// expressions one after the other.
pub(super) fn brings_together(
    frame: &Frame<'_>,
    place: usize,
    path: &Path<'_>,
    terms: &[(&Expr, Collation)],
) -> bool {
    let source = &frame.sources[place];
    let alone = frame.sources.len() == 1;
    let Some(walk) = Walk::of(frame, place, path) else { return false };
    let Walk::Index { columns, equal, unique, .. } = &walk else {
        let Walk::Rowids { one_row } = walk else { return false };
        let rowid = |(expr, _): &(&Expr, Collation)| is_rowid(source, expr);
        return match alone {
            true => one_row || terms.iter().any(rowid),
            false => terms.iter().all(rowid),
        };
    };
    let mut left = terms.to_vec();
    left.retain(|(expr, collation)| !walk.is_constant(source, expr, *collation));
    let mut next = *equal;
    while !left.is_empty() && next < *unique {
        let Some(column) = columns.get(next) else { return false };
        let count = left.len();
        left.retain(|(expr, collation)| {
            !(column.is(source.id, expr) && column.collation == Some(*collation))
        });
        if left.len() == count {
            return false;
        }
        next += 1;
    }
    true
}

/// The order that a select's rows are best read in. Of the rows about `limit` are read; the sort
/// knows of a bound where `is_bounded`.
pub(super) fn wanted<'e>(
    select: &'e Select,
    order_by: &'e [OrderKey],
    (limit, is_bounded): (Option<f64>, bool),
) -> Option<Wanted<'e>> {
    if !select.window_calls.is_empty() {
        return window_parts(select, order_by, limit);
    }
    if let Some(keys) = &select.group_by {
        return match keys.as_slice() {
            [] => end_of_order(select),
            keys => Some(groups(select, keys, (order_by, limit))),
        };
    }
    let keys = order_by.iter().map(|key| WantedKey::of(key, select));
    let keys: Vec<WantedKey<'e>> = keys.collect();
    match (&select.distinct, keys.is_empty()) {
        (different, false) => {
            let may_begin = is_bounded && different.is_none();
            Some(Wanted { may_begin, ..Wanted::new(keys, limit) })
        }
        (Some(collations), true) => {
            let keys = select.outputs.iter().zip(collations);
            let keys = keys.map(|(expr, collation)| WantedKey::ascending(expr, *collation));
            let (keys, groups) = (keys.collect(), limit.map(|_| found_rows(select)));
            Some(Wanted { together: true, groups, streams: true, ..Wanted::new(keys, limit) })
        }
        (None, true) => None,
    }
}

impl<'e> WantedKey<'e> {
    fn ascending(expr: &'e Expr, collation: Collation) -> WantedKey<'e> {
        WantedKey { expr, descending: false, nulls_first: true, collation }
    }

    fn of(key: &'e OrderKey, select: &'e Select) -> WantedKey<'e> {
        WantedKey {
            expr: key.expr(select),
            descending: key.descending,
            nulls_first: key.nulls_first,
            collation: key.collation,
        }
    }
}

impl<'e> Wanted<'e> {
    /// Rows in the order of all keys.
    fn new(keys: Vec<WantedKey<'e>>, limit: Option<f64>) -> Wanted<'e> {
        Wanted {
            keys,
            limit,
            together: false,
            groups: None,
            streams: false,
            may_begin: false,
            parts: false,
        }
    }

    /// The order of the first keys alone.
    fn begins_with(&self, keys: usize, descending: bool) -> Option<Served> {
        (self.may_begin && keys > 0).then_some(Served { descending, keys })
    }

    fn terms(&self) -> Vec<(&'e Expr, Collation)> {
        self.keys.iter().map(|key| (key.expr, key.collation)).collect()
    }
}

/// The order of rows that puts each partition of a select's windows behind the one before; `None`
/// where two windows have different `PARTITION BY`s, or a window has none.
fn window_parts<'e>(
    select: &'e Select,
    order_by: &[OrderKey],
    limit: Option<f64>,
) -> Option<Wanted<'e>> {
    let (first, rest) = select.windows.split_first()?;
    let are_alike = rest.iter().all(|window| window.parts_as(first));
    if select.group_by.is_some() || first.partition_by.is_empty() || !are_alike {
        return None;
    }
    let keys = first.partition_by.iter().map(|(expr, by)| WantedKey::ascending(expr, *by));
    let gives = select.distinct.is_none() && windows_in_order(select, order_by);
    Some(Wanted { parts: true, ..Wanted::new(keys.collect(), limit.filter(|_| gives)) })
}

/// True where an `ORDER BY` says no more than the order of a select's first window, in which the
/// select gives its rows.
pub(super) fn windows_in_order(select: &Select, order_by: &[OrderKey]) -> bool {
    let Some(window) = select.windows.first() else { return false };
    let parts = window.partition_by.iter().map(|(expr, by)| WantedKey::ascending(expr, *by));
    let keys = parts.chain(window.order_by.iter().map(|key| WantedKey::of(key, select)));
    let keys: Vec<WantedKey<'_>> = keys.collect();
    let fits = |(key, order): (&WantedKey<'_>, &OrderKey)| {
        let order = WantedKey::of(order, select);
        key.collation == order.collation
            && key.descending == order.descending
            && key.nulls_first == order.nulls_first
            && key.expr.is_same(order.expr)
    };
    order_by.len() <= keys.len() && keys.iter().zip(order_by).all(fits)
}

/// The order in which groups need not be looked for, and that of the select if it can be both.
fn groups<'e>(
    select: &'e Select,
    keys: &'e [(Expr, Collation)],
    (order_by, limit): (&'e [OrderKey], Option<f64>),
) -> Wanted<'e> {
    let ascending = keys.iter().map(|(expr, by)| WantedKey::ascending(expr, *by));
    let mut wanted: Vec<WantedKey<'e>> = ascending.collect();
    let fits = |(key, order): (&WantedKey<'_>, &OrderKey)| {
        key.collation == order.collation && order.expr(select).is_same(key.expr)
    };
    let is_order = order_by.len() <= keys.len() && wanted.iter().zip(order_by).all(fits);
    if is_order {
        for (key, order) in wanted.iter_mut().zip(order_by) {
            (key.descending, key.nulls_first) = (order.descending, order.nulls_first);
        }
        // What is not ordered goes on in the same direction.
        if let Some(last) = order_by.last() {
            for key in &mut wanted[order_by.len()..] {
                (key.descending, key.nulls_first) = (last.descending, !last.descending);
            }
        }
    }
    let passing = if select.having.is_some() { HAVING } else { 1.0 };
    let limit = limit.filter(|_| is_order).map(|limit| limit / passing);
    let groups = limit.map(|_| found_rows(select));
    Wanted { together: true, groups, ..Wanted::new(wanted, limit) }
}

/// True where the groups of rows that a way gives come in the order asked for, and if so whether it
/// must run backwards.
pub(super) fn walk_in_order(
    frame: &Frame<'_>,
    place: usize,
    path: &Path<'_>,
    (select, order_by): (&Select, &[OrderKey]),
) -> Option<bool> {
    let keys = order_by.iter().map(|key| WantedKey::of(key, select));
    in_order(frame, place, path, &Wanted::new(keys.collect(), None)).map(|served| served.descending)
}

impl OrderKey {
    /// What is ordered by.
    fn expr<'e>(&'e self, select: &'e Select) -> &'e Expr {
        match &self.key {
            Key::Output(index) => &select.outputs[*index],
            Key::Expr(expr) => expr,
        }
    }
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
    Some(Wanted::new(vec![key], Some(1.0)))
}

/// True where groups, which are given out by their keys, come in the order asked for.
pub(super) fn groups_in_order(
    select: &Select,
    keys: &[(Expr, Collation)],
    order_by: &[OrderKey],
) -> bool {
    order_by.len() <= keys.len()
        && order_by.iter().zip(keys).all(|(wanted, (expr, collation))| {
            wanted.expr(select).is_same(expr)
                && wanted.collation == *collation
                && !wanted.descending
                && wanted.nulls_first
        })
}

/// True where a walk over an index may leave out the entries before the first that is not NULL:
/// where the first key that the walk does not seek is what the `min` or `max` is taken of.
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
