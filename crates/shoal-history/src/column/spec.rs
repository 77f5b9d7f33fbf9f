//! Column specifications and the table of columns before their data (format: column metadata).
//!
//! A specification is `id << 4 | deflated << 3 | type`.

use std::ops::Range;

use super::leb128::{Reader, write_uleb};
use crate::Fault;

const DEFLATED: u32 = 8;
const GROUP: u32 = 0;
const VALUE_METADATA: u32 = 6;
const VALUE: u32 = 7;

/// Which column, and whether it is deflated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ColumnSpec(pub(crate) u32);

impl ColumnSpec {
    pub(crate) fn is_deflated(self) -> bool {
        self.0 & DEFLATED != 0
    }

    pub(crate) fn deflated(self) -> Self {
        Self(self.0 | DEFLATED)
    }

    /// The same column, not deflated.
    pub(crate) fn inflated(self) -> Self {
        Self(self.0 & !DEFLATED)
    }

    fn id(self) -> u32 {
        self.0 >> 4
    }

    fn column_type(self) -> u32 {
        self.0 & 7
    }
}

/// A column as the table lists it; `range` counts from the begin of the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawColumn {
    pub(crate) spec: ColumnSpec,
    pub(crate) range: Range<usize>,
}

/// Reads the table of columns.
///
/// # Errors
/// When the columns do not ascend, or a value column does not follow its metadata.
pub(crate) fn read_table(reader: &mut Reader<'_>) -> Result<Vec<RawColumn>, Fault> {
    let mut columns = Vec::new();
    each_column(reader, |spec, range| columns.push(RawColumn { spec, range }))?;
    Ok(columns)
}

/// Reads a table of columns of a bundle, where a value column may follow the counts of its bytes.
///
/// # Errors
/// As [`read_table`].
pub(crate) fn read_bundle_table(reader: &mut Reader<'_>) -> Result<Vec<RawColumn>, Fault> {
    let mut columns = Vec::new();
    let push = |spec, range| columns.push(RawColumn { spec, range });
    each_column_owned_by(reader, |owner| matches!(owner, VALUE_METADATA | GROUP), push)?;
    Ok(columns)
}

/// Reads the table of columns, calls `visit` with each, and returns the length of their data.
///
/// # Errors
/// As [`read_table`].
pub(crate) fn each_column(
    reader: &mut Reader<'_>,
    visit: impl FnMut(ColumnSpec, Range<usize>),
) -> Result<usize, Fault> {
    each_column_owned_by(reader, |owner| owner == VALUE_METADATA, visit)
}

/// Like [`each_column`], where `owns` tells which types of columns a value column may follow.
fn each_column_owned_by(
    reader: &mut Reader<'_>,
    owns: impl Fn(u32) -> bool,
    mut visit: impl FnMut(ColumnSpec, Range<usize>),
) -> Result<usize, Fault> {
    let count = reader.count(2)?;
    let mut start = 0_usize;
    let mut last: Option<ColumnSpec> = None;
    for _ in 0..count {
        let spec = ColumnSpec(reader.u32_minimal()?);
        let len = usize::try_from(reader.uleb_minimal()?).map_err(|_| Fault::Truncated)?;
        let end = start.checked_add(len).ok_or(Fault::Truncated)?;
        if last.is_some_and(|last| last.0 >= spec.inflated().0) {
            return Err(Fault::ColumnOrder(spec.0));
        }
        let owner_before =
            last.is_some_and(|last| last.id() == spec.id() && owns(last.column_type()));
        if spec.column_type() == VALUE && !owner_before {
            return Err(Fault::ColumnLayout(spec.0));
        }
        visit(spec, start..end);
        last = Some(spec.inflated());
        start = end;
    }
    Ok(start)
}

/// The length of the data that `columns` describe.
pub(crate) fn data_len(columns: &[RawColumn]) -> usize {
    columns.last().map_or(0, |column| column.range.end)
}

/// Appends the table of `columns` and their lengths. Empty columns are never listed.
pub(crate) fn write_table(
    columns: impl Iterator<Item = (ColumnSpec, usize)> + Clone,
    out: &mut Vec<u8>,
) {
    let listed = columns.filter(|(_, len)| *len > 0);
    write_uleb(listed.clone().count() as u64, out);
    for (spec, len) in listed {
        write_uleb(u64::from(spec.0), out);
        write_uleb(len as u64, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<RawColumn>, Fault> {
        read_table(&mut Reader::new(bytes))
    }

    #[test]
    fn both_ways() {
        let lens = [
            (ColumnSpec(1), 1),
            (ColumnSpec(2), 0),
            (ColumnSpec(86), 2),
            (ColumnSpec(87).deflated(), 1),
        ];
        let mut bytes = Vec::new();
        write_table(lens.into_iter(), &mut bytes);
        assert_eq!(bytes, [3, 1, 1, 86, 2, 95, 1]);
        let columns = read(&bytes).unwrap();
        assert_eq!(columns.len(), 3);
        assert_eq!(columns[2], RawColumn { spec: ColumnSpec(95), range: 3..4 });
        assert_eq!(data_len(&columns), 4);
    }

    #[test]
    fn refusals() {
        assert_eq!(read(&[2, 2, 0, 1, 0]), Err(Fault::ColumnOrder(1)));
        assert_eq!(read(&[2, 2, 0, 2, 0]), Err(Fault::ColumnOrder(2)));
        // The deflate bit does not make another column of it.
        assert_eq!(read(&[2, 2, 0, 10, 0]), Err(Fault::ColumnOrder(10)));
        assert_eq!(read(&[1, 87, 0]), Err(Fault::ColumnLayout(87)));
        assert_eq!(read(&[2, 70, 0, 87, 0]), Err(Fault::ColumnLayout(87)));
        assert_eq!(read(&[200]), Err(Fault::Truncated));
        assert_eq!(read(&[100, 1, 1]), Err(Fault::Truncated));
        let mut bytes = vec![2, 1];
        write_uleb(u64::MAX, &mut bytes);
        bytes.extend([2, 1]);
        assert_eq!(read(&bytes), Err(Fault::Truncated));
        assert_eq!(
            read(&[1, 0x81, 0x80, 0x80, 0x80, 0x10, 0]),
            Err(Fault::Beyond32Bits(1 << 32 | 1))
        );
    }
}
