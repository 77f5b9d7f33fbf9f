//! Tokens: signed rights of their bearers on documents (Ed25519).
//!
//! A token is `shoal.PAYLOAD.SIGNATURE`, both in base64url without padding. The payload is JSON:
//! `{"id", "read", "write", "admin", "as", "expires"}`. A server knows public keys, ids of revoked
//! tokens and the rights of strangers: [`Tokens`], a file. The secret key is needed by whoever
//! makes tokens, and by no server.

use base64ct::{Base64UrlUnpadded, Encoding};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};
use shoal_sync::{Access, DocumentId, Fault, Glob, Rights};

/// How a token begins.
const PREFIX: &str = "shoal.";
/// The first bytes of every signed text: a signature made elsewhere is no token's.
const DOMAIN: &[u8] = b"shoal token 1\0";
/// The longest token, in bytes.
const TOKEN_MAX: usize = 8 << 10;
/// The most documents and patterns of one token.
const PATTERNS_MAX: usize = 256;
const KEY_BYTES: usize = 32;

/// The rights of a token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// The id, for revoking the token.
    pub id: String,
    /// Documents to be read: ids, or patterns with `*` and `?`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// Documents to be read and changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<String>,
    /// True for whoever may do everything, the API included.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub admin: bool,
    /// The principal whose entitlements to tables the bearer has.
    #[serde(rename = "as", default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The last second of the token, since 1970-01-01 UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
}

impl Grant {
    /// The rights of the bearer. A single id goes before patterns.
    ///
    /// # Errors
    /// The text that is neither an id nor a pattern; a count beyond 256.
    pub fn access(&self) -> Result<Access, String> {
        if self.admin {
            return Ok(Access::all());
        }
        if self.read.len() + self.write.len() > PATTERNS_MAX {
            return Err(format!("a token names at most {PATTERNS_MAX} documents and patterns"));
        }
        let mut access = Access::default();
        let all = [(Rights::Read, &self.read), (Rights::Write, &self.write)];
        for (rights, texts) in all {
            for text in texts {
                if let Ok(id) = DocumentId::parse(text) {
                    access.documents.insert(id, rights);
                } else if let Some(glob) = Glob::parse(text) {
                    access.globs.push((glob, rights));
                } else {
                    return Err(format!(
                        "{text:?} is neither a document id nor a pattern of letters, digits, * and ?"
                    ));
                }
            }
        }
        Ok(access)
    }
}

/// The signing key.
pub struct SecretKey(SigningKey);

impl SecretKey {
    /// The key of 32 random bytes.
    pub fn from_bytes(bytes: &[u8; KEY_BYTES]) -> Self {
        Self(SigningKey::from_bytes(bytes))
    }

    /// Reads the text of [`Self::to_text`].
    pub fn parse(text: &str) -> Option<Self> {
        Some(Self::from_bytes(&key_bytes(text)?))
    }

    /// 64 hexadecimal digits, to be kept secret.
    pub fn to_text(&self) -> String {
        shoal_stdx::hex::encode(self.0.as_bytes())
    }

    /// The public key, as [`Tokens::keys`] holds it.
    pub fn public_text(&self) -> String {
        shoal_stdx::hex::encode(self.0.verifying_key().as_bytes())
    }

    /// The token of a grant.
    ///
    /// # Errors
    /// As [`Grant::access`]; a grant too long for one token.
    pub fn sign(&self, grant: &Grant) -> Result<String, String> {
        grant.access()?;
        let payload = serde_json::to_vec(grant).map_err(|error| error.to_string())?;
        let signature = self.0.sign(&[DOMAIN, &payload].concat()).to_bytes();
        let [payload, signature] = [&payload[..], &signature].map(Base64UrlUnpadded::encode_string);
        let token = format!("{PREFIX}{payload}.{signature}");
        match token.len() > TOKEN_MAX {
            true => Err(format!("the token would have more than {TOKEN_MAX} bytes")),
            false => Ok(token),
        }
    }
}

fn key_bytes(text: &str) -> Option<[u8; KEY_BYTES]> {
    shoal_stdx::hex::decode(text.trim()).ok()?.try_into().ok()
}

/// A token in the list of tokens made. The text is kept by the bearer alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Issued {
    /// Its rights.
    #[serde(flatten)]
    pub grant: Grant,
    /// The bearer's name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// The rights of visitors without a credential.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Anyone {
    /// They are turned away.
    #[default]
    None,
    /// They read every document whose id they know.
    Read,
    /// They read and change every document whose id they know.
    Write,
}

impl From<Anyone> for Rights {
    fn from(anyone: Anyone) -> Self {
        match anyone {
            Anyone::None => Self::None,
            Anyone::Read => Self::Read,
            Anyone::Write => Self::Write,
        }
    }
}

/// What a server checks tokens by: a file of JSON, without a secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tokens {
    /// Public keys, in hexadecimal digits. Tokens signed by any of them count.
    pub keys: Vec<String>,
    /// The rights of visitors without a token.
    pub anyone: Anyone,
    /// Ids of revoked tokens.
    pub revoked: Vec<String>,
    /// Tokens made so far, for a list. The server does not look at them.
    pub issued: Vec<Issued>,
}

impl Tokens {
    /// Reads the file's text.
    ///
    /// # Errors
    /// The place at fault.
    pub fn parse(text: &str) -> Result<Self, String> {
        let tokens: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        for key in &tokens.keys {
            verifying_key(key).ok_or_else(|| format!("{key:?} is no Ed25519 public key"))?;
        }
        Ok(tokens)
    }

    /// The text of the file.
    pub fn to_text(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        text.expect("lists of texts are JSON") + "\n"
    }

    /// The rights of a token at a time, in seconds since 1970-01-01 UTC.
    ///
    /// # Errors
    /// [`Fault::BadToken`], [`Fault::Revoked`], [`Fault::Expired`].
    pub fn check(&self, token: &str, now_s: u64) -> Result<Grant, Fault> {
        let grant = self.verified(token).ok_or(Fault::BadToken)?;
        if self.revoked.contains(&grant.id) {
            return Err(Fault::Revoked);
        }
        match grant.expires {
            Some(expires) if expires <= now_s => Err(Fault::Expired),
            _ => Ok(grant),
        }
    }

    fn verified(&self, token: &str) -> Option<Grant> {
        if token.len() > TOKEN_MAX {
            return None;
        }
        let (payload, signature) = token.strip_prefix(PREFIX)?.split_once('.')?;
        let payload = Base64UrlUnpadded::decode_vec(payload).ok()?;
        let mut bytes = [0; Signature::BYTE_SIZE];
        let signature = Base64UrlUnpadded::decode(signature, &mut bytes).ok()?;
        let signature = Signature::from_slice(signature).ok()?;
        let signed = [DOMAIN, &payload].concat();
        let mut keys = self.keys.iter().filter_map(|key| verifying_key(key));
        keys.find(|key| key.verify_strict(&signed, &signature).is_ok())?;
        serde_json::from_slice(&payload).ok()
    }
}

fn verifying_key(text: &str) -> Option<VerifyingKey> {
    VerifyingKey::from_bytes(&key_bytes(text)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "2akvofn6L1o4RMUEMQi7qzwRjKWZ";

    fn made() -> (Tokens, SecretKey) {
        let key = SecretKey::from_bytes(&[7; 32]);
        (Tokens { keys: vec![key.public_text()], ..Tokens::default() }, key)
    }

    fn grant() -> Grant {
        let write = vec![format!("automerge:{ID}"), "3*".to_owned()];
        let read = vec!["*".to_owned()];
        let principal = Some("ada".to_owned());
        Grant { id: "a1".to_owned(), read, write, admin: false, principal, expires: Some(1_000) }
    }

    #[test]
    fn a_token_grants_what_was_signed() {
        let (mut tokens, key) = made();
        let token = key.sign(&grant()).unwrap();
        assert_eq!(tokens.check(&token, 999), Ok(grant()));
        assert_eq!(tokens.check(&token, 1_000), Err(Fault::Expired));
        let access = grant().access().unwrap();
        assert_eq!(access.to(&DocumentId::parse(ID).unwrap()), Rights::Write);
        assert_eq!(access.to(&DocumentId::from_bytes([0; 16])), Rights::Read);
        tokens.revoked.push("a1".to_owned());
        assert_eq!(tokens.check(&token, 1), Err(Fault::Revoked));
        assert_eq!(Tokens::parse(&tokens.to_text()), Ok(tokens));
        assert_eq!(SecretKey::parse(&key.to_text()).unwrap().public_text(), key.public_text());
    }

    #[test]
    fn every_damage_is_a_bad_token() {
        let (tokens, key) = made();
        let token = key.sign(&grant()).unwrap();
        for at in 0..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let damaged = String::from_utf8(bytes).unwrap();
            assert_eq!(tokens.check(&damaged, 1), Err(Fault::BadToken), "{at}");
            assert_eq!(tokens.check(&token[..at], 1), Err(Fault::BadToken), "{at}");
        }
        let other = SecretKey::from_bytes(&[8; 32]).sign(&grant()).unwrap();
        for text in
            ["", "shoal.", "shoal..", &other, &"shoal.".repeat(10_000), &format!("{token}=")]
        {
            assert_eq!(tokens.check(text, 1), Err(Fault::BadToken));
        }
    }

    #[test]
    fn mistakes_are_named() {
        let (_, key) = made();
        let named = Grant { read: vec!["my note".to_owned()], ..grant() };
        assert!(key.sign(&named).unwrap_err().contains("\"my note\" is neither"));
        assert!(Tokens::parse(r#"{"keys": ["12"]}"#).unwrap_err().contains("no Ed25519"));
        assert!(Tokens::parse(r#"{"key": []}"#).unwrap_err().contains("unknown field"));
    }
}
