//! Values with one result for a whole run: `date('now', '-7 days')`, `?1 || '%'`. Each is computed
//! when a run begins, and stands in the query as a parameter behind the statement's own: an index
//! is sought by the value, and pages are asked about the value without a call for each row.
//!
//! Taken are functions that never fail, of constants and parameters: a value nobody asks for must
//! not end the statement.

use super::factor::never_fails;
use super::tree::{Expr, Query, Select};

/// Values computed when a run begins.
#[derive(Debug, Default)]
pub(crate) struct Once {
    /// Number of parameters before: the highest number of a parameter in the query.
    pub(crate) own: usize,
    /// The value of each parameter behind.
    pub(crate) values: Vec<Expr>,
}

/// Takes such values out of the selects of a query.
pub(crate) fn take_once(query: &mut Query) -> Once {
    let mut once = Once::default();
    query.walk(&mut |expr| {
        if let Expr::Parameter(number) = expr {
            once.own = once.own.max(*number);
        }
    });
    query.each_select_mut(&mut |select| once.take_of(select));
    once
}

impl Once {
    fn take_of(&mut self, select: &mut Select) {
        let aggregates = select.aggregates.iter_mut();
        let aggregated = aggregates.flat_map(|one| one.arguments.iter_mut().chain(&mut one.filter));
        let joins = select.sources.iter_mut().flat_map(|source| &mut source.join);
        let joined = joins.flat_map(|join| &mut join.on);
        let exprs = select.conjuncts.iter_mut().chain(joined).chain(aggregated);
        exprs.for_each(|expr| self.take(expr));
        // What a group is made of is recognised in the outputs by its form.
        if select.group_by.is_none() {
            select.outputs.iter_mut().for_each(|expr| self.take(expr));
        }
    }

    fn take(&mut self, expr: &mut Expr) {
        if !is_computed(expr) || !is_fixed(expr) || !is_for_run(expr) {
            expr.parts_mut(&mut |part| self.take(part));
            return;
        }
        let known = self.values.iter().position(|known| known.is_same(expr));
        let place = known.unwrap_or(self.values.len());
        let value = std::mem::replace(expr, Expr::Parameter(self.own + place + 1));
        if known.is_none() {
            self.values.push(value);
        }
    }
}

/// True for a computed value other than a condition: conditions have forms of their own
/// in plans.
fn is_computed(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::CurrentTime(_)
            | Expr::Negate(_)
            | Expr::BitNot(_)
            | Expr::Arithmetic(..)
            | Expr::Cast { .. }
            | Expr::Case { .. }
            | Expr::Coalesce(_)
            | Expr::Call { .. }
    )
}

/// True where every run has one value, and computing the value never fails.
fn is_fixed(expr: &Expr) -> bool {
    let own = match expr {
        Expr::Column { .. } | Expr::Aggregate { .. } | Expr::Window { .. } => false,
        Expr::Call { function, .. } => never_fails(function),
        other => other.query().is_none(),
    };
    let mut fixed = own;
    expr.parts(&mut |part| fixed &= is_fixed(part));
    fixed
}

/// True where a run has a part in the value: plans read constants, also computed ones, themselves.
fn is_for_run(expr: &Expr) -> bool {
    let mut found = matches!(expr, Expr::Parameter(_) | Expr::CurrentTime(_) | Expr::Call { .. });
    expr.parts(&mut |part| found |= is_for_run(part));
    found
}
