//! Reads by rowid: SQL engines answer with a prepared statement, key-value stores natively.

use std::hint::black_box;

use super::query::{RANDOM_KEYS, rowids};
use super::{USERS, USERS_TABLE, Users, open, row};
use crate::answer::{Answer, Digest, touch};
use crate::engine::table::{Access, BATCH, Fields};
use crate::engine::{Miss, TableEngine};
use crate::workload::{Bench, Family, Row, sampler};

pub(super) fn add<E: TableEngine>(bench: &mut Bench<E>) {
    for users in USERS {
        lookups(bench, Family::Table, users, RANDOM_LOOKUP);
        let text = "only the rowid read, which needs no decoding";
        lookups(bench, Family::Table, users, ("random_lookup_id", &[0], RANDOM_KEYS, text));
        batches(bench, users);
        scan(bench, Family::Table, users);
    }
    let text = "rowid 2500 every time, which measures a cache and not a lookup: kept because \
                Sharc's baseline has it";
    lookups(bench, Family::Table, Users::Core, ("point_lookup", &[1, 2], 1, text));
    open_seek_close(bench);
}

/// Name of a row of lookups, columns read, distinct rowids, and the end of the row's text.
type Lookups = (&'static str, &'static [usize], usize, &'static str);

pub(super) const RANDOM_LOOKUP: Lookups =
    ("random_lookup", &[1, 2], RANDOM_KEYS, "name and email read");

pub(super) fn lookups<E: TableEngine>(
    bench: &mut Bench<E>,
    family: Family,
    users: Users,
    (name, columns, distinct, what): Lookups,
) {
    let text = format!(
        "users by rowid, {distinct} rowids of {} chosen by the seed; {what}",
        users.count()
    );
    let row = Row::new(family, &format!("{name}{}", users.suffix()), "lookup", &text)
        .in_series(name, users.count());
    bench.add(row, move |engine, cx| {
        let engine = std::sync::Arc::clone(engine);
        // More rowids than a small cache holds where the table is larger than one.
        let distinct = if users == Users::Core { distinct } else { cx.pick(20_000, 10) };
        let keys =
            if distinct == 1 { vec![2_500] } else { rowids(cx.seed, users.present(cx), distinct) };
        let count = cx.pick(20_000, 20);
        let mut db = open(&*engine, &users.path(cx)?, cx)?;
        let mut reader = engine.reader(&mut db, &USERS_TABLE, columns)?;
        sampler(move |watch| {
            let (found, sum) = watch.time(count as u64, || {
                let (mut found, mut sum) = (0_u64, 0_u64);
                for index in 0..count {
                    let key = black_box(keys[index % keys.len()]);
                    engine.seek(&mut db, &mut reader, key, |row| {
                        found += 1;
                        for column in 0..columns.len() {
                            sum = sum.wrapping_add(touch(row.cell(column)));
                        }
                    })?;
                }
                Ok((found, sum))
            })?;
            if !watch.verifying() {
                return Ok(None);
            }
            let mut digest = Digest::new().int(found).int(sum);
            for &key in keys.iter().take(RANDOM_KEYS) {
                engine.seek(&mut db, &mut reader, key, |row| {
                    for column in 0..columns.len() {
                        digest = digest.cell(row.cell(column));
                    }
                })?;
            }
            Ok(Some(Answer::of(digest)))
        })
    });
}

fn batches<E: TableEngine>(bench: &mut Bench<E>, users: Users) {
    let text = format!(
        "users by rowid, {BATCH} rowids of {} at a time, chosen by the seed; name and email read; \
         engines without such a call look them up one after the other",
        users.count()
    );
    let row = row(&format!("batch_lookup{}", users.suffix()), "lookup", &text)
        .in_series("batch_lookup", users.count());
    bench.add(row, move |engine, cx| {
        let engine = std::sync::Arc::clone(engine);
        let keys = rowids(cx.seed, users.present(cx), cx.pick(1_250, 2) * BATCH);
        let mut db = open(&*engine, &users.path(cx)?, cx)?;
        let mut reader = engine.reader(&mut db, &USERS_TABLE, &[1, 2])?;
        sampler(move |watch| {
            let (found, sum) = watch.time(keys.len() as u64, || {
                let (mut found, mut sum) = (0_u64, 0_u64);
                for keys in keys.chunks(BATCH) {
                    engine.seek_batch(&mut db, &mut reader, black_box(keys), |row| {
                        found += 1;
                        for column in 0..2 {
                            sum = sum.wrapping_add(touch(row.cell(column)));
                        }
                    })?;
                }
                Ok((found, sum))
            })?;
            if !watch.verifying() {
                return Ok(None);
            }
            let mut digest = Digest::new().int(found).int(sum);
            for keys in keys.chunks(BATCH).take(32) {
                engine.seek_batch(&mut db, &mut reader, keys, |row| {
                    for column in 0..2 {
                        digest = digest.cell(row.cell(column));
                    }
                })?;
            }
            Ok(Some(Answer::of(digest)))
        })
    });
}

pub(super) fn scan<E: TableEngine>(bench: &mut Bench<E>, family: Family, users: Users) {
    let text = format!("age and score of all {} users, through the keyed interface", users.count());
    let row = Row::new(family, &format!("keyed_scan{}", users.suffix()), "scan", &text)
        .in_series("keyed_scan", users.count());
    bench.add(row, move |engine, cx| {
        let engine = std::sync::Arc::clone(engine);
        let times = if users == Users::Core { cx.pick(50, 2) } else { 1 };
        let mut db = open(&*engine, &users.path(cx)?, cx)?;
        sampler(move |watch| {
            let (rows, sum) = watch.time(times as u64, || {
                let (mut rows, mut sum) = (0_u64, 0_u64);
                for _ in 0..times {
                    engine.scan(&mut db, &USERS_TABLE, &[3, 4], |row| {
                        rows += 1;
                        sum = sum.wrapping_add(touch(row.cell(0))).wrapping_add(touch(row.cell(1)));
                    })?;
                }
                Ok((rows, sum))
            })?;
            Ok(Some(Answer::of(Digest::new().int(rows).int(sum))))
        })
    });
}

fn open_seek_close<E: TableEngine>(bench: &mut Bench<E>) {
    let text = "open core.db, prepare, find one user by rowid, close; files in the page cache";
    bench.add(row("open_seek_close", "open", text), |engine, cx| {
        if !engine.opens_in_place() {
            return Err(Miss::NotRun("the database is not a file of the engine's own".into()));
        }
        let engine = std::sync::Arc::clone(engine);
        let (path, scratch) = (cx.corpus("sharc/core.db")?, cx.scratch.clone());
        let count = cx.pick(100, 2);
        // A first open may make the engine's own copy.
        drop(engine.open(&path, Access::Read, &scratch)?);
        sampler(move |watch| {
            let sum = watch.time(count as u64, || {
                let mut sum = 0_u64;
                for _ in 0..count {
                    let mut db = engine.open(&path, Access::Read, &scratch)?;
                    let mut reader = engine.reader(&mut db, &USERS_TABLE, &[1, 2])?;
                    engine.seek(&mut db, &mut reader, 2_500, |row| {
                        sum = sum.wrapping_add(touch(row.cell(0)));
                    })?;
                }
                Ok(sum)
            })?;
            Ok(Some(Answer::of(Digest::new().int(sum))))
        })
    });
}
