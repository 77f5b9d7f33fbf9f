//! The words of a dot command.

use crate::failure::Failure;

/// Splits `line` into words at blanks. A word in single quotes is taken literally; in double
/// quotes, and without quotes, a backslash begins an escape as in C.
pub(super) fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line.trim();
    while let Some(first) = rest.chars().next() {
        let word;
        (word, rest) = match first {
            '\'' => match rest[1..].split_once('\'') {
                Some((word, rest)) => (word.to_owned(), rest),
                None => (rest[1..].to_owned(), ""),
            },
            '"' => {
                let end = closing(&rest[1..]);
                let after = rest[1..].get(end + 1..).unwrap_or("");
                (unescaped(&rest[1..=end]), after)
            }
            _ => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                (unescaped(&rest[..end]), &rest[end..])
            }
        };
        words.push(word);
        rest = rest.trim_start();
    }
    words
}

/// The place of the double quote closing a word; the text's length without one.
fn closing(text: &str) -> usize {
    let mut escaped = false;
    for (place, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return place,
            _ => {}
        }
    }
    text.len()
}

fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        match characters.next() {
            None => out.push('\\'),
            Some('a') => out.push('\x07'),
            Some('b') => out.push('\x08'),
            Some('t') => out.push('\t'),
            Some('n') => out.push('\n'),
            Some('v') => out.push('\x0b'),
            Some('f') => out.push('\x0c'),
            Some('r') => out.push('\r'),
            Some(digit @ '0'..='7') => {
                let mut value = digit.to_digit(8).unwrap_or(0);
                while let Some(digit) = characters.peek().and_then(|c| c.to_digit(8))
                    && value < 0o40
                {
                    value = value * 8 + digit;
                    characters.next();
                }
                out.extend(char::from_u32(value));
            }
            Some(other) => out.push(other),
        }
    }
    out
}

/// `on` or `off`, in the spellings of `sqlite3`.
pub(super) fn boolean(word: &str) -> Result<bool, Failure> {
    match word.to_ascii_lowercase().as_str() {
        "on" | "yes" | "true" | "1" => Ok(true),
        "off" | "no" | "false" | "0" => Ok(false),
        _ => Err(Failure::new(format_args!("neither on nor off: {word}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_quotes() {
        let check = |line: &str, expect: &[&str]| assert_eq!(split(line), expect, "{line}");
        check(".mode list", &[".mode", "list"]);
        check(".print 'a b\\t' \"c\\td\\\"\" e\\tf", &[".print", "a b\\t", "c\td\"", "e\tf"]);
        check(".separator \"\\x\" \\037", &[".separator", "x", "\x1f"]);
        check("  .width   1 -2  ", &[".width", "1", "-2"]);
        check(".print 'open", &[".print", "open"]);
        check(".print \"open\\", &[".print", "open\\"]);
        check(".print \"é\"x", &[".print", "é", "x"]);
        check("", &[]);
    }
}
