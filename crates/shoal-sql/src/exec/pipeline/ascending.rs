//! Merge of `UNION`, `INTERSECT` and `EXCEPT` whose rows have their rowids among their columns.
//!
//! Rows of a table come in the order of their rowids, and no two have the same. So where each part
//! is a table with its rowid as the same column of the result, a part has no equal rows within, and
//! rows of two parts able to be equal meet in one merge of both: nothing is hashed. For most rows
//! only the rowid is read; columns are compared where rowids are equal. Rows are kept as places, by
//! each part in its own memory.

use shoal_store::{ColumnPlace, Corrupt, LeafCell, Pgno, Transaction};

use super::leaf::{Begin, CHUNK, EVERYWHERE, LeafMemory, LeafScan};
use super::leaf_rows::LeafRow;
use super::run::{Memory, Start};
use crate::Error;
use crate::keep::key::is_equal;
use crate::parse::ast::CompoundOp;
use crate::plan::node::{CompoundNode, Node, compound_of, root_parts};
use crate::plan::pipeline::{Operand, Pipeline, RecordPlan};
use crate::value::{Collation, Value};

/// The position of a table's row.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowAt {
    cell: LeafCell,
    page: Pgno,
    /// The number of its cell.
    index: u32,
}

/// The rows of one part in the result.
#[derive(Debug, Default)]
pub(super) struct KeptRows {
    rows: Vec<RowAt>,
    /// The first row not yet given.
    next: usize,
    /// During the merge with another part: the first row with a possible match still ahead, and the
    /// number of rows before it staying in the result.
    at: usize,
    stay: usize,
    /// Places of the columns of the row under comparison.
    fields: Vec<ColumnPlace>,
    far: Vec<u8>,
}

/// True where a merge serves for the parts of a compound.
pub(super) fn is_ascending(node: &Node) -> bool {
    let Some(plan) = compound_of(node) else { return false };
    if plan.rest.iter().any(|(op, _)| *op == CompoundOp::UnionAll) {
        return false;
    }
    let is_rowid = |part: Option<&Pipeline>, column: usize| {
        let outputs = part.and_then(|pipeline| pipeline.outputs.as_deref());
        matches!(outputs.and_then(|outputs| outputs.get(column)), Some(Operand::Rowid { .. }))
    };
    root_parts(node).all(|part| part.is_some_and(Pipeline::is_scan))
        && (0..plan.collations.len())
            .any(|column| root_parts(node).all(|part| is_rowid(part, column)))
}

/// Combines the parts from left to right. The result's rows are in the parts' memories, to be given
/// from there.
///
/// # Errors
/// Errors of the file.
pub(super) fn combine(
    node: &Node,
    plan: &CompoundNode,
    txn: &Transaction,
    parameters: &[Value],
    memory: &mut [Memory],
) -> Result<(), Error> {
    for memory in &mut *memory {
        memory.clear();
        memory.start = Start::Kept;
        memory.kept.rows.clear();
        memory.kept.next = 0;
    }
    for (number, (op, part)) in plan.ops().zip(root_parts(node).flatten()).enumerate() {
        let (before, rest) = memory.split_at_mut(number);
        let Some(Memory { leaf, kept, .. }) = rest.first_mut() else { return Ok(()) };
        let context = Context { node, collations: &plan.collations, txn, parameters };
        context.take(op, part, before, (leaf, kept))?;
    }
    Ok(())
}

/// The context common to all parts.
#[derive(Clone, Copy)]
struct Context<'s> {
    node: &'s Node,
    collations: &'s [Collation],
    txn: &'s Transaction,
    parameters: &'s [Value],
}

impl Context<'_> {
    /// Merges the rows of a part with the rows of the parts before.
    fn take(
        self,
        op: CompoundOp,
        part: &Pipeline,
        before: &mut [Memory],
        (leaf, kept): (&mut LeafMemory, &mut KeptRows),
    ) -> Result<(), Error> {
        let adds = op == CompoundOp::Union;
        let mut within = EVERYWHERE;
        if !adds {
            // Rows of the part outside of this range match no row so far.
            let kept = || before.iter().map(|memory| &memory.kept.rows);
            let lowest = kept().filter_map(|rows| rows.first()).map(|row| row.cell.rowid).min();
            let highest = kept().filter_map(|rows| rows.last()).map(|row| row.cell.rowid).max();
            let (Some(lowest), Some(highest)) = (lowest, highest) else { return Ok(()) };
            within = (lowest, highest);
        }
        for memory in &mut *before {
            (memory.kept.at, memory.kept.stay) = (0, 0);
        }
        let scan = LeafScan::new(part, self.txn, self.parameters, leaf, Begin::First, within)?;
        if let Some(mut scan) = scan {
            scan.want_places_only();
            let mut last = None;
            while scan.next(CHUNK, false)? {
                let Some((rows, first)) = scan.rows().zip(scan.first()) else { continue };
                for &at in rows.selected() {
                    let cell = rows.cell(usize::from(at));
                    if last.is_some_and(|last| last >= cell.rowid) {
                        return Err(descends(rows.pgno(), cell.rowid));
                    }
                    last = Some(cell.rowid);
                    // A page has at most 32,768 cells.
                    let index = (first + usize::from(at)) as u32;
                    let row = RowAt { cell, page: rows.pgno(), index };
                    if !before.is_empty() {
                        self.meet(op, part, row, before, kept)?;
                    }
                    if adds {
                        kept.rows.push(row);
                    }
                }
            }
        }
        for memory in before {
            memory.kept.pass(i64::MAX, op);
            memory.kept.pass_one(op != CompoundOp::Intersect);
            let KeptRows { rows, stay, .. } = &mut memory.kept;
            rows.truncate(*stay);
        }
        Ok(())
    }

    /// Passes the rows so far up to a row of the next part. From equal rows a `UNION` gives the
    /// later one, as in SQLite.
    #[inline]
    fn meet(
        self,
        op: CompoundOp,
        part: &Pipeline,
        row: RowAt,
        before: &mut [Memory],
        kept: &mut KeptRows,
    ) -> Result<(), Error> {
        for (number, memory) in before.iter_mut().enumerate() {
            let other = &mut memory.kept;
            other.pass(row.cell.rowid, op);
            let Some(&known) = other.rows.get(other.at) else { continue };
            if known.cell.rowid != row.cell.rowid {
                continue;
            }
            let Some(known_part) = root_parts(self.node).nth(number).flatten() else { continue };
            let equal = self.equal((part, row, kept), (known_part, known, other))?;
            other.pass_one(equal == (op == CompoundOp::Intersect));
        }
        Ok(())
    }

    /// True where two rows have equal columns.
    #[inline(never)]
    fn equal(
        self,
        (part, row, kept): (&Pipeline, RowAt, &mut KeptRows),
        (known_part, known, other): (&Pipeline, RowAt, &mut KeptRows),
    ) -> Result<bool, Error> {
        let read =
            |pipeline: &Pipeline, row: RowAt, kept: &mut KeptRows| match pipeline.records.first() {
                Some(plan) => row.find(plan, self.txn, &mut kept.fields, &mut kept.far),
                None => Ok(()),
            };
        read(part, row, kept)?;
        read(known_part, known, other)?;
        let row = row.view(self, &kept.fields, &kept.far);
        let known = known.view(self, &other.fields, &other.far);
        let outputs = part.outputs.as_deref().unwrap_or_default().iter();
        let known_outputs = known_part.outputs.as_deref().unwrap_or_default();
        let mut columns = outputs.zip(known_outputs).zip(self.collations);
        Ok(columns.all(|((a, b), by)| match (a, b) {
            (Operand::Rowid { .. }, Operand::Rowid { .. }) => true,
            _ => is_equal(row.value(a), known.value(b), *by),
        }))
    }
}

/// The error of a table with rowids out of order.
#[cold]
fn descends(page: Pgno, rowid: i64) -> Error {
    let why = "has a rowid that is not above the one before";
    Error::corrupt(Corrupt::on_page(page, "b-tree", why, rowid.cast_unsigned()))
}

impl KeptRows {
    /// Passes the rows below `rowid`: they met no equal row.
    #[inline(always)]
    fn pass(&mut self, rowid: i64, op: CompoundOp) {
        while let Some(row) = self.rows.get(self.at)
            && row.cell.rowid < rowid
        {
            if op != CompoundOp::Intersect {
                self.rows[self.stay] = *row;
                self.stay += 1;
            }
            self.at += 1;
        }
    }

    /// Passes the next row, if there is one.
    fn pass_one(&mut self, stays: bool) {
        if let Some(&row) = self.rows.get(self.at) {
            if stays {
                self.rows[self.stay] = row;
                self.stay += 1;
            }
            self.at += 1;
        }
    }

    /// The next rows to be given, at most so many.
    pub(super) fn take(&mut self, most: usize) -> &[RowAt] {
        let first = self.next;
        self.next = self.rows.len().min(first.saturating_add(most));
        &self.rows[first..self.next]
    }

    /// True once all rows were given.
    pub(super) fn ended(&self) -> bool {
        self.next >= self.rows.len()
    }
}

impl RowAt {
    pub(super) fn cell(&self) -> LeafCell {
        self.cell
    }

    pub(super) fn page(&self) -> Pgno {
        self.page
    }

    /// Reads a record continued on overflow pages.
    ///
    /// # Errors
    /// Errors of the file.
    #[cold]
    pub(super) fn read(&self, txn: &Transaction, far: &mut Vec<u8>) -> Result<(), Error> {
        let page = txn.btree_page(self.page)?;
        let payload = page.table_leaf(self.index as usize).map_err(Error::corrupt)?.payload;
        Ok(txn.read_payload(payload, far)?)
    }

    /// Finds the wanted columns.
    ///
    /// # Errors
    /// Errors of the file.
    pub(super) fn find(
        &self,
        plan: &RecordPlan,
        txn: &Transaction,
        fields: &mut Vec<ColumnPlace>,
        far: &mut Vec<u8>,
    ) -> Result<(), Error> {
        fields.resize(plan.places.len(), ColumnPlace::MISSING);
        if fields.is_empty() {
            return Ok(());
        }
        if self.cell.goes_on() {
            self.read(txn, far)?;
            return plan.all.find(far, 0..far.len(), fields).map_err(Error::corrupt);
        }
        let bytes = txn.page_bytes(self.page).unwrap_or_default();
        plan.all.find(bytes, self.cell.range(), fields).map_err(Error::corrupt)
    }

    /// The row, whose columns were found.
    fn view<'r>(
        &self,
        context: Context<'r>,
        fields: &'r [ColumnPlace],
        far: &'r [u8],
    ) -> LeafRow<'r> {
        let page = (!self.cell.goes_on()).then_some(self.page);
        let bytes = page.map_or(far, |page| context.txn.page_bytes(page).unwrap_or_default());
        LeafRow::new(self.cell.rowid, (page, bytes), fields, context.parameters)
    }
}
