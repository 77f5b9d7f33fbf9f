//! Calls: functions by name and number of arguments, aggregates to the query they belong to.

use super::Resolver;
use super::collation::Coll;
use super::expr::{Bound, PLAIN_EQUAL};
use super::scope::Clause;
use super::select::ANY_CLASS;
use super::tree::{Aggregate, Body, Expr, Key, OrderKey};
use crate::Error;
use crate::authorize::Access;
use crate::error::NameKind;
use crate::functions::{Aggregation, Function, LookupError, Scalar, lookup, window_function};
use crate::parse::ast;
use crate::value::{Collation, Value};

/// Functions and aggregates with a comparison of their arguments.
pub(super) const COMPARING: [&str; 3] = ["max", "min", "nullif"];

/// An aggregate's arguments, filter and order.
type AggregateParts = (Vec<Bound>, Option<Expr>, Vec<OrderKey>);

/// True where some function of the name takes so many arguments.
fn is_known(name: &str, count: usize) -> bool {
    lookup(name, count).is_ok() || window_function(name, count).is_some_and(|it| it.is_ok())
}

/// True where an expression is written as a real number from 0 to 1.
fn is_share(expr: &ast::Expr) -> bool {
    matches!(expr.kind, ast::ExprKind::Literal(Value::Real(real)) if (0.0..=1.0).contains(&real))
}

impl<'a> Resolver<'a> {
    #[inline(never)]
    pub(super) fn call(&mut self, call: &'a ast::Call) -> Result<Bound, Error> {
        let offset = call.name.offset;
        let name = call.name.text.as_str();
        if self.names.is_some() && !is_known(name, call.arguments.len()) {
            return self.unknown_call(call);
        }
        if let Some(bound) = self.auxiliary_call(call)? {
            return Ok(bound);
        }
        if let Some(over) = &call.over {
            return self.window_call(call, over);
        }
        if let Some(function) = window_function(name, call.arguments.len()) {
            function.map_err(|why| unknown(why, offset))?;
            return Err(Error::meaning(format!("misuse of window function {name}()"), offset));
        }
        match self.function(name, call.arguments.len(), offset)? {
            Function::Aggregate(function) => self.aggregate(function, call),
            Function::Scalar(function) => {
                if !call.order_by.is_empty() {
                    return Err(unordered(name, offset));
                }
                // As in SQLite, `DISTINCT` says nothing to a function of one row.
                if call.filter.is_some() {
                    return Err(Error::meaning(
                        format!("FILTER may not be used with non-aggregate {name}()"),
                        offset,
                    ));
                }
                let mut bound = Vec::with_capacity(call.arguments.len());
                for argument in &call.arguments {
                    bound.push(self.bind(argument)?);
                }
                if name.eq_ignore_ascii_case("likelihood") && !is_share(&call.arguments[1]) {
                    let message = "second argument to likelihood() must be a constant between \
                                   0.0 and 1.0";
                    return Err(Error::meaning(message, offset));
                }
                self.scalar_call(function, bound)
            }
        }
    }

    /// A call of an unknown function, where names alone are looked for.
    fn unknown_call(&mut self, call: &'a ast::Call) -> Result<Bound, Error> {
        for expr in call.arguments.iter().chain(&call.filter) {
            self.bind(expr)?;
        }
        self.order_keys(&call.order_by)?;
        if let Some(ast::Over::Window(window)) = &call.over {
            for expr in &window.partition_by {
                self.bind(expr)?;
            }
            self.order_keys(&window.order_by)?;
        }
        Ok(Bound::plain(Expr::Const(Value::Null)))
    }

    /// The function of a call with so many arguments.
    ///
    /// # Errors
    /// No such function, or a direct-only one in a definition.
    pub(super) fn function(
        &self,
        name: &str,
        count: usize,
        offset: usize,
    ) -> Result<Function, Error> {
        let found = self.schema.own().lookup(name, count);
        if (found.is_err() || name.eq_ignore_ascii_case("match")) && self.reads_by_rows() {
            self.asks_module.set(true);
        }
        let (function, direct_only) = found.map_err(|why| unknown(why, offset))?;
        if direct_only && self.is_in_schema() {
            return Err(Error::meaning(format!("unsafe use of {name}()"), offset));
        }
        if !self.in_definition {
            self.schema.own().authorizer.ask(&Access::Function { name })?;
        }
        Ok(function)
    }

    /// True within definitions of a file: views, triggers, parts of tables.
    fn is_in_schema(&self) -> bool {
        self.in_definition || self.around.in_trigger || !self.views.is_empty()
    }

    /// The call of the function behind an operator.
    pub(super) fn named_call(
        &self,
        name: &str,
        arguments: Vec<Expr>,
        offset: usize,
    ) -> Result<Expr, Error> {
        match self.function(name, arguments.len(), offset)? {
            Function::Scalar(function) => {
                Ok(Expr::Call { function, arguments, collation: Collation::Binary, json: 0 })
            }
            Function::Aggregate(_) => Err(Error::unsupported(format!("{name}()"), offset)),
        }
    }

    #[inline(never)]
    fn aggregate(&mut self, function: Aggregation, call: &'a ast::Call) -> Result<Bound, Error> {
        let offset = call.name.offset;
        let misuse = |clause| {
            let name = &call.name.text;
            let message = match clause {
                Clause::OrderBy | Clause::PlainOrderBy => format!("misuse of aggregate: {name}()"),
                _ => format!("misuse of aggregate function {name}()"),
            };
            Error::meaning(message, offset)
        };
        let inner = self.scopes.len().checked_sub(1).ok_or_else(|| misuse(Clause::Constant))?;
        if call.distinct && call.arguments.len() != 1 {
            return Err(Error::meaning(
                "DISTINCT aggregates must have exactly one argument",
                offset,
            ));
        }
        let clause = self.scopes[inner].clause;
        if clause == Clause::Aggregate {
            return Err(misuse(clause));
        }
        self.scopes[inner].clause = Clause::Aggregate;
        let resolved = self.aggregate_arguments(call);
        self.scopes[inner].clause = clause;
        let (arguments, filter, order_by) = resolved?;

        // The call belongs to the innermost query with columns read by the call.
        let depth = (0..=inner).rev().find(|&depth| {
            arguments.iter().any(|argument| self.reads_scope(&argument.expr, depth))
        });
        let depth = depth.unwrap_or(inner);
        // A common table is a query of its own, wherever it is named.
        let is_row = depth == 0 && self.around.is_row && self.expanding.is_empty();
        if is_row || !self.scopes[depth].clause.allows_aggregates() {
            return Err(misuse(self.scopes[depth].clause));
        }
        let collation =
            arguments.iter().map(|argument| argument.collation).fold(Coll::None, Coll::or);
        let kept = collation.through_operator();
        let compares = call.distinct || COMPARING.contains(&function.name());
        let collation = self.used(collation, compares)?;
        let mut arguments: Vec<Expr> =
            arguments.into_iter().map(|argument| argument.expr).collect();
        let json = self.json_arguments(function.name(), &mut arguments);
        let distinct = call.distinct;
        let made = Aggregate { function, arguments, json, distinct, filter, order_by, collation };
        let scope = &mut self.scopes[depth];
        let known = scope.aggregates.iter().position(|known| known.is_same(&made));
        let index = known.unwrap_or(scope.aggregates.len());
        if known.is_none() {
            scope.aggregates.push(made);
        }
        Ok(Bound::with(Expr::Aggregate { select: scope.select, index }, kept))
    }

    /// A call of a scalar function; the few functions with arguments left unevaluated are
    /// operators.
    fn scalar_call(&self, function: Scalar, bound: Vec<Bound>) -> Result<Bound, Error> {
        let collation = bound.iter().map(|argument| argument.collation).fold(Coll::None, Coll::or);
        let kept = bound
            .iter()
            .map(|argument| argument.collation.through_operator())
            .fold(Coll::None, Coll::or);
        match (function.name(), bound.len()) {
            ("likely" | "unlikely", 1) | ("likelihood", 2) => {
                // The value itself, but neither its column's affinity nor its collation.
                let mut bound = bound;
                let value = Bound::with(bound.swap_remove(0).expr, kept);
                return Ok(Bound { classes: Some(ANY_CLASS), ..value });
            }
            ("coalesce" | "ifnull", _) => {
                let arguments = bound.into_iter().map(|argument| argument.expr).collect();
                return Ok(Bound::with(Expr::Coalesce(arguments), kept));
            }
            ("iif" | "if", count) if count >= 2 => {
                let mut arguments = bound.into_iter().map(|argument| argument.expr);
                let mut branches = Vec::with_capacity(count / 2);
                let mut otherwise = None;
                while let Some(when) = arguments.next() {
                    match arguments.next() {
                        Some(then) => branches.push((PLAIN_EQUAL, when, then)),
                        None => otherwise = Some(Box::new(when)),
                    }
                }
                let case = Expr::Case { base: None, branches, otherwise };
                return Ok(Bound { classes: Some(ANY_CLASS), ..Bound::with(case, kept) });
            }
            _ => {}
        }
        let mut arguments: Vec<Expr> = bound.into_iter().map(|argument| argument.expr).collect();
        let json = self.json_arguments(function.name(), &mut arguments);
        let function = match function.is_subtyped() {
            true => function.of_subtypes(arguments.iter().map(|it| self.subtype(it)).collect()),
            false => function,
        };
        let collation = self.used(collation, COMPARING.contains(&function.name()))?;
        let call = Expr::Call { function, arguments, collation, json };
        Ok(Bound::with(call, kept))
    }

    /// The collation of a call; an unknown collation is refused only where the call compares.
    pub(super) fn used(&self, collation: Coll, compares: bool) -> Result<Collation, Error> {
        let named = collation.or_binary();
        if compares { self.known(named) } else { Ok(named.unwrap_or_default()) }
    }

    /// The arguments of a JSON function made by another JSON function, a bit for each.
    pub(super) fn json_arguments(&self, name: &str, arguments: &mut [Expr]) -> u64 {
        if !name.starts_with("json") && name != "subtype" {
            return 0;
        }
        let mut json = 0;
        for (place, argument) in arguments.iter_mut().enumerate().take(64) {
            // A string taken out of JSON to be put into JSON stays in quotes.
            if let Expr::Call { function, arguments, .. } = argument
                && function.name() == "json_extract"
                && arguments.len() >= 2
                && is_value(name, place)
                && let Ok(Function::Scalar(element)) = lookup("json_extract element", 2)
            {
                *function = element;
                if name == "subtype" {
                    // A scalar taken out of JSON counts as JSON no more.
                    json |= 2;
                }
            }
            if self.is_json(argument) {
                json |= 1 << place;
            }
        }
        json
    }

    /// The subtype of an expression's values, 0 where none is known.
    fn subtype(&self, expr: &Expr) -> u8 {
        let first = |parts: &mut dyn Iterator<Item = &Expr>| {
            parts.map(|part| self.subtype(part)).find(|subtype| *subtype > 0).unwrap_or(0)
        };
        match expr {
            Expr::Call { function, .. } => function.subtype(),
            Expr::Column { source, column } => {
                let known = self.virtual_sources.iter().find(|(known, ..)| known == source);
                let column = known.and_then(|(_, table, _)| table.instance.columns().get(*column));
                column.map_or(0, |column| column.subtype)
            }
            Expr::Plus(inner) => self.subtype(inner),
            Expr::Coalesce(parts) => first(&mut parts.iter()),
            Expr::Case { branches, otherwise, .. } => {
                first(&mut branches.iter().map(|(_, _, then)| then).chain(otherwise.as_deref()))
            }
            Expr::Scalar(query) => match &query.body {
                Body::Select(select) => select.outputs.first().map_or(0, |it| self.subtype(it)),
                _ => 0,
            },
            _ => 0,
        }
    }

    /// True where an expression's text is JSON made by a function.
    fn is_json(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Call { function, .. } => function.returns_json,
            Expr::Aggregate { select, index } => {
                let scope = self.scopes.iter().find(|scope| scope.select == *select);
                scope.is_some_and(|scope| scope.aggregates[*index].function.returns_json())
            }
            Expr::Plus(inner) => self.is_json(inner),
            Expr::Coalesce(parts) => parts.iter().any(|part| self.is_json(part)),
            Expr::Case { branches, otherwise, .. } => {
                branches.iter().any(|(_, _, then)| self.is_json(then))
                    || otherwise.as_ref().is_some_and(|expr| self.is_json(expr))
            }
            _ => false,
        }
    }

    fn aggregate_arguments(&mut self, call: &'a ast::Call) -> Result<AggregateParts, Error> {
        let mut arguments = Vec::with_capacity(call.arguments.len());
        for argument in &call.arguments {
            arguments.push(self.bind(argument)?);
        }
        let filter = call.filter.as_ref().map(|filter| self.bind_expr(filter)).transpose()?;
        Ok((arguments, filter, self.order_keys(&call.order_by)?))
    }

    /// The terms of an `ORDER BY` within a call: expressions, never columns of a result.
    pub(super) fn order_keys(
        &mut self,
        terms: &'a [ast::OrderTerm],
    ) -> Result<Vec<OrderKey>, Error> {
        let key = |term: &'a ast::OrderTerm| {
            let bound = self.bind(&term.expr)?;
            Ok(OrderKey {
                key: Key::Expr(bound.expr),
                descending: term.descending,
                nulls_first: term.nulls_first.unwrap_or(!term.descending),
                collation: self.known(bound.collation.or_binary())?,
            })
        };
        terms.iter().map(key).collect()
    }

    fn reads_scope(&self, expr: &Expr, depth: usize) -> bool {
        let own = |source| self.scopes[depth].sources.contains(&source);
        let mut reads = false;
        expr.columns(&mut |source, _| reads |= own(source));
        reads
    }
}

pub(super) fn unordered(name: &str, offset: usize) -> Error {
    Error::meaning(format!("ORDER BY may not be used with non-aggregate {name}()"), offset)
}

/// True where the argument at a place of a JSON function becomes part of the JSON.
fn is_value(name: &str, place: usize) -> bool {
    match name.trim_start_matches("jsonb").trim_start_matches("json") {
        "_array" | "_quote" | "_group_array" | "subtype" => true,
        "_object" | "_group_object" => place % 2 == 1,
        "_set" | "_insert" | "_replace" | "_array_insert" => place > 0 && place.is_multiple_of(2),
        _ => false,
    }
}

pub(super) fn unknown(why: LookupError, offset: usize) -> Error {
    match why {
        LookupError::Unsupported(_) => Error::unsupported(why.to_string(), offset),
        LookupError::Unknown(_) | LookupError::ArgumentCount(_) => {
            Error::Name { kind: NameKind::Function, message: why.to_string(), offset: Some(offset) }
        }
    }
}

pub(super) fn wrong_count(name: &str, offset: usize) -> Error {
    unknown(LookupError::ArgumentCount(name.to_owned()), offset)
}
