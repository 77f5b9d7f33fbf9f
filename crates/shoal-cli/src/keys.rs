//! The keys of sealed databases: from files, the environment, or somebody at the terminal.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use shoal::Environment;
use shoal_store::{CodecSource, Fault};
use shoal_vault::{Cost, Keys, NewKey, Recipient, Secret};
use shoal_vfs::OsEntropy;

use crate::args::vault::{KeyArgs, NewKeyArgs};
use crate::args::{Cli, Verb};
use crate::failure::Failure;
use crate::{out, password};

/// The keys of this process, set before any verb runs.
static KEYS: OnceLock<Arc<Keys>> = OnceLock::new();

/// Names the file of a passphrase for databases that turn out to be sealed.
const PASSPHRASE_FILE: &str = "SHOAL_PASSPHRASE_FILE";

/// Takes the keys of the command line.
pub(crate) fn take(cli: &Cli) -> Result<(), Failure> {
    let KeyArgs { key_file, cipher, cipher_option } = &cli.keys;
    if matches!(cli.verb, Verb::Encrypt(_)) && key_file.is_some() {
        // The new key would be read from stdin.
        let why = "is the key of a database that is sealed: encrypt takes --new-key-file";
        return Err(Failure::at("--key-file", why).code(2));
    }
    let mut keys = Keys::new(Arc::new(OsEntropy));
    if let Some(file) = key_file {
        keys = keys.with_key(Secret::new(&password::key_file(file)?));
    } else if let Some(file) = std::env::var_os(PASSPHRASE_FILE).filter(|file| !file.is_empty()) {
        // The file is read only where a database is sealed: a verb without one needs none.
        keys = keys.with_fallback_of(move || {
            password::key_file(Path::new(&file)).ok().map(|bytes| Secret::new(&bytes))
        });
    }
    if io::stdin().is_terminal() {
        keys = keys.asking(|path| {
            let prompt = format!("Passphrase of {}: ", path.display());
            let typed = rpassword::prompt_password(prompt).ok()?;
            let typed = zeroize::Zeroizing::new(typed.into_bytes());
            Some(Secret::new(&typed))
        });
    }
    if matches!(cli.verb, Verb::Sql(_)) && !io::stdin().is_terminal() {
        keys = keys.late();
    }
    let refused = |why: String| Failure::at("--cipher or --cipher-option", why).code(2);
    if let Some(name) = cipher {
        keys.set("cipher", name).map_err(|error| refused(error.why))?;
    }
    for option in cipher_option {
        let Some((name, value)) = option.split_once('=') else {
            return Err(refused(format!("{option} is not NAME=VALUE")));
        };
        keys.set(name, value).map_err(|error| refused(error.why))?;
    }
    let _ = KEYS.set(Arc::new(keys));
    tell_unlocked_memory();
    Ok(())
}

/// Says once where the system has refused to lock the memory of keys.
pub(crate) fn tell_unlocked_memory() {
    static IS_TOLD: AtomicBool = AtomicBool::new(false);
    if shoal_vfs::is_memory_lock_refused() && !IS_TOLD.swap(true, Ordering::Relaxed) {
        out::note("keys may be swapped out: the system locks no more memory (ulimit -l)");
    }
}

/// The keys of this process.
pub(crate) fn keys() -> Arc<Keys> {
    Arc::clone(KEYS.get_or_init(|| Arc::new(Keys::new(Arc::new(OsEntropy)))))
}

/// The operating system, with these keys.
pub(crate) fn environment() -> Environment {
    Environment::os().with_codecs(keys() as Arc<dyn CodecSource>)
}

/// The exit code of a failure, where a sealed database has a fault.
pub(crate) fn code(fault: Fault) -> u8 {
    match fault {
        Fault::NoKey => 10,
        Fault::WrongKey => 11,
        Fault::Header => 12,
        Fault::Damaged => 13,
        Fault::Moved => 14,
        Fault::Old => 15,
    }
}

/// The exit code of a failure of this process: its own, or that of the last fault of a sealed
/// database.
pub(crate) fn code_of(failure: &Failure) -> u8 {
    let fault = KEYS.get().and_then(|keys| keys.fault());
    match fault {
        Some(fault) if failure.code == 1 => code(fault),
        _ => failure.code,
    }
}

/// The new keys of a verb: recipients, and a passphrase or key where one is named or there is no
/// recipient.
pub(crate) fn new_keys(args: &NewKeyArgs) -> Result<Vec<NewKey>, Failure> {
    let mut keys = Vec::new();
    for text in &args.recipient {
        let recipient: Recipient =
            text.parse().map_err(|why| Failure::at("--recipient", why).code(2))?;
        keys.push(NewKey::recipient(recipient));
    }
    if !keys.is_empty() && args.new_key_file.is_none() {
        return match args.kdf_time {
            None => Ok(keys),
            Some(_) => {
                let why = "is of a passphrase, and there are recipients alone";
                Err(Failure::at("--kdf-time", why).code(2))
            }
        };
    }
    let cost = match args.kdf_time {
        None => Cost::default(),
        Some(seconds) if (0.0..=3600.0).contains(&seconds) => {
            Cost::taking(seconds).map_err(Failure::new)?
        }
        Some(_) => return Err(Failure::new("--kdf-time is 0 to 3600 seconds").code(2)),
    };
    let bytes = match &args.new_key_file {
        Some(file) => password::key_file(file)?,
        None => password::password(true)?,
    };
    if bytes.is_empty() {
        return Err(Failure::new("an empty key is none"));
    }
    keys.push(NewKey::secret(&Secret::new(&bytes), cost).map_err(Failure::new)?);
    Ok(keys)
}
