//! Rights of connections to documents.

use std::collections::BTreeMap;

use crate::DocumentId;

/// The longest pattern; ids have 64 characters at most.
const GLOB_CHARS: usize = 64;

/// The rights to one document, ascending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rights {
    /// Nothing; the document does not seem to exist.
    #[default]
    None,
    /// Read; changes are ignored.
    Read,
    /// Read and change.
    Write,
}

/// A pattern of document ids: `*` stands for any characters, `?` for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(String);

impl Glob {
    /// A pattern of up to 64 letters, digits, `*` and `?`; `None` for all else.
    pub fn parse(text: &str) -> Option<Self> {
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'*' | b'?');
        let is_pattern = (1..=GLOB_CHARS).contains(&text.len()) && text.bytes().all(is_known);
        is_pattern.then(|| Self(text.to_owned()))
    }

    /// True for an id of this form. Cost: the length of the pattern times the length of the id.
    pub fn matches(&self, id: &DocumentId) -> bool {
        let (pattern, text) = (self.0.as_bytes(), id.as_str().as_bytes());
        let (mut at, mut place) = (0, 0);
        // The last star, and the place up to which it reaches.
        let mut star = None;
        while place < text.len() {
            match pattern.get(at) {
                Some(b'*') => {
                    star = Some((at, place));
                    at += 1;
                }
                Some(&byte) if byte == b'?' || byte == text[place] => {
                    at += 1;
                    place += 1;
                }
                _ => {
                    let Some((back, reach)) = star else { return false };
                    star = Some((back, reach + 1));
                    (at, place) = (back + 1, reach + 1);
                }
            }
        }
        pattern[at..].iter().all(|&byte| byte == b'*')
    }
}

/// An allowance shared by every connection that shows the same ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purse {
    /// The id of the ticket.
    pub id: [u8; 16],
    /// Bytes of changes that may be stored.
    pub bytes: u64,
    /// Documents that may be made.
    pub documents: u64,
    /// Milliseconds from now on, after which nobody shows the ticket any more.
    pub ms: u64,
}

/// The rights of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The rights to documents without an entry and without a pattern.
    pub others: Rights,
    /// The rights to single documents, before all patterns.
    pub documents: BTreeMap<DocumentId, Rights>,
    /// The rights to documents by pattern; the greatest of those that match counts.
    pub globs: Vec<(Glob, Rights)>,
    /// Documents without an entry are asked about, one by one, by
    /// [`Effect::Ask`](crate::Effect::Ask).
    pub asks: bool,
    /// A mark of the credential: a peer id is taken over by connections with the same mark only.
    pub owner: Option<[u8; 16]>,
    /// The allowance.
    pub purse: Option<Purse>,
}

impl Access {
    /// Reading and writing every document.
    pub const fn all() -> Self {
        Self::every(Rights::Write)
    }

    /// The same rights to every document.
    pub const fn every(others: Rights) -> Self {
        Self {
            others,
            documents: BTreeMap::new(),
            globs: Vec::new(),
            asks: false,
            owner: None,
            purse: None,
        }
    }

    /// The rights to a document.
    pub fn to(&self, document: &DocumentId) -> Rights {
        if let Some(rights) = self.documents.get(document) {
            return *rights;
        }
        let matching = self.globs.iter().filter(|(glob, _)| glob.matches(document));
        matching.map(|(_, rights)| *rights).fold(self.others, Rights::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let id = DocumentId::parse("2akvofn6L1o4RMUEMQi7qzwRjKWZ").expect("an id");
        for text in ["*", "2*", "*Z", "2*M*Z", "2akvofn6L1o4RMUEMQi7qzwRjKW?", "**2**"] {
            assert!(Glob::parse(text).expect("a pattern").matches(&id), "{text}");
        }
        for text in ["3*", "*z", "?", "2akvofn6L1o4RMUEMQi7qzwRjKWZ?", "2*ZZ*"] {
            assert!(!Glob::parse(text).expect("a pattern").matches(&id), "{text}");
        }
        for text in ["", "a b", "%", &"*".repeat(65)] {
            assert_eq!(Glob::parse(text), None);
        }
    }

    #[test]
    fn an_entry_goes_before_patterns_and_the_greatest_pattern_counts() {
        let [one, two] = [1, 2].map(|byte| DocumentId::from_bytes([byte; 16]));
        let glob = |text| Glob::parse(text).expect("a pattern");
        let access = Access {
            documents: BTreeMap::from([(one.clone(), Rights::None)]),
            globs: vec![(glob("*"), Rights::Write), (glob("*"), Rights::Read)],
            ..Access::default()
        };
        assert_eq!((access.to(&one), access.to(&two)), (Rights::None, Rights::Write));
    }
}
