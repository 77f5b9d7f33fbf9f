//! `table AS OF value` and `table FOR SYSTEM_TIME AS OF value` in a `FROM`, unknown to the grammar.
//!
//! The grammar is given a call, `table(value)`, in the same bytes; the place of the table's name
//! tells the conversion that the call is none. No statement of SQLite's changes its meaning: behind
//! an alias `of` no value can stand, except for the columns of `INSERT INTO table AS of (...)`.

use sqlite3_parser::dialect::TokenType as T;

use super::ast::PastPoint;
use super::tokens::{Token, Tokens};
use crate::Error;

/// A text for the grammar, and the places of the tables' names.
#[derive(Debug)]
pub(super) struct Rewritten {
    pub(super) text: String,
    pub(super) places: Vec<(usize, PastPoint)>,
}

/// The text with calls in the place of `AS OF`; `None` where there is none.
///
/// # Errors
/// [`Error::Unsupported`] in a view or trigger: the file's schema would be readable here alone.
pub(super) fn rewrite(tokens: &Tokens<'_>) -> Result<Option<Rewritten>, Error> {
    let mut rewritten = None;
    let mut at = 0;
    while let Some(name) = tokens.get(at) {
        at += 1;
        let into = at >= 2 && tokens.get(at - 2).is_some_and(|token| token.kind == T::TK_INTO);
        if !matches!(name.kind, T::TK_ID | T::TK_STRING) || into {
            continue;
        }
        let Some((point, value)) = words(tokens, at) else { continue };
        let Some((first, last)) = value_at(tokens, value) else { continue };
        if is_kept_definition(tokens) {
            return Err(Error::unsupported(
                "AS OF in a view or trigger, which other programs could not read",
                name.start,
            ));
        }
        let Rewritten { text, places } = rewritten
            .get_or_insert_with(|| Rewritten { text: tokens.sql.to_owned(), places: Vec::new() });
        let (from, to) = (name.end, last.end);
        let mut call = format!("({})", &tokens.sql[first.start..last.end]);
        call.extend(std::iter::repeat_n(' ', (to - from).saturating_sub(call.len())));
        text.replace_range(from..to, &call);
        places.push((name.start, point));
        at = value;
    }
    Ok(rewritten)
}

/// The words behind a table's name, and the place of the value behind them.
fn words(tokens: &Tokens<'_>, at: usize) -> Option<(PastPoint, usize)> {
    let kind = |place: usize| tokens.get(place).map(|token| token.kind);
    if (kind(at), kind(at + 1)) == (Some(T::TK_AS), Some(T::TK_OF)) {
        return Some((PastPoint::Version, at + 2));
    }
    let is_time = kind(at) == Some(T::TK_FOR)
        && tokens.get(at + 1).is_some_and(|word| word.value.eq_ignore_ascii_case(b"system_time"))
        && (kind(at + 2), kind(at + 3)) == (Some(T::TK_AS), Some(T::TK_OF));
    is_time.then_some((PastPoint::Time, at + 4))
}

/// The first and the last token of a value: a literal, a parameter, or an expression in
/// parentheses.
fn value_at<'a>(tokens: &Tokens<'a>, at: usize) -> Option<(Token<'a>, Token<'a>)> {
    let first = tokens.get(at)?;
    let last = match first.kind {
        T::TK_STRING | T::TK_BLOB | T::TK_VARIABLE | T::TK_INTEGER | T::TK_FLOAT => first,
        T::TK_LP => tokens.get(tokens.past_close(at).checked_sub(1)?)?,
        _ => return None,
    };
    (last.kind == T::TK_RP || last.start == first.start).then_some((first, last))
}

/// True for `CREATE VIEW` and `CREATE TRIGGER`, whose text the file keeps.
fn is_kept_definition(tokens: &Tokens<'_>) -> bool {
    let kind = |place: usize| tokens.get(place).map(|token| token.kind);
    let is_kept = |kind| matches!(kind, Some(T::TK_VIEW | T::TK_TRIGGER));
    kind(0) == Some(T::TK_CREATE) && (is_kept(kind(1)) || is_kept(kind(2)))
}

#[cfg(test)]
mod tests {
    use super::super::ast::{SelectCore, Stmt, TableRefKind};
    use super::super::parse;
    use super::*;

    fn first(sql: &str) -> TableRefKind {
        let Stmt::Select(select) = parse(sql).unwrap().stmt else { panic!("{sql}") };
        let SelectCore::Select(clauses) = select.first else { panic!("{sql}") };
        clauses.from.unwrap().first.kind
    }

    #[test]
    fn tables_as_of_a_value() {
        for (sql, expected) in [
            ("SELECT * FROM todo AS OF 'abc'", PastPoint::Version),
            ("SELECT t.a FROM main.todo as of ?1 AS t WHERE a = 'x'", PastPoint::Version),
            ("SELECT 1 FROM \"to do\"AS OF\n('a' || 'b') t", PastPoint::Version),
            ("SELECT * FROM t FOR SYSTEM_TIME AS OF '2026-01-01' x", PastPoint::Time),
            ("SELECT * FROM t for system_time as of 1234", PastPoint::Time),
        ] {
            let TableRefKind::Past { point, value, .. } = first(sql) else { panic!("{sql}") };
            assert_eq!((point, value.len()), (expected, 1), "{sql}");
        }
    }

    #[test]
    fn an_alias_called_of_stays_one() {
        for sql in ["SELECT * FROM t AS of", "SELECT of.a FROM t AS of WHERE a", "SELECT 1 AS of"] {
            assert!(parse(sql).is_ok(), "{sql}");
        }
        assert!(parse("INSERT INTO t AS of (a) VALUES (1)").is_ok());
        let refused = parse("CREATE VIEW v AS SELECT * FROM t AS OF 'x'").unwrap_err();
        assert!(refused.to_string().contains("AS OF in a view"), "{refused}");
        assert!(parse("SELECT * FROM t AS OF 'x").is_err());
        assert!(parse("SELECT * FROM t AS OF ('x'").is_err());
        assert!(parse("CREATE TABLE u AS SELECT * FROM t AS OF 'x'").is_ok());
    }
}
