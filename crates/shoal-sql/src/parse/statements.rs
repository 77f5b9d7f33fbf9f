//! The places of a text's statements, for shells and scripts.

use std::ops::Range;

use sqlite3_parser::dialect::TokenType;

use super::tokens::{Lexer, Token};

/// Splits a text at its semicolons, giving each statement's byte range without the semicolon.
///
/// A semicolon within a string, a comment or a trigger's body ends nothing. Ranges of white space
/// and comments alone are left out. The text need not be valid SQL: bytes outside of any token
/// count to the statement around them.
///
/// ```
/// let sql = "select 1; select ';' -- two";
/// let ranges: Vec<_> = shoal_sql::Statements::new(sql).collect();
/// assert_eq!(&sql[ranges[1].clone()], "select ';'");
/// ```
#[derive(Debug)]
pub struct Statements<'a> {
    sql: &'a str,
    lexer: Lexer<'a>,
}

impl<'a> Statements<'a> {
    /// The statements of `sql`, from its beginning.
    pub fn new(sql: &'a str) -> Self {
        Statements { sql, lexer: Lexer::new(sql.as_bytes()) }
    }

    /// True where the last statement is ended by a semicolon, and for a text without statements:
    /// asked by a prompt before running the typed text.
    pub fn is_complete(sql: &str) -> bool {
        let mut statements = Statements::new(sql);
        while let Some((_, closed)) = statements.next_statement() {
            if !closed {
                return false;
            }
        }
        true
    }

    fn next_statement(&mut self) -> Option<(Range<usize>, bool)> {
        let mut range: Option<Range<usize>> = None;
        let mut trigger = Trigger::default();
        loop {
            let (start, end, token) = match self.lexer.next_token() {
                Ok(Some(token)) => (token.start, token.end, Some(token)),
                Ok(None) => return range.map(|range| (range, false)),
                Err(bad) => (bad.start, bad.end, None),
            };
            if let Some(token) = token
                && token.kind == TokenType::TK_SEMI
                && trigger.semicolon_ends()
            {
                match range {
                    Some(range) => return Some((range, true)),
                    None => continue,
                }
            }
            trigger.see(token);
            range = Some(range.map_or(start, |range| range.start)..end);
        }
    }
}

impl Iterator for Statements<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let (range, _) = self.next_statement()?;
        // A bad token may have swallowed half a character; the statement ends on a whole one.
        let end = (range.end..=self.sql.len()).find(|&end| self.sql.is_char_boundary(end));
        Some(range.start..end.unwrap_or(self.sql.len()))
    }
}

/// Follows a statement far enough to recognise a trigger and its `END`.
#[derive(Debug, Default)]
struct Trigger {
    words: usize,
    create: bool,
    trigger: bool,
    after_semicolon: bool,
    ended: bool,
}

impl Trigger {
    fn see(&mut self, token: Option<Token<'_>>) {
        let kind = token.map(|token| token.kind);
        match (self.words, kind) {
            (0, Some(TokenType::TK_CREATE)) => self.create = true,
            (0, Some(TokenType::TK_EXPLAIN | TokenType::TK_QUERY | TokenType::TK_PLAN)) => return,
            (1, Some(TokenType::TK_TEMP)) => return,
            (1, Some(TokenType::TK_TRIGGER)) => self.trigger = self.create,
            _ => {}
        }
        self.words += 1;
        self.ended = self.after_semicolon && kind == Some(TokenType::TK_END);
        self.after_semicolon = kind == Some(TokenType::TK_SEMI);
    }

    fn semicolon_ends(&self) -> bool {
        !self.trigger || self.ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sql: &str, expect: &[&str]) {
        let got: Vec<&str> = Statements::new(sql).map(|range| &sql[range]).collect();
        assert_eq!(got, expect, "{sql}");
    }

    #[test]
    fn semicolons_split_unless_hidden() {
        check("", &[]);
        check(" ; ;-- x\n", &[]);
        check("select 1", &["select 1"]);
        check("select 1;select 2 ;", &["select 1", "select 2"]);
        check("select ';' /* ; */, \"a;b\"; x", &["select ';' /* ; */, \"a;b\"", "x"]);
        check("select 'open; select 2", &["select 'open; select 2"]);
        check("select \u{1}; é", &["select \u{1}", "é"]);
        check(
            "create trigger t after insert on x begin select 1; select 2; end; select 3;",
            &["create trigger t after insert on x begin select 1; select 2; end", "select 3"],
        );
        check(
            "create temp trigger t begin select 1; end;",
            &["create temp trigger t begin select 1; end"],
        );
    }

    #[test]
    fn completeness() {
        for sql in ["", "select 1;", "-- x", "create trigger t begin select 1; end;"] {
            assert!(Statements::is_complete(sql), "{sql}");
        }
        for sql in ["select 1", "select ';", "create trigger t begin select 1;"] {
            assert!(!Statements::is_complete(sql), "{sql}");
        }
    }
}
