//! `shoal verify-password`: compares a password with a stored hash.

use shoal_argon::{Inputs, Limits, PasswordHash, VerifyError};

use crate::args::password::VerifyPasswordArgs;
use crate::failure::Failure;
use crate::password::{options, password, secret};
use crate::progress::spin;

pub(crate) fn run(args: &VerifyPasswordArgs) -> Result<(), Failure> {
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

/// The exit code for a password other than the hashed one.
const OTHER_PASSWORD: u8 = 3;
