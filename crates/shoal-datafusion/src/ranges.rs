//! A table's rowids in ranges, for scans side by side.
//!
//! Rowids say nothing about how many rows lie between two of them. The space from the first to the
//! last is cut into cells of one width, empty cells are skipped by look-ups, and what is left is
//! cut again until there are enough cells: a lone rowid far out does not leave one scan with
//! everything.

use std::ops::RangeInclusive;

use shoal_sql::{Connection, Error, ValueRef};

use crate::table::quoted;

/// Rowids, from the first to the last.
pub(crate) type Range = RangeInclusive<i64>;

/// Cells of one cut.
const CELLS: usize = 32;
/// Cuts at most.
const ROUNDS: usize = 6;

/// The first and the last rowid of a table; `None` without rows.
///
/// # Errors
/// The connection's.
pub(crate) fn bounds(
    connection: &mut Connection,
    table: &str,
    rowid: &str,
) -> Result<Option<Range>, Error> {
    let mut end = |order: &str| {
        let sql = format!("SELECT {rowid} FROM {} ORDER BY {rowid} {order} LIMIT 1", quoted(table));
        integer(connection, &sql, &[])
    };
    let (Some(first), Some(last)) = (end("ASC")?, end("DESC")?) else { return Ok(None) };
    Ok(Some(first..=last))
}

/// The number of rowids that a range has room for.
pub(crate) fn width(range: &Range) -> u64 {
    range.end().abs_diff(*range.start()).saturating_add(1)
}

/// Cuts `all`, the bounds of a table, into `count` ranges at most, which together have every row.
///
/// # Errors
/// The connection's.
pub(crate) fn cut(
    connection: &mut Connection,
    table: &str,
    rowid: &str,
    all: Range,
    count: usize,
) -> Result<Vec<Range>, Error> {
    let beside = |sign: &str, order: &str| {
        format!(
            "SELECT {rowid} FROM {} WHERE {rowid} {sign} ?1 ORDER BY {rowid} {order} LIMIT 1",
            quoted(table)
        )
    };
    let (next, last) = (beside(">=", "ASC"), beside("<=", "DESC"));
    let mut cells = vec![all];
    for _ in 0..ROUNDS {
        if cells.len() >= count.saturating_mul(4) {
            break;
        }
        let mut finer = Vec::new();
        for cell in &cells {
            for part in parts(cell, (CELLS / cells.len()).max(2)) {
                // The first row at or behind the part's begin tells whether the part has any.
                let found = integer(connection, &next, &[*part.start()])?;
                let Some(first) = found.filter(|found| part.contains(found)) else { continue };
                // A cell ends with a row, too: the next cut is of rows, not of the space behind.
                let end = integer(connection, &last, &[*part.end()])?.unwrap_or(first);
                finer.push(first..=end);
            }
        }
        if finer.len() == cells.len() && finer.iter().all(|cell| width(cell) == 1) {
            break;
        }
        cells = finer;
    }
    Ok(grouped(&cells, count))
}

/// A range in parts of one width, the last one perhaps narrower.
fn parts(range: &Range, count: usize) -> Vec<Range> {
    let (first, last) = (i128::from(*range.start()), i128::from(*range.end()));
    let step = (last - first).unsigned_abs() / count as u128 + 1;
    let step = i128::try_from(step).expect("a part is no wider than all rowids");
    let mut parts = Vec::new();
    let mut start = first;
    while start <= last {
        let end = (start + step - 1).min(last);
        let rowid = |place| i64::try_from(place).expect("a part lies between two rowids");
        parts.push(rowid(start)..=rowid(end));
        start = end + 1;
    }
    parts
}

/// Neighbouring cells put together, about as many in each range.
fn grouped(cells: &[Range], count: usize) -> Vec<Range> {
    let count = count.clamp(1, cells.len().max(1));
    let places =
        (0..count).map(|place| place * cells.len() / count..(place + 1) * cells.len() / count);
    let ranges = places.filter_map(|place| {
        let group = &cells[place];
        Some(*group.first()?.start()..=*group.last()?.end())
    });
    ranges.collect()
}

/// The integer that a query gives in its first row.
///
/// # Errors
/// The connection's.
pub(crate) fn integer(
    connection: &mut Connection,
    sql: &str,
    values: &[i64],
) -> Result<Option<i64>, Error> {
    let mut statement = connection.prepare(sql)?;
    for (place, value) in values.iter().enumerate() {
        statement.bind(place + 1, *value)?;
    }
    let mut rows = connection.query(&mut statement)?;
    Ok(rows.next()?.and_then(|row| match row.get(0) {
        ValueRef::Int(number) => Some(number),
        _ => None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_groups_have_every_rowid_once() {
        for range in [1..=1, 1..=100, i64::MIN..=i64::MAX, i64::MAX - 5..=i64::MAX, -3..=7] {
            for count in [1, 2, 3, 32] {
                let parts = parts(&range, count);
                assert!(parts.len() <= count.max(1), "{range:?} {count} {}", parts.len());
                assert_eq!(
                    (parts[0].start(), parts.last().map(Range::end)),
                    (range.start(), Some(range.end()))
                );
                assert!(parts.windows(2).all(|two| two[0].end() + 1 == *two[1].start()));
                let groups = grouped(&parts, 4);
                assert!(groups.len() <= 4);
                assert_eq!(
                    groups.iter().map(|group| u128::from(width(group))).sum::<u128>(),
                    parts.iter().map(|part| u128::from(width(part))).sum::<u128>()
                );
            }
        }
        assert!(grouped(&[], 3).is_empty());
    }

    #[test]
    fn a_rowid_far_out_does_not_leave_one_scan_with_everything() {
        let mut connection = Connection::open(shoal_store::Store::memory()).unwrap();
        for sql in [
            "CREATE TABLE t (id INTEGER PRIMARY KEY)",
            "INSERT INTO t SELECT value FROM generate_series(1, 10000)",
            "INSERT INTO t VALUES (-9223372036854775808), (9223372036854775807)",
        ] {
            let mut statement = connection.prepare(sql).unwrap();
            connection.execute(&mut statement).unwrap();
        }
        let all = bounds(&mut connection, "t", "rowid").unwrap().unwrap();
        assert_eq!(all, i64::MIN..=i64::MAX);
        let ranges = cut(&mut connection, "t", "rowid", all, 4).unwrap();
        let mut counts = Vec::new();
        for range in &ranges {
            let sql = "SELECT count(*) FROM t WHERE id BETWEEN ?1 AND ?2";
            let ends = [*range.start(), *range.end()];
            counts.push(integer(&mut connection, sql, &ends).unwrap().unwrap());
        }
        assert_eq!(counts.iter().sum::<i64>(), 10_002, "{ranges:?}");
        assert!(counts.iter().all(|&count| count < 5_000), "{counts:?}");
    }
}
