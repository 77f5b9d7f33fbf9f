//! Rows compared for `UNION`, `INTERSECT` and `EXCEPT`: found by a hash of their values, compared
//! exactly.
//!
//! The rows so far are slots, borrowing texts from pages. A row of a later part is looked up among
//! them by its values in their place, and kept only if new. Pipelines at the root of a statement
//! put their rows here ([`combine`]), and so do all other parts ([`crate::exec::sets`]).

use shoal_store::Transaction;

use super::ascending;
use super::run::{Memory, Start};
use super::slots::{Slots, fixed};
use crate::Error;
use crate::exec::each_row::BodyRow;
use crate::keep::key::{HashPlaces, hash_value, is_equal};
use crate::parse::ast::CompoundOp;
use crate::plan::node::{Node, compound_of, root_parts};
use crate::value::{Collation, Value, ValueRef};

/// The rows of a compound so far.
#[derive(Debug, Default)]
pub(in crate::exec) struct RowSet {
    slots: Slots,
    rows: usize,
    /// The rows by their hashes, while no two of them are equal.
    places: HashPlaces,
    /// True where rows are missing from `places`, or equal rows among them.
    is_stale: bool,
    /// Number of rows before the current part.
    begun: usize,
    /// Rows found in the current part; for a `UNION`, rows of the part.
    matched: Vec<bool>,
}

/// The context of comparing rows.
#[derive(Clone, Copy)]
pub(in crate::exec) struct SetContext<'s> {
    /// The transaction of the pages with the rows left there.
    pub(in crate::exec) txn: &'s Transaction,
    pub(in crate::exec) parameters: &'s [Value],
    pub(in crate::exec) collations: &'s [Collation],
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
    let mut set = std::mem::take(&mut first.set);
    std::mem::swap(&mut set.slots, &mut first.slots);
    set.clear();
    let context = SetContext { txn, parameters, collations: &plan.collations };
    let mut result = Ok(());
    for ((op, part), memory) in plan.ops().zip(root_parts(node).flatten()).zip(&mut *memory) {
        set.begin(op, context);
        let outputs = part.outputs.as_deref().unwrap_or_default();
        let width = outputs.len();
        result = part.for_each(txn, parameters, memory, |row| {
            set.take(op, BodyRow::Pipeline { row, outputs, width }, true, context);
            Ok(())
        });
        if result.is_err() {
            break;
        }
        set.end(op);
    }
    if let Some(first) = memory.first_mut() {
        std::mem::swap(&mut set.slots, &mut first.slots);
        (first.rows, first.start) = (set.rows, Start::Done);
        first.set = set;
    }
    result
}

/// Whether two values are equal in every respect.
#[inline]
fn is_same(a: ValueRef<'_>, b: ValueRef<'_>) -> bool {
    match (a, b) {
        (ValueRef::Real(a), ValueRef::Real(b)) => a.to_bits() == b.to_bits(),
        _ => a == b,
    }
}

impl RowSet {
    fn clear(&mut self) {
        self.slots.clear();
        self.places.clear();
        (self.rows, self.is_stale) = (0, false);
    }

    /// Number of rows.
    pub(in crate::exec) fn len(&self) -> usize {
        self.rows
    }

    /// A row's values.
    pub(in crate::exec) fn row<'v>(
        &'v self,
        row: usize,
        context: SetContext<'v>,
    ) -> impl Iterator<Item = ValueRef<'v>> + Clone {
        (0..context.collations.len()).map(move |column| self.value(row, column, context))
    }

    /// True for a row of the current part.
    pub(in crate::exec) fn is_of_part(&self, row: usize) -> bool {
        row >= self.begun || self.matched.get(row).is_some_and(|matched| *matched)
    }

    /// Begins a part: the first one is a `UNION`, or a `UNION ALL` where the next one is.
    pub(in crate::exec) fn begin(&mut self, op: CompoundOp, context: SetContext<'_>) {
        self.matched.clear();
        if op == CompoundOp::UnionAll {
            self.is_stale = true;
        } else {
            if self.is_stale {
                self.rebuild(context);
            }
            self.matched.resize(self.rows, false);
        }
        self.begun = self.rows;
    }

    /// Takes a row of the current part, leaving its texts on their pages where `on_pages`; true
    /// where the row was kept.
    #[inline]
    pub(in crate::exec) fn take(
        &mut self,
        op: CompoundOp,
        row: BodyRow<'_, '_, '_>,
        on_pages: bool,
        context: SetContext<'_>,
    ) -> bool {
        if op == CompoundOp::UnionAll {
            self.push(row, on_pages, context);
            return true;
        }
        let columns = context.collations.iter().enumerate();
        let hash =
            columns.clone().fold(0, |hash, (column, by)| hash_value(row.get(column), *by, hash));
        let found = self.places.find(hash, |place| {
            let mut columns = columns.clone();
            columns.all(|(column, by)| {
                is_equal(row.get(column), self.value(place, column, context), *by)
            })
        });
        match (op, found) {
            (CompoundOp::Union, Some(place)) => self.replace(place, row, on_pages, context),
            (CompoundOp::Union, None) => {
                self.places.insert(hash);
                self.push(row, on_pages, context);
                self.matched.push(true);
                true
            }
            (_, Some(place)) => {
                self.matched[place] = true;
                false
            }
            (_, None) => false,
        }
    }

    /// Ends a part.
    pub(in crate::exec) fn end(&mut self, op: CompoundOp) {
        if let CompoundOp::Intersect | CompoundOp::Except = op {
            let wanted = op == CompoundOp::Intersect;
            let (width, mut kept) = (self.slots.slots.len() / self.rows.max(1), 0);
            for row in 0..self.rows {
                if self.matched[row] == wanted {
                    self.slots.slots.copy_within(row * width..(row + 1) * width, kept * width);
                    kept += 1;
                }
            }
            self.slots.slots.truncate(kept * width);
            (self.rows, self.is_stale) = (kept, true);
        }
    }

    /// A value of a row so far.
    #[inline]
    pub(in crate::exec) fn value<'v>(
        &'v self,
        row: usize,
        column: usize,
        context: SetContext<'v>,
    ) -> ValueRef<'v> {
        let slot = self.slots.slots[row * context.collations.len() + column];
        self.slots.value(slot, context.txn, || ValueRef::Null)
    }

    #[inline]
    fn push(&mut self, row: BodyRow<'_, '_, '_>, on_pages: bool, context: SetContext<'_>) {
        match row {
            BodyRow::Pipeline { row, outputs, width } if on_pages => {
                let outputs = &outputs[..width];
                row.note(outputs, &mut self.slots);
                // The value of an operand depends on the part: stored now.
                self.slots.settle(width, |place| fixed(&outputs[place], context.parameters));
            }
            row => row.values().for_each(|value| self.slots.push_value(value)),
        }
        self.rows += 1;
    }

    /// Puts a row in place of an equal one, unless both are the same: from equal rows SQLite gives
    /// the last part's, and within a part the first. True where the row was kept.
    #[inline]
    fn replace(
        &mut self,
        place: usize,
        row: BodyRow<'_, '_, '_>,
        on_pages: bool,
        context: SetContext<'_>,
    ) -> bool {
        if std::mem::replace(&mut self.matched[place], true) {
            return false;
        }
        let width = context.collations.len();
        let mut columns = 0..width;
        if columns.all(|column| is_same(row.get(column), self.value(place, column, context))) {
            return false;
        }
        self.push(row, on_pages, context);
        self.rows -= 1;
        let last = self.slots.slots.len() - width;
        self.slots.slots.copy_within(last.., place * width);
        self.slots.slots.truncate(last);
        true
    }

    /// Drops rows equal to one before, and enters the others by their hashes.
    fn rebuild(&mut self, context: SetContext<'_>) {
        let width = context.collations.len();
        self.places.clear();
        let mut kept = 0;
        for row in 0..self.rows {
            let columns = context.collations.iter().enumerate();
            let hash = columns.clone().fold(0, |hash, (column, by)| {
                hash_value(self.value(row, column, context), *by, hash)
            });
            let found = self.places.find(hash, |place| {
                columns.clone().all(|(column, by)| {
                    is_equal(
                        self.value(place, column, context),
                        self.value(row, column, context),
                        *by,
                    )
                })
            });
            if found.is_none() {
                self.places.insert(hash);
                self.slots.slots.copy_within(row * width..(row + 1) * width, kept * width);
                kept += 1;
            }
        }
        self.slots.slots.truncate(kept * width);
        (self.rows, self.is_stale) = (kept, false);
    }
}
