//! Table engines and key-value stores.

mod duckdb;
#[cfg(feature = "heed")]
mod heed;
#[cfg(any(feature = "redb", feature = "heed"))]
mod packed;
#[cfg(feature = "redb")]
mod redb;
#[cfg(any(feature = "sqlcipher", feature = "sqlite3mc"))]
mod sealed;
#[cfg(any(feature = "rusqlite", feature = "sqlcipher", feature = "sqlite3mc"))]
#[cfg_attr(not(feature = "rusqlite"), allow(dead_code))] // sealed files have one of its forms
mod sqlite;
#[cfg(feature = "turso")]
mod turso;

use shoal_lab::Contenders;

pub(crate) fn add(contenders: &mut Contenders) {
    #[cfg(feature = "rusqlite")]
    {
        for form in sqlite::FORMS {
            contenders.table(sqlite::Sqlite(form));
        }
        contenders.generate_with(sqlite::Sqlite(sqlite::Form::Autocommit));
    }
    #[cfg(any(feature = "sqlcipher", feature = "sqlite3mc"))]
    for cipher in sealed::CIPHERS {
        contenders.sealed(sealed::Sealed(cipher));
    }
    #[cfg(feature = "turso")]
    contenders.table(turso::Turso);
    #[cfg(feature = "redb")]
    contenders.table(redb::Redb);
    #[cfg(feature = "heed")]
    contenders.table(heed::Heed);
    contenders.table(duckdb::DuckDb);
}
