//! Allocations of the cold path: preparing, binding and running a statement for the first time, and
//! an `IN` over texts. The limits are a tenth above the counts measured on 2026-11-23; they may
//! only fall.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use shoal_sql::{Connection, Statement, ValueRef};
use shoal_store::vfs::OsVfs;
use shoal_store::{Access, Options, Store};
use shoal_testkit::alloc::{CountingAllocator, count};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn open() -> Connection {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/sharc/core.db");
    let store = Store::open_with(Arc::new(OsVfs::new()), &path, Options::new(Access::ReadOnly));
    let mut connection = Connection::open(store.unwrap()).unwrap();
    // Reads the schema before counting, and allocates the connection's lasting parts.
    let mut statement = connection.prepare("SELECT count(*) FROM users").unwrap();
    rows(&mut connection, &mut statement);
    connection
}

fn rows(connection: &mut Connection, statement: &mut Statement) -> usize {
    let mut rows = connection.query(statement).unwrap();
    let mut count = 0;
    while rows.next().unwrap().is_some() {
        count += 1;
    }
    count
}

/// Allocations of preparing, binding, the first and the second run.
fn measured(sql: &str, parameter: Option<ValueRef<'_>>) -> [u64; 4] {
    let mut connection = open();
    let (mut statement, prepare) = count(|| connection.prepare(sql).unwrap());
    let ((), bind) = count(|| {
        if let Some(value) = parameter {
            statement.bind(1, value).unwrap();
        }
    });
    let (first_rows, first) = count(|| rows(&mut connection, &mut statement));
    let (second_rows, second) = count(|| rows(&mut connection, &mut statement));
    assert_eq!(first_rows, second_rows, "{sql}");
    [prepare, bind, first, second]
}

#[test]
fn the_cold_path_allocates_no_more_than_it_did() {
    let limits: [(&str, Option<ValueRef<'_>>, [u64; 4]); 4] = [
        ("SELECT name, email FROM users WHERE id = ?1", Some(ValueRef::Int(7)), [135, 0, 10, 3]),
        ("SELECT name FROM users WHERE dept = ?1", Some(ValueRef::Text(b"eng")), [130, 1, 22, 3]),
        ("SELECT id FROM users WHERE dept IN ('eng', 'ops', 'hr')", None, [163, 0, 100, 100]),
        (
            "SELECT dept, count(*) FROM users WHERE age > ?1 GROUP BY dept",
            Some(ValueRef::Int(30)),
            [166, 0, 35, 3],
        ),
    ];
    let mut above = Vec::new();
    for (sql, parameter, limit) in limits {
        let found = measured(sql, parameter);
        println!("{found:?} of at most {limit:?} (prepare, bind, first run, second run): {sql}");
        if found.iter().zip(limit).any(|(found, limit)| *found > limit) {
            above.push((sql, found, limit));
        }
    }
    assert!(above.is_empty(), "more allocations than before: {above:?}");
}
