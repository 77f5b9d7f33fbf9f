//! Characters of text that should be UTF-8 and may not be, read the way SQLite reads them.

/// The character at `pos` and where the next begins; 0 at the end of the text.
///
/// A stray continuation byte is itself; overlong forms, surrogates and U+FFFE/F are U+FFFD.
pub(crate) fn read(text: &[u8], pos: usize) -> (u32, usize) {
    let Some(&lead) = text.get(pos) else { return (0, pos) };
    if lead < 0xc0 {
        return (lead.into(), pos + 1);
    }
    let mut code: u32 = match lead {
        0xc0..0xe0 => lead & 0x1f,
        0xe0..0xf0 => lead & 0x0f,
        0xf0..0xf8 => lead & 0x07,
        0xf8..0xfc => lead & 0x03,
        0xfc..0xfe => lead & 0x01,
        _ => 0,
    }
    .into();
    let mut next = pos + 1;
    while let Some(&byte) = text.get(next).filter(|&&byte| is_continuation(byte)) {
        code = code.wrapping_shl(6).wrapping_add(u32::from(byte & 0x3f));
        next += 1;
    }
    if code < 0x80 || code & 0xffff_f800 == 0xd800 || code & 0xffff_fffe == 0xfffe {
        code = 0xfffd;
    }
    (code, next)
}

/// Where the character after the one at `pos` begins.
pub(crate) fn skip(text: &[u8], pos: usize) -> usize {
    let mut next = pos + 1;
    if text.get(pos).is_some_and(|&lead| lead >= 0x80) {
        while text.get(next).is_some_and(|&byte| is_continuation(byte)) {
            next += 1;
        }
    }
    next.min(text.len())
}

/// How many characters the text has.
pub(crate) fn count(text: &[u8]) -> usize {
    let mut pos = 0;
    let mut count = 0;
    while pos < text.len() {
        pos = skip(text, pos);
        count += 1;
    }
    count
}

/// Appends a code point as UTF-8; one that is no character becomes U+FFFD.
pub(crate) fn push(text: &mut Vec<u8>, code: u32) {
    let character = char::from_u32(code).unwrap_or('\u{fffd}');
    text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

/// The text up to its first NUL, where SQLite's own string functions stop.
pub(crate) fn to_nul(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    &text[..end]
}

/// True for the second and later bytes of a character.
pub(crate) fn is_continuation(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}
