//! Signatures checked, those of a key that signed many by a table of the key's multiples.
//!
//! A signature (R, s) of M by the key A holds where R is s B - k A, with k the hash of R, A and M:
//! two multiplications without a doubling each where multiples of A and B are at hand. A sum over
//! many signatures with random factors would be faster still, and might take what the strict rules
//! refuse: points with a part of small order cancel out in one sum of eight.

use std::collections::HashMap;

use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsBasepointTable};
use curve25519_dalek::traits::BasepointTable;
use curve25519_dalek::{EdwardsPoint, Scalar};
use sha2::{Digest, Sha512};

/// Fewer signatures of a key are not worth its table of 30 KiB.
const TABLE_MIN: usize = 256;

/// Tables of the keys that signed many.
pub(crate) struct KeyTables {
    /// `None` for a key that signs nothing: no point, or one of small order.
    tables: HashMap<[u8; 32], Option<EdwardsBasepointTable>>,
}

impl KeyTables {
    /// Tables of the keys that come often.
    pub(crate) fn of<'k>(keys: impl Iterator<Item = &'k [u8; 32]>) -> KeyTables {
        let mut counts: HashMap<&[u8; 32], usize> = HashMap::new();
        keys.for_each(|key| *counts.entry(key).or_default() += 1);
        let often = counts.into_iter().filter(|(_, count)| *count >= TABLE_MIN);
        KeyTables { tables: often.map(|(key, _)| (*key, table_of(key))).collect() }
    }

    /// True where the signature of the message is the key's, by the rules of
    /// [`ed25519_dalek::VerifyingKey::verify_strict`]; `None` for a key without a table.
    pub(crate) fn signs(
        &self,
        key: &[u8; 32],
        signature: &[u8; 64],
        message: &[u8],
    ) -> Option<bool> {
        let Some(table) = self.tables.get(key)? else { return Some(false) };
        Some(holds(table, key, signature, message))
    }
}

/// Multiples of the negative of a key.
fn table_of(key: &[u8; 32]) -> Option<EdwardsBasepointTable> {
    let point = CompressedEdwardsY(*key).decompress()?;
    (!point.is_small_order()).then(|| EdwardsBasepointTable::create(&-point))
}

fn holds(
    table: &EdwardsBasepointTable,
    key: &[u8; 32],
    signature: &[u8; 64],
    message: &[u8],
) -> bool {
    let (first, second) = signature.split_at(32);
    let Ok(s) = second.try_into() else { return false };
    let Some(s) = Option::<Scalar>::from(Scalar::from_canonical_bytes(s)) else { return false };
    let hash = Sha512::new().chain_update(first).chain_update(key).chain_update(message);
    let k = Scalar::from_bytes_mod_order_wide(&hash.finalize().into());
    let point = EdwardsPoint::mul_base(&s) + table.mul_base(&k);
    // The same bytes are the same point, in its only spelling.
    point.compress().as_bytes().as_slice() == first && !point.is_small_order()
}

#[cfg(test)]
mod tests {
    use curve25519_dalek::constants::{ED25519_BASEPOINT_POINT, EIGHT_TORSION};
    use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
    use shoal_testkit::Random;

    use super::*;

    fn bytes<const N: usize>(random: &mut Random) -> [u8; N] {
        std::array::from_fn(|_| random.below(256) as u8)
    }

    fn by_rules(key: &[u8; 32], signature: &[u8; 64], message: &[u8]) -> bool {
        let signature = Signature::from_bytes(signature);
        VerifyingKey::from_bytes(key)
            .is_ok_and(|key| key.verify_strict(message, &signature).is_ok())
    }

    fn by_table(key: &[u8; 32], signature: &[u8; 64], message: &[u8]) -> bool {
        let keys = std::iter::repeat_n(key, TABLE_MIN);
        KeyTables::of(keys).signs(key, signature, message).unwrap()
    }

    /// A signature by the secret scalar `a` of the key `A + torsion`, with `R + shift`.
    fn signed(random: &mut Random, torsion: usize, shift: usize, is_zero: bool) -> Signed {
        let wide = |random: &mut Random| Scalar::from_bytes_mod_order_wide(&bytes(random));
        let a = if torsion > 0 && is_zero { Scalar::ZERO } else { wide(random) };
        let r = if shift > 0 && is_zero { Scalar::ZERO } else { wide(random) };
        let key = (ED25519_BASEPOINT_POINT * a + EIGHT_TORSION[torsion]).compress().to_bytes();
        let first = (ED25519_BASEPOINT_POINT * r + EIGHT_TORSION[shift]).compress().to_bytes();
        let message: [u8; 9] = bytes(random);
        let hash = Sha512::new().chain_update(first).chain_update(key).chain_update(message);
        let k = Scalar::from_bytes_mod_order_wide(&hash.finalize().into());
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(&first);
        signature[32..].copy_from_slice((r + k * a).as_bytes());
        Signed { key, signature, message }
    }

    struct Signed {
        key: [u8; 32],
        signature: [u8; 64],
        message: [u8; 9],
    }

    #[test]
    fn a_table_answers_as_the_strict_rules_do() {
        let random = &mut Random::seeded(3);
        let mut answers = [0, 0];
        for round in 0..24 {
            for torsion in 0..8 {
                for shift in [0, round % 8] {
                    let Signed { key, mut signature, message } =
                        signed(random, torsion, shift, round % 3 == 0);
                    if round % 5 == 4 {
                        signature[random.place(64)] ^= 1 << random.place(8);
                    }
                    let expect = by_rules(&key, &signature, &message);
                    assert_eq!(by_table(&key, &signature, &message), expect, "{torsion} {shift}");
                    answers[usize::from(expect)] += 1;
                }
            }
        }
        assert!(answers.iter().all(|count| *count > 20), "{answers:?}");
    }

    #[test]
    fn other_spellings_are_refused() {
        let signer = SigningKey::from_bytes(&[7; 32]);
        let (key, message) = (signer.verifying_key().to_bytes(), b"a message");
        let signature = signer.sign(message).to_bytes();
        assert!(by_table(&key, &signature, message));
        // The order of the group, added to s.
        let order = shoal_stdx::hex::decode(
            "edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010",
        );
        let mut other = signature;
        let mut carry = 0;
        for (byte, more) in other[32..].iter_mut().zip(order.unwrap()) {
            let sum = u16::from(*byte) + u16::from(more) + carry;
            (*byte, carry) = (sum as u8, sum >> 8);
        }
        assert!(!by_table(&key, &other, message) && !by_rules(&key, &other, message));
        for key in [[0xff; 32], [0; 32], [2; 32]] {
            let expect = by_rules(&key, &signature, message);
            assert_eq!(by_table(&key, &signature, message), expect);
        }
    }
}
