//! Arguments of `CREATE VIRTUAL TABLE ... USING fts5(...)`: columns and options.

use crate::error::{Error, Result};
use crate::tokenize::Tokenizer;

/// Prefix indexes that a table may have.
const PREFIX_MAX: usize = 31;

/// Detail kept of a token's places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Column and position of each token.
    Full,
    /// The columns with the token.
    Columns,
    /// Rows alone.
    None,
}

/// The keeper of the documents' texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The shadow table `%_content`.
    Own,
    /// Nobody: `content=''`.
    Nowhere,
    /// `%_content`, of the columns that are UNINDEXED alone: `contentless_unindexed=1`.
    Unindexed,
    /// Another table or view.
    Table {
        /// The table's name.
        name: String,
        /// Its column of rowids.
        rowid: String,
    },
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The name as written.
    pub name: String,
    /// Skips the column in the index: `UNINDEXED`.
    pub is_unindexed: bool,
}

/// A full text table as its definition says.
#[derive(Debug)]
pub struct Definition {
    /// Name of the table.
    pub name: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Lengths, in characters, of the prefix indexes.
    pub prefixes: Vec<usize>,
    /// The maker of tokens.
    pub tokenizer: Tokenizer,
    /// Keeper of the texts.
    pub content: Content,
    /// Deletes rows of a table without texts by tombstones: `contentless_delete=1`.
    pub deletes_contentless: bool,
    /// Keeps sizes of columns in `%_docsize`.
    pub has_sizes: bool,
    /// Detail of places.
    pub detail: Detail,
    /// Keeps a locale beside each text: `locale=1`.
    pub has_locale: bool,
}

impl Definition {
    /// Reads the arguments of `CREATE VIRTUAL TABLE name USING fts5(...)`.
    ///
    /// # Errors
    /// [`Error::Definition`] in SQLite's words.
    pub fn parse(name: &str, arguments: &[String]) -> Result<Definition> {
        if name.eq_ignore_ascii_case("rank") {
            return Err(definition(format!("reserved fts5 table name: {name}")));
        }
        let mut options = Options::default();
        let mut columns = Vec::new();
        for argument in arguments {
            let malformed = || definition(format!("parse error in \"{argument}\""));
            let (first, is_quoted, rest) = word(argument).ok_or_else(malformed)?;
            let rest = skip_space(rest);
            let is_option = rest.starts_with('=');
            if is_option && is_quoted {
                return Err(malformed());
            }
            let rest = skip_space(if is_option { &rest[1..] } else { rest });
            let mut second = None;
            if !rest.is_empty() {
                let (text, _, rest) = word(rest).ok_or_else(malformed)?;
                if !rest.is_empty() {
                    return Err(malformed());
                }
                second = Some(text);
            }
            if is_option {
                options.set(&first, second.as_deref().unwrap_or(""))?;
            } else {
                columns.push(column(first, second)?);
            }
        }
        options.finish(name, columns)
    }

    /// The arguments of a table with its own texts and with some columns of this one, whose
    /// arguments are given.
    ///
    /// # Errors
    /// As [`Definition::parse`]; [`Error::Definition`] for a table without texts.
    pub fn of_columns(
        name: &str,
        arguments: &[String],
        is_visible: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<String>> {
        if !Definition::parse(name, arguments)?.has_texts() {
            let why = format!("{name} keeps no texts: under rules they could not be searched");
            return Err(definition(why));
        }
        let is_kept = |argument: &&String| {
            let Some((first, _, rest)) = word(argument) else { return false };
            match skip_space(rest).starts_with('=') {
                // Where texts are kept is the other table's own affair.
                true => !option(&first).is_some_and(|option| option.starts_with("content")),
                false => is_visible(&first),
            }
        };
        Ok(arguments.iter().filter(is_kept).cloned().collect())
    }

    /// Documents' texts can be read again.
    #[must_use]
    pub fn has_texts(&self) -> bool {
        matches!(self.content, Content::Own | Content::Table { .. })
    }
}

#[derive(Default)]
struct Options {
    prefixes: Vec<usize>,
    tokenizer: Option<Vec<String>>,
    content: Option<String>,
    rowid: Option<String>,
    deletes_contentless: bool,
    keeps_unindexed: bool,
    lacks_sizes: bool,
    detail: Option<Detail>,
    has_locale: bool,
}

impl Options {
    /// One option; a name may be cut short, as SQLite allows.
    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let switch = |option: &str| match value {
            "0" => Ok(false),
            "1" => Ok(true),
            _ => Err(definition(format!("malformed {option}=... directive"))),
        };
        match option(name) {
            Some("prefix") => return self.set_prefixes(value),
            Some("tokenize") => {
                if self.tokenizer.is_some() {
                    return Err(definition("multiple tokenize=... directives"));
                }
                let words = tokenizer_words(value)
                    .ok_or_else(|| definition("parse error in tokenize directive"))?;
                self.tokenizer = Some(words);
            }
            Some("content") => {
                if self.content.is_some() {
                    return Err(definition("multiple content=... directives"));
                }
                self.content = Some(value.to_owned());
            }
            Some("content_rowid") => {
                if self.rowid.is_some() {
                    return Err(definition("multiple content_rowid=... directives"));
                }
                self.rowid = Some(value.to_owned());
            }
            Some("contentless_delete") => self.deletes_contentless = switch("contentless_delete")?,
            Some("contentless_unindexed") => self.keeps_unindexed = switch("contentless_delete")?,
            Some("columnsize") => self.lacks_sizes = !switch("columnsize")?,
            Some("locale") => self.has_locale = switch("locale")?,
            Some("tokendata") => {
                if switch("tokendata")? {
                    return Err(definition("tokendata=1 is not supported"));
                }
            }
            Some("detail") => {
                let lower = value.to_ascii_lowercase();
                let kinds =
                    [("none", Detail::None), ("full", Detail::Full), ("columns", Detail::Columns)];
                let mut named = kinds.iter().filter(|(kind, _)| kind.starts_with(&lower));
                match (named.next(), named.next()) {
                    (Some(&(_, detail)), None) => self.detail = Some(detail),
                    _ => return Err(definition("malformed detail=... directive")),
                }
            }
            _ => return Err(definition(format!("unrecognized option: \"{name}\""))),
        }
        Ok(())
    }

    fn set_prefixes(&mut self, value: &str) -> Result<()> {
        let mut rest = value.trim_start_matches(' ');
        let mut is_first = true;
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix(',').filter(|_| !is_first) {
                rest = after.trim_start_matches(' ');
            }
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            if end == 0 {
                return Err(definition("malformed prefix=... directive"));
            }
            if self.prefixes.len() == PREFIX_MAX {
                return Err(definition(format!("too many prefix indexes (max {PREFIX_MAX})")));
            }
            let length = rest[..end].parse().unwrap_or(usize::MAX);
            if length == 0 || length >= 1000 {
                return Err(definition("prefix length out of range (max 999)"));
            }
            self.prefixes.push(length);
            rest = rest[end..].trim_start_matches(' ');
            is_first = false;
        }
        Ok(())
    }

    fn finish(self, name: &str, columns: Vec<Column>) -> Result<Definition> {
        let is_contentless = self.content.as_deref() == Some("");
        if self.deletes_contentless && !is_contentless {
            return Err(definition("contentless_delete=1 requires a contentless table"));
        }
        if self.deletes_contentless && self.lacks_sizes {
            return Err(definition("contentless_delete=1 is incompatible with columnsize=0"));
        }
        if self.keeps_unindexed && !is_contentless {
            return Err(definition("contentless_unindexed=1 requires a contentless table"));
        }
        let content = match self.content {
            None => Content::Own,
            Some(table) if !table.is_empty() => Content::Table {
                name: table,
                rowid: self.rowid.unwrap_or_else(|| "rowid".to_owned()),
            },
            Some(_) if self.keeps_unindexed && columns.iter().any(|c| c.is_unindexed) => {
                Content::Unindexed
            }
            Some(_) => Content::Nowhere,
        };
        let words = self.tokenizer.unwrap_or_default();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Ok(Definition {
            name: name.to_owned(),
            columns,
            prefixes: self.prefixes,
            tokenizer: Tokenizer::new(&words)?,
            content,
            deletes_contentless: self.deletes_contentless,
            has_sizes: !self.lacks_sizes,
            detail: self.detail.unwrap_or(Detail::Full),
            has_locale: self.has_locale,
        })
    }
}

/// The names of options.
const OPTIONS: [&str; 10] = [
    "prefix",
    "tokenize",
    "content",
    "contentless_delete",
    "contentless_unindexed",
    "content_rowid",
    "columnsize",
    "locale",
    "detail",
    "tokendata",
];

/// The option of a name in any case, perhaps cut short.
fn option(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    OPTIONS.into_iter().find(|option| option.starts_with(&lower))
}

fn column(name: String, option: Option<String>) -> Result<Column> {
    if name.eq_ignore_ascii_case("rank") || name.eq_ignore_ascii_case("rowid") {
        return Err(definition(format!("reserved fts5 column name: {name}")));
    }
    let is_unindexed = match option {
        None => false,
        Some(option) if option.eq_ignore_ascii_case("unindexed") => true,
        Some(option) => return Err(definition(format!("unrecognized column option: {option}"))),
    };
    Ok(Column { name, is_unindexed })
}

fn definition(message: impl Into<String>) -> Error {
    Error::Definition(message.into())
}

/// Characters of a word without quotes: letters, digits, `_`, 0x1A, and beyond ASCII.
pub(crate) fn is_bareword(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == 0x1a || byte >= 0x80
}

pub(crate) fn skip_space(text: &str) -> &str {
    text.trim_start_matches(' ')
}

/// A quoted or bare word at the front: its text, the presence of quotes, the rest.
fn word(text: &str) -> Option<(String, bool, &str)> {
    if let Some((word, rest)) = quoted(text) {
        return Some((word, true, rest));
    }
    let end = text.bytes().position(|byte| !is_bareword(byte)).unwrap_or(text.len());
    (end > 0).then(|| (text[..end].to_owned(), false, &text[end..]))
}

/// A text in one of SQL's four kinds of quotes, doubled inside; one without an end reaches to the
/// end of the text.
fn quoted(text: &str) -> Option<(String, &str)> {
    let open = text.chars().next()?;
    let close = match open {
        '\'' | '"' | '`' => open,
        '[' => ']',
        _ => return None,
    };
    let mut word = String::new();
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c != close {
            word.push(c);
        } else if chars.peek().is_some_and(|&(_, next)| next == close) {
            word.push(close);
            chars.next();
        } else {
            return Some((word, &text[at + 1..]));
        }
    }
    Some((word, ""))
}

/// The words of a `tokenize` option: barewords, and texts in single quotes.
fn tokenizer_words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = skip_space(text);
    while !rest.is_empty() {
        if rest.starts_with('\'') {
            // The text ends at the first quote alone; without such a quote the option is malformed.
            let body = rest[1..].replace("''", "\u{0}\u{0}");
            body.find('\'')?;
            let (word, after) = quoted(rest)?;
            words.push(word);
            rest = skip_space(after);
        } else {
            let (word, _, after) = word(rest).filter(|(_, is_quoted, _)| !is_quoted)?;
            words.push(word);
            rest = skip_space(after);
        }
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::{Content, Definition, Detail};

    fn parse(arguments: &[&str]) -> Result<Definition, String> {
        let arguments: Vec<String> = arguments.iter().map(|&a| a.to_owned()).collect();
        Definition::parse("t", &arguments).map_err(|error| error.to_string())
    }

    #[test]
    fn columns_and_options() {
        let table = parse(&["a", "\"b c\" UNINDEXED", "prefix='2 3,4'", "detail=col"]).unwrap();
        assert_eq!(table.columns[1].name, "b c");
        assert!(table.columns[1].is_unindexed);
        assert_eq!((table.prefixes, table.detail), (vec![2, 3, 4], Detail::Columns));
        let table = parse(&["a", "content='x y'", "content_rowid=id"]).unwrap();
        let content = Content::Table { name: "x y".to_owned(), rowid: "id".to_owned() };
        assert_eq!(table.content, content);
        let table = parse(&["a", "tokenize='porter unicode61 tokenchars ''-_'''"]).unwrap();
        assert!(format!("{:?}", table.tokenizer).starts_with("Porter"));
    }

    #[test]
    fn faults_are_told_in_the_words_of_sqlite() {
        let cases = [
            (vec!["rank"], "reserved fts5 column name: rank"),
            (vec!["a b"], "unrecognized column option: b"),
            (vec!["a b c"], "parse error in \"a b c\""),
            (vec!["nosuch=1"], "unrecognized option: \"nosuch\""),
            (vec!["prefix=a"], "malformed prefix=... directive"),
            (vec!["prefix=0"], "prefix length out of range (max 999)"),
            (vec!["a", "tokenize=nosuch"], "no such tokenizer: nosuch"),
            (
                vec!["a", "contentless_delete=1"],
                "contentless_delete=1 requires a contentless table",
            ),
        ];
        for (arguments, message) in cases {
            assert_eq!(parse(&arguments).unwrap_err(), message);
        }
    }

    #[test]
    fn hidden_columns_and_kept_texts_are_left_out() {
        let arguments = [
            "title",
            "\"my \"\"own\" UNINDEXED",
            "secret",
            "cont='note'",
            "content_rowid = id",
            "tokenize = 'porter unicode61'",
            "prefix='2 3'",
        ];
        let arguments = arguments.map(str::to_owned);
        let made = Definition::of_columns("t", &arguments, &|name| name != "secret").unwrap();
        let places = [0, 1, 5, 6].map(|place: usize| arguments[place].clone());
        assert_eq!(made, places);
        for none in ["content=''", "content = \"\""] {
            let arguments = ["a", none].map(str::to_owned);
            let error = Definition::of_columns("t", &arguments, &|_| true).unwrap_err();
            assert!(error.to_string().contains("t keeps no texts"), "{error}");
        }
    }
}
