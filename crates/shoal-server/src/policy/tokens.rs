//! Signed tokens, checked by a file that is looked at again whenever it changes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::SystemTime;

use sha2::{Digest, Sha256};
use shoal::Environment;
use shoal_sync::{Access, Fault, Rights};

use super::{SharePolicy, Verdict, Visit};
use crate::token::{Grant, Tokens};

/// The longest file of tokens.
const FILE_MAX: u64 = 16 << 20;

/// The policy of a file of [`Tokens`]. Changes of the file take effect within a second, on open
/// sockets too; a file that cannot be read any more leaves what was read last.
pub struct TokenFile {
    environment: Environment,
    path: PathBuf,
    tokens: RwLock<Tokens>,
    seen: Mutex<Option<(SystemTime, u64)>>,
    version: AtomicU64,
    failures: AtomicU64,
}

impl TokenFile {
    /// Reads the file.
    ///
    /// # Errors
    /// The fault, with its place in the file.
    pub fn open(environment: Environment, path: &Path) -> Result<Self, String> {
        let seen = stamp(path);
        let tokens = read(path)?;
        Ok(Self {
            environment,
            path: path.to_owned(),
            tokens: RwLock::new(tokens),
            seen: Mutex::new(seen),
            version: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        })
    }
}

fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

fn read(path: &Path) -> Result<Tokens, String> {
    let length = fs::metadata(path).map_err(|error| error.to_string())?.len();
    if length > FILE_MAX {
        return Err(format!("a file of tokens has at most {FILE_MAX} bytes"));
    }
    Tokens::parse(&fs::read_to_string(path).map_err(|error| error.to_string())?)
}

/// A mark of a credential, by which its bearers are known as the same.
pub(crate) fn mark(credential: &str) -> [u8; 16] {
    let hash: [u8; 32] = Sha256::digest(credential.as_bytes()).into();
    std::array::from_fn(|at| hash[at])
}

impl SharePolicy for TokenFile {
    fn admit(&self, visit: &Visit) -> Result<Verdict, Fault> {
        let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
        let Some(token) = visit.token() else {
            let rights = Rights::from(tokens.anyone);
            return match (rights, &visit.credential) {
                (Rights::None, None) => Err(Fault::NoToken),
                (Rights::None, Some(_)) => Err(Fault::BadToken),
                _ => Ok(Verdict { access: Access::every(rights), ..Verdict::default() }),
            };
        };
        let now_s = u64::try_from(self.environment.now_seconds()).unwrap_or(0);
        let grant = tokens.check(token, now_s)?;
        let mut access = grant.access().map_err(|_| Fault::BadToken)?;
        // Whoever has a token may do what anyone may.
        access.others = access.others.max(tokens.anyone.into());
        access.owner = Some(mark(token));
        let Grant { admin: is_admin, principal, expires: expires_s, .. } = grant;
        Ok(Verdict { access, is_admin, principal, expires_s })
    }

    fn version(&self) -> u64 {
        let now = stamp(&self.path);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if now.is_some() && now != *seen {
            *seen = now;
            match read(&self.path) {
                Ok(tokens) => {
                    *self.tokens.write().unwrap_or_else(PoisonError::into_inner) = tokens;
                    self.version.fetch_add(1, Ordering::Relaxed);
                }
                Err(_) => {
                    self.failures.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        self.version.load(Ordering::Relaxed)
    }

    fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}
