//! Passwords, secret keys and the options of a hash, as the hashing verbs take them.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::Path;

use shoal_argon::{Isa, Options};
use zeroize::Zeroizing;

use crate::args::password::KernelArgs;
use crate::failure::Failure;

/// Options of a hash from the command line or the environment; they never change the tag.
pub(crate) fn options(args: &KernelArgs) -> Result<Options<'static>, Failure> {
    let mut options = Options::default();
    if let Some(name) = &args.isa {
        let isa = Isa::named(name).map_err(|error| Failure::at("--isa or SHOAL_ISA", error))?;
        options = options.isa(isa);
    }
    if let Some(threads) = args.threads {
        options = options.threads(threads);
    }
    Ok(options)
}

/// Asks for the password on a terminal, twice if `new`; reads the password from any other stdin.
pub(crate) fn password(new: bool) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        let mut password = read("stdin", stdin.lock())?;
        if password.last() == Some(&b'\n') {
            password.pop();
            if password.last() == Some(&b'\r') {
                password.pop();
            }
        }
        return Ok(password);
    }
    let ask = |prompt: &str| {
        rpassword::prompt_password(prompt)
            .map(|password| Zeroizing::new(password.into_bytes()))
            .map_err(|error| Failure::at("the terminal", error))
    };
    let password = ask("Password: ")?;
    if new && *ask("Once more: ")? != *password {
        return Err(Failure::new("the two passwords differ"));
    }
    Ok(password)
}

/// The secret key of the file, or none.
pub(crate) fn secret(file: Option<&Path>) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let Some(path) = file else { return Ok(Zeroizing::default()) };
    let place = path.display().to_string();
    let file = File::open(path).map_err(|error| Failure::at(&place, error))?;
    read(&place, file)
}

/// The passphrase or key of a file, without the line break at its end.
pub(crate) fn key_file(path: &Path) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let mut key = secret(Some(path))?;
    if key.last() == Some(&b'\n') {
        key.pop();
        if key.last() == Some(&b'\r') {
            key.pop();
        }
    }
    match key.is_empty() {
        true => Err(Failure::at(path.display(), "an empty key is none")),
        false => Ok(key),
    }
}

/// Reads a secret to its end. All room is taken at once: a growing buffer would leave copies of the
/// secret in freed memory.
fn read(place: &str, source: impl Read) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(SECRET_MAX + 1));
    source
        .take(SECRET_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::at(place, error))?;
    if bytes.len() > SECRET_MAX {
        return Err(Failure::at(place, format_args!("a secret has at most {SECRET_MAX} bytes")));
    }
    Ok(bytes)
}

/// Most bytes of a password or secret key.
const SECRET_MAX: usize = 64 * 1024;
