//! The bytes of changesets and patchsets, as SQLite's session extension writes them.
//!
//! A table's head is `T` (changeset) or `P` (patchset), the number of columns as a varint, one byte
//! a column with the place in the primary key or 0, the name and a NUL. Changes follow: the
//! operation, a flag for changes made by triggers, one or two records. A record has one value a
//! column: a type byte, 8 bytes big-endian for numbers, a varint length before text and blobs;
//! type 0 stands for no value. A changeset's `UPDATE` has the old values of the key and of changed
//! columns, then the new values of changed ones; a patchset's has one record, key and new values.
//! A patchset's `DELETE` has the values of the key only, without any byte for other columns.

use shoal_sql::ValueRef;

use crate::Error;

/// Most columns of a table in a changeset.
const COLUMNS_MAX: u64 = 65_536;

/// How much a change tells of the row before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Everything: can be inverted, and conflicts are seen.
    Changeset,
    /// The key alone: shorter.
    Patchset,
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    /// A row goes.
    Delete,
    /// Columns outside of the key change.
    Update,
    /// A row comes.
    Insert,
}

impl Op {
    /// The byte of the operation, SQLite's authorizer code of the same name.
    pub fn byte(self) -> u8 {
        match self {
            Op::Delete => 9,
            Op::Insert => 18,
            Op::Update => 23,
        }
    }

    /// The SQL word.
    pub fn word(self) -> &'static str {
        match self {
            Op::Delete => "DELETE",
            Op::Update => "UPDATE",
            Op::Insert => "INSERT",
        }
    }
}

/// A table, as a changeset names one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The table's name.
    pub table: String,
    /// One entry a column: the place in the primary key from 1, 0 for columns outside of the key.
    pub keys: Vec<u8>,
}

impl Head {
    /// The columns of the primary key, in the table's order.
    pub fn key_columns(&self) -> impl Iterator<Item = usize> {
        self.keys.iter().enumerate().filter(|(_, place)| **place > 0).map(|(column, _)| column)
    }

    /// True for a column of the primary key.
    pub fn is_key(&self, column: usize) -> bool {
        self.keys[column] > 0
    }

    /// Bytes able to tell two rows apart: the key's values as a record.
    pub(crate) fn key_bytes(&self, row: &[Option<ValueRef<'_>>], out: &mut Vec<u8>) {
        out.clear();
        for column in self.key_columns() {
            push_value(row[column], out);
        }
    }
}

/// One change. `old` and `new` have a place for each column; `None` is no value.
#[derive(Clone, Copy, Debug)]
pub struct Change<'r, 'a> {
    /// The table.
    pub head: &'r Head,
    /// Changeset or patchset.
    pub form: Form,
    /// The operation.
    pub op: Op,
    /// True for a change made by a trigger or a foreign key's action.
    pub indirect: bool,
    /// The row before: the whole row of a deletion, the key and the changed columns of an update.
    /// In patchsets the key alone.
    pub old: &'r [Option<ValueRef<'a>>],
    /// The row after: the whole row of an insertion, the changed columns of an update.
    pub new: &'r [Option<ValueRef<'a>>],
}

impl<'a> Change<'_, 'a> {
    /// The record with the values of the key.
    pub fn keyed(&self) -> &[Option<ValueRef<'a>>] {
        if self.op == Op::Insert { self.new } else { self.old }
    }
}

/// Reads the changes of a changeset or patchset one after the other; copies nothing.
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    form: Option<Form>,
    head: Head,
    old: Vec<Option<ValueRef<'a>>>,
    new: Vec<Option<ValueRef<'a>>>,
    /// The last change's operation and its indirect flag.
    last: (Op, bool),
    /// How many times the head changed.
    heads: usize,
    /// True for the notes of a rebase: their insertions may lack values outside of the key.
    has_gaps: bool,
}

impl<'a> Reader<'a> {
    /// A reader before the first change.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        let (head, old, new) = (Head::default(), Vec::new(), Vec::new());
        let last = (Op::Insert, false);
        Reader { bytes, at: 0, form: None, head, old, new, last, heads: 0, has_gaps: false }
    }

    /// A reader of the notes about conflicts, read by a rebase.
    pub(crate) fn of_notes(bytes: &'a [u8]) -> Reader<'a> {
        Reader { has_gaps: true, ..Reader::new(bytes) }
    }

    /// The next change; `None` at the end. Tables without changes are passed over.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with the structure, the fault and the place.
    #[allow(clippy::should_implement_trait)] // it lends, and can fail
    pub fn next(&mut self) -> Result<Option<Change<'_, 'a>>, Error> {
        let (op, start) = loop {
            let start = self.at;
            let Some(byte) = self.bytes.get(self.at) else { return Ok(None) };
            self.at += 1;
            match byte {
                b'T' => self.read_head(Form::Changeset, start)?,
                b'P' => self.read_head(Form::Patchset, start)?,
                9 => break (Op::Delete, start),
                18 => break (Op::Insert, start),
                23 => break (Op::Update, start),
                _ => return Err(corrupt("change", "begins with a byte of no operation", start)),
            }
        };
        let Some(form) = self.form else {
            return Err(corrupt("change", "stands before any table", start));
        };
        let indirect = self.byte("change")? != 0;
        let columns = self.head.keys.len();
        for record in [&mut self.old, &mut self.new] {
            record.clear();
            record.resize(columns, None);
        }
        match (op, form) {
            (Op::Insert, _) => self.read_record(Side::New, false)?,
            (Op::Delete, _) => self.read_record(Side::Old, form == Form::Patchset)?,
            (Op::Update, Form::Changeset) => {
                self.read_record(Side::Old, false)?;
                self.read_record(Side::New, false)?;
            }
            (Op::Update, Form::Patchset) => {
                self.read_record(Side::New, false)?;
                for (column, place) in self.head.keys.iter().enumerate() {
                    if *place > 0 {
                        self.old[column] = self.new[column].take();
                    }
                }
            }
        }
        let keyed = if op == Op::Insert { &self.new } else { &self.old };
        let whole =
            !self.has_gaps && (op == Op::Insert || (op == Op::Delete && form == Form::Changeset));
        for (value, place) in keyed.iter().zip(&self.head.keys) {
            if value.is_none() && (whole || *place > 0) {
                return Err(corrupt("change", "lacks a value of the row or its key", start));
            }
        }
        self.last = (op, indirect);
        Ok(Some(self.again()))
    }

    /// The change last given by [`Reader::next`].
    pub(crate) fn again(&self) -> Change<'_, 'a> {
        let Reader { head, old, new, last: (op, indirect), .. } = self;
        let form = self.form.unwrap_or(Form::Changeset);
        Change { head, form, op: *op, indirect: *indirect, old, new }
    }

    /// A number that changes with the table.
    pub(crate) fn table_number(&self) -> usize {
        self.heads
    }

    fn read_head(&mut self, form: Form, start: usize) -> Result<(), Error> {
        if self.form.is_some_and(|known| known != form) {
            return Err(corrupt("table", "is of a patchset inside a changeset", start));
        }
        self.form = Some(form);
        let columns = self.varint("table")?;
        if columns == 0 || columns > COLUMNS_MAX {
            return Err(corrupt("table", "has a number of columns out of range", start));
        }
        // At most COLUMNS_MAX, so the number fits.
        let keys = self.take(columns as usize, "table")?.to_vec();
        if keys.iter().all(|place| *place == 0) {
            return Err(corrupt("table", "has no primary key", start));
        }
        let rest = &self.bytes[self.at..];
        let Some(end) = rest.iter().position(|byte| *byte == 0) else {
            return Err(corrupt("table", "has a name without an end", self.at));
        };
        let Ok(table) = std::str::from_utf8(&rest[..end]) else {
            return Err(corrupt("table", "has a name outside UTF-8", self.at));
        };
        let head = Head { table: table.to_owned(), keys };
        if head != self.head {
            self.head = head;
            self.heads += 1;
        }
        self.at += end + 1;
        Ok(())
    }

    /// Reads the values of a record; with `key_only`, key columns alone have values.
    fn read_record(&mut self, side: Side, key_only: bool) -> Result<(), Error> {
        for column in 0..self.head.keys.len() {
            if key_only && self.head.keys[column] == 0 {
                continue;
            }
            let value = self.value()?;
            match side {
                Side::Old => self.old[column] = value,
                Side::New => self.new[column] = value,
            }
        }
        Ok(())
    }

    fn value(&mut self) -> Result<Option<ValueRef<'a>>, Error> {
        let start = self.at;
        Ok(Some(match self.byte("value")? {
            0 => return Ok(None),
            1 => ValueRef::Int(i64::from_be_bytes(self.number()?)),
            2 => {
                let real = f64::from_be_bytes(self.number()?);
                // SQLite stores NULL for NaN.
                if real.is_nan() { ValueRef::Null } else { ValueRef::Real(real) }
            }
            3 => ValueRef::Text(self.counted()?),
            4 => ValueRef::Blob(self.counted()?),
            5 => ValueRef::Null,
            _ => return Err(corrupt("value", "has a type out of range", start)),
        }))
    }

    fn number(&mut self) -> Result<[u8; 8], Error> {
        let bytes = self.take(8, "value")?;
        Ok(bytes.try_into().expect("eight bytes were taken"))
    }

    fn counted(&mut self) -> Result<&'a [u8], Error> {
        let start = self.at;
        let length = self.varint("value")?;
        let length = usize::try_from(length)
            .map_err(|_| corrupt("value", "is longer than the changeset", start))?;
        self.take(length, "value")
    }

    fn byte(&mut self, structure: &'static str) -> Result<u8, Error> {
        Ok(self.take(1, structure)?[0])
    }

    fn take(&mut self, length: usize, structure: &'static str) -> Result<&'a [u8], Error> {
        let rest = &self.bytes[self.at..];
        let Some(taken) = rest.get(..length) else {
            return Err(corrupt(structure, "ends early", self.at));
        };
        self.at += length;
        Ok(taken)
    }

    /// SQLite's varint: seven bits a byte, the first byte highest; a ninth byte gives eight bits.
    fn varint(&mut self, structure: &'static str) -> Result<u64, Error> {
        let mut value = 0;
        for _ in 0..8 {
            let byte = self.byte(structure)?;
            value = value << 7 | u64::from(byte & 0x7f);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Ok(value << 8 | u64::from(self.byte(structure)?))
    }
}

#[derive(Clone, Copy)]
enum Side {
    Old,
    New,
}

pub(crate) fn corrupt(structure: &'static str, fault: &'static str, at: usize) -> Error {
    Error::Corrupt { structure, fault, at }
}

/// Writes changesets or patchsets.
#[derive(Debug)]
pub struct Writer {
    form: Form,
    bytes: Vec<u8>,
    /// The table of the last change written, with the place behind its head.
    head: Option<Head>,
}

impl Writer {
    /// A writer of no changes so far.
    pub fn new(form: Form) -> Writer {
        Writer { form, bytes: Vec::new(), head: None }
    }

    /// Writes a change: a changeset's changes fit both forms, a patchset's only a patchset. An
    /// update without a changed column is left out.
    pub fn push(&mut self, change: &Change<'_, '_>) {
        let Change { head, op, old, new, .. } = *change;
        if op == Op::Update && new.iter().all(Option::is_none) {
            return;
        }
        self.begin(head);
        self.bytes.extend([op.byte(), u8::from(change.indirect)]);
        match (op, self.form) {
            (Op::Insert, _) => self.record(new),
            (Op::Delete, Form::Changeset) => self.record(old),
            (Op::Delete, Form::Patchset) => {
                for column in head.key_columns() {
                    push_value(old[column], &mut self.bytes);
                }
            }
            (Op::Update, Form::Changeset) => {
                self.record(old);
                self.record(new);
            }
            (Op::Update, Form::Patchset) => {
                for (column, value) in new.iter().enumerate() {
                    let value = if head.is_key(column) { old[column] } else { *value };
                    push_value(value, &mut self.bytes);
                }
            }
        }
    }

    /// Writes the head of a table unless the last change was of the same.
    pub(crate) fn begin(&mut self, head: &Head) {
        if self.head.as_ref() == Some(head) {
            return;
        }
        self.bytes.push(match self.form {
            Form::Changeset => b'T',
            Form::Patchset => b'P',
        });
        push_varint(head.keys.len() as u64, &mut self.bytes);
        self.bytes.extend_from_slice(&head.keys);
        self.bytes.extend_from_slice(head.table.as_bytes());
        self.bytes.push(0);
        self.head = Some(head.clone());
    }

    fn record(&mut self, values: &[Option<ValueRef<'_>>]) {
        for value in values {
            push_value(*value, &mut self.bytes);
        }
    }

    /// The bytes; none when there was no change.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Appends a value as the records of changesets have one.
pub(crate) fn push_value(value: Option<ValueRef<'_>>, out: &mut Vec<u8>) {
    match value {
        None => out.push(0),
        Some(ValueRef::Int(int)) => {
            out.push(1);
            out.extend(int.to_be_bytes());
        }
        Some(ValueRef::Real(real)) => {
            out.push(2);
            out.extend(real.to_be_bytes());
        }
        Some(ValueRef::Text(bytes)) => {
            out.push(3);
            push_varint(bytes.len() as u64, out);
            out.extend_from_slice(bytes);
        }
        Some(ValueRef::Blob(bytes)) => {
            out.push(4);
            push_varint(bytes.len() as u64, out);
            out.extend_from_slice(bytes);
        }
        Some(ValueRef::Null) => out.push(5),
    }
}

fn push_varint(value: u64, out: &mut Vec<u8>) {
    if value >> 56 > 0 {
        for shift in (0..8).map(|group| 8 + 7 * (7 - group)) {
            out.push((value >> shift) as u8 | 0x80);
        }
        out.push(value as u8);
        return;
    }
    let groups = (64 - value.leading_zeros()).div_ceil(7).max(1);
    for group in (0..groups).rev() {
        let more = if group > 0 { 0x80 } else { 0 };
        out.push((value >> (7 * group)) as u8 & 0x7f | more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The changeset of SQLite's own for `t(a INTEGER PRIMARY KEY, b TEXT, c REAL)`: row 1
    /// deleted, column b of row 2 updated, row 3 inserted.
    const SAMPLE: &str = "540301000074000900010000000000000001030178023ff8000000000000\
        170001000000000000000203017900000302797900120001000000000000000303017a05";

    fn sample() -> Vec<u8> {
        shoal_stdx::hex::decode(SAMPLE).expect("the sample is hexadecimal")
    }

    #[test]
    fn the_sample_reads_and_is_written_again() {
        let bytes = sample();
        let mut reader = Reader::new(&bytes);
        let mut writer = Writer::new(Form::Changeset);
        let mut ops = Vec::new();
        while let Some(change) = reader.next().unwrap() {
            ops.push((change.op, change.old.to_vec(), change.new.to_vec()));
            writer.push(&change);
        }
        let int = |int| Some(ValueRef::Int(int));
        let text = |text: &'static str| Some(ValueRef::Text(text.as_bytes()));
        assert_eq!(ops[1].1, [int(2), text("y"), None]);
        assert_eq!(ops[1].2, [None, text("yy"), None]);
        assert_eq!(ops[2].2, [int(3), text("z"), Some(ValueRef::Null)]);
        assert_eq!(writer.finish(), bytes);
    }

    #[test]
    fn any_cut_is_an_error_or_a_shorter_changeset() {
        let bytes = sample();
        for length in 0..bytes.len() {
            let mut reader = Reader::new(&bytes[..length]);
            loop {
                match reader.next() {
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(error) => {
                        assert!(matches!(error, Error::Corrupt { .. }));
                        break;
                    }
                }
            }
        }
    }

    #[test]
    fn lengths_up_to_the_largest_read_back() {
        for value in [0, 127, 128, 16_383, 16_384, 1 << 40, (1 << 56) - 1, 1 << 56, u64::MAX] {
            let mut bytes = Vec::new();
            push_varint(value, &mut bytes);
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.varint("value").unwrap(), value);
            assert_eq!(reader.at, bytes.len());
        }
    }
}
