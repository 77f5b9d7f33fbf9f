//! Published tags: the RFC, the reference implementation's tests, a proof of work.
#![allow(clippy::unwrap_used)]

use shoal_argon::Variant::{D, I, Id};
use shoal_argon::Version::{V0x10, V0x13};
use shoal_argon::{Argon2, Inputs, Params, Variant, Version};
use shoal_stdx::hex;

/// Memory in KiB, passes, lanes.
type Costs = (u32, u32, u32);

fn check(
    (variant, version): (Variant, Version),
    (memory_kib, passes, lanes): Costs,
    inputs: Inputs<'_>,
    expect: &str,
) {
    let params = Params::new(memory_kib, passes, lanes).unwrap();
    let mut tag = vec![0; expect.len() / 2];
    Argon2::new(variant, version, params).hash(&inputs, &mut tag).unwrap();
    assert_eq!(
        hex::encode(&tag),
        expect,
        "{variant:?} {version:?} m={memory_kib} t={passes} p={lanes}"
    );
}

/// RFC 9106 §5; the tags of version 0x10 are the reference implementation's for the same
/// inputs.
#[test]
fn rfc_9106() {
    let inputs =
        Inputs { password: &[1; 32], salt: &[2; 16], secret: &[3; 8], associated_data: &[4; 12] };
    for (function, tag) in [
        ((D, V0x13), "512b391b6f1162975371d30919734294f868e3be3984f3c1a13a4db9fabe4acb"),
        ((D, V0x10), "96a9d4e5a1734092c85e29f410a45914a5dd1f5cbf08b2670da68a0285abf32b"),
        ((I, V0x13), "c814d9d1dc7f37aa13f0d77f2494bda1c8de6b016dd388d29952a4c4672b6ce8"),
        ((I, V0x10), "87aeedd6517ab830cd9765cd8231abb2e647a5dee08f7c05e02fcb763335d0fd"),
        ((Id, V0x13), "0d640df58d78766c08c037a34a8b53c9d01ef0452d75b65eb52520e96b01e659"),
        ((Id, V0x10), "b64615f07789b66b645b67ee9ed3b377ae350b6bfcbb0fc95141ea8f322613c0"),
    ] {
        check(function, (32, 3, 4), inputs, tag);
    }
}

/// The rows of P-H-C `src/test.c`.
#[test]
fn reference_implementation() {
    for (function, costs, password, salt, tag) in [
        (
            (Id, V0x13),
            (65536, 2, 1),
            "password",
            "somesalt",
            "09316115d5cf24ed5a15a31a3ba326e5cf32edc24702987c02b6566f61913cf7",
        ),
        (
            (Id, V0x13),
            (262_144, 2, 1),
            "password",
            "somesalt",
            "78fe1ec91fb3aa5657d72e710854e4c3d9b9198c742f9616c2f085bed95b2e8c",
        ),
        (
            (Id, V0x13),
            (256, 2, 1),
            "password",
            "somesalt",
            "9dfeb910e80bad0311fee20f9c0e2b12c17987b4cac90c2ef54d5b3021c68bfe",
        ),
        (
            (Id, V0x13),
            (256, 2, 2),
            "password",
            "somesalt",
            "6d093c501fd5999645e0ea3bf620d7b8be7fd2db59c20d9fff9539da2bf57037",
        ),
        (
            (Id, V0x13),
            (65536, 1, 1),
            "password",
            "somesalt",
            "f6a5adc1ba723dddef9b5ac1d464e180fcd9dffc9d1cbf76cca2fed795d9ca98",
        ),
        (
            (Id, V0x13),
            (65536, 4, 1),
            "password",
            "somesalt",
            "9025d48e68ef7395cca9079da4c4ec3affb3c8911fe4f86d1a2520856f63172c",
        ),
        (
            (Id, V0x13),
            (65536, 2, 1),
            "differentpassword",
            "somesalt",
            "0b84d652cf6b0c4beaef0dfe278ba6a80df6696281d7e0d2891b817d8c458fde",
        ),
        (
            (Id, V0x13),
            (65536, 2, 1),
            "password",
            "diffsalt",
            "bdf32b05ccc42eb15d58fd19b1f856b113da1e9a5874fdcc544308565aa8141c",
        ),
        (
            (I, V0x13),
            (65536, 2, 1),
            "password",
            "somesalt",
            "c1628832147d9720c5bd1cfd61367078729f6dfb6f8fea9ff98158e0d7816ed0",
        ),
        (
            (I, V0x10),
            (65536, 2, 1),
            "password",
            "somesalt",
            "f6c4db4a54e2a370627aff3db6176b94a2a209a62c8e36152711802f7b30c694",
        ),
    ] {
        let inputs =
            Inputs { password: password.as_bytes(), salt: salt.as_bytes(), ..Inputs::default() };
        check(function, costs, inputs, tag);
    }
}

/// A proof of work's shape: the password is a nonce, the salt a block header without it, both
/// public. Tags on which two other implementations agree.
#[test]
fn proof_of_work() {
    let ascii = b"12345678".as_slice();
    let kernel: Vec<u8> = (0..92u32).map(|i| ((31 * i + 7) % 256) as u8).collect();
    let backend: Vec<u8> = (0..92u32).map(|i| ((37 * i + 11) % 256) as u8).collect();
    let test = b"test_block_header_data".as_slice();
    for (memory_kib, salt, nonce, tag) in [
        (8, ascii, 0, "c81be4e130a2cdd2ccc0d2d2fe7be0318201a19c0980e5fd663a61d41f27dbc7"),
        (8, ascii, 1, "fae9f2ca04f1ec48eac34b60d0628e3ed990852919866374536c0ed252372780"),
        (8, ascii, 42, "bc20881d38bbbb02408df2e863819ba9692afb20dd6bef69a0225ffdc0c64515"),
        (8, &kernel, 0, "d1c051a1da132b1b2f5c133582e25b176c66e1b406b65c6fcdefb673fc5d3287"),
        (32, ascii, 0, "fefaaa6cbe986417567ddd98f2b534e4d3a0ca0cc5137db3c3d1e95d52705cab"),
        (32, &kernel, 0, "10bb090b4da37f29185b80f935a0c416e10577592f633267eb5612fd76f7e8bc"),
        (65, ascii, 0, "a38d44713a8459a50fd6b62c572d9041393d7ffb18b6052672322137e6ce0c07"),
        (65, ascii, 1, "ed367cf2299a8431d4b5add6cb8e84bbc3d10fdee0d5a17bec98b9167516d91b"),
        (65, &kernel, 0, "34e33d1c15249d0fecf8b71a2a95e51d5ddbdf9692068ca6e01eaf9c942bdf51"),
        (64, test, 12345, "2d6899747c54a824b5a2b4acdf32d24d43faf30ac3e9b5a084006d0cb1a37ff6"),
        (1024, ascii, 0, "e1c52b1fc25fa813a73550a8e10888589a40e30a85a093a82a98ec2fbe12da5e"),
        (1024, &kernel, 0, "cca79d8480a0800c4087dd89819780d5a270baf5729909a44b7c9385322d1fbe"),
        (4096, ascii, 0, "2874fe3277d85c3bf5b21398130d37dad85ce527fac32fc602da98351e35f4ab"),
        (4096, ascii, 42, "09b8d1b3355d1afad5704795bfbed9c529242ea0d6c9894869cb475e1bba22b5"),
        (4096, &kernel, 0, "4427e7695177ffb93e8c2aec0e451a1593d7d10d53c33288a668c1d2a497f552"),
        (4096, &kernel, 1, "01e70d9e48e8407c4d4e10599955d8bc034cae638652a34ca5ef3fcc6fc77615"),
        (4096, &backend, 0, "19bf850ad8c4131f0699581d3c4b5f2a4d8cf1c1bbd42dfcdedb6891c990fc36"),
        (4096, test, 12345, "164af2d708a5219be0d32a3b8153f7c7e45f20b8cac08171e8723958610e315f"),
        (65536, ascii, 0, "923e714256683c21ffa0f03eae40b39dc8aa9131a1c204d281214eb2a2ee0602"),
        (65536, &kernel, 0, "adebcb07b20a0480a49ea4f11e2aec0f378a227140d8497a285f1217449b7447"),
        (65536, &backend, 0, "f7dfc69d7cfbb2f902fbeae90b06e9a99a46d6113229977f0fcca9438d9cef64"),
    ] {
        let nonce: u64 = nonce;
        let inputs = Inputs { password: &nonce.to_le_bytes(), salt, ..Inputs::default() };
        check((Id, V0x13), (memory_kib, 1, 1), inputs, tag);
    }
}

/// Wiping the memory afterwards is nobody's business but the allocator's.
#[test]
fn public_inputs_give_the_same_tag() {
    let inputs = Inputs { password: &[0; 8], salt: b"12345678", ..Inputs::default() };
    let mut tag = [0; 32];
    let params = Params::new(8, 1, 1).unwrap().public();
    Argon2::new(Id, V0x13, params).hash(&inputs, &mut tag).unwrap();
    assert_eq!(
        hex::encode(&tag),
        "c81be4e130a2cdd2ccc0d2d2fe7be0318201a19c0980e5fd663a61d41f27dbc7"
    );
}
