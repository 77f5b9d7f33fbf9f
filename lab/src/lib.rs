//! Benchmark rows: answers first, then time
