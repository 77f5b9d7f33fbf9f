//! Table engines and key-value stores.

mod duckdb;
#[cfg(feature = "heed")]
mod heed;
#[cfg(any(feature = "redb", feature = "heed"))]
mod packed;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "rusqlite")]
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
    #[cfg(feature = "turso")]
    contenders.table(turso::Turso);
    #[cfg(feature = "redb")]
    contenders.table(redb::Redb);
    #[cfg(feature = "heed")]
    contenders.table(heed::Heed);
    contenders.table(duckdb::DuckDb);
}
