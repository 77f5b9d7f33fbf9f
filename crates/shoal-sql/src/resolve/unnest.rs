//! Unnesting: `t.x IN (SELECT u.id FROM u WHERE ...)` becomes a join with `u` where `u.id` is the
//! rowid of `u`, each value once, and an index begins with `t.x`. A seek for each value of a list
//! is the plan of the `IN`; a join chooses among all orders, and goes by batches.
//!
//! `(t.x, t.y) IN (...)` becomes a join with the different rows of the query, where an index or the
//! primary key begins with some of the columns: a list of rows is sought row by row.

use super::from::JOIN_MAX;
use super::tree::{Body, Expr, Query, ROWID, Select, SelectId, Source, SourceId, SourceKind};
use crate::schema::{IndexSource, Table};
use crate::value::{Affinity, CompareOp, Comparison};

/// Makes joins of the `IN`s of a query, and of all queries in its `FROM`s.
pub(crate) fn unnest(query: &mut Query, free: &mut Free) {
    free.body(&mut query.body);
}

/// The first free numbers of selects and of sources of the statement.
#[derive(Default)]
pub(crate) struct Free {
    pub(super) select: SelectId,
    pub(super) source: SourceId,
}

impl Free {
    /// The numbers free in a statement's query.
    pub(crate) fn of(query: &Query) -> Free {
        let mut free = Free::default();
        query.each_select(&mut |select| {
            free.select = free.select.max(select.id + 1);
            for source in &select.sources {
                free.source = free.source.max(source.id + 1);
            }
        });
        free
    }

    fn body(&mut self, body: &mut Body) {
        match body {
            Body::Values(_) => {}
            Body::Select(select) => self.select(select),
            Body::Compound { first, rest, .. } => {
                self.body(first);
                rest.iter_mut().for_each(|(_, body)| self.body(body));
            }
            Body::Shared(shared) => self.body(&mut shared.query.body),
            Body::Recursive(recursion) => {
                self.body(&mut recursion.first);
                recursion.steps.iter_mut().for_each(|body| self.body(body));
            }
        }
    }

    fn select(&mut self, select: &mut Select) {
        for source in &mut select.sources {
            if let SourceKind::Query(query) = &mut source.kind {
                self.body(&mut query.body);
            }
        }
        self.conditions(select);
    }

    fn conditions(&mut self, select: &mut Select) {
        // Rows without a match stay out of a `WHERE`'s reach.
        if select.sources.iter().any(|source| source.join.is_some()) {
            return;
        }
        let mut at = 0;
        while at < select.conjuncts.len() {
            let has_room = select.sources.len() < JOIN_MAX;
            match &mut select.conjuncts[at] {
                Expr::InQuery { expr, not: false, query, .. }
                    if has_room && is_sought(expr, &select.sources) =>
                {
                    self.body(&mut query.body);
                    if gives_rowids(query) {
                        join_rowids(select, at);
                    }
                }
                Expr::RowInQuery { row, not: false, query, .. }
                    if has_room && !query.correlated && is_row_sought(row, &select.sources) =>
                {
                    self.body(&mut query.body);
                    self.join_rows(select, at);
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// Makes a join of a row `IN` the rows of a query, with the rows different by the rules of the
    /// `IN`.
    fn join_rows(&mut self, select: &mut Select, at: usize) {
        let Expr::RowInQuery { row, query, rules, .. } = select.conjuncts.remove(at) else {
            unreachable!("the condition is a row IN a query");
        };
        let (inner, rows) = (self.source, self.source + 1);
        let (columns, as_expression) = (query.columns.clone(), query.as_expression);
        self.source += 2;
        let outputs = rules.iter().enumerate().map(|(column, (affinity, _))| {
            let expr = Expr::Column { source: inner, column };
            match affinity {
                None => expr,
                Some(affinity) => Expr::Stored { expr: Box::new(expr), affinity: *affinity },
            }
        });
        let source = Source::new(inner, SourceKind::Query(query), "list".to_owned());
        let distinct = Some(rules.iter().map(|(_, collation)| *collation).collect());
        let different =
            Select { distinct, ..Select::of_sources(self.select, vec![source], outputs.collect()) };
        self.select += 1;
        let different = Query {
            columns,
            as_expression,
            order_by: Vec::new(),
            limit: None,
            offset: None,
            correlated: false,
            body: Body::Select(Box::new(different)),
        };
        let equal = row.into_iter().zip(rules).enumerate();
        for (column, (expr, (affinity, collation))) in equal {
            let rule = Comparison { op: CompareOp::Equal, affinity, collation };
            let other = Box::new(Expr::Column { source: rows, column });
            select.conjuncts.insert(at + column, Expr::Compare(rule, Box::new(expr), other));
        }
        let kind = SourceKind::Query(Box::new(different));
        select.sources.push(Source::new(rows, kind, "list".to_owned()));
    }
}

/// Makes a join of an `IN` the rowids of a table.
fn join_rowids(select: &mut Select, at: usize) {
    let Expr::InQuery { expr, query, affinity, collation, .. } = select.conjuncts.remove(at) else {
        unreachable!("the condition is an IN of a query");
    };
    let Body::Select(mut inner) = query.body else {
        unreachable!("the query of an IN is a select");
    };
    let key = inner.outputs.swap_remove(0);
    let rule = Comparison { op: CompareOp::Equal, affinity, collation };
    select.conjuncts.insert(at, Expr::Compare(rule, expr, Box::new(key)));
    select.conjuncts.append(&mut inner.conjuncts);
    select.sources.append(&mut inner.sources);
}

/// True for columns of one table, where one begins the primary key or an index of the table.
fn is_row_sought(row: &[Expr], sources: &[Source]) -> bool {
    let mut columns = Vec::with_capacity(row.len());
    let mut table: Option<(SourceId, &Table)> = None;
    for expr in row {
        let Expr::Column { source, column } = expr else { return false };
        let known = sources.iter().find(|known| known.id == *source);
        let Some(Source { kind: SourceKind::Table(of), guarded: false, .. }) = known else {
            return false;
        };
        if table.is_some_and(|(other, _)| other != *source) {
            return false;
        }
        table = Some((*source, of));
        columns.push(*column);
    }
    let Some((_, table)) = table else { return false };
    let of_key = table.primary_key.first().map(|part| part.column);
    let of_index =
        table.indexes.iter().filter(|index| index.filter.is_none()).filter_map(|index| match index
            .columns
            .first()
            .map(|column| &column.source)
        {
            Some(IndexSource::Column(column)) => Some(*column),
            _ => None,
        });
    let mut firsts = of_key.filter(|_| table.without_rowid).into_iter().chain(of_index);
    columns.contains(&ROWID) || firsts.any(|first| columns.contains(&first))
}

/// True for an integer column of one of the sources, first in one of its table's indexes.
fn is_sought(expr: &Expr, sources: &[Source]) -> bool {
    let Expr::Column { source, column } = expr else { return false };
    let source = sources.iter().find(|known| known.id == *source);
    let Some(SourceKind::Table(table)) = source.map(|source| &source.kind) else { return false };
    let is_integer = table.columns.get(*column).is_some_and(|it| it.affinity == Affinity::Integer);
    let mut indexes = table.indexes.iter();
    is_integer
        && indexes.any(|index| {
            let first = index.columns.first().map(|column| &column.source);
            index.filter.is_none() && matches!(first, Some(IndexSource::Column(of)) if of == column)
        })
}

/// True for an uncorrelated query of one table's rowids.
fn gives_rowids(query: &Query) -> bool {
    let is_whole = !query.correlated && query.limit.is_none() && query.offset.is_none();
    let Body::Select(select) = &query.body else { return false };
    let [Source { id, kind: SourceKind::Table(table), join: None, .. }] = &*select.sources else {
        return false;
    };
    let is_plain =
        select.group_by.is_none() && select.having.is_none() && select.window_calls.is_empty();
    let is_rowid =
        |expr: &Expr| matches!(expr, Expr::Column { source, column: ROWID } if source == id);
    is_whole
        && is_plain
        && !table.without_rowid
        && matches!(&*select.outputs, [key] if is_rowid(key))
}
