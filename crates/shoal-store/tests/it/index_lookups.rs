//! Entries found by key: a lookup must walk over the same entries as a cursor, in indexes of every
//! order and shape, over changes of the file.

use std::cmp::Ordering;
use std::path::Path;

use crate::common::{database, open, record, root};
use proptest::prelude::*;
use shoal_store::vfs::MemVfs;
use shoal_store::{
    Access, Collation, Error, IndexCursor, IndexLookup, IndexWalk, KeyColumn, KeyOrder, LeafCell,
    Mode, Pgno, Record, Store, Transaction, ValueRef,
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

/// The records from a place on, at most `most`, by cursor and by lookup; the lookup pauses now and
/// then. Forwards from the place, and backwards from before the place.
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
        // The next key is sought near the end of this walk.
        let ended = walk.ended();
        drop(walk);
        lookup.end_walk(ended);
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

/// One cursor seeking from anywhere must find the same as a new one: keys as they come, and in
/// their order, each several times, with a few steps between.
fn check_again<'k>(
    txn: &Transaction,
    index: Pgno,
    order: &KeyOrder,
    keys: impl Iterator<Item = &'k Key>,
) {
    let mut keys: Vec<ValueRef<'_>> = keys.map(Key::value).collect();
    let mut old = txn.index(index).unwrap();
    for sorted in [false, true] {
        if sorted {
            keys.sort_by(|a, b| order.compare_column(0, *a, *b));
        }
        for (number, key) in keys.iter().enumerate() {
            for (rowid, after) in [(None, false), (Some(5), false), (None, true), (None, false)] {
                let key: Vec<_> = [*key].into_iter().chain(rowid.map(ValueRef::Int)).collect();
                let mut new = txn.index(index).unwrap();
                let found = [&mut old, &mut new].map(|cursor| match after {
                    true => cursor.seek_after(&key, order).unwrap(),
                    false => cursor.seek(&key, order).unwrap(),
                });
                assert_eq!(found[0], found[1], "{key:?}");
                // To where the next one is sought from.
                for step in 0..=number % 4 {
                    assert_eq!(old.is_valid(), new.is_valid(), "{key:?}");
                    if old.is_valid() {
                        assert_eq!(old.payload().unwrap(), new.payload().unwrap(), "{key:?}");
                    }
                    let moved = [&mut old, &mut new].map(|cursor| match (number + step) % 3 {
                        0 => cursor.prev().unwrap(),
                        _ => cursor.next().unwrap(),
                    });
                    assert_eq!(moved[0], moved[1], "{key:?}");
                }
            }
        }
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
        let mut sorted: Vec<ValueRef<'_>> = keys.iter().chain(&more).map(Key::value).collect();
        sorted.sort_by(|a, b| order.compare_column(0, *a, *b));
        let mut lookup = IndexLookup::new(index);
        for &key in &sorted {
            check(&txn, index, &order, &mut lookup, &[key], 2);
            check(&txn, index, &order, &mut lookup, &[key, ValueRef::Int(300)], 1);
        }
        check_again(&txn, index, &order, keys.iter().chain(&more));
        drop(txn);
        insert(&store, index, &order, &more, 10_000);
        let txn = store.begin(Mode::Read).unwrap();
        for key in more.iter().chain(keys.iter().take(20)) {
            check(&txn, index, &order, &mut lookup, &[key.value()], 9);
        }
        check(&txn, index, &order, &mut lookup, &[], usize::MAX);
    }
}

/// The rowids of the entries with a key by a cursor; `None` where there are more than `most`.
fn by_cursor(
    txn: &Transaction,
    index: Pgno,
    order: &KeyOrder,
    key: &[ValueRef<'_>],
    most: usize,
) -> Result<Option<Vec<i64>>, Error> {
    let mut cursor = txn.index(index)?;
    let mut found = Vec::new();
    cursor.seek(key, order)?;
    let mut more = cursor.is_valid();
    while more {
        let record = cursor.payload()?;
        if order.compare(record, key)?.is_ne() {
            break;
        }
        let Some(ValueRef::Int(rowid)) = Record::new(record)?.column(1)? else {
            return Err(Error::Misuse("an entry names no row"));
        };
        if found.len() == most {
            return Ok(None);
        }
        found.push(rowid);
        more = cursor.next()?;
    }
    Ok(Some(found))
}

/// The same by a lookup, twice: their rowids, and from their records.
fn by_lookup(
    txn: &Transaction,
    lookup: &mut IndexLookup,
    order: &KeyOrder,
    key: &[ValueRef<'_>],
    most: usize,
) -> Result<Option<Vec<i64>>, Error> {
    let mut rowids = vec![0; most];
    let count = lookup.rowids(txn, key, order, 1, &mut rowids)?;
    let mut found = Vec::new();
    let all = lookup.equal(txn, key, order, |page, payload| {
        assert_eq!(page.bytes()[page.record_of(payload).range()], *payload.local);
        let column = Record::new(payload.local)?.column(1)?;
        if found.len() == most {
            return Ok(false);
        }
        if let Some(ValueRef::Int(rowid)) = column {
            found.push(rowid);
        }
        Ok(true)
    })?;
    let rowids = count.map(|count| rowids[..count].to_vec());
    assert_eq!(rowids, all.then_some(found), "{key:?}");
    for most in [1, most + 1] {
        let count = lookup.count(txn, key, order, most)?;
        match (&rowids, count) {
            (Some(rowids), count) => assert_eq!(count, Some(rowids.len().min(most)), "{key:?}"),
            (None, Some(count)) => assert!(count == most, "{key:?} {count}"),
            (None, None) => {}
        }
    }
    let mut cells = vec![LeafCell::default(); most];
    if let Some((page, count)) = lookup.entries(txn, key, &mut cells)? {
        let rowid = |cell: &LeafCell| Record::new(&page.bytes()[cell.range()])?.column(1);
        let found: Result<Vec<_>, _> = cells[..count].iter().map(rowid).collect();
        let expect = rowids.iter().flatten().map(|&rowid| Some(ValueRef::Int(rowid)));
        assert_eq!(found?, expect.collect::<Vec<_>>(), "{key:?}");
    }
    Ok(rowids)
}

/// Keys mostly of few integers, to get leaves of integers alone.
fn few() -> impl Strategy<Value = Vec<Key>> {
    let ints = prop::collection::vec((-30_i64..30).prop_map(Key::Int), 0..900);
    (ints, prop::collection::vec(key(), 0..3)).prop_map(|(mut keys, others)| {
        keys.extend(others.into_iter().filter(|other| other.value() != ValueRef::Null));
        keys
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn few_entries_are_those_with_the_key(keys in few(), more in few(), order in order()) {
        let (store, index) = store();
        let mut lookup = IndexLookup::new(index);
        let goes_on = |key: &Key| matches!(key, Key::Text(text) if text.len() > 50);
        let far = keys.iter().chain(&more).any(goes_on);
        for (keys, from) in [(&keys, 1), (&more, 10_000)] {
            insert(&store, index, &order, keys, from);
            let txn = store.begin(Mode::Read).unwrap();
            // Often enough to have the leaves decoded.
            for wanted in (0..6).flat_map(|_| -31..32) {
                let key = [ValueRef::Int(wanted)];
                let expect = by_cursor(&txn, index, &order, &key, 16).unwrap();
                let got = by_lookup(&txn, &mut lookup, &order, &key, 16).unwrap();
                // A lookup stops without an answer at an entry continued on overflow pages, or
                // before one.
                prop_assert!(got == expect || (far && got.is_none()), "{got:?} {expect:?}");
                check(&txn, index, &order, &mut lookup, &key, 4);
            }
            for key in keys.iter().filter(|key| !matches!(key, Key::Int(_))) {
                let key = [key.value()];
                let expect = by_cursor(&txn, index, &order, &key, 3).unwrap();
                let got = by_lookup(&txn, &mut lookup, &order, &key, 3).unwrap();
                prop_assert!(got == expect || (far && got.is_none()), "{got:?} {expect:?}");
            }
        }
        let mut txn = store.begin(Mode::Write).unwrap();
        txn.index_insert(index, &record(&[ValueRef::Int(5), ValueRef::Int(0)]), &order).unwrap();
        let key = [ValueRef::Int(5)];
        let expect = by_cursor(&txn, index, &order, &key, 900).unwrap();
        let got = by_lookup(&txn, &mut lookup, &order, &key, 900).unwrap();
        prop_assert!(got == expect || (far && got.is_none()), "{got:?} {expect:?}");
    }

    /// Damage to pages must be found, or the entries found must be those of a cursor.
    #[test]
    fn decoded_leaves_hide_no_damage(
        keys in few(),
        descending in any::<bool>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let order =
            KeyOrder::new(vec![KeyColumn { collation: Collation::Binary, descending }]);
        let vfs = MemVfs::new();
        let bytes = database(512, 0, "CREATE TABLE t(a); CREATE INDEX i ON t(a);");
        vfs.put(Path::new(DB), bytes);
        let store = open(&vfs, Path::new(DB), Access::ReadWrite);
        let index = root(&store.begin(Mode::Read).unwrap(), "i");
        insert(&store, index, &order, &keys, 1);
        drop(store);
        let mut bytes = vfs.get(Path::new(DB)).unwrap();
        for (place, byte) in damage {
            // Behind the header, the schema and the table.
            let place = 1024 + place.index(bytes.len() - 1024);
            bytes[place] = byte;
        }
        vfs.put(Path::new(DB), bytes);
        let store = open(&vfs, Path::new(DB), Access::ReadOnly);
        let txn = store.begin(Mode::Read).unwrap();
        let mut lookup = IndexLookup::new(index);
        for wanted in (0..4).flat_map(|_| -31..32) {
            let key = [ValueRef::Int(wanted)];
            let expect = by_cursor(&txn, index, &order, &key, 16);
            let mut out = [0; 16];
            let got = lookup.rowids(&txn, &key, &order, 1, &mut out);
            if let (Ok(Some(expect)), Ok(Some(count))) = (expect, got) {
                prop_assert_eq!(&expect, &out[..count]);
            }
            let _ = lookup.equal(&txn, &key, &order, |_, _| Ok(true));
            let _ = lookup.entries(&txn, &key, &mut [LeafCell::default(); 16]);
            let _ = lookup.count(&txn, &key, &order, usize::MAX);
        }
    }
}
