//! A local-first database: Automerge documents and SQL tables in one SQLite file
