//! Characters of text, perhaps not UTF-8, read by SQLite's rules.

use shoal_store::utf16;

/// The character at `pos` and where the next begins; 0 at the end of the text.
///
/// A stray continuation byte is itself; overlong forms and surrogates are U+FFFD.
pub(crate) fn read(text: &[u8], pos: usize) -> (u32, usize) {
    match text.get(pos) {
        None => return (0, pos),
        Some(&byte) if byte.is_ascii() => return (u32::from(byte), pos + 1),
        Some(_) => {}
    }
    match utf16::read_utf8(text, pos) {
        (0xd800..=0xdfff, next) => (0xfffd, next),
        read => read,
    }
}

/// The offset of the character after the one at `pos`.
pub(crate) fn skip(text: &[u8], pos: usize) -> usize {
    let mut next = pos + 1;
    if text.get(pos).is_some_and(|&lead| lead >= 0x80) {
        while text.get(next).is_some_and(|&byte| is_continuation(byte)) {
            next += 1;
        }
    }
    next.min(text.len())
}

/// The number of characters in the text.
pub(crate) fn count(text: &[u8]) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    let within = |pair: &&[u8]| pair[0] >= 0x80 && is_continuation(pair[1]);
    text.len() - text.windows(2).filter(within).count()
}

/// Appends a code point as UTF-8; a number of no character becomes U+FFFD.
pub(crate) fn push(text: &mut Vec<u8>, code: u32) {
    let character = char::from_u32(code).unwrap_or('\u{fffd}');
    text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

/// The text up to its first NUL, where SQLite's own string functions stop.
pub(crate) fn to_nul(text: &[u8]) -> &[u8] {
    // A search for one byte goes by words, a search by a condition byte by byte.
    if !text.contains(&0) {
        return text;
    }
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    &text[..end]
}

/// True for the second and later bytes of a character.
pub(crate) fn is_continuation(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn characters_are_counted_as_they_are_skipped(
            text in proptest::collection::vec(
                prop::sample::select(b"ab\x80\xbf\xc3\xe2\xf0\xff\0".to_vec()), 0..40),
        ) {
            let (mut pos, mut skipped) = (0, 0);
            while pos < text.len() {
                pos = skip(&text, pos);
                skipped += 1;
            }
            prop_assert_eq!(count(&text), skipped);
            let nul = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
            prop_assert_eq!(to_nul(&text), &text[..nul]);
        }
    }
}
