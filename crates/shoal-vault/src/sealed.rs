//! The codec of Shoal's own sealed files.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use shoal_store::vfs::{Entropy, Locked};
use shoal_store::{Fault, FileHeader, PageCodec, Pgno, Refused, Seal};

use crate::fault::FaultNote;
use crate::page::{
    Cipher, EpochKeys, MAGIC, PLAIN_MAGIC, Place, SEAL, epoch_of, epoch_of_keys, state_of,
};
use crate::secret::Key;
use crate::slots::KeyPage;

/// Pages 2 and 3 hold the keys.
pub(crate) const KEY_PAGES: u32 = 2;

/// The codec of a sealed file, or of a temporary one.
pub struct SealedPages {
    keys: RwLock<Arc<Ring>>,
    entropy: Arc<dyn Entropy>,
    key_pages: u32,
    faults: FaultNote,
}

/// The keys of an open file.
pub(crate) struct Ring {
    pub(crate) page: KeyPage,
    pub(crate) vault_key: Locked<Key>,
    pub(crate) current_key: Locked<Key>,
    pub(crate) current: Locked<EpochKeys>,
    pub(crate) previous: Option<Locked<EpochKeys>>,
    /// The slot that opened the file.
    pub(crate) place: usize,
}

impl Ring {
    /// The keys of a page of keys whose vault key is known; `None` where a data key is damaged.
    pub(crate) fn new(page: KeyPage, vault_key: Key, place: usize) -> Option<Ring> {
        let wrapping = epoch_wrapping(&vault_key);
        let open = |epoch: u32, wrapped: &crate::slots::Wrapped| {
            wrapped.open(&wrapping, &epoch_bound(&page.file_id, epoch))
        };
        let keys =
            |epoch, key: &Key| Locked::new(EpochKeys::new(page.cipher, key, epoch, &page.file_id));
        let current_key = open(page.epoch, &page.current)?;
        let current = keys(page.epoch, &current_key);
        let previous = match &page.previous {
            None => None,
            Some((epoch, wrapped)) => Some(keys(*epoch, &open(*epoch, wrapped)?)),
        };
        let [vault_key, current_key] = [vault_key, current_key].map(Locked::new);
        Some(Ring { page, vault_key, current_key, current, previous, place })
    }

    fn of_epoch(&self, epoch: u32) -> Option<&EpochKeys> {
        match self.current.epoch == epoch {
            true => Some(&self.current),
            false => self.previous.as_deref().filter(|keys| keys.epoch == epoch),
        }
    }
}

/// The key that wraps data keys.
pub(crate) fn epoch_wrapping(vault_key: &Key) -> Key {
    vault_key.derive(&[b"shoal vault epochs"])
}

pub(crate) fn epoch_bound(file_id: &[u8; 16], epoch: u32) -> Vec<u8> {
    [&file_id[..], &epoch.to_le_bytes()].concat()
}

impl SealedPages {
    pub(crate) fn new(ring: Ring, entropy: Arc<dyn Entropy>) -> SealedPages {
        let keys = RwLock::new(Arc::new(ring));
        let faults = FaultNote::default();
        SealedPages { keys, entropy, key_pages: KEY_PAGES, faults }
    }

    /// The same, noting faults of pages.
    pub(crate) fn noting(self, faults: FaultNote) -> SealedPages {
        SealedPages { faults, ..self }
    }

    /// A codec for one temporary file.
    pub(crate) fn temporary(
        secret: &crate::Secret,
        cipher: Cipher,
        entropy: &Arc<dyn Entropy>,
    ) -> Option<SealedPages> {
        let mut file_id = [0; 16];
        entropy.fill(&mut file_id);
        let key = Key::filled(|key| key.copy_from_slice(secret.bytes()));
        let keys = KeyPage::without_slots(cipher, file_id, &key, &**entropy);
        let mut codec = SealedPages::new(Ring::new(keys, key, 0)?, Arc::clone(entropy));
        codec.key_pages = 0;
        Some(codec)
    }

    pub(crate) fn ring(&self) -> Arc<Ring> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_ring(&self, ring: Arc<Ring>) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = ring;
    }

    pub(crate) fn entropy(&self) -> &Arc<dyn Entropy> {
        &self.entropy
    }

    /// The page of keys as the file was opened with.
    pub fn key_page(&self) -> KeyPage {
        self.ring().page.clone()
    }

    fn is_key_page(&self, pgno: Pgno) -> bool {
        pgno != Pgno::FIRST && pgno.get() <= self.key_pages + 1
    }

    fn write(&self, seal: &Seal, pgno: Pgno, page: &mut [u8]) -> Result<(), Refused> {
        if page.len() < 512 {
            return Err(Refused::new(Fault::Damaged, "is too short to be sealed"));
        }
        if self.is_key_page(pgno) {
            return Ok(());
        }
        let mut random = [0; 16];
        self.entropy.fill(&mut random);
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let place = Place { file_id: &keys.page.file_id, pgno: pgno.get() };
        keys.current.seal(place, random, (seal.generation, seal.sum), page);
        Ok(())
    }
}

impl PageCodec for SealedPages {
    fn reserved(&self) -> u8 {
        SEAL as u8
    }

    fn encode(&self, pgno: Pgno, page: &mut [u8]) -> Result<(), Refused> {
        self.write(&Seal::default(), pgno, page)
    }

    fn encode_sealed(&self, seal: &Seal, pgno: Pgno, page: &mut [u8]) -> Result<(), Refused> {
        self.write(seal, pgno, page)
    }

    fn decode(&self, pgno: Pgno, page: &mut [u8]) -> Result<(), Refused> {
        if self.is_key_page(pgno) {
            return Ok(());
        }
        if page.len() < 512 {
            return Err(Refused::new(Fault::Damaged, "is too short to be sealed"));
        }
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let place = Place { file_id: &keys.page.file_id, pgno: pgno.get() };
        let epoch = epoch_of(page);
        let opened = match keys.of_epoch(epoch) {
            Some(by) => by.open(place, page),
            None if page.iter().all(|byte| *byte == 0) => {
                Err(Refused::new(Fault::Damaged, "is all zeroes: it was never written, or wiped"))
            }
            None if epoch == keys.current.epoch.wrapping_add(1) => Err(Refused::new(
                Fault::WrongKey,
                "was written with a later key: the file was given another key, open it again",
            )),
            None => Err(Refused::new(
                Fault::Damaged,
                "is not as it was written: it names a key the file does not have",
            )),
        };
        opened.map_err(|refused| self.faults.noted(refused))
    }

    fn for_temporary(&self) -> Arc<dyn PageCodec> {
        let mut file_id = [0; 16];
        self.entropy.fill(&mut file_id);
        let ring = self.ring();
        let current_key = Key::filled(|key| self.entropy.fill(key));
        let cipher = ring.page.cipher;
        let page = KeyPage { file_id, ..ring.page.clone() };
        let current = Locked::new(EpochKeys::new(cipher, &current_key, 1, &file_id));
        let [vault_key, current_key] = [current_key.clone(), current_key].map(Locked::new);
        let ring = Ring { page, vault_key, current_key, current, previous: None, place: 0 };
        Arc::new(SealedPages {
            keys: RwLock::new(Arc::new(ring)),
            entropy: Arc::clone(&self.entropy),
            key_pages: 0,
            faults: FaultNote::default(),
        })
    }

    fn clear_header(&self, stored: &[u8; FileHeader::SIZE]) -> Option<[u8; FileHeader::SIZE]> {
        let mut clear = *stored;
        if !stored.starts_with(MAGIC) {
            return None;
        }
        clear[..16].copy_from_slice(PLAIN_MAGIC);
        Some(clear)
    }

    fn own_pages(&self) -> u32 {
        self.key_pages
    }

    fn own_page(&self, pgno: Pgno, page_size: u32) -> Result<Vec<u8>, Refused> {
        let ring = self.ring();
        let page = ring.page.write(page_size as usize, &ring.vault_key);
        page.filter(|_| self.is_key_page(pgno)).ok_or_else(|| {
            Refused::new(
                Fault::Header,
                "has no room for its keys: sealed files have pages of 1,024 bytes or more, for 6 keys, \
                 and those of 4,096 bytes for 30",
            )
        })
    }

    fn seal(&self, first: &[u8]) -> Option<Seal> {
        if self.key_pages == 0 {
            return None;
        }
        if first.len() < 512 {
            return Some(Seal::default());
        }
        let (generation, sum) = state_of(first);
        Some(Seal { generation, sum })
    }

    fn term(&self, pgno: Pgno, stored: &[u8]) -> u128 {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let is_key_page = self.is_key_page(pgno);
        let epoch = if is_key_page { epoch_of_keys(stored) } else { epoch_of(stored) };
        match keys.of_epoch(epoch) {
            Some(by) if is_key_page => by.term_of_keys(pgno.get(), stored),
            Some(by) => by.term_of(pgno.get(), stored),
            None => 0,
        }
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl fmt::Debug for SealedPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedPages").finish_non_exhaustive()
    }
}

/// A codec that reads the header and the pages of keys of a sealed file, and nothing else: what is
/// known of the file before there is a key.
#[derive(Debug)]
pub(crate) struct HeaderOnly;

impl PageCodec for HeaderOnly {
    fn reserved(&self) -> u8 {
        SEAL as u8
    }

    fn encode(&self, _: Pgno, _: &mut [u8]) -> Result<(), Refused> {
        Err(Refused::new(Fault::NoKey, "is sealed, and cannot be written without a key"))
    }

    fn decode(&self, pgno: Pgno, page: &mut [u8]) -> Result<(), Refused> {
        if pgno == Pgno::FIRST {
            if !page.starts_with(MAGIC) {
                return Err(Refused::new(Fault::Header, "does not begin as that of a sealed file"));
            }
            page[..16].copy_from_slice(PLAIN_MAGIC);
        }
        Ok(())
    }

    fn for_temporary(&self) -> Arc<dyn PageCodec> {
        Arc::new(HeaderOnly)
    }
}

/// A cipher for a new file on this machine: AES where it has instructions for AES.
pub fn fitting_cipher() -> Cipher {
    #[cfg(target_arch = "x86_64")]
    let has_aes =
        std::is_x86_feature_detected!("aes") && std::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    let has_aes = std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let has_aes = false;
    if has_aes { Cipher::AesGcmSiv } else { Cipher::XChaCha }
}
