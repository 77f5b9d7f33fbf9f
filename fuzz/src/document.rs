//! Reading and editing a document whose content is somebody else's.

use shoal_crdt::{
    ActorId, ChangeHash, CommitOptions, Document, ExpandedChange, ObjId, ObjType, ROOT, ReadDoc,
};

use crate::script::Script;

/// The state two documents with the same changes must share: heads, and contents as JSON.
pub fn digest(doc: &Document) -> (Vec<ChangeHash>, String) {
    // Nested too deeply is an answer as well.
    let json = serde_json::to_string(&doc.to_json()).unwrap_or_else(|error| error.to_string());
    (doc.heads(), json)
}

/// Reads all contents in every way the API offers.
pub fn read(doc: &Document) {
    for (obj, kind) in objects(doc) {
        let length = doc.length(&obj).expect("the object is there");
        if kind.is_sequence() {
            let items = doc.items(&obj, 0).expect("a sequence has items");
            for item in items {
                let index = doc.index_of(&obj, &item.elem).expect("a sequence has items");
                assert!(index.is_some(), "an item that is listed is found");
            }
            for index in 0..length {
                let got = doc.get(&obj, index).expect("a sequence has items");
                assert!(got.is_some(), "every index has an item");
                assert!(!doc.get_all(&obj, index).expect("a sequence has items").is_empty());
            }
            assert!(doc.get(&obj, length).expect("a sequence has items").is_none());
            let _ = doc.text(&obj).expect("a sequence reads as text");
        } else {
            let keys: Vec<&str> = doc.keys(&obj).expect("a map has keys").collect();
            assert_eq!(keys.len(), length);
            assert!(keys.is_sorted());
            for key in keys {
                let all = doc.get_all(&obj, key).expect("a map has entries");
                let winner = doc.get(&obj, key).expect("a map has entries");
                // By their text, as a NaN equals nothing.
                assert_eq!(format!("{winner:?}"), format!("{:?}", all.last()));
            }
        }
    }
}

/// Reads some past states of the document: each reads as a document with only the changes up to
/// then, and patches lead from there to the present and back. Changes survive a way through JSON.
pub fn read_past(doc: &Document) {
    let present = doc.heads();
    let step = doc.changes().len() / 4 + 1;
    for change in doc.changes().step_by(step) {
        let heads = [change.hash()];
        let at = doc.at(&heads);
        for (obj, kind) in objects(&at) {
            let length = at.length(&obj).expect("the object is there");
            if kind.is_sequence() {
                for index in 0..length {
                    assert!(at.get(&obj, index).expect("a sequence has items").is_some());
                }
                assert!(at.get(&obj, length).expect("a sequence has items").is_none());
            } else {
                assert_eq!(at.keys(&obj).expect("a map has keys").count(), length);
            }
        }
        assert!(at.iter().count() >= at.length(&ROOT).expect("there is a root"));
        let _ = (doc.diff(&heads, &present), doc.diff(&present, &heads));
        let forked = doc.fork_at(ActorId::new(&[7]), &heads);
        if let (Ok(past), Ok(fork)) = (at.hydrate(&ROOT), forked) {
            let past = serde_json::to_string(&past).expect("what is read is JSON");
            if let Ok(fork) = serde_json::to_string(&fork.to_json()) {
                assert_eq!(past, fork);
            }
        }
        // JSON holds changes in the reference's form alone: a change beyond that form is an error
        // of `to_change`, never another change.
        let json = serde_json::to_string(&ExpandedChange::from(change)).expect("a change is JSON");
        let expanded: ExpandedChange =
            serde_json::from_str(&json).expect("what is written is read");
        if let Ok(again) = expanded.to_change() {
            assert_eq!(again.raw_bytes(), change.raw_bytes());
        }
    }
}

/// A document of the same shape has as many ops, objects and changes.
pub fn anonymize(doc: &Document) {
    let Ok(copy) = doc.anonymize(ActorId::new(&[8]), [5; 32]) else { return };
    assert_eq!(copy.stats(), doc.stats());
    assert_eq!(copy.heads().len(), doc.heads().len());
    assert_eq!(objects(&copy).len(), objects(doc).len());
}

/// Edits the document as a person would, commits, and rolls other edits back.
pub fn edit(doc: &mut Document, script: &mut Script<'_>) {
    let before = digest(doc);
    for commit in [false, true] {
        let objects = objects(doc);
        let mut transaction = doc.transaction();
        for _ in 0..script.below(6) {
            let (obj, kind) = script.pick(&objects).clone();
            let length = transaction.length(&obj).unwrap_or(0);
            let index = script.below(length + 2);
            // A refused edit must be refused with an error, never a panic.
            let _ = match (kind, script.below(4)) {
                (ObjType::Text, 0 | 1) => transaction.splice_text(&obj, index, 1, "né"),
                (ObjType::Text | ObjType::List, 2) => transaction.delete(&obj, index),
                (ObjType::Text | ObjType::List, _) => transaction.insert(&obj, index, 7_i64),
                (_, 0) => transaction.increment(&obj, "a", 1),
                (_, 1) => transaction.delete(&obj, "a"),
                (_, 2) => transaction.put_object(&obj, "b", ObjType::Text).map(drop),
                _ => transaction.put(&obj, "a", "value"),
            };
        }
        if commit {
            transaction.commit(CommitOptions::default());
        } else {
            transaction.rollback();
            assert_eq!(digest(doc), before, "what is rolled back leaves no trace");
        }
        read(doc);
    }
}

/// The root and the objects below, up to a number no script exceeds by much.
fn objects(doc: &impl ReadDoc) -> Vec<(ObjId, ObjType)> {
    let mut objects = vec![(ROOT, ObjType::Map)];
    let mut next = 0;
    while next < objects.len() && objects.len() < 200 {
        let (obj, kind) = objects[next].clone();
        next += 1;
        if kind.is_sequence() {
            let items = doc.items(&obj, 0).expect("a sequence has items");
            objects.extend(items.filter_map(|item| Some((item.id, item.value.as_object()?))));
        } else {
            let entries = doc.entries(&obj).expect("a map has entries");
            objects.extend(entries.filter_map(|entry| Some((entry.id, entry.value.as_object()?))));
        }
    }
    objects
}
