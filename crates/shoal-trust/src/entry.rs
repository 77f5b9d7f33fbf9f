//! An entry: its bytes, its hash, its signature.

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::Error;
use crate::signatures::KeyTables;

/// A SHA-256 hash.
pub type Hash = [u8; 32];
/// A writer: the hash of the writer's first public key. Stays when keys rotate.
pub type WriterId = [u8; 32];

/// The first bytes under every hash and signature: a signature made elsewhere is no entry's.
const ENTRY: &[u8] = b"shoal ledger entry 1\0";
const SIGNATURE: &[u8] = b"shoal ledger signature 1\0";
const WRITER: &[u8] = b"shoal ledger writer 1\0";

/// One entry of a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Who wrote.
    pub writer: WriterId,
    /// The public key of the signature.
    pub key: [u8; 32],
    /// The number in the writer's chain, from 1.
    pub sequence: u64,
    /// The hash of the writer's entry before; zeros for the first.
    pub previous: Hash,
    /// The last entries of other writers seen by the writer, ascending.
    pub seen: Vec<Hash>,
    /// When the writer says this was, in milliseconds since 1970.
    pub time_ms: i64,
    /// The kind of payload.
    pub kind: String,
    /// The content.
    pub payload: Vec<u8>,
    /// The signature of the hash.
    pub signature: [u8; 64],
}

impl Entry {
    /// The hash of everything but the signature, for the ledger `ledger`.
    ///
    /// The bytes hashed: the domain, the ledger's id, writer, key, sequence (8 bytes, big-endian),
    /// previous, the number of seen heads (8 bytes) and each, the time (8 bytes), the kind's length
    /// (8 bytes) and the kind, the SHA-256 of the payload.
    pub fn hash(&self, ledger: &[u8; 16]) -> Hash {
        let mut hasher = Sha256::new();
        hasher.update(ENTRY);
        hasher.update(ledger);
        hasher.update(self.writer);
        hasher.update(self.key);
        hasher.update(self.sequence.to_be_bytes());
        hasher.update(self.previous);
        hasher.update((self.seen.len() as u64).to_be_bytes());
        for head in &self.seen {
            hasher.update(head);
        }
        hasher.update(self.time_ms.to_be_bytes());
        hasher.update((self.kind.len() as u64).to_be_bytes());
        hasher.update(self.kind.as_bytes());
        hasher.update(Sha256::digest(&self.payload));
        hasher.finalize().into()
    }

    /// True where the signature is the key's, by strict rules: no key of small order, no second
    /// spelling of a signature.
    pub fn is_signed(&self, ledger: &[u8; 16]) -> bool {
        self.signs(&self.hash(ledger))
    }

    /// As [`Entry::is_signed`], with the entry's own hash at hand: payloads are hashed once.
    pub(crate) fn signs(&self, hash: &Hash) -> bool {
        let Ok(key) = VerifyingKey::from_bytes(&self.key) else { return false };
        let signature = Signature::from_bytes(&self.signature);
        key.verify_strict(&signed_bytes(hash), &signature).is_ok()
    }

    /// As [`Entry::signs`], by the table of the key where there is one.
    pub(crate) fn signs_by(&self, tables: &KeyTables, hash: &Hash) -> bool {
        let signs = tables.signs(&self.key, &self.signature, &signed_bytes(hash));
        signs.unwrap_or_else(|| self.signs(hash))
    }
}

fn signed_bytes(hash: &Hash) -> Vec<u8> {
    [SIGNATURE, hash].concat()
}

/// The writer who begins with a public key.
pub fn writer_of(key: &[u8; 32]) -> WriterId {
    Sha256::new().chain_update(WRITER).chain_update(key).finalize().into()
}

/// A secret key, able to sign entries; wiped when dropped.
pub struct Signer {
    key: SigningKey,
}

impl Signer {
    /// The signer of 32 secret bytes.
    pub fn from_bytes(secret: &[u8; 32]) -> Signer {
        Signer { key: SigningKey::from_bytes(secret) }
    }

    /// The signer of a key file: 64 hexadecimal digits, a line break at the end or none.
    ///
    /// # Errors
    /// [`Error::Key`].
    pub fn from_text(text: &str) -> Result<Signer, Error> {
        let bytes = shoal_stdx::hex::decode(text.trim()).map_err(|_| Error::Key)?;
        let bytes = Zeroizing::new(bytes);
        let secret: [u8; 32] = bytes.as_slice().try_into().map_err(|_| Error::Key)?;
        Ok(Signer::from_bytes(&Zeroizing::new(secret)))
    }

    /// The public key.
    pub fn public(&self) -> [u8; 32] {
        self.key.verifying_key().to_bytes()
    }

    pub(crate) fn sign(&self, hash: &Hash) -> [u8; 64] {
        self.key.sign(&signed_bytes(hash)).to_bytes()
    }
}
