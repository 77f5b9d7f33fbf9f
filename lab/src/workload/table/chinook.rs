//! Chinook's tracks: a table of real data, read whole and by rowid.

use super::query::{self, Parameter, Query};
use super::row;
use crate::engine::TableEngine;
use crate::workload::Bench;

/// Rows of `Track`, whose ids run from 1 without a gap.
const TRACKS: u64 = 3_503;

pub(super) fn add<E: TableEngine>(bench: &mut Bench<E>) {
    let rows = [
        (
            "chinook_scan_tracks",
            "scan",
            "all nine columns of all 3,503 tracks, read",
            Query::new("SELECT * FROM Track", 9).giving(TRACKS),
            20,
        ),
        (
            "chinook_lookup_10k",
            "lookup",
            "10,000 tracks by rowid, 512 rowids chosen by the seed; name and milliseconds read",
            Query::new("SELECT Name, Milliseconds FROM Track WHERE TrackId = ?1", 2)
                .bound(Parameter::Random(TRACKS)),
            10_000,
        ),
    ];
    for (name, unit, text, query, times) in rows {
        bench.add(row(name, unit, text), move |engine, cx| {
            query::prepare(
                engine,
                cx,
                cx.corpus("sqlite/chinook.sqlite")?,
                &query,
                cx.pick(times, 2),
            )
        });
    }
}
