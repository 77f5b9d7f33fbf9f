//! Memory for hashes: blocks in the largest pages the machine gives, kept from one hash to
//! the next. The only mmap of the crate.
//!
//! The size of a page decides more than any instruction: a hash reads a random KiB for every one
//! written, and with pages of 4 KiB most of these reads wait for a page table, too.

use std::fmt;
use std::ptr::NonNull;

use crate::block::{BLOCK_BYTES, Block, wipe};

/// The kind of pages an [`Arena`] lies in, from the best on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Pages {
    /// Pages of 1 GiB from the system's own pool (`hugetlbfs`).
    Giant,
    /// Pages of 2 MiB from the system's own pool (`hugetlbfs`).
    Huge,
    /// Ordinary memory, with advice to the system to keep it in pages of 2 MiB. How much does
    /// lie in them, [`Arena::huge_kib`] tells.
    Transparent,
    /// Whatever the system gives.
    Plain,
}

impl Pages {
    /// Every kind, from the best on: the order in which [`Arena::new`] asks.
    pub const ALL: [Self; 4] = [Self::Giant, Self::Huge, Self::Transparent, Self::Plain];

    /// Its name, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Giant => "1 GiB pages",
            Self::Huge => "2 MiB pages",
            Self::Transparent => "transparent huge pages",
            Self::Plain => "plain pages",
        }
    }
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The machine did not give the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no {pages} for this many blocks of 1 KiB: {block_count}")]
#[non_exhaustive]
pub struct Refused {
    /// Blocks asked for.
    pub block_count: u32,
    /// The kind of pages asked for; [`Pages::Plain`] when any kind would have done.
    pub pages: Pages,
}

/// Blocks of memory, to hash in as often as one likes.
///
/// Wiped when dropped, unless the last thing done in it was said to be public. Has no contents to
/// look at.
pub struct Arena {
    memory: system::Memory,
    block_count: u32,
    pages: Pages,
    /// Blocks from the start with possible secrets.
    secret_count: usize,
}

// SAFETY: an arena owns its memory alone; access follows the rules of references.
unsafe impl Send for Arena {}
// SAFETY: as above; a shared arena gives out nothing writable.
unsafe impl Sync for Arena {}

impl Arena {
    /// Takes memory for this many blocks, in the best pages there are.
    ///
    /// The memory is not touched yet: the first hash, or [`Self::populate`], pays for the pages.
    ///
    /// # Errors
    /// [`Refused`] when not even plain pages were given.
    pub fn new(block_count: u32) -> Result<Self, Refused> {
        let refused = Refused { block_count, pages: Pages::Plain };
        Pages::ALL
            .into_iter()
            .filter(|pages| pages.suit(block_count))
            .find_map(|pages| Self::with_pages(block_count, pages).ok())
            .ok_or(refused)
    }

    /// As [`Self::new`], without asking for the system's own pools of huge pages: for memory to be
    /// given back when the system runs short.
    pub(crate) fn from_ordinary_memory(block_count: u32) -> Result<Self, Refused> {
        if Pages::Transparent.suit(block_count)
            && let Ok(arena) = Self::with_pages(block_count, Pages::Transparent)
        {
            return Ok(arena);
        }
        Self::with_pages(block_count, Pages::Plain)
    }

    /// Takes memory for this many blocks, in pages of this kind.
    ///
    /// # Errors
    /// [`Refused`] when the machine has no such pages to give.
    pub fn with_pages(block_count: u32, pages: Pages) -> Result<Self, Refused> {
        let memory = usize::try_from(block_count)
            .ok()
            .and_then(|blocks| blocks.checked_mul(BLOCK_BYTES))
            .and_then(|bytes| system::Memory::new(bytes, pages))
            .ok_or(Refused { block_count, pages })?;
        Ok(Self { memory, block_count, pages, secret_count: 0 })
    }

    /// Touches every page, so that no hash has to wait for one.
    ///
    /// # Errors
    /// [`Refused`] when the machine promised memory and does not have enough.
    pub fn populate(&mut self) -> Result<(), Refused> {
        let Self { block_count, pages, .. } = *self;
        self.memory.populate().then_some(()).ok_or(Refused { block_count, pages })
    }

    /// How many blocks fit.
    pub const fn block_count(&self) -> u32 {
        self.block_count
    }

    /// The kind of pages of this arena.
    pub const fn pages(&self) -> Pages {
        self.pages
    }

    /// KiB of this arena in huge pages at this moment, as the system counts
    /// (`/proc/self/smaps`). `None` where the system does not say.
    ///
    /// Costs a walk over the process's mappings: for a log, not for a loop.
    pub fn huge_kib(&self) -> Option<u64> {
        match self.pages {
            Pages::Giant | Pages::Huge => Some(u64::from(self.block_count)),
            Pages::Transparent | Pages::Plain => self.memory.huge_kib(),
        }
    }

    /// The first `count` blocks, for a hash whose inputs are secret unless `public`.
    ///
    /// # Panics
    /// When there are fewer.
    pub(crate) fn lend(&mut self, count: usize, public: bool) -> &mut [Block] {
        if !public {
            self.secret_count = self.secret_count.max(count);
        }
        &mut self.blocks_mut()[..count]
    }

    /// Wipes possible secrets, at about the speed of memory.
    pub(crate) fn wipe(&mut self) {
        let count = std::mem::take(&mut self.secret_count);
        wipe(&mut self.blocks_mut()[..count]);
    }

    /// Offers the memory to the system while nobody needs it; until taken, the pages stay.
    /// The contents are lost.
    pub(crate) fn offer(&mut self) {
        self.memory.offer();
    }

    fn blocks_mut(&mut self) -> &mut [Block] {
        let start = self.memory.start().cast::<Block>();
        // SAFETY: the memory holds `block_count` blocks (`with_pages`), is aligned to a page or to
        // a block, was zeroed by the system, is this arena's alone, and any bytes are a block.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), self.block_count as usize) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.wipe();
    }
}

impl Pages {
    /// `true` where such pages are worth asking for: little would be taken and not used.
    fn suit(self, block_count: u32) -> bool {
        match self {
            Self::Giant => {
                let whole = u64::from(block_count).next_multiple_of(1 << 20);
                whole - u64::from(block_count) <= whole / 8
            }
            Self::Huge | Self::Transparent => block_count >= 1024,
            Self::Plain => true,
        }
    }
}

/// Memory from Linux.
#[cfg(all(target_os = "linux", not(miri)))]
mod system {
    use super::{NonNull, Pages};

    use std::fs::File;
    use std::io::{BufRead, BufReader};

    const HUGE_BYTES: usize = 2 << 20;
    const GIANT_BYTES: usize = 1 << 30;

    /// A mapping of its own.
    pub(super) struct Memory {
        start: NonNull<u8>,
        bytes: usize,
    }

    impl Memory {
        /// Zeroed memory of at least this many bytes, at least 1, in pages of this kind.
        pub(super) fn new(bytes: usize, pages: Pages) -> Option<Self> {
            let bytes = bytes.max(1);
            let mapped = match pages {
                Pages::Giant => {
                    Self::map(bytes, GIANT_BYTES, libc::MAP_HUGETLB | libc::MAP_HUGE_1GB)?
                }
                Pages::Huge => {
                    Self::map(bytes, HUGE_BYTES, libc::MAP_HUGETLB | libc::MAP_HUGE_2MB)?
                }
                Pages::Transparent => Self::map_aligned(bytes)?,
                Pages::Plain => Self::map(bytes, 4096, 0)?,
            };
            let advice = match pages {
                Pages::Transparent => Some(libc::MADV_HUGEPAGE),
                Pages::Plain => Some(libc::MADV_NOHUGEPAGE),
                Pages::Giant | Pages::Huge => None,
            };
            // Before the first touch: pages already there stay small.
            if let Some(advice) = advice
                && !mapped.advise(advice)
                && pages == Pages::Transparent
            {
                return None;
            }
            // A crash must not write secrets to a disk.
            mapped.advise(libc::MADV_DONTDUMP);
            Some(mapped)
        }

        fn map(bytes: usize, page_bytes: usize, flags: libc::c_int) -> Option<Self> {
            let bytes = bytes.checked_next_multiple_of(page_bytes)?;
            if bytes > isize::MAX as usize {
                return None;
            }
            // SAFETY: a new private mapping of no file, wherever the system likes: nothing that
            // exists is changed.
            let start = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    bytes,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags,
                    -1,
                    0,
                )
            };
            if start == libc::MAP_FAILED {
                return None;
            }
            NonNull::new(start.cast()).map(|start| Self { start, bytes })
        }

        /// A mapping aligned to a huge page: a mapping too long, cut on both sides.
        fn map_aligned(bytes: usize) -> Option<Self> {
            let bytes = bytes.checked_next_multiple_of(HUGE_BYTES)?;
            let long = Self::map(bytes.checked_add(HUGE_BYTES)?, HUGE_BYTES, 0)?;
            let before = long.start.as_ptr().align_offset(HUGE_BYTES);
            let (start, long_bytes) = (long.start, long.bytes);
            std::mem::forget(long);
            let after = long_bytes - before - bytes;
            // SAFETY: `before + bytes + after` bytes are mapped from `start`, and the two ends
            // that are given back are never used again.
            unsafe {
                if before > 0 {
                    libc::munmap(start.as_ptr().cast(), before);
                }
                let start = start.add(before);
                if after > 0 {
                    libc::munmap(start.add(bytes).as_ptr().cast(), after);
                }
                Some(Self { start, bytes })
            }
        }

        pub(super) fn start(&self) -> NonNull<u8> {
            self.start
        }

        pub(super) fn populate(&mut self) -> bool {
            if self.advise(libc::MADV_POPULATE_WRITE) {
                return true;
            }
            let refused = std::io::Error::last_os_error().raw_os_error();
            if refused != Some(libc::EINVAL) {
                return false;
            }
            // Before Linux 5.14: by hand.
            for at in (0..self.bytes).step_by(4096) {
                // SAFETY: within the mapping, which is exclusively borrowed; the value stays.
                unsafe {
                    let byte = self.start.as_ptr().add(at);
                    byte.write_volatile(byte.read_volatile());
                }
            }
            true
        }

        pub(super) fn offer(&mut self) {
            self.advise(libc::MADV_FREE);
        }

        /// The `AnonHugePages` of all mappings with this memory.
        pub(super) fn huge_kib(&self) -> Option<u64> {
            let start = self.start.as_ptr() as usize;
            let end = start + self.bytes;
            let mut inside = false;
            let mut kib = 0;
            for line in BufReader::new(File::open("/proc/self/smaps").ok()?).lines() {
                let line = line.ok()?;
                let mut words = line.split_ascii_whitespace();
                let head = words.next()?;
                if let Some((from, to)) = head.split_once('-')
                    && let Ok(from) = usize::from_str_radix(from, 16)
                    && let Ok(to) = usize::from_str_radix(to, 16)
                {
                    inside = from < end && start < to;
                } else if inside && head == "AnonHugePages:" {
                    kib += words.next()?.parse::<u64>().ok()?;
                }
            }
            // Neighbours may share a mapping.
            Some(kib.min(self.bytes as u64 / 1024))
        }

        fn advise(&self, advice: libc::c_int) -> bool {
            // SAFETY: the range is this mapping; no advice that is given here changes what valid
            // references see, but MADV_FREE, which `offer` gives, whose borrow is exclusive.
            unsafe { libc::madvise(self.start.as_ptr().cast(), self.bytes, advice) == 0 }
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            // SAFETY: mapped by `map`, and nobody has a reference any more.
            unsafe {
                libc::munmap(self.start.as_ptr().cast(), self.bytes);
            }
        }
    }
}

/// Memory from the allocator, where nothing better is known.
#[cfg(not(all(target_os = "linux", not(miri))))]
mod system {
    use super::{Block, NonNull, Pages};

    use std::alloc::{Layout, alloc_zeroed, dealloc};

    /// An allocation of its own.
    pub(super) struct Memory {
        start: NonNull<u8>,
        layout: Layout,
    }

    impl Memory {
        /// Zeroed memory of at least this many bytes, at least 1.
        pub(super) fn new(bytes: usize, pages: Pages) -> Option<Self> {
            if pages != Pages::Plain {
                return None;
            }
            let layout = Layout::from_size_align(bytes.max(1), align_of::<Block>()).ok()?;
            // SAFETY: the layout has at least one byte.
            NonNull::new(unsafe { alloc_zeroed(layout) }).map(|start| Self { start, layout })
        }

        pub(super) fn start(&self) -> NonNull<u8> {
            self.start
        }

        pub(super) fn populate(&mut self) -> bool {
            true
        }

        pub(super) fn offer(&mut self) {}

        pub(super) fn huge_kib(&self) -> Option<u64> {
            None
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            // SAFETY: allocated with this layout, and nobody has a reference any more.
            unsafe { dealloc(self.start.as_ptr(), self.layout) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::block::BLOCK_WORDS;

    /// Every kind is either given, zeroed and usable to its end, or refused with an error.
    #[test]
    fn every_kind_of_pages_is_given_or_refused() {
        let block_count = if cfg!(miri) { 8 } else { 4096 };
        let mut given = Vec::new();
        for pages in Pages::ALL {
            match Arena::with_pages(block_count, pages) {
                Ok(mut arena) => {
                    arena.populate().unwrap();
                    assert_eq!((arena.pages(), arena.block_count()), (pages, block_count));
                    let blocks = arena.lend(block_count as usize, false);
                    assert!(blocks.iter().all(|block| *block == Block::ZERO));
                    blocks[block_count as usize - 1].words_mut()[BLOCK_WORDS - 1] = 1;
                    arena.wipe();
                    assert!(arena.blocks_mut().iter().all(|block| *block == Block::ZERO));
                    println!("{pages}: {:?} KiB in huge pages", arena.huge_kib());
                    given.push(pages);
                }
                Err(refused) => assert_eq!(refused, Refused { block_count, pages }),
            }
        }
        println!("given: {given:?}");
        assert!(given.contains(&Pages::Plain));
    }

    #[test]
    fn plain_pages_are_not_huge() {
        let mut arena = Arena::with_pages(8, Pages::Plain).unwrap();
        arena.populate().unwrap();
        assert!(arena.huge_kib().is_none_or(|kib| kib == 0));
    }

    #[test]
    #[cfg(not(miri))]
    fn more_than_there_can_be_is_refused() {
        for pages in Pages::ALL {
            let refused = Arena::with_pages(u32::MAX, pages).err();
            // 4 TiB: some systems promise even that, as long as nobody touches it.
            if let Some(refused) = refused {
                assert_eq!(refused.pages, pages);
            }
        }
        let message = Refused { block_count: 7, pages: Pages::Huge }.to_string();
        assert_eq!(message, "no 2 MiB pages for this many blocks of 1 KiB: 7");
    }

    /// The memory the system gets back, seen just before.
    #[test]
    fn secret_blocks_are_wiped_and_public_ones_left() {
        for public in [false, true] {
            let mut arena = Arena::new(16).unwrap();
            for block in arena.lend(16, public) {
                block.words_mut()[127] = 1;
            }
            arena.wipe();
            let wiped = arena.blocks_mut().iter().all(|block| *block == Block::ZERO);
            assert_eq!(wiped, !public);
        }
    }

    /// A public hash does not make an earlier secret public.
    #[test]
    fn a_secret_stays_one_until_it_is_wiped() {
        let mut arena = Arena::new(16).unwrap();
        arena.lend(16, false)[15].words_mut()[0] = 1;
        arena.lend(8, true);
        arena.wipe();
        assert_eq!(arena.blocks_mut()[15], Block::ZERO);
    }
}
