//! Changes that are well formed and mean anything, or nothing, made from a seed as the fuzz target
//! `crdt_apply` makes them from its input: what a document makes of them does not depend on the
//! order in which they come, is saved, and is loaded as the same.
//!
//! `SHOAL_CRDT_SEED` and `SHOAL_CRDT_CASES` say where to begin and how many to try; a failure
//! prints the seed that leads to it at once.

#![allow(clippy::unwrap_used, clippy::print_stderr, unreachable_pub)]

// The fuzz targets' own parts, so that they go on building with the crates they are about.
#[path = "../../../fuzz/src/changes.rs"]
mod changes;
#[path = "../../../fuzz/src/document.rs"]
mod document;
#[path = "../../../fuzz/src/script.rs"]
mod script;

use shoal_crdt::{ActorId, Change, Document, LoadOptions};

use changes::Told;
use script::Script;

/// Where a run without a seed begins.
const SEED: u64 = 0x5e_ed_0f_5e_a5;
/// How many cases a run without a number has.
const CASES: u64 = 2_000;

fn empty() -> Document {
    Document::new(ActorId::new(&[1]))
}

/// The next number, by xorshift.
fn next(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

/// A script, and the seed for what comes after it.
fn script_of(seed: &mut u64) -> Vec<u8> {
    let length = next(seed) % 400;
    (0..length).map(|_| (next(seed) >> 20) as u8).collect()
}

fn applied(changes: impl Iterator<Item = Change>) -> Document {
    let mut doc = empty();
    doc.apply_changes(changes).expect("they were applied in another order");
    doc
}

/// What must hold of the changes that a script tells. Returns whether all of them were applied.
fn check(data: &[u8]) -> bool {
    let mut script = Script(data);
    let Told { changes, causal } = changes::changes(&mut script);
    let mut doc = empty();
    let mut all_applied = true;
    for change in &changes {
        let before = document::digest(&doc);
        if doc.apply_changes([change.clone()]).is_err() {
            assert_eq!(document::digest(&doc), before, "a refused change leaves no trace");
            all_applied = false;
        }
    }
    document::read(&doc);
    document::read_past(&doc);
    if data.len().is_multiple_of(32) && doc.queued_changes().is_empty() {
        document::anonymize(&doc);
    }
    let again = Document::load(&doc.save(), ActorId::new(&[1]), &LoadOptions::default());
    let again = again.expect("what was saved loads");
    assert_eq!(document::digest(&again), document::digest(&doc));
    document::read_past(&again);
    if all_applied && causal {
        assert!(doc.queued_changes().is_empty());
        for order in [applied(changes.iter().cloned()), applied(changes.iter().rev().cloned())] {
            assert_eq!(document::digest(&order), document::digest(&doc));
        }
        let mut one_by_one = empty();
        for change in changes.into_iter().rev() {
            one_by_one.apply_changes([change]).expect("they were applied in another order");
        }
        assert_eq!(document::digest(&one_by_one), document::digest(&doc));
    }
    document::edit(&mut doc, &mut script);
    all_applied
}

/// Prints the seed of a case that ends in a panic.
struct Case(u64);

impl Drop for Case {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("again: SHOAL_CRDT_SEED={} SHOAL_CRDT_CASES=1", self.0);
        }
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[test]
fn any_changes_make_a_document_that_is_saved_and_loaded_as_the_same() {
    let mut seed = number("SHOAL_CRDT_SEED", SEED);
    let cases = number("SHOAL_CRDT_CASES", CASES);
    let mut applied = 0;
    for _ in 0..cases {
        let case = Case(seed);
        let data = script_of(&mut seed);
        applied += u64::from(check(&data));
        drop(case);
    }
    // A generator whose changes are all refused would test little.
    assert!(cases < CASES || applied * 8 > cases, "{applied} of {cases} were applied");
}

/// A change that awaits an op which can no longer come was saved as one that waits, and refused
/// with the whole file when it was loaded.
#[test]
fn what_awaits_an_op_that_cannot_come_keeps_no_file_from_loading() {
    let mut seed = 12_439_209_984_259_343_065;
    check(&script_of(&mut seed));
}
