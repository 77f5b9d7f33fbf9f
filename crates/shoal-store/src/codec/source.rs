//! Where codecs come from: keys that a program has, or is given while a file is open.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shoal_vfs::Vfs;

use super::{Fault, PageCodec, Refused};
use crate::store::{Access, Inner};
use crate::{Error, Store};

/// A program's keys, and the formats of sealed files it knows.
pub trait CodecSource: fmt::Debug + Send + Sync {
    /// The codec of the file `path`, which may not be there yet. `None` stores pages as they are.
    /// `key` was given by a statement for this file, an empty one for none; without it the source
    /// finds the key by itself. `main` is the codec of the database that another one is opened
    /// beside.
    ///
    /// # Errors
    /// [`Refused`] without the right key, and for damage where keys are kept; others of the file.
    fn codec(&self, request: &CodecRequest<'_>) -> Result<Option<Arc<dyn PageCodec>>, Error>;

    /// A setting of the formats, by the name of a `PRAGMA`, for the next key; `None` for a name
    /// nobody knows. Without a value the answer is the setting's.
    fn setting(&self, _name: &str, _value: Option<&str>) -> Option<Result<String, Refused>> {
        None
    }

    /// True where a key may come later, by a statement: a file of an unknown format is opened, and
    /// refused when it is first used.
    fn is_late(&self) -> bool {
        false
    }

    /// Replaces the key that opened `store` by another.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the format has no such way; the store's.
    fn rekey(&self, store: &Store, _key: &[u8]) -> Result<(), Error> {
        let what = "another key for this file";
        Err(Error::Unsupported { what, path: store.path().to_path_buf() })
    }
}

/// A file whose codec is wanted.
#[derive(Clone, Copy)]
pub struct CodecRequest<'a> {
    /// The place of the file.
    pub vfs: &'a Arc<dyn Vfs>,
    /// Its path.
    pub path: &'a Path,
    /// How the file is about to be opened.
    pub access: Access,
    /// The key given by a statement.
    pub key: Option<&'a [u8]>,
    /// True for a file beside another: `ATTACH`.
    pub is_beside: bool,
}

impl fmt::Debug for CodecRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodecRequest").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A key given by a statement, until the file is used.
#[derive(Default)]
pub(crate) struct PendingKey {
    is_there: AtomicBool,
    key: Mutex<Option<Vec<u8>>>,
}

impl PendingKey {
    fn key(&self) -> MutexGuard<'_, Option<Vec<u8>>> {
        self.key.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wipe(&self) {
        self.is_there.store(false, Ordering::Relaxed);
        if let Some(mut key) = self.key().take() {
            key.fill(0);
            std::hint::black_box(&key);
        }
    }
}

impl Drop for PendingKey {
    fn drop(&mut self) {
        self.wipe();
    }
}

impl Inner {
    /// Asks the source for the codec once a key is there.
    #[inline]
    pub(crate) fn use_key(&self) -> Result<(), Error> {
        if !self.pending_key.is_there.load(Ordering::Acquire) {
            return Ok(());
        }
        let codec = {
            let key = self.pending_key.key();
            let Some(key) = &*key else { return Ok(()) };
            self.codec_by(Some(key))?
        };
        self.pending_key.wipe();
        let Some(codec) = codec else { return Ok(()) };
        let mut state = self.state();
        if state.transactions > 0 || self.codec.set(codec).is_err() {
            return Err(Error::Misuse("a key was given for a file in use"));
        }
        self.is_locked.store(false, Ordering::Release);
        state.forget();
        Ok(())
    }

    /// The error of a file that needs a key.
    pub(crate) fn no_key(&self) -> Error {
        let path = self.path.display();
        let why = format!("is not a database, or is sealed and needs a key: {path}");
        Error::Locked { fault: Fault::NoKey, why }
    }

    fn codec_by(&self, key: Option<&[u8]>) -> Result<Option<Arc<dyn PageCodec>>, Error> {
        let Some(source) = &self.options.codecs else { return Ok(None) };
        source.codec(&CodecRequest {
            vfs: &self.vfs,
            path: &self.real_path,
            access: self.options.access,
            key,
            is_beside: false,
        })
    }
}

impl Store {
    /// Gives the key of the file, used when the next transaction begins: of a sealed file not
    /// opened yet, or of a new one, which is sealed by its first commit.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a file in use, [`Error::Unsupported`] in a program without formats of
    /// sealed files.
    pub fn set_key(&self, key: &[u8]) -> Result<(), Error> {
        let inner = &self.inner;
        if inner.options.codecs.is_none() || inner.path == Path::new(":memory:") {
            let what = "a key for this database";
            return Err(Error::Unsupported { what, path: inner.path.clone() });
        }
        if inner.codec().is_some() {
            return Ok(());
        }
        *inner.pending_key.key() = Some(key.to_vec());
        inner.pending_key.is_there.store(true, Ordering::Release);
        Ok(())
    }

    /// Sets or reads a setting of the formats of sealed files; `None` for a name nobody knows.
    pub fn codec_setting(
        &self,
        name: &str,
        value: Option<&str>,
    ) -> Option<Result<String, Refused>> {
        self.inner.options.codecs.as_ref()?.setting(name, value)
    }

    /// Replaces the key that opened the file by another.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a file without keys; the source's.
    pub fn rekey(&self, key: &[u8]) -> Result<(), Error> {
        self.inner.use_key()?;
        match (&self.inner.options.codecs, self.inner.codec()) {
            (Some(source), Some(_)) => source.rekey(self, key),
            _ => {
                let what = "another key for a file that is not sealed";
                Err(Error::Unsupported { what, path: self.inner.path.clone() })
            }
        }
    }

    /// An error for a file that waits for its key: until then it looks empty.
    ///
    /// # Errors
    /// [`Error::Locked`].
    pub fn check_unlocked(&self) -> Result<(), Error> {
        self.inner.use_key()?;
        match self.inner.is_locked.load(Ordering::Acquire) {
            true => Err(self.inner.no_key()),
            false => Ok(()),
        }
    }

    /// The codec of the file's pages.
    pub fn codec(&self) -> Option<&Arc<dyn PageCodec>> {
        self.inner.codec()
    }

    /// The refusal of a file without a key.
    pub(crate) fn is_refused_for_now(&self, error: &Error) -> bool {
        let late = self.inner.options.codecs.as_ref().is_some_and(|source| source.is_late());
        late && self.inner.codec().is_none()
            && matches!(
                error,
                Error::NotADatabase { .. } | Error::Locked { fault: Fault::NoKey, .. }
            )
    }
}
