//! Malformed chunks of every kind, with valid checksums: each is an error that names the place.

#[path = "../parts/mod.rs"]
mod parts;

use proptest::prelude::*;
use shoal_history::{
    Action, ActorId, ActorIdx, Change, ChangeGraph, ChangeHeader, ChangeWriter, Chunk,
    DocumentWriter, Error, Key, Limits, ObjId, Op, OpId, ScalarRef, Verify, chunks,
};

use self::parts::{ChangeParts, Columns, DocumentParts, body, put, seal, write_uleb};

fn id(counter: u32, actor: u32) -> OpId {
    OpId { counter, actor: ActorIdx(actor) }
}

/// Three ops by actor 1 with one more actor known: a counter in the root, an increment of it, and
/// an insertion into somebody's list.
fn sample_ops(visit: &mut dyn FnMut(&Op<'_>)) {
    let set = Op {
        id: id(5, 0),
        obj: ObjId::Root,
        key: Key::Map("k"),
        insert: false,
        action: Action::Set,
        value: ScalarRef::Counter(3),
        expand: false,
        mark_name: None,
        links: &[],
    };
    visit(&set);
    let links = [id(5, 0)];
    let value = ScalarRef::Int(1);
    visit(&Op { id: id(6, 0), action: Action::Increment, value, links: &links, ..set });
    let (obj, key) = (ObjId::Op(id(1, 1)), Key::Elem(id(2, 1)));
    visit(&Op { id: id(7, 0), obj, key, insert: true, value: ScalarRef::Str("x"), ..set });
}

fn sample_change() -> Change {
    let actors = [ActorId::new(&[1]), ActorId::new(&[2])];
    let header = ChangeHeader {
        actor: ActorIdx(0),
        seq: 2,
        start_op: 5,
        time: 0,
        message: Some("m"),
        deps: Vec::new(),
        extra_bytes: &[],
    };
    let mut writer = ChangeWriter::new(header, &actors);
    sample_ops(&mut |op| writer.push(op));
    writer.finish().unwrap()
}

/// Two changes by two actors: a list with an element that the second one deletes, a key that it
/// sets again, and a mark over the element.
fn sample_document() -> Vec<u8> {
    let actors = [ActorId::new(&[1]), ActorId::new(&[2])];
    let header = |actor, start_op, deps| ChangeHeader {
        actor: ActorIdx(actor),
        seq: 1,
        start_op,
        time: 0,
        message: None,
        deps,
        extra_bytes: &[],
    };
    let base = Op {
        id: id(1, 0),
        obj: ObjId::Root,
        key: Key::Map("t"),
        insert: false,
        action: Action::MakeText,
        value: ScalarRef::Null,
        expand: false,
        mark_name: None,
        links: &[],
    };
    let text = ObjId::Op(id(1, 0));
    let begin = Op {
        id: id(2, 0),
        obj: text,
        key: Key::Head,
        insert: true,
        action: Action::Mark,
        value: ScalarRef::Boolean(true),
        mark_name: Some("bold"),
        ..base
    };
    let end = Op {
        id: id(3, 0),
        key: Key::Elem(id(2, 0)),
        value: ScalarRef::Null,
        mark_name: None,
        ..begin
    };
    let (set, value) = (Action::Set, ScalarRef::Str("x"));
    let element = Op { id: id(4, 0), action: set, value, ..end };
    let key = Op { id: id(5, 0), key: Key::Map("k"), action: set, value, ..base };
    let mut first = ChangeWriter::new(header(0, 1, Vec::new()), &actors);
    for op in [&base, &begin, &end, &element, &key] {
        first.push(op);
    }
    let first = first.finish().unwrap();
    let mut second = ChangeWriter::new(header(1, 6, vec![first.hash()]), &actors);
    let links = [id(4, 0)];
    let delete = Op {
        id: id(6, 1),
        key: Key::Elem(id(4, 0)),
        insert: false,
        action: Action::Delete,
        value: ScalarRef::Null,
        links: &links,
        ..element
    };
    let again_links = [id(5, 0)];
    let again = Op { id: id(7, 1), links: &again_links, ..key };
    second.push(&delete);
    second.push(&again);
    let second = second.finish().unwrap();

    let mut writer = DocumentWriter::new(&actors).deflate(false);
    writer.push_change(&first);
    writer.push_change(&second);
    let (deleted, superseded) = ([id(6, 1)], [id(7, 1)]);
    writer.push_op(&Op { links: &superseded, ..key });
    writer.push_op(&Op { links: &[], ..again });
    writer.push_op(&base);
    writer.push_op(&begin);
    writer.push_op(&Op { links: &deleted, ..element });
    writer.push_op(&end);
    writer.finish().unwrap()
}

/// Reads everything that can be read.
fn load(bytes: &[u8], limits: &Limits) -> Result<Vec<Change>, Error> {
    let mut changes = Vec::new();
    for chunk in chunks(bytes, limits) {
        match chunk? {
            Chunk::Change(change) => {
                let mut ops = change.ops();
                while ops.next_op().is_some() {}
                changes.push(change);
            }
            Chunk::Document(document) => {
                let mut ops = document.ops();
                while ops.next_op().is_some() {}
                changes.extend(document.changes(Verify::Heads)?);
            }
            other => panic!("{other:?}"),
        }
    }
    Ok(changes)
}

#[track_caller]
fn refused(bytes: &[u8], expect: &str) {
    let error = load(bytes, &Limits::default()).expect_err(expect);
    assert_eq!(error.to_string(), expect);
}

#[track_caller]
fn change_refused(change: impl FnOnce(&mut ChangeParts), expect: &str) {
    let mut parts = ChangeParts::read(sample_change().raw_bytes());
    change(&mut parts);
    refused(&seal(1, &parts.body()), &format!("change chunk: {expect}"));
}

#[track_caller]
fn column_refused(spec: u64, data: &[u8], expect: &str) {
    change_refused(|parts| put(&mut parts.columns, spec, Some(data)), expect);
}

#[track_caller]
fn document_refused(change: impl FnOnce(&mut DocumentParts), expect: &str) {
    let mut parts = DocumentParts::read(&sample_document());
    change(&mut parts);
    refused(&parts.seal(), &format!("document chunk: {expect}"));
}

#[test]
fn the_samples_are_valid_and_taken_apart_rightly() {
    let change = sample_change();
    let parts = ChangeParts::read(change.raw_bytes());
    assert_eq!(seal(1, &parts.body()), change.raw_bytes());
    assert_eq!(load(change.raw_bytes(), &Limits::default()), Ok(vec![change]));
    let document = sample_document();
    assert_eq!(DocumentParts::read(&document).seal(), document);
    assert_eq!(load(&document, &Limits::default()).unwrap().len(), 2);
    assert!(automerge::Automerge::load(&document).is_ok());
}

#[test]
fn envelopes() {
    let change = sample_change();
    let bytes = change.raw_bytes();
    refused(&bytes[..20], "chunk envelope: ends too early");
    refused(b"not a chunk", "chunk envelope: wrong magic bytes");
    refused(&[bytes, &[0x85]].concat(), "chunk envelope: ends too early");
    refused(&[bytes, b"x"].concat(), "chunk envelope: wrong magic bytes");
    let mut wrong = bytes.to_vec();
    *wrong.last_mut().unwrap() ^= 1;
    refused(&wrong, "chunk envelope: wrong checksum");
    refused(&seal(4, &[]), "chunk envelope: unknown chunk type: 4");
    refused(&seal(3, &[0; 6]), "bundle chunk: body: bytes left over: 2");
    let mut overlong = bytes[..9].to_vec();
    overlong.extend([0x80 | bytes[9], 0]);
    overlong.extend(&bytes[10..]);
    refused(&overlong, "chunk envelope: integer not in its shortest form");
    let extra = [bytes, bytes].concat();
    let left = format!("chunk envelope: bytes left over: {}", bytes.len());
    assert_eq!(Change::from_bytes(&extra).unwrap_err().to_string(), left);
    let document = Change::from_bytes(&sample_document()).unwrap_err();
    assert_eq!(document.to_string(), "not the type of chunk that is wanted: document");
}

#[test]
fn compressed_changes() {
    let change = sample_change();
    let mut deflated = Vec::new();
    let mut encoder =
        flate2::write::DeflateEncoder::new(&mut deflated, flate2::Compression::default());
    std::io::Write::write_all(&mut encoder, body(change.raw_bytes())).unwrap();
    encoder.finish().unwrap();
    let seal = |deflated: &[u8]| {
        let mut chunk = seal(2, deflated);
        chunk[4..8].copy_from_slice(&change.hash().0[..4]);
        chunk
    };
    assert_eq!(load(&seal(&deflated), &Limits::default()), Ok(vec![change.clone()]));
    let cut = &deflated[..deflated.len() - 2];
    refused(&seal(cut), "compressed change chunk: deflated body: ends too early");
    let longer = [&deflated[..], &[0]].concat();
    refused(&seal(&longer), "compressed change chunk: deflated body: bytes left over: 1");
    refused(&seal(&[0xff; 9]), "compressed change chunk: deflated body: broken deflate stream");
    let mut wrong = seal(&deflated);
    wrong[4] ^= 1;
    refused(&wrong, "chunk envelope: wrong checksum");
}

#[test]
fn change_headers() {
    change_refused(|parts| parts.seq = 0, "seq: number out of range: 0");
    change_refused(|parts| parts.start_op = 0, "start op: number out of range: 0");
    change_refused(|parts| parts.start_op = 1 << 32, "start op: number beyond 32 bits: 4294967296");
    change_refused(
        |parts| parts.start_op = u64::from(u32::MAX) - 1,
        "start op: number beyond 32 bits: 4294967297",
    );
    change_refused(|parts| parts.seq = 1 << 32, "seq: number beyond 32 bits: 4294967296");
    change_refused(|parts| parts.message = vec![0xff], "message: text is not utf-8");
    change_refused(|parts| parts.time = vec![0x80, 0x00], "time: integer not in its shortest form");
    let change = sample_change();
    let whole = body(change.raw_bytes());
    let mut columns_end = whole.len();
    while columns_end > 0 {
        columns_end -= 1;
        let error = load(&seal(1, &whole[..columns_end]), &Limits::default()).unwrap_err();
        assert!(error.to_string().ends_with("ends too early"), "{columns_end}: {error}");
    }
    let mut many_deps = vec![0xff, 0xff, 0x03];
    many_deps.extend(&whole[1..]);
    refused(&seal(1, &many_deps), "change chunk: deps: ends too early");
}

#[test]
fn change_columns() {
    change_refused(|parts| parts.columns.swap(0, 1), "column table: column out of order: 1");
    change_refused(
        |parts| parts.columns[0].0 |= 8,
        "column table: deflated column not allowed here: 9",
    );
    change_refused(
        |parts| put(&mut parts.columns, 86, None),
        "column table: column without its owner: 87",
    );
    change_refused(
        |parts| put(&mut parts.columns, 66, None),
        "object actor column: wrong number of rows: 3",
    );
    change_refused(
        |parts| put(&mut parts.columns, 52, None),
        "insert column: wrong number of rows: 0",
    );
    change_refused(
        |parts| put(&mut parts.columns, 112, None),
        "pred count column: wrong number of rows: 0",
    );
    change_refused(
        |parts| put(&mut parts.columns, 113, None),
        "pred actor column: wrong number of rows: 0",
    );
    column_refused(66, &[4, 1], "object actor column: wrong number of rows: 3");
    column_refused(52, &[2], "insert column: wrong number of rows: 2");
    column_refused(148, &[2], "expand column: wrong number of rows: 2");
    column_refused(165, &[2, 1, b'a'], "mark name column: wrong number of rows: 2");
    column_refused(112, &[3, 1], "pred actor column: wrong number of rows: 1");
    column_refused(112, &[0, 3], "pred count column: null where a value is needed");
    column_refused(113, &[0, 1], "pred actor column, row 1: null where a value is needed");
    column_refused(66, &[0x7d, 1, 8, 1], "action column, row 1: unknown action: 8");
    column_refused(66, &[2, 1, 0, 1], "action column, row 2: null where a value is needed");
    column_refused(66, &[0x80], "action column: ends too early");
    column_refused(21, &[2, 1, 0xff, 0, 1], "key string column: text is not utf-8");
    column_refused(1, &[0, 2, 0x7f, 2], "object actor column, row 2: no such actor: 2");
    column_refused(2, &[0, 2, 0x7f, 0], "object counter column, row 2: number out of range: 0");
    column_refused(
        2,
        &[0, 1, 2, 1],
        "object actor column, row 1: value and null do not fit together",
    );
    column_refused(
        2,
        &[0, 2, 0x7f, 7],
        "object counter column, row 2: refers to an op that is not before it: 7",
    );
    column_refused(17, &[0, 3], "key actor column, row 2: value and null do not fit together");
    column_refused(
        21,
        &[3, 1, b'k'],
        "key string column, row 2: value and null do not fit together",
    );
    column_refused(
        19,
        &[0, 2, 0x7f, 8],
        "key counter column, row 2: refers to an op that is not before it: 8",
    );
    column_refused(19, &[0, 2, 0x7f, 0x7f], "key counter column, row 2: number out of range: -1");
    column_refused(52, &[1, 2], "insert column, row 1: insertion with a map key");
    change_refused(
        |parts| {
            put(&mut parts.columns, 17, None);
            put(&mut parts.columns, 19, Some(&[0, 2, 0x7f, 0]));
            put(&mut parts.columns, 52, Some(&[3]));
        },
        "insert column, row 2: list head changed",
    );
    column_refused(
        115,
        &[0x7f, 6],
        "pred counter column, row 1: refers to an op that is not before it: 6",
    );
    column_refused(115, &[0x7f, 0], "pred counter column, row 1: number out of range: 0");
    column_refused(113, &[0x7f, 9], "pred actor column, row 1: no such actor: 9");
    change_refused(
        |parts| {
            put(&mut parts.columns, 112, Some(&[0x7d, 0, 2, 0]));
            put(&mut parts.columns, 113, Some(&[2, 0]));
            put(&mut parts.columns, 115, Some(&[0x7e, 5, 0]));
        },
        "pred counter column, row 1: the same op twice in a list: 5",
    );
}

#[test]
fn change_values() {
    // Counter, increment by an integer, text: three payloads of one byte.
    let meta = |kinds: [u8; 3]| [0x7d, kinds[0], kinds[1], kinds[2]];
    column_refused(
        86,
        &meta([0x10, 0x14, 0x16]),
        "value column, row 0: payload does not fit the value type: 0",
    );
    column_refused(
        86,
        &meta([0x15, 0x14, 0x16]),
        "value column, row 0: payload does not fit the value type: 5",
    );
    column_refused(
        86,
        &meta([0x18, 0x16, 0x16]),
        "value column, row 1: increment is not an integer",
    );
    column_refused(86, &meta([0x18, 0x14, 0x26]), "value column, row 2: ends too early");
    column_refused(86, &meta([0x18, 0x14, 0x06]), "value column: bytes left over: 1");
    column_refused(87, &[3, 1, 0xff], "value column, row 2: text is not utf-8");
    column_refused(
        87,
        &[0x80, 1, b'x'],
        "value column, row 0: payload does not fit the value type: 8",
    );
}

#[test]
fn claims_of_too_many_rows_cost_nothing() {
    let many = |count: u64| {
        let mut bytes = vec![0];
        write_uleb(count, &mut bytes);
        bytes
    };
    let repeat = |count: u64, value: u8| {
        let mut bytes = Vec::new();
        // As a signed number it needs a zero byte more where the last one looks negative.
        write_uleb(count, &mut bytes);
        if bytes.last().unwrap() & 0x40 != 0 {
            *bytes.last_mut().unwrap() |= 0x80;
            bytes.push(0);
        }
        bytes.push(value);
        bytes
    };
    column_refused(1, &many(1 << 40), "object actor column: wrong number of rows: 1099511627776");
    column_refused(66, &repeat(1 << 40, 1), "object actor column: wrong number of rows: 3");
    column_refused(
        112,
        &[0x7d, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 0],
        "pred actor column: wrong number of rows: 1",
    );
    // All columns agree on 2^30 rows.
    let rows = 1 << 30;
    let mut parts = ChangeParts::read(sample_change().raw_bytes());
    parts.columns = vec![
        (21, repeat(rows, 0)),
        (52, {
            let mut bytes = Vec::new();
            write_uleb(rows, &mut bytes);
            bytes
        }),
        (66, repeat(rows, 1)),
        (86, repeat(rows, 0)),
        (112, repeat(rows, 0)),
    ];
    let bytes = seal(1, &parts.body());
    refused(&bytes, "change chunk: more ops than allowed: 4194304");
    let limits = Limits { max_ops: 2, ..Limits::default() };
    let error = load(sample_change().raw_bytes(), &limits).unwrap_err();
    assert_eq!(error.to_string(), "change chunk: more ops than allowed: 2");
    // So many links.
    parts.columns[4] = (112, repeat(rows, 1));
    parts.columns.push((113, repeat(rows, 0)));
    parts.columns.push((115, repeat(rows, 1)));
    refused(&seal(1, &parts.body()), "change chunk: more ops than allowed: 4194304");
}

#[test]
fn document_headers() {
    document_refused(|parts| parts.actors.swap(0, 1), "actors: not in ascending order");
    document_refused(|parts| parts.actors[1] = vec![1], "actors: not in ascending order");
    document_refused(|parts| parts.heads.push([0; 32]), "heads: not in ascending order");
    document_refused(
        |parts| parts.head_rows = vec![2],
        "head index: head is not the change in the row: 2",
    );
    document_refused(
        |parts| parts.head_rows = vec![0],
        "head index: head is not the change in the row: 0",
    );
    document_refused(|parts| parts.head_rows = vec![1, 0], "head index: bytes left over: 1");
    document_refused(|parts| parts.head_rows = vec![0x80], "head index: ends too early");
    document_refused(
        |parts| parts.ops.push((0x1000, vec![1])),
        "op column table: unknown column: 4096",
    );
    document_refused(
        |parts| parts.changes.push((112, vec![1])),
        "change column table: unknown column: 112",
    );
    document_refused(|parts| parts.ops.swap(0, 1), "op column table: column out of order: 1");
    document_refused(|parts| parts.ops[0].0 |= 8, "op columns: ends too early");
    document_refused(
        |parts| parts.heads[0] = [9; 32],
        "no rebuilt change has the hash of its head number: 0",
    );
    document_refused(
        |parts| {
            parts.heads.clear();
            parts.head_rows.clear();
        },
        "no rebuilt change has the hash of its head number: 0",
    );
    let whole = sample_document();
    let whole = body(&whole);
    // Without the head index, which is the last byte, it is whole; with less it is not.
    assert!(load(&seal(0, &whole[..whole.len() - 1]), &Limits::default()).is_ok());
    for end in 0..whole.len() - 1 {
        assert!(load(&seal(0, &whole[..end]), &Limits::default()).is_err(), "{end}");
    }
}

#[track_caller]
fn change_row_refused(spec: u64, data: &[u8], expect: &str) {
    document_refused(|parts| put(&mut parts.changes, spec, Some(data)), expect);
}

#[test]
fn document_changes() {
    change_row_refused(1, &[0x7e, 0, 2], "change actor column, row 1: no such actor: 2");
    change_row_refused(1, &[2, 0], "change seq column, row 1: sequence number out of turn: 1");
    change_row_refused(1, &[3, 0], "change seq column: wrong number of rows: 2");
    change_row_refused(
        3,
        &[0x7e, 2, 0],
        "change seq column, row 0: sequence number out of turn: 2",
    );
    change_row_refused(3, &[0, 2], "change seq column, row 0: null where a value is needed");
    change_row_refused(
        19,
        &[0x7e, 5, 0x7f],
        "change max op column, row 1: greatest op number below an earlier one: 4",
    );
    change_row_refused(53, &[2, 1, 0xff], "change message column: text is not utf-8");
    change_row_refused(64, &[2, 1], "change dep row column: wrong number of rows: 1");
    change_row_refused(
        67,
        &[0x7f, 1],
        "change dep row column, row 1: dependency is not an earlier row: 1",
    );
    change_row_refused(
        67,
        &[0x7f, 0xe4, 0x00],
        "change dep row column, row 1: dependency is not an earlier row: 100",
    );
    change_row_refused(67, &[0x7f, 0x7f], "change dep row column, row 1: number out of range: -1");
    change_row_refused(
        86,
        &[2, 6],
        "change extra metadata column, row 0: payload does not fit the value type: 6",
    );
    change_row_refused(86, &[2, 0x17], "change extra column, row 0: ends too early");
    document_refused(
        |parts| put(&mut parts.changes, 87, Some(&[1])),
        "change extra column: bytes left over: 1",
    );
    document_refused(
        |parts| put(&mut parts.changes, 3, None),
        "change seq column: wrong number of rows: 0",
    );
}

#[track_caller]
fn op_row_refused(spec: u64, data: &[u8], expect: &str) {
    document_refused(|parts| put(&mut parts.ops, spec, Some(data)), expect);
}

#[test]
fn document_ops() {
    // Rows: k (5,0), k (7,1), t (1,0), begin (2,0), element (4,0), end (3,0).
    op_row_refused(33, &[6, 7], "id actor column, row 0: no such actor: 7");
    op_row_refused(33, &[5, 0], "id actor column: wrong number of rows: 5");
    op_row_refused(33, &[0, 6], "id actor column, row 0: null where a value is needed");
    op_row_refused(35, &[6, 0], "id counter column, row 0: number out of range: 0");
    op_row_refused(66, &[0x7a, 1, 3, 4, 7, 1, 7], "action column, row 1: delete op in a document");
    op_row_refused(66, &[0x7a, 1, 8, 4, 7, 1, 7], "action column, row 1: unknown action: 8");
    op_row_refused(
        66,
        &[0x7a, 1, 5, 4, 7, 1, 7],
        "value column, row 1: increment is not an integer",
    );
    op_row_refused(
        131,
        &[0x7e, 7, 0x7d],
        "succ counter column, row 4: superseded by an op that is not after it: 4",
    );
    // The end of the mark before its begin.
    document_refused(
        |parts| put(&mut parts.ops, 165, Some(&[0, 5, 0x7f, 1, b'b'])),
        "mark name column, row 3: mark ends before it begins",
    );
    // The root again after the text.
    document_refused(
        |parts| {
            put(&mut parts.ops, 1, Some(&[0, 3, 1, 0, 0, 1, 1, 0]));
            put(&mut parts.ops, 2, Some(&[0, 3, 1, 1, 0, 1, 1, 1]));
        },
        "object counter column, row 4: not in ascending order",
    );
    // The second change's op ascribed to the first one's actor.
    op_row_refused(
        33,
        &[6, 0],
        "id counter column, row 1: op belongs to no change, with the counter: 7",
    );
    // The same id twice.
    op_row_refused(
        35,
        &[0x7a, 5, 2, 0x7a, 1, 3, 0x7e],
        "id counter column, row 4: op id used twice, with the counter: 5",
    );
    // A delete of two elements at once.
    document_refused(
        |parts| {
            put(&mut parts.ops, 128, Some(&[0x7a, 1, 0, 0, 1, 1, 0]));
            put(&mut parts.ops, 129, Some(&[3, 1]));
            put(&mut parts.ops, 131, Some(&[0x7d, 7, 0x7f, 0]));
        },
        "succ counter column, row 4: one delete op for different keys, with the counter: 6",
    );
    // The put of one key takes the place of another key's: its author's change would be refused.
    document_refused(
        |parts| put(&mut parts.ops, 128, Some(&[0x7a, 0, 0, 1, 0, 1, 0])),
        "succ counter column, row 2: superseded by an op at another key, with the counter: 7",
    );
    // Without its delete the second change lacks an op, so it starts later and is another one.
    document_refused(
        |parts| {
            put(&mut parts.ops, 128, Some(&[0x7f, 1, 5, 0]));
            put(&mut parts.ops, 129, Some(&[0x7f, 1]));
            put(&mut parts.ops, 131, Some(&[0x7f, 7]));
        },
        "no rebuilt change has the hash of its head number: 0",
    );
    // A succ in nobody's change.
    document_refused(
        |parts| put(&mut parts.ops, 131, Some(&[0x7e, 7, 1])),
        "succ counter column, row 4: op belongs to no change, with the counter: 8",
    );
    change_row_refused(
        19,
        &[0x7e, 5, 3],
        "change max op column, row 1: op is missing, with the counter: 8",
    );
    // The first change takes an op more, which is then not left for the second one.
    change_row_refused(
        19,
        &[0x7e, 6, 1],
        "succ counter column, row 4: op belongs to no change, with the counter: 6",
    );
}

#[test]
fn document_limits() {
    let document = sample_document();
    let with = |limits: Limits| load(&document, &limits).unwrap_err().to_string();
    let limits = Limits::default();
    assert_eq!(with(Limits { max_ops: 5, ..limits }), "document chunk: more ops than allowed: 5");
    assert_eq!(
        with(Limits { max_changes: 1, ..limits }),
        "document chunk: more changes than allowed: 1"
    );
    assert_eq!(
        with(Limits { max_rebuilt_bytes: 150, ..limits }),
        "document chunk: more bytes of rebuilt changes than allowed: 150"
    );
    assert_eq!(
        with(Limits { max_chunk_bytes: 100, ..limits }),
        "document chunk: more bytes than allowed: 100"
    );
    assert_eq!(
        with(Limits { max_actors: 1, ..limits }),
        "document chunk: more actors than allowed: 1"
    );
    let change = |limits: Limits| {
        load(sample_change().raw_bytes(), &limits).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(
        change(Limits { max_chunk_bytes: 20, ..limits }),
        Err("change chunk: more bytes than allowed: 20".to_owned())
    );
    assert_eq!(
        change(Limits { max_actors: 1, ..limits }),
        Err("change chunk: more actors than allowed: 1".to_owned())
    );
    assert_eq!(change(Limits { max_actors: 2, ..limits }), Ok(()));
    // A column that inflates to a gigabyte.
    let mut parts = DocumentParts::read(&document);
    let mut bomb = Vec::new();
    let mut encoder = flate2::write::DeflateEncoder::new(&mut bomb, flate2::Compression::best());
    let zeros = vec![0; 1 << 20];
    for _ in 0..300 {
        std::io::Write::write_all(&mut encoder, &zeros).unwrap();
    }
    encoder.finish().unwrap();
    parts.ops[0] = (parts.ops[0].0 | 8, bomb);
    refused(&parts.seal(), "document chunk: more inflated bytes than allowed: 39162496");
}

/// What is looked at later is refused later: until then the heads that the chunk names are known,
/// after that as well, but no change.
#[test]
fn a_broken_history_that_is_verified_later() {
    let mut parts = DocumentParts::read(&sample_document());
    // A succ in nobody's change.
    put(&mut parts.ops, 131, Some(&[0x7e, 7, 1]));
    let Some(Ok(Chunk::Document(document))) = chunks(&parts.seal(), &Limits::default()).next()
    else {
        panic!("each row is valid by itself")
    };
    let mut graph = ChangeGraph::new();
    let expect = "document chunk: succ counter column, row 4: op belongs to no change, \
                  with the counter: 8";
    for verify in [Verify::Heads, Verify::Nothing] {
        assert_eq!(graph.load(&document, verify).unwrap_err().to_string(), expect);
        assert!(graph.is_empty() && graph.heads().is_empty());
    }
    graph.load(&document, Verify::Later).unwrap();
    let head = document.heads()[0];
    assert_eq!((graph.len(), graph.heads(), graph.max_op()), (2, vec![head], 7));
    assert_eq!(graph.verify().unwrap_err().to_string(), expect);
    assert!(graph.contains(&head) && graph.get(&head).is_none());
    assert_eq!((graph.changes().count(), graph.changes_since(&[]).len()), (0, 0));
    assert_eq!(graph.clock(&[head]), graph.full_clock());
    let error = graph.load(&document, Verify::Later).unwrap_err();
    assert_eq!(error.to_string(), "misuse: a document chunk is loaded into an empty graph");
}

/// What no writer writes but readers accept keeps its bytes, and is told apart.
#[test]
fn changes_that_are_not_canonical() {
    let check = |expect: bool, change: &dyn Fn(&mut ChangeParts)| {
        let mut parts = ChangeParts::read(sample_change().raw_bytes());
        change(&mut parts);
        let bytes = seal(1, &parts.body());
        let read = Change::from_bytes(&bytes).unwrap();
        assert_eq!(read.raw_bytes(), bytes);
        assert_eq!(read.is_canonical(), expect);
    };
    check(true, &|_| {});
    check(true, &|parts| parts.extra = vec![1, 2, 3]);
    // A run of one, a false that goes without saying, an actor that nobody refers to.
    check(false, &|parts| put(&mut parts.columns, 66, Some(&[1, 1, 1, 5, 1, 1])));
    check(false, &|parts| put(&mut parts.columns, 148, Some(&[3])));
    check(false, &|parts| parts.others.push(vec![3]));
    // A column that nobody knows, and an empty one.
    check(false, &|parts| put(&mut parts.columns, 0x7f0, Some(&[1])));
    check(false, &|parts| put(&mut parts.columns, 148, Some(&[])));
    // A delete of nothing, and one with a value.
    check(false, &|parts| put(&mut parts.columns, 66, Some(&[0x7d, 3, 5, 1])));
    check(false, &|parts| put(&mut parts.columns, 66, Some(&[0x7d, 1, 3, 1])));
}

/// In the document, equal keys are neighbours and cost once; in the change they alternate.
#[test]
fn rebuilding_does_not_multiply_long_keys_beyond_the_limit() {
    let actors = [ActorId::new(&[1])];
    let keys = ["a".repeat(100_000), "b".repeat(100_000)];
    let base = Op {
        id: id(1, 0),
        obj: ObjId::Root,
        key: Key::Map(""),
        insert: false,
        action: Action::Set,
        value: ScalarRef::Null,
        expand: false,
        mark_name: None,
        links: &[],
    };
    let rows = 20_000;
    let mut writer = DocumentWriter::new(&actors);
    let header = ChangeHeader {
        actor: ActorIdx(0),
        seq: 1,
        start_op: rows,
        time: 0,
        message: None,
        deps: Vec::new(),
        extra_bytes: &[],
    };
    let mut change = ChangeWriter::new(header, &actors);
    change.push(&Op { id: id(rows, 0), ..base });
    writer.push_change(&change.finish().unwrap());
    for (key, first) in keys.iter().zip([1, 2]) {
        for counter in (first..=rows).step_by(2) {
            writer.push_op(&Op { id: id(counter, 0), key: Key::Map(key), ..base });
        }
    }
    let bytes = writer.finish().unwrap();
    assert!(bytes.len() < 2_000, "{}", bytes.len());
    refused(&bytes, "document chunk: more bytes of rebuilt changes than allowed: 134217728");
}

/// Whatever is accepted can be walked, and accepted changes fit a graph or are refused by it.
fn load_all(bytes: &[u8]) {
    let limits = Limits { max_decompressed_bytes: 1 << 16, max_ops: 1 << 12, ..Limits::default() };
    let mut graph = ChangeGraph::new();
    for change in load(bytes, &limits).into_iter().flatten() {
        let reread = Change::from_bytes(&change.bytes()).unwrap();
        assert_eq!(reread.raw_bytes(), change.raw_bytes());
        let _ = graph.add(change);
    }
    if let Some(Ok(Chunk::Document(document))) = chunks(bytes, &limits).next() {
        let _ = document.changes(Verify::Nothing);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0_u8..4) {
        load_all(&bytes);
        load_all(&seal(kind, &bytes));
    }

    #[test]
    fn mutated_chunks(
        which in 0..3_usize,
        edits in proptest::collection::vec((any::<u16>(), any::<u8>(), 0..3_u8), 1..6),
    ) {
        let exemplar = std::fs::read(shoal_testkit::testdata("automerge/exemplar")).unwrap();
        let (kind, mut bytes) = match which {
            0 => (1, body(sample_change().raw_bytes()).to_vec()),
            1 => (0, body(&sample_document()).to_vec()),
            _ => (0, body(&exemplar).to_vec()),
        };
        for (at, byte, edit) in edits {
            let at = usize::from(at) % bytes.len();
            match edit {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        load_all(&seal(kind, &bytes));
    }

    /// Column by column, with the lengths kept right, to get deeper.
    #[test]
    fn mutated_columns(
        edits in proptest::collection::vec((any::<u8>(), any::<u8>(), any::<u8>()), 1..5),
        is_change: bool,
    ) {
        let edit = |columns: &mut Columns, (column, at, byte): (u8, u8, u8)| {
            let column = usize::from(column) % columns.len();
            let data = &mut columns[column].1;
            let at = usize::from(at) % (data.len() + 1);
            match data.get_mut(at) {
                Some(old) => *old = byte,
                None => data.push(byte),
            }
        };
        if is_change {
            let mut parts = ChangeParts::read(sample_change().raw_bytes());
            edits.into_iter().for_each(|choice| edit(&mut parts.columns, choice));
            load_all(&seal(1, &parts.body()));
        } else {
            let mut parts = DocumentParts::read(&sample_document());
            for choice in edits {
                let changes = choice.0 % 3 == 0;
                edit(if changes { &mut parts.changes } else { &mut parts.ops }, choice);
            }
            load_all(&parts.seal());
        }
    }
}
