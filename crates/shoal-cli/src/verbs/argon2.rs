//! `shoal argon2`: one tag in hexadecimal.

use shoal_argon::{Argon2, Inputs, Params, Variant, Version};
use shoal_stdx::hex;

use crate::args::{Argon2Args, Argon2Type, Argon2Version, Format};
use crate::failure::Failure;
use crate::out;
use crate::password::options;
use crate::progress::spin;

pub(crate) fn run(args: &Argon2Args) -> Result<(), Failure> {
    let bytes =
        |option: &str, text: &str| hex::decode(text).map_err(|error| Failure::at(option, error));
    let password = bytes("--password-hex", &args.password_hex)?;
    let salt = bytes("--salt-hex", &args.salt_hex)?;
    let secret = bytes("--secret-hex", &args.secret_hex)?;
    let associated_data = bytes("--ad-hex", &args.ad_hex)?;
    let variant = match args.variant {
        Argon2Type::D => Variant::D,
        Argon2Type::I => Variant::I,
        Argon2Type::Id => Variant::Id,
    };
    let version = match args.version {
        Argon2Version::V0x10 => Version::V0x10,
        Argon2Version::V0x13 => Version::V0x13,
    };
    let refused = |error: shoal_argon::Error| Failure::at("argon2", error);
    let params = Params::new(args.memory_kib, args.passes, args.lanes).map_err(refused)?;
    let inputs = Inputs {
        password: &password,
        salt: &salt,
        secret: &secret,
        associated_data: &associated_data,
    };
    let length = usize::try_from(args.tag_length).unwrap_or(usize::MAX);
    let mut tag = Vec::new();
    tag.try_reserve_exact(length).map_err(|error| Failure::at("--tag-length", error))?;
    tag.resize(length, 0);
    let options = options(&args.kernel)?;
    let function = Argon2::new(variant, version, params);
    spin("hashing", || function.hash_with(&inputs, &mut tag, &options)).map_err(refused)?;
    let tag = hex::encode(&tag);
    match args.format {
        Format::Text => out::line(tag)?,
        Format::Json => out::line(serde_json::json!({ "tag": tag }))?,
    }
    Ok(())
}
