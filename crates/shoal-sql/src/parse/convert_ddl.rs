//! The grammar's statements, other than queries, as this crate's own.

use sqlite3_parser::ast as grammar;
use sqlite3_parser::dialect::TokenType;

use super::ast::Explain;
use super::ast::{
    AlterTable, ColumnConstraint, ColumnDef, Conflict, CreateIndex, CreateTable, CreateTableBody,
    CreateView, CreateVirtualTable, DropKind, ExprKind, ForeignKey, Name, PragmaArgument, Select,
    SelectCore, Stmt, TableChange, TableConstraint, TransactionMode, Values,
};
use super::convert::Converter;
use crate::Error;
use crate::value::Value;

impl Converter<'_> {
    pub(super) fn explain(
        &mut self,
        stmt: &grammar::Stmt<'_>,
        kind: Explain,
    ) -> Result<Stmt, Error> {
        let offset = self.tokens.find_kind(TokenType::TK_EXPLAIN);
        Ok(Stmt::Explain { kind, stmt: Box::new(self.stmt(stmt)?), offset })
    }

    pub(super) fn stmt(&mut self, stmt: &grammar::Stmt<'_>) -> Result<Stmt, Error> {
        let offset = self.tokens.offset();
        Ok(match stmt {
            grammar::Stmt::Select(select) => Stmt::Select(Box::new(self.select(select)?)),
            grammar::Stmt::Insert { .. } => self.insert(stmt)?,
            grammar::Stmt::Update { .. } => self.update(stmt, offset)?,
            grammar::Stmt::Delete { .. } => self.delete(stmt)?,
            grammar::Stmt::CreateTrigger { .. } => self.create_trigger(stmt, offset)?,
            grammar::Stmt::CreateTable { temporary, if_not_exists, tbl_name, body } => {
                let name = self.object_name(tbl_name);
                let body = self.table_body(body)?;
                Stmt::CreateTable(Box::new(CreateTable {
                    temporary: *temporary,
                    if_not_exists: *if_not_exists,
                    name,
                    body,
                    offset,
                }))
            }
            grammar::Stmt::CreateIndex {
                unique,
                if_not_exists,
                idx_name,
                tbl_name,
                columns,
                where_clause,
            } => {
                let name = self.object_name(idx_name);
                self.tokens.find_kind(TokenType::TK_ON);
                let table = self.name(tbl_name);
                let columns = self.order_terms(columns)?;
                let filter = self.optional(where_clause.as_ref())?;
                Stmt::CreateIndex(Box::new(CreateIndex {
                    unique: *unique,
                    if_not_exists: *if_not_exists,
                    name,
                    table,
                    columns,
                    filter,
                    offset,
                }))
            }
            grammar::Stmt::CreateView { temporary, if_not_exists, view_name, columns, select } => {
                let name = self.object_name(view_name);
                let columns = columns
                    .map(|names| names.iter().map(|column| self.name(&column.col_name)).collect());
                let select = self.select(select)?;
                Stmt::CreateView(Box::new(CreateView {
                    temporary: *temporary,
                    if_not_exists: *if_not_exists,
                    has_parameters: self.has_parameters(),
                    name,
                    columns,
                    select,
                    offset,
                }))
            }
            grammar::Stmt::CreateVirtualTable { if_not_exists, tbl_name, module_name, .. } => {
                let name = self.object_name(tbl_name);
                let module = self.name(module_name);
                let (arguments, end) = self.tokens.module_arguments();
                let text = self.tokens.sql.get(name.name.offset..end).unwrap_or_default();
                Stmt::CreateVirtualTable(Box::new(CreateVirtualTable {
                    if_not_exists: *if_not_exists,
                    text: text.to_owned(),
                    name,
                    module,
                    arguments,
                }))
            }
            grammar::Stmt::DropTable { if_exists, tbl_name } => {
                self.drop(DropKind::Table, tbl_name, *if_exists)
            }
            grammar::Stmt::DropIndex { if_exists, idx_name } => {
                self.drop(DropKind::Index, idx_name, *if_exists)
            }
            grammar::Stmt::DropView { if_exists, view_name } => {
                self.drop(DropKind::View, view_name, *if_exists)
            }
            grammar::Stmt::DropTrigger { if_exists, trigger_name } => {
                self.drop(DropKind::Trigger, trigger_name, *if_exists)
            }
            grammar::Stmt::Begin(mode, _) => Stmt::Begin(match mode {
                None | Some(grammar::TransactionType::Deferred) => TransactionMode::Deferred,
                Some(grammar::TransactionType::Immediate) => TransactionMode::Immediate,
                Some(grammar::TransactionType::Exclusive) => TransactionMode::Exclusive,
            }),
            grammar::Stmt::Commit(_) => Stmt::Commit,
            grammar::Stmt::Rollback { savepoint_name, .. } => {
                Stmt::Rollback { savepoint: savepoint_name.as_ref().map(|name| self.name(name)) }
            }
            grammar::Stmt::Savepoint(name) => Stmt::Savepoint(self.name(name)),
            grammar::Stmt::Release(name) => Stmt::Release(self.name(name)),
            grammar::Stmt::Pragma(name, body) => {
                let name = self.object_name(name);
                let argument = match body {
                    None => None,
                    Some(grammar::PragmaBody::Equals(expr) | grammar::PragmaBody::Call(expr)) => {
                        Some(self.pragma_argument(expr)?)
                    }
                };
                Stmt::Pragma { name, argument }
            }
            grammar::Stmt::AlterTable(table, body) => {
                let table = self.object_name(table);
                let change = self.table_change(body)?;
                Stmt::AlterTable(Box::new(AlterTable { table, change }))
            }
            grammar::Stmt::Analyze(name) => {
                self.tokens.find_kind(TokenType::TK_ANALYZE);
                Stmt::Analyze(name.as_ref().map(|name| self.object_name(name)))
            }
            grammar::Stmt::Attach { expr, db_name, key: Some(key) } => {
                Stmt::Attach(self.database_names(&[expr, db_name, key])?)
            }
            grammar::Stmt::Attach { expr, db_name, key: None } => {
                Stmt::Attach(self.database_names(&[expr, db_name])?)
            }
            grammar::Stmt::Detach(db_name) => Stmt::Detach(self.database_names(&[db_name])?),
            grammar::Stmt::Reindex { obj_name } => {
                Stmt::Reindex(obj_name.as_ref().map(|name| self.object_name(name)))
            }
            grammar::Stmt::Vacuum(database, into) => {
                self.tokens.find_kind(TokenType::TK_VACUUM);
                let database = database.as_ref().map(|name| self.name(name));
                let into = into.as_ref().map(|into| {
                    self.tokens.find_kind(TokenType::TK_INTO);
                    self.database_names(&[into])
                });
                Stmt::Vacuum { database, into: into.transpose()? }
            }
        })
    }

    fn table_change(&mut self, body: &grammar::AlterTableBody<'_>) -> Result<TableChange, Error> {
        Ok(match body {
            grammar::AlterTableBody::RenameTo(name) => {
                self.tokens.find_kind(TokenType::TK_TO);
                TableChange::RenameTo(self.name(name))
            }
            grammar::AlterTableBody::RenameColumn { old, new } => {
                self.after_verb(TokenType::TK_RENAME);
                let old = self.name(old);
                self.tokens.find_kind(TokenType::TK_TO);
                TableChange::RenameColumn { old, new: self.name(new) }
            }
            grammar::AlterTableBody::AddColumn(column) => {
                self.after_verb(TokenType::TK_ADD);
                TableChange::AddColumn(self.column_def(column)?)
            }
            grammar::AlterTableBody::DropColumn(name) => {
                self.after_verb(TokenType::TK_DROP);
                TableChange::DropColumn(self.name(name))
            }
            grammar::AlterTableBody::DropConstraint(name) => {
                self.tokens.find_kind(TokenType::TK_CONSTRAINT);
                TableChange::DropConstraint(self.name(name))
            }
            grammar::AlterTableBody::DropColumnNotNull(name) => {
                self.after_verb(TokenType::TK_ALTER);
                TableChange::DropNotNull(self.name(name))
            }
            grammar::AlterTableBody::SetColumnNotNull(name, _) => {
                self.after_verb(TokenType::TK_ALTER);
                let column = self.name(name);
                self.tokens.find_kind(TokenType::TK_SET);
                TableChange::SetNotNull { column, start: self.tokens.offset() }
            }
            grammar::AlterTableBody::AddConstraint(constraint) => {
                self.tokens.find_kind(TokenType::TK_ADD);
                let start = self.tokens.offset();
                let name = constraint.name.as_ref().map(|name| self.name(name));
                match self.table_constraint(name, &constraint.constraint)? {
                    TableConstraint::Check { name, expr, .. } => {
                        TableChange::AddCheck { name, expr, start }
                    }
                    other => unreachable!("the grammar adds checks alone: {other:?}"),
                }
            }
        })
    }

    /// Passes the verb of an `ALTER TABLE` and the word `COLUMN` behind the verb.
    fn after_verb(&mut self, verb: TokenType) {
        self.tokens.find_kind(verb);
        let next = self.tokens.get(self.tokens.mark());
        if next.is_some_and(|token| token.kind == TokenType::TK_COLUMNKW) {
            self.tokens.find_kind(TokenType::TK_COLUMNKW);
        }
    }

    /// The arguments of `ATTACH` and `DETACH`, as one row; a bare name stands for its text.
    fn database_names(&mut self, exprs: &[&grammar::Expr<'_>]) -> Result<Box<Select>, Error> {
        let mut row = Vec::with_capacity(exprs.len());
        for expr in exprs {
            let mut expr = self.expr(expr)?;
            if let ExprKind::Column { database: None, table: None, column } = &expr.kind {
                expr.kind = ExprKind::Literal(Value::text(column.text.as_str()));
            }
            row.push(expr);
        }
        Ok(Box::new(Select {
            with: None,
            first: SelectCore::Values(Values { rows: vec![row], is_row: true, behind_with: false }),
            compounds: Vec::new(),
            order_by: Vec::new(),
            limit: None,
            offset: None,
        }))
    }

    fn drop(&mut self, kind: DropKind, name: &grammar::QualifiedName<'_>, if_exists: bool) -> Stmt {
        Stmt::Drop { kind, name: self.object_name(name), if_exists }
    }

    fn pragma_argument(&mut self, expr: &grammar::Expr<'_>) -> Result<PragmaArgument, Error> {
        use super::ast::ExprKind;
        let expr = self.expr(expr)?;
        let value = match expr.kind {
            ExprKind::Literal(value) => value,
            ExprKind::Column { column, .. } => Value::text(column.text),
            ExprKind::Unary(_, operand) => match operand.kind {
                ExprKind::Literal(value) => value,
                _ => Value::Null,
            },
            _ => Value::Null,
        };
        Ok(PragmaArgument { value, offset: expr.offset })
    }

    fn table_body(
        &mut self,
        body: &grammar::CreateTableBody<'_>,
    ) -> Result<CreateTableBody, Error> {
        let (columns, constraints, flags) = match body {
            grammar::CreateTableBody::AsSelect(select) => {
                return Ok(CreateTableBody::Select(Box::new(self.select(select)?)));
            }
            grammar::CreateTableBody::ColumnsAndConstraints { columns, constraints, flags } => {
                (columns, constraints.unwrap_or_default(), flags)
            }
        };
        let mut out_columns = Vec::with_capacity(columns.len());
        for column in columns {
            out_columns.push(self.column_def(column)?);
        }
        let mut out = Vec::with_capacity(constraints.len());
        for constraint in constraints {
            let name = constraint.name.as_ref().map(|name| self.name(name));
            out.push(self.table_constraint(name, &constraint.constraint)?);
        }
        Ok(CreateTableBody::Columns {
            columns: out_columns,
            constraints: out,
            without_rowid: flags.contains(grammar::TabFlags::WithoutRowid),
            strict: flags.contains(grammar::TabFlags::Strict),
        })
    }

    fn column_def(&mut self, column: &grammar::ColumnDefinition<'_>) -> Result<ColumnDef, Error> {
        let name = self.name(&column.col_name);
        let ty = column.col_type.as_ref();
        let type_name = ty.map(|ty| self.type_name(ty)).unwrap_or_default();
        let mut constraints = Vec::with_capacity(column.constraints.len());
        for constraint in column.constraints {
            let name = constraint.name.as_ref().map(|name| self.name(name));
            constraints.push(self.column_constraint(name, &constraint.constraint)?);
        }
        Ok(ColumnDef { name, type_name, constraints })
    }

    fn column_constraint(
        &mut self,
        name: Option<Name>,
        constraint: &grammar::ColumnConstraint<'_>,
    ) -> Result<ColumnConstraint, Error> {
        Ok(match constraint {
            grammar::ColumnConstraint::PrimaryKey { order, conflict_clause, auto_increment } => {
                ColumnConstraint::PrimaryKey {
                    descending: *order == Some(grammar::SortOrder::Desc),
                    conflict: conflict_clause.map(conflict),
                    autoincrement: *auto_increment,
                }
            }
            grammar::ColumnConstraint::NotNull { nullable: true, .. } => ColumnConstraint::Null,
            grammar::ColumnConstraint::NotNull { conflict_clause, .. } => {
                ColumnConstraint::NotNull { conflict: conflict_clause.map(conflict) }
            }
            grammar::ColumnConstraint::Unique(clause) => {
                ColumnConstraint::Unique { conflict: clause.map(conflict) }
            }
            grammar::ColumnConstraint::Check(expr) => {
                let (expr, text) = self.check(expr)?;
                ColumnConstraint::Check { name, expr, text }
            }
            grammar::ColumnConstraint::Default(expr) => {
                self.tokens.find_kind(TokenType::TK_DEFAULT);
                let start = self.tokens.mark();
                let kind = |at: usize| self.tokens.get(at).map(|token| token.kind);
                let range = match kind(start) {
                    Some(TokenType::TK_LP) => start + 1..self.tokens.past_close(start) - 1,
                    Some(TokenType::TK_PLUS | TokenType::TK_MINUS) => start..start + 2,
                    _ => start..start + 1,
                };
                let text = self.tokens.text(range).to_owned();
                ColumnConstraint::Default { expr: self.expr(expr)?, text }
            }
            grammar::ColumnConstraint::Defer(clause) => {
                ColumnConstraint::Deferrable(is_deferred(Some(clause)))
            }
            grammar::ColumnConstraint::Collate { collation_name } => {
                ColumnConstraint::Collate(self.name(collation_name))
            }
            grammar::ColumnConstraint::ForeignKey { clause, defer_clause } => {
                ColumnConstraint::ForeignKey(self.foreign_key(clause, defer_clause.as_ref()))
            }
            grammar::ColumnConstraint::Generated { expr, typ } => {
                let expr = self.expr(expr)?;
                let stored = match typ.as_ref().map(|word| word.0) {
                    Some(word) if word.eq_ignore_ascii_case("stored") => true,
                    Some(word) if !word.eq_ignore_ascii_case("virtual") => {
                        let message = "error in generated column: it is VIRTUAL or STORED";
                        return Err(Error::meaning(message, self.identifier(word).offset));
                    }
                    _ => false,
                };
                ColumnConstraint::Generated { expr, stored }
            }
        })
    }

    fn table_constraint(
        &mut self,
        name: Option<Name>,
        constraint: &grammar::TableConstraint<'_>,
    ) -> Result<TableConstraint, Error> {
        Ok(match constraint {
            grammar::TableConstraint::PrimaryKey { columns, auto_increment, conflict_clause } => {
                TableConstraint::PrimaryKey {
                    columns: self.order_terms(columns)?,
                    conflict: conflict_clause.map(conflict),
                    autoincrement: *auto_increment,
                }
            }
            grammar::TableConstraint::Unique { columns, conflict_clause } => {
                TableConstraint::Unique {
                    columns: self.order_terms(columns)?,
                    conflict: conflict_clause.map(conflict),
                }
            }
            grammar::TableConstraint::Check(expr, _) => {
                let (expr, text) = self.check(expr)?;
                TableConstraint::Check { name, expr, text }
            }
            grammar::TableConstraint::ForeignKey { columns, clause, defer_clause } => {
                let columns = columns.iter().map(|column| self.name(&column.col_name)).collect();
                TableConstraint::ForeignKey {
                    columns,
                    key: self.foreign_key(clause, defer_clause.as_ref()),
                }
            }
        })
    }

    fn check(&mut self, expr: &grammar::Expr<'_>) -> Result<(super::ast::Expr, String), Error> {
        self.tokens.find_kind(TokenType::TK_CHECK);
        let open = self.tokens.mark();
        let close = self.tokens.past_close(open);
        let text = self.tokens.text(open + 1..close.saturating_sub(1)).to_owned();
        Ok((self.expr(expr)?, text))
    }

    fn foreign_key(
        &mut self,
        clause: &grammar::ForeignKeyClause<'_>,
        defer: Option<&grammar::DeferSubclause>,
    ) -> ForeignKey {
        self.tokens.find_kind(TokenType::TK_REFERENCES);
        let table = self.name(&clause.tbl_name);
        let columns = clause.columns.unwrap_or_default();
        let columns = columns.iter().map(|column| self.name(&column.col_name)).collect();
        let (mut on_update, mut on_delete) = ("NO ACTION", "NO ACTION");
        for argument in clause.args {
            match argument {
                grammar::RefArg::OnUpdate(action) => on_update = action_words(*action),
                grammar::RefArg::OnDelete(action) => on_delete = action_words(*action),
                grammar::RefArg::OnInsert(_) | grammar::RefArg::Match(_) => {}
            }
        }
        ForeignKey { table, columns, on_update, on_delete, deferred: is_deferred(defer) }
    }
}

fn is_deferred(clause: Option<&grammar::DeferSubclause>) -> bool {
    clause.is_some_and(|clause| {
        clause.deferrable
            && clause.init_deferred == Some(grammar::InitDeferredPred::InitiallyDeferred)
    })
}

pub(super) fn conflict(clause: grammar::ResolveType) -> Conflict {
    match clause {
        grammar::ResolveType::Rollback => Conflict::Rollback,
        grammar::ResolveType::Abort => Conflict::Abort,
        grammar::ResolveType::Fail => Conflict::Fail,
        grammar::ResolveType::Ignore => Conflict::Ignore,
        grammar::ResolveType::Replace => Conflict::Replace,
    }
}

fn action_words(action: grammar::RefAct) -> &'static str {
    match action {
        grammar::RefAct::SetNull => "SET NULL",
        grammar::RefAct::SetDefault => "SET DEFAULT",
        grammar::RefAct::Cascade => "CASCADE",
        grammar::RefAct::Restrict => "RESTRICT",
        grammar::RefAct::NoAction => "NO ACTION",
    }
}
