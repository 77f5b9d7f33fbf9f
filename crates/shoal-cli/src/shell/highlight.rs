//! Colours of a line of SQL or of a dot command during typing.

use crate::rows::literal::is_keyword;

/// The line with the colours of a terminal; its width stays the same.
pub(super) fn coloured(line: &str) -> String {
    let mut out = String::with_capacity(line.len() * 2);
    if line.trim_start().starts_with('.') {
        let end = line.len() - line.trim_start_matches(|c: char| !c.is_whitespace()).len();
        push(&mut out, COMMAND, &line[..end]);
        out.push_str(&line[end..]);
        return out;
    }
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let (end, colour) = token(rest, first);
        match colour {
            Some(colour) => push(&mut out, colour, &rest[..end]),
            None => out.push_str(&rest[..end]),
        }
        rest = &rest[end..];
    }
    out
}

/// How long the token at the start of `rest` is, and its colour.
fn token(rest: &str, first: char) -> (usize, Option<&'static str>) {
    let until = |stop: fn(char) -> bool| rest.find(stop).unwrap_or(rest.len());
    match first {
        '\'' => (closed(rest, "'"), Some(TEXT)),
        '"' | '`' => (closed(rest, &first.to_string()), None),
        '-' if rest.starts_with("--") => (rest.len(), Some(COMMENT)),
        '/' if rest.starts_with("/*") => {
            let end = rest.find("*/").map_or(rest.len(), |end| end + 2);
            (end, Some(COMMENT))
        }
        c if c.is_ascii_digit() => {
            (until(|c| !c.is_ascii_alphanumeric() && c != '.'), Some(NUMBER))
        }
        c if c.is_alphabetic() || c == '_' => {
            let end = until(|c| !c.is_alphanumeric() && c != '_');
            (end, is_keyword(&rest[..end]).then_some(KEYWORD))
        }
        c => (c.len_utf8(), None),
    }
}

fn closed(rest: &str, quote: &str) -> usize {
    rest[1..].find(quote).map_or(rest.len(), |end| end + 2)
}

fn push(out: &mut String, colour: &str, text: &str) {
    out.push_str(colour);
    out.push_str(text);
    out.push_str("\x1b[0m");
}

const COMMAND: &str = "\x1b[36m";
const KEYWORD: &str = "\x1b[1;34m";
const TEXT: &str = "\x1b[32m";
const NUMBER: &str = "\x1b[35m";
const COMMENT: &str = "\x1b[2m";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_change_no_character() {
        for line in [
            "SELECT 'it''s', 12.5e3, \"a b\" FROM t -- done",
            "select /* x */ é, 'open",
            ".tables a%",
            "'",
            "\"",
            "",
        ] {
            let mut plain = coloured(line);
            for code in [COMMAND, KEYWORD, TEXT, NUMBER, COMMENT, "\x1b[0m"] {
                plain = plain.replace(code, "");
            }
            assert_eq!(plain, line);
        }
        assert!(coloured("select x").starts_with(KEYWORD));
        assert!(!coloured("selected x").contains(KEYWORD));
    }
}
