//! The `trigram` tokenizer: every three neighbouring characters are a token.

use super::fold::{Diacritics, fold};
use super::{character, constructor_fault, push_character};
use crate::error::Result;

/// Folding of characters before they are taken three at a time.
#[derive(Debug)]
pub struct Trigram {
    /// None keeps the case.
    folds: Option<Diacritics>,
}

impl Trigram {
    /// Reads `case_sensitive` and `remove_diacritics`.
    pub(super) fn new(options: &[&str]) -> Result<Trigram> {
        let (mut keeps_case, mut diacritics) = (false, Diacritics::Kept);
        let mut pairs = options.chunks_exact(2);
        for pair in &mut pairs {
            match (pair[0].to_ascii_lowercase().as_str(), pair[1]) {
                ("case_sensitive", "0") => keeps_case = false,
                ("case_sensitive", "1") => keeps_case = true,
                ("remove_diacritics", "0") => diacritics = Diacritics::Kept,
                ("remove_diacritics", "1" | "2") => diacritics = Diacritics::All,
                _ => return Err(constructor_fault()),
            }
        }
        if !pairs.remainder().is_empty() || keeps_case && diacritics != Diacritics::Kept {
            return Err(constructor_fault());
        }
        Ok(Trigram { folds: (!keeps_case).then_some(diacritics) })
    }

    /// LIKE asks for folded case, GLOB for kept case, and both for kept diacritics.
    pub(super) fn finds_patterns(&self, is_like: bool) -> bool {
        self.folds == is_like.then_some(Diacritics::Kept)
    }

    pub(super) fn tokenize<S>(&self, text: &[u8], term: &mut Vec<u8>, sink: &mut S)
    where
        S: FnMut(&[u8], usize, usize) -> bool + ?Sized,
    {
        let mut at = 0;
        // Start of the window's characters in the text, and their lengths in `term`.
        let (mut starts, mut lengths) = ([0; 3], [0; 3]);
        let mut count = 0;
        term.clear();
        loop {
            let (code, start) = loop {
                let start = at;
                if at >= text.len() {
                    break (0, start);
                }
                let (code, next) = character(text, at);
                at = next;
                let code = self.folds.map_or(code, |diacritics| fold(code, diacritics));
                if code != 0 {
                    break (code, start);
                }
            };
            if count == 3 {
                if !sink(term, starts[0], start) {
                    return;
                }
                term.drain(..lengths[0]);
                starts.rotate_left(1);
                lengths.rotate_left(1);
                count = 2;
            }
            if code == 0 {
                return;
            }
            let before = term.len();
            push_character(term, code);
            (starts[count], lengths[count]) = (start, term.len() - before);
            count += 1;
        }
    }
}
