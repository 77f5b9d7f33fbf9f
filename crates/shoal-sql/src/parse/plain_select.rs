//! Plain queries of one table, without the grammar.
//!
//! The grammar's stack and arena took a quarter of preparing a lookup. Here the tokens of a query
//! of columns of one table are gone through once: comparisons joined by `AND` and `OR`, an order of
//! columns, bounds. All other queries, and all errors, are left to the grammar; the tests compare.

use sqlite3_parser::dialect::TokenType;

use super::Parsed;
use super::ast::{
    BinaryOp, Expr, ExprKind, From, Indexed, ObjectName, OrderTerm, ResultColumn, Select,
    SelectClauses, SelectCore, Stmt, TableRef, TableRefKind,
};
use super::convert::{number, number_of_parameter, unquote};
use super::plain_table::At;
use super::tokens::Tokens;
use crate::value::Value;

/// Comparisons of one condition; the grammar bounds how deep they may nest.
const COMPARISONS_MAX: usize = 100;

/// The plain query of the tokens; `None` for anything else.
pub(super) fn plain_select(tokens: &Tokens<'_>) -> Option<Parsed> {
    let at = At { tokens, next: 0 };
    let mut plain = Plain { at, parameters: Vec::new(), comparisons: 0 };
    let select = plain.select()?;
    let stmt = Stmt::Select(Box::new(select));
    Some(Parsed { stmt, parameters: plain.parameters, is_silent: false, guard: None })
}

struct Plain<'t, 'a> {
    at: At<'t, 'a>,
    parameters: Vec<Option<String>>,
    comparisons: usize,
}

impl Plain<'_, '_> {
    fn takes(&mut self, kind: TokenType) -> bool {
        self.at.take(kind).is_some()
    }

    fn select(&mut self) -> Option<Select> {
        let offset = self.at.take(TokenType::TK_SELECT)?.start;
        let columns = self.columns()?;
        let from = From { first: self.table()?, joins: Vec::new() };
        let filter = if self.takes(TokenType::TK_WHERE) { Some(self.disjunction()?) } else { None };
        let mut order_by = Vec::new();
        if self.takes(TokenType::TK_ORDER) {
            self.at.take(TokenType::TK_BY)?;
            loop {
                let expr = self.column()?;
                let descending = self.takes(TokenType::TK_DESC);
                if !descending {
                    self.takes(TokenType::TK_ASC);
                }
                order_by.push(OrderTerm { expr, descending, nulls_first: None });
                if !self.takes(TokenType::TK_COMMA) {
                    break;
                }
            }
        }
        let (mut limit, mut rows_before) = (None, None);
        if self.takes(TokenType::TK_LIMIT) {
            limit = Some(self.operand()?);
            if self.takes(TokenType::TK_OFFSET) {
                rows_before = Some(self.operand()?);
            }
        }
        self.takes(TokenType::TK_SEMI);
        if self.at.peek().is_some() {
            return None;
        }
        let clauses = SelectClauses {
            distinct: false,
            columns,
            from: Some(from),
            filter,
            group_by: Vec::new(),
            having: None,
            windows: Vec::new(),
            offset,
        };
        let first = SelectCore::Select(Box::new(clauses));
        let (with, compounds) = (None, Vec::new());
        Some(Select { with, first, compounds, order_by, limit, offset: rows_before })
    }

    /// The result's columns, up to `FROM`.
    fn columns(&mut self) -> Option<Vec<ResultColumn>> {
        let mut columns = Vec::new();
        loop {
            let start = self.at.next;
            if let Some(star) = self.at.take(TokenType::TK_STAR) {
                columns.push(ResultColumn::Star { offset: star.start });
            } else {
                let expr = self.operand()?;
                let end = self.at.next;
                let alias = if self.takes(TokenType::TK_AS) {
                    Some(self.at.name()?)
                } else {
                    self.at.name()
                };
                let text = self.at.tokens.text_up_to(start, end).to_owned();
                columns.push(ResultColumn::Expr { expr, alias, text });
            }
            if self.takes(TokenType::TK_FROM) {
                return Some(columns);
            }
            self.at.take(TokenType::TK_COMMA)?;
        }
    }

    fn table(&mut self) -> Option<TableRef> {
        let name = self.at.name()?;
        let offset = name.offset;
        let alias =
            if self.takes(TokenType::TK_AS) { Some(self.at.name()?) } else { self.at.name() };
        let name = ObjectName { database: None, name };
        Some(TableRef { kind: TableRefKind::Table { name, indexed: Indexed::Any }, alias, offset })
    }

    fn disjunction(&mut self) -> Option<Expr> {
        let mut left = self.conjunction()?;
        while self.takes(TokenType::TK_OR) {
            left = binary(BinaryOp::Or, left, self.conjunction()?);
        }
        Some(left)
    }

    fn conjunction(&mut self) -> Option<Expr> {
        let mut left = self.comparison()?;
        while self.takes(TokenType::TK_AND) {
            left = binary(BinaryOp::And, left, self.comparison()?);
        }
        Some(left)
    }

    fn comparison(&mut self) -> Option<Expr> {
        self.comparisons += 1;
        if self.comparisons > COMPARISONS_MAX {
            return None;
        }
        let left = self.operand()?;
        let op = match self.at.peek()?.kind {
            TokenType::TK_EQ => BinaryOp::Equal,
            TokenType::TK_NE => BinaryOp::NotEqual,
            TokenType::TK_LT => BinaryOp::Less,
            TokenType::TK_LE => BinaryOp::LessEqual,
            TokenType::TK_GT => BinaryOp::Greater,
            TokenType::TK_GE => BinaryOp::GreaterEqual,
            _ => return None,
        };
        self.at.next += 1;
        Some(binary(op, left, self.operand()?))
    }

    /// A column, a literal or a parameter, with nothing behind it consumed.
    fn operand(&mut self) -> Option<Expr> {
        let token = self.at.peek()?;
        let text = &self.at.tokens.sql[token.start..token.end];
        let kind = match token.kind {
            TokenType::TK_INTEGER | TokenType::TK_FLOAT => {
                ExprKind::Literal(number(text, token.start).ok()?)
            }
            TokenType::TK_STRING => ExprKind::Literal(Value::Text(unquote(text).0.into_bytes())),
            TokenType::TK_VARIABLE if !text.starts_with('#') => {
                let number = number_of_parameter(&mut self.parameters, text, token.start);
                ExprKind::Parameter(number.ok()?)
            }
            _ => return self.column(),
        };
        self.at.next += 1;
        Some(Expr { kind, offset: token.start })
    }

    fn column(&mut self) -> Option<Expr> {
        let first = self.at.name()?;
        let offset = first.offset;
        let (table, column) = match self.takes(TokenType::TK_DOT) {
            true => (Some(first), self.at.name()?),
            false => (None, first),
        };
        Some(Expr { kind: ExprKind::Column { database: None, table, column }, offset })
    }
}

fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    let offset = left.offset;
    Expr { kind: ExprKind::Binary(op, Box::new(left), Box::new(right)), offset }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{by_grammar, parse};
    use super::*;

    /// True where the query is plain; checks the tree against the grammar's.
    fn agrees(sql: &str) -> bool {
        let plain = Tokens::new(sql).ok().and_then(|tokens| plain_select(&tokens));
        let grammar = Tokens::new(sql).and_then(by_grammar);
        assert_eq!(format!("{grammar:?}"), format!("{:?}", parse(sql)), "{sql}");
        plain.is_some()
    }

    #[test]
    fn plain_queries_are_what_the_grammar_makes_of_them() {
        for sql in [
            "SELECT name, email FROM users WHERE id = ?1",
            "SELECT * FROM users u WHERE u.id = :id AND a <> 'it''s' OR b >= 1.5e3 AND c == ?;",
            "select a  b , 5 /*x*/ , 'x' AS s, ?, t.c from t as u order by a desc, u.b asc, c limit 3 offset ?2",
            "SELECT a /* c */ FROM t",
            "SELECT *, a FROM t WHERE 0x10 < a AND 9223372036854775808 > b AND 1_000 != c",
            "SELECT rowid FROM t -- so",
        ] {
            assert!(agrees(sql), "{sql}");
        }
        for sql in [
            "SELECT 1",
            "SELECT a FROM t WHERE a",
            "SELECT a FROM t WHERE a = 1 = 2",
            "SELECT a FROM t WHERE a = -1",
            "SELECT a FROM t WHERE a = 1 + 1",
            "SELECT a FROM t WHERE (a = 1)",
            "SELECT a FROM t WHERE a IS NULL",
            "SELECT a FROM t WHERE a = NULL",
            "SELECT a FROM t WHERE a = ?0",
            "SELECT a FROM t WHERE a = 0xfffffffffffffffff",
            "SELECT a FROM t, u",
            "SELECT a FROM t JOIN u",
            "SELECT a FROM main.t",
            "SELECT \"a\" FROM t",
            "SELECT t.* FROM t",
            "SELECT a.b.c FROM t",
            "SELECT DISTINCT a FROM t",
            "SELECT a FROM t LIMIT 1, 2",
            "SELECT a FROM t ORDER BY 1",
            "SELECT a FROM t ORDER BY a NULLS LAST",
            "SELECT a FROM t GROUP BY a",
            "SELECT a FROM t UNION SELECT a FROM t",
            "SELECT a FROM t; SELECT 2",
            "SELECT a FROM",
            "SELECT FROM t",
            "SELECT a b c FROM t",
            "SELECT a 'b' FROM t",
            "SELECT a FROM t INDEXED BY i",
            "SELECT a FROM t COLLATE nocase",
        ] {
            assert!(!agrees(sql), "{sql}");
        }
    }

    proptest! {
        #[test]
        fn words_in_any_order(words in prop::collection::vec(prop::sample::select(vec![
            "a", "b", "t.c", "*", "7", "'s'", "?", "?3", ":n", "=", "<", ">=", "AND", "OR", ",", "AS", "FROM",
            "FROM t", "WHERE", "WHERE a = 1", "ORDER BY", "LIMIT", "OFFSET", "DESC", ";", "(", ")", "-", ".",
            "key", "\u{e4}", "/* c */", "IS", "NULL", "NOT", "IN", "window", "replace",
        ]), 0..14)) {
            agrees(&format!("SELECT a {}", words.join(" ")));
            agrees(&format!("SELECT a, b FROM t {}", words.join(" ")));
            agrees(&format!("SELECT a FROM t WHERE a = 1 {}", words.join(" ")));
        }
    }
}
