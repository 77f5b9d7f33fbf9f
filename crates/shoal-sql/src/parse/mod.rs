//! Text to tree: the grammar of the `sqlite3-parser` crate, converted to this crate's own tree.
//!
//! The grammar crate is SQLite's own grammar, so whatever SQLite accepts parses here, stored
//! schemas of every age included. Its tree lives in an arena and has no positions; the conversion
//! gives every node its byte offset, numbers the parameters, decodes literals, and bounds the depth
//! of expressions and queries. Plain definitions of tables and plain queries are read without the
//! grammar (`plain_table`, `plain_select`); `shape` takes literals out of texts.

pub(crate) mod ast;
mod convert;
mod convert_ddl;
mod convert_dml;
mod convert_select;
mod hint;
mod past;
mod plain_select;
mod plain_table;
mod shape;
mod statements;
mod tokens;

pub(crate) use convert::{EXPR_DEPTH_MAX, QUERY_DEPTH};

use sqlite3_parser::ast::Cmd;
use sqlite3_parser::lexer::sql::{Error as LexError, Parser, ParserError};
use sqlite3_parser::{Bump, FallibleIterator};

pub(crate) use hint::{Hint, hint};
pub(crate) use shape::Shape;
pub use statements::Statements;

use crate::Error;
use convert::Converter;
use plain_select::plain_select;
use plain_table::plain_table;
use tokens::Tokens;

/// Tells the guards of kept tables from other triggers: by the name of a table without rowids, the
/// names of the first two columns, and the name of a trigger.
pub type Guard = fn(table: &str, columns: [&str; 2], trigger: &str) -> bool;

/// A parsed statement and its parameters.
#[derive(Clone, Debug)]
pub(crate) struct Parsed {
    pub(crate) stmt: ast::Stmt,
    /// One entry per parameter; a named one has its name, with `?`, `:`, `@` or `$`.
    pub(crate) parameters: Vec<Option<String>>,
    /// The statement runs no triggers.
    pub(crate) is_silent: bool,
    /// Tells the guards of kept tables, which do not run.
    pub(crate) guard: Option<Guard>,
}

/// Parses a text of one statement.
///
/// # Errors
/// [`Error::Syntax`] with the place and SQLite's words; [`Error::Limit`] for too deep a nesting;
/// [`Error::Meaning`] when there is no statement or more than one.
pub(crate) fn parse(sql: &str) -> Result<Parsed, Error> {
    let tokens = Tokens::new(sql)?;
    if let Some(plain) = plain_select(&tokens) {
        return Ok(plain);
    }
    match plain_table(&tokens) {
        Some(table) => Ok(Parsed {
            stmt: ast::Stmt::CreateTable(Box::new(table)),
            parameters: Vec::new(),
            is_silent: false,
            guard: None,
        }),
        None => by_grammar(tokens),
    }
}

/// Parses any statement by the grammar, from its tokens.
fn by_grammar(tokens: Tokens<'_>) -> Result<Parsed, Error> {
    let Some(past::Rewritten { text, places }) = past::rewrite(&tokens)? else {
        return by_grammar_alone(tokens);
    };
    let mut tokens = Tokens::new(&text)?;
    tokens.past = places;
    by_grammar_alone(tokens)
}

/// Parses a statement that SQLite's grammar knows.
fn by_grammar_alone(mut tokens: Tokens<'_>) -> Result<Parsed, Error> {
    let arena = Bump::new();
    let kind = if tokens.take_analyze() { ast::Explain::Analyze } else { ast::Explain::Tree };
    let text = tokens.grammar_text();
    let mut parser = Parser::new(&arena, &text);
    let Some(cmd) = parser.next().map_err(|error| syntax(error, &tokens))? else {
        return Err(Error::meaning("no statement", 0));
    };
    let mut converter = Converter::new(tokens);
    let stmt = match cmd {
        Cmd::Stmt(stmt) => converter.stmt(&stmt)?,
        Cmd::Explain(stmt) => converter.explain(&stmt, kind)?,
        Cmd::ExplainQueryPlan(stmt) => converter.explain(&stmt, ast::Explain::QueryPlan)?,
    };
    if !matches!(parser.next(), Ok(None)) {
        return Err(Error::meaning("more than one statement", converter.end_of_statement()));
    }
    Ok(Parsed { stmt, parameters: converter.into_parameters(), is_silent: false, guard: None })
}

/// The grammar crate's error in SQLite's words, its line and column as an offset.
fn syntax(error: LexError, tokens: &Tokens<'_>) -> Error {
    let sql = tokens.sql;
    match error {
        LexError::ParserError(ParserError::SyntaxError(token), pos) => {
            let offset = pos.map_or(0, |pos| byte_offset(pos.line, pos.column, sql));
            // The crate leaves out the `?` of a parameter and the `x''` of a blob.
            let written = tokens.at_offset(offset);
            let written = written.map_or(&*token, |token| &sql[token.start..token.end]);
            Error::Syntax { message: format!("near \"{written}\": syntax error"), offset }
        }
        LexError::ParserError(ParserError::UnexpectedEof, _) => {
            Error::Syntax { message: "incomplete input".to_owned(), offset: sql.len() }
        }
        LexError::ParserError(ParserError::Custom(message), pos) => Error::Syntax {
            message: unquoted_column(message),
            offset: pos.map_or(0, |pos| byte_offset(pos.line, pos.column, sql)),
        },
        // The tokens were already split without an error.
        other => Error::Syntax { message: other.to_string(), offset: 0 },
    }
}

/// The grammar crate's error of a column defined twice, with the column's name as SQLite writes
/// names there: without quotes.
fn unquoted_column(message: String) -> String {
    const TWICE: &str = "duplicate column name: ";
    let Some(name) = message.strip_prefix(TWICE) else { return message };
    let mut chars = name.chars();
    let close = match chars.next() {
        Some('[') => ']',
        Some(quote @ ('"' | '`' | '\'')) => quote,
        _ => return message,
    };
    let inner = chars.as_str();
    let inner = inner.strip_suffix(close).unwrap_or(inner);
    format!("{TWICE}{}", inner.replace(&format!("{close}{close}"), &close.to_string()))
}

/// The byte offset of a line and a column in bytes, both from 1.
fn byte_offset(line: usize, column: usize, sql: &str) -> usize {
    let start: usize = sql.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    (start + column.saturating_sub(1)).min(sql.len())
}

#[cfg(test)]
mod tests {
    use super::ast::{CreateTableBody, Expr, ExprKind, ResultColumn, SelectCore, Stmt};
    use super::*;
    use crate::value::Value;

    fn select(sql: &str) -> ast::Select {
        match parse(sql).unwrap().stmt {
            Stmt::Select(select) => *select,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn result_columns_keep_their_text_and_place() {
        let sql = "select  a+ 1 , 'x' y, (b) as z, f(1, 2)/*c*/, d is distinct from e from t";
        let SelectCore::Select(clauses) = select(sql).first else { panic!("no select") };
        let columns: Vec<(&str, Option<&str>, usize)> = clauses
            .columns
            .iter()
            .map(|column| match column {
                ResultColumn::Expr { expr, alias, text } => {
                    (text.as_str(), alias.as_ref().map(|alias| alias.text.as_str()), expr.offset)
                }
                other => panic!("{other:?}"),
            })
            .collect();
        let place = |text: &str| sql.find(text).unwrap();
        assert_eq!(
            columns,
            [
                ("a+ 1", None, place("a+")),
                ("'x'", Some("y"), place("'x'")),
                ("(b)", Some("z"), place("b)")),
                ("f(1, 2)/*c*/", None, place("f(")),
                ("d is distinct from e", None, place("d is")),
            ]
        );
        assert!(clauses.from.is_some());
    }

    #[test]
    fn a_comma_in_limit_turns_it_around() {
        let bounds = |sql: &str| {
            let select = select(sql);
            let value = |expr: Option<Expr>| match expr.map(|expr| expr.kind) {
                Some(ExprKind::Literal(Value::Int(int))) => Some(int),
                _ => None,
            };
            (value(select.limit), value(select.offset))
        };
        assert_eq!(bounds("select 1 limit 2, 3"), (Some(3), Some(2)));
        assert_eq!(bounds("select 1 limit 2 offset 3"), (Some(2), Some(3)));
        assert_eq!(bounds("select 1 limit (2)"), (Some(2), None));
    }

    #[test]
    fn definitions_keep_types_and_defaults_as_written() {
        let sql = "create table t(a VARCHAR( 10 ) default 'x', [b c] \"double\" precision \
                   default (1 + 2), c default -3, d default x'00' check (c > 0) unique, e)";
        let Stmt::CreateTable(table) = parse(sql).unwrap().stmt else { panic!("no table") };
        let CreateTableBody::Columns { columns, .. } = &table.body else { panic!("no columns") };
        let shown: Vec<(&str, &str, Option<&str>)> = columns
            .iter()
            .map(|column| {
                let default = column.constraints.iter().find_map(|constraint| match constraint {
                    ast::ColumnConstraint::Default { text, .. } => Some(text.as_str()),
                    _ => None,
                });
                (column.name.text.as_str(), column.type_name.as_str(), default)
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("a", "VARCHAR( 10 )", Some("'x'")),
                ("b c", "\"double\" precision", Some("1 + 2")),
                ("c", "", Some("-3")),
                ("d", "", Some("x'00'")),
                ("e", "", None),
            ]
        );
    }

    #[test]
    fn parameters_are_numbered_as_sqlite_does() {
        let check = |sql: &str, expect: &[Option<&str>]| {
            let got = parse(sql).unwrap().parameters;
            let got: Vec<Option<&str>> = got.iter().map(|name| name.as_deref()).collect();
            assert_eq!(got, expect, "{sql}");
        };
        check("select 1", &[]);
        check("select ?, ?", &[None, None]);
        check("select ?3, ?, :a, :a", &[None, None, Some("?3"), None, Some(":a")]);
        check("select $a, @a, ?1", &[Some("$a"), Some("@a")]);
        let tcl = "select @a(), @a(x,'é'), $::b::c(1), :::d, @a()";
        check(tcl, &[Some("@a()"), Some("@a(x,'é')"), Some("$::b::c(1)"), Some(":::d")]);
    }

    #[test]
    fn the_least_integer_can_be_written() {
        let value = |sql: &str| match select(sql).first {
            SelectCore::Select(clauses) => match &clauses.columns[0] {
                ResultColumn::Expr {
                    expr: Expr { kind: ExprKind::Literal(value), .. }, ..
                } => value.clone(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        };
        assert_eq!(value("select -9223372036854775808"), Value::Int(i64::MIN));
        assert_eq!(value("select 9223372036854775808"), Value::Real(9_223_372_036_854_775_808.0));
        assert_eq!(
            value("select -9223372036854775808.0"),
            Value::Real(-9_223_372_036_854_775_808.0)
        );
        assert_eq!(value("select 0xFF"), Value::Int(255));
        assert_eq!(value("select 1_000"), Value::Int(1000));
    }
}
