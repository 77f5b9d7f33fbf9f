//! Living with SQLite on the same file: locks, changes noticed, journals of crashed programs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::common::{self, SCHEMA, ask_sqlite_at, options, record, root, texts};
use rusqlite::Connection;
use shoal_store::vfs::OsVfs;
use shoal_store::{Access, BtreeKind, Error, Mode, Options, Pgno, Store, ValueRef};

struct Place {
    _folder: tempfile::TempDir,
    db: PathBuf,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let db = folder.path().join("db");
        std::fs::write(&db, common::database(1024, 0, SCHEMA)).unwrap();
        Place { _folder: folder, db }
    }

    fn journal(&self) -> PathBuf {
        self.db.with_file_name("db-journal")
    }

    fn store(&self) -> Store {
        store(&self.db)
    }

    fn peer(&self) -> Connection {
        let peer = Connection::open(&self.db).unwrap();
        peer.busy_timeout(Duration::ZERO).unwrap();
        peer.execute_batch("PRAGMA synchronous = OFF").unwrap();
        peer
    }
}

fn store(path: &Path) -> Store {
    Store::open_with(Arc::new(OsVfs::new()), path, options(Access::ReadWrite)).unwrap()
}

fn count(store: &Store) -> usize {
    let txn = store.begin(Mode::Read).unwrap();
    let mut cursor = txn.table(root(&txn, "t")).unwrap();
    let mut count = 0;
    while cursor.next().unwrap() {
        count += 1;
    }
    count
}

fn put(store: &Store, rowid: i64) -> Result<(), Error> {
    let mut txn = store.begin(Mode::Write)?;
    let roots = ["t", "i", "j"].map(|name| root(&txn, name));
    let (a, b) = (ValueRef::Int(rowid), ValueRef::Text(b"ours"));
    txn.table_insert(roots[0], rowid, &record(&[a, b]))?;
    txn.index_insert(roots[1], &record(&[a, a]), &common::orders()[0])?;
    txn.index_insert(roots[2], &record(&[b, a, a]), &common::orders()[1])?;
    txn.commit().map(drop)
}

fn is_busy<T>(result: &rusqlite::Result<T>) -> bool {
    matches!(result, Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy))
}

#[test]
#[cfg(target_os = "linux")]
fn one_of_us_writes_at_a_time() {
    let place = Place::new();
    let (store, peer) = (place.store(), place.peer());

    peer.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (1, 'theirs')").unwrap();
    assert!(matches!(store.begin(Mode::Write), Err(Error::Busy { .. })));
    let mut reader = store.begin(Mode::Read).unwrap();
    assert!(matches!(reader.upgrade(), Err(Error::Busy { .. })));
    assert!(is_busy(&peer.execute_batch("COMMIT")));
    // The writer now waits for readers, so there are no new ones from elsewhere.
    assert!(matches!(place.store().begin(Mode::Read), Err(Error::Busy { .. })));
    drop(reader);
    peer.execute_batch("COMMIT").unwrap();
    assert_eq!(count(&store), 1);

    let writer = store.begin(Mode::Write).unwrap();
    assert!(is_busy(&peer.execute_batch("BEGIN IMMEDIATE")));
    assert_eq!(texts(&peer, "SELECT b FROM t"), ["theirs"]);
    assert!(matches!(place.store().begin(Mode::Write), Err(Error::Busy { .. })));
    drop(writer);

    peer.execute_batch("BEGIN; SELECT * FROM t;").unwrap();
    assert!(matches!(put(&store, 2), Err(Error::Busy { .. })));
    assert!(!place.journal().exists() && !store.is_latched());
    peer.execute_batch("COMMIT").unwrap();
    put(&store, 2).unwrap();
    peer.execute_batch("BEGIN EXCLUSIVE").unwrap();
    assert!(matches!(store.begin(Mode::Read), Err(Error::Busy { .. })));
    peer.execute_batch("COMMIT").unwrap();
    drop(peer);
    assert_eq!(ask_sqlite_at(&place.db, "SELECT b FROM t ORDER BY rowid"), ["theirs", "ours"]);
}

#[test]
fn what_others_commit_is_read_fresh() {
    let place = Place::new();
    let (store, peer, other) = (place.store(), place.peer(), place.store());
    for round in 0..20 {
        assert_eq!(count(&store), round * 3);
        put(&store, round as i64 * 10 + 1).unwrap();
        assert_eq!(texts(&peer, "SELECT '' || count(*) FROM t"), [(round * 3 + 1).to_string()]);
        peer.execute_batch("INSERT INTO t VALUES (zeroblob(700), 'theirs')").unwrap();
        assert_eq!(count(&other), round * 3 + 2);
        put(&other, round as i64 * 10 + 5).unwrap();
    }
    drop(peer);
    assert_eq!(ask_sqlite_at(&place.db, "SELECT '' || count(*) FROM t"), ["60"]);
}

#[test]
fn readers_of_one_store_share_its_lock() {
    let place = Place::new();
    let store = place.store();
    let reader = store.begin(Mode::Read).unwrap();
    let mut writer = store.begin(Mode::Write).unwrap();
    assert!(matches!(store.begin(Mode::Write), Err(Error::Busy { .. })));
    drop(store.begin(Mode::Read).unwrap());
    // The ended reader has not taken the writer's lock along.
    assert!(matches!(place.store().begin(Mode::Write), Err(Error::Busy { .. })));
    writer.set_user_version(7).unwrap();
    assert_eq!(reader.header().user_version, 0);
    assert!(matches!(writer.commit(), Err(Error::Busy { .. })));
    drop(reader);
    let mut writer = store.begin(Mode::Write).unwrap();
    writer.set_user_version(8).unwrap();
    writer.commit().unwrap();
    assert_eq!(store.begin(Mode::Read).unwrap().header().user_version, 8);
}

#[test]
fn threads_take_turns() {
    let place = Place::new();
    let patient = Options { busy_timeout: Duration::from_secs(30), ..options(Access::ReadWrite) };
    let open = || Store::open_with(Arc::new(OsVfs::new()), &place.db, patient.clone()).unwrap();
    let shared = open();
    std::thread::scope(|scope| {
        for number in 0..4 {
            let store = if number < 2 { shared.clone() } else { open() };
            scope.spawn(move || {
                for _ in 0..10 {
                    let mut txn = store.begin(Mode::Write).unwrap();
                    let version = txn.header().user_version;
                    txn.set_user_version(version + 1).unwrap();
                    txn.commit().unwrap();
                }
            });
        }
    });
    assert_eq!(shared.begin(Mode::Read).unwrap().header().user_version, 40);
}

/// A database in the middle of a change by SQLite, with its journal of several segments, as a crash
/// would leave the two; and the rows from before.
fn crashed_sqlite() -> (Place, Vec<String>) {
    let place = Place::new();
    let peer = place.peer();
    peer.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA cache_size = 4;
         WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 300)
         INSERT INTO t SELECT i, zeroblob(200) FROM n;",
    )
    .unwrap();
    let rows = texts(&peer, "SELECT quote(a) || quote(b) FROM t ORDER BY rowid");
    peer.execute_batch(
        "BEGIN; UPDATE t SET a = a + 1, b = zeroblob(300); DELETE FROM t WHERE a > 9",
    )
    .unwrap();
    let crashed = Place::new();
    std::fs::copy(&place.db, &crashed.db).unwrap();
    std::fs::copy(place.journal(), crashed.journal()).unwrap();
    let journal = std::fs::read(crashed.journal()).unwrap();
    let segments = journal
        .chunks(512)
        .filter(|sector| sector.starts_with(&[0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]))
        .count();
    assert!(segments > 1, "the journal has {segments} segments");
    (crashed, rows)
}

fn rows_of(place: &Place) -> Vec<String> {
    ask_sqlite_at(&place.db, "SELECT quote(a) || quote(b) FROM t ORDER BY rowid")
}

#[test]
fn a_crashed_sqlite_is_undone() {
    let (place, rows) = crashed_sqlite();
    let read_only = Store::open(Arc::new(OsVfs::new()), &place.db, Access::ReadOnly);
    assert!(matches!(read_only, Err(Error::HotJournal { .. })));
    assert_eq!(count(&place.store()), 300);
    assert!(!place.journal().exists());
    assert_eq!(rows_of(&place), rows);
}

#[test]
fn a_crashed_sqlite_is_undone_through_a_link() {
    let (place, rows) = crashed_sqlite();
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("link");
    std::os::unix::fs::symlink(&place.db, &link).unwrap();
    assert_eq!(count(&store(&link)), 300);
    assert!(!place.journal().exists());
    assert_eq!(rows_of(&place), rows);
}

/// Appends the name of a super-journal to a journal.
fn name_super_journal(place: &Place, name: &Path) {
    let mut journal = std::fs::read(place.journal()).unwrap();
    let name = name.to_str().unwrap().as_bytes();
    journal.extend_from_slice(&(0x4000_0000_u32 / 1024 + 1).to_be_bytes());
    journal.extend_from_slice(name);
    journal.extend_from_slice(&(name.len() as u32).to_be_bytes());
    let sum: u32 = name.iter().map(|&byte| u32::from(byte)).sum();
    journal.extend_from_slice(&sum.to_be_bytes());
    journal.extend_from_slice(&[0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]);
    std::fs::write(place.journal(), journal).unwrap();
}

#[test]
fn the_super_journal_decides_over_a_transaction_of_several_files() {
    let (place, rows) = crashed_sqlite();
    let super_journal = place.db.with_file_name("db-mj0");
    std::fs::write(&super_journal, place.journal().to_str().unwrap()).unwrap();
    name_super_journal(&place, &super_journal);
    assert_eq!(count(&place.store()), 300);
    assert_eq!(rows_of(&place), rows);

    let (place, _) = crashed_sqlite();
    let half_written = std::fs::read(&place.db).unwrap();
    name_super_journal(&place, &place.db.with_file_name("db-mj1"));
    drop(place.store());
    assert!(!place.journal().exists(), "the transaction was committed elsewhere");
    assert_eq!(std::fs::read(&place.db).unwrap(), half_written);
}

/// The `sqlite3` command changes two files in each transaction until it is killed: whoever opens
/// them first, Shoal or SQLite, both hold the same number afterwards.
#[test]
fn a_transaction_of_sqlite_over_two_files_is_recovered_whole() {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};
    if Command::new("sqlite3").arg("-version").output().is_err() {
        eprintln!("skipped: there is no sqlite3 command");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let paths = ["db", "other"].map(|name| folder.path().join(name));
    for path in &paths {
        let schema = "CREATE TABLE n(v); INSERT INTO n VALUES(0); CREATE TABLE pad(b)";
        std::fs::write(path, common::database(1024, 0, schema)).unwrap();
    }
    let (mut hot, mut last) = (0, 0);
    for round in 0..24_u64 {
        let mut peer = Command::new("sqlite3")
            .arg(&paths[0])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = peer.stdin.take().unwrap();
        let attach = format!("ATTACH '{}' AS other;\n", paths[1].display());
        let one = "BEGIN; UPDATE main.n SET v = v + 1; UPDATE other.n SET v = v + 1;
            INSERT INTO main.pad VALUES(zeroblob(3000)); INSERT INTO other.pad VALUES(zeroblob(3000));
            COMMIT; SELECT v FROM main.n;\n";
        let script = attach + &one.repeat(3000);
        let feed = std::thread::spawn(move || drop(input.write_all(script.as_bytes())));
        let mut lines = BufReader::new(peer.stdout.take().unwrap()).lines();
        let told: i64 = lines.next().unwrap().unwrap().parse().unwrap();
        std::thread::sleep(Duration::from_micros(round * 731 % 5000));
        peer.kill().unwrap();
        peer.wait().unwrap();
        feed.join().unwrap();
        let names = std::fs::read_dir(folder.path()).unwrap();
        hot += names
            .filter(|name| name.as_ref().unwrap().path().to_string_lossy().contains("-mj"))
            .count();
        let by_us = |path: &Path| {
            let store = store(path);
            let txn = store.begin(Mode::Read).unwrap();
            let mut cursor = txn.table(root(&txn, "n")).unwrap();
            assert!(cursor.next().unwrap());
            match shoal_store::Record::new(cursor.payload().unwrap()).unwrap().column(0).unwrap() {
                Some(ValueRef::Int(value)) => value,
                other => panic!("{other:?}"),
            }
        };
        let by_sqlite =
            |path: &Path| ask_sqlite_at(path, "SELECT '' || v FROM n")[0].parse::<i64>().unwrap();
        let found = match round % 4 {
            0 => [by_us(&paths[0]), by_us(&paths[1])],
            1 => [by_us(&paths[0]), by_sqlite(&paths[1])],
            2 => [by_sqlite(&paths[0]), by_us(&paths[1])],
            _ => {
                let second = by_us(&paths[1]);
                [by_us(&paths[0]), second]
            }
        };
        assert_eq!(found[0], found[1], "round {round}");
        assert!(found[0] >= told && found[0] > last, "round {round}: {found:?}, told {told}");
        last = found[0];
        for path in &paths {
            ask_sqlite_at(path, "SELECT '' || v FROM n");
        }
    }
    assert!(hot > 0, "no kill met a transaction");
}

#[test]
fn a_journal_is_replayed_up_to_the_first_broken_record() {
    let (place, rows) = crashed_sqlite();
    let journal = std::fs::read(place.journal()).unwrap();
    // Cut inside the last record of a journal ending with a record: SQLite and we put back
    // the rest.
    for cut in [1, 7, 900] {
        let (ours, theirs) = (Place::new(), Place::new());
        for copy in [&ours, &theirs] {
            std::fs::copy(&place.db, &copy.db).unwrap();
            std::fs::write(copy.journal(), &journal[..journal.len() - cut]).unwrap();
        }
        drop(ours.store());
        theirs.peer().query_row("PRAGMA page_count", (), |_| Ok(())).unwrap();
        drop(theirs.peer().execute_batch("SELECT * FROM t"));
        assert_eq!(std::fs::read(&ours.db).unwrap(), std::fs::read(&theirs.db).unwrap());
    }
    drop(place.store());
    assert_eq!(rows_of(&place), rows);
}

#[test]
fn a_journal_that_is_not_hot_is_left_alone() {
    let place = Place::new();
    for bytes in [&b""[..], &[0; 600]] {
        std::fs::write(place.journal(), bytes).unwrap();
        assert_eq!(count(&place.store()), 0);
        assert_eq!(std::fs::read(place.journal()).unwrap(), bytes);
    }
    put(&place.store(), 1).unwrap();
    assert!(!place.journal().exists());
}

#[test]
fn a_store_opened_to_read_does_not_write() {
    let place = Place::new();
    let store = Store::open(Arc::new(OsVfs::new()), &place.db, Access::ReadOnly).unwrap();
    assert!(matches!(store.begin(Mode::Write), Err(Error::ReadOnly { .. })));
}

#[test]
fn sqlite_goes_on_where_a_new_file_begins() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("new");
    let store = Store::open_with(Arc::new(OsVfs::new()), &db, options(Access::Create)).unwrap();
    assert_eq!(std::fs::metadata(&db).unwrap().len(), 0);
    store.begin(Mode::Write).unwrap().commit().unwrap();
    assert_eq!(std::fs::metadata(&db).unwrap().len(), 0, "nothing was to be written");

    let mut txn = store.begin(Mode::Write).unwrap();
    let tree = txn.create_btree(BtreeKind::Table).unwrap();
    let schema = [
        ValueRef::Text(b"table"),
        ValueRef::Text(b"n"),
        ValueRef::Text(b"n"),
        ValueRef::Int(i64::from(tree.get())),
        ValueRef::Text(b"CREATE TABLE n(a)"),
    ];
    txn.table_insert(Pgno::FIRST, 1, &record(&schema)).unwrap();
    txn.table_insert(tree, i64::MIN, &record(&[ValueRef::Text(b"least")])).unwrap();
    txn.table_insert(tree, i64::MAX, &record(&[ValueRef::Text(b"most")])).unwrap();
    txn.bump_schema_cookie().unwrap();
    txn.commit().unwrap();

    let facts = [
        ("page_size", "4096"),
        ("page_count", "2"),
        ("encoding", "UTF-8"),
        ("schema_version", "1"),
        ("journal_mode", "delete"),
        ("freelist_count", "0"),
    ];
    let peer = Connection::open(&db).unwrap();
    for (name, expect) in facts {
        let sql = format!("SELECT '' || {name} FROM pragma_{name}");
        assert_eq!(texts(&peer, &sql), [expect], "{name}");
    }
    assert_eq!(std::fs::read(&db).unwrap()[44..48], [0, 0, 0, 4], "schema format");
    peer.execute_batch("CREATE INDEX m ON n(a); INSERT INTO n(rowid, a) VALUES (5, 'middle')")
        .unwrap();
    drop(peer);
    let txn = store.begin(Mode::Read).unwrap();
    assert_eq!(txn.schema_cookie(), 2);
    let mut cursor = txn.table(tree).unwrap();
    assert!(cursor.seek(5).unwrap() && cursor.next().unwrap());
    assert_eq!(cursor.rowid().unwrap(), i64::MAX);
    drop(cursor);
    assert_eq!(ask_sqlite_at(&db, "SELECT a FROM n ORDER BY a"), ["least", "middle", "most"]);
}

/// The system drops all POSIX locks of a process on a file with the first descriptor closed: a
/// SQLite in this process keeps its locks while Shoal opens and closes the same file.
#[test]
#[cfg(target_os = "linux")]
fn closing_a_file_drops_no_lock_of_sqlite_in_the_same_process() {
    use std::process::Command;
    let place = Place::new();
    let other = |sql: &str| {
        let run = Command::new("sqlite3").arg(&place.db).arg(sql).output();
        run.map(|output| output.status.success()).ok()
    };
    if other("SELECT 1").is_none() {
        eprintln!("skipped: there is no sqlite3 command");
        return;
    }
    let insert = "INSERT INTO t VALUES (2, 'other')";
    for journal_mode in ["delete", "wal"] {
        let peer = place.peer();
        peer.query_row(&format!("PRAGMA journal_mode = {journal_mode}"), (), |_| Ok(())).unwrap();
        peer.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (1, 'peer')").unwrap();
        for access in [Access::ReadOnly, Access::ReadWrite, Access::ReadWrite] {
            let store =
                Store::open_with(Arc::new(OsVfs::new()), &place.db, options(access)).unwrap();
            drop(store.begin(Mode::Read).unwrap());
            drop(store);
            assert_eq!(other(insert), Some(false), "{journal_mode}: SQLite holds its lock");
        }
        peer.execute_batch("COMMIT").unwrap();
        assert_eq!(other(insert), Some(true));
        peer.execute_batch("DELETE FROM t").unwrap();
    }
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = open();
    for _ in 0..50 {
        drop(place.store().begin(Mode::Read).unwrap());
    }
    assert!(open() < before + 20, "descriptors of a file nobody locks are closed");
}
