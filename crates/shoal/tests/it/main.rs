//! Documents in files, and what follows them: one program, linked once.
#![allow(clippy::unwrap_used)]

mod campaigns;
mod documents;
mod narrowed_search;
mod past;
mod projection_model;
mod projection_seen;
mod projection_writes;
mod projections;
mod watch;
