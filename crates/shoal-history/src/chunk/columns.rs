//! The columns of ops, described once for every chunk type: name in errors, codec, specification.
//!
//! The constants from [`OBJ_ACTOR`] to [`ID_POSITION`] are row numbers of [`TABLE`], and the only
//! names of the columns in this crate; specifications are looked up by them. Changes, documents and
//! bundles share the first [`COLUMN_COUNT`] columns. Links are `pred` in changes and bundles,
//! `succ` in documents.

use crate::column::spec::ColumnSpec;
use crate::error;

pub(crate) const OBJ_ACTOR: usize = 0;
pub(crate) const OBJ_COUNTER: usize = 1;
pub(crate) const KEY_ACTOR: usize = 2;
pub(crate) const KEY_COUNTER: usize = 3;
pub(crate) const KEY_STRING: usize = 4;
pub(crate) const INSERT: usize = 5;
pub(crate) const ACTION: usize = 6;
pub(crate) const VALUE_META: usize = 7;
pub(crate) const VALUE: usize = 8;
pub(crate) const LINK_COUNT: usize = 9;
pub(crate) const LINK_ACTOR: usize = 10;
pub(crate) const LINK_COUNTER: usize = 11;
pub(crate) const EXPAND: usize = 12;
pub(crate) const MARK_NAME: usize = 13;
pub(crate) const ID_ACTOR: usize = 14;
pub(crate) const ID_COUNTER: usize = 15;
pub(crate) const ID_POSITION: usize = 16;

/// The number of columns of a change: the columns shared by all chunk types.
pub(crate) const COLUMN_COUNT: usize = 14;

/// The number of columns of a document: the ids of ops are stored.
pub(crate) const DOCUMENT_COLUMN_COUNT: usize = 16;

/// The number of columns of a bundle: positions replace the counters of ids, except in bundles of
/// old versions of the reference.
pub(crate) const BUNDLE_COLUMN_COUNT: usize = 17;

/// The codec of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    /// Run-length encoded unsigned numbers.
    Number,
    /// Run-length encoded differences.
    Delta,
    /// Run-length encoded strings.
    Text,
    /// Lengths of alternating runs of `false` and `true`.
    Boolean,
    /// The payloads of values, without marks between them.
    Payload,
}

/// One column of ops.
struct Column {
    row: usize,
    name: &'static str,
    /// The codec in changes and documents. Bundles delta-encode [`OBJ_COUNTER`].
    codec: Codec,
    /// The specifications in a change, a document and a bundle; 0 where the column is unknown.
    change: u32,
    document: u32,
    bundle: u32,
}

use Codec::{Boolean, Delta, Number, Payload, Text};

const TABLE: [Column; BUNDLE_COLUMN_COUNT] = [
    column(OBJ_ACTOR, "object actor column", Number, (1, 1, 1)),
    column(OBJ_COUNTER, "object counter column", Number, (2, 2, 3)),
    column(KEY_ACTOR, "key actor column", Number, (17, 17, 17)),
    column(KEY_COUNTER, "key counter column", Delta, (19, 19, 19)),
    column(KEY_STRING, "key string column", Text, (21, 21, 21)),
    column(INSERT, "insert column", Boolean, (52, 52, 52)),
    column(ACTION, "action column", Number, (66, 66, 66)),
    column(VALUE_META, "value metadata column", Number, (86, 86, 86)),
    column(VALUE, "value column", Payload, (87, 87, 87)),
    column(LINK_COUNT, error::LINK_COUNT, Number, (112, 128, 112)),
    column(LINK_ACTOR, error::LINK_ACTOR, Number, (113, 129, 113)),
    column(LINK_COUNTER, error::LINK_COUNTER, Delta, (115, 131, 115)),
    column(EXPAND, "expand column", Boolean, (148, 148, 148)),
    column(MARK_NAME, "mark name column", Text, (165, 165, 165)),
    column(ID_ACTOR, "id actor column", Number, (0, 33, 33)),
    column(ID_COUNTER, "id counter column", Delta, (0, 35, 35)),
    column(ID_POSITION, "id position column", Delta, (0, 0, 179)),
];

const fn column(
    row: usize,
    name: &'static str,
    codec: Codec,
    (change, document, bundle): (u32, u32, u32),
) -> Column {
    Column { row, name, codec, change, document, bundle }
}

/// The names in errors.
pub(crate) const NAMES: [&str; BUNDLE_COLUMN_COUNT] = {
    let mut names = [""; BUNDLE_COLUMN_COUNT];
    let mut row = 0;
    while row < BUNDLE_COLUMN_COUNT {
        assert!(TABLE[row].row == row, "each constant is the number of its row");
        names[row] = TABLE[row].name;
        row += 1;
    }
    names
};

/// The codecs in changes and documents.
pub(crate) const CODECS: [Codec; COLUMN_COUNT] = {
    let mut codecs = [Number; COLUMN_COUNT];
    let mut row = 0;
    while row < COLUMN_COUNT {
        codecs[row] = TABLE[row].codec;
        row += 1;
    }
    codecs
};

/// The specifications in a change. Ascending, as they are listed.
pub(crate) const CHANGE_SPECS: [ColumnSpec; COLUMN_COUNT] = {
    let mut specs = [ColumnSpec(0); COLUMN_COUNT];
    let mut row = 0;
    while row < COLUMN_COUNT {
        specs[row] = ColumnSpec(TABLE[row].change);
        assert!(row == 0 || specs[row - 1].0 < specs[row].0, "columns are listed in this order");
        row += 1;
    }
    specs
};

/// The specifications in a document. The ids come between others when they are listed.
pub(crate) const DOCUMENT_SPECS: [ColumnSpec; DOCUMENT_COLUMN_COUNT] = {
    let mut specs = [ColumnSpec(0); DOCUMENT_COLUMN_COUNT];
    let mut row = 0;
    while row < DOCUMENT_COLUMN_COUNT {
        specs[row] = ColumnSpec(TABLE[row].document);
        row += 1;
    }
    specs
};

/// The specifications in a bundle. The ids come between others when they are listed.
pub(crate) const BUNDLE_SPECS: [ColumnSpec; BUNDLE_COLUMN_COUNT] = {
    let mut specs = [ColumnSpec(0); BUNDLE_COLUMN_COUNT];
    let mut row = 0;
    while row < BUNDLE_COLUMN_COUNT {
        specs[row] = ColumnSpec(TABLE[row].bundle);
        row += 1;
    }
    specs
};

/// The column of a change with this specification.
#[inline]
pub(crate) fn change_column(spec: ColumnSpec) -> Option<usize> {
    change_column_of_byte(u8::try_from(spec.0).ok()?)
}

/// [`change_column`] of a specification below 256, as all of a change are. No bounds check.
#[inline]
pub(crate) fn change_column_of_byte(spec: u8) -> Option<usize> {
    let column = CHANGE_COLUMNS[usize::from(spec)];
    (column != NO_COLUMN).then_some(usize::from(column))
}

const NO_COLUMN: u8 = u8::MAX;

/// The column of a change by specification.
const CHANGE_COLUMNS: [u8; 256] = {
    let mut columns = [NO_COLUMN; 256];
    let mut row = 0;
    while row < COLUMN_COUNT {
        columns[CHANGE_SPECS[row].0 as usize] = row as u8;
        row += 1;
    }
    columns
};

/// The bytes of each shared column, empty for a column left out.
pub(crate) type OpColumns<'a> = [&'a [u8]; COLUMN_COUNT];
