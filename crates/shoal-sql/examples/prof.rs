//! prof
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]
use shoal_sql::{Connection, Value};
use shoal_store::{Access, Mode, Store, vfs::OsVfs};
use std::sync::Arc;
fn run(c: &mut Connection, sql: &str) {
    let mut s = c.prepare(sql).unwrap();
    c.execute(&mut s).unwrap();
}
fn main() {
    let what = std::env::args().nth(1).unwrap();
    let n: i64 = std::env::args().nth(2).unwrap().parse().unwrap();
    let path = std::path::Path::new("/tmp/imp/prof.db");
    let _ = std::fs::remove_file(path);
    let mut c =
        Connection::open(Store::open(Arc::new(OsVfs), path, Access::Create).unwrap()).unwrap();
    run(
        &mut c,
        "CREATE TABLE log(id INTEGER PRIMARY KEY, at INT, who TEXT, level INT, message TEXT)",
    );
    if what != "insert" {
        run(&mut c, "CREATE INDEX a ON log(at)");
        run(&mut c, "CREATE INDEX w ON log(who)");
    }
    let start = std::time::Instant::now();
    c.begin(Mode::Write).unwrap();
    let mut s = c.prepare("INSERT INTO log(at, who, level, message) VALUES (?, ?, ?, ?)").unwrap();
    for i in 0..n {
        s.bind(1, 1_700_000_000 + i * 7919 % 100_003).unwrap();
        s.bind(2, Value::text(format!("user {}", i % 97))).unwrap();
        s.bind(3, i % 5).unwrap();
        s.bind(4, Value::text("the quick brown fox jumps over the lazy dog")).unwrap();
        c.execute(&mut s).unwrap();
    }
    if what == "update" {
        let mut s = c.prepare("UPDATE log SET at = at + 1 WHERE id = ?").unwrap();
        for i in 0..n {
            s.bind(1, i * 7919 % n + 1).unwrap();
            c.execute(&mut s).unwrap();
        }
    }
    if what == "delete" {
        let mut s = c.prepare("DELETE FROM log WHERE id = ?").unwrap();
        for i in 0..n {
            s.bind(1, i * 7919 % n + 1).unwrap();
            c.execute(&mut s).unwrap();
        }
    }
    println!("{} ns a row", start.elapsed().as_nanos() / n as u128);
    c.commit().unwrap();
}
