//! `shoal_vector`: changed bytes in the shadow tables of a `vec0` table and of its index. Searches,
//! writes and checks end in an answer or an error; an index made anew from a whole table is whole.
#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use shoal_fuzz::{bounded, sql, walk};
use shoal_sql::{Connection, Statements, Value};
use shoal_store::Access;
use shoal_store::vfs::MemVfs;

const SETUP: &str = "
    CREATE VIRTUAL TABLE v USING vec0(e float[4], p integer partition key, n integer, chunk_size=8);
    INSERT INTO v(e, p, n) SELECT '[' || value || ',1,2,' || (value % 7) || ']', value % 2, value
        FROM generate_series(1, 40);
    CREATE VIRTUAL TABLE i USING vec_index(v, e, m=4);
";

/// The columns with bytes to be changed; columns of the index come first.
const COLUMNS: [(&str, &str); 9] = [
    ("i_nodes", "node"),
    ("i_nodes", "node"),
    ("i_nodes", "node"),
    ("i_meta", "root"),
    ("i_meta", "nodes"),
    ("v_chunks", "validity"),
    ("v_chunks", "rowids"),
    ("v_vector_chunks00", "vectors"),
    ("v_metadatachunks00", "data"),
];

const STATEMENTS: &str = "
    SELECT rowid, distance FROM v WHERE e MATCH '[1,2,3,4]' AND k = 1 AND ef = 1;
    SELECT rowid, distance FROM v WHERE e MATCH '[30,2,3,4]' AND k = 2 AND ef = 2 AND n > 9;
    SELECT * FROM i;
    SELECT * FROM vec_check('v');
    INSERT INTO v(e, p, n) VALUES ('[1,2,3,4]', 1, 1);
    UPDATE v SET e = '[4,3,2,1]' WHERE rowid = 2;
    DELETE FROM v WHERE rowid = 7;
    INSERT INTO i(i) VALUES ('refresh');
    DELETE FROM v WHERE rowid % 3 = 1;
    SELECT rowid, distance FROM v WHERE e MATCH '[1,2,3,4]' AND k = 1 AND ef = 1;
    INSERT INTO i(i) VALUES ('rebuild');
    SELECT * FROM vec_check('i');
";

fn connect(vfs: &MemVfs, access: Access) -> Connection {
    let mut connection = sql::connect(vfs, access).expect("the template opens");
    shoal_vector::register(&mut connection).expect("the names are free");
    connection
}

fn template() -> &'static [u8] {
    static TEMPLATE: OnceLock<Vec<u8>> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let vfs = MemVfs::new();
        let mut connection = connect(&vfs, Access::Create);
        for range in Statements::new(SETUP) {
            sql::run(&mut connection, &SETUP[range]).expect("the set-up is valid");
        }
        vfs.get(Path::new(walk::DATABASE)).expect("it was written")
    })
}

fuzz_target!(|data: &[u8]| {
    bounded((64 << 20) + 64 * data.len(), || {
        let vfs = MemVfs::new();
        vfs.put(Path::new(walk::DATABASE), template().to_vec());
        let mut connection = connect(&vfs, Access::ReadWrite);
        sql::run(&mut connection, "PRAGMA writable_schema = on").expect("a known pragma");
        let mut is_whole = true;
        for step in data.chunks_exact(6).take(16) {
            let (table, column) = COLUMNS[usize::from(step[0]) % COLUMNS.len()];
            is_whole &= table.starts_with("i_");
            let place = 1 + i64::from(u16::from_le_bytes([step[2], step[3]])) % 200;
            let changed = match table {
                "i_meta" => format!("{column} = ?2"),
                _ => format!(
                    "{column} = substr({column}, 1, ?2 - 1) || ?3 || substr({column}, ?2 + 1)"
                ),
            };
            let sql = format!("UPDATE {table} SET {changed} WHERE _rowid_ = ?1");
            let Ok(mut statement) = connection.prepare(&sql) else { continue };
            let values = [
                Value::Int(1 + i64::from(step[1]) % 40),
                Value::Int(place - 1),
                Value::Blob(vec![step[4]]),
            ];
            for (number, value) in values.into_iter().enumerate() {
                let _ = statement.bind(number + 1, value);
            }
            let _ = connection.execute(&mut statement);
        }
        for range in Statements::new(STATEMENTS) {
            let _ = sql::run(&mut connection, &STATEMENTS[range]);
        }
        if is_whole {
            let check = "SELECT 1 / (count(*) FILTER (WHERE fault = 'ok') > 0) FROM vec_check('i')";
            let mut statement = connection.prepare(check).expect("a valid query");
            let mut rows = connection.query(&mut statement).expect("a table to be checked");
            let row = rows.next().expect("a check of a whole index").expect("one row");
            assert_eq!(row.get(0), shoal_sql::ValueRef::Int(1), "an index made anew is whole");
        }
    });
});
