//! Equality of expressions: surely the same value for the same row.

use super::tree::{Aggregate, Expr};

impl Aggregate {
    /// True where two aggregates surely have the same value for the same group. Some equal pairs
    /// are not recognised.
    pub(crate) fn is_same(&self, other: &Aggregate) -> bool {
        let Aggregate { function, arguments, distinct, collation, json, .. } = self;
        let is_plain =
            |it: &Aggregate| !it.function.is_own() && it.filter.is_none() && it.order_by.is_empty();
        is_plain(self)
            && is_plain(other)
            && function.name() == other.function.name()
            && (distinct, collation, json) == (&other.distinct, &other.collation, &other.json)
            && arguments.len() == other.arguments.len()
            && arguments.iter().zip(&other.arguments).all(|(a, b)| a.is_same(b))
    }
}

impl Expr {
    /// True where two expressions surely have the same value for the same row. Some equal pairs are
    /// not recognised.
    pub(crate) fn is_same(&self, other: &Expr) -> bool {
        let all = |left: &[Expr], right: &[Expr]| {
            left.len() == right.len() && left.iter().zip(right).all(|(a, b)| a.is_same(b))
        };
        match (self, other) {
            (Expr::Const(a), Expr::Const(b)) => a == b,
            (Expr::Parameter(a), Expr::Parameter(b)) => a == b,
            (Expr::Column { source: a, column: b }, Expr::Column { source: c, column: d }) => {
                (a, b) == (c, d)
            }
            (Expr::Aggregate { select: a, index: b }, Expr::Aggregate { select: c, index: d })
            | (Expr::Window { select: a, index: b }, Expr::Window { select: c, index: d }) => {
                (a, b) == (c, d)
            }
            (Expr::Plus(a), Expr::Plus(b))
            | (Expr::Negate(a), Expr::Negate(b))
            | (Expr::BitNot(a), Expr::BitNot(b))
            | (Expr::Not(a), Expr::Not(b)) => a.is_same(b),
            (Expr::Arithmetic(a, left, right), Expr::Arithmetic(b, other_left, other_right)) => {
                a == b && left.is_same(other_left) && right.is_same(other_right)
            }
            (
                Expr::Call { function, arguments, collation, json },
                Expr::Call {
                    function: other,
                    arguments: others,
                    collation: other_collation,
                    json: other_json,
                },
            ) => {
                function.is(other)
                    && function.deterministic
                    && (collation, json) == (other_collation, other_json)
                    && all(arguments, others)
            }
            (Expr::Coalesce(a), Expr::Coalesce(b)) => all(a, b),
            (Expr::And(a, b), Expr::And(c, d)) | (Expr::Or(a, b), Expr::Or(c, d)) => {
                a.is_same(c) && b.is_same(d)
            }
            (Expr::Compare(rule, a, b), Expr::Compare(other, c, d)) => {
                rule == other && a.is_same(c) && b.is_same(d)
            }
            (Expr::IsNull { expr: a, not }, Expr::IsNull { expr: b, not: other }) => {
                not == other && a.is_same(b)
            }
            (
                Expr::IsTruth { expr: a, truth, not },
                Expr::IsTruth { expr: b, truth: other_truth, not: other },
            ) => (truth, not) == (other_truth, other) && a.is_same(b),
            (
                Expr::Between { expr: a, not, low, high },
                Expr::Between { expr: b, not: other, low: other_low, high: other_high },
            ) => {
                not == other
                    && a.is_same(b)
                    && (low.0, high.0) == (other_low.0, other_high.0)
                    && low.1.is_same(&other_low.1)
                    && high.1.is_same(&other_high.1)
            }
            (
                Expr::InList { expr: a, not, list, affinity, collation },
                Expr::InList {
                    expr: b,
                    not: other,
                    list: others,
                    affinity: other_affinity,
                    collation: other_collation,
                },
            ) => {
                (not, affinity, collation) == (other, other_affinity, other_collation)
                    && a.is_same(b)
                    && all(list, others)
            }
            (
                Expr::Case { base, branches, otherwise },
                Expr::Case { base: other_base, branches: others, otherwise: other },
            ) => {
                let both = |a: &Option<Box<Expr>>, b: &Option<Box<Expr>>| match (a, b) {
                    (Some(a), Some(b)) => a.is_same(b),
                    (None, None) => true,
                    _ => false,
                };
                both(base, other_base)
                    && both(otherwise, other)
                    && branches.len() == others.len()
                    && branches
                        .iter()
                        .zip(others)
                        .all(|(a, b)| a.0 == b.0 && a.1.is_same(&b.1) && a.2.is_same(&b.2))
            }
            (Expr::Cast { expr: a, affinity }, Expr::Cast { expr: b, affinity: other })
            | (Expr::Stored { expr: a, affinity }, Expr::Stored { expr: b, affinity: other }) => {
                affinity == other && a.is_same(b)
            }
            _ => false,
        }
    }
}
