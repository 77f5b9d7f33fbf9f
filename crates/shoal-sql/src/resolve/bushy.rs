//! Bushy joins: of `FROM a JOIN b JOIN c JOIN d` the join of `c` and `d` may be the build side of a
//! hash join with the rows of `a` and `b`. In an order of single tables every row of `c` is found
//! for the rows of `a` and `b` before a condition on `d` drops it.
//!
//! The tables of the build side become a query in the `FROM`, called `joined` in plans.

use super::outputs::unnamed;
use super::reads::{each_query, reads_all};
use super::tree::{Body, Expr, OrderKey, Query, Select, Source, SourceId, SourceKind};
use super::unnest::Free;

/// Makes build sides of tables of a query, and of all queries in it: of the tables chosen by
/// `choose`, as a set of places in the select's list.
pub(crate) fn bushy(query: &mut Query, free: &mut Free, choose: &dyn Fn(&Select) -> Option<u64>) {
    each_query(query, &mut |query, read| {
        let may_join = reads_all(query, read) && !query.correlated;
        let Query { body, order_by, .. } = query;
        if let (Body::Select(select), true) = (body, may_join)
            && let Some(places) = choose(select)
        {
            join_first(select, order_by, free, places);
        }
    });
}

/// Joins the tables at `places` in a query of their own.
fn join_first(select: &mut Select, order_by: &mut [OrderKey], free: &mut Free, places: u64) {
    let (inner, joined) = (free.select, free.source);
    (free.select, free.source) = (inner + 1, joined + 1);
    let mut place = 0;
    let is_chosen = |_: &mut Source| {
        place += 1;
        places & 1 << (place - 1) != 0
    };
    let sources: Vec<Source> = select.sources.extract_if(.., is_chosen).collect();
    let own: Vec<SourceId> = sources.iter().map(|source| source.id).collect();
    let is_below = |condition: &mut Expr| condition.reads_only(&own);
    let conjuncts: Vec<Expr> = select.conjuncts.extract_if(.., is_below).collect();
    let mut outputs: Vec<Expr> = Vec::new();
    let mut change = |part: &mut Expr| {
        if matches!(part, Expr::Column { source, .. } if own.contains(source)) {
            let known = outputs.iter().position(|output| output.is_same(part));
            let column = known.unwrap_or(outputs.len());
            let read = std::mem::replace(part, Expr::Column { source: joined, column });
            if known.is_none() {
                outputs.push(read);
            }
        }
    };
    select.walk_mut(&mut change);
    order_by.iter_mut().for_each(|key| key.walk_mut(&mut change));
    let query = Query {
        columns: outputs.iter().map(|_| unnamed()).collect(),
        body: Body::Select(Box::new(Select {
            conjuncts,
            ..Select::of_sources(inner, sources, outputs)
        })),
        as_expression: (None, Default::default()),
        order_by: Vec::new(),
        limit: None,
        offset: None,
        correlated: false,
    };
    let kind = SourceKind::Query(Box::new(query));
    select.sources.push(Source::new(joined, kind, "joined".to_owned()));
}
