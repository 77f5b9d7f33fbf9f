//! Registers as columns, where expressions are computed of many rows at a time.

use super::{Code, Op, Reg};

/// Which column is a register's, for those that have one. The others hold the same for all rows.
#[derive(Debug, Default)]
pub(crate) struct ColumnTable {
    first: Reg,
    /// By register from the first on; `NONE` for one without a column.
    columns: Box<[u32]>,
    count: usize,
}

impl ColumnTable {
    const NONE: u32 = u32::MAX;

    /// Columns for registers that are read, each once, in their order, then for those that codes
    /// write.
    pub(crate) fn new<'c>(
        loaded: &[Reg],
        codes: impl Iterator<Item = &'c Code> + Clone,
    ) -> ColumnTable {
        let written = codes.flat_map(|code| &*code.ops).filter_map(Op::target);
        let all = || loaded.iter().copied().chain(written.clone());
        let first = all().min().unwrap_or_default();
        let end = all().max().map_or(first, |last| last + 1);
        let mut columns = vec![ColumnTable::NONE; end - first];
        let mut count = 0;
        for reg in all() {
            let column = &mut columns[reg - first];
            if *column == ColumnTable::NONE {
                // A statement has fewer registers than that.
                *column = count as u32;
                count += 1;
            }
        }
        ColumnTable { first, columns: columns.into(), count }
    }

    /// How many columns there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The number of a register's column.
    #[inline]
    pub(crate) fn column(&self, reg: Reg) -> Option<usize> {
        let column = *self.columns.get(reg.checked_sub(self.first)?)?;
        (column != ColumnTable::NONE).then_some(column as usize)
    }
}
