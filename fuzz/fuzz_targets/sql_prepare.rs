//! `shoal_sql::Connection::prepare`: any text is statements, each prepared or refused with a place
//! in the text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shoal_fuzz::{bounded, sql};
use shoal_sql::Statements;

fuzz_target!(|text: &str| {
    bounded((16 << 20) + 4096 * text.len(), || {
        let (_, mut connection) = sql::small();
        let _ = Statements::is_complete(text);
        let mut end = 0;
        for range in Statements::new(text) {
            assert!(end <= range.start && range.start < range.end, "statements follow each other");
            end = range.end;
            let statement = &text[range];
            if let Err(error) = connection.prepare(statement) {
                assert!(error.offset().is_none_or(|offset| offset <= statement.len()), "{error}");
            }
        }
        // The whole text may hold one statement or many, with anything before and after.
        if let Err(error) = connection.prepare(text) {
            assert!(error.offset().is_none_or(|offset| offset <= text.len()), "{error}");
            let _ = error.to_string();
        }
    });
});
