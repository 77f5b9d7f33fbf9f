//! AEGIS and AES-GCM: SQLite3 Multiple Ciphers' and Turso's.

use aegis::{aegis128l, aegis128x2, aegis128x4, aegis256, aegis256x2, aegis256x4};
use aes_gcm::aead::{AeadInOut, KeyInit};

use super::{Format, Settings, argon2id, hex, raw_key};
use crate::VaultError;
use crate::secret::{Key, Secret};
use crate::slots::array;

/// A member of the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    L128,
    X2128,
    X4128,
    K256,
    X2256,
    X4256,
    Gcm128,
    Gcm256,
}

impl Kind {
    /// By the name of SQLite3 Multiple Ciphers, or by Turso's without dashes.
    pub(crate) fn named(name: &str) -> Option<Kind> {
        Some(match &*name.to_ascii_lowercase().replace('-', "") {
            "aegis128l" | "1" => Kind::L128,
            "aegis128x2" | "2" => Kind::X2128,
            "aegis128x4" | "3" => Kind::X4128,
            "aegis256" | "4" => Kind::K256,
            "aegis256x2" | "5" => Kind::X2256,
            "aegis256x4" | "6" => Kind::X4256,
            "aes128gcm" => Kind::Gcm128,
            "aes256gcm" => Kind::Gcm256,
            _ => return None,
        })
    }

    /// By the byte in Turso's header.
    pub(crate) fn numbered(number: u8) -> Option<Kind> {
        [
            Kind::Gcm128,
            Kind::Gcm256,
            Kind::K256,
            Kind::X2256,
            Kind::X4256,
            Kind::L128,
            Kind::X2128,
            Kind::X4128,
        ]
        .get(usize::from(number).checked_sub(1)?)
        .copied()
    }

    fn number(self) -> u8 {
        (1..=8).find(|number| Kind::numbered(*number) == Some(self)).unwrap_or(0)
    }

    pub(crate) fn key_len(self) -> usize {
        match self {
            Kind::L128 | Kind::X2128 | Kind::X4128 | Kind::Gcm128 => 16,
            _ => 32,
        }
    }

    pub(crate) fn nonce_len(self) -> usize {
        match self {
            Kind::Gcm128 | Kind::Gcm256 => 12,
            other => other.key_len(),
        }
    }

    /// Encrypts in place; the tag.
    pub(super) fn encrypt<const T: usize>(
        self,
        key: &[u8],
        nonce: &[u8],
        ad: &[u8],
        bytes: &mut [u8],
    ) -> Vec<u8> {
        macro_rules! by {
            ($of:ident :: $name:ident) => {
                $of::$name::<T>::new(&array(key, 0), &array(nonce, 0))
                    .encrypt_in_place(bytes, ad)
                    .to_vec()
            };
        }
        match self {
            Kind::L128 => by!(aegis128l::Aegis128L),
            Kind::X2128 => by!(aegis128x2::Aegis128X2),
            Kind::X4128 => by!(aegis128x4::Aegis128X4),
            Kind::K256 => by!(aegis256::Aegis256),
            Kind::X2256 => by!(aegis256x2::Aegis256X2),
            Kind::X4256 => by!(aegis256x4::Aegis256X4),
            Kind::Gcm128 => {
                let cipher = aes_gcm::Aes128Gcm::new(&array::<16>(key, 0).into());
                let nonce = array::<12>(nonce, 0).into();
                cipher.encrypt_inout_detached(&nonce, ad, bytes.into()).expect(SHORT).to_vec()
            }
            Kind::Gcm256 => {
                let cipher = aes_gcm::Aes256Gcm::new(&array::<32>(key, 0).into());
                let nonce = array::<12>(nonce, 0).into();
                cipher.encrypt_inout_detached(&nonce, ad, bytes.into()).expect(SHORT).to_vec()
            }
        }
    }

    /// Decrypts in place; false for another tag.
    pub(super) fn decrypt<const T: usize>(
        self,
        key: &[u8],
        nonce: &[u8],
        ad: &[u8],
        tag: &[u8],
        bytes: &mut [u8],
    ) -> bool {
        macro_rules! by {
            ($of:ident :: $name:ident) => {
                $of::$name::<T>::new(&array(key, 0), &array(nonce, 0))
                    .decrypt_in_place(bytes, &array(tag, 0), ad)
                    .is_ok()
            };
        }
        match self {
            Kind::L128 => by!(aegis128l::Aegis128L),
            Kind::X2128 => by!(aegis128x2::Aegis128X2),
            Kind::X4128 => by!(aegis128x4::Aegis128X4),
            Kind::K256 => by!(aegis256::Aegis256),
            Kind::X2256 => by!(aegis256x2::Aegis256X2),
            Kind::X4256 => by!(aegis256x4::Aegis256X4),
            Kind::Gcm128 => {
                let cipher = aes_gcm::Aes128Gcm::new(&array::<16>(key, 0).into());
                let (nonce, tag) = (array::<12>(nonce, 0).into(), array::<16>(tag, 0).into());
                cipher.decrypt_inout_detached(&nonce, ad, bytes.into(), &tag).is_ok()
            }
            Kind::Gcm256 => {
                let cipher = aes_gcm::Aes256Gcm::new(&array::<32>(key, 0).into());
                let (nonce, tag) = (array::<12>(nonce, 0).into(), array::<16>(tag, 0).into());
                cipher.decrypt_inout_detached(&nonce, ad, bytes.into(), &tag).is_ok()
            }
        }
    }

    /// Bytes of the key stream.
    fn stream(self, key: &[u8], nonce: &[u8], out: &mut [u8]) {
        macro_rules! by {
            ($of:ident :: $name:ident) => {
                $of::$name::<16>::new(&array(key, 0), &array(nonce, 0)).stream(out)
            };
        }
        match self {
            Kind::L128 => by!(aegis128l::Aegis128L),
            Kind::X2128 => by!(aegis128x2::Aegis128X2),
            Kind::X4128 => by!(aegis128x4::Aegis128X4),
            Kind::K256 => by!(aegis256::Aegis256),
            Kind::X2256 => by!(aegis256x2::Aegis256X2),
            Kind::X4256 => by!(aegis256x4::Aegis256X4),
            Kind::Gcm128 | Kind::Gcm256 => out.fill(0),
        }
    }
}

const SHORT: &str = "a page is no message too long";

/// SQLite3 Multiple Ciphers' AEGIS: a key and a nonce for each page, made of a random one and the
/// page's number.
pub(crate) struct Aegis {
    kind: Kind,
    key: Key,
    salt: [u8; 16],
}

impl Aegis {
    pub(crate) fn new(
        secret: &Secret,
        settings: &Settings,
        salt: [u8; 16],
        kind: Kind,
    ) -> Result<Aegis, VaultError> {
        let mut salt = salt;
        let len = kind.key_len();
        let raw = raw_key(secret, &[len, len + 16]);
        let mut made = Ok(());
        if let Some(raw) = raw.as_deref().filter(|raw| raw.len() == len + 16) {
            salt.copy_from_slice(&raw[len..]);
        }
        let key = Key::filled(|key| match &raw {
            Some(raw) => key[..len].copy_from_slice(&raw[..len]),
            None => {
                let number = |name, default| settings.number(name, default);
                let costs = (number("mcost", 19 << 10), number("tcost", 2), number("pcost", 1));
                made = argon2id(secret, &salt, costs, &mut key[..len]);
            }
        });
        made.map(|()| Aegis { kind, key, salt })
    }

    fn page_key(&self, pgno: u32, nonce: &[u8]) -> [u8; 64] {
        let mut made = [0; 64];
        let len = self.kind.key_len() + self.kind.nonce_len();
        self.kind.stream(self.key.bytes(), nonce, &mut made[..len]);
        made[len - 4..len].copy_from_slice(&pgno.to_be_bytes());
        made
    }
}

impl Format for Aegis {
    fn reserved(&self) -> usize {
        32 + self.kind.nonce_len()
    }

    fn head(&self) -> Option<[u8; 16]> {
        Some(self.salt)
    }

    fn encrypt(&self, pgno: u32, page: &mut [u8]) {
        let (start, end) = (if pgno == 1 { 24 } else { 0 }, page.len() - self.reserved());
        let (content, own) = page.split_at_mut(end);
        let made = self.page_key(pgno, &own[32..]);
        let (key, nonce) = made.split_at(self.kind.key_len());
        let tag = self.kind.encrypt::<32>(key, nonce, &[], &mut content[start..]);
        own[..32].copy_from_slice(&tag);
    }

    fn decrypt(&self, pgno: u32, page: &mut [u8]) -> bool {
        let (start, end) = (if pgno == 1 { 24 } else { 0 }, page.len() - self.reserved());
        let (content, own) = page.split_at_mut(end);
        let made = self.page_key(pgno, &own[32..]);
        let (key, nonce) = made.split_at(self.kind.key_len());
        self.kind.decrypt::<32>(key, nonce, &[], &own[..32], &mut content[start..])
    }
}

/// Turso's files: the key is given in hexadecimal, and the first page's header is clear.
pub(crate) struct Turso {
    kind: Kind,
    key: Key,
}

/// The first bytes of Turso's files; version, cipher and zeroes follow.
pub(crate) const TURSO: &[u8; 5] = b"Turso";

impl Turso {
    /// `None` for a key of another length.
    pub(crate) fn new(secret: &Secret, kind: Kind) -> Option<Turso> {
        let bytes = secret.bytes();
        let digits = match bytes {
            [b'x' | b'X', b'\'', digits @ .., b'\''] => digits,
            digits => digits,
        };
        let mut raw = hex(digits).filter(|raw| raw.len() == kind.key_len())?;
        let key = Key::filled(|key| key[..raw.len()].copy_from_slice(&raw));
        zeroize::Zeroize::zeroize(&mut raw);
        Some(Turso { kind, key })
    }

    fn head_bytes(&self) -> [u8; 16] {
        let mut head = [0; 16];
        head[..5].copy_from_slice(TURSO);
        head[6] = self.kind.number();
        head
    }
}

impl Format for Turso {
    fn reserved(&self) -> usize {
        16 + self.kind.nonce_len()
    }

    fn head(&self) -> Option<[u8; 16]> {
        Some(self.head_bytes())
    }

    fn encrypt(&self, pgno: u32, page: &mut [u8]) {
        if pgno == 1 {
            page[..16].copy_from_slice(&self.head_bytes());
        }
        let end = page.len() - self.reserved();
        let (content, own) = page.split_at_mut(end);
        let (ad, content) = content.split_at_mut(if pgno == 1 { 100 } else { 0 });
        let tag = self.kind.encrypt::<16>(self.key.bytes(), &own[16..], ad, content);
        own[..16].copy_from_slice(&tag);
    }

    fn decrypt(&self, pgno: u32, page: &mut [u8]) -> bool {
        let end = page.len() - self.reserved();
        let (content, own) = page.split_at_mut(end);
        let (ad, content) = content.split_at_mut(if pgno == 1 { 100 } else { 0 });
        self.kind.decrypt::<16>(self.key.bytes(), &own[16..], ad, &own[..16], content)
    }
}
