//! Tests of reading and writing changes.
