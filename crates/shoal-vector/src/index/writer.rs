//! An index kept in step with its table: nodes written within the table's transaction.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use shoal_sql::{Error, TableReads, TableWrites, ValueRef};

use super::build::build;
use super::code::digest;
use super::definition::Index;
use super::edit::Editor;
use super::graph::{Graph, Paged};
use super::walk::Scratch;
use crate::shadow::{Parts, quoted};

/// The layout of nodes.
const VERSION: i64 = 1;
/// The most nodes waiting to be written.
const WAITING_MAX: usize = 8192;
/// The most bytes of nodes kept in memory.
const BYTES_MAX: u64 = 64 << 20;
/// The row of the meta table.
const META_ROW: i64 = 1;

/// The one row of the meta table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meta {
    /// The node where walks begin.
    pub(crate) root: Option<i64>,
    /// The number of nodes.
    pub(crate) nodes: u64,
    /// The sum of the nodes' digests.
    pub(crate) digest: u64,
    /// Another number after each building: numbers of nodes in memory are void.
    generation: i64,
}

impl Meta {
    /// Reads the row; `None` where the index is of a table of another shape.
    ///
    /// # Errors
    /// A missing or damaged row, a layout of another version.
    pub(crate) fn read(index: &Index, reads: &TableReads<'_>) -> Result<Option<Meta>, Error> {
        let mut rows = reads.rows(&index.meta)?;
        if !rows.seek(META_ROW)? {
            return Err(index.corrupt("the row of the meta table is missing"));
        }
        if rows.column(1)? != ValueRef::Int(VERSION) {
            return Err(index.corrupt("the layout of nodes is not known"));
        }
        if rows.column(2)? != ValueRef::Text(index.shape().as_bytes()) {
            return Ok(None);
        }
        let root = match rows.column(3)? {
            ValueRef::Int(root) => Some(root),
            ValueRef::Null => None,
            _ => return Err(index.corrupt("the root is no rowid")),
        };
        let nodes = match rows.column(4)? {
            ValueRef::Int(nodes) => u64::try_from(nodes).ok(),
            _ => None,
        };
        let digest = match rows.column(5)? {
            ValueRef::Int(digest) => Some(digest.cast_unsigned()),
            _ => None,
        };
        let generation = match rows.column(6)? {
            ValueRef::Int(generation) => generation,
            _ => return Err(index.corrupt("the number of the building is no number")),
        };
        let (Some(nodes), Some(digest)) = (nodes, digest) else {
            return Err(index.corrupt("the number of nodes or their digest is no number"));
        };
        if root.is_none() != (nodes == 0) {
            return Err(index.corrupt(format!("there are {nodes} nodes, and a root without any")));
        }
        Ok(Some(Meta { root, nodes, digest, generation }))
    }

    /// The sum of the nodes' digests, and their number.
    pub(super) fn stamp(&self) -> (u64, u64) {
        (self.digest, self.nodes)
    }

    /// The row before the first node of a new building.
    fn new(index: &Index, reads: &TableReads<'_>) -> Result<Meta, Error> {
        let mut rows = reads.rows(&index.meta)?;
        let is_there = rows.seek(META_ROW)?;
        let generation = match is_there.then(|| rows.column(6)).transpose()? {
            Some(ValueRef::Int(before)) => before.wrapping_add(1),
            _ => 1,
        };
        Ok(Meta { generation, ..Meta::default() })
    }

    fn write(&self, index: &Index, writes: &mut TableWrites<'_>) -> Result<(), Error> {
        let shape = index.shape();
        let values = [
            ValueRef::Null,
            ValueRef::Int(VERSION),
            ValueRef::Text(shape.as_bytes()),
            self.root.map_or(ValueRef::Null, ValueRef::Int),
            ValueRef::Int(self.nodes.cast_signed()),
            ValueRef::Int(self.digest.cast_signed()),
            ValueRef::Int(self.generation),
        ];
        writes.insert(&index.meta, META_ROW, &values)
    }

    fn remove(&mut self, digest: u64) {
        self.nodes = self.nodes.saturating_sub(1);
        self.digest = self.digest.wrapping_sub(digest);
    }

    fn add(&mut self, digest: u64) {
        self.nodes += 1;
        self.digest = self.digest.wrapping_add(digest);
    }
}

/// Follows the rows written of a table.
#[derive(Debug)]
pub(crate) struct IndexWriter {
    parts: Arc<Parts>,
    /// The place among the table's indexes.
    place: usize,
    graph: Graph,
    /// The meta row as the file has it; `None` before the first row, and for an index of a table of
    /// another shape, left alone.
    stored: Option<Meta>,
    /// The meta row with the nodes not yet written.
    meta: Option<Meta>,
    scratch: Scratch,
}

impl IndexWriter {
    pub(crate) fn new(parts: Arc<Parts>, place: usize) -> IndexWriter {
        let (graph, scratch) = (Graph::new(), Scratch::default());
        IndexWriter { parts, place, graph, stored: None, meta: None, scratch }
    }

    /// The writers of all indexes of a table.
    pub(crate) fn all(parts: &Arc<Parts>) -> Vec<IndexWriter> {
        (0..parts.indexes.len()).map(|place| IndexWriter::new(Arc::clone(parts), place)).collect()
    }

    /// The number of the vector column.
    pub(crate) fn column(&self) -> usize {
        self.parts.indexes[self.place].number
    }

    /// The meta row. Another one than this writer left is of a building since: nodes in memory are
    /// forgotten.
    fn begin(&mut self, reads: &TableReads<'_>) -> Result<Option<Meta>, Error> {
        let found = Meta::read(&self.parts.indexes[self.place], reads)?;
        if found != self.stored {
            (self.graph, self.stored, self.meta) = (Graph::new(), found, found);
            self.find_root();
        }
        Ok(self.meta)
    }

    fn find_root(&mut self) {
        let index = &self.parts.indexes[self.place];
        let root = self.meta.and_then(|meta| meta.root);
        self.graph.root = root.map(|root| self.graph.number(index, root));
    }

    /// Gives the index the vector of a row, new or changed.
    ///
    /// # Errors
    /// Damaged nodes; errors of the file.
    pub(crate) fn set(
        &mut self,
        rowid: i64,
        bytes: &[u8],
        writes: &mut TableWrites<'_>,
    ) -> Result<(), Error> {
        let Some(mut meta) = self.begin(&writes.reads())? else { return Ok(()) };
        let parts = Arc::clone(&self.parts);
        let index = &parts.indexes[self.place];
        let value = digest(rowid, bytes);
        let known = self.find(rowid, &writes.reads())?;
        {
            let reads = writes.reads();
            let nodes = Paged { graph: &mut self.graph, rows: Some(reads.rows(&index.nodes)?) };
            let mut editor = Editor { index, nodes, scratch: &mut self.scratch };
            if let Some(node) = known {
                if editor.digest(node)? == value {
                    return Ok(());
                }
                meta.remove(editor.remove(node)?);
            }
            editor.insert(rowid, &index.coder.encode(bytes), value)?;
        }
        meta.add(value);
        self.keep(meta, writes)
    }

    /// Takes a row out of the index.
    ///
    /// # Errors
    /// As [`IndexWriter::set`].
    pub(crate) fn remove(&mut self, rowid: i64, writes: &mut TableWrites<'_>) -> Result<(), Error> {
        let Some(mut meta) = self.begin(&writes.reads())? else { return Ok(()) };
        let Some(node) = self.find(rowid, &writes.reads())? else { return Ok(()) };
        let parts = Arc::clone(&self.parts);
        let index = &parts.indexes[self.place];
        {
            let reads = writes.reads();
            let nodes = Paged { graph: &mut self.graph, rows: Some(reads.rows(&index.nodes)?) };
            let mut editor = Editor { index, nodes, scratch: &mut self.scratch };
            meta.remove(editor.remove(node)?);
        }
        self.keep(meta, writes)
    }

    /// The node of a row; `None` without one.
    fn find(&mut self, rowid: i64, reads: &TableReads<'_>) -> Result<Option<u32>, Error> {
        if let Some(node) = self.graph.known(rowid) {
            return Ok(Some(node));
        }
        let index = &self.parts.indexes[self.place];
        let is_there = !self.graph.is_gone(rowid) && reads.rows(&index.nodes)?.seek(rowid)?;
        Ok(is_there.then(|| self.graph.number(index, rowid)))
    }

    fn keep(&mut self, mut meta: Meta, writes: &mut TableWrites<'_>) -> Result<(), Error> {
        meta.root = self.graph.root.map(|root| self.graph.rowid(root));
        self.meta = Some(meta);
        let index = &self.parts.indexes[self.place];
        let is_large = self.graph.len() as u64 * Graph::node_bytes(index) > BYTES_MAX;
        if is_large || self.graph.waiting() > WAITING_MAX {
            self.flush(writes)?;
        }
        if is_large {
            self.graph = Graph::new();
            self.find_root();
        }
        Ok(())
    }

    /// Writes changed nodes.
    ///
    /// # Errors
    /// Errors of the file.
    pub(crate) fn flush(&mut self, writes: &mut TableWrites<'_>) -> Result<(), Error> {
        if self.graph.waiting() == 0 {
            return Ok(());
        }
        let Some(meta) = self.begin(&writes.reads())? else { return Ok(()) };
        let index = &self.parts.indexes[self.place];
        write_nodes(index, &mut self.graph, writes)?;
        self.stored = Some(meta);
        meta.write(index, writes)
    }

    /// Forgets all nodes in memory.
    pub(crate) fn forget(&mut self) {
        (self.graph, self.stored, self.meta) = (Graph::new(), None, None);
    }
}

fn write_nodes(
    index: &Index,
    graph: &mut Graph,
    writes: &mut TableWrites<'_>,
) -> Result<(), Error> {
    graph.written(index, |rowid, bytes| match bytes {
        Some(bytes) => writes.insert(&index.nodes, rowid, &[ValueRef::Null, ValueRef::Blob(bytes)]),
        None => writes.delete(&index.nodes, rowid).map(drop),
    })
}

/// Fills an index from its table, in the place of any nodes there are: in memory on all cores, or
/// row by row where the memory is not enough.
///
/// # Errors
/// Faults of the table; interrupts.
pub(crate) fn rebuild(
    parts: &Arc<Parts>,
    place: usize,
    writes: &mut TableWrites<'_>,
) -> Result<(), Error> {
    let index = &parts.indexes[place];
    writes.execute(&format!("DELETE FROM {}", quoted(index.nodes.name())), &[])?;
    let new = Meta::new(index, &writes.reads())?;
    let (mut graph, mut meta) = (Graph::new(), new);
    let mut fits = true;
    {
        let reads = writes.reads();
        let room = reads.memory_left().unwrap_or(u64::MAX);
        let width = index.column.bytes();
        let mut bytes = Vec::with_capacity(width);
        parts.each_block(
            index.number,
            &reads,
            |_| Ok(true),
            |block| {
                let count = (graph.len() + block.rowids.len()) as u64;
                fits = count.saturating_mul(Graph::node_bytes(index)) <= room;
                if !fits {
                    return Ok(false);
                }
                for (row, rowid) in block.rowids.iter().enumerate() {
                    block.rows.row_bytes(row, width, &mut bytes);
                    if graph.known(*rowid).is_some() {
                        return Err(parts.corrupt(format!("row {rowid} is in two slots of chunks")));
                    }
                    let value = digest(*rowid, &bytes);
                    graph.add(index, *rowid, &index.coder.encode(&bytes), value);
                    meta.add(value);
                }
                Ok(true)
            },
        )?;
        if fits {
            build(index, &mut graph, || reads.check())?;
            meta.root = graph.root.map(|root| graph.rowid(root));
        }
    }
    if fits {
        write_nodes(index, &mut graph, writes)?;
        return meta.write(index, writes);
    }
    drop(graph);
    new.write(index, writes)?;
    let mut rowids = Vec::new();
    {
        let reads = writes.reads();
        let mut rows = reads.rows(&parts.rowids)?;
        let mut found = rows.first()?;
        while found {
            rowids.push(rows.rowid()?);
            found = rows.next()?;
        }
    }
    set_rows(parts, place, &rowids, writes)
}

/// Gives the index the vectors of some rows.
fn set_rows(
    parts: &Arc<Parts>,
    place: usize,
    rowids: &[i64],
    writes: &mut TableWrites<'_>,
) -> Result<(), Error> {
    let mut writer = IndexWriter::new(Arc::clone(parts), place);
    for rowid in rowids {
        writes.reads().check()?;
        let Some(at) = parts.place(*rowid, &writes.reads())? else { continue };
        let bytes = parts.vector(parts.indexes[place].number, at, &writes.reads())?;
        writer.set(*rowid, &bytes, writes)?;
    }
    writer.flush(writes)
}

/// Brings an index up to its table after another program wrote rows: nodes without a row are taken
/// out, rows with another vector moved, new ones added. Built anew where a fourth has changed.
///
/// # Errors
/// Faults of the table and of the index; interrupts.
pub(crate) fn refresh(
    parts: &Arc<Parts>,
    place: usize,
    writes: &mut TableWrites<'_>,
) -> Result<(), Error> {
    let index = &parts.indexes[place];
    let mut gone = FxHashMap::default();
    let mut changed = Vec::new();
    let mut count = 0;
    {
        let reads = writes.reads();
        let Some(meta) = Meta::read(index, &reads)? else { return rebuild(parts, place, writes) };
        let mut rows = reads.rows(&index.nodes)?;
        let mut found = rows.first()?;
        while found {
            reads.check()?;
            let rowid = rows.rowid()?;
            gone.insert(rowid, Graph::digest_of(index, rowid, rows.column(1)?)?);
            found = rows.next()?;
        }
        if gone.len() as u64 != meta.nodes {
            return Err(index.corrupt(format!("{} of {} nodes are there", gone.len(), meta.nodes)));
        }
        let width = index.column.bytes();
        let mut bytes = Vec::with_capacity(width);
        parts.each_block(
            index.number,
            &reads,
            |_| Ok(true),
            |block| {
                for (row, rowid) in block.rowids.iter().enumerate() {
                    block.rows.row_bytes(row, width, &mut bytes);
                    count += 1;
                    if gone.remove(rowid) != Some(digest(*rowid, &bytes)) {
                        changed.push(*rowid);
                    }
                }
                Ok(true)
            },
        )?;
    }
    if (changed.len() + gone.len()) * 4 > count {
        return rebuild(parts, place, writes);
    }
    let mut gone: Vec<i64> = gone.into_keys().collect();
    gone.sort_unstable();
    let mut writer = IndexWriter::new(Arc::clone(parts), place);
    for rowid in gone {
        writes.reads().check()?;
        writer.remove(rowid, writes)?;
    }
    writer.flush(writes)?;
    set_rows(parts, place, &changed, writes)
}
