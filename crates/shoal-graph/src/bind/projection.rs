//! `WITH` and `RETURN`: columns, groups, sort keys.

use super::visit::{children, children_mut, has_aggregate, slots};
use super::{Aggregation, Binder, LOCAL, OUT, ScopeVar};
use crate::ast::*;
use crate::error::{Error, Result};
use crate::value::Value;

impl Binder<'_> {
    /// Binds a projection, replaces the scope by its columns, gives their names.
    pub(super) fn projection(&mut self, projection: &mut Projection) -> Result<Vec<String>> {
        projection.before = self.vars.len();
        if projection.star {
            self.expand_star(projection)?;
        }
        let mut kinds = Vec::new();
        for item in &mut projection.items {
            self.aggregation = Aggregation::Allowed;
            self.accepts_pattern = false;
            kinds.push(self.expr(&mut item.expr)?);
            self.aggregation = Aggregation::Forbidden;
        }
        let names: Vec<String> = projection.items.iter().map(|item| item.name.clone()).collect();
        for (at, name) in names.iter().enumerate() {
            if names[..at].contains(name) {
                let message = format!("two columns are named {name}");
                return Err(Error::syntax(
                    "ColumnNameConflict",
                    projection.items[at].expr.pos.at(),
                    message,
                ));
            }
        }
        let groups = projection.items.iter().any(|item| has_aggregate(&item.expr));
        let originals: Vec<Expr> = projection.items.iter().map(|item| item.expr.clone()).collect();
        if groups {
            projection.groups = Some(group(&mut projection.items)?);
        }
        self.out = names.iter().cloned().zip(kinds.iter().cloned()).collect();
        self.sort_keys(projection, &originals)?;
        self.bounds(projection)?;
        self.out.clear();
        for (item, original) in projection.items.iter().zip(&originals) {
            let is_named = item.has_alias || matches!(original.kind, Kind::Variable(_));
            if !projection.is_return && !is_named {
                let message = "WITH gives a name to each expression: expression AS name";
                return Err(Error::syntax("NoExpressionAlias", original.pos.at(), message));
            }
        }
        let scope: Vec<ScopeVar> = names
            .iter()
            .zip(kinds)
            .map(|(name, kind)| ScopeVar { name: Some(name.clone()), kind })
            .collect();
        let old = std::mem::replace(&mut self.vars, scope);
        if let Some(filter) = &mut projection.filter {
            let mut inner = filter.clone();
            match self.condition(&mut inner) {
                Ok(()) => {
                    *filter = inner;
                }
                Err(error) if error.detail() == "UndefinedVariable" => {
                    let scope = std::mem::replace(&mut self.vars, old);
                    self.out = scope
                        .iter()
                        .filter_map(|var| Some((var.name.clone()?, var.kind.clone())))
                        .collect();
                    let bound = self.condition(filter);
                    self.out.clear();
                    self.vars = scope;
                    bound?;
                    let gathers = groups
                        || projection.distinct
                        || !projection.order.is_empty()
                        || projection.skip.is_some()
                        || projection.limit.is_some();
                    if gathers {
                        to_columns(filter, &originals, None)?;
                    }
                    projection.filters_wide = true;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(names)
    }

    fn expand_star(&mut self, projection: &mut Projection) -> Result<()> {
        let mut all: Vec<(usize, String)> = self
            .vars
            .iter()
            .enumerate()
            .filter_map(|(slot, var)| Some((slot, var.name.clone()?)))
            .collect();
        if all.is_empty() && projection.items.is_empty() && projection.is_return {
            let message = "* is for variables, and none is in scope";
            return Err(Error::syntax("NoVariablesInScope", projection.pos.at(), message));
        }
        all.sort_by(|a, b| a.1.cmp(&b.1));
        let stars = all.into_iter().map(|(slot, name)| {
            let var = Var { name: name.clone(), slot, pos: projection.pos };
            Item { expr: Expr::new(Kind::Variable(var), projection.pos), name, has_alias: true }
        });
        let items = std::mem::take(&mut projection.items);
        projection.items = stars.chain(items).collect();
        projection.star = false;
        Ok(())
    }

    fn sort_keys(&mut self, projection: &mut Projection, originals: &[Expr]) -> Result<()> {
        let Projection { order, groups, distinct, .. } = projection;
        for key in order {
            self.aggregation =
                if groups.is_some() { Aggregation::Allowed } else { Aggregation::Forbidden };
            self.expr(&mut key.expr)?;
            self.aggregation = Aggregation::Forbidden;
            if groups.is_some() || *distinct {
                to_columns(&mut key.expr, originals, groups.as_mut())?;
            }
        }
        Ok(())
    }

    fn bounds(&mut self, projection: &mut Projection) -> Result<()> {
        for bound in projection.skip.iter_mut().chain(&mut projection.limit) {
            let at = bound.pos.at();
            let mut reads = super::visit::has_subquery(bound);
            any_variable(bound, &mut reads);
            if reads {
                let message = "SKIP and LIMIT read no variables";
                return Err(Error::syntax("NonConstantExpression", at, message));
            }
            self.plain(bound)?;
            match &bound.kind {
                Kind::Literal(Value::Integer(number)) if *number < 0 => {
                    let message = "SKIP and LIMIT are not negative";
                    return Err(Error::syntax("NegativeIntegerArgument", at, message));
                }
                Kind::Literal(Value::Integer(_)) => {}
                Kind::Literal(_) => {
                    return Err(Error::syntax(
                        "InvalidArgumentType",
                        at,
                        "SKIP and LIMIT are integers",
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn any_variable(expr: &Expr, found: &mut bool) {
    *found |= matches!(expr.kind, Kind::Variable(_));
    children(expr, &mut |child| any_variable(child, found));
}

/// Rewrites items to read one row of keys and results of aggregates.
fn group(items: &mut [Item]) -> Result<Groups> {
    let keys: Vec<Expr> = items
        .iter()
        .filter(|item| !has_aggregate(&item.expr))
        .map(|item| item.expr.clone())
        .collect();
    let mut groups = Groups { keys, aggregates: Vec::new() };
    for item in items {
        if let Some(at) = groups.keys.iter().position(|key| *key == item.expr) {
            item.expr.kind = slot(at);
            continue;
        }
        to_group(&mut item.expr, &mut groups)?;
    }
    // Results of aggregates come after the keys, whose number is known from the start.
    Ok(groups)
}

fn slot(slot: usize) -> Kind {
    Kind::Variable(Var { name: String::new(), slot, pos: Pos::default() })
}

fn is_simple(key: &Expr) -> bool {
    match &key.kind {
        Kind::Variable(_) => true,
        Kind::Property(base, _) => matches!(base.kind, Kind::Variable(_)),
        _ => false,
    }
}

fn to_group(expr: &mut Expr, groups: &mut Groups) -> Result<()> {
    if let Some(aggregate) = aggregate_of(expr) {
        expr.kind = slot(add_aggregate(aggregate, groups));
        return Ok(());
    }
    if let Some(at) = groups.keys.iter().position(|key| key == expr && is_simple(key)) {
        expr.kind = slot(at);
        return Ok(());
    }
    let is_foreign = match &expr.kind {
        Kind::Variable(var) => var.slot < LOCAL,
        _ => is_subquery(expr),
    };
    if is_foreign {
        return Err(ambiguous(expr.pos));
    }
    each_child(expr, &mut |child| to_group(child, groups))
}

fn is_subquery(expr: &Expr) -> bool {
    let is_leaf = {
        let mut leaf = true;
        children(expr, &mut |_| leaf = false);
        leaf
    };
    is_leaf && super::visit::has_subquery(expr)
}

fn ambiguous(pos: Pos) -> Error {
    let message = "beside an aggregate an expression reads variables and properties that are columns \
                   themselves";
    Error::syntax("AmbiguousAggregationExpression", pos.at(), message)
}

fn each_child(expr: &mut Expr, visit: &mut dyn FnMut(&mut Expr) -> Result<()>) -> Result<()> {
    let mut result = Ok(());
    children_mut(expr, &mut |child| {
        if result.is_ok() {
            result = visit(child);
        }
    });
    result
}

fn aggregate_of(expr: &Expr) -> Option<Aggregate> {
    match &expr.kind {
        Kind::CountStar => {
            Some(Aggregate { kind: AggregateKind::CountStar, distinct: false, args: Vec::new() })
        }
        Kind::Call { function: Function::Aggregate(kind), distinct, args, .. } => {
            Some(Aggregate { kind: *kind, distinct: *distinct, args: args.clone() })
        }
        _ => None,
    }
}

/// The slot of an aggregate's result; equal ones are computed once.
fn add_aggregate(aggregate: Aggregate, groups: &mut Groups) -> usize {
    let known = groups.aggregates.iter().position(|other| *other == aggregate);
    let at = known.unwrap_or_else(|| {
        groups.aggregates.push(aggregate);
        groups.aggregates.len() - 1
    });
    groups.keys.len() + at
}

/// Rewrites a sort key of grouped or distinct rows to read columns.
fn to_columns(expr: &mut Expr, originals: &[Expr], mut groups: Option<&mut Groups>) -> Result<()> {
    if let Some(at) = originals.iter().position(|original| original == expr) {
        expr.kind = slot(OUT + at);
        return Ok(());
    }
    if let (Some(groups), Some(aggregate)) = (groups.as_deref_mut(), aggregate_of(expr)) {
        if !groups.aggregates.contains(&aggregate) {
            let message = "rows are sorted by aggregates that are in columns";
            return Err(Error::syntax("UndefinedVariable", expr.pos.at(), message));
        }
        expr.kind = slot(add_aggregate(aggregate, groups));
        return Ok(());
    }
    if let Kind::Variable(var) = &expr.kind
        && var.slot < OUT
    {
        let mut is_in_key = false;
        for key in groups.iter().flat_map(|groups| &groups.keys) {
            slots(key, &mut |slot| is_in_key |= slot == var.slot);
        }
        if is_in_key {
            return Err(ambiguous(expr.pos));
        }
        let message = format!("{} is no column of the rows that are sorted", var.name);
        return Err(Error::syntax("UndefinedVariable", expr.pos.at(), message));
    }
    if is_subquery(expr) {
        return Err(ambiguous(expr.pos));
    }
    each_child(expr, &mut |child| to_columns(child, originals, groups.as_deref_mut()))
}
