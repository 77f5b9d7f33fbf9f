//! The parts that a history falls into by its hashes are the reference's, and bring all of it.

use crate::small::{load, new, show};
use shoal_crdt::{
    ActorId, AutoCommit, Change, Document, ExpandedChange, Fragment, ROOT, Transactable,
};

/// The reference's fragments of the same history.
fn theirs(doc: &automerge::Automerge, levels: std::ops::Range<usize>) -> Vec<Fragment> {
    let hash = |hash: &automerge::ChangeHash| shoal_crdt::ChangeHash(hash.0);
    let hashes = |hashes: &[automerge::ChangeHash]| hashes.iter().map(hash).collect();
    let fragment = |fragment: &automerge::Fragment| Fragment {
        head: hash(&fragment.head),
        level: fragment.level,
        boundary: hashes(&fragment.boundary),
        checkpoints: hashes(&fragment.checkpoints),
        members: hashes(&fragment.members),
    };
    doc.fragments(levels).iter().map(fragment).collect()
}

/// Both engines cut these changes alike, at each level, and what is cut brings the document.
fn check(changes: &[Change]) -> Vec<Fragment> {
    let mut ours = Document::new(ActorId::new(&[99]));
    ours.apply_changes(changes.iter().cloned()).unwrap();
    let mut reference = automerge::Automerge::new();
    // One by one, so that the order is the same.
    for change in changes {
        reference.load_incremental(change.raw_bytes()).unwrap();
    }
    let all = ours.fragments(..);
    assert_eq!(all, theirs(&reference, 0..9));
    for levels in [0..1, 1..2, 1..9, 2..9] {
        assert_eq!(ours.fragments(levels.clone()), theirs(&reference, levels));
    }
    for fragment in &all {
        assert_eq!(ours.get_fragment(&fragment.head).as_ref(), Some(fragment));
        assert_eq!(fragment.level, fragment.head.fragment_level());
    }

    let bytes = ours.bundle_fragments(&all).unwrap();
    let mut copy = Document::new(ActorId::new(&[98]));
    let mut their_copy = automerge::Automerge::new();
    for bytes in &bytes {
        copy.load_incremental(bytes).unwrap();
        their_copy.load_incremental(bytes).unwrap();
    }
    assert_eq!(copy.heads(), ours.heads());
    assert_eq!(show(&copy), show(&ours));
    assert_eq!(their_copy.get_heads(), reference.get_heads());
    // A document that was loaded is cut as one that grew.
    let loaded = load(&ours.save());
    let members = |doc: &Document| {
        let parts = doc.fragments(1..);
        parts.into_iter().map(|part| (part.head, part.boundary)).collect::<Vec<_>>()
    };
    assert_eq!(members(&loaded), members(&ours));
    all
}

fn changes_of(doc: &mut AutoCommit) -> Vec<Change> {
    doc.document().changes().cloned().collect()
}

#[test]
fn a_history_of_one_actor() {
    let mut doc = new(1);
    for n in 0..1500_i64 {
        doc.put(&ROOT, "count", n).unwrap();
        doc.commit();
    }
    let all = check(&changes_of(&mut doc));
    assert!(all.iter().filter(|part| part.level == 1).count() > 1);
    assert!(all.iter().any(|part| part.level == 0));
    let bundled: Vec<&Fragment> = all.iter().filter(|part| part.level > 0).collect();
    assert!(bundled.windows(2).all(|pair| pair[1].boundary.first() == Some(&pair[0].head)));
}

#[test]
fn nothing_and_little() {
    assert!(check(&[]).is_empty());
    let mut doc = new(1);
    doc.put(&ROOT, "n", 1_i64).unwrap();
    doc.commit();
    assert_eq!(check(&changes_of(&mut doc)).len(), 1);
    assert_eq!(doc.document().get_fragment(&shoal_crdt::ChangeHash([7; 32])), None);
}

#[test]
fn histories_of_three_actors_that_meet() {
    let mut docs = [new(1), new(2), new(3)];
    for round in 0..40_usize {
        for (number, doc) in docs.iter_mut().enumerate() {
            for n in 0..=(round + number) % 11 {
                doc.put(&ROOT, &format!("{number}"), (round * 100 + n) as u64).unwrap();
                doc.commit();
            }
        }
        let (one, rest) = docs.split_at_mut(1);
        let other = &mut rest[round % 2];
        one[0].merge(other).unwrap();
        other.merge(&mut one[0]).unwrap();
    }
    let (one, rest) = docs.split_at_mut(1);
    for other in rest {
        one[0].merge(other).unwrap();
    }
    let all = check(&changes_of(&mut docs[0]));
    assert!(all.iter().any(|part| part.level > 0));
}

/// A change of a higher level takes what the fragments of lower levels before it have.
#[test]
fn a_fragment_of_level_two() {
    let mut doc = new(1);
    for n in 0..700_i64 {
        doc.put(&ROOT, "n", n).unwrap();
        doc.commit();
    }
    // Another actor's change after those, whose time is such that its hash begins with two zero
    // bytes.
    let mut copy = load(&doc.save());
    let heads = copy.heads();
    let mut tx = copy.transaction();
    tx.put(&ROOT, "m", 1_i64).unwrap();
    tx.commit(Default::default()).unwrap();
    let mut expanded = ExpandedChange::from(copy.last_local_change().unwrap());
    expanded.hash = None;
    assert_eq!(expanded.deps, heads);
    let found = (0..10_000_000).find_map(|time| {
        expanded.time = time;
        let change = expanded.to_change().unwrap();
        (change.hash().fragment_level() == 2).then_some(change)
    });
    doc.apply_changes([found.unwrap()]).unwrap();
    for n in 0..700_i64 {
        doc.put(&ROOT, "n", n).unwrap();
        doc.commit();
    }
    let all = check(&changes_of(&mut doc));
    assert_eq!(all[0].level, 2);
    assert!(!all[0].checkpoints.is_empty());
    assert!(all.iter().any(|part| part.level == 1 && part.boundary.ends_with(&[all[0].head])));
}
