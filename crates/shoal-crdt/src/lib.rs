//! Automerge documents in memory: objects, text, transactions, merge, save, load and sync.
//!
//! Knows the meaning of ops. Bytes and the graph of changes are `shoal-history`'s; files, tables
//! and the clock are unknown here: actors and times are passed in.

#![forbid(unsafe_code)]

mod actors;
mod anonymize;
mod applier;
mod apply;
mod authors;
mod autocommit;
mod bundle;
mod cursor;
mod doc_iter;
mod document;
mod encoded;
mod error;
mod expanded;
pub mod hydrate;
mod id;
mod import;
mod isolated;
mod json;
pub mod json_patch;
mod load;
mod map;
mod marks;
mod names;
mod opset;
mod parents;
mod patch;
mod pending;
pub mod pointer;
mod queue;
#[cfg(test)]
mod random_edits;
mod read;
mod read_doc;
mod register;
mod rows;
mod save;
mod sequence;
mod shared;
mod slots;
mod snapshot;
mod sync;
mod text_diff;
mod touched;
mod transact;
mod transactable;
mod transaction;
mod update;
mod update_spans;
mod value;
mod view;

pub use autocommit::AutoCommit;
pub use cursor::{Cursor, CursorPosition, MoveCursor, ParseCursorError};
pub use doc_iter::{DocItem, DocIter, DocObjItem};
pub use document::{Document, Stats};
pub use error::{Error, OpFault};
pub use expanded::{ExpandedChange, ExpandedChangeError, ExpandedKey, ExpandedOp, OpType};
pub use id::{ObjId, ObjIdFromBytesError, ParseObjIdError, ROOT};
pub use isolated::TransactionAt;
pub use json::{DEFAULT_MAX_DEPTH, DocumentJson};
pub use load::{LoadOptions, Loss, OnPartial, Rescue, StringMigration};
pub use marks::{Mark, MarkSet, Span};
pub use parents::Parent;
pub use patch::{Patch, PatchAction, PatchProp, PatchScalar, PatchValue};
pub use read::{ListItem, MapEntry};
pub use read_doc::ReadDoc;
pub use save::SaveOptions;
pub use shoal_history::{
    ActorId, Allowance, Bundle, BySize, Change, ChangeHash, Fragment, Limits, Scalar, ScalarRef,
    SyncMessage, SyncState, Verify,
};
pub use snapshot::Snapshot;
pub use transactable::Transactable;
pub use transaction::{CommitOptions, ExpandMark, Moment, Transaction};
pub use update_spans::{NewSpan, UpdateSpansConfig};
pub use value::{IntoScalar, ObjType, Prop, TextEncoding, Value};
pub use view::{DocumentAt, View};
