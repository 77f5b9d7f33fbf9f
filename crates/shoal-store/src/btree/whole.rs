//! B-trees as a whole: making, emptying and dropping them.

use std::hash::Hasher;

use rustc_hash::{FxHashSet, FxHasher};
use shoal_format::freelist::Trunk;
use shoal_format::{Corrupt, PageKind, Pgno};

use super::balance::NO_CELLS;
use crate::cursor::MAX_DEPTH;
use crate::{Error, PageSet, Transaction};

/// The pages of a b-tree in one state.
#[derive(Clone, Debug)]
pub struct TreePages {
    /// The tree's pages.
    pub pages: PageSet,
    /// A digest of their numbers and bytes.
    pub digest: u64,
}

/// The purpose of a new b-tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BtreeKind {
    /// Rows by rowid.
    Table,
    /// Entries by key; also the rows of a table without rowids.
    Index,
}

impl Transaction {
    /// Makes an empty b-tree and returns its root.
    ///
    /// # Errors
    /// [`Error::Misuse`] when the transaction may not write, [`Error::Limit`], [`Error::Corrupt`]
    /// when the freelist is corrupt.
    pub fn create_btree(&mut self, kind: BtreeKind) -> Result<Pgno, Error> {
        let kind = match kind {
            BtreeKind::Table => PageKind::TableLeaf,
            BtreeKind::Index => PageKind::IndexLeaf,
        };
        self.change(|txn| {
            let root = txn.allocate_root()?;
            txn.rewrite_page(root, kind, None, NO_CELLS)?;
            Ok(root)
        })
    }

    /// Puts every page of the b-tree at `root` on the freelist. In an auto-vacuum file the tree
    /// with the last root may move there: the returned root is `root` from now on, and its row of
    /// the schema the caller's to change.
    ///
    /// # Errors
    /// [`Error::Misuse`] for page 1 or when the transaction may not write, [`Error::Corrupt`].
    pub fn drop_btree(&mut self, root: Pgno) -> Result<Option<Pgno>, Error> {
        if root == Pgno::FIRST {
            return Err(Error::Misuse("the schema's own b-tree was to be dropped"));
        }
        self.change(|txn| {
            let kind = txn.btree_page(root)?.kind();
            for page in txn.all_pages(root)? {
                if page != root {
                    txn.release_page(page)?;
                }
            }
            if txn.file.header.is_auto_vacuum() {
                // Nothing refers to the free pages any more.
                let leaf = if kind.is_table() { PageKind::TableLeaf } else { PageKind::IndexLeaf };
                txn.rewrite_page(root, leaf, None, NO_CELLS)?;
            }
            txn.release_root(root)
        })
    }

    /// Removes every row or entry of the b-tree at `root`; the root page stays.
    ///
    /// # Errors
    /// As [`Transaction::drop_btree`].
    pub fn clear_btree(&mut self, root: Pgno) -> Result<(), Error> {
        self.change(|txn| {
            let is_table = txn.btree_page(root)?.kind().is_table();
            let kind = if is_table { PageKind::TableLeaf } else { PageKind::IndexLeaf };
            for page in txn.all_pages(root)? {
                if page != root {
                    txn.release_page(page)?;
                }
            }
            txn.rewrite_page(root, kind, None, NO_CELLS)
        })
    }

    /// The pages of the b-tree at `root`, overflow pages included, and a digest of their bytes: two
    /// states of a tree with equal digests are, but for a chance of 2^-64, the same rows.
    ///
    /// Cost: each page of the tree is read; a bit of memory for each page of the file.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; the pages cannot be read.
    pub fn tree_pages(&self, root: Pgno) -> Result<TreePages, Error> {
        let mut pages = PageSet::of_file(self.page_count());
        let mut hasher = FxHasher::default();
        for page in self.all_pages(root)? {
            pages.insert(page);
            hasher.write_u32(page.get());
            hasher.write(self.page(page)?);
        }
        Ok(TreePages { pages, digest: hasher.finish() })
    }

    /// The pages of the b-trees at `roots`; of a tree that is true, the pages of long rows too.
    ///
    /// Cost: each page of a tree with its long rows, and of an index, is read, and else the pages
    /// above the leaves; a bit of memory for each page of the file.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; the pages cannot be read.
    pub fn pages_of_trees(&self, roots: &[(Pgno, bool)]) -> Result<PageSet, Error> {
        let mut pages = PageSet::of_file(self.page_count());
        for (root, with_long_rows) in roots {
            if *with_long_rows || !self.btree_page(*root)?.kind().is_table() {
                for page in self.all_pages(*root)? {
                    pages.insert(page);
                }
                continue;
            }
            let (mut level, mut depth) = (vec![*root], 0);
            // The leaves are one level: its first page tells that it is theirs.
            while let Some(first) = level.first() {
                let is_last = self.btree_page(*first)?.kind().is_leaf();
                let mut below = Vec::new();
                for pgno in &level {
                    if depth >= MAX_DEPTH || !pages.insert(*pgno) {
                        let why = "is in its tree twice, at depth";
                        return Err(Corrupt::on_page(*pgno, "page", why, depth as u64).into());
                    }
                    if is_last {
                        continue;
                    }
                    let view = self.btree_page(*pgno)?;
                    if !view.kind().is_leaf() {
                        for child in 0..=view.cell_count() {
                            below.push(view.child(child)?);
                        }
                    }
                }
                (level, depth) = (below, depth + 1);
            }
        }
        Ok(pages)
    }

    /// Adds the pages that a tree gained by commits of the pages `changed` to `pages`, the tree's
    /// pages before, and takes those away that are free. Pages that went to another tree stay.
    ///
    /// Cost: the changed pages of the tree, and the trunks of the freelist.
    ///
    /// # Errors
    /// The pages cannot be read.
    pub fn extend_tree_pages(&self, pages: &mut PageSet, changed: &[Pgno]) -> Result<(), Error> {
        pages.grow(self.page_count());
        let changed: FxHashSet<Pgno> = changed.iter().copied().collect();
        let mut ahead: Vec<Pgno> =
            changed.iter().copied().filter(|page| pages.contains(*page)).collect();
        while let Some(pgno) = ahead.pop() {
            // An overflow page, or a page past the end of a file that was cut.
            let Ok(view) = self.btree_page(pgno) else { continue };
            for index in 0..view.cell_count() {
                let payload = match view.kind() {
                    PageKind::TableInterior => continue,
                    PageKind::TableLeaf => view.table_leaf(index)?.payload,
                    _ => view.index(index)?.payload,
                };
                // A page that the tree gained is named by a page that was written.
                if payload.overflow.is_some_and(|first| changed.contains(&first)) {
                    for page in self.overflow_pages(payload)? {
                        pages.insert(page);
                    }
                }
            }
            if !view.kind().is_leaf() {
                for child in 0..=view.cell_count() {
                    let child = view.child(child)?;
                    if changed.contains(&child) && pages.insert(child) {
                        ahead.push(child);
                    }
                }
            }
        }
        let mut next = self.header().freelist_trunk;
        let mut trunks_left = self.page_count();
        while let Some(pgno) = next.filter(|_| trunks_left > 0) {
            trunks_left -= 1;
            let trunk = Trunk::new(self.page(pgno)?, pgno, self.usable())?;
            pages.remove(pgno);
            for index in 0..trunk.leaf_count() {
                pages.remove(trunk.leaf(index)?);
            }
            next = trunk.next;
        }
        Ok(())
    }

    /// Returns every page of the b-tree at `root`, overflow pages included, the root first.
    ///
    /// Cost: each page of the tree is read, leaves too, because they name the overflow pages.
    fn all_pages(&self, root: Pgno) -> Result<Vec<Pgno>, Error> {
        let mut pages = Vec::new();
        let mut seen = FxHashSet::default();
        let mut ahead = vec![(root, 0)];
        while let Some((pgno, depth)) = ahead.pop() {
            if depth >= MAX_DEPTH || !seen.insert(pgno) {
                let why = "is in its tree twice, at depth";
                return Err(Corrupt::on_page(pgno, "page", why, depth as u64).into());
            }
            pages.push(pgno);
            let view = self.btree_page(pgno)?;
            for index in 0..view.cell_count() {
                let payload = match view.kind() {
                    PageKind::TableInterior => continue,
                    PageKind::TableLeaf => view.table_leaf(index)?.payload,
                    _ => view.index(index)?.payload,
                };
                if payload.overflow.is_none() {
                    continue;
                }
                for overflow in self.overflow_pages(payload)? {
                    if !seen.insert(overflow) {
                        let why = "is in its tree twice, as overflow of cell";
                        return Err(Corrupt::on_page(overflow, "page", why, index as u64).into());
                    }
                    pages.push(overflow);
                }
            }
            if !view.kind().is_leaf() {
                for child in 0..=view.cell_count() {
                    ahead.push((view.child(child)?, depth + 1));
                }
            }
        }
        Ok(pages)
    }
}
