//! The entries of an index made from a whole table: encoded one behind the other, sorted on all
//! cores, and appended to the index in order.

use std::cmp::Ordering;

use rayon::prelude::*;
use shoal_store::{Collation, KeyOrder, NewEntry, Pgno, Record, Transaction, ValueRef};

use crate::Error;

/// Entries to be sorted, each a record.
pub(super) struct SortedEntries<'o> {
    order: &'o KeyOrder,
    schema_format: u32,
    /// The records behind each other.
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    shared: Shared,
}

/// Where an entry's record is, and a number ordered as the first columns are, with ties.
#[derive(Clone, Copy, Debug)]
struct Entry {
    prefix: u64,
    start: usize,
    len: u32,
}

/// How the first columns of all entries begin.
#[derive(Debug)]
enum Shared {
    /// No entry yet.
    Nothing,
    /// All are texts compared byte by byte, beginning with these bytes.
    Text(Vec<u8>),
    /// Not all are such texts.
    Mixed,
}

impl<'o> SortedEntries<'o> {
    pub(super) fn new(order: &'o KeyOrder, schema_format: u32) -> SortedEntries<'o> {
        let (bytes, entries) = (Vec::new(), Vec::new());
        SortedEntries { order, schema_format, bytes, entries, shared: Shared::Nothing }
    }

    /// Adds an entry. Cost: its bytes and 24 more.
    pub(super) fn push<'v>(&mut self, values: impl Iterator<Item = ValueRef<'v>> + Clone) {
        let first = values.clone().next().unwrap_or(ValueRef::Null);
        let start = self.bytes.len();
        shoal_store::encode_values(values, self.schema_format, &mut self.bytes);
        let len = u32::try_from(self.bytes.len() - start).expect("a record is shorter than 4 GiB");
        let column = self.order.column(0);
        self.entries.push(Entry { prefix: column.prefix(first), start, len });
        match (&mut self.shared, first) {
            (Shared::Mixed, _) => {}
            (Shared::Text(shared), ValueRef::Text(text)) => {
                let same = shared.iter().zip(text).take_while(|(a, b)| a == b).count();
                shared.truncate(same);
            }
            (shared @ Shared::Nothing, ValueRef::Text(text))
                if column.collation == Collation::Binary =>
            {
                *shared = Shared::Text(text.to_vec());
            }
            (shared, _) => *shared = Shared::Mixed,
        }
    }

    /// Sorts the entries.
    pub(super) fn sort(&mut self) {
        let SortedEntries { order, bytes, entries, shared, .. } = self;
        if let Shared::Text(shared) = shared {
            // The bytes after the shared ones tell more entries apart.
            let (skipped, descending) = (shared.len(), order.column(0).descending);
            entries.par_iter_mut().for_each(|entry| {
                let mut first = [0; 8];
                if let Some(ValueRef::Text(text)) = read(entry.record(bytes)).next() {
                    let rest = text.get(skipped..).unwrap_or_default();
                    let count = rest.len().min(first.len());
                    first[..count].copy_from_slice(&rest[..count]);
                }
                let prefix = u64::from_be_bytes(first);
                entry.prefix = if descending { !prefix } else { prefix };
            });
        }
        entries.par_sort_unstable_by(|a, b| {
            let ties = || compare(order, a.record(bytes), b.record(bytes), usize::MAX);
            a.prefix.cmp(&b.prefix).then_with(ties)
        });
    }

    /// True when two sorted entries have the same first `columns`, none of them NULL.
    pub(super) fn has_twins(&self, columns: usize) -> bool {
        let has_null = |record| read(record).take(columns).any(|it| matches!(it, ValueRef::Null));
        self.entries.windows(2).any(|pair| {
            let (a, b) = (pair[0].record(&self.bytes), pair[1].record(&self.bytes));
            pair[0].prefix == pair[1].prefix
                && compare(self.order, a, b, columns).is_eq()
                && !has_null(a)
        })
    }

    /// Appends the sorted entries to the empty index at `root`.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub(super) fn append_to(&self, transaction: &mut Transaction, root: Pgno) -> Result<(), Error> {
        for entry in &self.entries {
            let record = entry.record(&self.bytes);
            transaction.append_entry(NewEntry { root, record, order: self.order })?;
        }
        Ok(())
    }
}

impl Entry {
    fn record<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        &bytes[self.start..self.start + self.len as usize]
    }
}

/// The values of a record encoded here.
fn read(record: &[u8]) -> impl Iterator<Item = ValueRef<'_>> {
    const INVARIANT: &str = "a record reads back as it was encoded";
    let values = Record::new(record).expect(INVARIANT).values();
    values.map(|value| value.expect(INVARIANT))
}

/// The order of the first `columns` of two records.
fn compare(order: &KeyOrder, a: &[u8], b: &[u8], columns: usize) -> Ordering {
    read(a)
        .zip(read(b))
        .take(columns)
        .enumerate()
        .map(|(column, (a, b))| order.compare_column(column, a, b))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}
