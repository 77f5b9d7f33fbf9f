//! The arguments of `CREATE VIRTUAL TABLE ... USING fts3(...)` and `fts4(...)`.

use super::tokenize::Tokenizer;
use crate::error::{Error, Result};
use crate::module::rows::quoted;

/// Lengths of prefixes beyond this one count as 0.
const PREFIX_MAX: u64 = 10_000_000;

/// A table's options.
#[derive(Debug)]
pub(super) struct Definition {
    pub(super) name: String,
    /// The name of the table's database.
    pub(super) database: String,
    pub(super) is_fts4: bool,
    pub(super) columns: Vec<String>,
    /// For each column: true where the column's texts are in no index.
    pub(super) unindexed: Vec<bool>,
    /// Bytes of the prefixes in the indexes behind the first.
    pub(super) prefixes: Vec<usize>,
    /// Doclists descend.
    pub(super) is_descending: bool,
    /// `%_docsize` exists.
    pub(super) has_sizes: bool,
    pub(super) content: Content,
    /// The column of the content table, or the name of the hidden column of ours.
    pub(super) language: Option<String>,
    /// The function to make a text of stored bytes.
    pub(super) uncompress: Option<String>,
    pub(super) tokenizer: Tokenizer,
}

/// Where the texts are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// In `%_content`.
    Own,
    /// Nowhere: `content=""`.
    Nowhere,
    /// In another table or view.
    Table(String),
}

fn fault(message: impl Into<String>) -> Error {
    Error::Definition(message.into())
}

impl Definition {
    /// Reads the arguments; `columns_of` gives the columns of a content table.
    ///
    /// # Errors
    /// [`Error::Definition`] in SQLite's words.
    pub(super) fn parse(
        (database, name): (&str, &str),
        is_fts4: bool,
        arguments: &[String],
        columns_of: impl FnOnce(&str) -> Result<Vec<String>>,
    ) -> Result<Definition> {
        let mut columns: Vec<String> = Vec::new();
        let mut options = Options::default();
        let mut tokenizer = None;
        for argument in arguments {
            if tokenizer.is_none()
                && let Some(words) = after_tokenize(argument)
            {
                tokenizer = Some(Tokenizer::parse(words)?);
            } else if is_fts4 && let Some((key, value)) = argument.split_once('=') {
                options.set(argument, key, unquoted(value))?;
            } else {
                columns.push(argument.clone());
            }
        }
        if let Some(content) = &options.content {
            (options.compress, options.uncompress) = (None, None);
            if columns.is_empty() {
                columns = columns_of(content)?.iter().map(|column| quoted(column)).collect();
                if let Some(language) = &options.language {
                    let is = |column: &String| unquoted(column).eq_ignore_ascii_case(language);
                    if let Some(place) = columns.iter().position(is) {
                        columns.remove(place);
                    }
                }
            }
        }
        let mut columns: Vec<String> = columns.iter().map(|text| column_name(text)).collect();
        if columns.is_empty() {
            columns.push("content".to_owned());
        }
        let prefixes = prefixes(options.prefix.as_deref())?;
        let mut unindexed = vec![false; columns.len()];
        for left_out in &options.unindexed {
            let is = |column: &&String| column.eq_ignore_ascii_case(left_out);
            if !columns.iter().any(|column| is(&column)) {
                return Err(fault(format!("no such column: {left_out}")));
            }
            for (column, flag) in columns.iter().zip(&mut unindexed) {
                *flag |= is(&column);
            }
        }
        if options.compress.is_some() != options.uncompress.is_some() {
            let missing = if options.compress.is_none() { "compress" } else { "uncompress" };
            return Err(fault(format!("missing {missing} parameter in fts4 constructor")));
        }
        Ok(Definition {
            name: name.to_owned(),
            database: database.to_owned(),
            is_fts4,
            columns,
            unindexed,
            prefixes,
            is_descending: options.is_descending,
            has_sizes: is_fts4 && !options.has_no_sizes,
            content: match options.content {
                None => Content::Own,
                Some(name) if name.is_empty() => Content::Nowhere,
                Some(name) => Content::Table(name),
            },
            language: options.language,
            uncompress: options.uncompress,
            tokenizer: tokenizer.map_or_else(|| Tokenizer::parse("simple"), Ok)?,
        })
    }

    /// The module's name.
    pub(super) fn module(&self) -> &'static str {
        if self.is_fts4 { "fts4" } else { "fts3" }
    }

    /// The name of `%_content`'s column for a column of ours.
    pub(super) fn stored_column(&self, column: usize) -> String {
        format!("c{column}{}", self.columns[column])
    }
}

/// Options of FTS4.
#[derive(Default)]
struct Options {
    has_no_sizes: bool,
    prefix: Option<String>,
    compress: Option<String>,
    uncompress: Option<String>,
    is_descending: bool,
    content: Option<String>,
    language: Option<String>,
    unindexed: Vec<String>,
}

impl Options {
    fn set(&mut self, argument: &str, key: &str, value: String) -> Result<()> {
        match key.to_ascii_lowercase().as_str() {
            "matchinfo" if value.eq_ignore_ascii_case("fts3") => self.has_no_sizes = true,
            "matchinfo" => return Err(fault(format!("unrecognized matchinfo: {value}"))),
            "prefix" => self.prefix = Some(value),
            "compress" => self.compress = Some(value),
            "uncompress" => self.uncompress = Some(value),
            "order" if value.eq_ignore_ascii_case("asc") => self.is_descending = false,
            "order" if value.eq_ignore_ascii_case("desc") => self.is_descending = true,
            "order" => return Err(fault(format!("unrecognized order: {value}"))),
            "content" => self.content = Some(value),
            "languageid" => self.language = Some(value),
            "notindexed" => self.unindexed.push(value),
            _ => return Err(fault(format!("unrecognized parameter: {argument}"))),
        }
        Ok(())
    }
}

/// The words of `tokenize=...` and `tokenize ...`.
fn after_tokenize(argument: &str) -> Option<&str> {
    let (word, rest) = argument.split_at_checked("tokenize".len())?;
    let separator = rest.chars().next()?;
    let is_tokenize = word.eq_ignore_ascii_case("tokenize") && !is_word(separator);
    is_tokenize.then(|| &rest[separator.len_utf8()..])
}

/// Lengths of `prefix='1,3'`; lengths of 0 count for nothing.
fn prefixes(text: Option<&str>) -> Result<Vec<usize>> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(Vec::new()) };
    let wrong = || fault(format!("error parsing prefix parameter: {text}"));
    let mut prefixes = Vec::new();
    let mut rest = text;
    for _ in 0..text.matches(',').count() + 1 {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        if number != 0 && number <= PREFIX_MAX {
            prefixes.push(number as usize);
        }
        let behind = rest[digits..].chars().next().map_or(0, char::len_utf8);
        rest = &rest[digits + behind..];
    }
    Ok(prefixes)
}

/// A letter of a bare word.
pub(super) fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == '$' || !letter.is_ascii()
}

/// The first word of a column's definition, without its quotes.
fn column_name(text: &str) -> String {
    next_word(text).map_or_else(String::new, |(word, _)| unquoted(word))
}

/// The next word or quoted text, quotes included, and the text behind.
pub(super) fn next_word(text: &str) -> Option<(&str, &str)> {
    let begin = text.find(|letter: char| is_word(letter) || "'\"`[".contains(letter))?;
    let text = &text[begin..];
    let first = text.chars().next()?;
    let end = match first {
        '\'' | '"' | '`' => {
            let mut end = 1;
            loop {
                match text[end..].find(first) {
                    None => break text.len(),
                    Some(at) if text[end + at + 1..].starts_with(first) => end += at + 2,
                    Some(at) => break end + at + 1,
                }
            }
        }
        '[' => text.find(']').map_or(text.len(), |at| at + 1),
        _ => text.find(|letter| !is_word(letter)).unwrap_or(text.len()),
    };
    Some(text.split_at(end))
}

/// A text without the quotes around it, doubled ones inside undone.
pub(super) fn unquoted(text: &str) -> String {
    let Some(open) = text.chars().next().filter(|first| "'\"`[".contains(*first)) else {
        return text.to_owned();
    };
    let close = if open == '[' { ']' } else { open };
    let mut out = String::new();
    let mut letters = text[1..].chars().peekable();
    while let Some(letter) = letters.next() {
        if letter == close && letters.next_if_eq(&close).is_none() {
            break;
        }
        out.push(letter);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Content, Definition, next_word, unquoted};

    fn parse(is_fts4: bool, arguments: &[&str]) -> Result<Definition, String> {
        let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
        let columns = |_: &str| Ok(vec!["a b".to_owned(), "lang".to_owned()]);
        Definition::parse(("main", "t"), is_fts4, &arguments, columns)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_of_fts4_alone() {
        let old = parse(false, &["a TEXT", "order=desc", "tokenize porter"]).expect("it reads");
        assert_eq!((old.columns.len(), old.is_descending), (2, false));
        let new = parse(
            true,
            &["'a b' VARCHAR", "order=\"DESC\"", "prefix='2,0,4'", "matchinfo=fts3", "c"],
        );
        let new = new.expect("it reads");
        assert_eq!(new.columns, ["a b", "c"]);
        assert_eq!((new.is_descending, new.has_sizes), (true, false));
        assert_eq!(new.prefixes, [2, 4]);
        let content = parse(true, &["content=other", "languageid=lang"]).expect("it reads");
        assert_eq!(content.content, Content::Table("other".to_owned()));
        assert_eq!(content.columns, ["a b"]);
    }

    #[test]
    fn refusals_are_in_sqlites_words() {
        let refused = |arguments: &[&str]| parse(true, arguments).expect_err("it is refused");
        assert_eq!(refused(&["a", "order=up"]), "unrecognized order: up");
        assert_eq!(refused(&["a", "colour=red"]), "unrecognized parameter: colour=red");
        assert_eq!(refused(&["a", "notindexed=b"]), "no such column: b");
        assert_eq!(refused(&["a", "prefix=x"]), "error parsing prefix parameter: x");
        assert_eq!(
            refused(&["a", "compress=zip"]),
            "missing uncompress parameter in fts4 constructor"
        );
        assert_eq!(refused(&["tokenize=icu"]), "the tokenizer icu is not supported");
        assert_eq!(refused(&["tokenize=none"]), "unknown tokenizer: none");
    }

    #[test]
    fn words_and_quotes() {
        assert_eq!(next_word("  'a''b' c"), Some(("'a''b'", " c")));
        assert_eq!(next_word("(x1, [y z])"), Some(("x1", ", [y z])")));
        assert_eq!(next_word("+-"), None);
        assert_eq!(unquoted("\"a\"\"b\""), "a\"b");
        assert_eq!(unquoted("[a]b"), "a");
    }
}
