//! The command lines of sealed databases: keys of every verb, and the verbs about keys.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Keys, as every verb takes them.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sealed databases")]
pub(crate) struct KeyArgs {
    /// A file with the passphrase or key of the database, without the line break at its end, or a
    /// private key of shoal keys new. New databases are sealed with the key. Without --key-file,
    /// sealed databases take their key from the file in SHOAL_PASSPHRASE_FILE, or ask on the
    /// terminal
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// The cipher of a new sealed database, or the format of another program's: sqlcipher,
    /// chacha20, sqleet, aegis, ascon128, aes256cbc, libsql, aegis256, aes256gcm and others;
    /// most are found out
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) cipher: Option<String>,
    /// A setting of another program's format, as that program spells it: kdf_iter=64000
    #[arg(long, global = true, value_name = "NAME=VALUE")]
    pub(crate) cipher_option: Vec<String>,
}

/// The new key of a database, and its costs.
#[derive(Debug, Args)]
pub(crate) struct NewKeyArgs {
    /// A file with the new passphrase or key [default: asks twice on a terminal, else reads stdin]
    #[arg(long, value_name = "FILE")]
    pub(crate) new_key_file: Option<PathBuf>,
    /// A public key of shoal keys new: the database opens with the private key. May be given
    /// several times, beside --new-key-file or instead of a passphrase
    #[arg(long, value_name = "PUBLIC")]
    pub(crate) recipient: Vec<String>,
    /// Seconds that making the key of the passphrase should take on this machine; more memory
    /// first, up to 1 GiB [default: 64 MiB, 3 passes, 4 lanes]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) kdf_time: Option<f64>,
}

/// `shoal encrypt`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Every page is written again, encrypted, into a new file that takes the old one's place: nobody else \
may use the database meanwhile. The blocks of the plain file may stay on the disk until something \
else is written there. docs/vault.md has the format, SECURITY.md what it promises.

Examples:
  shoal encrypt notes.db
  shoal encrypt notes.db --new-key-file secret.key
  shoal encrypt notes.db --recipient x25519:5f2c...-9a41b07cd2e8f613
  shoal sql notes.db --key-file secret.key 'SELECT count(*) FROM note'
  shoal encrypt notes.db --cipher sqlcipher --new-key-file secret.key")]
pub(crate) struct EncryptArgs {
    /// A SQLite database that is not sealed
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    #[command(flatten)]
    pub(crate) new: NewKeyArgs,
}

/// `shoal decrypt`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Takes sealed databases of other programs, too.

Examples:
  shoal decrypt notes.db --key-file secret.key
  shoal decrypt old.db --cipher sqlcipher --cipher-option kdf_iter=4000")]
pub(crate) struct DecryptArgs {
    /// A sealed database
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
}

/// `shoal rekey`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
The new keys take the place of all keys, and every page is written again under a new data key, in \
transactions of a thousand pages, with pauses in which others write. Programs that had the database \
open have to open it again with a new key. After a crash --resume goes on; the database opens with \
the new keys alone from the first transaction on. Copies of the file made before still open with the \
old keys.

Examples:
  shoal rekey notes.db --key-file old.key --new-key-file new.key
  shoal rekey notes.db --key-file new.key --resume
  shoal rekey notes.db --key-file me.key --recipient x25519:5f2c... --recipient x25519:d07a...")]
pub(crate) struct RekeyArgs {
    /// A sealed database
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    #[command(flatten)]
    pub(crate) new: NewKeyArgs,
    /// Go on where a crash ended an earlier rekey
    #[arg(long)]
    pub(crate) resume: bool,
}

/// `shoal keys`.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysVerb {
    /// List the key slots, without a key
    Ls(KeysLsArgs),
    /// Add keys: the database opens with any of its keys
    Add(KeysAddArgs),
    /// Make a key pair: the private key into a file, the public key is printed
    New(KeysNewArgs),
    /// Print the public key of a private key's file
    Public(KeysPublicArgs),
    /// Remove a key slot. Copies made before still open with its key
    Rm(KeysRmArgs),
    /// Look at every page: as it was written, in its place, and of one state of the file
    Verify(KeysLsArgs),
}

/// `shoal keys ls` and `shoal keys verify`.
#[derive(Debug, Args)]
pub(crate) struct KeysLsArgs {
    /// A sealed database
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
}

/// `shoal keys new`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Whoever has the public key can seal databases to it; opening them takes the private key, which has no \
passphrase: only its owner may read the file. The first line tells it from a passphrase.

Examples:
  shoal keys new ~/me.key > me.pub
  shoal keys add notes.db --key-file secret.key --recipient \"$(cat me.pub)\"
  shoal sql notes.db --key-file ~/me.key 'SELECT count(*) FROM note'")]
pub(crate) struct KeysNewArgs {
    /// The new file; a file there already is left alone
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// `shoal keys public`.
#[derive(Debug, Args)]
pub(crate) struct KeysPublicArgs {
    /// A private key of shoal keys new
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// `shoal keys add`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  shoal keys add notes.db --key-file secret.key
  shoal keys add notes.db --key-file secret.key --new-key-file laptop.key --label laptop
  shoal keys add notes.db --key-file secret.key --recipient x25519:5f2c... --label ada")]
pub(crate) struct KeysAddArgs {
    /// A sealed database
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    #[command(flatten)]
    pub(crate) new: NewKeyArgs,
    /// A word for the slot, of up to 20 bytes; anybody can read it
    #[arg(long, value_name = "WORD", default_value = "")]
    pub(crate) label: String,
}

/// `shoal keys rm`.
#[derive(Debug, Args)]
pub(crate) struct KeysRmArgs {
    /// A sealed database
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    /// The number of the slot, as keys ls prints it
    #[arg(value_name = "SLOT")]
    pub(crate) slot: usize,
}
