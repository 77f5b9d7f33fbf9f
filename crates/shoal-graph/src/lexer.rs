//! The text of a query as tokens.

use crate::error::{Error, Result};

/// One token and its place in the text.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind {
    /// A word: keyword or name, told apart by where it stands.
    Word(String),
    /// A name between grave accents.
    Quoted(String),
    /// Digits of an integer, prefix and underscores removed, and its radix.
    Integer(String, u32),
    /// A float's text.
    Float(String),
    /// A number with letters directly behind.
    BadNumber,
    Text(String),
    Parameter(String),
    /// One or two characters of punctuation.
    Sign(&'static str),
    /// A character of no token.
    Stray(char),
    End,
}

const SIGNS: [&str; 33] = [
    "..", "=~", "<>", "<=", ">=", "+=", "::", "||", "=>", "(", ")", "[", "]", "{", "}", ",", ".",
    ":", ";", "=", "<", ">", "+", "-", "*", "/", "%", "^", "|", "&", "!", "$", "?",
];

/// Tokens of a text, [`TokenKind::End`] last.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token>> {
    if text.len() > u32::MAX as usize / 2 {
        return Err(Error::syntax("UnexpectedSyntax", 0, "the query is longer than 2 GiB"));
    }
    let mut lexer = Lexer { text, at: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_space()?;
        let start = lexer.at;
        let kind = lexer.token()?;
        let is_end = kind == TokenKind::End;
        tokens.push(Token { kind, start: start as u32, end: lexer.at as u32 });
        if is_end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn peek_second(&self) -> Option<char> {
        self.rest().chars().nth(1)
    }

    fn bump(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn skip_space(&mut self) -> Result<()> {
        loop {
            let rest = self.rest();
            if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if let Some(comment) = rest.strip_prefix("/*") {
                let Some(end) = comment.find("*/") else {
                    return Err(Error::syntax(
                        "UnexpectedSyntax",
                        self.at,
                        "the comment does not end",
                    ));
                };
                self.at += end + 4;
            } else if let Some(next) = rest.chars().next()
                && (next.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&next))
            {
                self.at += next.len_utf8();
            } else {
                return Ok(());
            }
        }
    }

    fn token(&mut self) -> Result<TokenKind> {
        let Some(first) = self.peek() else { return Ok(TokenKind::End) };
        if is_name_start(first) {
            return Ok(TokenKind::Word(self.word()));
        }
        match first {
            '0'..='9' => return Ok(self.number()),
            '.' if self.peek_second().is_some_and(|c| c.is_ascii_digit()) => {
                return Ok(self.number());
            }
            '\'' | '"' => return self.string(first).map(TokenKind::Text),
            '`' => return self.string(first).map(TokenKind::Quoted),
            '$' => return self.parameter(),
            _ => {}
        }
        for sign in SIGNS {
            if self.rest().starts_with(sign) {
                self.at += sign.len();
                return Ok(TokenKind::Sign(sign));
            }
        }
        if !first.is_ascii() {
            let message = format!("the character {first} is part of no token");
            return Err(Error::syntax("InvalidUnicodeCharacter", self.at, message));
        }
        self.bump();
        Ok(TokenKind::Stray(first))
    }

    fn word(&mut self) -> String {
        let start = self.at;
        while self.peek().is_some_and(is_name_part) {
            self.bump();
        }
        self.text[start..self.at].to_owned()
    }

    fn parameter(&mut self) -> Result<TokenKind> {
        let start = self.at;
        self.bump();
        match self.peek() {
            Some('`') => self.string('`').map(TokenKind::Parameter),
            Some(next) if is_name_part(next) => Ok(TokenKind::Parameter(self.word())),
            _ => Err(Error::syntax("UnexpectedSyntax", start, "a parameter's name follows $")),
        }
    }

    fn digits(&mut self, radix: u32, to: &mut String) {
        while let Some(next) = self.peek() {
            if next.is_digit(radix) {
                to.push(next);
            } else if !(next == '_' && self.peek_second().is_some_and(|c| c.is_digit(radix))) {
                return;
            }
            self.bump();
        }
    }

    fn number(&mut self) -> TokenKind {
        let mut digits = String::new();
        for (prefix, radix) in [("0x", 16), ("0X", 16), ("0o", 8)] {
            if self.rest().starts_with(prefix) {
                self.at += 2;
                self.digits(radix, &mut digits);
                return match self.bad_tail() || digits.is_empty() {
                    true => TokenKind::BadNumber,
                    false => TokenKind::Integer(digits, radix),
                };
            }
        }
        let mut is_float = false;
        self.digits(10, &mut digits);
        if self.peek() == Some('.') && self.peek_second().is_some_and(|c| c.is_ascii_digit()) {
            is_float = true;
            self.bump();
            digits.push('.');
            self.digits(10, &mut digits);
        }
        if matches!(self.peek(), Some('e' | 'E')) {
            let mut after = self.rest().chars().skip(1);
            let next = after.next();
            let is_exponent = match next {
                Some('+' | '-') => after.next().is_some_and(|c| c.is_ascii_digit()),
                next => next.is_some_and(|c| c.is_ascii_digit()),
            };
            if is_exponent {
                is_float = true;
                self.bump();
                digits.push('e');
                if matches!(self.peek(), Some('+' | '-')) {
                    digits.extend(self.bump());
                }
                self.digits(10, &mut digits);
            }
        }
        if is_float && matches!(self.peek(), Some('f' | 'F' | 'd' | 'D')) {
            self.bump();
        }
        if self.bad_tail() {
            TokenKind::BadNumber
        } else if is_float {
            TokenKind::Float(digits)
        } else {
            TokenKind::Integer(digits, 10)
        }
    }

    /// Letters that follow a number directly make it none.
    fn bad_tail(&mut self) -> bool {
        let start = self.at;
        while self.peek().is_some_and(is_name_part) {
            self.bump();
        }
        self.at > start
    }

    fn string(&mut self, quote: char) -> Result<String> {
        let start = self.at;
        self.bump();
        let mut text = String::new();
        loop {
            let at = self.at;
            match self.bump() {
                None => {
                    return Err(Error::syntax(
                        "UnexpectedSyntax",
                        start,
                        "the string does not end",
                    ));
                }
                Some(next) if next == quote => {
                    if self.peek() != Some(quote) {
                        return Ok(text);
                    }
                    self.bump();
                    text.push(quote);
                }
                Some('\\') if quote != '`' => text.push(self.escape(at)?),
                Some(next) => text.push(next),
            }
        }
    }

    fn escape(&mut self, at: usize) -> Result<char> {
        let digits = match self.bump() {
            Some('n') => return Ok('\n'),
            Some('t') => return Ok('\t'),
            Some('r') => return Ok('\r'),
            Some('b') => return Ok('\u{8}'),
            Some('f') => return Ok('\u{c}'),
            Some(plain @ ('\\' | '\'' | '"' | '`')) => return Ok(plain),
            Some('u') => 4,
            Some('U') if self.rest().len() >= 8 && all_hex(self.rest(), 8) => 8,
            Some('U') => 6,
            _ => {
                return Err(Error::syntax(
                    "InvalidUnicodeLiteral",
                    at,
                    "an unknown escape in a string",
                ));
            }
        };
        let hex = self.rest().get(..digits).filter(|hex| all_hex(hex, digits));
        let character = hex
            .and_then(|hex| u32::from_str_radix(hex, 16).ok())
            .and_then(char::from_u32)
            .ok_or_else(|| {
                Error::syntax(
                    "InvalidUnicodeLiteral",
                    at,
                    format!("\\u takes {digits} digits of a character"),
                )
            })?;
        self.at += digits;
        Ok(character)
    }
}

fn all_hex(text: &str, count: usize) -> bool {
    text.len() >= count && text.as_bytes()[..count].iter().all(u8::is_ascii_hexdigit)
}

fn is_name_start(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

fn is_name_part(c: char) -> bool {
    c == '_'
        || c.is_alphanumeric()
        || matches!(c, '\u{300}'..='\u{36f}' | '\u{203f}' | '\u{2040}' | '\u{b7}')
}
