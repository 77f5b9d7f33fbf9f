//! Planning of a whole query: the body, then order and bounds around the body.

use super::node::{
    Bounds, CompoundNode, LimitNode, Node, QueryPlan, RecursionNode, SharedNode, SortNode,
};
use super::query_rows::RECURSION_ROWS;
use super::select::{RowOrder, Sorted, runs_within};
use crate::keep::{SortKey, SortPlan};
use crate::plan::{Asked, Compiler, Reg};
use crate::resolve::tree::{Body, Expr, Key, OrderKey, Query};
use crate::value::Value;

impl Compiler {
    /// Plans a query; its rows will appear in registers of their own.
    pub(crate) fn plan_query(&mut self, query: &Query) -> QueryPlan {
        self.plan_asked(query, None, None)
    }

    /// Plans a query, `asked` no more by an expression where present. Of its rows about `read` are
    /// read where that is known.
    pub(super) fn plan_asked(
        &mut self,
        query: &Query,
        asked: Option<Asked>,
        read: Option<f64>,
    ) -> QueryPlan {
        let outer = std::mem::take(&mut self.own_queries);
        let width = query.columns.len();
        let key_count = query.order_by.iter().filter(|key| matches!(key.key, Key::Expr(_))).count();
        let output = self.register_range(width + key_count);
        let limited = limit(query);
        // The first key that is an expression comes behind the columns.
        let chooses = query.order_by.first().filter(|_| limited.is_some());
        let chooses = chooses.map(|key| match &key.key {
            Key::Output(number) => *number,
            Key::Expr(_) => width,
        });
        let order = RowOrder {
            order_by: &query.order_by,
            limit: limited.or(read),
            has_limit: query.limit.is_some() || read.is_some(),
            chooses,
            asked,
        };
        let (input, sorted) = self.plan_body(&query.body, output, width, order);
        let sort = (sorted != Sorted::All && !query.order_by.is_empty())
            .then(|| sort_plan(&query.order_by, output, width));
        let limit = query.limit.as_ref().map(|limit| self.code(limit));
        let offset = query.offset.as_ref().map(|offset| self.code(offset));
        let is_bounded = limit.is_some() || offset.is_some();
        // A probe gives a first row or a value; admitted bounds change neither.
        let is_probe = matches!(input, Node::Probe(_));
        let bounds = (is_bounded && !is_probe).then_some(Bounds { limit, offset });
        let node = match (sort, bounds) {
            (Some(sort), _) if is_probe => {
                let Node::Probe(mut probe) = input else { unreachable!("it is a probe") };
                probe.sort = Some((sort, output));
                Node::Probe(probe)
            }
            (Some(sort), bounds) => {
                let begins = match sorted {
                    Sorted::Begins(keys) => keys,
                    Sorted::No | Sorted::All => 0,
                };
                Node::Sort(Box::new(SortNode { input, sort, begins, bounds, output, width }))
            }
            (None, Some(bounds)) => Node::Limit(Box::new(LimitNode { input, bounds })),
            (None, None) => input,
        };
        let queries = std::mem::replace(&mut self.own_queries, outer);
        let measure = self.measure();
        QueryPlan { node, output, width, queries, measure }
    }

    /// Plans a body of whose rows some are asked for; also tells whether its rows come in the order
    /// asked for.
    fn plan_body(
        &mut self,
        body: &Body,
        output: Reg,
        width: usize,
        order: RowOrder<'_>,
    ) -> (Node, Sorted) {
        let node = match body {
            Body::Values(rows) => {
                let rows = rows.iter().map(|row| {
                    let row = row.iter().enumerate();
                    row.map(|(index, expr)| self.code_to(expr, output + index)).collect()
                });
                Node::Values(rows.collect())
            }
            Body::Select(select) => return self.plan_select(select, output, order),
            Body::Shared(shared) => {
                let plan = self.plan_query(&shared.query);
                let slot = shared.slot;
                Node::Shared(Box::new(SharedNode { slot, plan, output, width }))
            }
            Body::Recursive(recursion) => {
                self.slots = self.slots.max(recursion.slot + 1);
                let order = recursion.order_by.iter().filter_map(|key| match &key.key {
                    Key::Output(index) => Some(SortKey {
                        reg: *index,
                        descending: key.descending,
                        nulls_first: key.nulls_first,
                        collation: key.collation,
                    }),
                    Key::Expr(_) => None,
                });
                let order = order.collect();
                let first = self.plan_part(&recursion.first, output, width, None);
                let outer = (self.is_repeated, self.runs);
                (self.is_repeated, self.runs) = (true, runs_within(self.runs, RECURSION_ROWS));
                let steps = recursion.steps.iter();
                let steps = steps.map(|body| self.plan_part(body, output, width, None)).collect();
                (self.is_repeated, self.runs) = outer;
                let node = RecursionNode {
                    slot: recursion.slot,
                    first,
                    steps,
                    distinct: recursion.distinct,
                    collations: recursion.collations.clone(),
                    order,
                    output,
                    width,
                };
                Node::Recursion(Box::new(node))
            }
            Body::Compound { first, rest, collations } => {
                let chooses = order.chooses;
                let first = self.plan_part(first, output, width, chooses);
                let rest = rest
                    .iter()
                    .map(|(op, body)| (*op, self.plan_part(body, output, width, chooses)))
                    .collect();
                let collations = collations.clone();
                Node::Compound(Box::new(CompoundNode { first, rest, collations, output, width }))
            }
        };
        (node, Sorted::No)
    }

    /// Plans one part of a compound, whose rows appear in the compound's registers.
    fn plan_part(
        &mut self,
        body: &Body,
        output: Reg,
        width: usize,
        chooses: Option<usize>,
    ) -> QueryPlan {
        let outer = std::mem::take(&mut self.own_queries);
        let order = RowOrder { order_by: &[], limit: None, has_limit: false, chooses, asked: None };
        let (node, _) = self.plan_body(body, output, width, order);
        let queries = std::mem::replace(&mut self.own_queries, outer);
        QueryPlan { node, output, width, queries, measure: self.measure() }
    }
}

/// The registers of the sort keys: outputs, or registers behind the outputs.
fn sort_plan(order_by: &[OrderKey], output: Reg, width: usize) -> SortPlan {
    let mut next = output + width;
    let keys = order_by
        .iter()
        .map(|key| SortKey {
            reg: match &key.key {
                Key::Output(index) => output + index,
                Key::Expr(_) => {
                    next += 1;
                    next - 1
                }
            },
            descending: key.descending,
            nulls_first: key.nulls_first,
            collation: key.collation,
        })
        .collect();
    SortPlan { keys }
}

/// About how many rows of a query are taken; `None` for all of them.
fn limit(query: &Query) -> Option<f64> {
    let known = |bound: &Expr| match bound {
        Expr::Const(Value::Int(count)) if *count >= 0 => Some(*count as f64),
        Expr::Const(_) => None,
        // Most who ask for a part ask for a page of it.
        _ => Some(100.0),
    };
    let limit = known(query.limit.as_ref()?)?;
    Some(limit + query.offset.as_ref().and_then(known).unwrap_or(0.0))
}
