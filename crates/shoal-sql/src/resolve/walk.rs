//! Walks over resolved queries and expressions.

use super::tree::{Body, Expr, FrameBound, Key, OrderKey, Query, Select, SourceId, SourceKind};
use crate::schema::Table;

/// Calls `$see` for every direct part of the expression `$expr`, queries excepted; `$iter` is the
/// method going through a list, and `$mut` stands before mutable parts.
macro_rules! each_part {
    ($expr:expr, $see:expr, $iter:ident $(, $mut:tt)?) => {
        match $expr {
            Expr::Const(_)
            | Expr::Parameter(_)
            | Expr::CurrentTime(_)
            | Expr::Column { .. }
            | Expr::Aggregate { .. }
            | Expr::Window { .. }
            | Expr::Exists(_)
            | Expr::Scalar(_)
            | Expr::ScalarColumn(..) => {}
            Expr::Plus(expr)
            | Expr::Negate(expr)
            | Expr::BitNot(expr)
            | Expr::Not(expr)
            | Expr::IsNull { expr, .. }
            | Expr::IsTruth { expr, .. }
            | Expr::Cast { expr, .. }
            | Expr::Stored { expr, .. }
            | Expr::InQuery { expr, .. } => $see(expr),
            Expr::Arithmetic(_, left, right)
            | Expr::And(left, right)
            | Expr::Or(left, right)
            | Expr::Compare(_, left, right) => {
                $see(left);
                $see(right);
            }
            Expr::Between { expr, low, high, .. } => {
                $see(expr);
                $see(&$($mut)? low.1);
                $see(&$($mut)? high.1);
            }
            Expr::RowInQuery { row, .. } => row.$iter().for_each($see),
            Expr::InList { expr, list, .. } => {
                $see(expr);
                list.$iter().for_each($see);
            }
            Expr::Case { base, branches, otherwise } => {
                if let Some(base) = base {
                    $see(base);
                }
                for (_, when, then) in branches {
                    $see(when);
                    $see(then);
                }
                if let Some(otherwise) = otherwise {
                    $see(otherwise);
                }
            }
            Expr::Call { arguments, .. } | Expr::Coalesce(arguments) => {
                arguments.$iter().for_each($see);
            }
        }
    };
}

/// Calls `$walk` with `$see` on every expression of the windows of the select `$select`; the other
/// arguments are those of [`each_part`].
macro_rules! walk_windows {
    ($select:expr, $see:expr, $walk:ident, $iter:ident $(, $mut:tt)?) => {
        for window in $select.windows.$iter() {
            window.partition_by.$iter().for_each(|(expr, _)| expr.$walk($see));
            window.order_by.$iter().for_each(|key| key.$walk($see));
            for bound in [&$($mut)? window.frame.start, &$($mut)? window.frame.end] {
                if let FrameBound::Preceding(expr) | FrameBound::Following(expr) = bound {
                    expr.$walk($see);
                }
            }
        }
        for call in $select.window_calls.$iter() {
            call.arguments.$iter().for_each(|expr| expr.$walk($see));
            call.filter.$iter().for_each(|filter| filter.$walk($see));
        }
    };
}

/// The same for every expression of the select.
macro_rules! walk_select {
    ($select:expr, $see:expr, $walk:ident, $iter:ident $(, $mut:tt)?) => {
        for source in $select.sources.$iter() {
            match &$($mut)? source.kind {
                SourceKind::Query(query) => query.$walk($see),
                SourceKind::Module { arguments, .. } => {
                    arguments.$iter().flatten().for_each(|expr| expr.$walk($see));
                }
                SourceKind::Virtual(source) => {
                    source.arguments.$iter().flatten().for_each(|expr| expr.$walk($see));
                }
                SourceKind::Table(_) | SourceKind::Taken(_) => {}
            }
            if let Some(join) = &$($mut)? source.join {
                join.on.$iter().for_each(|expr| expr.$walk($see));
            }
        }
        $select.conjuncts.$iter().for_each(|expr| expr.$walk($see));
        $select.group_by.$iter().flatten().for_each(|(expr, _)| expr.$walk($see));
        for aggregate in $select.aggregates.$iter() {
            aggregate.arguments.$iter().for_each(|expr| expr.$walk($see));
            aggregate.filter.$iter().for_each(|filter| filter.$walk($see));
            aggregate.order_by.$iter().for_each(|key| key.$walk($see));
        }
        $select.having.$iter().for_each(|having| having.$walk($see));
        walk_windows!($select, $see, $walk, $iter $(, $mut)?);
        $select.outputs.$iter().for_each(|expr| expr.$walk($see));
    };
}

/// The same for every expression of the body `$body`.
macro_rules! walk_body {
    ($body:expr, $see:expr, $walk:ident, $iter:ident) => {
        match $body {
            Body::Values(rows) => rows.$iter().flatten().for_each(|expr| expr.$walk($see)),
            Body::Compound { first, rest, .. } => {
                first.$walk($see);
                rest.$iter().for_each(|(_, body)| body.$walk($see));
            }
            Body::Shared(shared) => shared.query.$walk($see),
            Body::Recursive(recursion) => {
                recursion.first.$walk($see);
                recursion.steps.$iter().for_each(|body| body.$walk($see));
            }
            Body::Select(select) => select.$walk($see),
        }
    };
}

impl Expr {
    /// Calls `see` for every direct part of the expression, queries excepted.
    pub(crate) fn parts<'e>(&'e self, see: &mut dyn FnMut(&'e Expr)) {
        each_part!(self, see, iter);
    }

    /// Calls `change` for every direct part of the expression, queries excepted.
    pub(crate) fn parts_mut(&mut self, change: &mut dyn FnMut(&mut Expr)) {
        each_part!(self, change, iter_mut, mut);
    }

    /// The number of parts in the expression, itself included.
    pub(crate) fn size(&self) -> usize {
        let mut size = 1;
        self.parts(&mut |part| size += part.size());
        size
    }

    /// True where the expression or a part runs a query.
    pub(crate) fn runs_query(&self) -> bool {
        let mut found = self.query().is_some();
        self.parts(&mut |part| found |= part.runs_query());
        found
    }

    /// A copy of the expression, where evaluating twice costs nothing.
    pub(crate) fn copied(&self) -> Option<Expr> {
        match self {
            Expr::Const(value) => Some(Expr::Const(value.clone())),
            Expr::Parameter(number) => Some(Expr::Parameter(*number)),
            Expr::Column { source, column } => {
                Some(Expr::Column { source: *source, column: *column })
            }
            Expr::Plus(inner) => Some(Expr::Plus(Box::new(inner.copied()?))),
            _ => None,
        }
    }

    /// The query run by the expression itself.
    pub(crate) fn query(&self) -> Option<&Query> {
        match self {
            Expr::InQuery { query, .. }
            | Expr::RowInQuery { query, .. }
            | Expr::Exists(query)
            | Expr::Scalar(query)
            | Expr::ScalarColumn(query, _) => Some(query),
            _ => None,
        }
    }

    /// Calls `see` for the expression and every part, also within its queries.
    pub(crate) fn walk<'e>(&'e self, see: &mut dyn FnMut(&'e Expr)) {
        see(self);
        self.parts(&mut |part| part.walk(see));
        if let Some(query) = self.query() {
            query.walk(see);
        }
    }

    /// True where the expression has the same value whenever evaluated for a row; its queries are
    /// not looked at.
    pub(crate) fn is_deterministic(&self) -> bool {
        let mut fixed = !matches!(self, Expr::Call { function, .. } if !function.deterministic);
        self.parts(&mut |part| fixed &= part.is_deterministic());
        fixed
    }

    /// The query run by the expression itself.
    pub(super) fn query_mut(&mut self) -> Option<&mut Query> {
        match self {
            Expr::InQuery { query, .. }
            | Expr::RowInQuery { query, .. }
            | Expr::Exists(query)
            | Expr::Scalar(query)
            | Expr::ScalarColumn(query, _) => Some(query),
            _ => None,
        }
    }

    /// Calls `change` for every part of the expression, also within its queries, then for the
    /// expression itself.
    pub(crate) fn walk_mut(&mut self, change: &mut dyn FnMut(&mut Expr)) {
        self.parts_mut(&mut |part| part.walk_mut(change));
        if let Some(query) = self.query_mut() {
            query.walk_mut(change);
        }
        change(self);
    }

    /// True where the expression reads a column of a source, also within its queries.
    pub(crate) fn reads(&self, source: SourceId) -> bool {
        let mut found = false;
        self.columns(&mut |of, _| found |= of == source);
        found
    }

    /// True where the expression reads columns of some of these sources, and of no other one.
    pub(crate) fn reads_only(&self, sources: &[SourceId]) -> bool {
        let (mut own, mut any) = (true, false);
        self.columns(&mut |of, _| {
            own &= sources.contains(&of);
            any = true;
        });
        own && any
    }

    /// Calls `see` for every column the expression reads, also within its queries.
    pub(crate) fn columns(&self, see: &mut dyn FnMut(SourceId, usize)) {
        self.walk(&mut |expr| {
            if let Expr::Column { source, column } = expr {
                see(*source, *column);
            }
        });
    }
}

impl Query {
    /// Calls `see` for every expression of the query and every part of one.
    pub(crate) fn walk<'e>(&'e self, see: &mut dyn FnMut(&'e Expr)) {
        self.body.walk(see);
        for key in &self.order_by {
            key.walk(see);
        }
        for bound in [&self.limit, &self.offset].into_iter().flatten() {
            bound.walk(see);
        }
    }
}

impl Query {
    /// Calls `change` for every expression of the query and every part of one, parts first.
    pub(crate) fn walk_mut(&mut self, change: &mut dyn FnMut(&mut Expr)) {
        self.body.walk_mut(change);
        self.order_by.iter_mut().for_each(|key| key.walk_mut(change));
        for bound in [&mut self.limit, &mut self.offset].into_iter().flatten() {
            bound.walk_mut(change);
        }
    }

    /// Calls `see` for every select of the query, also within its expressions.
    pub(crate) fn each_select<'e>(&'e self, see: &mut dyn FnMut(&'e Select)) {
        self.body.each_select_of_sources(see);
        self.walk(&mut |expr| {
            if let Some(query) = expr.query() {
                query.body.each_select_of_sources(see);
            }
        });
    }

    /// Calls `see` for every table that the query reads, also within its queries.
    pub(crate) fn each_table(&self, see: &mut dyn FnMut(&Table)) {
        self.each_select(&mut |select| {
            for source in &select.sources {
                if let SourceKind::Table(table) = &source.kind {
                    see(table);
                }
            }
        });
    }
}

impl OrderKey {
    pub(crate) fn walk<'e>(&'e self, see: &mut dyn FnMut(&'e Expr)) {
        if let Key::Expr(expr) = &self.key {
            expr.walk(see);
        }
    }

    pub(crate) fn walk_mut(&mut self, change: &mut dyn FnMut(&mut Expr)) {
        if let Key::Expr(expr) = &mut self.key {
            expr.walk_mut(change);
        }
    }
}

impl Body {
    fn walk_mut(&mut self, change: &mut dyn FnMut(&mut Expr)) {
        walk_body!(self, change, walk_mut, iter_mut);
    }

    /// The selects of the sources, queries within expressions left out.
    fn each_select_of_sources<'e>(&'e self, see: &mut dyn FnMut(&'e Select)) {
        match self {
            Body::Values(_) => {}
            Body::Compound { first, rest, .. } => {
                first.each_select_of_sources(see);
                rest.iter().for_each(|(_, body)| body.each_select_of_sources(see));
            }
            Body::Shared(shared) => shared.query.body.each_select_of_sources(see),
            Body::Recursive(recursion) => {
                recursion.first.each_select_of_sources(see);
                recursion.steps.iter().for_each(|body| body.each_select_of_sources(see));
            }
            Body::Select(select) => {
                see(select);
                for source in &select.sources {
                    if let SourceKind::Query(query) = &source.kind {
                        query.body.each_select_of_sources(see);
                    }
                }
            }
        }
    }

    fn walk<'e>(&'e self, see: &mut dyn FnMut(&'e Expr)) {
        walk_body!(self, see, walk, iter);
    }
}

impl Select {
    /// Calls `see` for every expression of the select and every part of one.
    pub(crate) fn walk<'e>(&'e self, see: &mut dyn FnMut(&'e Expr)) {
        walk_select!(self, see, walk, iter);
    }

    /// Calls `see` for every expression of the windows.
    pub(crate) fn walk_windows<'e>(&'e self, see: &mut dyn FnMut(&'e Expr)) {
        walk_windows!(self, see, walk, iter);
    }

    /// Calls `change` for every expression of the select and every part of one, parts first.
    pub(crate) fn walk_mut(&mut self, change: &mut dyn FnMut(&mut Expr)) {
        walk_select!(self, change, walk_mut, iter_mut, mut);
    }
}
