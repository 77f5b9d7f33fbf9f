//! Rows found by several indexes together: an `AND` by more than one index.
//!
//! Rowids are taken from the entries of the first index, a page at a time, and sorted. Each other
//! index has one key, so that the rowids of its entries ascend: its entries are merged with the
//! rowids left, or sought where the rowids are far apart. The table is not read meanwhile.

use std::cmp::Ordering;

use shoal_store::{ColumnPlace, IndexLookup, LeafCell, Transaction, WalkPlace};

use super::index::{Keys, make_keys};
use super::leaf::Entries;
use super::run::Memory;
use super::slots::fixed;
use crate::Error;
use crate::exec::intersection::{keep_common, put_in_order};
use crate::plan::pipeline::{IndexAccess, KEYS_MAX, RecordPlan};
use crate::value::{Value, ValueRef};

/// Most entries whose rowids are taken at once, and how many are after one was sought.
const ROWIDS_MAX: usize = 64;
const ROWIDS_SOUGHT: usize = 8;

impl Memory {
    /// Puts the rowids found by all arms into `any.rowids`, ascending. Cost: see the module; no
    /// allocation but for rowids, whose memory is kept from run to run.
    ///
    /// # Errors
    /// Errors of the file.
    pub(super) fn find_common(
        &mut self,
        arms: &[IndexAccess],
        records: &[RecordPlan],
        txn: &Transaction,
        parameters: &[Value],
    ) -> Result<(), Error> {
        let Memory { any, indexes, keys, leaf, .. } = self;
        let buffer = &mut leaf.buffer;
        let rowids = any.rowids.begin_common();
        for (number, access) in arms.iter().enumerate() {
            let (Some(plan), Some(Some(lookup))) =
                (records.get(access.entry), indexes.get_mut(access.lookup))
            else {
                return Err(Error::Misuse { what: "an index was walked twice at once" });
            };
            if !make_keys(access, keys, |operand| fixed(operand, parameters)) {
                rowids.clear();
                return Ok(());
            }
            let keys = Keys::new(access, keys);
            let arm = Arm { access, plan, keys: &keys, txn };
            if number == 0 {
                arm.all(lookup, buffer, rowids)?;
                put_in_order(rowids);
            } else {
                arm.keep_own(lookup, buffer, rowids)?;
            }
        }
        any.rowids.count_common();
        Ok(())
    }
}

/// One of the indexes, with its keys.
struct Arm<'a, 't> {
    access: &'a IndexAccess,
    plan: &'a RecordPlan,
    keys: &'a Keys<'a>,
    txn: &'t Transaction,
}

impl<'a, 't> Arm<'a, 't> {
    /// The rowids of all its entries, in their order.
    fn all(
        &self,
        lookup: &mut IndexLookup,
        buffer: &mut Vec<u8>,
        rowids: &mut Vec<i64>,
    ) -> Result<(), Error> {
        let walk = self.keys.seek(self.access, lookup, self.txn)?;
        if !walk.is_valid() {
            return Ok(());
        }
        let mut entries = Entries::new(walk, self.access, self.keys.limits(self.access));
        while self.take(&mut entries, ROWIDS_MAX, buffer, |rowid| rowids.push(rowid))? {}
        Ok(())
    }

    /// Intersects ascending rowids with the arm's entries, all with the same key.
    fn keep_own(
        &self,
        lookup: &mut IndexLookup,
        buffer: &mut Vec<u8>,
        rowids: &mut Vec<i64>,
    ) -> Result<(), Error> {
        // The last batch of rowids, from `next` on not yet passed.
        let (mut batch, mut next, mut count) = ([0_i64; ROWIDS_MAX], 0, 0);
        let mut place: Option<WalkPlace> = None;
        let (mut size, mut ended) = (ROWIDS_SOUGHT, false);
        keep_common(rowids, |wanted| {
            let mut taken = 0;
            loop {
                while next < count && batch[next] < wanted {
                    next += 1;
                }
                if next < count {
                    return Ok(Some(batch[next]));
                }
                if ended {
                    return Ok(None);
                }
                // Past a whole batch, the next rowid is sought; otherwise walked to.
                let (walk, more) = match place.take() {
                    Some(place) if taken == 0 => {
                        size = (2 * size).min(ROWIDS_MAX);
                        let mut walk = lookup.resume(self.txn, &place)?;
                        let more = walk.next()?;
                        (walk, more)
                    }
                    _ => {
                        size = ROWIDS_SOUGHT;
                        let walk = self.seek(wanted, lookup)?;
                        let more = walk.is_valid();
                        (walk, more)
                    }
                };
                if !more {
                    return Ok(None);
                }
                let limits = self.keys.limits(self.access);
                let mut entries = Entries::new(walk, self.access, limits);
                (next, count) = (0, 0);
                self.take(&mut entries, size, buffer, |rowid| {
                    batch[count] = rowid;
                    count += 1;
                })?;
                ended = entries.have_ended();
                place = Some(entries.place_of_last());
                taken += 1;
            }
        })
    }

    /// The first entry with the key whose rowid is not below one.
    fn seek<'l>(
        &self,
        rowid: i64,
        lookup: &'l mut IndexLookup,
    ) -> Result<shoal_store::IndexWalk<'l, 't>, Error> {
        let mut key = [ValueRef::Null; KEYS_MAX + 1];
        let equal = self.keys.equal(self.access);
        for (own, value) in key.iter_mut().zip(equal) {
            *own = *value;
        }
        key[equal.len()] = ValueRef::Int(rowid);
        let key = &key[..=equal.len()];
        Ok(lookup.seek(self.txn, key, &self.access.order, Ordering::Less)?)
    }

    /// Takes the rowids of the next entries, `size` of them at most; false when there is none.
    fn take(
        &self,
        entries: &mut Entries<'_, 't>,
        size: usize,
        buffer: &mut Vec<u8>,
        mut each: impl FnMut(i64),
    ) -> Result<bool, Error> {
        let mut cells = [LeafCell::default(); ROWIDS_MAX];
        let taken = entries.take(self.txn, &mut cells[..size], buffer)?;
        let Some((page, count, goes_on)) = taken else { return Ok(false) };
        let mut fields = [ColumnPlace::MISSING; ROWIDS_MAX];
        let cells = &cells[..count];
        self.plan.all.find_cells(page.bytes(), cells, &mut fields, 1).map_err(Error::corrupt)?;
        for (number, field) in fields[..count].iter().enumerate() {
            let rowid = if goes_on && cells[number].goes_on() {
                entries.read(number, self.txn, buffer)?;
                let mut field = [ColumnPlace::MISSING];
                self.plan.all.find(buffer, 0..buffer.len(), &mut field).map_err(Error::corrupt)?;
                field[0].int(buffer)
            } else {
                field.int(page.bytes())
            };
            each(rowid.ok_or_else(|| Error::names_no_row(0))?);
        }
        Ok(true)
    }
}
