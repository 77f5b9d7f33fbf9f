//! Long reads of a write-ahead log while `sqlite3` writes and checkpoints: read marks.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use crate::common::{options, root};
use shoal_store::vfs::OsVfs;
use shoal_store::{Access, Mode, Pgno, Record, Store, Transaction, ValueRef};

/// A `sqlite3` command answering statements, one row and one line at a time.
struct Peer {
    child: Child,
    input: ChildStdin,
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
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Some(Peer { child, input, output })
    }

    fn ask(&mut self, sql: &str) -> String {
        writeln!(self.input, "{sql}").unwrap();
        self.input.flush().unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Frames in the log, and the number of them in the database after a checkpoint.
    fn checkpoint(&mut self) -> (i64, i64) {
        let line = self.ask("PRAGMA wal_checkpoint(PASSIVE);");
        let numbers: Vec<i64> = line.split('|').map(|part| part.parse().unwrap()).collect();
        assert_eq!(numbers[0], 0, "{line}");
        (numbers[1], numbers[2])
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const ROWS: i64 = 3000;

fn peer(path: &Path) -> Option<Peer> {
    let mut peer = Peer::start(path)?;
    assert_eq!(peer.ask("PRAGMA journal_mode = wal;"), "wal");
    assert_eq!(peer.ask("PRAGMA wal_autocheckpoint = 0;"), "0");
    let fill = format!(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, round INT, pad TEXT);
         WITH RECURSIVE c(x) AS (VALUES(1) UNION ALL SELECT x + 1 FROM c WHERE x < {ROWS})
         INSERT INTO t SELECT x, 0, hex(randomblob(50)) FROM c; SELECT count(*) FROM t;"
    );
    assert_eq!(peer.ask(&fill), ROWS.to_string());
    Some(peer)
}

fn write(peer: &mut Peer, round: i64, of: i64) {
    let sql = format!("UPDATE t SET round = {round} WHERE id % 7 = {of}; SELECT {round};");
    assert_eq!(peer.ask(&sql), round.to_string());
}

/// The rounds of all rows, summed up; every page is read.
fn sum(txn: &Transaction) -> i64 {
    let mut cursor = txn.table(root(txn, "t")).unwrap();
    let mut sum = 0;
    while cursor.next().unwrap() {
        let record = Record::new(cursor.payload().unwrap()).unwrap();
        match record.column(1).unwrap() {
            Some(ValueRef::Int(round)) => sum += round,
            other => panic!("{other:?}"),
        }
    }
    sum
}

fn open(path: &Path) -> Store {
    open_for(Access::ReadOnly, path)
}

fn open_for(access: Access, path: &Path) -> Store {
    Store::open_with(Arc::new(OsVfs::new()), path, options(access)).unwrap()
}

/// Ends a peer like a program closing its connections.
fn quit(mut peer: Peer) {
    drop(peer.ask(".quit"));
    peer.child.wait().unwrap();
}

#[test]
fn a_long_read_lets_checkpoints_come_up_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let Some(mut peer) = peer(&path) else {
        eprintln!("skipped: there is no sqlite3 command");
        return;
    };
    write(&mut peer, 1, 1);
    let (store, other) = (open(&path), open(&path));
    // Begun without reading a page: all pages come from files written to meanwhile.
    let early = store.begin(Mode::Read).unwrap();
    write(&mut peer, 10, 2);
    let late = other.begin(Mode::Read).unwrap();
    for round in 0..20 {
        write(&mut peer, 100 + round, round % 7);
    }
    let (log, moved) = peer.checkpoint();
    assert!(moved > 0, "the checkpoint did not begin");
    assert!(moved < log, "the checkpoint went past a reader: {moved} of {log}");
    let expect = |rounds: &[i64]| {
        let of = |rest: i64| (1..=ROWS).filter(|id| id % 7 == rest).count() as i64;
        rounds.iter().enumerate().map(|(rest, round)| round * of(rest as i64)).sum::<i64>()
    };
    assert_eq!(sum(&early), expect(&[0, 1]));
    assert_eq!(sum(&late), expect(&[0, 1, 10]));
    assert_eq!(sum(&early), expect(&[0, 1]));
    let newest = [114, 115, 116, 117, 118, 119, 113];
    assert_eq!(sum(&open(&path).begin(Mode::Read).unwrap()), expect(&newest));
    // The older one goes, and the checkpoint comes up to the other.
    drop(early);
    let (_, further) = peer.checkpoint();
    assert!(further > moved, "{further} {moved}");
    assert_eq!(sum(&late), expect(&[0, 1, 10]));
    drop(late);
    let (log, moved) = peer.checkpoint();
    assert_eq!(log, moved);
    // The whole log is checkpointed: the next write begins a new log, under the next reader.
    let whole = store.begin(Mode::Read).unwrap();
    write(&mut peer, 500, 0);
    write(&mut peer, 500, 1);
    let (log, moved) = peer.checkpoint();
    assert!(moved < log, "the checkpoint wrote under a reader of the database alone");
    assert_eq!(sum(&whole), expect(&newest));
    drop(whole);
    let last = [500, 500, 116, 117, 118, 119, 113];
    assert_eq!(sum(&store.begin(Mode::Read).unwrap()), expect(&last));
    assert_eq!(peer.ask("PRAGMA integrity_check;"), "ok");
}

#[test]
fn an_index_that_was_made_anew_is_the_one_that_counts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let Some(mut first) = peer(&path) else {
        eprintln!("skipped: there is no sqlite3 command");
        return;
    };
    let store = open(&path);
    write(&mut first, 1, 1);
    let one = sum(&store.begin(Mode::Read).unwrap());
    // The last connection closes, and removes log and index.
    quit(first);
    assert!(!folder.path().join("db-shm").exists());
    let mut second = Peer::start(&path).unwrap();
    write(&mut second, 2, 2);
    let two = sum(&store.begin(Mode::Read).unwrap());
    assert!(two > one);
    write(&mut second, 3, 3);
    assert!(sum(&store.begin(Mode::Read).unwrap()) > two);
}

/// A commit costs readers the pages it changed, and no others.
#[test]
fn pages_that_did_not_change_stay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let Some(mut peer) = peer(&path) else {
        eprintln!("skipped: there is no sqlite3 command");
        return;
    };
    let store = open(&path);
    let before = sum(&store.begin(Mode::Read).unwrap());
    let known = |txn: &Transaction| {
        let pages = (1..=txn.page_count()).filter_map(Pgno::new);
        let known = pages.filter(|pgno| txn.page_bytes(*pgno).is_some());
        (known.count(), txn.page_count() as usize)
    };
    for round in 1..5 {
        assert_eq!(peer.ask("UPDATE t SET round = round + 1 WHERE id = 5; SELECT 1;"), "1");
        if round == 3 {
            // A checkpoint moves pages from the log into the database without changing the state.
            let (log, moved) = peer.checkpoint();
            assert_eq!(log, moved);
        }
        let txn = store.begin(Mode::Read).unwrap();
        if round == 3 {
            assert_eq!(sum(&txn), before + round);
            continue;
        }
        let (known, all) = known(&txn);
        assert!(all > 50 && (round == 4 || known + 5 > all), "{round}: {known} of {all}");
        assert_eq!(sum(&txn), before + round);
    }
    write(&mut peer, 9, 1);
    write(&mut peer, 11, 2);
    assert_eq!(
        sum(&store.begin(Mode::Read).unwrap()),
        sum(&open(&path).begin(Mode::Read).unwrap())
    );
}

/// A store opened for writing opens log and index as SQLite does: a transaction begun alone goes on
/// beside later writers.
#[test]
fn who_reads_alone_reads_on() {
    let folder = tempfile::tempdir().unwrap();
    let (path, index) = (folder.path().join("db"), folder.path().join("db-shm"));
    let Some(mut first) = peer(&path) else {
        eprintln!("skipped: there is no sqlite3 command");
        return;
    };
    write(&mut first, 1, 1);
    // The files left by a crashed program: a log, and nobody with the database open.
    let crashed = folder.path().join("crashed");
    let copy = |from: &str, to: &str| {
        std::fs::copy(folder.path().join(from), folder.path().join(to)).unwrap();
    };
    copy("db", "crashed");
    copy("db-wal", "crashed-wal");
    quit(first);
    assert!(!index.exists() && !folder.path().join("db-wal").exists());
    let expect = |rounds: &[i64]| {
        let of = |rest: i64| (1..=ROWS).filter(|id| id % 7 == rest).count() as i64;
        rounds.iter().enumerate().map(|(rest, round)| round * of(rest as i64)).sum::<i64>()
    };
    for path in [&path, &crashed] {
        let store = open_for(Access::ReadWrite, path);
        // Begun, but not a page was read.
        let txn = store.begin(Mode::Read).unwrap();
        assert!(!txn.is_stale().unwrap());
        for round in 2..5 {
            // Each ends with the transaction in its way, and leaves log and index behind.
            let mut peer = Peer::start(path).unwrap();
            assert_eq!(peer.ask("PRAGMA wal_autocheckpoint = 0;"), "0");
            write(&mut peer, 10 * round, round);
            let (log, moved) = peer.checkpoint();
            assert!(log > 0 && moved < log, "{moved} of {log}");
            assert!(peer.ask("PRAGMA wal_checkpoint(TRUNCATE);").starts_with("1|"));
            write(&mut peer, 20 * round, round);
            assert!(txn.is_stale().unwrap());
            quit(peer);
        }
        assert_eq!(sum(&txn), expect(&[0, 1]));
        drop(txn);
        let now = [0, 1, 40, 60, 80];
        let mut peer = Peer::start(path).unwrap();
        assert_eq!(sum(&store.begin(Mode::Read).unwrap()), expect(&now));
        assert!(peer.ask("PRAGMA wal_checkpoint(TRUNCATE);").starts_with("0|"));
        write(&mut peer, 7, 1);
        let txn = store.begin(Mode::Read).unwrap();
        let now = [0, 7, 40, 60, 80];
        assert_eq!(sum(&txn), expect(&now));
        drop(txn);
        assert_eq!(peer.ask("PRAGMA integrity_check;"), "ok");
        quit(peer);
        assert_eq!(sum(&store.begin(Mode::Read).unwrap()), expect(&now));
    }
    // The last user of the log has checkpointed and removed it.
    for name in ["db-shm", "db-wal", "crashed-shm", "crashed-wal"] {
        assert!(!folder.path().join(name).exists(), "{name}");
    }
}
