//! SQLCipher 1 to 4: AES-256-CBC and HMAC.

use aes::Aes256;
use aes::cipher::{
    Block, BlockCipherDecrypt, BlockCipherEncrypt, BlockModeDecrypt, BlockModeEncrypt, KeyIvInit,
};
use hmac::{Hmac, KeyInit, Mac};
use pbkdf2::pbkdf2_hmac;
use sha1::Sha1;
use sha2::{Sha256, Sha512};
use subtle::ConstantTimeEq;

use super::{Format, Settings, hex, raw_key};
use crate::secret::{Key, Secret};

/// A hash for keys and tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    Sha1,
    Sha256,
    Sha512,
}

impl Hash {
    fn named(name: &str) -> Option<Hash> {
        let name = name.to_ascii_uppercase();
        [("SHA1", Hash::Sha1), ("SHA256", Hash::Sha256), ("SHA512", Hash::Sha512)]
            .into_iter()
            .find(|(end, _)| name.ends_with(end))
            .map(|(_, hash)| hash)
            .or(match &*name {
                "0" => Some(Hash::Sha1),
                "1" => Some(Hash::Sha256),
                "2" => Some(Hash::Sha512),
                _ => None,
            })
    }

    fn len(self) -> usize {
        match self {
            Hash::Sha1 => 20,
            Hash::Sha256 => 32,
            Hash::Sha512 => 64,
        }
    }

    pub(super) fn pbkdf2(self, secret: &[u8], salt: &[u8], rounds: u32) -> Key {
        Key::filled(|key| match self {
            Hash::Sha1 => pbkdf2_hmac::<Sha1>(secret, salt, rounds, key),
            Hash::Sha256 => pbkdf2_hmac::<Sha256>(secret, salt, rounds, key),
            Hash::Sha512 => pbkdf2_hmac::<Sha512>(secret, salt, rounds, key),
        })
    }

    pub(super) fn mac(self, key: &Key, parts: [&[u8]; 2]) -> Vec<u8> {
        fn by<M: Mac + KeyInit>(key: &Key, parts: [&[u8]; 2]) -> Vec<u8> {
            let mut mac =
                <M as KeyInit>::new_from_slice(key.bytes()).expect("HMAC takes keys of any length");
            parts.iter().for_each(|part| mac.update(part));
            mac.finalize().into_bytes().to_vec()
        }
        match self {
            Hash::Sha1 => by::<Hmac<Sha1>>(key, parts),
            Hash::Sha256 => by::<Hmac<Sha256>>(key, parts),
            Hash::Sha512 => by::<Hmac<Sha512>>(key, parts),
        }
    }
}

/// Settings of a SQLCipher file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Version {
    page_size: u32,
    rounds: u32,
    fast_rounds: u32,
    kdf: Hash,
    hmac: Option<Hash>,
    /// Room for a tag in files without HMAC and with.
    reserved: usize,
    is_big_endian: bool,
    salt_mask: u8,
    clear: usize,
    /// The other program's own layout: bytes 16 to 24 of page 1 are clear.
    is_mc: bool,
}

impl Version {
    /// The settings of SQLCipher's version, changed by what the user says.
    pub(crate) fn new(number: u32, settings: &Settings, is_mc: bool) -> Version {
        let (page_size, rounds, hash) = match number {
            1 | 2 => (1024, 4000, Hash::Sha1),
            3 => (1024, 64_000, Hash::Sha1),
            _ => (4096, 256_000, Hash::Sha512),
        };
        let named = |name| settings.get(name).and_then(Hash::named);
        let hmac =
            settings.flag("use_hmac", number > 1).then(|| named("hmac_algorithm").unwrap_or(hash));
        let legacy = settings.number("legacy_page_size", page_size);
        let mask = settings.get("hmac_salt_mask").unwrap_or("3a");
        let mask = mask.trim_start_matches("x'").trim_end_matches('\'');
        Version {
            page_size: settings.number("page_size", legacy),
            rounds: settings.number("kdf_iter", rounds),
            fast_rounds: settings.number("fast_kdf_iter", 2),
            kdf: named("kdf_algorithm").unwrap_or(hash),
            hmac,
            reserved: 16 + hmac.map_or(0, |hash| hash.len().next_multiple_of(16)),
            is_big_endian: matches!(settings.get("hmac_pgno"), Some("be" | "2")),
            salt_mask: u8::from_str_radix(mask, 16).unwrap_or(0x3a),
            clear: settings.number("plaintext_header_size", 0) as usize,
            is_mc,
        }
    }
}

/// A SQLCipher file's keys.
pub(crate) struct SqlCipher {
    version: Version,
    salt: [u8; 16],
    key: Key,
    hmac_key: Key,
}

impl SqlCipher {
    /// The keys of a file that begins with `salt`, or of a new one.
    pub(crate) fn new(
        secret: &Secret,
        version: Version,
        settings: &Settings,
        salt: [u8; 16],
    ) -> SqlCipher {
        let mut salt = salt;
        let given =
            settings.get("salt").map(|text| text.trim_start_matches("x'").trim_end_matches('\''));
        if let Some(given) =
            given.and_then(|text| hex(text.as_bytes())).and_then(|it| it.try_into().ok())
        {
            salt = given;
        }
        let raw = raw_key(secret, &[32, 48, 80]);
        if let Some(raw) = raw.as_deref().filter(|raw| raw.len() > 32) {
            salt.copy_from_slice(&raw[raw.len() - 16..]);
        }
        let key = match &raw {
            Some(raw) => Key::filled(|key| key.copy_from_slice(&raw[..32])),
            None => version.kdf.pbkdf2(secret.bytes(), &salt, version.rounds),
        };
        let hmac_key = match raw.as_deref() {
            Some(raw) if raw.len() == 80 => Key::filled(|key| key.copy_from_slice(&raw[32..64])),
            _ => {
                let masked = salt.map(|byte| byte ^ version.salt_mask);
                let hash =
                    if version.is_mc { version.hmac.unwrap_or(version.kdf) } else { version.kdf };
                hash.pbkdf2(key.bytes(), &masked, version.fast_rounds)
            }
        };
        if let Some(mut raw) = raw {
            zeroize::Zeroize::zeroize(&mut raw);
        }
        SqlCipher { version, salt, key, hmac_key }
    }

    /// The same keys for pages of another size.
    pub(crate) fn with_page_size(self, page_size: u32) -> SqlCipher {
        SqlCipher { version: Version { page_size, ..self.version }, ..self }
    }

    fn start(&self, pgno: u32) -> usize {
        match (pgno, self.version.clear) {
            (1, 0) => {
                if self.version.is_mc {
                    24
                } else {
                    16
                }
            }
            (1, clear) => clear,
            _ => 0,
        }
    }

    fn tag(&self, hash: Hash, pgno: u32, page: &[u8]) -> Vec<u8> {
        let end = page.len() - self.version.reserved + 16;
        let number = match self.version.is_big_endian {
            true => pgno.to_be_bytes(),
            false => pgno.to_le_bytes(),
        };
        hash.mac(&self.hmac_key, [&page[self.start(pgno)..end], &number])
    }
}

impl Format for SqlCipher {
    fn reserved(&self) -> usize {
        self.version.reserved
    }

    fn hidden_page_size(&self) -> Option<u32> {
        (!self.version.is_mc && self.version.clear == 0).then_some(self.version.page_size)
    }

    fn head(&self) -> Option<[u8; 16]> {
        (self.version.clear == 0).then_some(self.salt)
    }

    fn encrypt(&self, pgno: u32, page: &mut [u8]) {
        let (start, end) = (self.start(pgno), page.len() - self.version.reserved);
        let iv: [u8; 16] = crate::slots::array(page, end);
        cbc_encrypt(&self.key, &iv, &mut page[start..end]);
        if let (1, Some(head)) = (pgno, self.head()) {
            page[..16].copy_from_slice(&head);
        }
        if let Some(hash) = self.version.hmac {
            let tag = self.tag(hash, pgno, page);
            page[end + 16..end + 16 + tag.len()].copy_from_slice(&tag);
        }
    }

    fn decrypt(&self, pgno: u32, page: &mut [u8]) -> bool {
        let (start, end) = (self.start(pgno), page.len() - self.version.reserved);
        if let Some(hash) = self.version.hmac {
            let tag = self.tag(hash, pgno, page);
            if !bool::from(tag.ct_eq(&page[end + 16..end + 16 + tag.len()])) {
                return false;
            }
        }
        let iv: [u8; 16] = crate::slots::array(page, end);
        cbc_decrypt(&self.key, &iv, &mut page[start..end]);
        true
    }
}

/// AES-256-CBC in place. The odd end of fewer than 16 bytes takes its cipher text from the block
/// before, which is encrypted once more (ciphertext stealing).
pub(crate) fn cbc_encrypt(key: &Key, iv: &[u8; 16], bytes: &mut [u8]) {
    let whole = bytes.len() / 16 * 16;
    let mut cipher = cbc::Encryptor::<Aes256>::new(key.bytes().into(), iv.into());
    let (blocks, _) = Block::<Aes256>::slice_as_chunks_mut(&mut bytes[..whole]);
    cipher.encrypt_blocks(blocks);
    let odd = bytes.len() - whole;
    if odd > 0 && whole > 0 {
        let stolen: [u8; 16] = crate::slots::array(bytes, whole - 16);
        let mut last = stolen;
        last.iter_mut().zip(&bytes[whole..]).for_each(|(byte, plain)| *byte ^= plain);
        let mut last: Block<Aes256> = last.into();
        <Aes256 as KeyInit>::new(key.bytes().into()).encrypt_block(&mut last);
        bytes[whole - 16..whole].copy_from_slice(&last);
        bytes[whole..].copy_from_slice(&stolen[..odd]);
    }
}

pub(crate) fn cbc_decrypt(key: &Key, iv: &[u8; 16], bytes: &mut [u8]) {
    let whole = bytes.len() / 16 * 16;
    let odd = bytes.len() - whole;
    if odd > 0 && whole > 0 {
        let mut last: Block<Aes256> = crate::slots::array::<16>(bytes, whole - 16).into();
        <Aes256 as KeyInit>::new(key.bytes().into()).decrypt_block(&mut last);
        for place in 0..odd {
            let stolen = bytes[whole + place];
            bytes[whole + place] ^= last[place];
            last[place] = stolen;
        }
        bytes[whole - 16..whole].copy_from_slice(&last);
    }
    let mut cipher = cbc::Decryptor::<Aes256>::new(key.bytes().into(), iv.into());
    let (blocks, _) = Block::<Aes256>::slice_as_chunks_mut(&mut bytes[..whole]);
    cipher.decrypt_blocks(blocks);
}
