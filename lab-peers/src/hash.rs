//! Argon2 libraries.

#[cfg(feature = "argon2-rust")]
mod argon2_rust;
#[cfg(feature = "libargon2")]
mod libargon2;
#[cfg(feature = "rust-argon2")]
mod rust_argon2;
#[cfg(feature = "rustcrypto")]
mod rustcrypto;

use shoal_lab::Contenders;

pub(crate) fn add(contenders: &mut Contenders) {
    #[cfg(feature = "rustcrypto")]
    contenders.hash(rustcrypto::RustCrypto);
    #[cfg(feature = "rust-argon2")]
    contenders.hash(rust_argon2::RustArgon2);
    #[cfg(feature = "argon2-rust")]
    contenders.hash(argon2_rust::Argon2Rust);
    #[cfg(feature = "libargon2")]
    contenders.hash(libargon2::LibArgon2);
    let _ = contenders;
}
