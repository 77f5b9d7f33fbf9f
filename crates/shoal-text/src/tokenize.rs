//! Tokenizers: texts into terms with the bytes they come from.

mod ascii;
pub(crate) mod fold;
mod fold_tables;
pub(crate) mod porter;
mod trigram;
mod unicode;

use crate::error::{Error, Result};

/// Receives a token: its term, and first and last (exclusive) byte in the text. False ends the
/// text.
pub(crate) type Sink<'s> = dyn FnMut(&[u8], usize, usize) -> bool + 's;

/// Maker of tokens.
#[derive(Debug)]
pub enum Tokenizer {
    /// Letters and digits of Unicode, folded: `unicode61`.
    Unicode(Box<unicode::Unicode>),
    /// Letters and digits of ASCII, and everything beyond it.
    Ascii(Box<ascii::Ascii>),
    /// Stems of another tokenizer's terms: `porter`.
    Porter(Box<Tokenizer>),
    /// Three characters at a time: `trigram`.
    Trigram(trigram::Trigram),
}

impl Tokenizer {
    /// The tokenizer named by the first word, with the options of the others; `unicode61` without
    /// words.
    ///
    /// # Errors
    /// [`Error::Definition`] in SQLite's words.
    pub fn new(words: &[&str]) -> Result<Tokenizer> {
        let Some((&name, options)) = words.split_first() else {
            return Ok(Tokenizer::Unicode(Box::new(unicode::Unicode::new(&[])?)));
        };
        Ok(match name.to_ascii_lowercase().as_str() {
            "unicode61" => Tokenizer::Unicode(Box::new(unicode::Unicode::new(options)?)),
            "ascii" => Tokenizer::Ascii(Box::new(ascii::Ascii::new(options)?)),
            "porter" => Tokenizer::Porter(Box::new(Tokenizer::new(options)?)),
            "trigram" => Tokenizer::Trigram(trigram::Trigram::new(options)?),
            _ => return Err(Error::Definition(format!("no such tokenizer: {name}"))),
        })
    }

    /// The tokens of `text`: term, first and last (exclusive) byte.
    #[must_use]
    pub fn tokens(&self, text: &[u8]) -> Vec<(Vec<u8>, usize, usize)> {
        let mut tokens = Vec::new();
        self.tokenize(text, &mut Vec::new(), &mut |term, start, end| {
            tokens.push((term.to_vec(), start, end));
            true
        });
        tokens
    }

    /// Gives the tokens of `text` to `sink`. `term` is scratch.
    pub(crate) fn tokenize<S>(&self, text: &[u8], term: &mut Vec<u8>, sink: &mut S)
    where
        S: FnMut(&[u8], usize, usize) -> bool + ?Sized,
    {
        match self {
            Tokenizer::Unicode(unicode) => unicode.tokenize(text, term, sink),
            Tokenizer::Ascii(ascii) => ascii.tokenize(text, term, sink),
            Tokenizer::Porter(inner) => {
                let mut stem = Vec::new();
                let stemmed: &mut Sink<'_> = &mut |token, start, end| {
                    porter::stem(token, false, &mut stem);
                    sink(&stem, start, end)
                };
                inner.tokenize(text, term, stemmed);
            }
            Tokenizer::Trigram(trigram) => trigram.tokenize(text, term, sink),
        }
    }

    /// The trigram tokenizer's answer to `LIKE` (true) and `GLOB` (false): the index finds a
    /// superset of the rows.
    pub(crate) fn finds_patterns(&self, is_like: bool) -> bool {
        match self {
            Tokenizer::Trigram(trigram) => trigram.finds_patterns(is_like),
            _ => false,
        }
    }
}

/// The fault of an option that a tokenizer lacks.
pub(crate) fn constructor_fault() -> Error {
    Error::Definition("error in tokenizer constructor".to_owned())
}

/// Decodes a character as SQLite does: bad sequences give U+FFFD, and at least one byte is taken.
#[inline]
pub(crate) fn character(text: &[u8], at: usize) -> (u32, usize) {
    let first = text[at];
    if first < 0xc0 {
        return (u32::from(first), at + 1);
    }
    let mut code = match first {
        0xc0..=0xdf => u32::from(first & 0x1f),
        0xe0..=0xef => u32::from(first & 0x0f),
        0xf0..=0xf7 => u32::from(first & 0x07),
        0xf8..=0xfb => u32::from(first & 0x03),
        0xfc..=0xfd => u32::from(first & 0x01),
        _ => 0,
    };
    let mut at = at + 1;
    while let Some(&byte) = text.get(at).filter(|&&byte| byte & 0xc0 == 0x80) {
        code = (code << 6).wrapping_add(u32::from(byte & 0x3f));
        at += 1;
    }
    if code < 0x80 || code & 0xffff_f800 == 0xd800 || code & 0xffff_fffe == 0xfffe {
        code = 0xfffd;
    }
    (code, at)
}

/// Appends a character as UTF-8.
#[inline]
pub(crate) fn push_character(out: &mut Vec<u8>, code: u32) {
    match code {
        0..0x80 => out.push(code as u8),
        0x80..0x800 => out.extend([0xc0 | (code >> 6) as u8, 0x80 | (code & 0x3f) as u8]),
        0x800..0x1_0000 => out.extend([
            0xe0 | (code >> 12) as u8,
            0x80 | (code >> 6 & 0x3f) as u8,
            0x80 | (code & 0x3f) as u8,
        ]),
        _ => out.extend([
            0xf0 | (code >> 18 & 7) as u8,
            0x80 | (code >> 12 & 0x3f) as u8,
            0x80 | (code >> 6 & 0x3f) as u8,
            0x80 | (code & 0x3f) as u8,
        ]),
    }
}
