//! `shoal hash-password`: a string to keep instead of a password.

use shoal_argon::{Argon2, Inputs, Params, PasswordHash, Variant, Version};
use shoal_vfs::{Entropy, OsEntropy};

use crate::args::password::HashPasswordArgs;
use crate::failure::Failure;
use crate::out;
use crate::password::{options, password, secret};
use crate::progress::spin;

pub(crate) fn run(args: &HashPasswordArgs) -> Result<(), Failure> {
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
