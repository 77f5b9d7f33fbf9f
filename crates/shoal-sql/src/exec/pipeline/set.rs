//! `UNION`, `INTERSECT` and `EXCEPT` of pipelines: rows by a hash of their values, compared
//! exactly.
//!
//! The rows so far are slots, borrowing texts from the pages. A row of a later part is looked up
//! among them by its values in their place, and copied only if new.

use shoal_store::Transaction;

use super::ascending;
use super::each::RowView;
use super::run::{Memory, Start};
use super::slots::{Slots, fixed};
use crate::Error;
use crate::keep::key::{HashPlaces, hash_value, is_equal};
use crate::parse::ast::CompoundOp;
use crate::plan::node::{CompoundNode, Node, compound_of, root_parts};
use crate::plan::pipeline::{Operand, Pipeline};
use crate::value::{Collation, Value, ValueRef};

/// Memory of a compound, kept from one run to the next.
#[derive(Debug, Default)]
pub(super) struct SetMemory {
    /// The rows by their hashes, while no two of them are equal.
    places: HashPlaces,
    /// Rows found in a later part; for a `UNION`, rows of the current part.
    matched: Vec<bool>,
}

/// The rows so far.
struct Set<'s> {
    txn: &'s Transaction,
    parameters: &'s [Value],
    collations: &'s [Collation],
    slots: Slots,
    rows: usize,
    places: HashPlaces,
    matched: Vec<bool>,
}

/// Combines the parts of a compound from left to right. The result is the batch in the first part's
/// memory, its last one, or the rows kept in each part's memory.
///
/// # Errors
/// Errors of the file.
pub(crate) fn combine(
    node: &Node,
    txn: &Transaction,
    parameters: &[Value],
    memory: &mut [Memory],
) -> Result<(), Error> {
    let Some(plan) = compound_of(node) else { return Ok(()) };
    if ascending::is_ascending(node) {
        return ascending::combine(node, plan, txn, parameters, memory);
    }
    let Some(first) = memory.first_mut() else { return Ok(()) };
    let (slots, SetMemory { places, matched }) =
        (std::mem::take(&mut first.slots), std::mem::take(&mut first.set));
    let collations = &*plan.collations;
    let mut set = Set { txn, parameters, collations, slots, rows: 0, places, matched };
    set.slots.clear();
    set.places.clear();
    let result = set.run(plan, node, memory);
    let Set { slots, rows, places, matched, .. } = set;
    if let Some(first) = memory.first_mut() {
        (first.slots, first.set) = (slots, SetMemory { places, matched });
        (first.rows, first.start) = (rows, Start::Done);
    }
    result
}

/// Whether two values are equal in every respect.
#[inline]
pub(crate) fn is_same(a: ValueRef<'_>, b: ValueRef<'_>) -> bool {
    match (a, b) {
        (ValueRef::Real(a), ValueRef::Real(b)) => a.to_bits() == b.to_bits(),
        _ => a == b,
    }
}

impl Set<'_> {
    fn run(
        &mut self,
        plan: &CompoundNode,
        node: &Node,
        memory: &mut [Memory],
    ) -> Result<(), Error> {
        let first = plan.rest.first().map(|(op, _)| *op);
        // The first part is made distinct ahead of an operator comparing rows.
        let mut distinct = first != Some(CompoundOp::UnionAll);
        let ops = std::iter::once(if distinct { CompoundOp::Union } else { CompoundOp::UnionAll })
            .chain(plan.rest.iter().map(|(op, _)| *op));
        let mut stale = false;
        for ((op, part), memory) in ops.zip(root_parts(node).flatten()).zip(memory) {
            if op == CompoundOp::UnionAll {
                self.each(part, memory, |set, row, outputs| set.push(row, outputs))?;
                (distinct, stale) = (false, true);
                continue;
            }
            if !distinct || stale {
                self.rebuild();
                (distinct, stale) = (true, false);
            }
            match op {
                CompoundOp::UnionAll => {}
                CompoundOp::Union => {
                    self.matched.clear();
                    self.matched.resize(self.rows, false);
                    self.each(part, memory, |set, row, outputs| {
                        let hash = set.hash(row, outputs);
                        match set.find(hash, row, outputs) {
                            Some(place) => set.replace(place, row, outputs),
                            None => {
                                set.places.insert(hash);
                                set.push(row, outputs);
                                set.matched.push(true);
                            }
                        }
                    })?;
                }
                CompoundOp::Intersect | CompoundOp::Except => {
                    self.matched.clear();
                    self.matched.resize(self.rows, false);
                    self.each(part, memory, |set, row, outputs| {
                        let hash = set.hash(row, outputs);
                        if let Some(place) = set.find(hash, row, outputs) {
                            set.matched[place] = true;
                        }
                    })?;
                    self.keep(op == CompoundOp::Intersect);
                    stale = true;
                }
            }
        }
        Ok(())
    }

    fn each(
        &mut self,
        part: &Pipeline,
        memory: &mut Memory,
        mut work: impl FnMut(&mut Self, RowView<'_, '_, '_>, &[Operand]),
    ) -> Result<(), Error> {
        let outputs = part.outputs.as_deref().unwrap_or_default();
        part.for_each(self.txn, self.parameters, memory, |row| {
            work(self, row, outputs);
            Ok(())
        })
    }

    #[inline]
    fn hash(&self, row: RowView<'_, '_, '_>, outputs: &[Operand]) -> u64 {
        let columns = outputs.iter().zip(self.collations);
        columns.fold(0, |hash, (operand, by)| hash_value(row.value(operand), *by, hash))
    }

    /// The place of an equal row.
    #[inline]
    fn find(&self, hash: u64, row: RowView<'_, '_, '_>, outputs: &[Operand]) -> Option<usize> {
        self.places.find(hash, |place| {
            let mut columns = outputs.iter().zip(self.collations).enumerate();
            columns.all(|(column, (operand, by))| {
                is_equal(row.value(operand), self.value(place, column), *by)
            })
        })
    }

    /// A value of a row so far.
    #[inline]
    fn value(&self, row: usize, column: usize) -> ValueRef<'_> {
        let slot = self.slots.slots[row * self.collations.len() + column];
        self.slots.value(slot, self.txn, || ValueRef::Null)
    }

    #[inline]
    fn push(&mut self, row: RowView<'_, '_, '_>, outputs: &[Operand]) {
        row.note(outputs, &mut self.slots);
        // An operand's value depends on the part, so it is stored now.
        self.slots.settle(outputs.len(), |place| fixed(&outputs[place], self.parameters));
        self.rows += 1;
    }

    /// Puts a row in place of an equal one, unless both are the same: from equal rows SQLite gives
    /// the last part's, and within a part the first.
    #[inline]
    fn replace(&mut self, place: usize, row: RowView<'_, '_, '_>, outputs: &[Operand]) {
        if std::mem::replace(&mut self.matched[place], true) {
            return;
        }
        let mut columns = outputs.iter().enumerate();
        if columns.all(|(column, operand)| is_same(row.value(operand), self.value(place, column))) {
            return;
        }
        let width = outputs.len();
        self.push(row, outputs);
        self.rows -= 1;
        let last = self.slots.slots.len() - width;
        self.slots.slots.copy_within(last.., place * width);
        self.slots.slots.truncate(last);
    }

    /// Drops rows equal to one before, and enters the others by their hashes.
    fn rebuild(&mut self) {
        let width = self.collations.len();
        self.places.clear();
        let mut kept = 0;
        for row in 0..self.rows {
            let columns = self.collations.iter().enumerate();
            let hash = columns
                .clone()
                .fold(0, |hash, (column, by)| hash_value(self.value(row, column), *by, hash));
            let found = self.places.find(hash, |place| {
                columns.clone().all(|(column, by)| {
                    is_equal(self.value(place, column), self.value(row, column), *by)
                })
            });
            if found.is_none() {
                self.places.insert(hash);
                self.slots.slots.copy_within(row * width..(row + 1) * width, kept * width);
                kept += 1;
            }
        }
        self.slots.slots.truncate(kept * width);
        self.rows = kept;
    }

    /// Keeps the rows marked with `wanted`.
    fn keep(&mut self, wanted: bool) {
        let width = self.collations.len();
        let mut kept = 0;
        for row in 0..self.rows {
            if self.matched[row] == wanted {
                self.slots.slots.copy_within(row * width..(row + 1) * width, kept * width);
                kept += 1;
            }
        }
        self.slots.slots.truncate(kept * width);
        self.rows = kept;
    }
}
