//! The transactions read by a statement: one for each database it names.

use shoal_store::Transaction;

use crate::Error;
use crate::schema::{BESIDE, MAIN};

/// A transaction for reading rows.
#[derive(Debug)]
pub(crate) enum Snapshot<'c> {
    /// The result set's own; ends with the result set. Boxed, as result sets are moved about and a
    /// transaction is large.
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

/// Transactions of the databases beside `main`, by place; `None` for databases the statement does
/// not read.
pub(crate) type AttachedSnapshots<'c> = Vec<Option<Snapshot<'c>>>;

/// The transactions of all databases, borrowed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Txns<'t> {
    main: &'t Transaction,
    beside: &'t [Option<Snapshot<'t>>],
    /// The database being written, other than `main`, and its transaction.
    written: Option<(usize, &'t Transaction)>,
    /// Other databases written to by the same statement.
    others: &'t [(usize, Transaction)],
}

/// The transaction of a database among the ones that a statement writes in.
pub(crate) fn transaction_of(
    written: &[(usize, Transaction)],
    database: usize,
) -> Option<&Transaction> {
    written.iter().find(|(number, _)| *number == database).map(|(_, transaction)| transaction)
}

impl<'t> Txns<'t> {
    pub(crate) fn new(main: &'t Transaction, beside: &'t [Option<Snapshot<'t>>]) -> Txns<'t> {
        Txns { main, beside, written: None, others: &[] }
    }

    /// The same, with one database read in the transaction writing to it.
    pub(crate) fn with_written(self, database: usize, transaction: &'t Transaction) -> Txns<'t> {
        match database {
            MAIN => Txns { main: transaction, ..self },
            _ => Txns { written: Some((database, transaction)), ..self },
        }
    }

    /// The numbers of the states read, `main`'s first; `None` where one of them is being written.
    pub(crate) fn states(self) -> Option<Vec<Option<u64>>> {
        let state = |txn: &Transaction| (!txn.is_writer()).then(|| txn.state_id());
        if self.written.is_some() || !self.others.is_empty() {
            return None;
        }
        let mut states = vec![Some(state(self.main)?)];
        for beside in self.beside {
            states.push(match beside {
                Some(snapshot) => Some(state(snapshot.get())?),
                None => None,
            });
        }
        Some(states)
    }

    /// The same, with more databases read in the transactions writing to them.
    pub(crate) fn with_others(self, others: &'t [(usize, Transaction)]) -> Txns<'t> {
        Txns { main: transaction_of(others, MAIN).unwrap_or(self.main), others, ..self }
    }

    /// The transaction of a database.
    ///
    /// # Errors
    /// [`Error::Misuse`] when the statement declared no use of the database.
    #[inline]
    pub(crate) fn of(self, database: usize) -> Result<&'t Transaction, Error> {
        if database == MAIN {
            return Ok(self.main);
        }
        if let Some((written, transaction)) = self.written
            && written == database
        {
            return Ok(transaction);
        }
        if let Some(other) = transaction_of(self.others, database) {
            return Ok(other);
        }
        let snapshot = self.beside.get(database - BESIDE).and_then(Option::as_ref);
        snapshot
            .map(Snapshot::get)
            .ok_or(Error::Misuse { what: "a database was read outside a transaction" })
    }
}
