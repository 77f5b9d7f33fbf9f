//! Tags of a device beside those of our own kernels, on whatever adapter there is: Mesa's
//! software adapter serves. Without one, the tests say so and end.
#![cfg(feature = "wgpu")]
#![allow(clippy::unwrap_used)]

mod support;

use shoal_gpu::{Adapter, AdapterKind, Device, DeviceOptions, adapters};
use shoal_pow::{Challenge, Options, Target};

use support::{GivenUp, say, tags};

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

/// A device on the adapter, with so much memory for blocks.
fn device(memory_kib: u64) -> Option<Device> {
    let options = DeviceOptions { memory_kib: Some(memory_kib), ..DeviceOptions::default() };
    adapter().map(|adapter| Device::open(&adapter, &options).unwrap())
}

/// The ways a device can be used.
fn ways() -> [DeviceOptions; 4] {
    let with = |narrow, shared| DeviceOptions { narrow, shared, ..DeviceOptions::default() };
    [with(false, false), with(false, true), with(true, false), with(true, true)]
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
    let Some(mut device) = device(400) else { return };
    support::only_tags_that_meet_the_target_come_back(&mut device);
}

#[test]
fn hashes_given_up_are_never_reported_and_the_next_are_right() {
    let Some(mut device) = device(8192) else { return };
    let GivenUp { redone_in, .. } = support::hashes_given_up_are_never_reported(&mut device);
    say(&format!("given up and done again in {redone_in:?}"));
}

#[test]
fn too_little_memory_is_said() {
    let Some(mut device) = device(100) else { return };
    let challenge = Challenge::new(b"a header", 4096, Target::from_difficulty(1)).unwrap();
    let error = device.begin(&challenge).unwrap_err();
    assert!(error.to_string().starts_with("a hash takes 4096 KiB"), "{error}");
    // The device serves on.
    let challenge = Challenge::new(b"a header", 64, Target::from_difficulty(1)).unwrap();
    assert_eq!(tags(&mut device, &challenge, 0..3).len(), 3);
}
