//! Well-formed queries of every kind beside SQLite, over tables with indexes: the bytes choose what
//! a query is made of, and whatever the plan, the rows are the same.
//!
//! Needs the feature `peers`, which builds SQLite.
#![no_main]

use std::cell::OnceCell;

use libfuzzer_sys::fuzz_target;
use shoal_fuzz::differential::{ROWS, ours, sqlite, theirs};
use shoal_fuzz::query::{Choices, SETUP};
use shoal_fuzz::sql;
use shoal_sql::Error;

thread_local! {
    static SQLITE: OnceCell<rusqlite::Connection> = const { OnceCell::new() };
    static DATABASE: OnceCell<Vec<u8>> = const { OnceCell::new() };
}

fuzz_target!(|bytes: &[u8]| {
    let query = Choices::new(bytes).query();
    let peers = SQLITE.with(|cell| theirs(cell.get_or_init(|| sqlite(SETUP)), &query));
    let image = DATABASE.with(|cell| cell.get_or_init(image).clone());
    let mut connection = sql::open_image(image).expect("SQLite's file opens");
    match (ours(&mut connection, &query), peers) {
        (Ok(Some(ours)), Ok(Some(peers))) if ours.len() < ROWS && peers.len() < ROWS => {
            assert_eq!(
                ours.iter().map(|row| plain(row)).collect::<Vec<_>>(),
                peers.iter().map(|row| plain(row)).collect::<Vec<_>>(),
                "{query}"
            );
        }
        (Ok(Some(_)), Ok(Some(_))) => {}
        (Err(Error::Unsupported { .. } | Error::Limit { .. }), _) => {}
        (Err(ours), Ok(_)) => panic!("{query}\nrefused: {ours}"),
        (Ok(_), Err(peers)) => panic!("{query}\nSQLite says: {peers}"),
        _ => {}
    }
});

/// A row with its integers as reals: which of 1 and 1.0 stands for both is open.
fn plain(row: &str) -> String {
    let value = |value: &str| match value.parse::<f64>() {
        Ok(real) => format!("{real:?}"),
        Err(_) => value.to_owned(),
    };
    row.split(" | ").map(value).collect::<Vec<_>>().join(" | ")
}

/// The file that SQLite's tables would be.
fn image() -> Vec<u8> {
    sqlite(SETUP).serialize("main").expect("SQLite gives its pages").to_vec()
}
