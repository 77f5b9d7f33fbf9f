//! Who has which key: the source of codecs that a program gives its stores.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shoal_store::vfs::{Entropy, Locked, OpenMode, Vfs};
use shoal_store::{
    Access, CodecRequest, CodecSource, Error as StoreError, Fault, PageCodec, Refused, Store,
};

use crate::VaultError;
use crate::cost::Cost;
use crate::fault::FaultNote;
use crate::foreign::{self, Settings};
use crate::new_key::NewKey;
use crate::page::{Cipher, MAGIC, PLAIN_MAGIC};
use crate::sealed::fitting_cipher;
use crate::secret::{Key, Secret};
use crate::slots::kek;
use crate::vault;

/// Asks for the passphrase of a file; `None` where nobody answers.
type Ask = Box<dyn Fn(&Path) -> Option<Secret> + Send + Sync>;

/// Costs and salt of a key of a secret, and the file it is for.
type KekOf = (Cost, [u8; 16], [u8; 16]);

/// The keys of a program, and how it gets more.
pub struct Keys {
    entropy: Arc<dyn Entropy>,
    /// The key of the main file; a new file is sealed with it.
    key: Option<Secret>,
    /// A key used where a file turns out to be sealed.
    fallback: Option<Box<dyn Fn() -> Option<Secret> + Send + Sync>>,
    ask: Option<Ask>,
    is_late: bool,
    settings: Mutex<Settings>,
    cost: Mutex<Cost>,
    known: Mutex<Known>,
    faults: FaultNote,
}

/// What was asked and computed so far.
#[derive(Default)]
struct Known {
    answers: Vec<(PathBuf, Secret)>,
    keks: Vec<(KekOf, Locked<Key>)>,
}

/// The codec of a damaged file, and the bytes of its pages where a page of keys tells.
pub type SalvagedCodec = (Arc<dyn PageCodec>, Option<u32>);

impl Keys {
    /// No keys yet.
    pub fn new(entropy: Arc<dyn Entropy>) -> Keys {
        Keys {
            entropy,
            key: None,
            fallback: None,
            ask: None,
            is_late: false,
            settings: Mutex::default(),
            cost: Mutex::default(),
            known: Mutex::default(),
            faults: FaultNote::default(),
        }
    }

    /// The key of the files to be opened, which are refused unless they are sealed; new ones will
    /// be.
    #[must_use]
    pub fn with_key(self, key: Secret) -> Keys {
        Keys { key: Some(key), ..self }
    }

    /// A key, asked for once a file turns out to be sealed.
    #[must_use]
    pub fn with_fallback_of(
        self,
        key: impl Fn() -> Option<Secret> + Send + Sync + 'static,
    ) -> Keys {
        Keys { fallback: Some(Box::new(key)), ..self }
    }

    /// Asks somebody for keys.
    #[must_use]
    pub fn asking(self, ask: impl Fn(&Path) -> Option<Secret> + Send + Sync + 'static) -> Keys {
        Keys { ask: Some(Box::new(ask)), ..self }
    }

    /// Lets keys come later, by statements.
    #[must_use]
    pub fn late(self) -> Keys {
        Keys { is_late: true, ..self }
    }

    /// The costs of keys for new files and slots.
    pub fn set_cost(&self, cost: Cost) {
        *lock(&self.cost) = cost;
    }

    /// Sets a setting of a format by the name that its programs use, such as `kdf_iter`; `cipher`
    /// names the format.
    ///
    /// # Errors
    /// [`Refused`] for a name or value there is not.
    pub fn set(&self, name: &str, value: &str) -> Result<(), Refused> {
        if name.eq_ignore_ascii_case("cipher") && !is_cipher(value) {
            let why = format!("{value} is no cipher: {CIPHERS}");
            return Err(Refused::new(Fault::NoKey, why));
        }
        lock(&self.settings).set(name, value)
    }

    /// The last fault of a file's keys or pages.
    pub fn fault(&self) -> Option<Fault> {
        self.faults.get()
    }

    /// A codec for a new file, sealed with `keys` in Shoal's own format, or with the one key of the
    /// format set.
    ///
    /// # Errors
    /// [`VaultError::OneKey`] for recipients or several keys in a format of another program;
    /// [`VaultError::Kdf`].
    pub fn new_codec(&self, keys: &[NewKey]) -> Result<Arc<dyn PageCodec>, VaultError> {
        let settings = lock(&self.settings).clone();
        let cipher = settings.cipher().and_then(|name| Cipher::named(&name));
        if cipher.is_none() && foreign::is_named(&settings) {
            let [key] = keys else { return Err(VaultError::OneKey) };
            let secret = key.as_secret().ok_or(VaultError::OneKey)?;
            if let Some(codec) = foreign::new_file(secret, &settings, &self.entropy)? {
                return Ok(codec);
            }
        }
        let cipher = cipher.unwrap_or_else(fitting_cipher);
        Ok(Arc::new(vault::create(keys, cipher, &self.entropy)?))
    }

    /// A codec for a new file, sealed with a secret, at the costs set.
    fn new_codec_of(&self, secret: &Secret) -> Result<Arc<dyn PageCodec>, VaultError> {
        let key = NewKey::secret(secret, *lock(&self.cost))?;
        self.new_codec(&[key])
    }

    /// The secret for a file, by order: a statement's, the program's, the fallback, an answer.
    fn secret_for(&self, request: &CodecRequest<'_>) -> Option<Secret> {
        if let Some(key) = request.key {
            return Some(Secret::new(key));
        }
        if let Some(key) = &self.key {
            return Some(key.clone());
        }
        if let Some(key) = self.fallback.as_ref().and_then(|fallback| fallback()) {
            return Some(key);
        }
        let known = lock(&self.known);
        let answer = known.answers.iter().find(|(path, _)| path == request.path);
        if let Some((_, secret)) = answer {
            return Some(secret.clone());
        }
        drop(known);
        let secret = self.ask.as_ref()?(request.path)?;
        lock(&self.known).answers.push((request.path.to_path_buf(), secret.clone()));
        Some(secret)
    }

    /// The key of a secret for slots of such costs and salt, remembered or not.
    fn kek(
        &self,
        (secret, remembers): (&Secret, bool),
        cost: Cost,
        salt: &[u8; 16],
        file_id: &[u8; 16],
    ) -> Result<Key, VaultError> {
        let by = (cost, *salt, *file_id);
        let known = lock(&self.known);
        let found = known.keks.iter().find(|(known, _)| *known == by);
        if let (Some((_, key)), true) = (found, remembers) {
            return Ok(Key::clone(key));
        }
        drop(known);
        let key = kek(secret, cost, salt, file_id)?;
        if remembers {
            lock(&self.known).keks.push((by, Locked::new(key.clone())));
        }
        Ok(key)
    }

    /// The codec of a damaged file, found without page 1 and with one page of keys alone; `None`
    /// for a file that is not sealed.
    ///
    /// # Errors
    /// [`VaultError::NoKey`], [`VaultError::WrongKey`]; [`VaultError::Header`] without a sound page
    /// of keys; the store's.
    pub fn salvage(
        &self,
        vfs: &Arc<dyn Vfs>,
        path: &Path,
    ) -> Result<Option<SalvagedCodec>, VaultError> {
        let (access, key) = (Access::ReadOnly, None);
        let request = CodecRequest { vfs, path, access, key, is_beside: false };
        let Some((keys, page)) = vault::find_keys(vfs, path)? else {
            return Ok(self.find(&request)?.map(|codec| (codec, None)));
        };
        let no_key = || VaultError::NoKey { path: path.to_path_buf() };
        let secret = self.secret_for(&request).ok_or_else(no_key)?;
        let page_size = u32::try_from(page.len()).ok();
        let by = (&secret, &self.entropy);
        let codec = vault::unlock(path, (keys, page), by, |cost, salt, file_id| {
            self.kek((&secret, true), cost, salt, file_id)
        })?;
        Ok(Some((Arc::new(codec), page_size)))
    }

    /// A codec for a new file in the place of a sealed one: sealed with the key of `path`.
    ///
    /// # Errors
    /// [`VaultError::NoKey`]; as [`Keys::new_codec`].
    pub fn new_codec_like(
        &self,
        vfs: &Arc<dyn Vfs>,
        path: &Path,
    ) -> Result<Arc<dyn PageCodec>, VaultError> {
        let (access, key) = (Access::ReadOnly, None);
        let request = CodecRequest { vfs, path, access, key, is_beside: false };
        let no_key = || VaultError::NoKey { path: path.to_path_buf() };
        self.new_codec_of(&self.secret_for(&request).ok_or_else(no_key)?)
    }

    fn find(&self, request: &CodecRequest<'_>) -> Result<Option<Arc<dyn PageCodec>>, VaultError> {
        let path = request.path;
        // A crashed transaction may have left anything at the beginning of the file.
        let undone = vault::undo_crashed(request.vfs, path, request.access);
        let first = first_page(request)?;
        let settings = lock(&self.settings).clone();
        let is_wanted = request.key.is_some() || self.key.is_some() && !request.is_beside;
        if first.is_empty() {
            let secret = match request.key {
                Some(key) => Some(Secret::new(key)),
                None => self.key.clone().filter(|_| !request.is_beside),
            };
            let creates = request.access != Access::ReadOnly;
            return secret.filter(|_| creates).map(|secret| self.new_codec_of(&secret)).transpose();
        }
        if first.starts_with(MAGIC) {
            let no_key = || VaultError::NoKey { path: path.to_path_buf() };
            let Some(secret) = self.secret_for(request) else {
                if !self.is_late || request.is_beside {
                    return Err(no_key());
                }
                // Until a statement brings the key, this is why others fail.
                self.faults.note(Fault::NoKey);
                return Ok(None);
            };
            // A statement's key is another one each time.
            let remembers = request.key.is_none();
            let codec = vault::open(
                request.vfs,
                (path, request.access, undone),
                (&secret, &self.entropy),
                |cost, salt, file_id| self.kek((&secret, remembers), cost, salt, file_id),
            )?;
            return Ok(Some(Arc::new(codec.noting(self.faults.clone()))));
        }
        let clear_header = settings.number("plaintext_header_size", 0) > 0;
        if first.starts_with(PLAIN_MAGIC) && !clear_header {
            return match is_wanted {
                true => Err(VaultError::Store(StoreError::Locked {
                    fault: Fault::NoKey,
                    why: format!("is not sealed, and a key was given: {}", path.display()),
                })),
                false => Ok(None),
            };
        }
        // Other programs' files look like noise: only who has a key means one of them.
        let is_named = settings.cipher().is_some() || first.starts_with(b"Turso");
        let secret = match is_wanted || self.fallback.is_some() || is_named {
            true => self.secret_for(request),
            false => None,
        };
        let Some(secret) = secret else {
            return match is_named && !self.is_late {
                true => Err(VaultError::NoKey { path: path.to_path_buf() }),
                false => Ok(None),
            };
        };
        match foreign::find(&first, &secret, &settings, (&self.entropy, &self.faults))? {
            Some(codec) => Ok(Some(codec)),
            None if is_wanted || is_named => Err(VaultError::Foreign { path: path.to_path_buf() }),
            None => Ok(None),
        }
    }
}

/// The first 64 KiB of a file, or as much as it has.
fn first_page(request: &CodecRequest<'_>) -> Result<Vec<u8>, VaultError> {
    let Some(size) = request.vfs.size(request.path).map_err(StoreError::from)? else {
        return Ok(Vec::new());
    };
    let file = request.vfs.open(request.path, OpenMode::ReadOnly).map_err(StoreError::from)?;
    let mut first = vec![0; usize::try_from(size).unwrap_or(usize::MAX).min(1 << 16)];
    let read = file.read_at(&mut first, 0).map_err(StoreError::from)?;
    first.truncate(read);
    Ok(first)
}

const CIPHERS: &str = "aes-256-gcm-siv and xchacha20-poly1305 are Shoal's; others are sqlcipher, \
    chacha20, sqleet, aegis, ascon128, aes256cbc, libsql, aegis256, aegis256x2, aegis256x4, \
    aegis128l, aegis128x2, aegis128x4, aes128gcm and aes256gcm";

fn is_cipher(name: &str) -> bool {
    let name = name.trim().trim_matches('\'').to_ascii_lowercase();
    Cipher::named(&name).is_some()
        || CIPHERS.split([' ', ',', ';']).any(|known| known == name && known.len() > 4)
        || name.strip_prefix("sqlcipher").is_some_and(|end| matches!(end, "1" | "2" | "3" | "4"))
        || name == "ascon"
}

impl CodecSource for Keys {
    fn codec(&self, request: &CodecRequest<'_>) -> Result<Option<Arc<dyn PageCodec>>, StoreError> {
        if request.key.is_some_and(<[u8]>::is_empty) {
            return Ok(None);
        }
        let found = self.find(request);
        if matches!(found, Ok(Some(_))) {
            self.faults.clear();
        }
        found.map_err(|error| {
            if let Some(fault) = error.fault() {
                self.faults.note(fault);
            }
            error.into_store(request.path)
        })
    }

    fn setting(&self, name: &str, value: Option<&str>) -> Option<Result<String, Refused>> {
        if !Settings::knows(name) {
            return None;
        }
        Some(match value {
            Some(value) => self.set(name, value).map(|()| value.to_owned()),
            None => Ok(lock(&self.settings).get(name).unwrap_or_default().to_owned()),
        })
    }

    fn is_late(&self) -> bool {
        self.is_late
    }

    fn rekey(&self, store: &Store, key: &[u8]) -> Result<(), StoreError> {
        let cost = *lock(&self.cost);
        NewKey::secret(&Secret::new(key), cost)
            .and_then(|key| vault::rekey(store, &[key]))
            .map(drop)
            .map_err(|error| error.into_store(store.path()))
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("has_key", &self.key.is_some()).finish_non_exhaustive()
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
