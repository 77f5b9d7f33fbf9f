//! Graphs, beside definitions and the openCypher kit: one program, linked once.
#![allow(clippy::unwrap_used)]

mod algorithms;
mod functions;
mod tck;
mod texts;
mod walks;
