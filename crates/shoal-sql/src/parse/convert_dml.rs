//! Converts the grammar's statements that change rows, and the triggers made of them.

use sqlite3_parser::ast as grammar;
use sqlite3_parser::dialect::TokenType;

use super::ast::{
    CreateTrigger, Delete, Expr, Insert, InsertSource, Name, ObjectName, ResultColumn, SelectCore,
    Stmt, TriggerEvent, TriggerTime, Update, Upsert, UpsertAction,
};
use super::convert::Converter;
use super::convert_ddl::conflict;
use crate::Error;

impl Converter<'_> {
    pub(super) fn insert(&mut self, stmt: &grammar::Stmt<'_>) -> Result<Stmt, Error> {
        let grammar::Stmt::Insert { with, or_conflict, tbl_name, columns, body, returning } = stmt
        else {
            unreachable!("asked of an INSERT alone");
        };
        let with = self.with(with.as_ref())?;
        let (table, alias) = self.aliased(tbl_name);
        let columns =
            columns.as_ref().map(|names| names.iter().map(|name| self.name(name)).collect());
        let (source, upserts) = match body {
            grammar::InsertBody::DefaultValues => (InsertSource::DefaultValues, Vec::new()),
            grammar::InsertBody::Select(select, upsert) => {
                (self.insert_source(select)?, self.upserts(*upsert)?)
            }
        };
        let returning = self.returning(*returning)?;
        Ok(Stmt::Insert(Box::new(Insert {
            with,
            conflict: or_conflict.map(conflict),
            table,
            alias,
            columns,
            source,
            upserts,
            returning,
        })))
    }

    fn insert_source(&mut self, select: &grammar::Select<'_>) -> Result<InsertSource, Error> {
        let mut select = self.select(select)?;
        if let (SelectCore::Values(values), []) = (&mut select.first, &*select.compounds) {
            values.is_row = values.rows.len() == 1;
        }
        Ok(InsertSource::Select(Box::new(select)))
    }

    fn upserts(&mut self, first: Option<&grammar::Upsert<'_>>) -> Result<Vec<Upsert>, Error> {
        let mut out = Vec::new();
        let mut next = first;
        while let Some(upsert) = next {
            let offset = self.tokens.find_kind(TokenType::TK_CONFLICT);
            let target = match &upsert.index {
                Some(index) => {
                    let columns = self.order_terms(index.targets)?;
                    Some((columns, self.optional(index.where_clause.as_ref())?))
                }
                None => None,
            };
            let action = match &upsert.do_clause {
                grammar::UpsertDo::Nothing => UpsertAction::Nothing,
                grammar::UpsertDo::Set { sets, where_clause } => {
                    let sets = self.sets(sets)?;
                    UpsertAction::Update { sets, filter: self.optional(where_clause.as_ref())? }
                }
            };
            out.push(Upsert { target, action, offset });
            next = upsert.next;
        }
        Ok(out)
    }

    fn sets(&mut self, sets: &[grammar::Set<'_>]) -> Result<Vec<(Vec<Name>, Expr)>, Error> {
        self.tokens.find_kind(TokenType::TK_SET);
        let mut out = Vec::with_capacity(sets.len());
        for set in sets {
            let names = set.col_names.iter().map(|name| self.name(name)).collect();
            out.push((names, self.expr(&set.expr)?));
        }
        Ok(out)
    }

    pub(super) fn update(
        &mut self,
        stmt: &grammar::Stmt<'_>,
        offset: usize,
    ) -> Result<Stmt, Error> {
        let grammar::Stmt::Update {
            with,
            or_conflict,
            tbl_name,
            indexed,
            sets,
            from,
            where_clause,
            returning,
            order_by,
            limit,
        } = stmt
        else {
            unreachable!("asked of an UPDATE alone");
        };
        let with = self.with(with.as_ref())?;
        let (table, alias) = self.aliased(tbl_name);
        let indexed = self.indexed(indexed.as_ref());
        let mut sets = self.sets(sets)?;
        let is_at = self.tokens.past.iter().any(|(place, _)| *place == table.name.offset);
        let at = is_at.then(|| sets.remove(0).1);
        let from = from.as_ref().map(|from| self.from(from)).transpose()?.flatten();
        let filter = self.optional(where_clause.as_ref())?;
        let returning = self.returning(*returning)?;
        self.no_order_or_limit(order_by.is_some() || limit.is_some(), "UPDATE")?;
        Ok(Stmt::Update(Box::new(Update {
            with,
            conflict: or_conflict.map(conflict),
            table,
            at,
            alias,
            indexed,
            sets,
            from,
            filter,
            returning,
            offset,
        })))
    }

    pub(super) fn delete(&mut self, stmt: &grammar::Stmt<'_>) -> Result<Stmt, Error> {
        let grammar::Stmt::Delete {
            with,
            tbl_name,
            indexed,
            where_clause,
            returning,
            order_by,
            limit,
        } = stmt
        else {
            unreachable!("asked of a DELETE alone");
        };
        let with = self.with(with.as_ref())?;
        let (table, alias) = self.aliased(tbl_name);
        let indexed = self.indexed(indexed.as_ref());
        let filter = self.optional(where_clause.as_ref())?;
        let returning = self.returning(*returning)?;
        self.no_order_or_limit(order_by.is_some() || limit.is_some(), "DELETE")?;
        Ok(Stmt::Delete(Box::new(Delete { with, table, alias, indexed, filter, returning })))
    }

    pub(super) fn create_trigger(
        &mut self,
        stmt: &grammar::Stmt<'_>,
        offset: usize,
    ) -> Result<Stmt, Error> {
        let grammar::Stmt::CreateTrigger {
            temporary,
            if_not_exists,
            trigger_name,
            time,
            event,
            tbl_name,
            for_each_row: _,
            when_clause,
            commands,
        } = stmt
        else {
            unreachable!("asked of a CREATE TRIGGER alone");
        };
        let name = self.object_name(trigger_name);
        let time = match time {
            None | Some(grammar::TriggerTime::Before) => TriggerTime::Before,
            Some(grammar::TriggerTime::After) => TriggerTime::After,
            Some(grammar::TriggerTime::InsteadOf) => TriggerTime::InsteadOf,
        };
        let (event, columns) = match event {
            grammar::TriggerEvent::Delete => (TriggerEvent::Delete, Vec::new()),
            grammar::TriggerEvent::Insert => (TriggerEvent::Insert, Vec::new()),
            grammar::TriggerEvent::Update => (TriggerEvent::Update, Vec::new()),
            grammar::TriggerEvent::UpdateOf(names) => {
                self.tokens.find_kind(TokenType::TK_OF);
                (TriggerEvent::Update, names.iter().map(|name| self.name(name)).collect())
            }
        };
        self.tokens.find_kind(TokenType::TK_ON);
        let table = self.object_name(tbl_name);
        let when = self.optional(when_clause.as_ref())?;
        self.tokens.find_kind(TokenType::TK_BEGIN);
        let mut body = Vec::with_capacity(commands.len());
        for command in *commands {
            body.push(self.trigger_step(command)?);
            self.tokens.find_kind(TokenType::TK_SEMI);
        }
        Ok(Stmt::CreateTrigger(Box::new(CreateTrigger {
            temporary: *temporary,
            if_not_exists: *if_not_exists,
            has_parameters: self.has_parameters(),
            name,
            time,
            event,
            columns,
            table,
            when,
            body,
            offset,
        })))
    }

    fn trigger_step(&mut self, command: &grammar::TriggerCmd<'_>) -> Result<Stmt, Error> {
        let offset = self.tokens.offset();
        Ok(match command {
            grammar::TriggerCmd::Select(select) => Stmt::Select(Box::new(self.select(select)?)),
            grammar::TriggerCmd::Insert { or_conflict, tbl_name, col_names, select, upsert } => {
                let (table, alias) = self.aliased(tbl_name);
                let columns = col_names.as_ref();
                let columns = columns.map(|it| it.iter().map(|name| self.name(name)).collect());
                Stmt::Insert(Box::new(Insert {
                    with: None,
                    conflict: or_conflict.map(conflict),
                    table,
                    alias,
                    columns,
                    source: self.insert_source(select)?,
                    upserts: self.upserts(*upsert)?,
                    returning: None,
                }))
            }
            grammar::TriggerCmd::Update { or_conflict, tbl_name, sets, from, where_clause } => {
                let (table, alias) = self.aliased(tbl_name);
                Stmt::Update(Box::new(Update {
                    with: None,
                    conflict: or_conflict.map(conflict),
                    table,
                    at: None,
                    alias,
                    indexed: super::ast::Indexed::Any,
                    sets: self.sets(sets)?,
                    from: from.as_ref().map(|from| self.from(from)).transpose()?.flatten(),
                    filter: self.optional(where_clause.as_ref())?,
                    returning: None,
                    offset,
                }))
            }
            grammar::TriggerCmd::Delete { tbl_name, where_clause } => {
                let (table, alias) = self.aliased(tbl_name);
                Stmt::Delete(Box::new(Delete {
                    with: None,
                    table,
                    alias,
                    indexed: super::ast::Indexed::Any,
                    filter: self.optional(where_clause.as_ref())?,
                    returning: None,
                }))
            }
        })
    }

    /// SQLite leaves these clauses out of its usual builds, where they are a syntax error.
    fn no_order_or_limit(&mut self, present: bool, stmt: &str) -> Result<(), Error> {
        if present {
            return Err(Error::unsupported(
                format!("ORDER BY or LIMIT on {stmt}"),
                self.tokens.offset(),
            ));
        }
        Ok(())
    }

    fn returning(
        &mut self,
        columns: Option<&[grammar::ResultColumn<'_>]>,
    ) -> Result<Option<Vec<ResultColumn>>, Error> {
        columns
            .map(|columns| {
                self.tokens.find_kind(TokenType::TK_RETURNING);
                self.result_columns(columns)
            })
            .transpose()
    }

    fn aliased(&mut self, name: &grammar::QualifiedName<'_>) -> (ObjectName, Option<Name>) {
        let object = self.object_name(name);
        (object, name.alias.as_ref().map(|alias| self.name(alias)))
    }
}
