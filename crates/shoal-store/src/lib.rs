//! Pages, b-trees and transactions over a SQLite file.
//!
//! A [`Store`] is an open database. [`Store::begin`] gives a [`Transaction`]: a snapshot holding
//! SQLite's locks, with cursors over tables and indexes, and, for a writer, changes to them. A
//! commit returns only after the new state is durable. This crate knows b-trees of records and
//! nothing of their meaning: no SQL, no schema, no documents.

#![forbid(unsafe_code)]

mod backup;
mod btree;
mod changes;
mod codec;
mod commit;
mod cursor;
mod error;
mod estimate;
mod freelist;
mod header;
mod image;
mod index_equal;
mod index_lookup;
mod index_parts;
mod index_tree;
mod integrity;
mod journal_mode;
mod lookup;
mod page;
mod payload;
mod pointer_map;
mod recovery;
mod replace;
mod salvage;
mod scan;
mod settings;
mod store;
mod transaction;
mod tuning;
mod uri;
mod value_bytes;
mod version;
mod wal;
mod watch;

pub use backup::Backup;
pub use btree::{
    BtreeKind, ChangedEntry, KEY_MAX, KeyColumns, LeafChange, NewEntry, RowPlace, TreeFill,
    TreePages,
};
pub use changes::Savepoint;
pub use codec::{CodecRequest, CodecSource, Fault, PageCodec, Refused, Seal, Shape};
pub use commit::CommitSeq;
pub use cursor::{IndexCursor, Place, TableCursor};
pub use error::Error;
pub use estimate::Sample;
pub use index_lookup::{IndexLookup, IndexWalk, WalkPlace};
pub use index_parts::IndexPart;
pub use journal_mode::JournalMode;
pub use lookup::{BATCH, TableLookup};
pub use salvage::{PageSet, Salvage, SalvagedRow};
pub use scan::{ScannedRow, TableScan};
pub use settings::{AutoVacuum, NewFile, Rollback, Settings, Synchronous};
pub use shoal_format::utf16;
pub use shoal_format::{
    ByteOrder, Collation, ColumnFinder, ColumnPlace, Corrupt, FileHeader, HeaderWalk, KeyColumn,
    KeyOrder, LeafCell, OwnCollation, Page, PageKind, Payload, Pgno, Record, Stored, TextEncoding,
    TextProbe, ValueRef, Values, encode_record, encode_values,
};
pub use shoal_vfs as vfs;
pub use store::{Access, Locking, Mode, Options, Store};
pub use transaction::Transaction;
pub use tuning::SecureDelete;
pub use uri::FileUri;
pub use value_bytes::{FoundValue, ValueBytes};
pub use version::Version;
pub use wal::{Checkpoint, CheckpointMode};
pub use watch::Watch;
