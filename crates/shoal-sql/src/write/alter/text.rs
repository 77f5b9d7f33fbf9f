//! Edits of a definition's text by tokens alone.
//!
//! Constraints are found as SQLite finds them: by the keywords at their begin, parentheses passed
//! as a whole. Its results are compared byte by byte, odd spaces included.

use sqlite3_parser::dialect::TokenType;
use sqlite3_parser::lexer::Splitter;
use sqlite3_parser::lexer::sql::Tokenizer;

use super::super::text::{semicolon, tokens};

/// A constraint to take out of a definition.
#[derive(Clone, Copy, Debug)]
pub(super) enum Constraint<'a> {
    /// The one of a name.
    Named(&'a str),
    /// The `NOT NULL` of a column.
    NotNull(usize),
}

/// The token at a place, as written.
pub(super) fn token_at(sql: &str, start: usize) -> &str {
    let end = tokens(sql, start).next().map_or(start, |(_, _, end)| end);
    sql.get(start..end).unwrap_or_default()
}

/// The rest of a statement, without the semicolon and spaces at its end.
pub(super) fn to_the_end(sql: &str, start: usize) -> &str {
    let end = semicolon(sql, start);
    let text = sql.get(start..end).unwrap_or_default();
    text.trim_end_matches(|c: char| c == ';' || c.is_ascii_whitespace() || c == '\x0b')
}

/// A constraint at the end of a statement, without the line comments behind.
pub(super) fn constraint(sql: &str, start: usize) -> &str {
    let text = sql.get(start..semicolon(sql, start)).unwrap_or_default();
    let (mut at, mut end) = (0, 0);
    while let Some((kind, length)) = raw_token(text, at) {
        let line_comment = text[at..].starts_with("--");
        let space = kind.is_none() && !text[at..].starts_with("/*");
        at += length;
        if !line_comment && !space {
            end = at;
        }
    }
    &text[..end]
}

/// The next token at a place and its length: no kind for spaces and comments. `None` at the end,
/// and for what is no token.
fn raw_token(sql: &str, at: usize) -> Option<(Option<TokenType>, usize)> {
    let rest = sql.as_bytes().get(at..).filter(|rest| !rest.is_empty())?;
    // The lexer takes a run of spaces and comments for one; here they count one by one.
    if rest[0].is_ascii_whitespace() || rest[0] == b'\x0b' {
        return Some((None, 1));
    }
    if rest.starts_with(b"--") {
        let length = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
        return Some((None, length));
    }
    if rest.starts_with(b"/*") && rest.len() > 2 {
        let end = rest[2..].windows(2).position(|pair| pair == b"*/");
        return Some((None, end.map_or(rest.len(), |end| end + 4)));
    }
    let (token, length) = Tokenizer::new().split(rest).ok()?;
    Some((token.map(|(_, kind)| kind), length.max(1)))
}

/// The place behind spaces and comments.
fn past_space(sql: &str, mut at: usize) -> usize {
    while let Some((None, length)) = raw_token(sql, at) {
        at += length;
    }
    at
}

/// The next token from a place on and the place behind; a pair of parentheses with their content
/// counts as one token. `None` at the end and before bytes of no token.
fn next_token(sql: &str, at: usize) -> (Option<TokenType>, usize) {
    let begin = past_space(sql, at);
    let Some((kind, length)) = raw_token(sql, begin) else { return (None, begin) };
    let mut end = begin + length;
    if kind != Some(TokenType::TK_LP) {
        return (kind, end);
    }
    let mut depth = 1;
    while depth > 0 {
        let Some((kind, length)) = raw_token(sql, end) else { return (None, end) };
        match kind {
            Some(TokenType::TK_LP) => depth += 1,
            Some(TokenType::TK_RP) => depth -= 1,
            _ => {}
        }
        end += length;
    }
    (Some(TokenType::TK_LP), end)
}

/// The place behind the first parenthesis of a definition.
fn past_open(sql: &str) -> Result<usize, String> {
    let open = tokens(sql, 0).find(|(kind, ..)| *kind == TokenType::TK_LP);
    open.map(|(_, _, end)| end).ok_or_else(|| "database disk image is malformed".to_owned())
}

/// The place behind a constraint whose first token was of a kind and lies before `at`.
fn past_constraint(sql: &str, mut at: usize, first: Option<TokenType>) -> usize {
    use TokenType::{
        TK_AS, TK_CHECK, TK_COLLATE, TK_COMMA, TK_CONSTRAINT, TK_DEFAULT, TK_FOREIGN, TK_GENERATED,
        TK_NOT, TK_PRIMARY, TK_REFERENCES, TK_RP, TK_UNIQUE,
    };
    let mut first = first;
    if first == Some(TK_FOREIGN) {
        at = past_constraint(sql, at, None);
        (first, at) = next_token(sql, at);
    }
    if first == Some(TK_REFERENCES) {
        // The table may be called as a constraint begins.
        at = next_token(sql, at).1;
    }
    loop {
        let (kind, past) = next_token(sql, at);
        match kind {
            None
            | Some(
                TK_CONSTRAINT | TK_PRIMARY | TK_NOT | TK_UNIQUE | TK_CHECK | TK_DEFAULT
                | TK_COLLATE | TK_REFERENCES | TK_FOREIGN | TK_RP | TK_COMMA | TK_AS | TK_GENERATED,
            ) => return at,
            Some(_) => at = past,
        }
    }
}

/// A name without its quotes.
pub(super) fn dequoted(token: &str) -> String {
    let mut chars = token.chars();
    let close = match chars.next() {
        Some('[') => ']',
        Some(quote @ ('"' | '`' | '\'')) => quote,
        _ => return token.to_owned(),
    };
    let inner = chars.as_str();
    let inner = inner.strip_suffix(close).unwrap_or(inner);
    match close {
        ']' => inner.to_owned(),
        quote => inner.replace(&format!("{quote}{quote}"), &quote.to_string()),
    }
}

/// A definition without a constraint.
///
/// # Errors
/// No constraint has the name, or the constraint must stay.
pub(super) fn drop_constraint(sql: &str, wanted: Constraint<'_>) -> Result<String, String> {
    use TokenType::{
        TK_AS, TK_CHECK, TK_COLLATE, TK_COMMA, TK_CONSTRAINT, TK_DEFAULT, TK_FOREIGN, TK_GENERATED,
        TK_NOT, TK_REFERENCES, TK_RP,
    };
    let (named, not_null) = match wanted {
        Constraint::Named(name) => (Some(name), None),
        Constraint::NotNull(column) => (None, Some(column)),
    };
    let mut at = past_open(sql)?;
    let mut column = 0;
    let found = loop {
        let start = at;
        let (kind, past) = next_token(sql, at);
        at = past;
        match kind {
            Some(TK_CONSTRAINT) if named.is_some() || not_null == Some(column) => {
                at = past_space(sql, at);
                let (name, past) = next_token(sql, at);
                let is = named.is_some_and(|wanted| {
                    name.is_some() && dequoted(&sql[at..past]).eq_ignore_ascii_case(wanted)
                });
                at = past;
                let (mut kind, past) = next_token(sql, at);
                if let Some(
                    TK_CONSTRAINT | TK_DEFAULT | TK_COLLATE | TK_COMMA | TK_RP | TK_GENERATED
                    | TK_AS,
                ) = kind
                {
                    kind = Some(TK_CHECK);
                } else {
                    at = past_constraint(sql, past, kind);
                }
                if is || not_null.is_some() && kind == Some(TK_NOT) {
                    if let Some(name) = named
                        && !matches!(kind, Some(TK_NOT | TK_CHECK | TK_REFERENCES | TK_FOREIGN))
                    {
                        return Err(format!("constraint may not be dropped: {name}"));
                    }
                    break Some((start, at));
                }
            }
            Some(TK_NOT) if not_null == Some(column) => {
                break Some((start, past_constraint(sql, at, None)));
            }
            None | Some(TK_RP) => break None,
            Some(TK_COMMA) => column += 1,
            Some(_) => {}
        }
    };
    let Some((mut start, end)) = found else {
        return match named {
            Some(name) => Err(format!("no such constraint: {name}")),
            None => Ok(sql.to_owned()),
        };
    };
    let end = past_space(sql, end);
    let mut space = " ";
    if let Some((Some(TK_RP | TK_COMMA), _)) = raw_token(sql, end) {
        space = "";
        if sql.as_bytes().get(start.wrapping_sub(1)) == Some(&b',') {
            start -= 1;
        }
    }
    Ok(format!("{}{space}{}", &sql[..start], &sql[end..]))
}

/// A definition with a constraint more, behind a column's others or behind everything.
///
/// # Errors
/// The text is no definition of a table.
pub(super) fn add_constraint(
    sql: &str,
    constraint: &str,
    column: Option<usize>,
) -> Result<String, String> {
    let mut at = past_open(sql)?;
    let mut number = 0;
    let mut last = None;
    while column.map_or(last != Some(TokenType::TK_RP), |column| number <= column) {
        at = next_token(sql, at).1;
        loop {
            let (kind, past) = next_token(sql, at);
            last = kind;
            match kind {
                Some(TokenType::TK_COMMA | TokenType::TK_RP) => break,
                None => return Err("database disk image is malformed".to_owned()),
                Some(_) => at = past,
            }
        }
        number += 1;
    }
    let at = past_space(sql, at);
    let comma = if column.is_none() { "," } else { "" };
    Ok(format!("{}{comma} {constraint}{}", &sql[..at], &sql[at..]))
}

/// True when a definition has a constraint of the name.
pub(super) fn has_constraint(sql: &str, name: &str) -> bool {
    let Ok(mut at) = past_open(sql) else { return false };
    loop {
        let (kind, past) = next_token(sql, at);
        at = past;
        match kind {
            None => return false,
            Some(TokenType::TK_CONSTRAINT) => {
                at = past_space(sql, at);
                let (kind, past) = next_token(sql, at);
                if kind.is_some() && dequoted(&sql[at..past]).eq_ignore_ascii_case(name) {
                    return true;
                }
            }
            Some(_) => {}
        }
    }
}

/// The place of the comma or parenthesis behind the columns; `last` is the last column's place.
fn end_of_columns(sql: &str, last: usize) -> usize {
    let mut at = last;
    loop {
        let (kind, past) = next_token(sql, at);
        match kind {
            None => return sql.len(),
            Some(TokenType::TK_COMMA | TokenType::TK_RP) => return past - 1,
            Some(_) => at = past,
        }
    }
}

/// A definition with a column more; `last` is the place of the last one's name.
pub(super) fn add_column(sql: &str, last: usize, column: &str) -> String {
    let end = end_of_columns(sql, last);
    format!("{}, {column}{}", &sql[..end], &sql[end..])
}

/// A definition without a column; `names` are the places of all columns' names.
pub(super) fn drop_column(sql: &str, names: &[usize], column: usize) -> String {
    let (start, end) = match names.get(column + 1) {
        Some(&next) => (names[column], next),
        None => {
            let comma = end_of_columns(sql, names[column - 1]);
            (comma, end_of_columns(sql, names[column]))
        }
    };
    format!("{}{}", &sql[..start], &sql[end..])
}
