//! Heads as people name them: hashes, or any unambiguous prefix of one.

use shoal::{ChangeHash, Document};

use crate::failure::Failure;
use crate::place::Place;

/// The changes named by `text`: hexadecimal, separated by commas; an empty text names the beginning
/// of history.
pub(crate) fn heads(
    place: &Place,
    document: &Document,
    text: &str,
) -> Result<Vec<ChangeHash>, Failure> {
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(|name| change(place, document, name)).collect()
}

fn change(place: &Place, document: &Document, name: &str) -> Result<ChangeHash, Failure> {
    let digits = name.to_ascii_lowercase();
    if digits.len() < LEAST_DIGITS || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(Failure::new(format_args!(
            "not a hash, nor {LEAST_DIGITS} or more of its first digits: {name}"
        ))
        .code(2));
    }
    let hashes = document.changes().map(|change| change.hash());
    let mut found = hashes.filter(|hash| hash.to_string().starts_with(&digits));
    match (found.next(), found.next()) {
        (Some(hash), None) => Ok(hash),
        (None, _) => Err(Failure::at(place, format_args!("no such change: {name}"))
            .hint("shoal doc history lists the changes of a document")),
        (Some(_), Some(_)) => {
            Err(Failure::at(place, format_args!("more than one change begins with: {name}")))
        }
    }
}

/// Fewer would name too many changes.
const LEAST_DIGITS: usize = 4;
