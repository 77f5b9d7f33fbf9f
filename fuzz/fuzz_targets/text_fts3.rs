//! `shoal_text`, FTS3: any bytes as roots, nodes, sizes and totals of a table, asked by any query
//! with every function.
//!
//! The input: a byte to choose the table, then parts with their lengths before them (two bytes,
//! little-endian): the query, the roots of two segments, totals, sizes, and nodes 1, 2, 3 and on.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shoal_fuzz::{bounded, sql};
use shoal_sql::{Connection, Error, Value};
use shoal_store::Access;
use shoal_store::vfs::MemVfs;

/// Arguments of `USING`.
const TABLES: [&str; 4] = [
    "fts3(a, b)",
    "fts4(a, b, tokenize=porter)",
    "fts4(a, b, prefix='1,3', order=desc)",
    "fts4(a, b, content='', tokenize=unicode61)",
];

/// Shadow tables made before their table, to be written as any table.
const SETUP: &str = "
    CREATE TABLE t_content(docid INTEGER PRIMARY KEY, c0a, c1b);
    CREATE TABLE t_segments(blockid INTEGER PRIMARY KEY, block BLOB);
    CREATE TABLE t_segdir(level INTEGER, idx INTEGER, start_block INTEGER,
        leaves_end_block INTEGER, end_block INTEGER, root BLOB, PRIMARY KEY(level, idx));
    CREATE TABLE t_docsize(docid INTEGER PRIMARY KEY, size BLOB);
    CREATE TABLE t_stat(id INTEGER PRIMARY KEY, value BLOB);
    INSERT INTO t_content VALUES (1, 'the quick brown fox', 'a b'), (2, 'one two', NULL);
    PRAGMA writable_schema = ON;
";

fn run(connection: &mut Connection, sql: &str, parameters: &[Value]) -> Result<(), Error> {
    let mut statement = connection.prepare(sql)?;
    for (index, value) in parameters.iter().enumerate() {
        statement.bind(index + 1, value.clone())?;
    }
    if statement.column_count() == 0 {
        return connection.execute(&mut statement).map(drop);
    }
    let mut rows = connection.query(&mut statement)?;
    while rows.next()?.is_some() {}
    Ok(())
}

fn part<'d>(data: &mut &'d [u8]) -> Option<&'d [u8]> {
    let (length, rest) = data.split_first_chunk()?;
    let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
    let (part, rest) = rest.split_at(length);
    *data = rest;
    Some(part)
}

fuzz_target!(|data: &[u8]| {
    let Some((&kind, mut rest)) = data.split_first() else { return };
    let mut next = || part(&mut rest).unwrap_or_default();
    let query = String::from_utf8_lossy(next()).into_owned();
    let (roots, totals, sizes) = ([next(), next()], next(), next());
    let nodes: Vec<&[u8]> = std::iter::from_fn(|| part(&mut rest)).collect();
    bounded((64 << 20) + 4096 * data.len(), || {
        let vfs = MemVfs::new();
        let mut connection = sql::connect(&vfs, Access::Create).expect("a new database opens");
        shoal::register_modules(&mut connection).expect("modules have names of their own");
        for range in shoal_sql::Statements::new(SETUP) {
            run(&mut connection, &SETUP[range], &[]).expect("the set-up is valid");
        }
        let blob = |bytes: &[u8]| Value::Blob(bytes.to_vec());
        for (level, root) in roots.into_iter().enumerate() {
            // A second segment with nodes of its own; the first is its root alone.
            let (first, last) = if level == 0 { (0, 0) } else { (1, nodes.len() as i64) };
            let row = [Value::Int(level as i64), Value::Int(first), Value::Int(last), blob(root)];
            let sql = "INSERT INTO t_segdir VALUES (?1, 0, ?2, ?3, ?3, ?4)";
            run(&mut connection, sql, &row).expect("a row is inserted");
        }
        for node in &nodes {
            let sql = "INSERT INTO t_segments(block) VALUES (?1)";
            run(&mut connection, sql, &[blob(node)]).expect("a row is inserted");
        }
        let sql = "INSERT INTO t_docsize VALUES (1, ?1), (2, ?1)";
        run(&mut connection, sql, &[blob(sizes)]).expect("a row is inserted");
        run(&mut connection, "INSERT INTO t_stat VALUES (0, ?1)", &[blob(totals)])
            .expect("a row is inserted");
        let table = TABLES[usize::from(kind) % TABLES.len()];
        for (name, module) in [("t", table), ("terms", "fts4aux(t)")] {
            let module = module.replace('\'', "''");
            // As a dump declares one: all values are literals.
            let schema = format!(
                "INSERT INTO sqlite_schema(type, name, tbl_name, rootpage, sql) VALUES \
                 ('table', '{name}', '{name}', 0, 'CREATE VIRTUAL TABLE {name} USING {module}')"
            );
            run(&mut connection, &schema, &[]).expect("a virtual table is declared");
        }
        for sql in [
            "SELECT docid, snippet(t), offsets(t) FROM t WHERE t MATCH ?1",
            "SELECT docid, matchinfo(t), offsets(t) FROM t WHERE t MATCH ?1 ORDER BY docid DESC",
            "SELECT matchinfo(t, 'pcnalsxyb') FROM t WHERE t MATCH ?1",
            "SELECT * FROM terms",
            "PRAGMA integrity_check",
        ] {
            let parameters = [Value::text(query.clone())];
            let used = usize::from(sql.contains("?1"));
            let _ = run(&mut connection, sql, &parameters[..used]);
        }
    });
});
