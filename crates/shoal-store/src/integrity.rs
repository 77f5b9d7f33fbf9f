//! The pages of a file, each looked at once: b-trees, overflow chains, the freelist and pages of no
//! use to anybody, in the words of SQLite's `PRAGMA integrity_check`.

use shoal_format::overflow::{OverflowPage, local_len};
use shoal_format::page::header_start;
use shoal_format::{Page, PageKind, Pgno, varint};

use crate::cursor::MAX_DEPTH;
use crate::{Error, PageSet, Transaction};

/// The kinds of pages in a pointer map.
const ROOT: u8 = 1;
const FREE: u8 = 2;
const FIRST_OVERFLOW: u8 = 3;
const LATER_OVERFLOW: u8 = 4;
const BTREE: u8 = 5;

impl Transaction {
    /// The faults of the b-trees at `roots`, as many as `limit`; none of a sound file. With
    /// `whole`, `roots` are all roots of the file: pages of no tree are faults then. With
    /// `freelist`, the freelist is looked at as well.
    ///
    /// Cost: every page of the trees is read once; a bit of memory for each page of the file.
    ///
    /// # Errors
    /// A page not readable for another reason than its content.
    pub fn check_pages(
        &self,
        roots: &[Pgno],
        whole: bool,
        freelist: bool,
        limit: usize,
    ) -> Result<Vec<String>, Error> {
        self.check_pages_but(roots, (whole, freelist, limit), None)
    }

    /// As [`Transaction::check_pages`], of trees walked before: `sound` has what
    /// [`Transaction::sound_tree`] gave for each root. Trees not sound, or sharing a page, are
    /// walked again for their faults.
    ///
    /// # Errors
    /// As [`Transaction::check_pages`].
    pub fn check_pages_after(
        &self,
        roots: &[Pgno],
        (whole, freelist, limit): (bool, bool, usize),
        sound: Vec<Option<PageSet>>,
    ) -> Result<Vec<String>, Error> {
        let mut all = PageSet::of_file(self.page_count());
        let known: Option<Vec<PageSet>> = sound.into_iter().collect();
        let apart = known.is_some_and(|known| known.iter().all(|pages| all.unite(pages)));
        if apart {
            let found = self.check_pages_but(roots, (whole, freelist, limit), Some(all))?;
            if found.is_empty() {
                return Ok(found);
            }
        }
        // The whole walk finds faults in their order.
        self.check_pages(roots, whole, freelist, limit)
    }

    /// The pages of the tree at `root`, where nothing is wrong with it: the part of
    /// [`Transaction::check_pages`] that can be done for several trees side by side.
    ///
    /// # Errors
    /// As [`Transaction::check_pages`].
    pub fn sound_tree(&self, root: Pgno, whole: bool) -> Result<Option<PageSet>, Error> {
        let mut check = Check::new(self, PageSet::of_file(self.page_count()), 1);
        if self.page_count() > 0 {
            check.tree(root, whole)?;
        }
        Ok(check.found.is_empty().then_some(check.seen))
    }

    fn check_pages_but(
        &self,
        roots: &[Pgno],
        (whole, freelist, limit): (bool, bool, usize),
        trees: Option<PageSet>,
    ) -> Result<Vec<String>, Error> {
        let pages = self.page_count();
        let walks = trees.is_none();
        let seen = trees.unwrap_or_else(|| PageSet::of_file(pages));
        let mut check = Check::new(self, seen, limit);
        if pages == 0 {
            return Ok(check.found);
        }
        let header = self.header();
        let lock_page = Pgno::lock_page(header.page_size).get();
        if lock_page <= pages {
            check.mark(lock_page);
        }
        for own in 2..=(self.store.own_pages() + 1).min(pages) {
            check.mark(own);
        }
        if whole && !self.is_whole()? {
            check.add("pages of different versions of the file lie side by side".to_owned());
        }
        if freelist {
            check.prefix = Prefix::Freelist;
            let trunk = header.freelist_trunk.map_or(0, Pgno::get);
            check.freelist(trunk, header.freelist_count)?;
            check.prefix = Prefix::None;
        }
        if whole && header.is_auto_vacuum() {
            let largest = roots.iter().map(|root| root.get()).max().unwrap_or(0);
            if largest != header.largest_root {
                let stated = header.largest_root;
                check.add(format!("max rootpage ({largest}) disagrees with header ({stated})"));
            }
        } else if whole && header.incremental_vacuum != 0 {
            check.add("incremental_vacuum enabled with a max rootpage of zero".to_owned());
        }
        for root in roots.iter().filter(|_| walks) {
            check.tree(*root, whole)?;
        }
        for pgno in 1..=if whole { pages } else { 0 } {
            if check.is_full() {
                break;
            }
            let is_map = header.is_auto_vacuum() && check.map_page(pgno) == pgno;
            match (check.is_marked(pgno), is_map) {
                (false, false) => check.add(format!("Page {pgno}: never used")),
                (true, true) => check.add(format!("Page {pgno}: pointer map referenced")),
                _ => {}
            }
        }
        Ok(check.found)
    }
}

/// The words before a fault.
#[derive(Clone, Copy, Debug)]
enum Prefix {
    None,
    Freelist,
    Page(u32),
    Cell(u32),
    RightChild(u32),
}

struct Check<'t> {
    txn: &'t Transaction,
    /// Pages already met.
    seen: PageSet,
    found: Vec<String>,
    limit: usize,
    prefix: Prefix,
    /// The root of the tree at hand.
    root: u32,
    /// The cell at hand; on an interior page before the first, the parent's.
    cell: usize,
}

/// A cell as its first bytes state its parts.
struct Cell {
    /// The rowid of a table's cell.
    rowid: i64,
    payload_len: u64,
    local_len: usize,
    /// Where the payload begins, counted from the cell.
    start: usize,
    /// Bytes of the whole cell.
    size: usize,
}

impl<'t> Check<'t> {
    fn new(txn: &'t Transaction, seen: PageSet, limit: usize) -> Check<'t> {
        Check { txn, seen, found: Vec::new(), limit, prefix: Prefix::None, root: 0, cell: 0 }
    }

    fn tree(&mut self, root: Pgno, whole: bool) -> Result<(), Error> {
        if whole && root != Pgno::FIRST {
            self.pointer(root.get(), ROOT, 0)?;
        }
        self.root = root.get();
        self.tree_page(root.get(), i64::MAX, 0)?;
        self.prefix = Prefix::None;
        Ok(())
    }

    fn add(&mut self, fault: String) {
        if self.found.len() >= self.limit {
            return;
        }
        let root = self.root;
        self.found.push(match self.prefix {
            Prefix::None => fault,
            Prefix::Freelist => format!("Freelist: {fault}"),
            Prefix::Page(page) => format!("Tree {root} page {page}: {fault}"),
            Prefix::Cell(page) => {
                let cell = self.cell;
                format!("Tree {root} page {page} cell {cell}: {fault}")
            }
            Prefix::RightChild(page) => format!("Tree {root} page {page} right child: {fault}"),
        });
    }

    fn is_full(&self) -> bool {
        self.found.len() >= self.limit
    }

    fn is_marked(&self, pgno: u32) -> bool {
        Pgno::new(pgno).is_some_and(|pgno| self.seen.contains(pgno))
    }

    fn mark(&mut self, pgno: u32) {
        Pgno::new(pgno).map(|pgno| self.seen.insert(pgno));
    }

    /// Marks a page; `None` with a fault for a page out of range or met before.
    fn meet(&mut self, pgno: u32) -> Option<Pgno> {
        let known = Pgno::new(pgno).filter(|_| pgno <= self.txn.page_count());
        let Some(known) = known else {
            self.add(format!("invalid page number {pgno}"));
            return None;
        };
        if self.is_marked(pgno) {
            self.add(format!("2nd reference to page {pgno}"));
            return None;
        }
        self.mark(pgno);
        Some(known)
    }

    fn freelist(&mut self, first: u32, count: u32) -> Result<(), Error> {
        let usable = self.txn.usable();
        let faults = self.found.len();
        let (mut next, mut rest) = (first, i64::from(count));
        while next != 0 && !self.is_full() {
            let number = next;
            let Some(pgno) = self.meet(number) else { break };
            rest -= 1;
            self.pointer(number, FREE, 0)?;
            let page = self.txn.page(pgno)?;
            let leaves = be32(page, 4) as usize;
            next = be32(page, 0);
            if leaves > usable / 4 - 2 {
                self.add(format!("freelist leaf count too big on page {number}"));
                rest -= 1;
                continue;
            }
            for leaf in 0..leaves {
                let leaf = be32(self.txn.page(pgno)?, 8 + leaf * 4);
                self.pointer(leaf, FREE, 0)?;
                self.meet(leaf);
            }
            rest -= i64::try_from(leaves).unwrap_or(0);
        }
        if rest != 0 && faults == self.found.len() {
            self.add(format!("size is {} but should be {count}", i64::from(count) - rest));
        }
        Ok(())
    }

    fn overflow_chain(&mut self, first: u32, count: u64) -> Result<(), Error> {
        let faults = self.found.len();
        let (mut next, mut rest) = (first, count);
        while next != 0 && !self.is_full() {
            let number = next;
            let Some(pgno) = self.meet(number) else { break };
            rest = rest.wrapping_sub(1);
            next = be32(self.txn.page(pgno)?, 0);
            if rest > 0 && self.txn.header().is_auto_vacuum() {
                self.pointer(next, LATER_OVERFLOW, number)?;
            }
        }
        if rest != 0 && faults == self.found.len() {
            let found = count.wrapping_sub(rest);
            self.add(format!("overflow list length is {found} but should be {count}"));
        }
        Ok(())
    }

    /// Checks a page of a tree and everything below; gives the depth of the tree there and the
    /// least rowid.
    fn tree_page(
        &mut self,
        number: u32,
        largest: i64,
        depth: usize,
    ) -> Result<(usize, i64), Error> {
        if number == 0 || self.is_full() {
            return Ok((0, largest));
        }
        let Some(pgno) = self.meet(number) else { return Ok((0, largest)) };
        let outer = (std::mem::replace(&mut self.prefix, Prefix::Page(number)), self.cell);
        let result = self.known_page(pgno, largest, depth);
        (self.prefix, self.cell) = outer;
        result
    }

    fn known_page(
        &mut self,
        pgno: Pgno,
        mut largest: i64,
        depth: usize,
    ) -> Result<(usize, i64), Error> {
        let (txn, number) = (self.txn, pgno.get());
        let usable = txn.usable();
        if depth >= MAX_DEPTH {
            self.add(format!("btree depth exceeds {MAX_DEPTH}"));
            return Ok((0, largest));
        }
        let bytes = match txn.page(pgno) {
            Ok(bytes) => &bytes[..usable],
            // A page that is none, as the lock's.
            Err(Error::Corrupt(_)) => {
                self.add("unable to get the page. error code=11".to_owned());
                return Ok((0, largest));
            }
            Err(error) => return Err(error),
        };
        let Ok(page) = Page::new(bytes, pgno, usable) else {
            self.add("btreeInitPage() returns error code 11".to_owned());
            return Ok((0, largest));
        };
        if page.free_bytes().is_err() {
            self.add("free space corruption".to_owned());
            return Ok((0, largest));
        }
        let kind = page.kind();
        let header = header_start(pgno);
        let pointers = header + kind.header_size();
        let content = match be16(bytes, header + 5) {
            0 => 65_536,
            content => content,
        };
        let (mut below, mut can_equal, mut covers) = (0, true, true);
        self.prefix = Prefix::Cell(number);
        if !kind.is_leaf() {
            let child = be32(bytes, header + 8);
            if txn.header().is_auto_vacuum() {
                // SQLite keeps these words for the cells as well.
                self.prefix = Prefix::RightChild(number);
            }
            self.pointer(child, BTREE, number)?;
            (below, largest) = self.tree_page(child, largest, depth + 1)?;
            can_equal = false;
        }
        let mut areas = Vec::with_capacity(page.cell_count());
        for index in (0..page.cell_count()).rev() {
            if self.is_full() {
                break;
            }
            self.cell = index;
            let at = be16(bytes, pointers + 2 * index);
            if at < content || at > usable - 4 {
                self.add(format!("Offset {at} out of range {content}..{}", usable - 4));
                covers = false;
                continue;
            }
            let cell = Cell::parse(&bytes[at..], kind, usable);
            if at + cell.size > usable {
                self.add("Extends off end of page".to_owned());
                covers = false;
                continue;
            }
            if cell.payload_len > 0 && bytes.get(at + cell.start).is_none_or(|first| *first < 2) {
                self.add("Bad cell header size".to_owned());
                covers = false;
                continue;
            }
            if kind.is_table() {
                let fits = if can_equal { cell.rowid <= largest } else { cell.rowid < largest };
                if !fits {
                    self.add(format!("Rowid {} out of order", cell.rowid));
                }
                largest = cell.rowid;
                can_equal = false;
            }
            if cell.payload_len > cell.local_len as u64 {
                let room = (usable - OverflowPage::HEADER) as u64;
                let count = (cell.payload_len - cell.local_len as u64).div_ceil(room);
                let first = be32(bytes, at + cell.size - 4);
                self.pointer(first, FIRST_OVERFLOW, number)?;
                self.overflow_chain(first, count)?;
            }
            if !kind.is_leaf() {
                let child = be32(bytes, at);
                self.pointer(child, BTREE, number)?;
                let (found, least) = self.tree_page(child, largest, depth + 1)?;
                largest = least;
                can_equal = false;
                if found != below {
                    self.add("Child page depth differs".to_owned());
                    below = found;
                }
            }
            areas.push((at, at + cell.size - 1));
        }
        self.prefix = Prefix::None;
        if covers && !self.is_full() {
            self.coverage(bytes, header, content, areas, number);
        }
        // A page in ruins counts as a leaf.
        Ok((if kind.is_leaf() { 0 } else { below + 1 }, largest))
    }

    /// Checks whether each byte of a page's content is in one cell or freeblock, or counted as
    /// lost.
    fn coverage(
        &mut self,
        bytes: &[u8],
        header: usize,
        content: usize,
        mut areas: Vec<(usize, usize)>,
        number: u32,
    ) {
        let mut at = be16(bytes, header + 1);
        while at > 0 {
            areas.push((at, at + be16(bytes, at + 2) - 1));
            at = be16(bytes, at);
        }
        areas.sort_unstable();
        let (mut lost, mut end) = (0, content - 1);
        for (first, last) in areas {
            if end >= first {
                self.add(format!("Multiple uses for byte {first} of page {number}"));
                return;
            }
            lost += first - end - 1;
            end = last;
        }
        lost += (bytes.len() - 1).saturating_sub(end);
        let stated = usize::from(bytes[header + 7]);
        if lost != stated {
            self.add(format!(
                "Fragmentation of {lost} bytes reported as {stated} on page {number}"
            ));
        }
    }

    /// The page of the pointer map with the entry of a page.
    fn map_page(&self, pgno: u32) -> u32 {
        if pgno < 2 {
            return 0;
        }
        let entries = u32::try_from(self.txn.usable() / 5 + 1).unwrap_or(u32::MAX);
        let page = (pgno - 2) / entries * entries + 2;
        let lock_page = Pgno::lock_page(self.txn.header().page_size).get();
        if page == lock_page { page + 1 } else { page }
    }

    /// Compares a page's entry in the pointer map, where the file has one.
    fn pointer(&mut self, child: u32, kind: u8, parent: u32) -> Result<(), Error> {
        if !self.txn.header().is_auto_vacuum() {
            return Ok(());
        }
        let map = self.map_page(child);
        let entry = match Pgno::new(map).filter(|_| map < child && map <= self.txn.page_count()) {
            Some(page) => {
                let bytes = self.txn.page(page)?;
                let at = 5 * (child - map - 1) as usize;
                let known = bytes.get(at..at + 5);
                known
                    .map(|entry| (entry[0], be32(entry, 1)))
                    .filter(|(kind, _)| (1..=5).contains(kind))
            }
            None => None,
        };
        match entry {
            None => self.add(format!("Failed to read ptrmap key={child}")),
            Some(entry) if entry == (kind, parent) => {}
            Some((got, of)) => self.add(format!(
                "Bad ptr map entry key={child} expected=({kind},{parent}) got=({got},{of})"
            )),
        }
        Ok(())
    }
}

impl Cell {
    /// Reads the parts of a cell; bytes behind the page count as zeroes.
    fn parse(bytes: &[u8], kind: PageKind, usable: usize) -> Cell {
        let mut at = if kind.is_leaf() { 0 } else { 4 };
        let mut number = || match varint::read(bytes.get(at..).unwrap_or_default()) {
            Some((value, length)) => {
                at += length;
                value
            }
            None => {
                at = bytes.len();
                0
            }
        };
        let payload_len = if kind == PageKind::TableInterior { 0 } else { number() };
        let rowid = if kind.is_table() { number().cast_signed() } else { 0 };
        // Lengths count by 32 bits.
        let payload_len = payload_len & u64::from(u32::MAX);
        if kind == PageKind::TableInterior {
            return Cell { rowid, payload_len, local_len: 0, start: at, size: at };
        }
        let whole = usize::try_from(payload_len).unwrap_or(usize::MAX);
        let local = local_len(kind, usable, whole);
        let overflow = if whole > local { 4 } else { 0 };
        let size = (at + local + overflow).max(4);
        Cell { rowid, payload_len, local_len: local, start: at, size }
    }
}

fn be16(bytes: &[u8], at: usize) -> usize {
    let pair = bytes.get(at..at + 2).unwrap_or(&[0, 0]);
    usize::from(u16::from_be_bytes([pair[0], pair[1]]))
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |four| u32::from_be_bytes(*four))
}
