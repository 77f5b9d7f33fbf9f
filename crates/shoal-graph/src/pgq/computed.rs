//! Properties made of a row's columns: `PROPERTIES (price * amount AS total)`.

use shoal_sql::Error;

use super::elements::quoted;
use super::tables::ColumnNames;
use super::words::{Kind, Word, at_place};

/// An expression of SQL over the columns of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Computed(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Sql(String),
    Column(String),
}

/// Keywords of expressions: column names only in quotes.
const KEYWORDS: [&str; 24] = [
    "AND", "AS", "BETWEEN", "CASE", "CAST", "COLLATE", "DISTINCT", "ELSE", "END", "ESCAPE", "FROM",
    "GLOB", "IN", "IS", "ISNULL", "LIKE", "MATCH", "NOT", "NOTNULL", "NULL", "OR", "REGEXP",
    "THEN", "WHEN",
];

impl Computed {
    /// The expression of some words, with the columns of its table found by name.
    ///
    /// # Errors
    /// Parameters, queries, and unknown columns in quotes or behind the table's name.
    pub(super) fn of(
        words: &[Word<'_>],
        columns: &[String],
        names: [&str; 2],
    ) -> Result<Computed, Error> {
        let mut made = Computed(Vec::new());
        let mut at = 0;
        while let Some(word) = words.get(at) {
            let behind = |count: usize, sign: &str| {
                words.get(at + count).is_some_and(|word| word.is_sign(sign))
            };
            if at > 0 && words[at - 1].end() < word.start {
                made.push_sql(" ");
            }
            let refused = |why: &str| Err(at_place(&format!("{}: {why}", word.text), word.start));
            if word.kind == Kind::Parameter {
                return refused("a property has no parameters");
            }
            if ["SELECT", "VALUES", "OVER", "EXISTS"].iter().any(|other| word.is(other)) {
                return refused("a property is made of the columns of its own row");
            }
            let is_type = at > 0 && ["AS", "COLLATE"].iter().any(|other| words[at - 1].is(other));
            let is_keyword = KEYWORDS.iter().any(|other| word.is(other));
            let is_call = word.kind == Kind::Name && behind(1, "(");
            match word.name() {
                Some(name) if behind(1, ".") => {
                    let member = words.get(at + 2).and_then(Word::name).unwrap_or_default();
                    let is_own = names.iter().any(|own| own.eq_ignore_ascii_case(&name));
                    match columns.find_name(&member) {
                        Some(column) if is_own => made.0.push(Piece::Column(column.clone())),
                        _ => return refused("a property is made of the columns of its own row"),
                    }
                    at += 2;
                }
                Some(name) if !is_type && !is_keyword && !is_call => match columns.find_name(&name)
                {
                    Some(column) => made.0.push(Piece::Column(column.clone())),
                    // In SQL an unknown column in quotes is a text.
                    None if word.kind == Kind::Quoted => return refused("there is no such column"),
                    None => made.push_sql(word.text),
                },
                _ => made.push_sql(word.text),
            }
            at += 1;
        }
        Ok(made)
    }

    /// The expression from the words of [`Computed::sql`], an alias before each column.
    pub(super) fn written(words: &[Word<'_>]) -> Computed {
        let mut made = Computed(Vec::new());
        let mut at = 0;
        while let Some(word) = words.get(at) {
            if at > 0 && words[at - 1].end() < word.start {
                made.push_sql(" ");
            }
            let member = match (word.name(), words.get(at + 1), words.get(at + 2)) {
                (Some(_), Some(dot), Some(column)) if dot.is_sign(".") => column.name(),
                _ => None,
            };
            match member {
                Some(column) => {
                    made.0.push(Piece::Column(column));
                    at += 3;
                }
                None => {
                    made.push_sql(word.text);
                    at += 1;
                }
            }
        }
        made
    }

    fn push_sql(&mut self, text: &str) {
        match self.0.last_mut() {
            Some(Piece::Sql(sql)) => sql.push_str(text),
            _ => self.0.push(Piece::Sql(text.to_owned())),
        }
    }

    /// The expression for the row of an alias, in parentheses.
    pub(crate) fn sql(&self, alias: &str) -> String {
        let mut sql = String::from("(");
        for piece in &self.0 {
            match piece {
                Piece::Sql(text) => sql.push_str(text),
                Piece::Column(column) => {
                    sql.push_str(&format!("{}.{}", quoted(alias), quoted(column)));
                }
            }
        }
        sql.push(')');
        sql
    }
}
