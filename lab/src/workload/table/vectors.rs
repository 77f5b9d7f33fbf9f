//! Vectors in `vec0` tables: exact searches, an index of neighbours built and searched.
//!
//! An index may miss a neighbour: the answer of its rows is a recall of enough, counted by distance
//! against exact searches of the same file.

use std::path::PathBuf;
use std::sync::Arc;

use super::query::{self, Parameter, Query};
use super::{open, remove, row};
use crate::answer::{Answer, Digest};
use crate::engine::table::{Access, Cell, Fields, TableSpec};
use crate::engine::{Miss, TableEngine};
use crate::random::Random;
use crate::workload::{Bench, Context, sampler};

/// The elements of a vector.
const DIMENSIONS: usize = 256;
/// The numbers behind the elements: each vector is a sum of so many directions.
const DIRECTIONS: usize = 16;
/// Vectors to search with: none of them is a row's.
const QUERIES: u64 = 200;
const TEXT: &str = "21,528 vectors of 256 floats about 200 centres in 16 directions";

const VECTORS: TableSpec = TableSpec {
    name: "vectors",
    create: "CREATE TABLE vectors (id INTEGER PRIMARY KEY, part INTEGER NOT NULL, e BLOB NOT NULL)",
    columns: &["id", "part", "e"],
};

/// A kind of elements.
struct Kind {
    name: &'static str,
    column: &'static str,
    /// The function around a blob of floats.
    cast: &'static str,
    end: &'static str,
}

const KINDS: [Kind; 3] = [
    Kind { name: "f32", column: "float[256] distance_metric=cosine", cast: "vec_f32(", end: ")" },
    Kind { name: "int8", column: "int8[256]", cast: "vec_quantize_int8(", end: ", 'unit')" },
    Kind { name: "bit", column: "bit[256]", cast: "vec_quantize_binary(", end: ")" },
];

const INDEX: &str = "CREATE VIRTUAL TABLE near USING vec_index(found, e)";

/// Name, share of the rows, condition on them, least recall.
const SEARCHES: [(&str, &str, &str, f64); 4] = [
    ("index", "", "", 0.97),
    ("index-20", " among 20 % of the rows", " AND part < 2000", 0.95),
    ("index-3.8", " among 3.8 % of the rows", " AND part < 380", 0.95),
    ("index-0.07", " among 0.07 % of the rows", " AND part < 7", 0.95),
];

pub(super) fn add<E: TableEngine>(bench: &mut Bench<E>) {
    for kind in &KINDS {
        let text = format!("the ten nearest, exactly, of {} elements; {TEXT}", kind.name);
        let name = format!("vector/exact-{}", kind.name);
        bench.add(row(&name, "query", &text), move |engine, cx| {
            let path = base(&**engine, cx, kind, None)?;
            let sql = format!(
                "SELECT rowid FROM found WHERE e MATCH {} AND k = 10",
                kind.of("(SELECT e FROM vectors WHERE id = ?1)")
            );
            let query = Query::new(&sql, 1).bound(Parameter::Random(QUERIES)).giving(80);
            query::prepare(engine, cx, path, &query, cx.pick(100, 2))
        });
    }
    let text = format!("an index of neighbours made by one statement; {TEXT}");
    bench.add(row("vector/build", "table", &text), move |engine, cx| {
        let base = base(&**engine, cx, &KINDS[0], None)?;
        let (engine, cx) = (Arc::clone(engine), cx.clone());
        let path = cx.scratch.join("vector-build.db");
        sampler(move |watch| {
            remove(&path);
            std::fs::copy(&base, &path).map_err(Miss::failed)?;
            let before = std::fs::metadata(&path).map_err(Miss::failed)?.len();
            let mut db = engine.open(&path, Access::Write, &cx.scratch)?;
            watch.time_threads(1, || engine.execute(&mut db, INDEX))?;
            drop(db);
            let after = std::fs::metadata(&path).map_err(Miss::failed)?.len();
            watch.figure("bytes", (after - before) as f64);
            remove(&path);
            Ok(watch.verifying().then(|| Answer::of(Digest::new().int(1))))
        })
    });
    for &(name, share, condition, least) in &SEARCHES {
        let text = format!(
            "the ten nearest{share} by an index, recall@10 at least {least} as the answer; {TEXT}"
        );
        bench.add(row(&format!("vector/{name}"), "query", &text), move |engine, cx| {
            let path = base(&**engine, cx, &KINDS[0], Some(INDEX))?;
            let engine = Arc::clone(engine);
            let mut db = open(&*engine, &path, cx)?;
            let sql = |more: &str| {
                format!(
                    "SELECT distance FROM found WHERE e MATCH (SELECT e FROM vectors WHERE id = \
                     ?1) AND k = 10{condition}{more} ORDER BY distance"
                )
            };
            let mut near = engine.prepare(&mut db, &sql(""))?;
            let mut exact = engine.prepare(&mut db, &sql(" AND ef = 0"))?;
            let times = cx.pick(QUERIES as usize, 2);
            sampler(move |watch| {
                let mut found = Vec::with_capacity(times);
                watch.time(times as u64, || {
                    (1..=times as i64).try_for_each(|key| {
                        found.push(distances(&*engine, &mut db, &mut near, key)?);
                        Ok::<(), Miss>(())
                    })
                })?;
                if !watch.verifying() {
                    return Ok(None);
                }
                let (mut hits, mut all) = (0_u32, 0_u32);
                for (key, found) in (1..).zip(&found) {
                    let wanted = distances(&*engine, &mut db, &mut exact, key)?;
                    let farthest = wanted.last().copied().unwrap_or(0.0);
                    hits += found.iter().filter(|distance| **distance <= farthest).count() as u32;
                    all += wanted.len() as u32;
                }
                // So few rows of a quick run meet a condition as none.
                let recall = if all == 0 { 1.0 } else { f64::from(hits) / f64::from(all) };
                watch.figure("recall", recall);
                match recall >= least {
                    true => Ok(Some(Answer::of(Digest::new().int(1)))),
                    false => Err(Miss::Failed(format!("recall@10 is {recall:.3}, below {least}"))),
                }
            })
        });
    }
}

/// The distances found by one query.
fn distances<E: TableEngine>(
    engine: &E,
    db: &mut E::Db,
    statement: &mut E::Statement,
    key: i64,
) -> Result<Vec<f64>, Miss> {
    let mut found = Vec::with_capacity(10);
    engine.query(db, statement, &[Cell::Int(key)], |row| {
        if let Cell::Real(distance) = row.cell(0) {
            found.push(distance);
        }
    })?;
    Ok(found)
}

impl Kind {
    fn of(&self, blob: &str) -> String {
        format!("{}{blob}{}", self.cast, self.end)
    }
}

/// Part number and floats of each row, after the vectors to search with.
fn vectors(cx: &Context) -> Vec<(i64, Vec<u8>)> {
    let mut random = Random::new(cx.seed);
    let mut numbers =
        |count: usize| -> Vec<f64> { (0..count).map(|_| random.unit() * 2.0 - 1.0).collect() };
    let directions: Vec<Vec<f64>> = (0..DIRECTIONS).map(|_| numbers(DIMENSIONS)).collect();
    let centres: Vec<Vec<f64>> = (0..200).map(|_| numbers(DIRECTIONS)).collect();
    let count = cx.pick(21_528, 300) + QUERIES as usize;
    let mut rows = Vec::with_capacity(count);
    for _ in 0..count {
        let chosen = numbers(2);
        let centre = &centres[((chosen[0] + 1.0) * 100.0) as usize % centres.len()];
        let place: Vec<f64> = centre
            .iter()
            .zip(numbers(DIRECTIONS))
            .map(|(centre, own)| centre + own / 2.0)
            .collect();
        let mut floats = vec![0.0; DIMENSIONS];
        for (share, direction) in place.iter().zip(&directions) {
            for (float, along) in floats.iter_mut().zip(direction) {
                *float += share * along;
            }
        }
        let length = floats.iter().map(|float| float * float).sum::<f64>().sqrt();
        let bytes = floats.iter().flat_map(|float| ((float / length) as f32).to_le_bytes());
        rows.push((((chosen[1] + 1.0) * 5000.0) as i64, bytes.collect()));
    }
    rows
}

/// A file with the vectors as blobs and in a `vec0` table of a kind of elements, made once.
fn base<E: TableEngine>(
    engine: &E,
    cx: &Context,
    kind: &Kind,
    index: Option<&str>,
) -> Result<PathBuf, Miss> {
    if !engine.has_vectors() {
        return Err(Miss::absent("vec0 tables"));
    }
    let which = if index.is_some() { "-index" } else { "" };
    let path = cx.scratch.join(format!("vector-{}{which}.db", kind.name));
    if path.exists() {
        return Ok(path);
    }
    let mut db = engine.open(&path, Access::Write, &cx.scratch)?;
    engine.create_table(&mut db, &VECTORS)?;
    let vectors = vectors(cx);
    let cells: Vec<Vec<Cell<'_>>> = (1..)
        .zip(&vectors)
        .map(|(id, (part, e))| vec![Cell::Int(id), Cell::Int(*part), Cell::Blob(e)])
        .collect();
    engine.insert(&mut db, &VECTORS, &cells)?;
    let column = kind.column;
    engine.execute(
        &mut db,
        &format!("CREATE VIRTUAL TABLE found USING vec0(e {column}, part integer)"),
    )?;
    engine.execute(
        &mut db,
        &format!(
            "INSERT INTO found(rowid, e, part) SELECT id, {}, part FROM vectors WHERE id > \
             {QUERIES}",
            kind.of("e")
        ),
    )?;
    index.iter().try_for_each(|sql| engine.execute(&mut db, sql))?;
    Ok(path)
}
