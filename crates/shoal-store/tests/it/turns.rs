//! Shoal and the `sqlite3` command on one file at the same time, in both journal modes: turns of
//! writing, long readers against checkpoints, and each side's view of the other's commits.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::common::{self, record, root};
use shoal_store::vfs::OsVfs;
use shoal_store::{
    Access, CheckpointMode, Error, JournalMode, Mode, Options, Record, Rollback, Settings, Store,
    Transaction, ValueRef,
};

/// A `sqlite3` command answering statements, one row and one line at a time.
struct Peer {
    child: Child,
    /// `None` as long as a thread writes to the command's stdin.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// `None` where there is no such command.
    fn start(path: &Path) -> Option<Peer> {
        let mut child = Command::new("sqlite3")
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut peer = Peer { child, input, output };
        peer.tell(".timeout 20000");
        // A refused BEGIN would leave the statements behind it to run alone.
        peer.tell(".bail on");
        Some(peer)
    }

    fn tell(&mut self, sql: &str) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{sql}").unwrap();
        input.flush().unwrap();
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn ask(&mut self, sql: &str) -> String {
        self.tell(sql);
        self.answer()
    }

    fn quit(mut self) {
        self.tell(".quit");
        self.child.wait().unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A counter, and a log of each raise with its author.
const SCHEMA: &str = "CREATE TABLE n(id INTEGER PRIMARY KEY, value INT);
    CREATE TABLE log(id INTEGER PRIMARY KEY, who TEXT, pad BLOB);
    INSERT INTO n VALUES(1, 0); SELECT 1;";

fn store(path: &Path) -> Store {
    let busy_timeout = Duration::from_secs(20);
    let options = Options { busy_timeout, ..Options::new(Access::ReadWrite) };
    Store::open_with(Arc::new(OsVfs::new()), path, options).unwrap()
}

fn start(path: &Path, mode: &str) -> Option<Peer> {
    let mut peer = Peer::start(path)?;
    assert_eq!(peer.ask(&format!("PRAGMA journal_mode = {mode};")), mode);
    assert_eq!(peer.ask(SCHEMA), "1");
    Some(peer)
}

fn value(txn: &Transaction) -> i64 {
    let mut cursor = txn.table(root(txn, "n")).unwrap();
    assert!(cursor.next().unwrap());
    match Record::new(cursor.payload().unwrap()).unwrap().column(1).unwrap() {
        Some(ValueRef::Int(value)) => value,
        other => panic!("{other:?}"),
    }
}

/// Raises the counter and says so in the log, in one transaction.
fn raise(store: &Store, pad: usize) -> Result<i64, Error> {
    let mut txn = store.begin(Mode::Write)?;
    let next = value(&txn) + 1;
    let (counter, log) = (root(&txn, "n"), root(&txn, "log"));
    txn.table_delete(counter, 1)?;
    txn.table_insert(counter, 1, &record(&[ValueRef::Null, ValueRef::Int(next)]))?;
    let pad = vec![7; pad];
    let row = [ValueRef::Null, ValueRef::Text(b"shoal"), ValueRef::Blob(&pad)];
    txn.table_insert(log, next, &record(&row))?;
    txn.commit()?;
    Ok(next)
}

const RAISE: &str = "BEGIN IMMEDIATE; UPDATE n SET value = value + 1;
    INSERT INTO log SELECT value, 'sqlite', zeroblob(300) FROM n; COMMIT;";

fn many() -> i64 {
    std::env::var("SHOAL_TURNS").ok().and_then(|text| text.parse().ok()).unwrap_or(30)
}

/// Both write again and again: no update is lost and none is made of an old state. For minutes:
/// `SHOAL_TURNS=100000 cargo test -p shoal-store --test it turns::`.
#[test]
fn no_update_is_lost() {
    let rounds = many();
    for mode in ["wal", "delete", "truncate", "persist"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let Some(mut peer) = start(&path, mode) else {
            eprintln!("skipped: there is no sqlite3 command");
            return;
        };
        assert_eq!(peer.ask("PRAGMA wal_autocheckpoint = 40;"), "40");
        let store = store(&path);
        let rollback = match mode {
            "truncate" => Rollback::Truncate,
            "persist" => Rollback::Persist,
            _ => Rollback::Delete,
        };
        let settings = Settings { wal_autocheckpoint: 30, rollback, ..store.settings() };
        store.set_settings(settings);
        let script = RAISE.repeat(usize::try_from(rounds).unwrap()) + " SELECT 'done';";
        let mut input = peer.input.take().unwrap();
        let writer = std::thread::spawn(move || {
            input.write_all(script.as_bytes()).unwrap();
            input.write_all(b"\n").unwrap();
            input
        });
        let mut last = 0;
        for round in 0..rounds {
            let next = raise(&store, if round % 20 == 0 { 9000 } else { 50 });
            let next = next.unwrap_or_else(|error| panic!("{mode}, round {round}: {error}"));
            assert!(next > last, "{mode}: {next} after {last}");
            last = next;
            // `sqlite3` looks for a free lock every 100 ms: without a pause here it meets none.
            std::thread::sleep(Duration::from_millis(1));
        }
        peer.input = Some(writer.join().unwrap());
        assert_eq!(peer.answer(), "done", "{mode}");
        let txn = store.begin(Mode::Read).unwrap();
        assert_eq!(value(&txn), 2 * rounds, "{mode}");
        drop(txn);
        let counts = "SELECT (SELECT value FROM n) || ' ' || count(*) || ' ' || max(id) || ' ' ||
            sum(who = 'shoal') FROM log;";
        let expect = format!("{0} {0} {0} {1}", 2 * rounds, rounds);
        assert_eq!(peer.ask(counts), expect, "{mode}");
        assert_eq!(peer.ask("PRAGMA integrity_check;"), "ok", "{mode}");
        drop(store);
        peer.quit();
        for file in ["db-wal", "db-shm"] {
            assert!(!folder.path().join(file).exists(), "{mode}: {file} is left");
        }
    }
}

/// Readers of both kinds keep their state through writes and checkpoints of both, and a reader
/// never waits.
#[test]
fn long_readers_stand_checkpoints() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let Some(mut peer) = start(&path, "wal") else {
        eprintln!("skipped: there is no sqlite3 command");
        return;
    };
    let store = store(&path);
    let quick =
        Settings { busy_timeout: Duration::ZERO, wal_autocheckpoint: 0, ..store.settings() };
    store.set_settings(quick);
    for _ in 0..5 {
        raise(&store, 20).unwrap();
    }
    let ours = store.begin(Mode::Read).unwrap();
    let mut theirs = Peer::start(&path).unwrap();
    assert_eq!(theirs.ask("BEGIN; SELECT value FROM n;"), "5");
    for round in 0..40 {
        raise(&store, 2000).unwrap();
        assert_eq!(value(&ours), 5);
        if round % 10 == 9 {
            let passive = store.checkpoint(CheckpointMode::Passive).unwrap();
            let (log, moved) = passive.frames.unwrap();
            assert!(!passive.busy && moved < log, "{passive:?}");
            assert!(store.checkpoint(CheckpointMode::Full).unwrap().busy);
            assert!(store.checkpoint(CheckpointMode::Truncate).unwrap().busy);
            assert!(peer.ask("PRAGMA busy_timeout = 0;") == "0");
            assert!(peer.ask("PRAGMA wal_checkpoint(RESTART);").starts_with("1|"));
        }
        assert_eq!(theirs.ask("SELECT value FROM n;"), "5");
        assert_eq!(value(&store.begin(Mode::Read).unwrap()), 6 + round);
    }
    // A transaction reading an older state may not write.
    let mut late = ours;
    assert!(matches!(late.upgrade(), Err(Error::Busy { .. })));
    assert_eq!(value(&late), 5);
    drop(late);
    assert_eq!(theirs.ask("COMMIT; SELECT value FROM n;"), "45");
    theirs.quit();
    // A writer of theirs keeps ours out, and the other way round; readers go on.
    assert_eq!(peer.ask("BEGIN IMMEDIATE; UPDATE n SET value = value; SELECT 7;"), "7");
    assert!(matches!(store.begin(Mode::Write), Err(Error::Busy { .. })));
    assert_eq!(value(&store.begin(Mode::Read).unwrap()), 45);
    assert_eq!(peer.ask("ROLLBACK; SELECT 8;"), "8");
    let txn = store.begin(Mode::Write).unwrap();
    assert_eq!(peer.ask("SELECT value FROM n;"), "45");
    drop(txn);
    let done = store.checkpoint(CheckpointMode::Truncate).unwrap();
    assert_eq!((done.busy, done.frames), (false, Some((0, 0))));
    assert_eq!(std::fs::metadata(folder.path().join("db-wal")).unwrap().len(), 0);
    assert_eq!(raise(&store, 9).unwrap(), 46);
    assert_eq!(peer.ask("SELECT value FROM n;"), "46");
    assert_eq!(peer.ask("PRAGMA integrity_check;"), "ok");
    peer.quit();
    assert_eq!(raise(&store, 9).unwrap(), 47);
}

/// The journal mode is the file's; either side can change it while nobody else has the file open.
#[test]
fn either_changes_the_journal_mode() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let Some(peer) = start(&path, "delete") else {
        eprintln!("skipped: there is no sqlite3 command");
        return;
    };
    peer.quit();
    let store = store(&path);
    store.set_settings(Settings { busy_timeout: Duration::ZERO, ..store.settings() });
    assert_eq!(store.set_journal_mode(JournalMode::Wal).unwrap(), JournalMode::Wal);
    assert_eq!(raise(&store, 9).unwrap(), 1);
    assert!(folder.path().join("db-wal").exists());
    let mut peer = Peer::start(&path).unwrap();
    assert_eq!(peer.ask("PRAGMA journal_mode;"), "wal");
    assert_eq!(peer.ask("SELECT value FROM n;"), "1");
    let delete = JournalMode::Rollback(Rollback::Delete);
    assert!(matches!(store.set_journal_mode(delete), Err(Error::Busy { .. })));
    assert_eq!(raise(&store, 9).unwrap(), 2);
    peer.quit();
    let reader = store.begin(Mode::Read).unwrap();
    assert!(matches!(store.set_journal_mode(delete), Err(Error::Busy { .. })));
    drop(reader);
    assert_eq!(store.set_journal_mode(delete).unwrap(), delete);
    assert!(!folder.path().join("db-wal").exists() && !folder.path().join("db-shm").exists());
    assert_eq!(raise(&store, 9).unwrap(), 3);
    let mut peer = Peer::start(&path).unwrap();
    assert_eq!(peer.ask("PRAGMA journal_mode;"), "delete");
    assert_eq!(peer.ask("SELECT value FROM n;"), "3");
    assert_eq!(peer.ask("PRAGMA journal_mode = wal;"), "wal");
    assert_eq!(peer.ask("UPDATE n SET value = 10; SELECT 1;"), "1");
    assert_eq!(raise(&store, 9).unwrap(), 11);
    assert_eq!(peer.ask("SELECT value FROM n;"), "11");
    for kind in [Rollback::Persist, Rollback::Truncate, Rollback::Memory, Rollback::Off] {
        peer.quit();
        let mode = JournalMode::Rollback(kind);
        assert_eq!(store.set_journal_mode(mode).unwrap(), mode);
        let next = raise(&store, 9).unwrap();
        let journal = std::fs::metadata(folder.path().join("db-journal")).ok().map(|it| it.len());
        match kind {
            Rollback::Persist => assert!(journal.unwrap() > 0),
            Rollback::Truncate => assert_eq!(journal, Some(0)),
            _ => assert_eq!(journal, None),
        }
        peer = Peer::start(&path).unwrap();
        assert_eq!(peer.ask("SELECT value FROM n;"), next.to_string());
        assert_eq!(peer.ask("PRAGMA integrity_check;"), "ok");
    }
}

/// Threads read through one store while another thread writes and the log is put away under them.
#[test]
fn readers_of_one_store_never_wait() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    std::fs::write(&path, common::database(4096, 0, &SCHEMA.replace("SELECT 1;", ""))).unwrap();
    let store = store(&path);
    store.set_journal_mode(JournalMode::Wal).unwrap();
    let settings =
        Settings { busy_timeout: Duration::ZERO, wal_autocheckpoint: 25, ..store.settings() };
    store.set_settings(settings);
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut last = 0;
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    let txn = store.begin(Mode::Read).unwrap();
                    let now = value(&txn);
                    assert!(now >= last, "{now} after {last}");
                    last = now;
                    let mut cursor = txn.table(root(&txn, "log")).unwrap();
                    let mut count = 0;
                    while cursor.next().unwrap() {
                        count += 1;
                    }
                    assert_eq!((count, value(&txn)), (now, now));
                }
            });
        }
        for round in 1..=120 {
            assert_eq!(raise(&store, 200).unwrap(), round);
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    drop(store);
    let counts = "SELECT value || ' ' || (SELECT count(*) FROM log) FROM n";
    assert_eq!(common::ask_sqlite_at(&path, counts), ["120 120"]);
}
