//! Pages of one commit made ready to be stored, bound to one another by a seal.
//!
//! A tag vouches for a page, and an older version of the page has a tag as good. So page 1 keeps a
//! sum over all pages of the file, of which only the codec can make the terms: a page of an earlier
//! state of the file, beside newer ones, changes the sum. Each commit takes the terms of the pages
//! it overwrites off, and adds those of the pages it writes. A look at all pages finds the
//! difference: `PRAGMA integrity_check` has one, and so has the undoing of a crashed transaction.

use std::sync::Arc;

use shoal_format::Pgno;

use super::Fault;
use crate::header::FileState;
use crate::image::Snapshot;
use crate::page::PageRef;
use crate::store::Inner;
use crate::{Error, Transaction};

/// The state of a sealed file, as page 1 keeps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seal {
    /// The number of the commit, counted from 1.
    pub generation: u64,
    /// The sum of the terms of all pages but page 1, modulo 2^128.
    pub sum: u128,
}

impl Transaction {
    /// The stored forms of changed pages, in their order; none without a codec.
    pub(crate) fn stored_pages(
        &self,
        pages: &[PageRef],
        original: &FileState,
    ) -> Result<Vec<Arc<[u8]>>, Error> {
        let store = &*self.store;
        let Some(codec) = store.codec() else { return Ok(Vec::new()) };
        let refused = |pgno| move |refused| store.refused(pgno, refused);
        let resized = original.header.page_size != self.file.header.page_size;
        let base = match original.page_count {
            0 => codec.seal(&[]),
            _ => match codec.own_pages() {
                0 => None,
                _ => codec.seal(self.snapshot.first_page(store)?),
            },
        };
        let mut seal = base;
        if let Some(seal) = seal.as_mut() {
            seal.generation += 1;
            if resized || original.page_count == 0 {
                seal.sum = 0;
            } else {
                let gone = (self.file.page_count + 1..=original.page_count).filter_map(Pgno::new);
                let written = pages.iter().map(|page| page.pgno);
                let written = written
                    .filter(|pgno| pgno.get() <= original.page_count.min(self.file.page_count));
                let mut old = vec![0; original.header.page_size as usize];
                let lock_page = Pgno::lock_page(original.header.page_size);
                for pgno in written.chain(gone) {
                    if pgno != Pgno::FIRST && pgno != lock_page {
                        self.snapshot.read_stored(store, pgno, &mut old)?;
                        seal.sum = seal.sum.wrapping_sub(codec.term(pgno, &old));
                    }
                }
            }
        }
        let mut stored = Vec::with_capacity(pages.len());
        for page in pages {
            let mut bytes: Arc<[u8]> = Arc::from(&*page.bytes);
            let own = page.pgno != Pgno::FIRST && page.pgno.get() <= codec.own_pages() + 1;
            if page.pgno != Pgno::FIRST && !own {
                let target = Arc::get_mut(&mut bytes).expect("nobody else has seen it");
                match &seal {
                    Some(seal) => codec.encode_sealed(seal, page.pgno, target),
                    None => codec.encode(page.pgno, target),
                }
                .map_err(refused(page.pgno))?;
            }
            if let Some(seal) = seal.as_mut()
                && page.pgno != Pgno::FIRST
                && page.pgno.get() <= self.file.page_count
            {
                seal.sum = seal.sum.wrapping_add(codec.term(page.pgno, &bytes));
            }
            stored.push(bytes);
        }
        if let Some(place) = pages.iter().position(|page| page.pgno == Pgno::FIRST) {
            let bytes = Arc::get_mut(&mut stored[place]).expect("nobody else has seen it");
            match &seal {
                Some(seal) => codec.encode_sealed(seal, Pgno::FIRST, bytes),
                None => codec.encode(Pgno::FIRST, bytes),
            }
            .map_err(refused(Pgno::FIRST))?;
            store.check_shape(&pages[place].bytes, bytes)?;
        } else if seal.is_some() {
            return Err(Error::Misuse("a commit of a sealed file leaves page 1 as it was"));
        }
        Ok(stored)
    }

    /// True where every commit writes page 1: the codec seals commits.
    pub(crate) fn seals(&self) -> bool {
        self.store.own_pages() > 0
    }

    /// True for a file whose pages are all of the state that page 1 vouches for; true also where
    /// nothing vouches for anything. Cost: every page is read once.
    ///
    /// # Errors
    /// [`Error::Vfs`]; those of page 1.
    pub fn is_whole(&self) -> Result<bool, Error> {
        self.snapshot.is_whole(&self.store, &self.file)
    }

    /// Replaces the content of one of the codec's own pages.
    ///
    /// # Errors
    /// [`Error::Misuse`] for any other page and for another length.
    pub fn write_own_page(&mut self, pgno: Pgno, content: &[u8]) -> Result<(), Error> {
        let own = pgno != Pgno::FIRST && pgno.get() <= self.store.own_pages() + 1;
        if !own || content.len() != self.file.header.page_size as usize {
            return Err(Error::Misuse("a page of the codec's was to be written elsewhere"));
        }
        self.change(|txn| {
            txn.edit(Pgno::FIRST)?;
            txn.rewrite(pgno, true, |bytes| {
                bytes.copy_from_slice(content);
                Ok(())
            })
        })
    }

    /// Has the commit store page `pgno` again, unchanged.
    ///
    /// # Errors
    /// [`Error::Misuse`] when the transaction may not write; those of the page.
    pub fn store_again(&mut self, pgno: Pgno) -> Result<(), Error> {
        self.change(|txn| txn.edit(pgno).map(drop))
    }

    /// The bytes of a page, whatever it holds.
    ///
    /// # Errors
    /// As for reading any page.
    pub fn raw_page(&self, pgno: Pgno) -> Result<&[u8], Error> {
        self.page(pgno)
    }

    /// Reads a page in its stored form, as it was when the transaction began.
    ///
    /// # Errors
    /// [`Error::Vfs`]; [`Error::Busy`] where somebody begins to write meanwhile.
    pub fn stored_page(&self, pgno: Pgno) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; self.file.header.page_size as usize];
        self.snapshot.read_stored(&self.store, pgno, &mut bytes)?;
        Ok(bytes)
    }
}

impl Inner {
    /// The stored form of a page 1 that vouches for the same pages as `page` did.
    pub(crate) fn encode_first(&self, page: &mut [u8]) -> Result<(), Error> {
        let Some(codec) = self.codec() else { return Ok(()) };
        let plain = page.to_vec();
        match codec.seal(page) {
            Some(seal) => codec.encode_sealed(&seal, Pgno::FIRST, page),
            None => codec.encode(Pgno::FIRST, page),
        }
        .map_err(|refused| self.refused(Pgno::FIRST, refused))?;
        self.check_shape(&plain, page)
    }
}

impl Snapshot {
    /// As [`Transaction::is_whole`].
    pub(crate) fn is_whole(&self, store: &Inner, file: &FileState) -> Result<bool, Error> {
        let Some(codec) = store.codec().filter(|codec| codec.own_pages() > 0) else {
            return Ok(true);
        };
        if file.page_count == 0 {
            return Ok(true);
        }
        let Some(seal) = codec.seal(self.first_page(store)?) else { return Ok(true) };
        let mut bytes = vec![0; file.header.page_size as usize];
        let lock_page = Pgno::lock_page(file.header.page_size);
        let mut sum = 0_u128;
        for pgno in (2..=file.page_count).filter_map(Pgno::new).filter(|pgno| *pgno != lock_page) {
            self.read_stored(store, pgno, &mut bytes)?;
            sum = sum.wrapping_add(codec.term(pgno, &bytes));
        }
        Ok(sum == seal.sum)
    }

    /// An error unless all pages are of the state that page 1 vouches for.
    pub(crate) fn check_whole(&self, store: &Inner, file: &FileState) -> Result<(), Error> {
        match self.is_whole(store, file)? {
            true => Ok(()),
            false => {
                let why = "vouches for other versions of the pages than the file has";
                let refused = super::Refused::new(Fault::Old, why);
                Err(store.refused(Pgno::FIRST, refused))
            }
        }
    }

    /// Page 1 in its plain form.
    fn first_page(&self, store: &Inner) -> Result<&[u8], Error> {
        match self.get(Pgno::FIRST) {
            Some(bytes) => Ok(bytes),
            None => self.load(store, Pgno::FIRST),
        }
    }

    /// Reads a page in its stored form.
    pub(crate) fn read_stored(
        &self,
        store: &Inner,
        pgno: Pgno,
        bytes: &mut [u8],
    ) -> Result<(), Error> {
        match &self.log {
            Some(log) if log.read(pgno, bytes)? => {}
            _ => {
                let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                let length = store.file.read_at(bytes, pgno.offset(size))?;
                bytes[length..].fill(0);
            }
        }
        self.log.as_ref().map_or(Ok(()), |log| log.check_guard(store))
    }
}
