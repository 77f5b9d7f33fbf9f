//! `shoal_sql`: any statements, run on a small database. Whatever they do, the file stays one whose
//! b-trees can be walked and whose schema can be read.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use shoal_fuzz::{bounded, sql, walk};
use shoal_sql::{Limits, Statements};
use shoal_store::Access;

/// How long a statement may take. An `INSERT` of a recursion without an end keeps its rows in
/// memory until then.
const TIME_MAX: Duration = Duration::from_millis(200);

fuzz_target!(|text: &str| {
    if !sql::is_cheap(text) {
        return;
    }
    bounded((64 << 20) + 4096 * text.len(), || {
        let (vfs, mut connection) = sql::small();
        connection.set_limits(Limits { time: Some(TIME_MAX), ..Limits::default() });
        for range in Statements::new(text) {
            let _ = sql::run(&mut connection, &text[range]);
        }
        drop(connection);
        let mut connection = sql::connect(&vfs, Access::ReadOnly).expect("the file is still sound");
        walk::walk(connection.store());
        sql::run(&mut connection, "SELECT * FROM sqlite_schema").expect("it is readable");
    });
});
