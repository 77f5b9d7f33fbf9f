//! What `EXPLAIN` shows of a statement that writes: the query for the rows that are written.

use super::query::joined;
use crate::parse::ast::{
    Expr, ExprKind, From, Indexed, Insert, InsertSource, Name, ObjectName, ResultColumn, Select,
    SelectCore, Stmt, TableRef, TableRefKind, Update, With,
};
use crate::value::Value;

/// The query of an `INSERT`, `UPDATE` or `DELETE`: the rows to come, or the rows to be changed with
/// their new values. `None` for rows given by their values, for a table that is emptied without a
/// look at its rows, and for other statements.
pub(crate) fn query_of(stmt: &Stmt) -> Option<Select> {
    match stmt {
        Stmt::Insert(insert) => of_insert(insert),
        Stmt::Update(update) => Some(of_update(update)),
        Stmt::Delete(delete) => {
            let filter = delete.filter.clone();
            if filter.is_none() && delete.returning.is_none() {
                return None;
            }
            let offset = delete.table.name.offset;
            let one = Expr { kind: ExprKind::Literal(Value::Int(1)), offset };
            let indexed = indexed(&delete.indexed, filter.is_none());
            let first = table(&delete.table, delete.alias.as_ref(), indexed);
            let from = From { first, joins: Vec::new() };
            let select = Select::plain(vec![column(one)], Some(from), filter, offset);
            Some(with(select, delete.with.as_ref()))
        }
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
    let offset = update.table.name.offset;
    let columns = update.sets.iter().map(|(_, value)| column(value.clone())).collect();
    let indexed = indexed(&update.indexed, update.filter.is_none() && update.from.is_none());
    let first = table(&update.table, update.alias.as_ref(), indexed);
    let from = From { first, joins: update.from.as_ref().map(joined).unwrap_or_default() };
    let select = Select::plain(columns, Some(from), update.filter.clone(), offset);
    with(select, update.with.as_ref())
}

/// Whole tables are changed in the order of their own trees.
fn indexed(indexed: &Indexed, is_whole: bool) -> Indexed {
    match indexed {
        Indexed::Any if is_whole => Indexed::Not,
        indexed => indexed.clone(),
    }
}

fn table(name: &ObjectName, alias: Option<&Name>, indexed: Indexed) -> TableRef {
    let kind = TableRefKind::Table { name: name.clone(), indexed };
    TableRef { kind, alias: alias.cloned(), offset: name.name.offset }
}

fn with(select: Select, named: Option<&With>) -> Select {
    match named {
        Some(named) => Select { with: Some(named.clone()), ..select },
        None => select,
    }
}

fn column(expr: Expr) -> ResultColumn {
    ResultColumn::Expr { expr, alias: None, text: String::new() }
}
