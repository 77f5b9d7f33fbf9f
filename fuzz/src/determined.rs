//! Which statements have one answer, whoever gives it.

/// True when the answer may not depend on some operand. SQLite computes most such operands, and so
/// may find an error in them while running.
#[must_use]
pub fn may_skip(text: &str) -> bool {
    words(text).any(|word| word.eq_ignore_ascii_case("and") || word.eq_ignore_ascii_case("or"))
}

/// The words outside of quotes.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut quote = None;
    text.split(move |char: char| {
        let quoted = quote.is_some();
        match (char, quote) {
            (char, Some(end)) if char == end => quote = None,
            ('\'' | '"' | '`', None) => quote = Some(char),
            ('[', None) => quote = Some(']'),
            _ => {}
        }
        quoted || !(char.is_alphanumeric() || char == '_' || char == '$')
    })
}

/// True for one statement with an answer determined by the statement and the tables, not by the
/// hour. A NUL ends a text for SQLite, and SQLite knows no hints in front of a statement.
#[must_use]
pub fn is_determined(text: &str) -> bool {
    if text.contains('\0') {
        return false;
    }
    let text = text.to_ascii_lowercase();
    let hints = ["direct", "cached", "jit"];
    if hints.iter().any(|hint| words(&text).find(|word| !word.is_empty()) == Some(hint)) {
        return false;
    }
    let open = [
        "random",
        "now",
        "current",
        "changes",
        "last_insert",
        "sqlite_",
        "pragma",
        "explain",
        "limit",
        "subsec",
        "concat(",
        "group_array",
        "group_object",
        "stat",
        "rowid",
        "match",
        "regexp",
    ];
    open.iter().all(|word| !text.contains(word)) && !asks_the_time(&text)
}

/// True when a date function may be called without a moment, meaning now: `date()`, or `strftime`
/// with a format only. A text with comments counts as such a call, because comments may hide the
/// arguments.
fn asks_the_time(text: &str) -> bool {
    let calls = |name: &str, moment: usize| {
        let ends = text.match_indices(name).map(|(place, _)| place + name.len());
        ends.into_iter().any(|end| {
            let rest = text[end..].trim_start();
            let arguments = rest.strip_prefix('(').map_or(moment + 1, argument_count);
            arguments <= moment
        })
    };
    let dates = ["date", "time", "julianday", "unixepoch"].iter().any(|name| calls(name, 0));
    let comments = text.contains("--") || text.contains("/*");
    dates || calls("strftime", 1) || comments && text.contains("strftime")
}

/// The number of arguments before the parenthesis closing the call.
fn argument_count(text: &str) -> usize {
    let (mut depth, mut count, mut quote) = (0_usize, 0, None);
    for char in text.chars() {
        match (char, quote) {
            (char, Some(open)) if char == open => quote = None,
            (_, Some(_)) => {}
            ('\'' | '"' | '`', None) => (quote, count) = (Some(char), count.max(1)),
            ('(' | '[', None) => depth += 1,
            (')' | ']', None) if depth == 0 => return count,
            (')' | ']', None) => depth -= 1,
            (',', None) if depth == 0 => count = count.max(1) + 1,
            (char, None) if !char.is_whitespace() => count = count.max(1),
            _ => {}
        }
    }
    count
}
