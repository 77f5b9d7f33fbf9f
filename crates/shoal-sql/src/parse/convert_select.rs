//! The grammar's queries as this crate's own.

use sqlite3_parser::ast as grammar;
use sqlite3_parser::dialect::TokenType;

use super::ast::{
    CommonTable, CompoundOp, From, Indexed, Join, JoinConstraint, JoinKind, Name, PastPoint,
    ResultColumn, Select, SelectClauses, SelectCore, TableRef, TableRefKind, Values, With,
};
use super::convert::{Converter, QUERY_DEPTH};
use crate::Error;

impl Converter<'_> {
    pub(super) fn select(&mut self, select: &grammar::Select<'_>) -> Result<Select, Error> {
        self.deeper(QUERY_DEPTH)?;
        let with = self.with(select.with.as_ref())?;
        let first = self.core(&select.body.select)?;
        let mut compounds = Vec::new();
        for compound in select.body.compounds.iter().flatten() {
            let op = match compound.operator {
                grammar::CompoundOperator::Union => CompoundOp::Union,
                grammar::CompoundOperator::UnionAll => CompoundOp::UnionAll,
                grammar::CompoundOperator::Except => CompoundOp::Except,
                grammar::CompoundOperator::Intersect => CompoundOp::Intersect,
            };
            compounds.push((op, self.core(&compound.select)?));
        }
        let order_by = self.order_terms(select.order_by.unwrap_or_default())?;
        let (limit, offset) = match select.limit {
            Some(limit) => self.limit(limit)?,
            None => (None, None),
        };
        if let SelectCore::Values(_) = compounds.last().map_or(&first, |(_, core)| core) {
            // SQLite's grammar has neither behind VALUES.
            let behind = |word: &str, offset| Error::Syntax {
                message: format!("near \"{word}\": syntax error"),
                offset,
            };
            if let Some(term) = order_by.first() {
                return Err(behind("ORDER", term.expr.offset));
            }
            if let Some(limit) = &limit {
                return Err(behind("LIMIT", limit.offset));
            }
        }
        self.shallower(QUERY_DEPTH);
        Ok(Select { with, first, compounds, order_by, limit, offset })
    }

    /// `LIMIT a, b` means `LIMIT b OFFSET a`; only the token between the two tells.
    fn limit(
        &mut self,
        limit: &grammar::Limit<'_>,
    ) -> Result<(Option<super::ast::Expr>, Option<super::ast::Expr>), Error> {
        self.tokens.find_kind(TokenType::TK_LIMIT);
        let start = self.tokens.mark();
        let first = self.expr(&limit.expr)?;
        let Some(second) = &limit.offset else { return Ok((Some(first), None)) };
        let comma = self.tokens.item_end(start);
        let comma = self.tokens.get(comma).is_some_and(|token| token.kind == TokenType::TK_COMMA);
        let second = self.expr(second)?;
        Ok(if comma { (Some(second), Some(first)) } else { (Some(first), Some(second)) })
    }

    pub(super) fn with(&mut self, with: Option<&grammar::With<'_>>) -> Result<Option<With>, Error> {
        let Some(with) = with else { return Ok(None) };
        self.tokens.find_kind(TokenType::TK_WITH);
        self.behind_with = true;
        let mut tables: Vec<CommonTable> = Vec::with_capacity(with.ctes.len());
        for table in with.ctes {
            let name = self.name(&table.tbl_name);
            if tables.iter().any(|other| name.is(&other.name.text)) {
                let message = format!("duplicate WITH table name: {}", name.text);
                return Err(Error::meaning(message, name.offset));
            }
            let columns = table.columns.unwrap_or_default();
            let columns = columns.iter().map(|column| self.name(&column.col_name)).collect();
            let materialized = match table.materialized {
                grammar::Materialized::Any => None,
                grammar::Materialized::Yes => Some(true),
                grammar::Materialized::No => Some(false),
            };
            let select = self.select(table.select)?;
            tables.push(CommonTable { name, columns, materialized, select });
        }
        Ok(Some(With { tables }))
    }

    fn core(&mut self, core: &grammar::OneSelect<'_>) -> Result<SelectCore, Error> {
        match core {
            grammar::OneSelect::Values(rows) => {
                self.tokens.find_kind(TokenType::TK_VALUES);
                let mut out = Vec::with_capacity(rows.len());
                for row in rows {
                    out.push(self.exprs(row)?);
                }
                let behind_with = self.behind_with;
                Ok(SelectCore::Values(Values { rows: out, is_row: false, behind_with }))
            }
            grammar::OneSelect::Select {
                distinctness,
                columns,
                from,
                where_clause,
                group_by,
                having,
                window_clause,
            } => {
                let offset = self.tokens.find_kind(TokenType::TK_SELECT);
                match distinctness {
                    Some(grammar::Distinctness::Distinct) => {
                        self.tokens.find_kind(TokenType::TK_DISTINCT);
                    }
                    Some(grammar::Distinctness::All) => {
                        self.tokens.find_kind(TokenType::TK_ALL);
                    }
                    None => {}
                }
                let columns = self.result_columns(columns)?;
                let from = from.as_ref().map(|from| self.from(from)).transpose()?.flatten();
                let filter = self.optional(*where_clause)?;
                let group_by = self.exprs(group_by.unwrap_or_default())?;
                let having = self.optional(*having)?;
                let mut windows = Vec::new();
                if let Some(definitions) = window_clause {
                    self.tokens.find_kind(TokenType::TK_WINDOW);
                    for definition in definitions.iter() {
                        let name = self.name(&definition.name);
                        windows.push((name, self.window(&definition.window)?));
                    }
                }
                Ok(SelectCore::Select(Box::new(SelectClauses {
                    distinct: *distinctness == Some(grammar::Distinctness::Distinct),
                    columns,
                    from,
                    filter,
                    group_by,
                    having,
                    windows,
                    offset,
                })))
            }
        }
    }

    pub(super) fn result_columns(
        &mut self,
        columns: &[grammar::ResultColumn<'_>],
    ) -> Result<Vec<ResultColumn>, Error> {
        let mut out = Vec::with_capacity(columns.len());
        let mut start = self.tokens.mark();
        for column in columns {
            let end = self.tokens.item_end(start);
            self.tokens.go(start);
            out.push(match column {
                grammar::ResultColumn::Star => {
                    ResultColumn::Star { offset: self.tokens.find_kind(TokenType::TK_STAR) }
                }
                grammar::ResultColumn::TableStar(table) => {
                    ResultColumn::TableStar(self.name(table))
                }
                grammar::ResultColumn::Expr(expr, alias) => {
                    let expr = self.expr(expr)?;
                    let (text_end, alias) = match alias {
                        Some(grammar::As::As(name)) => {
                            self.tokens.go(end.saturating_sub(1));
                            (end.saturating_sub(2), Some(self.name(name)))
                        }
                        Some(grammar::As::Elided(name)) => {
                            self.tokens.go(end.saturating_sub(1));
                            (end.saturating_sub(1), Some(self.name(name)))
                        }
                        None => (end, None),
                    };
                    let text = self.tokens.text_up_to(start, text_end).to_owned();
                    ResultColumn::Expr { expr, alias, text }
                }
            });
            start = end + 1;
        }
        // Stands at the end of the list: the clauses behind are found from there.
        self.tokens.go(start.saturating_sub(1));
        Ok(out)
    }

    pub(super) fn from(&mut self, from: &grammar::FromClause<'_>) -> Result<Option<From>, Error> {
        let Some(first) = from.select else { return Ok(None) };
        let first = self.table_ref(first)?;
        let mut joins = Vec::new();
        for join in from.joins.iter().flatten() {
            let (kind, natural) = join_kind(join.operator);
            let table = self.table_ref(&join.table)?;
            let constraint = match &join.constraint {
                None => JoinConstraint::None,
                Some(grammar::JoinConstraint::On(expr)) => JoinConstraint::On(self.expr(expr)?),
                Some(grammar::JoinConstraint::Using(names)) => {
                    JoinConstraint::Using(names.iter().map(|name| self.name(name)).collect())
                }
            };
            joins.push(Join { kind, natural, table, constraint });
        }
        Ok(Some(From { first, joins }))
    }

    fn table_ref(&mut self, table: &grammar::SelectTable<'_>) -> Result<TableRef, Error> {
        let mut offset = self.tokens.offset();
        let (kind, alias) = match table {
            grammar::SelectTable::Table(name, alias, indexed) => {
                let name = self.object_name(name);
                offset = name.database.as_ref().unwrap_or(&name.name).offset;
                let alias = self.alias(alias.as_ref());
                let indexed = self.indexed(indexed.as_ref());
                (TableRefKind::Table { name, indexed }, alias)
            }
            grammar::SelectTable::TableCall(name, arguments, alias) => {
                let name = self.object_name(name);
                offset = name.database.as_ref().unwrap_or(&name.name).offset;
                let arguments = self.exprs(arguments.unwrap_or_default())?;
                let is_here = |past: &&(usize, PastPoint)| past.0 == name.name.offset;
                let kind = match self.tokens.past.iter().find(is_here) {
                    Some(&(_, point)) => TableRefKind::Past { name, point, value: arguments },
                    None => TableRefKind::Call { name, arguments },
                };
                (kind, self.alias(alias.as_ref()))
            }
            grammar::SelectTable::Select(select, alias) => {
                let select = Box::new(self.select(select)?);
                (TableRefKind::Select(select), self.alias(alias.as_ref()))
            }
            grammar::SelectTable::Sub(from, alias) => {
                self.deeper(QUERY_DEPTH)?;
                let from = self.from(from)?.ok_or_else(|| Error::meaning("empty FROM", offset))?;
                self.shallower(QUERY_DEPTH);
                (TableRefKind::Joined(Box::new(from)), self.alias(alias.as_ref()))
            }
        };
        Ok(TableRef { kind, alias, offset })
    }

    fn alias(&mut self, alias: Option<&grammar::As<'_>>) -> Option<Name> {
        alias.map(|alias| match alias {
            grammar::As::As(name) | grammar::As::Elided(name) => self.name(name),
        })
    }

    pub(super) fn indexed(&mut self, indexed: Option<&grammar::Indexed<'_>>) -> Indexed {
        match indexed {
            None => Indexed::Any,
            Some(grammar::Indexed::NotIndexed) => Indexed::Not,
            Some(grammar::Indexed::IndexedBy(name)) => Indexed::By(self.name(name)),
        }
    }
}

fn join_kind(operator: grammar::JoinOperator) -> (JoinKind, bool) {
    let grammar::JoinOperator::TypedJoin(Some(kind)) = operator else {
        return (JoinKind::Inner, false);
    };
    let has = |flag: grammar::JoinType| kind.contains(flag);
    let join = match (has(grammar::JoinType::LEFT), has(grammar::JoinType::RIGHT)) {
        (true, true) => JoinKind::Full,
        (true, false) => JoinKind::Left,
        (false, true) => JoinKind::Right,
        (false, false) if has(grammar::JoinType::CROSS) => JoinKind::Cross,
        (false, false) => JoinKind::Inner,
    };
    (join, has(grammar::JoinType::NATURAL))
}
