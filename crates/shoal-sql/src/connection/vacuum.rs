//! `VACUUM` and `VACUUM INTO`.

use std::path::Path;

use shoal_store::{AutoVacuum, FileHeader, Mode, Store, Transaction};

use super::Connection;
use super::attached;
use crate::Error;
use crate::exec::for_each_row;
use crate::plan::Program;
use crate::schema::{FileOf, MAIN, Schema, Txns};
use crate::value::Value;
use crate::write;

impl Connection {
    /// Copies `main` without its gaps: over itself, or into a file named by `into`.
    ///
    /// # Errors
    /// [`Error::Runtime`] within a transaction and for a file with content; the store's. The file
    /// is unchanged then.
    pub(super) fn vacuum(
        &mut self,
        into: Option<&Program>,
        parameters: &[Value],
    ) -> Result<(), Error> {
        if self.transaction.is_some() {
            return Err(Error::runtime("cannot VACUUM from within a transaction"));
        }
        self.control.begin();
        match into {
            None => self.vacuum_over(),
            Some(program) => {
                let path = self.file_to_vacuum_into(program, parameters)?;
                self.vacuum_into(Path::new(&path))
            }
        }
    }

    fn vacuum_over(&mut self) -> Result<(), Error> {
        let mut transaction = self.store.begin(Mode::Write)?;
        if transaction.page_count() == 0 {
            return Ok(());
        }
        let old = *transaction.header();
        // Pages of a log are of one size, and a database in memory keeps its own.
        let keeps_size = old.is_wal() || self.store.path() == Path::new(":memory:");
        let asked = self.store.settings().new_file.page_size.filter(|_| !keeps_size);
        let page_size = asked.unwrap_or(old.page_size);
        let auto_vacuum = self.store.settings().new_file.auto_vacuum;
        let auto_vacuum = auto_vacuum.unwrap_or(AutoVacuum::of(&old));
        let header = FileHeader {
            page_size,
            largest_root: u32::from(auto_vacuum != AutoVacuum::None),
            incremental_vacuum: u32::from(auto_vacuum == AutoVacuum::Incremental),
            ..old
        };
        let store = self.store.memory_like(&header);
        let mut copy = store.begin(Mode::Write)?;
        let file = FileOf { txn: &transaction, store: &self.store, database: MAIN };
        write::vacuum::copy(&Schema::load(&file)?, &transaction, &mut copy, false)?;
        transaction.replace_by(copy)?;
        self.schemas.forget();
        self.end(MAIN, transaction)
    }

    fn vacuum_into(&mut self, path: &Path) -> Result<(), Error> {
        let transaction = attached::begin(&self.store, &self.control.watch)?;
        let unable = |_| Error::runtime(format!("unable to open database: {}", path.display()));
        let store = self.store.open_copy(path).map_err(unable)?;
        let mut settings = store.settings();
        let header = transaction.header();
        let asked = self.store.settings().new_file.page_size;
        settings.synchronous = self.store.settings().synchronous;
        settings.new_file.page_size = Some(asked.unwrap_or(header.page_size));
        settings.new_file.reserved = header.reserved;
        settings.new_file.text_encoding = header.text_encoding;
        let auto_vacuum = self.store.settings().new_file.auto_vacuum;
        settings.new_file.auto_vacuum = Some(auto_vacuum.unwrap_or(AutoVacuum::of(header)));
        store.set_settings(settings);
        let mut copy = store.begin(Mode::Write)?;
        if copy.page_count() > 0 {
            return Err(Error::runtime("output file already exists"));
        }
        let file = FileOf { txn: &transaction, store: &self.store, database: MAIN };
        write::vacuum::copy(&Schema::load(&file)?, &transaction, &mut copy, true)?;
        copy.commit()?;
        Ok(())
    }

    /// Copies `main` into an empty database of any codec, in one transaction. Nobody else writes to
    /// `main` as long as the transaction returned is open, which is that of the copied state: time
    /// enough to put the copy in the place of the file.
    ///
    /// # Errors
    /// [`Error::Runtime`] for a target with content; the stores'.
    pub fn copy_into(&mut self, target: &Store) -> Result<Transaction, Error> {
        let transaction = self.store.begin(Mode::Write)?;
        let header = transaction.header();
        let mut settings = target.settings();
        settings.new_file.page_size = Some(header.page_size);
        settings.new_file.text_encoding = header.text_encoding;
        settings.new_file.auto_vacuum =
            Some(AutoVacuum::of(header)).filter(|_| target.codec().is_none());
        target.set_settings(settings);
        let mut copy = target.begin(Mode::Write)?;
        if copy.page_count() > 0 {
            return Err(Error::runtime("output file already exists"));
        }
        let file = FileOf { txn: &transaction, store: &self.store, database: MAIN };
        write::vacuum::copy(&Schema::load(&file)?, &transaction, &mut copy, true)?;
        copy.commit()?;
        Ok(transaction)
    }

    /// The value of the expression behind `INTO`.
    fn file_to_vacuum_into(
        &mut self,
        program: &Program,
        parameters: &[Value],
    ) -> Result<String, Error> {
        let session = self.environment.session(self.counts, &self.control, &self.store);
        let main = attached::begin(&self.store, &self.control.watch)?;
        let mut path = None;
        for_each_row(program, (Txns::new(&main, &[]), None), &session, parameters, |row| {
            if let Some(Value::Text(text)) = row.first() {
                path = Some(String::from_utf8_lossy(text).into_owned());
            }
            Ok(())
        })?;
        path.ok_or_else(|| Error::runtime("non-text filename"))
    }
}
