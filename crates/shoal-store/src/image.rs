//! The pages of one state of the file, as slices with stable addresses.
//!
//! An image belongs to a state: when the file changes, the next transaction has another image. So a
//! page is read once, never moves, and is borrowed for as long as a transaction holds the image: no
//! copies, no counting of references. Pages are read one by one into memory of their own, or the
//! file is mapped as a whole ([`shoal_vfs::File::map`] lists the guarantees behind a mapping).
//!
//! The image stays from one transaction to the next as long as the file is in its state. A mapping
//! keeps the lock and therefore belongs to the transactions, each of which has a [`Snapshot`]: the
//! image, and the mapping where there is one. With a write-ahead log the snapshot also tells where
//! pages missing from the image are read: the places may change while the state does not.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustc_hash::FxHashMap;
use shoal_format::{Corrupt, Pgno};
use shoal_vfs::Mapping;

use crate::header::FileState;
use crate::index_tree::IndexTree;
use crate::lookup::TableTree;
use crate::page::PageRef;
use crate::store::Inner;
use crate::wal::{LogVersion, LogView};
use crate::{Error, Transaction};

/// Pages of one state of the file.
#[derive(Debug)]
pub(crate) struct Image {
    /// No two images of a process have the same.
    pub(crate) id: u64,
    page_size: u32,
    lock_page: Pgno,
    pages: Pages,
    /// Pages read so far.
    kept: AtomicUsize,
    /// The steps that led to this state from earlier ones, the latest last.
    steps: VecDeque<Step>,
    pub(crate) table_trees: Trees<TableTree>,
    pub(crate) index_trees: Trees<IndexTree>,
}

/// One step between states: commits of these pages.
#[derive(Clone, Debug)]
struct Step {
    /// The number of the state before.
    from: u64,
    pages: Box<[Pgno]>,
}

/// Steps known to an image, and the pages of all of them together.
const STEPS_MAX: usize = 256;
const STEP_PAGES_MAX: usize = 1 << 16;

/// Structures derived from the trees of one image, by root; `None` for a tree with a fault.
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
    /// The structure of the tree at `root`; `build` makes one at the first call.
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
    Read(Vec<Slot>),
    /// In the mapping of the asking transaction.
    Mapped,
}

/// A page's place in an image.
#[derive(Debug, Default)]
struct Slot {
    bytes: OnceLock<Arc<[u8]>>,
    /// True for a page of a b-tree that was checked as a whole, changes of this process included.
    is_checked: AtomicBool,
}

impl Clone for Slot {
    fn clone(&self) -> Slot {
        let is_checked = AtomicBool::new(self.is_checked.load(Ordering::Relaxed));
        Slot { bytes: self.bytes.clone(), is_checked }
    }
}

/// The pages readable by one transaction.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) image: Arc<Image>,
    /// `Some` exactly where the image is of mapped pages.
    pub(crate) mapping: Option<Mapping>,
    /// `Some` exactly where the file is in write-ahead log mode.
    pub(crate) log: Option<LogView>,
    /// How many commits the store had seen when the snapshot was taken.
    pub(crate) counts: Counts,
}

/// Commits as one store sees them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Its own.
    pub(crate) own: u64,
    /// How often the store found the file in a state made by another.
    pub(crate) others: u64,
}

impl Snapshot {
    /// A snapshot without mapping and without log.
    pub(crate) fn of(image: Image) -> Snapshot {
        Snapshot { image: Arc::new(image), mapping: None, log: None, counts: Counts::default() }
    }

    /// The state of the write-ahead log, where there is one.
    pub(crate) fn log_version(&self) -> Option<LogVersion> {
        self.log.as_ref().map(|log| log.version)
    }

    /// Returns page `pgno` if already in memory. Cost: constant.
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

    /// True for a page of a b-tree that is known to be whole.
    pub(crate) fn is_checked(&self, pgno: Pgno) -> bool {
        match &self.image.pages {
            Pages::Read(slots) => slots
                .get(pgno.get() as usize)
                .is_some_and(|slot| slot.is_checked.load(Ordering::Relaxed)),
            Pages::Mapped => false,
        }
    }

    /// Notes that a page of a b-tree is whole.
    pub(crate) fn note_checked(&self, pgno: Pgno) {
        if let Pages::Read(slots) = &self.image.pages
            && let Some(slot) = slots.get(pgno.get() as usize)
        {
            slot.is_checked.store(true, Ordering::Relaxed);
        }
    }

    /// Reads page `pgno`, a page of the file.
    #[cold]
    pub(crate) fn load(&self, store: &Inner, pgno: Pgno) -> Result<&[u8], Error> {
        if self.mapping.is_none() {
            return self.image.load(store, self.log.as_ref(), pgno);
        }
        // Every page of the file is mapped, except for the page of the lock bytes.
        let past = Corrupt::on_page(pgno, "page", "is past the end", u64::from(pgno.get()));
        self.get(pgno).ok_or_else(|| past.into())
    }
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Image {
    /// An image of `file` whose pages are read when they are first asked for.
    pub(crate) fn read(file: &FileState) -> Image {
        let mut slots = Vec::new();
        slots.resize_with(slot_count(file), Slot::default);
        let image = Image::new(file, Pages::Read(slots));
        if file.page_count == 0 {
            image.keep(Pgno::FIRST, file.first_page().bytes);
        }
        image
    }

    /// An image of `file` for transactions mapping all its pages.
    pub(crate) fn mapped(file: &FileState) -> Image {
        Image::new(file, Pages::Mapped)
    }

    fn new(file: &FileState, pages: Pages) -> Image {
        let page_size = file.header.page_size;
        Image {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            page_size,
            lock_page: Pgno::lock_page(page_size),
            pages,
            kept: AtomicUsize::new(0),
            steps: VecDeque::new(),
            table_trees: Trees::default(),
            index_trees: Trees::default(),
        }
    }

    /// The pages that commits changed since the state numbered `from`; `None` where the steps from
    /// there are not known.
    pub(crate) fn changed_since(&self, from: u64) -> Option<Vec<Pgno>> {
        let mut pages = Vec::new();
        if from == self.id {
            return Some(pages);
        }
        for step in self.steps.iter().rev() {
            pages.extend_from_slice(&step.pages);
            if step.from == from {
                return Some(pages);
            }
        }
        None
    }

    /// Notes the step that led here from the state `from`, behind the steps that led there.
    fn add_step(&mut self, mut steps: VecDeque<Step>, from: u64, pages: Box<[Pgno]>) {
        steps.push_back(Step { from, pages });
        let mut count: usize = steps.iter().map(|step| step.pages.len()).sum();
        while steps.len() > STEPS_MAX || count > STEP_PAGES_MAX {
            let Some(step) = steps.pop_front() else { break };
            count -= step.pages.len();
        }
        self.steps = steps;
    }

    pub(crate) fn is_mapped(&self) -> bool {
        matches!(self.pages, Pages::Mapped)
    }

    /// Number of pages this image keeps in memory of its own.
    pub(crate) fn kept(&self) -> usize {
        self.kept.load(Ordering::Relaxed)
    }

    /// Returns page `pgno` if already read.
    #[inline(always)]
    fn get(&self, pgno: Pgno) -> Option<&[u8]> {
        match &self.pages {
            Pages::Read(slots) => slots.get(pgno.get() as usize)?.bytes.get().map(|it| &**it),
            Pages::Mapped => None,
        }
    }

    fn load(&self, store: &Inner, log: Option<&LogView>, pgno: Pgno) -> Result<&[u8], Error> {
        let past = || Corrupt::on_page(pgno, "page", "is past the end", u64::from(pgno.get()));
        let mut page: Arc<[u8]> = std::iter::repeat_n(0, self.page_size as usize).collect();
        let bytes = Arc::get_mut(&mut page).expect("nobody else has seen it");
        match log {
            Some(log) if log.read(pgno, bytes)? => {}
            // A file ending inside its last page is read as if zeroes followed, as SQLite does.
            _ => {
                store.file.read_at(bytes, pgno.offset(self.page_size))?;
            }
        }
        if let Some(log) = log {
            log.check_guard(store)?;
        }
        store.decode(pgno, bytes)?;
        self.keep(pgno, page);
        Ok(self.get(pgno).ok_or_else(past)?)
    }

    fn keep(&self, pgno: Pgno, bytes: Arc<[u8]>) {
        if let Pages::Read(slots) = &self.pages
            && let Some(slot) = slots.get(pgno.get() as usize)
            && slot.bytes.set(bytes).is_ok()
        {
            self.kept.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The image of a later state: the pages in `changed` are dropped, all others kept.
    ///
    /// Cost: proportional to the pages changed, unless older transactions still hold `before`; then
    /// to the pages kept.
    pub(crate) fn after(
        before: Arc<Image>,
        file: &FileState,
        changed: impl Iterator<Item = Pgno>,
    ) -> Image {
        Image::next(before, file, changed, false)
    }

    /// As [`Image::after`]; `own` for changes of this process, after which a checked page is one
    /// still.
    fn next(
        before: Arc<Image>,
        file: &FileState,
        changed: impl Iterator<Item = Pgno>,
        own: bool,
    ) -> Image {
        if before.page_size != file.header.page_size || before.is_mapped() {
            return Image::read(file);
        }
        let (mut kept, from) = (before.kept(), before.id);
        let (pages, steps) = match Arc::try_unwrap(before) {
            Ok(Image { pages, steps, .. }) => (pages, steps),
            Err(shared) => match &shared.pages {
                Pages::Read(slots) => (Pages::Read(slots.clone()), shared.steps.clone()),
                Pages::Mapped => return Image::read(file),
            },
        };
        let changed: Box<[Pgno]> = changed.collect();
        let mut image = Image::new(file, pages);
        if let Pages::Read(slots) = &mut image.pages {
            let count = slot_count(file);
            let cut = slots.get(count..).unwrap_or_default();
            kept -= cut.iter().filter(|slot| slot.bytes.get().is_some()).count();
            slots.resize_with(count, Slot::default);
            for pgno in &changed {
                let Some(slot) = slots.get_mut(pgno.get() as usize) else { continue };
                kept -= usize::from(slot.bytes.take().is_some());
                if !own {
                    slot.is_checked = AtomicBool::new(false);
                }
            }
        }
        image.kept = AtomicUsize::new(kept);
        image.add_step(steps, from, changed);
        image
    }

    /// As [`Image::after`], for a commit of `pages`. Pages coded on their way have the reserved
    /// bytes of their `stored` forms from here on.
    pub(crate) fn after_commit(
        before: Arc<Image>,
        file: &FileState,
        pages: &[PageRef],
        stored: &[Arc<[u8]>],
    ) -> Image {
        let image = Image::next(before, file, pages.iter().map(|page| page.pgno), true);
        let usable = file.header.usable();
        for (place, page) in pages.iter().enumerate() {
            let bytes = match stored.get(place) {
                None => Arc::clone(&page.bytes),
                Some(stored) if stored.len() == page.bytes.len() && usable < stored.len() => {
                    let mut bytes: Arc<[u8]> = Arc::from(&*page.bytes);
                    let target = Arc::get_mut(&mut bytes).expect("nobody else has seen it");
                    target[usable..].copy_from_slice(&stored[usable..]);
                    bytes
                }
                Some(_) => continue,
            };
            image.keep(page.pgno, bytes);
        }
        image
    }
}

/// Places for all pages of a file and the empty one before them. An empty file has page 1
/// nevertheless.
fn slot_count(file: &FileState) -> usize {
    file.page_count.max(1) as usize + 1
}

impl Transaction {
    /// Returns page `pgno` in this transaction's state.
    ///
    /// Cost: constant for a page read before.
    #[inline(always)]
    pub(crate) fn page(&self, pgno: Pgno) -> Result<&[u8], Error> {
        if self.changes.is_none()
            && let Some(bytes) = self.snapshot.get(pgno)
        {
            return Ok(bytes);
        }
        self.find_page(pgno)
    }

    /// Returns the bytes of a page already read in this transaction; `None` for any other.
    #[inline(always)]
    pub fn page_bytes(&self, pgno: Pgno) -> Option<&[u8]> {
        match &self.changes {
            None => self.snapshot.get(pgno),
            Some(changes) => changes.get(pgno).or_else(|| self.snapshot.get(pgno)),
        }
    }

    /// A page changed by this transaction, one in memory, or one still to be read.
    #[inline]
    fn find_page(&self, pgno: Pgno) -> Result<&[u8], Error> {
        if pgno.get() <= self.file.page_count {
            let changed = self.changes.as_ref().and_then(|changes| changes.get(pgno));
            if let Some(bytes) = changed.or_else(|| self.snapshot.get(pgno)) {
                return Ok(bytes);
            }
        }
        self.load_page(pgno)
    }

    /// A page not in memory, page 1 of an empty file, or none.
    #[cold]
    fn load_page(&self, pgno: Pgno) -> Result<&[u8], Error> {
        self.check_pgno(pgno)?;
        match self.snapshot.get(pgno) {
            Some(bytes) => Ok(bytes),
            None => self.snapshot.load(&self.store, pgno),
        }
    }
}
