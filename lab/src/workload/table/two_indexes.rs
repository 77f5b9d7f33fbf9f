//! Conditions served by two indexes, each finding many rows alone.

use super::query::{self, Parameter, Query};
use super::row;
use super::write::{EVENTS, fresh};
use crate::engine::TableEngine;
use crate::engine::table::Cell;
use crate::random::Random;
use crate::workload::Bench;

/// Counts of users and of types: each user and each type has a few hundred events.
const USERS: u64 = 500;
const TYPES: u64 = 400;

pub(super) fn add<E: TableEngine>(bench: &mut Bench<E>) {
    let text = "events of a user and of a type, of 100,000 with an index on each: about 200 are the user's, \
                250 of the type, and none or one is both; a random one of 400 numbers; count and sum of \
                timestamp";
    bench.add(row("two_indexes", "query", text), |engine, cx| {
        let (path, mut db) = fresh(&**engine, cx, &EVENTS)?;
        let mut random = Random::new(42);
        let events: Vec<Vec<Cell<'_>>> = (1..=i64::try_from(cx.pick(100_000, 2_000))
            .expect("small"))
            .map(|id| {
                let mut one_of = |count| Cell::Int(random.below(count).cast_signed() + 1);
                vec![Cell::Int(id), one_of(USERS), one_of(TYPES), Cell::Int(1_700_000_000 + id)]
            })
            .collect();
        engine.insert(&mut db, &EVENTS, &events)?;
        engine.execute(&mut db, "CREATE INDEX idx_events_user ON events(user_id)")?;
        engine.execute(&mut db, "CREATE INDEX idx_events_type ON events(event_type)")?;
        drop(db);
        const SQL: &str = "SELECT count(*), sum(timestamp) FROM events \
                           WHERE user_id = ?1 AND event_type = ?1";
        let query = Query::new(SQL, 2).bound(Parameter::Random(TYPES));
        query::prepare(engine, cx, path, &query, cx.pick(2_000, 2))
    });
}
