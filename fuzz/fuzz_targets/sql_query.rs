//! `shoal_sql`: queries of every table, view and index declared by a forged file.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use shoal_fuzz::{bounded, sql, walk};
use shoal_sql::Object;
use shoal_store::Access;
use shoal_store::vfs::MemVfs;

/// Most objects queried.
const OBJECTS: usize = 12;

fuzz_target!(|data: &[u8]| {
    bounded((64 << 20) + 64 * data.len(), || {
        let vfs = MemVfs::new();
        vfs.put(Path::new(walk::DATABASE), data.to_vec());
        let Ok(mut connection) = sql::connect(&vfs, Access::ReadOnly) else { return };
        let Ok(schema) = connection.schema() else { return };
        for object in schema.objects().iter().take(OBJECTS) {
            let name = object.name().replace('"', "\"\"");
            let mut queries = vec![
                format!("SELECT * FROM \"{name}\""),
                format!("SELECT rowid, * FROM \"{name}\" WHERE rowid BETWEEN 1 AND 3"),
                format!("PRAGMA table_info(\"{name}\")"),
            ];
            if let Object::Table(table) = object {
                for column in table.columns().iter().take(4) {
                    let column = column.name().replace('"', "\"\"");
                    queries.push(format!("SELECT * FROM \"{name}\" WHERE \"{column}\" = 'a'"));
                    queries.push(format!("SELECT \"{column}\" FROM \"{name}\" ORDER BY 1 LIMIT 3"));
                }
            }
            for query in queries {
                let _ = sql::run(&mut connection, &query);
            }
        }
    });
});
