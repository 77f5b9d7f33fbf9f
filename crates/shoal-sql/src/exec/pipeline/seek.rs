//! Seeks: rows found by equality in an index, when they are few: the usual lookup by anything but a
//! rowid.
//!
//! Most such statements find a handful of rows, and setting up a batch would cost more than finding
//! them. So nothing is set up here: entries, rows and columns are located one after the other, and
//! given as places on pages, like the rows of a scan.

use shoal_store::{ColumnPlace, IndexLookup, LeafCell, TableLookup, Transaction};

use super::index::needs_conversion;
use super::leaf::LeafMemory;
use super::leaf_rows::RowRef;
use super::run::Memory;
use super::slots::fixed;
use crate::Error;
use crate::plan::pipeline::{Access, IndexAccess, Pipeline, RecordPlan, SEEK_KEYS_MAX};
use crate::value::{Value, ValueRef};

/// Most rows of a seek.
pub(super) const FEW: usize = 16;

impl Pipeline {
    /// Finds all rows of a select by a seek, to be given; false leaves the rows to the loops: there
    /// are more than a few, or the keys need a conversion first.
    ///
    /// # Errors
    /// Errors of the file.
    pub(super) fn seek(
        &self,
        txn: &Transaction,
        parameters: &[Value],
        memory: &mut Memory,
    ) -> Result<bool, Error> {
        let [level] = &*self.levels else { return Ok(false) };
        let Access::Index(access) = &level.access else { return Ok(false) };
        let mut keys = [ValueRef::Null; SEEK_KEYS_MAX];
        for ((operand, affinity, _), key) in access.equal.iter().zip(&mut keys) {
            *key = fixed(operand, parameters);
            let converts = affinity.is_some_and(|affinity| needs_conversion(affinity, *key));
            if converts || *key == ValueRef::Null {
                return Ok(false);
            }
        }
        let Some(keys) = keys.get(..access.equal.len()) else { return Ok(false) };
        let Memory { leaf, lookups, indexes, .. } = memory;
        let (Some(plan), Some(Some(index))) =
            (self.records.get(level.record), indexes.get_mut(access.lookup))
        else {
            return Ok(false);
        };
        match access.row {
            None => leaf.seek_entries((plan, self.fields), (access, keys), index, (txn, FEW)),
            Some((column, lookup)) => {
                let Some(rows) = lookups.get_mut(lookup) else { return Ok(false) };
                let asked = (plan, self.fields);
                leaf.seek_rows(asked, (access, keys, column), (index, rows), (txn, FEW))
            }
        }
    }
}

impl LeafMemory {
    /// Finds the entries with a key, to be given; each has `stride` fields, with the plan's among
    /// them. The first `most` will do where `most` is below [`FEW`]; false where there are more.
    pub(super) fn seek_entries(
        &mut self,
        (plan, stride): (&RecordPlan, usize),
        (access, keys): (&IndexAccess, &[ValueRef<'_>]),
        index: &mut IndexLookup,
        (txn, most): (&Transaction, usize),
    ) -> Result<bool, Error> {
        let mut cells = [LeafCell::default(); FEW];
        if let Some((page, count)) = index.entries(txn, keys, &mut cells)? {
            let count = count.min(most);
            self.make_room(count * stride);
            let LeafMemory { fields, found, .. } = self;
            let wanted = fields.get_mut(plan.first..).unwrap_or_default();
            let find = plan.all.find_cells(page.bytes(), &cells[..count], wanted, stride);
            find.map_err(Error::corrupt)?;
            // A batch has fewer than 2^32 fields.
            let rows = (0..).step_by(stride.max(1)).take(count);
            let page = Some(page.pgno());
            found.extend(rows.map(|first| RowRef { rowid: 0, page, fields: first }));
            return Ok(true);
        }
        self.make_room(FEW * stride);
        let LeafMemory { fields, found, .. } = self;
        let all = index.equal(txn, keys, &access.order, |page, payload| {
            let first = found.len() * stride;
            if found.len() == most {
                return Ok(false);
            }
            let places = &mut fields[first + plan.first..][..plan.places.len()];
            plan.all.find(page.bytes(), page.record_of(payload).range(), places)?;
            // A batch has fewer than 2^32 fields.
            found.push(RowRef { rowid: 0, page: Some(page.pgno()), fields: first as u32 });
            Ok(true)
        })?;
        let enough = all || (most < FEW && found.len() == most);
        if !enough {
            found.clear();
        }
        Ok(enough)
    }

    /// Finds the rows named by the entries with a key, to be given, as
    /// [`LeafMemory::seek_entries`].
    pub(super) fn seek_rows(
        &mut self,
        (plan, stride): (&RecordPlan, usize),
        (access, keys, column): (&IndexAccess, &[ValueRef<'_>], usize),
        (index, rows): (&mut IndexLookup, &mut TableLookup),
        (txn, most): (&Transaction, usize),
    ) -> Result<bool, Error> {
        let mut rowids = [0; FEW];
        let count = index.rowids(txn, keys, &access.order, column, &mut rowids)?;
        let count = count.map(|count| count.min(most));
        let Some(rowids) = count.and_then(|count| rowids.get(..count)) else { return Ok(false) };
        self.make_room(rowids.len() * stride);
        for (number, &rowid) in rowids.iter().enumerate() {
            let Some((page, place, cell)) = rows.locate(txn, rowid)? else {
                return Err(Error::names_no_row(rowid));
            };
            let first = number * stride;
            let fields = &mut self.fields[first + plan.first..][..plan.places.len()];
            let mut on = Some(page.pgno());
            if cell.goes_on() && !fields.is_empty() {
                let payload = page.table_leaf(place).map_err(Error::corrupt)?.payload;
                txn.read_payload(payload, &mut self.buffer)?;
                let start = self.far.len();
                self.far.extend_from_slice(&self.buffer);
                plan.all.find(&self.far, start..self.far.len(), fields).map_err(Error::corrupt)?;
                on = None;
            } else {
                plan.all.find(page.bytes(), cell.range(), fields).map_err(Error::corrupt)?;
            }
            self.found.push(RowRef { rowid, page: on, fields: first as u32 });
        }
        Ok(true)
    }

    #[inline]
    pub(super) fn make_room(&mut self, fields: usize) {
        if self.fields.len() < fields {
            self.fields.resize(fields, ColumnPlace::MISSING);
        }
    }
}
