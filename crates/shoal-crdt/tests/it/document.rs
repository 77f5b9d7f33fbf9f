//! The document API: what each call does, and what it refuses.

use serde_json::json;
use shoal_crdt::pointer::{self, PointerError, Resolved};
use shoal_crdt::{
    ActorId, Change, CommitOptions, Document, DocumentJson, Error, LoadOptions, ObjId, ObjType,
    OnPartial, OpFault, ROOT, ReadDoc, SaveOptions, Scalar, ScalarRef, Value,
};
use shoal_history::{Action, ActorIdx, ChangeHeader, ChangeWriter, Key, Op, OpId};

fn actor(number: u8) -> ActorId {
    ActorId::new(&[number; 2])
}

fn edit<T>(
    doc: &mut Document,
    edit: impl FnOnce(&mut shoal_crdt::Transaction<'_>) -> Result<T, Error>,
) -> T {
    let mut tx = doc.transaction();
    let result = edit(&mut tx).unwrap();
    tx.commit(CommitOptions::default());
    result
}

fn show(doc: &Document) -> serde_json::Value {
    serde_json::to_value(doc.to_json()).unwrap()
}

fn load(bytes: &[u8]) -> Result<Document, Error> {
    Document::load(bytes, actor(9), &LoadOptions::default())
}

/// All of a document but compression, so that equal bytes mean an equal state.
fn state(doc: &Document) -> Vec<u8> {
    doc.to_bytes(SaveOptions { deflate: false, retain_orphans: true })
}

#[test]
fn json_goes_in_and_comes_out() {
    let value = json!({
        "title": "a", "": null, "n": [1, -1, 18_446_744_073_709_551_615_u64, 1.5, true, []],
        "deep": {"er": {"list": [["x"], {}]}},
    });
    let mut doc = Document::new(actor(1));
    edit(&mut doc, |tx| tx.import_json(&value));
    assert_eq!(show(&doc), value);
    let (kind, title) = doc.get(&ROOT, "title").unwrap().unwrap();
    assert_eq!(kind, Value::Object(ObjType::Text));
    edit(&mut doc, |tx| tx.splice_text(&title, 1, 0, "b"));
    assert_eq!(show(&doc)["title"], "ab");
    let n = pointer::resolve_object(&doc, "/n").unwrap();
    assert_eq!(doc.get(&n, 2).unwrap().unwrap().0, Value::Scalar(ScalarRef::Uint(u64::MAX)));
    edit(&mut doc, |tx| tx.insert_json(&n, 1, &json!({"a": ["b"]})));
    assert_eq!(show(&doc)["n"][1], json!({"a": ["b"]}));
    assert_eq!(doc.transaction().import_json(&json!([])), Err(Error::RootNotObject));
}

#[test]
fn nesting_exhausts_no_stack() {
    let mut doc = Document::new(actor(1));
    let mut tx = doc.transaction();
    let mut obj = ROOT;
    for _ in 0..100_000 {
        obj = tx.put_object(&obj, "a", ObjType::Map).unwrap();
    }
    tx.commit(CommitOptions::default());
    assert!(serde_json::to_string(&doc.to_json()).is_err());
    let shallow = DocumentJson::of_object(&doc, &obj).unwrap();
    assert_eq!(serde_json::to_string(&shallow).unwrap(), "{}");
    assert_eq!(load(&doc.save()).unwrap().heads(), doc.heads());
}

#[test]
fn pointers_resolve_to_a_place_that_can_be_written() {
    let mut doc = Document::new(actor(1));
    edit(&mut doc, |tx| tx.import_json(&json!({"a": [{"b/c": {"~": 1}}], "t": "xyz", "": 2})));
    let list = pointer::resolve_object(&doc, "/a").unwrap();
    let map = pointer::resolve_object(&doc, "/a/0/b~1c").unwrap();
    let text = pointer::resolve_object(&doc, "/t").unwrap();
    let resolve = |pointer: &str| pointer::resolve(&doc, pointer);
    assert_eq!(resolve(""), Ok(Resolved::Root));
    assert_eq!(resolve("/"), Ok(Resolved::Entry { obj: ROOT, key: String::new() }));
    assert_eq!(resolve("/new"), Ok(Resolved::Entry { obj: ROOT, key: "new".to_owned() }));
    assert_eq!(resolve("/a/0/b~1c/~0"), Ok(Resolved::Entry { obj: map, key: "~".to_owned() }));
    assert_eq!(resolve("/a/1"), Ok(Resolved::Item { obj: list.clone(), index: 1 }));
    assert_eq!(resolve("/a/-"), Ok(Resolved::Item { obj: list, index: 1 }));
    assert_eq!(resolve("/t/3"), Ok(Resolved::Item { obj: text, index: 3 }));
    for (pointer, message) in [
        ("a", "a path begins with a slash: a"),
        ("/no/b", "nothing in the map at path segment: no"),
        ("/a/2", "nothing in the list at path segment: 2"),
        ("/a/1/b", "nothing in the list at path segment: 1"),
        ("/a/-/b", "nothing in the list at path segment: -"),
        ("/a/00", "a list needs an index, without leading zeros, as path segment: 00"),
        ("/a/+1", "a list needs an index, without leading zeros, as path segment: +1"),
        ("/t/x", "a text needs an index, without leading zeros, as path segment: x"),
        ("/t/0/x", "no object but a scalar value at path segment: 0"),
        ("//x", "no object but a scalar value at path segment: "),
        ("/a/0/~2", "~ stands for nothing unless 0 or 1 follows: ~2"),
        ("/a/99999999999999999999", "nothing in the list at path segment: 99999999999999999999"),
    ] {
        assert_eq!(resolve(pointer).unwrap_err().to_string(), message);
    }
    assert!(matches!(pointer::resolve_object(&doc, "/none"), Err(PointerError::Missing { .. })));
}

#[test]
fn edits_that_make_no_sense_are_refused_and_change_nothing() {
    let mut doc = Document::new(actor(1));
    let (list, text) = edit(&mut doc, |tx| {
        let list = tx.put_object(&ROOT, "list", ObjType::List)?;
        tx.splice(&list, 0, 0, [1, 2, 3])?;
        let text = tx.put_object(&ROOT, "text", ObjType::Text)?;
        tx.splice_text(&text, 0, 0, "abc")?;
        Ok((list, text))
    });
    let before = state(&doc);
    let mut tx = doc.transaction();
    let stranger = ObjId::new(1, actor(7));
    assert_eq!(tx.put(&stranger, "a", 1), Err(Error::UnknownObject(stranger.clone())));
    assert!(matches!(tx.put(&ROOT, 0, 1), Err(Error::WrongType { .. })));
    assert!(matches!(tx.put(&list, "a", 1), Err(Error::WrongType { .. })));
    assert!(matches!(tx.delete(&list, "a"), Err(Error::WrongType { .. })));
    assert!(matches!(tx.insert(&ROOT, 0, 1), Err(Error::WrongType { .. })));
    assert!(matches!(tx.splice_text(&list, 0, 0, "a"), Err(Error::WrongType { .. })));
    assert!(matches!(tx.splice(&text, 0, 0, [1]), Err(Error::WrongType { .. })));
    assert!(matches!(tx.put_object(&text, 0, ObjType::Map), Err(Error::WrongType { .. })));
    assert_eq!(tx.put(&list, 3, 1), Err(Error::Index { index: 3, length: 3 }));
    assert_eq!(tx.insert(&list, 4, 1), Err(Error::Index { index: 4, length: 3 }));
    assert_eq!(tx.delete(&list, 3), Err(Error::Index { index: 3, length: 3 }));
    assert_eq!(tx.splice_text(&text, 1, -2, ""), Err(Error::Index { index: 1, length: 3 }));
    assert_eq!(tx.splice_text(&text, 4, 0, "x"), Err(Error::Index { index: 4, length: 3 }));
    assert_eq!(tx.increment(&list, 0, 1), Err(Error::MissingCounter { obj: list.clone() }));
    assert_eq!(tx.increment(&ROOT, "none", 1), Err(Error::MissingCounter { obj: ROOT }));
    assert_eq!(tx.delete(&ROOT, "none"), Ok(()));
    assert_eq!(tx.delete(&text, 3), Ok(()));
    assert_eq!(tx.splice_text(&text, 3, 10, ""), Ok(()));
    assert_eq!(tx.pending_ops(), 0);
    assert_eq!(tx.commit(CommitOptions::default()), None);
    assert_eq!(state(&doc), before);
}

#[test]
fn a_dropped_transaction_leaves_no_trace() {
    let mut doc = Document::new(actor(1));
    let text = edit(&mut doc, |tx| {
        let text = tx.put_object(&ROOT, "text", ObjType::Text)?;
        tx.splice_text(&text, 0, 0, &"0123456789".repeat(100))?;
        tx.put(&ROOT, "counter", Scalar::Counter(1))?;
        Ok(text)
    });
    let before = state(&doc);
    let mut tx = doc.transaction();
    for round in 0..50 {
        tx.splice_text(&text, round * 7, 20, &"x".repeat(round * 3)).unwrap();
        tx.increment(&ROOT, "counter", 3).unwrap();
        tx.put(&ROOT, "round", round as u64).unwrap();
        tx.put(&text, round, "long").unwrap();
        let list = tx.put_object(&ROOT, "list", ObjType::List).unwrap();
        tx.splice(&list, 0, 0, ["a", "bc"]).unwrap();
    }
    let length = tx.length(&text).unwrap();
    tx.splice_text(&text, 0, length as isize, "").unwrap();
    assert_eq!(tx.length(&text).unwrap(), 0);
    drop(tx);
    assert_eq!(state(&doc), before);
    assert_eq!(doc.text(&text).unwrap().len(), 1000);
}

#[test]
fn changes_come_in_any_order_and_wait_for_what_they_need() {
    let mut doc = Document::new(actor(1));
    let text = edit(&mut doc, |tx| tx.put_object(&ROOT, "t", ObjType::Text));
    for round in 0..200 {
        edit(&mut doc, |tx| tx.splice_text(&text, round / 2, 0, "ab"));
    }
    let changes: Vec<Change> = doc.changes().cloned().collect();
    let mut reversed = Document::new(actor(2));
    for change in changes.iter().skip(1).rev() {
        reversed.apply_changes([change.clone()]).unwrap();
    }
    assert_eq!(reversed.heads(), []);
    assert_eq!(reversed.missing_deps(&[]), [changes[0].hash()]);
    assert_eq!(reversed.stats().num_queued, 200);
    // Waiting changes are saved and loaded as well.
    let mut reloaded = load(&reversed.save()).unwrap();
    assert_eq!(reloaded.stats().num_queued, 200);
    for copy in [&mut reversed, &mut reloaded] {
        copy.apply_changes([changes[0].clone()]).unwrap();
        assert_eq!(copy.heads(), doc.heads());
        assert_eq!(copy.text(&text), doc.text(&text));
        assert_eq!(copy.stats().num_queued, 0);
        assert_eq!(copy.missing_deps(&[]), []);
    }
}

#[test]
fn a_second_change_with_one_sequence_number_refuses_the_whole_batch() {
    let mut doc = Document::new(actor(1));
    let mut twin = doc.clone();
    edit(&mut doc, |tx| tx.put(&ROOT, "a", 1));
    edit(&mut twin, |tx| tx.put(&ROOT, "a", 2));
    let mut other = twin.fork(actor(2));
    edit(&mut other, |tx| tx.put(&ROOT, "b", 3));
    let before = state(&doc);
    let error = doc.merge(&other).unwrap_err();
    assert!(matches!(error, Error::DuplicateSeq { seq: 1, .. }), "{error}");
    assert_eq!(state(&doc), before);
    assert!(doc.queued_changes().is_empty());

    // The same among changes that wait, and within one batch.
    let mut empty = Document::new(actor(5));
    let both = [doc.changes().next().unwrap().clone(), twin.changes().next().unwrap().clone()];
    assert!(matches!(empty.apply_changes(both), Err(Error::DuplicateSeq { .. })));
    assert!(empty.is_empty());
}

/// A change by `actors[0]` with ops that no one checked.
fn forge(actors: &[ActorId], deps: &Document, ops: &[Op<'_>]) -> Change {
    let max_op = deps.changes().map(Change::max_op).max().unwrap_or(0);
    let header = ChangeHeader {
        actor: ActorIdx(0),
        seq: 1,
        start_op: max_op + 1,
        time: 0,
        message: None,
        deps: deps.heads(),
        extra_bytes: &[],
    };
    let mut writer = ChangeWriter::new(header, actors);
    for (number, op) in (max_op + 1..).zip(ops) {
        writer.push(&Op { id: OpId { counter: number, actor: ActorIdx(0) }, ..*op });
    }
    writer.finish().unwrap()
}

#[test]
fn changes_that_contradict_the_document_are_refused_whole() {
    let mut doc = Document::new(actor(1));
    let (list, _) = edit(&mut doc, |tx| {
        tx.put(&ROOT, "a", "A")?;
        let list = tx.put_object(&ROOT, "list", ObjType::List)?;
        tx.insert(&list, 0, "x")?;
        let text = tx.put_object(&ROOT, "text", ObjType::Text)?;
        Ok((list, text))
    });
    let id = |counter| OpId { counter, actor: ActorIdx(1) };
    let root = shoal_history::ObjId::Root;
    let list_id = shoal_history::ObjId::Op(id(list.counter()));
    let good = Op {
        id: id(1),
        obj: root,
        key: Key::Map("new"),
        insert: false,
        action: Action::Set,
        value: ScalarRef::Int(1),
        expand: false,
        mark_name: None,
        links: &[],
    };
    let [a, x] = [1, 3].map(id);
    let cases = [
        (Op { obj: shoal_history::ObjId::Op(id(1)), ..good }, OpFault::UnknownObject),
        (Op { obj: list_id, ..good }, OpFault::WrongKey),
        (Op { key: Key::Elem(x), ..good }, OpFault::WrongKey),
        (Op { key: Key::Head, insert: true, ..good }, OpFault::WrongKey),
        (Op { obj: list_id, key: Key::Elem(a), ..good }, OpFault::UnknownElement),
        (Op { obj: list_id, key: Key::Elem(a), insert: true, ..good }, OpFault::UnknownElement),
        (Op { links: &[a], ..good }, OpFault::UnknownPredecessor),
        (Op { key: Key::Map("a"), links: &[x], ..good }, OpFault::UnknownPredecessor),
        (Op { obj: list_id, key: Key::Elem(x), links: &[a], ..good }, OpFault::UnknownPredecessor),
        (
            Op { obj: list_id, key: Key::Head, insert: true, links: &[x], ..good },
            OpFault::UnknownPredecessor,
        ),
        (Op { action: Action::Delete, value: ScalarRef::Null, ..good }, OpFault::MalformedDelete),
        (
            Op { key: Key::Map("a"), action: Action::Delete, links: &[a], ..good },
            OpFault::MalformedDelete,
        ),
        (
            Op { obj: list_id, key: Key::Head, insert: true, action: Action::Increment, ..good },
            OpFault::MalformedIncrement,
        ),
        (
            Op { obj: list_id, key: Key::Elem(x), action: Action::Mark, ..good },
            OpFault::MalformedMark,
        ),
    ];
    let before = state(&doc);
    let make = Op { action: Action::MakeMap, value: ScalarRef::Null, ..good };
    let put = Op { key: Key::Map("a"), links: &[a], ..good };
    let delete =
        Op { obj: list_id, key: Key::Elem(x), action: Action::Delete, links: &[x], ..good };
    let delete = Op { value: ScalarRef::Null, ..delete };
    let insert = Op { obj: list_id, key: Key::Elem(x), insert: true, ..good };
    for (bad, expected) in cases {
        // Sound ops go before, so that there is something to take back.
        let ops = [make, put, delete, insert, bad];
        let change = forge(&[actor(3), actor(1)], &doc, &ops);
        let error = doc.apply_changes([change.clone()]).unwrap_err();
        assert_eq!(
            error,
            Error::Op { change: change.hash(), op: ObjId::new(9, actor(3)), fault: expected },
            "{bad:?}"
        );
        assert_eq!(state(&doc), before, "{bad:?}");
        assert!(load(&[&before[..], change.raw_bytes()].concat()).is_err());
    }
    let unknown = Op { key: Key::Map("a"), links: &[id(1)], ..good };
    let change = forge(&[actor(3), actor(8)], &doc, &[unknown]);
    // Somebody who is not known yet may still come with that op.
    let mut waiting = doc.clone();
    waiting.apply_changes([change]).unwrap();
    assert_eq!((waiting.heads(), waiting.stats().num_queued), (doc.heads(), 1));
    doc.apply_changes([forge(&[actor(3), actor(1)], &doc, &[make, put, delete, insert])]).unwrap();
    assert_eq!(show(&doc), json!({"a": 1, "list": [1], "new": {}, "text": ""}));
}

#[test]
fn a_bad_change_that_waited_is_dropped_and_keeps_nothing_out() {
    let mut doc = Document::new(actor(1));
    edit(&mut doc, |tx| tx.put(&ROOT, "a", 1));
    let bad = Op {
        id: OpId { counter: 1, actor: ActorIdx(0) },
        obj: shoal_history::ObjId::Root,
        key: Key::Head,
        insert: true,
        action: Action::Set,
        value: ScalarRef::Null,
        expand: false,
        mark_name: None,
        links: &[],
    };
    let bad = forge(&[actor(3)], &doc, &[bad]);
    let mut reader = Document::new(actor(2));
    reader.apply_changes([bad]).unwrap();
    assert_eq!(reader.stats().num_queued, 1);
    reader.apply_changes(doc.changes().cloned()).unwrap();
    assert_eq!(reader.heads(), doc.heads());
    assert_eq!(reader.stats().num_queued, 0);
}

#[test]
fn op_ids_run_out_with_an_error() {
    let forge = |start_op: u32| {
        let header = ChangeHeader {
            actor: ActorIdx(0),
            seq: 1,
            start_op,
            time: 0,
            message: None,
            deps: Vec::new(),
            extra_bytes: &[],
        };
        let actors = [actor(3)];
        let mut writer = ChangeWriter::new(header, &actors);
        writer.push(&Op {
            id: OpId { counter: start_op, actor: ActorIdx(0) },
            obj: shoal_history::ObjId::Root,
            key: Key::Map("text"),
            insert: false,
            action: Action::MakeText,
            value: ScalarRef::Null,
            expand: false,
            mark_name: None,
            links: &[],
        });
        writer.finish().unwrap()
    };
    let mut doc = Document::new(actor(1));
    assert_eq!(doc.apply_changes([forge(u32::MAX)]), Err(Error::OpIdsExhausted));
    doc.apply_changes([forge(u32::MAX - 2)]).unwrap();
    let text = doc.get(&ROOT, "text").unwrap().unwrap().1;
    let before = state(&doc);
    let mut tx = doc.transaction();
    assert_eq!(tx.splice_text(&text, 0, 0, "ab"), Err(Error::OpIdsExhausted));
    assert_eq!(tx.pending_ops(), 0);
    tx.rollback();
    assert_eq!(state(&doc), before);
    edit(&mut doc, |tx| tx.splice_text(&text, 0, 0, "a"));
    assert_eq!(load(&doc.save()).unwrap().text(&text).unwrap(), "a");
    let mut tx = doc.transaction();
    assert_eq!(tx.put(&ROOT, "b", 1), Err(Error::OpIdsExhausted));
    assert_eq!(tx.delete(&text, 0), Err(Error::OpIdsExhausted));
    let hash = tx.commit_empty(CommitOptions::default());
    assert_eq!(load(&doc.save()).unwrap().heads(), [hash]);
}

#[test]
fn tables_read_as_maps_and_are_not_written_to() {
    let mut doc = Document::new(actor(1));
    let table = edit(&mut doc, |tx| tx.put_object(&ROOT, "table", ObjType::Table));
    let obj = shoal_history::ObjId::Op(OpId { counter: 1, actor: ActorIdx(1) });
    let row = Op {
        id: OpId { counter: 2, actor: ActorIdx(0) },
        obj,
        key: Key::Map("row"),
        insert: false,
        action: Action::Set,
        value: ScalarRef::Str("value"),
        expand: false,
        mark_name: None,
        links: &[],
    };
    let change = forge(&[actor(2), actor(1)], &doc, &[row]);
    doc.apply_changes([change]).unwrap();
    assert_eq!(doc.object_type(&table), Ok(ObjType::Table));
    assert_eq!(show(&doc), json!({"table": {"row": "value"}}));
    assert!(matches!(
        doc.transaction().put(&table, "row", 1),
        Err(Error::WrongType { kind: ObjType::Table, .. })
    ));
    edit(&mut doc, |tx| tx.delete(&table, "row"));
    assert_eq!(show(&load(&doc.save()).unwrap()), json!({"table": {}}));
}

#[test]
fn incremental_saves_append_to_what_was_saved() {
    let mut doc = Document::new(actor(1));
    edit(&mut doc, |tx| tx.put(&ROOT, "a", 1));
    let mut file = doc.save();
    assert!(doc.save_incremental().is_empty());
    edit(&mut doc, |tx| tx.put(&ROOT, "a", 2));
    file.extend(doc.save_incremental());
    edit(&mut doc, |tx| tx.put(&ROOT, "b", 3));
    let middle = doc.save_incremental();
    edit(&mut doc, |tx| tx.put(&ROOT, "c", 4));
    let end = doc.save_incremental();

    let mut loaded = load(&file).unwrap();
    assert_eq!(show(&loaded), json!({"a": 2}));
    assert_eq!(loaded.load_incremental(&end), Ok(0));
    assert_eq!(loaded.load_incremental(&middle), Ok(2));
    assert_eq!(loaded.heads(), doc.heads());
    // A document chunk that is known already adds nothing.
    assert_eq!(loaded.load_incremental(&doc.save()), Ok(0));
    let mut empty = Document::new(actor(4));
    assert_eq!(empty.load_incremental(&doc.save()), Ok(4));
    assert_eq!(empty.actor(), &actor(4));

    // A file that begins with changes must be whole, unless told otherwise.
    let error = load(&end).unwrap_err();
    assert!(matches!(error, Error::MissingDeps { .. }), "{error}");
    let options = LoadOptions { on_partial: OnPartial::Ignore, ..LoadOptions::default() };
    assert_eq!(Document::load(&end, actor(1), &options).unwrap().stats().num_queued, 1);
    // So must the rest of a file.
    let torn = [&file[..], &end[..end.len() - 1]].concat();
    assert!(load(&torn).is_err());
    assert_eq!(show(&Document::load(&torn, actor(1), &options).unwrap()), json!({"a": 2}));
}

#[test]
fn conflicts_show_every_value_and_the_greatest_id_wins() {
    let mut one = Document::new(actor(1));
    let list = edit(&mut one, |tx| {
        let list = tx.put_object(&ROOT, "list", ObjType::List)?;
        tx.insert(&list, 0, "old")?;
        Ok(list)
    });
    let mut two = one.fork(actor(2));
    edit(&mut one, |tx| tx.put(&list, 0, "one"));
    edit(&mut two, |tx| tx.put(&list, 0, "two"));
    let mut three = two.fork(actor(3));
    edit(&mut three, |tx| tx.delete(&list, 0));
    one.merge(&two).unwrap();
    let values: Vec<Value<'_>> =
        one.get_all(&list, 0).unwrap().into_iter().map(|(value, _)| value).collect();
    assert_eq!(
        values,
        [Value::Scalar(ScalarRef::Str("one")), Value::Scalar(ScalarRef::Str("two"))]
    );
    let item = one.items(&list, 0).unwrap().next().unwrap();
    assert!(item.conflict);
    assert_eq!(item.elem, ObjId::new(2, actor(1)));
    // The delete saw only one of the values: the other survives it.
    one.merge(&three).unwrap();
    assert_eq!(show(&one), json!({"list": ["one"]}));
}

#[test]
fn writing_the_winner_again_resolves_a_conflict_without_a_new_value() {
    let mut one = Document::new(actor(1));
    let mut two = one.fork(actor(2));
    edit(&mut one, |tx| tx.put(&ROOT, "a", "one"));
    edit(&mut two, |tx| tx.put(&ROOT, "a", "two"));
    one.merge(&two).unwrap();
    assert_eq!(one.get_all(&ROOT, "a").unwrap().len(), 2);
    let winner = one.get(&ROOT, "a").unwrap().unwrap().1;
    edit(&mut one, |tx| tx.put(&ROOT, "a", "two"));
    let all = one.get_all(&ROOT, "a").unwrap();
    assert_eq!(all, [(Value::Scalar(ScalarRef::Str("two")), winner)]);
    assert_eq!(one.op_count(), 2);
    let mut tx = one.transaction();
    tx.put(&ROOT, "a", "two").unwrap();
    assert_eq!(tx.pending_ops(), 0);
}

#[test]
fn waiting_changes_of_an_actor_yield_to_its_own_next_change() {
    let mut doc = Document::new(actor(1));
    edit(&mut doc, |tx| tx.put(&ROOT, "a", 1));
    let mut lost = doc.clone();
    edit(&mut lost, |tx| tx.put(&ROOT, "a", 2));
    edit(&mut lost, |tx| tx.put(&ROOT, "a", 3));
    let third = lost.changes().last().unwrap().clone();
    doc.apply_changes([third]).unwrap();
    assert_eq!(doc.stats().num_queued, 1);
    edit(&mut doc, |tx| tx.put(&ROOT, "a", 4));
    assert_eq!(doc.stats().num_queued, 0);
}

#[test]
fn an_empty_commit_acknowledges_the_heads() {
    let mut doc = Document::new(actor(1));
    let hash = doc.transaction().commit_empty(CommitOptions::default().with_message("hello"));
    assert_eq!(doc.heads(), [hash]);
    let change = doc.change_by_hash(&hash).unwrap();
    assert_eq!((change.len(), change.message()), (0, Some("hello")));
    assert_eq!(load(&doc.save()).unwrap().heads(), [hash]);
}
