//! The `ascii` tokenizer: letters and digits of ASCII, and all bytes beyond it, unfolded.

use super::constructor_fault;
use crate::error::Result;

/// Bytes of tokens.
#[derive(Debug)]
pub struct Ascii {
    is_token: [bool; 256],
}

impl Ascii {
    /// Reads `tokenchars` and `separators`.
    pub(super) fn new(options: &[&str]) -> Result<Ascii> {
        let mut is_token = std::array::from_fn(|byte| {
            byte >= 0x80 || u8::try_from(byte).is_ok_and(|byte| byte.is_ascii_alphanumeric())
        });
        let mut pairs = options.chunks_exact(2);
        for pair in &mut pairs {
            let is_in = match pair[0].to_ascii_lowercase().as_str() {
                "tokenchars" => true,
                "separators" => false,
                _ => return Err(constructor_fault()),
            };
            for byte in pair[1].bytes().filter(u8::is_ascii) {
                is_token[usize::from(byte)] = is_in;
            }
        }
        if pairs.remainder().is_empty() { Ok(Ascii { is_token }) } else { Err(constructor_fault()) }
    }

    pub(super) fn tokenize<S>(&self, text: &[u8], term: &mut Vec<u8>, sink: &mut S)
    where
        S: FnMut(&[u8], usize, usize) -> bool + ?Sized,
    {
        let mut at = 0;
        while at < text.len() {
            if !self.is_token[usize::from(text[at])] {
                at += 1;
                continue;
            }
            let start = at;
            while at < text.len() && self.is_token[usize::from(text[at])] {
                at += 1;
            }
            term.clear();
            term.extend(text[start..at].iter().map(u8::to_ascii_lowercase));
            if !sink(term, start, at) {
                return;
            }
        }
    }
}
