//! Writes: the database is made outside the timing, and a commit is durable on return.

use std::path::PathBuf;
use std::sync::Arc;

use super::{remove, row};
use crate::answer::{Answer, Digest};
use crate::engine::table::{Access, Cell, Fields, TableSpec};
use crate::engine::{Miss, TableEngine};
use crate::random::Random;
use crate::workload::{Bench, Context, Family, Row, sampler};

/// Sharc's log table.
const LOGS: TableSpec = TableSpec {
    name: "logs",
    create: "CREATE TABLE logs (id INTEGER PRIMARY KEY, message TEXT NOT NULL, level INTEGER NOT \
             NULL, timestamp INTEGER NOT NULL)",
    columns: &["id", "message", "level", "timestamp"],
};

/// Sharc's events, for the rows changing an indexed table.
pub(super) const EVENTS: TableSpec = TableSpec {
    name: "events",
    create: "CREATE TABLE events (id INTEGER PRIMARY KEY, user_id INTEGER NOT NULL, event_type \
             INTEGER NOT NULL, timestamp INTEGER NOT NULL)",
    columns: &["id", "user_id", "event_type", "timestamp"],
};

/// Rows that come in no order, in a table with an index on every column.
const NOTES: TableSpec = TableSpec {
    name: "notes",
    create: "CREATE TABLE notes (id INTEGER PRIMARY KEY, author INTEGER NOT NULL, title TEXT NOT \
             NULL, changed INTEGER NOT NULL)",
    columns: &["id", "author", "title", "changed"],
};

pub(super) const GUARANTEE: &str = "durable: full fsync, rollback journal or the engine's own";

pub(super) fn add<E: TableEngine>(bench: &mut Bench<E>) {
    for size in [1_u64, 100, 1_000, 10_000] {
        inserts(bench, Family::Table, size);
    }
    insert_and_read(bench);
    single_commits(bench);
    logged_commits(bench);
    random_inserts(bench);
    changes(bench);
}

/// Rows `from..from + count` of the log, as Sharc writes them.
fn logs(from: usize, count: usize) -> (Vec<String>, Vec<[i64; 3]>) {
    let numbers = from..from + count;
    let messages = numbers
        .clone()
        .map(|number| format!("Log entry {number}: operation completed successfully"))
        .collect();
    let rest = numbers
        .map(|number| {
            let number = i64::try_from(number).expect("row sizes fit");
            [number + 1, number % 5, 1_700_000_000 + number]
        })
        .collect();
    (messages, rest)
}

fn cells<'a>(messages: &'a [String], rest: &[[i64; 3]]) -> Vec<Vec<Cell<'a>>> {
    messages
        .iter()
        .zip(rest)
        .map(|(message, [id, level, time])| {
            vec![
                Cell::Int(*id),
                Cell::Text(message.as_bytes()),
                Cell::Int(*level),
                Cell::Int(*time),
            ]
        })
        .collect()
}

/// A new database with an empty table, opened for writing.
pub(super) fn fresh<E: TableEngine>(
    engine: &E,
    cx: &Context,
    table: &TableSpec,
) -> Result<(PathBuf, E::Db), Miss> {
    let path = cx.scratch.join(format!("{}.db", table.name));
    remove(&path);
    let mut db = engine.open(&path, Access::Write, &cx.scratch)?;
    engine.create_table(&mut db, table)?;
    Ok((path, db))
}

fn read_back<E: TableEngine>(
    engine: &E,
    db: &mut E::Db,
    table: &TableSpec,
) -> Result<Digest, Miss> {
    let columns: Vec<usize> = (0..table.columns.len()).collect();
    let mut digest = Digest::new();
    engine.scan(db, table, &columns, |row| {
        for &column in &columns {
            digest = digest.cell(row.cell(column));
        }
    })?;
    Ok(digest)
}

pub(super) fn inserts<E: TableEngine>(bench: &mut Bench<E>, family: Family, size: u64) {
    let text = format!(
        "{size} log rows in one transaction into an empty table, statement prepared, commit \
         included; {GUARANTEE}"
    );
    let row =
        Row::new(family, &format!("insert/{size}"), "transaction", &text).in_series("insert", size);
    bench.add(row, move |engine, cx| {
        let (engine, cx) = (Arc::clone(engine), cx.clone());
        let count = usize::try_from(size).expect("small").min(cx.pick(10_000, 20));
        let (messages, rest) = logs(0, count);
        sampler(move |watch| {
            let (path, mut db) = fresh(&*engine, &cx, &LOGS)?;
            let rows = cells(&messages, &rest);
            watch.time(1, || engine.insert(&mut db, &LOGS, &rows))?;
            let digest = read_back(&*engine, &mut db, &LOGS)?;
            drop(db);
            remove(&path);
            Ok(Some(Answer::of(digest)))
        })
    });
}

fn insert_and_read<E: TableEngine>(bench: &mut Bench<E>) {
    let text = format!("100 log rows in one transaction, then all read back; {GUARANTEE}");
    bench.add(row("insert_read/100", "transaction", &text), |engine, cx| {
        let (engine, cx) = (Arc::clone(engine), cx.clone());
        let (messages, rest) = logs(0, cx.pick(100, 10));
        sampler(move |watch| {
            let (path, mut db) = fresh(&*engine, &cx, &LOGS)?;
            let rows = cells(&messages, &rest);
            let digest = watch.time(1, || {
                engine.insert(&mut db, &LOGS, &rows)?;
                read_back(&*engine, &mut db, &LOGS)
            })?;
            drop(db);
            remove(&path);
            Ok(Some(Answer::of(digest)))
        })
    });
}

fn single_commits<E: TableEngine>(bench: &mut Bench<E>) {
    let text = format!("one log row per transaction, 50 times; {GUARANTEE}: the disk's own time");
    bench.add(row("insert_commits", "transaction", &text), |engine, cx| {
        let (engine, cx) = (Arc::clone(engine), cx.clone());
        let (messages, rest) = logs(0, cx.pick(50, 3));
        sampler(move |watch| {
            let (path, mut db) = fresh(&*engine, &cx, &LOGS)?;
            let rows = cells(&messages, &rest);
            watch.time(rows.len() as u64, || {
                rows.chunks(1).try_for_each(|row| engine.insert(&mut db, &LOGS, row))
            })?;
            let digest = read_back(&*engine, &mut db, &LOGS)?;
            drop(db);
            remove(&path);
            Ok(Some(Answer::of(digest)))
        })
    });
}

fn logged_commits<E: TableEngine>(bench: &mut Bench<E>) {
    let text = "one log row per transaction, 50 times, in a write-ahead log; durable: full fsync";
    bench.add(row("insert_commits_wal", "transaction", text), |engine, cx| {
        let (engine, cx) = (Arc::clone(engine), cx.clone());
        let (messages, rest) = logs(0, cx.pick(50, 3));
        sampler(move |watch| {
            let (path, mut db) = fresh(&*engine, &cx, &LOGS)?;
            engine.execute(&mut db, "PRAGMA journal_mode = wal")?;
            let rows = cells(&messages, &rest);
            watch.time(rows.len() as u64, || {
                rows.chunks(1).try_for_each(|row| engine.insert(&mut db, &LOGS, row))
            })?;
            let digest = read_back(&*engine, &mut db, &LOGS)?;
            drop(db);
            remove(&path);
            Ok(Some(Answer::of(digest)))
        })
    });
}

/// So many notes with random keys and values, and the titles of theirs.
fn notes(random: &mut Random, count: usize) -> (Vec<String>, Vec<[i64; 3]>) {
    let title = |random: &mut Random| format!("note {:x}", random.below(1 << 40));
    let titles = (0..count).map(|_| title(random)).collect();
    let mut number = |bound: u64| random.below(bound).cast_signed();
    let rest = (0..count).map(|_| [number(1 << 52), number(1 << 20), number(1 << 40)]);
    (titles, rest.collect())
}

fn random_inserts<E: TableEngine>(bench: &mut Bench<E>) {
    let text = format!(
        "10,000 rows with random keys and values into a table of a million with three indexes, one \
         transaction, commit included, opened just now; {GUARANTEE}"
    );
    bench.add(row("insert_random/1M", "transaction", &text), |engine, cx| {
        let (engine, cx) = (Arc::clone(engine), cx.clone());
        let mut random = Random::new(7);
        let (whole, mut db) = fresh(&*engine, &cx, &NOTES)?;
        let (titles, rest) = notes(&mut random, cx.pick(1_000_000, 200));
        engine.insert(&mut db, &NOTES, &cells(&titles, &rest))?;
        for column in &NOTES.columns[1..] {
            let sql = format!("CREATE INDEX idx_notes_{column} ON notes({column})");
            engine.execute(&mut db, &sql)?;
        }
        drop(db);
        let (titles, rest) = notes(&mut random, cx.pick(10_000, 20));
        sampler(move |watch| {
            let path = cx.scratch.join("more.db");
            remove(&path);
            std::fs::copy(&whole, &path).map_err(Miss::failed)?;
            let mut db = engine.open(&path, Access::Write, &cx.scratch)?;
            let rows = cells(&titles, &rest);
            watch.time(1, || engine.insert(&mut db, &NOTES, &rows))?;
            let digest = read_back(&*engine, &mut db, &NOTES)?;
            drop(db);
            remove(&path);
            Ok(Some(Answer::of(digest)))
        })
    });
}

/// An `events` table of 10,000 rows with two indexes where the engine has them.
fn events<E: TableEngine>(engine: &E, cx: &Context) -> Result<(PathBuf, E::Db), Miss> {
    let (path, mut db) = fresh(engine, cx, &EVENTS)?;
    let rows: Vec<Vec<Cell<'_>>> = (1..=i64::try_from(cx.pick(10_000, 200)).expect("small"))
        .map(|id| {
            let of = |modulus: i64| Cell::Int(id * 7_919 % modulus + 1);
            vec![Cell::Int(id), of(1_000), of(50), Cell::Int(1_700_000_000 + id)]
        })
        .collect();
    engine.insert(&mut db, &EVENTS, &rows)?;
    engine.execute(&mut db, "CREATE INDEX idx_events_user ON events(user_id)")?;
    engine.execute(&mut db, "CREATE INDEX idx_events_time ON events(timestamp)")?;
    Ok((path, db))
}

fn changes<E: TableEngine>(bench: &mut Bench<E>) {
    for size in [1_usize, 100] {
        let text = format!(
            "set user_id of {size} of 10,000 events with two indexes, one transaction; {GUARANTEE}"
        );
        bench.add(row(&format!("update/{size}"), "transaction", &text), move |engine, cx| {
            let (engine, cx) = (Arc::clone(engine), cx.clone());
            let targets: Vec<(i64, i64)> =
                (1..=i64::try_from(size).expect("small")).map(|n| (n * 97, n % 1_000)).collect();
            sampler(move |watch| {
                let (path, mut db) = events(&*engine, &cx)?;
                watch.time(1, || engine.update(&mut db, &EVENTS, 1, &targets))?;
                let digest = read_back(&*engine, &mut db, &EVENTS)?;
                drop(db);
                remove(&path);
                Ok(Some(Answer::of(digest)))
            })
        });
        let text = format!(
            "delete {size} of 10,000 events with two indexes, one transaction; {GUARANTEE}"
        );
        bench.add(row(&format!("delete/{size}"), "transaction", &text), move |engine, cx| {
            let (engine, cx) = (Arc::clone(engine), cx.clone());
            let targets: Vec<i64> =
                (1..=i64::try_from(size).expect("small")).map(|n| n * 97).collect();
            sampler(move |watch| {
                let (path, mut db) = events(&*engine, &cx)?;
                watch.time(1, || engine.delete(&mut db, &EVENTS, &targets))?;
                let digest = read_back(&*engine, &mut db, &EVENTS)?;
                drop(db);
                remove(&path);
                Ok(Some(Answer::of(digest)))
            })
        });
    }
}
