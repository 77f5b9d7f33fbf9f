//! Ids of documents: base58 with a checksum, as automerge-repo writes them.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::Fault;

/// The longest text to be decoded. Decoding base58 takes time by the square of the
/// length; 16 bytes and a checksum are 28 characters at most.
const MAX_CHARS: usize = 64;
const CHECKSUM_BYTES: usize = 4;

/// The id of a document, in its base58 spelling. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocumentId(Arc<str>);

impl DocumentId {
    /// The id of these 16 bytes, a random UUID.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(base58_check(&bytes).into())
    }

    /// Reads an id: `automerge:ID`, its base58 alone, or a UUID. A fragment or path behind the id
    /// of a URL is left out.
    ///
    /// # Errors
    /// [`Fault::DocumentId`] for all else, texts over 64 characters among them.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let bare = text.strip_prefix("automerge:").unwrap_or(text);
        let bare = bare.split(['#', '/']).next().unwrap_or_default();
        if bare.is_empty() || bare.len() > MAX_CHARS {
            return Err(Fault::DocumentId);
        }
        if let Some(bytes) = uuid(bare) {
            return Ok(Self::from_bytes(bytes));
        }
        let bytes = bs58::decode(bare).into_vec().map_err(|_| Fault::DocumentId)?;
        let payload = bytes.len().checked_sub(CHECKSUM_BYTES).ok_or(Fault::DocumentId)?;
        let (payload, checksum) = bytes.split_at(payload);
        if payload.is_empty() || checksum != check(payload) {
            return Err(Fault::DocumentId);
        }
        Ok(Self(bare.into()))
    }

    /// The base58 spelling.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The `automerge:` URL.
    pub fn url(&self) -> String {
        format!("automerge:{}", self.0)
    }
}

impl fmt::Display for DocumentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for DocumentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DocumentId({})", self.0)
    }
}

/// Bytes in base58 with a checksum behind them.
pub fn base58_check(bytes: &[u8]) -> String {
    bs58::encode([bytes, &check(bytes)].concat()).into_string()
}

fn check(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let hash = Sha256::digest(Sha256::digest(bytes));
    [hash[0], hash[1], hash[2], hash[3]]
}

/// The bytes of a UUID of 32 digits with four hyphens.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let hyphens = [8, 13, 18, 23];
    if text.len() != 36 || !hyphens.iter().all(|&at| text.as_bytes()[at] == b'-') {
        return None;
    }
    let mut digits = text.bytes().filter(|&byte| byte != b'-');
    let mut digit = || char::from(digits.next()?).to_digit(16);
    let mut bytes = [0; 16];
    for byte in &mut bytes {
        *byte = u8::try_from(digit()? << 4 | digit()?).ok()?;
    }
    digits.next().is_none().then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling() {
        let bytes: [u8; 16] = std::array::from_fn(|at| u8::try_from(at * 16 + 1).unwrap());
        let id = DocumentId::from_bytes(bytes);
        for text in [
            id.to_string(),
            id.url(),
            format!("{}#", id.url()),
            format!("{}#abc|def", id.url()),
            format!("{}/todos/0", id.url()),
            "01112131-4151-6171-8191-a1b1c1d1e1f1".to_owned(),
        ] {
            assert_eq!(DocumentId::parse(&text).unwrap(), id, "{text}");
        }
    }

    #[test]
    fn refusals() {
        let id = DocumentId::from_bytes([7; 16]).to_string();
        let swapped =
            format!("{}{}", &id[..id.len() - 1], if id.ends_with('2') { '3' } else { '2' });
        let long = "1".repeat(1 << 20);
        for text in ["", "automerge:", "0OIl", "note", "3QJmnh", &swapped, &long, "é"] {
            assert_eq!(DocumentId::parse(text), Err(Fault::DocumentId));
        }
    }
}
