//! The same request to `shoal-argon`, on every kernel of this machine, and to libargon2: the same
//! tag. Here and not beside the crate, because nothing else builds C.
#![cfg(feature = "libargon2")]
#![allow(clippy::unwrap_used)]

use argon2_sys::{ARGON2_OK, Argon2_Context, argon2d_ctx, argon2i_ctx, argon2id_ctx};
use proptest::prelude::*;
use shoal_argon::{Argon2, Inputs, Isa, Options, Params, Variant, Version};

fn theirs(
    (variant, version): (Variant, Version),
    (memory_kib, passes, lanes): (u32, u32, u32),
    [password, salt, secret, associated_data]: [&[u8]; 4],
    tag_bytes: usize,
) -> Vec<u8> {
    let mut parts = [password, salt, secret, associated_data].map(<[u8]>::to_vec);
    let lengths = [0, 1, 2, 3].map(|i| u32::try_from(parts[i].len()).unwrap());
    let [password, salt, secret, associated_data] = parts.each_mut().map(|part| part.as_mut_ptr());
    let mut tag = vec![0; tag_bytes];
    let mut context = Argon2_Context {
        out: tag.as_mut_ptr(),
        outlen: u32::try_from(tag_bytes).unwrap(),
        pwd: password,
        pwdlen: lengths[0],
        salt,
        saltlen: lengths[1],
        secret,
        secretlen: lengths[2],
        ad: associated_data,
        adlen: lengths[3],
        t_cost: passes,
        m_cost: memory_kib,
        lanes,
        threads: 1,
        version: match version {
            Version::V0x10 => 0x10,
            Version::V0x13 => 0x13,
        },
        allocate_cbk: None,
        free_cbk: None,
        flags: 0,
    };
    // SAFETY: every pointer lives until the call returns, with its length beside the pointer.
    let code = unsafe {
        match variant {
            Variant::D => argon2d_ctx(&raw mut context),
            Variant::I => argon2i_ctx(&raw mut context),
            Variant::Id => argon2id_ctx(&raw mut context),
        }
    };
    assert_eq!(code, ARGON2_OK);
    tag
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_request(
        variant in prop::sample::select(&[Variant::D, Variant::I, Variant::Id][..]),
        version in prop::sample::select(&[Version::V0x10, Version::V0x13][..]),
        lanes in 1u32..=8,
        memory_a_lane in 8u32..512,
        beyond in 0u32..32,
        passes in 1u32..=4,
        password in prop::collection::vec(any::<u8>(), 0..200),
        salt in prop::collection::vec(any::<u8>(), 8..48),
        secret in prop::collection::vec(any::<u8>(), 0..48),
        associated_data in prop::collection::vec(any::<u8>(), 0..200),
        tag_bytes in 4usize..300,
    ) {
        let costs = (memory_a_lane * lanes + beyond, passes, lanes);
        let parts = [&password[..], &salt, &secret, &associated_data];
        let expect = theirs((variant, version), costs, parts, tag_bytes);
        let inputs = Inputs {
            password: &password,
            salt: &salt,
            secret: &secret,
            associated_data: &associated_data,
        };
        let function = Argon2::new(variant, version, Params::new(costs.0, passes, lanes).unwrap());
        for isa in Isa::available() {
            let mut tag = vec![0; tag_bytes];
            function.hash_with(&inputs, &mut tag, &Options::default().isa(isa)).unwrap();
            prop_assert_eq!(&tag, &expect, "{}", isa);
        }
    }
}
