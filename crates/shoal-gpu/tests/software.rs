//! Tags of a device beside those of our own kernels, on whatever adapter there is: Mesa's
//! software adapter serves. Without one, the tests say so and end.
#![cfg(feature = "wgpu")]
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use shoal_gpu::{Adapter, AdapterKind, Device, DeviceOptions, adapters};
use shoal_pow::{Challenge, Options, TAG_BYTES, Target};

/// The adapter to test: a software one if there is one.
fn adapter() -> Option<Adapter> {
    let mut found = adapters();
    found.sort_by_key(|adapter| adapter.kind != AdapterKind::Software);
    if found.is_empty() {
        say(
            "NO ADAPTER: no graphics device and no software one (Mesa's lavapipe) is here: skipped",
        );
    }
    found.into_iter().next()
}

/// Past the capture of what passing tests print.
fn say(words: &str) {
    writeln!(io::stderr(), "{words}").expect("stderr is open");
}

/// The ways a device can be used.
fn ways() -> [DeviceOptions; 4] {
    let with = |narrow, shared| DeviceOptions { narrow, shared, ..DeviceOptions::default() };
    [with(false, false), with(false, true), with(true, false), with(true, true)]
}

/// Tags of the nonces, where they meet the target.
fn tags(
    device: &mut Device,
    challenge: &Challenge,
    mut nonces: std::ops::Range<u64>,
) -> BTreeMap<u64, Option<[u8; TAG_BYTES]>> {
    device.begin(challenge).unwrap();
    let mut tags = BTreeMap::new();
    let wanted = nonces.clone();
    while tags.len() < wanted.clone().count() {
        for tried in device.advance(|| nonces.next()).unwrap() {
            assert!(wanted.contains(&tried.nonce));
            assert_eq!(tags.insert(tried.nonce, tried.tag), None, "tried once");
        }
        device.wait(Duration::from_secs(5)).unwrap();
    }
    assert!(device.is_idle());
    tags
}

#[test]
fn every_way_gives_the_kernels_tags() {
    let Some(adapter) = adapter() else { return };
    say(&format!("{}, {}, {}", adapter.name, adapter.kind, adapter.driver));
    let header: Vec<u8> = (0..=255).collect();
    for options in ways() {
        let options = DeviceOptions { memory_kib: Some(700), lane_max: 5, ..options };
        let mut device = Device::open(&adapter, &options).unwrap();
        say(&device.kernel());
        for (memory_kib, header_bytes) in
            [(8, 8), (9, 36), (31, 79), (64, 80), (65, 81), (129, 128), (256, 200), (600, 256)]
        {
            let header = &header[..header_bytes];
            let target = Target::from_difficulty(1);
            let challenge = Challenge::new(header, memory_kib, target).unwrap();
            // Both halves of a nonce count.
            let first = u64::from(memory_kib) << 31;
            for (nonce, tag) in tags(&mut device, &challenge, first..first + 7) {
                let expect = challenge.tag(nonce, &Options::default()).unwrap();
                assert_eq!(tag, Some(expect), "{memory_kib} KiB, nonce {nonce}");
            }
        }
    }
}

#[test]
fn only_tags_that_meet_the_target_come_back() {
    let Some(adapter) = adapter() else { return };
    let options = DeviceOptions { memory_kib: Some(400), ..DeviceOptions::default() };
    let mut device = Device::open(&adapter, &options).unwrap();
    let challenge = Challenge::new(b"a header", 64, Target::from_difficulty(4)).unwrap();
    let mut met = 0;
    for (nonce, tag) in tags(&mut device, &challenge, 100..180) {
        let expect = challenge.verify(nonce, &Options::default()).unwrap();
        assert_eq!(tag, expect.map(|solution| solution.tag), "nonce {nonce}");
        met += usize::from(tag.is_some());
    }
    assert!((5..40).contains(&met), "{met} of 80 meet a target of one in four");
    // A bound that is one tag exactly, and the number below.
    let tag = challenge.tag(100, &Options::default()).unwrap();
    let mut below = tag;
    *below.iter_mut().rev().find(|byte| **byte != 0).unwrap() -= 1;
    for (bound, expect) in [(tag, Some(tag)), (below, None)] {
        let challenge = Challenge::new(b"a header", 64, Target::from_bytes(bound)).unwrap();
        assert_eq!(tags(&mut device, &challenge, 100..101)[&100], expect);
    }
}

#[test]
fn hashes_given_up_are_never_reported_and_the_next_are_right() {
    let Some(adapter) = adapter() else { return };
    let options = DeviceOptions { memory_kib: Some(8192), ..DeviceOptions::default() };
    let mut device = Device::open(&adapter, &options).unwrap();
    let challenge = Challenge::new(b"a header", 1024, Target::from_difficulty(1)).unwrap();
    device.begin(&challenge).unwrap();
    let mut early = 0..50;
    for _ in 0..3 {
        device.advance(|| early.next()).unwrap();
    }
    let begun = Instant::now();
    device.clear();
    assert_eq!(device.under_way(), 0);
    let mut late = 1000..1009;
    let mut tried = Vec::new();
    while tried.len() < 9 {
        tried.extend(device.advance(|| late.next()).unwrap());
        device.wait(Duration::from_secs(5)).unwrap();
    }
    for hash in tried {
        assert!(hash.nonce >= 1000, "nonce {} was given up", hash.nonce);
        assert_eq!(hash.tag, Some(challenge.tag(hash.nonce, &Options::default()).unwrap()));
    }
    say(&format!("given up and done again in {:?}", begun.elapsed()));
}

#[test]
fn too_little_memory_is_said() {
    let Some(adapter) = adapter() else { return };
    let options = DeviceOptions { memory_kib: Some(100), ..DeviceOptions::default() };
    let mut device = Device::open(&adapter, &options).unwrap();
    let challenge = Challenge::new(b"a header", 4096, Target::from_difficulty(1)).unwrap();
    let error = device.begin(&challenge).unwrap_err();
    assert!(error.to_string().starts_with("a hash takes 4096 KiB"), "{error}");
    // The device serves on.
    let challenge = Challenge::new(b"a header", 64, Target::from_difficulty(1)).unwrap();
    assert_eq!(tags(&mut device, &challenge, 0..3).len(), 3);
}
