//! Heads as people name them in SQL: hashes or their first digits, in text or as blobs.

use shoal_crdt::Document;
use shoal_history::ChangeHash;
use shoal_sql::Value;

use crate::Error;

/// Fewer digits would name too many changes.
const LEAST_DIGITS: usize = 4;

/// Heads as written: hexadecimal digits, at least four of each hash, or whole hashes.
#[derive(Clone, Debug)]
pub(crate) struct Heads(Vec<String>);

fn refuse(why: String) -> Error {
    Error::Past { why }
}

impl Heads {
    /// Heads from a value: a text of hashes between commas, `|` or blanks, or a blob of 32 bytes
    /// each. An empty text names the beginning, before the first change.
    ///
    /// # Errors
    /// [`Error::Past`] for other values.
    pub(crate) fn parse(value: &Value) -> Result<Heads, Error> {
        let none = || {
            let what = "heads are hashes of changes, in hexadecimal or as a blob of 32 bytes each";
            refuse(what.to_owned())
        };
        match value {
            Value::Text(text) => {
                let text = std::str::from_utf8(text).map_err(|_| none())?;
                // As `json_group_array` and the JSON of `shoal doc info` write them.
                let marks = |c: char| c.is_ascii_whitespace() || ",|[]\"".contains(c);
                let words = text.split(marks).filter(|word| !word.is_empty());
                let heads: Vec<String> = words.map(str::to_ascii_lowercase).collect();
                for head in &heads {
                    let is_hex = head.bytes().all(|digit| digit.is_ascii_hexdigit());
                    if !is_hex || !(LEAST_DIGITS..=64).contains(&head.len()) {
                        return Err(refuse(format!(
                            "{head}: not the hash of a change, nor {LEAST_DIGITS} or more of its \
                             first digits"
                        )));
                    }
                }
                Ok(Heads(heads))
            }
            Value::Blob(bytes) => match bytes.as_chunks::<32>() {
                (hashes, []) => {
                    Ok(Heads(hashes.iter().map(|hash| ChangeHash(*hash).to_string()).collect()))
                }
                _ => Err(none()),
            },
            _ => Err(none()),
        }
    }

    /// The number of heads.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The changes of a document, each with the place of the head naming the change.
    ///
    /// # Errors
    /// [`Error::Past`] for first digits of several changes.
    pub(crate) fn within(&self, document: &Document) -> Result<Vec<(usize, ChangeHash)>, Error> {
        let mut found = Vec::new();
        for (place, head) in self.0.iter().enumerate() {
            if head.len() == 64 {
                let hash = ChangeHash::from_hex(head);
                let hash = hash.filter(|hash| document.change_by_hash(hash).is_some());
                found.extend(hash.map(|hash| (place, hash)));
                continue;
            }
            let named = document.graph().hashes_since(&[]).into_iter();
            let mut named = named.filter(|hash| begins(hash, head));
            if let Some(hash) = named.next() {
                if named.next().is_some() {
                    return Err(refuse(format!("{head}: more than one change begins so")));
                }
                found.push((place, hash));
            }
        }
        Ok(found)
    }

    /// False where none of them is among hashes with these first eight bytes, ascending.
    pub(crate) fn may_be_among(&self, firsts: &[u64]) -> bool {
        self.0.iter().any(|head| {
            let digits = &head[..head.len().min(16)];
            let bound = |fill: &str| {
                let padded = format!("{digits}{}", fill.repeat(16 - digits.len()));
                u64::from_str_radix(&padded, 16).unwrap_or(0)
            };
            let (least, most) = (bound("0"), bound("f"));
            let at = firsts.partition_point(|first| *first < least);
            firsts.get(at).is_some_and(|first| *first <= most)
        })
    }

    /// All of them in one document.
    ///
    /// # Errors
    /// [`Error::Past`] for a change missing in the document.
    pub(crate) fn all_within(
        &self,
        document: &Document,
        name: &str,
    ) -> Result<Vec<ChangeHash>, Error> {
        let found = self.within(document)?;
        let missing = (0..self.0.len()).find(|place| !found.iter().any(|(at, _)| at == place));
        match missing {
            None => Ok(found.into_iter().map(|(_, hash)| hash).collect()),
            Some(place) => {
                Err(refuse(format!("document {name} has no such change: {}", self.0[place])))
            }
        }
    }

    /// The error of a head without a document.
    pub(crate) fn unknown(&self, place: usize) -> Error {
        refuse(format!("no document has such a change: {}", self.0[place]))
    }
}

/// True where the hexadecimal form of a hash begins with these digits, in lower case.
fn begins(hash: &ChangeHash, digits: &str) -> bool {
    digits.bytes().enumerate().all(|(place, digit)| {
        let byte = hash.0[place / 2];
        let nibble = if place % 2 == 0 { byte >> 4 } else { byte & 15 };
        b"0123456789abcdef"[usize::from(nibble)] == digit
    })
}
