//! Calls: functions by name and number of arguments, aggregates to the query they belong to.

use super::Resolver;
use super::collation::Coll;
use super::expr::{Bound, PLAIN_EQUAL};
use super::scope::Clause;
use super::tree::{Aggregate, Expr};
use crate::Error;
use crate::error::NameKind;
use crate::functions::{
    AggregateFunction, Function, LookupError, ScalarFunction, lookup, window_function,
};
use crate::parse::ast;
use crate::value::Collation;

impl<'a> Resolver<'a> {
    #[inline(never)]
    pub(super) fn call(&mut self, call: &'a ast::Call) -> Result<Bound, Error> {
        let offset = call.name.offset;
        let name = call.name.text.as_str();
        if let Some(over) = &call.over {
            return self.window_call(call, over);
        }
        if let Some(function) = window_function(name, call.arguments.len()) {
            function.map_err(|why| unknown(why, offset))?;
            return Err(Error::meaning(format!("misuse of window function {name}()"), offset));
        }
        if !call.order_by.is_empty() {
            return Err(Error::unsupported(
                "ORDER BY in an aggregate",
                call.order_by[0].expr.offset,
            ));
        }
        let function = lookup(name, call.arguments.len()).map_err(|why| unknown(why, offset))?;
        match function {
            Function::Aggregate(function) => {
                if call.star && !name.eq_ignore_ascii_case("count") {
                    return Err(wrong_count(name, offset));
                }
                self.aggregate(function, call)
            }
            Function::Scalar(function) => {
                if call.star {
                    return Err(wrong_count(name, offset));
                }
                if call.distinct {
                    return Err(Error::meaning(
                        format!("DISTINCT is not supported for {name}()"),
                        offset,
                    ));
                }
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
                Ok(scalar_call(function, bound))
            }
        }
    }

    #[inline(never)]
    fn aggregate(
        &mut self,
        function: &'static AggregateFunction,
        call: &'a ast::Call,
    ) -> Result<Bound, Error> {
        let offset = call.name.offset;
        let misuse =
            || Error::meaning(format!("misuse of aggregate: {}()", call.name.text), offset);
        let inner = self.scopes.len().checked_sub(1).ok_or_else(misuse)?;
        if call.distinct && call.arguments.len() != 1 {
            return Err(Error::meaning(
                "DISTINCT aggregates must have exactly one argument",
                offset,
            ));
        }
        let clause = self.scopes[inner].clause;
        if clause == Clause::Aggregate {
            return Err(Error::meaning(
                format!("misuse of aggregate function {}()", call.name.text),
                offset,
            ));
        }
        self.scopes[inner].clause = Clause::Aggregate;
        let resolved = self.aggregate_arguments(call);
        self.scopes[inner].clause = clause;
        let (arguments, filter) = resolved?;

        // The call belongs to the innermost query whose columns it reads.
        let depth = (0..=inner).rev().find(|&depth| {
            arguments.iter().any(|argument| self.reads_scope(&argument.expr, depth))
        });
        let depth = depth.unwrap_or(inner);
        if !self.scopes[depth].clause.allows_aggregates() {
            return Err(misuse());
        }
        let collation =
            arguments.iter().map(|argument| argument.collation).fold(Coll::None, Coll::or);
        let kept = collation.through_operator();
        let scope = &mut self.scopes[depth];
        scope.aggregates.push(Aggregate {
            function,
            arguments: arguments.into_iter().map(|argument| argument.expr).collect(),
            distinct: call.distinct,
            filter,
            collation: collation.or_binary(),
        });
        let expr = Expr::Aggregate { select: scope.select, index: scope.aggregates.len() - 1 };
        Ok(Bound::with(expr, kept))
    }

    fn aggregate_arguments(
        &mut self,
        call: &'a ast::Call,
    ) -> Result<(Vec<Bound>, Option<Expr>), Error> {
        let mut arguments = Vec::with_capacity(call.arguments.len());
        for argument in &call.arguments {
            arguments.push(self.bind(argument)?);
        }
        let filter = call.filter.as_ref().map(|filter| self.bind_expr(filter)).transpose()?;
        Ok((arguments, filter))
    }

    fn reads_scope(&self, expr: &Expr, depth: usize) -> bool {
        let own = |source| self.scopes[depth].sources.contains(&source);
        let mut reads = false;
        expr.columns(&mut |source, _| reads |= own(source));
        reads
    }
}

/// A call of a scalar function; the few that must not evaluate every argument are operators.
fn scalar_call(function: &'static ScalarFunction, bound: Vec<Bound>) -> Bound {
    let collation = bound.iter().map(|argument| argument.collation).fold(Coll::None, Coll::or);
    let kept = bound
        .iter()
        .map(|argument| argument.collation.through_operator())
        .fold(Coll::None, Coll::or);
    match (function.name(), bound.len()) {
        ("likely" | "unlikely", 1) | ("likelihood", 2) => {
            // The value itself, but neither its column's affinity nor its collation.
            let mut bound = bound;
            return Bound::with(bound.swap_remove(0).expr, kept);
        }
        ("coalesce" | "ifnull", _) => {
            let arguments = bound.into_iter().map(|argument| argument.expr).collect();
            return Bound::with(Expr::Coalesce(arguments), kept);
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
            return Bound::with(Expr::Case { base: None, branches, otherwise }, kept);
        }
        _ => {}
    }
    let arguments = bound.into_iter().map(|argument| argument.expr).collect();
    let call = Expr::Call { function, arguments, collation: collation.or_binary() };
    Bound::with(call, kept)
}

pub(super) fn named_call(name: &str, arguments: Vec<Expr>, offset: usize) -> Result<Expr, Error> {
    match lookup(name, arguments.len()) {
        Ok(Function::Scalar(function)) => {
            Ok(Expr::Call { function, arguments, collation: Collation::Binary })
        }
        Ok(Function::Aggregate(_)) => Err(Error::unsupported(format!("{name}()"), offset)),
        Err(why) => Err(unknown(why, offset)),
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
