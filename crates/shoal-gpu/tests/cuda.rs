//! CUDA's programs and their host side on an emulated card: a process running NVRTC's text, thread
//! by thread. Without a C compiler, the tests say so and end.
#![cfg(feature = "emulator")]
#![allow(clippy::unwrap_used)]

mod support;

use std::time::Duration;

use proptest::prelude::*;
use shoal_gpu::{Device, DeviceOptions, EmulatedCard, GpuError};
use shoal_pow::{Challenge, Options, Target};

use support::{GivenUp, say, tags};

/// A device on a card; `None` without a C compiler.
fn open(card: &EmulatedCard, options: &DeviceOptions) -> Option<Result<Device, GpuError>> {
    match card.adapter() {
        Ok(adapter) => Some(Device::open(&adapter, options)),
        Err(why) => {
            say(&format!("NO EMULATED CARD: {why}: skipped"));
            None
        }
    }
}

/// A card of `card_kib`, and a device taking `memory_kib` at most.
fn device(card_kib: u64, memory_kib: u64) -> Option<Device> {
    let options = DeviceOptions { memory_kib: Some(memory_kib), ..DeviceOptions::default() };
    open(&EmulatedCard::new(card_kib), &options).map(Result::unwrap)
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |place: usize| u8::from_str_radix(&hex[place..place + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digit).collect()
}

/// The vectors of the proof of work, computed by libargon2 and OpenSSL alike.
#[test]
fn the_known_vectors() {
    let text = *b"12345678";
    let counting: Vec<u8> = (0..92u32).map(|i| ((31 * i + 7) % 256) as u8).collect();
    let backend: Vec<u8> = (0..92u32).map(|i| ((37 * i + 11) % 256) as u8).collect();
    let header = b"test_block_header_data";
    let vectors: [(u32, &[u8], u64, &str); 17] = [
        (8, &text, 0, "c81be4e130a2cdd2ccc0d2d2fe7be0318201a19c0980e5fd663a61d41f27dbc7"),
        (8, &text, 1, "fae9f2ca04f1ec48eac34b60d0628e3ed990852919866374536c0ed252372780"),
        (8, &text, 42, "bc20881d38bbbb02408df2e863819ba9692afb20dd6bef69a0225ffdc0c64515"),
        (8, &counting, 0, "d1c051a1da132b1b2f5c133582e25b176c66e1b406b65c6fcdefb673fc5d3287"),
        (32, &text, 0, "fefaaa6cbe986417567ddd98f2b534e4d3a0ca0cc5137db3c3d1e95d52705cab"),
        (32, &counting, 0, "10bb090b4da37f29185b80f935a0c416e10577592f633267eb5612fd76f7e8bc"),
        (65, &text, 0, "a38d44713a8459a50fd6b62c572d9041393d7ffb18b6052672322137e6ce0c07"),
        (65, &text, 1, "ed367cf2299a8431d4b5add6cb8e84bbc3d10fdee0d5a17bec98b9167516d91b"),
        (65, &counting, 0, "34e33d1c15249d0fecf8b71a2a95e51d5ddbdf9692068ca6e01eaf9c942bdf51"),
        (64, header, 12345, "2d6899747c54a824b5a2b4acdf32d24d43faf30ac3e9b5a084006d0cb1a37ff6"),
        (1024, &text, 0, "e1c52b1fc25fa813a73550a8e10888589a40e30a85a093a82a98ec2fbe12da5e"),
        (1024, &counting, 0, "cca79d8480a0800c4087dd89819780d5a270baf5729909a44b7c9385322d1fbe"),
        (4096, &text, 42, "09b8d1b3355d1afad5704795bfbed9c529242ea0d6c9894869cb475e1bba22b5"),
        (4096, &counting, 0, "4427e7695177ffb93e8c2aec0e451a1593d7d10d53c33288a668c1d2a497f552"),
        (4096, &counting, 1, "01e70d9e48e8407c4d4e10599955d8bc034cae638652a34ca5ef3fcc6fc77615"),
        (4096, &backend, 0, "19bf850ad8c4131f0699581d3c4b5f2a4d8cf1c1bbd42dfcdedb6891c990fc36"),
        (4096, header, 12345, "164af2d708a5219be0d32a3b8153f7c7e45f20b8cac08171e8723958610e315f"),
    ];
    let Some(mut device) = device(1 << 20, 12_000) else { return };
    for (memory_kib, salt, nonce, tag) in vectors {
        let challenge = Challenge::new(salt, memory_kib, Target::from_difficulty(1)).unwrap();
        let found = tags(&mut device, &challenge, [nonce])[&nonce];
        assert_eq!(found.as_ref().map(|tag| &tag[..]), Some(&bytes(tag)[..]), "{memory_kib} KiB");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Hashes side by side in every phase, in chunks and parts of all shapes, have the tags
    /// of our own kernels.
    #[test]
    fn every_tag_is_the_kernels(
        memory_kib in 8u32..540,
        header in prop::collection::vec(any::<u8>(), 8..300),
        first in any::<u64>(),
        spare_kib in 0u64..600,
        lane_max in 1u32..6,
    ) {
        // The trial at the opening takes 64 KiB.
        let memory = Some((u64::from(memory_kib) + spare_kib).max(64));
        let options = DeviceOptions { memory_kib: memory, lane_max, ..DeviceOptions::default() };
        let Some(device) = open(&EmulatedCard::new(1 << 16), &options) else { return Ok(()) };
        let mut device = device.unwrap();
        let target = Target::from_difficulty(1);
        let challenge = Challenge::new(&header, memory_kib, target).unwrap();
        let nonces = (0..5).map(|number| first.wrapping_add(number));
        for (nonce, tag) in tags(&mut device, &challenge, nonces) {
            let expect = challenge.tag(nonce, &Options::default()).unwrap();
            prop_assert_eq!(tag, Some(expect), "{} KiB, nonce {}", memory_kib, nonce);
        }
    }
}

#[test]
fn only_tags_that_meet_the_target_come_back() {
    let Some(mut device) = device(1 << 16, 400) else { return };
    support::only_tags_that_meet_the_target_come_back(&mut device);
}

#[test]
fn hashes_given_up_are_never_reported_and_the_next_are_right() {
    let Some(mut device) = device(1 << 16, 8192) else { return };
    let GivenUp { cleared_in, .. } = support::hashes_given_up_are_never_reported(&mut device);
    // Nothing is waited for: the launches given up end by themselves.
    assert!(cleared_in < Duration::from_millis(50), "{cleared_in:?}");
}

#[test]
fn a_card_nearly_full_gives_what_it_has_and_too_little_is_said() {
    // Without a limit of the caller's, the card's end is the limit; the table of chunks and the
    // other buffers take their part first.
    let options = DeviceOptions { memory_kib: Some(1 << 30), ..DeviceOptions::default() };
    let card = EmulatedCard::new(4096);
    let Some(device) = open(&card, &options) else { return };
    let mut device = device.unwrap();
    let challenge = Challenge::new(b"a header", 512, Target::from_difficulty(1)).unwrap();
    assert_eq!(tags(&mut device, &challenge, 0..3).len(), 3);
    assert!((1024..4096).contains(&device.memory_kib()), "{} KiB", device.memory_kib());
    let large = Challenge::new(b"a header", 8192, Target::from_difficulty(1)).unwrap();
    let error = device.begin(&large).unwrap_err();
    assert!(error.to_string().starts_with("a hash takes 8192 KiB"), "{error}");
    // The device serves on.
    assert_eq!(tags(&mut device, &challenge, 0..3).len(), 3);
    // A card without memory even for the buffers.
    let error = open(&EmulatedCard::new(64), &DeviceOptions::default()).unwrap().unwrap_err();
    assert!(error.to_string().contains("no memory left"), "{error}");
}

#[test]
fn a_lost_card_is_an_error_and_comes_back() {
    let card = EmulatedCard::new(1 << 16);
    let options = DeviceOptions { memory_kib: Some(2048), ..DeviceOptions::default() };
    let Some(device) = open(&card, &options) else { return };
    let mut device = device.unwrap();
    let challenge = Challenge::new(b"a header", 256, Target::from_difficulty(1)).unwrap();
    device.begin(&challenge).unwrap();
    let mut nonces = 0..u64::MAX;
    device.advance(|| nonces.next()).unwrap();
    card.unplug();
    let error = loop {
        let step = device.advance(|| nonces.next());
        match step.and_then(|_| device.wait(Duration::from_secs(1))) {
            Ok(()) => {}
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("device lost"), "{error}");
    assert!(device.begin(&challenge).is_err());
    drop(device);
    assert!(open(&card, &options).unwrap().is_err());
    card.plug_in();
    let mut device = open(&card, &options).unwrap().unwrap();
    assert_eq!(tags(&mut device, &challenge, 0..3).len(), 3);
}

#[test]
fn a_card_that_computes_wrongly_is_not_opened() {
    let card = EmulatedCard::new(1 << 16).wrong_from(1);
    let Some(device) = open(&card, &DeviceOptions::default()) else { return };
    assert_eq!(device.unwrap_err(), GpuError::FalseTags);
}

#[test]
fn a_card_is_tuned_while_it_works_and_once_only() {
    let folder = std::env::temp_dir().join(format!("shoal-cuda-tuning-{}", std::process::id()));
    let path = folder.join("cuda-tuning");
    let options = DeviceOptions {
        memory_kib: Some(1024),
        lane_max: 1,
        launch: Duration::from_millis(4),
        tuning: Some(path.clone()),
        ..DeviceOptions::default()
    };
    let card = EmulatedCard::new(1 << 16);
    let Some(device) = open(&card, &options) else { return };
    let mut device = device.unwrap();
    let challenge = Challenge::new(b"a header", 1024, Target::from_difficulty(1)).unwrap();
    device.begin(&challenge).unwrap();
    assert!(device.kernel().ends_with("tuning"), "{}", device.kernel());
    let mut nonces = 0..u64::MAX;
    let mut tried = Vec::new();
    while device.kernel().ends_with("tuning") {
        tried.extend(device.advance(|| nonces.next()).unwrap());
        device.wait(Duration::from_secs(5)).unwrap();
    }
    for hash in tried {
        assert_eq!(hash.tag, Some(challenge.tag(hash.nonce, &Options::default()).unwrap()));
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    assert!(kept.starts_with("emulated card 1024 "), "{kept}");
    let mut again = open(&card, &options).unwrap().unwrap();
    again.begin(&challenge).unwrap();
    assert_eq!(again.kernel(), device.kernel());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_limit_of_power_is_kept_or_refused() {
    let card = EmulatedCard::new(1 << 16);
    let with = |watts| DeviceOptions { watts, ..DeviceOptions::default() };
    let Some(device) = open(&card, &with(None)) else { return };
    assert_eq!(device.unwrap().watts(), Some(75.0));
    assert_eq!(open(&card, &with(Some(40))).unwrap().unwrap().watts(), Some(40.0));
    let error = open(&card, &with(Some(1))).unwrap().unwrap_err();
    assert!(error.to_string().starts_with("a limit of 1 W cannot be set"), "{error}");
}
