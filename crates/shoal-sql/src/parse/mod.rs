//! Text to tree: the grammar of the `sqlite3-parser` crate, converted to this crate's own tree.
//!
//! The grammar crate is SQLite's own grammar, so whatever SQLite accepts parses here, stored
//! schemas of every age included. Its tree lives in an arena and has no positions; the conversion
//! gives every node its byte offset, numbers the parameters, decodes literals, and bounds how deep
//! an expression or a query may nest.

pub(crate) mod ast;
mod convert;
mod convert_ddl;
mod convert_select;
mod statements;
mod tokens;

pub(crate) use convert::{EXPR_DEPTH_MAX, QUERY_DEPTH};

use sqlite3_parser::ast::Cmd;
use sqlite3_parser::lexer::sql::{Error as LexError, Parser, ParserError};
use sqlite3_parser::{Bump, FallibleIterator};

pub use statements::Statements;

use crate::Error;
use convert::Converter;
use tokens::Tokens;

/// A parsed statement and its parameters.
#[derive(Clone, Debug)]
pub(crate) struct Parsed {
    pub(crate) stmt: ast::Stmt,
    /// One entry per parameter, its name with `?`, `:`, `@` or `$` where it has one.
    pub(crate) parameters: Vec<Option<String>>,
}

/// Parses a text that holds one statement.
///
/// # Errors
/// [`Error::Syntax`] with the place and SQLite's words; [`Error::Limit`] for what nests too deep;
/// [`Error::Meaning`] when there is no statement or more than one.
pub(crate) fn parse(sql: &str) -> Result<Parsed, Error> {
    let tokens = Tokens::new(sql)?;
    let arena = Bump::new();
    let mut parser = Parser::new(&arena, sql.as_bytes());
    let Some(cmd) = parser.next().map_err(|error| syntax(error, sql))? else {
        return Err(Error::meaning("no statement", 0));
    };
    let mut converter = Converter::new(tokens);
    let stmt = match cmd {
        Cmd::Stmt(stmt) => converter.stmt(&stmt)?,
        Cmd::Explain(stmt) => converter.explain(&stmt, false)?,
        Cmd::ExplainQueryPlan(stmt) => converter.explain(&stmt, true)?,
    };
    if !matches!(parser.next(), Ok(None)) {
        return Err(Error::meaning("more than one statement", converter.end_of_statement()));
    }
    Ok(Parsed { stmt, parameters: converter.into_parameters() })
}

/// The grammar crate's error in SQLite's words, its line and column as an offset.
fn syntax(error: LexError, sql: &str) -> Error {
    match error {
        LexError::ParserError(ParserError::SyntaxError(token), pos) => Error::Syntax {
            message: format!("near \"{token}\": syntax error"),
            offset: pos.map_or(0, |pos| byte_offset(pos.line, pos.column, sql)),
        },
        LexError::ParserError(ParserError::UnexpectedEof, _) => {
            Error::Syntax { message: "incomplete input".to_owned(), offset: sql.len() }
        }
        LexError::ParserError(ParserError::Custom(message), pos) => Error::Syntax {
            message,
            offset: pos.map_or(0, |pos| byte_offset(pos.line, pos.column, sql)),
        },
        // The tokens were already split without an error.
        other => Error::Syntax { message: other.to_string(), offset: 0 },
    }
}

/// The byte offset of a line and a column in bytes, both from 1.
fn byte_offset(line: usize, column: usize, sql: &str) -> usize {
    let start: usize = sql.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    (start + column.saturating_sub(1)).min(sql.len())
}
