//! Walks over the parts of an expression.

use crate::ast::*;

/// Calls `visit` with every expression directly within one, subqueries left out.
pub(crate) fn children<'e>(expr: &'e Expr, visit: &mut dyn FnMut(&'e Expr)) {
    match &expr.kind {
        Kind::Literal(_) | Kind::Parameter(_) | Kind::Variable(_) | Kind::CountStar => {}
        Kind::Pattern(_) | Kind::Exists(_) | Kind::Count(_) | Kind::ShortestPath(_) => {}
        Kind::PatternComprehension { .. } => {}
        Kind::Property(one, _)
        | Kind::Not(one)
        | Kind::Negate(one)
        | Kind::Plus(one)
        | Kind::IsNull(one, _)
        | Kind::HasLabels(one, _) => visit(one),
        Kind::Index(a, b) | Kind::Text(_, a, b) | Kind::In(a, b) => {
            visit(a);
            visit(b);
        }
        Kind::Slice(list, from, to) => {
            visit(list);
            from.iter().chain(to).for_each(|one| visit(one));
        }
        Kind::List(items) | Kind::Logic(_, items) => items.iter().for_each(visit),
        Kind::Map(fields) => fields.iter().for_each(|(_, value)| visit(value)),
        Kind::MapProjection(one, items) => {
            visit(one);
            for item in items {
                if let MapItem::Field(_, value) = item {
                    visit(value);
                }
            }
        }
        Kind::Arithmetic(first, rest) => {
            visit(first);
            rest.iter().for_each(|(_, one)| visit(one));
        }
        Kind::Compare(first, rest) => {
            visit(first);
            rest.iter().for_each(|(_, one)| visit(one));
        }
        Kind::Call { args, .. } => args.iter().for_each(visit),
        Kind::Case { operand, whens, otherwise } => {
            operand.iter().for_each(|one| visit(one));
            for (values, then) in whens {
                values.iter().for_each(&mut *visit);
                visit(then);
            }
            otherwise.iter().for_each(|one| visit(one));
        }
        Kind::ListComprehension { list, filter, map, .. } => {
            visit(list);
            filter.iter().chain(map).for_each(|one| visit(one));
        }
        Kind::Quantifier { list, filter, .. } => {
            visit(list);
            visit(filter);
        }
        Kind::Reduce { start, list, step, .. } => {
            visit(start);
            visit(list);
            visit(step);
        }
    }
}

/// As [`children`], with expressions that may be changed.
pub(crate) fn children_mut(expr: &mut Expr, visit: &mut dyn FnMut(&mut Expr)) {
    match &mut expr.kind {
        Kind::Literal(_) | Kind::Parameter(_) | Kind::Variable(_) | Kind::CountStar => {}
        Kind::Pattern(_) | Kind::Exists(_) | Kind::Count(_) | Kind::ShortestPath(_) => {}
        Kind::PatternComprehension { .. } => {}
        Kind::Property(one, _)
        | Kind::Not(one)
        | Kind::Negate(one)
        | Kind::Plus(one)
        | Kind::IsNull(one, _)
        | Kind::HasLabels(one, _) => visit(one),
        Kind::Index(a, b) | Kind::Text(_, a, b) | Kind::In(a, b) => {
            visit(a);
            visit(b);
        }
        Kind::Slice(list, from, to) => {
            visit(list);
            from.iter_mut().chain(to).for_each(|one| visit(one));
        }
        Kind::List(items) | Kind::Logic(_, items) => items.iter_mut().for_each(visit),
        Kind::Map(fields) => fields.iter_mut().for_each(|(_, value)| visit(value)),
        Kind::MapProjection(one, items) => {
            visit(one);
            for item in items {
                if let MapItem::Field(_, value) = item {
                    visit(value);
                }
            }
        }
        Kind::Arithmetic(first, rest) => {
            visit(first);
            rest.iter_mut().for_each(|(_, one)| visit(one));
        }
        Kind::Compare(first, rest) => {
            visit(first);
            rest.iter_mut().for_each(|(_, one)| visit(one));
        }
        Kind::Call { args, .. } => args.iter_mut().for_each(visit),
        Kind::Case { operand, whens, otherwise } => {
            operand.iter_mut().for_each(|one| visit(one));
            for (values, then) in whens {
                values.iter_mut().for_each(&mut *visit);
                visit(then);
            }
            otherwise.iter_mut().for_each(|one| visit(one));
        }
        Kind::ListComprehension { list, filter, map, .. } => {
            visit(list);
            filter.iter_mut().chain(map).for_each(|one| visit(one));
        }
        Kind::Quantifier { list, filter, .. } => {
            visit(list);
            visit(filter);
        }
        Kind::Reduce { start, list, step, .. } => {
            visit(start);
            visit(list);
            visit(step);
        }
    }
}

/// True of an expression that has a subquery anywhere within.
pub(crate) fn has_subquery(expr: &Expr) -> bool {
    let mut found = matches!(
        expr.kind,
        Kind::Pattern(_)
            | Kind::Exists(_)
            | Kind::Count(_)
            | Kind::ShortestPath(_)
            | Kind::PatternComprehension { .. }
    );
    children(expr, &mut |child| found = found || has_subquery(child));
    found
}

/// True of an expression with an aggregate anywhere within.
pub(crate) fn has_aggregate(expr: &Expr) -> bool {
    let is_call = matches!(expr.kind, Kind::Call { function: Function::Aggregate(_), .. });
    let mut found = is_call || expr.kind == Kind::CountStar;
    children(expr, &mut |child| found = found || has_aggregate(child));
    found
}

/// Calls `visit` with the slot of every variable within, subqueries left out.
pub(crate) fn slots(expr: &Expr, visit: &mut dyn FnMut(usize)) {
    if let Kind::Variable(var) = &expr.kind {
        visit(var.slot);
    }
    children(expr, &mut |child| slots(child, visit));
}
