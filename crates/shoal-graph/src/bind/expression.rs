//! Names and kinds of expressions.

use super::visit::has_aggregate;
use super::{Aggregation, Binder, LOCAL, OUT, Type};
use crate::ast::*;
use crate::error::{Error, ErrorClass, Result};
use crate::functions::{self, Plain};
use crate::temporal;

fn wrong_type(at: Pos, message: &str) -> Error {
    Error::syntax("InvalidArgumentType", at.at(), message)
}

impl Binder<'_> {
    /// Binds an expression; gives the kind of its values.
    pub(super) fn expr(&mut self, expr: &mut Expr) -> Result<Type> {
        let pos = expr.pos;
        let accepts_pattern = std::mem::replace(&mut self.accepts_pattern, false);
        Ok(match &mut expr.kind {
            Kind::Literal(value) => Type::of_value(value),
            Kind::Parameter(name) => match self.has_parameter(name) {
                true => Type::Any,
                false => {
                    let message = format!("the parameter ${name} is missing");
                    let class = ErrorClass::ParameterMissing;
                    return Err(Error::compile(class, "MissingParameter", pos.at(), message));
                }
            },
            Kind::Variable(var) => return self.variable(var),
            Kind::Property(base, key) => {
                let kind = self.expr(base)?;
                if matches!(
                    kind,
                    Type::Boolean
                        | Type::Integer
                        | Type::Float
                        | Type::Text
                        | Type::List(_)
                        | Type::Path
                ) {
                    let message = format!("a value without properties has no {key}");
                    return Err(Error::compile(
                        ErrorClass::TypeError,
                        "InvalidArgumentType",
                        pos.at(),
                        message,
                    ));
                }
                Type::Any
            }
            Kind::Index(base, index) => {
                let base = self.expr(base)?;
                self.expr(index)?;
                match base {
                    Type::List(element) => *element,
                    _ => Type::Any,
                }
            }
            Kind::Slice(base, from, to) => {
                let base = self.expr(base)?;
                for bound in from.iter_mut().chain(to) {
                    self.expr(bound)?;
                }
                base
            }
            Kind::List(items) => {
                let mut element = None;
                for item in items {
                    let kind = self.expr(item)?;
                    element = Some(match element {
                        None => kind,
                        Some(element) if element == kind => kind,
                        Some(_) => Type::Any,
                    });
                }
                Type::list_of(element.unwrap_or(Type::Any))
            }
            Kind::Map(fields) => {
                for (_, value) in fields {
                    self.expr(value)?;
                }
                Type::Map
            }
            Kind::MapProjection(base, items) => {
                self.expr(base)?;
                for item in items {
                    if let MapItem::Field(_, value) = item {
                        self.expr(value)?;
                    }
                }
                Type::Map
            }
            Kind::Not(inner) => {
                self.accepts_pattern = accepts_pattern;
                self.boolean(inner)?
            }
            Kind::Logic(_, operands) => {
                for operand in operands {
                    self.accepts_pattern = accepts_pattern;
                    self.boolean(operand)?;
                }
                Type::Boolean
            }
            Kind::Negate(inner) | Kind::Plus(inner) => {
                let kind = self.expr(inner)?;
                if !kind.may_be(&[Type::Integer, Type::Float, Type::Temporal]) {
                    return Err(wrong_type(pos, "only numbers and durations have a sign"));
                }
                kind
            }
            Kind::Arithmetic(first, rest) => return self.arithmetic(first, rest),
            Kind::Compare(first, rest) => {
                self.expr(first)?;
                for (_, operand) in rest {
                    self.expr(operand)?;
                }
                Type::Boolean
            }
            Kind::Text(_, a, b) => {
                self.expr(a)?;
                self.expr(b)?;
                Type::Boolean
            }
            Kind::In(item, list) => {
                self.expr(item)?;
                if !self.expr(list)?.may_be_list() {
                    return Err(wrong_type(list.pos, "IN looks into a list"));
                }
                Type::Boolean
            }
            Kind::IsNull(inner, _) => {
                self.expr(inner)?;
                Type::Boolean
            }
            Kind::HasLabels(inner, _) => {
                if !self.expr(inner)?.may_be(&[Type::Node, Type::Relationship]) {
                    return Err(wrong_type(pos, "labels are of nodes and relationships"));
                }
                Type::Boolean
            }
            Kind::CountStar => {
                self.aggregate(pos)?;
                Type::Integer
            }
            Kind::Call { .. } => return self.call_expr(expr),
            Kind::Case { operand, whens, otherwise } => {
                if let Some(operand) = operand {
                    self.expr(operand)?;
                }
                let mut result: Option<Type> = None;
                let mut join = |kind: Type| {
                    result = Some(match result.take() {
                        None => kind,
                        Some(result) if result == kind => kind,
                        Some(_) => Type::Any,
                    });
                };
                for (values, then) in whens {
                    for value in values {
                        self.accepts_pattern = operand.is_none();
                        self.expr(value)?;
                    }
                    self.accepts_pattern = false;
                    join(self.expr(then)?);
                }
                if let Some(otherwise) = otherwise {
                    join(self.expr(otherwise)?);
                }
                result.unwrap_or(Type::Any)
            }
            Kind::ListComprehension { var, list, filter, map } => {
                let element = self.element(list)?;
                self.open(var, element.clone());
                if let Some(filter) = filter {
                    self.accepts_pattern = true;
                    self.boolean(filter)?;
                }
                let result = match map {
                    Some(map) => self.expr(map)?,
                    None => element,
                };
                self.close(1);
                Type::list_of(result)
            }
            Kind::Quantifier { var, list, filter, .. } => {
                let element = self.element(list)?;
                self.open(var, element);
                self.accepts_pattern = true;
                self.boolean(filter)?;
                self.close(1);
                Type::Boolean
            }
            Kind::Reduce { total, start, var, list, step } => {
                self.expr(start)?;
                let element = self.element(list)?;
                self.open(total, Type::Any);
                self.open(var, element);
                self.expr(step)?;
                self.close(2);
                Type::Any
            }
            Kind::Pattern(query) => {
                if !accepts_pattern {
                    let message = "a pattern is a truth value in WHERE and in exists()";
                    return Err(Error::syntax("UnexpectedSyntax", pos.at(), message));
                }
                self.subquery(query, true)?;
                Type::Boolean
            }
            Kind::Exists(query) => {
                self.subquery(query, false)?;
                Type::Boolean
            }
            Kind::Count(query) => {
                self.subquery(query, false)?;
                Type::Integer
            }
            Kind::ShortestPath(query) => {
                self.subquery(query, true)?;
                Type::Any
            }
            Kind::PatternComprehension { pattern, map } => {
                let outer = self.vars.len();
                self.bind_subquery(pattern, false)?;
                let kind = self.expr(map);
                self.vars.truncate(outer);
                Type::list_of(kind?)
            }
        })
    }

    fn variable(&mut self, var: &mut Var) -> Result<Type> {
        if let Some(at) = self.locals.iter().rposition(|(name, _)| *name == var.name) {
            var.slot = LOCAL + at;
            return Ok(self.locals[at].1.clone());
        }
        if let Some(at) = self.out.iter().position(|(name, _)| *name == var.name) {
            var.slot = OUT + at;
            return Ok(self.out[at].1.clone());
        }
        match self.find(&var.name) {
            Some(slot) => {
                var.slot = slot;
                Ok(self.vars[slot].kind.clone())
            }
            None => {
                let message = format!("{} is not defined", var.name);
                Err(Error::syntax("UndefinedVariable", var.pos.at(), message))
            }
        }
    }

    fn element(&mut self, list: &mut Expr) -> Result<Type> {
        match self.expr(list)? {
            Type::List(element) => Ok(*element),
            kind if kind.may_be_list() => Ok(Type::Any),
            _ => Err(wrong_type(list.pos, "a list is wanted")),
        }
    }

    fn open(&mut self, var: &mut Var, kind: Type) {
        var.slot = LOCAL + self.locals.len();
        self.locals.push((var.name.clone(), kind));
    }

    fn close(&mut self, count: usize) {
        self.locals.truncate(self.locals.len() - count);
    }

    fn boolean(&mut self, expr: &mut Expr) -> Result<Type> {
        let kind = self.expr(expr);
        self.accepts_pattern = false;
        match kind?.may_be(&[Type::Boolean]) {
            true => Ok(Type::Boolean),
            false => Err(wrong_type(expr.pos, "a boolean is wanted")),
        }
    }

    fn arithmetic(&mut self, first: &mut Expr, rest: &mut [(ArithmeticOp, Expr)]) -> Result<Type> {
        let mut left = self.expr(first)?;
        for (op, operand) in rest {
            let right = self.expr(operand)?;
            if *op != ArithmeticOp::Add {
                for kind in [&left, &right] {
                    if !kind.may_be(&[Type::Integer, Type::Float, Type::Temporal]) {
                        return Err(wrong_type(operand.pos, "numbers and durations are wanted"));
                    }
                }
            }
            left = match (op, left, right) {
                (ArithmeticOp::Add, Type::List(_), _) | (ArithmeticOp::Add, _, Type::List(_)) => {
                    Type::list_of(Type::Any)
                }
                (ArithmeticOp::Power, Type::Integer | Type::Float, Type::Integer | Type::Float) => {
                    Type::Float
                }
                (_, Type::Integer, Type::Integer) => Type::Integer,
                (_, Type::Integer | Type::Float, Type::Integer | Type::Float) => Type::Float,
                (ArithmeticOp::Add, Type::Text, Type::Text) => Type::Text,
                _ => Type::Any,
            };
        }
        Ok(left)
    }

    /// Marks an aggregate, where one may stand.
    fn aggregate(&mut self, pos: Pos) -> Result<()> {
        match self.aggregation {
            Aggregation::Allowed => Ok(()),
            Aggregation::Forbidden => {
                let message = "aggregates are for the items of WITH and RETURN";
                Err(Error::syntax("InvalidAggregation", pos.at(), message))
            }
            Aggregation::Inside => {
                let message = "an aggregate takes no aggregate";
                Err(Error::syntax("NestedAggregation", pos.at(), message))
            }
        }
    }

    fn call_expr(&mut self, expr: &mut Expr) -> Result<Type> {
        let pos = expr.pos;
        let Kind::Call { name, distinct, args, function } = &mut expr.kind else {
            unreachable!("a call of a function")
        };
        let lower = name.to_ascii_lowercase();
        let (found, least, most) = if let Some((kind, count)) = aggregate_of(&lower) {
            (Function::Aggregate(kind), count, count)
        } else if let Some((plain, least, most)) = functions::find(&lower) {
            (Function::Plain(plain), least, most)
        } else if let Some((temporal, least, most)) = temporal::functions::find(&lower) {
            (Function::Temporal(temporal), least, most)
        } else {
            return Err(Error::syntax(
                "UnknownFunction",
                pos.at(),
                format!("no function is named {name}"),
            ));
        };
        *function = found;
        if args.len() < least || args.len() > most {
            let wanted = match (least, most) {
                (least, usize::MAX) => format!("{least} or more"),
                (least, most) if least == most => least.to_string(),
                (least, most) => format!("{least} to {most}"),
            };
            let message = format!("{name}() takes {wanted} arguments, not {}", args.len());
            return Err(Error::syntax("InvalidNumberOfArguments", pos.at(), message));
        }
        if let Function::Aggregate(kind) = found {
            self.aggregate(pos)?;
            self.aggregation = Aggregation::Inside;
            let kinds = args.iter_mut().map(|arg| self.expr(arg)).collect::<Result<Vec<Type>>>();
            self.aggregation = Aggregation::Allowed;
            let kinds = kinds?;
            if args.iter().any(has_rand) {
                let message = "rand() is no argument of an aggregate";
                return Err(Error::syntax("NonConstantExpression", pos.at(), message));
            }
            return Ok(match kind {
                AggregateKind::Count | AggregateKind::CountStar => Type::Integer,
                AggregateKind::Collect => Type::List(Box::new(kinds[0].clone())),
                _ => Type::Any,
            });
        }
        if *distinct {
            let message = "DISTINCT is for the arguments of aggregates";
            return Err(Error::syntax("UnexpectedSyntax", pos.at(), message));
        }
        let mut kinds = Vec::with_capacity(args.len());
        for arg in args.iter_mut() {
            self.accepts_pattern = found == Function::Plain(Plain::Exists);
            kinds.push(self.expr(arg)?);
        }
        self.accepts_pattern = false;
        match found {
            Function::Plain(plain) => plain_type(plain, &kinds, pos),
            _ => Ok(Type::Temporal),
        }
    }

    fn subquery(&mut self, query: &mut Subquery, forbids_new: bool) -> Result<()> {
        let outer = self.vars.len();
        let result = self.bind_subquery(query, forbids_new);
        self.vars.truncate(outer);
        result
    }

    /// Binds a subquery and leaves its variables in scope where it is one pattern.
    fn bind_subquery(&mut self, query: &mut Subquery, forbids_new: bool) -> Result<()> {
        query.before = self.vars.len();
        let was_inside = std::mem::replace(&mut self.in_subquery, true);
        let aggregation = std::mem::replace(&mut self.aggregation, Aggregation::Forbidden);
        let result = self.subquery_parts(query, forbids_new);
        self.in_subquery = was_inside;
        self.aggregation = aggregation;
        self.accepts_pattern = false;
        result?;
        query.after = self.vars.len();
        Ok(())
    }

    fn subquery_parts(&mut self, query: &mut Subquery, forbids_new: bool) -> Result<()> {
        let is_pattern = query.parts.len() == 1
            && matches!(query.parts[0].clauses.as_slice(), [Clause::Match(_)]);
        if !is_pattern {
            return self.parts(&mut query.parts).map(drop);
        }
        let Clause::Match(found) = &mut query.parts[0].clauses[0] else {
            unreachable!("a pattern is a MATCH")
        };
        if forbids_new {
            self.check_no_new_names(&found.patterns)?;
        }
        self.match_clause(found)
    }

    fn check_no_new_names(&self, patterns: &[PathPattern]) -> Result<()> {
        for pattern in patterns {
            let nodes =
                std::iter::once(&pattern.start).chain(pattern.steps.iter().map(|(_, node)| node));
            let vars =
                nodes.map(|node| &node.var).chain(pattern.steps.iter().map(|(one, _)| &one.var));
            for var in vars.flatten() {
                let is_known = self.find(&var.name).is_some()
                    || self.locals.iter().any(|(name, _)| *name == var.name)
                    || self.out.iter().any(|(name, _)| *name == var.name);
                if !is_known {
                    let message = format!(
                        "{} is not defined; a pattern's predicate introduces no name",
                        var.name
                    );
                    return Err(Error::syntax("UndefinedVariable", var.pos.at(), message));
                }
            }
        }
        Ok(())
    }
}

fn has_rand(expr: &Expr) -> bool {
    let mut found = matches!(expr.kind, Kind::Call { function: Function::Plain(Plain::Rand), .. });
    super::visit::children(expr, &mut |child| found = found || has_rand(child));
    found && !has_aggregate(expr)
}

fn aggregate_of(name: &str) -> Option<(AggregateKind, usize)> {
    Some(match name {
        "count" => (AggregateKind::Count, 1),
        "sum" => (AggregateKind::Sum, 1),
        "avg" => (AggregateKind::Avg, 1),
        "min" => (AggregateKind::Min, 1),
        "max" => (AggregateKind::Max, 1),
        "collect" => (AggregateKind::Collect, 1),
        "stdev" => (AggregateKind::StDev, 1),
        "stdevp" => (AggregateKind::StDevP, 1),
        "percentilecont" => (AggregateKind::PercentileCont, 2),
        "percentiledisc" => (AggregateKind::PercentileDisc, 2),
        _ => return None,
    })
}

fn plain_type(function: Plain, kinds: &[Type], pos: Pos) -> Result<Type> {
    let first = kinds.first();
    let check = |allowed: &[Type], lists: bool, message: &str| match first {
        Some(kind) if kind.may_be(allowed) || (lists && kind.may_be_list()) => Ok(()),
        _ => Err(wrong_type(pos, message)),
    };
    Ok(match function {
        Plain::Labels => {
            check(&[Type::Node], false, "labels() takes a node")?;
            Type::list_of(Type::Text)
        }
        Plain::Type => {
            check(&[Type::Relationship], false, "type() takes a relationship")?;
            Type::Text
        }
        Plain::Length => {
            check(&[Type::Path, Type::Text], true, "length() takes a path")?;
            Type::Integer
        }
        Plain::Size => {
            check(&[Type::Text, Type::Map], true, "size() takes a list or a string")?;
            Type::Integer
        }
        Plain::Nodes => {
            check(&[Type::Path], false, "nodes() takes a path")?;
            Type::list_of(Type::Node)
        }
        Plain::Relationships => {
            check(&[Type::Path], false, "relationships() takes a path")?;
            Type::list_of(Type::Relationship)
        }
        Plain::Properties => {
            check(
                &[Type::Node, Type::Relationship, Type::Map],
                false,
                "properties() takes a node, a relationship or a map",
            )?;
            Type::Map
        }
        Plain::Keys => {
            check(
                &[Type::Node, Type::Relationship, Type::Map],
                false,
                "keys() takes a node, a relationship or a map",
            )?;
            Type::list_of(Type::Text)
        }
        Plain::StartNode | Plain::EndNode => {
            check(&[Type::Relationship], false, "a relationship is wanted")?;
            Type::Node
        }
        Plain::Exists | Plain::ToBoolean | Plain::IsEmpty => Type::Boolean,
        Plain::ToInteger | Plain::Id => Type::Integer,
        Plain::ToFloat | Plain::Rand | Plain::Pi | Plain::E => Type::Float,
        Plain::ToText | Plain::ToLower | Plain::ToUpper | Plain::Substring | Plain::Replace => {
            Type::Text
        }
        Plain::Range => Type::list_of(Type::Integer),
        Plain::Split => Type::list_of(Type::Text),
        Plain::Head | Plain::Last => match first {
            Some(Type::List(element)) => (**element).clone(),
            _ => Type::Any,
        },
        Plain::Tail => first.cloned().unwrap_or(Type::Any),
        _ => Type::Any,
    })
}
