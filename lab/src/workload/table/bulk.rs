//! Work on whole tables: indexes made, files checked, counted and copied, rows taken from a file of
//! values. And what several threads do with one file in write-ahead log mode.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use super::write::{EVENTS, GUARANTEE};
use super::{remove, row};
use crate::answer::{Answer, Digest, touch};
use crate::engine::table::{Access, Cell, Fields};
use crate::engine::{Miss, TableEngine};
use crate::random::Random;
use crate::workload::{Bench, Context, sampler, threads};

/// A million orders: numbers and texts in no order.
const ORDERS: &str = "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER NOT NULL, kind \
                      INTEGER NOT NULL, name TEXT NOT NULL, time INTEGER NOT NULL)";

const INDEXES: [&str; 3] = [
    "CREATE INDEX orders_customer ON orders(customer)",
    "CREATE INDEX orders_name ON orders(name)",
    "CREATE INDEX orders_kind ON orders(kind, time)",
];

/// Whole statements on a copy of the orders, and the queries whose answers count.
struct Whole {
    name: &'static str,
    text: &'static str,
    /// Run before the clock.
    before: &'static [&'static str],
    timed: &'static str,
    /// The timed statement's own rows count, so many columns of them.
    width: usize,
    /// Compared afterwards, with the number of columns.
    checks: &'static [(&'static str, usize)],
}

const STATEMENTS: [Whole; 5] = [
    Whole {
        name: "create_index/int",
        text: "CREATE INDEX on integers in no order",
        before: &[],
        timed: INDEXES[0],
        width: 0,
        checks: &[("SELECT customer, id FROM orders ORDER BY customer LIMIT 500 OFFSET 5000", 2)],
    },
    Whole {
        name: "create_index/text",
        text: "CREATE INDEX on texts of 17 bytes, the first nine the same, in no order",
        before: &[],
        timed: INDEXES[1],
        width: 0,
        checks: &[("SELECT name, id FROM orders ORDER BY name LIMIT 500 OFFSET 5000", 2)],
    },
    Whole {
        name: "integrity_check",
        text: "PRAGMA integrity_check, with three indexes",
        before: &INDEXES,
        timed: "PRAGMA integrity_check",
        width: 1,
        checks: &[],
    },
    Whole {
        name: "analyze",
        text: "ANALYZE, with three indexes",
        before: &INDEXES,
        timed: "ANALYZE",
        width: 0,
        checks: &[("SELECT tbl, idx, stat FROM sqlite_stat1 ORDER BY idx", 3)],
    },
    Whole {
        name: "vacuum",
        text: "VACUUM, with three indexes and every third row deleted",
        before: &[INDEXES[0], INDEXES[1], INDEXES[2], "DELETE FROM orders WHERE id % 3 = 0"],
        timed: "VACUUM",
        width: 0,
        checks: &[("SELECT count(*), sum(id), sum(customer), max(name) FROM orders", 4)],
    },
];

pub(super) fn add<E: TableEngine>(bench: &mut Bench<E>) {
    for whole in STATEMENTS {
        statement(bench, whole);
    }
    import(bench);
    for size in [1, 16] {
        commits(bench, size);
    }
    readers(bench);
}

/// The rows of a query, digested.
pub(super) fn ask<E: TableEngine>(
    engine: &E,
    db: &mut E::Db,
    sql: &str,
    width: usize,
) -> Result<Digest, Miss> {
    let mut statement = engine.prepare(db, sql)?;
    let mut digest = Digest::new();
    engine.query(db, &mut statement, &[], |row| {
        digest = (0..width).fold(digest, |digest, column| digest.cell(row.cell(column)));
    })?;
    Ok(digest)
}

pub(super) fn require_maintenance<E: TableEngine>(engine: &E) -> Result<(), Miss> {
    match engine.maintains() {
        true => Ok(()),
        false => Err(Miss::absent("SQLite's statements on whole files")),
    }
}

/// The orders in a file, made once, with the statements of `before` run.
fn orders<E: TableEngine>(
    engine: &E,
    cx: &Context,
    name: &str,
    before: &[&str],
) -> Result<PathBuf, Miss> {
    let path = cx.scratch.join(format!("{}-base.db", name.replace('/', "-")));
    remove(&path);
    let mut db = engine.open(&path, Access::Write, &cx.scratch)?;
    engine.execute(&mut db, ORDERS)?;
    let count = cx.pick(1_000_000, 2_000);
    let rows = format!(
        "INSERT INTO orders WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE \
         x < {count}) SELECT x, x * 7919 % 1000003, x % 50, printf('customer-%08d', x * 31 % \
         1000003), 1700000000 + x FROM n"
    );
    engine.execute(&mut db, &rows)?;
    before.iter().try_for_each(|sql| engine.execute(&mut db, sql))?;
    drop(db);
    Ok(path)
}

fn statement<E: TableEngine>(bench: &mut Bench<E>, whole: Whole) {
    let text = format!("{}; a million rows, a copy of the file each time; {GUARANTEE}", whole.text);
    bench.add(row(whole.name, "statement", &text).taking_turns(), move |engine, cx| {
        require_maintenance(&**engine)?;
        let base = orders(&**engine, cx, whole.name, whole.before)?;
        let (engine, cx) = (Arc::clone(engine), cx.clone());
        let (timed, width, checks) = (whole.timed, whole.width, whole.checks);
        let path = cx.scratch.join(format!("{}.db", whole.name.replace('/', "-")));
        sampler(move |watch| {
            remove(&path);
            std::fs::copy(&base, &path).map_err(Miss::failed)?;
            let mut db = engine.open(&path, Access::Write, &cx.scratch)?;
            let mut digest = match width {
                0 => {
                    watch.time_threads(1, || engine.execute(&mut db, timed))?;
                    Digest::new()
                }
                width => watch.time_threads(1, || ask(&*engine, &mut db, timed, width))?,
            };
            for (sql, width) in checks {
                digest = digest.int(ask(&*engine, &mut db, sql, *width)?.value());
            }
            if watch.verifying() {
                let whole = ask(&*engine, &mut db, "PRAGMA integrity_check", 1)?;
                digest = digest.int(whole.value());
            }
            drop(db);
            watch.figure("file bytes", file_bytes(&path) as f64);
            remove(&path);
            Ok(watch.verifying().then(|| Answer::of(digest)))
        })
    });
}

fn file_bytes(path: &Path) -> u64 {
    path.metadata().map_or(0, |data| data.len())
}

/// Rows of separated values, made once.
fn values(cx: &Context) -> Result<PathBuf, Miss> {
    let path = cx.scratch.join("orders.csv");
    let mut text = String::from("number,customer,name,price,note\n");
    for number in 1..=cx.pick(1_000_000, 2_000) as u64 {
        let (customer, price) = (number * 7_919 % 1_000_003, number * 31 % 100_000);
        let (euros, cents) = (price / 100, price % 100);
        text.push_str(&format!(
            "{number},{customer},customer-{customer:08},{euros}.{cents:02},operation {number} done\n"
        ));
    }
    std::fs::write(&path, text).map_err(Miss::failed)?;
    Ok(path)
}

fn import<E: TableEngine>(bench: &mut Bench<E>) {
    let text = "a million rows of CSV (57 MB, five columns) by the engine's own command into a new file and a \
                table made for them: `shoal import`, `sqlite3` .import";
    bench.add(row("import", "file", text).taking_turns(), |engine, cx| {
        let (engine, cx) = (Arc::clone(engine), cx.clone());
        let csv = values(&cx)?;
        let path = cx.scratch.join("import.db");
        sampler(move |watch| {
            remove(&path);
            watch.time_threads(1, || engine.import(&csv, &path, "orders"))?;
            let mut db = engine.open(&path, Access::Write, &cx.scratch)?;
            // `sqlite3` makes columns of texts.
            let check = "SELECT count(*), sum(CAST(number AS INTEGER)), sum(CAST(customer AS \
                         INTEGER)), max(name), sum(CAST(price AS REAL)), min(note) FROM orders";
            let digest = ask(&*engine, &mut db, check, 6)?;
            drop(db);
            remove(&path);
            Ok(Some(Answer::of(digest)))
        })
    });
}

/// A file of events in write-ahead log mode.
fn with_log<E: TableEngine>(engine: &E, cx: &Context, name: &str) -> Result<PathBuf, Miss> {
    let path = cx.scratch.join(format!("{name}.db"));
    remove(&path);
    let mut db = engine.open(&path, Access::Write, &cx.scratch)?;
    engine.create_table(&mut db, &EVENTS)?;
    ask(engine, &mut db, "PRAGMA journal_mode = wal", 1)?;
    Ok(path)
}

fn event(id: i64) -> Vec<Cell<'static>> {
    vec![Cell::Int(id), Cell::Int(id % 1_000), Cell::Int(id % 50), Cell::Int(1_700_000_000 + id)]
}

fn commits<E: TableEngine>(bench: &mut Bench<E>, size: usize) {
    let text = format!(
        "{size} threads, each committing rows one by one in write-ahead log mode, every commit synced; \
         per commit"
    );
    let row = row(&format!("wal_commits/{size}"), "commit", &text)
        .in_series("wal_commits", size as u64)
        .taking_turns();
    bench.add(row, move |engine, cx| {
        require_maintenance(&**engine)?;
        let (engine, cx) = (Arc::clone(engine), cx.clone());
        let each = i64::try_from(cx.pick(960, 32) / size).expect("small");
        sampler(move |watch| {
            let path = with_log(&*engine, &cx, "wal_commits")?;
            let work = |number: usize, db: &mut E::Db| {
                let first = i64::try_from(number).expect("small") * each;
                (first..first + each)
                    .try_for_each(|id| engine.insert(db, &EVENTS, &[event(id + 1)]))
            };
            let count = size as u64 * each.cast_unsigned();
            watch.time_threads(count, || engine.on_handles(&path, size, &work))?;
            let mut db = engine.open(&path, Access::Write, &cx.scratch)?;
            let check = "SELECT count(*), sum(id), sum(timestamp) FROM events";
            let digest = ask(&*engine, &mut db, check, 3)?;
            drop(db);
            remove(&path);
            Ok(Some(Answer::of(digest)))
        })
    });
}

fn readers<E: TableEngine>(bench: &mut Bench<E>) {
    let text = "a reader on every core but one, each looking up 20,000 of 100,000 rows by rowid in write-ahead \
                log mode, beside a writer committing rows one by one; per row; figure `beside / alone`: a \
                reader's time over its time without the writer";
    bench.add(row("wal_readers", "row", text).taking_turns(), |engine, cx| {
        require_maintenance(&**engine)?;
        let (engine, cx) = (Arc::clone(engine), cx.clone());
        let rows = i64::try_from(cx.pick(100_000, 1_000)).expect("small");
        let reads = cx.pick(20_000, 50);
        let readers = threads().saturating_sub(1).max(1);
        sampler(move |watch| {
            let path = with_log(&*engine, &cx, "wal_readers")?;
            let mut db = engine.open(&path, Access::Write, &cx.scratch)?;
            ask(&*engine, &mut db, "PRAGMA journal_mode = wal", 1)?;
            let events: Vec<Vec<Cell<'_>>> = (1..=rows).map(event).collect();
            engine.insert(&mut db, &EVENTS, &events)?;
            drop(db);
            let (sum, spent) = (AtomicU64::new(0), AtomicU64::new(0));
            let read = |number: usize, db: &mut E::Db| {
                let mut reader = engine.reader(db, &EVENTS, &[0, 1, 3])?;
                let mut random = Random::new(number as u64 + 7);
                let start = Instant::now();
                let mut found = 0;
                for _ in 0..reads {
                    let rowid = random.below(rows.cast_unsigned()).cast_signed() + 1;
                    engine.seek(db, &mut reader, rowid, |row| found += touch(row.cell(1)))?;
                }
                spent.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
                sum.fetch_add(found, Ordering::Relaxed);
                Ok(())
            };
            engine.on_handles(&path, readers, &read)?;
            let alone = spent.swap(0, Ordering::Relaxed);
            let (left, written) = (AtomicU64::new(readers as u64), AtomicU64::new(0));
            let is_read = AtomicBool::new(false);
            let beside = |number: usize, db: &mut E::Db| {
                if number > 0 {
                    let done = read(number - 1, db);
                    // Also after a failure, or the writer would not end.
                    if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                        is_read.store(true, Ordering::Release);
                    }
                    return done;
                }
                let mut id = rows;
                while !is_read.load(Ordering::Acquire) {
                    id += 1;
                    engine.insert(db, &EVENTS, &[event(id)])?;
                    written.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            };
            let count = (readers * reads) as u64;
            watch.time_threads(count, || engine.on_handles(&path, readers + 1, &beside))?;
            watch.figure("beside / alone", spent.load(Ordering::Relaxed) as f64 / alone as f64);
            watch.figure("rows written meanwhile", written.load(Ordering::Relaxed) as f64);
            remove(&path);
            Ok(Some(Answer::of(Digest::new().int(sum.load(Ordering::Relaxed)))))
        })
    });
}
