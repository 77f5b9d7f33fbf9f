//! Pages of Shoal's own sealed files.
//!
//! The last 64 bytes of a page are the seal's (integers little-endian):
//!
//! | at | bytes | |
//! | --- | --- | --- |
//! | 0 | 16 | random, for the nonce: AES-256-GCM-SIV takes the first 12, XChaCha20 all 16 |
//! | 16 | 16 | tag |
//! | 32 | 8 | generation: the number of the commit that wrote the page |
//! | 40 | 4 | the page's own number |
//! | 44 | 4 | epoch of the data key |
//! | 48 | 16 | on page 1 the sum over all other pages, elsewhere zero |
//!
//! The associated data are the file's id, the cipher's number, these 64 bytes without the tag, and
//! on page 1 its clear bytes 0 to 100. So a page is bound to its file, place, time and key.

use aes::Aes256;
use aes::cipher::BlockCipherEncrypt;
use aes_gcm_siv::Aes256GcmSiv;
use aes_gcm_siv::aead::{AeadInOut, KeyInit};
use chacha20poly1305::XChaCha20Poly1305;
use shoal_store::{Fault, Refused};

use crate::secret::Key;
use crate::slots::{array, stated_epoch, u32_at};

/// Bytes of the seal at each page's end.
pub(crate) const SEAL: usize = 64;
/// Clear bytes of page 1: the header.
pub(crate) const CLEAR: usize = 100;
/// The first bytes of a sealed file.
pub(crate) const MAGIC: &[u8; 16] = b"Shoal sealed 1\0\0";
/// The first bytes of every SQLite database.
pub(crate) const PLAIN_MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// The cipher of a file's pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cipher {
    /// AES-256-GCM-SIV: a nonce that comes twice shows that two pages are equal, and nothing else.
    #[default]
    AesGcmSiv,
    /// XChaCha20-Poly1305: for machines without instructions for AES.
    XChaCha,
}

impl Cipher {
    pub(crate) fn number(self) -> u8 {
        match self {
            Cipher::AesGcmSiv => 1,
            Cipher::XChaCha => 2,
        }
    }

    pub(crate) fn numbered(number: u8) -> Option<Cipher> {
        [Cipher::AesGcmSiv, Cipher::XChaCha].into_iter().find(|cipher| cipher.number() == number)
    }

    /// The cipher's name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Cipher::AesGcmSiv => "aes-256-gcm-siv",
            Cipher::XChaCha => "xchacha20-poly1305",
        }
    }

    /// The cipher of a name.
    pub fn named(name: &str) -> Option<Cipher> {
        [Cipher::AesGcmSiv, Cipher::XChaCha]
            .into_iter()
            .find(|cipher| cipher.name().eq_ignore_ascii_case(name))
    }
}

/// The keys of one epoch, ready to use.
pub(crate) struct EpochKeys {
    pub(crate) epoch: u32,
    cipher: Keyed,
    terms: Aes256,
}

/// A cipher with its key.
#[expect(
    clippy::large_enum_variant,
    reason = "a key schedule lies within locked memory, and a box would lie outside"
)]
pub(crate) enum Keyed {
    AesGcmSiv(Aes256GcmSiv),
    XChaCha(XChaCha20Poly1305),
}

impl Keyed {
    pub(crate) fn new(cipher: Cipher, key: &Key) -> Keyed {
        let key = key.bytes().into();
        match cipher {
            Cipher::AesGcmSiv => Keyed::AesGcmSiv(Aes256GcmSiv::new(key)),
            Cipher::XChaCha => Keyed::XChaCha(XChaCha20Poly1305::new(key)),
        }
    }

    /// Encrypts in place; the tag. AES-256-GCM-SIV takes 12 bytes of the nonce, from byte 8 on.
    pub(crate) fn encrypt(&self, nonce: [u8; 24], bound: &[u8], content: &mut [u8]) -> [u8; 16] {
        let too_long = "a page is no message too long";
        match self {
            Keyed::AesGcmSiv(cipher) => {
                let nonce = array::<12>(&nonce, 8).into();
                let tag = cipher.encrypt_inout_detached(&nonce, bound, content.into());
                tag.expect(too_long).into()
            }
            Keyed::XChaCha(cipher) => {
                let tag = cipher.encrypt_inout_detached(&nonce.into(), bound, content.into());
                tag.expect(too_long).into()
            }
        }
    }

    /// Decrypts in place; false for another tag.
    pub(crate) fn decrypt(
        &self,
        nonce: [u8; 24],
        bound: &[u8],
        content: &mut [u8],
        tag: [u8; 16],
    ) -> bool {
        let tag = tag.into();
        match self {
            Keyed::AesGcmSiv(cipher) => {
                let nonce = array::<12>(&nonce, 8).into();
                cipher.decrypt_inout_detached(&nonce, bound, content.into(), &tag)
            }
            Keyed::XChaCha(cipher) => {
                cipher.decrypt_inout_detached(&nonce.into(), bound, content.into(), &tag)
            }
        }
        .is_ok()
    }
}

/// A page's place and time.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) file_id: &'a [u8; 16],
    pub(crate) pgno: u32,
}

impl EpochKeys {
    pub(crate) fn new(cipher: Cipher, data_key: &Key, epoch: u32, file_id: &[u8; 16]) -> EpochKeys {
        let key = |purpose: &[u8]| data_key.derive(&[purpose, file_id, &epoch.to_le_bytes()]);
        let pages = key(b"shoal vault page");
        EpochKeys {
            epoch,
            cipher: Keyed::new(cipher, &pages),
            terms: Aes256::new(key(b"shoal vault sum").bytes().into()),
        }
    }

    fn number(&self) -> u8 {
        match &self.cipher {
            Keyed::AesGcmSiv(_) => Cipher::AesGcmSiv.number(),
            Keyed::XChaCha(_) => Cipher::XChaCha.number(),
        }
    }

    /// Encrypts a page in place. Of its seal the random bytes are chosen by the caller; `sum` is
    /// page 1's.
    pub(crate) fn seal(
        &self,
        place: Place<'_>,
        random: [u8; 16],
        (generation, sum): (u64, u128),
        page: &mut [u8],
    ) {
        let end = page.len() - SEAL;
        let seal = &mut page[end..];
        seal.fill(0);
        seal[..16].copy_from_slice(&random);
        if self.number() == Cipher::AesGcmSiv.number() {
            seal[12..16].fill(0);
        }
        seal[32..40].copy_from_slice(&generation.to_le_bytes());
        seal[40..44].copy_from_slice(&place.pgno.to_le_bytes());
        seal[44..48].copy_from_slice(&self.epoch.to_le_bytes());
        if place.pgno == 1 {
            seal[48..].copy_from_slice(&sum.to_le_bytes());
            page[..16].copy_from_slice(MAGIC);
        }
        let (bound, len) = self.bound(place, place.pgno, page);
        let (nonce, start) = (nonce(&page[end..]), if place.pgno == 1 { CLEAR } else { 0 });
        let tag = self.cipher.encrypt(nonce, &bound[..len], &mut page[start..end]);
        page[end + 16..end + 32].copy_from_slice(&tag);
    }

    /// Decrypts a page in place; false for one that no `seal` with this key made for the place
    /// `claimed`.
    fn unseal(&self, place: Place<'_>, claimed: u32, page: &mut [u8]) -> bool {
        let end = page.len() - SEAL;
        let (bound, len) = self.bound(place, claimed, page);
        let tag: [u8; 16] = array(page, end + 16);
        let (nonce, start) = (nonce(&page[end..]), if place.pgno == 1 { CLEAR } else { 0 });
        self.cipher.decrypt(nonce, &bound[..len], &mut page[start..end], tag)
    }

    /// As [`EpochKeys::unseal`] for the page of `place`, or the reason why not.
    pub(crate) fn open(&self, place: Place<'_>, page: &mut [u8]) -> Result<(), Refused> {
        let end = page.len() - SEAL;
        let claimed = u32_at(page, end + 40);
        if claimed == place.pgno {
            if self.unseal(place, claimed, page) {
                if place.pgno == 1 {
                    page[..16].copy_from_slice(PLAIN_MAGIC);
                }
                return Ok(());
            }
        } else if self.unseal(Place { pgno: claimed, ..place }, claimed, &mut page.to_vec()) {
            let why = format!("lies here, and is page {claimed}'s: pages were exchanged");
            return Err(Refused::new(Fault::Moved, why));
        }
        let why = "is not as it was written: its tag does not hold";
        Err(Refused::new(Fault::Damaged, why))
    }

    /// The associated data, and their length.
    fn bound(&self, place: Place<'_>, pgno: u32, page: &[u8]) -> ([u8; 17 + SEAL + CLEAR], usize) {
        let mut bound = [0; 17 + SEAL + CLEAR];
        bound[..16].copy_from_slice(place.file_id);
        bound[16] = self.number();
        let seal = &mut bound[17..17 + SEAL];
        seal.copy_from_slice(&page[page.len() - SEAL..]);
        seal[16..32].fill(0);
        seal[40..44].copy_from_slice(&pgno.to_le_bytes());
        if place.pgno != 1 {
            return (bound, 17 + SEAL);
        }
        bound[17 + SEAL..].copy_from_slice(&page[..CLEAR]);
        (bound, 17 + SEAL + CLEAR)
    }

    /// A pseudo-random number of a page's number and 24 bytes: CBC-MAC of two blocks.
    fn term(&self, pgno: u32, bytes: &[u8; 24]) -> u128 {
        let mut block = [0; 16];
        block[..4].copy_from_slice(&pgno.to_le_bytes());
        block[4..12].copy_from_slice(&bytes[..8]);
        let mut block = block.into();
        self.terms.encrypt_block(&mut block);
        for (to, from) in block.iter_mut().zip(&bytes[8..]) {
            *to ^= from;
        }
        self.terms.encrypt_block(&mut block);
        u128::from_le_bytes(block.into())
    }

    /// The term of a sealed page.
    pub(crate) fn term_of(&self, pgno: u32, stored: &[u8]) -> u128 {
        let end = stored.len() - SEAL;
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&stored[end + 32..end + 40]);
        bytes[8..].copy_from_slice(&stored[end + 16..end + 32]);
        self.term(pgno, &bytes)
    }

    /// The term of a page of keys: of the beginning of its HMAC.
    pub(crate) fn term_of_keys(&self, pgno: u32, stored: &[u8]) -> u128 {
        self.term(pgno, &array(stored, stored.len() - 32))
    }
}

/// The nonce of 24 bytes: generation and random bytes. The other cipher's is the first 12 of the
/// latter.
fn nonce(seal: &[u8]) -> [u8; 24] {
    let mut nonce = [0; 24];
    nonce[..8].copy_from_slice(&seal[32..40]);
    nonce[8..].copy_from_slice(&seal[..16]);
    nonce
}

/// The epoch of a sealed page, unchecked.
pub(crate) fn epoch_of(stored: &[u8]) -> u32 {
    u32_at(stored, stored.len() - SEAL + 44)
}

/// The epoch by whose key a page of keys is counted.
pub(crate) fn epoch_of_keys(stored: &[u8]) -> u32 {
    stated_epoch(stored)
}

/// Generation and sum of page 1 in any form.
pub(crate) fn state_of(first: &[u8]) -> (u64, u128) {
    let end = first.len() - SEAL;
    (u64::from_le_bytes(array(first, end + 32)), u128::from_le_bytes(array(first, end + 48)))
}
