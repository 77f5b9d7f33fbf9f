//! The pages of keys: pages 2 and 3 of a sealed file, with the same bytes.
//!
//! All of it is readable without a key, and nothing in it is worth reading without one. Integers
//! are little-endian.
//!
//! | at | bytes | |
//! | --- | --- | --- |
//! | 0 | 16 | `Shoal vault keys` |
//! | 16 | 2 | version of the layout: 1 |
//! | 18 | 1 | cipher of the pages: 1 AES-256-GCM-SIV, 2 XChaCha20-Poly1305 |
//! | 19 | 1 | places for slots |
//! | 20 | 4 | zero |
//! | 24 | 16 | id of the file |
//! | 40 | 24 | zero |
//! | 64 | 64 | data key of the present epoch: epoch 4, nonce 12, wrapped key 48 |
//! | 128 | 64 | data key of the epoch before, as long as pages of it are left; zero otherwise |
//! | 192 | 128 each | slots |
//! | end - 64 | 32 | SHA-256 of all bytes before |
//! | end - 32 | 32 | HMAC-SHA256 of all bytes before, by a key made of the vault key |
//!
//! A slot of a passphrase: kind 1 (1), zero 3, passes 4, memory in KiB 4, lanes 4, salt 16,
//! commitment 16, nonce 12, wrapped vault key 48, label 20. A slot of a recipient: kind 1 (2), zero
//! 3, fingerprint 8, share 32, commitment 16, wrapped vault key 48, label 20; its key is used once,
//! and the nonce is zero.

use aes_gcm_siv::aead::{AeadInOut, KeyInit};
use aes_gcm_siv::{Aes256GcmSiv, Nonce, Tag};
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use shoal_store::vfs::Entropy;
use subtle::ConstantTimeEq;

use crate::VaultError;
use crate::cost::Cost;
use crate::page::Cipher;
use crate::recipient::{Fingerprint, PrivateKey, Recipient};
use crate::secret::{Key, Secret};

const MAGIC: &[u8; 16] = b"Shoal vault keys";
const VERSION: u16 = 1;
const SLOTS_AT: usize = 192;
const SLOT_LEN: usize = 128;
const SLOTS_MAX: usize = 32;
/// SHA-256 and HMAC at the end.
const ENDS: usize = 64;
const PASSPHRASE: u8 = 1;
const RECIPIENT: u8 = 2;

/// A key of 32 bytes, encrypted: nonce, content and tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wrapped {
    nonce: [u8; 12],
    bytes: [u8; 48],
}

impl Wrapped {
    pub(crate) fn new(by: &Key, key: &Key, bound_to: &[u8], entropy: &dyn Entropy) -> Wrapped {
        let mut nonce = [0; 12];
        entropy.fill(&mut nonce);
        Wrapped::with_nonce(nonce, by, key, bound_to)
    }

    pub(crate) fn with_nonce(nonce: [u8; 12], by: &Key, key: &Key, bound_to: &[u8]) -> Wrapped {
        let mut bytes = [0; 48];
        bytes[..32].copy_from_slice(key.bytes());
        let cipher = Aes256GcmSiv::new(by.bytes().into());
        let (content, tag) = bytes.split_at_mut(32);
        let made = cipher
            .encrypt_inout_detached(&Nonce::from(nonce), bound_to, content.into())
            .expect("32 bytes are no message too long");
        tag.copy_from_slice(&made);
        Wrapped { nonce, bytes }
    }

    pub(crate) fn open(&self, by: &Key, bound_to: &[u8]) -> Option<Key> {
        let cipher = Aes256GcmSiv::new(by.bytes().into());
        let mut opened = None;
        let key = Key::filled(|key| {
            key.copy_from_slice(&self.bytes[..32]);
            let tag = Tag::try_from(&self.bytes[32..]).expect("a tag has 16 bytes");
            let nonce = Nonce::from(self.nonce);
            opened = cipher.decrypt_inout_detached(&nonce, bound_to, key.into(), &tag).ok();
        });
        opened.map(|()| key)
    }
}

/// How the key of a slot is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lock {
    /// By Argon2id of a passphrase or the content of a key file.
    Passphrase { cost: Cost, salt: [u8; 16] },
    /// By X25519 of the share and a recipient's private key.
    Recipient { fingerprint: Fingerprint, share: [u8; 32] },
}

/// A key slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    pub(crate) lock: Lock,
    commitment: [u8; 16],
    wrapped: Wrapped,
    label: [u8; 20],
}

impl Slot {
    /// A slot in which the key `kek`, made with `cost` and `salt`, wraps the vault key.
    pub(crate) fn new(
        vault_key: &Key,
        kek: &Key,
        (cost, salt): (Cost, [u8; 16]),
        file_id: &[u8; 16],
        label: &str,
        entropy: &dyn Entropy,
    ) -> Slot {
        let wrapped = Wrapped::new(&wrapping(kek), vault_key, file_id, entropy);
        Slot::locked(Lock::Passphrase { cost, salt }, kek, wrapped, label)
    }

    /// A slot opened by the private key of `recipient`. `pair` is a key pair of the slot alone.
    pub(crate) fn for_recipient(
        vault_key: &Key,
        recipient: &Recipient,
        pair: &PrivateKey,
        file_id: &[u8; 16],
        label: &str,
    ) -> Slot {
        let (share, kek) = pair.share(recipient, file_id);
        let wrapped = Wrapped::with_nonce([0; 12], &wrapping(&kek), vault_key, file_id);
        let lock = Lock::Recipient { fingerprint: recipient.fingerprint(), share };
        Slot::locked(lock, &kek, wrapped, label)
    }

    fn locked(lock: Lock, kek: &Key, wrapped: Wrapped, label: &str) -> Slot {
        let mut own = [0; 20];
        let mut end = label.len().min(own.len());
        while !label.is_char_boundary(end) {
            end -= 1;
        }
        own[..end].copy_from_slice(&label.as_bytes()[..end]);
        Slot { lock, commitment: commitment(kek, &wrapped.nonce), wrapped, label: own }
    }

    /// The costs of a passphrase's slot.
    pub fn cost(&self) -> Option<Cost> {
        match self.lock {
            Lock::Passphrase { cost, .. } => Some(cost),
            Lock::Recipient { .. } => None,
        }
    }

    /// The public key of a recipient's slot, by its fingerprint.
    pub fn recipient(&self) -> Option<Fingerprint> {
        match self.lock {
            Lock::Passphrase { .. } => None,
            Lock::Recipient { fingerprint, .. } => Some(fingerprint),
        }
    }

    /// The user's word for the slot.
    pub fn label(&self) -> String {
        String::from_utf8_lossy(&self.label).trim_end_matches('\0').to_owned()
    }

    /// True where `kek` is the slot's key, in constant time.
    fn is_of(&self, kek: &Key) -> bool {
        commitment(kek, &self.wrapped.nonce).ct_eq(&self.commitment).into()
    }

    pub(crate) fn write(&self, to: &mut [u8]) {
        match &self.lock {
            Lock::Passphrase { cost, salt } => {
                to[0] = PASSPHRASE;
                to[4..8].copy_from_slice(&cost.passes().to_le_bytes());
                to[8..12].copy_from_slice(&cost.memory_kib().to_le_bytes());
                to[12..16].copy_from_slice(&cost.lanes().to_le_bytes());
                to[16..32].copy_from_slice(salt);
                to[32..48].copy_from_slice(&self.commitment);
                to[48..60].copy_from_slice(&self.wrapped.nonce);
            }
            Lock::Recipient { fingerprint, share } => {
                to[0] = RECIPIENT;
                to[4..12].copy_from_slice(&fingerprint.0);
                to[12..44].copy_from_slice(share);
                to[44..60].copy_from_slice(&self.commitment);
            }
        }
        to[60..108].copy_from_slice(&self.wrapped.bytes);
        to[108..128].copy_from_slice(&self.label);
    }

    fn parse(bytes: &[u8; SLOT_LEN]) -> Result<Option<Slot>, String> {
        let (lock, commitment_at, nonce) = match bytes[0] {
            0 => return Ok(None),
            PASSPHRASE => {
                let cost = Cost::new(u32_at(bytes, 8), u32_at(bytes, 4), u32_at(bytes, 12))
                    .map_err(|error| error.to_string())?;
                (Lock::Passphrase { cost, salt: array(bytes, 16) }, 32, array(bytes, 48))
            }
            RECIPIENT => {
                let fingerprint = Fingerprint(array(bytes, 4));
                (Lock::Recipient { fingerprint, share: array(bytes, 12) }, 44, [0; 12])
            }
            kind => return Err(format!("kind {kind} is unknown")),
        };
        Ok(Some(Slot {
            lock,
            commitment: array(bytes, commitment_at),
            wrapped: Wrapped { nonce, bytes: array(bytes, 60) },
            label: array(bytes, 108),
        }))
    }
}

/// The content of the pages of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPage {
    pub(crate) cipher: Cipher,
    pub(crate) file_id: [u8; 16],
    pub(crate) epoch: u32,
    pub(crate) current: Wrapped,
    pub(crate) previous: Option<(u32, Wrapped)>,
    /// By place.
    pub(crate) slots: Vec<Option<Slot>>,
    pub(crate) mac: [u8; 32],
}

impl KeyPage {
    pub(crate) fn new(
        cipher: Cipher,
        file_id: [u8; 16],
        (epoch, current): (u32, Wrapped),
        slots: Vec<Slot>,
    ) -> KeyPage {
        let slots = slots.into_iter().map(Some).collect();
        KeyPage { cipher, file_id, epoch, current, previous: None, slots, mac: [0; 32] }
    }

    /// Keys of a file that nobody opens again; `key` is its data key, too.
    pub(crate) fn without_slots(
        cipher: Cipher,
        file_id: [u8; 16],
        key: &Key,
        entropy: &dyn Entropy,
    ) -> KeyPage {
        let wrapping = crate::sealed::epoch_wrapping(key);
        let bound = crate::sealed::epoch_bound(&file_id, 1);
        let current = Wrapped::new(&wrapping, key, &bound, entropy);
        KeyPage {
            cipher,
            file_id,
            epoch: 1,
            current,
            previous: None,
            slots: Vec::new(),
            mac: [0; 32],
        }
    }

    /// The slots in use, with their places.
    pub fn slots(&self) -> impl Iterator<Item = (usize, &Slot)> {
        self.slots.iter().enumerate().filter_map(|(place, slot)| Some((place, slot.as_ref()?)))
    }

    /// True while pages of an earlier data key are left.
    pub fn is_being_rekeyed(&self) -> bool {
        self.previous.is_some()
    }

    /// The epoch of the data key.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The cipher of the pages.
    pub fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// Places for slots in a page of so many bytes.
    pub(crate) fn places(page_size: usize) -> usize {
        (page_size.saturating_sub(SLOTS_AT + ENDS) / SLOT_LEN).min(SLOTS_MAX)
    }

    /// The page's bytes; `None` for too many slots.
    pub(crate) fn write(&self, page_size: usize, vault_key: &Key) -> Option<Vec<u8>> {
        let places = KeyPage::places(page_size);
        let used = self.slots.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        if used > places || page_size < 1024 {
            return None;
        }
        let mut page = vec![0; page_size];
        page[..16].copy_from_slice(MAGIC);
        page[16..18].copy_from_slice(&VERSION.to_le_bytes());
        page[18] = self.cipher.number();
        page[19] = u8::try_from(places).ok()?;
        page[24..40].copy_from_slice(&self.file_id);
        write_epoch(&mut page[64..128], self.epoch, &self.current);
        if let Some((epoch, wrapped)) = &self.previous {
            write_epoch(&mut page[128..192], *epoch, wrapped);
        }
        for (place, slot) in self.slots[..used].iter().enumerate() {
            if let Some(slot) = slot {
                let at = SLOTS_AT + place * SLOT_LEN;
                slot.write(&mut page[at..at + SLOT_LEN]);
            }
        }
        let sum = page_size - ENDS;
        let digest = Sha256::digest(&page[..sum]);
        page[sum..sum + 32].copy_from_slice(&digest);
        let mac = mac(vault_key, &page[..sum + 32]);
        page[sum + 32..].copy_from_slice(&mac);
        Some(page)
    }

    /// Reads a page. Its checksum holds afterwards; that the owner wrote it only
    /// [`KeyPage::unlock`] finds out.
    ///
    /// # Errors
    /// The part at fault, in words.
    pub(crate) fn parse(page: &[u8]) -> Result<KeyPage, String> {
        if page.len() < 1024 || !page.starts_with(MAGIC) {
            return Err("the page of keys does not begin as one".to_owned());
        }
        let sum = page.len() - ENDS;
        if Sha256::digest(&page[..sum])[..] != page[sum..sum + 32] {
            return Err("the page of keys has another checksum than its content".to_owned());
        }
        let version = u16::from_le_bytes([page[16], page[17]]);
        if version != VERSION {
            return Err(format!("layout {version} is unknown"));
        }
        let cipher =
            Cipher::numbered(page[18]).ok_or_else(|| format!("cipher {} is unknown", page[18]))?;
        let places = usize::from(page[19]);
        if places > KeyPage::places(page.len()) {
            return Err("there are more slots than a page has room for".to_owned());
        }
        let (epoch, current) = read_epoch(&page[64..128]);
        let previous = Some(read_epoch(&page[128..192])).filter(|(epoch, _)| *epoch != 0);
        let mut slots = Vec::with_capacity(places);
        for place in 0..places {
            let at = SLOTS_AT + place * SLOT_LEN;
            let bytes = page[at..].first_chunk().expect("the places lie within the page");
            slots.push(Slot::parse(bytes).map_err(|why| format!("slot {place}: {why}"))?);
        }
        let file_id = array(page, 24);
        let mac = array(page, sum + 32);
        Ok(KeyPage { cipher, file_id, epoch, current, previous, slots, mac })
    }

    /// Finds the slot of a passphrase: its place, its key and the vault key. Each pair of costs and
    /// salt is one run of Argon2id, however many slots share it.
    pub(crate) fn unlock(
        &self,
        page: &[u8],
        mut kek_of: impl FnMut(Cost, &[u8; 16]) -> Result<Key, VaultError>,
    ) -> Result<(usize, Key), Unlocked> {
        let mut tried: Vec<((Cost, [u8; 16]), Key)> = Vec::new();
        for (place, slot) in self.slots() {
            let Lock::Passphrase { cost, salt } = slot.lock else { continue };
            let by = (cost, salt);
            if !tried.iter().any(|(known, _)| *known == by) {
                tried.push((by, kek_of(cost, &salt).map_err(Unlocked::Failed)?));
            }
            let known = tried.iter().find(|(known, _)| *known == by);
            let Some((_, kek)) = known.filter(|(_, kek)| slot.is_of(kek)) else { continue };
            return self.unlock_slot(page, (place, slot), kek);
        }
        Err(Unlocked::WrongKey)
    }

    /// As [`KeyPage::unlock`], by the private key of a recipient. All slots of recipients are
    /// tried: fingerprints are for people, and anybody may have altered them.
    pub(crate) fn unlock_by(
        &self,
        page: &[u8],
        private: &PrivateKey,
    ) -> Result<(usize, Key), Unlocked> {
        for (place, slot) in self.slots() {
            let Lock::Recipient { share, .. } = &slot.lock else { continue };
            let Some(kek) = private.open(share, &self.file_id) else {
                return Err(Unlocked::Damaged(format!("the share of slot {place} is none")));
            };
            if slot.is_of(&kek) {
                return self.unlock_slot(page, (place, slot), &kek);
            }
        }
        Err(Unlocked::WrongKey)
    }

    /// Opens a slot by its key, and checks that the writer of the page had the vault key.
    fn unlock_slot(
        &self,
        page: &[u8],
        (place, slot): (usize, &Slot),
        kek: &Key,
    ) -> Result<(usize, Key), Unlocked> {
        let Some(vault_key) = slot.wrapped.open(&wrapping(kek), &self.file_id) else {
            return Err(Unlocked::Damaged(format!("slot {place} is not as it was written")));
        };
        let sum = page.len() - ENDS;
        if !bool::from(mac(&vault_key, &page[..sum + 32]).ct_eq(&self.mac)) {
            let why = "the page of keys was altered by somebody without a key";
            return Err(Unlocked::Damaged(why.to_owned()));
        }
        Ok((place, vault_key))
    }
}

/// The reasons for a locked page.
pub(crate) enum Unlocked {
    WrongKey,
    Damaged(String),
    Failed(VaultError),
}

/// The key of a secret for slots of such costs and salt.
pub(crate) fn kek(
    secret: &Secret,
    cost: Cost,
    salt: &[u8; 16],
    file_id: &[u8; 16],
) -> Result<Key, VaultError> {
    cost.key(secret, salt, &[b"shoal vault", &file_id[..]].concat())
}

fn wrapping(kek: &Key) -> Key {
    kek.derive(&[b"shoal vault wrap"])
}

fn commitment(kek: &Key, nonce: &[u8; 12]) -> [u8; 16] {
    array(kek.derive(&[b"shoal vault commit", nonce]).bytes(), 0)
}

fn mac(vault_key: &Key, bytes: &[u8]) -> [u8; 32] {
    let key = vault_key.derive(&[b"shoal vault header"]);
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key.bytes())
        .expect("HMAC takes keys of any length");
    mac.update(bytes);
    mac.finalize().into_bytes().into()
}

fn write_epoch(to: &mut [u8], epoch: u32, wrapped: &Wrapped) {
    to[..4].copy_from_slice(&epoch.to_le_bytes());
    to[4..16].copy_from_slice(&wrapped.nonce);
    to[16..64].copy_from_slice(&wrapped.bytes);
}

fn read_epoch(from: &[u8]) -> (u32, Wrapped) {
    (u32_at(from, 0), Wrapped { nonce: array(from, 4), bytes: array(from, 16) })
}

/// The epoch stated by a page of keys, unchecked.
pub(crate) fn stated_epoch(page: &[u8]) -> u32 {
    u32_at(page, 64)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("the fields lie within the page")
}
