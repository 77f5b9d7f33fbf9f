//! Tests of a device, whatever its driver.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use shoal_gpu::Device;
use shoal_pow::{Challenge, Options, TAG_BYTES, Target};

/// Past the capture of a passing test's output.
pub(crate) fn say(words: &str) {
    writeln!(io::stderr(), "{words}").expect("stderr is open");
}

/// Tags of the nonces, where they meet the target.
pub(crate) fn tags(
    device: &mut Device,
    challenge: &Challenge,
    nonces: impl IntoIterator<Item = u64>,
) -> BTreeMap<u64, Option<[u8; TAG_BYTES]>> {
    device.begin(challenge).unwrap();
    let nonces: Vec<u64> = nonces.into_iter().collect();
    let mut next = nonces.iter().copied();
    let mut tags = BTreeMap::new();
    while tags.len() < nonces.len() {
        for tried in device.advance(|| next.next()).unwrap() {
            assert!(nonces.contains(&tried.nonce));
            assert_eq!(tags.insert(tried.nonce, tried.tag), None, "tried once");
        }
        device.wait(Duration::from_secs(5)).unwrap();
    }
    assert!(device.is_idle());
    tags
}

pub(crate) fn only_tags_that_meet_the_target_come_back(device: &mut Device) {
    let challenge = Challenge::new(b"a header", 64, Target::from_difficulty(4)).unwrap();
    let mut met = 0;
    for (nonce, tag) in tags(device, &challenge, 100..180) {
        let expect = challenge.verify(nonce, &Options::default()).unwrap();
        assert_eq!(tag, expect.map(|solution| solution.tag), "nonce {nonce}");
        met += usize::from(tag.is_some());
    }
    assert!((5..40).contains(&met), "{met} of 80 meet a target of one in four");
    // A bound equal to one tag, and the number below.
    let tag = challenge.tag(100, &Options::default()).unwrap();
    let mut below = tag;
    *below.iter_mut().rev().find(|byte| **byte != 0).unwrap() -= 1;
    for (bound, expect) in [(tag, Some(tag)), (below, None)] {
        let challenge = Challenge::new(b"a header", 64, Target::from_bytes(bound)).unwrap();
        assert_eq!(tags(device, &challenge, [100])[&100], expect);
    }
}

/// Times of [`hashes_given_up_are_never_reported`].
#[allow(dead_code)] // an emulated card's hashes take no time worth a word, wgpu promises none
pub(crate) struct GivenUp {
    /// Of the call to give up.
    pub(crate) cleared_in: Duration,
    /// From the call until the next hashes were done.
    pub(crate) redone_in: Duration,
}

/// Gives up hashes of a MiB, and compares the tags of the next.
pub(crate) fn hashes_given_up_are_never_reported(device: &mut Device) -> GivenUp {
    let challenge = Challenge::new(b"a header", 1024, Target::from_difficulty(1)).unwrap();
    device.begin(&challenge).unwrap();
    let mut early = 0..50;
    for _ in 0..3 {
        device.advance(|| early.next()).unwrap();
    }
    let begun = Instant::now();
    device.clear();
    assert_eq!(device.under_way(), 0);
    let cleared_in = begun.elapsed();
    let mut late = 1000..1009;
    let mut tried = Vec::new();
    while tried.len() < 9 {
        tried.extend(device.advance(|| late.next()).unwrap());
        device.wait(Duration::from_secs(5)).unwrap();
    }
    let redone_in = begun.elapsed();
    for hash in tried {
        assert!(hash.nonce >= 1000, "nonce {} was given up", hash.nonce);
        assert_eq!(hash.tag, Some(challenge.tag(hash.nonce, &Options::default()).unwrap()));
    }
    GivenUp { cleared_in, redone_in }
}
