//! SQLite3 Multiple Ciphers' Ascon-128 (version 1.2): permutation of the `ascon` crate, and the
//! modes hash, AEAD and PBKDF2 over it.

use ascon::{permute6, permute12};
use subtle::ConstantTimeEq;

use super::{Format, Settings, raw_key};
use crate::secret::{Key, Secret};
use crate::slots::array;

/// Tag and nonce.
const OWN: usize = 32;
const HASH_IV: u64 = 0x0040_0c00_0000_0100;
const AEAD_IV: u64 = 0x8040_0c06_0000_0000;

type State = [u64; 5];

fn load(bytes: &[u8]) -> u64 {
    let mut eight = [0; 8];
    eight[..bytes.len()].copy_from_slice(bytes);
    u64::from_be_bytes(eight)
}

/// A one behind so many bytes.
fn pad(len: usize) -> u64 {
    0x80 << (56 - 8 * len)
}

fn absorb(state: &mut State, bytes: &[u8]) {
    let mut eights = bytes.chunks_exact(8);
    for eight in &mut eights {
        state[0] ^= load(eight);
        permute12(state);
    }
    let rest = eights.remainder();
    state[0] ^= load(rest) ^ pad(rest.len());
}

fn squeeze(state: &mut State, out: &mut [u8; 32]) {
    for eight in out.chunks_exact_mut(8) {
        permute12(state);
        eight.copy_from_slice(&state[0].to_be_bytes());
    }
}

/// Ascon-Hash.
fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut state = [HASH_IV, 0, 0, 0, 0];
    permute12(&mut state);
    absorb(&mut state, &parts.concat());
    let mut out = [0; 32];
    squeeze(&mut state, &mut out);
    out
}

/// PBKDF2 whose pseudo-random function is Ascon-cXOF with the password as customization. One block
/// of output.
fn pbkdf2(password: &[u8], salt: &[u8; 16], rounds: u32, key: &mut [u8]) {
    let mut name = [0; 32];
    name[..6].copy_from_slice(b"PBKDF2");
    let mut start =
        [HASH_IV, load(&name[..8]), load(&name[8..16]), load(&name[16..24]), load(&name[24..])];
    permute12(&mut start);
    if !password.is_empty() {
        absorb(&mut start, password);
        permute12(&mut start);
        start[4] ^= 1;
    }
    let prf = |input: &[u8]| {
        let mut state = start;
        absorb(&mut state, input);
        let mut out = [0; 32];
        squeeze(&mut state, &mut out);
        out
    };
    let mut last = prf(&[&salt[..], &1_u32.to_be_bytes()].concat());
    let mut sum = last;
    for _ in 1..rounds {
        last = prf(&last);
        sum.iter_mut().zip(last).for_each(|(sum, byte)| *sum ^= byte);
    }
    key.copy_from_slice(&sum);
}

/// Ascon-128's AEAD without associated data; encrypts or decrypts in place and gives the tag.
fn aead(key: &[u8; 16], nonce: &[u8], bytes: &mut [u8], encrypts: bool) -> [u8; 16] {
    let keys = [load(&key[..8]), load(&key[8..])];
    let mut state = [AEAD_IV, keys[0], keys[1], load(&nonce[..8]), load(&nonce[8..16])];
    permute12(&mut state);
    state[3] ^= keys[0];
    state[4] ^= keys[1];
    state[4] ^= 1;
    let mut eights = bytes.chunks_exact_mut(8);
    for eight in &mut eights {
        let word = load(eight);
        state[0] ^= word;
        eight.copy_from_slice(&state[0].to_be_bytes());
        if !encrypts {
            state[0] = word;
        }
        permute6(&mut state);
    }
    let rest = eights.into_remainder();
    let len = rest.len();
    let word = load(rest);
    let mixed = state[0] ^ word;
    rest.copy_from_slice(&mixed.to_be_bytes()[..len]);
    let mask = if len == 0 { 0 } else { u64::MAX << (64 - 8 * len) };
    state[0] = if encrypts { mixed } else { (state[0] & !mask) | word };
    state[0] ^= pad(len);
    state[1] ^= keys[0];
    state[2] ^= keys[1];
    permute12(&mut state);
    let mut tag = [0; 16];
    tag[..8].copy_from_slice(&(state[3] ^ keys[0]).to_be_bytes());
    tag[8..].copy_from_slice(&(state[4] ^ keys[1]).to_be_bytes());
    tag
}

pub(crate) struct Ascon {
    key: Key,
    salt: [u8; 16],
}

impl Ascon {
    pub(crate) fn new(secret: &Secret, settings: &Settings, salt: [u8; 16]) -> Ascon {
        let mut salt = salt;
        let raw = raw_key(secret, &[32, 48]);
        if let Some(raw) = raw.as_deref().filter(|raw| raw.len() == 48) {
            salt.copy_from_slice(&raw[32..]);
        }
        let rounds = settings.number("kdf_iter", 64_007);
        let key = Key::filled(|key| match &raw {
            Some(raw) => key.copy_from_slice(&raw[..32]),
            None => pbkdf2(secret.bytes(), &salt, rounds, key),
        });
        Ascon { key, salt }
    }

    fn page_key(&self, pgno: u32, nonce: &[u8]) -> [u8; 16] {
        array(&hash(&[self.key.bytes(), nonce, &pgno.to_be_bytes()]), 0)
    }
}

impl Format for Ascon {
    fn reserved(&self) -> usize {
        OWN
    }

    fn head(&self) -> Option<[u8; 16]> {
        Some(self.salt)
    }

    fn encrypt(&self, pgno: u32, page: &mut [u8]) {
        let (start, end) = (if pgno == 1 { 24 } else { 0 }, page.len() - OWN);
        let (content, own) = page.split_at_mut(end);
        let key = self.page_key(pgno, &own[16..]);
        let tag = aead(&key, &own[16..], &mut content[start..], true);
        own[..16].copy_from_slice(&tag);
    }

    fn decrypt(&self, pgno: u32, page: &mut [u8]) -> bool {
        let (start, end) = (if pgno == 1 { 24 } else { 0 }, page.len() - OWN);
        let (content, own) = page.split_at_mut(end);
        let key = self.page_key(pgno, &own[16..]);
        let tag = aead(&key, &own[16..], &mut content[start..], false);
        tag.ct_eq(&own[..16]).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the LWC known-answer tests of Ascon v1.2 (count 1 of hash and of AEAD).
    #[test]
    fn known_answers() {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
        let empty = "7346BC14F036E87AE03D0997913088F5F68411434B3CF8B54FA796A80D251F91";
        assert_eq!(hex(&hash(&[])), empty);
        let key: [u8; 16] = std::array::from_fn(|at| at as u8);
        assert_eq!(hex(&aead(&key, &key, &mut [], true)), "E355159F292911F794CB1432A0103A8A");
    }
}
