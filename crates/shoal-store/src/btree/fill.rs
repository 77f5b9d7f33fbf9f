//! Trees filled from their front to their end: each page is put together in memory and written
//! once.
//!
//! A page gets its number when it is full, so leaves lie in the file in their order. On a level
//! whose page is full, the next cell waits: followed by another it becomes the divider between two
//! pages, and as the last one it shares a page with the cell before it. Pages are as full as the
//! cells allow, but for the last of each level.

use shoal_format::cell::{LeafHead, MIN_SIZE};
use shoal_format::overflow::local_len;
use shoal_format::utf16::record_from_utf8;
use shoal_format::{
    Corrupt, PageKind, Pgno, RecordSize, ValueRef, encode_record, varint, write_record,
};

use super::BtreeKind;
use crate::{Error, Transaction};

/// Fills an empty tree with rows or entries in ascending order.
///
/// The transaction takes no other change meanwhile. Dropped before [`TreeFill::finish`], it leaves
/// a transaction to be rolled back, wholly or to a savepoint.
#[derive(Debug)]
pub struct TreeFill<'t> {
    txn: &'t mut Transaction,
    levels: Levels,
    /// The last row's rowid.
    last: Option<i64>,
    /// True where the file's texts are in UTF-8.
    is_utf8: bool,
    cell: Vec<u8>,
    record: Vec<u8>,
    wide: Vec<u8>,
}

impl Transaction {
    /// Begins to fill the tree at `root`.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a tree not empty, for page 1, and when the transaction may not write;
    /// [`Error::Corrupt`].
    pub fn fill_tree(&mut self, root: Pgno) -> Result<TreeFill<'_>, Error> {
        let page = self.btree_page(root)?;
        if root == Pgno::FIRST || page.cell_count() > 0 || !page.kind().is_leaf() {
            return Err(Error::Misuse("a tree that is not empty was to be filled"));
        }
        let kind = if page.kind().is_table() { BtreeKind::Table } else { BtreeKind::Index };
        let levels = Levels::new(root, kind, self.usable());
        self.begin_change()?;
        let is_utf8 = self.utf16().is_none();
        let (cell, record, wide) = (Vec::new(), Vec::new(), Vec::new());
        Ok(TreeFill { txn: self, levels, last: None, is_utf8, cell, record, wide })
    }
}

impl TreeFill<'_> {
    /// Adds a row behind all others. Texts of the record are in UTF-8, whatever the file has.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a rowid not behind the last one; [`Error::Limit`]; [`Error::Corrupt`]
    /// for a freelist that is.
    pub fn push_row(&mut self, rowid: i64, record: &[u8]) -> Result<(), Error> {
        if self.last.is_some_and(|last| last >= rowid) {
            return Err(Error::Misuse("a row came before the last one of a tree being filled"));
        }
        self.push(Some(rowid), record)
    }

    /// Adds the row of `values` behind all others, written straight onto its page. Texts are in
    /// UTF-8, whatever the file has.
    ///
    /// # Errors
    /// As [`TreeFill::push_row`].
    #[inline]
    pub fn push_row_values(&mut self, rowid: i64, values: &[ValueRef<'_>]) -> Result<(), Error> {
        if self.last.is_some_and(|last| last >= rowid) {
            return Err(Error::Misuse("a row came before the last one of a tree being filled"));
        }
        self.push_values(Some(rowid), values)
    }

    /// As [`TreeFill::push_entry`], of values written straight onto their page.
    ///
    /// # Errors
    /// As [`TreeFill::push_row`].
    #[inline]
    pub fn push_entry_values(&mut self, values: &[ValueRef<'_>]) -> Result<(), Error> {
        self.push_values(None, values)
    }

    #[inline]
    fn push_values(&mut self, rowid: Option<i64>, values: &[ValueRef<'_>]) -> Result<(), Error> {
        let format = self.txn.file.header.schema_format;
        let size = RecordSize::of(values, format);
        let levels = &mut self.levels;
        let is_local = local_len(levels.leaf_kind, levels.usable, size.total()) == size.total();
        if is_local && self.is_utf8 {
            let head = LeafHead::new(size.total(), rowid);
            let head = head.bytes();
            if let Some(cell) = levels.levels[0].room(head.len() + size.total()) {
                let (start, record) = cell.split_at_mut(head.len());
                start.copy_from_slice(head);
                write_record(values, format, size, record);
                self.last = rowid;
                return Ok(());
            }
        }
        let mut record = std::mem::take(&mut self.record);
        record.clear();
        encode_record(values, format, &mut record);
        let pushed = self.push(rowid, &record);
        self.record = record;
        pushed
    }

    /// Adds an entry behind all others, by the caller's promise.
    ///
    /// # Errors
    /// As [`TreeFill::push_row`].
    pub fn push_entry(&mut self, record: &[u8]) -> Result<(), Error> {
        self.push(None, record)
    }

    #[inline]
    fn push(&mut self, rowid: Option<i64>, record: &[u8]) -> Result<(), Error> {
        match self.txn.utf16() {
            None => self.push_stored(rowid, record),
            Some(order) => {
                let mut wide = std::mem::take(&mut self.wide);
                wide.clear();
                record_from_utf8(record, order, self.txn.file.header.schema_format, &mut wide)?;
                let pushed = self.push_stored(rowid, &wide);
                self.wide = wide;
                pushed
            }
        }
    }

    /// Adds a row or an entry whose texts are as the file has them.
    #[inline]
    pub(super) fn push_stored(&mut self, rowid: Option<i64>, record: &[u8]) -> Result<(), Error> {
        let kind = self.levels.leaf_kind;
        if local_len(kind, self.levels.usable, record.len()) == record.len() {
            let head = LeafHead::new(record.len(), rowid);
            return self.push_cell(rowid, head.bytes(), record);
        }
        Transaction::check_record(record)?;
        let mut cell = std::mem::take(&mut self.cell);
        self.txn.build_cell(rowid, record, &mut cell)?;
        let pushed = self.push_cell(rowid, &cell, &[]);
        self.cell = cell;
        pushed
    }

    /// Adds a cell of a leaf, given in two parts.
    #[inline]
    pub(super) fn push_cell(
        &mut self,
        rowid: Option<i64>,
        head: &[u8],
        rest: &[u8],
    ) -> Result<(), Error> {
        if self.levels.levels[0].push(head, rest) {
            self.last = rowid;
            return Ok(());
        }
        let last = self.last;
        self.last = rowid;
        self.levels.push_behind_full(self.txn, last, head, rest)
    }

    /// Writes the last pages.
    ///
    /// # Errors
    /// As [`TreeFill::push_row`].
    pub fn finish(self) -> Result<(), Error> {
        self.finish_into().map(drop)
    }
}

impl<'t> TreeFill<'t> {
    /// As [`TreeFill::finish`], and gives the transaction back.
    ///
    /// # Errors
    /// As [`TreeFill::push_row`].
    pub fn finish_into(mut self) -> Result<&'t mut Transaction, Error> {
        self.levels.finish(self.txn)?;
        self.txn.end_change()?;
        Ok(self.txn)
    }
}

/// The pages being filled, from the leaf upwards.
#[derive(Debug)]
struct Levels {
    root: Pgno,
    leaf_kind: PageKind,
    usable: usize,
    levels: Vec<Level>,
}

/// One page being filled.
#[derive(Debug)]
struct Level {
    kind: PageKind,
    bytes: Vec<u8>,
    cells: usize,
    /// Where the cells begin: the last one's place.
    content: usize,
    /// Bytes of the last cell, padding left out, and where the cells began before it.
    last: (usize, usize),
    /// A cell without room on the page: of an interior page with its child.
    waiting: Option<Vec<u8>>,
}

impl Levels {
    fn new(root: Pgno, kind: BtreeKind, usable: usize) -> Levels {
        let leaf_kind = match kind {
            BtreeKind::Table => PageKind::TableLeaf,
            BtreeKind::Index => PageKind::IndexLeaf,
        };
        Levels { root, leaf_kind, usable, levels: vec![Level::new(leaf_kind, usable)] }
    }

    /// Puts a cell behind a full leaf; `last` is the largest rowid of the leaf.
    #[inline(never)]
    fn push_behind_full(
        &mut self,
        txn: &mut Transaction,
        last: Option<i64>,
        head: &[u8],
        rest: &[u8],
    ) -> Result<(), Error> {
        let leaf = &mut self.levels[0];
        let divider = match (self.leaf_kind, leaf.waiting.take()) {
            (PageKind::TableLeaf, _) => {
                let mut key = [0; varint::MAX_LEN];
                let rowid = last.expect("a full leaf of a table has a last row");
                let length = varint::write(rowid.cast_unsigned(), &mut key);
                key[..length].to_vec()
            }
            (_, Some(waiting)) => waiting,
            (_, None) => {
                leaf.waiting = Some([head, rest].concat());
                return Ok(());
            }
        };
        let number = leaf.write(txn, None)?;
        leaf.clear();
        assert!(leaf.push(head, rest), "an empty page has room for every cell");
        self.push_divider(txn, 1, number, &divider)
    }

    /// Puts `key`, behind everything on the page `child`, on a level above the leaves.
    fn push_divider(
        &mut self,
        txn: &mut Transaction,
        number: usize,
        child: Pgno,
        key: &[u8],
    ) -> Result<(), Error> {
        if number == self.levels.len() {
            self.levels.push(Level::new(self.leaf_kind.interior(), self.usable));
        }
        let level = &mut self.levels[number];
        let child_bytes = child.get().to_be_bytes();
        match level.waiting.take() {
            None => {
                if !level.push(&child_bytes, key) {
                    level.waiting = Some([&child_bytes, key].concat());
                }
                Ok(())
            }
            Some(waiting) => {
                let (left, divider) = waiting.split_at(4);
                let full = level.write(txn, Some(left))?;
                level.clear();
                assert!(level.push(&child_bytes, key), "an empty page has room for every cell");
                self.push_divider(txn, number + 1, full, divider)
            }
        }
    }

    fn finish(&mut self, txn: &mut Transaction) -> Result<(), Error> {
        let mut right: Option<Pgno> = None;
        let mut number = 0;
        while number < self.levels.len() {
            let level = &mut self.levels[number];
            if let Some(waiting) = level.waiting.take() {
                // The page's last cell goes up, so that the waiting one has a page with a
                // neighbour above it.
                let last = level.pop();
                let at = if level.kind.is_leaf() { 0 } else { 4 };
                let (left, divider) = last.split_at(at);
                let full = level.write(txn, (at > 0).then_some(left))?;
                level.clear();
                assert!(level.push(&waiting, &[]), "an empty page has room for every cell");
                self.push_divider(txn, number + 1, full, divider)?;
            }
            let is_top = number + 1 == self.levels.len();
            let level = &mut self.levels[number];
            let right_bytes = right.map(|right| right.get().to_be_bytes());
            let right_bytes = right_bytes.as_ref().map(|bytes| &bytes[..]);
            if is_top {
                let image = level.image(right_bytes);
                let usable = image.len();
                return txn.rewrite(self.root, false, |bytes| {
                    bytes[..usable].copy_from_slice(image);
                    Ok(())
                });
            }
            right = Some(level.write(txn, right_bytes)?);
            number += 1;
        }
        Ok(())
    }
}

impl Level {
    fn new(kind: PageKind, usable: usize) -> Level {
        Level {
            kind,
            bytes: vec![0; usable],
            cells: 0,
            content: usable,
            last: (0, usable),
            waiting: None,
        }
    }

    fn clear(&mut self) {
        self.bytes.fill(0);
        (self.cells, self.content, self.last) = (0, self.bytes.len(), (0, self.bytes.len()));
    }

    /// Puts a cell behind the others; false where the page has no room or a cell is waiting.
    #[inline]
    fn push(&mut self, head: &[u8], rest: &[u8]) -> bool {
        let Some(cell) = self.room(head.len() + rest.len()) else { return false };
        let (first, last) = cell.split_at_mut(head.len());
        first.copy_from_slice(head);
        last.copy_from_slice(rest);
        true
    }

    /// Takes room for a cell behind the others, all of whose bytes are to be written; `None` where
    /// the page has no room or a cell is waiting.
    #[inline]
    fn room(&mut self, length: usize) -> Option<&mut [u8]> {
        let pointer = self.kind.header_size() + 2 * self.cells;
        let start = self.content.checked_sub(length.max(MIN_SIZE))?;
        if start < pointer + 2 || self.waiting.is_some() {
            return None;
        }
        // A page has at most 65,536 bytes, and the first are its header's.
        self.bytes[pointer..pointer + 2].copy_from_slice(&(start as u16).to_be_bytes());
        self.last = (length, self.content);
        self.content = start;
        self.cells += 1;
        Some(&mut self.bytes[start..start + length])
    }

    /// Takes the last cell away.
    fn pop(&mut self) -> Vec<u8> {
        let (length, before) = self.last;
        assert!(self.cells > 1 && length > 0, "a full page has cells to give one away");
        let cell = self.bytes[self.content..self.content + length].to_vec();
        self.bytes[self.content..before].fill(0);
        self.cells -= 1;
        let pointer = self.kind.header_size() + 2 * self.cells;
        self.bytes[pointer..pointer + 2].fill(0);
        (self.content, self.last) = (before, (0, before));
        cell
    }

    /// The page with its header, and on an interior page its right child.
    fn image(&mut self, right: Option<&[u8]>) -> &[u8] {
        self.bytes[0] = self.kind.byte();
        self.bytes[3..5].copy_from_slice(&(self.cells as u16).to_be_bytes());
        self.bytes[5..7].copy_from_slice(&((self.content % 65_536) as u16).to_be_bytes());
        if let Some(right) = right {
            self.bytes[8..12].copy_from_slice(right);
        }
        &self.bytes
    }

    /// Writes the page to a new place.
    fn write(&mut self, txn: &mut Transaction, right: Option<&[u8]>) -> Result<Pgno, Error> {
        let pgno = txn.allocate_unwritten()?;
        txn.put_fresh(pgno, self.image(right))?;
        Ok(pgno)
    }
}

impl Transaction {
    /// Copies the table at `from_root` of another database into the empty table at `root`, records
    /// as they are. `renumbers` gives the rows the rowids from 1 on instead of their own.
    ///
    /// Cost: the other table is read once; each page is written once. A row within its leaf is
    /// copied as a whole.
    ///
    /// # Errors
    /// [`Error::Misuse`] when the transaction may not write, [`Error::Corrupt`] for a table whose
    /// rowids do not ascend, an unreadable page.
    pub fn copy_table(
        &mut self,
        root: Pgno,
        from: &Transaction,
        from_root: Pgno,
        renumbers: bool,
    ) -> Result<(), Error> {
        let mut fill = self.fill_tree(root)?;
        let (usable, mut record) = (fill.levels.usable, Vec::new());
        let mut cursor = from.table(from_root)?;
        let mut more = cursor.first()?;
        let mut last: Option<i64> = None;
        while let Some((page, _)) = cursor.leaf().filter(|_| more) {
            for index in 0..page.cell_count() {
                let cell = page.table_leaf(index)?;
                let number = last.map_or(Some(1), |last| last.checked_add(1));
                let rowid = if renumbers { number } else { Some(cell.rowid) };
                let rowid = rowid.filter(|rowid| last.is_none_or(|last| last < *rowid));
                let rowid = rowid.ok_or_else(|| {
                    let why = "has a rowid out of order";
                    Corrupt::on_page(from_root, "table", why, cell.rowid.cast_unsigned())
                })?;
                last = Some(rowid);
                let payload = cell.payload;
                let is_local = payload.overflow.is_none()
                    && local_len(PageKind::TableLeaf, usable, payload.len) == payload.len;
                if is_local && rowid == cell.rowid {
                    let end = page.offset_of(payload.local) + payload.len;
                    fill.push_cell(Some(rowid), &page.bytes()[end - cell.size..end], &[])?;
                } else if payload.overflow.is_none() {
                    fill.push_stored(Some(rowid), payload.local)?;
                } else {
                    from.read_payload(payload, &mut record)?;
                    fill.push_stored(Some(rowid), &record)?;
                }
            }
            more = cursor.next_leaf()?;
        }
        fill.finish()
    }

    /// Copies the index at `from_root` of another database into the empty index at `root`, entries
    /// as they are and in their order, also in an unknown one.
    ///
    /// # Errors
    /// As [`Transaction::copy_table`].
    pub fn copy_index(
        &mut self,
        root: Pgno,
        from: &Transaction,
        from_root: Pgno,
    ) -> Result<(), Error> {
        let mut fill = self.fill_tree(root)?;
        let mut record = Vec::new();
        let mut cursor = from.index(from_root)?;
        let mut more = cursor.first()?;
        while more {
            let payload = cursor.cell_payload()?;
            if payload.overflow.is_none() {
                fill.push_stored(None, payload.local)?;
            } else {
                from.read_payload(payload, &mut record)?;
                fill.push_stored(None, &record)?;
            }
            more = cursor.next()?;
        }
        fill.finish()
    }
}
