//! The reference's fixtures and the files that once crashed it: what must load and what must not,
//! as far as bytes and graph can tell.

use shoal_history::{
    Change, ChangeGraph, Chunk, Error, Fault, Key, Limits, ScalarRef, Verify, chunks,
};

/// All changes of a file, those of document chunks rebuilt.
fn load(bytes: &[u8]) -> Result<Vec<Change>, Error> {
    let mut changes = Vec::new();
    for chunk in chunks(bytes, &Limits::default()) {
        match chunk? {
            Chunk::Change(change) => changes.push(change),
            Chunk::Document(document) => changes.extend(document.changes(Verify::Heads)?),
            other => panic!("{other:?}"),
        }
    }
    Ok(changes)
}

fn fixture(name: &str) -> Vec<u8> {
    let path = shoal_testkit::testdata("automerge/fixtures").join(format!("{name}.automerge"));
    std::fs::read(path).unwrap()
}

#[track_caller]
fn refused(name: &str, part: &str, fault: Fault) {
    match load(&fixture(name)) {
        Err(Error::Corrupt { part: at, fault: why, .. }) => assert_eq!((at, why), (part, fault)),
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn ids_beyond_32_bits_are_refused() {
    refused("64bit_obj_id_change", "start op", Fault::Beyond32Bits(1 << 42));
    refused("64bit_obj_id_doc", "change max op column", Fault::Beyond32Bits(1 << 42));
}

#[test]
fn a_mark_that_ends_before_it_begins_is_refused() {
    refused("broken_zero_width_mark", "mark name column", Fault::MarkOrder);
}

#[test]
fn counters_fill_their_payload_in_the_shortest_form() {
    let [change] = &load(&fixture("counter_value_is_ok")).unwrap()[..] else { panic!() };
    let mut ops = change.ops();
    assert!(matches!(ops.next_op().unwrap().value, ScalarRef::Counter(_)));
    assert!(ops.next_op().is_none());
    refused("counter_value_is_overlong", "value column", Fault::Overlong);
    refused("counter_value_has_incorrect_meta", "value column", Fault::ValuePayload(8));
}

#[test]
fn two_change_chunks_load_in_any_order() {
    let mut heads = Vec::new();
    for name in
        ["two_change_chunks", "two_change_chunks_compressed", "two_change_chunks_out_of_order"]
    {
        let changes = load(&fixture(name)).unwrap();
        assert_eq!(changes.len(), 2, "{name}");
        let mut graph = ChangeGraph::new();
        for change in changes.iter().chain(changes.iter().rev()) {
            let _ = graph.add(change.clone());
        }
        assert_eq!(graph.len(), 2, "{name}");
        let last = graph.changes().next_back().unwrap();
        let mut ops = last.ops();
        let op = ops.next_op().unwrap();
        assert_eq!((op.key, op.value), (Key::Map("a"), ScalarRef::Str("b")));
        heads.push(graph.heads());
    }
    assert_eq!(heads[0], heads[1]);
}

#[test]
fn crashers_are_errors() {
    for path in shoal_testkit::corpus("automerge/crashers") {
        let bytes = std::fs::read(&path).unwrap();
        let error = load(&bytes).expect_err(&path.display().to_string());
        let name = path.file_name().unwrap().to_str().unwrap();
        let expect = match name {
            "action-is-48.automerge" => "change chunk: key string column: wrong number of rows: 48",
            "crash-da39a3ee5e6b4b0d3255bfef95601890afd80709" => {
                "document chunk: actors: ends too early"
            }
            "incorrect_max_op.automerge" => {
                "document chunk: id counter column, row 0: number out of range: 0"
            }
            "invalid_deflate_stream.automerge" => "chunk envelope: wrong checksum",
            "missing_actor.automerge" => "document chunk: op column table: unknown column: 36",
            "overflow_in_length.automerge" => {
                "document chunk: change column table: column out of order: 0"
            }
            "too_many_deps.automerge" => {
                "document chunk: change dep row column: wrong number of rows: 0"
            }
            "too_many_ops.automerge" => {
                "document chunk: succ actor column: wrong number of rows: 0"
            }
            _ => panic!("a new crasher: {name}: {error}"),
        };
        assert_eq!(error.to_string(), expect, "{name}");
    }
}
