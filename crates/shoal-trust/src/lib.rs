//! A ledger: signed, append-only history in tables of a database.
//!
//! Each writer has a chain of entries, each signed with Ed25519 over its predecessor, its number,
//! its time, its kind, its payload and the heads of other chains the writer saw: the chains make a
//! graph joined when copies of a database meet. [`Ledger::append`] adds an entry,
//! [`Ledger::import`] takes the entries of another copy, [`Ledger::verify`] tells claims that hold
//! from false ones and from claims beyond one file. [`merkle`] proves an entry to be under a head,
//! and a head to continue another.

#![forbid(unsafe_code)]

mod entry;
mod error;
mod ledger;
pub mod merkle;
mod payload;
mod signatures;
mod verify;

pub use entry::{Entry, Hash, Signer, WriterId, writer_of};
pub use error::Error;
pub use ledger::{Ledger, NewEntry};
pub use payload::{Admission, Head, Join, Payload, Revocation, Rotation, SignedChanges};
pub use verify::{Fault, FaultKind, Report, Unknown, VerifyOptions};
