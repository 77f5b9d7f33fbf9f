//! Edits of past states, beside the reference's.

use std::panic::{AssertUnwindSafe, catch_unwind};

use automerge::ReadDoc as _;
use automerge::transaction::Transactable as _;
use proptest::prelude::*;
use shoal_crdt::{
    ActorId, AutoCommit, Change, ChangeHash, CommitOptions, Document, Error, ExpandMark, ObjId,
    ObjType, ROOT, ReadDoc, Scalar, Transactable, Value,
};

#[derive(Clone, Debug)]
enum Step {
    Put(u8, i64),
    PutCounter(u8),
    Increment(u8),
    Delete(u8),
    Insert(u8, i64),
    Overwrite(u8, i64),
    Remove(u8),
    Text(u8, i8, String),
    Commit,
    Rollback,
    Isolate(u8),
    Integrate,
    /// Somebody else edits what they know, and it is merged.
    Merge(u8, String),
}

fn step() -> impl Strategy<Value = Step> {
    let at = any::<u8>();
    prop_oneof![
        3 => (0..4_u8, 0..3_i64).prop_map(|(key, value)| Step::Put(key, value)),
        1 => (0..4_u8).prop_map(Step::PutCounter),
        2 => (0..4_u8).prop_map(Step::Increment),
        1 => (0..4_u8).prop_map(Step::Delete),
        3 => (at, 0..3_i64).prop_map(|(at, value)| Step::Insert(at, value)),
        1 => (at, 0..3_i64).prop_map(|(at, value)| Step::Overwrite(at, value)),
        1 => at.prop_map(Step::Remove),
        4 => (at, -3..4_i8, "[ab😀]{0,3}")
            .prop_map(|(at, delete, text)| Step::Text(at, delete, text)),
        2 => Just(Step::Commit),
        1 => Just(Step::Rollback),
        3 => at.prop_map(Step::Isolate),
        2 => Just(Step::Integrate),
        1 => (at, "[cd]{1,2}").prop_map(|(at, text)| Step::Merge(at, text)),
    ]
}

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

/// One replica in both engines, and somebody else's.
struct Pair {
    ours: AutoCommit,
    theirs: automerge::AutoCommit,
    list: [ObjId; 2],
    their_list: [automerge::ObjId; 2],
    other: AutoCommit,
}

impl Pair {
    fn new() -> Self {
        let mut ours = AutoCommit::new(ActorId::new(&[5, 5]));
        let mut theirs =
            automerge::AutoCommit::new().with_actor(automerge::ActorId::from(&[5_u8, 5][..]));
        let list = ours.put_object(&ROOT, "list", ObjType::List).unwrap();
        let text = ours.put_object(&ROOT, "text", ObjType::Text).unwrap();
        let root = automerge::ROOT;
        let their_list = theirs.put_object(&root, "list", automerge::ObjType::List).unwrap();
        let their_text = theirs.put_object(&root, "text", automerge::ObjType::Text).unwrap();
        ours.commit();
        theirs.commit();
        let other = ours.fork(ActorId::new(&[3]));
        Self { ours, theirs, list: [list, text], their_list: [their_list, their_text], other }
    }

    /// Some heads that the document had.
    fn heads_at(&mut self, at: u8) -> Vec<ChangeHash> {
        let changes: Vec<Change> = self.ours.document().changes().cloned().collect();
        let change = &changes[usize::from(at) % changes.len()];
        if at.is_multiple_of(3) && !change.deps().is_empty() {
            change.deps().to_vec()
        } else if at % 5 == 1 {
            self.ours.document().heads()
        } else {
            vec![change.hash()]
        }
    }

    /// False when the reference has panicked: over the patches that it finds when it changes heads,
    /// and that nobody asked for, or over an increment.
    fn apply(&mut self, step: &Step) -> bool {
        let [list, text] = &self.list;
        let [their_list, their_text] = &self.their_list;
        let (ours, theirs) = (&mut self.ours, &mut self.theirs);
        let index = |at: u8, length: usize| usize::from(at) % (length + 1);
        match step {
            Step::Put(key, value) => {
                let key = KEYS[usize::from(*key)];
                ours.put(&ROOT, key, *value).unwrap();
                theirs.put(automerge::ROOT, key, *value).unwrap();
            }
            Step::PutCounter(key) => {
                let key = KEYS[usize::from(*key)];
                ours.put(&ROOT, key, Scalar::Counter(7)).unwrap();
                theirs.put(automerge::ROOT, key, automerge::ScalarValue::counter(7)).unwrap();
            }
            Step::Increment(key) => {
                let key = KEYS[usize::from(*key)];
                let done = ours.increment(&ROOT, key, 2);
                // A check of the reference's own debug builds fails for a few histories.
                let theirs = || theirs.increment(automerge::ROOT, key, 2);
                let Ok(theirs) = catch_unwind(AssertUnwindSafe(theirs)) else { return false };
                assert_eq!(done.is_ok(), theirs.is_ok());
            }
            Step::Delete(key) => {
                let key = KEYS[usize::from(*key)];
                ours.delete(&ROOT, key).unwrap();
                theirs.delete(automerge::ROOT, key).unwrap();
            }
            Step::Insert(at, value) => {
                let at = index(*at, ours.length(list).unwrap());
                ours.insert(list, at, *value).unwrap();
                theirs.insert(their_list, at, *value).unwrap();
            }
            Step::Overwrite(at, value) => {
                let at = index(*at, ours.length(list).unwrap());
                let done = ours.put(list, at, *value);
                assert_eq!(done.is_ok(), theirs.put(their_list, at, *value).is_ok());
            }
            Step::Remove(at) => {
                let at = index(*at, ours.length(list).unwrap());
                let done = ours.delete(list, at);
                assert_eq!(done.is_ok(), theirs.delete(their_list, at).is_ok());
            }
            Step::Text(at, delete, new) => {
                let at = index(*at, ours.length(text).unwrap());
                let delete = isize::from(*delete);
                let done = ours.splice_text(text, at, delete, new);
                let theirs = theirs.splice_text(their_text, at, delete, new);
                assert_eq!(done.is_ok(), theirs.is_ok());
            }
            Step::Commit => {
                let hash = ours.commit().map(|hash| hash.0);
                assert_eq!(hash, theirs.commit().map(|hash| hash.0));
            }
            Step::Rollback => assert_eq!(ours.rollback(), theirs.rollback()),
            Step::Isolate(at) => {
                ours.commit();
                theirs.commit();
                let heads = self.heads_at(*at);
                self.ours.isolate(&heads).unwrap();
                let heads: Vec<_> =
                    heads.iter().map(|hash| automerge::ChangeHash(hash.0)).collect();
                let theirs = AssertUnwindSafe(|| self.theirs.isolate(&heads));
                return catch_unwind(theirs).is_ok();
            }
            Step::Integrate => {
                ours.integrate();
                return catch_unwind(AssertUnwindSafe(|| theirs.integrate())).is_ok();
            }
            Step::Merge(at, new) => {
                let at = index(*at, self.other.length(text).unwrap());
                self.other.splice_text(text, at, 0, new).unwrap();
                self.other.put(&ROOT, KEYS[at % 4], new.as_str()).unwrap();
                let bytes = self.other.save();
                ours.merge(&mut self.other).unwrap();
                theirs.load_incremental(&bytes).unwrap();
                if at.is_multiple_of(2) {
                    self.other.merge(ours).unwrap();
                }
            }
        }
        assert_eq!(self.ours.pending_ops(), self.theirs.pending_ops(), "{step:?}");
        assert_eq!(self.shown(), self.their_shown(), "{step:?}");
        true
    }

    /// What readers see.
    fn shown(&self) -> String {
        let mut shown = String::new();
        for entry in self.ours.entries(&ROOT).unwrap() {
            if let Value::Scalar(value) = entry.value {
                shown.push_str(&format!("{} {:?}\n", entry.key, value.to_scalar()));
            }
        }
        for item in self.ours.items(&self.list[0], 0).unwrap() {
            shown.push_str(&format!("{:?}\n", item.value));
        }
        shown + &self.ours.text(&self.list[1]).unwrap()
    }

    fn their_shown(&self) -> String {
        let mut shown = String::new();
        // The reference names a key twice in a few histories: counters with a conflict,
        // incremented.
        let mut keys: Vec<String> = self.theirs.keys(automerge::ROOT).collect();
        keys.dedup();
        for key in keys {
            let value = match self.theirs.get(automerge::ROOT, &*key).unwrap().unwrap().0 {
                automerge::Value::Scalar(value) => match &*value {
                    automerge::ScalarValue::Int(value) => Scalar::Int(*value),
                    automerge::ScalarValue::Counter(value) => Scalar::Counter(value.into()),
                    automerge::ScalarValue::Str(value) => Scalar::Str(value.as_str().into()),
                    other => panic!("nobody writes {other:?}"),
                },
                automerge::Value::Object(_) => continue,
            };
            shown.push_str(&format!("{key} {value:?}\n"));
        }
        for index in 0..self.theirs.length(&self.their_list[0]) {
            let value = self.theirs.get(&self.their_list[0], index).unwrap().unwrap().0;
            let value = Scalar::Int(value.as_i64().unwrap());
            shown.push_str(&format!("{:?}\n", Value::Scalar(value.as_ref())));
        }
        shown + &self.theirs.text(&self.their_list[1]).unwrap()
    }

    fn check_heads(&mut self) {
        let mut ours: Vec<[u8; 32]> = self.ours.heads().iter().map(|hash| hash.0).collect();
        let mut theirs: Vec<[u8; 32]> = self.theirs.get_heads().iter().map(|hash| hash.0).collect();
        ours.sort_unstable();
        theirs.sort_unstable();
        assert_eq!(ours, theirs);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// The same changes by the same authors, to the byte, and the same to read, isolated or not.
    #[test]
    fn isolated_sessions_give_what_the_reference_gives(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut pair = Pair::new();
        for step in &steps {
            if !pair.apply(step) {
                return Ok(());
            }
        }
        pair.check_heads();
        if !pair.apply(&Step::Integrate) {
            return Ok(());
        }
        pair.check_heads();
        prop_assert_eq!(pair.shown(), pair.their_shown());
        let saved = pair.theirs.save();
        let options = shoal_crdt::LoadOptions::default();
        let loaded = Document::load(&saved, ActorId::new(&[1]), &options).unwrap();
        prop_assert_eq!(loaded.heads(), pair.ours.heads());
    }
}

fn doc() -> (Document, ObjId) {
    let mut doc = Document::new(ActorId::new(&[1]));
    let mut tx = doc.transaction();
    let text = tx.put_object(&ROOT, "text", ObjType::Text).unwrap();
    tx.splice_text(&text, 0, 0, "aaabbbccc").unwrap();
    tx.commit(CommitOptions::default());
    (doc, text)
}

#[test]
fn a_transaction_at_heads_sees_and_builds_on_nothing_else() {
    let (mut doc, text) = doc();
    let heads = doc.heads();
    let mut tx = doc.transaction();
    tx.splice_text(&text, 3, 3, "QQQ").unwrap();
    let late = tx.put_object(&ROOT, "late", ObjType::Map).unwrap();
    tx.commit(CommitOptions::default());

    let mut tx = doc.transaction_at(&heads).unwrap();
    assert_eq!(tx.base_heads(), heads);
    assert_eq!(tx.text(&text).unwrap(), "aaabbbccc");
    assert_eq!(tx.put(&late, "a", 1_i64), Err(Error::UnknownObject(late.clone())));
    tx.splice_text(&text, 3, 3, "ZZZ").unwrap();
    assert_eq!(tx.text(&text).unwrap(), "aaaZZZccc");
    assert_eq!(tx.patches().unwrap().len(), 2);
    let hash = tx.commit(CommitOptions::default().with_time(3)).unwrap();
    assert_eq!(doc.text(&text).unwrap(), "aaaZZZQQQccc");
    let change = doc.change_by_hash(&hash).unwrap();
    assert_eq!(change.deps(), heads);
    assert_eq!(change.actor().as_bytes(), [0x13, 0xb2, 0x23, 0x09, 1, 1]);
    assert_eq!(change.start_op(), 18);

    // Not what was last by the same author, so yet another one.
    let mut tx = doc.transaction_at(&heads).unwrap();
    tx.put(&ROOT, "a", 1_i64).unwrap();
    let hash = tx.commit(CommitOptions::default()).unwrap();
    let author = doc.change_by_hash(&hash).unwrap().actor().clone();
    assert_eq!(author.as_bytes(), [0x13, 0xb2, 0x23, 0x09, 2, 1]);

    let before = (doc.heads(), doc.to_json().max_depth(9));
    let before = (before.0, serde_json::to_string(&before.1).unwrap());
    let mut tx = doc.transaction_at(&heads).unwrap();
    tx.put(&ROOT, "a", 2_i64).unwrap();
    assert_eq!(tx.rollback(), 1);
    let tx = doc.transaction_at(&heads).unwrap();
    assert_eq!(tx.commit(CommitOptions::default()), None);
    assert_eq!(before, (doc.heads(), serde_json::to_string(&doc.to_json()).unwrap()));
    let unknown = ChangeHash([7; 32]);
    assert_eq!(doc.transaction_at(&[unknown]).unwrap_err(), Error::UnknownHead(unknown));
}

#[test]
fn an_isolated_edit_beside_marks_that_came_later_names_none_of_them() {
    let (mut doc, text) = doc();
    let heads = doc.heads();
    let mut tx = doc.transaction();
    tx.mark(&text, 3, 6, "bold", true, ExpandMark::Before).unwrap();
    tx.commit(CommitOptions::default());
    let mut tx = doc.transaction_at(&heads).unwrap();
    tx.splice_text(&text, 3, 0, "x").unwrap();
    let hash = tx.commit(CommitOptions::default()).unwrap();
    // Somebody who has only what the change depends on can apply it.
    let mut other = doc.fork_at(ActorId::new(&[2]), &heads).unwrap();
    other.apply_changes([doc.change_by_hash(&hash).unwrap().clone()]).unwrap();
    assert_eq!(other.text(&text).unwrap(), "aaaxbbbccc");
}

#[test]
fn what_comes_while_isolated_is_taken_in_and_not_seen() {
    let (doc, text) = doc();
    let mut ours = AutoCommit::from(doc);
    let mut other = ours.fork(ActorId::new(&[2]));
    let heads = ours.heads();
    ours.isolate(&heads).unwrap();
    assert_eq!(ours.isolation(), Some(&heads[..]));
    other.splice_text(&text, 0, 0, "x").unwrap();
    ours.merge(&mut other).unwrap();
    assert_eq!(ours.heads(), heads);
    assert_eq!(ours.text(&text).unwrap(), "aaabbbccc");
    ours.splice_text(&text, 9, 0, "y").unwrap();
    ours.integrate();
    assert_eq!(ours.isolation(), None);
    assert_eq!(ours.text(&text).unwrap(), "xaaabbbcccy");
    assert_eq!(ours.heads().len(), 2);
    let steps = ours.diff_incremental().unwrap();
    assert!(!steps.is_empty());
    ours.isolate(&heads).unwrap();
    // Back to what was: the patches take away what came since.
    assert_eq!(ours.diff_incremental().unwrap().len(), 2);
}
