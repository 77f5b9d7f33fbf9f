//! Collations defined by a program.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The order of two texts, computed by a program.
type Compare = Box<dyn Fn(&[u8], &[u8]) -> Ordering + Send + Sync>;

/// An order of texts defined by a program. Copied about as freely as the built-in ones, and so
/// alive until the process ends.
///
/// The function should be a total order, the same at every call. With any other function sorted
/// texts come in any order and lookups miss texts, as in SQLite; nothing else breaks.
#[derive(Clone, Copy)]
pub struct OwnCollation(&'static Definition);

struct Definition {
    name: String,
    compare: Compare,
    classes: Mutex<Classes>,
}

/// Classes of equal texts, by a member of each.
#[derive(Default)]
struct Classes(BTreeMap<Member, u64>);

/// A text of a collation.
struct Member {
    text: Box<[u8]>,
    collation: OwnCollation,
}

impl OwnCollation {
    /// Defines a collation. Its memory, captures of `compare` included, is never given back.
    pub fn define(
        name: &str,
        compare: impl Fn(&[u8], &[u8]) -> Ordering + Send + Sync + 'static,
    ) -> OwnCollation {
        OwnCollation(Box::leak(Box::new(Definition {
            name: name.to_owned(),
            compare: Box::new(compare),
            classes: Mutex::default(),
        })))
    }

    /// The name as given.
    pub fn name(self) -> &'static str {
        &self.0.name
    }

    /// Returns the order of two texts.
    #[inline(never)]
    pub fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        // Equal bytes are equal in every order, whatever the program says.
        if a == b { Ordering::Equal } else { (self.0.compare)(a, b) }
    }

    /// A number shared by equal texts alone, until [`OwnCollation::forget_classes`]. Cost: a search
    /// among the classes, and a copy of the first text of each.
    pub fn class_of(self, text: &[u8]) -> u64 {
        let mut classes = self.classes();
        let next = classes.0.len() as u64;
        *classes.0.entry(Member { text: text.into(), collation: self }).or_insert(next)
    }

    /// Gives the memory of the classes back; numbers from before mean nothing afterwards.
    pub fn forget_classes(self) {
        self.classes().0.clear();
    }

    fn classes(self) -> MutexGuard<'static, Classes> {
        // A panicking comparison leaves a whole map.
        self.0.classes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialEq for OwnCollation {
    fn eq(&self, other: &OwnCollation) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for OwnCollation {}

impl std::hash::Hash for OwnCollation {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        std::ptr::hash(self.0, state);
    }
}

impl fmt::Debug for OwnCollation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.name)
    }
}

impl Ord for Member {
    fn cmp(&self, other: &Member) -> Ordering {
        self.collation.compare(&self.text, &other.text)
    }
}

impl PartialOrd for Member {
    fn partial_cmp(&self, other: &Member) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Member {
    fn eq(&self, other: &Member) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Member {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_equal_texts() {
        let by_length = OwnCollation::define("length", |a, b| a.len().cmp(&b.len()));
        let class = |text: &str| by_length.class_of(text.as_bytes());
        assert_eq!(class("ab"), class("cd"));
        assert_ne!(class("ab"), class("abc"));
        assert_eq!(class("xyz"), class("abc"));
        by_length.forget_classes();
        assert_eq!(class("xyz"), 0);
        assert_eq!(by_length, by_length);
        assert_ne!(by_length, OwnCollation::define("length", |a, b| a.len().cmp(&b.len())));
    }
}
