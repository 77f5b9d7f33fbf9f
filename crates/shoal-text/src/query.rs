//! The query language: phrases, prefixes, `^`, NEAR, AND, OR, NOT, column filters.

use crate::definition::{Definition, Detail, is_bareword};
use crate::error::{Error, Result};

/// Nested parentheses at most.
const NESTING_MAX: usize = 96;
/// Height of a tree at most.
const HEIGHT_MAX: usize = 256;
/// Tokens between the phrases of NEAR without a number.
const NEAR_DEFAULT: u64 = 10;

/// A parsed query.
#[derive(Debug, Default)]
pub struct Query {
    pub(crate) root: Tree,
    pub(crate) phrases: Vec<Phrase>,
}

/// A node of a query; phrases by their numbers.
#[derive(Debug, Default)]
pub(crate) enum Tree {
    /// No row.
    #[default]
    Never,
    Near(Near),
    And(Vec<Tree>),
    Or(Vec<Tree>),
    Not(Box<Tree>, Box<Tree>),
}

/// Phrases close to each other; mostly one alone.
#[derive(Debug)]
pub(crate) struct Near {
    pub(crate) phrases: Vec<usize>,
    pub(crate) distance: u64,
    /// Columns searched, ascending; all without a filter.
    pub(crate) columns: Option<Vec<usize>>,
}

/// Tokens that follow each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Phrase {
    pub(crate) terms: Vec<Term>,
    /// The first token is the first of its column: `^`.
    pub(crate) is_first: bool,
}

/// A token of a phrase.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    pub(crate) text: Vec<u8>,
    pub(crate) is_prefix: bool,
}

impl Query {
    /// Reads a query; in `column` alone, where one is given.
    ///
    /// # Errors
    /// [`Error::Query`] in SQLite's words.
    pub fn parse(definition: &Definition, text: &str, column: Option<usize>) -> Result<Query> {
        // SQLite reads a text up to its first NUL.
        let text = text.split('\0').next().unwrap_or_default();
        if let Some(special) = text.strip_prefix('*') {
            let word = special.trim_start_matches(' ').split(' ').next().unwrap_or_default();
            return Err(query(format!("unknown special query: {word}")));
        }
        let mut parser = Parser {
            definition,
            rest: text,
            token: Token::End,
            raw: "",
            behind: None,
            phrases: Vec::new(),
            nesting: 0,
        };
        parser.advance()?;
        let mut root = parser.either()?;
        if parser.token != Token::End {
            return Err(parser.syntax());
        }
        if let Some(column) = column {
            parser.restrict(&mut root, &[column])?;
        }
        Ok(Query { root, phrases: parser.phrases })
    }

    /// The rows of both.
    #[must_use]
    pub fn and(mut self, other: Query) -> Query {
        let count = self.phrases.len();
        let mut second = other.root;
        second.renumber(count);
        self.phrases.extend(other.phrases);
        self.root = Tree::And(vec![self.root, second]);
        self
    }

    /// Rows that a LIKE or GLOB pattern can be true of, by a trigram index; None where the pattern
    /// has no three characters side by side.
    #[must_use]
    pub fn pattern(
        definition: &Definition,
        pattern: &str,
        is_like: bool,
        column: usize,
    ) -> Option<Query> {
        if !definition.tokenizer.finds_patterns(is_like) {
            return None;
        }
        let mut phrases = Vec::new();
        let mut nodes = Vec::new();
        for part in literals(pattern, is_like) {
            let mut terms = Vec::new();
            tokens(definition, part.as_bytes(), &mut terms);
            let parts: Vec<Vec<Term>> = match definition.detail {
                Detail::Full => vec![terms],
                _ => terms.into_iter().map(|term| vec![term]).collect(),
            };
            for terms in parts.into_iter().filter(|terms| !terms.is_empty()) {
                let columns = (definition.detail != Detail::None).then(|| vec![column]);
                nodes.push(Tree::Near(Near {
                    phrases: vec![phrases.len()],
                    distance: NEAR_DEFAULT,
                    columns,
                }));
                phrases.push(Phrase { terms, is_first: false });
            }
        }
        match nodes.len() {
            0 => None,
            1 => Some(Query { root: nodes.pop()?, phrases }),
            _ => Some(Query { root: Tree::And(nodes), phrases }),
        }
    }

    /// Phrases of the query.
    #[must_use]
    pub fn phrases(&self) -> usize {
        self.phrases.len()
    }
}

/// Parts of a pattern without wildcards.
fn literals(pattern: &str, is_like: bool) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        let is_wild = if is_like { matches!(c, '%' | '_') } else { matches!(c, '*' | '?' | '[') };
        if !is_wild {
            parts.last_mut().expect("a part is open").push(c);
            continue;
        }
        parts.push(String::new());
        if c == '[' {
            chars.next_if_eq(&'^');
            chars.next_if_eq(&']');
            for c in chars.by_ref() {
                if c == ']' {
                    break;
                }
            }
        }
    }
    parts.retain(|part| part.chars().count() >= 3);
    parts
}

fn tokens(definition: &Definition, text: &[u8], terms: &mut Vec<Term>) {
    let mut scratch = Vec::new();
    definition.tokenizer.tokenize(text, &mut scratch, &mut |token, _, _| {
        let text = token[..token.len().min(32_768)].to_vec();
        terms.push(Term { text, is_prefix: false });
        true
    });
}

impl Tree {
    fn renumber(&mut self, by: usize) {
        match self {
            Tree::Never => {}
            Tree::Near(near) => near.phrases.iter_mut().for_each(|phrase| *phrase += by),
            Tree::And(children) | Tree::Or(children) => {
                children.iter_mut().for_each(|child| child.renumber(by));
            }
            Tree::Not(left, right) => {
                left.renumber(by);
                right.renumber(by);
            }
        }
    }

    fn height(&self) -> usize {
        match self {
            Tree::Never | Tree::Near(_) => 0,
            Tree::And(children) | Tree::Or(children) => {
                1 + children.iter().map(Tree::height).max().unwrap_or(0)
            }
            Tree::Not(left, right) => 1 + left.height().max(right.height()),
        }
    }

    fn is_never(&self) -> bool {
        matches!(self, Tree::Never)
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Text(String),
    And,
    Or,
    Not,
    Open,
    Close,
    OpenBrace,
    CloseBrace,
    Colon,
    Comma,
    Plus,
    Star,
    Minus,
    Caret,
    End,
}

struct Parser<'q> {
    definition: &'q Definition,
    rest: &'q str,
    token: Token,
    /// The token as written.
    raw: &'q str,
    /// The token behind, once it was looked at.
    behind: Option<(Token, &'q str)>,
    phrases: Vec<Phrase>,
    nesting: usize,
}

fn query(message: impl Into<String>) -> Error {
    Error::Query(message.into())
}

fn syntax(near: &str) -> Error {
    query(format!("fts5: syntax error near \"{near}\""))
}

impl<'q> Parser<'q> {
    fn syntax(&self) -> Error {
        syntax(self.raw)
    }

    fn advance(&mut self) -> Result<()> {
        (self.token, self.raw) = match self.behind.take() {
            Some(token) => token,
            None => self.lex()?,
        };
        Ok(())
    }

    /// The token behind the current one.
    fn peek(&mut self) -> Result<&Token> {
        if self.behind.is_none() {
            self.behind = Some(self.lex()?);
        }
        Ok(&self.behind.as_ref().expect("a token was just read").0)
    }

    fn lex(&mut self) -> Result<(Token, &'q str)> {
        let rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
        let Some(first) = rest.chars().next() else {
            self.rest = rest;
            return Ok((Token::End, ""));
        };
        let token = match first {
            '(' => Token::Open,
            ')' => Token::Close,
            '{' => Token::OpenBrace,
            '}' => Token::CloseBrace,
            ':' => Token::Colon,
            ',' => Token::Comma,
            '+' => Token::Plus,
            '*' => Token::Star,
            '-' => Token::Minus,
            '^' => Token::Caret,
            '"' => {
                let mut text = String::new();
                let mut from = 1;
                loop {
                    let end = rest[from..].find('"').ok_or_else(|| query("unterminated string"))?;
                    text.push_str(&rest[from..from + end]);
                    from += end + 1;
                    if !rest[from..].starts_with('"') {
                        break;
                    }
                    text.push('"');
                    from += 1;
                }
                self.rest = &rest[from..];
                return Ok((Token::Text(text), &rest[..from]));
            }
            _ => {
                let end = rest.bytes().position(|byte| !is_bareword(byte)).unwrap_or(rest.len());
                if end == 0 {
                    return Err(syntax(&rest[..first.len_utf8()]));
                }
                let word = &rest[..end];
                self.rest = &rest[end..];
                let token = match word {
                    "AND" => Token::And,
                    "OR" => Token::Or,
                    "NOT" => Token::Not,
                    _ => Token::Text(word.to_owned()),
                };
                return Ok((token, word));
            }
        };
        self.rest = &rest[1..];
        Ok((token, &rest[..1]))
    }

    fn expect(&mut self, token: &Token) -> Result<()> {
        if self.token != *token {
            return Err(self.syntax());
        }
        self.advance()
    }

    fn either(&mut self) -> Result<Tree> {
        let mut children = vec![self.both()?];
        while self.token == Token::Or {
            self.advance()?;
            children.push(self.both()?);
        }
        join(children, Tree::Or, |tree| match tree {
            Tree::Or(children) => Ok(children),
            other => Err(other),
        })
    }

    fn both(&mut self) -> Result<Tree> {
        let mut children = vec![self.without()?];
        while self.token == Token::And {
            self.advance()?;
            children.push(self.without()?);
        }
        join(children, Tree::And, |tree| match tree {
            Tree::And(children) => Ok(children),
            other => Err(other),
        })
    }

    fn without(&mut self) -> Result<Tree> {
        let mut left = self.primary()?;
        while self.token == Token::Not {
            self.advance()?;
            let right = self.primary()?;
            left = bounded(Tree::Not(Box::new(left), Box::new(right)))?;
        }
        Ok(left)
    }

    fn primary(&mut self) -> Result<Tree> {
        if self.token == Token::Open {
            return self.group();
        }
        let columns = self.filter()?;
        if let (Some(columns), Token::Open) = (&columns, &self.token) {
            let mut tree = self.group()?;
            self.restrict(&mut tree, columns)?;
            return Ok(tree);
        }
        let mut list = self.near(columns)?;
        while matches!(self.token, Token::Text(_) | Token::Caret | Token::OpenBrace | Token::Minus)
        {
            let columns = self.filter()?;
            let next = self.near(columns)?;
            // A phrase without tokens is as if it were not there.
            list = match (list, next) {
                (list, Tree::Never) => list,
                (Tree::Never, next) => next,
                (Tree::And(mut children), next) => {
                    children.push(next);
                    Tree::And(children)
                }
                (first, next) => Tree::And(vec![first, next]),
            };
        }
        Ok(list)
    }

    fn group(&mut self) -> Result<Tree> {
        self.nesting += 1;
        if self.nesting > NESTING_MAX {
            return Err(query("fts5: parser stack overflow"));
        }
        self.expect(&Token::Open)?;
        let tree = self.either()?;
        self.expect(&Token::Close)?;
        self.nesting -= 1;
        Ok(tree)
    }

    /// A column filter with its colon.
    fn filter(&mut self) -> Result<Option<Vec<usize>>> {
        let is_without = self.token == Token::Minus;
        let is_filter = match &self.token {
            Token::Minus | Token::OpenBrace => true,
            Token::Text(_) => *self.peek()? == Token::Colon,
            _ => false,
        };
        if !is_filter {
            return Ok(None);
        }
        if is_without {
            self.advance()?;
        }
        let mut columns = Vec::new();
        if self.token == Token::OpenBrace {
            self.advance()?;
            loop {
                columns.push(self.column()?);
                if self.token == Token::CloseBrace {
                    break;
                }
            }
            self.advance()?;
        } else {
            columns.push(self.column()?);
        }
        self.expect(&Token::Colon)?;
        columns.sort_unstable();
        columns.dedup();
        if is_without {
            let all = 0..self.definition.columns.len();
            columns = all.filter(|column| !columns.contains(column)).collect();
        }
        Ok(Some(columns))
    }

    fn column(&mut self) -> Result<usize> {
        let Token::Text(name) = &self.token else { return Err(self.syntax()) };
        let found = self
            .definition
            .columns
            .iter()
            .position(|column| column.name.eq_ignore_ascii_case(name));
        let column = found.ok_or_else(|| query(format!("no such column: {name}")))?;
        self.advance()?;
        Ok(column)
    }

    /// A phrase, or phrases near each other, in `columns`.
    fn near(&mut self, columns: Option<Vec<usize>>) -> Result<Tree> {
        let mut phrases = Vec::new();
        let mut distance = NEAR_DEFAULT;
        if self.token == Token::Caret {
            self.advance()?;
            let mut phrase = self.phrase()?;
            phrase.is_first = true;
            phrases.push(phrase);
        } else if matches!(self.token, Token::Text(_)) && *self.peek()? == Token::Open {
            let word = self.raw;
            self.advance()?;
            self.advance()?;
            phrases.push(self.phrase()?);
            while matches!(self.token, Token::Text(_)) {
                phrases.push(self.phrase()?);
            }
            let mut number = None;
            if self.token == Token::Comma {
                self.advance()?;
                if !matches!(self.token, Token::Text(_)) {
                    return Err(self.syntax());
                }
                number = Some(self.raw);
                self.advance()?;
            }
            if self.token != Token::Close {
                return Err(self.syntax());
            }
            if word != "NEAR" {
                return Err(syntax(word));
            }
            if let Some(number) = number {
                if !number.bytes().all(|byte| byte.is_ascii_digit()) {
                    return Err(query(format!("expected integer, got \"{number}\"")));
                }
                distance = number.parse().unwrap_or(u64::MAX).min(214_748_363);
            }
            self.advance()?;
        } else {
            phrases.push(self.phrase()?);
        }
        if phrases.len() > 1 {
            phrases.retain(|phrase| !phrase.terms.is_empty());
        }
        let is_empty = phrases.iter().all(|phrase| phrase.terms.is_empty());
        if !is_empty
            && self.definition.detail != Detail::Full
            && (phrases.len() != 1 || phrases[0].terms.len() > 1 || phrases[0].is_first)
        {
            let kind = if phrases.len() == 1 { "phrase" } else { "NEAR" };
            return Err(query(format!("fts5: {kind} queries are not supported (detail!=full)")));
        }
        let mut tree = Tree::Never;
        if !is_empty {
            let first = self.phrases.len();
            let numbers = (first..first + phrases.len()).collect();
            self.phrases.extend(phrases);
            tree = Tree::Near(Near { phrases: numbers, distance, columns: None });
        }
        if let Some(columns) = columns {
            self.restrict(&mut tree, &columns)?;
        }
        Ok(tree)
    }

    fn phrase(&mut self) -> Result<Phrase> {
        let mut phrase = Phrase::default();
        loop {
            let Token::Text(text) = &self.token else { return Err(self.syntax()) };
            let text = text.clone();
            self.advance()?;
            tokens(self.definition, text.as_bytes(), &mut phrase.terms);
            let is_prefix = self.token == Token::Star;
            if is_prefix {
                self.advance()?;
            }
            // The star belongs to the last token so far, also where its own text has none.
            if let Some(last) = phrase.terms.last_mut() {
                last.is_prefix = is_prefix;
            }
            if self.token != Token::Plus {
                return Ok(phrase);
            }
            self.advance()?;
        }
    }

    /// Searches in `columns` alone.
    fn restrict(&self, tree: &mut Tree, columns: &[usize]) -> Result<()> {
        if self.definition.detail == Detail::None {
            return Err(query("fts5: column queries are not supported (detail=none)"));
        }
        match tree {
            Tree::Never => Ok(()),
            Tree::Near(near) => {
                match &mut near.columns {
                    Some(before) => before.retain(|column| columns.contains(column)),
                    none => *none = Some(columns.to_vec()),
                }
                Ok(())
            }
            Tree::And(children) | Tree::Or(children) => {
                children.iter_mut().try_for_each(|child| self.restrict(child, columns))
            }
            Tree::Not(left, right) => {
                self.restrict(left, columns)?;
                self.restrict(right, columns)
            }
        }
    }
}

/// One node over `children`; children of the same kind give it theirs.
fn join(
    mut children: Vec<Tree>,
    kind: fn(Vec<Tree>) -> Tree,
    inner: fn(Tree) -> std::result::Result<Vec<Tree>, Tree>,
) -> Result<Tree> {
    if children.len() == 1 {
        return Ok(children.pop().expect("one child was counted"));
    }
    let mut flat = Vec::with_capacity(children.len());
    for child in children {
        match inner(child) {
            Ok(grandchildren) => flat.extend(grandchildren),
            Err(child) => flat.push(child),
        }
    }
    debug_assert!(flat.len() > 1 || flat.iter().any(Tree::is_never));
    bounded(kind(flat))
}

fn bounded(tree: Tree) -> Result<Tree> {
    if tree.height() > HEIGHT_MAX {
        let message = format!("fts5 expression tree is too large (maximum depth {HEIGHT_MAX})");
        return Err(query(message));
    }
    Ok(tree)
}
