//! JSON Patch and JSON Merge Patch: the examples of their RFCs, and random pairs of values.

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use shoal_crdt::json_patch::{PatchError, diff, merge_diff};
use shoal_crdt::{
    ActorId, AutoCommit, CommitOptions, Document, ExpandMark, ObjType, ROOT, ReadDoc, Transactable,
    hydrate,
};

fn document(json: &Json) -> Document {
    let mut doc = Document::new(ActorId::new(&[1]));
    let mut tx = doc.transaction();
    tx.import_json(json).unwrap();
    tx.commit(CommitOptions::default());
    doc
}

fn show(doc: &Document) -> Json {
    serde_json::to_value(doc.to_json()).unwrap()
}

fn patched(json: &Json, patch: &Json) -> Result<Json, PatchError> {
    let mut doc = document(json);
    let mut tx = doc.transaction();
    tx.apply_json_patch(patch)?;
    tx.commit(CommitOptions::default());
    Ok(show(&doc))
}

#[test]
fn examples_of_rfc_6902() {
    let cases = [
        // A.1 to A.8
        (
            json!({"foo": "bar"}),
            json!([{"op": "add", "path": "/baz", "value": "qux"}]),
            json!({"baz": "qux", "foo": "bar"}),
        ),
        (
            json!({"foo": ["bar", "baz"]}),
            json!([{"op": "add", "path": "/foo/1", "value": "qux"}]),
            json!({"foo": ["bar", "qux", "baz"]}),
        ),
        (
            json!({"baz": "qux", "foo": "bar"}),
            json!([{"op": "remove", "path": "/baz"}]),
            json!({"foo": "bar"}),
        ),
        (
            json!({"foo": ["bar", "qux", "baz"]}),
            json!([{"op": "remove", "path": "/foo/1"}]),
            json!({"foo": ["bar", "baz"]}),
        ),
        (
            json!({"baz": "qux", "foo": "bar"}),
            json!([{"op": "replace", "path": "/baz", "value": "boo"}]),
            json!({"baz": "boo", "foo": "bar"}),
        ),
        (
            json!({"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}}),
            json!([{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}]),
            json!({"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}}),
        ),
        (
            json!({"foo": ["all", "grass", "cows", "eat"]}),
            json!([{"op": "move", "from": "/foo/1", "path": "/foo/3"}]),
            json!({"foo": ["all", "cows", "eat", "grass"]}),
        ),
        (
            json!({"baz": "qux", "foo": ["a", 2, "c"]}),
            json!([{"op": "test", "path": "/baz", "value": "qux"},
                {"op": "test", "path": "/foo/1", "value": 2}]),
            json!({"baz": "qux", "foo": ["a", 2, "c"]}),
        ),
        // A.10, A.11, A.14, A.16
        (
            json!({"foo": "bar"}),
            json!([{"op": "add", "path": "/child", "value": {"grandchild": {}}}]),
            json!({"foo": "bar", "child": {"grandchild": {}}}),
        ),
        (
            json!({"foo": "bar"}),
            json!([{"op": "add", "path": "/baz", "value": "qux", "xyz": 123}]),
            json!({"foo": "bar", "baz": "qux"}),
        ),
        (
            json!({"/": 9, "~1": 10}),
            json!([{"op": "test", "path": "/~01", "value": 10}]),
            json!({"/": 9, "~1": 10}),
        ),
        (
            json!({"foo": ["bar"]}),
            json!([{"op": "add", "path": "/foo/-", "value": ["abc", "def"]}]),
            json!({"foo": ["bar", ["abc", "def"]]}),
        ),
        (json!({"a": 1}), json!([{"op": "add", "path": "", "value": {"b": 2}}]), json!({"b": 2})),
    ];
    for (before, patch, after) in cases {
        assert_eq!(patched(&before, &patch), Ok(after), "{patch}");
    }
    let refused = [
        // A.9, A.12, A.15
        (json!({"baz": "qux"}), json!([{"op": "test", "path": "/baz", "value": "bar"}])),
        (json!({"foo": "bar"}), json!([{"op": "add", "path": "/baz/bat", "value": "qux"}])),
        (json!({"/": 9, "~1": 10}), json!([{"op": "test", "path": "/~01", "value": "10"}])),
        (json!({"a": {}}), json!([{"op": "move", "from": "/a", "path": "/a/b"}])),
        (json!({"a": [1]}), json!([{"op": "add", "path": "/a/2", "value": 1}])),
        (json!({"a": [1]}), json!([{"op": "remove", "path": "/a/1"}])),
        (json!({"a": "text"}), json!([{"op": "add", "path": "/a/1", "value": "x"}])),
        (json!({"a": 1}), json!([{"op": "replace", "path": "/b", "value": "x"}])),
        (json!({"a": 1}), json!([{"op": "add", "path": "/b"}])),
        (json!({"a": 1}), json!([{"op": "dance", "path": "/b"}])),
        (json!({"a": 1}), json!([{"op": "remove", "path": ""}])),
        (json!({"a": 1}), json!({"op": "remove", "path": "/a"})),
    ];
    for (before, patch) in refused {
        assert!(patched(&before, &patch).is_err(), "{patch}");
    }
}

#[test]
fn examples_of_rfc_7386() {
    let cases = [
        (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
        (json!({"a": "b"}), json!({"a": null}), json!({})),
        (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
        (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
        (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
        (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
        (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
        (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
    ];
    for (before, patch, after) in cases {
        let mut doc = document(&before);
        let mut tx = doc.transaction();
        tx.apply_merge_patch(&patch).unwrap();
        tx.commit(CommitOptions::default());
        assert_eq!(show(&doc), after, "{patch}");
    }
    assert!(document(&json!({})).transaction().apply_merge_patch(&json!(["c"])).is_err());
}

/// What patches are for here: replacing a string edits the text that is there.
#[test]
fn a_replaced_string_merges_with_concurrent_edits() {
    let mut doc = AutoCommit::from(document(&json!({"text": "one two"})));
    let mut other = doc.fork(ActorId::new(&[2]));
    let (_, text) = other.get(&ROOT, "text").unwrap().unwrap();
    other.splice_text(&text, 7, 0, " three").unwrap();
    doc.edit(|tx| {
        let patch = json!([{"op": "replace", "path": "/text", "value": "zero one two"}]);
        tx.apply_json_patch(&patch)
    })
    .unwrap();
    doc.merge(&mut other).unwrap();
    assert_eq!(doc.text(&text).unwrap(), "zero one two three");
    doc.mark(&text, 0, 4, "bold", true, ExpandMark::None).unwrap();
    doc.edit(|tx| tx.apply_merge_patch(&json!({"text": "zero two"}))).unwrap();
    assert_eq!(doc.text(&text).unwrap(), "zero two");
    assert_eq!(doc.marks(&text).unwrap().len(), 1);
}

#[test]
fn a_hydrated_value_is_written_as_it_was_read() {
    let mut doc = AutoCommit::from(document(&json!({"a": {"b": [1, "two", {"c": null}]}})));
    let value = doc.hydrate(&ROOT).unwrap();
    assert_eq!(serde_json::to_value(&value).unwrap(), show(doc.document()));
    doc.put_value(&ROOT, "copy", &value).unwrap();
    let list = doc.put_object(&ROOT, "list", ObjType::List).unwrap();
    doc.insert_value(&list, 0, &value).unwrap();
    let (_, copy) = doc.get(&ROOT, "copy").unwrap().unwrap();
    assert_eq!(doc.hydrate(&copy).unwrap(), value);
    assert_eq!(doc.hydrate(&list).unwrap(), hydrate::Value::List(vec![value]));
}

fn json(depth: u32) -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Into::into),
        (0..4_i64).prop_map(Into::into),
        "[ab/~]{0,3}".prop_map(Into::into),
    ];
    leaf.prop_recursive(depth, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            prop::collection::btree_map("[ab/~]{0,2}", inner, 0..5)
                .prop_map(|entries| Json::Object(entries.into_iter().collect())),
        ]
    })
}

fn object() -> impl Strategy<Value = Json> {
    prop::collection::btree_map("[ab/~]{0,2}", json(3), 0..4)
        .prop_map(|entries| Json::Object(entries.into_iter().collect()))
}

/// Without the nulls that a merge patch cannot write.
fn without_nulls(json: &Json) -> Json {
    match json {
        Json::Object(entries) => entries
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.clone(), without_nulls(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        _ => json.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_diff_applied_gives_the_other_value(before in object(), after in object()) {
        prop_assert_eq!(patched(&before, &diff(&before, &after)).unwrap(), after.clone());
        prop_assert_eq!(diff(&after, &after), json!([]));

        let (before, after) = (without_nulls(&before), without_nulls(&after));
        let mut doc = document(&before);
        let mut tx = doc.transaction();
        tx.apply_merge_patch(&merge_diff(&before, &after)).unwrap();
        tx.commit(CommitOptions::default());
        prop_assert_eq!(show(&doc), after);
    }
}
