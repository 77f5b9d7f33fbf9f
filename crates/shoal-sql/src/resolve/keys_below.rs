//! Groups of the asked rows alone: keys of a filtered table are asked of a subquery joined with it.
//!
//! Of `customer c JOIN (SELECT customer, sum(price) ... GROUP BY customer) t ON t.customer = c.id
//! WHERE c.name = 'Ann'`, a view of totals perhaps, the groups of all customers would be made for
//! a few. The subquery asks `customer IN (SELECT id FROM customer WHERE name = 'Ann')` before it
//! makes groups: sought in an index, or asked of each row. Whether the list pays is for the
//! planner ([`pays`](Candidate)). Conditions on the key itself need no list
//! ([`imply`](super::imply)).

use super::factor::cannot_fail;
use super::group_below::{is_unique, plain_table};
use super::imply::{Column, key_pairs, kind};
use super::outputs::{empty, unnamed};
use super::push::{give, takes};
use super::tree::{Body, Expr, IndexMeaning, Query, Select, Source, SourceId, SourceKind};
use super::unnest::Free;
use crate::schema::Table;
use crate::value::{Affinity, CompareOp, Comparison, Value};

/// A subquery that the keys of a filtered table joined with it could be asked of.
pub(crate) struct Candidate<'q> {
    pub(crate) query: &'q Query,
    pub(crate) table: &'q Table,
    /// The conditions on the table alone.
    pub(crate) conditions: Vec<&'q Expr>,
    /// The sources of the join.
    pub(crate) sources: &'q [Source],
}

/// Asks the keys of filtered tables of the subqueries joined with them, where that `pays`; true
/// where any are asked.
pub(crate) fn keys_below(
    query: &mut Query,
    free: &mut Free,
    pays: &dyn Fn(&Candidate<'_>) -> bool,
) -> bool {
    let mut any = false;
    query.each_select_mut(&mut |select| {
        if select.sources.len() < 2 || select.sources.iter().any(Source::keeps_right) {
            return;
        }
        for place in 0..select.sources.len() {
            if let Some((asked, source)) = asked_keys(select, place, free, pays)
                && let SourceKind::Query(query) = &mut select.sources[place].kind
            {
                give(&mut query.body, &asked, source);
                any = true;
            }
        }
    });
    any
}

/// The condition that a subquery's column is among the keys of a filtered table.
fn asked_keys(
    select: &Select,
    place: usize,
    free: &mut Free,
    pays: &dyn Fn(&Candidate<'_>) -> bool,
) -> Option<(Expr, SourceId)> {
    let source = &select.sources[place];
    let SourceKind::Query(query) = &source.kind else { return None };
    let equalities = source.join.as_ref().map_or(&select.conjuncts, |join| &join.on);
    equalities.iter().find_map(|equality| {
        let (rule, own, other) = key_pairs(equality, source.id)?;
        let of_own = kind(own, &select.sources)?;
        let fits = of_own == kind(other, &select.sources)? && of_own != Affinity::Blob;
        let of = select.sources.iter().find(|known| known.id == other.0)?;
        let table = plain_table(of)?;
        let is_key = is_unique(table, other.1, &rule.collation);
        let conditions = conditions_on(select, other)?;
        let mut hides = false;
        query.each_select(&mut |select| hides |= select.sources.iter().any(|of| of.guarded));
        if !fits || !is_key || hides || !takes(query, &test(rule, own)) {
            return None;
        }
        let candidate = Candidate { query, table, conditions, sources: &select.sources };
        if !pays(&candidate) {
            return None;
        }
        let asked = Expr::InQuery {
            expr: Box::new(Expr::Column { source: own.0, column: own.1 }),
            not: false,
            query: Box::new(keys(of, other.1, &candidate.conditions, free)),
            affinity: rule.affinity,
            collation: rule.collation,
        };
        Some((asked, source.id))
    })
}

/// The conditions on a key's table alone; `None` without any, and where one is on the key.
fn conditions_on(select: &Select, key: Column) -> Option<Vec<&Expr>> {
    let is_own = |expr: &&Expr| expr.reads_only(&[key.0]) && cannot_fail(expr);
    let conditions: Vec<&Expr> = select.conjuncts.iter().filter(is_own).collect();
    let mut is_on_key = false;
    for condition in &conditions {
        condition.columns(&mut |_, column| is_on_key |= column == key.1);
    }
    (!conditions.is_empty() && !is_on_key).then_some(conditions)
}

/// Stands for a comparison of a column with a value of a list.
fn test(rule: &Comparison, (source, column): Column) -> Expr {
    let rule = Comparison { op: CompareOp::Equal, ..*rule };
    let value = Expr::Const(Value::Int(0));
    Expr::Compare(rule, Box::new(Expr::Column { source, column }), Box::new(value))
}

/// `SELECT key FROM table WHERE conditions`.
fn keys(of: &Source, key: usize, conditions: &[&Expr], free: &mut Free) -> Query {
    let (id, source) = (free.select, free.source);
    (free.select, free.source) = (id + 1, source + 1);
    let renamed = |expr: &Expr| {
        let mut expr = expr.clone();
        expr.walk_mut(&mut |part| {
            if let Expr::Column { source: known, .. } = part
                && *known == of.id
            {
                *known = source;
            }
        });
        expr
    };
    let meaning = |index: &IndexMeaning| IndexMeaning {
        columns: index
            .columns
            .iter()
            .map(|column| column.as_ref().map(|(expr, affinity)| (renamed(expr), *affinity)))
            .collect(),
        filter: index.filter.iter().map(renamed).collect(),
        unusable: index.unusable,
    };
    let table = Source {
        indexed: of.indexed.iter().map(meaning).collect(),
        ..Source::new(source, of.kind.clone(), of.name.clone())
    };
    let outputs = vec![Expr::Column { source, column: key }];
    let mut select = Select::of_sources(id, vec![table], outputs);
    select.conjuncts = conditions.iter().map(|condition| renamed(condition)).collect();
    Query { body: Body::Select(Box::new(select)), columns: vec![unnamed()], ..empty() }
}
