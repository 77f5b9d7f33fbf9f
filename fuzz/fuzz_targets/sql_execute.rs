//! `shoal_sql`: any statements, run on a small database. Whatever they do, the file stays one whose
//! b-trees can be walked and whose schema can be read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shoal_fuzz::{bounded, sql, walk};
use shoal_sql::Statements;
use shoal_store::Access;

fuzz_target!(|text: &str| {
    if !sql::is_cheap(text) {
        return;
    }
    bounded((64 << 20) + 4096 * text.len(), || {
        let (vfs, mut connection) = sql::small();
        for range in Statements::new(text) {
            let _ = sql::run(&mut connection, &text[range]);
        }
        drop(connection);
        let mut connection = sql::connect(&vfs, Access::ReadOnly).expect("the file is still sound");
        walk::walk(connection.store());
        sql::run(&mut connection, "SELECT * FROM sqlite_schema").expect("it is readable");
    });
});
