//! The `unicode61` tokenizer: characters of chosen categories, folded, without diacritics.

use super::fold::{CATEGORY_NAMES, Diacritics, category, fold, is_combining};
use super::{character, constructor_fault, push_character};
use crate::error::Result;

/// Characters of tokens, and their folding.
#[derive(Debug)]
pub struct Unicode {
    /// Folded byte of an ASCII character in tokens; 0 of a separator, and beyond ASCII.
    ascii: [u8; 256],
    /// Categories in tokens, by number.
    categories: [bool; 32],
    /// Characters beyond ASCII for which `categories` is wrong, ascending.
    exceptions: Vec<u32>,
    /// Bits of the basic plane: a character begins or continues a token.
    basic: Box<[u64]>,
    diacritics: Diacritics,
}

impl Unicode {
    /// Reads `categories`, `remove_diacritics`, `tokenchars` and `separators`.
    pub(super) fn new(options: &[&str]) -> Result<Unicode> {
        let pairs: Vec<(String, &str)> =
            options.chunks_exact(2).map(|pair| (pair[0].to_ascii_lowercase(), pair[1])).collect();
        if !options.len().is_multiple_of(2) {
            return Err(constructor_fault());
        }
        let chosen = pairs.iter().rev().find(|(name, _)| name == "categories");
        let categories = categories(chosen.map_or("L* N* Co", |&(_, value)| value))?;
        let is_ascii_token = |byte: usize| categories[category(byte as u32)];
        let mut is_token: [bool; 128] = std::array::from_fn(is_ascii_token);
        // SQLite leaves NUL out whatever its category.
        is_token[0] = false;
        let mut exceptions = Vec::new();
        let mut diacritics = Diacritics::Simple;
        for (name, value) in &pairs {
            let is_in = match name.as_str() {
                "tokenchars" => true,
                "separators" => false,
                "categories" => continue,
                "remove_diacritics" => {
                    diacritics = match *value {
                        "0" => Diacritics::Kept,
                        "1" => Diacritics::Simple,
                        "2" => Diacritics::All,
                        _ => return Err(constructor_fault()),
                    };
                    continue;
                }
                _ => return Err(constructor_fault()),
            };
            for code in value.chars().map(u32::from) {
                if code < 0x80 {
                    is_token[code as usize] = is_in;
                } else if categories[category(code)] != is_in && !is_combining(code) {
                    exceptions.push(code);
                }
            }
        }
        exceptions.sort_unstable();
        exceptions.dedup();
        let ascii = std::array::from_fn(|byte| {
            let is_in = is_token.get(byte).copied().unwrap_or(false);
            if is_in { (byte as u8).to_ascii_lowercase() } else { 0 }
        });
        let mut unicode =
            Unicode { ascii, categories, exceptions, basic: Box::default(), diacritics };
        let mut basic = vec![0_u64; 0x1_0000 / 64];
        for code in 0x80..0x1_0000_u32 {
            basic[(code / 64) as usize] |= u64::from(unicode.is_token_slow(code)) << (code % 64);
        }
        unicode.basic = basic.into();
        Ok(unicode)
    }

    fn is_token_slow(&self, code: u32) -> bool {
        self.categories[category(code)] != self.exceptions.binary_search(&code).is_ok()
    }

    #[inline]
    fn is_token(&self, code: u32) -> bool {
        match self.basic.get((code / 64) as usize) {
            Some(bits) => bits >> (code % 64) & 1 == 1,
            None => self.is_token_slow(code),
        }
    }

    pub(super) fn tokenize<S>(&self, text: &[u8], term: &mut Vec<u8>, sink: &mut S)
    where
        S: FnMut(&[u8], usize, usize) -> bool + ?Sized,
    {
        let mut at = 0;
        while at < text.len() {
            let start = at;
            let (end, is_folded) = self.run(text, at);
            if is_folded && text.get(end).is_none_or(u8::is_ascii) {
                // Most tokens are their own terms; a separator follows.
                if end > start && !sink(&text[start..end], start, end) {
                    return;
                }
                at = end + 1;
                continue;
            }
            term.clear();
            loop {
                let run = at;
                at = self.run(text, at).0;
                term.extend(text[run..at].iter().map(|&byte| self.ascii[usize::from(byte)]));
                if text.get(at).is_none_or(u8::is_ascii) {
                    break;
                }
                let (code, next) = character(text, at);
                if !self.is_token(code) && (at == start || !is_combining(code)) {
                    break;
                }
                self.push_folded(code, term);
                at = next;
            }
            if at == start {
                // A separator: of one byte, or a character.
                at = if text[at].is_ascii() { at + 1 } else { character(text, at).1 };
            } else if !sink(term, start, at) {
                return;
            }
        }
    }

    /// The end of the ASCII characters of a token from `at` on, and whether folding leaves them as
    /// they are.
    #[inline]
    fn run(&self, text: &[u8], at: usize) -> (usize, bool) {
        let (mut end, mut changes) = (at, 0);
        for &byte in &text[at..] {
            let folded = self.ascii[usize::from(byte)];
            if folded == 0 {
                break;
            }
            changes |= folded ^ byte;
            end += 1;
        }
        (end, changes == 0)
    }

    #[inline]
    fn push_folded(&self, code: u32, term: &mut Vec<u8>) {
        let folded = fold(code, self.diacritics);
        if folded != 0 {
            push_character(term, folded);
        }
    }
}

/// Reads the option `categories`: words of two letters, the second may be `*`.
fn categories(value: &str) -> Result<[bool; 32]> {
    let mut chosen = [false; 32];
    chosen[0] = true;
    for word in value.split([' ', '\t']).filter(|word| !word.is_empty()) {
        let mut chars = word.chars();
        let (Some(major), Some(minor)) = (chars.next(), chars.next()) else {
            return Err(constructor_fault());
        };
        let pair: String = [major, minor].iter().collect();
        // `LC` names no code point: SQLite takes the word and finds nothing of it.
        let mut is_known = pair == "LC";
        for (number, name) in CATEGORY_NAMES.iter().enumerate().skip(1) {
            if *name == pair || minor == '*' && name.starts_with(major) {
                chosen[number] = true;
                is_known = true;
            }
        }
        if !is_known {
            return Err(constructor_fault());
        }
    }
    Ok(chosen)
}
