//! `SAVEPOINT`, `RELEASE` and `ROLLBACK TO`: named moments of a transaction.

use shoal_store::{Savepoint, Transaction};

use crate::Error;
use crate::error::NameKind;
use crate::parse::ast::Name;
use crate::write::references::Outstanding;

/// The open savepoints of a transaction, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Savepoints {
    open: Vec<Named>,
    /// Whether the first of them began the transaction, and so ends it.
    pub(crate) began: bool,
}

#[derive(Debug)]
struct Named {
    name: String,
    /// `None` while the transaction only reads: there is nothing to go back to yet.
    moment: Option<Savepoint>,
    outstanding: Outstanding,
}

impl Savepoints {
    /// Marks this moment.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn push(
        &mut self,
        name: &Name,
        transaction: &mut Transaction,
        outstanding: Outstanding,
    ) -> Result<(), Error> {
        let moment = if transaction.is_writer() { Some(transaction.savepoint()?) } else { None };
        self.open.push(Named { name: name.text.clone(), moment, outstanding });
        Ok(())
    }

    /// Notes that the transaction begins to write: for every savepoint so far, this is the moment.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn begin_writing(&mut self, transaction: &mut Transaction) -> Result<(), Error> {
        for named in &mut self.open {
            if named.moment.is_none() {
                named.moment = Some(transaction.savepoint()?);
            }
        }
        Ok(())
    }

    /// Forgets the savepoint of that name and all after it; true when that ends the transaction.
    ///
    /// # Errors
    /// No such savepoint; the store's.
    pub(crate) fn release(
        &mut self,
        name: &Name,
        transaction: &mut Transaction,
    ) -> Result<bool, Error> {
        let place = self.find(name)?;
        if place == 0 && self.began {
            return Ok(true);
        }
        let mut released = self.open.split_off(place).into_iter();
        // Releasing the oldest of them releases the others with it.
        if let Some(moment) = released.next().and_then(|named| named.moment) {
            transaction.release(moment)?;
        }
        Ok(false)
    }

    /// Goes back to the savepoint called `name`, which stays open; gives the violations outstanding
    /// then, deferred as now.
    ///
    /// # Errors
    /// No such savepoint; the store's.
    pub(crate) fn rollback_to(
        &mut self,
        name: &Name,
        transaction: &mut Transaction,
        outstanding: Outstanding,
    ) -> Result<Outstanding, Error> {
        let place = self.find(name)?;
        self.open.truncate(place + 1);
        if let Some(moment) = &self.open[place].moment {
            transaction.rollback_to(moment)?;
        }
        Ok(outstanding.back_to(self.open[place].outstanding))
    }

    /// The newest savepoint of that name.
    ///
    /// # Errors
    /// `no such savepoint`.
    pub(crate) fn find(&self, name: &Name) -> Result<usize, Error> {
        self.open
            .iter()
            .rposition(|named| name.is(&named.name))
            .ok_or_else(|| Error::no_such(NameKind::Savepoint, &name.text, name.offset))
    }
}
