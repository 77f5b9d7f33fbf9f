//! SQLite's numbers for errors: the ones its programs look at.

use std::fmt;

use shoal_store::vfs::VfsError;

use crate::Error;
use crate::error::ConstraintKind;

/// An extended result code of SQLite, such as 2067, `SQLITE_CONSTRAINT_UNIQUE`. Displayed by its
/// name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ResultCode(u16);

/// Numbers and names of the codes that errors of this crate have.
const NAMES: [(ResultCode, &str); 26] = [
    (ResultCode::ERROR, "SQLITE_ERROR"),
    (ResultCode::BUSY, "SQLITE_BUSY"),
    (ResultCode::READONLY, "SQLITE_READONLY"),
    (ResultCode::READONLY_ROLLBACK, "SQLITE_READONLY_ROLLBACK"),
    (ResultCode::INTERRUPT, "SQLITE_INTERRUPT"),
    (ResultCode::IOERR, "SQLITE_IOERR"),
    (ResultCode::CORRUPT, "SQLITE_CORRUPT"),
    (ResultCode::CORRUPT_VTAB, "SQLITE_CORRUPT_VTAB"),
    (ResultCode::FULL, "SQLITE_FULL"),
    (ResultCode::CANTOPEN, "SQLITE_CANTOPEN"),
    (ResultCode::CANTOPEN_ISDIR, "SQLITE_CANTOPEN_ISDIR"),
    (ResultCode::TOOBIG, "SQLITE_TOOBIG"),
    (ResultCode::CONSTRAINT, "SQLITE_CONSTRAINT"),
    (ResultCode::CONSTRAINT_CHECK, "SQLITE_CONSTRAINT_CHECK"),
    (ResultCode::CONSTRAINT_COMMITHOOK, "SQLITE_CONSTRAINT_COMMITHOOK"),
    (ResultCode::CONSTRAINT_FOREIGNKEY, "SQLITE_CONSTRAINT_FOREIGNKEY"),
    (ResultCode::CONSTRAINT_NOTNULL, "SQLITE_CONSTRAINT_NOTNULL"),
    (ResultCode::CONSTRAINT_PRIMARYKEY, "SQLITE_CONSTRAINT_PRIMARYKEY"),
    (ResultCode::CONSTRAINT_TRIGGER, "SQLITE_CONSTRAINT_TRIGGER"),
    (ResultCode::CONSTRAINT_UNIQUE, "SQLITE_CONSTRAINT_UNIQUE"),
    (ResultCode::CONSTRAINT_ROWID, "SQLITE_CONSTRAINT_ROWID"),
    (ResultCode::CONSTRAINT_DATATYPE, "SQLITE_CONSTRAINT_DATATYPE"),
    (ResultCode::MISMATCH, "SQLITE_MISMATCH"),
    (ResultCode::MISUSE, "SQLITE_MISUSE"),
    (ResultCode::AUTH, "SQLITE_AUTH"),
    (ResultCode::NOTADB, "SQLITE_NOTADB"),
];

#[allow(missing_docs)]
impl ResultCode {
    pub const ERROR: ResultCode = ResultCode(1);
    pub const BUSY: ResultCode = ResultCode(5);
    pub const READONLY: ResultCode = ResultCode(8);
    pub const READONLY_ROLLBACK: ResultCode = ResultCode(776);
    pub const INTERRUPT: ResultCode = ResultCode(9);
    pub const IOERR: ResultCode = ResultCode(10);
    pub const CORRUPT: ResultCode = ResultCode(11);
    pub const CORRUPT_VTAB: ResultCode = ResultCode(267);
    pub const FULL: ResultCode = ResultCode(13);
    pub const CANTOPEN: ResultCode = ResultCode(14);
    pub const CANTOPEN_ISDIR: ResultCode = ResultCode(526);
    pub const TOOBIG: ResultCode = ResultCode(18);
    pub const CONSTRAINT: ResultCode = ResultCode(19);
    pub const CONSTRAINT_CHECK: ResultCode = ResultCode(275);
    pub const CONSTRAINT_COMMITHOOK: ResultCode = ResultCode(531);
    pub const CONSTRAINT_FOREIGNKEY: ResultCode = ResultCode(787);
    pub const CONSTRAINT_NOTNULL: ResultCode = ResultCode(1299);
    pub const CONSTRAINT_PRIMARYKEY: ResultCode = ResultCode(1555);
    pub const CONSTRAINT_TRIGGER: ResultCode = ResultCode(1811);
    pub const CONSTRAINT_UNIQUE: ResultCode = ResultCode(2067);
    pub const CONSTRAINT_ROWID: ResultCode = ResultCode(2579);
    pub const CONSTRAINT_DATATYPE: ResultCode = ResultCode(3091);
    pub const MISMATCH: ResultCode = ResultCode(20);
    pub const MISUSE: ResultCode = ResultCode(21);
    pub const AUTH: ResultCode = ResultCode(23);
    pub const NOTADB: ResultCode = ResultCode(26);
}

impl ResultCode {
    /// The number, as `sqlite3_extended_errcode` gives it.
    pub fn extended(self) -> u16 {
        self.0
    }

    /// The number without its extension: 19 for every failed constraint.
    pub fn primary(self) -> u16 {
        self.0 & 0xff
    }

    /// The name, as SQLite's documentation lists it.
    pub fn name(self) -> &'static str {
        let found = NAMES.iter().find(|(code, _)| *code == self);
        found.map_or("SQLITE_ERROR", |(_, name)| name)
    }
}

impl fmt::Display for ResultCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Error {
    /// SQLite's extended code of the error: the one that `sqlite3` has for the same mistake.
    pub fn result_code(&self) -> ResultCode {
        match self {
            Error::Constraint { constraint, .. } => match constraint {
                ConstraintKind::Unique => ResultCode::CONSTRAINT_UNIQUE,
                ConstraintKind::PrimaryKey => ResultCode::CONSTRAINT_PRIMARYKEY,
                ConstraintKind::Rowid => ResultCode::CONSTRAINT_ROWID,
                ConstraintKind::NotNull => ResultCode::CONSTRAINT_NOTNULL,
                ConstraintKind::Check => ResultCode::CONSTRAINT_CHECK,
                ConstraintKind::ForeignKey => ResultCode::CONSTRAINT_FOREIGNKEY,
                ConstraintKind::Virtual(_) => ResultCode::CONSTRAINT,
            },
            Error::CorruptVirtual { .. } => ResultCode::CORRUPT_VTAB,
            Error::Datatype { .. } => ResultCode::CONSTRAINT_DATATYPE,
            Error::CommitRefused => ResultCode::CONSTRAINT_COMMITHOOK,
            Error::Raised { .. } => ResultCode::CONSTRAINT_TRIGGER,
            Error::Denied { .. } => ResultCode::AUTH,
            Error::Schema { .. } => ResultCode::CORRUPT,
            Error::Misuse { .. } => ResultCode::MISUSE,
            Error::Interrupted => ResultCode::INTERRUPT,
            Error::Store(error) => of_store(error),
            Error::Runtime { message } => of_message(message),
            _ => ResultCode::ERROR,
        }
    }
}

/// The sentences of SQLite that stand for a code of their own.
fn of_message(message: &str) -> ResultCode {
    match message {
        "datatype mismatch" => ResultCode::MISMATCH,
        "string or blob too big" => ResultCode::TOOBIG,
        "database or disk is full" => ResultCode::FULL,
        "database disk image is malformed" => ResultCode::CORRUPT,
        "constraint failed" => ResultCode::CONSTRAINT,
        _ => ResultCode::ERROR,
    }
}

fn of_store(error: &shoal_store::Error) -> ResultCode {
    match error {
        shoal_store::Error::Corrupt(_) => ResultCode::CORRUPT,
        shoal_store::Error::NotADatabase { .. } => ResultCode::NOTADB,
        shoal_store::Error::Vfs(VfsError::NoSpace { .. }) => ResultCode::FULL,
        shoal_store::Error::Vfs(VfsError::IsDirectory { .. }) => ResultCode::CANTOPEN_ISDIR,
        shoal_store::Error::Vfs(VfsError::Io { .. }) => ResultCode::IOERR,
        shoal_store::Error::Vfs(_) | shoal_store::Error::Exists { .. } => ResultCode::CANTOPEN,
        shoal_store::Error::Busy { .. } => ResultCode::BUSY,
        shoal_store::Error::ReadOnly { .. } => ResultCode::READONLY,
        shoal_store::Error::HotJournal { .. } => ResultCode::READONLY_ROLLBACK,
        shoal_store::Error::Latched { .. } | shoal_store::Error::InDoubt { .. } => {
            ResultCode::IOERR
        }
        shoal_store::Error::Interrupted | shoal_store::Error::TimedOut { .. } => {
            ResultCode::INTERRUPT
        }
        shoal_store::Error::Limit { .. } => ResultCode::FULL,
        shoal_store::Error::Misuse(_) => ResultCode::MISUSE,
        _ => ResultCode::ERROR,
    }
}
