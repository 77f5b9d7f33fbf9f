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

    /// The pattern as pieces; `None` for other wild cards, and for characters beyond ASCII.
    pub(crate) fn pieces(self, pattern: &[u8]) -> Option<Pieces> {
        let is_plain = |byte: &u8| {
            let code = u32::from(*byte);
            byte.is_ascii() && *byte != 0 && code != self.any_one && !(self.sets && *byte == b'[')
        };
        if pattern.is_empty() || !pattern.iter().all(is_plain) {
            return None;
        }
        let is_run = |byte: &u8| u32::from(*byte) == self.any_run;
        let byte = |byte: &u8| match self.fold_case && byte.is_ascii_alphabetic() {
            true => (0x20, byte.to_ascii_lowercase()),
            false => (0, *byte),
        };
        let pieces = pattern.split(is_run).filter(|piece| !piece.is_empty());
        Some(Pieces {
            pieces: pieces.map(|piece| Piece(piece.iter().map(byte).collect())).collect(),
            begins: !pattern.first().is_some_and(is_run),
            ends: !pattern.last().is_some_and(is_run),
        })
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

/// A pattern of plain pieces between runs, such as `PROMO%` or `%special%requests%`, made ready to
/// be asked of many texts.
#[derive(Debug)]
pub(crate) struct Pieces {
    /// Each piece has a byte at least.
    pieces: Box<[Piece]>,
    /// True where a text has to begin with the first piece, and to end with the last.
    begins: bool,
    ends: bool,
}

/// Bytes of ASCII, each as the bits ignored and the rest wanted.
#[derive(Debug)]
struct Piece(Box<[(u8, u8)]>);

/// Starts of a piece looked at together.
const BLOCK: usize = 16;

impl Piece {
    fn is_at(&self, text: &[u8]) -> bool {
        let pairs = self.0.iter().zip(text);
        text.len() >= self.0.len()
            && pairs.fold(true, |all, ((mask, want), byte)| all & (byte | mask == *want))
    }

    /// Where the piece begins in a text, from an offset on.
    fn find(&self, text: &[u8], from: usize) -> Option<usize> {
        let last = text.len().checked_sub(self.0.len())?;
        let (Some(first), second) = (self.0.first(), self.0.get(1)) else { return Some(from) };
        let second = second.unwrap_or(first);
        let ahead = usize::from(self.0.len() > 1);
        let mut at = from;
        while at <= last {
            let rest = text.get(at..).unwrap_or_default();
            if let (Some(block), Some(next)) = (
                rest.first_chunk::<BLOCK>(),
                rest.get(ahead..).and_then(<[u8]>::first_chunk::<BLOCK>),
            ) {
                let mut any = 0;
                for (byte, next) in block.iter().zip(next) {
                    let begins = u8::from(byte | first.0 == first.1);
                    any |= begins & u8::from(next | second.0 == second.1);
                }
                if any == 0 {
                    at += BLOCK;
                    continue;
                }
            }
            let end = last.min(at + BLOCK - 1);
            if let Some(found) = (at..=end).find(|&at| self.is_at(&text[at..])) {
                return Some(found);
            }
            at = end + 1;
        }
        None
    }
}

impl Pieces {
    /// As [`Pattern::matches`] without an escape character.
    pub(crate) fn matches(&self, text: &[u8]) -> bool {
        if self.ends {
            return self.fit(to_nul(text));
        }
        // Behind a wild card at the end, a match up to the first NUL is a match of the whole.
        self.fit(text) && (!text.contains(&0) || self.fit(to_nul(text)))
    }

    fn fit(&self, text: &[u8]) -> bool {
        let (mut at, mut pieces) = (0, &*self.pieces);
        if let (true, [first, rest @ ..]) = (self.begins, pieces) {
            if !first.is_at(text) {
                return false;
            }
            (at, pieces) = (first.0.len(), rest);
            if rest.is_empty() && self.ends {
                return text.len() == at;
            }
        }
        let mut last = None;
        if let (true, [rest @ .., end]) = (self.ends, pieces) {
            (last, pieces) = (Some(end), rest);
        }
        for piece in pieces {
            match piece.find(text, at) {
                Some(found) => at = found + piece.0.len(),
                None => return false,
            }
        }
        last.is_none_or(|last| {
            let start = text.len().checked_sub(last.0.len());
            start.is_some_and(|start| start >= at && last.is_at(&text[start..]))
        })
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

    #[test]
    fn pieces_fit_what_their_pattern_fits() {
        use proptest::prelude::*;
        let pattern = proptest::collection::vec(prop::sample::select(b"%%*aAbB @".to_vec()), 1..8);
        let text = proptest::collection::vec(
            prop::sample::select(b"aAbBaAbB @`\0\xc3\xa9".to_vec()),
            0..50,
        );
        proptest!(ProptestConfig::with_cases(4000), |(pattern in pattern, text in text)| {
            for language in [LIKE, GLOB] {
                let Some(pieces) = language.pieces(&pattern) else { continue };
                let expect = language.matches(&pattern, &text, None);
                prop_assert_eq!(pieces.matches(&text), expect, "{:?} {:?}", pattern, text);
            }
        });
        let long = [b"x".repeat(40), b"abc".to_vec(), b"y".repeat(7)].concat();
        for (pattern, expect) in
            [("%abc%", true), ("%ABCy%", true), ("%abcyyyyyyy", true), ("%abcz%", false)]
        {
            assert_eq!(
                LIKE.pieces(pattern.as_bytes()).unwrap().matches(&long),
                expect,
                "{pattern}"
            );
        }
        for refused in ["", "a_c", "\u{e9}", "a\0"] {
            assert!(LIKE.pieces(refused.as_bytes()).is_none());
        }
        assert!(GLOB.pieces(b"[a]").is_none() && GLOB.pieces(b"a_").is_some());
    }
}
