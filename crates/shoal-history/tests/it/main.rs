//! Changes and chunks, beside the reference: one program, linked once.
#![allow(clippy::unwrap_used)]

mod causal;
mod documents;
mod fixtures;
mod malformed;
mod reference;
mod runs;
