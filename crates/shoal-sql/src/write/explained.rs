//! What `EXPLAIN` shows of a statement that writes: the query for the rows that are written.

use super::query::Named;
use crate::parse::ast::{
    Delete, Expr, ExprKind, Insert, InsertSource, Select, SelectCore, Stmt, Update, With,
};
use crate::value::Value;

/// The query of an `INSERT`, `UPDATE` or `DELETE`: the rows to come, or the rows to be changed with
/// their new values. `None` for rows given by their values, for a table that is emptied without a
/// look at its rows, and for other statements.
pub(crate) fn query_of(stmt: &Stmt) -> Option<Select> {
    match stmt {
        Stmt::Insert(insert) => of_insert(insert),
        Stmt::Update(update) => Some(of_update(update)),
        Stmt::Delete(delete) => of_delete(delete),
        _ => None,
    }
}

fn of_insert(insert: &Insert) -> Option<Select> {
    let InsertSource::Select(select) = &insert.source else { return None };
    match &select.first {
        SelectCore::Values(values) if values.rows.len() == 1 && select.compounds.is_empty() => None,
        _ => Some(with((**select).clone(), insert.with.as_ref())),
    }
}

fn of_update(update: &Update) -> Select {
    let Update { table: name, alias, indexed, from, filter, .. } = update;
    let (alias, from, filter) = (alias.as_ref(), from.as_ref(), filter.as_ref());
    let named = Named { name, at: None, alias, indexed, from, filter };
    let values = update.sets.iter().map(|(_, value)| value.clone());
    with(named.select(values, true), update.with.as_ref())
}

fn of_delete(delete: &Delete) -> Option<Select> {
    let Delete { table: name, alias, indexed, filter, returning, .. } = delete;
    if filter.is_none() && returning.is_none() {
        return None;
    }
    let (alias, filter) = (alias.as_ref(), filter.as_ref());
    let named = Named { name, at: None, alias, indexed, from: None, filter };
    let one = Expr { kind: ExprKind::Literal(Value::Int(1)), offset: name.name.offset };
    Some(with(named.select(std::iter::once(one), true), delete.with.as_ref()))
}

fn with(select: Select, named: Option<&With>) -> Select {
    match named {
        Some(named) => Select { with: Some(named.clone()), ..select },
        None => select,
    }
}
