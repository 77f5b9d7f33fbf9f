//! Random changes of a table and two indexes against a map, and SQLite's opinion of the file.

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::{SCHEMA, ask_sqlite, database, open, orders, record, root};
use proptest::prelude::*;
use shoal_store::vfs::MemVfs;
use shoal_store::{
    Access, ChangedEntry, Error, KeyColumns, KeyOrder, LeafChange, Mode, NewEntry, Pgno,
    Transaction, ValueRef,
};

#[derive(Clone, Debug)]
enum Step {
    /// Insert, or replace, the row with `rowid`.
    Put { rowid: i64, seed: u8, len: usize },
    /// Insert after the last row.
    Append { len: usize },
    /// Delete the row nearest to `rowid`.
    Delete { rowid: i64 },
    /// Delete every row from `rowid` on, up to `count`.
    DeleteRun { rowid: i64, count: usize },
    /// Change rows from `rowid` on leaf by leaf, each so far from the one before: delete some, put
    /// the others.
    Many { rowid: i64, stride: i64, count: i64, seed: u8, len: usize, deletes: u8 },
    /// Make the following changes, then take them back.
    Undo,
    /// Commit and begin again.
    Commit,
}

/// A row: a text and a blob.
type Row = (Vec<u8>, Vec<u8>);

fn row(seed: u8, len: usize) -> Row {
    // Few different texts in both cases, to make index entries collide up to their rowids.
    let letter = if seed.is_multiple_of(2) { b'a' } else { b'A' } + seed % 23 / 2;
    (vec![letter; usize::from(seed % 5) * 9 + len / 3], vec![seed; len])
}

fn steps(max_len: usize) -> impl Strategy<Value = Vec<Step>> {
    let len = prop_oneof![6 => 0..40_usize, 2 => 0..max_len / 4, 1 => 0..max_len];
    let len_of_many = prop_oneof![8 => 0..40_usize, 1 => 0..max_len / 4];
    let step = prop_oneof![
        8 => (-50..400_i64, any::<u8>(), len.clone())
            .prop_map(|(rowid, seed, len)| Step::Put { rowid, seed, len }),
        1 => (any::<i64>(), any::<u8>(), len.clone())
            .prop_map(|(rowid, seed, len)| Step::Put { rowid, seed, len }),
        8 => len.prop_map(|len| Step::Append { len }),
        4 => (-50..400_i64).prop_map(|rowid| Step::Delete { rowid }),
        1 => (-50..400_i64, 0..150_usize)
            .prop_map(|(rowid, count)| Step::DeleteRun { rowid, count }),
        2 => (-50..400_i64, 1..4_i64, 0..300_i64, any::<u8>(), len_of_many, 0..5_u8).prop_map(
            |(rowid, stride, count, seed, len, deletes)| {
                Step::Many { rowid, stride, count, seed, len, deletes }
            }
        ),
        1 => Just(Step::Undo),
        1 => Just(Step::Commit),
    ];
    prop::collection::vec(step, 1..500)
}

/// The database and its model.
struct Pair {
    txn: Transaction,
    model: BTreeMap<i64, Row>,
    table: Pgno,
    indexes: [Pgno; 2],
}

impl Pair {
    fn entries(rowid: i64, row: &Row) -> [Vec<u8>; 2] {
        let (a, b) = (ValueRef::Text(&row.0), ValueRef::Blob(&row.1));
        [record(&[a, ValueRef::Int(rowid)]), record(&[b, a, ValueRef::Int(rowid)])]
    }

    /// True where a row but that of `rowid` has a text equal to this one in the first index.
    fn is_shared(&self, rowid: Option<i64>, text: &[u8]) -> bool {
        let order = &orders()[0];
        let same = |known: &[u8]| {
            order.compare_column(0, ValueRef::Text(known), ValueRef::Text(text)).is_eq()
        };
        self.model.iter().any(|(&known, row)| Some(known) != rowid && same(&row.0))
    }

    /// Puts a new row into all trees where no other has its text; false where one has.
    fn put_unique(&mut self, rowid: i64, row: &Row, bytes: &[u8]) -> bool {
        let (entries, orders) = (Self::entries(rowid, row), orders());
        let new = self.indexes.into_iter().zip(&entries).zip(&orders).zip([1, 0]);
        let new =
            new.map(|(((root, record), order), unique)| NewEntry { root, record, order, unique });
        let is_done = self.txn.insert_new_row(self.table, rowid, bytes, new).unwrap();
        assert_eq!(is_done, !self.is_shared(None, &row.0));
        is_done
    }

    /// Replaces a row and its entries at once; false where another one has its text.
    fn replace(&mut self, rowid: i64, old: &Row, row: &Row, bytes: &[u8]) -> bool {
        let (before, after, orders) =
            (Self::entries(rowid, old), Self::entries(rowid, row), orders());
        let mut payload = Vec::new();
        let place = self.txn.row_place(self.table, rowid, &mut payload).unwrap().unwrap();
        assert_eq!(payload, record(&[ValueRef::Text(&old.0), ValueRef::Blob(&old.1)]));
        let changed = (0..2).filter(|&at| before[at] != after[at]).map(|at| ChangedEntry {
            root: self.indexes[at],
            before: &before[at],
            after: &after[at],
            order: &orders[at],
            unique: usize::from(at == 0),
        });
        let is_done = self.txn.update_row(&place, bytes, changed).unwrap();
        // The old entry of the row counts as another.
        assert_eq!(is_done, before[0] == after[0] || !self.is_shared(None, &row.0));
        is_done
    }

    fn put(&mut self, rowid: i64, row: Row) {
        let bytes = record(&[ValueRef::Text(&row.0), ValueRef::Blob(&row.1)]);
        let is_done = match self.model.get(&rowid).cloned() {
            Some(old) if rowid % 3 != 1 => self.replace(rowid, &old, &row, &bytes),
            None if rowid % 3 != 1 => self.put_unique(rowid, &row, &bytes),
            _ => false,
        };
        if is_done {
            self.model.insert(rowid, row);
            return;
        }
        self.remove_entries(rowid);
        let (entries, orders) = (Self::entries(rowid, &row), orders());
        // Every other row goes into all trees at once.
        let at_once = rowid % 2 == 0;
        if at_once {
            let new = self.indexes.into_iter().zip(&entries).zip(&orders);
            let new =
                new.map(|((root, record), order)| NewEntry { root, record, order, unique: 0 });
            self.txn.insert_row(self.table, rowid, &bytes, new).unwrap();
        } else {
            self.txn.table_insert(self.table, rowid, &bytes).unwrap();
        }
        for ((root, entry), order) in self.indexes.into_iter().zip(entries).zip(orders) {
            if !at_once {
                self.txn.index_insert(root, &entry, &order).unwrap();
            }
            // Once more changes nothing.
            self.txn.index_insert(root, &entry, &order).unwrap();
        }
        self.model.insert(rowid, row);
    }

    fn remove_entries(&mut self, rowid: i64) {
        let Some(row) = self.model.get(&rowid) else { return };
        for ((root, entry), order) in
            self.indexes.into_iter().zip(Self::entries(rowid, row)).zip(orders())
        {
            assert!(self.txn.index_delete(root, &entry, &order).unwrap());
            assert!(!self.txn.index_delete(root, &entry, &order).unwrap());
        }
    }

    fn delete(&mut self, rowid: i64) {
        let mut payload = Vec::new();
        if rowid % 3 == 0
            && let Some(place) = self.txn.row_place(self.table, rowid, &mut payload).unwrap()
        {
            let row = self.model.remove(&rowid).unwrap();
            let (entries, orders) = (Self::entries(rowid, &row), orders());
            let gone = self.indexes.into_iter().zip(&entries).zip(&orders);
            let gone =
                gone.map(|((root, record), order)| NewEntry { root, record, order, unique: 0 });
            assert!(self.txn.delete_row(&place, gone.clone()).unwrap());
            return;
        }
        self.remove_entries(rowid);
        let was_there = self.model.remove(&rowid).is_some();
        assert_eq!(self.txn.table_delete(self.table, rowid).unwrap(), was_there);
    }

    /// Changes many rows and their entries, each tree in its order.
    fn change_many(&mut self, rows: &BTreeMap<i64, Option<Row>>) {
        let rowids: Vec<i64> = rows.keys().copied().collect();
        let bytes = |row: &Row| record(&[ValueRef::Text(&row.0), ValueRef::Blob(&row.1)]);
        let mut at = 0;
        while at < rowids.len() {
            let model = &self.model;
            let change = |number: usize, old: Option<&[u8]>, out: &mut Vec<u8>| {
                let rowid = rowids[at + number];
                assert_eq!(old.map(<[u8]>::to_vec), model.get(&rowid).map(bytes));
                Ok::<_, Error>(match &rows[&rowid] {
                    Some(row) => {
                        out.clear();
                        out.extend_from_slice(&bytes(row));
                        LeafChange::Put
                    }
                    None => LeafChange::Remove,
                })
            };
            let dealt = self.txn.change_rows(self.table, &rowids[at..], change).unwrap();
            if dealt == 0 {
                match &rows[&rowids[at]] {
                    Some(row) => {
                        self.txn.table_insert(self.table, rowids[at], &bytes(row)).unwrap();
                    }
                    None => drop(self.txn.table_delete(self.table, rowids[at]).unwrap()),
                }
            }
            at += dealt.max(1);
        }
        for (number, order) in orders().iter().enumerate() {
            let entry = |(rowid, row): (i64, &Row)| Self::entries(rowid, row)[number].clone();
            let known = |rowid: &i64| Some((*rowid, self.model.get(rowid)?));
            let gone: Vec<Vec<u8>> = rowids.iter().filter_map(known).map(entry).collect();
            let new = rows.iter().filter_map(|(rowid, row)| Some((*rowid, row.as_ref()?)));
            let new: Vec<Vec<u8>> = new.map(entry).collect();
            self.change_entries(number, order, gone, LeafChange::Remove);
            self.change_entries(number, order, new, LeafChange::Put);
        }
        for (rowid, row) in rows {
            match row {
                Some(row) => drop(self.model.insert(*rowid, row.clone())),
                None => drop(self.model.remove(rowid)),
            }
        }
    }

    fn change_entries(
        &mut self,
        number: usize,
        order: &KeyOrder,
        mut entries: Vec<Vec<u8>>,
        what: LeafChange,
    ) {
        // Some entries come out of order.
        let compare = |a: &Vec<u8>, b: &Vec<u8>| {
            let record = shoal_store::Record::new(b).unwrap();
            let key: Vec<ValueRef<'_>> = record.values().map(Result::unwrap).collect();
            order.compare(a, &key).unwrap()
        };
        entries.sort_by(compare);
        if entries.len().is_multiple_of(5) && entries.len() > 2 {
            let last = entries.len() - 1;
            entries.swap(last / 2, last);
        }
        self.change_sorted((self.indexes[number], order), &entries, what);
    }

    fn change_sorted<'e>(
        &mut self,
        (root, order): (Pgno, &KeyOrder),
        entries: &'e [Vec<u8>],
        what: LeafChange,
    ) {
        let mut at = 0;
        while at < entries.len() {
            let key = |number: usize, columns: &mut KeyColumns<'e>| {
                let record = shoal_store::Record::new(entries.get(at + number)?).unwrap();
                let mut width = 0;
                for (place, value) in columns.iter_mut().zip(record.values()) {
                    *place = value.unwrap();
                    width += 1;
                }
                Some(width)
            };
            let change = |number: usize, old: Option<&[u8]>, out: &mut Vec<u8>| {
                assert_eq!(old.is_some(), what == LeafChange::Remove);
                out.clear();
                out.extend_from_slice(&entries[at + number]);
                Ok::<_, Error>(what)
            };
            let dealt = self.txn.change_entries((root, order), key, change).unwrap();
            if dealt == 0 && what == LeafChange::Remove {
                assert!(self.txn.index_delete(root, &entries[at], order).unwrap());
            } else if dealt == 0 {
                self.txn.index_insert(root, &entries[at], order).unwrap();
            }
            at += dealt.max(1);
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Put { rowid, seed, len } => self.put(rowid, row(seed, len)),
            Step::Append { len } => {
                let last = self.model.keys().next_back().copied().unwrap_or(0);
                if let Some(rowid) = last.checked_add(1) {
                    self.put(rowid, row(rowid as u8, len));
                }
            }
            Step::Delete { rowid } => {
                let near = self.model.range(rowid..).next().map_or(rowid, |(&rowid, _)| rowid);
                self.delete(near);
            }
            Step::DeleteRun { rowid, count } => {
                let run: Vec<i64> =
                    self.model.range(rowid..).take(count).map(|(&rowid, _)| rowid).collect();
                run.into_iter().for_each(|rowid| self.delete(rowid));
            }
            Step::Many { rowid, stride, count, seed, len, deletes } => {
                let rows = (0..count).map(|number| {
                    let is_put = number as u8 % 5 >= deletes;
                    let row = row(seed.wrapping_add(number as u8), len + number as usize % 3);
                    (rowid + number * stride, is_put.then_some(row))
                });
                self.change_many(&rows.collect());
            }
            Step::Undo | Step::Commit => {}
        }
    }

    fn check(&self) {
        let mut cursor = self.txn.table(self.table).unwrap();
        for (&rowid, row) in &self.model {
            assert!(cursor.next().unwrap());
            assert_eq!(cursor.rowid().unwrap(), rowid);
            let expect = record(&[ValueRef::Text(&row.0), ValueRef::Blob(&row.1)]);
            assert_eq!(cursor.payload().unwrap(), expect);
        }
        assert!(!cursor.next().unwrap());
        for (number, order) in orders().iter().enumerate() {
            let mut cursor = self.txn.index(self.indexes[number]).unwrap();
            let mut count = 0;
            while cursor.next().unwrap() {
                count += 1;
            }
            assert_eq!(count, self.model.len());
            for (&rowid, row) in self.model.iter().step_by(17) {
                let entry = &Self::entries(rowid, row)[number];
                let key: Vec<_> = shoal_store::Record::new(entry)
                    .unwrap()
                    .values()
                    .collect::<Result<_, _>>()
                    .unwrap();
                assert!(cursor.seek(&key, order).unwrap());
                assert_eq!(cursor.payload().unwrap(), entry);
            }
        }
    }
}

fn run(page_size: u32, reserved: u8, steps: &[Step]) {
    let path = Path::new("db");
    let vfs = MemVfs::new();
    vfs.put(path, database(page_size, reserved, SCHEMA));
    let store = open(&vfs, path, Access::ReadWrite);
    let begin = || store.begin(Mode::Write).unwrap();
    let txn = begin();
    let (table, indexes) = (root(&txn, "t"), [root(&txn, "i"), root(&txn, "j")]);
    let mut pair = Pair { txn, model: BTreeMap::new(), table, indexes };
    let mut rest = steps.iter();
    while let Some(step) = rest.next() {
        match step {
            Step::Commit => {
                pair.txn.commit().unwrap();
                pair.txn = begin();
            }
            Step::Undo => {
                let before = pair.model.clone();
                let savepoint = pair.txn.savepoint().unwrap();
                rest.by_ref().take(20).for_each(|step| pair.step(step));
                for number in 0..5 {
                    let model = pair.model.clone();
                    let inner = pair.txn.savepoint().unwrap();
                    rest.by_ref().take(3).for_each(|step| pair.step(step));
                    if number % 3 == 1 {
                        pair.txn.rollback_to(&inner).unwrap();
                        pair.model = model;
                    }
                    pair.txn.release(inner).unwrap();
                }
                pair.txn.rollback_to(&savepoint).unwrap();
                pair.model = before;
                pair.check();
                pair.txn.release(savepoint).unwrap();
            }
            step => pair.step(step),
        }
    }
    pair.check();
    let rows = pair.model.len();
    pair.txn.commit().unwrap();
    let longest = pair.model.values().map(|row| row.1.len()).max().unwrap_or(0);
    let sql = "SELECT count(*) || ' ' || ifnull(max(length(b)), 0) FROM t";
    let answer = ask_sqlite(&vfs.get(path).unwrap(), sql);
    assert_eq!(answer, [format!("{rows} {longest}")]);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 100,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn small_pages(steps in steps(3000)) {
        run(512, 0, &steps);
    }

    #[test]
    fn small_pages_with_reserved_bytes(steps in steps(2000)) {
        run(512, 32, &steps);
    }

    #[test]
    fn usual_pages(steps in steps(20_000)) {
        run(4096, 0, &steps);
    }
}
