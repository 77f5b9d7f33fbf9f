//! Virtual tables of SQLite's kind: full text by FTS5, boxes by R-Tree.

use std::path::PathBuf;
use std::sync::Arc;

use super::bulk::{ask, require_maintenance};
use super::query::{self, Query};
use super::{remove, row};
use crate::answer::{Answer, Digest};
use crate::engine::table::{Access, Cell, TableSpec};
use crate::engine::{Miss, TableEngine};
use crate::random::Random;
use crate::workload::{Bench, Context, sampler};

/// A table, the virtual table over its rows, and the queries.
struct Searched {
    kind: &'static str,
    table: &'static TableSpec,
    create: &'static str,
    fill: &'static str,
    /// Name, description, statement, columns, and how often a sample asks.
    questions: &'static [(&'static str, &'static str, &'static str, usize, usize)],
    text: &'static str,
}

const DOCS: TableSpec = TableSpec {
    name: "docs",
    create: "CREATE TABLE docs (id INTEGER PRIMARY KEY, body TEXT NOT NULL)",
    columns: &["id", "body"],
};

const PLACES: TableSpec = TableSpec {
    name: "places",
    create: "CREATE TABLE places (id INTEGER PRIMARY KEY, x INTEGER NOT NULL, y INTEGER NOT NULL)",
    columns: &["id", "x", "y"],
};

const TEXT: Searched = Searched {
    kind: "text",
    table: &DOCS,
    create: "CREATE VIRTUAL TABLE found USING fts5(body)",
    fill: "INSERT INTO found(rowid, body) SELECT id, body FROM docs",
    questions: &[
        ("term", "rows with a word of 1 % of the texts", "SELECT rowid FROM found('w95')", 1, 50),
        (
            "common",
            "rows with a word of half of the texts counted",
            "SELECT count(*) FROM found('w1')",
            1,
            20,
        ),
        (
            "phrase",
            "rows with two frequent words side by side",
            "SELECT rowid FROM found('\"w0 w1\"')",
            1,
            10,
        ),
        ("prefix", "rows with words that begin alike", "SELECT count(*) FROM found('w95*')", 1, 10),
        (
            "boolean",
            "rows with two words without a third",
            "SELECT rowid FROM found('w3 AND w20 NOT w7')",
            1,
            10,
        ),
        (
            "ranked",
            "the ten best rows for two words by bm25",
            "SELECT rowid FROM found('w30 OR w60') ORDER BY rank LIMIT 10",
            1,
            10,
        ),
    ],
    text: "20,000 texts of 60 words, 20,000 words in Zipf's shares",
};

const BOXES: Searched = Searched {
    kind: "rtree",
    table: &PLACES,
    create: "CREATE VIRTUAL TABLE found USING rtree(id, x0, x1, y0, y1)",
    fill: "INSERT INTO found SELECT id, x, x + 40, y, y + 40 FROM places",
    questions: &[
        (
            "window",
            "boxes within a window of a thousandth of the area",
            "SELECT id FROM found WHERE x0 >= 300000 AND x1 <= 331600 AND y0 >= 300000 AND y1 <= 331600",
            1,
            50,
        ),
        (
            "overlap",
            "boxes around a point and their sum",
            "SELECT count(*), sum(id) FROM found WHERE x0 <= 500000 AND x1 >= 499000 AND y0 <= 500000 AND y1 >= 499000",
            2,
            200,
        ),
    ],
    text: "100,000 boxes at random places",
};

pub(super) fn add<E: TableEngine>(bench: &mut Bench<E>) {
    for searched in [&TEXT, &BOXES] {
        build(bench, searched);
        for &(name, text, sql, width, times) in searched.questions {
            let name = format!("{}/{name}", searched.kind);
            let text = format!("{text}; {}", searched.text);
            bench.add(row(&name, "query", &text), move |engine, cx| {
                require_maintenance(&**engine)?;
                let path = base(&**engine, cx, searched, &[searched.create, searched.fill])?;
                query::prepare(engine, cx, path, &Query::new(sql, width), cx.pick(times, 2))
            });
        }
    }
}

/// The rows behind a virtual table.
fn rows(cx: &Context, searched: &Searched) -> Vec<Vec<Vec<u8>>> {
    let mut random = Random::new(cx.seed);
    let is_text = searched.kind == "text";
    let count = if is_text { cx.pick(20_000, 200) } else { cx.pick(100_000, 500) };
    let number = |random: &mut Random| random.below(1_000_000).to_string().into_bytes();
    (0..count)
        .map(|_| match is_text {
            // The nth word has a share of about 1/n: the inverse of the logarithm's integral.
            true => {
                let word = |random: &mut Random| 20_000_f64.powf(random.unit()) as u64 - 1;
                let words: Vec<String> =
                    (0..60).map(|_| format!("w{}", word(&mut random))).collect();
                vec![words.join(" ").into_bytes()]
            }
            false => vec![number(&mut random), number(&mut random)],
        })
        .collect()
}

/// A file with the rows, and with some statements run.
fn base<E: TableEngine>(
    engine: &E,
    cx: &Context,
    searched: &Searched,
    after: &[&str],
) -> Result<PathBuf, Miss> {
    let path = cx.scratch.join(format!("{}-{}.db", searched.kind, after.len()));
    if path.exists() {
        return Ok(path);
    }
    let mut db = engine.open(&path, Access::Write, &cx.scratch)?;
    engine.create_table(&mut db, searched.table)?;
    let texts = rows(cx, searched);
    let cells: Vec<Vec<Cell<'_>>> = texts
        .iter()
        .enumerate()
        .map(|(at, row)| {
            let values = row.iter().map(|value| Cell::Text(value));
            std::iter::once(Cell::Int(at as i64 + 1)).chain(values).collect()
        })
        .collect();
    engine.insert(&mut db, searched.table, &cells)?;
    after.iter().try_for_each(|sql| engine.execute(&mut db, sql))?;
    Ok(path)
}

fn build<E: TableEngine>(bench: &mut Bench<E>, searched: &'static Searched) {
    let text = format!("the virtual table filled from a table by one statement; {}", searched.text);
    let name = format!("{}/build", searched.kind);
    bench.add(row(&name, "table", &text), move |engine, cx| {
        require_maintenance(&**engine)?;
        let base = base(&**engine, cx, searched, &[])?;
        let (engine, cx) = (Arc::clone(engine), cx.clone());
        let path = cx.scratch.join(format!("{}-build.db", searched.kind));
        sampler(move |watch| {
            remove(&path);
            std::fs::copy(&base, &path).map_err(Miss::failed)?;
            let mut db = engine.open(&path, Access::Write, &cx.scratch)?;
            engine.execute(&mut db, searched.create)?;
            watch.time(1, || engine.execute(&mut db, searched.fill))?;
            let mut digest = Digest::new();
            // Engines may find rows in another order: their number is compared.
            for (_, _, sql, ..) in searched.questions {
                let count = format!("SELECT count(*) FROM ({sql})");
                digest = digest.int(ask(&*engine, &mut db, &count, 1)?.value());
            }
            drop(db);
            remove(&path);
            Ok(watch.verifying().then(|| Answer::of(digest)))
        })
    });
}
