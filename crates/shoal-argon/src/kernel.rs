//! The compression function G: how one block follows from two (RFC 9106 §3.5, §3.6).
//!
//! A kernel is one way of computing it, and all give the same words. `scalar` is the
//! definition.

pub(crate) mod scalar;

#[cfg(test)]
mod tests;
