//! Tags as text: `$argon2id$v=19$m=65536,t=3,p=4$salt$tag`, the PHC string format as the reference
//! implementation reads and writes it.
//!
//! A string sets the cost of its verification, and whoever can change the string can ask for all:
//! nothing is computed, and no memory taken, before the costs are held against [`Limits`].

use base64ct::{Base64Unpadded, Encoding};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::Argon2;
use crate::options::Options;
use crate::params::{Error, Inputs, Params, Variant, Version};

/// A tag with all of its inputs but the password, the secret and the associated data.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash {
    function: Argon2,
    salt: Vec<u8>,
    tag: Vec<u8>,
}

/// The most a verifier is willing to spend on a string from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Memory in KiB.
    pub memory_kib: u32,
    /// Passes over it.
    pub passes: u32,
    /// Lanes.
    pub lanes: u32,
    /// Memory in KiB times passes: time is proportional.
    pub work_kib: u64,
    /// Bytes of the salt, and of the tag.
    pub bytes: usize,
}

impl Default for Limits {
    /// 2 GiB in one pass, or less memory in up to 64 passes: both of RFC 9106's recommendations,
    /// and a second or two at the most.
    fn default() -> Self {
        Self { memory_kib: 1 << 21, passes: 64, lanes: 64, work_kib: 1 << 21, bytes: 128 }
    }
}

/// Why a password was not found to be the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The string is none of this format. Says what is wrong, and no part of it.
    #[error("not a password hash of Argon2: {0}")]
    Format(&'static str),
    /// The string asks for more than the verifier gives.
    #[error("the password hash asks for too much {what}: at most {max}")]
    Limit {
        /// The cost in question.
        what: &'static str,
        /// The most that is allowed.
        max: u64,
    },
    /// The hash could not be computed.
    #[error(transparent)]
    Hash(#[from] Error),
    /// The tag differs: the password, secret or associated data is another.
    #[error("the password is not the one that was hashed")]
    Mismatch,
}

impl PasswordHash {
    /// Hashes `inputs` into a tag of this many bytes, 32 for most uses.
    ///
    /// # Errors
    /// As [`Argon2::hash_with`].
    pub fn new(
        function: Argon2,
        inputs: &Inputs<'_>,
        tag_bytes: usize,
        options: &Options<'_>,
    ) -> Result<Self, Error> {
        inputs.check(tag_bytes)?;
        let mut tag = vec![0; tag_bytes];
        function.hash_with(inputs, &mut tag, options)?;
        Ok(Self { function, salt: inputs.salt.to_vec(), tag })
    }

    /// Reads a string.
    ///
    /// A string without a version is of version 0x10, as it was when strings had none. Takes
    /// exactly what [`Self::encode`] writes otherwise: one order, no padding, no leading zeros.
    ///
    /// # Errors
    /// [`VerifyError::Format`] and [`VerifyError::Limit`], and [`VerifyError::Hash`] for costs
    /// and lengths that Argon2 has not.
    pub fn parse(text: &str, limits: &Limits) -> Result<Self, VerifyError> {
        let mut fields = text.split('$');
        let mut next = |what| fields.next().ok_or(VerifyError::Format(what));
        if !next("it is empty")?.is_empty() {
            return Err(VerifyError::Format("it does not start with a dollar sign"));
        }
        let variant = match next("no type")? {
            "argon2d" => Variant::D,
            "argon2i" => Variant::I,
            "argon2id" => Variant::Id,
            _ => return Err(VerifyError::Format("its type is unknown")),
        };
        let mut field = next("no costs")?;
        let version = match field.strip_prefix("v=") {
            None => Version::V0x10,
            Some(version) => {
                field = next("no costs")?;
                match version {
                    "16" => Version::V0x10,
                    "19" => Version::V0x13,
                    _ => return Err(VerifyError::Format("its version is unknown")),
                }
            }
        };
        let mut costs = field.split(',');
        let mut cost =
            |name: &str| costs.next().and_then(|cost| cost.strip_prefix(name)).and_then(number);
        let (Some(memory_kib), Some(passes), Some(lanes)) = (cost("m="), cost("t="), cost("p="))
        else {
            return Err(VerifyError::Format("its costs are not m=, t= and p="));
        };
        if costs.next().is_some() {
            return Err(VerifyError::Format("it has a parameter beside m=, t= and p="));
        }
        limits.check(memory_kib, passes, lanes)?;
        let params = Params::new(memory_kib, passes, lanes)?;
        let salt = bytes(next("no salt")?, limits)?;
        let tag = bytes(next("no tag")?, limits)?;
        if fields.next().is_some() {
            return Err(VerifyError::Format("something follows the tag"));
        }
        Inputs { salt: &salt, ..Inputs::default() }.check(tag.len())?;
        Ok(Self { function: Argon2::new(variant, version, params), salt, tag })
    }

    /// Writes the string.
    pub fn encode(&self) -> String {
        let params = self.function.params();
        let variant = match self.function.variant {
            Variant::D => "argon2d",
            Variant::I => "argon2i",
            Variant::Id => "argon2id",
        };
        format!(
            "${variant}$v={}$m={},t={},p={}${}${}",
            self.function.version.code(),
            params.memory_kib(),
            params.passes(),
            params.lanes(),
            Base64Unpadded::encode_string(&self.salt),
            Base64Unpadded::encode_string(&self.tag),
        )
    }

    /// Hashes the password with what else went in, and compares in a time that does not depend on
    /// where the tags differ. The salt of `inputs` is not looked at: the string has it.
    ///
    /// # Errors
    /// [`VerifyError::Mismatch`]; [`VerifyError::Hash`].
    pub fn verify(&self, inputs: &Inputs<'_>, options: &Options<'_>) -> Result<(), VerifyError> {
        let inputs = Inputs { salt: &self.salt, ..*inputs };
        let mut tag = Zeroizing::new(vec![0; self.tag.len()]);
        self.function.hash_with(&inputs, &mut tag, options)?;
        if bool::from(tag.ct_eq(&self.tag)) { Ok(()) } else { Err(VerifyError::Mismatch) }
    }

    /// The function and its costs: whether they are still what one would choose today.
    pub const fn function(&self) -> &Argon2 {
        &self.function
    }
}

impl Limits {
    fn check(&self, memory_kib: u32, passes: u32, lanes: u32) -> Result<(), VerifyError> {
        let work_kib = u64::from(memory_kib) * u64::from(passes);
        for (what, value, max) in [
            ("memory in KiB", u64::from(memory_kib), u64::from(self.memory_kib)),
            ("passes", u64::from(passes), u64::from(self.passes)),
            ("lanes", u64::from(lanes), u64::from(self.lanes)),
            ("memory in KiB times passes", work_kib, self.work_kib),
        ] {
            if value > max {
                return Err(VerifyError::Limit { what, max });
            }
        }
        Ok(())
    }
}

/// A decimal number in its one spelling: no sign, no leading zeros.
fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let plain = digits && (text == "0" || !text.starts_with('0'));
    plain.then(|| text.parse().ok()).flatten()
}

/// Bytes from Base64 without padding.
fn bytes(text: &str, limits: &Limits) -> Result<Vec<u8>, VerifyError> {
    if text.len() / 4 * 3 > limits.bytes {
        return Err(VerifyError::Limit { what: "salt or tag in bytes", max: limits.bytes as u64 });
    }
    Base64Unpadded::decode_vec(text)
        .map_err(|_| VerifyError::Format("its salt or tag is not base64 without padding"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verify(text: &str, password: &[u8]) -> Result<(), VerifyError> {
        let inputs = Inputs { password, ..Inputs::default() };
        PasswordHash::parse(text, &Limits::default())?.verify(&inputs, &Options::default())
    }

    /// Strings from the reference implementation's own tests.
    #[test]
    fn the_reference_s_strings() {
        for text in [
            "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
            "$argon2id$v=19$m=256,t=2,p=2$c29tZXNhbHQ$bQk8UB/VmZZF4Oo79iDXuL5/0ttZwg2f/5U52iv1cDc",
            "$argon2i$v=19$m=256,t=2,p=1$c29tZXNhbHQ$iekCn0Y3spW+sCcFanM2xBT63UP2sghkUoHLIUpWRS8",
            "$argon2i$m=256,t=2,p=1$c29tZXNhbHQ$/U3YPXYsSb3q9XxHvc0MLxur+GP960kN9j7emXX8zwY",
        ] {
            assert_eq!(verify(text, b"password"), Ok(()), "{text}");
            assert_eq!(verify(text, b"passwore"), Err(VerifyError::Mismatch), "{text}");
            let parsed = PasswordHash::parse(text, &Limits::default()).unwrap();
            if text.contains("v=") {
                assert_eq!(parsed.encode(), text);
            }
        }
    }

    #[test]
    fn what_is_written_is_read_and_verified() {
        for variant in [Variant::D, Variant::I, Variant::Id] {
            for version in [Version::V0x10, Version::V0x13] {
                for (salt, tag_bytes) in [(8, 4), (16, 32), (17, 33), (18, 64)] {
                    let function = Argon2::new(variant, version, Params::new(64, 2, 3).unwrap());
                    let inputs = Inputs {
                        password: b"password",
                        salt: &[0xfb; 32][..salt],
                        secret: b"pepper",
                        associated_data: b"data",
                    };
                    let options = Options::default();
                    let hash = PasswordHash::new(function, &inputs, tag_bytes, &options).unwrap();
                    let back = PasswordHash::parse(&hash.encode(), &Limits::default()).unwrap();
                    assert!(back == hash, "{}", hash.encode());
                    assert_eq!(back.verify(&inputs, &options), Ok(()));
                    for other in [
                        Inputs { password: b"Password", ..inputs },
                        Inputs { secret: b"", ..inputs },
                        Inputs { associated_data: b"", ..inputs },
                    ] {
                        assert_eq!(back.verify(&other, &options), Err(VerifyError::Mismatch));
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_not_the_format_is_refused_by_name() {
        let check = |text: &str, expect: &str| {
            let found = PasswordHash::parse(text, &Limits::default()).err();
            assert_eq!(found.map(|error| error.to_string()).as_deref(), Some(expect), "{text}");
        };
        let format = |text: &str, why: &str| {
            check(text, &format!("not a password hash of Argon2: {why}"));
        };
        let costs = "its costs are not m=, t= and p=";
        format("", "no type");
        format("argon2id", "it does not start with a dollar sign");
        format("$scrypt$v=19$m=256,t=2,p=1$c29tZXNhbHQ$AAAAAAA", "its type is unknown");
        format("$argon2id$v=20$m=256,t=2,p=1$c29tZXNhbHQ$AAAAAAA", "its version is unknown");
        format("$argon2id$v=19$t=2,m=256,p=1$c29tZXNhbHQ$AAAAAAA", costs);
        format("$argon2id$v=19$m=0256,t=2,p=1$c29tZXNhbHQ$AAAAAAA", costs);
        format("$argon2id$v=19$m=+256,t=2,p=1$c29tZXNhbHQ$AAAAAAA", costs);
        format("$argon2id$v=19$m=4294967296,t=2,p=1$c29tZXNhbHQ$AAAAAAA", costs);
        let base64 = "its salt or tag is not base64 without padding";
        format("$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ=$AAAAAAA", base64);
        format("$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHR$AAAAAAA", base64);
        format("$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ", "no tag");
        format("$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$AAAAAAA$", "something follows the tag");
        format(
            "$argon2id$v=19$m=256,t=2,p=1,keyid=AAAA$c29tZXNhbHQ$AAAAAAA",
            "it has a parameter beside m=, t= and p=",
        );
        check(
            "$argon2id$v=19$m=7,t=2,p=1$c29tZXNhbHQ$AAAAAAA",
            "memory in KiB must be at least 8: 7",
        );
        check(
            "$argon2id$v=19$m=256,t=2,p=1$AAAA$AAAAAAA",
            "salt length in bytes must be at least 8: 3",
        );
    }

    #[test]
    fn costs_above_the_limits_are_refused_before_anything_is_computed() {
        let check = |costs: &str, expect: &str| {
            let text = format!("$argon2id$v=19${costs}$c29tZXNhbHQ$AAAAAAA");
            let found = PasswordHash::parse(&text, &Limits::default()).err();
            assert_eq!(found.map(|error| error.to_string()).as_deref(), Some(expect), "{text}");
        };
        let much = |what: &str| format!("the password hash asks for too much {what}");
        check("m=4294967295,t=1,p=1", &(much("memory in KiB") + ": at most 2097152"));
        check("m=64,t=4294967295,p=1", &(much("passes") + ": at most 64"));
        check("m=65536,t=1,p=65", &(much("lanes") + ": at most 64"));
        check("m=2097152,t=2,p=1", &(much("memory in KiB times passes") + ": at most 2097152"));
        let long = format!("$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ${}", "A".repeat(1 << 20));
        let found = PasswordHash::parse(&long, &Limits::default()).err();
        assert_eq!(found, Some(VerifyError::Limit { what: "salt or tag in bytes", max: 128 }));
    }
}
