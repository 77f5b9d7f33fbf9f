//! Bytes nobody else may see: wiped when dropped, and without `Debug`. Keys of open files lie in
//! locked memory, too.

use std::sync::Arc;

use hkdf::Hkdf;
use sha2::Sha256;
use shoal_store::vfs::Locked;
use zeroize::Zeroize;

/// A passphrase, or the content of a key file, in memory locked against swapping where the system
/// permits. Clones share the memory.
#[derive(Clone)]
pub struct Secret(Arc<Locked<[u8]>>);

impl Secret {
    /// A secret of these bytes, which the caller wipes.
    pub fn new(bytes: &[u8]) -> Secret {
        Secret(Arc::new(Locked::copied(bytes)))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A key of 256 bits.
#[derive(Clone)]
pub(crate) struct Key([u8; 32]);

impl Key {
    pub(crate) fn new(bytes: [u8; 32]) -> Key {
        Key(bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The key that `fill` writes.
    pub(crate) fn filled(fill: impl FnOnce(&mut [u8])) -> Key {
        let mut key = Key([0; 32]);
        fill(&mut key.0);
        key
    }

    /// A key for one purpose, by HKDF-SHA256 without salt: nothing about this key, or about keys
    /// for other purposes, follows from it.
    pub(crate) fn derive(&self, purpose: &[&[u8]]) -> Key {
        Key::filled(|key| {
            Hkdf::<Sha256>::new(None, &self.0)
                .expand(&purpose.concat(), key)
                .expect("HKDF-SHA256 gives up to 8,160 bytes");
        })
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}
