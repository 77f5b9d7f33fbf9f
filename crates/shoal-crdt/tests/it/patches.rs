//! What patches say of edits, merges and loads. That they make any state out of any other is
//! tested in the conformance sessions.

use shoal_crdt::{
    ActorId, AutoCommit, CommitOptions, Document, Error, ExpandMark, LoadOptions, ObjType, Patch,
    PatchAction, PatchProp, ROOT, ReadDoc, Scalar, Transactable,
};

fn actions(patches: &[Patch]) -> Vec<&PatchAction> {
    patches.iter().map(|patch| &patch.action).collect()
}

#[test]
fn patches_of_edits_are_their_net_effect_with_paths() {
    let mut doc = Document::new(ActorId::new(&[1]));
    let mut tx = doc.transaction();
    assert_eq!(tx.patches().unwrap(), []);
    let list = tx.put_object(&ROOT, "list", ObjType::List).unwrap();
    let map = tx.insert_object(&list, 0, ObjType::Map).unwrap();
    tx.put(&map, "n", Scalar::Counter(1)).unwrap();
    tx.put(&map, "gone", 1_i64).unwrap();
    tx.delete(&map, "gone").unwrap();
    let patches = tx.patches().unwrap();
    tx.commit(CommitOptions::default());
    assert_eq!(patches.len(), 3);
    assert_eq!(patches, doc.current_state().unwrap());
    let path = [(ROOT, PatchProp::Key("list".into())), (list, PatchProp::Index(0))];
    assert_eq!(patches[2].path, path);

    let mut tx = doc.transaction();
    tx.increment(&map, "n", 5).unwrap();
    tx.increment(&map, "n", -2).unwrap();
    let patches = tx.patches().unwrap();
    let expected = PatchAction::Increment { prop: PatchProp::Key("n".into()), by: 3 };
    assert_eq!(actions(&patches), [&expected]);
}

#[test]
fn merges_loads_and_marks_are_observed() {
    let mut doc = Document::new(ActorId::new(&[1]));
    let mut tx = doc.transaction();
    let text = tx.put_object(&ROOT, "text", ObjType::Text).unwrap();
    tx.splice_text(&text, 0, 0, "hello").unwrap();
    tx.commit(CommitOptions::default());

    let mut other = AutoCommit::from(doc.fork(ActorId::new(&[2])));
    other.splice_text(&text, 5, 0, "!").unwrap();
    other.mark(&text, 0, 2, "bold", true, ExpandMark::None).unwrap();
    other.put(&ROOT, "text2", "x").unwrap();
    let bytes = other.save();
    let (merged, patches) = doc.observe(|doc| doc.load_incremental(&bytes)).unwrap();
    merged.unwrap();
    assert_eq!(patches.len(), 3, "{patches:#?}");
    assert!(
        matches!(
            actions(&patches)[..],
            [
                PatchAction::PutMap { .. },
                PatchAction::SpliceText { index: 5, .. },
                PatchAction::Mark { .. },
            ]
        ),
        "{patches:#?}"
    );
    let loaded = Document::load(&bytes, ActorId::new(&[3]), &LoadOptions::default()).unwrap();
    assert_eq!(loaded.current_state().unwrap(), doc.current_state().unwrap());
}

#[test]
fn conflicts_are_said() {
    let mut doc = AutoCommit::new(ActorId::new(&[2]));
    let mut other = doc.fork(ActorId::new(&[1]));
    doc.put(&ROOT, "a", 1_i64).unwrap();
    other.put(&ROOT, "a", 2_i64).unwrap();
    doc.update_diff_cursor();
    doc.merge(&mut other).unwrap();
    let patches = doc.diff_incremental().unwrap();
    assert_eq!(actions(&patches), [&PatchAction::Conflict { prop: PatchProp::Key("a".into()) }]);
    assert_eq!(doc.diff_incremental().unwrap(), []);
    doc.reset_diff_cursor();
    assert_eq!(doc.diff_incremental().unwrap().len(), 1);
}

#[test]
fn a_fork_at_heads_has_what_those_heads_had() {
    let mut doc = AutoCommit::new(ActorId::new(&[1]));
    doc.put(&ROOT, "a", 1_i64).unwrap();
    let heads = doc.heads();
    doc.put(&ROOT, "a", 2_i64).unwrap();
    let mut fork = doc.fork_at(ActorId::new(&[2]), &heads).unwrap();
    assert_eq!(fork.heads(), heads);
    assert_eq!(fork.hydrate(&ROOT).unwrap(), doc.at(&heads).hydrate(&ROOT).unwrap());
    fork.put(&ROOT, "a", 3_i64).unwrap();
    fork.merge(&mut doc).unwrap();
    assert_eq!(fork.get_all(&ROOT, "a").unwrap().len(), 2);
    let unknown = fork.fork_at(ActorId::new(&[3]), &[shoal_crdt::ChangeHash([7; 32])]);
    assert!(matches!(unknown, Err(Error::UnknownHead(_))));
}

/// A document from a stranger may nest as deeply as it has ops; readers that recurse, or that
/// name whole paths, refuse it.
#[test]
fn deep_nesting_is_refused_and_not_walked() {
    let mut doc = Document::new(ActorId::new(&[1]));
    let mut tx = doc.transaction();
    let mut obj = ROOT;
    for _ in 0..2000 {
        obj = tx.put_object(&obj, "a", ObjType::Map).unwrap();
    }
    tx.commit(CommitOptions::default());
    assert!(matches!(doc.current_state(), Err(Error::TooDeep { .. })));
    assert!(matches!(doc.hydrate(&ROOT), Err(Error::TooDeep { .. })));
}
