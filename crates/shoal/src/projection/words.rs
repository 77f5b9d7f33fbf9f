//! The words of a statement about projections: names, texts, numbers, marks.

use super::define::Literal;
use crate::Error;

/// A word of SQL.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Word {
    /// A name without quotes, a keyword among them.
    Name(String),
    /// A name in double quotes, backticks or brackets.
    Quoted(String),
    Text(String),
    Number(String),
    Mark(char),
    /// A quote or comment without an end.
    Unterminated,
}

/// A statement word by word.
#[derive(Clone, Debug)]
pub(crate) struct Words<'s> {
    sql: &'s str,
    at: usize,
}

impl<'s> Words<'s> {
    pub(crate) fn new(sql: &'s str) -> Self {
        Words { sql, at: 0 }
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = &self.sql[self.at..];
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if trimmed.starts_with("--") {
                self.at += trimmed.find('\n').unwrap_or(trimmed.len());
            } else if trimmed.starts_with("/*") {
                self.at += trimmed.find("*/").map_or(trimmed.len(), |end| end + 2);
            } else {
                return;
            }
        }
    }

    /// The text between quotes, doubled ones undone.
    fn quoted(&mut self, close: char) -> Option<String> {
        let mut text = String::new();
        let mut chars = self.sql[self.at..].char_indices().skip(1).peekable();
        while let Some((place, c)) = chars.next() {
            if c != close {
                text.push(c);
            } else if close != ']' && chars.peek().is_some_and(|(_, next)| *next == close) {
                text.push(c);
                chars.next();
            } else {
                self.at += place + c.len_utf8();
                return Some(text);
            }
        }
        self.at = self.sql.len();
        None
    }

    fn peek(&self) -> Option<Word> {
        self.clone().next()
    }

    /// The next word in capitals, if it is a name without quotes.
    pub(crate) fn next_keyword(&mut self) -> Option<String> {
        match self.next()? {
            Word::Name(name) => Some(name.to_ascii_uppercase()),
            _ => None,
        }
    }

    /// Takes a keyword if it is next.
    pub(crate) fn take(&mut self, keyword: &str) -> Result<bool, Error> {
        match self.peek() {
            Some(Word::Name(name)) if name.eq_ignore_ascii_case(keyword) => {
                self.next();
                Ok(true)
            }
            Some(Word::Unterminated) => Err(self.unexpected()),
            _ => Ok(false),
        }
    }

    /// True where a keyword is next.
    pub(crate) fn next_is(&self, keyword: &str) -> bool {
        matches!(self.peek(), Some(Word::Name(name)) if name.eq_ignore_ascii_case(keyword))
    }

    /// The text between parentheses, which may hold others.
    pub(crate) fn parenthesized(&mut self) -> Result<String, Error> {
        self.punct('(')?;
        self.skip_blanks();
        let (from, mut depth) = (self.at, 0_usize);
        loop {
            let end = self.at;
            match self.peek() {
                None | Some(Word::Unterminated) => return Err(self.unexpected()),
                Some(Word::Mark(')')) if depth == 0 => {
                    let text = self.sql[from..end].trim().to_owned();
                    self.next();
                    return if text.is_empty() { Err(self.unexpected()) } else { Ok(text) };
                }
                Some(Word::Mark('(')) => depth += 1,
                Some(Word::Mark(')')) => depth -= 1,
                Some(_) => {}
            }
            self.next();
        }
    }

    pub(crate) fn expect(&mut self, keyword: &str) -> Result<(), Error> {
        if self.take(keyword)? { Ok(()) } else { Err(self.unexpected()) }
    }

    pub(crate) fn take_punct(&mut self, mark: char) -> bool {
        let is_next = self.peek() == Some(Word::Mark(mark));
        if is_next {
            self.next();
        }
        is_next
    }

    pub(crate) fn punct(&mut self, mark: char) -> Result<(), Error> {
        if self.take_punct(mark) { Ok(()) } else { Err(self.unexpected()) }
    }

    pub(crate) fn name(&mut self) -> Result<String, Error> {
        match self.peek() {
            Some(Word::Name(name) | Word::Quoted(name)) if !name.is_empty() => {
                self.next();
                Ok(name)
            }
            _ => Err(self.unexpected()),
        }
    }

    pub(crate) fn text(&mut self) -> Result<String, Error> {
        match self.peek() {
            Some(Word::Text(text)) => {
                self.next();
                Ok(text)
            }
            _ => Err(self.unexpected()),
        }
    }

    pub(crate) fn literal(&mut self) -> Result<Literal, Error> {
        let minus = self.take_punct('-');
        let literal = match self.peek() {
            Some(Word::Text(text)) if !minus => Literal::Text(text),
            Some(Word::Name(name)) if !minus => match name.to_ascii_uppercase().as_str() {
                "NULL" => Literal::Null,
                "TRUE" => Literal::Integer(1),
                "FALSE" => Literal::Integer(0),
                _ => return Err(self.unexpected()),
            },
            Some(Word::Number(digits)) => {
                let digits = if minus { format!("-{digits}") } else { digits };
                match (digits.parse(), digits.parse()) {
                    (Ok(integer), _) => Literal::Integer(integer),
                    (_, Ok(real)) => Literal::Real(real),
                    _ => return Err(self.unexpected()),
                }
            }
            _ => return Err(self.unexpected()),
        };
        self.next();
        Ok(literal)
    }

    /// The text up to a keyword outside of parentheses, which stays the next word.
    pub(crate) fn until(&mut self, keyword: &str) -> Result<String, Error> {
        self.skip_blanks();
        let (from, mut depth) = (self.at, 0_i32);
        let mut end = from;
        loop {
            match self.peek() {
                None | Some(Word::Unterminated) => return Err(self.unexpected()),
                Some(Word::Name(name)) if depth == 0 && name.eq_ignore_ascii_case(keyword) => {
                    return Ok(self.sql[from..end].to_owned());
                }
                Some(Word::Mark('(')) => depth += 1,
                Some(Word::Mark(')')) => depth -= 1,
                Some(_) => {}
            }
            self.next();
            end = self.at;
        }
    }

    /// Refuses more words, but for one semicolon.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        self.take_punct(';');
        if self.peek().is_none() { Ok(()) } else { Err(self.unexpected()) }
    }

    /// The refusal of the next word.
    fn unexpected(&self) -> Error {
        let near = match self.peek() {
            None => return self.refuse("the statement ends too early"),
            Some(Word::Unterminated) => return self.refuse("unterminated quote"),
            Some(Word::Name(word) | Word::Quoted(word) | Word::Number(word)) => word,
            Some(Word::Text(text)) => format!("'{text}'"),
            Some(Word::Mark(mark)) => mark.to_string(),
        };
        self.refuse(format!("near {near}: syntax error"))
    }

    pub(crate) fn refuse(&self, why: impl Into<String>) -> Error {
        Error::Definition { why: why.into() }
    }
}

impl Iterator for Words<'_> {
    type Item = Word;

    fn next(&mut self) -> Option<Word> {
        self.skip_blanks();
        let rest = &self.sql[self.at..];
        let first = rest.chars().next()?;
        let close = match first {
            '[' => Some(']'),
            '\'' | '"' | '`' => Some(first),
            _ => None,
        };
        if let Some(close) = close {
            return Some(match self.quoted(close) {
                None => Word::Unterminated,
                Some(text) if first == '\'' => Word::Text(text),
                Some(name) => Word::Quoted(name),
            });
        }
        let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '$' || !c.is_ascii();
        let length = |fits: &dyn Fn(char) -> bool| rest.find(|c| !fits(c)).unwrap_or(rest.len());
        let (length, word): (usize, fn(String) -> Word) = if first.is_ascii_digit() {
            (length(&|c| c.is_ascii_alphanumeric() || c == '.'), Word::Number)
        } else if is_name(first) {
            (length(&is_name), Word::Name)
        } else {
            self.at += first.len_utf8();
            return Some(Word::Mark(first));
        };
        self.at += length;
        Some(word(rest[..length].to_owned()))
    }
}
