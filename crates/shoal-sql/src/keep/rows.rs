//! Rows kept in memory, one behind the other in one buffer.

use crate::value::{Value, ValueRef, assign};

/// A list of rows; cheap to append to and to read from by place.
#[derive(Debug, Default)]
pub(crate) struct RowStore {
    bytes: Vec<u8>,
    starts: Vec<usize>,
}

const NULL: u8 = 0;
const INT: u8 = 1;
const REAL: u8 = 2;
const TEXT: u8 = 3;
const BLOB: u8 = 4;

impl RowStore {
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    pub(crate) fn push<'v>(&mut self, row: impl Iterator<Item = ValueRef<'v>>) {
        self.starts.push(self.bytes.len());
        for value in row {
            match value {
                ValueRef::Null => self.bytes.push(NULL),
                ValueRef::Int(int) => {
                    self.bytes.push(INT);
                    self.bytes.extend_from_slice(&int.to_le_bytes());
                }
                ValueRef::Real(real) => {
                    self.bytes.push(REAL);
                    self.bytes.extend_from_slice(&real.to_bits().to_le_bytes());
                }
                ValueRef::Text(text) => self.push_bytes(TEXT, text),
                ValueRef::Blob(blob) => self.push_bytes(BLOB, blob),
            }
        }
    }

    fn push_bytes(&mut self, tag: u8, bytes: &[u8]) {
        self.bytes.push(tag);
        self.bytes.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes taken by the rows.
    pub(crate) fn byte_len(&self) -> usize {
        self.bytes.len() + self.starts.len() * size_of::<usize>()
    }

    /// Forgets all rows and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.starts.clear();
    }

    /// The values of the row at a place, in order.
    pub(crate) fn row(&self, place: usize) -> RowValues<'_> {
        RowValues { bytes: self.row_bytes(place) }
    }

    /// The bytes of the row at a place, for [`RowValues::of`].
    pub(crate) fn row_bytes(&self, place: usize) -> &[u8] {
        let start = self.starts.get(place).copied().unwrap_or(self.bytes.len());
        let end = self.starts.get(place + 1).copied().unwrap_or(self.bytes.len());
        &self.bytes[start..end]
    }

    /// Puts the row's values into registers.
    pub(crate) fn load(
        &self,
        place: usize,
        registers: &mut [Value],
        targets: impl IntoIterator<Item = usize>,
    ) {
        for (value, target) in self.row(place).zip(targets) {
            assign(&mut registers[target], value);
        }
    }
}

/// The values of one kept row.
#[derive(Clone, Debug)]
pub(crate) struct RowValues<'a> {
    bytes: &'a [u8],
}

impl<'a> RowValues<'a> {
    /// The values of a row whose bytes [`RowStore::row_bytes`] gave.
    pub(crate) fn of(bytes: &'a [u8]) -> RowValues<'a> {
        RowValues { bytes }
    }
}

impl<'a> Iterator for RowValues<'a> {
    type Item = ValueRef<'a>;

    fn next(&mut self) -> Option<ValueRef<'a>> {
        let (&tag, rest) = self.bytes.split_first()?;
        if tag == NULL {
            self.bytes = rest;
            return Some(ValueRef::Null);
        }
        let (word, rest) = rest.split_first_chunk::<8>()?;
        let (value, rest) = match tag {
            INT => (ValueRef::Int(i64::from_le_bytes(*word)), rest),
            REAL => (ValueRef::Real(f64::from_bits(u64::from_le_bytes(*word))), rest),
            _ => {
                let length = usize::try_from(u64::from_le_bytes(*word)).ok()?;
                let (bytes, rest) = rest.split_at_checked(length)?;
                let value = if tag == TEXT { ValueRef::Text(bytes) } else { ValueRef::Blob(bytes) };
                (value, rest)
            }
        };
        self.bytes = rest;
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_they_were() {
        let rows: [Vec<ValueRef<'_>>; 3] = [
            vec![ValueRef::Int(-1), ValueRef::Text(b"abc"), ValueRef::Null],
            vec![],
            vec![ValueRef::Real(0.5), ValueRef::Blob(b"")],
        ];
        let mut store = RowStore::default();
        for row in &rows {
            store.push(row.iter().copied());
        }
        assert_eq!(store.len(), 3);
        for (place, row) in rows.iter().enumerate() {
            assert_eq!(store.row(place).collect::<Vec<_>>(), *row);
        }
    }
}
