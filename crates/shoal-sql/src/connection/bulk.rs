//! New tables filled with rows.

use super::{Connection, main_schema};
use crate::Error;
use crate::session::Session;
use crate::write::{self, BulkLoader, Edited, RowEdit};

impl Connection {
    /// Opens an empty table for being filled with rows in the order of their rowids, within the
    /// open transaction: the fastest way in. Indexes are made in the end.
    ///
    /// # Errors
    /// [`Error::Misuse`] outside a transaction; no such table; [`Error::Unsupported`] for a table
    /// with rows, checks, foreign keys, triggers, generated columns, STRICT types, AUTOINCREMENT or
    /// no rowids, and where hooks want to see rows; the store's when the transaction may not write.
    pub fn bulk_loader(&mut self, table: &str) -> Result<BulkLoader<'_>, Error> {
        self.begin_without_sql("a bulk loader needs an open transaction")?;
        self.refuse_temporary_triggers(table)?;
        let transaction = self.transaction.as_mut().expect("writing begins in a transaction");
        let session = self.environment.session(self.counts, &self.control, &self.store);
        if session.row_hooks().is_some() {
            let what = "filling a table beside a hook on rows".to_owned();
            return Err(Error::Unsupported { what, offset: None });
        }
        BulkLoader::new(main_schema(&self.schemas)?, transaction, session, table)
    }

    /// Makes changes of a table's rows known by their primary key together, within the open
    /// transaction. A change in conflict with its row, or for SQL alone to make, is left to the
    /// caller. `None` leaves all of them: for a table with checks, foreign keys, triggers or
    /// generated columns, for two changes of one row, and with hooks on rows.
    ///
    /// Triggers do not run where [`Connection::silence_triggers`] says so.
    ///
    /// Making the changes left, in their order, leads to the same rows as making all changes one by
    /// one.
    ///
    /// Cost: a descent for the changes of each leaf.
    ///
    /// # Errors
    /// [`Error::Misuse`] outside a transaction; the store's, after which the transaction has to be
    /// rolled back.
    pub fn edit_rows(
        &mut self,
        table: &str,
        edits: &[RowEdit<'_>],
    ) -> Result<Option<Edited>, Error> {
        self.begin_without_sql("changing rows needs an open transaction")?;
        let is_silent = self.silences_triggers;
        if !is_silent && self.refuse_temporary_triggers(table).is_err() {
            return Ok(None);
        }
        write::edit_rows(self.running_without_sql()?, (table, is_silent), edits)
    }
}
