//! Tags that two other implementations agree on, and the search against one try after the other.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::AtomicBool;

use shoal_pow::{Challenge, Error, Isa, MEMORY_KIB, Options, Search, Target};
use shoal_stdx::hex;

const A: &[u8] = b"12345678";
const T: &[u8] = b"test_block_header_data";

/// The header of a known miner's kernel benchmark.
fn kernel_bench() -> Vec<u8> {
    (0..92u32).map(|i| ((31 * i + 7) % 256) as u8).collect()
}

/// The header of its backend benchmark's first round.
fn backend_bench() -> Vec<u8> {
    (0..92u32).map(|i| ((37 * i + 11) % 256) as u8).collect()
}

/// Computed with libargon2 and with OpenSSL 4.0.0.
#[test]
fn vectors() {
    let (kb, bb) = (kernel_bench(), backend_bench());
    for (memory_kib, header, nonce, expect) in [
        (8, A, 0, "c81be4e130a2cdd2ccc0d2d2fe7be0318201a19c0980e5fd663a61d41f27dbc7"),
        (8, A, 1, "fae9f2ca04f1ec48eac34b60d0628e3ed990852919866374536c0ed252372780"),
        (8, A, 42, "bc20881d38bbbb02408df2e863819ba9692afb20dd6bef69a0225ffdc0c64515"),
        (8, &kb, 0, "d1c051a1da132b1b2f5c133582e25b176c66e1b406b65c6fcdefb673fc5d3287"),
        (32, A, 0, "fefaaa6cbe986417567ddd98f2b534e4d3a0ca0cc5137db3c3d1e95d52705cab"),
        (32, &kb, 0, "10bb090b4da37f29185b80f935a0c416e10577592f633267eb5612fd76f7e8bc"),
        (65, A, 0, "a38d44713a8459a50fd6b62c572d9041393d7ffb18b6052672322137e6ce0c07"),
        (64, T, 12345, "2d6899747c54a824b5a2b4acdf32d24d43faf30ac3e9b5a084006d0cb1a37ff6"),
        (1024, A, 0, "e1c52b1fc25fa813a73550a8e10888589a40e30a85a093a82a98ec2fbe12da5e"),
        (1024, &kb, 0, "cca79d8480a0800c4087dd89819780d5a270baf5729909a44b7c9385322d1fbe"),
        (4096, A, 0, "2874fe3277d85c3bf5b21398130d37dad85ce527fac32fc602da98351e35f4ab"),
        (4096, A, 42, "09b8d1b3355d1afad5704795bfbed9c529242ea0d6c9894869cb475e1bba22b5"),
        (4096, &kb, 0, "4427e7695177ffb93e8c2aec0e451a1593d7d10d53c33288a668c1d2a497f552"),
        (4096, &kb, 1, "01e70d9e48e8407c4d4e10599955d8bc034cae638652a34ca5ef3fcc6fc77615"),
        (4096, &bb, 0, "19bf850ad8c4131f0699581d3c4b5f2a4d8cf1c1bbd42dfcdedb6891c990fc36"),
        (4096, T, 12345, "164af2d708a5219be0d32a3b8153f7c7e45f20b8cac08171e8723958610e315f"),
        (65536, A, 0, "923e714256683c21ffa0f03eae40b39dc8aa9131a1c204d281214eb2a2ee0602"),
        (65536, &kb, 0, "adebcb07b20a0480a49ea4f11e2aec0f378a227140d8497a285f1217449b7447"),
        (65536, &bb, 0, "f7dfc69d7cfbb2f902fbeae90b06e9a99a46d6113229977f0fcca9438d9cef64"),
    ] {
        let challenge = Challenge::new(header, memory_kib, Target::from_difficulty(1)).unwrap();
        for isa in Isa::available() {
            let tag = challenge.tag(nonce, &Options::default().isa(isa)).unwrap();
            assert_eq!(hex::encode(&tag), expect, "m={memory_kib} nonce {nonce}, {isa}");
        }
    }
}

/// The chain's own size, one hash alone and two side by side.
#[test]
fn two_gibibytes() {
    let Some(free_kib) = free_kib() else {
        return println!("skipped: this system does not say how much memory is free");
    };
    let wanted_kib = 3 * u64::from(MEMORY_KIB);
    if free_kib < wanted_kib {
        return println!("skipped: needs {wanted_kib} KiB, {free_kib} KiB are free");
    }
    let challenge = Challenge::new(A, MEMORY_KIB, Target::from_difficulty(1)).unwrap();
    let mut tags = [[0; 32]; 2];
    let mut search = Search::new(MEMORY_KIB, 2).unwrap();
    search.tags(&challenge, 0, &mut tags, &Options::default()).unwrap();
    assert_eq!(tags.map(|tag| hex::encode(&tag)), TWO_GIBIBYTES);
    search.tags(&challenge, 1, &mut tags[..1], &Options::default()).unwrap();
    assert_eq!(hex::encode(&tags[0]), TWO_GIBIBYTES[1]);
}

/// Nonces 0 and 1 on the header `12345678`, computed with libargon2 and with RustCrypto's argon2.
const TWO_GIBIBYTES: [&str; 2] = [
    "bac06c40ab290686de72a3fd7a451ecbb3259b94cc2b68a531f8efc5a50ea151",
    "8d732fed935203b1df0ccfac7510a13968c982ac8b3667bdc857bcbda5904921",
];

fn free_kib() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Every solution of a range is found, in order, whatever the number of arenas.
#[test]
fn a_search_finds_what_single_tries_find() {
    let challenge = Challenge::new(T, 64, Target::from_difficulty(5)).unwrap();
    let options = Options::default();
    let expect: Vec<_> =
        (100..160).filter_map(|nonce| challenge.verify(nonce, &options).unwrap()).collect();
    assert!((4..30).contains(&expect.len()), "{}", expect.len());
    for side_by_side in [1, 2, 5, 7] {
        let mut search = Search::new(64, side_by_side).unwrap();
        assert_eq!(search.side_by_side(), side_by_side);
        let mut found = Vec::new();
        let mut next = 100;
        while next < 160 {
            let result = search.run(&challenge, next..160, &options).unwrap();
            assert!(result.next > next && result.next <= 160);
            next = result.next;
            found.extend(result.solution);
        }
        assert_eq!(found, expect, "{side_by_side} side by side");
    }
}

#[test]
fn the_end_of_the_nonces_is_no_edge() {
    let challenge = Challenge::new(T, 8, Target::from_difficulty(0)).unwrap();
    let mut search = Search::new(8, 3).unwrap();
    let found = search.run(&challenge, u64::MAX - 4..u64::MAX, &Options::default()).unwrap();
    assert_eq!((found.solution, found.next), (None, u64::MAX));
    let found = search.run(&challenge, 7..7, &Options::default()).unwrap();
    assert_eq!((found.solution, found.next), (None, 7));
}

#[test]
fn refusals() {
    let target = Target::from_difficulty(1);
    let message = |error: Error| error.to_string();
    assert_eq!(
        Challenge::new(b"7 bytes", 8, target).map_err(message).unwrap_err(),
        "salt length in bytes must be at least 8: 7"
    );
    assert_eq!(
        Challenge::new(A, 7, target).map_err(message).unwrap_err(),
        "memory in KiB must be at least 8: 7"
    );
    assert_eq!(Search::new(8, 0).err(), Some(Error::NoArena));
    let challenge = Challenge::new(A, 16, target).unwrap();
    let small = Search::new(8, 1).unwrap().run(&challenge, 0..1, &Options::default());
    assert!(matches!(small, Err(Error::Hash(shoal_argon::Error::ArenaTooSmall { .. }))));
    let stop = AtomicBool::new(true);
    let stopped =
        Search::new(16, 1).unwrap().run(&challenge, 0..1, &Options::default().stop(&stop));
    assert_eq!(stopped, Err(Error::Hash(shoal_argon::Error::Stopped)));
}
