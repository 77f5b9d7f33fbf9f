//! Sealed files: rows of the table family on files sealed by each cipher, beside the same file in
//! the clear; and opening by a passphrase.

use std::sync::Arc;

use super::keyed::{self, RANDOM_LOOKUP};
use super::{USERS_TABLE, Users, write};
use crate::answer::{Answer, Digest, touch};
use crate::engine::table::{Access, Fields};
use crate::engine::{Miss, TableEngine};
use crate::workload::{Bench, Family, Row, sampler};

/// A file smaller than a cache of 16,384 pages, and a larger one.
const SEALED_USERS: [Users; 2] = [Users::Core, Users::Generated { rows: 1_000_000, label: "1M" }];

pub(super) fn add<E: TableEngine>(bench: &mut Bench<E>) {
    for users in SEALED_USERS {
        keyed::lookups(bench, Family::Seal, users, RANDOM_LOOKUP);
        keyed::scan(bench, Family::Seal, users);
    }
    cold_scan(bench);
    write::inserts(bench, Family::Seal, 10_000);
    by_passphrase(bench);
}

/// The first scan of a store: every page is read, and opened, once.
fn cold_scan<E: TableEngine>(bench: &mut Bench<E>) {
    let users = Users::Generated { rows: 1_000_000, label: "1M" };
    let text = "open a database of 1,000,000 users, whose files are in the page cache and whose key \
                is known, then age and score of all";
    let row =
        Row::new(Family::Seal, "open_scan/1M", "scan", text).in_series("open_scan", 1_000_000);
    bench.add(row, move |engine, cx| {
        let engine = Arc::clone(engine);
        let path = users.path(cx)?;
        let copies = cx.copies(&path, &engine.about())?;
        drop(engine.open(&path, Access::Read, &copies)?);
        sampler(move |watch| {
            let (rows, sum) = watch.time(1, || {
                let mut db = engine.open(&path, Access::Read, &copies)?;
                let (mut rows, mut sum) = (0_u64, 0_u64);
                engine.scan(&mut db, &USERS_TABLE, &[3, 4], |row| {
                    rows += 1;
                    sum = sum.wrapping_add(touch(row.cell(0))).wrapping_add(touch(row.cell(1)));
                })?;
                Ok((rows, sum))
            })?;
            Ok(Some(Answer::of(Digest::new().int(rows).int(sum))))
        })
    });
}

fn by_passphrase<E: TableEngine>(bench: &mut Bench<E>) {
    let text = "open core.db by a passphrase (Argon2id, 64 MiB, 3 passes, 4 lanes), find one user \
                by rowid, close; on the plain file such a key is made beside";
    bench.add(Row::new(Family::Seal, "open_passphrase", "open", text), |engine, cx| {
        let engine = Arc::clone(engine);
        let (path, scratch) = (cx.corpus("sharc/core.db")?, cx.scratch.clone());
        let count = cx.pick(3, 1);
        drop(engine.open_by_passphrase(&path, &scratch)?);
        sampler(move |watch| {
            let sum = watch.time(count as u64, || {
                let mut sum = 0_u64;
                for _ in 0..count {
                    let mut db = engine.open_by_passphrase(&path, &scratch)?;
                    let mut reader = engine.reader(&mut db, &USERS_TABLE, &[1, 2])?;
                    engine.seek(&mut db, &mut reader, 2_500, |row| {
                        sum = sum.wrapping_add(touch(row.cell(0)));
                    })?;
                }
                Ok::<_, Miss>(sum)
            })?;
            Ok(Some(Answer::of(Digest::new().int(sum))))
        })
    });
}
