//! Key sets of a lookup join, gathered when its scan begins: bits by rowid.

use std::sync::Arc;

use shoal_store::Transaction;

use super::each::RowView;
use super::run::Memory;
use crate::Error;
use crate::plan::pipeline::{Operand, Pipeline};
use crate::value::{Value, ValueRef};

/// Most words of a set, 256 KiB: a table whose rowids lie further apart has none.
const WORDS_MAX: usize = 1 << 15;

/// The sets of a pipeline, one for each plan of one.
pub(crate) type KeySets = Arc<[KeySet]>;

/// Rowids of the rows of a table free to join.
#[derive(Debug, Default)]
pub(crate) struct KeySet {
    low: i64,
    bits: Vec<u64>,
    /// True where the rowids lie too far apart: every key may join.
    is_open: bool,
}

impl KeySet {
    /// False only for keys surely finding no row. Values other than integers are for the lookup
    /// to convert.
    #[inline(always)]
    pub(super) fn may_have(&self, key: ValueRef<'_>) -> bool {
        let ValueRef::Int(rowid) = key else { return true };
        let place = rowid.wrapping_sub(self.low).cast_unsigned();
        let word = self.bits.get(usize::try_from(place / 64).unwrap_or(usize::MAX));
        self.is_open || word.is_some_and(|word| word >> (place % 64) & 1 == 1)
    }

    /// Adds a rowid; rowids come in their order.
    fn push(&mut self, rowid: i64) {
        if self.bits.is_empty() {
            self.low = rowid;
        }
        let place = rowid.wrapping_sub(self.low).cast_unsigned();
        let word = usize::try_from(place / 64).unwrap_or(usize::MAX);
        if word >= WORDS_MAX {
            self.is_open = true;
            return;
        }
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        self.bits[word] |= 1 << (place % 64);
    }
}

impl Pipeline {
    /// Gathers the key sets; `None` for a pipeline without sets.
    ///
    /// # Errors
    /// Errors of the file.
    pub(crate) fn gather_keys(
        &self,
        txn: &Transaction,
        parameters: &[Value],
    ) -> Result<Option<KeySets>, Error> {
        if self.key_sets.is_empty() {
            return Ok(None);
        }
        let gathered = self.key_sets.iter().map(|set| {
            let mut keys = KeySet::default();
            let mut memory = Memory::new(&set.pipeline);
            set.pipeline.for_each(txn, parameters, &mut memory, |row: RowView<'_, '_, '_>| {
                if let ValueRef::Int(rowid) = row.value(&Operand::Rowid { record: 0 }) {
                    keys.push(rowid);
                }
                Ok(())
            })?;
            Ok(keys)
        });
        Ok(Some(gathered.collect::<Result<KeySets, Error>>()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_its_keys_and_no_others_nearby() {
        let mut keys = KeySet::default();
        assert!(!keys.may_have(ValueRef::Int(0)));
        for rowid in [-70, -3, 0, 5, 1000] {
            keys.push(rowid);
        }
        for rowid in -200..2000 {
            let expect = [-70, -3, 0, 5, 1000].contains(&rowid);
            assert_eq!(keys.may_have(ValueRef::Int(rowid)), expect, "{rowid}");
        }
        assert!(keys.may_have(ValueRef::Real(5.0)) && keys.may_have(ValueRef::Text(b"5")));
        assert!(!keys.may_have(ValueRef::Int(i64::MIN)) && !keys.may_have(ValueRef::Int(i64::MAX)));
        keys.push(i64::MAX);
        assert!(keys.may_have(ValueRef::Int(7)));
    }
}
