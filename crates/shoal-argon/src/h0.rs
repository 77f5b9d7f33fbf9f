//! The two hashes around the memory: H0, the digest of everything asked for, and H', BLAKE2b
//! drawn out to any length (RFC 9106 §3.2, §3.3).

use blake2::Blake2bVarCore;
use blake2::digest::Output;
use blake2::digest::block_api::{Buffer, UpdateCore, VariableOutputCore};
use zeroize::{Zeroize, Zeroizing};

use crate::params::{Inputs, Params, Variant, Version};

/// Bytes of the longest BLAKE2b digest, and of H0.
pub(crate) const DIGEST_BYTES: usize = 64;

/// H0 (RFC 9106 §3.2, step 1). Written where the caller wipes it: the memory follows from it
/// alone, and a returned array would leave copies.
pub(crate) fn prehash(
    variant: Variant,
    version: Version,
    params: &Params,
    inputs: &Inputs<'_>,
    tag_bytes: usize,
    h0: &mut [u8; DIGEST_BYTES],
) {
    blake2b(
        &[
            &params.lanes().to_le_bytes(),
            &le32(tag_bytes),
            &params.memory_kib().to_le_bytes(),
            &params.passes().to_le_bytes(),
            &version.code().to_le_bytes(),
            &variant.code().to_le_bytes(),
            &le32(inputs.password.len()),
            inputs.password,
            &le32(inputs.salt.len()),
            inputs.salt,
            &le32(inputs.secret.len()),
            inputs.secret,
            &le32(inputs.associated_data.len()),
            inputs.associated_data,
        ],
        h0,
    );
}

/// H' (RFC 9106 §3.3): fills `out` with the digest of `input`, at any length from 1 byte.
///
/// Up to 64 bytes are one BLAKE2b of that length. Beyond, V1 to Vr are chained 64-byte digests
/// that each give their first half, and the last digest, of 33 to 64 bytes, gives the rest.
pub(crate) fn extend(input: &[&[u8]], out: &mut [u8]) {
    let length = le32(out.len());
    let prefixed: Vec<&[u8]> = std::iter::once(&length[..]).chain(input.iter().copied()).collect();
    if out.len() <= DIGEST_BYTES {
        return blake2b(&prefixed, out);
    }
    let mut digest = Zeroizing::new([0; DIGEST_BYTES]);
    blake2b(&prefixed, &mut *digest);
    let mut rest = out;
    loop {
        let (half, tail) = rest.split_at_mut(DIGEST_BYTES / 2);
        half.copy_from_slice(&digest[..DIGEST_BYTES / 2]);
        rest = tail;
        if rest.len() <= DIGEST_BYTES {
            break;
        }
        let previous = Zeroizing::new(*digest);
        blake2b(&[&*previous], &mut *digest);
    }
    blake2b(&[&*digest], rest);
}

/// BLAKE2b of the parts one after another, with a digest as long as `out` (1 to 64 bytes).
fn blake2b(parts: &[&[u8]], out: &mut [u8]) {
    let mut core = Blake2bVarCore::new(out.len()).expect("a digest has 1 to 64 bytes");
    let mut buffer = Buffer::<Blake2bVarCore>::default();
    for part in parts {
        buffer.digest_blocks(part, |blocks| core.update_blocks(blocks));
    }
    let mut digest = Output::<Blake2bVarCore>::default();
    core.finalize_variable_core(&mut buffer, &mut digest);
    out.copy_from_slice(&digest[..out.len()]);
    digest.zeroize();
}

/// LE32 of a length checked to fit.
fn le32(length: usize) -> [u8; 4] {
    u32::try_from(length).expect("lengths are checked to fit 32 bits").to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h0_tells_every_part_of_the_request_apart() {
        let base = || (Variant::Id, Version::V0x13, (65, 3, 1), ["p", "saltsalt", "k", "x"], 32);
        let digest =
            |(variant, version, (memory_kib, passes, lanes), [p, s, k, x], tag_bytes): (
                _,
                _,
                (u32, u32, u32),
                [&str; 4],
                usize,
            )| {
                let inputs = Inputs {
                    password: p.as_bytes(),
                    salt: s.as_bytes(),
                    secret: k.as_bytes(),
                    associated_data: x.as_bytes(),
                };
                let params = Params::new(memory_kib, passes, lanes).unwrap();
                let mut h0 = [0; DIGEST_BYTES];
                prehash(variant, version, &params, &inputs, tag_bytes, &mut h0);
                h0
            };
        let mut requests = vec![base(); 11];
        requests[1].0 = Variant::I;
        requests[2].1 = Version::V0x10;
        // 64 blocks either way: what is hashed is the memory asked for.
        requests[3].2.0 = 64;
        requests[4].2.1 = 4;
        requests[5].2.2 = 2;
        requests[6].3 = ["", "psaltsalt", "k", "x"];
        requests[7].3 = ["p", "saltsaltk", "", "x"];
        requests[8].3 = ["p", "saltsalt", "", "kx"];
        requests[9].3 = ["p", "saltsalt", "kx", ""];
        requests[10].4 = 33;
        let digests: std::collections::BTreeSet<_> = requests.into_iter().map(digest).collect();
        assert_eq!(digests.len(), 11);
    }

    /// The chain as the RFC writes it, one hash at a time.
    #[test]
    fn long_digests_are_a_chain_of_halves() {
        let mut v1 = [0; 64];
        blake2b(&[&97u32.to_le_bytes(), b"input"], &mut v1);
        let mut v2 = [0; 64];
        blake2b(&[&v1], &mut v2);
        let mut v3 = [0; 33];
        blake2b(&[&v2], &mut v3);
        let mut out = [0; 97];
        extend(&[b"in", b"put"], &mut out);
        assert_eq!(out[..], [&v1[..32], &v2[..32], &v3[..]].concat());

        let mut last = [0; 64];
        blake2b(&[&96u32.to_le_bytes(), b"input"], &mut v1);
        blake2b(&[&v1], &mut last);
        let mut out = [0; 96];
        extend(&[b"input"], &mut out);
        assert_eq!(out[..], [&v1[..32], &last[..]].concat());
    }

    #[test]
    fn short_digests_are_one_hash() {
        for length in [1u8, 4, 31, 32, 33, 63, 64] {
            let mut expect = vec![0; usize::from(length)];
            blake2b(&[&u32::from(length).to_le_bytes(), b"input"], &mut expect);
            let mut out = vec![0; usize::from(length)];
            extend(&[b"input"], &mut out);
            assert_eq!(out, expect);
        }
    }
}
