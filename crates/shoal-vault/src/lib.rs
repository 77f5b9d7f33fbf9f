//! Sealed database files: codecs beneath the pager that encrypt every page, and the keys they need.
//!
//! [`Keys`] is what a program hands to [`shoal_store::Options::codecs`]: it knows a passphrase or
//! asks for one, tells formats of sealed files apart, and gives each file its codec. The modules,
//! ground first: `secret`, `cost` and `recipient` (keys), `page` (a page sealed and opened),
//! `slots` (the pages of keys), `new_key` (keys to be given to a file), `sealed` (the codec of
//! Shoal's own format), `vault` (files opened, made and given other keys), `foreign` (formats of
//! other programs), `keys` (who has which key).
//! `docs/vault.md` has the layout, `SECURITY.md` the promises.
//!
//! ```
//! use std::path::Path;
//! use std::sync::Arc;
//! use shoal_store::vfs::{MemVfs, OsEntropy, Entropy};
//! use shoal_store::{Access, Mode, Options, Store};
//! use shoal_vault::{Cipher, Cost, NewKey, Secret};
//!
//! let entropy: Arc<dyn Entropy> = Arc::new(OsEntropy);
//! let secret = Secret::new(b"correct horse battery staple");
//! let key = NewKey::secret(&secret, Cost::least())?;
//! let codec = shoal_vault::create(&[key], Cipher::default(), &entropy)?;
//! let options = Options { codec: Some(Arc::new(codec)), ..Options::new(Access::Create) };
//! let store = Store::open_with(Arc::new(MemVfs::new()), Path::new("notes.db"), options)?;
//! let mut transaction = store.begin(Mode::Write)?;
//! transaction.set_user_version(7)?;
//! transaction.commit()?;
//! assert_eq!(shoal_vault::verify(&store)?, 3);
//! # Ok::<(), shoal_vault::VaultError>(())
//! ```

#![forbid(unsafe_code)]

mod cost;
mod error;
mod fault;
mod foreign;
mod keys;
#[cfg(test)]
mod known_answers;
mod new_key;
mod page;
mod recipient;
mod sealed;
mod secret;
mod slots;
mod vault;

pub use cost::Cost;
pub use error::VaultError;
pub use keys::{Keys, SalvagedCodec};
pub use new_key::NewKey;
pub use page::Cipher;
pub use recipient::{Fingerprint, Recipient, new_pair};
pub use sealed::{SealedPages, fitting_cipher};
pub use secret::Secret;
pub use slots::{KeyPage, Slot};
pub use vault::{
    RekeyProgress, add_slot, begin_rekey, create, finish_rekey, key_page, rekey, rekey_step,
    remove_slot, slots, verify,
};
