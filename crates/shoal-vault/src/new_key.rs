//! A key to be given to a file: the lock of a slot not made yet.

use shoal_store::vfs::Entropy;

use crate::VaultError;
use crate::cost::Cost;
use crate::recipient::{PrivateKey, Recipient};
use crate::secret::{Key, Secret};
use crate::slots::{Slot, kek};

/// A key for a new slot: a secret with costs, or a recipient.
#[derive(Clone)]
pub struct NewKey {
    by: By,
    label: String,
}

#[derive(Clone)]
enum By {
    Secret(Secret, Cost),
    Recipient(Recipient),
}

impl NewKey {
    /// A slot opened by the secret. A secret with the content of a private key's file makes a slot
    /// of the key's recipient, without costs.
    ///
    /// # Errors
    /// [`VaultError::PrivateKey`].
    pub fn secret(secret: &Secret, cost: Cost) -> Result<NewKey, VaultError> {
        Ok(match secret.recipient()? {
            Some(recipient) => NewKey::recipient(recipient),
            None => NewKey { by: By::Secret(secret.clone(), cost), label: String::new() },
        })
    }

    /// A slot opened by the private key of a recipient.
    pub fn recipient(recipient: Recipient) -> NewKey {
        NewKey { by: By::Recipient(recipient), label: String::new() }
    }

    /// The same with a word for people, cut after 20 bytes.
    #[must_use]
    pub fn labelled(self, label: &str) -> NewKey {
        NewKey { label: label.to_owned(), ..self }
    }

    /// The secret, unless there is a recipient instead.
    pub(crate) fn as_secret(&self) -> Option<&Secret> {
        match &self.by {
            By::Secret(secret, _) => Some(secret),
            By::Recipient(_) => None,
        }
    }

    /// A slot with this key around the vault key. A passphrase costs a run of Argon2id.
    pub(crate) fn slot(
        &self,
        vault_key: &Key,
        file_id: &[u8; 16],
        entropy: &dyn Entropy,
    ) -> Result<Slot, VaultError> {
        Ok(match &self.by {
            By::Secret(secret, cost) => {
                let mut salt = [0; 16];
                entropy.fill(&mut salt);
                let key = kek(secret, *cost, &salt, file_id)?;
                Slot::new(vault_key, &key, (*cost, salt), file_id, &self.label, entropy)
            }
            By::Recipient(recipient) => {
                let pair = PrivateKey::new(&Key::filled(|key| entropy.fill(key)));
                Slot::for_recipient(vault_key, recipient, &pair, file_id, &self.label)
            }
        })
    }
}
