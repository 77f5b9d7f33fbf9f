//! A cursor over the rows of a table, in the order of their rowids.

use shoal_format::{Page, Pgno};

use super::{Path, Place, Position, TreeKind};
use crate::{Error, Transaction};

/// A position among the rows of a table.
///
/// Borrows its transaction, so the rows cannot change during the cursor's life. A new cursor stands
/// before the first row. Steps allocate nothing; a page missing from the cache is read.
#[derive(Debug)]
pub struct TableCursor<'t> {
    path: Path<'t>,
    position: Position,
    overflow: Vec<u8>,
}

impl<'t> TableCursor<'t> {
    pub(crate) fn new(txn: &'t Transaction, root: Pgno) -> TableCursor<'t> {
        TableCursor {
            path: Path::new(txn, root, TreeKind::Table),
            position: Position::Before,
            overflow: Vec::new(),
        }
    }

    /// The transaction of the cursor.
    pub fn transaction(&self) -> &'t Transaction {
        self.path.txn()
    }

    /// Notes where the cursor is, to go on from there with [`TableCursor::resume`].
    pub fn place(&self) -> Place {
        self.path.place(self.position)
    }

    /// A cursor where another one was, in the same transaction.
    ///
    /// # Errors
    /// When the page cannot be read.
    pub fn resume(txn: &'t Transaction, place: &Place) -> Result<TableCursor<'t>, Error> {
        let path = Path::resume(txn, TreeKind::Table, place)?;
        Ok(TableCursor { path, position: place.position, overflow: Vec::new() })
    }

    /// Moves to the first row; false when there is none.
    ///
    /// # Errors
    /// When a page cannot be read or is corrupt.
    pub fn first(&mut self) -> Result<bool, Error> {
        self.position = Position::After;
        self.path.head(true);
        self.path.restart()?;
        self.path.down_first()?;
        Ok(self.land(self.path.cell_count() > 0, Position::After))
    }

    /// Moves to the last row; false when there is none.
    ///
    /// # Errors
    /// When a page cannot be read or is corrupt.
    pub fn last(&mut self) -> Result<bool, Error> {
        self.position = Position::Before;
        self.path.head(false);
        self.path.restart()?;
        self.path.go_to_end();
        self.path.down_last()?;
        Ok(self.land(self.path.cell_count() > 0, Position::Before))
    }

    /// Moves to the next row; false when there is none, and then the cursor is after the last row.
    ///
    /// # Errors
    /// When a page cannot be read or is corrupt.
    #[inline]
    #[allow(clippy::should_implement_trait)] // it lends, and can fail
    pub fn next(&mut self) -> Result<bool, Error> {
        match self.position {
            Position::Before => return self.first(),
            Position::After => return Ok(false),
            Position::On => {}
        }
        self.path.index += 1;
        if self.path.index < self.path.cell_count() {
            return Ok(true);
        }
        self.next_leaf()
    }

    /// Moves to the first row of the next leaf; false when there is none, and then the cursor is
    /// after the last row. With [`TableCursor::leaf`], the step of a loop over whole pages.
    ///
    /// # Errors
    /// When a page cannot be read or is corrupt.
    pub fn next_leaf(&mut self) -> Result<bool, Error> {
        if self.position == Position::Before {
            return self.first();
        }
        self.position = Position::After;
        self.path.head(true);
        while self.path.pop()? {
            if self.path.index < self.path.cell_count() {
                self.path.index += 1;
                self.path.down_first()?;
                self.path.fetch();
                return Ok(self.land(true, Position::After));
            }
        }
        Ok(false)
    }

    /// Moves to row `index` of the cursor's leaf, or to the next leaf's first row when there is no
    /// such row; false when there is neither.
    ///
    /// # Errors
    /// As [`TableCursor::next_leaf`]; [`Error::Misuse`] on no row.
    pub fn move_on_leaf(&mut self, index: usize) -> Result<bool, Error> {
        self.require_valid()?;
        self.path.index = index;
        if index < self.path.cell_count() { Ok(true) } else { self.next_leaf() }
    }

    /// The cursor's leaf, and the place there; `None` on no row.
    #[inline]
    pub fn leaf(&self) -> Option<(Page<'t>, usize)> {
        match self.position {
            Position::On => Some((self.path.page(), self.path.index)),
            _ => None,
        }
    }

    /// Moves to the row before; false when there is none, and then the cursor is before the first
    /// row.
    ///
    /// # Errors
    /// When a page cannot be read or is corrupt.
    pub fn prev(&mut self) -> Result<bool, Error> {
        match self.position {
            Position::Before => return Ok(false),
            Position::After => return self.last(),
            Position::On => {}
        }
        if self.path.index > 0 {
            self.path.index -= 1;
            return Ok(true);
        }
        self.position = Position::Before;
        self.path.head(false);
        while self.path.pop()? {
            if self.path.index > 0 {
                self.path.index -= 1;
                self.path.down_last()?;
                return Ok(self.land(true, Position::Before));
            }
        }
        Ok(false)
    }

    /// Moves to the row `rowid`, or else to the first one with a larger rowid, or else after the
    /// last row. True when the row itself is there; [`TableCursor::is_valid`] tells the other two
    /// apart.
    ///
    /// Cost: a binary search per level; of one leaf only when the row is on the leaf of the row
    /// before. For many rows in no order see [`crate::TableLookup`].
    ///
    /// # Errors
    /// When a page cannot be read or is corrupt.
    pub fn seek(&mut self, rowid: i64) -> Result<bool, Error> {
        if !self.is_on_this_leaf(rowid)? {
            self.position = Position::After;
            self.path.restart()?;
            while !self.path.is_leaf() {
                self.path.index = self.path.page().find_rowid(rowid)?;
                self.path.push_child()?;
            }
        }
        let page = self.path.page();
        let index = page.find_rowid(rowid)?;
        let found = index < page.cell_count() && page.rowid(index)? == rowid;
        self.path.index = index;
        if index == page.cell_count() {
            // A separator may be larger than every row below, so the next row is on the next leaf.
            self.position = Position::After;
            self.next_leaf()?;
            return Ok(false);
        }
        self.position = Position::On;
        Ok(found)
    }

    fn is_on_this_leaf(&self, rowid: i64) -> Result<bool, Error> {
        if self.position != Position::On {
            return Ok(false);
        }
        let page = self.path.page();
        Ok(page.rowid(0)? <= rowid && rowid <= page.rowid(page.cell_count() - 1)?)
    }

    /// True when the cursor is on a row.
    #[inline]
    pub fn is_valid(&self) -> bool {
        self.position == Position::On
    }

    /// Returns the row's rowid.
    ///
    /// # Errors
    /// [`Error::Misuse`] when the cursor is on no row; [`Error::Corrupt`].
    #[inline]
    pub fn rowid(&self) -> Result<i64, Error> {
        self.require_valid()?;
        Ok(self.path.page().rowid(self.path.index)?)
    }

    /// Returns the row's record: borrowed from the page, or put together in the cursor's own buffer
    /// when it continues on overflow pages or has text in UTF-16, converted to UTF-8.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a cursor on no row; [`Error::Corrupt`]; a page that cannot be read.
    #[inline]
    pub fn payload(&mut self) -> Result<&[u8], Error> {
        self.require_valid()?;
        let payload = self.path.page().table_leaf(self.path.index)?.payload;
        let txn = self.path.txn();
        if payload.overflow.is_none() && txn.utf16().is_none() {
            return Ok(payload.local);
        }
        txn.read_record(payload, &mut self.overflow)?;
        Ok(&self.overflow)
    }

    #[inline]
    fn require_valid(&self) -> Result<(), Error> {
        if self.position == Position::On {
            return Ok(());
        }
        Err(Error::Misuse("a cursor that is on no row was read"))
    }

    /// Leaves the table: the cursor is after the last row.
    pub(crate) fn finish(&mut self) {
        self.position = Position::After;
    }

    fn land(&mut self, on: bool, otherwise: Position) -> bool {
        self.position = if on { Position::On } else { otherwise };
        on
    }
}
