//! The pages of one state of the file, as slices that stay where they are.
//!
//! An image belongs to a state: when the file changes, the next transaction has another image. So a
//! page is read once, never moves, and is borrowed for as long as a transaction holds the image:
//! no copies, no counting of references. Pages are read one by one into memory of their own, or
//! the file is mapped as a whole (see [`shoal_vfs::File::map`] for what that rests on).
//!
//! The image stays from one transaction to the next as long as the file is in its state. A mapping
//! does not: it keeps the lock, so it belongs to the transactions, each of which has a [`Snapshot`]:
//! the image, and the mapping where there is one.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustc_hash::{FxHashMap, FxHashSet};
use shoal_format::{Corrupt, Pgno};
use shoal_vfs::Mapping;

use crate::header::FileState;
use crate::index_tree::IndexTree;
use crate::lookup::TableTree;
use crate::page::PageRef;
use crate::store::Inner;
use crate::wal::{LogVersion, WalPages};
use crate::{Error, Transaction};

/// Pages of one state of the file.
#[derive(Debug)]
pub(crate) struct Image {
    /// No two images of a process have the same.
    pub(crate) id: u64,
    page_size: u32,
    lock_page: Pgno,
    pages: Pages,
    /// The pages that are in the write-ahead log.
    wal: Option<WalPages>,
    /// Pages read so far.
    kept: AtomicUsize,
    pub(crate) table_trees: Trees<TableTree>,
    pub(crate) index_trees: Trees<IndexTree>,
}

/// What is known of the trees of one image, by root; `None` for one that is not as it should be.
#[derive(Debug)]
pub(crate) struct Trees<T> {
    known: Mutex<FxHashMap<Pgno, Option<Arc<T>>>>,
}

impl<T> Default for Trees<T> {
    fn default() -> Trees<T> {
        Trees { known: Mutex::default() }
    }
}

impl<T> Trees<T> {
    /// What is known of the tree at `root`; `build` finds it out, once.
    pub(crate) fn get(&self, root: Pgno, build: impl FnOnce() -> Option<T>) -> Option<Arc<T>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&root).cloned();
        if let Some(known) = known {
            return known;
        }
        // Not under the lock: reading pages takes its time. Who comes second throws its work away.
        let built = build().map(Arc::new);
        let mut trees = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        trees.entry(root).or_insert(built).clone()
    }
}

#[derive(Debug)]
enum Pages {
    /// By number; place 0 stays empty.
    Read(Box<[OnceLock<Box<[u8]>>]>),
    /// In the mapping of the transaction that asks.
    Mapped,
}

/// The pages that one transaction reads.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) image: Arc<Image>,
    /// `Some` exactly where the image is of mapped pages.
    pub(crate) mapping: Option<Mapping>,
}

impl Snapshot {
    /// Pages that are not mapped.
    pub(crate) fn of(image: Image) -> Snapshot {
        Snapshot { image: Arc::new(image), mapping: None }
    }

    /// Returns page `pgno` if it needs no reading. Cost: constant.
    #[inline(always)]
    pub(crate) fn get(&self, pgno: Pgno) -> Option<&[u8]> {
        let Some(mapping) = &self.mapping else { return self.image.get(pgno) };
        let size = self.image.page_size as usize;
        let start = (pgno.get() as usize - 1).checked_mul(size)?;
        if pgno == self.image.lock_page {
            return None;
        }
        mapping.get(start..start + size)
    }

    /// Reads page `pgno`, which is one of the file's.
    #[cold]
    pub(crate) fn load(&self, store: &Inner, pgno: Pgno) -> Result<&[u8], Error> {
        if self.mapping.is_none() {
            return self.image.load(store, pgno);
        }
        // All of them are mapped but the lock's.
        let past = Corrupt::on_page(pgno, "page", "is past the end", u64::from(pgno.get()));
        self.get(pgno).ok_or_else(|| past.into())
    }
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Image {
    /// An image of `file` whose pages are read when they are first asked for.
    pub(crate) fn read(file: &FileState, wal: Option<WalPages>) -> Image {
        // An empty file has page 1 nevertheless.
        let count = file.page_count.max(1) as usize + 1;
        let slots: Box<[_]> = std::iter::repeat_with(OnceLock::new).take(count).collect();
        let image = Image::new(file, Pages::Read(slots), wal);
        if file.page_count == 0 {
            image.keep(Pgno::FIRST, file.first_page().bytes[..].into());
        }
        image
    }

    /// An image of `file` for transactions that map all its pages.
    pub(crate) fn mapped(file: &FileState) -> Image {
        Image::new(file, Pages::Mapped, None)
    }

    fn new(file: &FileState, pages: Pages, wal: Option<WalPages>) -> Image {
        let page_size = file.header.page_size;
        Image {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            page_size,
            lock_page: Pgno::lock_page(page_size),
            pages,
            wal,
            kept: AtomicUsize::new(0),
            table_trees: Trees::default(),
            index_trees: Trees::default(),
        }
    }

    /// The state of the write-ahead log, where there is one.
    pub(crate) fn log_version(&self) -> Option<LogVersion> {
        self.wal.as_ref().map(|wal| wal.version)
    }

    pub(crate) fn is_mapped(&self) -> bool {
        matches!(self.pages, Pages::Mapped)
    }

    /// Pages that this image keeps in memory of its own.
    pub(crate) fn kept(&self) -> usize {
        self.kept.load(Ordering::Relaxed)
    }

    /// Returns page `pgno` if it was read.
    #[inline(always)]
    fn get(&self, pgno: Pgno) -> Option<&[u8]> {
        match &self.pages {
            Pages::Read(slots) => slots.get(pgno.get() as usize)?.get().map(|bytes| &**bytes),
            Pages::Mapped => None,
        }
    }

    fn load(&self, store: &Inner, pgno: Pgno) -> Result<&[u8], Error> {
        let past = || Corrupt::on_page(pgno, "page", "is past the end", u64::from(pgno.get()));
        let mut bytes = vec![0; self.page_size as usize].into_boxed_slice();
        match &self.wal {
            Some(wal) if wal.read(pgno, &mut bytes)? => {}
            // A file that ends inside its last page is read as if zeroes followed, as SQLite does.
            _ => {
                store.file.read_at(&mut bytes, pgno.offset(self.page_size))?;
            }
        }
        if let Some(wal) = &self.wal {
            wal.check_guard(store)?;
        }
        self.keep(pgno, bytes);
        Ok(self.get(pgno).ok_or_else(past)?)
    }

    fn keep(&self, pgno: Pgno, bytes: Box<[u8]>) {
        if let Pages::Read(slots) = &self.pages
            && let Some(slot) = slots.get(pgno.get() as usize)
            && slot.set(bytes).is_ok()
        {
            self.kept.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The image of the state after a commit that changed `pages`; it takes over what did not
    /// change.
    pub(crate) fn advance(self, file: &FileState, pages: &[PageRef]) -> Image {
        let next = Image::read(file, None);
        if let (Pages::Read(old), Pages::Read(slots)) = (self.pages, &next.pages)
            && self.page_size == next.page_size
        {
            for page in pages {
                next.keep(page.pgno, page.bytes[..].into());
            }
            for (slot, old) in slots.iter().zip(old) {
                if let Some(bytes) = old.into_inner()
                    && slot.set(bytes).is_ok()
                {
                    next.kept.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        next
    }

    /// Takes over the pages of the state before, but for those that changed since.
    pub(crate) fn take_over(&self, old: Image, changed: &FxHashSet<Pgno>) {
        let (Pages::Read(old), Pages::Read(slots)) = (old.pages, &self.pages) else { return };
        for (number, (slot, old)) in slots.iter().zip(old).enumerate() {
            let pgno = u32::try_from(number).ok().and_then(Pgno::new);
            if let Some(pgno) = pgno.filter(|pgno| !changed.contains(pgno))
                && pgno != self.lock_page
                && let Some(bytes) = old.into_inner()
                && slot.set(bytes).is_ok()
            {
                self.kept.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Bytes of a page.
    pub(crate) fn page_size(&self) -> u32 {
        self.page_size
    }
}

impl Transaction {
    /// Returns page `pgno` as this transaction sees it.
    ///
    /// Cost: constant for a page that was read before.
    #[inline(always)]
    pub(crate) fn page(&self, pgno: Pgno) -> Result<&[u8], Error> {
        if self.changes.is_none()
            && let Some(bytes) = self.snapshot.get(pgno)
        {
            return Ok(bytes);
        }
        self.find_page(pgno)
    }

    /// Returns the bytes of a page that was read before in this transaction; `None` for any other.
    #[inline(always)]
    pub fn page_bytes(&self, pgno: Pgno) -> Option<&[u8]> {
        match &self.changes {
            None => self.snapshot.get(pgno),
            Some(changes) => changes.get(pgno).or_else(|| self.snapshot.get(pgno)),
        }
    }

    fn find_page(&self, pgno: Pgno) -> Result<&[u8], Error> {
        self.check_pgno(pgno)?;
        if let Some(bytes) = self.changes.as_ref().and_then(|changes| changes.get(pgno)) {
            return Ok(bytes);
        }
        match self.snapshot.get(pgno) {
            Some(bytes) => Ok(bytes),
            None => self.snapshot.load(&self.store, pgno),
        }
    }
}
