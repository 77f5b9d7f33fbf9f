//! SQLite's file format as borrowed views over bytes.
//!
//! One file per structure on disk. Nothing here does I/O, caches, knows SQL or, text in UTF-16
//! aside, allocates while it reads; bytes that break a rule of the format are a [`Corrupt`] value,
//! never a panic. All numbers in the format are big-endian.

#![forbid(unsafe_code)]
#![deny(clippy::host_endian_bytes, clippy::little_endian_bytes)]

#[macro_use]
mod layout;

pub mod cell;
mod column;
mod corrupt;
mod extents;
pub mod file_header;
pub mod freelist;
pub mod journal;
mod key;
pub mod overflow;
mod own_collation;
pub mod page;
pub mod page_edit;
mod pgno;
pub mod record;
mod search;
pub mod utf16;
mod value;
pub mod varint;
pub mod wal;
pub mod wal_index;

pub use cell::{IndexCell, LeafCell, Payload, TableInteriorCell, TableLeafCell};
pub use column::{ColumnFinder, ColumnPlace, HeaderWalk, Stored, TextProbe};
pub use corrupt::Corrupt;
pub use extents::CellExtent;
pub use file_header::{FileHeader, TextEncoding};
pub use key::{KeyColumn, KeyOrder};
pub use layout::Field;
pub use own_collation::OwnCollation;
pub use page::{Page, PageKind};
pub use page_edit::PageEdit;
pub use pgno::Pgno;
pub use record::{Record, RecordSize, Values, encode_record, encode_values, write_record};
pub use utf16::ByteOrder;
pub use value::{Collation, ValueRef};
