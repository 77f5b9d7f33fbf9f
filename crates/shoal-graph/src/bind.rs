//! Names to slots, and the faults that a query has before any row is read.
//!
//! A row of a clause is a list of values; each variable, named or not, has a slot in it. Variables
//! of comprehensions lie on a stack of their own (slots from [`LOCAL`]), columns of the projection
//! whose rows are sorted or filtered in another (slots from [`OUT`]).

mod expression;
mod pattern;
mod projection;
pub(crate) mod visit;

use crate::ast::*;
use crate::error::{Error, ErrorClass, Result};
use crate::procedure::Procedures;
use crate::value::Map;

/// First slot of a projection's columns.
pub(crate) const OUT: usize = 1 << 40;
/// First slot of variables of comprehensions.
pub(crate) const LOCAL: usize = 1 << 41;

/// The kind of an expression's values, as far as the query's text tells.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Type {
    Any,
    Null,
    Boolean,
    Integer,
    Float,
    Text,
    List(Box<Type>),
    Map,
    Node,
    Relationship,
    Path,
    Temporal,
}

impl Type {
    fn list_of(element: Type) -> Type {
        Type::List(Box::new(element))
    }

    fn may_be(&self, kinds: &[Type]) -> bool {
        matches!(self, Type::Any | Type::Null) || kinds.contains(self)
    }

    fn may_be_list(&self) -> bool {
        matches!(self, Type::Any | Type::Null | Type::List(_))
    }

    fn of_value(value: &crate::value::Value) -> Type {
        use crate::value::Value;
        match value {
            Value::Null => Type::Null,
            Value::Boolean(_) => Type::Boolean,
            Value::Integer(_) => Type::Integer,
            Value::Float(_) => Type::Float,
            Value::Text(_) => Type::Text,
            Value::List(_) => Type::list_of(Type::Any),
            Value::Map(_) => Type::Map,
            _ => Type::Any,
        }
    }
}

#[derive(Clone, Debug)]
struct ScopeVar {
    /// `None` of a pattern's element without a name.
    name: Option<String>,
    kind: Type,
}

#[derive(Clone, Copy, PartialEq)]
enum Aggregation {
    Forbidden,
    Allowed,
    Inside,
}

pub(super) struct Binder<'q> {
    vars: Vec<ScopeVar>,
    locals: Vec<(String, Type)>,
    out: Vec<(String, Type)>,
    aggregation: Aggregation,
    /// True where a pattern stands for a truth value.
    accepts_pattern: bool,
    in_subquery: bool,
    /// `None` where parameters come later.
    parameters: Option<&'q Map>,
    procedures: &'q dyn Procedures,
}

/// The names of a query's columns, whatever its parameters are.
pub(crate) fn names(query: &mut Query, procedures: &dyn Procedures) -> Result<Vec<String>> {
    let mut binder = Binder::new(None, procedures);
    binder.parts(&mut query.parts)
}

/// Binds a query; gives the names of its columns.
pub(crate) fn bind(
    query: &mut Query,
    parameters: &Map,
    procedures: &dyn Procedures,
) -> Result<Vec<String>> {
    let mut binder = Binder::new(Some(parameters), procedures);
    binder.parts(&mut query.parts)
}

impl<'q> Binder<'q> {
    fn new(parameters: Option<&'q Map>, procedures: &'q dyn Procedures) -> Binder<'q> {
        Binder {
            vars: Vec::new(),
            locals: Vec::new(),
            out: Vec::new(),
            aggregation: Aggregation::Forbidden,
            accepts_pattern: false,
            in_subquery: false,
            parameters,
            procedures,
        }
    }

    fn has_parameter(&self, name: &str) -> bool {
        self.parameters.is_none_or(|parameters| parameters.contains_key(name))
    }
}

impl Binder<'_> {
    fn parts(&mut self, parts: &mut [Part]) -> Result<Vec<String>> {
        let outer = self.vars.len();
        let mut columns: Option<Vec<String>> = None;
        for part in parts {
            let saved = self.vars.clone();
            let found = self.part(part)?;
            self.vars = saved;
            debug_assert_eq!(self.vars.len(), outer);
            match &columns {
                Some(first) if *first != found => {
                    let message = "the parts of a UNION have the same columns in the same order";
                    return Err(Error::syntax("DifferentColumnsInUnion", part.pos.at(), message));
                }
                _ => columns = Some(found),
            }
        }
        Ok(columns.expect("a query has a part"))
    }

    fn part(&mut self, part: &mut Part) -> Result<Vec<String>> {
        let composition = |at: Pos, message: &str| {
            Err(Error::syntax("InvalidClauseComposition", at.at(), message))
        };
        let count = part.clauses.len();
        let mut columns = Vec::new();
        for (at, clause) in part.clauses.iter_mut().enumerate() {
            let is_last = at + 1 == count;
            match clause {
                Clause::Match(found) => {
                    self.match_clause(found)?;
                    if is_last && !self.in_subquery {
                        return composition(found.pos, "a query does not end with MATCH");
                    }
                }
                Clause::Unwind { list, var } => {
                    let kind = match self.plain(list)? {
                        Type::List(element) => *element,
                        _ => Type::Any,
                    };
                    var.slot = self.declare_new(var, kind)?;
                    if is_last && !self.in_subquery {
                        return composition(var.pos, "a query does not end with UNWIND");
                    }
                }
                Clause::Project(projection) => {
                    if projection.is_return && !is_last {
                        return composition(projection.pos, "RETURN is the last clause");
                    }
                    if !projection.is_return && is_last && !self.in_subquery {
                        return composition(projection.pos, "a query does not end with WITH");
                    }
                    let names = self.projection(projection)?;
                    if projection.is_return {
                        columns = names;
                    }
                }
                Clause::Call(call) => {
                    let names = self.call(call)?;
                    if call.is_standalone {
                        columns = names;
                    } else if is_last && !self.in_subquery && !names.is_empty() {
                        return composition(call.pos, "a query does not end with CALL ... YIELD");
                    }
                }
                Clause::Create { pos, .. }
                | Clause::Set { pos, .. }
                | Clause::Remove { pos, .. }
                | Clause::Delete { pos, .. }
                | Clause::Merge(Merge { pos, .. })
                    if self.in_subquery =>
                {
                    return composition(*pos, "a subquery of an expression writes nothing");
                }
                clause => self.write(clause)?,
            }
        }
        Ok(columns)
    }

    fn write(&mut self, clause: &mut Clause) -> Result<()> {
        match clause {
            Clause::Create { patterns, width, .. } => {
                for pattern in patterns {
                    self.create_pattern(pattern, false)?;
                }
                *width = self.vars.len();
            }
            Clause::Merge(merge) => {
                merge.before = self.vars.len();
                self.create_pattern(&mut merge.pattern, true)?;
                merge.after = self.vars.len();
                for item in merge.on_create.iter_mut().chain(&mut merge.on_match) {
                    self.set_item(item)?;
                }
            }
            Clause::Set { items, .. } => {
                items.iter_mut().try_for_each(|item| self.set_item(item))?
            }
            Clause::Remove { items, .. } => {
                for item in items {
                    let (RemoveItem::Property { target, .. } | RemoveItem::Labels { target, .. }) =
                        item;
                    self.plain(target)?;
                }
            }
            Clause::Delete { items, .. } => {
                for item in items {
                    if matches!(item.kind, Kind::HasLabels(..)) {
                        let message =
                            "DELETE takes nodes, relationships and paths; REMOVE takes labels";
                        return Err(Error::syntax("InvalidDelete", item.pos.at(), message));
                    }
                    let kind = self.plain(item)?;
                    if !kind.may_be(&[Type::Node, Type::Relationship, Type::Path]) {
                        let message = "DELETE takes nodes, relationships and paths";
                        return Err(Error::syntax("InvalidArgumentType", item.pos.at(), message));
                    }
                }
            }
            _ => unreachable!("a clause that writes"),
        }
        Ok(())
    }

    fn set_item(&mut self, item: &mut SetItem) -> Result<()> {
        match item {
            SetItem::Property { target, value, .. } => {
                self.plain(target)?;
                self.plain(value)?;
            }
            SetItem::All { target, value, .. } => {
                self.plain(target)?;
                self.plain(value)?;
            }
            SetItem::Labels { target, .. } => {
                self.plain(target)?;
            }
        }
        Ok(())
    }

    /// An expression without aggregates.
    fn plain(&mut self, expr: &mut Expr) -> Result<Type> {
        self.aggregation = Aggregation::Forbidden;
        self.accepts_pattern = false;
        self.expr(expr)
    }

    /// A condition without aggregates, in which patterns are truth values.
    fn condition(&mut self, expr: &mut Expr) -> Result<()> {
        self.aggregation = Aggregation::Forbidden;
        self.accepts_pattern = true;
        let kind = self.expr(expr);
        self.accepts_pattern = false;
        if !kind?.may_be(&[Type::Boolean]) {
            let message = "a condition is a boolean";
            return Err(Error::syntax("InvalidArgumentType", expr.pos.at(), message));
        }
        Ok(())
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.vars.iter().rposition(|var| var.name.as_deref() == Some(name))
    }

    fn push(&mut self, name: Option<String>, kind: Type) -> usize {
        self.vars.push(ScopeVar { name, kind });
        self.vars.len() - 1
    }

    /// A new variable, which no other in scope has the name of.
    fn declare_new(&mut self, var: &Var, kind: Type) -> Result<usize> {
        if self.find(&var.name).is_some() {
            let message = format!("{} is bound already", var.name);
            return Err(Error::syntax("VariableAlreadyBound", var.pos.at(), message));
        }
        Ok(self.push(Some(var.name.clone()), kind))
    }

    fn call(&mut self, call: &mut Call) -> Result<Vec<String>> {
        let at = call.pos.at();
        let Some(signature) = self.procedures.signature(&call.name) else {
            let message = format!("no procedure is named {}", call.name);
            return Err(Error::compile(
                ErrorClass::ProcedureError,
                "ProcedureNotFound",
                at,
                message,
            ));
        };
        match &mut call.args {
            Some(args) => {
                let (least, most) = (signature.required(), signature.inputs.len());
                if args.len() < least || args.len() > most {
                    let message = format!(
                        "{} takes {least} to {most} arguments, not {}",
                        call.name,
                        args.len()
                    );
                    return Err(Error::syntax("InvalidNumberOfArguments", at, message));
                }
                for (arg, input) in args.iter_mut().zip(&signature.inputs) {
                    let kind = self.plain(arg)?;
                    let fits = match input.kind {
                        crate::procedure::ValueKind::Any => true,
                        crate::procedure::ValueKind::Boolean => kind.may_be(&[Type::Boolean]),
                        crate::procedure::ValueKind::Integer => kind.may_be(&[Type::Integer]),
                        crate::procedure::ValueKind::Float
                        | crate::procedure::ValueKind::Number => {
                            kind.may_be(&[Type::Integer, Type::Float])
                        }
                        crate::procedure::ValueKind::Text => kind.may_be(&[Type::Text]),
                        crate::procedure::ValueKind::List => kind.may_be_list(),
                        crate::procedure::ValueKind::Map => kind.may_be(&[Type::Map]),
                        crate::procedure::ValueKind::Node => kind.may_be(&[Type::Node]),
                    };
                    if !fits {
                        let message = format!("the argument {} has another type", input.name);
                        return Err(Error::syntax("InvalidArgumentType", arg.pos.at(), message));
                    }
                }
            }
            None => {
                for input in &signature.inputs {
                    if !input.is_optional && !self.has_parameter(&input.name) {
                        let message = format!("the parameter {} is missing", input.name);
                        return Err(Error::compile(
                            ErrorClass::ParameterMissing,
                            "MissingParameter",
                            at,
                            message,
                        ));
                    }
                }
            }
        }
        if call.is_standalone && !matches!(call.yields, Yield::Items(_)) {
            let var = |name: &str| Var { name: name.to_owned(), slot: UNBOUND, pos: call.pos };
            let all = signature.outputs.iter().map(|output| (output.clone(), var(output)));
            call.yields = Yield::Items(all.collect());
        }
        let mut names = Vec::new();
        if let Yield::Items(items) = &mut call.yields {
            for (output, var) in items {
                if !signature.outputs.contains(output) {
                    let message = format!("{} yields no {output}", call.name);
                    return Err(Error::syntax("UndefinedVariable", var.pos.at(), message));
                }
                var.slot = self.declare_new(var, Type::Any)?;
                names.push(var.name.clone());
            }
        }
        if let Some(filter) = &mut call.filter {
            self.condition(filter)?;
        }
        Ok(names)
    }
}
