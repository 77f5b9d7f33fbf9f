//! Document chunks whose rows contradict each other: the heads do not cover the order of rows, so
//! nothing but the engine can notice.

use shoal_crdt::{
    ActorId, CommitOptions, Document, Error, LoadOptions, ObjType, OpFault, ROOT, Scalar,
};
use shoal_history::{
    Action, Chunk, DocumentWriter, Key, Limits, ObjId as StoredObjId, Op, OpId, chunks,
};

/// A row that owns its parts.
#[derive(Clone, Debug)]
struct Row {
    id: OpId,
    obj: StoredObjId,
    key: RowKey,
    insert: bool,
    action: Action,
    value: Scalar,
    succ: Vec<OpId>,
}

#[derive(Clone, Debug)]
enum RowKey {
    Map(String),
    Head,
    Elem(OpId),
}

/// Map {"list": [..], "text": ..} with overwrites, deletes, conflicts and a counter.
fn sample() -> Document {
    let mut doc = Document::new(ActorId::new(&[1]));
    let mut tx = doc.transaction();
    let list = tx.put_object(&ROOT, "list", ObjType::List).unwrap();
    let text = tx.put_object(&ROOT, "text", ObjType::Text).unwrap();
    tx.put(&ROOT, "zero", 0).unwrap();
    tx.splice(&list, 0, 0, [Scalar::Int(1), Scalar::Counter(5), Scalar::Int(3)]).unwrap();
    tx.splice_text(&text, 0, 0, "abcd").unwrap();
    tx.commit(CommitOptions::default());
    let mut other = doc.fork(ActorId::new(&[2]));
    for (doc, value) in [(&mut doc, "x"), (&mut other, "y")] {
        let mut tx = doc.transaction();
        tx.put(&list, 0, value).unwrap();
        tx.increment(&list, 1, 2).unwrap();
        tx.splice_text(&text, 1, 1, value).unwrap();
        tx.put(&ROOT, "zero", value).unwrap();
        tx.commit(CommitOptions::default());
    }
    doc.merge(&other).unwrap();
    doc
}

fn rows(doc: &Document) -> Vec<Row> {
    let bytes = doc.to_bytes(shoal_crdt::SaveOptions::default());
    let Some(Ok(Chunk::Document(chunk))) = chunks(&bytes, &Limits::default()).next() else {
        panic!("a saved document is a document chunk");
    };
    let mut rows = Vec::new();
    let mut ops = chunk.ops();
    while let Some(op) = ops.next_op() {
        rows.push(Row {
            id: op.id,
            obj: op.obj,
            key: match op.key {
                Key::Map(key) => RowKey::Map(key.to_owned()),
                Key::Head => RowKey::Head,
                Key::Elem(id) => RowKey::Elem(id),
            },
            insert: op.insert,
            action: op.action,
            value: op.value.to_scalar(),
            succ: op.links.to_vec(),
        });
    }
    rows
}

fn load(doc: &Document, rows: &[Row]) -> Result<Document, Error> {
    let actors = [ActorId::new(&[1]), ActorId::new(&[2])];
    let mut writer = DocumentWriter::new(&actors);
    for change in doc.changes() {
        writer.push_change(change);
    }
    for row in rows {
        writer.push_op(&Op {
            id: row.id,
            obj: row.obj,
            key: match &row.key {
                RowKey::Map(key) => Key::Map(key),
                RowKey::Head => Key::Head,
                RowKey::Elem(id) => Key::Elem(*id),
            },
            insert: row.insert,
            action: row.action,
            value: row.value.as_ref(),
            expand: false,
            mark_name: None,
            links: &row.succ,
        });
    }
    let bytes = writer.finish().unwrap();
    Document::load(&bytes, ActorId::new(b"reader"), &LoadOptions::default())
}

fn fault(result: Result<Document, Error>) -> Option<OpFault> {
    match result {
        Err(Error::Row { fault, .. }) => Some(fault),
        _ => None,
    }
}

#[test]
fn rows_in_document_order_load() {
    let doc = sample();
    let loaded = load(&doc, &rows(&doc)).unwrap();
    assert_eq!(loaded.heads(), doc.heads());
    let json = |doc: &Document| serde_json::to_string(&doc.to_json()).unwrap();
    assert_eq!(json(&loaded), json(&doc));
    assert_eq!(json(&doc), r#"{"list":["y",9,3],"text":"ayxcd","zero":"y"}"#);
}

/// A refusal names the row, its op and a column.
#[test]
fn refusals_name_the_place() {
    let doc = sample();
    let sound = rows(&doc);
    let mut refused = 0;
    for at in 1..sound.len() {
        let mut rows = sound.clone();
        rows.swap(at - 1, at);
        let Err(error) = load(&doc, &rows) else { continue };
        let text = error.to_string();
        let Error::Row { row, column, op, fault } = error else { continue };
        let of_row = rows[row as usize].id;
        assert_eq!(op.counter(), of_row.counter);
        assert!(row as usize + 1 >= at, "{at}: {text}");
        assert_eq!(text, format!("document chunk: {column}, row {row}: op {op}: {fault}"));
        refused += 1;
    }
    assert!(refused > 4, "{refused}");
}

/// Whatever two rows trade places: the document is refused, or it means the same.
#[test]
fn rows_out_of_order_are_refused_or_mean_the_same() {
    let doc = sample();
    let sound = rows(&doc);
    let json = |doc: &Document| serde_json::to_string(&doc.to_json()).unwrap();
    let expected = json(&doc);
    let mut refused = 0;
    for a in 0..sound.len() {
        for b in a + 1..sound.len() {
            let mut rows = sound.clone();
            rows.swap(a, b);
            match load(&doc, &rows) {
                Ok(loaded) => assert_eq!(json(&loaded), expected, "rows {a} and {b}"),
                Err(Error::Row { .. } | Error::History(_)) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert!(refused > sound.len(), "{refused}");
}

#[test]
fn siblings_in_the_wrong_order_are_refused() {
    let doc = sample();
    let sound = rows(&doc);
    let at = |text: &str| {
        sound.iter().position(|row| row.insert && row.value == Scalar::Str(text.into())).unwrap()
    };
    let mut rows = sound.clone();
    rows.swap(at("x"), at("y"));
    assert_eq!(fault(load(&doc, &rows)), Some(OpFault::RowOrder));
    // The last character before what it was inserted after.
    let mut rows = sound.clone();
    let last = rows.remove(at("d"));
    rows.insert(at("c"), last);
    assert_eq!(fault(load(&doc, &rows)), Some(OpFault::RowOrder));
}

#[test]
fn keys_and_objects_come_once_and_with_the_right_kind_of_key() {
    let doc = sample();
    let sound = rows(&doc);
    // The rows of "zero" around those of the other keys.
    let mut apart = sound.clone();
    let last = apart.iter().rposition(|row| row.obj == StoredObjId::Root).unwrap();
    let row = apart.remove(last);
    apart.insert(0, row);
    assert_eq!(fault(load(&doc, &apart)), Some(OpFault::RowOrder));
    // A list before the map that holds it.
    let mut early = sound.clone();
    let in_list = early.iter().position(|row| row.obj != StoredObjId::Root).unwrap();
    let row = early.remove(in_list);
    early.insert(0, row);
    assert!(load(&doc, &early).is_err());
    // The root again at the end.
    let mut late = sound.clone();
    let row = late.remove(0);
    late.push(row);
    assert!(load(&doc, &late).is_err());
}
