//! Finding entries of an index by key, many times.
//!
//! As for tables (see [`crate::TableLookup`]): after a few descents the entries of the interior
//! pages, separating the leaves, are decoded once into one array, each as a number ordered like its
//! first column. A seek then is a search among numbers, a comparison of records only where two
//! numbers are the same, and a search on the leaf; a walk goes from leaf to entry to leaf by the
//! array and needs no way up and down. The array belongs to one image of the file and only tells
//! which page to look at: the page is checked as any other.

use std::cmp::Ordering;
use std::sync::Arc;

use shoal_format::{Corrupt, KeyColumn, KeyOrder, LeafCell, Page, Payload, Pgno, ValueRef};

use crate::cursor::IndexCursor;
use crate::index_tree::IndexTree;
use crate::{Error, Place, Transaction};

/// Finds entries of one index by key. Borrows nothing, so a prepared statement keeps its lookup
/// over transactions and changes of the file.
///
/// Cost of a seek: one search among decoded prefixes once there are any, and one on the leaf;
/// before then a binary search per level. Where keys are sought in ascending order, two comparisons
/// beside the end of the walk before ([`IndexLookup::end_walk`]). Allocates only for the prefixes:
/// 18 bytes a leaf, once per state of the file.
#[derive(Clone, Debug)]
pub struct IndexLookup {
    root: Pgno,
    /// The image of `tree` and of the counted descents.
    pub(crate) image: u64,
    pub(crate) tree: Option<Arc<IndexTree>>,
    /// Descents since the image was new.
    descents: u32,
    /// The leaf, and the number there, of the entry that ended the walk before.
    ended: Option<(usize, usize)>,
    overflow: Vec<u8>,
}

impl IndexLookup {
    /// For the index at `root`.
    pub fn new(root: Pgno) -> IndexLookup {
        let overflow = Vec::new();
        IndexLookup { root, image: 0, tree: None, descents: 0, ended: None, overflow }
    }

    /// Walks from the first entry whose order with `key`, by its first `key.len()` columns, is
    /// greater than `passed`: for `Less` the first entry not before `key`, for `Equal` the first
    /// entry after all equal ones.
    ///
    /// # Errors
    /// When a page cannot be read or is corrupt.
    pub fn seek<'l, 't>(
        &'l mut self,
        txn: &'t Transaction,
        key: &[ValueRef<'_>],
        order: &KeyOrder,
        passed: Ordering,
    ) -> Result<IndexWalk<'l, 't>, Error> {
        if self.image != txn.image_id() || txn.is_writer() {
            self.forget(txn);
        }
        if self.tree.is_none() {
            self.learn(txn, order.column(0))?;
        }
        let Some(tree) = &self.tree else {
            let mut cursor = txn.index(self.root)?;
            match passed {
                Ordering::Less => {
                    cursor.seek(key, order)?;
                }
                _ => {
                    cursor.seek_after(key, order)?;
                }
            }
            return Ok(IndexWalk { way: Way::Cursor(Box::new(cursor)) });
        };
        let flat = |leaf, page: Page<'t>, index| {
            let mut flat = Flat { txn, tree, leaf, page, index, state: State::Leaf };
            if index == page.cell_count() {
                flat.leave_leaf()?;
            }
            Ok(IndexWalk { way: Way::Flat(flat) })
        };
        let near = self.ended.take().filter(|&(leaf, _)| tree.is_on_leaf(leaf, key));
        let int = match key {
            &[ValueRef::Int(int)] => Some(int),
            _ => None,
        };
        let is_decoded = int.is_some() && near.is_some_and(|(leaf, _)| tree.is_decoded(leaf));
        let overflow = &mut self.overflow;
        let mut goes_before = |payload: Payload<'_>| -> Result<bool, Error> {
            let order = if payload.overflow.is_none() {
                order.compare(payload.local, key)?
            } else {
                txn.read_payload(payload, overflow)?;
                order.compare(overflow, key)?
            };
            Ok(order <= passed)
        };
        if let Some((leaf, index)) = near.filter(|_| !is_decoded) {
            let page = tree.leaf(txn, leaf)?;
            if let Some(index) = partition_behind(&page, index, &mut goes_before)? {
                return flat(leaf, page, index);
            }
        }
        if let Some(int) = int
            && let Some((leaf, index)) = tree.place_of_int(txn, int, passed)
        {
            return flat(leaf, tree.leaf(txn, leaf)?, index);
        }
        let (mut low, mut high) = match key.first() {
            None => (0, tree.prefixes.len()),
            Some(&first) => {
                let prefix = tree.column().prefix(first);
                let low = tree.prefixes.partition_point(|&known| known < prefix);
                let same = tree.prefixes[low..].iter().take_while(|&&known| known == prefix);
                (low, low + same.count())
            }
        };
        while low < high {
            let middle = low + (high - low) / 2;
            let (page, cell) = tree.between[middle];
            let payload = txn.btree_page(page)?.index(usize::from(cell))?.payload;
            if goes_before(payload)? {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let page = tree.leaf(txn, low)?;
        flat(low, page, partition(&page, &mut goes_before)?)
    }

    /// Notes the entry that ended a walk ([`IndexWalk::ended`]): the next key may be near.
    #[inline]
    pub fn end_walk(&mut self, ended: Option<(usize, usize)>) {
        self.ended = ended;
    }

    #[cold]
    fn forget(&mut self, txn: &Transaction) {
        self.image = txn.image_id();
        self.ended = None;
        self.tree = None;
        self.descents = 0;
    }

    /// Decodes the tree's separators once, after enough descents to repay the decoding.
    fn learn(&mut self, txn: &Transaction, column: KeyColumn) -> Result<(), Error> {
        if txn.is_writer() {
            return Ok(());
        }
        self.descents = self.descents.saturating_add(1);
        // Decoding a separator costs a few steps of a descent; a root has some hundred children.
        let enough = 3 + txn.btree_page(self.root)?.cell_count() / 16;
        if self.descents as usize == enough {
            self.tree = txn.index_tree(self.root, column);
        }
        Ok(())
    }
}

/// A position among the entries of an index, and the way forward.
#[derive(Debug)]
pub struct IndexWalk<'l, 't> {
    way: Way<'l, 't>,
}

#[derive(Debug)]
enum Way<'l, 't> {
    Cursor(Box<IndexCursor<'t>>),
    Flat(Flat<'l, 't>),
}

/// A position by leaf number.
#[derive(Debug)]
struct Flat<'l, 't> {
    txn: &'t Transaction,
    tree: &'l IndexTree,
    /// The leaf, or the one before the entry between leaves.
    leaf: usize,
    /// The page of the entry.
    page: Page<'t>,
    index: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Leaf,
    Between,
    End,
}

impl<'t> IndexWalk<'_, 't> {
    /// True when there is an entry here.
    #[inline]
    pub fn is_valid(&self) -> bool {
        match &self.way {
            Way::Flat(flat) => flat.state != State::End,
            Way::Cursor(cursor) => cursor.is_valid(),
        }
    }

    /// The page of the entry.
    #[inline]
    pub fn page(&self) -> Page<'t> {
        match &self.way {
            Way::Flat(flat) => flat.page,
            Way::Cursor(cursor) => cursor.page(),
        }
    }

    /// The entry's payload as stored on its page.
    ///
    /// # Errors
    /// [`Error::Misuse`] after the last entry; [`Error::Corrupt`].
    #[inline]
    pub fn payload(&self) -> Result<Payload<'t>, Error> {
        match &self.way {
            Way::Flat(flat) => Ok(flat.page.index(flat.index)?.payload),
            Way::Cursor(cursor) => cursor.cell_payload(),
        }
    }

    /// The leaf of this entry, by its number, and the place there, for [`IndexLookup::end_walk`];
    /// `None` between leaves and without decoded leaves.
    #[inline]
    pub fn ended(&self) -> Option<(usize, usize)> {
        match &self.way {
            Way::Flat(flat) => (flat.state == State::Leaf).then_some((flat.leaf, flat.index)),
            Way::Cursor(_) => None,
        }
    }

    /// The last entry of this entry's leaf, with the number of entries from this one to the last.
    /// An order relation holding for both ends holds for all entries between. `None` for an entry
    /// between leaves.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub fn last_on_leaf(&self) -> Result<Option<(usize, Payload<'t>)>, Error> {
        let Some((page, index)) = self.leaf() else { return Ok(None) };
        let count = page.cell_count();
        Ok(Some((count - index, page.index(count - 1)?.payload)))
    }

    /// The leaf of this entry, and the place there; `None` for an entry between leaves.
    #[inline]
    fn leaf(&self) -> Option<(Page<'t>, usize)> {
        match &self.way {
            Way::Flat(flat) => (flat.state == State::Leaf).then_some((flat.page, flat.index)),
            Way::Cursor(cursor) => cursor.leaf(),
        }
    }

    /// Finds this entry and its followers on the same page: the places of their records, as many as
    /// `out` has room for. Returns the page, the number of entries, and true when one of them
    /// continues on overflow pages.
    ///
    /// # Errors
    /// As [`IndexWalk::payload`].
    #[inline]
    pub fn entries(&self, out: &mut [LeafCell]) -> Result<(Page<'t>, usize, bool), Error> {
        if let Some((page, index)) = self.leaf() {
            let (count, goes_on) = page.index_cells(index, out)?;
            return Ok((page, count, goes_on));
        }
        let (page, Some(first)) = (self.page(), out.first_mut()) else {
            return Ok((self.page(), 0, false));
        };
        *first = page.record_of(self.payload()?);
        Ok((page, 1, first.goes_on()))
    }

    /// Moves past `entries` entries, all given by [`IndexWalk::entries`]; false at the end of
    /// the index.
    ///
    /// # Errors
    /// As [`IndexWalk::next`].
    #[inline]
    pub fn skip(&mut self, entries: usize) -> Result<bool, Error> {
        let by = entries.saturating_sub(1);
        match &mut self.way {
            Way::Flat(flat) if flat.state == State::Leaf => {
                let last = flat.page.cell_count().saturating_sub(1);
                flat.index = last.min(flat.index + by);
            }
            Way::Flat(_) => {}
            Way::Cursor(cursor) => cursor.move_on_leaf(by),
        }
        self.next()
    }

    /// As [`IndexWalk::place`], for the entry `by` entries further on, given by
    /// [`IndexWalk::entries`].
    pub fn place_ahead(&self, by: usize) -> WalkPlace {
        let mut place = self.place();
        match &mut place.0 {
            Kept::Flat { index, state: State::Leaf, .. } => *index += by,
            Kept::Cursor(place) => place.move_ahead(by),
            Kept::Flat { .. } => {}
        }
        place
    }

    /// The entry `by` entries further on, if on the same leaf.
    #[inline]
    pub fn ahead(&self, by: usize) -> Option<Payload<'t>> {
        if by == 0 {
            return self.payload().ok();
        }
        let (page, index) = self.leaf()?;
        page.index(index + by).ok().map(|cell| cell.payload)
    }

    /// Moves to the next entry; false when there is none.
    ///
    /// # Errors
    /// When a page cannot be read or is corrupt.
    #[inline]
    #[allow(clippy::should_implement_trait)] // it lends, and can fail
    pub fn next(&mut self) -> Result<bool, Error> {
        match &mut self.way {
            Way::Flat(flat) => {
                if flat.state == State::Leaf && flat.index + 1 < flat.page.cell_count() {
                    flat.index += 1;
                    return Ok(true);
                }
                flat.next_page()
            }
            Way::Cursor(cursor) => cursor.next(),
        }
    }

    /// Moves to the entry before, from behind the last one to the last; false when there is none.
    ///
    /// # Errors
    /// When a page cannot be read or is corrupt.
    #[inline]
    pub fn prev(&mut self) -> Result<bool, Error> {
        match &mut self.way {
            Way::Flat(flat) => {
                if flat.state == State::Leaf && flat.index > 0 {
                    flat.index -= 1;
                    return Ok(true);
                }
                flat.prev_page()
            }
            Way::Cursor(cursor) => cursor.prev(),
        }
    }

    /// Notes where the walk is, to go on from there with [`IndexLookup::resume`].
    pub fn place(&self) -> WalkPlace {
        WalkPlace(match &self.way {
            Way::Cursor(cursor) => Kept::Cursor(Box::new(cursor.place())),
            Way::Flat(flat) => Kept::Flat { leaf: flat.leaf, index: flat.index, state: flat.state },
        })
    }
}

/// A walk's position without its transaction. A place is good for the same transaction, as long as
/// the transaction changes nothing.
#[derive(Clone, Debug)]
pub struct WalkPlace(Kept);

#[derive(Clone, Debug)]
enum Kept {
    Cursor(Box<Place>),
    Flat { leaf: usize, index: usize, state: State },
}

impl IndexLookup {
    /// The walk continued from `place`, in the same transaction.
    ///
    /// # Errors
    /// When the page cannot be read; [`Error::Misuse`] for a place of another lookup.
    pub fn resume<'l, 't>(
        &'l self,
        txn: &'t Transaction,
        place: &WalkPlace,
    ) -> Result<IndexWalk<'l, 't>, Error> {
        let misuse = Error::Misuse("a walk was resumed that another lookup began");
        let way = match (&place.0, &self.tree) {
            (Kept::Cursor(place), _) => Way::Cursor(Box::new(IndexCursor::resume(txn, place)?)),
            (&Kept::Flat { leaf, index, state }, Some(tree)) => {
                let page = match state {
                    State::Between => {
                        let (page, _) = *tree.between.get(leaf).ok_or(misuse)?;
                        txn.btree_page(page)?
                    }
                    _ if leaf < tree.leaves.len() => tree.leaf(txn, leaf)?,
                    _ => return Err(misuse),
                };
                Way::Flat(Flat { txn, tree, leaf, page, index, state })
            }
            (Kept::Flat { .. }, None) => return Err(misuse),
        };
        Ok(IndexWalk { way })
    }
}

impl Flat<'_, '_> {
    /// From the end of a leaf to the entry between this leaf and the next.
    fn leave_leaf(&mut self) -> Result<(), Error> {
        match self.tree.between.get(self.leaf) {
            Some(&(page, cell)) => {
                self.page = self.txn.btree_page(page)?;
                self.index = usize::from(cell);
                self.state = State::Between;
            }
            None => self.state = State::End,
        }
        Ok(())
    }

    fn next_page(&mut self) -> Result<bool, Error> {
        match self.state {
            State::Leaf => self.leave_leaf()?,
            State::Between => {
                self.txn.check_watch()?;
                self.leaf += 1;
                self.page = self.tree.leaf(self.txn, self.leaf)?;
                self.index = 0;
                self.state = State::Leaf;
                if self.page.cell_count() == 0 {
                    let why = "has an empty page, leaf";
                    let number = self.leaf as u64;
                    return Err(Corrupt::on_page(self.page.pgno(), "b-tree", why, number).into());
                }
            }
            State::End => {}
        }
        Ok(self.state != State::End)
    }
}

impl Flat<'_, '_> {
    /// From the beginning of a leaf to the entry between the previous leaf and this one, and from
    /// such an entry to the end of the previous leaf.
    fn prev_page(&mut self) -> Result<bool, Error> {
        self.state = match self.state {
            State::Leaf => match self.leaf.checked_sub(1) {
                None => return Ok(false),
                Some(before) => {
                    let (page, cell) = self.tree.between[before];
                    self.leaf = before;
                    self.page = self.txn.btree_page(page)?;
                    self.index = usize::from(cell);
                    State::Between
                }
            },
            State::Between | State::End => {
                self.txn.check_watch()?;
                self.page = self.tree.leaf(self.txn, self.leaf)?;
                let Some(last) = self.page.cell_count().checked_sub(1) else {
                    // An empty index is one empty leaf.
                    self.state = State::End;
                    return Ok(false);
                };
                self.index = last;
                State::Leaf
            }
        };
        Ok(true)
    }
}

/// The first entry from number `from` on not meeting `goes_before`, sought by doubled steps; `None`
/// where entry `from - 1` does not meet it.
fn partition_behind(
    page: &Page<'_>,
    from: usize,
    mut goes_before: impl FnMut(Payload<'_>) -> Result<bool, Error>,
) -> Result<Option<usize>, Error> {
    let count = page.cell_count();
    let mut is_before = |index: usize| goes_before(page.index(index)?.payload);
    if from > count || (from > 0 && !is_before(from - 1)?) {
        return Ok(None);
    }
    let (mut low, mut step) = (from, 1);
    let mut high = count;
    while low + step <= count {
        if !is_before(low + step - 1)? {
            high = low + step - 1;
            break;
        }
        low += step;
        step *= 2;
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle)? { low = middle + 1 } else { high = middle }
    }
    Ok(Some(low))
}

/// Returns the first cell of an index page with a payload not satisfying `goes_before`, a predicate
/// true for a prefix of the cells; the number of cells when all satisfy the predicate.
fn partition(
    page: &Page<'_>,
    mut goes_before: impl FnMut(Payload<'_>) -> Result<bool, Error>,
) -> Result<usize, Error> {
    let (mut low, mut high) = (0, page.cell_count());
    while low < high {
        let middle = low + (high - low) / 2;
        if goes_before(page.index(middle)?.payload)? {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}
