//! The transactions that a statement reads in: one for each database it names.

use shoal_store::Transaction;

use crate::Error;
use crate::schema::{FIRST_ATTACHED, MAIN};

/// A transaction that rows are read in.
#[derive(Debug)]
pub(crate) enum Snapshot<'c> {
    /// The result set's own, which ends with it.
    /// In a place of its own: result sets are moved about, and it is large.
    Own(Box<Transaction>),
    /// The connection's open transaction.
    Shared(&'c Transaction),
}

impl Snapshot<'_> {
    #[inline]
    pub(crate) fn get(&self) -> &Transaction {
        match self {
            Snapshot::Own(transaction) => transaction,
            Snapshot::Shared(transaction) => transaction,
        }
    }
}

/// Those of the databases that were attached, by place; `None` for what the statement does not
/// read.
pub(crate) type AttachedSnapshots<'c> = Vec<Option<Snapshot<'c>>>;

/// The transactions of all databases, borrowed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Txns<'t> {
    main: &'t Transaction,
    attached: &'t [Option<Snapshot<'t>>],
}

impl<'t> Txns<'t> {
    pub(crate) fn new(main: &'t Transaction, attached: &'t [Option<Snapshot<'t>>]) -> Txns<'t> {
        Txns { main, attached }
    }

    /// The transaction of a database.
    ///
    /// # Errors
    /// [`Error::Misuse`] when the statement said that it does not read it.
    #[inline]
    pub(crate) fn of(self, database: usize) -> Result<&'t Transaction, Error> {
        if database == MAIN {
            return Ok(self.main);
        }
        let place = database.checked_sub(FIRST_ATTACHED);
        let snapshot = place.and_then(|place| self.attached.get(place)?.as_ref());
        snapshot
            .map(Snapshot::get)
            .ok_or(Error::Misuse { what: "a database was read outside a transaction" })
    }
}
