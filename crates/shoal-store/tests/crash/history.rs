//! Many commits to a log, with checkpoints and restarts on the way: after any cut every reported
//! commit is there, and nothing but a whole number of commits.

use std::path::Path;

use shoal_store::vfs::{Event, Image, SimVfs};
use shoal_store::{Access, CheckpointMode, Mode, Settings, Synchronous};

use crate::common::open;
use crate::support::{DB, logged, put_rows, reopened_by_sqlite, reopened_by_us};

/// The call after which each commit was reported; the first entry is the beginning.
struct Told {
    vfs: SimVfs,
    at: Vec<usize>,
}

/// One row a commit, and checkpoints of all kinds.
fn write_history(before: &Image, synchronous: Synchronous, kill_at: Option<usize>) -> Told {
    let vfs = SimVfs::from_image(before);
    if let Some(call) = kill_at {
        vfs.kill_at(call);
    }
    let store = open(&vfs, Path::new(DB), Access::ReadWrite);
    store.set_settings(Settings { wal_autocheckpoint: 12, synchronous, ..store.settings() });
    let mut at = vec![0];
    for round in 0..14 {
        let mut txn = store.begin(Mode::Write).unwrap();
        put_rows(&mut txn, 1000 + round..1001 + round, if round % 3 == 0 { 900 } else { 9 })
            .unwrap();
        txn.commit().unwrap();
        at.push(vfs.calls());
        let mode = match round {
            4 => CheckpointMode::Full,
            7 => CheckpointMode::Restart,
            10 => CheckpointMode::Truncate,
            _ => continue,
        };
        assert!(!store.checkpoint(mode).unwrap().busy);
    }
    drop(store);
    Told { vfs, at }
}

/// Number of commits on a disk; Shoal and SQLite must agree.
fn commits(image: &Image, base: usize, place: &str) -> usize {
    let ours: Vec<i64> = reopened_by_us(image).into_iter().map(|(rowid, _)| rowid).collect();
    let found = ours.len() - base;
    let expect: Vec<i64> = (1000..1000 + found as i64).collect();
    assert_eq!(ours[base..], expect, "{place}: not the first commits");
    assert_eq!(reopened_by_sqlite(image).len(), ours.len(), "{place}: SQLite finds others");
    found
}

#[test]
fn a_history_cut_anywhere_is_a_prefix() {
    let before = logged();
    let base = reopened_by_us(&before).len();
    for synchronous in [Synchronous::Full, Synchronous::Normal] {
        let told = write_history(&before, synchronous, None);
        assert_eq!(commits(&told.vfs.image(), base, "the end"), 14);
        let mut seen = std::collections::BTreeMap::new();
        for calls in 0..=told.vfs.calls() {
            let known = told.at[1..].iter().filter(|&&at| at <= calls).count();
            for seed in 0..5 {
                let place = format!("{synchronous:?}: cut after call {calls}, seed {seed}");
                let image = told.vfs.image_after_crash(calls, seed);
                let found = match seen.get(&image) {
                    Some(found) => *found,
                    None => commits(&image, base, &place),
                };
                seen.insert(image, found);
                assert!(found <= known + 1, "{place}: {found} of {known}");
                assert!(
                    synchronous == Synchronous::Normal || found >= known,
                    "{place}: {found} of {known} that were told"
                );
            }
        }
    }
}

#[test]
fn a_history_killed_anywhere_loses_nothing() {
    let before = logged();
    let base = reopened_by_us(&before).len();
    let sound = write_history(&before, Synchronous::Normal, None);
    for call in 0..sound.vfs.calls() {
        let known = sound.at[1..].iter().filter(|&&at| at <= call).count();
        let told = write_history(&before, Synchronous::Normal, Some(call));
        for image in told.vfs.killed() {
            let place = format!("killed at call {call}");
            let found = commits(&image, base, &place);
            assert!((known..=known + 1).contains(&found), "{place}: {found} of {known}");
        }
    }
}

/// A commit to a log in use is one write and one sync of the log, and no other lasting effect.
#[test]
fn a_commit_to_a_log_is_one_write_and_one_sync() {
    for (synchronous, syncs) in
        [(Synchronous::Full, 1), (Synchronous::Normal, 0), (Synchronous::Off, 0)]
    {
        let vfs = SimVfs::from_image(&logged());
        let store = open(&vfs, Path::new(DB), Access::ReadWrite);
        store.set_settings(Settings { synchronous, ..store.settings() });
        for round in 0..3 {
            let start = vfs.events().len();
            let mut txn = store.begin(Mode::Write).unwrap();
            put_rows(&mut txn, 1000 + round..1001 + round, 9).unwrap();
            txn.commit().unwrap();
            let events = vfs.events().split_off(start);
            let count = |is: fn(&&Event) -> bool| events.iter().filter(is).count();
            let synced = count(|event| matches!(event, Event::Sync { .. } | Event::SyncDir { .. }));
            let written = count(|event| matches!(event, Event::Write { .. }));
            match round {
                // The log's header and name are made durable at its beginning.
                0 => assert!(written == 2 && synced <= 3),
                _ => assert_eq!((written, synced), (1, syncs), "{synchronous:?}"),
            }
        }
    }
}
