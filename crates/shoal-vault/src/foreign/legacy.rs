//! AES-256-CBC of wxSQLite3, of SQLite3 Multiple Ciphers' `aes256cbc`, and of libSQL: no salt, no
//! nonce, no tag. A changed byte is another answer; equal pages in equal places look equal.

use md5::Md5;
use sha2::{Digest, Sha256};

use super::sqlcipher::{cbc_decrypt, cbc_encrypt};
use super::{Format, Settings};
use crate::page::PLAIN_MAGIC;
use crate::secret::{Key, Secret};
use crate::slots::array;

/// What short passphrases are filled up with, as in PDF files.
const FILL: [u8; 32] = [
    0x28, 0xbf, 0x4e, 0x5e, 0x4e, 0x75, 0x8a, 0x41, 0x64, 0x00, 0x4e, 0x56, 0xff, 0xfa, 0x01, 0x08,
    0x2e, 0x2e, 0x00, 0xb6, 0xd0, 0x68, 0x3e, 0x80, 0x2f, 0x0c, 0xa9, 0xfe, 0x64, 0x53, 0x69, 0x7a,
];

pub(crate) struct Aes256Cbc {
    key: Key,
}

impl Aes256Cbc {
    pub(crate) fn new(secret: &Secret, settings: &Settings) -> Aes256Cbc {
        let given = secret.bytes().iter().chain(&FILL).take(32);
        let mut key =
            Key::filled(|key| key.iter_mut().zip(given).for_each(|(to, from)| *to = *from));
        for _ in 0..=settings.number("kdf_iter", 4001) {
            key = Key::new(Sha256::digest(key.bytes()).into());
        }
        Aes256Cbc { key }
    }

    fn page_key(&self, pgno: u32) -> Key {
        let parts = [&self.key.bytes()[..], &pgno.to_le_bytes(), b"sAlT"];
        let mut hash = Sha256::new();
        parts.iter().for_each(|part| hash.update(part));
        Key::new(hash.finalize().into())
    }
}

/// The initial vector of a page: MD5 of four numbers of a generator seeded with the page's.
pub(crate) fn initial_vector(pgno: u32) -> [u8; 16] {
    let mut state = i64::from(pgno.wrapping_add(1).cast_signed());
    let mut numbers = [0; 16];
    for four in numbers.chunks_exact_mut(4) {
        let quotient = state / 52_774;
        state = 40_692 * (state - 52_774 * quotient) - 3791 * quotient;
        if state < 0 {
            state += 2_147_483_399;
        }
        four.copy_from_slice(&(state as u32).to_le_bytes());
    }
    Md5::digest(numbers).into()
}

impl Format for Aes256Cbc {
    fn reserved(&self) -> usize {
        0
    }

    fn head(&self) -> Option<[u8; 16]> {
        None
    }

    fn encrypt(&self, pgno: u32, page: &mut [u8]) {
        let (key, iv) = (self.page_key(pgno), initial_vector(pgno));
        if pgno != 1 {
            return cbc_encrypt(&key, &iv, page);
        }
        let clear: [u8; 8] = array(page, 16);
        cbc_encrypt(&key, &iv, &mut page[..16]);
        cbc_encrypt(&key, &iv, &mut page[16..]);
        page.copy_within(16..24, 8);
        page[16..24].copy_from_slice(&clear);
    }

    fn decrypt(&self, pgno: u32, page: &mut [u8]) -> bool {
        let (key, iv) = (self.page_key(pgno), initial_vector(pgno));
        if pgno != 1 {
            cbc_decrypt(&key, &iv, page);
            return true;
        }
        let clear: [u8; 8] = array(page, 16);
        page.copy_within(8..16, 16);
        cbc_decrypt(&key, &iv, &mut page[16..]);
        page[..16].copy_from_slice(PLAIN_MAGIC);
        // The only check there is.
        page[16..24] == clear
    }
}
