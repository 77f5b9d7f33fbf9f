//! Small statements from their text: prepared, run for one row and ended, as people do who write
//! `execute("SELECT ... WHERE id = ?")` and keep nothing.

use std::hint::black_box;
use std::sync::Arc;

use super::query::{RANDOM_KEYS, rowids};
use super::{Users, open, row};
use crate::answer::{Answer, Digest, touch};
use crate::engine::table::{Cell, Fields, Keeping};
use crate::engine::{Miss, TableEngine};
use crate::workload::{Bench, sampler};

/// The lookup by a parameter: one text for all.
const BY_PARAMETER: &str = "SELECT name, email FROM users WHERE id = ?1";

pub(super) fn add<E: TableEngine>(bench: &mut Bench<E>) {
    for (name, keeping, what) in [
        ("prepare_new", Keeping::Nothing, "nothing is kept"),
        (
            "prepare_new/cached",
            Keeping::Cache,
            "the engine's own cache of statements is asked first",
        ),
    ] {
        let text = format!(
            "prepare, one of 5,000 users by rowid, end: another literal in each text; {what}"
        );
        bench.add(row(name, "statement", &text), move |engine, cx| {
            // A hundred thousand texts: none comes twice within a sample of 5,000.
            let texts: Vec<String> = (0..cx.pick(100_000, 40))
                .map(|number| {
                    let id = number % Users::Core.count() as usize + 1;
                    format!("SELECT name, email, {number} FROM users WHERE id = {id}")
                })
                .collect();
            let mut next = 0;
            lookups(engine, cx, keeping, move |_| {
                next = (next + 1) % texts.len();
                (texts[next].clone(), None)
            })
        });
    }
    for (name, keeping, what) in [
        ("prepare_same", Keeping::Nothing, "nothing is kept from one to the next"),
        ("prepare_same/direct", Keeping::Direct, "Shoal's DIRECT: nothing is kept, said aloud"),
        (
            "prepare_same/cached",
            Keeping::Cache,
            "the engine's own cache of statements; Shoal's CACHED keeps the plan",
        ),
        ("prepare_same/jit", Keeping::Jit, "Shoal's JIT, which keeps the plan as CACHED does"),
    ] {
        let text =
            format!("prepare, one of 5,000 users by rowid as a parameter, end: one text; {what}");
        bench.add(row(name, "statement", &text), move |engine, cx| {
            let keys = rowids(cx.seed, Users::Core.present(cx), RANDOM_KEYS);
            lookups(engine, cx, keeping, move |index| {
                (BY_PARAMETER.to_owned(), Some(keys[index % keys.len()]))
            })
        });
    }
    kept(bench);
}

/// Samples statements prepared for each lookup; `next` gives the text and the parameter of one of
/// them, outside of the timing.
fn lookups<E: TableEngine>(
    engine: &Arc<E>,
    cx: &crate::workload::Context,
    keeping: Keeping,
    mut next: impl FnMut(usize) -> (String, Option<i64>) + 'static,
) -> Result<crate::workload::Sampler, Miss> {
    let engine = Arc::clone(engine);
    let word = engine.word(keeping).ok_or_else(|| Miss::absent("keeping statements like this"))?;
    let mut db = open(&*engine, &Users::Core.path(cx)?, cx)?;
    let count = cx.pick(5_000, 20);
    sampler(move |watch| {
        let statements: Vec<(String, Option<i64>)> = (0..count)
            .map(&mut next)
            .map(|(sql, parameter)| (format!("{word}{sql}"), parameter))
            .collect();
        let (rows, sum) = watch.time(count as u64, || {
            let (mut rows, mut sum) = (0_u64, 0_u64);
            for (sql, parameter) in &statements {
                let parameter = parameter.map(Cell::Int);
                let visit = |row: &E::Row<'_>| {
                    rows += 1;
                    sum = sum.wrapping_add(touch(row.cell(0))).wrapping_add(touch(row.cell(1)));
                };
                engine.run_text(&mut db, black_box(sql), keeping, parameter.as_slice(), visit)?;
            }
            Ok((rows, sum))
        })?;
        // Texts go on from sample to sample: only the first sample's rows are the same for all
        // contenders.
        let answer = || Answer::of(Digest::new().int(rows).int(sum));
        Ok(watch.verifying().then(answer))
    })
}

/// The same lookup by a statement prepared once.
fn kept<E: TableEngine>(bench: &mut Bench<E>) {
    let text = "one of 5,000 users by rowid as a parameter, by a statement prepared once: what is \
                left when nothing is prepared";
    bench.add(row("prepare_same/kept", "statement", text), |engine, cx| {
        let engine = Arc::clone(engine);
        let keys = rowids(cx.seed, Users::Core.present(cx), RANDOM_KEYS);
        let mut db = open(&*engine, &Users::Core.path(cx)?, cx)?;
        let mut statement = engine.prepare(&mut db, BY_PARAMETER)?;
        let count = cx.pick(5_000, 20);
        sampler(move |watch| {
            let (rows, sum) = watch.time(count as u64, || {
                let (mut rows, mut sum) = (0_u64, 0_u64);
                for index in 0..count {
                    let key = [Cell::Int(black_box(keys[index % keys.len()]))];
                    engine.query(&mut db, &mut statement, &key, |row| {
                        rows += 1;
                        sum = sum.wrapping_add(touch(row.cell(0))).wrapping_add(touch(row.cell(1)));
                    })?;
                }
                Ok((rows, sum))
            })?;
            Ok(watch.verifying().then(|| Answer::of(Digest::new().int(rows).int(sum))))
        })
    });
}
