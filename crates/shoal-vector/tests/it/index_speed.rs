//! Recall and times of indexes on real vectors, where `SHOAL_VECTORS` names the folder with
//! `cargo-commits` and `mnist-10k`, or one of them. Turns of all ways alternate; `gzip` must be
//! there.
//!
//! `SHOAL_VECTORS=folder cargo test --release -p shoal-vector --test it -- index_speed::
//! --nocapture`

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::support::{run, shoal, sqlite};
use shoal_sql::{Connection, Statement, Value, ValueRef};

const ROUNDS: usize = 5;

fn unzipped(path: &Path) -> Vec<u8> {
    let output = Command::new("gzip").arg("-dc").arg(path).output().unwrap();
    assert!(output.status.success(), "gzip -dc {}", path.display());
    output.stdout
}

/// The elements of an array file, behind its header.
fn array(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap();
    let header = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    bytes[10 + header..].to_vec()
}

fn numbers(path: &Path) -> Vec<usize> {
    let bytes = array(path);
    bytes.as_chunks().0.iter().map(|four| i32::from_le_bytes(*four) as usize).collect()
}

fn widened(half: u16) -> f32 {
    let half = u32::from(half);
    let (exponent, fraction) = (half >> 10 & 0x1F, half & 0x3FF);
    let magnitude = match exponent {
        0 => fraction as f32 / 16_777_216.0,
        _ => f32::from_bits((exponent + 112) << 23 | fraction << 13),
    };
    if half & 0x8000 == 0 { magnitude } else { -magnitude }
}

fn rows(path: &Path, dimensions: usize) -> Vec<Vec<f32>> {
    let bytes = array(path);
    let floats: Vec<f32> =
        bytes.as_chunks().0.iter().map(|two| widened(u16::from_le_bytes(*two))).collect();
    floats.chunks(dimensions).map(<[f32]>::to_vec).collect()
}

fn blob(floats: &[f32]) -> Vec<u8> {
    floats.iter().flat_map(|float| float.to_le_bytes()).collect()
}

/// The fields of each record of a CSV file, without the head.
fn records(text: &str) -> Vec<Vec<String>> {
    let (mut all, mut record, mut field) = (Vec::new(), Vec::new(), String::new());
    let (mut is_quoted, mut chars) = (false, text.chars().peekable());
    while let Some(letter) = chars.next() {
        match (is_quoted, letter) {
            (true, '"') if chars.peek() == Some(&'"') => field.extend(chars.next()),
            (_, '"') => is_quoted = !is_quoted,
            (false, ',') => record.push(std::mem::take(&mut field)),
            (false, '\r') => {}
            (false, '\n') => {
                record.push(std::mem::take(&mut field));
                all.push(std::mem::take(&mut record));
            }
            (_, letter) => field.push(letter),
        }
    }
    all.remove(0);
    all
}

fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

/// A table of both programs, each in its own file.
struct Pair {
    folder: tempfile::TempDir,
    shoal: Connection,
    sqlite: rusqlite::Connection,
}

impl Pair {
    fn new(columns: &str, metadata: usize, rows: &[(Vec<u8>, Vec<Value>)]) -> Pair {
        let folder = tempfile::tempdir().unwrap();
        let (mut shoal, sqlite) =
            (shoal(&folder.path().join("own.db")), sqlite(&folder.path().join("their.db")));
        let create = format!("CREATE VIRTUAL TABLE v USING vec0({columns})");
        let places: Vec<String> = (1..=2 + metadata).map(|place| format!("?{place}")).collect();
        let names = ["", ", area, year, files"][usize::from(metadata > 0)];
        let insert = format!("INSERT INTO v(rowid, e{names}) VALUES ({})", places.join(", "));
        run(&mut shoal, &create, &[]);
        sqlite.execute_batch(&create).unwrap();
        run(&mut shoal, "BEGIN", &[]);
        sqlite.execute_batch("BEGIN").unwrap();
        let mut prepared = shoal.prepare(&insert).unwrap();
        for (rowid, (vector, metadata)) in rows.iter().enumerate() {
            let values = [Value::Int(rowid as i64), Value::Blob(vector.clone())];
            let values = values.into_iter().chain(metadata.iter().cloned());
            for (place, value) in values.enumerate() {
                prepared.bind(place + 1, value).unwrap();
            }
            shoal.execute(&mut prepared).unwrap();
            let mut theirs = sqlite.prepare_cached(&insert).unwrap();
            theirs.raw_bind_parameter(1, rowid as i64).unwrap();
            theirs.raw_bind_parameter(2, vector).unwrap();
            for (place, value) in metadata.iter().enumerate() {
                match value {
                    Value::Int(int) => theirs.raw_bind_parameter(place + 3, int).unwrap(),
                    Value::Text(text) => {
                        let text = std::str::from_utf8(text).unwrap();
                        theirs.raw_bind_parameter(place + 3, text).unwrap();
                    }
                    _ => unreachable!("metadata is text and numbers"),
                }
            }
            theirs.raw_execute().unwrap();
        }
        drop(prepared);
        run(&mut shoal, "COMMIT", &[]);
        sqlite.execute_batch("COMMIT").unwrap();
        Pair { folder, shoal, sqlite }
    }

    fn bytes(&self) -> u64 {
        std::fs::metadata(self.folder.path().join("own.db")).unwrap().len()
    }

    fn reopen(&mut self) {
        self.shoal = shoal(&self.folder.path().join("own.db"));
    }

    fn index(&mut self) {
        let before = self.bytes();
        let begun = Instant::now();
        run(&mut self.shoal, "CREATE VIRTUAL TABLE i USING vec_index(v, e)", &[]);
        let time = begun.elapsed();
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        println!(
            "  build {time:?}; table {:.1} MiB, index {:.1} MiB more",
            mib(before),
            mib(self.bytes() - before)
        );
        for (what, sql) in [("exact", " AND ef = 0"), ("index", "")] {
            self.reopen();
            let before = resident_kib();
            let begun = Instant::now();
            let sql = format!(
                "SELECT rowid FROM v WHERE e MATCH (SELECT e FROM v WHERE rowid = 7) AND k = 10{sql}"
            );
            let mut statement = self.shoal.prepare(&sql).unwrap();
            let mut rows = self.shoal.query(&mut statement).unwrap();
            while rows.next().unwrap().is_some() {}
            let (time, after) = (begun.elapsed(), resident_kib());
            println!(
                "  first query of a connection, {what}: {time:?}, {} KiB more resident",
                after.saturating_sub(before)
            );
        }
    }
}

fn asked(connection: &mut Connection, statement: &mut Statement, query: &[u8]) -> Vec<f64> {
    statement.bind(1, Value::Blob(query.to_vec())).unwrap();
    let mut rows = connection.query(statement).unwrap();
    let mut out = Vec::with_capacity(10);
    while let Some(row) = rows.next().unwrap() {
        if let ValueRef::Real(distance) = row.get(1) {
            out.push(distance);
        }
    }
    out
}

/// Recall by distance and times of one query, in turns; `farthest` has the distance of each
/// query's last true neighbour.
fn compare(pair: &mut Pair, what: &str, conditions: &str, queries: &[Vec<u8>], farthest: &[f64]) {
    let sql = |more: &str| {
        format!("SELECT rowid, distance FROM v WHERE e MATCH ?1 AND k = 10{more}{conditions}")
    };
    let efs = [" AND ef = 0", " AND ef = 16", " AND ef = 32", "", " AND ef = 128", " AND ef = 256"];
    let mut statements: Vec<Statement> =
        efs.iter().map(|ef| pair.shoal.prepare(&sql(ef)).unwrap()).collect();
    let mut theirs = pair.sqlite.prepare(&sql("")).unwrap();
    let mut found = vec![0; efs.len()];
    for (query, farthest) in queries.iter().zip(farthest) {
        for (found, statement) in found.iter_mut().zip(&mut statements) {
            let distances = asked(&mut pair.shoal, statement, query);
            *found += distances.iter().filter(|distance| **distance <= farthest + 1e-5).count();
        }
    }
    let mut times = vec![f64::MAX; efs.len() + 1];
    let some = &queries[..queries.len().min(200)];
    for _ in 0..ROUNDS {
        for (time, statement) in times.iter_mut().zip(&mut statements) {
            let begun = Instant::now();
            some.iter().for_each(|query| drop(asked(&mut pair.shoal, statement, query)));
            *time = time.min(begun.elapsed().as_secs_f64() * 1000.0 / some.len() as f64);
        }
        let begun = Instant::now();
        for query in some.iter().take(40) {
            let rows = theirs.query_map([query], |row| row.get::<_, f64>(1)).unwrap();
            assert!(rows.count() > 0);
        }
        let time = begun.elapsed().as_secs_f64() * 1000.0 / some.len().min(40) as f64;
        times[efs.len()] = times[efs.len()].min(time);
    }
    println!("  {what}: sqlite-vec {:.3} ms", times[efs.len()]);
    for ((ef, found), time) in efs.iter().zip(found).zip(times) {
        let ef = if ef.is_empty() { " AND ef = 64" } else { ef };
        let recall = found as f64 / (10 * queries.len()) as f64;
        println!("    {:>8}: {time:.3} ms, recall@10 {recall:.4}", &ef[5..]);
    }
}

#[test]
fn recall_and_times_on_real_vectors() {
    let Some(folder) = std::env::var_os("SHOAL_VECTORS") else { return };
    for (name, measure) in [("cargo-commits", commits as fn(&Path)), ("mnist-10k", images)] {
        let folder = Path::new(&folder).join(name);
        if folder.exists() {
            measure(&folder);
        }
    }
}

fn commits(folder: &Path) {
    let base = rows(&folder.join("base.f16.npy"), 256);
    let queries = rows(&folder.join("query.f16.npy"), 256);
    let text = String::from_utf8(unzipped(&folder.join("base.csv.gz"))).unwrap();
    let records = records(&text);
    assert_eq!(records.len(), base.len());
    let filled: Vec<(Vec<u8>, Vec<Value>)> = base
        .iter()
        .zip(&records)
        .map(|(vector, record)| {
            // Years of 365.2425 days are near enough but around midnights of New Year.
            let seconds: i64 = record[2].parse().unwrap();
            let year = 1970 + (seconds as f64 / 31_556_952.0).floor() as i64;
            let files: i64 = record[4].parse().unwrap();
            (blob(vector), vec![Value::text(record[3].as_str()), year.into(), files.into()])
        })
        .collect();
    println!("cargo-commits, {} x 256 floats, cosine", base.len());
    let columns = "e float[256] distance_metric=cosine, area text, year integer, files integer";
    let mut pair = Pair::new(columns, 3, &filled);
    pair.index();
    let blobs: Vec<Vec<u8>> = queries.iter().map(|query| blob(query)).collect();
    let cosine = |a: &[f32], b: &[f32]| {
        let sum = |a: &[f32], b: &[f32]| -> f64 {
            a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
        };
        1.0 - sum(a, b) / (sum(a, a) * sum(b, b)).sqrt()
    };
    let farthest = |truth: &[usize], each: usize| -> Vec<f64> {
        let last = truth.chunks(each).map(|row| row[9]);
        last.zip(&queries).map(|(last, query)| cosine(&base[last], query)).collect()
    };
    let truth = numbers(&folder.join("truth.cosine.top100.i4.npy"));
    compare(&mut pair, "all rows", "", &blobs, &farthest(&truth, 100));
    for (name, conditions) in [
        ("area-src", " AND area = 'src'"),
        ("area-tests", " AND area = 'tests'"),
        ("area-crates", " AND area = 'crates'"),
        ("files-ge20", " AND files >= 20"),
        ("area-benches", " AND area = 'benches'"),
    ] {
        let truth = numbers(&folder.join(format!("truth.{name}.top10.i4.npy")));
        compare(&mut pair, name, conditions, &blobs[..200], &farthest(&truth, 10));
    }
    let begun = Instant::now();
    run(&mut pair.shoal, "BEGIN", &[]);
    let insert = "INSERT INTO v(rowid, e, area, year, files) VALUES (?1, ?2, 'x', 1, 1)";
    for (row, query) in blobs.iter().take(500).enumerate() {
        run(
            &mut pair.shoal,
            insert,
            &[Value::Int(100_000 + row as i64), Value::Blob(query.clone())],
        );
    }
    let inserted = begun.elapsed() / 500;
    let begun = Instant::now();
    run(&mut pair.shoal, "DELETE FROM v WHERE rowid BETWEEN 1000 AND 1499", &[]);
    let deleted = begun.elapsed() / 500;
    run(&mut pair.shoal, "COMMIT", &[]);
    println!("  a row more in a transaction of 500: {inserted:?}, a row less {deleted:?}");
}

fn images(folder: &Path) {
    let bytes = unzipped(&folder.join("t10k-images-idx3-ubyte.gz"));
    let all: Vec<Vec<f32>> =
        bytes[16..].chunks(784).map(|row| row.iter().map(|it| f32::from(*it)).collect()).collect();
    let (base, queries) = all.split_at(9500);
    println!("mnist-10k, {} x 784 floats, l2", base.len());
    let filled: Vec<_> = base.iter().map(|row| (blob(row), Vec::new())).collect();
    let mut pair = Pair::new("e float[784]", 0, &filled);
    pair.index();
    let truth = numbers(&folder.join("truth.l2.top100.i4.npy"));
    let l2 = |a: &[f32], b: &[f32]| {
        let square = |(a, b): (&f32, &f32)| f64::from(*a - *b).powi(2);
        a.iter().zip(b).map(square).sum::<f64>().sqrt()
    };
    let last = truth.chunks(100).map(|row| row[9]);
    let farthest: Vec<f64> =
        last.zip(queries).map(|(last, query)| l2(&base[last], query)).collect();
    let blobs: Vec<Vec<u8>> = queries.iter().map(|query| blob(query)).collect();
    // Distances are about a thousand: the slack of a comparison is in their last digits.
    let farthest: Vec<f64> = farthest.iter().map(|distance| distance + 1e-3).collect();
    compare(&mut pair, "all rows", "", &blobs, &farthest);
}
