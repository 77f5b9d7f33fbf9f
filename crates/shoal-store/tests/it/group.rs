//! Threads committing at once to one log: they share syncs, and lose nothing.
//!
//! `SHOAL_GROUP=500 cargo test -p shoal-store --test it -- group:: --nocapture` prints rates.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{self, ask_sqlite_at, database, record, root};
use shoal_store::vfs::{
    ByteLock, File, LockLevel, Mapping, OpenMode, OsVfs, SharedBlock, Vfs, VfsError,
};
use shoal_store::{
    Access, Error, JournalMode, Mode, Options, Record, Settings, Store, Synchronous, Transaction,
    ValueRef,
};

/// The system's files, whose syncs are counted, take a time, and fail when told to.
#[derive(Default)]
struct Disk {
    syncs: AtomicU64,
    delay_us: AtomicU64,
    fails: AtomicBool,
    /// Somebody else has the marks of readers to itself, as a checkpoint does for a moment.
    marks_are_taken: AtomicBool,
}

#[derive(Clone)]
struct CountingVfs(Arc<Disk>);

struct CountingFile {
    file: Box<dyn File>,
    disk: Arc<Disk>,
    is_log: bool,
}

impl Vfs for CountingVfs {
    fn open(&self, path: &Path, mode: OpenMode<'_>) -> Result<Box<dyn File>, VfsError> {
        let is_log = path.to_string_lossy().ends_with("-wal");
        let file = OsVfs.open(path, mode)?;
        Ok(Box::new(CountingFile { file, disk: Arc::clone(&self.0), is_log }))
    }

    fn delete(&self, path: &Path, sync_dir: bool) -> Result<(), VfsError> {
        OsVfs.delete(path, sync_dir)
    }

    fn size(&self, path: &Path) -> Result<Option<u64>, VfsError> {
        OsVfs.size(path)
    }

    fn real_path(&self, path: &Path) -> Result<PathBuf, VfsError> {
        OsVfs.real_path(path)
    }

    fn sync_dir(&self, path: &Path) -> Result<(), VfsError> {
        OsVfs.sync_dir(path)
    }
}

impl File for CountingFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize, VfsError> {
        self.file.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), VfsError> {
        self.file.write_at(bytes, offset)
    }

    fn truncate(&self, len: u64) -> Result<(), VfsError> {
        self.file.truncate(len)
    }

    /// Counts, waits instead of the disk, and fails for a log when told to.
    fn sync(&self) -> Result<(), VfsError> {
        self.disk.syncs.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_micros(self.disk.delay_us.load(Ordering::Relaxed)));
        match self.is_log && self.disk.fails.load(Ordering::Relaxed) {
            true => {
                let error = std::io::Error::other("the disk is gone");
                Err(VfsError::from_io("sync", Path::new("db-wal"), error))
            }
            false => Ok(()),
        }
    }

    fn size(&self) -> Result<u64, VfsError> {
        self.file.size()
    }

    fn lock(&self, level: LockLevel) -> Result<bool, VfsError> {
        self.file.lock(level)
    }

    fn unlock(&self, level: LockLevel) -> Result<(), VfsError> {
        self.file.unlock(level)
    }

    fn is_reserved_elsewhere(&self) -> Result<bool, VfsError> {
        self.file.is_reserved_elsewhere()
    }

    fn map(&self, len: u64) -> Result<Option<Mapping>, VfsError> {
        self.file.map(len)
    }

    fn is_at(&self, path: &Path) -> Result<bool, VfsError> {
        self.file.is_at(path)
    }

    fn lock_bytes(&self, start: u64, len: u64, lock: ByteLock) -> Result<Option<bool>, VfsError> {
        if lock == ByteLock::Shared && self.disk.marks_are_taken.load(Ordering::Relaxed) {
            return Ok(Some(false));
        }
        self.file.lock_bytes(start, len, lock)
    }

    fn share(&self, number: usize, grow: bool) -> Result<Option<SharedBlock>, VfsError> {
        self.file.share(number, grow)
    }

    fn is_locked_elsewhere(&self, place: u64) -> Result<bool, VfsError> {
        self.file.is_locked_elsewhere(place)
    }
}

struct Place {
    folder: tempfile::TempDir,
    disk: Arc<Disk>,
    store: Store,
}

impl Place {
    fn new(delay_us: u64) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let schema = "CREATE TABLE n(value); INSERT INTO n VALUES (0); CREATE TABLE log(who, turn)";
        let path = folder.path().join("db");
        std::fs::write(&path, database(4096, 0, schema)).unwrap();
        let disk = Arc::new(Disk { delay_us: delay_us.into(), ..Disk::default() });
        let options = Options {
            busy_timeout: Duration::from_secs(60),
            codec: common::codec::wanted(),
            ..Options::new(Access::ReadWrite)
        };
        let vfs = Arc::new(CountingVfs(Arc::clone(&disk)));
        let store = Store::open_with(vfs, &path, options).unwrap();
        store.set_journal_mode(JournalMode::Wal).unwrap();
        Place { folder, disk, store }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("db")
    }
}

fn count(txn: &Transaction) -> i64 {
    let mut cursor = txn.table(root(txn, "n")).unwrap();
    assert!(cursor.next().unwrap());
    match Record::new(cursor.payload().unwrap()).unwrap().column(0).unwrap() {
        Some(ValueRef::Int(value)) => value,
        other => panic!("{other:?}"),
    }
}

/// Raises the counter, and notes who did.
fn commit_one(store: &Store, who: i64, turn: i64) -> Result<i64, Error> {
    let mut txn = store.begin(Mode::Write)?;
    let next = count(&txn) + 1;
    let (counter, log) = (root(&txn, "n"), root(&txn, "log"));
    txn.table_insert(counter, 1, &record(&[ValueRef::Int(next)]))?;
    txn.table_insert(log, next, &record(&[ValueRef::Int(who), ValueRef::Int(turn)]))?;
    txn.commit()?;
    Ok(next)
}

/// Commits of each of `threads` threads; gives syncs and the time.
fn run(place: &Place, threads: i64, turns: i64) -> (u64, Duration) {
    let (before, start) = (place.disk.syncs.load(Ordering::Relaxed), Instant::now());
    std::thread::scope(|scope| {
        for who in 0..threads {
            let store = place.store.clone();
            scope.spawn(move || {
                for turn in 0..turns {
                    let mine = commit_one(&store, who, turn).unwrap();
                    // Told means there for everybody.
                    let seen = count(&store.begin(Mode::Read).unwrap());
                    assert!(seen >= mine, "{seen} after {mine}");
                }
            });
        }
    });
    (place.disk.syncs.load(Ordering::Relaxed) - before, start.elapsed())
}

#[test]
fn threads_share_syncs() {
    let turns = std::env::var("SHOAL_GROUP").map_or(30, |turns| turns.parse().unwrap());
    let place = Place::new(4000);
    let (alone_syncs, alone) = run(&place, 1, turns);
    let (syncs, together) = run(&place, 16, turns);
    let rate = |commits: i64, time: Duration| commits as f64 / time.as_secs_f64();
    let faster = rate(16 * turns, together) / rate(turns, alone);
    eprintln!(
        "1 thread: {:.0} commits/s, {alone_syncs} syncs; 16 threads: {:.0} commits/s, {syncs} syncs \
         for {} commits; {faster:.1} times",
        rate(turns, alone),
        rate(16 * turns, together),
        16 * turns
    );
    assert!((turns as u64..turns as u64 + 5).contains(&alone_syncs), "{alone_syncs}");
    assert!(syncs * 4 < 16 * turns as u64, "{syncs} syncs");
    let commits = 17 * turns;
    assert_eq!(count(&place.store.begin(Mode::Read).unwrap()), commits);
    let path = place.path();
    drop(place.store);
    if common::codec::wanted().is_none() {
        let sql = "SELECT count(*) || ' ' || count(DISTINCT who || '-' || turn) FROM log";
        assert_eq!(ask_sqlite_at(&path, sql), [format!("{commits} {}", 16 * turns)]);
    }
}

/// Commits, rollbacks, readers, checkpoints and restarts of the log at once, with a `sqlite3` in
/// another process taking turns.
#[test]
fn a_crowd_loses_nothing() {
    let place = Place::new(300);
    let settings = place.store.settings();
    place.store.set_settings(Settings { wal_autocheckpoint: 20, ..settings });
    let done = AtomicBool::new(false);
    let theirs = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8)
            .map(|who| {
                let store = place.store.clone();
                scope.spawn(move || {
                    for turn in 0..60 {
                        if turn % 7 == 3 {
                            let mut txn = store.begin(Mode::Write).unwrap();
                            let counter = root(&txn, "n");
                            txn.table_insert(counter, 1, &record(&[ValueRef::Int(-1)])).unwrap();
                            drop(txn);
                        }
                        commit_one(&store, who, turn).unwrap();
                    }
                })
            })
            .collect();
        let (store, over) = (place.store.clone(), &done);
        scope.spawn(move || {
            let mut last = 0;
            while !over.load(Ordering::Relaxed) {
                let txn = store.begin(Mode::Read).unwrap();
                let seen = count(&txn);
                assert!(seen >= last);
                last = seen;
                let mut log = txn.table(root(&txn, "log")).unwrap();
                assert_eq!(if log.last().unwrap() { log.rowid().unwrap() } else { 0 }, seen);
            }
        });
        let (path, over) = (place.path(), &done);
        let peer = scope.spawn(move || {
            let mut commits = 0;
            let codec = common::codec::wanted().is_some();
            while !codec && !over.load(Ordering::Relaxed) {
                let sql =
                    "PRAGMA busy_timeout = 20000; BEGIN IMMEDIATE; UPDATE n SET value = value + 1;
                    INSERT INTO log(rowid, who, turn) SELECT value, 99, value FROM n; COMMIT;";
                let output = std::process::Command::new("sqlite3").arg(&path).arg(sql).output();
                let Ok(output) = output else { return 0 };
                assert!(output.status.success(), "{output:?}");
                commits += 1;
                std::thread::sleep(Duration::from_millis(5));
            }
            commits
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Relaxed);
        peer.join().unwrap()
    });
    let commits = 8 * 60 + theirs;
    assert_eq!(count(&place.store.begin(Mode::Read).unwrap()), commits);
    let path = place.path();
    drop(place.store);
    if common::codec::wanted().is_none() {
        assert_eq!(ask_sqlite_at(&path, "SELECT '' || count(*) FROM log"), [commits.to_string()]);
    }
}

#[test]
fn a_failed_sync_fails_all_behind_it() {
    let place = Place::new(2000);
    run(&place, 4, 3);
    place.disk.fails.store(true, Ordering::Relaxed);
    let errors: Vec<Error> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6)
            .map(|who| {
                let store = place.store.clone();
                scope.spawn(move || commit_one(&store, who, 100).unwrap_err())
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let doubts = errors.iter().filter(|error| matches!(error, Error::InDoubt { .. })).count();
    assert!(doubts > 0, "{errors:?}");
    for error in &errors {
        assert!(matches!(error, Error::InDoubt { .. } | Error::Latched { .. }), "{error}");
    }
    assert!(place.store.is_latched());
    assert_eq!(count(&place.store.begin(Mode::Read).unwrap()), 12, "reads go on");
    place.disk.fails.store(false, Ordering::Relaxed);
    assert!(matches!(commit_one(&place.store, 0, 0), Err(Error::Latched { .. })));
    let path = place.path();
    drop(place.store);
    if common::codec::wanted().is_none() {
        assert_eq!(ask_sqlite_at(&path, "SELECT '' || count(*) FROM log"), ["12"]);
    }
}

/// Nobody reads what is not durable, and a transaction begun before others committed may not write.
#[test]
fn nothing_is_told_before_its_sync() {
    let place = Place::new(50_000);
    commit_one(&place.store, 0, 0).unwrap();
    let mut old = place.store.begin(Mode::Read).unwrap();
    std::thread::scope(|scope| {
        let store = place.store.clone();
        let writer = scope.spawn(move || commit_one(&store, 1, 1).unwrap());
        std::thread::sleep(Duration::from_millis(20));
        // Appended, and not synced.
        assert_eq!(count(&place.store.begin(Mode::Read).unwrap()), 1);
        assert!(matches!(old.upgrade(), Err(Error::Busy { .. })));
        let next = place.store.begin(Mode::Write).unwrap();
        assert_eq!(count(&next), 2, "the next writer goes on from there");
        drop(next);
        assert_eq!(writer.join().unwrap(), 2);
    });
    assert_eq!(count(&place.store.begin(Mode::Read).unwrap()), 2);
    drop(old);
    place
        .store
        .set_settings(Settings { synchronous: Synchronous::Normal, ..place.store.settings() });
    assert_eq!(commit_one(&place.store, 2, 2).unwrap(), 3);
}

/// Nobody who reads a file with a log is told that the file is locked: whoever is in the way is
/// about to go, though a busy machine may keep the other from running for a while.
#[test]
fn readers_outwait_a_checkpoint_without_a_busy_timeout() {
    let place = Place::new(0);
    let settings = place.store.settings();
    place.store.set_settings(Settings { busy_timeout: Duration::ZERO, ..settings });
    commit_one(&place.store, 0, 0).unwrap();
    place.disk.marks_are_taken.store(true, Ordering::Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(400));
            place.disk.marks_are_taken.store(false, Ordering::Relaxed);
        });
        assert_eq!(count(&place.store.begin(Mode::Read).unwrap()), 1);
    });
}

/// A log checkpointed to its end begins anew, so that its size follows `wal_autocheckpoint` and not
/// the number of commits: of one writer, of several, with and without a sync for each.
#[test]
fn a_log_stays_short() {
    let frame = 24 + 4096;
    for synchronous in [Synchronous::Full, Synchronous::Normal] {
        for threads in [1, 4] {
            let place = Place::new(0);
            let settings = place.store.settings();
            let wal_autocheckpoint = 20;
            place.store.set_settings(Settings { wal_autocheckpoint, synchronous, ..settings });
            run(&place, threads, 20_000 / threads);
            let log = std::fs::metadata(place.folder.path().join("db-wal")).unwrap().len();
            let case = format!("{synchronous:?}, {threads} threads: {} frames", log / frame);
            eprintln!("{case}");
            // Of 40,000 frames: a thread kept from running in the middle of a transaction keeps the
            // log from its beginning as long.
            assert!(log / frame < 20_000, "{case}");
        }
    }
}
