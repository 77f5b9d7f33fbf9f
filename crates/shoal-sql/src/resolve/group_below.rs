//! Groups below a join: of `FROM d JOIN f ON f.k = d.u GROUP BY d.u`, where `d.u` is unique, each
//! group is the rows of `f` with one `k`, and belongs to one row of `d`. So `f` is grouped by `k`
//! first, and each group joined with its row of `d`: a lookup for a group in place of one for each
//! row of `f`, and nothing of `d` goes through the grouping.
//!
//! With `d LEFT JOIN f` the rows of `d` without a group stay, with the aggregates of no rows.
//!
//! Any other groups, of `GROUP BY d.city`, are made in two steps: rows of `f` with one `k` are a
//! part of a group, and the parts are put together above the join. A part is joined with as many
//! rows as each of its rows would be.
//!
//! Rows of `f` without a row of `d` are grouped, too. So only what can't fail is asked of rows of
//! `f`, and a sum that overflows fails above the join alone.

use super::factor::cannot_fail;
use super::outputs::unnamed;
use super::reads::{Read, each_query, reads_all};
use super::tree::{
    Aggregate, Body, Expr, IndexHint, Key, OrderKey, Query, ROWID, Select, Source, SourceId,
    SourceKind,
};
use super::unnest::Free;
use crate::functions::{Aggregation, Scalar};
use crate::schema::{IndexSource, Table};
use crate::value::{Affinity, Collation, CompareOp, Comparison, Value};

/// Of more tables than this no groups are looked for.
const TABLES_MAX: usize = 8;

/// A select whose groups may be made below its join.
pub(crate) struct Candidate<'q> {
    pub(crate) select: &'q Select,
    /// The table whose rows are grouped.
    pub(crate) grouped: &'q Source,
    /// The table with a row for each group; `None` where groups are made in two steps.
    pub(crate) other: Option<&'q Source>,
    /// The grouped table's column of the join.
    pub(crate) key: &'q Expr,
    /// Conditions on the grouped table alone, and on one of the other tables alone.
    pub(crate) of_grouped: Vec<&'q Expr>,
    pub(crate) of_others: Vec<&'q Expr>,
    join: GroupJoin,
}

/// The join of the groups.
struct GroupJoin {
    /// The place of the grouped table.
    place: usize,
    rule: Comparison,
    key: Expr,
    /// The unique column of the table with a row for each group.
    unique: Option<(SourceId, usize)>,
    /// True where rows without a group stay.
    is_left: bool,
}

/// Makes groups of a query, and of all queries in it, below joins, wherever `pays` says so.
pub(crate) fn group_below(
    query: &mut Query,
    free: &mut Free,
    pays: &dyn Fn(&Candidate<'_>) -> bool,
) {
    each_query(query, &mut |query, read| of_query(query, free, pays, read));
}

/// The same, but for the queries in it.
fn of_query(query: &mut Query, free: &mut Free, pays: &dyn Fn(&Candidate<'_>) -> bool, read: Read) {
    let reads_all = reads_all(query, read);
    let Query { body, order_by, correlated, .. } = query;
    let (Body::Select(select), false, true) = (body, *correlated, reads_all) else { return };
    let Some(join) = Candidate::join_of(select, order_by, pays) else { return };
    // Groups made in two steps are sorted above the join.
    if order_by.is_empty() && read == Read::InOrder && join.unique.is_some() {
        let keys = select.group_by.iter().flatten();
        order_by.extend(keys.map(|(key, collation)| OrderKey {
            key: Key::Expr(key.clone()),
            descending: false,
            nulls_first: true,
            collation: *collation,
        }));
    }
    rewrite(select, order_by, free, join);
}

impl<'q> Candidate<'q> {
    /// The join of the first candidate that pays.
    fn join_of(
        select: &'q Select,
        order_by: &[OrderKey],
        pays: &dyn Fn(&Candidate<'_>) -> bool,
    ) -> Option<GroupJoin> {
        let keys = select.group_by.as_ref()?;
        let is_plain = select.window_calls.is_empty() && select.distinct.is_none();
        let is_joined = (2..=TABLES_MAX).contains(&select.sources.len())
            && select.sources.iter().all(|it| plain_table(it).is_some() && !it.keeps_right());
        if keys.is_empty() || select.aggregates.is_empty() || !is_plain || !is_joined {
            return None;
        }
        let candidates =
            (0..select.sources.len()).filter_map(|it| Candidate::of_place(select, order_by, it));
        candidates.filter(|it| pays(it)).map(|it| it.join).next()
    }

    /// The candidate with the source at `place` grouped.
    fn of_place(select: &'q Select, order_by: &[OrderKey], place: usize) -> Option<Candidate<'q>> {
        let grouped = &select.sources[place];
        let is_left = grouped.keeps_left();
        let others = || select.sources.iter().filter(|it| it.id != grouped.id);
        let (mut joining, mut of_grouped, mut of_others) = (Vec::new(), Vec::new(), Vec::new());
        let of_where = select.conjuncts.iter().map(|condition| (condition, false));
        for (condition, is_on) in of_where.chain(grouped.on().iter().map(|it| (it, true))) {
            match (condition.reads(grouped.id), others().any(|it| condition.reads(it.id))) {
                (true, _) if is_left && !is_on => return None,
                (true, true) => joining.push(condition),
                (true, false) if cannot_fail(condition) => of_grouped.push(condition),
                (true, false) => return None,
                (false, _) if is_left && is_on => return None,
                (false, _) => of_others.push(condition),
            }
        }
        if others().flat_map(Source::on).any(|condition| condition.reads(grouped.id)) {
            return None;
        }
        // Every condition on both tables finds all values of a group alike.
        let equalities = joining.iter().map(|condition| Equality::of(condition, grouped));
        let equalities = equalities.collect::<Option<Vec<_>>>()?;
        let &Equality { rule, key, .. } = equalities.first()?;
        if !equalities.iter().all(|it| it.rule == rule && it.key.is_same(key)) {
            return None;
        }
        of_others.retain(|it| others().filter(|source| it.reads(source.id)).count() == 1);
        let join = GroupJoin { place, rule, key: key.clone(), unique: None, is_left };
        let other = None;
        let mut found = Candidate { select, grouped, other, key, of_grouped, of_others, join };
        let mut unique = equalities
            .iter()
            .flat_map(|it| others().filter_map(|other| Some((other, it.unique_of(other)?))));
        // Rows with NULL in a unique column are one group.
        let unique = unique.find(|(other, unique)| {
            !other.keeps_left()
                && has_one_row(select, grouped, other)
                && (!is_left || is_never_null(other, *unique))
        });
        if let Some((other, unique)) = unique {
            (found.other, found.join.unique) = (Some(other), Some((other.id, unique)));
            if found.has_whole_groups(order_by) {
                return Some(found);
            }
            (found.other, found.join.unique) = (None, None);
        }
        found.has_parts_of_groups(order_by).then_some(found)
    }

    /// True where groups and what is read of them are those of the key.
    fn has_whole_groups(&self, order_by: &[OrderKey]) -> bool {
        let Candidate { select, grouped, join, .. } = self;
        let is_unique = |expr: &Expr| match expr {
            Expr::Column { source, column } => Some((*source, *column)) == join.unique,
            _ => false,
        };
        let is_key = |expr: &Expr| !join.is_left && expr.is_same(self.key);
        let mut is_told = false;
        for (key, collation) in select.group_by.iter().flatten() {
            let tells = is_unique(key) || is_key(key);
            is_told |=
                tells && (*collation == Collation::Binary || *collation == join.rule.collation);
            if !tells && (key.reads(grouped.id) || !is_steady(key)) {
                return false;
            }
        }
        // A column of the grouped table other than the key would be of any row of the group.
        let mut is_known = true;
        self.each_read(order_by, &mut |expr| {
            expr.walk(&mut |part| {
                is_known &= match part {
                    Expr::Column { source, .. } if *source == grouped.id => part.is_same(self.key),
                    _ => true,
                };
            });
        });
        is_told && is_known && select.aggregates.iter().all(|it| self.takes(it))
    }

    /// True where each row of a part belongs to the same group, parts are put together, and nothing
    /// is read but the keys of groups and aggregates.
    fn has_parts_of_groups(&self, order_by: &[OrderKey]) -> bool {
        let Candidate { select, grouped, .. } = self;
        let keys = || select.group_by.iter().flatten().map(|(key, _)| key);
        if !keys().all(|it| is_steady(it) && (it.is_same(self.key) || !it.reads(grouped.id))) {
            return false;
        }
        let mut is_known = true;
        self.each_read(order_by, &mut |expr| is_known &= is_of_groups(expr, &keys));
        let joins = |it: &Aggregate| !it.distinct && it.function.in_parts().is_some();
        is_known && select.aggregates.iter().all(|it| self.takes(it) && joins(it))
    }

    /// Calls `see` for every expression over the groups.
    fn each_read(&self, order_by: &[OrderKey], see: &mut dyn FnMut(&Expr)) {
        self.select.outputs.iter().chain(&self.select.having).for_each(&mut *see);
        for key in order_by {
            if let Key::Expr(expr) = &key.key {
                see(expr);
            }
        }
    }

    /// True for an aggregate of the grouped table's rows alone.
    fn takes(&self, aggregate: &Aggregate) -> bool {
        let others = || self.select.sources.iter().filter(|it| it.id != self.grouped.id);
        let own = |expr: &Expr| others().all(|other| !expr.reads(other.id)) && cannot_fail(expr);
        let is_plain = aggregate.order_by.is_empty() && aggregate.function.of_nothing().is_some();
        let is_column =
            |expr: &Expr| matches!(expr, Expr::Column { source, .. } if *source == self.grouped.id);
        let Aggregate { arguments, filter, .. } = aggregate;
        is_plain
            && match self.join.is_left {
                // What is computed of a missing row may be other than NULL.
                true => filter.is_none() && arguments.iter().all(is_column),
                false => arguments.iter().chain(filter).all(own),
            }
    }
}

fn rewrite(select: &mut Select, order_by: &mut [OrderKey], free: &mut Free, join: GroupJoin) {
    let GroupJoin { place, rule, key, unique, is_left } = join;
    let (inner, groups) = (free.select, free.source);
    (free.select, free.source) = (inner + 1, groups + 1);
    let column = |column| Expr::Column { source: groups, column };
    let mut grouped = std::mem::replace(
        &mut select.sources[place],
        Source::new(groups, SourceKind::Taken(0), "groups".to_owned()),
    );
    let is_below = |condition: &mut Expr| condition.reads_only(&[grouped.id]);
    let mut joined = grouped.join.take();
    let mut below: Vec<Expr> = select.conjuncts.extract_if(.., is_below).collect();
    if let Some(join) = &mut joined {
        below.extend(join.on.extract_if(.., is_below));
    }

    let mut aggregates = std::mem::take(&mut select.aggregates);
    let mut results = Vec::with_capacity(aggregates.len());
    for (number, aggregate) in aggregates.iter_mut().enumerate() {
        let mut result = column(number + 1);
        let of_nothing = match aggregate.function.of_nothing() {
            // A row of NULLs is a row.
            Some(_) if aggregate.arguments.is_empty() => Value::Int(1),
            // Only a count has a value for a part.
            Some(value) if aggregate.function.counts() || unique.is_some() => value,
            _ => Value::Null,
        };
        if is_left && of_nothing != Value::Null {
            result = Expr::Coalesce(vec![result, Expr::Const(of_nothing)]);
        }
        if let Some((source, column)) = unique {
            if let Some((deferred, checked)) = aggregate.function.deferred() {
                aggregate.function = Aggregation::BuiltIn(deferred);
                result = Expr::Call {
                    function: Scalar::BuiltIn(checked),
                    arguments: vec![result, Expr::Column { source, column }],
                    collation: Collation::Binary,
                    json: 0,
                };
            }
            results.push(result);
        } else {
            let [of_part, of_parts] =
                aggregate.function.in_parts().expect("parts of groups can be put together");
            aggregate.function = Aggregation::BuiltIn(of_part);
            select.aggregates.push(Aggregate {
                function: Aggregation::BuiltIn(of_parts),
                arguments: vec![result],
                distinct: false,
                filter: None,
                order_by: Vec::new(),
                collation: aggregate.collation,
                json: 0,
            });
        }
    }
    let outputs = std::iter::once(key.clone())
        .chain((0..aggregates.len()).map(|index| Expr::Aggregate { select: inner, index }));
    let outputs: Vec<Expr> = outputs.collect();
    let columns = outputs.iter().map(|_| unnamed()).collect();
    let of_groups = Select {
        conjuncts: below,
        group_by: Some(vec![(key.clone(), rule.collation)]),
        aggregates,
        ..Select::of_sources(inner, vec![grouped], outputs)
    };
    let query = Query {
        body: Body::Select(Box::new(of_groups)),
        columns,
        as_expression: (None, Default::default()),
        order_by: Vec::new(),
        limit: None,
        offset: None,
        correlated: false,
    };
    let source = &mut select.sources[place];
    source.kind = SourceKind::Query(Box::new(query));
    source.join = joined;
    if unique.is_some() {
        select.group_by = None;
        if let Some(having) = select.having.take() {
            super::from::split_and(having, &mut select.conjuncts);
        }
    }
    let id = select.id;
    let mut change = |part: &mut Expr| match part {
        Expr::Aggregate { select: of, index } if *of == id && unique.is_some() => {
            *part = results[*index].clone();
        }
        Expr::Column { .. } if part.is_same(&key) => *part = column(0),
        _ => {}
    };
    select.conjuncts.iter_mut().for_each(|condition| condition.walk_mut(&mut change));
    if let Some(join) = &mut select.sources[place].join {
        join.on.iter_mut().for_each(|condition| condition.walk_mut(&mut change));
    }
    select.group_by.iter_mut().flatten().for_each(|(key, _)| key.walk_mut(&mut change));
    select.having.iter_mut().for_each(|having| having.walk_mut(&mut change));
    select.outputs.iter_mut().for_each(|output| output.walk_mut(&mut change));
    order_by.iter_mut().for_each(|key| key.walk_mut(&mut change));
}

/// The table of a source read in any order, with all its rows seen.
pub(crate) fn plain_table(source: &Source) -> Option<&Table> {
    let SourceKind::Table(table) = &source.kind else { return None };
    let is_free = !source.fixed && !source.guarded && source.index_hint == IndexHint::Any;
    is_free.then_some(table)
}

/// An equality of a table's column with a value of other tables.
struct Equality<'q> {
    rule: Comparison,
    key: &'q Expr,
    affinity: Affinity,
    value: &'q Expr,
}

impl<'q> Equality<'q> {
    /// The equality of a condition, where it compares the values of the column of `of` as they are.
    fn of(condition: &'q Expr, of: &Source) -> Option<Equality<'q>> {
        let Expr::Compare(rule, left, right) = condition else { return None };
        let (key, value) = if left.reads(of.id) { (left, right) } else { (right, left) };
        let Expr::Column { source, column } = &**key else { return None };
        let affinity = affinity(plain_table(of)?, *column).filter(|_| *source == of.id)?;
        let is_plain = rule.op == CompareOp::Equal && !value.reads(of.id) && stays(rule, affinity);
        is_plain.then_some(Equality { rule: *rule, key, affinity, value })
    }

    /// The number of the column of `other`, where the value is a unique column of `other` with the
    /// affinity of the key.
    fn unique_of(&self, other: &Source) -> Option<usize> {
        let Expr::Column { source, column } = self.value else { return None };
        let table = plain_table(other).filter(|_| *source == other.id)?;
        let is_alike = affinity(table, *column)? == self.affinity;
        (is_alike && is_unique(table, *column, &self.rule.collation)).then_some(*column)
    }
}

/// True where a comparison changes no value of a column with an affinity.
fn stays(rule: &Comparison, own: Affinity) -> bool {
    rule.affinity.is_none_or(|it| it == own || it.is_numeric() && own.is_numeric())
}

/// True for a value without a query, the same whenever computed for a row.
fn is_steady(expr: &Expr) -> bool {
    cannot_fail(expr) || expr.is_deterministic() && !expr.runs_query()
}

/// True for an expression over keys of groups and aggregates alone.
fn is_of_groups<'q, K: Iterator<Item = &'q Expr>>(expr: &Expr, keys: &dyn Fn() -> K) -> bool {
    if keys().any(|key| key.is_same(expr)) {
        return true;
    }
    let mut is_known = !matches!(expr, Expr::Column { .. }) && expr.query().is_none();
    expr.parts(&mut |part| is_known &= is_of_groups(part, keys));
    is_known
}

/// True where the tables beside the grouped one have one row at most for a row of `other`: each
/// has a unique column equal to a value of the tables before.
fn has_one_row(select: &Select, grouped: &Source, other: &Source) -> bool {
    let mut rest: Vec<&Source> = select.sources.iter().collect();
    rest.retain(|source| source.id != grouped.id && source.id != other.id);
    loop {
        let found = rest.iter().position(|source| {
            let mut conditions = select.conjuncts.iter().chain(source.on());
            conditions.any(|condition| {
                let is_known = |expr: &Expr| {
                    !expr.reads(grouped.id) && rest.iter().all(|it| !expr.reads(it.id))
                };
                let Expr::Compare(rule, left, right) = condition else { return false };
                rule.op == CompareOp::Equal
                    && (is_key(source, left, rule) && is_known(right)
                        || is_key(source, right, rule) && is_known(left))
            })
        });
        match found {
            Some(place) => rest.swap_remove(place),
            None => return rest.is_empty(),
        };
    }
}

/// True for a unique column of a table whose values are compared as they are.
fn is_key(source: &Source, expr: &Expr, rule: &Comparison) -> bool {
    let Expr::Column { source: of, column } = expr else { return false };
    let Some(table) = plain_table(source).filter(|_| *of == source.id) else { return false };
    let Some(own) = affinity(table, *column) else { return false };
    stays(rule, own) && is_unique(table, *column, &rule.collation)
}

fn affinity(table: &Table, column: usize) -> Option<Affinity> {
    match column {
        ROWID => Some(Affinity::Integer),
        column => Some(table.columns.get(column)?.affinity),
    }
}

fn is_never_null(source: &Source, column: usize) -> bool {
    plain_table(source).is_some_and(|table| {
        column == ROWID
            || table.columns.get(column).is_some_and(|it| it.not_null)
            || table.without_rowid && table.primary_key.iter().any(|part| part.column == column)
    })
}

/// True where no two rows of a table have equal values of a column, NULL left out.
pub(crate) fn is_unique(table: &Table, column: usize, collation: &Collation) -> bool {
    let is = |known: &Result<Collation, String>| known.as_ref() == Ok(collation);
    let of_key = match &*table.primary_key {
        [part] => table.without_rowid && part.column == column && is(&part.collation),
        _ => false,
    };
    column == ROWID
        || of_key
        || table.indexes.iter().any(|index| {
            let first = index.columns.first().filter(|_| index.unique && index.key_columns == 1);
            !index.is_partial()
                && first.is_some_and(|first| {
                    matches!(first.source, IndexSource::Column(of) if of == column)
                        && is(&first.collation)
                })
        })
}
