//! Rows of a table.

use shoal_format::Pgno;

use super::trail::{Step, Trail};
use crate::cursor::TreeKind;
use crate::{Error, Transaction};

impl Transaction {
    /// Puts the row `rowid` into the table at `root`, replacing an existing row of the same rowid.
    ///
    /// # Errors
    /// [`Error::Misuse`] when the transaction may not write, [`Error::Limit`], [`Error::Corrupt`],
    /// a page not readable.
    pub fn table_insert(&mut self, root: Pgno, rowid: i64, record: &[u8]) -> Result<(), Error> {
        Self::check_record(record)?;
        if self.append_row(root, rowid, record)? {
            return Ok(());
        }
        self.change(|txn| {
            let (trail, index, found) = txn.find_row(root, rowid)?;
            if found {
                let leaf = trail[trail.len() - 1].pgno;
                if txn.utf16().is_none()
                    && txn.edit_leaf(leaf, |it, _| it.overwrite(index, record))?
                {
                    return Ok(());
                }
                txn.remove_row(&trail, index)?;
            }
            txn.put_record(trail, index, Some(rowid), record)
        })
    }

    /// Removes the row `rowid` from the table at `root`; false when there is none.
    ///
    /// # Errors
    /// As [`Transaction::table_insert`].
    pub fn table_delete(&mut self, root: Pgno, rowid: i64) -> Result<bool, Error> {
        self.change(|txn| {
            let (trail, index, found) = txn.find_row(root, rowid)?;
            if found {
                txn.remove_row(&trail, index)?;
                txn.settle_if_sparse(trail)?;
            }
            Ok(found)
        })
    }

    /// Returns the way to the leaf for `rowid`, the place there, and true when the row exists.
    pub(super) fn find_row(&self, root: Pgno, rowid: i64) -> Result<(Trail, usize, bool), Error> {
        let mut trail = Trail::new();
        let mut pgno = root;
        loop {
            let view = self.tree_page(pgno, TreeKind::Table, trail.len())?;
            let index = view.find_rowid(rowid)?;
            trail.push(Step { pgno, index });
            if view.kind().is_leaf() {
                let found = index < view.cell_count() && view.rowid(index)? == rowid;
                return Ok((trail, index, found));
            }
            pgno = view.child(index)?;
        }
    }

    /// Removes row `index` of the leaf at the end of `trail`, with its overflow pages.
    pub(super) fn remove_row(&mut self, trail: &[Step], index: usize) -> Result<(), Error> {
        let leaf = trail[trail.len() - 1].pgno;
        let payload = self.btree_page(leaf)?.table_leaf(index)?.payload;
        let chain = self.overflow_pages(payload)?;
        self.release_chain(chain)?;
        Ok(self.edit_btree(leaf)?.remove(index)?)
    }
}
