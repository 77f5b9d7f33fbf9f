//! Bundles of some changes of a session, each engine reading what the other wrote.

use shoal_crdt::{ActorId, Bundle, ChangeHash, Document, Limits, LoadOptions};

use super::session::Pair;

/// The bundles of different parts of the history give the same changes in both engines.
pub(crate) fn check(pair: &Pair) {
    let all: Vec<ChangeHash> = pair.ours.changes().map(|change| change.hash()).collect();
    let parts: [Vec<ChangeHash>; 4] = [
        all.clone(),
        all.iter().copied().skip(all.len() / 2).collect(),
        all.iter().copied().step_by(2).collect(),
        all.iter().copied().skip(1).step_by(3).rev().collect(),
    ];
    for part in parts {
        let changes = pair.ours.changes().filter(|change| part.contains(&change.hash()));
        let mut expected: Vec<Vec<u8>> =
            changes.map(|change| change.raw_bytes().to_vec()).collect();

        let ours = pair.ours.bundle(&part).unwrap();
        let read = Bundle::from_bytes(&ours, &Limits::default()).unwrap();
        let raw: Vec<Vec<u8>> =
            read.changes().iter().map(|change| change.raw_bytes().to_vec()).collect();
        assert_eq!(raw, expected);
        let theirs = automerge::Bundle::try_from(&ours[..]).unwrap().to_changes().unwrap();
        let theirs: Vec<Vec<u8>> =
            theirs.iter().map(|change| change.raw_bytes().to_vec()).collect();
        assert_eq!(theirs, expected);

        let written =
            pair.theirs.bundle(part.iter().map(|hash| automerge::ChangeHash(hash.0))).unwrap();
        let read = Bundle::from_bytes(written.bytes(), &Limits::default()).unwrap();
        let mut raw: Vec<Vec<u8>> =
            read.changes().iter().map(|change| change.raw_bytes().to_vec()).collect();
        raw.sort_unstable();
        expected.sort_unstable();
        assert_eq!(raw, expected);
    }
    let whole = pair.ours.bundle(&all).unwrap();
    let loaded = Document::load(&whole, ActorId::new(&[9]), &LoadOptions::default()).unwrap();
    assert_eq!(loaded.heads(), pair.ours.heads());
    let mut theirs = automerge::Automerge::new();
    theirs.load_incremental(&whole).unwrap();
    assert_eq!(theirs.get_heads().len(), pair.ours.heads().len());
}
