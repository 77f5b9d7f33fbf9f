//! Planning of a whole query: its body, then order and bounds around it.

use super::{BodyPlan, CompoundPlan, QueryPlan, RecursivePlan, SharedPlan};
use crate::keep::{SortKey, SortPlan};
use crate::plan::{Compiler, Reg};
use crate::resolve::tree::{Body, Expr, Key, OrderKey, Query};
use crate::value::Value;

impl Compiler {
    /// Plans a query; its rows will appear in registers of their own.
    pub(crate) fn plan_query(&mut self, query: &Query) -> QueryPlan {
        if let Body::Shared(shared) = &query.body
            && !self.made_once[shared.slot]
        {
            return self.plan_query(&shared.query);
        }
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
        let order = (query.order_by.as_slice(), limited, chooses);
        let (body, sorted) = self.plan_body(&query.body, output, width, order);
        let sort = (!sorted && !query.order_by.is_empty()).then(|| {
            let mut next = output + width;
            let keys = query
                .order_by
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
        });
        let limit = query.limit.as_ref().map(|limit| self.code(limit));
        let offset = query.offset.as_ref().map(|offset| self.code(offset));
        let queries = std::mem::replace(&mut self.own_queries, outer);
        let measure = self.measure();
        QueryPlan { body, output, width, sort, limit, offset, queries, measure }
    }

    /// Plans a body of whose rows about so many are taken, those that are first by the output of that
    /// number; also tells whether its rows come in the order asked for.
    fn plan_body(
        &mut self,
        body: &Body,
        output: Reg,
        width: usize,
        (order_by, limit, chooses): (&[OrderKey], Option<f64>, Option<usize>),
    ) -> (BodyPlan, bool) {
        match body {
            Body::Values(rows) => {
                let rows = rows
                    .iter()
                    .map(|row| {
                        row.iter()
                            .enumerate()
                            .map(|(index, expr)| self.code_to(expr, output + index))
                            .collect()
                    })
                    .collect();
                (BodyPlan::Values(rows), false)
            }
            Body::Select(select) => {
                let (plan, sorted) = self.plan_select(select, output, (order_by, limit, chooses));
                (BodyPlan::Select(Box::new(plan)), sorted)
            }
            Body::Shared(shared) => {
                let plan = self.plan_query(&shared.query);
                let plan = SharedPlan { slot: shared.slot, plan };
                (BodyPlan::Shared(Box::new(plan)), false)
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
                let steps = recursion.steps.iter();
                let steps = steps.map(|body| self.plan_part(body, output, width, None)).collect();
                let plan = RecursivePlan {
                    slot: recursion.slot,
                    first,
                    steps,
                    distinct: recursion.distinct,
                    collations: recursion.collations.clone(),
                    order,
                };
                (BodyPlan::Recursive(Box::new(plan)), false)
            }
            Body::Compound { first, rest, collations } => {
                let first = self.plan_part(first, output, width, chooses);
                let rest = rest
                    .iter()
                    .map(|(op, body)| (*op, self.plan_part(body, output, width, chooses)))
                    .collect();
                let plan = CompoundPlan { first, rest, collations: collations.clone() };
                (BodyPlan::Compound(Box::new(plan)), false)
            }
        }
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
        let (body, _) = self.plan_body(body, output, width, (&[], None, chooses));
        let queries = std::mem::replace(&mut self.own_queries, outer);
        let (sort, limit, offset, measure) = (None, None, None, self.measure());
        QueryPlan { body, output, width, sort, limit, offset, queries, measure }
    }
}

/// About how many rows of a query are taken; `None` for all of them.
fn limit(query: &Query) -> Option<f64> {
    let known = |bound: &Expr| match bound {
        Expr::Const(Value::Int(count)) if *count >= 0 => Some(*count as f64),
        // Most who ask for a part ask for a page of it.
        Expr::Parameter(_) => Some(100.0),
        _ => None,
    };
    let limit = known(query.limit.as_ref()?)?;
    Some(limit + query.offset.as_ref().and_then(known).unwrap_or(0.0))
}
