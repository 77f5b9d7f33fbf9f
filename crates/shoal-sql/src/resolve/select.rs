//! `SELECT`, `VALUES` and compounds of them: clauses resolved in the order of the names they see.

use super::Resolver;
use super::collation::Named;
use super::expr::Bound;
use super::form::is_alike;
use super::from::{Joined, first_rules, split_and};
use super::scope::{Clause, Scope};
use super::tree::{Body, Expr, Key, OrderKey, OutputColumn, Query, Select, SelectId, SourceId};
use super::values::RowsAsked;
use crate::Error;
use crate::error::NameKind;
use crate::parse::QUERY_DEPTH;
use crate::parse::ast::{
    self, BinaryOp, CompoundOp, ExprKind, OrderTerm, ResultColumn, SelectCore,
};
use crate::value::{Affinity, ArithmeticOp, Collation, Value};

/// A result may have this many columns, as in SQLite.
const COLUMNS_MAX: usize = 2000;

/// A result column with `*` expanded.
enum ResultExpr<'a> {
    Expr {
        expr: &'a ast::Expr,
        alias: Option<&'a ast::Name>,
        text: &'a str,
    },
    /// A column of `*`, or of `t.*` when qualified.
    Column {
        table: usize,
        column: usize,
        qualified: bool,
    },
}

impl<'a> Resolver<'a> {
    pub(super) fn resolve_select(&mut self, select: &'a ast::Select) -> Result<Query, Error> {
        self.resolve_query(select, RowsAsked::All)
    }

    /// As [`Resolver::resolve_select`] for a query with `asked` telling the rows needed.
    pub(super) fn resolve_query(
        &mut self,
        select: &'a ast::Select,
        asked: RowsAsked,
    ) -> Result<Query, Error> {
        self.deeper(QUERY_DEPTH)?;
        let common = self.common.len();
        if let Some(with) = &select.with {
            self.open_with(with);
        }
        let query = self.resolve_body(select, asked);
        if let (Some(with), true) = (&select.with, query.is_ok()) {
            self.note_unnamed(with);
        }
        self.common.truncate(common);
        self.depth -= QUERY_DEPTH;
        query
    }

    fn resolve_body(&mut self, select: &'a ast::Select, asked: RowsAsked) -> Result<Query, Error> {
        let query = if select.compounds.is_empty() {
            let (body, columns, order_by, correlated) =
                self.core(&select.first, &select.order_by, asked)?;
            let as_expression = first_rules(&columns);
            Query { body, columns, as_expression, order_by, limit: None, offset: None, correlated }
        } else {
            self.compound(select)?
        };
        self.bounded(query, select)
    }

    /// Adds `LIMIT` and `OFFSET` to a query.
    pub(super) fn bounded(
        &mut self,
        mut query: Query,
        select: &'a ast::Select,
    ) -> Result<Query, Error> {
        let scopes = std::mem::take(&mut self.scopes);
        let bounds = self.in_scope(Vec::new(), Clause::Constant, |resolver| {
            let mut bind = |expr: &'a Option<ast::Expr>| {
                expr.as_ref().map(|expr| resolver.bind_expr(expr)).transpose()
            };
            Ok((bind(&select.limit)?, bind(&select.offset)?))
        });
        self.scopes = scopes;
        (query.limit, query.offset) = bounds?;
        Ok(query)
    }

    pub(super) fn core(
        &mut self,
        core: &'a SelectCore,
        order_by: &'a [OrderTerm],
        asked: RowsAsked,
    ) -> Result<(Body, Vec<OutputColumn>, Vec<OrderKey>, bool), Error> {
        match core {
            SelectCore::Values(values) => {
                let select = self.new_select();
                self.push_scope(select, Vec::new(), Vec::new(), &[]);
                let result = self.values(values, asked);
                let correlated = self.scopes.pop().is_some_and(|scope| scope.correlated);
                let (body, columns) = result?;
                // Nothing is ordered behind `VALUES`.
                Ok((body, columns, Vec::new(), correlated))
            }
            SelectCore::Select(clauses) => self.simple(clauses, order_by),
        }
    }

    fn push_scope(
        &mut self,
        select: SelectId,
        tables: Vec<super::scope::ScopeTable<'a>>,
        sources: Vec<SourceId>,
        results: &'a [ResultColumn],
    ) {
        self.scopes.push(Scope {
            select,
            tables,
            sources,
            results,
            clause: Clause::From,
            aggregates: Vec::new(),
            named_windows: &[],
            windows: Vec::new(),
            window_calls: Vec::new(),
            correlated: false,
        });
    }

    fn simple(
        &mut self,
        clauses: &'a ast::SelectClauses,
        order_by: &'a [OrderTerm],
    ) -> Result<(Body, Vec<OutputColumn>, Vec<OrderKey>, bool), Error> {
        self.select_level += 1;
        let joined = match &clauses.from {
            Some(from) => self.joined(from),
            None => Ok(Joined::default()),
        };
        self.select_level -= 1;
        let mut joined = joined?;
        let correlated_source = joined.is_correlated();
        let id = self.new_select();
        let sources = joined.sources.iter().map(|source| source.id).collect();
        self.push_scope(id, std::mem::take(&mut joined.tables), sources, &clauses.columns);
        if let Some(scope) = self.scopes.last_mut() {
            scope.named_windows = &clauses.windows;
        }
        self.select_level += 1;
        let result = self.clauses(id, clauses, joined, order_by);
        self.select_level -= 1;
        let correlated = self.scopes.pop().is_some_and(|scope| scope.correlated);
        let (select, columns, keys) = result?;
        Ok((Body::Select(Box::new(select)), columns, keys, correlated || correlated_source))
    }

    fn set_clause(&mut self, clause: Clause) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.clause = clause;
        }
    }

    /// Resolves the clauses of a select whose tables are the innermost scope.
    fn clauses(
        &mut self,
        id: SelectId,
        clauses: &'a ast::SelectClauses,
        joined: Joined<'a>,
        order_by: &'a [OrderTerm],
    ) -> Result<(Select, Vec<OutputColumn>, Vec<OrderKey>), Error> {
        let results = self.expand(clauses)?;
        let (mut sources, mut conjuncts) = self.conditions(joined)?;

        self.set_clause(Clause::Where);
        if let Some(filter) = &clauses.filter {
            split_and(self.bind_expr(filter)?, &mut conjuncts);
        }
        super::table_function::take_arguments(&mut sources, &conjuncts);

        self.set_clause(Clause::Result);
        let mut outputs = Vec::with_capacity(results.len());
        let mut columns = Vec::with_capacity(results.len());
        for result in &results {
            let (bound, column) = self.output(result)?;
            outputs.push(bound);
            columns.push(column);
        }

        self.set_clause(Clause::GroupBy);
        let mut group_by = Vec::with_capacity(clauses.group_by.len());
        for (number, term) in clauses.group_by.iter().enumerate() {
            let (inner, explicit) = self.peel_collation(term);
            let (bound, explicit) = match ordinal(inner) {
                Some(place) => {
                    let index = in_range(place, results.len(), number, "GROUP", term.offset)?;
                    (self.bind_result(&results[index])?, explicit)
                }
                None => (self.bind(term)?, None),
            };
            let collation = explicit.unwrap_or_else(|| bound.collation.or_binary());
            let collation = self.known(collation)?;
            group_by.push((bound.expr, collation));
        }

        // An aggregate in `HAVING` or `ORDER BY` alone makes no group.
        let has_aggregates = self.scopes.last().is_some_and(|scope| !scope.aggregates.is_empty());
        let grouped = !clauses.group_by.is_empty() || has_aggregates;
        if let (false, Some(having)) = (grouped, &clauses.having) {
            return Err(Error::meaning("HAVING clause on a non-aggregate query", having.offset));
        }
        self.set_clause(Clause::Having);
        let having = clauses.having.as_ref().map(|having| self.bind_expr(having)).transpose()?;

        self.set_clause(if grouped { Clause::OrderBy } else { Clause::PlainOrderBy });
        let mut keys = Vec::with_capacity(order_by.len());
        for (number, term) in order_by.iter().enumerate() {
            keys.push(self.order_key(term, number, &results, &columns)?);
        }

        let taken = self.scopes.last_mut().map(|scope| {
            let aggregates = std::mem::take(&mut scope.aggregates);
            let windows = std::mem::take(&mut scope.windows);
            (aggregates, windows, std::mem::take(&mut scope.window_calls))
        });
        let (aggregates, windows, window_calls) = taken.unwrap_or_default();
        let distinct = clauses.distinct.then(|| self.collations(&columns)).transpose()?;
        let select = Select {
            id,
            sources,
            conjuncts,
            group_by: grouped.then_some(group_by),
            aggregates,
            having,
            windows,
            window_calls,
            outputs,
            distinct,
        };
        // One row is in order: its sort keys need not be computed.
        let one_group = select.group_by.as_ref().is_some_and(Vec::is_empty);
        if (one_group || select.sources.is_empty()) && select.window_calls.is_empty() {
            keys.clear();
        }
        Ok((select, columns, keys))
    }

    /// Replaces `*` and `t.*` by the columns they stand for.
    fn expand(&self, clauses: &'a ast::SelectClauses) -> Result<Vec<ResultExpr<'a>>, Error> {
        let tables = self.scopes.last().map(|scope| scope.tables.as_slice()).unwrap_or_default();
        let mut out = Vec::new();
        for result in &clauses.columns {
            let offset = match result {
                ResultColumn::Expr { expr, alias, text } => {
                    out.push(ResultExpr::Expr { expr, alias: alias.as_ref(), text });
                    expr.offset
                }
                ResultColumn::Star { offset } => {
                    if tables.is_empty() {
                        return Err(Error::meaning("no tables specified", *offset));
                    }
                    for (table, names) in tables.iter().enumerate() {
                        for (column, known) in names.columns.iter().enumerate() {
                            if !known.merged && !known.hidden {
                                out.push(ResultExpr::Column { table, column, qualified: false });
                            }
                        }
                    }
                    *offset
                }
                ResultColumn::TableStar(name) => {
                    let before = out.len();
                    for (table, names) in tables.iter().enumerate() {
                        if name.is(&names.name) {
                            self.note_star(names, name);
                            let columns = 0..names.columns.len();
                            let columns = columns.filter(|&column| !names.columns[column].hidden);
                            out.extend(columns.map(|column| ResultExpr::Column {
                                table,
                                column,
                                qualified: true,
                            }));
                        }
                    }
                    if out.len() == before {
                        return Err(Error::no_such(NameKind::Table, &name.text, name.offset));
                    }
                    name.offset
                }
            };
            if out.len() > COLUMNS_MAX {
                return Err(Error::meaning("too many columns in result set", offset));
            }
        }
        Ok(out)
    }

    fn bind_result(&mut self, result: &ResultExpr<'a>) -> Result<Bound, Error> {
        match result {
            ResultExpr::Expr { expr, .. } => self.bind(expr),
            ResultExpr::Column { table, column, qualified } => {
                let depth = self.scopes.len() - 1;
                let place = (*table, *column);
                self.check_star(depth, place)?;
                match qualified {
                    true => self.column_at(depth, place, 0),
                    false => self.unqualified(depth, place, 0),
                }
            }
        }
    }

    /// Refuses a column of `*` whose name is ambiguous in SQLite, too: two tables have one name, or
    /// a merged column has a namesake outside of the merge.
    fn check_star(&self, depth: usize, (table, column): (usize, usize)) -> Result<(), Error> {
        let scope = &self.scopes[depth];
        let (own, known) = (&scope.tables[table], &scope.tables[table].columns[column]);
        let same = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
        let merged = !known.others.is_empty();
        let clash = scope.tables.iter().enumerate().any(|(place, other)| {
            place != table
                && !known.merged
                && (merged || !own.name.is_empty() && same(&other.name, &own.name))
                && other
                    .columns
                    .iter()
                    .any(|column| same(&column.name, &known.name) && !column.merged)
        });
        if !clash {
            return Ok(());
        }
        let name = match merged {
            true => known.name.clone(),
            false => format!("{}.{}", own.name, known.name),
        };
        let message = format!("ambiguous column name: {name}");
        Err(Error::Name { kind: NameKind::Column, message, offset: None })
    }

    fn output(&mut self, result: &ResultExpr<'a>) -> Result<(Expr, OutputColumn), Error> {
        let bound = self.bind_result(result)?;
        let (alias, text) = match result {
            ResultExpr::Expr { alias, text, .. } => (*alias, *text),
            ResultExpr::Column { .. } => (None, ""),
        };
        let declared_type = bound.column.as_ref().and_then(|column| column.declared_type.clone());
        let classes = bound.classes();
        let written = match result {
            ResultExpr::Expr { expr, alias: None, .. } if bound.column.is_some() => {
                column_name(expr)
            }
            _ => None,
        };
        let (name, inner_name) = match (alias, bound.column) {
            (Some(alias), _) => (alias.text.clone(), alias.text.clone()),
            (None, Some(column)) if column.collated => (text.to_owned(), column.name),
            (None, Some(column)) => (column.name.clone(), column.name),
            (None, None) => (text.to_owned(), text.to_owned()),
        };
        let column = OutputColumn {
            written: written.filter(|written| *written != inner_name),
            name,
            inner_name,
            affinity: bound.affinity,
            collation: bound.collation,
            classes,
            declared_type,
        };
        Ok((bound.expr, column))
    }

    fn order_key(
        &mut self,
        term: &'a OrderTerm,
        number: usize,
        results: &[ResultExpr<'a>],
        columns: &[OutputColumn],
    ) -> Result<OrderKey, Error> {
        let (inner, explicit) = self.peel_collation(&term.expr);
        let place = match ordinal(inner) {
            Some(place) => Some(in_range(place, columns.len(), number, "ORDER", term.expr.offset)?),
            None => alias_place(inner, results),
        };
        if let Some(place) = place {
            let collation = explicit.unwrap_or_else(|| columns[place].collation.or_binary());
            let collation = self.known(collation)?;
            return Ok(order_key(term, Key::Output(place), collation));
        }
        let bound = self.bind(&term.expr)?;
        let collation = self.known(bound.collation.or_binary())?;
        Ok(order_key(term, Key::Expr(bound.expr), collation))
    }

    /// A term of a compound's `ORDER BY`: must name a column of the result.
    pub(super) fn compound_key(
        &mut self,
        term: &OrderTerm,
        number: usize,
        columns: &[OutputColumn],
        cores: &[&SelectCore],
    ) -> Result<OrderKey, Error> {
        let (inner, explicit) = self.peel_collation(&term.expr);
        let offset = term.expr.offset;
        let place = match ordinal(inner) {
            Some(place) => Some(in_range(place, columns.len(), number, "ORDER", offset)?),
            None => match &inner.kind {
                ExprKind::Column { column, .. } => cores
                    .iter()
                    .find_map(|core| named_result(core, column))
                    .or_else(|| columns.iter().position(|known| column.is(&known.name))),
                _ => cores.iter().find_map(|core| same_result(core, inner)),
            },
        };
        match place {
            Some(place) => {
                self.note_ordered(inner, cores);
                let collation = explicit.unwrap_or_else(|| columns[place].collation.or_binary());
                let collation = self.known(collation)?;
                Ok(order_key(term, Key::Output(place), collation))
            }
            None => Err(Error::meaning(
                format!(
                    "{} ORDER BY term does not match any column in the result set",
                    nth(number)
                ),
                offset,
            )),
        }
    }

    /// The collations of compared columns.
    pub(super) fn collations(&self, columns: &[OutputColumn]) -> Result<Vec<Collation>, Error> {
        columns.iter().map(|column| self.known(column.collation.or_binary())).collect()
    }

    /// As [`Resolver::collations`] for a compound; an unknown collation is no error under `UNION
    /// ALL` alone, as no rows are compared.
    pub(super) fn compound_collations(
        &self,
        columns: &[OutputColumn],
        rest: &[(CompoundOp, Body)],
    ) -> Result<Vec<Collation>, Error> {
        if rest.iter().any(|(op, _)| *op != CompoundOp::UnionAll) {
            return self.collations(columns);
        }
        Ok(columns.iter().map(|column| column.collation.or_binary().unwrap_or_default()).collect())
    }

    /// The expression below `COLLATE` operators, and the outermost collation.
    fn peel_collation<'e>(&mut self, expr: &'e ast::Expr) -> (&'e ast::Expr, Option<Named>) {
        let mut inner = expr;
        let mut outermost = None;
        while let ExprKind::Collate { expr, collation } = &inner.kind {
            if outermost.is_none() {
                outermost = Some(self.named_collation(&collation.text, collation.offset));
            }
            inner = expr;
        }
        (inner, outermost)
    }

    fn compound(&mut self, select: &'a ast::Select) -> Result<Query, Error> {
        let (first, mut columns, _, mut correlated) =
            self.core(&select.first, &[], RowsAsked::None)?;
        // Around the query, columns compare by the rules of the first part's columns.
        let own: Vec<_> = columns.iter().map(|column| column.collation).collect();
        let mut as_expression = first_rules(&columns);
        let mut cores = vec![&select.first];
        let mut rest = Vec::with_capacity(select.compounds.len());
        for (op, core) in &select.compounds {
            let (body, more, _, depends) = self.core(core, &[], RowsAsked::All)?;
            correlated |= depends;
            if more.len() != columns.len() {
                let offset = match core {
                    SelectCore::Select(clauses) => clauses.offset,
                    SelectCore::Values(values) => {
                        values.rows.first().map_or(0, |row| super::values::offset(row))
                    }
                };
                let message = match (select.compounds.len(), core) {
                    (_, SelectCore::Values(_)) if matches!(op, CompoundOp::UnionAll) => {
                        "all VALUES must have the same number of terms".to_owned()
                    }
                    _ => format!(
                        "SELECTs to the left and right of {} do not have the same number of result columns",
                        compound_word(*op)
                    ),
                };
                return Err(Error::meaning(message, offset));
            }
            for (column, other) in columns.iter_mut().zip(&more) {
                column.collation = column.collation.or(other.collation);
                column.affinity = combined_affinity(column, other);
                column.classes |= other.classes;
            }
            as_expression = first_rules(&more);
            rest.push((*op, body));
            cores.push(core);
        }
        let mut order_by = Vec::with_capacity(select.order_by.len());
        for (number, term) in select.order_by.iter().enumerate() {
            order_by.push(self.compound_key(term, number, &columns, &cores)?);
        }
        if !order_by.is_empty() && rest.last().is_some_and(|(op, _)| *op != CompoundOp::UnionAll) {
            // SQLite sorts rows by all their columns where duplicates are dropped.
            let named = |index: &usize| {
                order_by.iter().any(|key| matches!(key.key, Key::Output(known) if known == *index))
            };
            let others: Vec<usize> = (0..columns.len()).filter(|index| !named(index)).collect();
            for index in others {
                order_by.push(OrderKey {
                    key: Key::Output(index),
                    descending: false,
                    nulls_first: true,
                    collation: self.known(columns[index].collation.or_binary())?,
                });
            }
        }
        let collations = self.compound_collations(&columns, &rest)?;
        for (column, own) in columns.iter_mut().zip(own) {
            column.collation = own;
        }
        Ok(Query {
            body: Body::Compound { first: Box::new(first), rest, collations },
            columns,
            as_expression,
            order_by,
            limit: None,
            offset: None,
            correlated,
        })
    }
}

pub(super) fn compound_word(op: CompoundOp) -> &'static str {
    match op {
        CompoundOp::Union => "UNION",
        CompoundOp::UnionAll => "UNION ALL",
        CompoundOp::Intersect => "INTERSECT",
        CompoundOp::Except => "EXCEPT",
    }
}

/// The affinity of a compound's column: of the first part with an affinity, unless another part
/// holds the other kind of values.
pub(super) fn combined_affinity(first: &OutputColumn, other: &OutputColumn) -> Option<Affinity> {
    let (affinity, mixed) = match first.affinity {
        None => (other.affinity, first.classes),
        kept => (kept, other.classes),
    };
    match affinity {
        Some(Affinity::Text) if mixed & NUMBER != 0 => Some(Affinity::Blob),
        Some(kept) if kept.is_numeric() && mixed & TEXT != 0 => Some(Affinity::Blob),
        kept => kept,
    }
}

const NUMBER: u8 = 1;
const TEXT: u8 = 2;
const BLOB: u8 = 4;

/// Values of every class.
pub(super) const ANY_CLASS: u8 = NUMBER | TEXT | BLOB;

/// The classes of an expression's values, as far as the form tells. For a column, or a `CASE`,
/// [`Bound::classes`](super::expr::Bound::classes) tells more.
pub(super) fn classes(expr: &Expr, affinity: Option<Affinity>) -> u8 {
    match expr {
        Expr::Const(Value::Null) => 0,
        Expr::Const(Value::Text(_)) => TEXT,
        Expr::Const(Value::Blob(_)) => BLOB,
        Expr::Arithmetic(ArithmeticOp::Concat, ..) => TEXT | BLOB,
        Expr::Cast { .. } | Expr::Scalar(_) => classes_under(affinity),
        Expr::Parameter(_)
        | Expr::Call { .. }
        | Expr::Coalesce(_)
        | Expr::Aggregate { .. }
        | Expr::Window { .. }
        | Expr::CurrentTime(_) => ANY_CLASS,
        _ => NUMBER,
    }
}

/// The classes of a column, of a cast and of a query's value.
pub(super) fn classes_under(affinity: Option<Affinity>) -> u8 {
    match affinity {
        Some(affinity) if affinity.is_numeric() => NUMBER | BLOB,
        Some(Affinity::Text) => TEXT | BLOB,
        _ => ANY_CLASS,
    }
}

fn order_key(term: &OrderTerm, key: Key, collation: Collation) -> OrderKey {
    let nulls_first = term.nulls_first.unwrap_or(!term.descending);
    OrderKey { key, descending: term.descending, nulls_first, collation }
}

/// The name of a column as written, below any `COLLATE`.
fn column_name(expr: &ast::Expr) -> Option<String> {
    match &expr.kind {
        ExprKind::Collate { expr, .. } => column_name(expr),
        ExprKind::Column { column, .. } => Some(column.text.clone()),
        _ => None,
    }
}

/// The result column called `name` in one part of a compound, by its alias or its column.
fn named_result(core: &SelectCore, name: &ast::Name) -> Option<usize> {
    let SelectCore::Select(clauses) = core else { return None };
    if clauses.columns.iter().any(|column| !matches!(column, ResultColumn::Expr { .. })) {
        return None;
    }
    let alias = clauses.columns.iter().position(|result| {
        matches!(result, ResultColumn::Expr { alias: Some(alias), .. } if alias.is(&name.text))
    });
    alias.or_else(|| {
        clauses.columns.iter().position(|result| match result {
            ResultColumn::Expr { expr, .. } => {
                matches!(&expr.kind, ExprKind::Column { column, .. } if column.is(&name.text))
            }
            _ => false,
        })
    })
}

/// The result column written like a term, in one part of a compound.
fn same_result(core: &SelectCore, term: &ast::Expr) -> Option<usize> {
    let SelectCore::Select(clauses) = core else { return None };
    if clauses.columns.iter().any(|column| !matches!(column, ResultColumn::Expr { .. })) {
        return None;
    }
    clauses.columns.iter().position(
        |result| matches!(result, ResultColumn::Expr { expr, .. } if is_alike(expr, term)),
    )
}

/// The result column whose alias a term is.
fn alias_place(term: &ast::Expr, results: &[ResultExpr<'_>]) -> Option<usize> {
    let ExprKind::Column { table: None, column, .. } = &term.kind else { return None };
    results.iter().position(|result| {
        matches!(result, ResultExpr::Expr { alias: Some(alias), .. } if alias.is(&column.text))
    })
}

/// The integer a term of `ORDER BY` or `GROUP BY` is written as, or is folded to by SQLite's
/// parser: the number of a result column.
fn ordinal(expr: &ast::Expr) -> Option<i64> {
    match &expr.kind {
        // A number of more than 32 bits is an expression.
        ExprKind::Literal(Value::Int(int)) => i32::try_from(*int).ok().map(i64::from),
        ExprKind::Unary(ast::UnaryOp::Plus, inner) => ordinal(inner),
        ExprKind::Unary(ast::UnaryOp::Negate, inner) => ordinal(inner).map(|place| -place),
        ExprKind::IsNull { expr, not } => is_not_null(expr).then_some(i64::from(*not)),
        ExprKind::Binary(op @ (BinaryOp::Is | BinaryOp::IsNot), left, right) => {
            let is_null = matches!(right.kind, ExprKind::Literal(Value::Null));
            (is_null && is_not_null(left)).then_some(i64::from(*op == BinaryOp::IsNot))
        }
        _ => None,
    }
}

/// True for a literal other than NULL, signs in front allowed, and for what is folded to a number.
fn is_not_null(expr: &ast::Expr) -> bool {
    match &expr.kind {
        ExprKind::Literal(value) => !matches!(value, Value::Null),
        ExprKind::Unary(ast::UnaryOp::Plus | ast::UnaryOp::Negate, inner) => is_not_null(inner),
        _ => ordinal(expr).is_some(),
    }
}

fn in_range(
    place: i64,
    count: usize,
    number: usize,
    clause: &str,
    offset: usize,
) -> Result<usize, Error> {
    match usize::try_from(place) {
        Ok(place) if (1..=count).contains(&place) => Ok(place - 1),
        _ => Err(Error::meaning(
            format!(
                "{} {clause} BY term out of range - should be between 1 and {count}",
                nth(number)
            ),
            offset,
        )),
    }
}

/// `1st`, `2nd`, ... of a place counted from 0.
fn nth(index: usize) -> String {
    let number = index + 1;
    let suffix = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{suffix}")
}
