//! LIKE and GLOB.

use super::utf8::{read, skip, to_nul};

/// The wild cards of one of the two pattern languages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pattern {
    any_run: u32,
    any_one: u32,
    sets: bool,
    fold_case: bool,
}

/// `LIKE`: `%` any run, `_` any character, ASCII letters equal in either case.
pub(crate) const LIKE: Pattern =
    Pattern { any_run: '%' as u32, any_one: '_' as u32, sets: false, fold_case: true };

/// `GLOB`: `*` any run, `?` any character, `[a-z]` and `[^a-z]` sets, case matters.
pub(crate) const GLOB: Pattern =
    Pattern { any_run: '*' as u32, any_one: '?' as u32, sets: true, fold_case: false };

/// The longest pattern taken, in bytes, as in SQLite.
pub(crate) const PATTERN_BYTES_MAX: usize = 50_000;

/// The one character of an `ESCAPE` text, or `None` for none or several.
pub(crate) fn like_escape(text: &[u8]) -> Option<u32> {
    let text = to_nul(text);
    let (code, next) = read(text, 0);
    (!text.is_empty() && skip(text, 0) == text.len() && next == text.len()).then_some(code)
}

impl Pattern {
    /// True where the whole text fits the pattern. Both end at their first NUL.
    ///
    /// Cost: the product of the lengths at worst; no recursion, no allocation.
    pub(crate) fn matches(mut self, pattern: &[u8], text: &[u8], escape: Option<u32>) -> bool {
        if escape == Some(self.any_run) {
            self.any_run = 0;
        }
        if escape == Some(self.any_one) {
            self.any_one = 0;
        }
        let pattern = to_nul(pattern);
        let text = to_nul(text);
        let mut at = 0;
        let mut pos = 0;
        // Where to go on after a mismatch: past the last run, one character further in the text.
        let mut resume: Option<(usize, usize)> = None;
        loop {
            if at == pattern.len() && pos == text.len() {
                return true;
            }
            let step = if at == pattern.len() {
                Step::No
            } else {
                self.step(pattern, at, text, pos, escape)
            };
            match step {
                Step::Run(next) => {
                    if next == pattern.len() {
                        return true;
                    }
                    let Some(first) = self.skip(pattern, next, &text[pos..], escape) else {
                        return false;
                    };
                    pos += first;
                    resume = Some((next, pos));
                    at = next;
                }
                Step::One(next, after) => {
                    at = next;
                    pos = after;
                }
                Step::No => {
                    let Some((next, from)) = resume else { return false };
                    if from == text.len() {
                        return false;
                    }
                    pos = read(text, from).1;
                    let Some(first) = self.skip(pattern, next, &text[pos..], escape) else {
                        return false;
                    };
                    pos += first;
                    at = next;
                    resume = Some((next, pos));
                }
            }
        }
    }

    /// The first offset in a text where the rest of a pattern, behind a run, can begin to fit;
    /// `None` where there is none. A byte of ASCII is always a character of its own, in any text.
    #[inline]
    fn skip(self, pattern: &[u8], at: usize, text: &[u8], escape: Option<u32>) -> Option<usize> {
        let Some(&byte) = pattern.get(at) else { return Some(0) };
        let code = u32::from(byte);
        let means_itself = byte.is_ascii()
            && code != self.any_run
            && code != self.any_one
            && Some(code) != escape
            && !(self.sets && byte == b'[');
        if !means_itself {
            return Some(0);
        }
        match self.fold_case {
            true => text.iter().position(|other| other.eq_ignore_ascii_case(&byte)),
            false => text.iter().position(|other| *other == byte),
        }
    }

    #[inline]
    fn step(self, pattern: &[u8], at: usize, text: &[u8], pos: usize, escape: Option<u32>) -> Step {
        let (mut code, mut next) = read(pattern, at);
        if code == self.any_run {
            return Step::Run(next);
        }
        if pos == text.len() {
            return Step::No;
        }
        let (other, after) = read(text, pos);
        let escaped = escape == Some(code);
        if escaped {
            if next == pattern.len() {
                return Step::No;
            }
            (code, next) = read(pattern, next);
        } else if self.sets && code == u32::from(b'[') {
            return match in_set(pattern, next, other) {
                Some(next) => Step::One(next, after),
                None => Step::No,
            };
        }
        let same = code == other
            || (self.fold_case && code < 0x80 && other < 0x80 && lower(code) == lower(other))
            || (code == self.any_one && !escaped);
        if same { Step::One(next, after) } else { Step::No }
    }
}

enum Step {
    /// A wild card for any run; the pattern goes on here.
    Run(usize),
    /// One character of each; both go on here.
    One(usize, usize),
    /// The characters differ.
    No,
}

/// Where the pattern goes on behind the set after `[`, if the character is in the set; else `None`.
fn in_set(pattern: &[u8], at: usize, code: u32) -> Option<usize> {
    let (mut item, mut next) = read(pattern, at);
    let mut seen = false;
    let inverted = item == u32::from(b'^');
    if inverted {
        (item, next) = read(pattern, next);
    }
    if item == u32::from(b']') {
        seen = code == item;
        (item, next) = read(pattern, next);
    }
    let mut prior = 0;
    while item != 0 && item != u32::from(b']') {
        let range =
            item == u32::from(b'-') && prior > 0 && !matches!(pattern.get(next), None | Some(b']'));
        if range {
            (item, next) = read(pattern, next);
            seen |= (prior..=item).contains(&code);
            prior = 0;
        } else {
            seen |= code == item;
            prior = item;
        }
        (item, next) = read(pattern, next);
    }
    (item != 0 && seen != inverted).then_some(next)
}

fn lower(code: u32) -> u32 {
    if (0x41..=0x5a).contains(&code) { code + 0x20 } else { code }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn like(pattern: &str, text: &str) -> bool {
        LIKE.matches(pattern.as_bytes(), text.as_bytes(), None)
    }

    fn glob(pattern: &str, text: &str) -> bool {
        GLOB.matches(pattern.as_bytes(), text.as_bytes(), None)
    }

    #[test]
    fn like_patterns() {
        assert!(like("a%c", "abbbC"));
        assert!(like("%", ""));
        assert!(like("_%_", "éà"));
        assert!(!like("_%_", "é"));
        assert!(!like("É", "é"));
        assert!(like("%b%b", "abcbcb"));
        assert!(like("%Bc_%d", "abxBCéxD"));
        assert!(!like("%bc%", "abxb"));
        assert!(!like("%x", "abc"));
        assert!(like("%é%c", "abéc"));
        assert!(!like("a", "ab"));
        assert!(LIKE.matches(b"10x%%", b"10%ab", Some('x'.into())));
        assert!(!LIKE.matches(b"10x%", b"10ab", Some('x'.into())));
        assert!(LIKE.matches(b"%%a", b"%a", Some('%'.into())));
        assert!(!LIKE.matches(b"ax", b"a", Some('x'.into())));
    }

    #[test]
    fn glob_patterns() {
        assert!(glob("a*[0-9]", "abc7"));
        assert!(!glob("a*[^0-9]", "abc7"));
        assert!(glob("[]x]", "]"));
        assert!(glob("[a-]", "-"));
        assert!(!glob("[abc", "a"));
        assert!(!glob("A", "a"));
        assert!(glob("*[x]*", "aaxbb"));
    }
}
