//! The actions of foreign keys, as statements of programs run by changes of the parent.
//!
//! No text of the user's can name the rows and tables of these statements: names hold a zero byte.

use std::sync::Arc;

use super::query::RowQuery;
use crate::Error;
use crate::parse::ast::{
    BinaryOp, Delete, Expr, ExprKind, From, Indexed, Name, ObjectName, Quote, ResultColumn, Select,
    Stmt, TableRef, TableRefKind, TriggerEvent, UnaryOp, Update,
};
use crate::resolve::{Around, GivenRow};
use crate::schema::{Column, Schema, Table};
use crate::value::Value;

/// The name of the parent's row before its change.
pub(crate) const OLD: &str = "\0old";
/// The name of the parent's row after its change.
pub(crate) const NEW: &str = "\0new";
/// The alias of the child.
const CHILD: &str = "\0child";

/// What a key does to the rows referring to a changed row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Restrict,
    SetNull,
    SetDefault,
    Cascade,
}

impl Action {
    /// The action called `name`; `None` for `NO ACTION`.
    pub(crate) fn named(name: &str) -> Option<Action> {
        let all = [
            ("RESTRICT", Action::Restrict),
            ("SET NULL", Action::SetNull),
            ("SET DEFAULT", Action::SetDefault),
            ("CASCADE", Action::Cascade),
        ];
        all.into_iter().find(|(known, _)| *known == name).map(|(_, action)| action)
    }
}

/// An action as a program: a condition and one statement.
pub(crate) struct Text {
    /// The condition of an `UPDATE`: the key became another one.
    pub(crate) when: Option<Expr>,
    /// The statement; the rows of a query refuse the change.
    pub(crate) step: Stmt,
}

/// Counts the rows of `child` referring to a row of `parent` at hand, the row itself left out.
///
/// # Errors
/// The resolver's.
pub(crate) fn referring(
    schema: &Schema,
    parent: &Arc<Table>,
    child: &Arc<Table>,
    pairs: &[(usize, usize)],
    is_self: bool,
) -> Result<RowQuery, Error> {
    let row = GivenRow::new(parent, OLD, 1).by_name_only();
    let mut terms = equalities(parent, child, pairs);
    if is_self {
        terms.extend(is_another_row(parent));
    }
    let count = Expr {
        kind: ExprKind::Call(Box::new(crate::parse::ast::Call {
            name: name("count"),
            distinct: false,
            arguments: Vec::new(),
            star: true,
            order_by: Vec::new(),
            filter: None,
            over: None,
        })),
        offset: 0,
    };
    let select = select(schema, child, count, all_of(terms));
    let next = row.end();
    let around = Around { rows: &[row], next, ..Around::statement(0) };
    RowQuery::compile(schema, &select, around)
}

/// The program of an action.
pub(crate) fn text(
    schema: &Schema,
    parent: &Table,
    child: &Table,
    pairs: &[(usize, usize)],
    event: TriggerEvent,
    action: Action,
) -> Text {
    let filter = all_of(equalities(parent, child, pairs));
    let table = object(schema, child);
    let when = (event == TriggerEvent::Update).then(|| {
        let same = pairs.iter().map(|&(own, _)| {
            let column = &parent.columns[own].name;
            binary(BinaryOp::Is, column_of(OLD, column), column_of(NEW, column))
        });
        let same = same.reduce(|left, right| binary(BinaryOp::And, left, right));
        let same = same.unwrap_or_else(|| literal(Value::Int(1)));
        Expr { kind: ExprKind::Unary(UnaryOp::Not, Box::new(same)), offset: 0 }
    });
    let value = |&(own, column): &(usize, usize)| match action {
        Action::Cascade => column_of(NEW, &parent.columns[own].name),
        Action::SetDefault => default_of(&child.columns[column]),
        Action::SetNull | Action::Restrict => literal(Value::Null),
    };
    let step = match (action, event) {
        (Action::Restrict, _) => {
            Stmt::Select(Box::new(select(schema, child, literal(Value::Int(1)), filter)))
        }
        (Action::Cascade, TriggerEvent::Delete) => Stmt::Delete(Box::new(Delete {
            with: None,
            table,
            alias: Some(name(CHILD)),
            indexed: Indexed::Any,
            filter,
            returning: None,
        })),
        _ => Stmt::Update(Box::new(Update {
            with: None,
            conflict: None,
            table,
            at: None,
            alias: Some(name(CHILD)),
            indexed: Indexed::Any,
            sets: pairs
                .iter()
                .map(|pair| (vec![name(&child.columns[pair.1].name)], value(pair)))
                .collect(),
            from: None,
            filter,
            returning: None,
            offset: 0,
        })),
    };
    Text { when, step }
}

/// A column's default; a bare word is text here.
fn default_of(column: &Column) -> Expr {
    match &column.default {
        None => literal(Value::Null),
        Some(expr) => match &expr.kind {
            ExprKind::Column { table: None, column: word, .. } => {
                literal(match word.text.to_ascii_lowercase().as_str() {
                    "true" if word.quote == Quote::None => Value::Int(1),
                    "false" if word.quote == Quote::None => Value::Int(0),
                    _ => Value::text(word.text.as_str()),
                })
            }
            _ => expr.clone(),
        },
    }
}

/// `old.a = child.b`, the parent's column first: its collation counts.
fn equalities(parent: &Table, child: &Table, pairs: &[(usize, usize)]) -> Vec<Expr> {
    let term = |&(own, column): &(usize, usize)| {
        let (own, column) = (&parent.columns[own], &child.columns[column]);
        binary(BinaryOp::Equal, column_of(OLD, &own.name), column_of(CHILD, &column.name))
    };
    pairs.iter().map(term).collect()
}

/// The condition of being another row than the one at hand.
fn is_another_row(table: &Table) -> Option<Expr> {
    if table.without_rowid {
        let same = table.primary_key.iter().map(|part| {
            let column = &table.columns[part.column].name;
            binary(BinaryOp::Is, column_of(OLD, column), column_of(CHILD, column))
        });
        let same = same.reduce(|left, right| binary(BinaryOp::And, left, right))?;
        return Some(Expr { kind: ExprKind::Unary(UnaryOp::Not, Box::new(same)), offset: 0 });
    }
    let free = ["rowid", "_rowid_", "oid"];
    let alias = table.rowid_alias.map(|place| table.columns[place].name.as_str());
    let free = free.into_iter().find(|name| table.column_index(name).is_none());
    let rowid = alias.or(free)?;
    Some(binary(BinaryOp::NotEqual, column_of(OLD, rowid), column_of(CHILD, rowid)))
}

fn all_of(terms: Vec<Expr>) -> Option<Expr> {
    terms.into_iter().reduce(|left, right| binary(BinaryOp::And, left, right))
}

fn select(schema: &Schema, child: &Table, expr: Expr, filter: Option<Expr>) -> Select {
    let kind = TableRefKind::Table { name: object(schema, child), indexed: Indexed::Any };
    let first = TableRef { kind, alias: Some(name(CHILD)), offset: 0 };
    let column = ResultColumn::Expr { expr, alias: None, text: String::new() };
    Select::plain(vec![column], Some(From { first, joins: Vec::new() }), filter, 0)
}

/// A table by its database and its name.
fn object(schema: &Schema, table: &Table) -> ObjectName {
    let database = schema.database_name(table.database);
    ObjectName { database: Some(name(database)), name: name(&table.name) }
}

fn name(text: &str) -> Name {
    Name { text: text.to_owned(), offset: 0, quote: Quote::Other }
}

fn literal(value: Value) -> Expr {
    Expr { kind: ExprKind::Literal(value), offset: 0 }
}

fn column_of(row: &str, column: &str) -> Expr {
    let kind = ExprKind::Column { database: None, table: Some(name(row)), column: name(column) };
    Expr { kind, offset: 0 }
}

fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    Expr { kind: ExprKind::Binary(op, Box::new(left), Box::new(right)), offset: 0 }
}
