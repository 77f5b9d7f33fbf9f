//! Subqueries of a `FROM` merged into the query around them: views without a cost.

use super::collation::Coll;
use super::from::{JOIN_MAX, Joined, first_rules};
use super::outputs::{each_query, empty};
use super::scope::{ScopeColumn, ScopeTable};
use super::tree::{Body, Expr, OutputColumn, Query, Select, Shared, Source};

/// A larger expression is computed once in its own query: substituting the expression for every use
/// could double the size with each link of a chain of views.
pub(super) const MERGED_SIZE_MAX: usize = 32;

type Mergeable = (Select, Vec<OutputColumn>, bool);

/// Takes apart a query of nothing but joins, filters and renamed columns, for merging into the
/// query around: conditions then reach its tables, and a view costs nothing. Any other query comes
/// back.
pub(super) fn mergeable(
    query: Query,
    nullable: bool,
    (before, others): (usize, usize),
) -> Result<Mergeable, Box<Query>> {
    if nullable || !merges(&query, (before, others), false) {
        return Err(Box::new(query));
    }
    let Query { body, columns, correlated, .. } = query;
    match body {
        Body::Select(select) => Ok((*select, columns, correlated)),
        body => Err(Box::new(Query {
            as_expression: first_rules(&columns),
            body,
            columns,
            order_by: Vec::new(),
            limit: None,
            offset: None,
            correlated,
        })),
    }
}

/// True where a query is simple enough to be merged into the query around; `may_order` allows an
/// `ORDER BY`.
pub(super) fn merges(query: &Query, (before, others): (usize, usize), may_order: bool) -> bool {
    let fits = |select: &Select| {
        others + select.sources.len() <= JOIN_MAX
            // A right join keeps unmatched rows of the sources of its own query alone.
            && (before == 0 || !select.sources.iter().any(Source::keeps_right))
            && !select.outputs.iter().any(Expr::runs_query)
            // Outside of its query a text is no JSON any more.
            && !select.outputs.iter().any(is_json)
            && select.outputs.iter().all(|expr| expr.size() <= MERGED_SIZE_MAX)
    };
    plain_select(query, may_order).is_some_and(fits)
}

/// The select of a query that gives each row of its sources meeting its conditions, and nothing
/// else; `may_order` allows an `ORDER BY`.
pub(super) fn plain_select(query: &Query, may_order: bool) -> Option<&Select> {
    let Body::Select(select) = &query.body else { return None };
    let is_bounded = query.limit.is_some() || query.offset.is_some();
    let is_plain = !is_bounded
        && (may_order || query.order_by.is_empty())
        && !select.sources.is_empty()
        && select.group_by.is_none()
        && select.distinct.is_none()
        && select.window_calls.is_empty();
    is_plain.then_some(&**select)
}

/// A common table whose rows may be made once, as a query of its own.
pub(super) fn shared(query: Query, slot: usize) -> Query {
    Query {
        columns: query.columns.clone(),
        as_expression: query.as_expression,
        order_by: Vec::new(),
        limit: None,
        offset: None,
        correlated: false,
        body: Body::Shared(Box::new(Shared { slot, query })),
    }
}

/// Puts the query of each common table in the place of the table, where its rows are made for this
/// place alone; `made_once` tells of each table whether they are made for several.
pub(crate) fn place_common(query: &mut Query, made_once: &[bool]) {
    if made_once.iter().all(|is_made_once| *is_made_once) {
        return;
    }
    let mut place = |query: &mut Query| {
        while let Body::Shared(shared) = &mut query.body
            && !made_once[shared.slot]
        {
            *query = std::mem::replace(&mut shared.query, empty());
        }
    };
    each_query(query, &mut place);
    query.walk_mut(&mut |expr| {
        if let Some(query) = expr.query_mut() {
            each_query(query, &mut place);
        }
    });
}

/// True where an expression is JSON for a function around.
pub(super) fn is_json(expr: &Expr) -> bool {
    match expr {
        Expr::Call { function, .. } => function.returns_json,
        Expr::Plus(inner) => is_json(inner),
        Expr::Coalesce(parts) => parts.iter().any(is_json),
        Expr::Case { branches, otherwise, .. } => {
            branches.iter().any(|(_, _, then)| is_json(then))
                || otherwise.as_ref().is_some_and(|expr| is_json(expr))
        }
        _ => false,
    }
}

/// Adds the sources and conditions of a query, and its columns as names for expressions.
pub(super) fn merge_query(
    select: Select,
    outputs: &[OutputColumn],
    name: String,
    joined: &mut Joined<'_>,
) {
    let mut columns: Vec<ScopeColumn> = Vec::with_capacity(outputs.len());
    for (column, expr) in outputs.iter().zip(select.outputs) {
        columns.push(query_column(&columns, column, expr));
    }
    let (rowid, table, module) = (None, None, None);
    joined.tables.push(ScopeTable { name, columns, rowid, table, module, nullable: false });
    joined.sources.extend(select.sources);
    joined.merged.extend(select.conjuncts);
}

/// A column of a query as a name for `expr`, unlike the names in `known`.
pub(super) fn query_column(
    known: &[ScopeColumn],
    column: &OutputColumn,
    expr: Expr,
) -> ScopeColumn {
    ScopeColumn {
        name: unique_name(known, column.written.as_ref().unwrap_or(&column.inner_name)),
        expr,
        affinity: column.affinity,
        // A column of a query always has one of its own.
        collation: Ok(Coll::Column(column.collation.or_binary())),
        declared_type: column.declared_type.clone(),
        merged: false,
        others: Vec::new(),
        named: Vec::new(),
        shown: None,
        hidden: false,
    }
}

/// A column's name within a query's columns: a second `a` is called `a:1`, as in SQLite.
pub(super) fn unique_name(known: &[ScopeColumn], name: &str) -> String {
    let known: Vec<&str> = known.iter().map(|column| column.name.as_str()).collect();
    unique(&known, name)
}

/// A name different from all in `known`: `name` itself, or `name` with a number behind.
pub(super) fn unique<S: AsRef<str>>(known: &[S], name: &str) -> String {
    let taken = |name: &str| known.iter().any(|known| known.as_ref().eq_ignore_ascii_case(name));
    if !taken(name) {
        return name.to_owned();
    }
    let numbered = (1..=known.len()).map(|number| format!("{name}:{number}"));
    numbered.into_iter().find(|name| !taken(name)).unwrap_or_else(|| name.to_owned())
}
