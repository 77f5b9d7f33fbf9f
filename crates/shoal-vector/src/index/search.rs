//! Searches by an index: the walk over codes, conditions asked on the way, whole vectors compared.
//!
//! The first search of a state of the file compares the index's digest with the rows there. An
//! index older than its rows is not asked. Every other doubt ends in an exact search, too: few rows
//! within the conditions, a walk too long, fewer rows found than wanted.

use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;
use shoal_sql::{ConstraintOp, Error, TableReads};

use super::code::{Coded, digest};
use super::definition::{EF_MAX, Index};
use super::graph::{Graph, Near, Paged};
use super::walk::{Bounds, Scratch, walk};
use super::writer::Meta;
use crate::distance::{Query, Rows};
use crate::filter::{Filter, Subject};
use crate::isa::Isa;
use crate::search::{Hit, Resident, Residents};
use crate::shadow::Parts;
use crate::vector::Vector;

/// How many nodes a walk visits for each one kept, about.
const VISITS: f64 = 16.0;
/// The least share of rows within the conditions for a search by the index.
const SHARE_MIN: f64 = 0.05;
/// The number of nodes asked for the share of rows within the conditions.
const SAMPLES: usize = 1024;

/// All nodes of an index in memory.
#[derive(Debug)]
struct Whole {
    graph: Graph,
    meta: Meta,
    /// The block of each node's row, and the place in the block.
    places: Vec<(u32, u32)>,
}

/// An index in one state of the file.
#[derive(Clone, Debug)]
enum Readiness {
    /// Of other rows than the table's.
    Stale,
    /// In memory.
    Whole(Arc<Whole>),
    /// Too large for the memory: read node by node.
    Paged,
}

/// Knowledge of an index, as of one state of the file.
#[derive(Debug, Default)]
pub(crate) struct IndexState(Mutex<Option<(u64, Readiness)>>);

/// The sum of the digests of all rows of a column, and their number.
pub(super) fn stamp(
    (parts, index): (&Parts, &Index),
    resident: Option<&Resident>,
    reads: &TableReads<'_>,
) -> Result<(u64, u64), Error> {
    let width = index.column.bytes();
    let of_block = |rowids: &[i64], rows: &Rows| {
        let mut bytes = Vec::with_capacity(width);
        let digests = rowids.iter().enumerate().map(|(row, rowid)| {
            rows.row_bytes(row, width, &mut bytes);
            digest(*rowid, &bytes)
        });
        (digests.fold(0, u64::wrapping_add), rowids.len() as u64)
    };
    let add = |a: (u64, u64), b: (u64, u64)| (a.0.wrapping_add(b.0), a.1 + b.1);
    if let Some(resident) = resident {
        let blocks = resident.blocks.par_iter();
        let sums =
            blocks.map(|block| *block.digest.get_or_init(|| of_block(&block.rowids, &block.rows)));
        return Ok(sums.reduce(|| (0, 0), add));
    }
    let mut sum = (0, 0);
    parts.each_block(
        index.number,
        reads,
        |_| Ok(true),
        |block| {
            sum = add(sum, of_block(&block.rowids, &block.rows));
            Ok(true)
        },
    )?;
    Ok(sum)
}

impl Whole {
    /// Reads an index whose stamp equals the stamp of the rows.
    fn read(
        index: &Index,
        meta: Meta,
        resident: &Resident,
        reads: &TableReads<'_>,
    ) -> Result<Whole, Error> {
        let rows = reads.rows(&index.nodes)?;
        let mut graph = Graph::read_all(index, rows, || reads.check())?;
        if graph.stamp() != meta.stamp() {
            let why = format!("{} nodes are there, not the {} counted", graph.len(), meta.nodes);
            return Err(index.corrupt(why));
        }
        let mut places = vec![(0, 0); graph.len()];
        for (block, known) in resident.blocks.iter().enumerate() {
            for (row, rowid) in known.rowids.iter().enumerate() {
                let node = graph.known(*rowid);
                let node = node.ok_or_else(|| index.corrupt(format!("row {rowid} has no node")))?;
                places[node as usize] = (block as u32, row as u32);
            }
        }
        graph.root = match meta.root.map(|root| (root, graph.known(root))) {
            Some((root, None)) => {
                return Err(index.corrupt(format!("the root {root} is no node")));
            }
            root => root.and_then(|(_, node)| node),
        };
        Ok(Whole { graph, meta, places })
    }
}

impl IndexState {
    /// The index in the state read now.
    ///
    /// # Errors
    /// Damaged nodes; faults of the table; interrupts.
    fn of(
        &self,
        (parts, index): (&Parts, &Index),
        (meta, state): (Meta, u64),
        resident: Option<&Resident>,
        reads: &TableReads<'_>,
    ) -> Result<Readiness, Error> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, readiness)) = &*kept
            && *known == state
        {
            return Ok(readiness.clone());
        }
        *kept = None;
        let readiness = if stamp((parts, index), resident, reads)? != meta.stamp() {
            Readiness::Stale
        } else {
            let room = reads.memory_left().unwrap_or(u64::MAX);
            let bytes = meta.nodes.saturating_mul(Graph::node_bytes(index));
            match resident.filter(|resident| resident.bytes.saturating_add(bytes) <= room) {
                Some(resident) => {
                    Readiness::Whole(Arc::new(Whole::read(index, meta, resident, reads)?))
                }
                None => Readiness::Paged,
            }
        };
        *kept = Some((state, readiness.clone()));
        Ok(readiness)
    }
}

/// A search by an index.
pub(crate) struct IndexSearch<'s> {
    pub(crate) parts: &'s Parts,
    pub(crate) residents: &'s Residents,
    /// The place among the table's indexes.
    pub(crate) place: usize,
    pub(crate) vector: &'s Vector<'s>,
    pub(crate) filter: &'s Filter,
    pub(crate) wanted: usize,
    /// The nodes kept by the walk, where the query names a number.
    pub(crate) ef: Option<usize>,
}

impl IndexSearch<'_> {
    /// About the `wanted` nearest rows within the conditions, fewer only where others are beyond a
    /// bound on distances; `None` where an exact search is needed, or costs less.
    ///
    /// # Errors
    /// A damaged index; faults of the table; interrupts.
    pub(crate) fn find(&self, reads: &TableReads<'_>) -> Result<Option<Vec<Hit>>, Error> {
        let index = &self.parts.indexes[self.place];
        // Within a writing transaction no state is known: rows may have changed a moment ago.
        let Some(state) = reads.state()? else { return Ok(None) };
        let ef = self.ef.unwrap_or(index.definition.ef).min(EF_MAX).max(self.wanted);
        let is_lower = |op| !matches!(op, ConstraintOp::Less | ConstraintOp::AtMost);
        let conditions = &self.filter.0;
        if conditions.iter().any(|it| it.subject == Subject::Distance && is_lower(it.op)) {
            return Ok(None);
        }
        let Some(meta) = Meta::read(index, reads)? else { return Ok(None) };
        let coded = index.coder.encode(&self.vector.bytes);
        if is_cheaper(meta.nodes, 1.0, ef, false) || !coded.has_place() {
            return Ok(None);
        }
        let query = Query::new(Isa::detect(), index.column.metric, self.vector);
        let resident = self.residents.of(self.parts, index.number, &query, reads)?;
        let table = (self.parts, index);
        let known = self.residents.index(self.place);
        let readiness = known.of(table, (meta, state), resident.as_deref(), reads)?;
        let found = match (&readiness, &resident) {
            (Readiness::Stale, _) => None,
            (Readiness::Whole(whole), Some(resident)) if whole.meta == meta => {
                self.find_whole((whole, resident), (&coded, &query), ef, reads)?
            }
            _ => self.find_paged(meta, (&coded, &query), ef, reads)?,
        };
        let Some(mut hits) = found else { return Ok(None) };
        hits.sort_unstable();
        hits.retain(|hit| self.filter.allows(hit.distance));
        hits.truncate(self.wanted);
        Ok(Some(hits))
    }

    fn find_whole(
        &self,
        (whole, resident): (&Whole, &Resident),
        (coded, query): (&Coded, &Query),
        ef: usize,
        reads: &TableReads<'_>,
    ) -> Result<Option<Vec<Hit>>, Error> {
        let index = &self.parts.indexes[self.place];
        let rows = self.filter.of_resident(self.parts, resident, reads)?;
        let allows = |node: u32| {
            let (block, row) = whole.places[node as usize];
            rows.allows(block as usize, row as usize)
        };
        let count = whole.graph.len();
        let mut share = 1.0;
        if !rows.are_all() {
            let step = count.div_ceil(SAMPLES);
            let asked = (0..count).step_by(step);
            let held = asked.clone().filter(|node| allows(*node as u32)).count();
            share = held as f64 / asked.count() as f64;
        }
        if share < SHARE_MIN || is_cheaper(count as u64, share, ef, !rows.are_all()) {
            return Ok(None);
        }
        let visits = (ef as f64 / share * VISITS * 4.0) as usize;
        let (mut nodes, mut scratch) = (&whole.graph, Scratch::default());
        let bounds = Bounds { ef, visits };
        let mut steps = 0_u32;
        let found = walk(index, &mut nodes, coded, bounds, &mut scratch, |_, node| {
            steps += 1;
            if steps.is_multiple_of(4096) {
                reads.check()?;
            }
            Ok(allows(node))
        })?;
        let hit = |near: Near| {
            let (block, row) = whole.places[near.node as usize];
            let block = &resident.blocks[block as usize];
            let mut out = [0.0];
            query.distances(&block.rows, &block.squares, row as usize, &mut out);
            Hit { distance: out[0], rowid: near.rowid }
        };
        let found = found.filter(|found| found.len() >= self.wanted);
        Ok(found.map(|found| found.into_iter().map(hit).collect()))
    }

    fn find_paged(
        &self,
        meta: Meta,
        (coded, query): (&Coded, &Query),
        ef: usize,
        reads: &TableReads<'_>,
    ) -> Result<Option<Vec<Hit>>, Error> {
        let index = &self.parts.indexes[self.place];
        if self.filter.0.iter().any(|it| it.subject != Subject::Distance) {
            return Ok(None);
        }
        let mut graph = Graph::new();
        graph.root = meta.root.map(|root| graph.number(index, root));
        let mut nodes = Paged { graph: &mut graph, rows: Some(reads.rows(&index.nodes)?) };
        let bounds = Bounds { ef, visits: usize::MAX };
        let mut scratch = Scratch::default();
        let found = walk(index, &mut nodes, coded, bounds, &mut scratch, |_, _| {
            reads.check()?;
            Ok(true)
        })?;
        let Some(found) = found.filter(|found| found.len() >= self.wanted) else {
            return Ok(None);
        };
        let mut hits = Vec::with_capacity(found.len());
        for near in found {
            reads.check()?;
            let rowid = near.rowid;
            let missing = || index.corrupt(format!("node {rowid} has no row"));
            let place = self.parts.place(rowid, reads)?.ok_or_else(missing)?;
            let mut rows = Rows::new(index.column.element);
            rows.extend(&self.parts.vector(index.number, place, reads)?);
            let mut out = [0.0];
            query.distances(&rows, &[], 0, &mut out);
            hits.push(Hit { distance: out[0], rowid });
        }
        Ok(Some(hits))
    }
}

/// True where comparing all rows within the conditions costs less than a walk.
fn is_cheaper(rows: u64, share: f64, ef: usize, asks: bool) -> bool {
    let asking = if asks { rows as f64 / 8.0 } else { 0.0 };
    rows as f64 * share + asking <= ef as f64 / share * VISITS
}
