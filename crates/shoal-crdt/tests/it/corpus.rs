//! Files that the reference and other programs wrote: what loads, what it reads as, and what must
//! be refused.

use automerge::{AutoSerde, Automerge};
use shoal_crdt::{ActorId, Document, Error, LoadOptions, ROOT, ScalarRef, Value};
use shoal_testkit::{corpus, testdata};

fn load(bytes: &[u8]) -> Result<Document, Error> {
    Document::load(bytes, ActorId::new(b"reader"), &LoadOptions::default())
}

fn load_file(name: &str) -> Result<Document, Error> {
    load(&std::fs::read(testdata(&format!("automerge/{name}"))).unwrap())
}

fn json(doc: &Document) -> serde_json::Value {
    serde_json::to_value(doc.to_json()).unwrap()
}

#[test]
fn exemplar_holds_every_kind_of_scalar() {
    let doc = load_file("exemplar").unwrap();
    let scalar = |key: &str| match doc.get(&ROOT, key).unwrap() {
        Some((Value::Scalar(value), _)) => value,
        other => panic!("{key}: {other:?}"),
    };
    assert_eq!(scalar("title"), ScalarRef::Str("Hello 🇬🇧👨‍👨‍👧‍👦😀"));
    assert_eq!(scalar("timestamp"), ScalarRef::Timestamp(-905_182_979_000));
    assert_eq!(scalar("location"), ScalarRef::Str("https://automerge.org/"));
    assert_eq!(scalar("counter"), ScalarRef::Counter(5));
    assert_eq!(scalar("int"), ScalarRef::Int(-4));
    assert_eq!(scalar("uint"), ScalarRef::Uint(u64::MAX));
    assert_eq!(scalar("fp"), ScalarRef::F64(3.141_592_67));
    assert_eq!(scalar("bytes"), ScalarRef::Bytes(&[0x85, 0x6f, 0x4a, 0x83]));
    assert_eq!(scalar("bool"), ScalarRef::Boolean(true));
    let (value, notes) = doc.get(&ROOT, "notes").unwrap().unwrap();
    assert_eq!(value, Value::Object(shoal_crdt::ObjType::Text));
    assert_eq!(doc.text(&notes).unwrap(), "🇬🇧👨‍👨‍👧‍👦😀");
}

#[test]
fn change_chunks_load_in_any_order_and_compressed() {
    for name in
        ["two_change_chunks", "two_change_chunks_compressed", "two_change_chunks_out_of_order"]
    {
        let doc = load_file(&format!("fixtures/{name}.automerge")).unwrap();
        assert_eq!(json(&doc)["a"]["a"], "b", "{name}");
    }
}

#[test]
fn fixtures_are_refused_or_loaded_as_the_facts_say() {
    assert!(load_file("fixtures/counter_value_is_ok.automerge").is_ok());
    for name in [
        "64bit_obj_id_change",
        "64bit_obj_id_doc",
        "broken_zero_width_mark",
        "counter_value_has_incorrect_meta",
        "counter_value_is_overlong",
    ] {
        assert!(load_file(&format!("fixtures/{name}.automerge")).is_err(), "{name}");
    }
}

#[test]
fn crashers_are_errors() {
    for path in corpus("automerge/crashers") {
        assert!(load(&std::fs::read(&path).unwrap()).is_err(), "{}", path.display());
    }
}

#[test]
fn real_documents_read_as_the_reference_reads_them_and_survive_saving() {
    for path in corpus("automerge/documents") {
        let bytes = std::fs::read(&path).unwrap();
        if path.extension().is_some_and(|extension| extension == "amrgsync") {
            continue;
        }
        let mut doc = load(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let theirs = Automerge::load(&bytes).unwrap();
        assert_eq!(
            serde_json::to_string(&doc.to_json()).unwrap(),
            serde_json::to_string(&AutoSerde::from(&theirs)).unwrap(),
            "{}",
            path.display()
        );
        let saved = doc.save();
        let again = load(&saved).unwrap();
        assert_eq!(again.heads(), doc.heads());
        assert_eq!(json(&again), json(&doc));
        assert_eq!(again.stats(), doc.stats());
    }
}

#[test]
fn every_truncation_of_a_file_is_an_error_or_an_empty_document() {
    let bytes = std::fs::read(testdata("automerge/exemplar")).unwrap();
    for length in 1..bytes.len() {
        assert!(load(&bytes[..length]).is_err(), "{length}");
    }
    assert!(load(&[]).unwrap().is_empty());
}

/// A change whose table of other actors names its author once more: valid, and no document chunk
/// gives it back in the same bytes. Found by fuzzing: what was saved could not be loaded.
#[test]
fn a_change_that_no_document_chunk_can_hold_survives_saving() {
    let chunk = [0x85, 0x6f, 0x4a, 0x83, 0xb3, 0xdf, 0x3e, 0x21, 1, 9, 0, 0, 1, 1, 0, 0, 1, 0, 0];
    let mut doc = load(&chunk).unwrap();
    assert_eq!(doc.changes().len(), 1);
    let saved = doc.save();
    let again = load(&saved).unwrap();
    assert_eq!(again.heads(), doc.heads());
    assert_eq!(again.stats(), doc.stats());
    assert!(Automerge::load(&saved).is_ok());
}
