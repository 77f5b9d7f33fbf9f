//! The writers of virtual tables in an open transaction.

use std::sync::Arc;

use shoal_store::Transaction;

use super::{Connected, TableWrites, VirtualWriter};
use crate::Error;
use crate::schema::{Schema, Snapshot};
use crate::session::Session;

/// The writers begun since the transaction began or the schema changed.
#[derive(Debug, Default)]
pub(crate) struct VirtualWriters(Vec<OpenWriter>);

#[derive(Debug)]
struct OpenWriter {
    database: usize,
    /// The writer's table.
    table: Arc<Connected>,
    writer: Box<dyn VirtualWriter>,
}

/// The surroundings of writers.
pub(crate) struct Parts<'a> {
    pub(crate) schema: &'a Schema,
    /// The database written to; writers of other databases are left alone.
    pub(crate) home: usize,
    pub(crate) main: Option<&'a Transaction>,
    pub(crate) attached: &'a [Option<Snapshot<'a>>],
    pub(crate) session: &'a dyn Session,
}

impl Parts<'_> {
    /// The writing end, with the transaction of the database.
    pub(crate) fn writes<'w>(&'w self, transaction: &'w mut Transaction) -> TableWrites<'w> {
        let (read, home) = ((self.main, self.attached), (self.schema, self.home));
        TableWrites::new(transaction, home, read, self.session)
    }
}

impl VirtualWriters {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets all writers.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The databases with writers.
    pub(crate) fn databases(&self) -> Vec<usize> {
        let mut databases: Vec<usize> = self.0.iter().map(|open| open.database).collect();
        databases.sort_unstable();
        databases.dedup();
        databases
    }

    /// The writer of a table, begun at first.
    ///
    /// # Errors
    /// A read-only table.
    pub(crate) fn of(&mut self, table: &Arc<Connected>) -> Result<&mut dyn VirtualWriter, Error> {
        let database = table.table.database;
        let is = |open: &OpenWriter| {
            open.database == database && open.table.table.name == table.table.name
        };
        let place = match self.0.iter().position(is) {
            Some(place) => place,
            None => {
                let writer = table.instance.writer()?;
                self.0.push(OpenWriter { database, table: Arc::clone(table), writer });
                self.0.len() - 1
            }
        };
        Ok(&mut *self.0[place].writer)
    }

    /// Flushes the database's writers.
    ///
    /// # Errors
    /// The first of theirs.
    pub(crate) fn flush(
        &mut self,
        parts: &Parts<'_>,
        transaction: &mut Transaction,
    ) -> Result<(), Error> {
        for open in self.0.iter_mut().filter(|open| open.database == parts.home) {
            open.writer.flush(&mut parts.writes(transaction))?;
        }
        Ok(())
    }

    /// The moment of each of the database's writers.
    ///
    /// # Errors
    /// The first of theirs.
    pub(crate) fn savepoint(
        &mut self,
        parts: &Parts<'_>,
        transaction: &mut Transaction,
    ) -> Result<Vec<usize>, Error> {
        let mut moments = Vec::with_capacity(self.0.len());
        for open in &mut self.0 {
            moments.push(match open.database == parts.home {
                true => open.writer.savepoint(&mut parts.writes(transaction))?,
                false => 0,
            });
        }
        Ok(moments)
    }

    /// Goes back to a moment in a database; writers begun since are forgotten.
    pub(crate) fn rollback_to(&mut self, home: Option<usize>, moments: &[usize]) {
        let mut place = 0;
        self.0.retain_mut(|open| {
            let moment = moments.get(place).copied();
            place += 1;
            if home.is_some_and(|home| home != open.database) {
                return true;
            }
            match moment {
                Some(moment) => {
                    open.writer.rollback_to(moment);
                    true
                }
                None => false,
            }
        });
    }

    /// Forgets a moment.
    pub(crate) fn release(&mut self, home: Option<usize>, moments: &[usize]) {
        for (open, moment) in self.0.iter_mut().zip(moments) {
            if home.is_none_or(|home| home == open.database) {
                open.writer.release(*moment);
            }
        }
    }
}
