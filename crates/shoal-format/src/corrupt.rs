//! The one error of this crate: bytes against a rule of the format.

use std::fmt;

use crate::Pgno;

/// Bytes of a database or journal against a rule of the format, with the place and the offending
/// value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Corrupt {
    /// The structure being read, in the words of the format.
    pub structure: &'static str,
    /// The page, where known.
    pub page: Option<Pgno>,
    /// The broken rule.
    pub why: &'static str,
    /// The offending number.
    pub value: u64,
}

impl Corrupt {
    /// An error about `structure`, on no known page.
    pub const fn new(structure: &'static str, why: &'static str, value: u64) -> Corrupt {
        Corrupt { structure, page: None, why, value }
    }

    /// An error about `structure` on page `page`.
    pub const fn on_page(
        page: Pgno,
        structure: &'static str,
        why: &'static str,
        value: u64,
    ) -> Corrupt {
        Corrupt { structure, page: Some(page), why, value }
    }

    /// The same error, placed on `page` unless it already has a page.
    #[must_use]
    pub fn at(self, page: Pgno) -> Corrupt {
        Corrupt { page: self.page.or(Some(page)), ..self }
    }
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(page) = self.page {
            write!(f, "page {page}: ")?;
        }
        write!(f, "{} {}: {}", self.structure, self.why, self.value)
    }
}

impl std::error::Error for Corrupt {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_page_structure_rule_and_value() {
        let seven = Pgno::new(7).unwrap();
        let error = Corrupt::on_page(seven, "cell", "points past the page", 4099);
        assert_eq!(error.to_string(), "page 7: cell points past the page: 4099");
        let error = Corrupt::new("record", "has a reserved serial type", 11);
        assert_eq!(error.to_string(), "record has a reserved serial type: 11");
        assert_eq!(error.at(seven).page, Some(seven));
    }
}
