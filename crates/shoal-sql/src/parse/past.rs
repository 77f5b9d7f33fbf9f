//! `table AS OF value` and `table FOR SYSTEM_TIME AS OF value` in a `FROM`, and `UPDATE table AT
//! value`, unknown to the grammar.
//!
//! The grammar is given a call, `table(value)`, in the same bytes; the place of the table's name
//! tells the conversion that the call is none. No statement of SQLite's changes its meaning: behind
//! an alias `of` no value can stand, except for the columns of `INSERT INTO table AS of (...)`.
//!
//! The value of `AT` becomes the first assignment, taken out by the conversion.

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
    let mut rewritten: Option<Rewritten> = None;
    let begin = || Rewritten { text: tokens.sql.to_owned(), places: Vec::new() };
    let (mut at, mut grown) = (0, 0);
    while let Some(name) = tokens.get(at) {
        at += 1;
        if let Some(seen) = Seen::at(tokens, at - 1)? {
            let rewritten = rewritten.get_or_insert_with(begin);
            let (from, to) = (seen.from + grown, seen.to + grown);
            let length = rewritten.text.len();
            let padded = format!("{:>width$}", seen.text, width = to - from);
            rewritten.text.replace_range(from..to, &padded);
            rewritten.places.push((seen.name + grown, PastPoint::Version));
            grown += rewritten.text.len() - length;
            at = seen.next;
            continue;
        }
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
        let Rewritten { text, places } = rewritten.get_or_insert_with(begin);
        let (from, to) = (name.end + grown, last.end + grown);
        let mut call = format!("({})", &tokens.sql[first.start..last.end]);
        call.extend(std::iter::repeat_n(' ', (to - from).saturating_sub(call.len())));
        text.replace_range(from..to, &call);
        places.push((name.start + grown, point));
        at = value;
    }
    Ok(rewritten)
}

/// `AT value [AS alias] SET` behind the table's name of an `UPDATE`.
struct Seen {
    /// The offset of the table's name.
    name: usize,
    /// The bytes from `AT` to `SET`.
    from: usize,
    to: usize,
    /// The same for the grammar: the value is assigned first.
    text: String,
    /// The place of the token behind `SET`.
    next: usize,
}

impl Seen {
    /// `AT` behind the table of the statement that begins at a place, if there.
    ///
    /// # Errors
    /// [`Error::Unsupported`] in a trigger, and for other statements than `UPDATE`.
    fn at(tokens: &Tokens<'_>, first: usize) -> Result<Option<Seen>, Error> {
        let kind = |place: usize| tokens.get(place).map(|token| token.kind);
        let mut place = first + 1;
        let is_update = match (kind(first), kind(place)) {
            (Some(T::TK_UPDATE), Some(T::TK_OR)) => {
                place += 2;
                true
            }
            (Some(T::TK_UPDATE), _) => true,
            (Some(T::TK_INTO), _) => false,
            (Some(T::TK_FROM), _) if first > 0 && kind(first - 1) == Some(T::TK_DELETE) => false,
            _ => return Ok(None),
        };
        if kind(place + 1) == Some(T::TK_DOT) {
            place += 2;
        }
        let (Some(name), Some(word)) = (tokens.get(place), tokens.get(place + 1)) else {
            return Ok(None);
        };
        let is_at = word.kind == T::TK_ID && word.value.eq_ignore_ascii_case(b"at");
        let Some((value, last)) = value_at(tokens, place + 2).filter(|_| is_at) else {
            return Ok(None);
        };
        if !is_update {
            let what = "AT behind the table of another statement than UPDATE";
            return Err(Error::unsupported(what, word.start));
        }
        if is_kept_definition(tokens) {
            let what = "AT in a trigger, which other programs could not read";
            return Err(Error::unsupported(what, word.start));
        }
        let mut next = place + 2;
        while tokens.get(next).is_some_and(|token| token.start <= last.start) {
            next += 1;
        }
        let alias = match (kind(next), tokens.get(next + 1)) {
            (Some(T::TK_AS), Some(alias)) => {
                let words = &tokens.sql[tokens.get(next).map_or(0, |it| it.start)..alias.end];
                next += 2;
                format!("{words} ")
            }
            _ => String::new(),
        };
        let Some(set) = tokens.get(next).filter(|token| token.kind == T::TK_SET) else {
            return Ok(None);
        };
        let text = format!("{alias}SET A={},", &tokens.sql[value.start..last.end]);
        Ok(Some(Seen { name: name.start, from: word.start, to: set.end, text, next: next + 1 }))
    }
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

    fn update(sql: &str) -> crate::parse::ast::Update {
        let Stmt::Update(update) = parse(sql).unwrap().stmt else { panic!("{sql}") };
        *update
    }

    #[test]
    fn updates_at_a_value() {
        for (sql, alias) in [
            ("UPDATE todo AT 'abc' SET a = 1", None),
            ("update main.todo at ?1 as t set a = 1, b = 2 where c", Some("t")),
            ("UPDATE OR IGNORE \"to do\"AT('a')SET a = ?2 RETURNING *", None),
            ("WITH x AS (SELECT 1) UPDATE todo AT x'00' SET a = 1 FROM x AS OF 'b'", None),
        ] {
            let update = update(sql);
            assert!(update.at.is_some(), "{sql}");
            assert!(update.sets.iter().all(|(names, _)| !names[0].is("A") || sql.contains("a =")));
            assert_eq!(update.sets[0].0[0].text, "a", "{sql}");
            assert_eq!(update.alias.as_ref().map(|it| it.text.as_str()), alias, "{sql}");
        }
        assert!(update("UPDATE todo AS at SET a = 1").at.is_none());
        assert!(update("UPDATE at SET a = 1").at.is_none());
        let parsed = parse("UPDATE todo AT ? SET a = ?, b = :b").unwrap();
        assert_eq!(parsed.parameters.len(), 3);
        for (sql, why) in [
            ("DELETE FROM todo AT 'x' WHERE 1", "AT behind the table"),
            ("INSERT INTO todo AT 'x' VALUES (1)", "AT behind the table"),
            ("UPDATE todo AT SET a = 1", "near"),
            ("UPDATE todo AT 'x' WHERE 1", "near"),
            (
                "CREATE TRIGGER t AFTER INSERT ON u BEGIN UPDATE todo AT 'x' SET a = 1; END",
                "AT in a trigger",
            ),
        ] {
            let refused = parse(sql).unwrap_err().to_string();
            assert!(refused.contains(why), "{sql}: {refused}");
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
