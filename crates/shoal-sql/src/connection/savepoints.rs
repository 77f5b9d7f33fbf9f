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
    /// A moment of every database written since or before; databases only read have none to go
    /// back to.
    moments: Vec<(usize, Savepoint)>,
    outstanding: Outstanding,
    /// Moments of the keeper of kept tables and of the writers of virtual tables.
    kept: Moments,
}

/// Moments of the keeper of kept tables and of the writers of virtual tables.
pub(crate) type Moments = (usize, Vec<usize>);

impl Savepoints {
    /// Marks this moment in the databases being written, by their numbers.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn push<'t>(
        &mut self,
        name: &Name,
        writers: impl Iterator<Item = (usize, &'t mut Transaction)>,
        outstanding: Outstanding,
        kept: Moments,
    ) -> Result<(), Error> {
        let mut moments = Vec::new();
        for (database, transaction) in writers {
            moments.push((database, transaction.savepoint()?));
        }
        self.open.push(Named { name: name.text.clone(), moments, outstanding, kept });
        Ok(())
    }

    /// Notes the first write to a database: the moment of every savepoint so far.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn begin_writing(
        &mut self,
        database: usize,
        transaction: &mut Transaction,
    ) -> Result<(), Error> {
        for named in &mut self.open {
            if !named.moments.iter().any(|(known, _)| *known == database) {
                named.moments.push((database, transaction.savepoint()?));
            }
        }
        Ok(())
    }

    /// Forgets the savepoint called `name` and all after it; true at the end of the transaction.
    ///
    /// # Errors
    /// No such savepoint; the store's.
    pub(crate) fn release<'t>(
        &mut self,
        name: &Name,
        writers: impl Iterator<Item = (usize, &'t mut Transaction)>,
    ) -> Result<bool, Error> {
        let place = self.find(name)?;
        if place == 0 && self.began {
            return Ok(true);
        }
        let mut released = self.open.split_off(place);
        // Releasing the oldest of them releases the others with it.
        let mut moments = std::mem::take(&mut released[0].moments);
        for (database, transaction) in writers {
            if let Some(place) = moments.iter().position(|(known, _)| *known == database) {
                transaction.release(moments.swap_remove(place).1)?;
            }
        }
        Ok(false)
    }

    /// The keeper's moment of the savepoint called `name`.
    pub(crate) fn kept_of(&self, name: &Name) -> Option<Moments> {
        self.find(name).ok().map(|place| self.open[place].kept.clone())
    }

    /// Goes back to the savepoint called `name`, which stays open; gives the violations outstanding
    /// then, deferred as now, and the keeper's moment.
    ///
    /// # Errors
    /// No such savepoint; the store's.
    pub(crate) fn rollback_to<'t>(
        &mut self,
        name: &Name,
        writers: impl Iterator<Item = (usize, &'t mut Transaction)>,
        outstanding: Outstanding,
    ) -> Result<(Outstanding, Moments), Error> {
        let place = self.find(name)?;
        self.open.truncate(place + 1);
        let named = &self.open[place];
        for (database, transaction) in writers {
            if let Some((_, moment)) = named.moments.iter().find(|(known, _)| *known == database) {
                transaction.rollback_to(moment)?;
            }
        }
        Ok((outstanding.back_to(named.outstanding), named.kept.clone()))
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
