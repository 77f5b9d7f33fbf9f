//! The memory itself after each pass, against the RFC's traces, the reference's dumps and a
//! peer's.

use std::fmt::Write;

use sha2::{Digest, Sha256};
use shoal_stdx::hex;

use super::*;

use std::num::NonZeroUsize;

use crate::params::{Inputs, Params, Variant, Version};

/// The inputs of every trace in RFC 9106 §5.
const RFC: Inputs<'_> =
    Inputs { password: &[1; 32], salt: &[2; 16], secret: &[3; 8], associated_data: &[4; 12] };

/// Takes the memory and starts the hash of these inputs; `h0` is for a look inside.
fn start<'a>(
    isa: Isa,
    (variant, version, params): (Variant, Version, Params),
    inputs: &Inputs<'_>,
    h0: &mut [u8; DIGEST_BYTES],
    memory: &'a mut Vec<Block>,
) -> Fill<'a> {
    h0::prehash(variant, version, &params, inputs, 32, h0);
    memory.resize(params.block_count() as usize, Block::ZERO);
    let mut fill = Fill::new(isa, Plan::new(variant, version, params));
    fill.begin(memory, h0);
    fill
}

impl Fill<'_> {
    /// One pass, by this thread alone.
    fn pass(&mut self, pass: u32) {
        let control = Control { threads: NonZeroUsize::MIN, stop: None, progress: None };
        self.passes(pass..pass + 1, &control).unwrap();
    }

    /// The memory of the first hash, words in their order.
    fn blocks(&self) -> Vec<Block> {
        let natural = |block: &Block| {
            let mut natural = Block::ZERO;
            kernel::leave(self.isa, block, &mut natural);
            natural
        };
        self.memories[0].iter().map(natural).collect()
    }
}

/// H0, then after each of the three passes the first words of the first block and the last
/// words of the last (RFC 9106 §5.1 to §5.3).
#[test]
fn the_rfc_s_traces() {
    check_trace(
        Variant::D,
        "b8819791a0359660bb7709c85fa48f04d5d82c05c5f215ccdb885491717cf757\
         082c28b951be381410b5fc2eb7274033b9fdc7ae672bcaac5d179097a4af3109",
        [
            [
                [
                    0xdb2f_ea6b_2c6f_5c8a,
                    0x7194_13be_00f8_2634,
                    0xa1e3_f6dd_42aa_25cc,
                    0x3ea8_efd4_d55a_c0d1,
                ],
                [
                    0x28d1_7914_aea9_734c,
                    0x6a46_2217_6522_e398,
                    0x951a_a08a_eecb_2c05,
                    0x6a6c_49d2_cb75_d5b6,
                ],
            ],
            [
                [
                    0xd380_1200_410f_8c0d,
                    0x0bf9_e8a6_e442_ba6d,
                    0xe2ca_92fe_9c54_1fcc,
                    0x6269_fe6d_b177_a388,
                ],
                [
                    0x9eac_fcfb_db3c_e0fc,
                    0x07de_daeb_0aee_71ac,
                    0x0744_35fa_d915_48f4,
                    0x2dbf_ff23_f31b_5883,
                ],
            ],
            [
                [
                    0x5f04_7b57_5c5f_f4d2,
                    0xf069_85db_f11c_91a8,
                    0x89ef_b275_9f9a_8964,
                    0x7486_a73f_62f9_b142,
                ],
                [
                    0x57cf_b9d2_0479_da49,
                    0x4099_654b_c660_7f69,
                    0xf142_a112_6075_a5c8,
                    0xc341_b3ca_45c1_0da5,
                ],
            ],
        ],
    );
    check_trace(
        Variant::I,
        "c46065815276a0b3e731731c902f1fd80cf776907fbb7b6a5ca72e7b56011fee\
         ca446c86dd75b9469a5e6879dec4b72d0863fb939b982e5f397cc7d164fddaa9",
        [
            [
                [
                    0xf8f9_e845_45db_08f6,
                    0x9b07_3a5c_87aa_2d97,
                    0xd1e8_68d7_5ca8_d8e4,
                    0x3496_3417_4e1a_ebcc,
                ],
                [
                    0x975f_5965_8374_5e30,
                    0xe349_bdd7_edeb_3092,
                    0xb751_a689_b7a8_3659,
                    0xc570_f2ab_2a86_cf00,
                ],
            ],
            [
                [
                    0xb2e4_ddfc_f76d_c85a,
                    0x4ffd_0626_c89a_2327,
                    0x4af1_440f_ff21_2980,
                    0x1e77_299c_7408_505b,
                ],
                [
                    0xe427_4fd6_75d1_e1d6,
                    0x903f_ffb7_c4a1_4c98,
                    0x7e5d_b55d_ef47_1966,
                    0x421b_3c6e_9555_b79d,
                ],
            ],
            [
                [
                    0xaf2a_8bd8_482c_2f11,
                    0x7854_4229_4fa5_5e6d,
                    0x9256_a768_529a_7f96,
                    0x25a1_c1f5_bb95_3766,
                ],
                [
                    0x68cf_72fc_cc71_12b9,
                    0x91e8_c6f8_bb0a_d70d,
                    0x4f59_c8bd_65cb_b765,
                    0x71e4_36f0_35f3_0ed0,
                ],
            ],
        ],
    );
    check_trace(
        Variant::Id,
        "2889de487eb42ae500c0007ed9252f1069eadec40d5765b485de6dc2437a67b8\
         546a2f0acc1a0882db8fcf74714b472e94df421a5da1112ffa11434370a1e997",
        [
            [
                [
                    0x6b2e_09f1_0671_bd43,
                    0xf69f_5c27_918a_21be,
                    0xdea7_810e_a412_90e1,
                    0x6787_f717_1870_f893,
                ],
                [
                    0x377f_a816_66dc_7f2b,
                    0x50e5_8639_8a9c_39c8,
                    0x6f73_2732_a550_924a,
                    0x81f8_8b28_683e_a8e5,
                ],
            ],
            [
                [
                    0x3653_ec9d_0158_3df9,
                    0x69ef_53a7_2d1e_1fd3,
                    0x3563_5631_744a_b54f,
                    0x5995_12e9_6a37_ab6e,
                ],
                [
                    0x4d4b_435c_ea35_caa6,
                    0xc582_210d_99ad_1359,
                    0xd087_971b_36fd_6d77,
                    0xa552_22a9_3754_c692,
                ],
            ],
            [
                [
                    0x9423_6396_8ce5_97a4,
                    0xa224_48c0_bdad_5760,
                    0xa5f8_0662_b6fa_8748,
                    0xa0f9_b9ce_392f_719f,
                ],
                [
                    0xd723_359b_485f_509b,
                    0xcb78_824f_4237_5111,
                    0x35bc_8cc6_e83b_1875,
                    0x0b01_2846_a40f_346a,
                ],
            ],
        ],
    );
}

fn check_trace(variant: Variant, digest: &str, passes: [[[u64; 4]; 2]; 3]) {
    let params = Params::new(32, 3, 4).unwrap();
    let mut h0 = [0; DIGEST_BYTES];
    for isa in Isa::available() {
        let mut memory = Vec::new();
        let function = (variant, Version::V0x13, params);
        let mut fill = start(isa, function, &RFC, &mut h0, &mut memory);
        assert_eq!(hex::encode(&h0), digest, "{variant:?}");
        for (pass, [first, last]) in (0..).zip(passes) {
            fill.pass(pass);
            let blocks = fill.blocks();
            assert_eq!(blocks[0].words()[..4], first, "{variant:?} after pass {pass}, {isa}");
            assert_eq!(blocks[31].words()[124..], last, "{variant:?} after pass {pass}, {isa}");
        }
    }
}

/// The reference implementation ships dumps of all memory after every pass, with their
/// SHA-256. Here the same text is written and its digest compared.
#[test]
fn the_reference_s_dumps() {
    for (variant, name, version, number, digest) in [
        (
            Variant::I,
            "Argon2i",
            Version::V0x10,
            "10",
            "661f98e8f1857bb71e5e115daea6eef302fbb8586afb29b1a1134c77a4c3663f",
        ),
        (
            Variant::D,
            "Argon2d",
            Version::V0x10,
            "10",
            "9472b7fcac953a773759589fb83f1a38532e904b2945389e8ec3ee0668f2c662",
        ),
    ] {
        for isa in Isa::available() {
            let text = dump(isa, variant, name, version, number);
            let found = hex::encode(&Sha256::digest(text.as_bytes()));
            assert_eq!(found, digest, "{name} version {number}, {isa}, {} bytes", text.len());
        }
    }
}

fn dump(isa: Isa, variant: Variant, name: &str, version: Version, number: &str) -> String {
    let spaced = |bytes: &[u8]| {
        bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x} "))
    };
    let rule = "=".repeat(39);
    let params = Params::new(32, 3, 4).unwrap();
    let mut h0 = [0; DIGEST_BYTES];
    let mut memory = Vec::new();
    let mut fill = start(isa, (variant, version, params), &RFC, &mut h0, &mut memory);
    let mut text = format!("{rule}\n{name} version number {number}\n{rule}\n");
    text += "Memory: 32 KiB, Iterations: 3, Parallelism: 4 lanes, Tag length: 32 bytes\n";
    for (label, bytes) in [
        ("Password[32]", RFC.password),
        ("Salt[16]", RFC.salt),
        ("Secret[8]", RFC.secret),
        ("Associated data[12]", RFC.associated_data),
        ("Pre-hashing digest", &h0),
    ] {
        writeln!(text, "{label}: {}", spaced(bytes)).unwrap();
    }
    for pass in 0..3 {
        fill.pass(pass);
        write!(text, "\n After pass {pass}:\n").unwrap();
        for (number, block) in fill.blocks().iter().enumerate() {
            for (place, word) in block.words().iter().enumerate() {
                writeln!(text, "Block {number:04} [{place:3}]: {word:016x}").unwrap();
            }
        }
    }
    let mut tag = [0; 32];
    fill.finish(0, &mut tag);
    writeln!(text, "Tag: {}", spaced(&tag)).unwrap();
    text
}

/// Every block that a peer leaves behind, for shapes where the segments, the address blocks
/// and the wrap fall differently.
#[test]
fn a_peer_s_memory() {
    for (memory_kib, passes, lanes) in [
        (8, 1, 1),
        (8, 4, 1),
        (24, 3, 3),
        (65, 2, 1),
        (1100, 1, 1),
        (1100, 2, 2),
        (4 * 129 * 3, 3, 3),
    ] {
        for variant in [Variant::D, Variant::I, Variant::Id] {
            for version in [Version::V0x10, Version::V0x13] {
                let params = Params::new(memory_kib, passes, lanes).unwrap();
                let inputs = Inputs { secret: b"", associated_data: b"", ..RFC };
                let peer = argon2::Argon2::new(
                    match variant {
                        Variant::D => argon2::Algorithm::Argon2d,
                        Variant::I => argon2::Algorithm::Argon2i,
                        Variant::Id => argon2::Algorithm::Argon2id,
                    },
                    match version {
                        Version::V0x10 => argon2::Version::V0x10,
                        Version::V0x13 => argon2::Version::V0x13,
                    },
                    argon2::Params::new(memory_kib, passes, lanes, Some(32)).unwrap(),
                );
                let mut memory = vec![argon2::Block::default(); params.block_count() as usize];
                let mut tag = [0; 32];
                peer.hash_password_into_with_memory(RFC.password, RFC.salt, &mut tag, &mut memory)
                    .unwrap();
                for isa in Isa::available() {
                    let mut ours = Vec::new();
                    let function = (variant, version, params);
                    let mut fill = start(isa, function, &inputs, &mut [0; DIGEST_BYTES], &mut ours);
                    (0..passes).for_each(|pass| fill.pass(pass));
                    let blocks = fill.blocks();
                    for (place, (ours, peers)) in blocks.iter().zip(&memory).enumerate() {
                        assert!(
                            ours.words()[..] == *peers.as_ref(),
                            "{variant:?} {version:?} m={memory_kib} t={passes} p={lanes}, {isa}: \
                             block {place}"
                        );
                    }
                    assert_eq!(blocks.len(), memory.len());
                    let mut ours = [0; 32];
                    fill.finish(0, &mut ours);
                    assert_eq!(ours, tag);
                }
            }
        }
    }
}
