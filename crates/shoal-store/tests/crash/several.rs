//! Commits of two files at once, cut at every call, killed at every call, and with every call
//! failing: both files are old afterwards, or both new, whoever recovers which of them first.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shoal_store::vfs::{Event, Fault, FaultKind, Image, SimVfs};
use shoal_store::{Access, Error, Mode, Rollback, Settings, Store, Transaction};

use crate::common::{ask_sqlite_at, database, open, options};
use crate::support::{SCHEMA, SEEDS, change_one, put_rows, rows_by_us};

/// Two databases in one folder of the real disk, where SQLite looks for the files that a
/// super-journal names.
struct Place {
    folder: tempfile::TempDir,
    rollback: [Rollback; 2],
    before: Image,
}

impl Place {
    fn new(rollback: [Rollback; 2]) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let mut place = Place { folder, rollback, before: Image::new() };
        for path in place.paths() {
            place.before.insert(path, database(512, 0, SCHEMA));
        }
        let vfs = SimVfs::from_image(&place.before);
        for path in place.paths() {
            let mut txn = open(&vfs, &path, Access::ReadWrite).begin(Mode::Write).unwrap();
            put_rows(&mut txn, 0..60, 20).unwrap();
            txn.commit().unwrap();
        }
        place.before = vfs.image();
        place
    }

    fn paths(&self) -> [PathBuf; 2] {
        ["db", "other"].map(|name| self.folder.path().join(name))
    }

    /// Changes both files in one transaction; gives the outcome of the commit, and the calls made
    /// until it returned.
    fn run(&self, vfs: &SimVfs) -> (Result<(), Error>, usize) {
        let result = self.try_run(vfs);
        (result, vfs.calls())
    }

    fn try_run(&self, vfs: &SimVfs) -> Result<(), Error> {
        let mut stores = Vec::new();
        for (path, rollback) in self.paths().iter().zip(self.rollback) {
            let vfs = Arc::new(vfs.clone());
            let store = Store::open_with(vfs, path, options(Access::ReadWrite))?;
            store.set_settings(Settings { rollback, ..store.settings() });
            stores.push(store);
        }
        let mut first = stores[0].begin(Mode::Write)?;
        let mut second = stores[1].begin(Mode::Write)?;
        change_one(&mut first)?;
        put_rows(&mut second, 500..540, 20)?;
        Transaction::commit_all(vec![first, second])
    }

    /// Rows of both files as found by `readers`, in that order: `true` is Shoal, `false` SQLite.
    fn rows(&self, image: &Image, readers: [(usize, bool); 2]) -> [usize; 2] {
        let mut image = image.clone();
        let mut rows = [0; 2];
        for (place, is_ours) in readers {
            let path = &self.paths()[place];
            // SQLite can neither read pages of a codec nor name the files in them.
            if is_ours || crate::common::codec::wanted().is_some() {
                let vfs = SimVfs::from_image(&image);
                rows[place] = rows_by_us(&open(&vfs, path, Access::ReadWrite)).unwrap().len();
                if place == 0 {
                    let store = open(&vfs, path, Access::ReadWrite);
                    rows[place] = changed(&rows_by_us(&store).unwrap());
                }
                image = vfs.image();
            } else {
                for entry in std::fs::read_dir(self.folder.path()).unwrap() {
                    std::fs::remove_file(entry.unwrap().path()).unwrap();
                }
                for (path, bytes) in &image {
                    std::fs::write(path, bytes).unwrap();
                }
                let sql = match place {
                    0 => "SELECT '' || length(b) FROM t WHERE rowid = 17",
                    _ => "SELECT '' || count(*) FROM t",
                };
                rows[place] = ask_sqlite_at(path, sql)[0].parse().unwrap();
                image.clear();
                for entry in std::fs::read_dir(self.folder.path()).unwrap() {
                    let path = entry.unwrap().path();
                    image.insert(path.clone(), std::fs::read(&path).unwrap());
                }
            }
        }
        rows
    }

    /// 0 for the old state of both files, 1 for the new one of both.
    fn state(&self, known: &mut BTreeMap<Image, usize>, image: Image, place: &str) -> usize {
        if let Some(state) = known.get(&image) {
            return *state;
        }
        let orders = [
            [(0, true), (1, true)],
            [(1, true), (0, false)],
            [(1, false), (0, false)],
            [(0, false), (1, true)],
        ];
        let found = orders.map(|order| self.rows(&image, order));
        let state = match found[0] {
            [20, 60] => 0,
            [33, 100] => 1,
            other => panic!("{place}: mixed, {other:?}"),
        };
        assert!(found.iter().all(|rows| *rows == found[0]), "{place}: {found:?}");
        known.insert(image, state);
        state
    }
}

/// Bytes in the row that the transaction changes.
fn changed(rows: &[(i64, Vec<u8>)]) -> usize {
    let (_, record) = rows.iter().find(|(rowid, _)| *rowid == 17).unwrap();
    let values = shoal_store::Record::new(record).unwrap().column(1).unwrap();
    let Some(shoal_store::ValueRef::Blob(bytes)) = values else { panic!("no blob") };
    bytes.len()
}

const MODES: [[Rollback; 2]; 3] = [
    [Rollback::Delete, Rollback::Delete],
    [Rollback::Persist, Rollback::Truncate],
    [Rollback::Truncate, Rollback::Persist],
];

#[test]
fn two_files_cut_anywhere_are_both_old_or_both_new() {
    for rollback in MODES {
        let place = Place::new(rollback);
        let vfs = SimVfs::from_image(&place.before);
        let (result, committed) = place.run(&vfs);
        result.unwrap();
        let mut known = BTreeMap::new();
        let mut seen = [0; 2];
        for calls in 0..=vfs.calls() {
            for seed in SEEDS {
                let at = format!("{rollback:?}: cut after call {calls}, seed {seed}");
                let state = place.state(&mut known, vfs.image_after_crash(calls, seed), &at);
                assert!(calls < committed || state == 1, "{at}: it was told to be durable");
                seen[state] += 1;
            }
        }
        assert!(seen[0] > 100 && seen[1] > 10, "{seen:?}");
        assert!(known.len() > 20, "{} disks", known.len());
    }
}

#[test]
fn two_files_killed_anywhere_are_both_old_or_both_new() {
    let place = Place::new(MODES[0]);
    let sound = SimVfs::from_image(&place.before);
    let (result, _) = place.run(&sound);
    result.unwrap();
    let mut known = BTreeMap::new();
    for call in 0..sound.calls() {
        let vfs = SimVfs::from_image(&place.before);
        vfs.kill_at(call);
        place.run(&vfs).0.unwrap();
        for image in vfs.killed() {
            place.state(&mut known, image, &format!("killed at call {call}"));
        }
    }
    assert!(known.len() > 5);
}

#[test]
fn any_call_of_a_commit_of_two_files_may_fail() {
    for rollback in &MODES[..2] {
        let place = Place::new(*rollback);
        let sound = SimVfs::from_image(&place.before);
        place.run(&sound).0.unwrap();
        let mut known = BTreeMap::new();
        let mut failed = 0;
        for call in 0..sound.calls() {
            for (stays, kind) in
                [(false, FaultKind::Io), (true, FaultKind::Io), (false, FaultKind::NoSpace)]
            {
                let at = format!("{rollback:?}: call {call} fails, stays: {stays}");
                let vfs = SimVfs::from_image(&place.before);
                vfs.set_fault(Some(Fault { call, stays, kind }));
                let (outcome, _) = place.run(&vfs);
                let state = place.state(&mut known, vfs.image(), &at);
                let crashed: Vec<usize> = (0..4)
                    .map(|seed| {
                        let image = vfs.image_after_crash(vfs.calls(), seed);
                        place.state(&mut known, image, &at)
                    })
                    .collect();
                match outcome {
                    Ok(()) => assert!(state == 1 && !crashed.contains(&0), "{at}"),
                    Err(Error::InDoubt { .. }) => {}
                    Err(error) => {
                        failed += 1;
                        assert!(state == 0 && !crashed.contains(&1), "{at}: {error}, {crashed:?}");
                    }
                }
            }
        }
        assert!(failed > 20, "{failed} runs failed");
    }
}

/// The bytes SQLite expects: paths of journals that end with a zero, the super-journal's path at
/// each journal's end, on a sector of its own; and the order of syncs.
#[test]
fn the_super_journal_is_sqlites() {
    let place = Place::new(MODES[0]);
    let vfs = SimVfs::from_image(&place.before);
    place.run(&vfs).0.unwrap();
    let mut steps: Vec<String> = Vec::new();
    let mut names: BTreeMap<usize, String> = BTreeMap::new();
    for (number, path) in place.paths().iter().enumerate() {
        names.insert(number, path.file_name().unwrap().to_str().unwrap().to_owned());
    }
    let short = |path: &Path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.split_once("-mj").map_or(name.to_owned(), |(db, digits)| {
            assert_eq!((digits.len(), &digits[6..7]), (9, "9"));
            format!("{db}-mj")
        })
    };
    for event in vfs.events() {
        let step = match event {
            Event::Create { path, file } => {
                names.insert(file, short(&path));
                format!("create {}", short(&path))
            }
            Event::Delete { path } => format!("delete {}", short(&path)),
            Event::Write { file, bytes, offset } => {
                if names[&file] == "db-mj" {
                    let list = place.paths().map(|path| format!("{}-journal\0", path.display()));
                    assert_eq!(bytes, list.concat().into_bytes());
                }
                if names[&file].ends_with("-journal") && offset == 0 && bytes.len() > 12 {
                    assert_eq!(bytes[bytes.len() - 8..], bytes_of_magic());
                    let length =
                        u32::from_be_bytes(bytes[bytes.len() - 16..][..4].try_into().unwrap());
                    assert_eq!((bytes.len() - 20 - length as usize) % 512, 0);
                }
                format!("write {}", names[&file])
            }
            Event::Sync { file } => format!("sync {}", names[&file]),
            Event::SyncDir { .. } => "sync folder".to_owned(),
            _ => continue,
        };
        if steps.last() != Some(&step) {
            steps.push(step);
        }
    }
    let journal = |name: &str| {
        ["create", "write", "sync", "folder", "write", "sync"].map(|step| match step {
            "folder" => "sync folder".to_owned(),
            step => format!("{step} {name}-journal"),
        })
    };
    let mut expect = vec!["create db-mj".to_owned(), "write db-mj".into(), "sync db-mj".into()];
    expect.push("sync folder".into());
    expect.extend(journal("db"));
    expect.extend(journal("other"));
    for name in ["db", "other"] {
        expect.extend([format!("write {name}"), format!("sync {name}")]);
    }
    expect.extend(["delete db-mj".to_owned(), "sync folder".into()]);
    expect.extend(["delete db-journal".to_owned(), "delete other-journal".into()]);
    assert_eq!(steps, expect);
}

fn bytes_of_magic() -> [u8; 8] {
    [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]
}
