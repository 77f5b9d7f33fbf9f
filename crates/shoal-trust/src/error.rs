//! Errors of the ledger.

/// A refused operation on a ledger.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database has no ledger.
    #[error("the database has no ledger; shoal ledger new makes one")]
    NoLedger,
    /// The database has a ledger already.
    #[error("the database has a ledger already")]
    HasLedger,
    /// A row of the ledger's tables is none a ledger writes.
    #[error("ledger, entry {id}: {what}")]
    Corrupt {
        /// The entry's number in the file.
        id: i64,
        /// The fault.
        what: &'static str,
    },
    /// The two files' ledgers have different ids: nothing of one belongs into the other.
    #[error("the two databases have different ledgers")]
    OtherLedger,
    /// The signer has no chain in this ledger, or another key signs for the chain by now.
    #[error("{what}")]
    Signer {
        /// The reason, and the way on.
        what: &'static str,
    },
    /// A key file of the wrong length.
    #[error("a key is 32 bytes, as 64 hexadecimal digits")]
    Key,
    /// A bound of the ledger.
    #[error("{what}: more than {max}")]
    Limit {
        /// The bounded quantity.
        what: &'static str,
        /// The bound.
        max: u64,
    },
    /// The database refused.
    #[error(transparent)]
    Sql(#[from] shoal_sql::Error),
}
