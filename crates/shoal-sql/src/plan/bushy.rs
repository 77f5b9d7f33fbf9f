//! Whether tables are joined with each other first, to be the build side of a hash join: where a
//! bushy join costs less than every order of single tables.
//!
//! That is so behind an equality of two columns both with repeated values: of 300 orders of a day
//! each finds the 300 orders of the day, and the customers of few are wanted.

use super::access::{Sources, Term};
use super::cost::{HASH_FOUND, HASH_KEEP, HASH_PROBE};
use super::order::{EXHAUSTIVE_MAX, of_sets};
use super::select::terms;
use crate::plan::Compiler;
use crate::resolve::bushy::bushy as rewrite;
use crate::resolve::factor::cannot_fail;
use crate::resolve::group_below::{is_unique, plain_table};
use crate::resolve::tree::{Expr, Query, Select, Source};
use crate::resolve::unnest::Free;
use crate::value::CompareOp;

/// Fewest tables of either side of a bushy join: a single one is a step of an order.
const SIDE_MIN: u32 = 2;
/// A bushy join has to cost so many times less than the cheapest order: rows of the build side are
/// found whether asked for or not.
const CAUTION: f64 = 1.5;
/// Cheaper orders than this, 0.3 ms, are left as they are.
const COST_MIN: f64 = 10_000.0;

impl Compiler {
    /// Joins tables of a query apart where that pays, or as forced.
    pub(super) fn join_bushy(&self, query: &mut Query) {
        let mut is_large = false;
        query.each_select(&mut |select| is_large |= select.sources.len() >= 2 * SIDE_MIN as usize);
        if is_large && self.forced.bushy != Some(false) {
            let mut free = Free::of(query);
            rewrite(query, &mut free, &|select| self.build_side(select));
        }
    }

    /// The places of the tables to be joined first, if any.
    fn build_side(&self, select: &Select) -> Option<Sources> {
        let sources = &select.sources;
        let is_plain = |source: &Source| plain_table(source).is_some() && source.join.is_none();
        let few = 2 * SIDE_MIN as usize..=EXHAUSTIVE_MAX;
        if !few.contains(&sources.len()) || !sources.iter().all(is_plain) {
            return None;
        }
        let terms = terms(select);
        if !terms.iter().any(|term| multiplies(term, sources)) {
            return None;
        }
        let frame = self.frame(select, &terms, &[], 0.0);
        let cheapest = of_sets(&frame, None, 1.0);
        let all: Sources = (1 << sources.len()) - 1;
        let whole = cheapest[all as usize]?;
        let mut best: Option<(f64, Sources)> = None;
        for build in 1..all {
            let probe = all & !build;
            if build.count_ones().min(probe.count_ones()) < SIDE_MIN
                || !is_build_side(build, &terms)
                || !is_connected(probe, &terms)
            {
                continue;
            }
            let (Some(built), Some(probed)) = (cheapest[build as usize], cheapest[probe as usize])
            else {
                continue;
            };
            let cost = built.cost
                + built.rows * HASH_KEEP
                + probed.cost
                + probed.rows * HASH_PROBE
                + whole.rows * HASH_FOUND;
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, build));
            }
        }
        let (cost, build) = best?;
        let pays = whole.cost > COST_MIN && CAUTION * cost < whole.cost;
        (pays || self.forced.bushy == Some(true)).then_some(build)
    }
}

/// The columns of an equality of two tables.
fn equality<'e>(term: &Term<'e>) -> Option<(&'e Expr, &'e Expr)> {
    match term.expr {
        Expr::Compare(rule, left, right) if rule.op == CompareOp::Equal => {
            let is_column = |expr: &Expr| matches!(expr, Expr::Column { .. });
            let joins = term.reads.count_ones() == 2 && is_column(left) && is_column(right);
            joins.then_some((left, right))
        }
        _ => None,
    }
}

/// True for an equality finding several rows of either table for a row of the other.
fn multiplies(term: &Term<'_>, sources: &[Source]) -> bool {
    let (Some((left, right)), Expr::Compare(rule, ..)) = (equality(term), term.expr) else {
        return false;
    };
    let repeats = |expr: &Expr| {
        let Expr::Column { source, column } = expr else { return false };
        let source = sources.iter().find(|known| known.id == *source);
        let table = source.and_then(plain_table);
        table.is_some_and(|table| !is_unique(table, *column, &rule.collation))
    };
    repeats(left) && repeats(right)
}

/// True for connected tables with an equality to hash their rows by, and with conditions that can
/// be asked of any of their rows.
fn is_build_side(build: Sources, terms: &[Term<'_>]) -> bool {
    let is_keyed = |term: &Term<'_>| crosses(term, build) && equality(term).is_some();
    let is_below = |term: &&Term<'_>| term.reads != 0 && term.reads & !build == 0;
    is_connected(build, terms)
        && terms.iter().any(is_keyed)
        && terms.iter().filter(is_below).all(|term| cannot_fail(term.expr))
}

/// True for a condition on tables of both sides.
fn crosses(term: &Term<'_>, build: Sources) -> bool {
    term.reads & build != 0 && term.reads & !build != 0
}

/// True where conditions lead from each of some tables to each other one.
fn is_connected(tables: Sources, terms: &[Term<'_>]) -> bool {
    let mut reached = tables & tables.wrapping_neg();
    loop {
        let near = |term: &&Term<'_>| term.reads & !tables == 0 && term.reads & reached != 0;
        let next = terms.iter().filter(near).fold(reached, |reached, term| reached | term.reads);
        if next == reached {
            return reached == tables;
        }
        reached = next;
    }
}
