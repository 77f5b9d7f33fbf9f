//! Commits cut at every call to the system, and failing calls, each with every state of the disk
//! possible afterwards: the next to open the file, Shoal or SQLite, finds the old or the new
//! state whole.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
mod history;
mod several;
mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::open;
use shoal_store::vfs::{Event, Fault, FaultKind, Image, SimVfs};
use shoal_store::{Access, Error, JournalMode, Mode, Rollback, Store, Transaction};
use support::{
    DB, SEEDS, States, change_one, create_schema, delete_rows, filled, logged, logged_before,
    put_rows, rows_by_us, thinned, vacuumed, vacuumed_log,
};

/// A transaction to be cut.
struct Scenario {
    name: &'static str,
    before: fn() -> Image,
    /// The fate of a rollback journal.
    rollback: Rollback,
    change: fn(&mut Transaction) -> Result<(), Error>,
}

const SCENARIOS: [Scenario; 13] = [
    Scenario::new("small", filled, change_one),
    Scenario::new("splits", filled, |txn| put_rows(txn, 500..560, 20)),
    Scenario::new("grows by overflow", filled, |txn| put_rows(txn, 0..4, 4000)),
    Scenario::new("frees", filled, |txn| delete_rows(txn, 5..190)),
    Scenario::new("reuses", thinned, |txn| put_rows(txn, 300..340, 90)),
    Scenario::new("new file", Image::new, create_schema),
    Scenario { rollback: Rollback::Truncate, ..Scenario::new("truncates", filled, change_one) },
    Scenario { rollback: Rollback::Persist, ..Scenario::new("persists", filled, change_one) },
    Scenario::new("log", logged, |txn| put_rows(txn, 500..560, 20)),
    Scenario::new("longer log", logged_before, |txn| put_rows(txn, 0..4, 4000)),
    Scenario::new("log that frees", logged_before, |txn| delete_rows(txn, 5..190)),
    Scenario::new("auto-vacuum", vacuumed, |txn| delete_rows(txn, 5..190)),
    Scenario::new("auto-vacuum in a log", vacuumed_log, |txn| delete_rows(txn, 5..190)),
];

impl Scenario {
    const fn new(
        name: &'static str,
        before: fn() -> Image,
        change: fn(&mut Transaction) -> Result<(), Error>,
    ) -> Scenario {
        Scenario { name, before, rollback: Rollback::Delete, change }
    }

    /// Opens the database of the scenario.
    fn open(&self, vfs: &SimVfs) -> Result<Store, Error> {
        let options = common::options(Access::Create);
        let store = Store::open_with(Arc::new(vfs.clone()), Path::new(DB), options)?;
        let settings = shoal_store::Settings { rollback: self.rollback, ..store.settings() };
        store.set_settings(settings);
        Ok(store)
    }
}

/// Runs the scenario and returns the disk, and how many calls were made until the commit returned.
fn run(scenario: &Scenario, before: &Image) -> (SimVfs, usize) {
    let vfs = SimVfs::from_image(before);
    let store = scenario.open(&vfs).unwrap();
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

/// A killed process loses none of its writes, but all of its locks.
#[test]
fn a_process_killed_anywhere_leaves_a_whole_state() {
    for scenario in &SCENARIOS {
        let before = (scenario.before)();
        let (sound, committed) = run(scenario, &before);
        let mut states = States::new(&before, &sound.image());
        for call in 0..sound.calls() {
            let vfs = SimVfs::from_image(&before);
            vfs.kill_at(call);
            let store = scenario.open(&vfs).unwrap();
            let mut txn = store.begin(Mode::Write).unwrap();
            (scenario.change)(&mut txn).unwrap();
            txn.commit().unwrap();
            drop(store);
            let killed = vfs.killed();
            assert!(!killed.is_empty());
            for image in killed {
                let place = format!("{}: killed at call {call}", scenario.name);
                let state = states.of(image, &place);
                assert!(call < committed || state == 1, "{place}: it was told to be durable");
            }
        }
    }
}

/// To and from a write-ahead log: the contents are the same after a cut anywhere.
#[test]
fn changing_the_journal_mode_can_be_cut() {
    let delete = JournalMode::Rollback(Rollback::Delete);
    for (before, mode) in [(filled(), JournalMode::Wal), (logged_before(), delete)] {
        let vfs = SimVfs::from_image(&before);
        let store = open(&vfs, Path::new(DB), Access::ReadWrite);
        assert_eq!(store.set_journal_mode(mode).unwrap(), mode);
        assert_eq!(store.journal_mode().unwrap(), mode);
        drop(store);
        assert_eq!(vfs.image().len(), 1, "the journal and the log are gone");
        let same = (support::reopened_by_us(&before), support::reopened_by_sqlite(&before));
        for calls in 0..=vfs.calls() {
            for seed in SEEDS {
                let image = vfs.image_after_crash(calls, seed);
                assert_eq!(support::reopened_by_us(&image), same.0, "{mode:?} {calls} {seed}");
                assert_eq!(support::reopened_by_sqlite(&image), same.1, "{mode:?} {calls} {seed}");
            }
        }
    }
}

/// The order of calls is the protocol. A crash test alone does not pin the order: were the
/// first sync of the journal left out, a torn record would have to pass its checksum for a test
/// to notice.
#[test]
fn a_commit_does_what_sqlite_does_in_its_order() {
    if common::codec::wanted().is_some() {
        // The lengths are those of plain pages of 512 bytes.
        return;
    }
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

/// The result of a scenario with a fault.
enum Outcome {
    /// The commit was reported as durable.
    Durable,
    /// The commit was reported as failed.
    Failed,
    /// The commit was reported as in doubt.
    InDoubt,
}

/// Runs the scenario on `vfs`, with a fault somewhere, and checks the store's state afterwards.
fn run_with_fault(scenario: &Scenario, vfs: &SimVfs, states: &States, place: &str) -> Outcome {
    let Ok(store) = scenario.open(vfs) else { return Outcome::Failed };
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
