//! Probes: a query within an expression, run for one row around.
//!
//! Such a query begins anew for every row around and mostly finds a row or a few, by a key of the
//! outer row. Those are found like the few rows of a seek ([`super::seek`]): without a loop able to
//! pause. The query's parameters are registers of the outer row. More rows, and other access paths,
//! go through the loops of every pipeline.

use shoal_store::Transaction;

use super::each::RowView;
use super::index::needs_conversion;
use super::leaf::{CHUNK, LeafMemory};
use super::leaf_rows::LeafRow;
use super::run::{Memory, rowid_of_value};
use super::seek::FEW;
use super::slots::fixed;
use crate::Error;
use crate::plan::NullKey;
use crate::plan::pipeline::{Access, IndexAccess, Operand, Pipeline, ProbeWalk, SEEK_KEYS_MAX};
use crate::value::{Value, ValueRef};

/// The outcome of filling a key with its values.
enum Key {
    /// No entry has the key.
    None,
    /// The key needs a conversion, or entries with NULL are sought.
    Other,
    PreparedTest,
}

/// Puts the values of an index lookup into `keys`.
fn make_key<'v>(
    access: &'v IndexAccess,
    around: &'v [Value],
    keys: &mut [ValueRef<'v>; SEEK_KEYS_MAX],
) -> Key {
    for ((operand, affinity, null), key) in access.equal.iter().zip(keys) {
        *key = fixed(operand, around);
        match (*key, null) {
            (ValueRef::Null, NullKey::FindsNothing) => return Key::None,
            (ValueRef::Null, _) => return Key::Other,
            (value, _) if affinity.is_some_and(|affinity| needs_conversion(affinity, value)) => {
                return Key::Other;
            }
            _ => {}
        }
    }
    Key::PreparedTest
}

impl Pipeline {
    /// True where few rows of one table are found without a loop.
    pub(crate) fn is_quick(&self) -> bool {
        self.probe != ProbeWalk::Loops
    }

    /// The register with the rowid of the only possible row, where no condition on the outer row
    /// comes before the lookup.
    pub(crate) fn rowid_around(&self) -> Option<usize> {
        let [level] = &*self.levels else { return None };
        let is_bare = level.before.is_empty() && self.constant.is_empty();
        match &level.access {
            Access::Rowid { key: Operand::Parameter(number), .. } if is_bare => Some(number - 1),
            _ => None,
        }
    }

    /// Calls `found` with the number of each value that is the rowid of an existing row, in their
    /// order. The values are few, and all else is equal among them.
    ///
    /// # Errors
    /// Errors of the file.
    pub(crate) fn for_each_there<'v>(
        &self,
        (txn, around): (&Transaction, &[Value]),
        memory: &mut Memory,
        values: impl Iterator<Item = ValueRef<'v>>,
        mut found: impl FnMut(usize),
    ) -> Result<(), Error> {
        let (mut rowids, mut numbers) = ([0; CHUNK], [0; CHUNK]);
        let known = values.enumerate().filter_map(|(row, it)| Some((row, rowid_of_value(it)?)));
        let mut count = 0;
        for (((row, rowid), to), number) in known.zip(&mut rowids).zip(&mut numbers) {
            (*to, *number) = (rowid, row);
            count += 1;
        }
        let Memory { leaf, lookups, .. } = memory;
        let (Some(lookup), [level]) = (lookups.first_mut(), &*self.levels) else { return Ok(()) };
        let plan = &self.records[level.record];
        leaf.make_room(plan.places.len());
        let LeafMemory { fields, buffer, .. } = leaf;
        let fields = &mut fields[..plan.places.len()];
        lookup.locate_each(txn, &rowids[..count], |number, page, place, cell| {
            if level.filter.is_empty() {
                found(numbers[number]);
                return Ok(());
            }
            let (page, bytes) = if cell.goes_on() {
                txn.read_payload(page.table_leaf(place)?.payload, buffer)?;
                plan.all.find(buffer, 0..buffer.len(), fields)?;
                (None, &**buffer)
            } else {
                plan.all.find(page.bytes(), cell.range(), fields)?;
                (Some(page.pgno()), page.bytes())
            };
            let row = LeafRow::new(rowids[number], (page, bytes), fields, around);
            if level.filter.iter().all(|test| test.holds(|operand| row.value(operand))) {
                found(numbers[number]);
            }
            Ok(())
        })?;
        Ok(())
    }

    /// True where the conditions independent of the rows hold; otherwise there are no rows.
    #[inline]
    pub(crate) fn meets_constant(&self, around: &[Value]) -> bool {
        self.constant.iter().all(|test| test.holds(|operand| fixed(operand, around)))
    }

    /// True where there is a row.
    ///
    /// # Errors
    /// Errors of the file.
    pub(crate) fn has_row(
        &self,
        txn: &Transaction,
        around: &[Value],
        memory: &mut Memory,
    ) -> Result<bool, Error> {
        if let (true, [level]) = (self.is_quick(), &*self.levels)
            && level.filter.is_empty()
        {
            match &level.access {
                Access::Rowid { key, lookup } if level.before.is_empty() => {
                    let rowid = rowid_of_value(fixed(key, around));
                    let Some(rowid) = rowid else { return Ok(false) };
                    return Ok(memory.lookups[*lookup].locate(txn, rowid)?.is_some());
                }
                Access::Index(_) => {
                    if let Some(count) = self.count(txn, around, memory, 1)? {
                        return Ok(count > 0);
                    }
                }
                _ => {}
            }
        }
        let mut found = false;
        self.for_each_found(txn, around, memory, true, |_| {
            found = true;
            Ok(false)
        })?;
        Ok(found)
    }

    /// The number of rows, for queries asking for no more and able to count without a loop.
    ///
    /// # Errors
    /// Errors of the file.
    pub(crate) fn count_found(
        &self,
        txn: &Transaction,
        around: &[Value],
        memory: &mut Memory,
    ) -> Result<Option<usize>, Error> {
        match self.probe {
            ProbeWalk::Count => self.count(txn, around, memory, usize::MAX),
            ProbeWalk::Point | ProbeWalk::Seek | ProbeWalk::Loops => Ok(None),
        }
    }

    /// The number of entries found in the index, up to `most`.
    fn count(
        &self,
        txn: &Transaction,
        around: &[Value],
        memory: &mut Memory,
        most: usize,
    ) -> Result<Option<usize>, Error> {
        let Some(Access::Index(access)) = self.levels.first().map(|level| &level.access) else {
            return Ok(None);
        };
        let mut keys = [ValueRef::Null; SEEK_KEYS_MAX];
        match make_key(access, around, &mut keys) {
            Key::None => return Ok(Some(0)),
            Key::Other => return Ok(None),
            Key::PreparedTest => {}
        }
        match memory.indexes.get_mut(access.lookup) {
            Some(Some(index)) => {
                Ok(index.count(txn, &keys[..access.equal.len()], &access.order, most)?)
            }
            _ => Ok(None),
        }
    }

    /// Calls `sink` with one row after the other until `sink` is false; rows found beside the last
    /// one may still follow. `first` means the first row will do.
    ///
    /// # Errors
    /// Errors of `sink` and of the file.
    #[inline]
    pub(crate) fn for_each_found(
        &self,
        txn: &Transaction,
        around: &[Value],
        memory: &mut Memory,
        first: bool,
        mut sink: impl FnMut(RowView<'_, '_, '_>) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        if !self.is_quick() || !self.find_quickly(txn, around, memory, first)? {
            return self.for_each_until(txn, around, memory, sink);
        }
        for number in 0..memory.leaf.len() {
            if let Some(row) = self.few_row(txn, around, memory, number)
                && !sink(RowView::Leaf(row))?
            {
                break;
            }
        }
        Ok(())
    }

    /// Finds all rows where they are few and a key finds them; gives how many there are before the
    /// filter. `None` leaves the rows to the loops.
    ///
    /// # Errors
    /// Errors of the file.
    #[inline]
    pub(crate) fn find_few(
        &self,
        txn: &Transaction,
        around: &[Value],
        memory: &mut Memory,
    ) -> Result<Option<usize>, Error> {
        let is_found = self.is_quick() && self.find_quickly(txn, around, memory, false)?;
        memory.sought = is_found;
        Ok(is_found.then(|| memory.leaf.len()))
    }

    /// A row found by [`Pipeline::find_few`], by its number; `None` where the filter drops it.
    #[inline]
    pub(crate) fn few_row<'r>(
        &'r self,
        txn: &'r Transaction,
        around: &'r [Value],
        memory: &'r Memory,
        number: usize,
    ) -> Option<LeafRow<'r>> {
        let given = memory.leaf.row(number, txn);
        let fields = given.fields.get(given.found.fields as usize..).unwrap_or_default();
        let place = (given.found.page, given.bytes);
        let row = LeafRow::new(given.found.rowid, place, fields, around);
        let tests = &self.levels.first()?.filter;
        tests.iter().all(|test| test.holds(|operand| row.value(operand))).then_some(row)
    }

    /// Finds all rows before the filter, or just the first where there is no filter and `first` is
    /// set; false leaves the rows to the loops.
    fn find_quickly(
        &self,
        txn: &Transaction,
        around: &[Value],
        memory: &mut Memory,
        first: bool,
    ) -> Result<bool, Error> {
        let [level] = &*self.levels else { return Ok(false) };
        let plan = &self.records[level.record];
        let Memory { leaf, lookups, indexes, .. } = memory;
        leaf.clear();
        match &level.access {
            Access::Rowid { key, lookup } => {
                let Some(rowid) = rowid_of_value(fixed(key, around)) else { return Ok(true) };
                // These conditions read only the row's rowid.
                let value = |operand| match operand {
                    &Operand::Rowid { .. } => ValueRef::Int(rowid),
                    other => fixed(other, around),
                };
                if level.before.iter().all(|test| test.holds(value)) {
                    leaf.look_up(plan, &mut lookups[*lookup], txn, rowid)?;
                }
                Ok(true)
            }
            Access::Index(access) => {
                let mut keys = [ValueRef::Null; SEEK_KEYS_MAX];
                match make_key(access, around, &mut keys) {
                    Key::None => return Ok(true),
                    Key::Other => return Ok(false),
                    Key::PreparedTest => {}
                }
                let most = if first && level.filter.is_empty() { 1 } else { FEW };
                let keys = &keys[..access.equal.len()];
                let Some(Some(index)) = indexes.get_mut(access.lookup) else { return Ok(false) };
                let asked = (plan, self.fields);
                match access.row {
                    None => leaf.seek_entries(asked, (access, keys), index, (txn, most)),
                    Some((column, lookup)) => {
                        let finders = (index, &mut lookups[lookup]);
                        leaf.seek_rows(asked, (access, keys, column), finders, (txn, most))
                    }
                }
            }
            Access::Rows { .. } | Access::Any { .. } | Access::Common { .. } | Access::Hash(_) => {
                Ok(false)
            }
        }
    }
}
