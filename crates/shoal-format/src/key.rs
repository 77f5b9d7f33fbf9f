//! The order of index entries: which columns, which collation, which direction.

use std::cmp::Ordering;

use crate::{Collation, Corrupt, HeaderWalk, Record, ValueRef};

/// How one column of an index key is ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyColumn {
    /// How texts compare.
    pub collation: Collation,
    /// True for the largest value first.
    pub descending: bool,
}

/// The order of the entries of an index b-tree.
///
/// Columns past the ones listed (the rowid at the end of an entry, say) are binary and ascending,
/// so that every entry has one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyOrder {
    columns: Vec<KeyColumn>,
}

impl KeyOrder {
    /// The order of an index over `columns`.
    pub fn new(columns: Vec<KeyColumn>) -> KeyOrder {
        KeyOrder { columns }
    }

    /// The order in which every column is binary and ascending.
    pub const fn binary() -> KeyOrder {
        KeyOrder { columns: Vec::new() }
    }

    /// Returns the columns with an order of their own.
    pub fn columns(&self) -> &[KeyColumn] {
        &self.columns
    }

    /// Returns how column `index` is ordered.
    #[inline]
    pub fn column(&self, index: usize) -> KeyColumn {
        self.columns.get(index).copied().unwrap_or_default()
    }

    /// Returns the order of the first `key.len()` columns of the record in `payload`, compared with
    /// `key`: equal when `key` is a prefix of the record. A record that ends early is less.
    ///
    /// # Errors
    /// [`Corrupt`] if the record is broken up to the column that decides.
    #[inline]
    pub fn compare(&self, payload: &[u8], key: &[ValueRef<'_>]) -> Result<Ordering, Corrupt> {
        // Most keys of one column are small integers: a header of at most 127 bytes, then the type.
        if let [ValueRef::Int(wanted)] = key
            && let [header, serial @ 1..=9, ..] = *payload
            && serial != 7
            && (2..0x80).contains(&header)
        {
            let field = HeaderWalk::new(payload)?.find(payload, 0)?;
            if let Some(ValueRef::Int(found)) = field.decode(payload) {
                let order = found.cmp(wanted);
                return Ok(if self.column(0).descending { order.reverse() } else { order });
            }
        }
        let mut values = Record::new(payload)?.values();
        for (index, wanted) in key.iter().enumerate() {
            let Some(value) = values.next() else {
                return Ok(Ordering::Less);
            };
            let order = self.compare_column(index, value?, *wanted);
            if order.is_ne() {
                return Ok(order);
            }
        }
        Ok(Ordering::Equal)
    }

    /// Returns the order of two values of column `index`.
    #[inline]
    pub fn compare_column(&self, index: usize, a: ValueRef<'_>, b: ValueRef<'_>) -> Ordering {
        let column = self.column(index);
        let order = a.compare(b, column.collation);
        if column.descending { order.reverse() } else { order }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode_record;

    #[test]
    fn prefixes_directions_and_collations() {
        let order = KeyOrder::new(vec![
            KeyColumn { collation: Collation::NoCase, descending: false },
            KeyColumn { collation: Collation::Binary, descending: true },
        ]);
        let mut record = Vec::new();
        let values = [ValueRef::Text(b"Abc"), ValueRef::Int(5), ValueRef::Int(9)];
        encode_record(&values, 4, &mut record);
        let check = |key: &[ValueRef<'_>], expect| {
            assert_eq!(order.compare(&record, key), Ok(expect), "{key:?}");
        };
        check(&[], Ordering::Equal);
        check(&[ValueRef::Text(b"aBC")], Ordering::Equal);
        check(&[ValueRef::Text(b"abd")], Ordering::Less);
        check(&[ValueRef::Text(b"abc"), ValueRef::Int(6)], Ordering::Greater);
        check(&[ValueRef::Text(b"abc"), ValueRef::Null], Ordering::Less);
        check(&values, Ordering::Equal);
        check(&[values[0], values[1], ValueRef::Int(8)], Ordering::Greater);
        check(&[values[0], values[1], values[2], ValueRef::Null], Ordering::Less);
        assert!(order.compare(&[9], &values).is_err());
    }
}
