//! Groups below a join: of `FROM d JOIN f ON f.k = d.u GROUP BY d.u`, where `d.u` is unique, each
//! group is the rows of `f` with one `k`, and belongs to one row of `d`. So `f` is grouped by `k`
//! first, and each group joined with its row of `d`: a lookup for a group in place of one for each
//! row of `f`, and nothing of `d` goes through the grouping.
//!
//! With `d LEFT JOIN f` the rows of `d` without a group stay, with the aggregates of no rows.
//!
//! Rows of `f` without a row of `d` are grouped, too. So only what can't fail is asked of rows of
//! `f`, and a sum that overflows fails above the join alone.

use super::factor::cannot_fail;
use super::outputs::unnamed;
use super::tree::{
    Aggregate, Body, Expr, IndexHint, Key, OrderKey, Query, ROWID, Select, Source, SourceId,
    SourceKind,
};
use super::unnest::Free;
use crate::functions::{Aggregation, Scalar};
use crate::parse::ast;
use crate::schema::{IndexSource, Table};
use crate::value::{Affinity, Collation, CompareOp, Comparison, Value};

/// Of more tables than this no groups are looked for.
const TABLES_MAX: usize = 8;

/// A select whose groups may be made below its join.
pub(crate) struct Candidate<'q> {
    pub(crate) select: &'q Select,
    /// The table whose rows are grouped, and the table with a row for each group.
    pub(crate) grouped: &'q Source,
    pub(crate) other: &'q Source,
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
    unique: (SourceId, usize),
    /// True where rows without a group stay.
    is_left: bool,
}

/// Makes groups of a query, and of all queries in it, below joins, wherever `pays` says so.
pub(crate) fn group_below(
    query: &mut Query,
    free: &mut Free,
    pays: &dyn Fn(&Candidate<'_>) -> bool,
) {
    of_query(query, free, pays, false);
    query.walk_mut(&mut |expr| match expr {
        Expr::InQuery { query, .. } | Expr::RowInQuery { query, .. } => {
            of_query(query, free, pays, false);
        }
        Expr::Scalar(query) | Expr::ScalarColumn(query, _) => of_query(query, free, pays, true),
        _ => {}
    });
}

/// The same, but for queries within expressions. `takes_first` tells of a query whose first row
/// alone is asked for.
fn of_query(
    query: &mut Query,
    free: &mut Free,
    pays: &dyn Fn(&Candidate<'_>) -> bool,
    takes_first: bool,
) {
    let is_limited = takes_first || query.limit.is_some() || query.offset.is_some();
    let Query { body, order_by, correlated, .. } = query;
    if let (Body::Select(select), false) = (&mut *body, *correlated) {
        // In the order of anything but an aggregate the first groups may be all that is read.
        let reads_all = !is_limited || begins_with_aggregate(select, order_by);
        let candidate = Candidate::of(select, order_by).filter(|_| reads_all);
        if let Some(join) = candidate.filter(pays).map(|found| found.join) {
            rewrite(select, order_by, free, join);
        }
    }
    in_body(body, free, pays);
}

fn in_body(body: &mut Body, free: &mut Free, pays: &dyn Fn(&Candidate<'_>) -> bool) {
    match body {
        Body::Values(_) => {}
        Body::Select(select) => {
            for source in &mut select.sources {
                if let SourceKind::Query(query) = &mut source.kind {
                    of_query(query, free, pays, false);
                }
            }
        }
        Body::Compound { first, rest, .. } => {
            in_body(first, free, pays);
            rest.iter_mut().for_each(|(_, body)| in_body(body, free, pays));
        }
        Body::Shared(shared) => of_query(&mut shared.query, free, pays, false),
        Body::Recursive(recursion) => in_body(&mut recursion.first, free, pays),
    }
}

fn begins_with_aggregate(select: &Select, order_by: &[OrderKey]) -> bool {
    let first = order_by.first().and_then(|key| match &key.key {
        Key::Output(output) => select.outputs.get(*output),
        Key::Expr(expr) => Some(expr),
    });
    let mut found = false;
    if let Some(expr) = first {
        expr.walk(&mut |part| found |= is_own_aggregate(part, select).is_some());
    }
    found
}

impl<'q> Candidate<'q> {
    fn of(select: &'q Select, order_by: &'q [OrderKey]) -> Option<Candidate<'q>> {
        let keys = select.group_by.as_ref()?;
        let is_plain = select.window_calls.is_empty() && select.distinct.is_none();
        let is_joined = (2..=TABLES_MAX).contains(&select.sources.len())
            && select.sources.iter().all(|it| plain_table(it).is_some() && !it.keeps_right());
        if keys.is_empty() || select.aggregates.is_empty() || !is_plain || !is_joined {
            return None;
        }
        let mut places = 0..select.sources.len();
        places.find_map(|place| Candidate::of_place(select, order_by, place))
    }

    /// The candidate with the source at `place` grouped.
    fn of_place(select: &'q Select, order_by: &[OrderKey], place: usize) -> Option<Candidate<'q>> {
        let grouped = &select.sources[place];
        let is_left = grouped.keeps_left();
        let others = || select.sources.iter().filter(|it| it.id != grouped.id);
        let (mut joining, mut of_grouped, mut of_others) = (Vec::new(), Vec::new(), Vec::new());
        let of_where = select.conjuncts.iter().map(|condition| (condition, false));
        for (condition, is_on) in of_where.chain(grouped.on().iter().map(|it| (it, true))) {
            match (reads(condition, grouped.id), others().any(|it| reads(condition, it.id))) {
                (true, _) if is_left && !is_on => return None,
                (true, true) => joining.push(condition),
                (true, false) if cannot_fail(condition) => of_grouped.push(condition),
                (true, false) => return None,
                (false, _) if is_left && is_on => return None,
                (false, _) => of_others.push(condition),
            }
        }
        if others().flat_map(Source::on).any(|condition| reads(condition, grouped.id)) {
            return None;
        }
        let mut equalities = joining
            .iter()
            .flat_map(|condition| others().filter_map(|other| equality(condition, grouped, other)));
        let (rule, key, other, unique) = equalities
            .find(|(_, _, other, _)| !other.keeps_left() && has_one_row(select, grouped, other))?;
        // Rows with NULL in a unique column are one group.
        if is_left && !is_never_null(other, unique) {
            return None;
        }
        // Any other condition on both finds all values of a group alike.
        let is_of_key = |it: &&Expr| match it {
            Expr::Compare(own, left, right) => {
                (left.is_same(key) && !reads(right, grouped.id)
                    || right.is_same(key) && !reads(left, grouped.id))
                    && *own == rule
            }
            _ => false,
        };
        if !joining.iter().all(is_of_key) {
            return None;
        }
        of_others.retain(|it| others().filter(|source| reads(it, source.id)).count() == 1);
        let unique = (other.id, unique);
        let join = GroupJoin { place, rule, key: key.clone(), unique, is_left };
        let candidate = Candidate { select, grouped, other, key, of_grouped, of_others, join };
        candidate.fits(order_by).then_some(candidate)
    }

    /// True where groups and what is read of them are those of the key.
    fn fits(&self, order_by: &[OrderKey]) -> bool {
        let Candidate { select, grouped, join, .. } = self;
        let is_unique = |expr: &Expr| matches!(expr, Expr::Column { source, column } if (*source, *column) == join.unique);
        let is_key = |expr: &Expr| !join.is_left && expr.is_same(self.key);
        let mut is_told = false;
        for (key, collation) in select.group_by.iter().flatten() {
            let tells = is_unique(key) || is_key(key);
            is_told |=
                tells && (*collation == Collation::Binary || *collation == join.rule.collation);
            let is_of_other =
                !reads(key, grouped.id) && key.is_deterministic() && !key.runs_query();
            if !tells && !is_of_other {
                return false;
            }
        }
        // A column of the grouped table other than the key would be of any row of the group.
        let mut is_known = true;
        let mut look = |expr: &Expr| {
            expr.walk(&mut |part| {
                is_known &= match part {
                    Expr::Column { source, .. } if *source == grouped.id => part.is_same(self.key),
                    _ => true,
                };
            });
        };
        select.outputs.iter().chain(&select.having).for_each(&mut look);
        for key in order_by {
            if let Key::Expr(expr) = &key.key {
                look(expr);
            }
        }
        is_told && is_known && select.aggregates.iter().all(|it| self.takes(it))
    }

    /// True for an aggregate of the grouped table's rows alone.
    fn takes(&self, aggregate: &Aggregate) -> bool {
        let others = || self.select.sources.iter().filter(|it| it.id != self.grouped.id);
        let own = |expr: &Expr| others().all(|other| !reads(expr, other.id)) && cannot_fail(expr);
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
    let GroupJoin { place, rule, key, unique: (other, own), is_left } = join;
    let (inner, groups) = (free.select, free.source);
    (free.select, free.source) = (inner + 1, groups + 1);
    let column = |column| Expr::Column { source: groups, column };
    let of_other = || Expr::Column { source: other, column: own };
    let mut grouped = std::mem::replace(
        &mut select.sources[place],
        Source::new(groups, SourceKind::Taken(0), "groups".to_owned()),
    );
    let is_below = |condition: &mut Expr| {
        let mut is_own = reads(condition, grouped.id);
        condition.columns(&mut |of, _| is_own &= of == grouped.id);
        is_own
    };
    let mut joined = grouped.join.take();
    let mut below: Vec<Expr> = select.conjuncts.extract_if(.., is_below).collect();
    if let Some(join) = &mut joined {
        below.extend(join.on.extract_if(.., is_below));
    }

    let mut aggregates = std::mem::take(&mut select.aggregates);
    let mut results = Vec::with_capacity(aggregates.len());
    for (number, aggregate) in aggregates.iter_mut().enumerate() {
        let mut result = column(number + 1);
        if let Some((deferred, checked)) = aggregate.function.deferred() {
            aggregate.function = Aggregation::BuiltIn(deferred);
            result = Expr::Call {
                function: Scalar::BuiltIn(checked),
                arguments: vec![result, of_other()],
                collation: Collation::Binary,
                json: 0,
            };
        }
        if is_left {
            let of_nothing = match aggregate.function.of_nothing() {
                // A row of NULLs is a row.
                Some(_) if aggregate.arguments.is_empty() => Value::Int(1),
                Some(value) => value,
                None => Value::Null,
            };
            if of_nothing != Value::Null {
                result = Expr::Coalesce(vec![result, Expr::Const(of_nothing)]);
            }
        }
        results.push(result);
    }
    let outputs = std::iter::once(key.clone())
        .chain((0..aggregates.len()).map(|index| Expr::Aggregate { select: inner, index }));
    let outputs: Vec<Expr> = outputs.collect();
    let columns = outputs.iter().map(|_| unnamed()).collect();
    let of_groups = Select {
        conjuncts: below,
        group_by: Some(vec![(key.clone(), rule.collation)]),
        aggregates,
        ..Select::of_source(inner, grouped, outputs)
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
    select.group_by = None;
    let id = select.id;
    let mut change = |part: &mut Expr| match part {
        Expr::Aggregate { select: of, index } if *of == id => *part = results[*index].clone(),
        Expr::Column { .. } if part.is_same(&key) => *part = column(0),
        _ => {}
    };
    if let Some(having) = select.having.take() {
        super::from::split_and(having, &mut select.conjuncts);
    }
    select.conjuncts.iter_mut().for_each(|condition| condition.walk_mut(&mut change));
    if let Some(join) = &mut select.sources[place].join {
        join.on.iter_mut().for_each(|condition| condition.walk_mut(&mut change));
    }
    select.outputs.iter_mut().for_each(|output| output.walk_mut(&mut change));
    order_by.iter_mut().for_each(|key| key.walk_mut(&mut change));
}

fn is_own_aggregate(expr: &Expr, select: &Select) -> Option<usize> {
    match expr {
        Expr::Aggregate { select: of, index } if *of == select.id => Some(*index),
        _ => None,
    }
}

fn reads(expr: &Expr, source: SourceId) -> bool {
    let mut found = false;
    expr.columns(&mut |of, _| found |= of == source);
    found
}

/// The table of a source read in any order, with all its rows seen.
fn plain_table(source: &Source) -> Option<&Table> {
    let SourceKind::Table(table) = &source.kind else { return None };
    let is_free = !source.fixed && !source.guarded && source.index_hint == IndexHint::Any;
    is_free.then_some(table)
}

/// The parts of an equality of a column of one table with a unique column of another one: the rule,
/// the first column, the other table and its column's number.
fn equality<'q>(
    condition: &'q Expr,
    first: &Source,
    other: &'q Source,
) -> Option<(Comparison, &'q Expr, &'q Source, usize)> {
    let Expr::Compare(rule, left, right) = condition else { return None };
    let column = |expr: &Expr, of: &Source| match expr {
        Expr::Column { source, column } if *source == of.id => Some(*column),
        _ => None,
    };
    let (key, unique) = match column(left, first) {
        Some(_) => (&**left, column(right, other)?),
        None => (&**right, column(left, other)?),
    };
    let (table, first_table) = (plain_table(other)?, plain_table(first)?);
    let is_alike = affinity(first_table, column(key, first)?)? == affinity(table, unique)?;
    let is_joined =
        rule.op == CompareOp::Equal && is_alike && is_unique(table, unique, &rule.collation);
    is_joined.then_some((*rule, key, other, unique))
}

/// True where a row of `other` is joined with one row at most of all tables but the grouped one:
/// each of them has a unique column equal to a value of tables before.
fn has_one_row(select: &Select, grouped: &Source, other: &Source) -> bool {
    let mut rest: Vec<&Source> = select.sources.iter().collect();
    rest.retain(|source| source.id != grouped.id && source.id != other.id);
    loop {
        let found = rest.iter().position(|source| {
            let mut conditions = select.conjuncts.iter().chain(source.on());
            conditions.any(|condition| {
                let is_known = |expr: &Expr| {
                    !reads(expr, grouped.id) && rest.iter().all(|it| !reads(expr, it.id))
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
    let stay = rule.affinity.is_none_or(|it| it == own || it.is_numeric() && own.is_numeric());
    stay && is_unique(table, *column, &rule.collation)
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
fn is_unique(table: &Table, column: usize, collation: &Collation) -> bool {
    let is = |known: &Result<Collation, String>| known.as_ref() == Ok(collation);
    let of_key = match &*table.primary_key {
        [part] => table.without_rowid && part.column == column && is(&part.collation),
        _ => false,
    };
    let filter = |filter: &Option<ast::Expr>| filter.is_none();
    column == ROWID
        || of_key
        || table.indexes.iter().any(|index| {
            let first = index.columns.first().filter(|_| index.unique && index.key_columns == 1);
            filter(&index.filter)
                && first.is_some_and(|first| {
                    matches!(first.source, IndexSource::Column(of) if of == column)
                        && is(&first.collation)
                })
        })
}
