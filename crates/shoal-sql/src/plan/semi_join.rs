//! Semi joins: an `EXISTS` asking one equality with the row around is a lookup in a set of keys,
//! gathered once, where that costs less than a search for each row around.
//!
//! `EXISTS (SELECT ... FROM u WHERE u.x = t.x AND u.y > 3)` is `t.x IN (SELECT u.x FROM u WHERE
//! u.y > 3)`, but for NULLs: an `EXISTS` is never NULL, so the `IN` is asked for its truth. The set
//! has rows no search would have come to: nothing that may fail is asked of them.

use super::access::{Frame, may_be_number};
use super::cost::{KEYED_SETUP, SET_KEEP, SET_PROBE};
use super::order;
use super::select::terms;
use crate::plan::{Compiler, Op, Reg};
use crate::resolve::factor::cannot_fail;
use crate::resolve::tree::{Body, Expr, Query, Select, Source, SourceKind};
use crate::session::forced::ForcedJoin;
use crate::value::{Affinity, CompareOp, InRule, Value};

/// A set has to cost so many times less than the searches: it reads more than they would if fewer
/// rows ask than expected.
const CAUTION: f64 = 1.5;

/// An `EXISTS` as an `IN`.
struct KeyQuery<'e> {
    /// The keys, with nothing of the row around.
    query: Query,
    /// The key of the row around.
    around: &'e Expr,
    rule: InRule,
}

impl Compiler {
    /// Compiles an `EXISTS` as a lookup in a set of keys; false, with nothing compiled, where its
    /// query is to be searched for each row around.
    pub(super) fn exists_in_keys(&mut self, query: &Query, to: Reg) -> bool {
        if self.runs <= 0.0 || !query.correlated {
            return false;
        }
        let Body::Select(select) = &query.body else { return false };
        let Some(KeyQuery { query: keys, around, rule }) = key_query(query, select) else {
            return false;
        };
        let Body::Select(keys_of) = &keys.body else { return false };
        let pays = match self.forced.join {
            Some(ForcedJoin::Hash) => true,
            Some(ForcedJoin::Lookup | ForcedJoin::NestedLoop) => false,
            None => self.keys_pay(select, keys_of),
        };
        if !pays {
            return false;
        }
        let from = self.expr(around);
        let query = self.query(&keys, true);
        let found = self.register();
        self.ops.push(Op::InQuery { from, query, rule, to: found });
        self.ops.push(Op::IsTruth { from: found, to, truth: true, not: false });
        true
    }

    /// True where gathering keys once costs less than a search for each row around.
    fn keys_pay(&self, searched: &Select, keys: &Select) -> bool {
        // Of the rows counted for keeping rows of a query every second is surely asked.
        let rows_around = self.runs / 2.0;
        if rows_around <= 1.0 {
            return false;
        }
        let (each, found) = self.cost_of(searched, self.runs, false);
        // The first row found ends a search.
        let search = each / found.max(1.0);
        let (gather, kept) = self.cost_of(keys, 1.0, true);
        let set = KEYED_SETUP + gather + kept * SET_KEEP + rows_around * SET_PROBE;
        CAUTION * set < rows_around * search
    }

    /// The cost of one run of a select, and the number of its rows. Without `keeps_rows` each run
    /// finds its rows anew: a set is smaller than rows kept.
    fn cost_of(&self, select: &Select, runs: f64, keeps_rows: bool) -> (f64, f64) {
        let terms = terms(select);
        order::cost(&Frame { keeps_rows, ..self.frame(select, &terms, &[], runs) })
    }
}

/// The keys that an `EXISTS` looks for; `None` where it asks for more than one equality with the
/// row around, or for what may fail.
fn key_query<'e>(query: &'e Query, select: &'e Select) -> Option<KeyQuery<'e>> {
    let has_rows = matches!(&query.limit, None | Some(Expr::Const(Value::Int(1..))));
    let is_plain = select.group_by.is_none()
        && select.aggregates.is_empty()
        && select.having.is_none()
        && select.window_calls.is_empty();
    let is_table = |source: &Source| matches!(source.kind, SourceKind::Table(_));
    if !has_rows || query.offset.is_some() || !is_plain || !select.sources.iter().all(is_table) {
        return None;
    }
    let is_own = |source: usize| select.sources.iter().any(|own| own.id == source);
    // How many columns of own rows and of rows around an expression reads.
    let reads = |expr: &Expr| {
        let (mut own, mut around) = (0, 0);
        expr.columns(&mut |source, _| *(if is_own(source) { &mut own } else { &mut around }) += 1);
        (own, around)
    };
    let is_safe = |expr: &Expr| cannot_fail(expr) && expr.is_deterministic();
    let on = select.sources.iter().flat_map(Source::on);
    if !on.clone().chain(&select.conjuncts).all(is_safe) || on.clone().any(|on| reads(on).1 > 0) {
        return None;
    }
    let mut asking = (0..select.conjuncts.len()).filter(|&at| reads(&select.conjuncts[at]).1 > 0);
    let (Some(at), None) = (asking.next(), asking.next()) else { return None };
    let Expr::Compare(rule, left, right) = &select.conjuncts[at] else { return None };
    if rule.op != CompareOp::Equal {
        return None;
    }
    let (own, around) = match (reads(left), reads(right)) {
        ((1.., 0), (0, 1..)) => (left, right),
        ((0, 1..), (1.., 0)) => (right, left),
        _ => return None,
    };
    // Numbers compared as texts are equal more often than the texts.
    if rule.affinity == Some(Affinity::Text) && may_be_number(own, &select.sources) {
        return None;
    }
    let mut keys = select.clone();
    keys.conjuncts.remove(at);
    keys.outputs = vec![(**own).clone()];
    keys.distinct = None;
    let mut columns = query.columns.clone();
    columns.truncate(1);
    let query = Query {
        body: Body::Select(Box::new(keys)),
        columns,
        as_expression: query.as_expression,
        order_by: Vec::new(),
        limit: None,
        offset: None,
        correlated: false,
    };
    let rule = InRule { not: false, affinity: rule.affinity, collation: rule.collation };
    Some(KeyQuery { query, around, rule })
}
