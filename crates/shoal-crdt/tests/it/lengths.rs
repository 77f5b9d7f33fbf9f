//! A saved document is no longer than what the reference writes for the same changes: without
//! DEFLATE and, where no column is so long that it is cut in pieces, with it.

use automerge::transaction::Transactable;
use automerge::{Automerge, ReadDoc};
use proptest::prelude::*;
use shoal_crdt::{ActorId, Document, LoadOptions, SaveOptions};
use shoal_testkit::corpus;
use shoal_testkit::trace::{Patch, Trace};

/// How much longer it may be: a column of a megabyte and more is deflated in pieces of 512 KiB, on
/// all cores, and a cut takes some twenty bytes.
fn cuts(plain: usize) -> usize {
    plain / (1 << 20) * 2 * 32
}

fn load(bytes: &[u8]) -> Document {
    Document::load(bytes, ActorId::new(b"reader"), &LoadOptions::default()).unwrap()
}

fn check(name: &str, theirs: &mut Automerge) {
    let saved = theirs.save();
    let mut doc = load(&saved);
    let ours = doc.save();
    let plain = theirs.save_nocompress();
    let most = saved.len() + cuts(plain.len());
    assert!(ours.len() <= most, "{name}: {} and {}", ours.len(), saved.len());
    let ours = doc.to_bytes(SaveOptions { deflate: false, retain_orphans: true });
    assert!(ours.len() <= plain.len(), "{name}: plain: {} and {}", ours.len(), plain.len());
}

#[test]
fn of_real_documents() {
    for path in corpus("automerge/documents") {
        if path.extension().is_some_and(|extension| extension == "amrgsync") {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        check(&name, &mut Automerge::load(&bytes).unwrap());
    }
}

#[test]
fn of_an_editing_trace() {
    let trace = Trace::load("sequential/friendsforever_flat");
    let mut theirs = Automerge::new().with_actor(automerge::ActorId::from(vec![7; 16]));
    let mut tx = theirs.transaction();
    let text = tx.put_object(automerge::ROOT, "text", automerge::ObjType::Text).unwrap();
    tx.splice_text(&text, 0, 0, &trace.start_content).unwrap();
    tx.commit();
    for (time, txn) in (0..).step_by(3).zip(&trace.txns) {
        let mut tx = theirs.transaction();
        for Patch(at, deleted, inserted) in &txn.patches {
            tx.splice_text(&text, *at, *deleted as isize, inserted).unwrap();
        }
        tx.commit_with(automerge::transaction::CommitOptions::default().with_time(time / 2));
    }
    check("a trace", &mut theirs);
}

#[derive(Clone, Debug)]
enum Edit {
    Put(u8, i64),
    Word(u8, String),
    Delete(u8),
    Type(u8, String),
    Erase(u8, u8),
    Item(u8, i64),
    Merge(u8),
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        (0..20_u8, any::<i64>()).prop_map(|(key, value)| Edit::Put(key, value)),
        (0..20_u8, "[a-z ]{0,30}").prop_map(|(key, value)| Edit::Word(key, value)),
        (0..20_u8).prop_map(Edit::Delete),
        (any::<u8>(), "[a-zé ]{1,20}").prop_map(|(at, text)| Edit::Type(at, text)),
        (any::<u8>(), 1..9_u8).prop_map(|(at, count)| Edit::Erase(at, count)),
        (any::<u8>(), -3..3_i64).prop_map(|(at, value)| Edit::Item(at, value)),
        (0..3_u8).prop_map(Edit::Merge),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn of_random_sessions(edits in prop::collection::vec((0..3_usize, edit()), 1..300)) {
        let mut base = Automerge::new().with_actor(automerge::ActorId::from(vec![9; 16]));
        let mut tx = base.transaction();
        let text = tx.put_object(automerge::ROOT, "text", automerge::ObjType::Text).unwrap();
        let list = tx.put_object(automerge::ROOT, "list", automerge::ObjType::List).unwrap();
        tx.commit();
        let mut peers: Vec<Automerge> = (0..3_u8)
            .map(|actor| base.fork().with_actor(automerge::ActorId::from(vec![actor; 16])))
            .collect();
        for (peer, edit) in edits {
            if let Edit::Merge(other) = edit {
                let mut other = peers[usize::from(other)].clone();
                peers[peer].merge(&mut other).unwrap();
                continue;
            }
            let mut tx = peers[peer].transaction();
            let text_len = tx.length(&text);
            let list_len = tx.length(&list);
            match edit {
                Edit::Put(key, value) => tx.put(automerge::ROOT, format!("key {key}"), value).unwrap(),
                Edit::Word(key, value) => tx.put(automerge::ROOT, format!("key {key}"), value).unwrap(),
                Edit::Delete(key) => tx.delete(automerge::ROOT, format!("key {key}")).unwrap(),
                Edit::Type(at, new) => {
                    tx.splice_text(&text, usize::from(at) % (text_len + 1), 0, &new).unwrap();
                }
                Edit::Erase(at, count) if text_len > 0 => {
                    let at = usize::from(at) % text_len;
                    let count = usize::from(count).min(text_len - at);
                    tx.splice_text(&text, at, count as isize, "").unwrap();
                }
                Edit::Item(at, value) => {
                    tx.insert(&list, usize::from(at) % (list_len + 1), value).unwrap();
                }
                Edit::Erase(..) | Edit::Merge(_) => {}
            }
            tx.commit();
        }
        let (first, rest) = peers.split_first_mut().unwrap();
        for peer in rest {
            first.merge(peer).unwrap();
        }
        check("a session", first);
    }
}
