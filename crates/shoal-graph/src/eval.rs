//! Expressions to values.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::ast::*;
use crate::error::{Error, ErrorClass, Result};
use crate::functions::{self, Plain};
use crate::run::{Env, Run};
use crate::temporal;
use crate::value::{Comparison, Map, Value};

fn wrong_type(message: impl Into<String>) -> Error {
    Error::runtime(ErrorClass::TypeError, "InvalidArgumentType", message)
}

fn truth(value: Option<bool>) -> Value {
    value.map_or(Value::Null, Value::Boolean)
}

fn as_truth(value: &Value) -> Result<Option<bool>> {
    match value {
        Value::Null => Ok(None),
        Value::Boolean(truth) => Ok(Some(*truth)),
        other => Err(wrong_type(format!("a boolean is wanted, not {}", other.type_name()))),
    }
}

impl Run<'_> {
    /// True where a condition holds; false where it does not or is undecided.
    pub(crate) fn holds(&self, condition: &Expr, env: &mut Env<'_>) -> Result<bool> {
        Ok(as_truth(&self.eval(condition, env)?)? == Some(true))
    }

    /// The value of an expression.
    pub(crate) fn eval(&self, expr: &Expr, env: &mut Env<'_>) -> Result<Value> {
        Ok(match &expr.kind {
            Kind::Literal(value) => value.clone(),
            Kind::Variable(var) => env.get(var.slot).clone(),
            Kind::Parameter(name) => {
                self.parameters.get(name.as_str()).cloned().unwrap_or_default()
            }
            Kind::Property(base, key) => {
                // A variable's value is read in its place; other bases are computed first.
                match &base.kind {
                    Kind::Variable(var) => self.property(env.get(var.slot), key)?,
                    _ => self.property(&self.eval(base, env)?, key)?,
                }
            }
            Kind::Index(base, index) => {
                let base = self.eval(base, env)?;
                let index = self.eval(index, env)?;
                self.index(&base, &index)?
            }
            Kind::Slice(base, from, to) => {
                let base = self.eval(base, env)?;
                let mut bound = |bound: &Option<Box<Expr>>| match bound {
                    Some(bound) => self.eval(bound, env).map(Some),
                    None => Ok(None),
                };
                let (from, to) = (bound(from)?, bound(to)?);
                slice(&base, from, to)?
            }
            Kind::List(items) => {
                let values =
                    items.iter().map(|item| self.eval(item, env)).collect::<Result<Vec<_>>>()?;
                Value::list(values)
            }
            Kind::Map(fields) => {
                let mut map = Map::new();
                for (key, value) in fields {
                    map.insert(Arc::from(key.as_str()), self.eval(value, env)?);
                }
                Value::map(map)
            }
            Kind::MapProjection(base, items) => self.map_projection(base, items, env)?,
            Kind::Not(inner) => truth(as_truth(&self.eval(inner, env)?)?.map(|truth| !truth)),
            Kind::Logic(op, operands) => truth(self.logic(*op, operands, env)?),
            Kind::Negate(inner) => match self.eval(inner, env)? {
                Value::Null => Value::Null,
                Value::Integer(number) => {
                    Value::Integer(number.checked_neg().ok_or_else(overflow)?)
                }
                Value::Float(number) => Value::Float(-number),
                Value::Duration(duration) => Value::duration(duration.negated()?),
                other => return Err(wrong_type(format!("{} has no sign", other.type_name()))),
            },
            Kind::Plus(inner) => match self.eval(inner, env)? {
                value
                @ (Value::Null | Value::Integer(_) | Value::Float(_) | Value::Duration(_)) => value,
                other => return Err(wrong_type(format!("{} has no sign", other.type_name()))),
            },
            Kind::Arithmetic(first, rest) => {
                let mut left = self.eval(first, env)?;
                for (op, right) in rest {
                    left = arithmetic(*op, left, self.eval(right, env)?)?;
                }
                left
            }
            Kind::Compare(first, rest) => truth(self.comparison(first, rest, env)?),
            Kind::Text(op, a, b) => text_predicate(*op, &self.eval(a, env)?, &self.eval(b, env)?)?,
            Kind::In(item, list) => {
                let item = self.eval(item, env)?;
                match self.eval(list, env)? {
                    Value::Null => Value::Null,
                    Value::List(list) => truth(is_in(&item, &list)),
                    other => {
                        return Err(wrong_type(format!(
                            "IN looks into a list, not {}",
                            other.type_name()
                        )));
                    }
                }
            }
            Kind::IsNull(inner, wanted) => {
                Value::Boolean(self.eval(inner, env)?.is_null() == *wanted)
            }
            Kind::HasLabels(inner, labels) => self.has_labels(&self.eval(inner, env)?, labels)?,
            Kind::Call { name, args, function, .. } => self.call(name, *function, args, env)?,
            Kind::CountStar => unreachable!("the binder replaced aggregates by slots"),
            Kind::Case { operand, whens, otherwise } => {
                self.case(operand, whens, otherwise, env)?
            }
            Kind::ListComprehension { list, filter, map, .. } => {
                let Some(list) = self.list(list, env)? else { return Ok(Value::Null) };
                let mut values = Vec::new();
                for value in list.iter() {
                    self.tick()?;
                    env.locals.push(value.clone());
                    let kept = match filter {
                        Some(filter) => self.holds(filter, env)?,
                        None => true,
                    };
                    if kept {
                        values.push(match map {
                            Some(map) => self.eval(map, env)?,
                            None => value.clone(),
                        });
                    }
                    env.locals.pop();
                }
                Value::list(values)
            }
            Kind::Quantifier { kind, list, filter, .. } => {
                let Some(list) = self.list(list, env)? else { return Ok(Value::Null) };
                truth(self.quantifier(*kind, &list, filter, env)?)
            }
            Kind::Reduce { start, list, step, .. } => {
                let mut total = self.eval(start, env)?;
                let Some(list) = self.list(list, env)? else { return Ok(Value::Null) };
                for value in list.iter() {
                    self.tick()?;
                    env.locals.push(total);
                    env.locals.push(value.clone());
                    total = self.eval(step, env)?;
                    env.locals.truncate(env.locals.len() - 2);
                }
                total
            }
            Kind::Pattern(query) | Kind::Exists(query) => {
                let mut found = false;
                self.subquery(query, env, &mut |_, _| {
                    found = true;
                    Ok(false)
                })?;
                Value::Boolean(found)
            }
            Kind::Count(query) => {
                let mut count = 0;
                self.subquery(query, env, &mut |_, _| {
                    count += 1;
                    Ok(true)
                })?;
                Value::Integer(count)
            }
            Kind::PatternComprehension { pattern, map } => {
                let mut values = Vec::new();
                self.subquery(pattern, env, &mut |run, env| {
                    values.push(run.eval(map, env)?);
                    Ok(true)
                })?;
                Value::list(values)
            }
            Kind::ShortestPath(query) => {
                let Clause::Match(found) = &query.parts[0].clauses[0] else {
                    unreachable!("a shortest path is a pattern")
                };
                let is_one = found.patterns[0].shortest == Shortest::One;
                let slot = found.patterns[0].steps[0].0.slot;
                let mut paths = Vec::new();
                let pattern = &found.patterns[0];
                self.subquery(query, env, &mut |run, env| {
                    debug_assert!(slot < env.row.len());
                    paths.push(run.path_of(pattern, env.row)?);
                    Ok(!is_one)
                })?;
                if is_one { paths.pop().unwrap_or_default() } else { Value::list(paths) }
            }
        })
    }

    fn list(&self, list: &Expr, env: &mut Env<'_>) -> Result<Option<Arc<[Value]>>> {
        match self.eval(list, env)? {
            Value::Null => Ok(None),
            Value::List(list) => Ok(Some(list)),
            other => Err(wrong_type(format!("a list is wanted, not {}", other.type_name()))),
        }
    }

    /// A property of an element, a key of a map, a component of a temporal value.
    pub(crate) fn property(&self, base: &Value, key: &str) -> Result<Value> {
        Ok(match base {
            Value::Null => Value::Null,
            Value::Node(id) => self.node(*id)?.properties.get(key).cloned().unwrap_or_default(),
            Value::Relationship(id) => {
                self.relationship(*id)?.properties.get(key).cloned().unwrap_or_default()
            }
            Value::Map(map) => map.get(key).cloned().unwrap_or_default(),
            Value::Date(_)
            | Value::LocalTime(_)
            | Value::Time(_)
            | Value::LocalDateTime(_)
            | Value::DateTime(_)
            | Value::Duration(_) => temporal::fields::component(base, key).unwrap_or_default(),
            other => {
                return Err(wrong_type(format!("{} has no property {key}", other.type_name())));
            }
        })
    }

    fn index(&self, base: &Value, index: &Value) -> Result<Value> {
        let by =
            |detail, message: String| Err(Error::runtime(ErrorClass::TypeError, detail, message));
        Ok(match (base, index) {
            (Value::Null, _) | (_, Value::Null) => Value::Null,
            (Value::List(list), Value::Integer(at)) => {
                let at = if *at < 0 { at.checked_add(list.len() as i64) } else { Some(*at) };
                at.and_then(|at| usize::try_from(at).ok())
                    .and_then(|at| list.get(at))
                    .cloned()
                    .unwrap_or_default()
            }
            (Value::List(_), other) => {
                let message = format!("a list is indexed by an integer, not {}", other.type_name());
                return by("ListElementAccessByNonInteger", message);
            }
            (Value::Map(_) | Value::Node(_) | Value::Relationship(_), Value::Text(key)) => {
                self.property(base, key)?
            }
            (Value::Map(_) | Value::Node(_) | Value::Relationship(_), other) => {
                let message = format!("a map is indexed by a string, not {}", other.type_name());
                return by("MapElementAccessByNonString", message);
            }
            (other, _) => return Err(wrong_type(format!("{} has no elements", other.type_name()))),
        })
    }

    fn map_projection(&self, base: &Expr, items: &[MapItem], env: &mut Env<'_>) -> Result<Value> {
        let base = self.eval(base, env)?;
        if base.is_null() {
            return Ok(Value::Null);
        }
        let mut map = Map::new();
        for item in items {
            match item {
                MapItem::Field(key, value) => {
                    map.insert(Arc::from(key.as_str()), self.eval(value, env)?);
                }
                MapItem::AllProperties => map.extend(self.properties(&base)?),
            }
        }
        Ok(Value::map(map))
    }

    /// The properties of an element, or a map itself.
    pub(crate) fn properties(&self, value: &Value) -> Result<Map> {
        Ok(match value {
            Value::Node(id) => self.node(*id)?.properties.clone(),
            Value::Relationship(id) => self.relationship(*id)?.properties.clone(),
            Value::Map(map) => (**map).clone(),
            other => {
                return Err(Error::value_type(format!("{} has no properties", other.type_name())));
            }
        })
    }

    fn logic(&self, op: LogicOp, operands: &[Expr], env: &mut Env<'_>) -> Result<Option<bool>> {
        let mut result = match op {
            LogicOp::And => Some(true),
            LogicOp::Or | LogicOp::Xor => Some(false),
        };
        for operand in operands {
            let value = as_truth(&self.eval(operand, env)?)?;
            match (op, value) {
                (LogicOp::And, Some(false)) => return Ok(Some(false)),
                (LogicOp::Or, Some(true)) => return Ok(Some(true)),
                (LogicOp::Xor, Some(value)) => result = result.map(|result| result != value),
                (_, None) => result = None,
                _ => {}
            }
        }
        Ok(result)
    }

    fn comparison(
        &self,
        first: &Expr,
        rest: &[(CompareOp, Expr)],
        env: &mut Env<'_>,
    ) -> Result<Option<bool>> {
        let mut left = self.eval(first, env)?;
        let mut result = Some(true);
        for (op, right) in rest {
            let right = self.eval(right, env)?;
            match compare(*op, &left, &right) {
                Some(true) => {}
                Some(false) => return Ok(Some(false)),
                None => result = None,
            }
            left = right;
        }
        Ok(result)
    }

    /// True of an element with the labels or the type.
    fn has_labels(&self, value: &Value, labels: &LabelExpr) -> Result<Value> {
        Ok(match value {
            Value::Null => Value::Null,
            Value::Node(id) => {
                let node = self.node(*id)?;
                let has = |name: &str| node.labels.iter().any(|label| &**label == name);
                Value::Boolean(labels.holds(&has, !node.labels.is_empty()))
            }
            Value::Relationship(id) => {
                let found = self.relationship_or_dead(*id)?;
                Value::Boolean(labels.holds(&|name| &*found.kind == name, true))
            }
            other => return Err(wrong_type(format!("{} has no labels", other.type_name()))),
        })
    }

    fn case(
        &self,
        operand: &Option<Box<Expr>>,
        whens: &[(Vec<Expr>, Expr)],
        otherwise: &Option<Box<Expr>>,
        env: &mut Env<'_>,
    ) -> Result<Value> {
        let operand = operand.as_ref().map(|operand| self.eval(operand, env)).transpose()?;
        for (values, then) in whens {
            for value in values {
                let holds = match &operand {
                    Some(operand) => operand.equals(&self.eval(value, env)?) == Some(true),
                    None => self.holds(value, env)?,
                };
                if holds {
                    return self.eval(then, env);
                }
            }
        }
        otherwise.as_ref().map_or(Ok(Value::Null), |otherwise| self.eval(otherwise, env))
    }

    fn quantifier(
        &self,
        kind: QuantifierKind,
        list: &[Value],
        filter: &Expr,
        env: &mut Env<'_>,
    ) -> Result<Option<bool>> {
        let (mut yes, mut no, mut undecided) = (0_usize, 0_usize, 0_usize);
        for value in list {
            self.tick()?;
            env.locals.push(value.clone());
            match as_truth(&self.eval(filter, env)?)? {
                Some(true) => yes += 1,
                Some(false) => no += 1,
                None => undecided += 1,
            }
            env.locals.pop();
        }
        let or_undecided = |truth| if undecided > 0 { None } else { Some(truth) };
        Ok(match kind {
            QuantifierKind::All if no > 0 => Some(false),
            QuantifierKind::All => or_undecided(true),
            QuantifierKind::Any if yes > 0 => Some(true),
            QuantifierKind::Any => or_undecided(false),
            QuantifierKind::None if yes > 0 => Some(false),
            QuantifierKind::None => or_undecided(true),
            QuantifierKind::Single if yes > 1 => Some(false),
            QuantifierKind::Single => or_undecided(yes == 1),
        })
    }

    fn call(
        &self,
        name: &str,
        function: Function,
        args: &[Expr],
        env: &mut Env<'_>,
    ) -> Result<Value> {
        let values = args.iter().map(|arg| self.eval(arg, env)).collect::<Result<Vec<_>>>()?;
        match function {
            Function::Temporal(function) => {
                temporal::functions::call(function, &values, self.started)
            }
            Function::Plain(function) => match functions::call(function, &values)? {
                Some(value) => Ok(value),
                None => self.graph_call(name, function, &values),
            },
            Function::Aggregate(_) | Function::Unknown => {
                unreachable!("the binder finds functions and replaces aggregates")
            }
        }
    }

    fn graph_call(&self, name: &str, function: Plain, args: &[Value]) -> Result<Value> {
        let wrong = |value: &Value| {
            Error::value_type(format!("{name}() does not take {}", value.type_name()))
        };
        Ok(match (function, args.first().unwrap_or(&Value::Null)) {
            (Plain::Rand, _) => Value::Float(self.next_random()),
            (Plain::Timestamp, _) => {
                let (seconds, nanos) = self.started.instant();
                Value::Integer(seconds * 1000 + nanos / 1_000_000)
            }
            (Plain::Exists, Value::Boolean(truth)) => Value::Boolean(*truth),
            (Plain::Exists, value) => Value::Boolean(!value.is_null()),
            (_, Value::Null) => Value::Null,
            (Plain::Keys, value @ (Value::Node(_) | Value::Relationship(_) | Value::Map(_))) => {
                functions::keys_of(&self.properties(value)?)
            }
            (
                Plain::Properties,
                value @ (Value::Node(_) | Value::Relationship(_) | Value::Map(_)),
            ) => Value::map(self.properties(value)?),
            (Plain::Labels, Value::Node(id)) => Value::list(
                self.node(*id)?.labels.iter().map(|label| Value::Text(label.clone())).collect(),
            ),
            (Plain::Type, Value::Relationship(id)) => {
                Value::Text(self.relationship_or_dead(*id)?.kind.clone())
            }
            (Plain::Id, Value::Node(id) | Value::Relationship(id)) => Value::Integer(*id),
            (Plain::StartNode, Value::Relationship(id)) => {
                Value::Node(self.relationship_or_dead(*id)?.source)
            }
            (Plain::EndNode, Value::Relationship(id)) => {
                Value::Node(self.relationship_or_dead(*id)?.target)
            }
            (_, other) => return Err(wrong(other)),
        })
    }
}

fn compare(op: CompareOp, a: &Value, b: &Value) -> Option<bool> {
    let by = |holds: fn(Ordering) -> bool| match a.compare(b) {
        Comparison::Ordered(order) => Some(holds(order)),
        Comparison::Unordered => Some(false),
        Comparison::Undecided => None,
    };
    match op {
        CompareOp::Equal => a.equals(b),
        CompareOp::NotEqual => a.equals(b).map(|equal| !equal),
        CompareOp::Less => by(Ordering::is_lt),
        CompareOp::LessOrEqual => by(Ordering::is_le),
        CompareOp::Greater => by(Ordering::is_gt),
        CompareOp::GreaterOrEqual => by(Ordering::is_ge),
    }
}

fn is_in(item: &Value, list: &[Value]) -> Option<bool> {
    let mut result = Some(false);
    for value in list {
        match item.equals(value) {
            Some(true) => return Some(true),
            None => result = None,
            Some(false) => {}
        }
    }
    result
}

fn text_predicate(op: TextOp, a: &Value, b: &Value) -> Result<Value> {
    let (Value::Text(a), Value::Text(b)) = (a, b) else { return Ok(Value::Null) };
    Ok(Value::Boolean(match op {
        TextOp::StartsWith => a.starts_with(&**b),
        TextOp::EndsWith => a.ends_with(&**b),
        TextOp::Contains => a.contains(&**b),
        TextOp::Matches => {
            return Err(Error::argument("regular expressions (=~) are not supported"));
        }
    }))
}

fn slice(base: &Value, from: Option<Value>, to: Option<Value>) -> Result<Value> {
    let Value::List(list) = base else {
        return match base {
            Value::Null => Ok(Value::Null),
            other => Err(wrong_type(format!("{} has no elements", other.type_name()))),
        };
    };
    let length = list.len() as i64;
    let place = |bound: Option<Value>, default: i64| match bound {
        None => Ok(Some(default)),
        Some(Value::Null) => Ok(None),
        Some(Value::Integer(at)) if at < 0 => Ok(Some(at.saturating_add(length).max(0))),
        Some(Value::Integer(at)) => Ok(Some(at.min(length))),
        Some(other) => {
            Err(wrong_type(format!("a list is sliced by integers, not {}", other.type_name())))
        }
    };
    let (Some(from), Some(to)) = (place(from, 0)?, place(to, length)?) else {
        return Ok(Value::Null);
    };
    Ok(Value::list(if from < to { list[from as usize..to as usize].to_vec() } else { Vec::new() }))
}

fn overflow() -> Error {
    Error::runtime(
        ErrorClass::ArithmeticError,
        "IntegerOverflow",
        "the result does not fit 64 bits",
    )
}

fn arithmetic(op: ArithmeticOp, a: Value, b: Value) -> Result<Value> {
    use ArithmeticOp::*;
    if let (Value::Integer(a), Value::Integer(b)) = (&a, &b) {
        return integers(op, *a, *b);
    }
    if let (Some(a), Some(b)) = (as_float(&a), as_float(&b)) {
        return Ok(Value::Float(match op {
            Add => a + b,
            Subtract => a - b,
            Multiply => a * b,
            Divide => a / b,
            Modulo => a % b,
            Power => a.powf(b),
        }));
    }
    let joins = matches!((&a, &b), (Value::List(_), _) | (_, Value::List(_))) && op == Add;
    if (a.is_null() || b.is_null()) && !joins {
        return Ok(Value::Null);
    }
    Ok(match (op, &a, &b) {
        (Add, Value::List(_), Value::Null) | (Add, Value::Null, Value::List(_)) => Value::Null,
        (Add, Value::List(a), Value::List(b)) => {
            Value::list(a.iter().chain(b.iter()).cloned().collect())
        }
        (Add, Value::List(a), b) => Value::list(a.iter().chain([b]).cloned().collect()),
        (Add, a, Value::List(b)) => Value::list([a].into_iter().chain(b.iter()).cloned().collect()),
        (Add, Value::Text(a), Value::Text(b)) => Value::text(&format!("{a}{b}")),
        (Add, Value::Text(a), Value::Integer(_) | Value::Float(_)) => {
            Value::text(&format!("{a}{b}"))
        }
        (Add, Value::Integer(_) | Value::Float(_), Value::Text(b)) => {
            Value::text(&format!("{a}{b}"))
        }
        (Add, Value::Duration(a), Value::Duration(b)) => Value::duration(a.plus(**b)?),
        (Subtract, Value::Duration(a), Value::Duration(b)) => {
            Value::duration(a.plus(b.negated()?)?)
        }
        (Multiply, Value::Duration(a), b) | (Multiply, b, Value::Duration(a))
            if as_float(b).is_some() =>
        {
            Value::duration(a.times(as_float(b).expect("the guard found a number"))?)
        }
        (Divide, Value::Duration(a), b) if as_float(b).is_some() => {
            Value::duration(a.times(1.0 / as_float(b).expect("the guard found a number"))?)
        }
        (Add, value, Value::Duration(duration)) | (Add, Value::Duration(duration), value) => {
            temporal::arithmetic::plus(value, **duration)?.ok_or_else(|| no_arithmetic(&a, &b))?
        }
        (Subtract, value, Value::Duration(duration)) => {
            temporal::arithmetic::plus(value, duration.negated()?)?
                .ok_or_else(|| no_arithmetic(&a, &b))?
        }
        _ => return Err(no_arithmetic(&a, &b)),
    })
}

fn no_arithmetic(a: &Value, b: &Value) -> Error {
    wrong_type(format!("no arithmetic is defined on {} and {}", a.type_name(), b.type_name()))
}

fn as_float(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    }
}

fn integers(op: ArithmeticOp, a: i64, b: i64) -> Result<Value> {
    let result = match op {
        ArithmeticOp::Add => a.checked_add(b),
        ArithmeticOp::Subtract => a.checked_sub(b),
        ArithmeticOp::Multiply => a.checked_mul(b),
        ArithmeticOp::Divide | ArithmeticOp::Modulo if b == 0 => {
            let message = "a division by zero";
            return Err(Error::runtime(ErrorClass::ArithmeticError, "DivisionByZero", message));
        }
        ArithmeticOp::Divide => a.checked_div(b),
        ArithmeticOp::Modulo => Some(a.wrapping_rem(b)),
        ArithmeticOp::Power => return Ok(Value::Float((a as f64).powf(b as f64))),
    };
    result.map(Value::Integer).ok_or_else(overflow)
}
