//! Sealed files of other programs, read and written as those programs do. Their promises are
//! theirs: `SECURITY.md` says which of them hold.

mod aegis;
mod ascon;
mod chacha;
mod detect;
#[cfg(test)]
mod known_answers;
mod legacy;
mod settings;
mod sqlcipher;

use std::fmt;
use std::sync::Arc;

use shoal_store::vfs::Entropy;
use shoal_store::{Fault, FileHeader, PageCodec, Pgno, Refused, Shape};

pub(crate) use detect::{find, is_named, new_file};
pub(crate) use settings::Settings;

use crate::fault::FaultNote;
use crate::page::PLAIN_MAGIC;
use crate::sealed::{SealedPages, fitting_cipher};
use crate::secret::{Key, Secret};
use crate::{Cost, VaultError};

/// How a program stores pages.
pub(crate) trait Format: Send + Sync {
    /// Bytes at the end of each page.
    fn reserved(&self) -> usize;

    /// The page size, where page 1 hides it.
    fn hidden_page_size(&self) -> Option<u32> {
        None
    }

    /// The first 16 bytes of the file; `None` for those of a plain one.
    fn head(&self) -> Option<[u8; 16]>;

    /// Encrypts a page whose reserved bytes are random.
    fn encrypt(&self, pgno: u32, page: &mut [u8]);

    /// Decrypts a page; false for one with another tag than its content.
    fn decrypt(&self, pgno: u32, page: &mut [u8]) -> bool;
}

/// The codec of another program's file.
pub(crate) struct Foreign {
    pub(crate) format: Box<dyn Format>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) name: &'static str,
    pub(crate) faults: FaultNote,
}

impl Foreign {
    fn own_bytes(&self, page: &[u8]) -> usize {
        page.len().saturating_sub(self.format.reserved())
    }
}

impl PageCodec for Foreign {
    fn reserved(&self) -> u8 {
        u8::try_from(self.format.reserved()).unwrap_or(u8::MAX)
    }

    fn encode(&self, pgno: Pgno, page: &mut [u8]) -> Result<(), Refused> {
        if page.len() < 512 {
            return Err(Refused::new(Fault::Damaged, "is too short to be sealed"));
        }
        let end = self.own_bytes(page);
        self.entropy.fill(&mut page[end..]);
        self.format.encrypt(pgno.get(), page);
        if let (Pgno::FIRST, Some(head)) = (pgno, self.format.head()) {
            page[..16].copy_from_slice(&head);
        }
        Ok(())
    }

    fn decode(&self, pgno: Pgno, page: &mut [u8]) -> Result<(), Refused> {
        if page.len() < 512 || !self.format.decrypt(pgno.get(), page) {
            let why = "is not as it was written: its tag does not hold";
            return Err(self.faults.noted(Refused::new(Fault::Damaged, why)));
        }
        if pgno == Pgno::FIRST {
            page[..16].copy_from_slice(PLAIN_MAGIC);
        }
        Ok(())
    }

    fn for_temporary(&self) -> Arc<dyn PageCodec> {
        // Nobody else reads these files: they get the best seal there is.
        let secret = {
            let key = Key::filled(|key| self.entropy.fill(key));
            Secret::new(key.bytes())
        };
        match SealedPages::temporary(&secret, fitting_cipher(), &self.entropy) {
            Some(codec) => Arc::new(codec),
            None => unreachable!("keys just wrapped unwrap"),
        }
    }

    fn new_page_size(&self) -> Option<u32> {
        self.format.hidden_page_size()
    }

    fn shape(&self, stored: &[u8; FileHeader::SIZE]) -> Option<Shape> {
        let reserved = self.reserved();
        match self.format.hidden_page_size() {
            Some(page_size) => Some(Shape { page_size, versions: None, reserved }),
            None => {
                let page_size = FileHeader::stated_page_size(stored)?;
                Some(Shape { page_size, versions: Some((stored[18], stored[19])), reserved })
            }
        }
    }
}

impl fmt::Debug for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Foreign").field("format", &self.name).finish_non_exhaustive()
    }
}

/// A raw key as text: `x'...'`, `raw:...` or digits alone, of `lengths` bytes.
fn raw_key(secret: &Secret, lengths: &[usize]) -> Option<Vec<u8>> {
    let bytes = secret.bytes();
    let digits = match bytes {
        [b'x' | b'X', b'\'', digits @ .., b'\''] => digits,
        _ => {
            let rest = bytes.strip_prefix(b"raw:")?;
            if lengths.contains(&rest.len()) {
                return Some(rest.to_vec());
            }
            rest
        }
    };
    hex(digits).filter(|key| lengths.contains(&key.len()))
}

pub(crate) fn hex(digits: &[u8]) -> Option<Vec<u8>> {
    if digits.len() % 2 == 1 {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    digits.chunks(2).map(|two| Some(digit(two[0])? << 4 | digit(two[1])?)).collect()
}

/// Argon2id as other programs use it: their costs are the user's settings.
fn argon2id(
    secret: &Secret,
    salt: &[u8; 16],
    (memory_kib, passes, lanes): (u32, u32, u32),
    key: &mut [u8],
) -> Result<(), VaultError> {
    use shoal_argon::{Argon2, Inputs, Params, Variant, Version};
    let failed = |error: shoal_argon::Error| VaultError::Kdf { why: error.to_string() };
    if u64::from(memory_kib) > u64::from(Cost::MEMORY_MAX_KIB) {
        return Err(VaultError::Cost { why: "memory is 4 GiB at most" });
    }
    let params = Params::new(memory_kib, passes, lanes).map_err(failed)?;
    let inputs = Inputs { password: secret.bytes(), salt, ..Inputs::default() };
    Argon2::new(Variant::Id, Version::V0x13, params).hash(&inputs, key).map_err(failed)
}
