//! Times beside sqlite-vec and recall, where `SHOAL_VECTORS` names a folder with `base.f16.npy`,
//! `query.f16.npy` and `truth.cosine.top100.i4.npy`. Answers are compared first; turns alternate.
//!
//! `SHOAL_VECTORS=folder cargo test --release -p shoal-vector --test it -- speed:: --nocapture`

use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{run, shoal, sqlite};
use shoal_sql::{Connection, Value, ValueRef};

const ROUNDS: usize = 5;
const QUERIES: usize = 60;

/// The elements of an array file, behind its header.
fn array(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap();
    let header = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    bytes[10 + header..].to_vec()
}

/// Half floats as the blobs of floats.
fn floats(halves: &[u8], dimensions: usize) -> Vec<Vec<u8>> {
    let float = |two: &[u8; 2]| {
        let half = u32::from(u16::from_le_bytes(*two));
        let (exponent, fraction) = (half >> 10 & 0x1F, half & 0x3FF);
        let magnitude = match exponent {
            0 => fraction as f32 / 16_777_216.0,
            _ => f32::from_bits((exponent + 112) << 23 | fraction << 13),
        };
        if half & 0x8000 == 0 { magnitude } else { -magnitude }
    };
    let all: Vec<f32> = halves.as_chunks().0.iter().map(float).collect();
    all.chunks(dimensions)
        .map(|row| row.iter().flat_map(|float| float.to_le_bytes()).collect())
        .collect()
}

fn rows_of(connection: &mut Connection, sql: &str, query: &[u8]) -> Vec<(i64, f64)> {
    let mut statement = connection.prepare(sql).unwrap();
    statement.bind(1, Value::Blob(query.to_vec())).unwrap();
    let mut rows = connection.query(&mut statement).unwrap();
    let mut out = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        if let (ValueRef::Int(rowid), ValueRef::Real(distance)) = (row.get(0), row.get(1)) {
            out.push((rowid, distance));
        }
    }
    out
}

fn their_rows(connection: &rusqlite::Connection, sql: &str, query: &[u8]) -> Vec<(i64, f64)> {
    let mut statement = connection.prepare_cached(sql).unwrap();
    let rows = statement.query_map([query], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

fn per_query(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0 / QUERIES as f64
}

#[test]
fn times_beside_sqlite_vec() {
    let Some(folder) = std::env::var_os("SHOAL_VECTORS") else { return };
    let folder = Path::new(&folder);
    let base = floats(&array(&folder.join("base.f16.npy")), 256);
    let queries = floats(&array(&folder.join("query.f16.npy")), 256);
    let truth = array(&folder.join("truth.cosine.top100.i4.npy"));
    let place = tempfile::tempdir().unwrap();
    for (kind, cast) in [
        ("float[256] distance_metric=cosine", "?2"),
        ("int8[256]", "vec_quantize_int8(?2, 'unit')"),
        ("bit[256]", "vec_quantize_binary(?2)"),
    ] {
        let (own, their) = (place.path().join("own.db"), place.path().join("their.db"));
        let (mut shoal, sqlite) = (shoal(&own), sqlite(&their));
        let create = format!("CREATE VIRTUAL TABLE v USING vec0(e {kind})");
        let insert = format!("INSERT INTO v(rowid, e) VALUES (?1, {cast})");
        let begun = Instant::now();
        run(&mut shoal, &create, &[]);
        run(&mut shoal, "BEGIN", &[]);
        for (row, vector) in base.iter().enumerate() {
            run(&mut shoal, &insert, &[Value::Int(row as i64), Value::Blob(vector.clone())]);
        }
        run(&mut shoal, "COMMIT", &[]);
        let ours = begun.elapsed();
        let begun = Instant::now();
        sqlite.execute_batch(&create).unwrap();
        sqlite.execute_batch("BEGIN").unwrap();
        for (row, vector) in base.iter().enumerate() {
            let mut statement = sqlite.prepare_cached(&insert).unwrap();
            statement.execute((row as i64, vector)).unwrap();
        }
        sqlite.execute_batch("COMMIT").unwrap();
        println!("{kind}: load {ours:?}, sqlite-vec {:?}", begun.elapsed());
        let sql = format!(
            "SELECT rowid, distance FROM v WHERE e MATCH {} AND k = 10",
            cast.replace("?2", "?1")
        );
        let begun = Instant::now();
        let first = rows_of(&mut shoal, &sql, &queries[0]);
        let cold = begun.elapsed();
        let begun = Instant::now();
        let wanted = their_rows(&sqlite, &sql, &queries[0]);
        println!("{kind}: first query {cold:?}, sqlite-vec {:?}", begun.elapsed());
        assert_eq!((first.len(), wanted.len()), (10, 10));
        let mut recalled = 0;
        for (number, query) in queries.iter().take(QUERIES).enumerate() {
            let (got, wanted) =
                (rows_of(&mut shoal, &sql, query), their_rows(&sqlite, &sql, query));
            for ((_, got), (_, wanted)) in got.iter().zip(&wanted) {
                assert!((got - wanted).abs() < 1e-4, "{kind}: {got} and {wanted}");
            }
            let nearest: Vec<i64> = truth[number * 400..number * 400 + 40]
                .as_chunks()
                .0
                .iter()
                .map(|four| i64::from(i32::from_le_bytes(*four)))
                .collect();
            recalled += got.iter().filter(|(rowid, _)| nearest.contains(rowid)).count();
        }
        println!("{kind}: recall@10 {:.3}", recalled as f64 / (10 * QUERIES) as f64);
        let (mut least, mut their_least) = (f64::MAX, f64::MAX);
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            queries.iter().take(QUERIES).for_each(|it| drop(rows_of(&mut shoal, &sql, it)));
            least = least.min(per_query(begun.elapsed()));
            let begun = Instant::now();
            queries.iter().take(QUERIES).for_each(|it| drop(their_rows(&sqlite, &sql, it)));
            their_least = their_least.min(per_query(begun.elapsed()));
        }
        println!("{kind}: query {least:.3} ms, sqlite-vec {their_least:.3} ms");
        drop((shoal, sqlite));
        std::fs::remove_file(&own).unwrap();
        std::fs::remove_file(&their).unwrap();
    }
}
