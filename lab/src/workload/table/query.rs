//! A row of one SQL statement: prepared once, run many times, its rows read as borrowed values.

use std::path::PathBuf;
use std::sync::Arc;

use super::open;
use crate::answer::{Answer, Digest, touch};
use crate::engine::table::{Cell, Fields};
use crate::engine::{Miss, TableEngine};
use crate::random::Random;
use crate::workload::{Context, Sampler, sampler};

/// One statement, and the parts read of its rows.
#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) sql: String,
    /// Columns read of every row in the timed region, from the first on; 0 counts rows only.
    pub(super) columns: usize,
    /// Columns compared by the full answer.
    pub(super) width: usize,
    pub(super) parameter: Parameter,
    /// The column ordering the rows, when only its values are determined: rows tied at a LIMIT may
    /// differ.
    pub(super) determined: Option<usize>,
    /// How many rows there must be, where the data set's description says so.
    pub(super) expected: Option<u64>,
}

/// The value bound to `?1`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Parameter {
    None,
    Int(i64),
    Text(&'static str),
    /// One of 512 numbers from 1 to the bound, another one each time.
    Random(u64),
}

impl Query {
    pub(super) fn new(sql: &str, width: usize) -> Self {
        Self {
            sql: sql.to_owned(),
            columns: width,
            width,
            parameter: Parameter::None,
            determined: None,
            expected: None,
        }
    }

    pub(super) fn reading(mut self, columns: usize) -> Self {
        self.columns = columns;
        self
    }

    pub(super) fn bound(mut self, parameter: Parameter) -> Self {
        self.parameter = parameter;
        self
    }

    pub(super) fn ordered_by(mut self, column: usize) -> Self {
        self.determined = Some(column);
        self
    }

    pub(super) fn giving(mut self, rows: u64) -> Self {
        self.expected = Some(rows);
        self
    }
}

/// Opens `path`, prepares the query, and samples `times` runs of the query.
pub(super) fn prepare<E: TableEngine>(
    engine: &Arc<E>,
    cx: &Context,
    path: PathBuf,
    query: &Query,
    times: usize,
) -> Result<Sampler, Miss> {
    let engine = Arc::clone(engine);
    let mut db = open(&*engine, &path, cx)?;
    let mut statement = engine.prepare(&mut db, &query.sql)?;
    let keys = keys(query.parameter, cx.seed);
    let query = query.clone();
    sampler(move |watch| {
        let read = query.columns;
        let (rows, sum) = watch.time(times as u64, || {
            let (mut rows, mut sum) = (0_u64, 0_u64);
            for time in 0..times {
                let visit = |row: &E::Row<'_>| {
                    rows += 1;
                    for column in 0..read {
                        sum = sum.wrapping_add(touch(row.cell(column)));
                    }
                };
                let key = keys.get(time % keys.len().max(1));
                engine.query(&mut db, &mut statement, key.as_slice_of_one(), visit)?;
            }
            Ok((rows, sum))
        })?;
        watch.figure("rows", rows as f64 / times as f64);
        if !watch.verifying() {
            return Ok(None);
        }
        let (mut count, mut total, mut order) = (0_u64, 0_u64, Digest::new());
        for key in keys.iter().take(8).map(Some).chain(keys.is_empty().then_some(None)) {
            engine.query(&mut db, &mut statement, key.as_slice_of_one(), |row| {
                count += 1;
                if let Some(column) = query.determined {
                    order = order.cell(row.cell(column));
                } else {
                    let digest = (0..query.width)
                        .fold(Digest::new(), |digest, column| digest.cell(row.cell(column)));
                    total = total.wrapping_add(digest.value());
                }
            })?;
        }
        if let Some(expected) = query.expected.filter(|&expected| expected != count) {
            return Err(Miss::Failed(format!("{count} rows, not the {expected} of the data set")));
        }
        // The sum is no part of the answer: SQL leaves the last bits of an average open.
        std::hint::black_box(sum);
        Ok(Some(Answer::of(order.int(rows).int(count).int(total))))
    })
}

fn keys(parameter: Parameter, seed: u64) -> Vec<Cell<'static>> {
    match parameter {
        Parameter::None => Vec::new(),
        Parameter::Int(value) => vec![Cell::Int(value)],
        Parameter::Text(text) => vec![Cell::Text(text.as_bytes())],
        Parameter::Random(bound) => {
            rowids(seed, bound, RANDOM_KEYS).into_iter().map(Cell::Int).collect()
        }
    }
}

/// `count` rowids from 1 to `bound`, with replacement.
pub(super) fn rowids(seed: u64, bound: u64, count: usize) -> Vec<i64> {
    let mut random = Random::new(seed);
    (0..count).map(|_| random.below(bound).cast_signed() + 1).collect()
}

/// As many as Sharc's own benchmark draws.
pub(super) const RANDOM_KEYS: usize = 512;

/// The parameters of a statement with one or none.
trait OneOrNone<'a> {
    fn as_slice_of_one(&self) -> &[Cell<'a>];
}

impl<'a> OneOrNone<'a> for Option<&Cell<'a>> {
    fn as_slice_of_one(&self) -> &[Cell<'a>] {
        self.map_or(&[], std::slice::from_ref)
    }
}
