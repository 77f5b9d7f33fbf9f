//! Taking pages from the freelist and giving them back.

use shoal_format::freelist::Trunk;
use shoal_format::{Corrupt, Pgno};

use crate::{Error, SecureDelete, Transaction};

impl Transaction {
    /// Returns a page to be written: one from the freelist, or a new one at the end of the file.
    /// Its content is zeroes.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the freelist is; [`Error::Limit`].
    pub(crate) fn allocate(&mut self) -> Result<Pgno, Error> {
        let pgno = self.allocate_unwritten()?;
        self.rewrite(pgno, true, |_| Ok(()))?;
        Ok(pgno)
    }

    /// As [`Transaction::allocate`], for a caller writing the whole page next.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn allocate_unwritten(&mut self) -> Result<Pgno, Error> {
        match self.file.header.freelist_count {
            0 => self.extend(),
            _ => self.take_free(),
        }
    }

    /// A new page at the end of the file, behind the page of the lock bytes or one of the pointer
    /// map where these are next.
    pub(crate) fn extend(&mut self) -> Result<Pgno, Error> {
        let lock_page = Pgno::lock_page(self.file.header.page_size).get();
        let mut number = self.file.page_count.saturating_add(1);
        loop {
            if number == lock_page {
                number += 1;
            } else if let Some(map) = Pgno::new(number).filter(|page| self.is_apart(*page)) {
                self.file.page_count = number;
                self.rewrite(map, true, |_| Ok(()))?;
                number = number.saturating_add(1);
            } else {
                break;
            }
        }
        if number > Pgno::MAX {
            return Err(Error::Limit { what: "page count", max: u64::from(Pgno::MAX) });
        }
        self.file.page_count = number;
        Ok(Pgno::new(number).expect("it is 1 more than a count"))
    }

    fn take_free(&mut self) -> Result<Pgno, Error> {
        let count = self.file.header.freelist_count;
        let head = self.file.header.freelist_trunk.ok_or_else(|| {
            Corrupt::new("file header", "lacks the freelist's trunk, pages", u64::from(count))
        })?;
        self.check_free(head)?;
        let trunk = Trunk::new(self.page(head)?, head, self.usable())?;
        let (next, leaves) = (trunk.next, trunk.leaf_count());
        let pgno = match leaves {
            0 => {
                self.file.header.freelist_trunk = next;
                head
            }
            leaves => {
                let leaf = trunk.leaf(leaves - 1)?;
                self.check_free(leaf)?;
                if leaf == head {
                    let why = "lists itself as free, leaf";
                    return Err(Corrupt::on_page(head, "freelist trunk", why, 0).into());
                }
                Trunk::set_count(self.edit(head)?, leaves - 1);
                leaf
            }
        };
        self.file.header.freelist_count = count - 1;
        Ok(pgno)
    }

    /// Puts page `pgno` on the freelist.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when `pgno` cannot be a free page or the freelist is corrupt.
    pub(crate) fn release_page(&mut self, pgno: Pgno) -> Result<(), Error> {
        self.check_free(pgno)?;
        let count = self.file.header.freelist_count.checked_add(1).ok_or_else(|| {
            Corrupt::new("file header", "has too many free pages", u64::from(u32::MAX))
        })?;
        let usable = self.usable();
        if let Some(head) = self.file.header.freelist_trunk {
            self.check_free(head)?;
            let leaves = Trunk::new(self.page(head)?, head, usable)?.leaf_count();
            if leaves < Trunk::max_written(usable) {
                Trunk::push(self.edit(head)?, leaves, pgno);
                self.file.header.freelist_count = count;
                let wipes = self.secure_delete() == SecureDelete::On;
                let changes = self.changes_mut()?;
                if pgno.get() <= changes.original.page_count && !wipes {
                    changes.forget(pgno);
                } else {
                    // The file must grow to where this page is, or hold zeroes there.
                    self.rewrite(pgno, true, |_| Ok(()))?;
                }
                return Ok(());
            }
        }
        let next = self.file.header.freelist_trunk;
        self.rewrite(pgno, false, |bytes| {
            Trunk::write(&mut bytes[..usable], next);
            Ok(())
        })?;
        self.file.header.freelist_trunk = Some(pgno);
        self.file.header.freelist_count = count;
        Ok(())
    }

    /// An error when `pgno` cannot be a free page.
    pub(crate) fn check_free(&self, pgno: Pgno) -> Result<(), Error> {
        if self.is_apart(pgno) {
            let at = u64::from(pgno.get());
            return Err(Corrupt::on_page(pgno, "freelist", "has the pointer map's page", at).into());
        }
        if pgno == Pgno::FIRST {
            return Err(Corrupt::on_page(pgno, "freelist", "contains page", 1).into());
        }
        self.check_pgno(pgno)
    }
}
