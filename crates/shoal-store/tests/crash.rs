//! Commits cut at every call to the system, and calls that fail, each with what a disk could hold
//! afterwards: whoever opens the file next, we or SQLite, finds the old or the new state whole.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::{ask_sqlite_at, open, orders, record, try_root};
use shoal_store::vfs::{Event, Fault, FaultKind, Image, SimVfs};
use shoal_store::{Access, BtreeKind, Error, Mode, Pgno, Record, Store, Transaction, ValueRef};

/// The database's path on the simulated disk.
const DB: &str = "db";

/// What is tried for the unsynced part of the disk: nothing kept, everything kept, chance.
const SEEDS: std::ops::Range<u64> = 0..12;

const SCHEMA: &str = "CREATE TABLE t(a, b); CREATE INDEX i ON t(a);";

/// A transaction that is cut.
struct Scenario {
    name: &'static str,
    before: fn() -> Image,
    change: fn(&mut Transaction) -> Result<(), Error>,
}

const SCENARIOS: [Scenario; 6] = [
    Scenario { name: "small", before: filled, change: change_one },
    Scenario { name: "splits", before: filled, change: |txn| put_rows(txn, 500..560, 20) },
    Scenario { name: "grows by overflow", before: filled, change: |txn| put_rows(txn, 0..4, 4000) },
    Scenario { name: "frees", before: filled, change: |txn| delete_rows(txn, 5..190) },
    Scenario { name: "reuses", before: thinned, change: |txn| put_rows(txn, 300..340, 90) },
    Scenario { name: "new file", before: Image::new, change: create_schema },
];

fn filled() -> Image {
    let mut image = Image::new();
    image.insert(DB.into(), common::database(512, 0, SCHEMA));
    after(&image, |txn| put_rows(txn, 0..200, 20))
}

fn thinned() -> Image {
    after(&filled(), |txn| delete_rows(txn, 20..180))
}

/// The disk after a transaction without trouble.
fn after(image: &Image, change: impl Fn(&mut Transaction) -> Result<(), Error>) -> Image {
    let vfs = SimVfs::from_image(image);
    let store = open(&vfs, Path::new(DB), Access::ReadWrite);
    let mut txn = store.begin(Mode::Write).unwrap();
    change(&mut txn).unwrap();
    txn.commit().unwrap();
    vfs.image()
}

fn row(rowid: i64, len: usize) -> [Vec<u8>; 2] {
    let a = format!("key {:03}", rowid * 7 % 200).into_bytes();
    [a, vec![rowid as u8; len]]
}

fn put_rows(txn: &mut Transaction, rows: std::ops::Range<i64>, len: usize) -> Result<(), Error> {
    let (table, index) = (try_root(txn, "t")?, try_root(txn, "i")?);
    for rowid in rows {
        let [a, b] = row(rowid, len);
        let values = [ValueRef::Text(&a), ValueRef::Blob(&b)];
        txn.table_insert(table, rowid, &record(&values))?;
        let entry = record(&[values[0], ValueRef::Int(rowid)]);
        txn.index_insert(index, &entry, &orders()[0])?;
    }
    Ok(())
}

fn delete_rows(txn: &mut Transaction, rows: std::ops::Range<i64>) -> Result<(), Error> {
    let (table, index) = (try_root(txn, "t")?, try_root(txn, "i")?);
    for rowid in rows {
        txn.table_delete(table, rowid)?;
        let entry = record(&[ValueRef::Text(&row(rowid, 0)[0]), ValueRef::Int(rowid)]);
        txn.index_delete(index, &entry, &orders()[0])?;
    }
    Ok(())
}

fn change_one(txn: &mut Transaction) -> Result<(), Error> {
    put_rows(txn, 17..18, 33)
}

fn create_schema(txn: &mut Transaction) -> Result<(), Error> {
    let sql = ["CREATE TABLE t(a, b)", "CREATE INDEX i ON t(a)"];
    for (rowid, (kind, name)) in [("table", "t"), ("index", "i")].into_iter().enumerate() {
        let tree = if kind == "table" { BtreeKind::Table } else { BtreeKind::Index };
        let tree = txn.create_btree(tree)?;
        let values = [
            ValueRef::Text(kind.as_bytes()),
            ValueRef::Text(name.as_bytes()),
            ValueRef::Text(b"t"),
            ValueRef::Int(i64::from(tree.get())),
            ValueRef::Text(sql[rowid].as_bytes()),
        ];
        txn.table_insert(Pgno::FIRST, rowid as i64 + 1, &record(&values))?;
    }
    txn.bump_schema_cookie()?;
    put_rows(txn, 0..30, 300)
}

/// Every row of the database as we read it; empty when there is no table yet.
fn rows_by_us(store: &Store) -> Result<Vec<(i64, Vec<u8>)>, Error> {
    let txn = store.begin(Mode::Read)?;
    if !txn.table(Pgno::FIRST)?.next()? {
        return Ok(Vec::new());
    }
    let (table, index) = (try_root(&txn, "t")?, try_root(&txn, "i")?);
    let mut cursor = txn.table(table)?;
    let mut rows = Vec::new();
    while cursor.next()? {
        rows.push((cursor.rowid()?, cursor.payload()?.to_vec()));
    }
    let mut entries = txn.index(index)?;
    let mut count = 0;
    while entries.next()? {
        Record::new(entries.payload()?)?.values().try_for_each(|value| value.map(|_| ()))?;
        count += 1;
    }
    assert_eq!(count, rows.len(), "index and table differ");
    Ok(rows)
}

/// The rows after a program opens the disk `image`, undoing what must be undone.
fn reopened_by_us(image: &Image) -> Vec<(i64, Vec<u8>)> {
    let store = open(&SimVfs::from_image(image), Path::new(DB), Access::Create);
    rows_by_us(&store).unwrap()
}

/// As [`reopened_by_us`], by SQLite, which also checks the file.
fn reopened_by_sqlite(image: &Image) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    for (path, bytes) in image {
        std::fs::write(folder.path().join(path), bytes).unwrap();
    }
    let db = folder.path().join(DB);
    let is_empty = ask_sqlite_at(&db, "SELECT name FROM sqlite_schema").is_empty();
    let sql =
        "SELECT rowid || ' ' || quote(a) || ' ' || quote(b) FROM t NOT INDEXED ORDER BY rowid";
    if is_empty { Vec::new() } else { ask_sqlite_at(&db, sql) }
}

/// The two states a scenario may end in, as both of us see them.
struct States {
    ours: [Vec<(i64, Vec<u8>)>; 2],
    theirs: [Vec<String>; 2],
    /// What images were found to hold, as several crashes leave the same disk.
    known: BTreeMap<Image, usize>,
}

impl States {
    fn new(old: &Image, new: &Image) -> States {
        let states = States {
            ours: [reopened_by_us(old), reopened_by_us(new)],
            theirs: [reopened_by_sqlite(old), reopened_by_sqlite(new)],
            known: BTreeMap::new(),
        };
        assert_ne!(states.ours[0], states.ours[1]);
        assert_ne!(states.theirs[0], states.theirs[1]);
        states
    }

    /// Returns 0 when `image` holds the old state and 1 for the new one.
    fn of(&mut self, image: Image, place: &str) -> usize {
        if let Some(&state) = self.known.get(&image) {
            return state;
        }
        let ours = reopened_by_us(&image);
        let state = self.ours.iter().position(|state| *state == ours);
        let state = state.unwrap_or_else(|| panic!("{place}: we found neither state"));
        let theirs = reopened_by_sqlite(&image);
        assert_eq!(theirs, self.theirs[state], "{place}: SQLite found another state");
        self.known.insert(image, state);
        state
    }
}

/// Runs the scenario and returns the disk, and how many calls were made until the commit returned.
fn run(scenario: &Scenario, before: &Image) -> (SimVfs, usize) {
    let vfs = SimVfs::from_image(before);
    let store = open(&vfs, Path::new(DB), Access::Create);
    let mut txn = store.begin(Mode::Write).unwrap();
    (scenario.change)(&mut txn).unwrap();
    txn.commit().unwrap();
    let committed = vfs.calls();
    drop(store);
    (vfs, committed)
}

#[test]
fn a_commit_cut_anywhere_is_whole_or_not_there() {
    for scenario in &SCENARIOS {
        let before = (scenario.before)();
        let (vfs, committed) = run(scenario, &before);
        let mut states = States::new(&before, &vfs.image());
        let mut seen = BTreeSet::new();
        for calls in 0..=vfs.calls() {
            for seed in SEEDS {
                let place = format!("{}: cut after call {calls}, seed {seed}", scenario.name);
                let image = vfs.image_after_crash(calls, seed);
                let state = states.of(image, &place);
                if calls >= committed {
                    assert_eq!(state, 1, "{place}: it was told to be durable");
                }
                seen.insert(state);
            }
        }
        assert_eq!(seen.len(), 2, "{}: both states are met", scenario.name);
        assert!(states.known.len() > 5, "{}: {} disks", scenario.name, states.known.len());
    }
}

/// The order is the protocol. A crash test alone does not pin it: were the first sync of the journal
/// left out, a torn record would have to pass its checksum for a test to notice.
#[test]
fn a_commit_does_what_sqlite_does_in_its_order() {
    let before = filled();
    let vfs = SimVfs::from_image(&before);
    let store = open(&vfs, Path::new(DB), Access::ReadWrite);
    let mut txn = store.begin(Mode::Write).unwrap();
    change_one(&mut txn).unwrap();
    let start = vfs.events().len();
    txn.commit().unwrap();
    let mut steps: Vec<String> = Vec::new();
    for event in vfs.events().split_off(start) {
        let step = match event {
            Event::Create { path, .. } => format!("create {}", path.display()),
            Event::Delete { path } => format!("delete {}", path.display()),
            Event::Write { file: 0, .. } => "write database".into(),
            Event::Write { bytes, .. } if bytes.len() == 12 => {
                assert_eq!(bytes[..8], [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]);
                "write magic and count".into()
            }
            Event::Write { bytes, .. } => {
                assert_eq!(bytes[..12], [0; 12], "not hot before it is durable");
                assert_eq!((bytes.len() - 512) % 520, 0);
                "write journal".into()
            }
            Event::Sync { file: 0 } => "sync database".into(),
            Event::Sync { .. } => "sync journal".into(),
            Event::SyncDir { .. } => "sync folder".into(),
            Event::Read("lock") => "lock".into(),
            Event::Read(_) => continue,
            other => panic!("{other:?}"),
        };
        if steps.last() != Some(&step) {
            steps.push(step);
        }
    }
    let expect = [
        "create db-journal",
        "write journal",
        "sync journal",
        "sync folder",
        "write magic and count",
        "sync journal",
        "lock",
        "write database",
        "sync database",
        "delete db-journal",
        "sync folder",
    ];
    assert_eq!(steps, expect);
}

#[test]
fn undoing_can_be_cut_as_well() {
    let scenario = &SCENARIOS[1];
    let before = (scenario.before)();
    let (vfs, _) = run(scenario, &before);
    let mut states = States::new(&before, &vfs.image());
    let mut undone = BTreeSet::new();
    for calls in 0..vfs.calls() {
        for seed in SEEDS.step_by(3) {
            let image = vfs.image_after_crash(calls, seed);
            let journal = image.get(&PathBuf::from("db-journal"));
            let is_hot = journal.is_some_and(|bytes| bytes.first().is_some_and(|&byte| byte != 0));
            if !is_hot || image[&PathBuf::from(DB)] == before[&PathBuf::from(DB)] {
                continue;
            }
            let second = SimVfs::from_image(&image);
            assert_eq!(
                rows_by_us(&open(&second, Path::new(DB), Access::Create)).unwrap(),
                states.ours[0]
            );
            assert_eq!(second.image()[&PathBuf::from(DB)], before[&PathBuf::from(DB)]);
            assert!(!second.image().contains_key(&PathBuf::from("db-journal")));
            if !undone.insert(image) || undone.len() % 5 != 1 {
                continue;
            }
            for calls in 0..=second.calls() {
                for seed in SEEDS.step_by(2) {
                    let place = format!("undoing cut after call {calls}, seed {seed}");
                    assert_eq!(states.of(second.image_after_crash(calls, seed), &place), 0);
                }
            }
        }
    }
    assert!(undone.len() > 5, "{} disks to undo", undone.len());
}

#[test]
fn a_read_only_store_does_not_undo() {
    let scenario = &SCENARIOS[0];
    let (vfs, committed) = run(scenario, &(scenario.before)());
    let hot = (0..committed)
        .map(|calls| vfs.image_after_crash(calls, 1))
        .rfind(|image| {
            image
                .get(&PathBuf::from("db-journal"))
                .is_some_and(|j| j.first().is_some_and(|&byte| byte != 0))
        })
        .unwrap();
    let disk = SimVfs::from_image(&hot);
    let options = common::options(Access::ReadOnly);
    let opened = Store::open_with(Arc::new(disk.clone()), Path::new(DB), options);
    assert!(matches!(opened, Err(Error::HotJournal { .. })));
    assert_eq!(disk.image(), hot);
}

/// What a scenario with a fault came to.
enum Outcome {
    /// It was told to be durable.
    Durable,
    /// It was told to have failed.
    Failed,
    /// It was told to be in doubt.
    InDoubt,
}

/// Runs the scenario on `vfs`, which fails somewhere, and looks at what the store is like then.
fn run_with_fault(scenario: &Scenario, vfs: &SimVfs, states: &States, place: &str) -> Outcome {
    let options = common::options(Access::Create);
    let opened = Store::open_with(Arc::new(vfs.clone()), Path::new(DB), options);
    let Ok(store) = opened else { return Outcome::Failed };
    let Ok(mut txn) = store.begin(Mode::Write) else { return Outcome::Failed };
    if (scenario.change)(&mut txn).is_err() {
        return Outcome::Failed;
    }
    let (outcome, expect) = match txn.commit() {
        Ok(_) => (Outcome::Durable, &states.ours[1..]),
        Err(Error::InDoubt { .. }) => (Outcome::InDoubt, &states.ours[..]),
        Err(Error::Vfs(_)) => (Outcome::Failed, &states.ours[..1]),
        Err(error) => panic!("{place}: {error}"),
    };
    // Reads go on, unless they fail too.
    if let Ok(rows) = rows_by_us(&store) {
        assert!(expect.contains(&rows), "{place}: the store sees another state");
    }
    let again = store.begin(Mode::Write);
    assert!(again.is_err() || !store.is_latched(), "{place}: it takes another commit");
    outcome
}

#[test]
fn any_call_may_fail() {
    for scenario in &SCENARIOS {
        let before = (scenario.before)();
        let (sound, _) = run(scenario, &before);
        let mut states = States::new(&before, &sound.image());
        let mut failed = 0;
        for call in 0..sound.calls() {
            for (stays, kind) in
                [(false, FaultKind::Io), (true, FaultKind::Io), (false, FaultKind::NoSpace)]
            {
                let place = format!("{}: call {call} fails, stays: {stays}", scenario.name);
                let vfs = SimVfs::from_image(&before);
                vfs.set_fault(Some(Fault { call, stays, kind }));
                let outcome = run_with_fault(scenario, &vfs, &states, &place);
                let state = states.of(vfs.image(), &place);
                let crashed: Vec<usize> = SEEDS
                    .map(|seed| states.of(vfs.image_after_crash(vfs.calls(), seed), &place))
                    .collect();
                match outcome {
                    Outcome::Durable => assert!(state == 1 && !crashed.contains(&0), "{place}"),
                    Outcome::InDoubt => {}
                    Outcome::Failed => {
                        failed += 1;
                        assert!(state == 0 && !crashed.contains(&1), "{place}: {crashed:?}");
                    }
                }
            }
        }
        assert!(failed > 10, "{}: {failed} runs failed", scenario.name);
    }
}
