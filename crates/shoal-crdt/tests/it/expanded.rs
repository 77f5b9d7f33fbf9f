//! Changes as JSON: what the reference writes, and back to the same bytes.

use automerge::transaction::Transactable as _;
use serde_json::{Value as Json, json};
use shoal_crdt::{
    ActorId, Change, CommitOptions, Document, ExpandedChange, ExpandedChangeError, ExpandedKey,
    OpType, ROOT, Scalar,
};

/// Every kind of op and of value, made by the reference.
fn changes() -> Vec<automerge::Change> {
    let mut doc = automerge::AutoCommit::new().with_actor(automerge::ActorId::from(&[7, 8][..]));
    let root = &automerge::ROOT;
    let author = automerge::Author::from(b"ada".as_slice());
    doc.set_author(Some(author));
    doc.set_actor(automerge::ActorId::from(&[7, 9][..]));
    doc.put(root, "null", ()).unwrap();
    doc.put(root, "bool", true).unwrap();
    doc.put(root, "int", -3_i64).unwrap();
    doc.put(root, "uint", u64::MAX).unwrap();
    doc.put(root, "float", 0.1_f64 + 0.2).unwrap();
    doc.put(root, "str", "a \"b\" é").unwrap();
    doc.put(root, "counter", automerge::ScalarValue::counter(5)).unwrap();
    doc.put(root, "time", automerge::ScalarValue::Timestamp(1_700_000_000_123)).unwrap();
    let list = doc.put_object(root, "list", automerge::ObjType::List).unwrap();
    doc.insert(&list, 0, 1_i64).unwrap();
    doc.insert(&list, 1, 2_i64).unwrap();
    doc.insert_object(&list, 2, automerge::ObjType::Map).unwrap();
    let text = doc.put_object(root, "text", automerge::ObjType::Text).unwrap();
    doc.splice_text(&text, 0, 0, "hello").unwrap();
    let mark = automerge::marks::Mark::new("bold".to_owned(), true, 1, 3);
    doc.mark(&text, mark, automerge::marks::ExpandMark::After).unwrap();
    let mark = automerge::marks::Mark::new("size".to_owned(), "large", 0, 2);
    doc.mark(&text, mark, automerge::marks::ExpandMark::Both).unwrap();
    doc.commit_with(
        automerge::transaction::CommitOptions::default().with_message("one").with_time(7),
    );
    doc.increment(root, "counter", -2).unwrap();
    doc.delete(&list, 0).unwrap();
    doc.put(&list, 0, "over").unwrap();
    doc.delete(root, "null").unwrap();
    doc.commit();
    doc.get_changes(&[]).into_iter().collect()
}

#[test]
fn the_json_is_that_of_the_reference_and_leads_back() {
    let changes = changes();
    assert!(changes.len() >= 2);
    for theirs in changes {
        let ours = Change::from_bytes(theirs.raw_bytes()).unwrap();
        let expanded = ExpandedChange::from(&ours);
        let json = serde_json::to_value(&expanded).unwrap();
        let their_json = serde_json::to_value(theirs.decode()).unwrap();
        assert_eq!(json, their_json);
        // Both ways, in both engines.
        let text = serde_json::to_string(&expanded).unwrap();
        let read: ExpandedChange = serde_json::from_str(&text).unwrap();
        assert_eq!(read, expanded);
        assert_eq!(read.to_change().unwrap().raw_bytes(), theirs.raw_bytes());
        let their_read: automerge::ExpandedChange = serde_json::from_str(&text).unwrap();
        assert_eq!(automerge::Change::from(their_read).raw_bytes(), theirs.raw_bytes());
    }
}

#[test]
fn what_the_json_of_the_reference_loses_is_kept() {
    let mut doc = Document::new(ActorId::new(&[1]));
    let mut tx = doc.transaction();
    for (key, value) in [
        ("bytes", Scalar::Bytes([0, 255][..].into())),
        ("nan", Scalar::F64(f64::NAN)),
        ("infinite", Scalar::F64(f64::NEG_INFINITY)),
        ("unknown", Scalar::Unknown { type_code: 12, bytes: [1, 2][..].into() }),
        ("tiny", Scalar::F64(5e-324)),
        ("long", Scalar::F64(0.300_000_000_000_000_04)),
    ] {
        tx.put(&ROOT, key, value).unwrap();
    }
    let text = tx.put_object(&ROOT, "text", shoal_crdt::ObjType::Text).unwrap();
    tx.splice_text(&text, 0, 0, "abc").unwrap();
    tx.mark(&text, 0, 2, "level", Scalar::Int(3), shoal_crdt::ExpandMark::None).unwrap();
    tx.commit(CommitOptions::default());
    let change = doc.last_local_change().unwrap();
    let text = serde_json::to_string(&ExpandedChange::from(change)).unwrap();
    let read: ExpandedChange = serde_json::from_str(&text).unwrap();
    assert_eq!(read.to_change().unwrap(), *change);
    let value: Json = serde_json::from_str(&text).unwrap();
    let begin = value["ops"].as_array().unwrap().iter().find(|op| op["action"] == "markBegin");
    assert_eq!(begin.unwrap()["datatype"], "int");
}

#[test]
fn what_was_altered_is_told_and_what_is_new_is_made() {
    let mut doc = Document::new(ActorId::new(&[1]));
    let mut tx = doc.transaction();
    tx.put(&ROOT, "a", 1_i64).unwrap();
    tx.commit(CommitOptions::default().with_message("m"));
    let mut expanded = ExpandedChange::from(doc.last_local_change().unwrap());
    expanded.operations[0].action = OpType::Put(Scalar::Int(2));
    assert!(matches!(expanded.to_change(), Err(ExpandedChangeError::Hash { .. })));
    expanded.hash = None;
    let change = expanded.to_change().unwrap();
    let mut other = Document::new(ActorId::new(&[2]));
    other.apply_changes([change]).unwrap();
    assert_eq!(serde_json::to_value(other.to_json()).unwrap(), json!({"a": 2}));

    let refused = |change: &dyn Fn(&mut ExpandedChange)| {
        let mut altered = expanded.clone();
        change(&mut altered);
        altered.to_change().unwrap_err().to_string()
    };
    let message = refused(&|change| change.operations[0].key = ExpandedKey::Elem(ROOT));
    assert_eq!(message, "op 0: the root is no op");
    let message = refused(&|change| change.author = Some(b"me".to_vec()));
    assert_eq!(message, "the extra bytes do not name the author");
    for change in [
        (&|change: &mut ExpandedChange| change.seq = 0) as &dyn Fn(&mut ExpandedChange),
        &|change| change.start_op = 0,
        &|change| change.operations[0].insert = true,
        &|change| {
            let id = shoal_crdt::ObjId::new(9, ActorId::new(&[3]));
            change.operations[0].pred = vec![id];
        },
    ] {
        assert!(refused(change).starts_with("no change: "));
    }
}

#[test]
fn json_that_is_no_change_is_refused_with_a_reason() {
    let sound = json!({
        "ops": [{"action": "set", "obj": "_root", "key": "a", "value": 1, "pred": []}],
        "actor": "01", "seq": 1, "startOp": 1, "time": 0, "message": null, "deps": []
    });
    let read = |json: &Json| serde_json::from_value::<ExpandedChange>(json.clone());
    assert!(read(&sound).unwrap().to_change().is_ok());
    for (pointer, value, reason) in [
        ("/actor", json!("xyz"), "hexadecimal"),
        ("/deps", json!(["12"]), "not the hash of a change: 12"),
        ("/startOp", json!(4_294_967_296_u64), "u32"),
        ("/ops/0/action", json!("frobnicate"), "no such action: frobnicate"),
        ("/ops/0/obj", json!("7"), "7"),
        ("/ops/0/pred", json!(["0@aa"]), "0@aa"),
        ("/ops/0/value", json!([256]), "bytes are numbers from 0 to 255"),
        ("/ops/0/value", json!({"a": 1}), "an object is a value only as"),
        (
            "/ops/0",
            json!({"action": "set", "obj": "_root", "pred": []}),
            "either a key or an elemId",
        ),
        (
            "/ops/0",
            json!({"action": "inc", "obj": "_root", "key": "a", "value": "x", "pred": []}),
            "an increment is an integer",
        ),
        (
            "/ops/0",
            json!({"action": "set", "obj": "_root", "key": "a", "value": "x",
            "datatype": "counter", "pred": []}),
            "does not fit its datatype",
        ),
        (
            "/ops/0",
            json!({"action": "markBegin", "obj": "1@01", "elemId": "_head", "insert": true,
            "pred": []}),
            "has a name",
        ),
    ] {
        let mut json = sound.clone();
        *json.pointer_mut(pointer).unwrap() = value;
        let error = read(&json).unwrap_err().to_string();
        assert!(error.contains(reason), "{pointer}: {error}");
    }
}
