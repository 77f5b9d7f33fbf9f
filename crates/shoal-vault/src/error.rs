//! Errors of keys and key slots. None of them holds a secret.

use std::path::PathBuf;

use shoal_store::{Error as StoreError, Fault};

/// An error of a sealed file's keys.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VaultError {
    /// The costs of a key are out of bounds.
    #[error("the costs of a key: {why}")]
    Cost {
        /// The bound.
        why: &'static str,
    },
    /// A key could not be computed.
    #[error("the key could not be computed: {why}")]
    Kdf {
        /// The reason.
        why: String,
    },
    /// The file is sealed, and there is no key.
    #[error("is sealed, and needs a key: {}", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// No slot opens with the key.
    #[error("the key opens none of the key slots: {}", path.display())]
    WrongKey {
        /// The file.
        path: PathBuf,
    },
    /// No format of another program fits the file and the key.
    #[error("the key opens the file in no known format (is it the right one, \
             and are settings needed?): {}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A text other than the public key of a recipient.
    #[error("a recipient's public key {why}")]
    Recipient {
        /// The broken rule.
        why: &'static str,
    },
    /// A file with the first line of a private key, and without the key behind the line.
    #[error("the private key is damaged: behind its first line are 64 hexadecimal digits")]
    PrivateKey,
    /// A file of another program's format was to be sealed to recipients, or with several keys.
    #[error("the cipher is another program's: its files take one passphrase, and no recipients")]
    OneKey,
    /// The pages of keys are damaged or were altered.
    #[error("the key slots are damaged, {why}: {}", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// The part at fault.
        why: String,
    },
    /// A slot that there is not, or that has to stay.
    #[error("key slot {slot} {why}")]
    Slot {
        /// The number, counted from 0.
        slot: usize,
        /// The reason.
        why: &'static str,
    },
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl VaultError {
    /// The kind of fault, where the file or its key has one.
    pub fn fault(&self) -> Option<Fault> {
        match self {
            VaultError::NoKey { .. } => Some(Fault::NoKey),
            VaultError::WrongKey { .. } | VaultError::Foreign { .. } | VaultError::PrivateKey => {
                Some(Fault::WrongKey)
            }
            VaultError::Header { .. } => Some(Fault::Header),
            VaultError::Store(StoreError::Refused { fault, .. }) => Some(*fault),
            _ => None,
        }
    }

    /// The same as an error of the store, for a file being opened.
    pub(crate) fn into_store(self, path: &std::path::Path) -> StoreError {
        let fault = self.fault();
        match (self, fault) {
            (VaultError::Store(error), _) => error,
            (error, Some(fault)) => StoreError::Locked { fault, why: error.to_string() },
            (error, None) => StoreError::Locked {
                fault: Fault::Header,
                why: format!("{error}: {}", path.display()),
            },
        }
    }
}
