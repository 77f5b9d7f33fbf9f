//! Neighbours, beside SQLite with sqlite-vec: one program, linked once.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

mod commits;
mod corrupt;
mod functions;
mod index;
mod index_speed;
mod speed;
mod support;
mod tables;
