//! Bundles: some changes of a document in columns, smaller than the changes one by one (format:
//! bundle chunk; experimental in the reference, so not for lasting files).
//!
//! ```text
//! deps (external)   count, then hashes: dependencies outside of the bundle
//! actors            count, then each length-prefixed, ascending: all named ones
//! change columns    table, then data                 one row a change, dependencies first
//! op columns        table, then data                 one row an op, deletes among them
//! ```
//!
//! A dependency below the number of changes is a row, one above names an external hash. The ops
//! stand in the order of the document, like beside like. The column "id position" gives the op of a
//! row: for all ops by actor and counter, the row of each.

use super::change::actor_count;
use super::columns::{BUNDLE_COLUMN_COUNT, BUNDLE_SPECS};
use super::header::Envelope;
use super::parts;
use crate::column::leb128::Reader;
use crate::column::spec::{self, ColumnSpec, RawColumn};
use crate::limits::Used;
use crate::{Change, ChangeHash, ChunkType, Error, Fault, Limits};

mod packed;
mod read;
mod write;

pub use write::BundleWriter;

const CHANGE_ACTOR: usize = 0;
const SEQ: usize = 1;
const START_OP: usize = 2;
const MAX_OP: usize = 3;
const TIME: usize = 4;
const MESSAGE: usize = 5;
const DEP_COUNT: usize = 6;
const DEP: usize = 7;
const EXTRA_COUNT: usize = 8;
const EXTRA: usize = 9;

const CHANGE_COLUMN_COUNT: usize = 10;

/// The specifications of the change columns, by the constants above.
const CHANGE_SPECS: [ColumnSpec; CHANGE_COLUMN_COUNT] = [
    ColumnSpec(1),
    ColumnSpec(3),
    ColumnSpec(19),
    ColumnSpec(35),
    ColumnSpec(51),
    ColumnSpec(69),
    ColumnSpec(80),
    ColumnSpec(83),
    ColumnSpec(96),
    ColumnSpec(103),
];

const CHANGE_NAMES: [&str; CHANGE_COLUMN_COUNT] = [
    "change actor column",
    "change seq column",
    "change start op column",
    "change max op column",
    "change time column",
    "change message column",
    "change dep count column",
    "change dep column",
    "change extra count column",
    "change extra column",
];

/// The changes of a bundle, parsed and valid: each as if alone.
#[derive(Clone, Debug)]
pub struct Bundle {
    deps: Box<[ChangeHash]>,
    changes: Vec<Change>,
}

impl Bundle {
    /// Reads the one bundle in `bytes`. Cost: linear in ops and changes, about 60 bytes an op
    /// during reading; one SHA-256 of each change.
    ///
    /// # Errors
    /// For anything else, and for a bundle that is invalid or exceeds `limits`.
    pub fn from_bytes(bytes: &[u8], limits: &Limits) -> Result<Self, Error> {
        let envelope = Envelope::read(bytes)?;
        if envelope.len < bytes.len() {
            let left = (bytes.len() - envelope.len) as u64;
            return Err(Error::Envelope { fault: Fault::Leftover(left) });
        }
        match envelope.chunk_type {
            ChunkType::Bundle => {
                let limits = limits.of_input(bytes.len());
                Self::from_envelope(&envelope, &limits).map(|(bundle, _)| bundle)
            }
            chunk => Err(Error::Unsupported { chunk }),
        }
    }

    /// Reads the bundle in `envelope`. Returns its share of the limits as well.
    pub(crate) fn from_envelope(
        envelope: &Envelope<'_>,
        limits: &Limits,
    ) -> Result<(Self, Used), Error> {
        envelope.check_len(limits)?;
        envelope.check()?;
        let mut reader = Reader::new(envelope.body);
        let deps = read_deps(&mut reader).map_err(in_part("deps"))?;
        let named = reader.clone().count(1).map_err(in_part("actors"))?;
        parts::within(ChunkType::Bundle, named as u64, limits.max_actors, "actors")?;
        let actors = parts::read_actors(&mut reader).map_err(in_part("actors"))?;
        let mut budget = limits.max_decompressed_bytes;
        let change_columns: [_; CHANGE_COLUMN_COUNT] = read_columns(
            ("change column table", "change columns"),
            &mut reader,
            |spec| CHANGE_SPECS.iter().position(|&known| known == spec),
            &mut budget,
            limits,
        )?;
        let op_columns: [_; BUNDLE_COLUMN_COUNT] = read_columns(
            ("op column table", "op columns"),
            &mut reader,
            |spec| BUNDLE_SPECS.iter().position(|&known| known == spec),
            &mut budget,
            limits,
        )?;
        if !reader.is_empty() {
            return Err(in_part("body")(Fault::Leftover(reader.len() as u64)));
        }
        let count = actor_count(&actors);
        let rows = read::ChangeRows::read(&change_columns, count, deps.len(), limits)?;
        let obj_counters = read::object_counters(&op_columns, &rows)?;
        let ops = read::OpRows::read(&op_columns, &obj_counters, &rows, count, limits)?;
        let (changes, mut used) = read::rebuild(&rows, &ops, &actors, &deps, limits)?;
        used.decompressed_bytes = limits.max_decompressed_bytes - budget;
        Ok((Self { deps: deps.into(), changes }, used))
    }

    /// The dependencies of the bundle's changes outside of the bundle.
    pub fn deps(&self) -> &[ChangeHash] {
        &self.deps
    }

    /// The changes, dependencies first.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The changes, dependencies first.
    pub fn into_changes(self) -> Vec<Change> {
        self.changes
    }
}

fn read_deps(reader: &mut Reader<'_>) -> Result<Vec<ChangeHash>, Fault> {
    let count = reader.count(32)?;
    (0..count).map(|_| reader.hash()).collect()
}

/// Reads a table of columns and its data, inflated.
fn read_columns<const N: usize>(
    (table_part, data_part): (&'static str, &'static str),
    reader: &mut Reader<'_>,
    place: impl Fn(ColumnSpec) -> Option<usize>,
    budget: &mut u64,
    limits: &Limits,
) -> Result<[Box<[u8]>; N], Error> {
    let table: Vec<RawColumn> = spec::read_bundle_table(reader).map_err(in_part(table_part))?;
    let data = reader.bytes(spec::data_len(&table)).map_err(in_part(data_part))?;
    let parts = (table_part, data_part);
    parts::load(ChunkType::Bundle, parts, &table, data, place, budget, limits)
}

fn in_part(part: &'static str) -> impl Fn(Fault) -> Error {
    move |fault| Error::Corrupt { chunk: ChunkType::Bundle, part, row: None, fault }
}

#[cfg(test)]
mod tests;
