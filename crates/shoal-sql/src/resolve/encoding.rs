//! Queries over files in UTF-16.
//!
//! Values are UTF-8 wherever they come from, so a resolved query is nearly right unchanged. Two
//! things differ. `BINARY` orders texts by their bytes in the file, so every such collation becomes
//! [`Collation::Utf16`]. And where SQLite shows a text's bytes or reads bytes as text (`CAST`,
//! `||`, `hex`, `octet_length`), a conversion goes around the operand.

use shoal_store::ByteOrder;

use super::tree::{Body, Expr, FrameBound, Key, OrderKey, Query, Select, SourceKind, Window};
use crate::functions::{Function, lookup};
use crate::value::{Affinity, ArithmeticOp, Collation};

/// Makes a resolved query one over a file whose text is UTF-16.
pub(crate) fn in_utf16(query: &mut Query, order: ByteOrder) {
    Rewrite { order }.query(query);
}

/// Makes a resolved expression over one row an expression of a file whose text is UTF-16.
pub(crate) fn expr_in_utf16(expr: &mut Expr, order: ByteOrder) {
    Rewrite { order }.expr(expr);
}

#[derive(Clone, Copy)]
struct Rewrite {
    order: ByteOrder,
}

impl Rewrite {
    fn collation(self, collation: &mut Collation) {
        if *collation == Collation::Binary {
            *collation = Collation::Utf16(self.order);
        }
    }

    fn collations(self, collations: &mut [Collation]) {
        collations.iter_mut().for_each(|collation| self.collation(collation));
    }

    fn query(self, query: &mut Query) {
        self.body(&mut query.body);
        self.keys(&mut query.order_by);
        for bound in [&mut query.limit, &mut query.offset].into_iter().flatten() {
            self.expr(bound);
        }
    }

    fn keys(self, keys: &mut [OrderKey]) {
        for key in keys {
            self.collation(&mut key.collation);
            if let Key::Expr(expr) = &mut key.key {
                self.expr(expr);
            }
        }
    }

    fn body(self, body: &mut Body) {
        match body {
            Body::Select(select) => self.select(select),
            Body::Values(rows) => rows.iter_mut().flatten().for_each(|expr| self.expr(expr)),
            Body::Compound { first, rest, collations } => {
                self.body(first);
                rest.iter_mut().for_each(|(_, body)| self.body(body));
                self.collations(collations);
            }
            Body::Shared(shared) => self.query(&mut shared.query),
            Body::Recursive(recursion) => {
                self.body(&mut recursion.first);
                recursion.steps.iter_mut().for_each(|body| self.body(body));
                self.collations(&mut recursion.collations);
                self.keys(&mut recursion.order_by);
            }
        }
    }

    fn select(self, select: &mut Select) {
        for source in &mut select.sources {
            match &mut source.kind {
                SourceKind::Query(query) => self.query(query),
                SourceKind::Module { arguments, .. } => {
                    arguments.iter_mut().flatten().for_each(|expr| self.expr(expr));
                }
                SourceKind::Virtual(source) => {
                    source.arguments.iter_mut().flatten().for_each(|expr| self.expr(expr));
                }
                SourceKind::Table(_) | SourceKind::Taken(_) => {}
            }
            for meaning in &mut source.indexed {
                let columns = meaning.columns.iter_mut().flatten().map(|(expr, _)| expr);
                columns.chain(&mut meaning.filter).for_each(|expr| self.expr(expr));
            }
            for expr in source.join.iter_mut().flat_map(|join| &mut join.on) {
                self.expr(expr);
            }
        }
        select.conjuncts.iter_mut().for_each(|expr| self.expr(expr));
        for (expr, collation) in select.group_by.iter_mut().flatten() {
            self.expr(expr);
            self.collation(collation);
        }
        for aggregate in &mut select.aggregates {
            aggregate.arguments.iter_mut().for_each(|expr| self.expr(expr));
            aggregate.filter.iter_mut().for_each(|expr| self.expr(expr));
            self.keys(&mut aggregate.order_by);
            self.collation(&mut aggregate.collation);
        }
        select.having.iter_mut().for_each(|expr| self.expr(expr));
        select.windows.iter_mut().for_each(|window| self.window(window));
        for call in &mut select.window_calls {
            call.arguments.iter_mut().for_each(|expr| self.expr(expr));
            call.filter.iter_mut().for_each(|expr| self.expr(expr));
            self.collation(&mut call.collation);
        }
        select.outputs.iter_mut().for_each(|expr| self.expr(expr));
        if let Some(collations) = &mut select.distinct {
            self.collations(collations);
        }
    }

    fn window(self, window: &mut Window) {
        for (expr, collation) in &mut window.partition_by {
            self.expr(expr);
            self.collation(collation);
        }
        self.keys(&mut window.order_by);
        for bound in [&mut window.frame.start, &mut window.frame.end] {
            match bound {
                FrameBound::Preceding(expr) | FrameBound::Following(expr) => self.expr(expr),
                FrameBound::UnboundedPreceding
                | FrameBound::CurrentRow
                | FrameBound::UnboundedFollowing => {}
            }
        }
    }

    fn expr(self, expr: &mut Expr) {
        match expr {
            Expr::Const(_)
            | Expr::Parameter(_)
            | Expr::CurrentTime(_)
            | Expr::Column { .. }
            | Expr::Aggregate { .. }
            | Expr::Window { .. } => {}
            Expr::Plus(inner)
            | Expr::Negate(inner)
            | Expr::BitNot(inner)
            | Expr::Not(inner)
            | Expr::IsNull { expr: inner, .. }
            | Expr::IsTruth { expr: inner, .. }
            | Expr::Stored { expr: inner, .. } => self.expr(inner),
            Expr::Cast { expr: inner, affinity } => {
                self.expr(inner);
                self.convert(inner, if *affinity == Affinity::Blob { "bytes" } else { "text" });
            }
            Expr::Arithmetic(op, left, right) => {
                for operand in [left, right] {
                    self.expr(operand);
                    if *op == ArithmeticOp::Concat {
                        self.convert(operand, "text");
                    }
                }
            }
            Expr::And(left, right) | Expr::Or(left, right) => {
                self.expr(left);
                self.expr(right);
            }
            Expr::Compare(rule, left, right) => {
                self.collation(&mut rule.collation);
                self.expr(left);
                self.expr(right);
            }
            Expr::Between { expr, low, high, .. } => {
                self.expr(expr);
                for (rule, end) in [low, high] {
                    self.collation(&mut rule.collation);
                    self.expr(end);
                }
            }
            Expr::InList { expr, list, collation, .. } => {
                self.expr(expr);
                list.iter_mut().for_each(|item| self.expr(item));
                self.collation(collation);
            }
            Expr::InQuery { expr, query, collation, .. } => {
                self.expr(expr);
                self.query(query);
                self.collation(collation);
            }
            Expr::RowInQuery { row, query, rules, .. } => {
                row.iter_mut().for_each(|part| self.expr(part));
                self.query(query);
                rules.iter_mut().for_each(|(_, collation)| self.collation(collation));
            }
            Expr::Case { base, branches, otherwise } => {
                base.iter_mut().for_each(|base| self.expr(base));
                for (rule, when, then) in branches {
                    self.collation(&mut rule.collation);
                    self.expr(when);
                    self.expr(then);
                }
                otherwise.iter_mut().for_each(|expr| self.expr(expr));
            }
            Expr::Call { function, arguments, collation, .. } => {
                arguments.iter_mut().for_each(|argument| self.expr(argument));
                self.collation(collation);
                let what = match function.name() {
                    "hex" => "bytes of text",
                    "octet_length" => "bytes",
                    _ => return,
                };
                arguments.iter_mut().for_each(|argument| self.convert(argument, what));
            }
            Expr::Coalesce(arguments) => arguments.iter_mut().for_each(|part| self.expr(part)),
            Expr::Exists(query) | Expr::Scalar(query) | Expr::ScalarColumn(query, _) => {
                self.query(query);
            }
        }
    }

    /// Puts a conversion around an expression.
    fn convert(self, expr: &mut Expr, what: &str) {
        let name = match self.order {
            ByteOrder::Little => format!("utf-16le {what}"),
            ByteOrder::Big => format!("utf-16be {what}"),
        };
        if let Ok(Function::Scalar(function)) = lookup(&name, 1) {
            let inner = std::mem::replace(expr, Expr::Const(crate::value::Value::Null));
            let collation = Collation::Utf16(self.order);
            *expr = Expr::Call { function, arguments: vec![inner], collation, json: 0 };
        }
    }
}
