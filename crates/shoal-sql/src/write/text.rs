//! Pieces of a statement's own text, and names as text.

use sqlite3_parser::dialect::{TokenType, keyword_token};
use sqlite3_parser::lexer::Splitter;
use sqlite3_parser::lexer::sql::Tokenizer;

/// Kinds of tokens from a place on, each with where it begins and ends. Ends at what is no token.
pub(crate) fn tokens(sql: &str, start: usize) -> impl Iterator<Item = (TokenType, usize, usize)> {
    let mut at = start;
    std::iter::from_fn(move || {
        loop {
            let rest = sql.as_bytes().get(at..).filter(|rest| !rest.is_empty())?;
            let (token, length) = Tokenizer::new().split(rest).ok()?;
            let begin = at;
            at += length.max(1);
            if let Some((_, kind)) = token {
                return Some((kind, begin, at));
            }
        }
    })
}

/// Where the first semicolon from `start` on is, or the end of the text.
pub(crate) fn semicolon(sql: &str, start: usize) -> usize {
    tokens(sql, start)
        .find(|(kind, ..)| *kind == TokenType::TK_SEMI)
        .map_or(sql.len(), |(_, begin, _)| begin)
}

/// The place after the last token of a trigger, a semicolon behind its `END` left out.
pub(crate) fn end_of_trigger(sql: &str, start: usize) -> usize {
    let mut end = start;
    for (kind, _, past) in tokens(sql, start) {
        if kind != TokenType::TK_SEMI {
            end = past;
        }
    }
    end
}

/// The place after the parenthesis that closes the first one from `start` on.
pub(crate) fn past_parenthesis(sql: &str, start: usize) -> usize {
    let mut depth = 0usize;
    for (kind, _, end) in tokens(sql, start) {
        match kind {
            TokenType::TK_LP => depth += 1,
            TokenType::TK_RP if depth == 1 => return end,
            TokenType::TK_RP => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    sql.len()
}

/// A name in double quotes where it needs them, as SQLite writes it.
pub(crate) fn quoted(name: &str) -> String {
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
        // No keyword is that short, and the lookup does not expect it.
        && (name.len() < 2 || keyword_token(name.as_bytes()).is_none());
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces() {
        let sql = "create table t (a /* ) */, b text default ')(' check (b)) ; x";
        assert_eq!(&sql[..past_parenthesis(sql, 13)], &sql[..57]);
        assert_eq!(semicolon(sql, 13), 58);
        assert_eq!(semicolon("a", 0), 1);
        assert_eq!(past_parenthesis("a", 0), 1);
    }

    #[test]
    fn names() {
        assert_eq!(quoted("a_1"), "a_1");
        assert_eq!(quoted("a"), "a");
        assert_eq!(quoted("1a"), "\"1a\"");
        assert_eq!(quoted("order"), "\"order\"");
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
        assert_eq!(quoted(""), "\"\"");
    }
}
