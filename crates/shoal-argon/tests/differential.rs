//! The same request to this crate and to RustCrypto's: the same tag, or an error from both.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use shoal_argon::{Argon2, Error, Field, Inputs, Isa, Options, Params, Variant, Version};

const VARIANTS: [Variant; 3] = [Variant::D, Variant::I, Variant::Id];
const VERSIONS: [Version; 2] = [Version::V0x10, Version::V0x13];

/// Memory in KiB, passes, lanes.
type Costs = (u32, u32, u32);

fn ours(
    (variant, version): (Variant, Version),
    (memory_kib, passes, lanes): Costs,
    inputs: &Inputs<'_>,
    tag_bytes: usize,
) -> Result<Vec<u8>, Error> {
    let mut tag = vec![0; tag_bytes];
    let params = Params::new(memory_kib, passes, lanes)?;
    Argon2::new(variant, version, params).hash(inputs, &mut tag)?;
    Ok(tag)
}

fn peers(
    (variant, version): (Variant, Version),
    (memory_kib, passes, lanes): Costs,
    inputs: &Inputs<'_>,
    tag_bytes: usize,
) -> Result<Vec<u8>, argon2::Error> {
    let params = argon2::ParamsBuilder::new()
        .m_cost(memory_kib)
        .t_cost(passes)
        .p_cost(lanes)
        .output_len(tag_bytes)
        .data(argon2::AssociatedData::new(inputs.associated_data)?)
        .build()?;
    let algorithm = match variant {
        Variant::D => argon2::Algorithm::Argon2d,
        Variant::I => argon2::Algorithm::Argon2i,
        Variant::Id => argon2::Algorithm::Argon2id,
    };
    let version = match version {
        Version::V0x10 => argon2::Version::V0x10,
        Version::V0x13 => argon2::Version::V0x13,
    };
    let mut tag = vec![0; tag_bytes];
    argon2::Argon2::new_with_secret(inputs.secret, algorithm, version, params)?
        .hash_password_into(inputs.password, inputs.salt, &mut tag)?;
    Ok(tag)
}

fn same(function: (Variant, Version), costs: Costs, inputs: &Inputs<'_>, tag_bytes: usize) {
    same_on(Isa::detect(), function, costs, inputs, tag_bytes);
}

fn same_on(
    isa: Isa,
    function: (Variant, Version),
    costs: Costs,
    inputs: &Inputs<'_>,
    tag_bytes: usize,
) {
    let (memory_kib, passes, lanes) = costs;
    let mut ours = vec![0; tag_bytes];
    let params = Params::new(memory_kib, passes, lanes).unwrap();
    Argon2::new(function.0, function.1, params)
        .hash_with(inputs, &mut ours, &Options::default().isa(isa))
        .unwrap();
    assert_eq!(
        ours,
        peers(function, costs, inputs, tag_bytes).unwrap(),
        "{isa} {function:?} m, t, p = {costs:?}, tag of {tag_bytes}, lengths {:?}",
        [inputs.password, inputs.salt, inputs.secret, inputs.associated_data].map(<[u8]>::len)
    );
}

fn functions() -> impl Iterator<Item = (Variant, Version)> {
    VARIANTS.into_iter().flat_map(|variant| VERSIONS.map(|version| (variant, version)))
}

/// Shapes of memory where an index could be off by one: the least there is, memory that four
/// times the lanes does not divide, segments around one and two address blocks, the wrap from
/// one pass to the next.
#[test]
fn corners_of_the_memory() {
    let inputs = Inputs { password: b"password", salt: b"somesalt", ..Inputs::default() };
    for function in functions() {
        for lanes in [1, 2, 3, 5, 8] {
            for segment_length in [2, 3, 127, 128, 129, 130, 257] {
                for beyond in [0, 4 * lanes - 1] {
                    for passes in 1..=3 {
                        let memory_kib = 4 * lanes * segment_length + beyond;
                        same(function, (memory_kib, passes, lanes), &inputs, 32);
                    }
                }
            }
        }
    }
}

/// Lengths where H' changes from one digest to a chain, and where the chain gains a link.
#[test]
fn corners_of_the_tag() {
    let inputs = Inputs { password: b"password", salt: b"somesalt", ..Inputs::default() };
    for function in functions() {
        for tag_bytes in [4, 5, 31, 32, 33, 63, 64, 65, 95, 96, 97, 127, 128, 129, 1024] {
            same(function, (8, 1, 1), &inputs, tag_bytes);
        }
    }
}

/// Empty and long inputs, around BLAKE2b's own block of 128 bytes.
#[test]
fn corners_of_the_inputs() {
    let bytes: Vec<u8> = (0..=255).cycle().take(1000).collect();
    for function in functions() {
        for password in [0, 1, 63, 64, 65, 127, 128, 129, 1000] {
            for salt in [8, 16, 64, 129] {
                let inputs = Inputs {
                    password: &bytes[..password],
                    salt: &bytes[1..][..salt],
                    ..Inputs::default()
                };
                same(function, (8, 1, 1), &inputs, 32);
            }
        }
        // The peer takes no more than 32 bytes of associated data.
        for (secret, associated_data) in [(0, 1), (1, 0), (1, 1), (32, 32), (200, 32)] {
            let inputs = Inputs {
                password: b"",
                salt: b"somesalt",
                secret: &bytes[..secret],
                associated_data: &bytes[2..][..associated_data],
            };
            same(function, (8, 1, 1), &inputs, 32);
        }
    }
}

#[test]
fn what_is_refused_is_refused_before_the_tag_is_touched() {
    let function = Argon2::new(Variant::Id, Version::V0x13, Params::new(8, 1, 1).unwrap());
    let mut tag = [7; 32];
    let inputs = Inputs { password: b"password", salt: b"7 bytes", ..Inputs::default() };
    assert_eq!(
        function.hash(&inputs, &mut tag),
        Err(Error::TooSmall { field: Field::Salt, value: 7, min: 8 })
    );
    assert_eq!(tag, [7; 32]);
    let inputs = Inputs { salt: b"somesalt", ..inputs };
    assert_eq!(
        function.hash(&inputs, &mut tag[..3]),
        Err(Error::TooSmall { field: Field::Tag, value: 3, min: 4 })
    );
    assert_eq!(tag, [7; 32]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_request(
        variant in prop::sample::select(&VARIANTS[..]),
        version in prop::sample::select(&VERSIONS[..]),
        lanes in 1u32..=8,
        isa in prop::sample::select(Isa::available().collect::<Vec<_>>()),
        memory_a_lane in 8u32..512,
        beyond in 0u32..32,
        passes in 1u32..=4,
        password in prop::collection::vec(any::<u8>(), 0..200),
        salt in prop::collection::vec(any::<u8>(), 8..48),
        secret in prop::collection::vec(any::<u8>(), 0..48),
        associated_data in prop::collection::vec(any::<u8>(), 0..=32),
        tag_bytes in 4usize..300,
    ) {
        let inputs = Inputs {
            password: &password,
            salt: &salt,
            secret: &secret,
            associated_data: &associated_data,
        };
        same_on(isa, (variant, version), (memory_a_lane * lanes + beyond, passes, lanes), &inputs, tag_bytes);
    }

    /// Around the bounds: refused by both or by neither.
    #[test]
    fn any_refusal(
        lanes in 0u32..4,
        memory_kib in 0u32..40,
        passes in 0u32..2,
        salt in prop::collection::vec(any::<u8>(), 6..10),
        tag_bytes in 2usize..6,
    ) {
        let inputs = Inputs { password: b"password", salt: &salt, ..Inputs::default() };
        let function = (Variant::Id, Version::V0x13);
        let costs = (memory_kib, passes, lanes);
        prop_assert_eq!(
            ours(function, costs, &inputs, tag_bytes).ok(),
            peers(function, costs, &inputs, tag_bytes).ok()
        );
    }
}
