//! Tokens with their places, missing from the grammar's tree.
//!
//! The grammar crate gives names and literals as text without a position. [`Tokens`] is the same
//! token sequence with byte offsets; the conversion of the tree walks the tokens from left to
//! right, in the order of the source, and so finds each leaf's place.

use std::borrow::Cow;
use std::ops::Range;

use sqlite3_parser::dialect::TokenType;
use sqlite3_parser::lexer::Splitter;
use sqlite3_parser::lexer::sql::{Error as LexError, Tokenizer};

use super::ast::PastPoint;
use crate::Error;

/// Parentheses may nest this deep.
const NESTING_MAX: usize = 1000;

/// One token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: TokenType,
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// The value in the grammar's tree: without the `?` of a parameter or the `x''` of a blob.
    pub(crate) value: &'a [u8],
}

/// The tokens of one text and how far the conversion has come.
#[derive(Debug)]
pub(crate) struct Tokens<'a> {
    pub(crate) sql: &'a str,
    all: Vec<Token<'a>>,
    at: usize,
    /// True where the grammar crate would split the text otherwise.
    respelled: bool,
    /// The word `ANALYZE` behind `EXPLAIN`, unknown to the grammar there.
    analyze: Option<Range<usize>>,
    /// The offsets of names in front of `AS OF`, which the grammar sees as calls.
    pub(crate) past: Vec<(usize, PastPoint)>,
}

impl<'a> Tokens<'a> {
    /// Splits `sql` into tokens.
    ///
    /// # Errors
    /// [`Error::Syntax`] at the first bytes outside of any token, [`Error::Limit`] for parentheses
    /// nested too deep for the grammar's tree.
    pub(crate) fn new(sql: &'a str) -> Result<Self, Error> {
        let bytes = sql.as_bytes();
        // Few texts have more tokens than a fifth of their bytes.
        let mut all = Vec::with_capacity(bytes.len() / 5 + 8);
        let mut lexer = Lexer::new(bytes);
        let mut depth = 0usize;
        while let Some(token) = lexer.next_token().map_err(|bad| bad.error(sql))? {
            match token.kind {
                TokenType::TK_LP => depth += 1,
                TokenType::TK_RP => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth > NESTING_MAX {
                return Err(Error::Limit { what: "nested parentheses", max: NESTING_MAX as u64 });
            }
            all.push(token);
        }
        Ok(Tokens { sql, all, at: 0, respelled: lexer.respelled, analyze: None, past: Vec::new() })
    }

    /// Takes the word `ANALYZE` off `EXPLAIN ANALYZE SELECT ...`; false where there is none.
    pub(crate) fn take_analyze(&mut self) -> bool {
        let query = [TokenType::TK_SELECT, TokenType::TK_WITH, TokenType::TK_VALUES];
        let is_analyze = matches!(&*self.all, [first, second, third, ..]
            if first.kind == TokenType::TK_EXPLAIN
                && second.kind == TokenType::TK_ANALYZE
                && query.contains(&third.kind));
        if is_analyze {
            let word = self.all.remove(1);
            self.analyze = Some(word.start..word.end);
        }
        is_analyze
    }

    /// The text up to the end of the last token. Only spaces and comments follow, the last comment
    /// perhaps never closed.
    pub(crate) fn whole_text(&self) -> &'a str {
        &self.sql[..self.all.last().map_or(0, |token| token.end)]
    }

    /// [`Tokens::whole_text`] for the grammar crate, every byte in its place: `(...)` and `::` in
    /// the names of parameters are replaced, and so are spaces unknown to the grammar crate.
    pub(crate) fn grammar_text(&self) -> Cow<'a, [u8]> {
        let text = self.whole_text().as_bytes();
        if !self.respelled && self.analyze.is_none() {
            return Cow::Borrowed(text);
        }
        let mut text = text.to_vec();
        if let Some(word) = &self.analyze {
            text[word.clone()].fill(b' ');
        }
        let mut past = 0;
        for token in &self.all {
            for byte in &mut text[past..token.start] {
                if *byte == VERTICAL_TAB {
                    *byte = b' ';
                }
            }
            if token.kind == TokenType::TK_VARIABLE {
                for byte in &mut text[token.start + 1..token.end] {
                    if !continues_name(*byte) {
                        // Behind a closed parenthesis another name may begin at once.
                        *byte = if *byte == b')' { b' ' } else { b'_' };
                    }
                }
            }
            past = token.end;
        }
        Cow::Owned(text)
    }

    /// The token at an offset.
    pub(crate) fn at_offset(&self, offset: usize) -> Option<Token<'a>> {
        let at = self.all.binary_search_by_key(&offset, |token| token.start).ok()?;
        self.get(at)
    }

    /// Moves past the next token with the text `value` and returns the token's offset.
    ///
    /// Falls back to the current place where there is none: only a tree out of source order could
    /// cause this.
    pub(crate) fn find(&mut self, value: &str) -> usize {
        let ahead = &self.all[self.at..];
        match ahead.iter().position(|token| token.value == value.as_bytes()) {
            Some(skip) => {
                let offset = ahead[skip].start;
                self.at += skip + 1;
                offset
            }
            None => self.offset(),
        }
    }

    /// Moves past the next token of a kind and returns the token's offset.
    pub(crate) fn find_kind(&mut self, kind: TokenType) -> usize {
        let ahead = &self.all[self.at..];
        match ahead.iter().position(|token| token.kind == kind) {
            Some(skip) => {
                let offset = ahead[skip].start;
                self.at += skip + 1;
                offset
            }
            None => self.offset(),
        }
    }

    /// The offset of the next token; the end of the text when there is none.
    pub(crate) fn offset(&self) -> usize {
        self.all.get(self.at).map_or(self.sql.len(), |token| token.start)
    }

    /// The number of tokens passed.
    pub(crate) fn mark(&self) -> usize {
        self.at
    }

    /// Goes to a place given by [`Tokens::mark`].
    pub(crate) fn go(&mut self, mark: usize) {
        self.at = mark.min(self.all.len());
    }

    /// The token `index` places from the start.
    pub(crate) fn get(&self, index: usize) -> Option<Token<'a>> {
        self.all.get(index).copied()
    }

    /// The source text of a range of tokens.
    pub(crate) fn text(&self, range: Range<usize>) -> &'a str {
        match (self.all.get(range.start), range.end.checked_sub(1).and_then(|at| self.all.get(at)))
        {
            (Some(first), Some(last)) if first.start <= last.end => {
                self.sql.get(first.start..last.end).unwrap_or_default()
            }
            _ => "",
        }
    }

    /// The source text from one token to the begin of another or the end of all, with the comments
    /// between but no spaces at its end: the name of a result column.
    pub(crate) fn text_up_to(&self, start: usize, end: usize) -> &'a str {
        let place = |at: usize| self.all.get(at).map_or(self.sql.len(), |token| token.start);
        let text = self.sql.get(place(start)..place(end)).unwrap_or_default();
        text.trim_end_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r'])
    }

    /// The index just past the parenthesis closing the one at `open`.
    pub(crate) fn past_close(&self, open: usize) -> usize {
        let mut depth = 0usize;
        for (index, token) in self.all.iter().enumerate().skip(open) {
            match token.kind {
                TokenType::TK_LP => depth += 1,
                TokenType::TK_RP => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return index + 1;
                    }
                }
                _ => {}
            }
        }
        self.all.len()
    }

    /// The arguments of a virtual table's module, from the parenthesis at hand on: the texts
    /// between the outermost commas, and the end of the last token of the statement.
    pub(crate) fn module_arguments(&self) -> (Vec<String>, usize) {
        let end = |at: usize| at.checked_sub(1).and_then(|at| self.all.get(at));
        if self.all.get(self.at).is_none_or(|token| token.kind != TokenType::TK_LP) {
            return (Vec::new(), end(self.at).map_or(0, |token| token.end));
        }
        let close = self.past_close(self.at);
        let mut arguments = Vec::new();
        let (mut start, mut depth) = (self.at + 1, 0usize);
        for at in self.at + 1..close {
            match self.all[at].kind {
                TokenType::TK_LP => depth += 1,
                TokenType::TK_RP if depth > 0 => depth -= 1,
                TokenType::TK_COMMA | TokenType::TK_RP if depth == 0 => {
                    // As in SQLite, nothing between two commas is no argument.
                    if start < at {
                        arguments.push(self.text(start..at).to_owned());
                    }
                    start = at + 1;
                }
                _ => {}
            }
        }
        (arguments, end(close).map_or(self.sql.len(), |token| token.end))
    }

    /// The index of the token ending the list item at `start`: a comma, a closing parenthesis
    /// without an opening one in the item, or a keyword no expression continues with.
    pub(crate) fn item_end(&self, start: usize) -> usize {
        use TokenType::{
            TK_AS, TK_COMMA, TK_DISTINCT, TK_EXCEPT, TK_FROM, TK_GROUP, TK_HAVING, TK_INTERSECT,
            TK_LIMIT, TK_LP, TK_ORDER, TK_RP, TK_SEMI, TK_UNION, TK_WHERE, TK_WINDOW,
        };
        let mut depth = 0usize;
        let mut previous = None;
        for (index, token) in self.all.iter().enumerate().skip(start) {
            match token.kind {
                TK_LP => depth += 1,
                TK_RP if depth == 0 => return index,
                TK_RP => depth -= 1,
                // `IS DISTINCT FROM` goes on.
                TK_FROM if depth == 0 && previous != Some(TK_DISTINCT) => return index,
                TK_COMMA | TK_WHERE | TK_GROUP | TK_HAVING | TK_ORDER | TK_LIMIT | TK_UNION
                | TK_INTERSECT | TK_EXCEPT | TK_SEMI
                    if depth == 0 =>
                {
                    return index;
                }
                // A column may be called `window`; the clause reads `WINDOW name AS`.
                TK_WINDOW
                    if depth == 0
                        && self.all.get(index + 2).is_some_and(|then| then.kind == TK_AS) =>
                {
                    return index;
                }
                _ => {}
            }
            previous = Some(token.kind);
        }
        self.all.len()
    }
}

/// Splits bytes into tokens, one at a time.
#[derive(Debug)]
pub(crate) struct Lexer<'a> {
    bytes: &'a [u8],
    at: usize,
    /// True once the lexer passed text the grammar crate's lexer splits otherwise.
    respelled: bool,
}

/// The bytes the lexer stopped at.
#[derive(Debug)]
pub(crate) struct BadToken {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Lexer { bytes, at: 0, respelled: false }
    }

    /// The next token, `None` at the end. After an error the lexer stands past the bad text.
    pub(crate) fn next_token(&mut self) -> Result<Option<Token<'a>>, BadToken> {
        while let Some(rest) = self.bytes.get(self.at..).filter(|rest| !rest.is_empty()) {
            let start = self.at;
            if matches!(rest[0], b'$' | b'@' | b':' | b'#') {
                return self.named_parameter(rest).map(Some);
            }
            match Tokenizer::new().split(rest) {
                Ok((token, length)) => {
                    self.at += length.max(1);
                    match token {
                        Some((value, kind)) => {
                            return Ok(Some(Token { kind, start, end: self.at, value }));
                        }
                        None => self.go_on_in_space(),
                    }
                }
                // As in SQLite, a comment never closed runs to the end of the text, but the two
                // characters alone are operators.
                Err(LexError::UnterminatedBlockComment(_)) if rest.len() > 2 => {
                    self.at = self.bytes.len();
                }
                Err(LexError::UnterminatedBlockComment(_)) => {
                    self.at += 1;
                    let (value, kind) = (&rest[..1], TokenType::TK_SLASH);
                    return Ok(Some(Token { kind, start, end: self.at, value }));
                }
                Err(error) => {
                    let word = |bytes: &[u8]| {
                        bytes
                            .iter()
                            .position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')
                            .unwrap_or(bytes.len())
                    };
                    let length = match error {
                        LexError::UnterminatedLiteral(_) | LexError::UnterminatedBracket(_) => {
                            rest.len()
                        }
                        LexError::MalformedBlobLiteral(_) => {
                            match rest[2..].iter().position(|&byte| byte == b'\'') {
                                Some(quote) => quote + 3,
                                None => rest.len(),
                            }
                        }
                        LexError::BadNumber(_) | LexError::MalformedHexInteger(_) => word(rest),
                        _ => 1,
                    };
                    self.at += length.max(1);
                    return Err(BadToken { start, end: self.at });
                }
            }
        }
        Ok(None)
    }

    /// Passes the rest of a run of spaces: a vertical tab counts within a run, though no run begins
    /// with one.
    fn go_on_in_space(&mut self) {
        if !self.bytes[..self.at].last().is_some_and(u8::is_ascii_whitespace) {
            return;
        }
        while let Some(byte) = self.bytes.get(self.at) {
            match *byte {
                VERTICAL_TAB => self.respelled = true,
                byte if byte.is_ascii_whitespace() => {}
                _ => return,
            }
            self.at += 1;
        }
    }

    /// The named parameter at the front of `rest`, by the rules of SQLite's lexer: a name may have
    /// `::` within, and ends behind parentheses, like the variables of Tcl.
    fn named_parameter(&mut self, rest: &'a [u8]) -> Result<Token<'a>, BadToken> {
        let start = self.at;
        let (mut length, mut named, mut closed) = (1, false, true);
        loop {
            match rest[length..] {
                [byte, ..] if continues_name(byte) => {
                    named = true;
                    length += 1;
                }
                [b'(', ref inner @ ..] if named => {
                    self.respelled = true;
                    let ends = |byte: &u8| matches!(byte, 0 | b')' | b'\t'..=b'\r' | b' ');
                    let end = inner.iter().position(ends).unwrap_or(inner.len());
                    closed = inner.get(end) == Some(&b')');
                    length += 1 + end + usize::from(closed);
                    break;
                }
                [b':', b':', ..] => {
                    self.respelled = true;
                    length += 2;
                }
                _ => break,
            }
        }
        self.at += length;
        if !named || !closed {
            return Err(BadToken { start, end: self.at });
        }
        Ok(Token { kind: TokenType::TK_VARIABLE, start, end: self.at, value: &rest[..length] })
    }
}

/// White space in SQLite's eyes, but not in the grammar crate's.
const VERTICAL_TAB: u8 = 0x0b;

/// True where a byte may stand in a name behind its first.
fn continues_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'$' | b'_' | 0x80..)
}

impl BadToken {
    fn error(&self, sql: &str) -> Error {
        let bytes = sql.as_bytes().get(self.start..self.end).unwrap_or_default();
        let token = String::from_utf8_lossy(bytes);
        Error::Syntax { message: format!("unrecognized token: \"{token}\""), offset: self.start }
    }
}
