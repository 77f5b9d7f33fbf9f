//! Tests alone: `tests/server.rs`.
