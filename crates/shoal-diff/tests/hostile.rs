//! Changesets with bytes changed, cut out and put in; `SHOAL_CHANGESETS=N` tries more of them.

#![allow(clippy::unwrap_used)]

#[path = "../../../fuzz/src/changeset.rs"]
#[allow(unreachable_pub)]
mod changeset;

use shoal_testkit::Random;

/// Changes of the tables under check: a changeset, a patchset.
const SEEDS: [&str; 3] = [
    "540301000074000900010000000000000001030178023ff8000000000000\
     170001000000000000000203017900000302797900120001000000000000000903017a05",
    "540301020077001200010000000000000005030161040100",
    "500301000074000900010000000000000001170001000000000000000203027979001200\
     0100000000000000090301 7a05",
];

#[test]
fn damaged_changesets_end_in_values_or_errors() {
    let rounds = std::env::var("SHOAL_CHANGESETS").map_or(400, |count| count.parse().unwrap());
    let mut random = Random::new(5);
    let written = SEEDS.iter().map(|seed| {
        let digits: String = seed.split_whitespace().collect();
        shoal_stdx::hex::decode(&digits).unwrap()
    });
    let recorded = changeset::SCRIPTS.iter().flat_map(|script| changeset::recorded(script));
    let seeds: Vec<Vec<u8>> = written.chain(recorded).collect();
    seeds.iter().for_each(|seed| changeset::check(seed));
    for round in 0..rounds {
        let mut bytes = seeds[round % seeds.len()].clone();
        for _ in 0..=random.below(3) {
            let place = random.place(bytes.len().max(1));
            match random.below(4) {
                0 => bytes.truncate(place),
                1 if place < bytes.len() => bytes[place] = random.number() as u8,
                2 => bytes.insert(place.min(bytes.len()), random.pick(&[0, 1, 3, 9, 18, 23, 255])),
                _ => {
                    let part = bytes[place.min(bytes.len())..].to_vec();
                    bytes.extend(part);
                }
            }
        }
        changeset::check(&bytes);
    }
}
