//! The shape of a small query: its text with numbered parameters in the place of literals.
//!
//! Programs writing values into their texts seldom repeat a text, but have few shapes. The plan of
//! a shape, kept by [`Plans`](crate::connection::plans), serves all of its texts, with their
//! literals as values of its parameters. A literal becomes a parameter only where both mean the
//! same to every part of the language: as an operand of a comparison in `WHERE`, or alone as a
//! column of the result. Elsewhere the shape has the literal as written: in `LIMIT`, `LIKE`,
//! `BETWEEN`, and behind `ORDER BY`, where numbers stand for columns.
//!
//! The scan knows words, plain integers and strings, comparisons, commas, dots and stars. A text
//! with anything else has no shape: parentheses (calls, lists, queries within), quoted names,
//! parameters, comments, arithmetic, hexadecimal numbers and reals.

use std::fmt::Write;

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

/// Most literals of a shape.
const LITERALS_MAX: usize = 16;

/// Integers of so many digits are no reals.
const DIGITS_MAX: usize = 18;

/// Texts up to so many bytes are looked at.
const TEXT_MAX: usize = 1 << 10;

/// The clause around the scan's place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Clause {
    Columns,
    From,
    Where,
    Tail,
}

/// The token before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// `SELECT`, or a comma.
    Begin,
    Comparison,
    /// A literal with a parameter in its place.
    Literal,
    Other,
}

impl Shape {
    /// Takes the shape of a text; false for a text without a shape, or without a literal to
    /// replace.
    pub(crate) fn read(&mut self, sql: &str) -> bool {
        self.text.clear();
        self.literals.clear();
        let select = sql.as_bytes().get(..7);
        let begins = select.is_some_and(|word| {
            word[..6].eq_ignore_ascii_case(b"select") && word[6].is_ascii_whitespace()
        });
        begins && sql.len() <= TEXT_MAX && self.scan(sql).is_some() && !self.literals.is_empty()
    }

    /// `None` for a text without a shape.
    fn scan(&mut self, sql: &str) -> Option<()> {
        let bytes = sql.as_bytes();
        let (mut clause, mut last) = (Clause::Columns, Last::Begin);
        // The number of the result column; `None` behind a star.
        let mut column = Some(0);
        // Behind `SELECT`; and up to where the text was taken over.
        let (mut at, mut copied) = (6, 0);
        while let Some(&first) = bytes.get(at) {
            let start = at;
            at += 1;
            last = match first {
                b' ' | b'\n' | b'\t' | b'\r' => continue,
                b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                    at = past_word(bytes, at);
                    clause = clause.past(&bytes[start..at]);
                    Last::Other
                }
                b'0'..=b'9' | b'\'' => {
                    at =
                        if first == b'\'' { past_string(bytes, at)? } else { past_int(bytes, at)? };
                    match self.place(bytes, at, (clause, last, column)) {
                        Some(names) => {
                            self.literals.push(Literal { start, end: at, names });
                            self.text.push_str(sql.get(copied..start)?);
                            write!(self.text, "?{}", self.literals.len()).ok()?;
                            copied = at;
                            Last::Literal
                        }
                        None => Last::Other,
                    }
                }
                b',' => {
                    column = column.map(|column: usize| column + 1);
                    Last::Begin
                }
                b'.' if last != Last::Literal => Last::Other,
                b'*' if clause == Clause::Columns => {
                    column = None;
                    Last::Other
                }
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

    /// The column named by a literal ending at `end`, if any; `None` for a literal to keep as
    /// written.
    fn place(
        &self,
        bytes: &[u8],
        end: usize,
        (clause, last, column): (Clause, Last, Option<usize>),
    ) -> Option<Option<usize>> {
        if self.literals.len() == LITERALS_MAX {
            return None;
        }
        match (clause, last) {
            (Clause::Where, Last::Comparison) => Some(None),
            (Clause::Columns, Last::Begin) => {
                let space = bytes[end..].iter().take_while(|byte| byte.is_ascii_whitespace());
                let next = end + space.count();
                let word = &bytes[next..past_word(bytes, next)];
                if word.eq_ignore_ascii_case(b"as") {
                    return Some(None);
                }
                let ends = word.eq_ignore_ascii_case(b"from") || bytes.get(next) == Some(&b',');
                // Behind a star columns have no numbers yet.
                column.filter(|_| ends).map(Some)
            }
            _ => None,
        }
    }

    /// The values of the replaced literals of `sql`, the text of the shape, in the order of their
    /// parameters.
    pub(crate) fn values(&self, sql: &str) -> Vec<Value> {
        let value = |literal: &Literal| {
            let text = &sql[literal.start..literal.end];
            match text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
                Some(inner) if inner.contains('\'') => Value::from(inner.replace("''", "'")),
                Some(inner) => Value::from(inner),
                None => Value::Int(text.parse().expect("18 digits are an integer")),
            }
        };
        self.literals.iter().map(value).collect()
    }

    /// The result columns of `sql` named by replaced literals, by number from 0, and their names.
    pub(crate) fn names<'s>(&self, sql: &'s str) -> impl Iterator<Item = (usize, &'s str)> {
        self.literals
            .iter()
            .filter_map(move |literal| Some((literal.names?, &sql[literal.start..literal.end])))
    }
}

impl Clause {
    /// The clause behind a word.
    fn past(self, word: &[u8]) -> Clause {
        let is = |other: &[u8]| word.eq_ignore_ascii_case(other);
        match self {
            Clause::Columns if is(b"from") => Clause::From,
            Clause::From if is(b"where") => Clause::Where,
            Clause::Columns | Clause::Tail => self,
            // Behind these words numbers may stand for columns, or bounds decide the plan.
            Clause::From | Clause::Where => {
                const TAIL: [&[u8]; 8] = [
                    b"order",
                    b"group",
                    b"limit",
                    b"having",
                    b"union",
                    b"except",
                    b"intersect",
                    b"window",
                ];
                if TAIL.iter().any(|other| is(other)) { Clause::Tail } else { self }
            }
        }
    }
}

fn past_word(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(|&byte| is_word(byte)) {
        at += 1;
    }
    at
}

/// The place behind the digits of an integer, after the first of them; `None` for other numbers.
fn past_int(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    while bytes.get(at).is_some_and(u8::is_ascii_digit) {
        at += 1;
    }
    let goes_on = bytes.get(at).is_some_and(|&byte| is_word(byte) || byte == b'.');
    (!goes_on && at - start < DIGITS_MAX).then_some(at)
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
            "SELECT a FROM t WHERE b = x'00' AND c = ?1",
            &[Value::Int(1)],
            &[],
        );
    }

    #[test]
    fn texts_of_other_tokens_have_no_shape() {
        for sql in [
            "SELECT a FROM t WHERE id = ?",
            "SELECT a FROM t WHERE id = -7",
            "SELECT a FROM t WHERE id = 7.5",
            "SELECT a FROM t WHERE id = 7e1",
            "SELECT a FROM t WHERE id = 0x7",
            "SELECT a FROM t WHERE id = 7_0",
            "SELECT a FROM t WHERE id = 1234567890123456789",
            "SELECT a FROM t WHERE id IN (1)",
            "SELECT a FROM t WHERE \"a\" = 1",
            "SELECT a FROM t WHERE [a] = 1",
            "SELECT a FROM t WHERE a = 'x'.b",
            "SELECT a FROM t WHERE a = 'x' . b",
            "SELECT a FROM t WHERE a = 'x",
            "SELECT a FROM t WHERE a = 'x\0'",
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
            "INSERT INTO t VALUES (1)",
            "",
        ] {
            assert_eq!(shape(sql), None, "{sql}");
        }
    }
}
