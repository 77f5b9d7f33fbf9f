//! The shape of a small statement: its text with numbered parameters in the place of literals.
//!
//! Programs writing values into their texts, and dumps of databases, seldom repeat a text, but have
//! few shapes. The plan of a shape, kept by [`Plans`](crate::connection::plans), serves all of its
//! texts, with their literals as values of its parameters. A literal becomes a parameter only where
//! both mean the same to every part of the language: as an operand of a comparison in `WHERE`,
//! alone as a column of a query's result, alone in a row of `VALUES`, or alone behind `SET a =` and
//! as the last operand there (`SET a = a + 1`).
//! Elsewhere the shape has the literal as written: in `LIMIT`, `LIKE`, `BETWEEN`, within
//! parentheses, and behind `ORDER BY`, where numbers stand for columns.
//!
//! Without a shape are texts with parameters, comments, hexadecimal numbers, `->`, or more rows of
//! `VALUES` than parameters are worth.

use std::fmt::Write;

use super::convert::{number, unhex};
use crate::value::Value;

/// A text's shape and the places of its literals. Reused from text to text.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    /// The text with `?1`, `?2` ... for literals.
    pub(crate) text: String,
    /// Where the literals are in the text they were taken from.
    literals: Vec<Literal>,
}

#[derive(Clone, Copy, Debug)]
struct Literal {
    start: usize,
    end: usize,
    /// The number of the result column named by the literal as written, from 0.
    names: Option<usize>,
}

/// Most literals of a shape: as many as the columns of a wide table.
const LITERALS_MAX: usize = 64;

/// Integers of so many digits are no reals.
const DIGITS_MAX: usize = 18;

/// Texts up to so many bytes are looked at.
const TEXT_MAX: usize = 1 << 14;

/// The clause around the scan's place, outside of parentheses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Clause {
    /// The result columns of a query.
    Columns,
    From,
    /// `INSERT` and its table, up to the rows.
    Into,
    /// The rows of `VALUES`.
    Values,
    /// `UPDATE` and its table, up to `SET`.
    Target,
    Set,
    Where,
    Tail,
}

/// The token before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// `SELECT`, a comma, or the parenthesis before a row of `VALUES`.
    Begin,
    Comparison,
    /// `+`, `-`, `*`, `/`, `%`, `|` or `||` behind `SET`.
    Operator,
    /// A literal with a parameter in its place.
    Literal,
    Other,
}

/// Where the scan is.
struct Scan {
    clause: Clause,
    last: Last,
    /// The number of the result column; `None` behind a star.
    column: Option<usize>,
    /// Open parentheses.
    depth: usize,
}

impl Shape {
    /// Takes the shape of a text; false for a text without a shape, or without a literal to
    /// replace.
    pub(crate) fn read(&mut self, sql: &str) -> bool {
        self.text.clear();
        self.literals.clear();
        if sql.len() > TEXT_MAX {
            return false;
        }
        let word = &sql.as_bytes()[..past_word(sql.as_bytes(), 0)];
        const BEGINNINGS: [(&[u8], Clause); 5] = [
            (b"select", Clause::Columns),
            (b"insert", Clause::Into),
            (b"replace", Clause::Into),
            (b"update", Clause::Target),
            (b"delete", Clause::From),
        ];
        let known = BEGINNINGS.iter().find(|(known, _)| word.eq_ignore_ascii_case(known));
        known.is_some_and(|(known, clause)| self.scan(sql, known.len(), *clause).is_some())
            && !self.literals.is_empty()
    }

    /// Scans the text from behind its first word; `None` for a text without a shape.
    fn scan(&mut self, sql: &str, start: usize, clause: Clause) -> Option<()> {
        let bytes = sql.as_bytes();
        let mut scan = Scan { clause, last: Last::Begin, column: Some(0), depth: 0 };
        // Up to where the text was taken over.
        let (mut at, mut copied) = (start, 0);
        while let Some(&first) = bytes.get(at) {
            let start = at;
            at += 1;
            scan.last = match first {
                b' ' | b'\n' | b'\t' | b'\r' => continue,
                b'x' | b'X' if bytes.get(at) == Some(&b'\'') => {
                    at = past_blob(bytes, at + 1)?;
                    self.take(sql, &mut copied, start..at, &scan)?
                }
                b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                    at = past_word(bytes, at);
                    scan.clause = scan.past(&bytes[start..at])?;
                    Last::Other
                }
                b'0'..=b'9' | b'\'' => {
                    at = match first {
                        b'\'' => past_string(bytes, at)?,
                        _ => past_number(bytes, at)?,
                    };
                    self.take(sql, &mut copied, start..at, &scan)?
                }
                // A sign before a literal standing alone belongs to it.
                b'-' if scan.stands_alone() && bytes.get(at).is_some_and(u8::is_ascii_digit) => {
                    at = past_number(bytes, at)?;
                    self.take(sql, &mut copied, start..at, &scan)?
                }
                b'"' | b'`' => {
                    at = past_name(bytes, at, first)?;
                    Last::Other
                }
                b'[' => {
                    at = past_name(bytes, at, b']')?;
                    Last::Other
                }
                b',' => {
                    if scan.depth == 0 {
                        scan.column = scan.column.map(|column| column + 1);
                    }
                    Last::Begin
                }
                b'(' => {
                    scan.depth += 1;
                    if scan.begins_row() { Last::Begin } else { Last::Other }
                }
                b')' => {
                    scan.depth = scan.depth.checked_sub(1)?;
                    Last::Other
                }
                b'.' if scan.last != Last::Literal => Last::Other,
                b'*' => {
                    if scan.clause == Clause::Columns && scan.depth == 0 {
                        scan.column = None;
                    }
                    scan.operator()
                }
                // Comments, and paths of JSON, which an index may be about.
                b'-' if matches!(bytes.get(at), Some(b'-' | b'>')) => return None,
                b'/' if bytes.get(at) == Some(&b'*') => return None,
                b'+' | b'-' | b'/' | b'%' | b'|' => scan.operator(),
                b'&' | b'~' => Last::Other,
                b'=' | b'<' | b'>' | b'!' => {
                    while matches!(bytes.get(at), Some(b'=' | b'<' | b'>')) {
                        at += 1;
                    }
                    Last::Comparison
                }
                b';' if bytes[at..].iter().all(u8::is_ascii_whitespace) => break,
                _ => return None,
            };
        }
        self.text.push_str(sql.get(copied..)?);
        Some(())
    }

    /// Puts a parameter in the place of a literal, where one may stand there; `None` for a text
    /// with more literals than a shape has.
    fn take(
        &mut self,
        sql: &str,
        copied: &mut usize,
        place: std::ops::Range<usize>,
        scan: &Scan,
    ) -> Option<Last> {
        let Some(names) = scan.place(sql.as_bytes(), place.end) else { return Some(Last::Other) };
        if self.literals.len() == LITERALS_MAX {
            return None;
        }
        self.literals.push(Literal { start: place.start, end: place.end, names });
        self.text.push_str(sql.get(*copied..place.start)?);
        write!(self.text, "?{}", self.literals.len()).ok()?;
        *copied = place.end;
        Some(Last::Literal)
    }

    /// The values of the replaced literals of `sql`, the text of the shape, in the order of their
    /// parameters.
    pub(crate) fn values(&self, sql: &str) -> Vec<Value> {
        self.literals.iter().map(|literal| value(&sql[literal.start..literal.end])).collect()
    }

    /// The result columns of `sql` named by replaced literals, by number from 0, and their names.
    pub(crate) fn names<'s>(&self, sql: &'s str) -> impl Iterator<Item = (usize, &'s str)> {
        self.literals
            .iter()
            .filter_map(move |literal| Some((literal.names?, &sql[literal.start..literal.end])))
    }
}

/// The value of a literal as written.
fn value(text: &str) -> Value {
    if let Some(inner) = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
        return match inner.contains('\'') {
            true => Value::from(inner.replace("''", "'")),
            false => Value::from(inner),
        };
    }
    if let Some(hex) = text.strip_prefix(['x', 'X']) {
        return Value::Blob(unhex(hex.trim_matches('\'')));
    }
    if !text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E')) {
        return Value::Int(text.parse().expect("18 digits are an integer"));
    }
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    match number(digits, 0).expect("a real is a number") {
        Value::Real(real) if is_negative => Value::Real(-real),
        real => real,
    }
}

impl Scan {
    /// The column named by a literal ending at `end`, if any; `None` for a literal to keep as
    /// written.
    fn place(&self, bytes: &[u8], end: usize) -> Option<Option<usize>> {
        let space = bytes[end..].iter().take_while(|byte| byte.is_ascii_whitespace());
        let next = end + space.count();
        let ends_with = |end: u8| bytes.get(next) == Some(&end);
        let word = &bytes[next..past_word(bytes, next)];
        let is = |known: &[u8]| word.eq_ignore_ascii_case(known);
        match (self.clause, self.last) {
            (Clause::Where, Last::Comparison) if self.depth == 0 => Some(None),
            (Clause::Values, Last::Begin) if self.begins_row() => {
                (ends_with(b',') || ends_with(b')')).then_some(None)
            }
            (Clause::Set, Last::Comparison | Last::Operator) if self.depth == 0 => {
                let ends = next == bytes.len() || ends_with(b',') || ends_with(b';');
                (ends || is(b"where") || is(b"from") || is(b"returning")).then_some(None)
            }
            (Clause::Columns, Last::Begin) if self.depth == 0 => {
                if is(b"as") {
                    return Some(None);
                }
                // Behind a star columns have no numbers yet.
                self.column.filter(|_| is(b"from") || ends_with(b',')).map(Some)
            }
            _ => None,
        }
    }

    /// What an arithmetic operator is to the literal behind.
    fn operator(&self) -> Last {
        if self.clause == Clause::Set { Last::Operator } else { Last::Other }
    }

    /// True within the parentheses of a row of `VALUES`.
    fn begins_row(&self) -> bool {
        self.clause == Clause::Values && self.depth == 1
    }

    /// True where a literal would be a whole value of a row, or of `SET`.
    fn stands_alone(&self) -> bool {
        match self.last {
            Last::Begin => self.begins_row(),
            Last::Comparison => self.clause == Clause::Set && self.depth == 0,
            Last::Literal | Last::Operator | Last::Other => false,
        }
    }

    /// The clause behind a word; `None` where the text has no shape.
    fn past(&self, word: &[u8]) -> Option<Clause> {
        let is = |other: &[u8]| word.eq_ignore_ascii_case(other);
        if self.depth > 0 {
            return Some(self.clause);
        }
        Some(match self.clause {
            Clause::Columns if is(b"from") => Clause::From,
            Clause::From if is(b"where") => Clause::Where,
            Clause::Into if is(b"values") => Clause::Values,
            Clause::Into if is(b"select") || is(b"with") || is(b"default") => return None,
            Clause::Target if is(b"set") => Clause::Set,
            Clause::Set if is(b"where") => Clause::Where,
            Clause::Set if is(b"from") => Clause::From,
            Clause::Set if is(b"returning") => Clause::Tail,
            // `ON CONFLICT` or `RETURNING`.
            Clause::Values => Clause::Tail,
            Clause::Columns | Clause::Into | Clause::Target | Clause::Set | Clause::Tail => {
                self.clause
            }
            // Behind these words numbers may stand for columns, or bounds decide the plan.
            Clause::From | Clause::Where => {
                const TAIL: [&[u8]; 9] = [
                    b"order",
                    b"group",
                    b"limit",
                    b"having",
                    b"union",
                    b"except",
                    b"intersect",
                    b"window",
                    b"returning",
                ];
                if TAIL.iter().any(|other| is(other)) { Clause::Tail } else { self.clause }
            }
        })
    }
}

fn past_word(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(|&byte| is_word(byte)) {
        at += 1;
    }
    at
}

/// The place behind a number, after its first digit; `None` for hexadecimal ones, and for integers
/// that may be reals.
fn past_number(bytes: &[u8], start: usize) -> Option<usize> {
    let digits = |mut at: usize| {
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let mut at = digits(start);
    let mut is_real = false;
    if bytes.get(at) == Some(&b'.') {
        (at, is_real) = (digits(at + 1), true);
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let signed = at + 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let end = digits(signed);
        if end == signed {
            return None;
        }
        (at, is_real) = (end, true);
    }
    let goes_on = bytes.get(at).is_some_and(|&byte| is_word(byte) || byte == b'.');
    (!goes_on && (is_real || at - start < DIGITS_MAX)).then_some(at)
}

/// The place behind a string, after its first quote; `None` for a string without an end, or with a
/// zero byte.
fn past_string(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match bytes.get(at)? {
            b'\'' if bytes.get(at + 1) == Some(&b'\'') => at += 2,
            b'\'' => return Some(at + 1),
            0 => return None,
            _ => at += 1,
        }
    }
}

/// The place behind a blob, after its quote; `None` for a malformed one.
fn past_blob(bytes: &[u8], at: usize) -> Option<usize> {
    let digits = bytes[at..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    (digits % 2 == 0 && bytes.get(at + digits) == Some(&b'\'')).then_some(at + digits + 1)
}

/// The place behind a quoted name, after its first quote; `None` for a name without an end.
fn past_name(bytes: &[u8], at: usize, quote: u8) -> Option<usize> {
    let length = bytes[at..].iter().position(|&byte| byte == quote || byte == 0)?;
    (bytes[at + length] == quote).then_some(at + length + 1)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shape's text, its literals, and the columns named by some of them.
    type Parts<'s> = (String, Vec<Value>, Vec<(usize, &'s str)>);

    fn shape(sql: &str) -> Option<Parts<'_>> {
        let mut shape = Shape::default();
        let has_shape = shape.read(sql);
        has_shape.then(|| (shape.text.clone(), shape.values(sql), shape.names(sql).collect()))
    }

    #[test]
    fn literals_are_left_out_where_a_parameter_means_the_same() {
        let text = |text: &str| Value::from(text);
        let check = |sql: &str, expect: &str, values: &[Value], names: &[(usize, &str)]| {
            let (shape, of_shape, named) = shape(sql).expect(sql);
            assert_eq!((&*shape, &*of_shape, &*named), (expect, values, names), "{sql}");
        };
        check(
            "SELECT a FROM t WHERE id = 7",
            "SELECT a FROM t WHERE id = ?1",
            &[Value::Int(7)],
            &[],
        );
        check(
            "select a, 5 , 'x' from t where b='it''s' and id<=42 LIMIT 3;",
            "select a, ?1 , ?2 from t where b=?3 and id<=?4 LIMIT 3;",
            &[Value::Int(5), text("x"), text("it's"), Value::Int(42)],
            &[(1, "5"), (2, "'x'")],
        );
        check(
            "SELECT *, 5 AS n, t.* FROM t WHERE t.a == 'b' ORDER BY 1",
            "SELECT *, ?1 AS n, t.* FROM t WHERE t.a == ?2 ORDER BY 1",
            &[Value::Int(5), text("b")],
            &[],
        );
        check(
            "SELECT 1 'one', a FROM t WHERE a = 1 OR b LIKE 'x%' AND c BETWEEN 2 AND 3",
            "SELECT 1 'one', a FROM t WHERE a = ?1 OR b LIKE 'x%' AND c BETWEEN 2 AND 3",
            &[Value::Int(1)],
            &[],
        );
        check(
            "SELECT a FROM t JOIN u ON t.a = 5 WHERE u.b > 6 GROUP BY 1 HAVING a = 7",
            "SELECT a FROM t JOIN u ON t.a = 5 WHERE u.b > ?1 GROUP BY 1 HAVING a = 7",
            &[Value::Int(6)],
            &[],
        );
        check(
            "SELECT a FROM t WHERE b = x'00' AND c = 1",
            "SELECT a FROM t WHERE b = ?1 AND c = ?2",
            &[Value::Blob(vec![0]), Value::Int(1)],
            &[],
        );
    }

    #[test]
    fn literals_of_writes_are_left_out_where_they_stand_alone() {
        let blob = |bytes: &[u8]| Value::Blob(bytes.to_vec());
        let (text, int, real) = (|text: &str| Value::from(text), Value::Int, Value::Real);
        let cases: [(&str, &str, Vec<Value>); 11] = [
            (
                "INSERT INTO t VALUES(1,-2,'it''s',2.5,-1e3,x'00ff',NULL,1+1);",
                "INSERT INTO t VALUES(?1,?2,?3,?4,?5,?6,NULL,1+1);",
                vec![int(1), int(-2), text("it's"), real(2.5), real(-1e3), blob(&[0, 255])],
            ),
            (
                "insert or ignore into \"a b\"([c], `d`) values (1, 'x'), (2, abs(-3))",
                "insert or ignore into \"a b\"([c], `d`) values (?1, ?2), (?3, abs(-3))",
                vec![int(1), text("x"), int(2)],
            ),
            (
                "REPLACE INTO t VALUES (7) ON CONFLICT (a) DO UPDATE SET b = 8 RETURNING 9",
                "REPLACE INTO t VALUES (?1) ON CONFLICT (a) DO UPDATE SET b = 8 RETURNING 9",
                vec![int(7)],
            ),
            (
                "UPDATE t SET a = 5, b = b + 1, c = -1.5 WHERE id = 6 AND d IN (1, 2)",
                "UPDATE t SET a = ?1, b = b + ?2, c = ?3 WHERE id = ?4 AND d IN (1, 2)",
                vec![int(5), int(1), real(-1.5), int(6)],
            ),
            (
                "UPDATE t SET a = a || 'x', b = b * 2 + 3, c = max(c - 4, 5), d = d - -6",
                "UPDATE t SET a = a || ?1, b = b * 2 + ?2, c = max(c - 4, 5), d = d - -?3",
                vec![text("x"), int(3), int(6)],
            ),
            ("UPDATE t SET a='x'", "UPDATE t SET a=?1", vec![text("x")]),
            ("UPDATE t SET a = 1 RETURNING 2", "UPDATE t SET a = ?1 RETURNING 2", vec![int(1)]),
            ("DELETE FROM t WHERE a = 'x'", "DELETE FROM t WHERE a = ?1", vec![text("x")]),
            (
                "SELECT count(*), max(b, 1) FROM t WHERE \"a\" = 7.5",
                "SELECT count(*), max(b, 1) FROM t WHERE \"a\" = ?1",
                vec![real(7.5)],
            ),
            (
                "SELECT a FROM (SELECT b FROM u WHERE c = 1) WHERE a = 2",
                "SELECT a FROM (SELECT b FROM u WHERE c = 1) WHERE a = ?1",
                vec![int(2)],
            ),
            ("SELECT b - 1 FROM t WHERE a = 3", "SELECT b - 1 FROM t WHERE a = ?1", vec![int(3)]),
        ];
        for (sql, expected, values) in cases {
            let (shape, of_shape, _) = shape(sql).expect(sql);
            assert_eq!((&*shape, of_shape), (expected, values), "{sql}");
        }
        let row = |columns: usize| format!("INSERT INTO t VALUES ({}0)", "1, ".repeat(columns - 1));
        assert!(shape(&row(LITERALS_MAX)).is_some() && shape(&row(LITERALS_MAX + 1)).is_none());
    }

    #[test]
    fn texts_of_other_tokens_have_no_shape() {
        for sql in [
            "SELECT a FROM t WHERE id = ?",
            "SELECT a FROM t WHERE id = -7",
            "SELECT a FROM t WHERE id = 0x7",
            "SELECT a FROM t WHERE id = 7_0",
            "SELECT a FROM t WHERE id = 7e",
            "SELECT a FROM t WHERE id = 7.5.",
            "SELECT a FROM t WHERE id = 1234567890123456789",
            "SELECT a FROM t WHERE id IN (1)",
            "SELECT a FROM t WHERE (id = 1)",
            "SELECT a FROM t WHERE [a = 1",
            "SELECT a FROM t WHERE \"a = 1",
            "SELECT a FROM t WHERE a = 1)",
            "SELECT a FROM t WHERE a = 'x'.b",
            "SELECT a FROM t WHERE a = 'x' . b",
            "SELECT a FROM t WHERE a = 'x",
            "SELECT a FROM t WHERE a = 'x\0'",
            "SELECT a FROM t WHERE a->'b' = 1",
            "SELECT a FROM t WHERE a = 1 -- so",
            "SELECT a FROM t WHERE a /* so */ = 1",
            "SELECT a FROM t WHERE a = 1; SELECT 2",
            "SELECT a FROM t WHERE \u{e4} = 1",
            "SELECT a FROM t",
            "SELECT a FROM t LIMIT 5",
            "SELECT 5",
            "SELECT5 FROM t WHERE a = 1",
            " SELECT a FROM t WHERE a = 1",
            "CACHED SELECT a FROM t WHERE a = 1",
            "EXPLAIN SELECT a FROM t WHERE a = 1",
            "INSERT INTO t DEFAULT VALUES",
            "INSERT INTO t SELECT 1",
            "INSERT INTO t VALUES (?, 1)",
            "INSERT INTO t VALUES (0x1)",
            "INSERT INTO t VALUES (1 + 1)",
            "INSERT INTO t VALUES (x'0')",
            "INSERT INTO t VALUES (x'0g')",
            "INSERT INTO t VALUES (1 -- so\n)",
            "UPDATE t SET a = 1 + a",
            "UPDATE t SET (a, b) = (1, 2)",
            "DELETE FROM t",
            "WITH q AS (SELECT 1) DELETE FROM t WHERE a = 1",
            "",
        ] {
            assert_eq!(shape(sql), None, "{sql}");
        }
    }
}
