//! Many changes of one table's rows, each found by its primary key, made leaf by leaf.
//!
//! Changes whose outcome could depend on their order are left to the caller: changes in conflict
//! with their row, of tables out of the common, and of entries in a unique index beside the key.

use std::cmp::Ordering;

use shoal_store::{KEY_MAX, KeyColumns, KeyOrder, LeafChange, Record, Transaction, ValueRef};

use super::Running;
use super::bulk::{Bulk, FEW, Ordered};
use super::change::Changer;
use super::plain::{COLUMNS_MAX, NO_VALUES, PlainIndex, PlainRecords, PlainTable};
use super::references::{Change, References};
use super::row::RowEnv;
use super::triggers::Within;
use crate::Error;
use crate::schema::{Object, Table};

/// One change of a row known by its primary key. Values stand at the places of their columns;
/// `None` says nothing of a column.
#[derive(Clone, Copy, Debug)]
pub enum RowEdit<'e> {
    /// A row comes: all values are told.
    Insert(&'e [Option<ValueRef<'e>>]),
    /// Columns of a row change.
    Update {
        /// The key, and values that the row has to have before.
        old: &'e [Option<ValueRef<'e>>],
        /// The columns set, those of the key left aside.
        new: &'e [Option<ValueRef<'e>>],
    },
    /// A row goes: the key, and values that it has to have.
    Delete(&'e [Option<ValueRef<'e>>]),
}

impl<'e> RowEdit<'e> {
    /// The record with the key.
    fn keyed(self) -> &'e [Option<ValueRef<'e>>] {
        match self {
            RowEdit::Insert(row) | RowEdit::Update { old: row, .. } | RowEdit::Delete(row) => row,
        }
    }

    fn told(self, column: usize) -> ValueRef<'e> {
        self.keyed()[column].unwrap_or(ValueRef::Null)
    }

    fn is_insert(self) -> bool {
        matches!(self, RowEdit::Insert(_))
    }
}

/// What came of changes made together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// How many changes, from the first on, were dealt with: those behind wait until those left
    /// are made.
    pub dealt: usize,
    /// The numbers of changes left to the caller among them, in order.
    pub left: Vec<usize>,
}

/// How rows are found by their primary key.
#[derive(Clone, Copy)]
enum Way {
    /// The key is the rowid.
    Rowid,
    /// The key is the order of the table, which has no rowids.
    Keyed,
    /// By the index of this number.
    Index(usize),
}

/// Makes changes of a table's rows. `None` leaves all changes to the caller: for a table whose rows
/// are not changed together, two changes of one row, a key to be converted.
///
/// # Errors
/// [`Error::Store`], after which the transaction is to be taken back.
pub(crate) fn edit_rows(
    running: Running<'_>,
    (name, is_silent): (&str, bool),
    edits: &[RowEdit<'_>],
) -> Result<Option<Edited>, Error> {
    let Some(Object::Table(table)) = running.schema.object(name) else { return Ok(None) };
    let width = table.columns.len();
    if !is_silent && !table.triggers.list.is_empty()
        || running.session.row_hooks().is_some()
        || edits.iter().any(|edit| edit.keyed().len() != width)
    {
        return Ok(None);
    }
    let mut within = Within::new(running.schema, running.home, is_silent, None);
    for change in [Change::Insert { single: false }, Change::Update(&|_| true), Change::Delete] {
        if !References::new(&mut within, table, change)?.is_empty() {
            return Ok(None);
        }
    }
    let Ok(changer) = Changer::plain(running.schema, table, None) else { return Ok(None) };
    let Some(plain) = PlainTable::for_bulk(&changer).filter(|_| !changer.replaces()) else {
        return Ok(None);
    };
    let Running { transaction, session, .. } = running;
    let Some(bulk) = Bulk::new(&plain, transaction) else { return Ok(None) };
    let Some((way, key)) = way_to(table, &plain) else { return Ok(None) };
    let is_key = |edit: &RowEdit<'_>| {
        key.iter().all(|&column| {
            let mut value = edit.told(column);
            plain.accept(column, &mut value) && value != ValueRef::Null
        })
    };
    if !edits.iter().all(is_key) {
        return Ok(None);
    }
    let new_rowid =
        |transaction: &Transaction| changer.rows.new_rowid(&RowEnv { transaction, session });
    let inserted = edits.iter().position(|edit| edit.is_insert());
    let dealt = match (way, inserted) {
        // A row that comes gets the rowid behind the last row: none may go before the first comes.
        (Way::Index(_), Some(first @ 1..)) => first,
        _ => edits.len(),
    };
    let mut editing = Editing::new((&plain, bulk), &edits[..dealt], (way, key));
    if !editing.all(transaction, new_rowid)? {
        return Ok(None);
    }
    editing.left.sort_unstable();
    Ok(Some(Edited { dealt, left: editing.left }))
}

/// How rows are found by the primary key, and the key's columns in the order of the tree that
/// finds them. `None` where `=` and this tree may find different rows.
fn way_to(table: &Table, plain: &PlainTable) -> Option<(Way, Vec<usize>)> {
    if let Some(alias) = plain.alias() {
        return Some((Way::Rowid, vec![alias]));
    }
    let has_own = |part: &crate::schema::KeyPart| {
        let own = &table.columns[part.column].collation;
        matches!((&part.collation, own), (Ok(a), Ok(b)) if a == b)
    };
    let key = &table.primary_key;
    if key.is_empty() || key.len() > KEY_MAX || !key.iter().all(has_own) {
        return None;
    }
    let columns: Vec<usize> = key.iter().map(|part| part.column).collect();
    if plain.keyed().is_some() {
        return Some((Way::Keyed, columns));
    }
    let is_of_key = |index: &PlainIndex| {
        let its = index.columns().iter().take(columns.len()).copied();
        index.unique_columns() == columns.len() && its.eq(columns.iter().map(|it| Some(*it)))
    };
    let number = plain.indexes().iter().position(is_of_key)?;
    let own = table.indexes.get(number)?.columns.iter().zip(key);
    let mut pairs = own.map(|(a, b)| (&a.collation, &b.collation));
    let is_same = pairs.all(|(a, b)| matches!((a, b), (Ok(a), Ok(b)) if a == b));
    is_same.then_some((Way::Index(number), columns))
}

/// Changes in the order of the table.
struct InOrder<'e> {
    edits: &'e [RowEdit<'e>],
    /// Their numbers in this order.
    order: Vec<usize>,
    /// The rowids in order; none in a table without rowid.
    rowids: Vec<i64>,
    key: Vec<usize>,
}

impl<'e> InOrder<'e> {
    /// In the order of a tree; `None` where two have the same key.
    fn by_key(edits: &'e [RowEdit<'e>], key: &[usize], order: &KeyOrder) -> Option<InOrder<'e>> {
        let value = |number: usize, at: usize| edits[number].told(key[at]);
        let side = |a: usize, b: usize| {
            let mut sides =
                (0..key.len()).map(|at| order.compare_column(at, value(a, at), value(b, at)));
            sides.find(|side| side.is_ne()).unwrap_or(Ordering::Equal)
        };
        let prefix = |number: usize| order.column(0).prefix(value(number, 0));
        let mut numbers: Vec<(u64, usize)> =
            (0..edits.len()).map(|number| (prefix(number), number)).collect();
        numbers.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| side(a.1, b.1)));
        let is_ascending = |pair: &[(u64, usize)]| side(pair[0].1, pair[1].1).is_lt();
        if !numbers.windows(2).all(is_ascending) {
            return None;
        }
        let order = numbers.into_iter().map(|(_, number)| number).collect();
        Some(InOrder { edits, order, rowids: Vec::new(), key: key.to_vec() })
    }

    /// In the order of rowids; `None` where two have the same.
    fn by_rowid(edits: &'e [RowEdit<'e>], mut rows: Vec<(i64, usize)>) -> Option<InOrder<'e>> {
        rows.sort_unstable();
        if !rows.windows(2).all(|pair| pair[0].0 < pair[1].0) {
            return None;
        }
        let (rowids, order) = rows.into_iter().unzip();
        Some(InOrder { edits, order, rowids, key: Vec::new() })
    }

    fn edit(&self, place: usize) -> RowEdit<'e> {
        self.edits[self.order[place]]
    }
}

impl<'e> Ordered<'e> for InOrder<'e> {
    fn rowids(&self) -> &[i64] {
        &self.rowids
    }

    fn len(&self) -> usize {
        self.order.len()
    }

    fn load_key(&self, place: usize, columns: &mut KeyColumns<'e>) {
        let edit = self.edit(place);
        for (value, &column) in columns.iter_mut().zip(&self.key) {
            *value = edit.told(column);
        }
    }
}

struct Editing<'p, 'e> {
    table: &'p PlainTable,
    bulk: Bulk<'p>,
    edits: &'e [RowEdit<'e>],
    way: Way,
    key: Vec<usize>,
    leaves: Leaves,
    /// The numbers of changes left.
    left: Vec<usize>,
}

/// What is left to the caller because of unique indexes beside the key.
#[derive(Clone, Copy)]
struct Leaves {
    inserts: bool,
    /// Entries that go make room for others, and so may depend on the order.
    deletes: bool,
}

impl<'p, 'e> Editing<'p, 'e> {
    fn new(
        (table, bulk): (&'p PlainTable, Bulk<'p>),
        edits: &'e [RowEdit<'e>],
        (way, key): (Way, Vec<usize>),
    ) -> Editing<'p, 'e> {
        let others = || {
            let all = table.indexes().iter().enumerate();
            all.filter(|(number, index)| {
                index.is_unique() && !matches!(way, Way::Index(own) if own == *number)
            })
        };
        let sets = |edit: &RowEdit<'_>| match edit {
            RowEdit::Insert(_) => true,
            RowEdit::Delete(_) => false,
            RowEdit::Update { new, .. } => {
                let mut columns = others().flat_map(|(_, index)| index.columns()).flatten();
                columns.any(|column| new[*column].is_some())
            }
        };
        let inserts = others().next().is_some();
        let leaves = Leaves { inserts, deletes: inserts && edits.iter().any(sets) };
        Editing { table, bulk, edits, way, key, leaves, left: Vec::new() }
    }

    /// Makes the changes; false for two of one row.
    fn all(
        &mut self,
        transaction: &mut Transaction,
        new_rowid: impl Fn(&Transaction) -> Result<i64, Error>,
    ) -> Result<bool, Error> {
        let rows = match self.way {
            Way::Keyed => {
                let keyed = self.table.keyed();
                keyed.and_then(|keyed| InOrder::by_key(self.edits, &self.key, &keyed.order))
            }
            Way::Rowid => {
                let alias = self.key[0];
                let rowid = |edit: &RowEdit<'_>| match edit.told(alias) {
                    ValueRef::Int(rowid) => Some(rowid),
                    _ => None,
                };
                let rowids = self.edits.iter().map(rowid).zip(0..);
                let rows: Option<Vec<_>> =
                    rowids.map(|(rowid, number)| rowid.map(|rowid| (rowid, number))).collect();
                rows.and_then(|rows| InOrder::by_rowid(self.edits, rows))
            }
            Way::Index(number) => match self.found(transaction, number, new_rowid)? {
                Some(rows) => InOrder::by_rowid(self.edits, rows),
                None => None,
            },
        };
        let Some(rows) = rows else { return Ok(false) };
        match self.table.width() {
            ..=FEW => self.each_leaf::<FEW>(transaction, &rows)?,
            _ => self.each_leaf::<COLUMNS_MAX>(transaction, &rows)?,
        }
        Ok(true)
    }

    /// The rowids of the rows by their entries in an index, and new ones in the order of the
    /// changes for rows that come. `None` for two changes of one row.
    fn found(
        &mut self,
        transaction: &mut Transaction,
        number: usize,
        new_rowid: impl Fn(&Transaction) -> Result<i64, Error>,
    ) -> Result<Option<Vec<(i64, usize)>>, Error> {
        let index = &self.table.indexes()[number];
        let (root, order) = (index.root(), index.order());
        let Some(entries) = InOrder::by_key(self.edits, &self.key, order) else {
            return Ok(None);
        };
        let mut rowids: Vec<Option<i64>> = vec![None; self.edits.len()];
        let mut unknown = Vec::new();
        let mut at = 0;
        while at < entries.len() {
            let key = |number: usize, columns: &mut KeyColumns<'e>| {
                if at + number >= entries.len() {
                    return None;
                }
                entries.load_key(at + number, columns);
                Some(entries.key.len())
            };
            let dealt = transaction.change_entries((root, order), key, |number, old, _| {
                if let Some(old) = old {
                    rowids[entries.order[at + number]] = rowid_of(old)?;
                }
                Ok::<_, Error>(LeafChange::Keep)
            })?;
            if dealt == 0 {
                // Of an entry on an interior page.
                unknown.push(entries.order[at]);
            }
            at += dealt.max(1);
        }
        for number in unknown {
            let key: Vec<ValueRef<'_>> =
                self.key.iter().map(|column| self.edits[number].told(*column)).collect();
            let mut cursor = transaction.index(root)?;
            if cursor.seek(&key, order)? {
                rowids[number] = rowid_of(cursor.payload()?)?;
            }
        }
        let next = new_rowid(transaction)?;
        let comes = |number: usize| self.edits[number].is_insert();
        // Inserted rows get the rowids of insertions one by one, unless one of the rows is left to
        // the caller: then all rowids are given later, and the last row stays until then.
        let is_last =
            |rowid: &Option<i64>| rowid.and_then(|rowid| rowid.checked_add(1)) == Some(next);
        let (mut keeps, mut coming, mut last_goes) = (!self.leaves.inserts, 0, false);
        for (number, rowid) in rowids.iter().enumerate() {
            match self.edits[number] {
                RowEdit::Insert(row) => {
                    coming += 1;
                    keeps &= rowid.is_none() && self.accepts(row);
                }
                RowEdit::Delete(_) => last_goes |= is_last(rowid),
                RowEdit::Update { .. } => {}
            }
        }
        keeps &= next.checked_add(coming).is_some();
        self.leaves.deletes |= coming > 0 && !keeps && last_goes;
        let mut rows = Vec::with_capacity(rowids.len());
        let mut new = next;
        for (number, rowid) in rowids.iter().enumerate() {
            match rowid {
                _ if comes(number) && keeps => {
                    rows.push((new, number));
                    new += 1;
                }
                Some(rowid) if !comes(number) => rows.push((*rowid, number)),
                _ => self.left.push(number),
            }
        }
        Ok(Some(rows))
    }

    /// True for values to be stored as given.
    fn accepts(&self, row: &[Option<ValueRef<'_>>]) -> bool {
        let mut values = row.iter().enumerate();
        values.all(|(column, value)| {
            let mut value = value.unwrap_or(ValueRef::Null);
            self.table.accept(column, &mut value)
        })
    }

    fn each_leaf<const N: usize>(
        &mut self,
        transaction: &mut Transaction,
        rows: &InOrder<'e>,
    ) -> Result<(), Error> {
        let format = transaction.header().schema_format;
        let Editing { table, bulk, key, leaves, left, .. } = self;
        let mut out_of_leaf = Vec::new();
        let mut at = 0;
        while at < rows.len() {
            let step = bulk.step(transaction, (rows, at), |bulk, number, old, out| {
                let edit = Edit::<N> { table, key, leaves: *leaves };
                let rowid = rows.rowids.get(at + number).copied().unwrap_or(0);
                let row = (rows.edit(at + number), rowid);
                let done = edit.make(bulk, row, old, (format, out))?;
                if done == LeafChange::Keep {
                    out_of_leaf.push(at + number);
                }
                Ok(done)
            })?;
            let end = at + step.dealt;
            while out_of_leaf.last().is_some_and(|place| *place >= end) {
                out_of_leaf.pop();
            }
            if step.dealt == 0 {
                let row = (rows.edit(at), rows.rowids.get(at).copied());
                if leaves.inserts || !put_long((table, bulk), transaction, row)? {
                    out_of_leaf.push(at);
                }
            }
            at += step.dealt.max(1);
            bulk.flush_many(transaction)?;
        }
        bulk.flush(transaction)?;
        left.extend(out_of_leaf.into_iter().map(|place| rows.order[place]));
        Ok(())
    }
}

/// The rowid at the end of an entry of an index.
fn rowid_of(entry: &[u8]) -> Result<Option<i64>, Error> {
    let record = Record::new(entry).map_err(shoal_store::Error::from)?;
    match record.values().last().transpose().map_err(shoal_store::Error::from)? {
        Some(ValueRef::Int(rowid)) => Ok(Some(rowid)),
        _ => Ok(None),
    }
}

/// Puts a row too long for a page; false where that is left to the caller.
fn put_long(
    (table, bulk): (&PlainTable, &mut Bulk<'_>),
    transaction: &mut Transaction,
    (edit, rowid): (RowEdit<'_>, Option<i64>),
) -> Result<bool, Error> {
    let (RowEdit::Insert(row), Some(rowid)) = (edit, rowid) else { return Ok(false) };
    let mut values = NO_VALUES;
    for (value, told) in values.iter_mut().zip(row) {
        *value = told.unwrap_or(ValueRef::Null);
    }
    let row = (Some(rowid), &mut values[..table.width()]);
    let mut records = PlainRecords::default();
    Ok(table.insert_among(transaction, row, &mut records, Some(bulk))?.is_some())
}

/// How one change is made.
#[derive(Clone, Copy)]
struct Edit<'p, const N: usize> {
    table: &'p PlainTable,
    key: &'p [usize],
    leaves: Leaves,
}

impl<const N: usize> Edit<'_, N> {
    /// Makes a change of the row with the record `old`; keeps what is left to the caller.
    fn make(
        self,
        bulk: &mut Bulk<'_>,
        (edit, rowid): (RowEdit<'_>, i64),
        old: Option<&[u8]>,
        (format, out): (u32, &mut Vec<u8>),
    ) -> Result<LeafChange, Error> {
        let table = self.table;
        if let RowEdit::Insert(row) = edit {
            let mut after = [ValueRef::Null; N];
            if old.is_some() || self.leaves.inserts || !self.take(row, &mut after) {
                return Ok(LeafChange::Keep);
            }
            out.clear();
            table.encode(&after, format, out);
            bulk.note(None, Some(&after), rowid, format);
            return Ok(LeafChange::Put);
        }
        let mut before = [ValueRef::Null; N];
        let Some(old) = old else { return Ok(LeafChange::Keep) };
        if !table.decode(old, &mut before)? || !self.fits(edit.keyed(), &before) {
            return Ok(LeafChange::Keep);
        }
        let RowEdit::Update { new, .. } = edit else {
            if self.leaves.deletes {
                return Ok(LeafChange::Keep);
            }
            bulk.note(Some(&before), None, rowid, format);
            return Ok(LeafChange::Remove);
        };
        let mut after = before;
        let mut is_set = false;
        for (column, value) in new.iter().enumerate() {
            let Some(mut value) = *value else { continue };
            if self.key.contains(&column) {
                continue;
            }
            if !table.accept(column, &mut value) {
                return Ok(LeafChange::Keep);
            }
            after[column] = value;
            is_set = true;
        }
        if !is_set || table.lacks(&after) || table.moves_unique(&before, &after) {
            return Ok(LeafChange::Keep);
        }
        out.clear();
        table.encode(&after, format, out);
        bulk.note(Some(&before), Some(&after), rowid, format);
        Ok(LeafChange::Put)
    }

    /// Takes the values of a row that comes; false for one that is not stored as given.
    fn take<'v>(self, row: &[Option<ValueRef<'v>>], after: &mut [ValueRef<'v>; N]) -> bool {
        for (column, (value, told)) in after.iter_mut().zip(row).enumerate() {
            if self.table.alias() != Some(column) {
                *value = told.unwrap_or(ValueRef::Null);
                if !self.table.accept(column, value) {
                    return false;
                }
            }
        }
        !self.table.lacks(after)
    }

    /// True for a row with the values told.
    fn fits(self, told: &[Option<ValueRef<'_>>], before: &[ValueRef<'_>; N]) -> bool {
        let mut all = told.iter().zip(before).enumerate();
        all.all(|(column, (told, before))| {
            let Some(mut told) = *told else { return true };
            self.table.alias() == Some(column)
                || (self.table.accept(column, &mut told) && told == *before)
        })
    }
}
