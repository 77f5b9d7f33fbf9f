//! Values and names as SQL: literals read back as the same value.

use std::io::{self, Write};

use shoal_sql::{ValueRef, real_to_text};
use shoal_stdx::hex;

/// A character written by its number, and two marks to stand in its place.
type Marked = (char, &'static str, &'static str);

const NUL: Marked = ('\0', "\\0", "\\000");
const LINE_FEED: Marked = ('\n', "\\n", "\\012");
const CARRIAGE_RETURN: Marked = ('\r', "\\r", "\\015");

/// Writes the value as a literal. Infinite reals are written as numbers too large for a double; a
/// NUL in a text comes from `char(0)`, as the file's encoding has one; a text with bytes outside
/// UTF-8 is cast from its bytes.
pub fn literal(out: &mut impl Write, value: &ValueRef<'_>) -> io::Result<()> {
    match *value {
        ValueRef::Null => out.write_all(b"NULL"),
        ValueRef::Int(i64::MIN) => out.write_all(b"(-9223372036854775807-1)"),
        ValueRef::Int(value) => write!(out, "{value}"),
        ValueRef::Real(value) if value == f64::INFINITY => out.write_all(b"1e999"),
        ValueRef::Real(value) if value == f64::NEG_INFINITY => out.write_all(b"-1e999"),
        ValueRef::Real(value) => out.write_all(real_to_text(value).as_bytes()),
        ValueRef::Blob(bytes) => write!(out, "X'{}'", hex::encode(bytes)),
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text_literal(out, text, &[NUL]),
            Err(_) => write!(out, "CAST(X'{}' AS TEXT)", hex::encode(bytes)),
        },
    }
}

/// Writes the value as a literal on a single line, as `sqlite3` does for a dump: line breaks come
/// from `replace(..., char(10))`.
pub fn literal_on_a_line(out: &mut impl Write, value: &ValueRef<'_>) -> io::Result<()> {
    let ValueRef::Text(bytes) = *value else { return literal(out, value) };
    match std::str::from_utf8(bytes) {
        Ok(text) => text_literal(out, text, &[LINE_FEED, CARRIAGE_RETURN, NUL]),
        Err(_) => literal(out, value),
    }
}

/// Writes a text in quotes, with marks for characters replaced when the literal is read.
fn text_literal(out: &mut impl Write, text: &str, marked: &[Marked]) -> io::Result<()> {
    let mut quoted = text.replace('\'', "''");
    let (mut before, mut after) = (String::new(), String::new());
    for &(character, first, second) in marked {
        if text.contains(character) {
            let mark = mark(text, first, second);
            quoted = quoted.replace(character, &mark);
            before.push_str("replace(");
            after = format!(",'{mark}',char({})){after}", u32::from(character));
        }
    }
    write!(out, "{before}'{quoted}'{after}")
}

/// A mark for a character, chosen to be absent from the text.
fn mark(text: &str, first: &str, second: &str) -> String {
    if !text.contains(first) {
        return first.to_owned();
    }
    if !text.contains(second) {
        return second.to_owned();
    }
    (0..)
        .map(|number| format!("({first}{number})"))
        .find(|mark| !text.contains(mark))
        .expect("a text has finitely many marks")
}

/// The name in double quotes.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The name as `sqlite3` prints one in a statement: quoted only where necessary.
pub fn identifier(name: &str) -> String {
    let mut characters = name.chars();
    let starts = characters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    let plain = starts && characters.all(|c| c.is_ascii_alphanumeric() || c == '_');
    if plain && !is_keyword(name) { name.to_owned() } else { quoted(name) }
}

/// True where the word is one of SQL's own, in any case.
pub fn is_keyword(word: &str) -> bool {
    KEYWORDS.split_ascii_whitespace().any(|keyword| keyword.eq_ignore_ascii_case(word))
}

/// The words of the language.
pub const KEYWORDS: &str = "\
ABORT ACTION ADD AFTER ALL ALTER ALWAYS ANALYZE AND AS ASC ATTACH AUTOINCREMENT BEFORE \
BEGIN BETWEEN BY CASCADE CASE CAST CHECK COLLATE COLUMN COMMIT CONFLICT CONSTRAINT CREATE \
CROSS CURRENT CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP DATABASE DEFAULT DEFERRABLE \
DEFERRED DELETE DESC DETACH DISTINCT DO DROP EACH ELSE END ESCAPE EXCEPT EXCLUDE EXCLUSIVE \
EXISTS EXPLAIN FAIL FILTER FIRST FOLLOWING FOR FOREIGN FROM FULL GENERATED GLOB GROUP \
GROUPS HAVING IF IGNORE IMMEDIATE IN INDEX INDEXED INITIALLY INNER INSERT INSTEAD \
INTERSECT INTO IS ISNULL JOIN KEY LAST LEFT LIKE LIMIT MATCH MATERIALIZED NATURAL NO NOT \
NOTHING NOTNULL NULL NULLS OF OFFSET ON OR ORDER OTHERS OUTER OVER PARTITION PLAN PRAGMA \
PRECEDING PRIMARY QUERY RAISE RANGE RECURSIVE REFERENCES REGEXP REINDEX RELEASE RENAME \
REPLACE RESTRICT RETURNING RIGHT ROLLBACK ROW ROWS SAVEPOINT SELECT SET TABLE TEMP \
TEMPORARY THEN TIES TO TRANSACTION TRIGGER UNBOUNDED UNION UNIQUE UPDATE USING VACUUM \
VALUES VIEW VIRTUAL WHEN WHERE WINDOW WITH WITHOUT";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_read_back() {
        let check = |value: ValueRef<'_>, expect: &str| {
            let mut out = Vec::new();
            literal(&mut out, &value).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expect);
        };
        check(ValueRef::Real(1.0), "1.0");
        check(ValueRef::Real(0.1 + 0.2), "0.30000000000000004");
        check(ValueRef::Text(b"it's"), "'it''s'");
        check(ValueRef::Text(b"a\0b\n"), "replace('a\\0b\n','\\0',char(0))");
        check(ValueRef::Text(b"\\0\0"), "replace('\\0\\000','\\000',char(0))");
        check(ValueRef::Text(&[0xff]), "CAST(X'ff' AS TEXT)");
        check(ValueRef::Int(i64::MIN), "(-9223372036854775807-1)");
    }

    #[test]
    fn line_breaks_leave_the_line() {
        let check = |text: &str, expect: &str| {
            let mut out = Vec::new();
            literal_on_a_line(&mut out, &ValueRef::Text(text.as_bytes())).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expect);
        };
        check("a\nb", "replace('a\\nb','\\n',char(10))");
        check("a\\n\n", "replace('a\\n\\012','\\012',char(10))");
        check("a\r\n", "replace(replace('a\\r\\n','\\r',char(13)),'\\n',char(10))");
        check("a\0\n", "replace(replace('a\\0\\n','\\0',char(0)),'\\n',char(10))");
        check("it's", "'it''s'");
    }

    #[test]
    fn names_are_quoted_where_they_must_be() {
        assert_eq!(identifier("t_1"), "t_1");
        assert_eq!(identifier("table"), "\"table\"");
        assert_eq!(identifier("a b"), "\"a b\"");
        assert_eq!(identifier("1a"), "\"1a\"");
        assert_eq!(identifier("a\"b"), "\"a\"\"b\"");
        assert_eq!(identifier(""), "\"\"");
    }
}
