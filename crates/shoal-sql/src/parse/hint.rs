//! Hints before a query about the keeping of its plan: `DIRECT`, `CACHED` and `JIT`.

use sqlite3_parser::dialect::TokenType;

use super::tokens::Lexer;

/// Decides if a query's plan is kept for the next time the same text is prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hint {
    /// `DIRECT`: not kept.
    Direct,
    /// `CACHED` and `JIT`: kept. Every plan is compiled, so `JIT` adds nothing.
    Kept,
}

/// The hint at the front of a text, and where the query behind begins.
pub(crate) fn hint(sql: &str) -> Option<(Hint, usize)> {
    let mut lexer = Lexer::new(sql.as_bytes());
    let word = lexer.next_token().ok()??;
    let is = |name: &str| word.value.eq_ignore_ascii_case(name.as_bytes());
    let hint = match word.kind {
        TokenType::TK_ID if is("direct") => Hint::Direct,
        TokenType::TK_ID if is("cached") || is("jit") => Hint::Kept,
        _ => return None,
    };
    let query = lexer.next_token().ok()??;
    matches!(query.kind, TokenType::TK_SELECT | TokenType::TK_WITH).then_some((hint, query.start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_stand_before_queries_alone() {
        let check = |sql: &str, expect: Option<(Hint, &str)>| {
            assert_eq!(hint(sql).map(|(hint, at)| (hint, &sql[at..])), expect, "{sql}");
        };
        check("select 1", None);
        check("CACHED select 1", Some((Hint::Kept, "select 1")));
        check(
            " /* x */ jit\nWITH a AS (SELECT 1) ...",
            Some((Hint::Kept, "WITH a AS (SELECT 1) ...")),
        );
        check("Direct SELECT 1", Some((Hint::Direct, "SELECT 1")));
        check("cached insert into t values (1)", None);
        check("cached", None);
        check("", None);
    }
}
