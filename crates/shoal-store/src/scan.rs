//! Reading chosen columns of all rows of a table, a leaf at a time.

use shoal_format::{ColumnFinder, ColumnPlace, Corrupt, LeafCell, Page, PageKind, Pgno, ValueRef};

use crate::cursor::MAX_DEPTH;
use crate::{Error, TableCursor, Transaction};

/// The rows of a table in their order, with some of their columns.
///
/// Rows are taken from a leaf many at a time: one loop finds their records, another the columns in
/// the records. Values are decoded on demand. Text in UTF-16 is given in the file's encoding.
///
/// Cost of a row: its share of the two loops, and a few instructions to step to the row. Allocates
/// only for rows continued on overflow pages, through a reused buffer.
#[derive(Debug)]
pub struct TableScan<'t> {
    cursor: TableCursor<'t>,
    columns: ColumnFinder,
    cells: Box<[LeafCell; CHUNK]>,
    /// The places of the columns, for each of the cells.
    places: Vec<ColumnPlace>,
    page: Option<Page<'t>>,
    /// The cell behind the current one, and how many there are.
    next: usize,
    count: usize,
    /// The first row of the leaf behind the cells taken.
    behind: usize,
    /// The largest rowid wanted.
    end: i64,
    far: Vec<u8>,
}

/// Most rows taken from a leaf at a time.
const CHUNK: usize = 64;

/// A row of a [`TableScan`].
#[derive(Clone, Copy, Debug)]
pub struct ScannedRow<'r> {
    rowid: i64,
    bytes: &'r [u8],
    places: &'r [ColumnPlace],
}

impl<'r> ScannedRow<'r> {
    /// The row's key.
    #[inline]
    pub fn rowid(&self) -> i64 {
        self.rowid
    }

    /// A column by its number among the wanted ones; `None` for a column missing at the end of a
    /// short record, and for numbers past the last.
    #[inline]
    pub fn value(&self, number: usize) -> Option<ValueRef<'r>> {
        self.places.get(number)?.decode(self.bytes)
    }
}

impl<'t> TableScan<'t> {
    /// A scan of all rows ahead of `cursor`: all of the table's for a new cursor.
    pub fn new(cursor: TableCursor<'t>, columns: ColumnFinder) -> TableScan<'t> {
        TableScan {
            cursor,
            places: vec![ColumnPlace::MISSING; CHUNK * columns.len()],
            columns,
            cells: Box::new([LeafCell::default(); CHUNK]),
            page: None,
            next: 0,
            count: 0,
            behind: 0,
            end: i64::MAX,
            far: Vec::new(),
        }
    }

    /// A scan of the rows with rowids from `low` to `end`.
    ///
    /// # Errors
    /// When a page cannot be read or is corrupt.
    pub fn within(
        mut cursor: TableCursor<'t>,
        columns: ColumnFinder,
        (low, end): (i64, i64),
    ) -> Result<TableScan<'t>, Error> {
        cursor.seek(low)?;
        let start = cursor.leaf();
        let scan = TableScan::new(cursor, columns);
        Ok(TableScan {
            page: start.map(|(page, _)| page),
            behind: start.map_or(0, |(_, index)| index),
            end,
            ..scan
        })
    }

    /// Moves to the next row and returns the row; `None` after the last.
    ///
    /// # Errors
    /// When a page cannot be read or is corrupt.
    #[allow(clippy::should_implement_trait)] // it lends, and can fail
    #[inline]
    pub fn next(&mut self) -> Result<Option<ScannedRow<'_>>, Error> {
        if self.next >= self.count && !self.take()? {
            return Ok(None);
        }
        let (at, width) = (self.next, self.columns.len());
        self.next += 1;
        let cell = &self.cells[at];
        if cell.rowid > self.end {
            (self.next, self.count, self.page) = (0, 0, None);
            self.cursor.finish();
            return Ok(None);
        }
        if cell.goes_on() {
            self.find_far(at)?;
        }
        let cell = &self.cells[at];
        let bytes = match &self.page {
            Some(page) if !cell.goes_on() => page.bytes(),
            _ => &self.far[..],
        };
        let places = &self.places[at * width..(at + 1) * width];
        Ok(Some(ScannedRow { rowid: cell.rowid, bytes, places }))
    }

    /// Takes the next rows of this leaf or the next one; false at the end.
    #[inline(never)]
    fn take(&mut self) -> Result<bool, Error> {
        (self.next, self.count) = (0, 0);
        let page = match self.page {
            Some(page) if self.behind < page.cell_count() => page,
            found => {
                let more =
                    if found.is_some() { self.cursor.next_leaf()? } else { self.cursor.next()? };
                let Some((page, index)) = self.cursor.leaf().filter(|_| more) else {
                    return Ok(false);
                };
                self.page = Some(page);
                self.behind = index;
                page
            }
        };
        let (count, _) = page.leaf_cells(self.behind, &mut self.cells[..])?;
        let width = self.columns.len();
        self.columns.find_cells(page.bytes(), &self.cells[..count], &mut self.places, width)?;
        self.behind += count;
        self.count = count;
        Ok(count > 0)
    }

    /// Reads a record continued on overflow pages, and finds its columns.
    #[cold]
    fn find_far(&mut self, at: usize) -> Result<(), Error> {
        let Some(page) = self.page else { return Ok(()) };
        let payload = page.table_leaf(self.behind - self.count + at)?.payload;
        let txn: &Transaction = self.cursor.transaction();
        txn.read_payload(payload, &mut self.far)?;
        let width = self.columns.len();
        let places = &mut self.places[at * width..(at + 1) * width];
        Ok(self.columns.find(&self.far, 0..self.far.len(), places)?)
    }
}

/// Bytes of the leaves of one part of [`Transaction::table_parts`].
const PART_BYTES: usize = 512 << 10;

impl Transaction {
    /// Divides the rows of the table at `root` into ranges of rowids, from low to high, of half a
    /// megabyte of leaves each: parts to be read side by side, by a writer too. One range for a
    /// small table.
    ///
    /// Cost: the pages above the leaves are read.
    ///
    /// # Errors
    /// When a page cannot be read or is corrupt.
    pub fn table_parts(&self, root: Pgno) -> Result<Vec<(i64, i64)>, Error> {
        let each = (PART_BYTES / self.header().page_size as usize).max(1);
        let (mut parts, mut low, mut leaves) = (Vec::new(), i64::MIN, 0);
        // Pages above the leaves, each with the child to be visited next.
        let mut way = vec![(root, 0)];
        let mut visits = 0_u32;
        while let Some((pgno, next)) = way.pop() {
            let page = self.btree_page(pgno)?;
            if page.kind() != PageKind::TableInterior || next > page.cell_count() {
                continue;
            }
            visits = visits.saturating_add(1);
            if way.len() >= MAX_DEPTH || u64::from(visits) > 4 * u64::from(self.page_count()) {
                let why = "goes in a circle, depth";
                return Err(Corrupt::on_page(pgno, "b-tree", why, way.len() as u64).into());
            }
            way.push((pgno, next + 1));
            let child = page.child(next)?;
            if self.btree_page(child)?.kind() == PageKind::TableInterior {
                way.push((child, 0));
                continue;
            }
            leaves += 1;
            if leaves >= each && next < page.cell_count() {
                let end = page.rowid(next)?;
                if end >= low && end < i64::MAX {
                    parts.push((low, end));
                    (low, leaves) = (end + 1, 0);
                }
            }
        }
        parts.push((low, i64::MAX));
        Ok(parts)
    }
}
