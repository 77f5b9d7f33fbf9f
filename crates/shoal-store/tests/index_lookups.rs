//! Entries found by key: what a lookup walks over is what a cursor walks over, in indexes of every
//! order and shape, over changes of the file.

#![allow(clippy::unwrap_used)]

mod common;

use std::cmp::Ordering;
use std::path::Path;

use common::{database, open, record, root};
use proptest::prelude::*;
use shoal_store::vfs::MemVfs;
use shoal_store::{
    Access, Collation, IndexCursor, IndexLookup, IndexWalk, KeyColumn, KeyOrder, Mode, Pgno, Store,
    Transaction, ValueRef,
};

const DB: &str = "db";

#[derive(Clone, Debug)]
enum Key {
    Null,
    Int(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
}

impl Key {
    fn value(&self) -> ValueRef<'_> {
        match self {
            Key::Null => ValueRef::Null,
            Key::Int(int) => ValueRef::Int(*int),
            Key::Real(real) => ValueRef::Real(*real),
            Key::Text(text) => ValueRef::Text(text.as_bytes()),
            Key::Blob(blob) => ValueRef::Blob(blob),
        }
    }
}

fn key() -> impl Strategy<Value = Key> {
    prop_oneof![
        1 => Just(Key::Null),
        6 => (-40_i64..40).prop_map(Key::Int),
        2 => (any::<i64>(), 0_u32..64).prop_map(|(int, shift)| Key::Int(int >> shift)),
        1 => (-20..20_i32).prop_map(|half| Key::Real(f64::from(half) / 2.0)),
        4 => "[aAb ]{0,3}".prop_map(Key::Text),
        1 => "[ab]{150,900}".prop_map(Key::Text),
        1 => prop::collection::vec(any::<u8>(), 0..4).prop_map(Key::Blob),
    ]
}

fn order() -> impl Strategy<Value = KeyOrder> {
    let collation = prop::sample::select(vec![
        Collation::Binary,
        Collation::Binary,
        Collation::NoCase,
        Collation::Rtrim,
    ]);
    (collation, any::<bool>()).prop_map(|(collation, descending)| {
        KeyOrder::new(vec![KeyColumn { collation, descending }])
    })
}

/// The records from a place on, at most `most`, by cursor and by lookup, which pauses now and then:
/// forwards from the place and backwards from before it.
fn check(
    txn: &Transaction,
    index: Pgno,
    order: &KeyOrder,
    lookup: &mut IndexLookup,
    key: &[ValueRef<'_>],
    most: usize,
) {
    let cases = [Ordering::Less, Ordering::Equal].map(|passed| [(passed, true), (passed, false)]);
    for (passed, forward) in cases.into_iter().flatten() {
        let step_cursor = |cursor: &mut IndexCursor<'_>| {
            let found = if forward { cursor.next() } else { cursor.prev() };
            found.unwrap()
        };
        let step = |walk: &mut IndexWalk<'_, '_>| {
            let found = if forward { walk.next() } else { walk.prev() };
            found.unwrap()
        };
        let mut expect = Vec::new();
        let mut cursor = txn.index(index).unwrap();
        if passed == Ordering::Less {
            cursor.seek(key, order).unwrap();
        } else {
            cursor.seek_after(key, order).unwrap();
        }
        let mut more = if forward { cursor.is_valid() } else { step_cursor(&mut cursor) };
        while more && expect.len() < most {
            expect.push(cursor.payload().unwrap().to_vec());
            more = step_cursor(&mut cursor);
        }
        let mut got = Vec::new();
        let mut buffer = Vec::new();
        let mut place = None;
        let mut walk = lookup.seek(txn, key, order, passed).unwrap();
        let mut more = if forward { walk.is_valid() } else { step(&mut walk) };
        while more && got.len() < most {
            txn.read_payload(walk.payload().unwrap(), &mut buffer).unwrap();
            got.push(buffer.clone());
            if got.len() % 7 == 3 {
                place = Some(walk.place());
                break;
            }
            more = step(&mut walk);
        }
        while let Some(from) = place.take() {
            let mut walk = lookup.resume(txn, &from).unwrap();
            while got.len() < most && step(&mut walk) {
                txn.read_payload(walk.payload().unwrap(), &mut buffer).unwrap();
                got.push(buffer.clone());
                if got.len() % 7 == 3 {
                    place = Some(walk.place());
                    break;
                }
            }
        }
        assert!(got == expect, "{key:?} {passed:?}: {} of {}", got.len(), expect.len());
    }
}

fn store() -> (Store, Pgno) {
    let vfs = MemVfs::new();
    let bytes = database(512, 0, "CREATE TABLE t(a); CREATE INDEX i ON t(a);");
    vfs.put(Path::new(DB), bytes);
    let store = open(&vfs, Path::new(DB), Access::ReadWrite);
    let index = root(&store.begin(Mode::Read).unwrap(), "i");
    (store, index)
}

fn insert(store: &Store, index: Pgno, order: &KeyOrder, keys: &[Key], from: i64) {
    let mut txn = store.begin(Mode::Write).unwrap();
    for (rowid, key) in (from..).zip(keys) {
        let entry = record(&[key.value(), ValueRef::Int(rowid)]);
        txn.index_insert(index, &entry, order).unwrap();
    }
    txn.commit().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_lookup_walks_as_a_cursor_does(
        keys in prop::collection::vec(key(), 0..700),
        more in prop::collection::vec(key(), 1..40),
        order in order(),
    ) {
        let (store, index) = store();
        insert(&store, index, &order, &keys, 1);
        let mut lookup = IndexLookup::new(index);
        let txn = store.begin(Mode::Read).unwrap();
        for key in keys.iter().step_by(1 + keys.len() / 60).chain(&more) {
            check(&txn, index, &order, &mut lookup, &[key.value()], 9);
            check(&txn, index, &order, &mut lookup, &[key.value(), ValueRef::Int(300)], 3);
        }
        check(&txn, index, &order, &mut lookup, &[], usize::MAX);
        drop(txn);
        insert(&store, index, &order, &more, 10_000);
        let txn = store.begin(Mode::Read).unwrap();
        for key in more.iter().chain(keys.iter().take(20)) {
            check(&txn, index, &order, &mut lookup, &[key.value()], 9);
        }
        check(&txn, index, &order, &mut lookup, &[], usize::MAX);
    }
}
