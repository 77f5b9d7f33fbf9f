//! Exact search: the nearest rows of a table, from chunks in the file or from a copy in memory.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use shoal_sql::{Error, SeenState, ShadowBlob, TableReads};

use crate::definition::MetadataType;
use crate::distance::{Metric, Query};
use crate::filter::Filter;
use crate::index::search::IndexState;
use crate::isa::Isa;
use crate::shadow::{Block, Chunk, Metadata, Parts};
use crate::vector::Vector;

/// The least bytes of vectors for a search on several cores to be faster than on one.
const PARALLEL_FROM: u64 = 4 << 20;

/// A row and its distance. Rows without one (NaN) come last, equal ones by rowid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit {
    pub(crate) distance: f32,
    pub(crate) rowid: i64,
}

impl Ord for Hit {
    fn cmp(&self, other: &Hit) -> Ordering {
        let by_distance = match (self.distance.is_nan(), other.distance.is_nan()) {
            (false, false) => self.distance.partial_cmp(&other.distance).unwrap_or(Ordering::Equal),
            (is_nan, other_is) => is_nan.cmp(&other_is),
        };
        by_distance.then(self.rowid.cmp(&other.rowid))
    }
}

impl PartialOrd for Hit {
    fn partial_cmp(&self, other: &Hit) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Hit {
    fn eq(&self, other: &Hit) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Hit {}

/// The nearest rows so far: at most `wanted`, the farthest on top.
#[derive(Clone, Debug)]
pub(crate) struct Nearest {
    wanted: usize,
    heap: BinaryHeap<Hit>,
}

impl Nearest {
    pub(crate) fn new(wanted: usize) -> Nearest {
        Nearest { wanted, heap: BinaryHeap::new() }
    }

    /// Keeps a row among the nearest, drops any other.
    #[inline]
    pub(crate) fn push(&mut self, hit: Hit) {
        if self.heap.len() < self.wanted {
            self.heap.push(hit);
        } else if let Some(mut farthest) = self.heap.peek_mut()
            && hit < *farthest
        {
            *farthest = hit;
        }
    }

    /// True for a distance beyond the farthest of all the rows wanted.
    #[inline]
    fn is_far(&self, distance: f32) -> bool {
        self.heap.len() == self.wanted
            && self.heap.peek().is_some_and(|farthest| distance > farthest.distance)
    }

    fn merge(mut self, other: Nearest) -> Nearest {
        other.heap.into_iter().for_each(|hit| self.push(hit));
        self
    }

    /// The rows, the nearest first.
    pub(crate) fn sorted(self) -> Vec<Hit> {
        self.heap.into_sorted_vec()
    }
}

/// Adds the nearest rows of one block; without `held`, every row counts as held.
fn search_block(
    query: &Query,
    filter: &Filter,
    block: &Block,
    held: Option<&[bool]>,
    nearest: &mut Nearest,
) {
    let mut distances = vec![0.0; block.rowids.len()];
    match held {
        // Few rows are held: the distances of the held rows alone.
        Some(held) if held.iter().filter(|held| **held).count() * 4 < held.len() => {
            for (row, _) in held.iter().enumerate().filter(|(_, held)| **held) {
                query.distances(&block.rows, &block.squares, row, &mut distances[row..=row]);
            }
        }
        _ => query.distances(&block.rows, &block.squares, 0, &mut distances),
    }
    for (row, distance) in distances.into_iter().enumerate() {
        if !nearest.is_far(distance) && held.is_none_or(|held| held[row]) && filter.allows(distance)
        {
            nearest.push(Hit { distance, rowid: block.rowids[row] });
        }
    }
}

/// A vector column in memory, as of one state of the file.
#[derive(Debug)]
pub(crate) struct Resident {
    state: u64,
    seen: SeenState,
    /// Ascending by chunk.
    pub(crate) blocks: Vec<Arc<Block>>,
    /// The bytes of the blocks: vectors, rowids and squares.
    pub(crate) bytes: u64,
    /// Columns of metadata asked for so far, by column and block.
    metadata: Mutex<FxHashMap<(usize, usize), Arc<Metadata>>>,
}

impl Resident {
    /// A column of metadata of a block, kept where the memory is enough.
    ///
    /// # Errors
    /// Faults of metadata chunks.
    pub(crate) fn metadata(
        &self,
        parts: &Parts,
        block: usize,
        (number, kind): (usize, MetadataType),
        reads: &TableReads<'_>,
    ) -> Result<Arc<Metadata>, Error> {
        let known = || self.metadata.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known().get(&(number, block)) {
            return Ok(Arc::clone(known));
        }
        let metadata = parts.metadata_of((number, kind), &self.blocks[block], reads)?;
        let metadata = Arc::new(metadata);
        // A text has its own bytes beside.
        let column = kind.chunk_bytes(parts.definition.chunk_size) as u64 * 4;
        let room = reads.memory_left().unwrap_or(u64::MAX);
        let mut known = known();
        if self.bytes.saturating_add(column * (known.len() as u64 + 1)) <= room {
            known.insert((number, block), Arc::clone(&metadata));
        }
        Ok(metadata)
    }
}

/// The copies of a table's vector columns, one for each, and the states of the indexes.
#[derive(Debug, Default)]
pub(crate) struct Residents {
    columns: Vec<Mutex<Option<Arc<Resident>>>>,
    indexes: Vec<IndexState>,
}

impl Residents {
    pub(crate) fn new(columns: usize, indexes: usize) -> Residents {
        Residents {
            columns: (0..columns).map(|_| Mutex::default()).collect(),
            indexes: (0..indexes).map(|_| IndexState::default()).collect(),
        }
    }

    /// The state of an index.
    pub(crate) fn index(&self, place: usize) -> &IndexState {
        &self.indexes[place]
    }

    /// The copy of a column in the state read now: the kept one, or a new one. `None` within a
    /// writing transaction, and for columns larger than the limit on memory.
    pub(crate) fn of(
        &self,
        parts: &Parts,
        number: usize,
        query: &Query,
        reads: &TableReads<'_>,
    ) -> Result<Option<Arc<Resident>>, Error> {
        let (Some(state), Some(kept)) = (reads.state()?, self.columns.get(number)) else {
            return Ok(None);
        };
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        let room = reads.memory_left().unwrap_or(u64::MAX);
        if let Some(known) = kept.as_ref().filter(|known| known.state == state) {
            return Ok((known.bytes <= room).then(|| Arc::clone(known)));
        }
        // Chunks on unchanged pages are taken from the copy of the last state.
        let known = match kept.take() {
            Some(before) => reads.changed_since(&before.seen)?.map(|changed| (before, changed)),
            None => None,
        };
        let still = |chunk: &Chunk, vectors: &ShadowBlob| {
            let (before, changed) = known.as_ref()?;
            let at = before.blocks.binary_search_by_key(&chunk.number, |block| block.chunk).ok()?;
            let block = &before.blocks[at];
            block.is_still(chunk, vectors, changed).then(|| Arc::clone(block))
        };
        let (blocks, metadata, seen) = (Vec::new(), Mutex::default(), reads.seen_state()?);
        let mut resident = Resident { state, seen, blocks, bytes: 0, metadata };
        let (mut fits, mut bytes) = (true, Vec::new());
        parts.each_chunk(
            number,
            reads,
            |_| Ok(true),
            |chunk, vectors| {
                let block = match still(&chunk, &vectors) {
                    Some(block) => block,
                    None => {
                        let mut block = parts.block(number, chunk, vectors, &mut bytes, reads)?;
                        if query.metric == Metric::Cosine {
                            block.squares = vec![0.0; block.rowids.len()];
                            query.squares_of(&block.rows, 0, &mut block.squares);
                        }
                        Arc::new(block)
                    }
                };
                resident.bytes += block.bytes();
                resident.blocks.push(block);
                fits = resident.bytes <= room;
                Ok(fits)
            },
        )?;
        if fits {
            *kept = Some(Arc::new(resident));
        }
        Ok(kept.clone())
    }
}

/// The `wanted` nearest rows of a vector column, under the conditions of the filter.
///
/// # Errors
/// Faults of the shadow tables; interrupts.
pub(crate) fn nearest(
    (parts, residents): (&Parts, &Residents),
    (number, vector): (usize, &Vector<'_>),
    filter: &Filter,
    wanted: usize,
    reads: &TableReads<'_>,
) -> Result<Vec<Hit>, Error> {
    let (_, column) = parts.vector_column(number)?;
    let query = Query::new(Isa::detect(), column.metric, vector);
    let mut nearest = Nearest::new(wanted);
    if wanted == 0 {
        return Ok(Vec::new());
    }
    let Some(resident) = residents.of(parts, number, &query, reads)? else {
        let wants = |partitions: &[_]| Ok(filter.wants(partitions));
        parts.each_block(number, reads, wants, |block| {
            let metadata =
                |number, kind| parts.metadata_of((number, kind), &block, reads).map(Arc::new);
            let held = filter.rows(&block, metadata)?;
            search_block(&query, filter, &block, held.as_deref(), &mut nearest);
            Ok(true)
        })?;
        return Ok(nearest.sorted());
    };
    let mut asked = Vec::with_capacity(resident.blocks.len());
    for (place, block) in resident.blocks.iter().enumerate() {
        if filter.wants(&block.partitions) {
            let metadata = |number, kind| resident.metadata(parts, place, (number, kind), reads);
            asked.push((&**block, filter.rows(block, metadata)?));
        }
    }
    reads.check()?;
    let search = |nearest: &mut Nearest, (block, held): &(&Block, Option<Vec<bool>>)| {
        search_block(&query, filter, block, held.as_deref(), nearest);
    };
    let bytes: u64 = asked.iter().map(|(block, _)| block.bytes()).sum();
    if bytes >= PARALLEL_FROM && rayon::current_num_threads() > 1 {
        let parts = asked.par_iter().fold(
            || Nearest::new(wanted),
            |mut nearest, asked| {
                search(&mut nearest, asked);
                nearest
            },
        );
        nearest = parts.reduce(|| Nearest::new(wanted), Nearest::merge);
    } else {
        asked.iter().for_each(|asked| search(&mut nearest, asked));
    }
    Ok(nearest.sorted())
}
