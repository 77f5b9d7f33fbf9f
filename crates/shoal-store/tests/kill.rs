//! Programs killed at random while they write: Shoal and the `sqlite3` command in turns, each
//! recovering the other's unfinished work.

#![allow(clippy::unwrap_used)]
#![allow(clippy::print_stderr, clippy::print_stdout)] // the killed program tells of its commits

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use common::{record, root};
use shoal_store::vfs::{Entropy, OsVfs, SeededEntropy};
use shoal_store::{
    Access, CheckpointMode, JournalMode, Mode, Options, Record, Rollback, Settings, Store,
    Synchronous, Transaction, ValueRef,
};

const SCHEMA: &str = "CREATE TABLE n(id INTEGER PRIMARY KEY, value INT);
    CREATE TABLE log(id INTEGER PRIMARY KEY, who TEXT, pad BLOB); INSERT INTO n VALUES(1, 0);";

/// The path of the database, in the environment of a program about to be killed.
const CHILD: &str = "SHOAL_KILL_CHILD";

fn open(path: &Path) -> Store {
    let options =
        Options { busy_timeout: Duration::from_secs(20), ..Options::new(Access::ReadWrite) };
    let store = Store::open_with(Arc::new(OsVfs::new()), path, options).unwrap();
    let settings = Settings {
        wal_autocheckpoint: 20,
        rollback: Rollback::Persist,
        synchronous: Synchronous::Normal,
        ..store.settings()
    };
    store.set_settings(settings);
    store
}

fn value(txn: &Transaction) -> i64 {
    let mut cursor = txn.table(root(txn, "n")).unwrap();
    assert!(cursor.next().unwrap());
    match Record::new(cursor.payload().unwrap()).unwrap().column(1).unwrap() {
        Some(ValueRef::Int(value)) => value,
        other => panic!("{other:?}"),
    }
}

/// The program to be killed: raises the counter and reports each commit, for as long as it lives.
#[test]
fn child() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let store = open(Path::new(&path));
    for round in 0.. {
        let mut txn = store.begin(Mode::Write).unwrap();
        let next = value(&txn) + 1;
        let (counter, log) = (root(&txn, "n"), root(&txn, "log"));
        txn.table_delete(counter, 1).unwrap();
        txn.table_insert(counter, 1, &record(&[ValueRef::Null, ValueRef::Int(next)])).unwrap();
        let pad = vec![7; if round % 9 == 0 { 30_000 } else { 300 }];
        let row = [ValueRef::Null, ValueRef::Text(b"shoal"), ValueRef::Blob(&pad)];
        txn.table_insert(log, next, &record(&row)).unwrap();
        txn.commit().unwrap();
        println!("told {next}");
        if round % 25 == 24 {
            store.checkpoint(CheckpointMode::Truncate).unwrap();
        }
    }
}

/// Starts a writer, lets it live for a while, kills it; returns the last commit reported.
fn live_and_die(path: &Path, by_us: bool, life: Duration) -> Option<i64> {
    let mut command = match by_us {
        true => {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "child", "--nocapture"]).env(CHILD, path);
            command
        }
        false => {
            let mut command = Command::new("sqlite3");
            command.arg(path);
            command
        }
    };
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = piped.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || {
        let line = "BEGIN IMMEDIATE; UPDATE n SET value = value + 1; INSERT INTO log SELECT value,
            'sqlite', zeroblob(abs(random() % 9000)) FROM n; COMMIT;
            SELECT 'told ' || value FROM n;\n";
        let start =
            "PRAGMA synchronous = normal;\n.timeout 20000\nPRAGMA wal_autocheckpoint = 15;\n";
        // The command is killed before reading all of its input.
        let _ = input.write_all(start.as_bytes());
        while !by_us && input.write_all(line.as_bytes()).is_ok() {}
    });
    let output = BufReader::new(child.stdout.take().unwrap());
    let reader = std::thread::spawn(move || {
        let told = |line: &String| line.strip_prefix("told ")?.parse::<i64>().ok();
        output.lines().map_while(Result::ok).filter_map(|line| told(&line)).last()
    });
    std::thread::sleep(life);
    child.kill().unwrap();
    child.wait().unwrap();
    feeder.join().unwrap();
    reader.join().unwrap()
}

/// The counter, the number of log rows, and a check of the whole file, by `sqlite3`.
fn found_by_sqlite(path: &Path) -> (i64, i64) {
    let sql = "PRAGMA integrity_check; SELECT value FROM n; SELECT count(*) FROM log;";
    let out = Command::new("sqlite3").arg(path).arg(sql).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[0]), (3, "ok"), "{text}");
    (lines[1].parse().unwrap(), lines[2].parse().unwrap())
}

fn found_by_us(path: &Path) -> (i64, i64) {
    let store = open(path);
    let txn = store.begin(Mode::Read).unwrap();
    let mut cursor = txn.table(root(&txn, "log")).unwrap();
    let mut count = 0;
    while cursor.next().unwrap() {
        count += 1;
    }
    (value(&txn), count)
}

/// A thousand kills: `SHOAL_KILLS=1000 cargo test -p shoal-store --test kill -- --nocapture`.
#[test]
fn what_was_told_outlives_the_program() {
    if Command::new("sqlite3").arg("--version").output().is_err() {
        eprintln!("skipped: there is no sqlite3 command");
        return;
    }
    let kills: u64 = std::env::var("SHOAL_KILLS").ok().and_then(|it| it.parse().ok()).unwrap_or(12);
    let chance = SeededEntropy::new(11);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    std::fs::write(&path, common::database(1024, 0, SCHEMA)).unwrap();
    let (mut commits, mut in_flight, mut longest) = (0, 0, 0);
    let mut last = 0;
    for kill in 0..kills {
        if kill % 6 == 0 {
            // Both journals have their turns, and the file stays short.
            let store = open(&path);
            let mut txn = store.begin(Mode::Write).unwrap();
            let log = root(&txn, "log");
            for id in 1..=last {
                txn.table_delete(log, id).unwrap();
            }
            let counter = root(&txn, "n");
            txn.table_delete(counter, 1).unwrap();
            txn.table_insert(counter, 1, &record(&[ValueRef::Null, ValueRef::Int(0)])).unwrap();
            txn.commit().unwrap();
            last = 0;
            let mode = match kill % 12 {
                0 => JournalMode::Wal,
                _ => JournalMode::Rollback(Rollback::Persist),
            };
            assert_eq!(store.set_journal_mode(mode).unwrap(), mode);
        }
        let mut random = [0; 2];
        chance.fill(&mut random);
        let life = Duration::from_micros(3_000 + u64::from(u16::from_ne_bytes(random)));
        let told = live_and_die(&path, kill % 2 == 0, life).unwrap_or(last);
        let log = std::fs::metadata(folder.path().join("db-wal")).map_or(0, |found| found.len());
        longest = longest.max(log);
        let recovered = if kill / 2 % 2 == 0 { found_by_sqlite(&path) } else { found_by_us(&path) };
        assert_eq!(recovered.0, recovered.1, "kill {kill}: counter and rows differ");
        assert!(
            (told..=told + 1).contains(&recovered.0),
            "kill {kill}: {told} told, {recovered:?}"
        );
        commits += recovered.0 - last;
        in_flight += recovered.0 - told;
        last = recovered.0;
        assert_eq!(found_by_sqlite(&path), recovered, "kill {kill}: the other finds another state");
    }
    assert!(commits > 0, "nobody lived long enough to commit");
    eprintln!(
        "{kills} kills, {commits} commits, {in_flight} of them not told; longest log {longest} bytes"
    );
}
