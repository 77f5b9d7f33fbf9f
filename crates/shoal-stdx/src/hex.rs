//! Hexadecimal text: lower case out, either case in.

use std::fmt;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Returns `bytes` as lower-case hexadecimal, two digits a byte.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    encode_into(bytes, &mut text);
    text
}

/// Appends `bytes` as lower-case hexadecimal to `text`.
pub fn encode_into(bytes: &[u8], text: &mut String) {
    text.extend(
        bytes
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .map(|nibble| char::from(DIGITS[usize::from(nibble)])),
    );
}

/// Returns the bytes spelled by `text`.
///
/// # Errors
/// [`DecodeError`] when the number of digits is odd or a character is not a hexadecimal digit.
pub fn decode(text: &str) -> Result<Vec<u8>, DecodeError> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return Err(DecodeError::OddLength { digits: digits.len() });
    }
    digits
        .chunks_exact(2)
        .enumerate()
        .map(|(pair, two)| Ok(nibble(two[0], pair * 2)? << 4 | nibble(two[1], pair * 2 + 1)?))
        .collect()
}

/// Why a text is not hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// A byte is two digits, so their number is even.
    OddLength {
        /// The number of digits given.
        digits: usize,
    },
    /// The byte of the text at `offset` is not a hexadecimal digit.
    NotADigit {
        /// Counted in bytes from the start of the text.
        offset: usize,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OddLength { digits } => {
                write!(f, "hexadecimal text needs an even number of digits: {digits}")
            }
            Self::NotADigit { offset } => {
                write!(f, "not a hexadecimal digit at offset: {offset}")
            }
        }
    }
}

impl std::error::Error for DecodeError {}

fn nibble(digit: u8, offset: usize) -> Result<u8, DecodeError> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
        .ok_or(DecodeError::NotADigit { offset })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&bytes)).unwrap(), bytes);
        assert_eq!(decode("00fFA5").unwrap(), [0, 255, 0xa5]);
        assert_eq!(encode(&[0, 255, 0xa5]), "00ffa5");
        assert_eq!(decode("").unwrap(), []);
    }

    #[test]
    fn refusals_name_the_place() {
        assert_eq!(decode("abc"), Err(DecodeError::OddLength { digits: 3 }));
        assert_eq!(decode("0g"), Err(DecodeError::NotADigit { offset: 1 }));
        assert_eq!(decode("é"), Err(DecodeError::NotADigit { offset: 0 }));
    }
}
