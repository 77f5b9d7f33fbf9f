//! Changing b-trees: rows and entries come and go, pages split and join.

mod append;
mod balance;
mod batch;
mod content;
mod fill;
mod index;
mod rows;
mod table;
mod trail;
mod whole;

pub use append::NewEntry;
pub use batch::{KEY_MAX, KeyColumns, LeafChange};
pub use fill::TreeFill;
pub use rows::{ChangedEntry, RowPlace};
pub use whole::{BtreeKind, TreePages};

use shoal_format::cell::{MIN_SIZE, push_leaf_head};
use shoal_format::overflow::{MAX_PAYLOAD, OverflowPage, local_len};
use shoal_format::utf16::record_from_utf8;
use shoal_format::{Corrupt, Page, PageKind, Payload, Pgno};

use crate::cursor::{MAX_DEPTH, TreeKind};
use crate::{Error, Transaction};
use balance::Spread;
use content::Content;
use trail::{Step, Trail};

/// Fewest cells of a full index or interior page for one to go up as divider, its room left empty.
const CELLS_TO_GIVE_ONE: usize = 32;

impl Transaction {
    /// Reads page `pgno` as page of a tree of `kind` at `depth` below its root.
    #[inline]
    fn tree_page(&self, pgno: Pgno, kind: TreeKind, depth: usize) -> Result<Page<'_>, Error> {
        if depth >= MAX_DEPTH {
            let why = "goes in a circle, depth";
            return Err(Corrupt::on_page(pgno, "b-tree", why, depth as u64).into());
        }
        let page = self.btree_page(pgno)?;
        if page.kind().is_table() != (kind == TreeKind::Table) {
            let why = "has a page of the wrong kind";
            return Err(Corrupt::on_page(pgno, "b-tree", why, u64::from(page.kind().byte())).into());
        }
        Ok(page)
    }

    /// Builds a leaf cell of `payload` in `cell`. Bytes beyond the local part go to overflow pages,
    /// allocated and written here.
    fn build_cell(
        &mut self,
        rowid: Option<i64>,
        payload: &[u8],
        cell: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let kind = if rowid.is_some() { PageKind::TableLeaf } else { PageKind::IndexLeaf };
        let usable = self.usable();
        let (local, rest) = payload.split_at(local_len(kind, usable, payload.len()));
        cell.clear();
        cell.reserve(local.len() + 22);
        push_leaf_head(payload.len(), rowid, cell);
        cell.extend_from_slice(local);
        if rest.is_empty() {
            return Ok(());
        }
        let parts = rest.chunks(usable - OverflowPage::HEADER);
        let chain: Vec<Pgno> = parts.clone().map(|_| self.allocate()).collect::<Result<_, _>>()?;
        for (number, part) in parts.enumerate() {
            let bytes = self.edit(chain[number])?;
            OverflowPage::write(&mut bytes[..usable], chain.get(number + 1).copied(), part);
            self.changes_mut()?.set_overflow(chain[number], true);
        }
        cell.extend_from_slice(&chain[0].get().to_be_bytes());
        Ok(())
    }

    /// Puts a row or an entry before cell `index` of the leaf at the end of `trail`. The texts of
    /// `record` are in UTF-8, whatever the file has.
    fn put_record(
        &mut self,
        trail: Trail,
        index: usize,
        rowid: Option<i64>,
        record: &[u8],
    ) -> Result<(), Error> {
        let mut wide = Vec::new();
        let record = match self.utf16() {
            Some(order) => {
                record_from_utf8(record, order, self.file.header.schema_format, &mut wide)?;
                Self::check_record(&wide)?;
                &wide
            }
            None => record,
        };
        let mut cell = std::mem::take(&mut self.changes_mut()?.cell);
        let put = self
            .build_cell(rowid, record, &mut cell)
            .and_then(|()| self.put_cell(trail, index, &cell));
        self.changes_mut()?.cell = cell;
        put
    }

    /// Puts the pages of an overflow chain on the freelist.
    fn release_chain(&mut self, chain: Vec<Pgno>) -> Result<(), Error> {
        chain.into_iter().try_for_each(|pgno| self.release_page(pgno))
    }

    /// Returns the pages of the overflow chain of `payload`, each once; none for a payload
    /// without one.
    fn overflow_pages(&self, payload: Payload<'_>) -> Result<Vec<Pgno>, Error> {
        let mut chain = Vec::new();
        if payload.overflow.is_none() {
            return Ok(chain);
        }
        self.overflow_chain(payload, |pgno| {
            chain.push(pgno);
            Ok(())
        })?;
        let mut sorted = chain.clone();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            let number = u64::from(twice[0].get());
            return Err(Corrupt::new("overflow chain", "meets a page twice", number).into());
        }
        Ok(chain)
    }

    /// Puts `cell` before cell `index` of the last page of `trail`, splitting pages as needed.
    fn put_cell(&mut self, trail: Trail, index: usize, cell: &[u8]) -> Result<(), Error> {
        let Some(&Step { pgno, .. }) = trail.last() else { return Ok(()) };
        let view = self.btree_page(pgno)?;
        let at_end = index == view.cell_count();
        if view.free_bytes()? >= cell.len().max(MIN_SIZE) + 2 {
            let mut scratch = std::mem::take(&mut self.changes_mut()?.scratch);
            let fits = self.edit_btree(pgno)?.insert(index, cell, &mut scratch);
            self.changes_mut()?.scratch = scratch;
            if fits? {
                if at_end {
                    self.note_tail(&trail)?;
                }
                return Ok(());
            }
        }
        let view = self.btree_page(pgno)?;
        let append = at_end && self.is_rightmost(&trail)?;
        // A leaf of a table gives no cell away; of other pages one cell of many may.
        let least = match view.kind() {
            PageKind::TableLeaf => 1,
            _ => CELLS_TO_GIVE_ONE,
        };
        if append && index >= least {
            return self.append_page(trail, cell);
        }
        let mut content = Content::of(&view)?;
        content.insert(index, cell);
        self.settle(trail, content, if append { Spread::End } else { Spread::Even })
    }

    /// True when every step but the last leads to the right child.
    fn is_rightmost(&self, trail: &[Step]) -> Result<bool, Error> {
        for step in trail.iter().rev().skip(1) {
            if self.btree_page(step.pgno)?.cell_count() != step.index {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// After a removal from the last page of `trail`: joins or refills a page more than two
    /// thirds free.
    fn settle_if_sparse(&mut self, trail: Trail) -> Result<(), Error> {
        let Some(&Step { pgno, .. }) = trail.last() else { return Ok(()) };
        if trail.len() == 1 {
            return Ok(());
        }
        let view = self.btree_page(pgno)?;
        if view.free_bytes()? * 3 <= self.usable() * 2 {
            return Ok(());
        }
        self.settle(trail, Content::of(&view)?, Spread::Even)
    }

    /// An error when a record is longer than the format allows.
    fn check_record(record: &[u8]) -> Result<(), Error> {
        if record.len() > MAX_PAYLOAD {
            return Err(Error::Limit { what: "bytes of a record", max: MAX_PAYLOAD as u64 });
        }
        Ok(())
    }
}
