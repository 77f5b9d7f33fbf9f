//! The definitions in a schema and the names in them, as `ALTER TABLE` looks at them.

use std::sync::Arc;

use shoal_store::Pgno;

use super::super::schema_rows::StoredRow;
use super::super::target::table_of_view;
use super::super::triggers::Within;
use super::super::{Context, create_table};
use crate::Error;
use crate::error::NameKind;
use crate::exec::{Place, RowExpr};
use crate::parse;
use crate::parse::ast::{
    self, ColumnConstraint, CreateIndex, CreateTable, CreateTableBody, CreateTrigger, Expr,
    ExprKind, From, InsertSource, Join, JoinConstraint, JoinKind, Name, OrderTerm, Quote,
    ResultColumn, Select, Stmt, TableConstraint, TableRef, TableRefKind, TriggerEvent,
    UpsertAction,
};
use crate::resolve::names::{Meaning, NameUse};
use crate::resolve::{Around, Clause, GivenRow, Resolver};
use crate::schema::{MAIN, Object, Schema, TEMP, Table, build_index};
use crate::value::Value;

/// Notes a change of the schema and reads the schema again from the transaction.
///
/// # Errors
/// A table or index without a meaning, as `error in table t after <change>: ...`.
pub(super) fn reread(context: &mut Context<'_>, what: &str) -> Result<Schema, Error> {
    context.transaction.bump_schema_cookie()?;
    let schema = context.schema.reread(context.transaction)?;
    let rows = StoredRow::all(context.transaction)?;
    let when = format!("after {what}");
    for row in rows.iter().filter(|row| row.kind == "table" || row.kind == "index") {
        check(Definitions { schema: &schema, database: MAIN }, row, &when, false)?;
    }
    Ok(schema)
}

/// Finds out whether every definition means something.
///
/// # Errors
/// `error in view v <when>: ...`.
pub(super) fn check_all(
    schema: &Schema,
    rows: &[StoredRow],
    when: &str,
    refuses_texts: bool,
) -> Result<(), Error> {
    let schema = Definitions { schema, database: MAIN };
    rows.iter().try_for_each(|row| check(schema, row, when, refuses_texts))
}

/// Checks the views and triggers in `temp`, as [`check_all`]; `schema` is `main`'s as changed, or
/// `None` before the change.
///
/// # Errors
/// As [`check_all`].
pub(super) fn check_temporary(
    context: &mut Context<'_>,
    schema: Option<Schema>,
    when: &str,
    refuses_texts: bool,
) -> Result<(), Error> {
    in_temporary(context, |context| {
        let rows = StoredRow::all(context.transaction)?;
        let whole;
        let schema = match schema {
            None => context.schema,
            Some(main) => {
                let temporary = context.own_schema().reread(context.transaction)?;
                whole = context.schema.with_changed(&main, temporary);
                &whole
            }
        };
        let schema = Definitions { schema, database: TEMP };
        let mut rows = rows.iter().filter(|row| row.is_view_or_trigger());
        rows.try_for_each(|row| check(schema, row, when, refuses_texts))
    })
}

/// Does some work in `temp`, where an `ALTER TABLE` of `main` changes definitions in both.
///
/// # Errors
/// The work's.
pub(super) fn in_temporary(
    context: &mut Context<'_>,
    work: impl FnOnce(&mut Context<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    if !context.others.iter().any(|(other, _)| *other == TEMP) {
        return Ok(());
    }
    context.in_database(TEMP, work)
}

/// The scope of names in definitions: all databases for `temp`'s definitions, else `main` alone.
#[derive(Clone, Copy)]
pub(super) struct Definitions<'s> {
    pub(super) schema: &'s Schema,
    /// The database with the definitions.
    pub(super) database: usize,
}

impl<'s> Definitions<'s> {
    /// The one database of unqualified names; `None` for all databases.
    fn home(self) -> Option<usize> {
        Some(self.database).filter(|database| *database != TEMP)
    }

    /// The table, view or virtual table meant by a name, and its database.
    fn object(self, name: &ast::ObjectName) -> Option<(usize, &'s Object)> {
        if self.database != TEMP {
            return self.schema.object(&name.name.text).map(|object| (MAIN, object));
        }
        self.schema.find_named(name)
    }

    /// The table meant by a name.
    fn table(self, name: &ast::ObjectName) -> Option<&'s Arc<Table>> {
        match self.object(name) {
            Some((_, Object::Table(table))) => Some(table),
            _ => None,
        }
    }
}

fn check(
    schema: Definitions<'_>,
    row: &StoredRow,
    when: &str,
    refuses_texts: bool,
) -> Result<(), Error> {
    let Some(sql) = row.sql.as_deref().filter(|_| row.is_ordinary()) else { return Ok(()) };
    names_of(schema, sql, refuses_texts).map(drop).map_err(|error| in_definition(row, when, error))
}

/// An error of a definition, in SQLite's words.
pub(super) fn in_definition(row: &StoredRow, when: &str, error: Error) -> Error {
    match error {
        error @ (Error::Store(_) | Error::Unsupported { .. } | Error::Limit { .. }) => {
            error.nowhere()
        }
        error => {
            let space = if when.is_empty() { "" } else { " " };
            Error::runtime(format!("error in {} {}{space}{when}: {error}", row.kind, row.name))
        }
    }
}

/// The names of tables and columns in a definition.
///
/// # Errors
/// The fault of the definition.
pub(super) fn names_of(
    definitions: Definitions<'_>,
    sql: &str,
    refuses_texts: bool,
) -> Result<Vec<NameUse>, Error> {
    let schema = definitions.schema;
    let parsed = parse::parse(sql)?;
    match &parsed.stmt {
        Stmt::CreateTable(definition) => table_names(schema, definition, sql, refuses_texts),
        Stmt::CreateIndex(definition) => index_names(schema, definition, refuses_texts),
        Stmt::CreateView(definition) => {
            let around = Around { home: definitions.home(), ..Around::statement(0) };
            let mut resolver = Resolver::noting(schema, around, refuses_texts);
            resolver.query(&definition.select)?;
            Ok(resolver.into_names())
        }
        Stmt::CreateTrigger(definition) => trigger_names(definitions, definition, refuses_texts),
        _ => Ok(Vec::new()),
    }
}

/// Names gathered without being resolved.
struct Found<'a> {
    definitions: Definitions<'a>,
    names: Vec<NameUse>,
}

impl<'a> Found<'a> {
    fn new(definitions: Definitions<'a>) -> Found<'a> {
        Found { definitions, names: Vec::new() }
    }

    fn add(&mut self, name: &Name, meaning: Meaning) {
        self.names.push(NameUse { offset: name.offset, text: name.text.clone(), meaning });
    }

    /// The name of one of a table's columns, if there is one.
    fn column(&mut self, table: &Table, name: &Name) {
        if table.database != MAIN {
            return;
        }
        if let Some(column) = table.column_index(&name.text) {
            self.add(name, Meaning::Column { table: table.name.clone(), column });
        }
    }

    /// A term of a key: a column, or a text standing for one.
    fn term(&mut self, table: &Table, expr: &Expr) {
        match &expr.kind {
            ExprKind::Collate { expr, .. } => self.term(table, expr),
            ExprKind::Column { table: None, column, .. } => self.column(table, column),
            ExprKind::Literal(Value::Text(text)) => {
                let text = String::from_utf8_lossy(text).into_owned();
                self.column(table, &Name { text, offset: expr.offset, quote: Quote::Single });
            }
            _ => {}
        }
    }

    fn foreign_key(&mut self, own: &Table, key: &ast::ForeignKey) {
        self.add(&key.table, Meaning::Table(key.table.text.clone()));
        // A table may refer to itself, by its own new definition.
        let is_own = key.table.is(&own.name);
        let other = self.definitions.schema.table(&key.table.text).filter(|_| !is_own).cloned();
        let parent = if is_own { Some(own) } else { other.as_deref() };
        for name in &key.columns {
            if let Some(parent) = parent {
                self.column(parent, name);
            }
        }
    }

    /// The names in an expression over one row of a table.
    fn row_expr(
        &mut self,
        table: &Table,
        expr: &Expr,
        clause: Clause,
        refuses_texts: bool,
    ) -> Result<(), Error> {
        let mut resolver =
            Resolver::noting(self.definitions.schema, Around::statement(0), refuses_texts);
        resolver.row_expr(table, expr, clause)?;
        self.names.extend(resolver.into_names());
        Ok(())
    }
}

fn table_names(
    schema: &Schema,
    definition: &CreateTable,
    sql: &str,
    refuses_texts: bool,
) -> Result<Vec<NameUse>, Error> {
    let table = create_table::check_stored(schema, definition, sql)?;
    let mut found = Found::new(Definitions { schema, database: MAIN });
    found.add(&definition.name.name, Meaning::Table(table.name.clone()));
    let CreateTableBody::Columns { columns, constraints, .. } = &definition.body else {
        return Ok(found.names);
    };
    for column in columns {
        found.column(&table, &column.name);
        for constraint in &column.constraints {
            match constraint {
                ColumnConstraint::Check { expr, .. } => {
                    found.row_expr(&table, expr, Clause::Where, refuses_texts)?;
                }
                ColumnConstraint::Generated { expr, .. } => {
                    found.row_expr(&table, expr, Clause::Generated, refuses_texts)?;
                }
                ColumnConstraint::ForeignKey(key) => found.foreign_key(&table, key),
                _ => {}
            }
        }
    }
    for constraint in constraints {
        match constraint {
            TableConstraint::PrimaryKey { columns, .. }
            | TableConstraint::Unique { columns, .. } => {
                columns.iter().for_each(|term| found.term(&table, &term.expr));
            }
            TableConstraint::Check { expr, .. } => {
                found.row_expr(&table, expr, Clause::Where, refuses_texts)?;
            }
            TableConstraint::ForeignKey { columns, key } => {
                columns.iter().for_each(|name| found.column(&table, name));
                found.foreign_key(&table, key);
            }
        }
    }
    Ok(found.names)
}

fn index_names(
    schema: &Schema,
    definition: &CreateIndex,
    refuses_texts: bool,
) -> Result<Vec<NameUse>, Error> {
    let Some(table) = schema.table(&definition.table.text) else {
        let name = format!("main.{}", definition.table.text);
        return Err(Error::no_such(NameKind::Table, &name, definition.table.offset));
    };
    let mut found = Found::new(Definitions { schema, database: MAIN });
    found.add(&definition.table, Meaning::Table(table.name.clone()));
    for OrderTerm { expr, .. } in &definition.columns {
        let mut inner = expr;
        while let ExprKind::Collate { expr, .. } = &inner.kind {
            inner = expr;
        }
        match &inner.kind {
            ExprKind::Literal(Value::Text(_)) => found.term(table, inner),
            _ => found.row_expr(table, inner, Clause::Where, refuses_texts)?,
        }
    }
    build_index(definition, Pgno::FIRST, table)
        .map_err(|message| Error::meaning(message, definition.table.offset))?;
    if let Some(filter) = &definition.filter {
        RowExpr::compile(schema, table, filter, Place::PartialIndex)?;
        found.row_expr(table, filter, Clause::Where, refuses_texts)?;
    }
    Ok(found.names)
}

fn trigger_names(
    definitions: Definitions<'_>,
    definition: &CreateTrigger,
    refuses_texts: bool,
) -> Result<Vec<NameUse>, Error> {
    let on = &definition.table.name;
    let mut of_view;
    let table = match definitions.object(&definition.table) {
        Some((_, Object::Table(table))) => &**table,
        Some((database, Object::View(view))) => {
            let within = Within::new(definitions.schema, database, false, None);
            of_view = table_of_view(&within, view, on.offset)?;
            of_view.database = database;
            &of_view
        }
        // A trigger of `temp` may outlive its table.
        _ if definitions.database == TEMP => return Ok(Vec::new()),
        _ => return Err(Error::no_such(NameKind::Table, &format!("main.{}", on.text), on.offset)),
    };
    let mut found = Found::new(definitions);
    if table.database == MAIN {
        found.add(on, Meaning::Table(table.name.clone()));
    }
    definition.columns.iter().for_each(|name| found.column(table, name));
    let mut rows: Vec<GivenRow<'_>> = Vec::new();
    let mut next = 1;
    for (name, known) in [
        ("old", definition.event != TriggerEvent::Insert),
        ("new", definition.event != TriggerEvent::Delete),
    ] {
        if known {
            let row = GivenRow::new(table, name, next).by_name_only();
            next = row.end();
            rows.push(row);
        }
    }
    let home = definitions.home();
    let around = Around { rows: &rows, in_trigger: true, home, next, ..Around::statement(0) };
    if let Some(when) = &definition.when {
        let query = query_of(None, vec![when.clone()], None);
        found.query(&query, around, refuses_texts)?;
    }
    for step in &definition.body {
        found.step(step, around, refuses_texts)?;
    }
    Ok(found.names)
}

impl Found<'_> {
    fn query(
        &mut self,
        query: &Select,
        around: Around<'_>,
        refuses_texts: bool,
    ) -> Result<(), Error> {
        let mut resolver = Resolver::noting(self.definitions.schema, around, refuses_texts);
        resolver.query(query)?;
        self.names.extend(resolver.into_names());
        Ok(())
    }

    /// The names in a statement of a trigger's program.
    fn step(&mut self, step: &Stmt, around: Around<'_>, refuses_texts: bool) -> Result<(), Error> {
        match step {
            Stmt::Select(select) => self.query(select, around, refuses_texts),
            Stmt::Delete(delete) => {
                let from = from_of(&delete.table, delete.alias.as_ref(), None);
                let query = query_of(Some(from), Vec::new(), delete.filter.clone());
                self.query(&query, around, refuses_texts)
            }
            Stmt::Update(update) => {
                let target = self.definitions.table(&update.table).cloned();
                let mut exprs = Vec::new();
                for (names, expr) in &update.sets {
                    if let Some(target) = &target {
                        names.iter().for_each(|name| self.column(target, name));
                    }
                    push_parts(expr, &mut exprs);
                }
                let from = from_of(&update.table, update.alias.as_ref(), update.from.as_ref());
                let query = query_of(Some(from), exprs, update.filter.clone());
                self.query(&query, around, refuses_texts)
            }
            Stmt::Insert(insert) => {
                let target = self.definitions.table(&insert.table).cloned();
                let mut columns = insert.columns.iter().flatten();
                if let Some(target) = &target {
                    columns.by_ref().for_each(|name| self.column(target, name));
                }
                if let InsertSource::Select(select) = &insert.source {
                    self.query(select, around, refuses_texts)?;
                }
                let from = || from_of(&insert.table, insert.alias.as_ref(), None);
                let query = query_of(Some(from()), Vec::new(), None);
                self.query(&query, around, refuses_texts)?;
                let Some(target) = target else { return Ok(()) };
                for upsert in &insert.upserts {
                    let mut exprs = Vec::new();
                    if let Some((terms, filter)) = &upsert.target {
                        exprs.extend(terms.iter().map(|term| term.expr.clone()));
                        exprs.extend(filter.clone());
                    }
                    let mut filter = None;
                    if let UpsertAction::Update { sets, filter: condition } = &upsert.action {
                        for (names, expr) in sets {
                            names.iter().for_each(|name| self.column(&target, name));
                            push_parts(expr, &mut exprs);
                        }
                        filter.clone_from(condition);
                    }
                    let mut rows = around.rows.to_vec();
                    rows.push(GivenRow::new(&target, "excluded", around.next).by_name_only());
                    let next = rows.last().map_or(around.next, GivenRow::end);
                    let within = Around { rows: &rows, next, ..around };
                    self.query(&query_of(Some(from()), exprs, filter), within, refuses_texts)?;
                }
                Ok(())
            }
            other => unreachable!("no step of a trigger: {other:?}"),
        }
    }
}

/// The expressions of several columns set at once, each able to stand alone.
fn push_parts(expr: &Expr, out: &mut Vec<Expr>) {
    match &expr.kind {
        ExprKind::Row(parts) => out.extend(parts.iter().cloned()),
        ExprKind::Subquery(select) => {
            out.push(Expr { kind: ExprKind::Exists(select.clone()), offset: expr.offset });
        }
        _ => out.push(expr.clone()),
    }
}

/// A `FROM` of the table changed by a statement and of the joined tables.
fn from_of(table: &ast::ObjectName, alias: Option<&Name>, joined: Option<&From>) -> From {
    let kind = TableRefKind::Table { name: table.clone(), indexed: ast::Indexed::Any };
    let offset = table.name.offset;
    let first = TableRef { kind, alias: alias.cloned(), offset };
    let mut joins = Vec::new();
    if let Some(from) = joined {
        let (kind, constraint) = (JoinKind::Inner, JoinConstraint::None);
        joins.push(Join { kind, natural: false, table: from.first.clone(), constraint });
        joins.extend(from.joins.iter().cloned());
    }
    From { first, joins }
}

/// A query with the names of a statement's expressions.
fn query_of(from: Option<From>, mut exprs: Vec<Expr>, filter: Option<Expr>) -> Select {
    if exprs.is_empty() {
        exprs.push(Expr { kind: ExprKind::Literal(Value::Null), offset: 0 });
    }
    let column = |expr: Expr| ResultColumn::Expr { expr, alias: None, text: String::new() };
    Select::plain(exprs.into_iter().map(column).collect(), from, filter, 0)
}
