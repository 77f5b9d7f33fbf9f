//! SQLite's file format as borrowed views over bytes
