//! FTS3's tokenizers: `simple`, `porter`, `unicode61`.
//!
//! Unlike FTS5's of the same names, `simple` and `porter` fold the letters of ASCII alone and take
//! every byte beyond them for a letter; `porter` takes long words and words with digits by their
//! ends; `unicode61` has its options behind `=`, in any order.

use super::definition::{next_word, unquoted};
use crate::error::{Error, Result};
use crate::tokenize::{Sink, Tokenizer as Modern, porter};

/// Words of `porter` with fewer or more bytes are no English words to be stemmed.
const STEMMED: std::ops::RangeInclusive<usize> = 3..=20;

/// Maker of tokens.
#[derive(Debug)]
pub(super) enum Tokenizer {
    /// Bytes between words: all of ASCII but letters and digits, or chosen ones.
    Simple([bool; 128]),
    /// Stems of words.
    Porter,
    /// FTS5's tokenizer of the same name.
    Unicode(Box<Modern>),
}

impl Tokenizer {
    /// Reads a name and its arguments.
    ///
    /// # Errors
    /// [`Error::Definition`] in SQLite's words.
    pub(super) fn parse(text: &str) -> Result<Tokenizer> {
        let (name, mut rest) = next_word(text).unwrap_or((text, ""));
        let mut arguments = Vec::new();
        while let Some((word, behind)) = next_word(rest) {
            arguments.push(unquoted(word));
            rest = behind;
        }
        Tokenizer::new(&unquoted(name), &arguments)
    }

    /// The tokenizer called `name`.
    ///
    /// # Errors
    /// As [`Tokenizer::parse`].
    pub(super) fn new(name: &str, arguments: &[String]) -> Result<Tokenizer> {
        match name {
            "simple" => simple(arguments),
            "porter" => Ok(Tokenizer::Porter),
            "unicode61" => unicode(arguments),
            "icu" => Err(Error::Definition("the tokenizer icu is not supported".to_owned())),
            _ => Err(Error::Definition(format!("unknown tokenizer: {name}"))),
        }
    }

    /// Gives the tokens of `text` to `sink`.
    pub(super) fn tokenize(&self, text: &[u8], sink: &mut Sink<'_>) {
        let mut term = Vec::new();
        match self {
            Tokenizer::Unicode(modern) => modern.tokenize(text, &mut term, sink),
            Tokenizer::Simple(separators) => {
                let is_separator =
                    |byte: u8| separators.get(usize::from(byte)).copied().unwrap_or(false);
                words(text, is_separator, |word, start, end| {
                    term.clear();
                    term.extend(word.iter().map(u8::to_ascii_lowercase));
                    sink(&term, start, end)
                });
            }
            Tokenizer::Porter => {
                let is_separator =
                    |byte: u8| byte < 0x80 && !byte.is_ascii_alphanumeric() && byte != b'_';
                let mut stem = Vec::new();
                words(text, is_separator, |word, start, end| {
                    term.clear();
                    term.extend(word.iter().map(u8::to_ascii_lowercase));
                    stem_or_cut(&term, &mut stem);
                    sink(&stem, start, end)
                });
            }
        }
    }
}

/// Runs of bytes without separators, until the sink wants no more.
fn words(
    text: &[u8],
    is_separator: impl Fn(u8) -> bool,
    mut sink: impl FnMut(&[u8], usize, usize) -> bool,
) {
    let mut at = 0;
    while at < text.len() {
        let start = at;
        while at < text.len() && !is_separator(text[at]) {
            at += 1;
        }
        if at == start {
            at += 1;
        } else if !sink(&text[start..at], start, at) {
            return;
        }
    }
}

/// Replaces `out` by the stem of an English word; other words lose the bytes between their ends.
fn stem_or_cut(word: &[u8], out: &mut Vec<u8>) {
    if STEMMED.contains(&word.len()) && word.iter().all(u8::is_ascii_alphabetic) {
        porter::stem(word, true, out);
        return;
    }
    out.clear();
    let kept = if word.iter().any(u8::is_ascii_digit) { 3 } else { 10 };
    if word.len() > 2 * kept {
        out.extend_from_slice(&word[..kept]);
        out.extend_from_slice(&word[word.len() - kept..]);
    } else {
        out.extend_from_slice(word);
    }
}

/// `simple`: the second argument, where there is one, has the separators.
fn simple(arguments: &[String]) -> Result<Tokenizer> {
    // SQLite's own loop begins at 1: NUL separates nothing.
    let mut separators: [bool; 128] =
        std::array::from_fn(|byte| byte > 0 && !(byte as u8).is_ascii_alphanumeric());
    if let Some(chosen) = arguments.get(1) {
        separators = [false; 128];
        for byte in chosen.bytes() {
            *separators.get_mut(usize::from(byte)).ok_or_else(refused)? = true;
        }
    }
    Ok(Tokenizer::Simple(separators))
}

fn unicode(arguments: &[String]) -> Result<Tokenizer> {
    let mut options = Vec::new();
    for argument in arguments {
        let (key, value) = argument.split_once('=').ok_or_else(refused)?;
        let wanted = match key {
            "tokenchars" => Some(false),
            "separators" => Some(true),
            "remove_diacritics" if matches!(value, "0" | "1" | "2") => None,
            _ => return Err(refused()),
        };
        // A character of ASCII in both lists changes sides here; in FTS5 the last list wins.
        let keeps = |letter: &char| {
            wanted.is_none_or(|is| !letter.is_ascii() || letter.is_ascii_alphanumeric() == is)
        };
        options.push(key.to_owned());
        options.push(value.chars().filter(keeps).collect());
    }
    let mut words = vec!["unicode61"];
    words.extend(options.iter().map(String::as_str));
    let modern = Modern::new(&words).map_err(|_| refused())?;
    Ok(Tokenizer::Unicode(Box::new(modern)))
}

fn refused() -> Error {
    Error::Definition("unknown tokenizer".to_owned())
}
