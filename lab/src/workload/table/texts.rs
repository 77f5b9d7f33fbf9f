//! Scripts: every statement a text of its own, with its values in the text, as dumps and programs
//! without parameters write them.

use std::hint::black_box;
use std::sync::Arc;

use super::row;
use super::write::{EVENTS, fresh};
use crate::answer::{Answer, Digest, touch};
use crate::engine::TableEngine;
use crate::engine::table::{Cell, Fields, Keeping};
use crate::random::Random;
use crate::workload::{Bench, sampler};

/// A row's name, what a statement of the row does, and its text by its number and an id.
type Script = (&'static str, &'static str, fn(u64, u64) -> String);

const SCRIPTS: [Script; 6] = [
    ("insert", "INSERT of a row of five values", |number, id| {
        format!("INSERT INTO notes VALUES (NULL, {id}, 'note {number}', {number}.25, NULL)")
    }),
    ("update", "UPDATE of an indexed column of a row by rowid", |number, id| {
        format!("UPDATE events SET user_id = {} WHERE id = {id}", number % 1_000)
    }),
    ("update_found", "UPDATE of an expression in rows by an index", |number, id| {
        format!("UPDATE events SET event_type = event_type + {number} WHERE timestamp = {id}")
    }),
    ("delete", "DELETE of a row by rowid", |_, id| format!("DELETE FROM events WHERE id = {id}")),
    ("upsert", "INSERT ... ON CONFLICT DO UPDATE of a row by rowid", |number, id| {
        format!(
            "INSERT INTO events VALUES ({id}, {number}, 1, {id}) ON CONFLICT (id) DO UPDATE SET \
             user_id = excluded.user_id"
        )
    }),
    ("join", "a row by rowid, and the number of its rows in an indexed table", |_, id| {
        format!(
            "SELECT e.user_id, count(*) FROM events e JOIN events f ON f.user_id = e.user_id WHERE \
             e.id = {id}"
        )
    }),
];

pub(super) fn add<E: TableEngine>(bench: &mut Bench<E>) {
    for (name, what, text_of) in SCRIPTS {
        let text = format!(
            "10,000 statements, {what}, each a text of its own; one transaction, rolled back; \
             10,000 events with two indexes"
        );
        bench.add(row(&format!("texts/{name}"), "statement", &text), move |engine, cx| {
            let engine = Arc::clone(engine);
            let count = cx.pick(10_000, 20) as u64;
            let (_, mut db) = fresh(&*engine, cx, &EVENTS)?;
            let rows: Vec<Vec<Cell<'_>>> = (1..=count)
                .map(|id| {
                    let of = |bound: u64| Cell::Int((id * 7_919 % bound).cast_signed());
                    vec![Cell::Int(id.cast_signed()), of(1_000), of(50), of(9_973)]
                })
                .collect();
            engine.insert(&mut db, &EVENTS, &rows)?;
            for sql in [
                "CREATE INDEX events_user ON events(user_id)",
                "CREATE INDEX events_time ON events(timestamp)",
                "CREATE TABLE notes (id INTEGER PRIMARY KEY, author INT, title TEXT, x REAL, rest)",
            ] {
                engine.execute(&mut db, sql)?;
            }
            let mut random = Random::new(11);
            // Texts go on from sample to sample, so that none comes twice in a row of samples.
            let mut next = 0;
            sampler(move |watch| {
                let texts: Vec<String> = (0..count)
                    .map(|number| text_of(next + number, random.below(count) + 1))
                    .collect();
                next += count;
                let mut run = |sql: &str, sum: &mut u64| {
                    engine.run_text(&mut db, sql, Keeping::Nothing, &[], |row: &E::Row<'_>| {
                        *sum = sum.wrapping_add(touch(row.cell(0)));
                    })
                };
                let mut sum = 0;
                run("BEGIN", &mut sum)?;
                watch.time(count, || {
                    texts.iter().try_for_each(|sql| run(black_box(sql), &mut sum))
                })?;
                let ask = "SELECT total(user_id) + 3 * total(event_type) + count(*) FROM events \
                           UNION ALL SELECT total(author) + total(length(title)) FROM notes";
                run(ask, &mut sum)?;
                run("ROLLBACK", &mut sum)?;
                Ok(watch.verifying().then(|| Answer::of(Digest::new().int(sum))))
            })
        });
    }
}
