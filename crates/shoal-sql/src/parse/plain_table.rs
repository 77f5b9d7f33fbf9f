//! Plain definitions of tables, without the grammar.
//!
//! Opening a file parses the definition of every table, and most are a list of columns, each with a
//! type and no more than `NOT NULL`, `UNIQUE` or `PRIMARY KEY`. For nine such columns the grammar's
//! stack and arena were a third of opening a file, finding a row and closing the file; here the
//! tokens are read once. Anything less plain, errors included, is left to the grammar; the tests
//! compare both.

use sqlite3_parser::dialect::TokenType;

use super::ast::{
    ColumnConstraint, ColumnDef, CreateTable, CreateTableBody, Name, ObjectName, Quote,
};
use super::tokens::{Token, Tokens};

/// Tables with more columns are left to the grammar: names are compared pairwise here.
const COLUMNS_MAX: usize = 64;

/// The table defined by the tokens, if they define nothing else and the table is plain.
pub(super) fn plain_table(tokens: &Tokens<'_>) -> Option<CreateTable> {
    let mut at = At { tokens, next: 0 };
    let offset = at.take(TokenType::TK_CREATE)?.start;
    at.take(TokenType::TK_TABLE)?;
    let name = at.name()?;
    at.take(TokenType::TK_LP)?;
    let mut columns: Vec<ColumnDef> = Vec::new();
    let mut keys = 0;
    loop {
        let column = at.column(&mut keys)?;
        // Two columns of one name, or two keys, are the grammar's to refuse.
        if keys > 1
            || columns.len() >= COLUMNS_MAX
            || columns.iter().any(|known| known.name.is(&column.name.text))
        {
            return None;
        }
        columns.push(column);
        if at.take(TokenType::TK_COMMA).is_none() {
            break;
        }
    }
    at.take(TokenType::TK_RP)?;
    at.take(TokenType::TK_SEMI);
    if at.peek().is_some() {
        return None;
    }
    let (constraints, without_rowid, strict) = (Vec::new(), false, false);
    let body = CreateTableBody::Columns { columns, constraints, without_rowid, strict };
    let name = ObjectName { database: None, name };
    Some(CreateTable { temporary: false, if_not_exists: false, name, body, offset })
}

/// A place among tokens.
pub(super) struct At<'t, 'a> {
    pub(super) tokens: &'t Tokens<'a>,
    pub(super) next: usize,
}

impl<'a> At<'_, 'a> {
    pub(super) fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.next)
    }

    /// The next token, if its kind is `kind`.
    pub(super) fn take(&mut self, kind: TokenType) -> Option<Token<'a>> {
        let token = self.peek().filter(|token| token.kind == kind)?;
        self.next += 1;
        Some(token)
    }

    /// A word neither a keyword nor in need of quotes.
    fn word(&mut self) -> Option<(&'a str, usize)> {
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let token = self.peek().filter(|token| token.kind == TokenType::TK_ID)?;
        let text = std::str::from_utf8(token.value).ok()?;
        if token.value.len() != token.end - token.start || !token.value.iter().all(plain) {
            return None;
        }
        self.next += 1;
        Some((text, token.start))
    }

    pub(super) fn name(&mut self) -> Option<Name> {
        let (text, offset) = self.word()?;
        Some(Name { text: text.to_owned(), offset, quote: Quote::None })
    }

    /// A column; `keys` counts the primary keys among the columns.
    fn column(&mut self, keys: &mut usize) -> Option<ColumnDef> {
        let name = self.name()?;
        let mut type_name = String::new();
        while let Some((word, _)) = self.word() {
            if !type_name.is_empty() {
                type_name.push(' ');
            }
            type_name.push_str(word);
        }
        let mut constraints = Vec::new();
        loop {
            let conflict = None;
            if self.take(TokenType::TK_NOT).is_some() {
                self.take(TokenType::TK_NULL)?;
                constraints.push(ColumnConstraint::NotNull { conflict });
            } else if self.take(TokenType::TK_UNIQUE).is_some() {
                constraints.push(ColumnConstraint::Unique { conflict });
            } else if self.take(TokenType::TK_PRIMARY).is_some() {
                self.take(TokenType::TK_KEY)?;
                *keys += 1;
                let (descending, autoincrement) = (false, false);
                constraints.push(ColumnConstraint::PrimaryKey {
                    descending,
                    conflict,
                    autoincrement,
                });
            } else {
                return Some(ColumnDef { name, type_name, constraints });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{by_grammar, parse};
    use super::*;

    /// Asserts that [`parse`] gives the grammar's tree; true where the tokens alone gave one.
    fn agrees(sql: &str) -> bool {
        let plain = Tokens::new(sql).ok().and_then(|tokens| plain_table(&tokens));
        let grammar = Tokens::new(sql).and_then(by_grammar);
        assert_eq!(format!("{grammar:?}"), format!("{:?}", parse(sql)), "{sql}");
        plain.is_some()
    }

    #[test]
    fn plain_tables_are_what_the_grammar_makes_of_them() {
        for sql in [
            "CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT NOT NULL, bio)",
            "create table t(a);",
            "CREATE TABLE _x (\n  a1 unsigned big int UNIQUE NOT NULL, -- one\n b TEXT /* two */)",
            "CREATE TABLE t(a PRIMARY KEY NOT NULL, b REAL UNIQUE)",
        ] {
            assert!(agrees(sql), "{sql}");
        }
        for sql in [
            "CREATE TABLE t(a, A)",
            "CREATE TABLE t(a PRIMARY KEY, b PRIMARY KEY)",
            "CREATE TABLE t(a PRIMARY KEY PRIMARY KEY)",
            "CREATE TABLE t(a VARCHAR(10))",
            "CREATE TABLE t(\"a\")",
            "CREATE TABLE t([a] TEXT)",
            "CREATE TABLE t(a INTEGER PRIMARY KEY AUTOINCREMENT)",
            "CREATE TABLE t(a) STRICT",
            "CREATE TABLE t(a); CREATE TABLE u(a)",
            "CREATE TABLE t(a NOT NULL ON CONFLICT IGNORE)",
            "CREATE TABLE t(a NOT NULL x)",
            "CREATE TABLE t(a,)",
            "CREATE TABLE t()",
            "CREATE TABLE t(key)",
            "CREATE TABLE t(a DEFAULT 5)",
            "CREATE TABLE main.t(a)",
            "CREATE TEMP TABLE t(a)",
            "CREATE TABLE IF NOT EXISTS t(a)",
            "CREATE TABLE t(a, PRIMARY KEY (a))",
        ] {
            assert!(!agrees(sql), "{sql}");
        }
    }

    proptest! {
        #[test]
        fn words_in_any_order(words in prop::collection::vec(prop::sample::select(vec![
            "a", "b", "A", "INTEGER", "TEXT", "NOT NULL", "UNIQUE", "PRIMARY KEY", "NULL", "KEY", ",",
            ",", ",", ")", "(", ";", "'s'", "\u{e4}", "7", "hidden", "generated", "without",
        ]), 0..12)) {
            agrees(&format!("CREATE TABLE t(x {})", words.join(" ")));
        }
    }
}
