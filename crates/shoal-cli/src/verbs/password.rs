//! `shoal hash-password` and `shoal verify-password`.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::Path;

use shoal_argon::{
    Argon2, Inputs, Isa, Limits, Options, Params, PasswordHash, Variant, VerifyError, Version,
};
use shoal_vfs::{Entropy, OsEntropy};
use zeroize::Zeroizing;

use crate::args::password::{HashPasswordArgs, KernelArgs, VerifyPasswordArgs};
use crate::failure::Failure;
use crate::out;
use crate::progress::spin;

pub(crate) fn hash(args: &HashPasswordArgs) -> Result<(), Failure> {
    let refused = |error: shoal_argon::Error| Failure::at("hash-password", error);
    let params = Params::new(args.memory_kib, args.passes, args.lanes).map_err(refused)?;
    let options = options(&args.kernel)?;
    let secret = secret(args.secret_file.as_deref())?;
    let password = password(true)?;
    let mut salt = [0; 16];
    OsEntropy.fill(&mut salt);
    let inputs = Inputs { password: &password, salt: &salt, secret: &secret, ..Inputs::default() };
    let function = Argon2::new(Variant::Id, Version::V0x13, params);
    let hash = spin("hashing", || {
        PasswordHash::new(function, &inputs, args.tag_length as usize, &options)
    })
    .map_err(refused)?;
    out::line(hash.encode())?;
    Ok(())
}

pub(crate) fn verify(args: &VerifyPasswordArgs) -> Result<(), Failure> {
    let refused = |error: VerifyError| match error {
        VerifyError::Mismatch => Failure::at("verify-password", error).code(OTHER_PASSWORD),
        VerifyError::Limit { .. } => Failure::at("verify-password", error)
            .hint("--max-memory-kib and --max-work-kib raise the limits, if you trust the hash"),
        error => Failure::at("verify-password", error),
    };
    let limits = Limits {
        memory_kib: args.max_memory_kib,
        work_kib: args.max_work_kib,
        ..Limits::default()
    };
    // Refused before anybody is asked for a password.
    let hash = PasswordHash::parse(args.hash.trim_end(), &limits).map_err(refused)?;
    let options = options(&args.kernel)?;
    let secret = secret(args.secret_file.as_deref())?;
    let password = password(false)?;
    let inputs = Inputs { password: &password, secret: &secret, ..Inputs::default() };
    spin("hashing", || hash.verify(&inputs, &options)).map_err(refused)
}

/// The exit code for a password that is not the one that was hashed.
const OTHER_PASSWORD: u8 = 3;

/// How to run a hash, as the command line or the environment has it.
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

/// Asks for the password, twice if it is `new`, or reads it from a stdin that is no terminal.
fn password(new: bool) -> Result<Zeroizing<Vec<u8>>, Failure> {
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
fn secret(file: Option<&Path>) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let Some(path) = file else { return Ok(Zeroizing::default()) };
    let place = path.display().to_string();
    let file = File::open(path).map_err(|error| Failure::at(&place, error))?;
    read(&place, file)
}

/// Reads a secret to its end. The room for it is taken at once, so that growing leaves no copies.
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
