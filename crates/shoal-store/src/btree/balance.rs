//! Keeping pages neither too full nor too empty.
//!
//! A page overfull or mostly empty shares its cells with up to two neighbours under the same
//! parent. Sharing changes the parent's cells, so the parent is checked next, and so on up to the
//! root; the root alone grows a level or loses one.

use shoal_format::page::header_start;
use shoal_format::{
    CellExtent, Corrupt, Page, PageEdit, PageKind, Pgno, TableInteriorCell, TableLeafCell,
};

use super::Content;
use super::trail::{Step, Trail};
use crate::{Error, Transaction};

/// Which pages share the cells of one, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spread {
    /// A page and its neighbours, evenly.
    Even,
    /// The content grew at the end of the tree: pages on the left are left full.
    End,
    /// The leaf and the one on its left, filled up where both have room for all: leaves change from
    /// the left to the right, and those on the right are still to come.
    Left,
}

/// Most pages sharing their cells at once.
const NEIGHBOURS: usize = 3;

/// The cells of an empty page.
pub(super) const NO_CELLS: (&[u8], &[CellExtent]) = (&[], &[]);

impl Transaction {
    /// Makes `content` the content of the last page of `trail`, and of as many other pages as
    /// needed.
    pub(super) fn settle(
        &mut self,
        mut trail: Trail,
        mut content: Content,
        mut spread: Spread,
    ) -> Result<(), Error> {
        while let Some(&step) = trail.last() {
            let is_root = trail.len() == 1;
            let room = self.usable() - header_start(step.pgno) - content.kind.header_size();
            let size = content.size();
            let is_sparse = (room.saturating_sub(size)) * 3 > self.usable() * 2;
            if size <= room && (is_root || !is_sparse) {
                return match content.right_child {
                    Some(child) if is_root && content.len() == 0 => {
                        self.lose_level(step.pgno, child, &content)
                    }
                    _ => self.write_content(step.pgno, &content),
                };
            }
            if is_root {
                // The root keeps its number; its content moves down to a page able to split.
                let child = self.allocate()?;
                let kind = content.kind.interior();
                self.rewrite_page(step.pgno, kind, Some(child), NO_CELLS)?;
                trail[0].index = 0;
                trail.push(Step { pgno: child, index: 0 });
                continue;
            }
            content = self.share(&trail, &content, spread)?;
            trail.pop();
            if spread == Spread::Left {
                spread = Spread::Even;
            }
        }
        Ok(())
    }

    /// A root without cells takes over the content of its only child, if there is room.
    fn lose_level(&mut self, root: Pgno, child: Pgno, content: &Content) -> Result<(), Error> {
        let view = self.btree_page(child)?;
        if view.kind().is_table() != content.kind.is_table() || child == root {
            let why = "has a page of the wrong kind";
            let kind = u64::from(view.kind().byte());
            return Err(Corrupt::on_page(child, "b-tree", why, kind).into());
        }
        let below = Content::of(&view)?;
        let room = self.usable() - header_start(root) - below.kind.header_size();
        if below.size() > room {
            // Page 1 has 100 bytes less than its child.
            return self.write_content(root, content);
        }
        self.write_content(root, &below)?;
        self.release_page(child)
    }

    fn write_content(&mut self, pgno: Pgno, content: &Content) -> Result<(), Error> {
        self.rewrite_page(pgno, content.kind, content.right_child, content.part(0..content.len()))
    }

    /// Rewrites page `pgno` with cells, whose places are in `source`; they must fit.
    pub(super) fn rewrite_page(
        &mut self,
        pgno: Pgno,
        kind: PageKind,
        right_child: Option<Pgno>,
        (source, cells): (&[u8], &[CellExtent]),
    ) -> Result<(), Error> {
        let usable = self.usable();
        self.rewrite(pgno, false, |bytes| {
            let mut edit = PageEdit::on_zeroes(bytes, pgno, usable, kind, right_child);
            if !edit.fill(source, cells) {
                let kind = u64::from(kind.byte());
                let why = "has no room for its cells, kind";
                return Err(Corrupt::on_page(pgno, "b-tree page", why, kind));
            }
            Ok(())
        })
    }

    /// Spreads `content`, meant for the last page of `trail`, and the cells of its neighbours over
    /// as few pages as possible. Returns the new content of the parent.
    fn share(
        &mut self,
        trail: &[Step],
        content: &Content,
        spread: Spread,
    ) -> Result<Content, Error> {
        let (this, parent) = (trail[trail.len() - 1], trail[trail.len() - 2]);
        // A copy, as the page changes before its last cells are read.
        let bytes = self.page(parent.pgno)?.to_vec();
        let above = self.view(&bytes, parent.pgno)?;
        let last = above.cell_count();
        let (first, count) = match spread {
            Spread::Left => (parent.index.saturating_sub(1), 1 + parent.index.min(1)),
            Spread::Even | Spread::End => {
                let count = NEIGHBOURS.min(last + 1);
                (parent.index.saturating_sub(1).min(last + 1 - count), count)
            }
        };
        let mut pages: Vec<Pgno> =
            (first..first + count).map(|child| above.child(child)).collect::<Result<_, _>>()?;
        self.check_distinct(&pages, trail)?;

        let all = self.gather(&above, first, &pages, this.pgno, content)?;
        let capacity = self.usable() - all.kind.header_size();
        let mut ends = distribute(&all, capacity, spread != Spread::Even);
        if spread == Spread::Left && ends.len() > count {
            ends = distribute(&all, capacity, false);
        }

        while pages.len() > ends.len() {
            self.release_page(pages.pop().expect("it is longer than another"))?;
        }
        while pages.len() < ends.len() {
            let new = self.allocate()?;
            pages.push(new);
            self.check_distinct(&pages, trail)?;
        }
        // In file order, to let a scan read forward.
        pages.sort_unstable();

        let mut up = Content::with_room(above.kind(), 2, self.usable());
        up.extend_from_page(&above, 0..first)?;
        let mut start = 0;
        for (number, (&pgno, &end)) in pages.iter().zip(&ends).enumerate() {
            let is_last = number + 1 == ends.len();
            let right_child = match all.kind.is_leaf() {
                true => None,
                false if is_last => all.right_child,
                false => Some(left_child(all.cell(end), pgno)?),
            };
            self.rewrite_page(pgno, all.kind, right_child, all.part(start..end))?;
            if is_last {
                break;
            }
            let left = pgno.get().to_be_bytes();
            match all.kind {
                PageKind::TableLeaf => {
                    let rowid = TableLeafCell::parse(all.cell(end - 1), self.usable())?.rowid;
                    let mut divider = [0; 13];
                    let size = TableInteriorCell::write(pgno, rowid, &mut divider);
                    up.push(&divider[..size]);
                    start = end;
                }
                PageKind::IndexLeaf => {
                    up.push_parts(&left, all.cell(end));
                    start = end + 1;
                }
                PageKind::TableInterior | PageKind::IndexInterior => {
                    up.push_parts(&left, &all.cell(end)[4..]);
                    start = end + 1;
                }
            }
        }
        let last_page = *pages.last().expect("cells need a page");
        let after = up.len();
        let rest = first + count - 1;
        up.extend_from_page(&above, rest..last)?;
        if rest < last {
            up.set_left(after, last_page);
            up.right_child = Some(above.child(last)?);
        } else {
            up.right_child = Some(last_page);
        }
        Ok(up)
    }

    /// Collects the cells of the children `pages` of `above`, from child `first` on, with the
    /// dividers between them where dividers are entries or carry a child.
    fn gather(
        &self,
        above: &Page<'_>,
        first: usize,
        pages: &[Pgno],
        this: Pgno,
        content: &Content,
    ) -> Result<Content, Error> {
        let mut all = Content::with_room(content.kind, pages.len(), self.usable());
        for (number, &pgno) in pages.iter().enumerate() {
            let right_child = if pgno == this {
                all.extend(content);
                content.right_child
            } else {
                let view = self.btree_page(pgno)?;
                if view.kind() != content.kind {
                    let why = "is not of its neighbour's kind";
                    let kind = u64::from(view.kind().byte());
                    return Err(Corrupt::on_page(pgno, "b-tree page", why, kind).into());
                }
                let count = view.cell_count();
                all.extend_from_page(&view, 0..count)?;
                if view.kind().is_leaf() { None } else { Some(view.child(count)?) }
            };
            if number + 1 == pages.len() {
                all.right_child = right_child;
                break;
            }
            let divider = above.cell(first + number)?;
            match (content.kind, right_child) {
                (PageKind::TableLeaf, _) => {}
                (PageKind::IndexLeaf, _) => all.push(&divider[4..]),
                (_, Some(child)) => all.push_parts(&child.get().to_be_bytes(), &divider[4..]),
                (_, None) => {
                    let why = "lacks its right child, cells";
                    let count = all.len() as u64;
                    return Err(Corrupt::on_page(pgno, "b-tree page", why, count).into());
                }
            }
        }
        Ok(all)
    }

    /// An error when a page would be used twice: the file's pages are tangled.
    pub(super) fn check_distinct(&self, pages: &[Pgno], trail: &[Step]) -> Result<(), Error> {
        let above = &trail[..trail.len() - 1];
        for (number, page) in pages.iter().enumerate() {
            if pages[..number].contains(page) || above.iter().any(|step| step.pgno == *page) {
                let why = "is in its tree twice, or free and in use, number";
                return Err(Corrupt::on_page(*page, "page", why, number as u64).into());
            }
        }
        Ok(())
    }
}

fn left_child(cell: &[u8], page: Pgno) -> Result<Pgno, Corrupt> {
    cell.first_chunk()
        .and_then(|bytes| Pgno::new(u32::from_be_bytes(*bytes)))
        .ok_or_else(|| Corrupt::on_page(page, "cell", "has no left child, size", cell.len() as u64))
}

/// Decides where pages of `capacity` bytes end: for each page the index of the cell after its last
/// one. In a table's leaves the cell after begins the next page; elsewhere it goes up as divider.
///
/// Pages are first filled from the left, then evened out from the right; with `append` only as far
/// as needed to leave none empty.
fn distribute(all: &Content, capacity: usize, append: bool) -> Vec<usize> {
    let takes_divider = all.kind != PageKind::TableLeaf;
    let mut ends = Vec::new();
    let mut sizes = Vec::new();
    let mut used = 0;
    for index in 0..all.len() {
        let taken = all.taken(index);
        if used + taken <= capacity {
            used += taken;
            continue;
        }
        ends.push(index);
        sizes.push(used);
        used = if takes_divider { 0 } else { taken };
    }
    ends.push(all.len());
    sizes.push(used);

    for page in (1..ends.len()).rev() {
        loop {
            let end = ends[page - 1];
            let start = match page {
                1 => 0,
                _ => ends[page - 2] + usize::from(takes_divider),
            };
            if end - start < 2 {
                break;
            }
            // The last cell leaves the left page; the right page gains either this cell, or the old
            // divider whose place the cell takes.
            let leaves = all.taken(end - 1);
            let enters = if takes_divider { all.taken(end) } else { leaves };
            let is_empty = sizes[page] == 0;
            if !is_empty && (append || sizes[page] + enters > sizes[page - 1] - leaves) {
                break;
            }
            sizes[page] += enters;
            sizes[page - 1] -= leaves;
            ends[page - 1] = end - 1;
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(kind: PageKind, sizes: &[usize]) -> Content {
        let mut content = Content::new(kind);
        for &size in sizes {
            content.push(&vec![0; size - 2]);
        }
        content
    }

    #[test]
    fn pages_end_where_they_are_even_and_none_is_empty() {
        let check = |kind, sizes: &[usize], append, expect: &[usize]| {
            assert_eq!(distribute(&content(kind, sizes), 100, append), expect);
        };
        let (row, entry) = (PageKind::TableLeaf, PageKind::IndexLeaf);
        check(row, &[], false, &[0]);
        check(row, &[30, 30, 30], false, &[3]);
        check(row, &[30, 30, 30, 30], false, &[2, 4]);
        check(row, &[30, 30, 30, 30], true, &[3, 4]);
        check(row, &[100, 100, 10], false, &[1, 2, 3]);
        check(row, &[10, 100, 10], false, &[1, 2, 3]);
        check(entry, &[25, 25, 25, 25], false, &[4]);
        // A fifth cell alone would be a divider with nothing behind.
        check(entry, &[25, 25, 25, 25, 25], false, &[2, 5]);
        check(entry, &[25, 25, 25, 25, 25], true, &[3, 5]);
        check(entry, &[25; 9], false, &[4, 9]);
        check(entry, &[25; 10], false, &[3, 7, 10]);
    }
}
