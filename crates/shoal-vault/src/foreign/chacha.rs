//! SQLite3 Multiple Ciphers' ChaCha20-Poly1305, and sqleet's.

use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};
use pbkdf2::pbkdf2_hmac;
use poly1305::Poly1305;
use poly1305::universal_hash::KeyInit;
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::{Format, Settings, raw_key};
use crate::secret::{Key, Secret};
use crate::slots::{array, u32_at};

/// Nonce and tag.
const OWN: usize = 32;

pub(crate) struct ChaCha {
    key: Key,
    salt: [u8; 16],
    /// sqleet's page size: page 1 hides it.
    hidden: Option<u32>,
}

impl ChaCha {
    pub(crate) fn new(
        secret: &Secret,
        settings: &Settings,
        salt: [u8; 16],
        is_legacy: bool,
    ) -> ChaCha {
        let mut salt = salt;
        let raw = raw_key(secret, &[32, 48]);
        if let Some(raw) = raw.as_deref().filter(|raw| raw.len() == 48) {
            salt.copy_from_slice(&raw[32..]);
        }
        let rounds = settings.number("kdf_iter", if is_legacy { 12_345 } else { 64_007 });
        let key = Key::filled(|key| match &raw {
            Some(raw) => key.copy_from_slice(&raw[..32]),
            None => pbkdf2_hmac::<Sha256>(secret.bytes(), &salt, rounds, key),
        });
        let page_size = settings.number("legacy_page_size", 4096);
        ChaCha {
            key,
            salt,
            hidden: is_legacy.then_some(if page_size == 0 { 4096 } else { page_size }),
        }
    }

    fn start(&self, pgno: u32) -> usize {
        if pgno == 1 && self.hidden.is_none() { 24 } else { 0 }
    }

    /// The keys of a page: for the tag, and for the content with its first counter.
    fn keys(&self, pgno: u32, page: &[u8]) -> ([u8; 32], ChaCha20) {
        let end = page.len() - OWN;
        let nonce: [u8; 12] = array(page, end);
        let counter = u32_at(page, end + 12) ^ pgno;
        let mut block = zeroize::Zeroizing::new([0_u8; 64]);
        stream(self.key.bytes(), &nonce, counter).apply_keystream(&mut *block);
        let content: [u8; 32] = array(&*block, 32);
        (array(&*block, 0), stream(&content, &nonce, counter.wrapping_add(1)))
    }
}

/// A key stream from the block `counter` on. The counter of a page never wraps in practice; one
/// that does goes on as a 32-bit counter.
pub(super) fn stream(key: &[u8; 32], nonce: &[u8; 12], counter: u32) -> ChaCha20 {
    let mut stream = ChaCha20::new(key.into(), nonce.into());
    stream.seek(u64::from(counter) * 64);
    stream
}

pub(super) fn tag(key: &[u8; 32], bytes: &[u8]) -> [u8; 16] {
    Poly1305::new(key.into()).compute_unpadded(bytes).into()
}

impl Format for ChaCha {
    fn reserved(&self) -> usize {
        OWN
    }

    fn hidden_page_size(&self) -> Option<u32> {
        self.hidden
    }

    fn head(&self) -> Option<[u8; 16]> {
        Some(self.salt)
    }

    fn encrypt(&self, pgno: u32, page: &mut [u8]) {
        let (start, end) = (self.start(pgno), page.len() - OWN);
        // A counter that cannot wrap within the page.
        page[end + 15] &= 0x7f;
        let (tag_key, mut content) = self.keys(pgno, page);
        content.apply_keystream(&mut page[start..end]);
        if pgno == 1 {
            page[..16].copy_from_slice(&self.salt);
        }
        let tag = tag(&tag_key, &page[..end + 16]);
        page[end + 16..].copy_from_slice(&tag);
    }

    fn decrypt(&self, pgno: u32, page: &mut [u8]) -> bool {
        let (start, end) = (self.start(pgno), page.len() - OWN);
        let (tag_key, mut content) = self.keys(pgno, page);
        if !bool::from(tag(&tag_key, &page[..end + 16]).ct_eq(&page[end + 16..])) {
            return false;
        }
        // A counter at its end wraps to 0, as in the program that wrote the page.
        let counter = u64::from((u32_at(page, end + 12) ^ pgno).wrapping_add(1));
        let room = usize::try_from(((1 << 32) - counter) * 64).unwrap_or(usize::MAX);
        let (before, after) = page[start..end].split_at_mut(room.min(end - start));
        content.apply_keystream(before);
        if !after.is_empty() {
            content.seek(0_u64);
            content.apply_keystream(after);
        }
        true
    }
}
