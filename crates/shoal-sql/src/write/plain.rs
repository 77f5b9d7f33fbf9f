//! Rows of tables in whose rows no expression has a say: values go into records and onto pages
//! without a row between them.
//!
//! Whatever is out of the common (values to be converted, a row in the way, a constraint not met)
//! is left to the general path, and nothing has changed by then.

use shoal_store::{
    ChangedEntry, KEY_MAX, KeyOrder, NewEntry, Pgno, Record, RowPlace, Transaction, ValueRef,
    encode_record, encode_values,
};

use super::bulk::Bulk;
use super::change::Changer;
use super::direct::Set;
use super::row::compacted;
use super::rows::Rows;
use crate::Error;
use crate::schema::{Column, IndexSource};
use crate::session::Session;
use crate::value::{Affinity, Value};

/// Most columns and indexes of such a table.
pub(super) const COLUMNS_MAX: usize = 32;
pub(super) const INDEXES_MAX: usize = 8;

/// A table without checks, generated columns, strict types, partial indexes and indexes on
/// expressions.
#[derive(Debug)]
pub(crate) struct PlainTable {
    root: Pgno,
    alias: Option<usize>,
    columns: Vec<PlainColumn>,
    indexes: Vec<PlainIndex>,
    /// What columns hold in records that end before: those added to the table later.
    missing: Vec<Value>,
    /// Of a table without rowid; [`Bulk`](super::bulk::Bulk) alone changes such.
    keyed: Option<Keyed>,
}

/// What a table without rowid has beside.
#[derive(Debug)]
pub(super) struct Keyed {
    pub(super) order: KeyOrder,
    /// The columns of the primary key.
    pub(super) width: usize,
    /// The column at each place of a record, those of the key first.
    pub(super) places: Vec<usize>,
}

impl Keyed {
    /// `None` for a table with rowids, and one that stores a column twice.
    fn new(rows: &Rows) -> Option<Keyed> {
        let table = &*rows.table;
        let mut places = vec![usize::MAX; table.columns.len()];
        for (number, column) in table.columns.iter().enumerate() {
            *places.get_mut(column.stored?)? = number;
        }
        let width = table.primary_key.len();
        let key = table.primary_key.iter().map(|part| part.column);
        let is_plain = table.without_rowid
            && table.stored_columns == places.len()
            && !places.contains(&usize::MAX)
            && width <= KEY_MAX
            && key.eq(places.iter().copied().take(width));
        is_plain.then(|| Keyed { order: rows.key_order().clone(), width, places })
    }
}

/// A column of values stored as given, or nearly so.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlainColumn {
    affinity: Affinity,
    not_null: bool,
}

#[derive(Debug)]
pub(super) struct PlainIndex {
    name: String,
    root: Pgno,
    order: KeyOrder,
    /// The columns of the table; `None` for the rowid.
    columns: Vec<Option<usize>>,
    /// The number of leading columns of a unique key; 0 without one.
    unique: usize,
}

/// Memory for records, reused from row to row.
#[derive(Debug, Default)]
pub(crate) struct PlainRecords {
    old: Vec<u8>,
    row: Vec<u8>,
    /// Entries behind each other.
    entries: Vec<u8>,
}

/// The values of a row, the rowid's other name NULL.
pub(super) type Values<'v> = [ValueRef<'v>; COLUMNS_MAX];

/// Values before any is known.
pub(super) const NO_VALUES: Values<'static> = [ValueRef::Null; COLUMNS_MAX];

impl PlainTable {
    /// `None` for a table that is not plain, or has no rowids.
    pub(crate) fn new(changer: &Changer) -> Option<PlainTable> {
        PlainTable::for_bulk(changer).filter(|table| table.keyed.is_none())
    }

    /// As [`PlainTable::new`], for [`Bulk`](super::bulk::Bulk): the table may have no rowids.
    pub(super) fn for_bulk(changer: &Changer) -> Option<PlainTable> {
        let (rows, constraints) = (&changer.rows, &changer.constraints);
        let table = &*rows.table;
        let keyed = Keyed::new(rows);
        let is_plain = table.without_rowid == keyed.is_some()
            && !table.strict
            && !table.autoincrement
            && !constraints.has_checks()
            && table.columns.len() <= COLUMNS_MAX
            && table.indexes.len() <= INDEXES_MAX
            && (0..).zip(&table.columns).all(|(place, column)| {
                column.generated.is_none() && (keyed.is_some() || column.stored == Some(place))
            });
        let mut indexes = Vec::new();
        for (place, index) in table.indexes.iter().enumerate().filter(|_| is_plain) {
            let mut columns = Vec::new();
            for column in &index.columns {
                columns.push(match column.source {
                    IndexSource::Column(column) => {
                        Some(column).filter(|column| table.rowid_alias != Some(*column))
                    }
                    IndexSource::Rowid => None,
                    IndexSource::Expr(_) => return None,
                });
            }
            if index.is_partial() || columns.len() > COLUMNS_MAX {
                return None;
            }
            let unique = if index.unique { index.key_columns } else { 0 };
            indexes.push(PlainIndex {
                name: index.name.clone(),
                root: index.root,
                order: rows.order_of(place).clone(),
                columns,
                unique,
            });
        }
        let columns = table.columns.iter().map(PlainColumn::new);
        is_plain.then(|| PlainTable {
            root: table.root,
            alias: table.rowid_alias,
            columns: columns.collect(),
            indexes,
            missing: table.columns.iter().map(|column| column.missing_value.clone()).collect(),
            keyed,
        })
    }

    pub(super) fn root(&self) -> Pgno {
        self.root
    }

    pub(super) fn keyed(&self) -> Option<&Keyed> {
        self.keyed.as_ref()
    }

    /// How many values name a row.
    pub(super) fn key_width(&self) -> usize {
        self.keyed.as_ref().map_or(1, |keyed| keyed.width)
    }

    pub(super) fn indexes(&self) -> &[PlainIndex] {
        &self.indexes
    }

    /// As [`PlainColumn::accept`] of the column of a number.
    pub(super) fn accept(&self, column: usize, value: &mut ValueRef<'_>) -> bool {
        self.columns[column].accept(value)
    }

    /// True where a change of a row's values changes an entry of a unique index.
    pub(super) fn moves_unique(&self, before: &[ValueRef<'_>], after: &[ValueRef<'_>]) -> bool {
        let mut unique = self.indexes.iter().filter(|index| index.is_unique());
        unique.any(|index| index.differs(before, after))
    }

    /// True where NULL is in a column that has none, or in a primary key.
    pub(super) fn lacks(&self, values: &[ValueRef<'_>]) -> bool {
        let is_missing = |(place, column): (usize, &PlainColumn)| {
            column.not_null && matches!(values[place], ValueRef::Null) && self.alias != Some(place)
        };
        let key = self.keyed.iter().flat_map(|keyed| &keyed.places[..keyed.width]);
        self.columns.iter().enumerate().any(is_missing)
            || key.into_iter().any(|column| matches!(values[*column], ValueRef::Null))
    }

    /// Appends the record of a row.
    pub(super) fn encode(&self, values: &[ValueRef<'_>], format: u32, out: &mut Vec<u8>) {
        match &self.keyed {
            None => encode_record(&values[..self.columns.len()], format, out),
            Some(keyed) => {
                encode_values(keyed.places.iter().map(|column| values[*column]), format, out);
            }
        }
    }

    /// How many columns there are.
    pub(crate) fn width(&self) -> usize {
        self.columns.len()
    }

    /// The column standing for the rowid, `INTEGER PRIMARY KEY`.
    pub(crate) fn alias(&self) -> Option<usize> {
        self.alias
    }

    /// Inserts a row of values by column; `None` where that is left to others. A `rowid` of `None`
    /// asks for one behind all others. Gives the rowid.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub(crate) fn insert(
        &self,
        transaction: &mut Transaction,
        rowid: Option<i64>,
        values: &mut [ValueRef<'_>],
        records: &mut PlainRecords,
    ) -> Result<Option<i64>, Error> {
        self.insert_among(transaction, (rowid, values), records, None)
    }

    /// As [`PlainTable::insert`]: of many rows, with entries of indexes that are not unique left
    /// waiting in `bulk`.
    ///
    /// # Errors
    /// As [`PlainTable::insert`].
    pub(super) fn insert_among(
        &self,
        transaction: &mut Transaction,
        (rowid, values): (Option<i64>, &mut [ValueRef<'_>]),
        records: &mut PlainRecords,
        bulk: Option<&mut Bulk<'_>>,
    ) -> Result<Option<i64>, Error> {
        let rowid = match rowid {
            Some(rowid) => rowid,
            None => match transaction.last_rowid(self.root).and_then(|last| last.checked_add(1)) {
                Some(rowid) => rowid,
                None => return Ok(None),
            },
        };
        for (place, (value, column)) in values.iter_mut().zip(&self.columns).enumerate() {
            if self.alias == Some(place) {
                *value = ValueRef::Null;
            } else if !column.accept(value) {
                return Ok(None);
            }
        }
        if self.indexes.is_empty() && transaction.append_values(self.root, rowid, values)? {
            return Ok(Some(rowid));
        }
        if transaction.utf16().is_some() {
            return Ok(None);
        }
        let format = transaction.header().schema_format;
        records.row.clear();
        encode_record(values, format, &mut records.row);
        let few = self.entries(values, rowid, format, &mut records.entries);
        let is_done = match &bulk {
            None => transaction.insert_new_row(self.root, rowid, &records.row, few.iter())?,
            Some(_) => {
                let mut own = Few::none();
                let unique = few.iter().zip(&self.indexes).filter(|(_, index)| index.is_unique());
                unique.for_each(|(entry, _)| own.push(entry));
                transaction.insert_new_row(self.root, rowid, &records.row, own.iter())?
            }
        };
        if let Some(bulk) = bulk.filter(|_| is_done) {
            bulk.note_row(values, rowid, format);
        }
        Ok(is_done.then_some(rowid))
    }

    /// Sets columns of the row of that rowid; `None` where that is left to others. Gives how many
    /// rows were changed.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub(super) fn update(
        &self,
        transaction: &mut Transaction,
        rowid: i64,
        (sets, parameters, session): (&[(usize, Set)], &[Value], &dyn Session),
        records: &mut PlainRecords,
    ) -> Result<Option<u64>, Error> {
        let Some(place) = self.find(transaction, rowid, records)? else { return Ok(Some(0)) };
        let mut computed = Vec::new();
        if sets.iter().any(|(_, set)| matches!(set, Set::Computed(_))) {
            let mut old: Values<'_> = [ValueRef::Null; COLUMNS_MAX];
            if transaction.utf16().is_some() || !self.decode(&records.old, &mut old)? {
                return Ok(None);
            }
            let row = self.row(&old, rowid);
            for (_, set) in sets {
                computed.push(match set {
                    Set::Computed(expr) => expr.eval(rowid, &row, session)?,
                    Set::Given(_) => Value::Null,
                });
            }
        }
        let sets = sets.iter().enumerate().map(|(number, (column, set))| match set {
            Set::Given(given) => (*column, given.value(parameters)),
            Set::Computed(_) => (*column, computed[number].as_ref()),
        });
        self.replace(transaction, (&place, rowid), sets, records)
    }

    /// As [`PlainTable::update`] with values at hand.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub(super) fn set<'v>(
        &self,
        transaction: &mut Transaction,
        rowid: i64,
        sets: impl Iterator<Item = (usize, ValueRef<'v>)>,
        records: &mut PlainRecords,
    ) -> Result<Option<u64>, Error> {
        let Some(place) = self.find(transaction, rowid, records)? else { return Ok(Some(0)) };
        self.replace(transaction, (&place, rowid), sets, records)
    }

    /// Finds a row, and puts its payload into `records`.
    fn find(
        &self,
        transaction: &Transaction,
        rowid: i64,
        records: &mut PlainRecords,
    ) -> Result<Option<RowPlace>, Error> {
        Ok(transaction.row_place(self.root, rowid, &mut records.old)?)
    }

    /// Replaces the row at a place.
    fn replace<'v>(
        &self,
        transaction: &mut Transaction,
        (place, rowid): (&RowPlace, i64),
        sets: impl Iterator<Item = (usize, ValueRef<'v>)>,
        records: &mut PlainRecords,
    ) -> Result<Option<u64>, Error> {
        let mut old: Values<'_> = [ValueRef::Null; COLUMNS_MAX];
        if transaction.utf16().is_some() || !self.decode(&records.old, &mut old)? {
            return Ok(None);
        }
        let mut new = old;
        for (column, mut value) in sets {
            if !self.columns[column].accept(&mut value) {
                return Ok(None);
            }
            new[column] = value;
        }
        if self.lacks(&new) {
            return Ok(None);
        }
        let format = transaction.header().schema_format;
        records.row.clear();
        self.encode(&new, format, &mut records.row);
        records.entries.clear();
        let mut places = [None; INDEXES_MAX];
        for (number, index) in self.indexes.iter().enumerate() {
            if !index.differs(&old, &new) {
                continue;
            }
            let start = records.entries.len();
            index.encode(&old, rowid, format, &mut records.entries);
            let middle = records.entries.len();
            let unique = index.encode(&new, rowid, format, &mut records.entries);
            places[number] = Some((start, middle, records.entries.len(), unique));
        }
        let mut few = Few::none();
        for (index, place) in self.indexes.iter().zip(places) {
            let Some((start, middle, end, unique)) = place else { continue };
            few.push(ChangedEntry {
                root: index.root,
                before: &records.entries[start..middle],
                after: &records.entries[middle..end],
                order: &index.order,
                unique,
            });
        }
        let is_done = transaction.update_row(place, &records.row, few.iter())?;
        Ok(is_done.then_some(1))
    }

    /// Removes the row of that rowid; `None` where that is left to others. Gives how many rows were
    /// removed.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub(crate) fn delete(
        &self,
        transaction: &mut Transaction,
        rowid: i64,
        records: &mut PlainRecords,
    ) -> Result<Option<u64>, Error> {
        let Some(place) = self.find(transaction, rowid, records)? else { return Ok(Some(0)) };
        let mut old: Values<'_> = [ValueRef::Null; COLUMNS_MAX];
        if transaction.utf16().is_some() || !self.decode(&records.old, &mut old)? {
            return Ok(None);
        }
        let format = transaction.header().schema_format;
        let few = self.entries(&old, rowid, format, &mut records.entries);
        Ok(transaction.delete_row(&place, few.iter())?.then_some(1))
    }

    /// A row's entries in the indexes, their records in `out`.
    fn entries<'e>(
        &'e self,
        values: &[ValueRef<'_>],
        rowid: i64,
        format: u32,
        out: &'e mut Vec<u8>,
    ) -> Few<NewEntry<'e>> {
        out.clear();
        let mut ends = [0; INDEXES_MAX];
        let mut unique = [0; INDEXES_MAX];
        for (number, index) in self.indexes.iter().enumerate() {
            unique[number] = index.encode(values, rowid, format, out);
            ends[number] = out.len();
        }
        let mut few = Few::none();
        let mut start = 0;
        for (number, index) in self.indexes.iter().enumerate() {
            let record = &out[start..ends[number]];
            start = ends[number];
            let unique = unique[number];
            few.push(NewEntry { root: index.root, record, order: &index.order, unique });
        }
        few
    }

    /// The values of a row as expressions see them.
    fn row(&self, stored: &Values<'_>, rowid: i64) -> Vec<Value> {
        let value = |(place, column): (usize, &PlainColumn)| match stored[place] {
            _ if self.alias == Some(place) => Value::Int(rowid),
            ValueRef::Int(int) if column.affinity == Affinity::Real => Value::Real(int as f64),
            value => Value::from(value),
        };
        self.columns.iter().enumerate().map(value).collect()
    }

    /// The values of a record; false where it has more columns than the table.
    pub(super) fn decode<'v>(
        &'v self,
        record: &'v [u8],
        out: &mut [ValueRef<'v>],
    ) -> Result<bool, Error> {
        let width = self.columns.len();
        let column_at = |place: usize| match &self.keyed {
            None => Some(place).filter(|place| *place < width),
            Some(keyed) => keyed.places.get(place).copied(),
        };
        let mut count = 0;
        for value in Record::new(record).map_err(shoal_store::Error::from)?.values() {
            let place = column_at(count).and_then(|column| out.get_mut(column));
            let Some(place) = place else { return Ok(false) };
            *place = value.map_err(shoal_store::Error::from)?;
            count += 1;
        }
        for column in (count..width).filter_map(column_at) {
            out[column] = compacted(self.missing[column].as_ref(), self.columns[column].affinity);
        }
        if let Some(alias) = self.alias {
            out[alias] = ValueRef::Null;
        }
        Ok(true)
    }
}

impl PlainColumn {
    pub(super) fn new(column: &Column) -> PlainColumn {
        PlainColumn { affinity: column.affinity, not_null: column.not_null }
    }

    /// Brings a value into its stored form; false for NULL in a NOT NULL column, and for values
    /// converted by the general path alone.
    #[inline]
    pub(super) fn accept(self, value: &mut ValueRef<'_>) -> bool {
        match (*value, self.affinity) {
            (ValueRef::Null, _) => !self.not_null,
            (ValueRef::Int(_), Affinity::Integer | Affinity::Numeric | Affinity::Blob)
            | (ValueRef::Text(_), Affinity::Text | Affinity::Blob)
            | (ValueRef::Blob(_), _) => true,
            (ValueRef::Real(real), _) if real.is_nan() => false,
            (ValueRef::Real(_), Affinity::Blob) => true,
            (ValueRef::Int(_) | ValueRef::Real(_), Affinity::Real) => {
                *value = compacted(*value, Affinity::Real);
                true
            }
            _ => false,
        }
    }
}

impl PlainIndex {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn root(&self) -> Pgno {
        self.root
    }

    pub(super) fn order(&self) -> &KeyOrder {
        &self.order
    }

    /// The columns of the table; `None` for the rowid.
    pub(super) fn columns(&self) -> &[Option<usize>] {
        &self.columns
    }

    /// The number of leading columns that no two rows share; 0 for an index that is not unique.
    pub(super) fn unique_columns(&self) -> usize {
        self.unique
    }

    pub(super) fn is_unique(&self) -> bool {
        self.unique > 0
    }

    /// True where two versions of a row have different entries.
    pub(super) fn differs(&self, old: &[ValueRef<'_>], new: &[ValueRef<'_>]) -> bool {
        self.columns.iter().flatten().any(|&column| old[column] != new[column])
    }

    /// Appends the record of a row's entry; gives the number of columns that no other entry may
    /// share with it.
    pub(super) fn encode(
        &self,
        values: &[ValueRef<'_>],
        rowid: i64,
        format: u32,
        out: &mut Vec<u8>,
    ) -> usize {
        let value = |column: &Option<usize>| match column {
            None => ValueRef::Int(rowid),
            Some(column) => values[*column],
        };
        encode_values(self.columns.iter().map(value), format, out);
        let is_null = |column: &Option<usize>| matches!(value(column), ValueRef::Null);
        let is_shared = self.columns[..self.unique].iter().any(is_null);
        if is_shared { 0 } else { self.unique }
    }
}

/// As many items as there are indexes, on the stack.
struct Few<T> {
    items: [Option<T>; INDEXES_MAX],
    len: usize,
}

impl<T: Copy> Few<T> {
    fn none() -> Few<T> {
        Few { items: [None; INDEXES_MAX], len: 0 }
    }

    fn push(&mut self, item: T) {
        self.items[self.len] = Some(item);
        self.len += 1;
    }

    fn iter(&self) -> impl Iterator<Item = T> + Clone {
        self.items[..self.len].iter().map_while(|item| *item)
    }
}
