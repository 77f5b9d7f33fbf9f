//! The whole content of a file replaced by another's, as the end of `VACUUM`.

use std::path::Path;
use std::sync::Arc;

use shoal_format::{FileHeader, Pgno};
use shoal_vfs::MemVfs;

use crate::page::PageRef;
use crate::settings::AutoVacuum;
use crate::{Access, Error, Options, Store, Transaction};

impl Store {
    /// A new, empty database in memory, whose first transaction makes pages as `header` says: of
    /// the same size, reserved bytes, encoding of text and auto-vacuum.
    ///
    /// The pages of this store's codec are left out as in this store.
    pub fn memory_like(&self, header: &FileHeader) -> Store {
        let codec = self.inner.codec().cloned();
        let options = Options { codec, ..Options::new(Access::Create) };
        let store = Store::open_with(Arc::new(MemVfs::new()), Path::new(":memory:"), options)
            .expect("an empty file in memory opens");
        let mut settings = store.settings();
        settings.new_file.page_size = Some(header.page_size);
        settings.new_file.reserved = header.reserved;
        settings.new_file.text_encoding = header.text_encoding;
        settings.new_file.auto_vacuum = Some(AutoVacuum::of(header));
        store.set_settings(settings);
        store
    }
}

impl Transaction {
    /// Takes the applications' numbers from another database's header, and the number of its
    /// schema, counted as changed.
    ///
    /// # Errors
    /// [`Error::Misuse`] when the transaction may not write.
    pub fn take_numbers(&mut self, from: &Transaction) -> Result<(), Error> {
        let from = from.file.header;
        self.change_header(|header| {
            header.schema_cookie = from.schema_cookie.wrapping_add(1);
            header.default_cache_size = from.default_cache_size;
            header.user_version = from.user_version;
            header.application_id = from.application_id;
        })
    }

    /// Puts everything written by `other`, into a database without pages before, in the place of
    /// everything in this file. The counters and the applications' numbers of the header stay, the
    /// schema counts as changed, and the commit cuts the file to its new length.
    ///
    /// Memory: the new pages, as `other` has them, and no copy.
    ///
    /// # Errors
    /// [`Error::Misuse`] when one of the transactions may not write, `other` began with pages, this
    /// one has a savepoint or changes, or a file with a write-ahead log would get pages of another
    /// size.
    pub fn replace_by(&mut self, mut other: Transaction) -> Result<(), Error> {
        let misuse = |what| Err(Error::Misuse(what));
        let old = self.file.header;
        if self.snapshot.log.is_some() && old.page_size != other.file.header.page_size {
            return misuse("a file with a write-ahead log was to get pages of another size");
        }
        other.update_pointer_map()?;
        let page_count = other.file.page_count;
        let written = other.changes_mut()?;
        if written.original.page_count != 0 || written.has_failed() {
            return misuse("a copy was to replace a file and is not whole");
        }
        let mut pages = written.pages();
        if pages.len() as u64 != u64::from(page_count) - u64::from(is_past_lock(&other)) {
            return misuse("a copy was to replace a file and lacks pages");
        }
        if !self.changes_mut()?.is_empty() {
            return misuse("a file was to be replaced after it was changed");
        }
        self.keep_own_pages(&mut pages, other.file.header.page_size)?;
        self.file.header = FileHeader {
            write_version: old.write_version,
            read_version: old.read_version,
            change_counter: old.change_counter,
            schema_cookie: old.schema_cookie.wrapping_add(1),
            default_cache_size: old.default_cache_size,
            user_version: old.user_version,
            application_id: old.application_id,
            unused: old.unused,
            ..other.file.header
        };
        self.file.page_count = page_count;
        self.changes_mut()?.replace(pages)
    }

    /// The codec's own pages stay as this file has them.
    fn keep_own_pages(&self, pages: &mut [PageRef], page_size: u32) -> Result<(), Error> {
        for page in pages {
            let own = page.pgno != Pgno::FIRST && page.pgno.get() <= self.store.own_pages() + 1;
            if own && page_size != self.file.header.page_size {
                let what = "another page size for a sealed file";
                return Err(Error::Unsupported { what, path: self.store.path.clone() });
            }
            if own {
                page.bytes = self.page(page.pgno)?.into();
            }
        }
        Ok(())
    }
}

/// True when the page of the lock, without content, lies within a file.
fn is_past_lock(txn: &Transaction) -> bool {
    txn.file.page_count >= Pgno::lock_page(txn.file.header.page_size).get()
}
