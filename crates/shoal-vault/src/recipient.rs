//! Recipients: X25519 key pairs, whose public half lets others make key slots for the owner.
//!
//! A slot for a recipient holds the public share of a key pair made for the slot alone. The shared
//! secret of share and recipient (RFC 7748) gives, by HKDF-SHA256, the key of the slot. Shares and
//! public keys of low order have the same shared secret, zero, with everybody, and are refused.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use sha2::{Digest, Sha256};
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

use crate::VaultError;
use crate::secret::{Key, Secret};

/// The first line of the file of a private key: no passphrase of a user begins like this.
const HEADER: &[u8] = b"shoal private key 1\n";
/// Begins the text of a public key.
const PREFIX: &str = "x25519:";
/// Hexadecimal digits of a key of 32 bytes.
const DIGITS: usize = 64;

/// Whom a file is sealed to: the public key of a pair, as text `x25519:`, 64 hexadecimal digits,
/// `-` and the 16 digits of the key's fingerprint, against mistyped keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recipient([u8; 32]);

impl Recipient {
    /// A recipient of these bytes; `None` for one of low order, whose slots anybody could open.
    pub(crate) fn new(bytes: [u8; 32]) -> Option<Recipient> {
        let probe = PrivateKey::new(&Key::new([0x55; 32]));
        probe.shared(&bytes).map(|_| Recipient(bytes))
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first 8 bytes of a hash of the key, shown by `shoal keys ls` for a slot.
    pub fn fingerprint(&self) -> Fingerprint {
        let digest = Sha256::new().chain_update(b"shoal vault recipient").chain_update(self.0);
        Fingerprint(*digest.finalize().first_chunk().expect("SHA-256 has 32 bytes"))
    }
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, "-{}", self.fingerprint())
    }
}

impl FromStr for Recipient {
    type Err = VaultError;

    fn from_str(text: &str) -> Result<Recipient, VaultError> {
        let refused = |why| VaultError::Recipient { why };
        let digits = text.trim().strip_prefix(PREFIX);
        let digits = digits.ok_or_else(|| refused("begins with x25519:"))?;
        let (key, print) = digits
            .split_once('-')
            .ok_or_else(|| refused("has its fingerprint behind a - at the end"))?;
        let why = "has 64 hexadecimal digits";
        let bytes = key_of_hex(key.as_bytes()).ok_or_else(|| refused(why))?;
        let low = "is of low order: anybody could open its slots";
        let key = Recipient::new(*bytes.bytes()).ok_or_else(|| refused(low))?;
        match key.fingerprint().to_string().eq_ignore_ascii_case(print) {
            true => Ok(key),
            false => Err(refused("has another fingerprint than stands behind it: it is mistyped")),
        }
    }
}

/// A short name of a public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(pub(crate) [u8; 8]);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The private key of a recipient.
pub(crate) struct PrivateKey(StaticSecret);

impl PrivateKey {
    pub(crate) fn new(bytes: &Key) -> PrivateKey {
        PrivateKey(StaticSecret::from(*bytes.bytes()))
    }

    /// The private key in a secret with the content of its file; `None` for a passphrase.
    ///
    /// # Errors
    /// [`VaultError::PrivateKey`] for a first line of a private key without the key behind.
    pub(crate) fn of(secret: &Secret) -> Result<Option<PrivateKey>, VaultError> {
        let Some(rest) = secret.bytes().strip_prefix(HEADER) else { return Ok(None) };
        let line = rest.trim_ascii();
        key_of_hex(line).map(|key| Some(PrivateKey::new(&key))).ok_or(VaultError::PrivateKey)
    }

    pub(crate) fn recipient(&self) -> Recipient {
        Recipient(PublicKey::from(&self.0).to_bytes())
    }

    /// X25519 of this key and a public one; `None` for a public key of low order.
    pub(crate) fn shared(&self, public: &[u8; 32]) -> Option<Key> {
        let shared = self.0.diffie_hellman(&PublicKey::from(*public));
        let is_contributory = shared.was_contributory();
        is_contributory.then(|| Key::filled(|key| key.copy_from_slice(shared.as_bytes())))
    }

    /// The key of a slot with this share, between this pair and `other`; `None` for shares of low
    /// order. `recipient` is the public key of the slot's recipient.
    fn agree(
        &self,
        other: &[u8; 32],
        (share, recipient): (&[u8; 32], &[u8; 32]),
        file_id: &[u8; 16],
    ) -> Option<Key> {
        let shared = self.shared(other)?;
        Some(shared.derive(&[b"shoal vault recipient", file_id, share, recipient]))
    }

    /// The key of a slot with this share, for the recipient of the slot.
    pub(crate) fn open(&self, share: &[u8; 32], file_id: &[u8; 16]) -> Option<Key> {
        self.agree(share, (share, self.recipient().bytes()), file_id)
    }

    /// The share and the key of a new slot. This key pair is made for the slot alone.
    pub(crate) fn share(&self, to: &Recipient, file_id: &[u8; 16]) -> ([u8; 32], Key) {
        let share = *self.recipient().bytes();
        let key = self.agree(to.bytes(), (&share, to.bytes()), file_id);
        (share, key.expect("recipients of low order are refused when they are made"))
    }
}

/// The file of a new private key, as text, and its public key. `fill` writes random bytes.
///
/// ```
/// use shoal_vault::Secret;
/// use shoal_store::vfs::{Entropy, OsEntropy};
/// let (text, recipient) = shoal_vault::new_pair(|bytes| OsEntropy.fill(bytes));
/// assert_eq!(Secret::new(text.as_bytes()).recipient()?, Some(recipient));
/// # Ok::<(), shoal_vault::VaultError>(())
/// ```
pub fn new_pair(fill: impl FnOnce(&mut [u8])) -> (Zeroizing<String>, Recipient) {
    let key = Key::filled(fill);
    // All room at once: a growing text leaves copies in freed memory.
    let mut text = Zeroizing::new(String::with_capacity(HEADER.len() + DIGITS + 1));
    text.push_str(std::str::from_utf8(HEADER).expect("the header is ASCII"));
    for byte in key.bytes() {
        let _ = write!(text, "{byte:02x}");
    }
    text.push('\n');
    (text, PrivateKey::new(&key).recipient())
}

impl Secret {
    /// The public key, where the bytes are the content of a private key's file ([`new_pair`]).
    ///
    /// # Errors
    /// [`VaultError::PrivateKey`] for a damaged file of a private key.
    pub fn recipient(&self) -> Result<Option<Recipient>, VaultError> {
        Ok(PrivateKey::of(self)?.map(|key| key.recipient()))
    }
}

/// A key of 64 hexadecimal digits.
fn key_of_hex(digits: &[u8]) -> Option<Key> {
    if digits.len() != DIGITS {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut is_hex = true;
    let key = Key::filled(|key| {
        for (byte, two) in key.iter_mut().zip(digits.chunks_exact(2)) {
            match (digit(two[0]), digit(two[1])) {
                (Some(high), Some(low)) => *byte = high << 4 | low,
                _ => is_hex = false,
            }
        }
    });
    is_hex.then_some(key)
}
