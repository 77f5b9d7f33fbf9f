//! Challenges and tickets as bytes, sealed by a MAC.

use base64ct::{Base64UrlUnpadded, Encoding};
use blake2::Blake2bMac;
use blake2::digest::consts::U32;
use blake2::digest::{KeyInit, Mac};
use shoal_sync::DocumentId;

const MAC_BYTES: usize = 32;
const CHALLENGE: u8 = b'c';
const TICKET: u8 = b't';
const VERSION: u8 = 1;
/// The longest sealed bytes, and so the longest ids in them.
const SEALED_MAX: usize = 256;

/// The keys of challenges and tickets: the present one, and the one before, whose tickets still
/// count.
#[derive(Clone)]
pub struct Keys {
    present: [u8; 32],
    before: Option<[u8; 32]>,
}

impl Keys {
    /// Keys of 32 random bytes.
    pub const fn new(present: [u8; 32], before: Option<[u8; 32]>) -> Self {
        Self { present, before }
    }

    /// Reads lines of 64 hexadecimal digits: the present key, and perhaps the one before.
    pub fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let key = |line: &str| <[u8; 32]>::try_from(shoal_stdx::hex::decode(line).ok()?).ok();
        let present = key(lines.next()?)?;
        let before = match lines.next() {
            Some(line) => Some(key(line)?),
            None => None,
        };
        lines.next().is_none().then_some(Self { present, before })
    }

    fn mac(key: &[u8; 32], kind: u8, body: &[u8]) -> Blake2bMac<U32> {
        let mut mac = Blake2bMac::<U32>::new_from_slice(key).expect("32 bytes are a key");
        mac.update(&[kind, VERSION]);
        mac.update(body);
        mac
    }

    fn seal(&self, kind: u8, mut body: Vec<u8>) -> Vec<u8> {
        let mac = Self::mac(&self.present, kind, &body).finalize().into_bytes();
        body.extend_from_slice(&mac);
        body
    }

    fn open<'a>(&self, kind: u8, sealed: &'a [u8]) -> Option<&'a [u8]> {
        if sealed.len() > SEALED_MAX {
            return None;
        }
        let (body, mac) = sealed.split_at_checked(sealed.len().checked_sub(MAC_BYTES)?)?;
        let keys = std::iter::once(&self.present).chain(&self.before);
        let mut matching = keys.filter(|key| Self::mac(key, kind, body).verify_slice(mac).is_ok());
        matching.next().map(|_| body)
    }
}

/// A puzzle, and what its solution buys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Challenge {
    /// Memory of one hash, in KiB.
    pub(crate) memory_kib: u32,
    /// The multiple of the idle price.
    pub(crate) effort: u32,
    /// Hashes to find a nonce, on average.
    pub(crate) difficulty: u64,
    /// Seconds since 1970-01-01 UTC.
    pub(crate) issued: u64,
    /// The end of the time to solve it.
    pub(crate) expires: u64,
    /// By which it is known as spent.
    pub(crate) random: [u8; 16],
    /// SHA-256 of the visitor's secret: nobody else can pay with the stamp.
    pub(crate) claim: [u8; 32],
    /// The document to be opened; `None` for all.
    pub(crate) scope: Option<DocumentId>,
}

struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }

    /// The rest: no document, or the id of one.
    fn scope(self) -> Option<Option<DocumentId>> {
        match std::str::from_utf8(self.0).ok()? {
            "" => Some(None),
            id => DocumentId::parse(id).ok().map(Some),
        }
    }
}

fn scope_bytes(scope: Option<&DocumentId>) -> &[u8] {
    scope.map_or(&[], |id| id.as_str().as_bytes())
}

impl Challenge {
    /// The bytes, which are also the salt of the hash.
    pub(crate) fn seal(&self, keys: &Keys) -> Vec<u8> {
        let mut body = Vec::with_capacity(SEALED_MAX);
        body.extend_from_slice(&self.memory_kib.to_le_bytes());
        body.extend_from_slice(&self.effort.to_le_bytes());
        for number in [self.difficulty, self.issued, self.expires] {
            body.extend_from_slice(&number.to_le_bytes());
        }
        body.extend_from_slice(&self.random);
        body.extend_from_slice(&self.claim);
        body.extend_from_slice(scope_bytes(self.scope.as_ref()));
        keys.seal(CHALLENGE, body)
    }

    pub(crate) fn open(sealed: &[u8], keys: &Keys) -> Option<Self> {
        let mut fields = Fields(keys.open(CHALLENGE, sealed)?);
        Some(Self {
            memory_kib: u32::from_le_bytes(fields.take()?),
            effort: u32::from_le_bytes(fields.take()?),
            difficulty: u64::from_le_bytes(fields.take()?),
            issued: u64::from_le_bytes(fields.take()?),
            expires: u64::from_le_bytes(fields.take()?),
            random: fields.take()?,
            claim: fields.take()?,
            scope: fields.scope()?,
        })
    }
}

/// What a stamp bought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) id: [u8; 16],
    pub(super) expires: u64,
    pub(super) bytes: u64,
    pub(super) documents: u64,
    pub(super) scope: Option<DocumentId>,
}

impl Ticket {
    pub(super) fn to_text(&self, keys: &Keys) -> String {
        let mut body = Vec::with_capacity(SEALED_MAX);
        body.extend_from_slice(&self.id);
        for number in [self.expires, self.bytes, self.documents] {
            body.extend_from_slice(&number.to_le_bytes());
        }
        body.extend_from_slice(scope_bytes(self.scope.as_ref()));
        Base64UrlUnpadded::encode_string(&keys.seal(TICKET, body))
    }

    pub(super) fn parse(text: &str, keys: &Keys) -> Option<Self> {
        if text.len() > SEALED_MAX * 2 {
            return None;
        }
        let sealed = Base64UrlUnpadded::decode_vec(text).ok()?;
        let mut fields = Fields(keys.open(TICKET, &sealed)?);
        Some(Self {
            id: fields.take()?,
            expires: u64::from_le_bytes(fields.take()?),
            bytes: u64::from_le_bytes(fields.take()?),
            documents: u64::from_le_bytes(fields.take()?),
            scope: fields.scope()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_turned_over() {
        let id = DocumentId::from_bytes([9; 16]);
        let ticket = Ticket { id: [1; 16], expires: 5, bytes: 6, documents: 7, scope: Some(id) };
        let old = Keys::new([1; 32], None);
        let text = ticket.to_text(&old);
        let both = Keys::parse(&format!("{}\n{}\n", "02".repeat(32), "01".repeat(32))).unwrap();
        assert_eq!(Ticket::parse(&text, &both), Some(ticket));
        assert_eq!(Ticket::parse(&text, &Keys::new([2; 32], None)), None);
        // A ticket is no challenge.
        let sealed = Base64UrlUnpadded::decode_vec(&text).unwrap();
        assert_eq!(Challenge::open(&sealed, &old), None);
        for text in ["", "x", &"01".repeat(31), &format!("{}\n\nx", "01".repeat(32))] {
            assert!(Keys::parse(text).is_none());
        }
    }
}
